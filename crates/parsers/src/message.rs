//! When a message was on the wire.

use wire::Timestamp;

/// First and last byte of a message by the arrival of the segments that carried them. Segments may arrive out of
/// order, so the last time is the latest of all: the moment from which the whole message could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Arrival of the first byte.
    pub first: Timestamp,
    /// Arrival of the byte that completed the message.
    pub last: Timestamp,
}

impl Span {
    /// A message that begins at `ts`.
    #[must_use]
    pub fn at(ts: Timestamp) -> Span {
        Span { first: ts, last: ts }
    }

    /// More bytes of the message, arrived at `ts`.
    pub fn extend(&mut self, ts: Timestamp) {
        self.last = self.last.max(ts);
    }
}

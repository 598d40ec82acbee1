//! Bytes as a parser gets them, and when a message was on the wire.

use flow::Place;
use wire::{TcpSeq, Timestamp};

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

/// Bytes of one direction's stream: when they came, and where they belong in what both sides say.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// Arrival of the packet that carried them.
    pub ts: Timestamp,
    /// Of the first of them.
    pub place: Place,
}

impl<'a> Segment<'a> {
    /// What is behind the first `n` bytes.
    #[inline]
    #[must_use]
    pub fn behind(self, n: usize) -> Segment<'a> {
        let place = Place { seq: self.place.seq.plus(n as u32), ..self.place };
        Segment { bytes: &self.bytes[n..], place, ..self }
    }

    /// The first `n` bytes.
    #[inline]
    #[must_use]
    pub fn first(self, n: usize) -> Segment<'a> {
        Segment { bytes: &self.bytes[..n], ..self }
    }

    /// Sequence number of the byte behind them.
    #[inline]
    #[must_use]
    pub fn end(self) -> TcpSeq {
        self.place.seq.plus(self.bytes.len() as u32)
    }
}

/// Bytes of one direction's stream that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Of the first of them.
    pub seq: TcpSeq,
    /// How many.
    pub len: u64,
    /// When it showed that they are missing; of bytes that the snaplen cut off, arrival of their packet.
    pub ts: Timestamp,
}

impl Gap {
    /// Sequence number behind the first `n` of them.
    #[must_use]
    pub fn after(self, n: u64) -> TcpSeq {
        self.seq.plus(n as u32)
    }
}

//! Position of one direction in its byte stream.

use flow::Place;
use wire::Timestamp;

use crate::resync::Resync;
use crate::{Output, Segment, Span};

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// The start of a line or a header.
    #[default]
    Between,
    /// A line or header that is partly held.
    Head,
    /// A line beyond the length that is read.
    LongHead,
    /// A value with this many bytes left.
    Value(u64),
    /// Unknown.
    Lost,
    /// Nothing that is parsed.
    Over,
}

/// One direction.
#[derive(Debug, Default)]
pub struct Lane {
    pub state: State,
    /// Held bytes of a head, with their time and position.
    pub head: Vec<u8>,
    pub span: Option<Span>,
    pub place: Place,
    pub resync: Resync,
    /// The next message was found by a search, after missing bytes.
    pub found: bool,
}

impl Lane {
    /// Holds bytes of a head, up to `limit` in total.
    #[cold]
    pub fn hold(&mut self, segment: Segment<'_>, limit: usize, out: &mut Output<'_>) {
        let Segment { bytes, ts, place } = segment;
        if self.state == State::Between {
            (self.state, self.place) = (State::Head, place);
        }
        self.span.get_or_insert(Span::at(ts)).extend(ts);
        let n = bytes.len().min(limit.saturating_sub(self.head.len()));
        self.head.extend_from_slice(&bytes[..n]);
        if n < bytes.len() && self.state == State::Head {
            self.state = State::LongHead;
            out.counters.oversized_heads += 1;
        }
    }

    /// Takes the complete head; the buffer is returned with [`Lane::give_back`]. `ts` is the arrival of its
    /// last byte.
    #[cold]
    pub fn take(&mut self, ts: Timestamp) -> (Vec<u8>, Span) {
        self.state = State::Between;
        (std::mem::take(&mut self.head), self.span.take().unwrap_or(Span::at(ts)))
    }

    /// Takes the buffer back.
    pub fn give_back(&mut self, mut head: Vec<u8>) {
        head.clear();
        self.head = head;
    }

    /// Enters the state in which the start of the next message is unknown.
    pub fn lose(&mut self, out: &mut Output<'_>) {
        out.counters.resyncs += u64::from(self.state != State::Lost);
        out.counters.skipped_bytes += self.head.len() as u64;
        self.head.clear();
        self.span = None;
        self.resync.start_anew(out);
        self.state = State::Lost;
    }
}

//! Where one direction of a connection stands in its byte stream.

use flow::Place;
use wire::Timestamp;

use crate::resync::Resync;
use crate::{Output, Segment, Span};

/// What the next byte is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// It begins a line or a header.
    #[default]
    Between,
    /// A line or header of which the beginning is held.
    Head,
    /// A line that is longer than anybody reads.
    LongHead,
    /// A value with this many bytes left.
    Value(u64),
    /// Not known.
    Lost,
    /// Nothing that is read.
    Over,
}

/// One direction.
#[derive(Debug, Default)]
pub struct Lane {
    pub state: State,
    /// What is held of a head, and when and where its bytes were.
    pub head: Vec<u8>,
    pub span: Option<Span>,
    pub place: Place,
    pub resync: Resync,
    /// The next message was looked for, behind missing bytes.
    pub found: bool,
}

impl Lane {
    /// Holds bytes of a head, up to `limit` in all.
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

    /// Takes out the head that is complete, to be given back with [`Lane::give_back`]; `ts`: when its last byte came.
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

    /// Where the next message begins is not known any more.
    pub fn lose(&mut self, out: &mut Output<'_>) {
        out.counters.resyncs += u64::from(self.state != State::Lost);
        out.counters.skipped_bytes += self.head.len() as u64;
        self.head.clear();
        self.span = None;
        self.resync.start_anew(out);
        self.state = State::Lost;
    }
}

//! Position of one direction in its byte stream.

use flow::StreamPlace;
use wire::Timestamp;

use crate::resync::ResyncSearch;
use crate::{MessageSpan, ParserOutput, StreamSegment};

/// Part to which the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedStreamState {
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
pub struct MemcachedByteStream {
    pub state: MemcachedStreamState,
    /// Held bytes of a head, with their time and position.
    pub head: Vec<u8>,
    pub span: Option<MessageSpan>,
    pub place: StreamPlace,
    pub resync: ResyncSearch,
    /// The next message was found by a search, after missing bytes.
    pub found: bool,
}

impl MemcachedByteStream {
    /// Holds bytes of a head, up to `limit` in total.
    #[cold]
    pub fn hold(&mut self, segment: StreamSegment<'_>, limit: usize, out: &mut ParserOutput<'_>) {
        let StreamSegment { bytes, ts, place } = segment;
        if self.state == MemcachedStreamState::Between {
            self.state = MemcachedStreamState::Head;
            self.place = place;
        }
        self.span.get_or_insert(MessageSpan::at(ts)).extend(ts);
        let n = bytes.len().min(limit.saturating_sub(self.head.len()));
        self.head.extend_from_slice(&bytes[..n]);
        if n < bytes.len() && self.state == MemcachedStreamState::Head {
            self.state = MemcachedStreamState::LongHead;
            out.counters.oversized_heads += 1;
        }
    }

    /// Takes the complete head; the buffer is returned with [`MemcachedByteStream::give_back`]. `ts` is the arrival of its
    /// last byte.
    #[cold]
    pub fn take(&mut self, ts: Timestamp) -> (Vec<u8>, MessageSpan) {
        self.state = MemcachedStreamState::Between;
        (
            std::mem::take(&mut self.head),
            self.span.take().unwrap_or(MessageSpan::at(ts)),
        )
    }

    /// Takes the buffer back.
    pub fn give_back(&mut self, mut head: Vec<u8>) {
        head.clear();
        self.head = head;
    }

    /// Enters the state in which the start of the next message is unknown.
    pub fn lose(&mut self, out: &mut ParserOutput<'_>) {
        out.counters.resyncs += u64::from(self.state != MemcachedStreamState::Lost);
        out.counters.skipped_bytes += self.head.len() as u64;
        self.head.clear();
        self.span = None;
        self.resync.start_anew(out);
        self.state = MemcachedStreamState::Lost;
    }
}

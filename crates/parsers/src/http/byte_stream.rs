//! One direction of an HTTP/1 connection: its position in the byte stream, and a partly received head.
//!
//! Finds heads, in order or after losses, and their length. The contents of heads and the fate of messages
//! are handled by the connection. Holds at most [`HEAD_BYTES_MAX`] bytes and the parts of longer heads that
//! [`HttpHeadTail`] keeps; no memory while heads arrive in one segment.

use flow::StreamPlace;
use memchr::memchr;

use super::body::HttpBody;
use super::head;
use super::head_tail::{HeadLineKind, HttpHeadTail, HttpHeadTruncation};
use wire::Timestamp;

use crate::resync::ResyncSearch;
use crate::{Direction, MessageSpan};

/// Maximum head length kept in full; of a longer one, only the fields that determine the end of the message
/// are kept.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes copied before they are parsed again.
const COPY_BYTES: usize = 2048;
/// Memory kept for the next head.
const KEPT_BYTES: usize = 4096;

/// Position in a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpStreamState {
    /// Between messages.
    Between,
    /// In a partly received head.
    Head,
    /// In a body.
    Body(HttpBody),
    /// Unknown: searching for the next head.
    Lost,
    /// In another protocol.
    Over,
}

/// One direction. One cache line, in `repr(C)` order.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct HttpByteStream {
    pub state: HttpStreamState,
    /// The message in progress.
    pub message: HttpMessageExtent,
    collector: Option<Box<HttpHeadCollector>>,
    direction: Direction,
}

const _: () = assert!(
    size_of::<HttpByteStream>() == 64,
    "every segment touches a lane"
);

/// Progress of a message after its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpMessageExtent {
    /// Arrival of its last byte so far.
    pub last: Timestamp,
    pub body_bytes: u64,
    /// Bytes of its body are missing.
    pub gap: bool,
    /// The last bytes so far are missing and were sent after `last`.
    pub last_lost: bool,
    /// The end of its body is unknown.
    pub end_lost: bool,
}

/// A partly received head, or the search for one.
#[derive(Debug)]
struct HttpHeadCollector {
    direction: Direction,
    span: MessageSpan,
    /// Position of its start.
    place: StreamPlace,
    found: bool,
    resync: ResyncSearch,
    bytes: Vec<u8>,
    line_start: usize,
    scanned: usize,
    /// Bytes of the head so far.
    len: u32,
    /// The part beyond the limit.
    tail: Option<Box<HttpHeadTail>>,
}

/// A collected head, as returned by [`HttpByteStream::take`].
pub struct CollectedHead {
    pub bytes: Vec<u8>,
    pub span: MessageSpan,
    /// Position of its start.
    pub place: StreamPlace,
    /// The head was found by a search.
    pub found: bool,
    /// Length in bytes.
    pub len: u32,
    /// Parts that are not in `bytes`.
    pub cut: HttpHeadTruncation,
}

/// Result of adding bytes to a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadCollectStatus {
    /// The head is incomplete.
    More,
    /// The head is complete.
    Complete,
    /// Not a head; the collected bytes have been dropped.
    NoHead,
}

/// Result of scanning a piece; its last `unused` bytes are not part of the head.
enum HeadScanResult {
    More,
    Complete { unused: usize },
    NoHead { unused: usize },
}

impl HttpMessageExtent {
    /// A message whose head was complete at `ts`.
    pub fn at(ts: Timestamp) -> HttpMessageExtent {
        HttpMessageExtent {
            last: ts,
            body_bytes: 0,
            gap: false,
            last_lost: false,
            end_lost: false,
        }
    }

    /// Adds bytes of the message.
    #[inline]
    pub fn extend(&mut self, body_bytes: u64, ts: Timestamp) {
        self.last = self.last.max(ts);
        self.body_bytes = self.body_bytes.saturating_add(body_bytes);
        self.last_lost = false;
    }

    /// Arrival of its last byte, if that was seen.
    #[inline]
    pub fn end(&self) -> Option<Timestamp> {
        (!self.end_lost && !self.last_lost).then_some(self.last)
    }
}

impl HttpByteStream {
    pub fn new(direction: Direction) -> HttpByteStream {
        let message = HttpMessageExtent::at(Timestamp::MIN);
        HttpByteStream {
            state: HttpStreamState::Between,
            message,
            direction,
            collector: None,
        }
    }

    /// Begins to collect a head; `found`: it was found by a search.
    #[cold]
    pub fn start_head(&mut self, ts: Timestamp, place: StreamPlace, found: bool) {
        self.state = HttpStreamState::Head;
        let collector = self.collector();
        collector.clear();
        collector.found = found;
        collector.span = MessageSpan::at(ts);
        collector.place = place;
    }

    /// Whether the current head was found by a search.
    pub fn found(&self) -> bool {
        self.collector.as_ref().is_some_and(|c| c.found)
    }

    /// Discards the head.
    pub fn clear(&mut self) {
        if let Some(collector) = &mut self.collector {
            collector.clear();
        }
    }

    /// Returns the head with its metadata; the buffer is returned by [`HttpByteStream::give_back`].
    pub fn take(&mut self) -> CollectedHead {
        let collector = self.collector();
        let &mut HttpHeadCollector {
            span,
            place,
            found,
            len,
            ..
        } = collector;
        let cut = collector
            .tail
            .as_ref()
            .map(|tail| tail.cut())
            .unwrap_or_default();
        CollectedHead {
            bytes: std::mem::take(&mut collector.bytes),
            span,
            place,
            found,
            len,
            cut,
        }
    }

    /// Takes back the buffer of [`HttpByteStream::take`] for reuse.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        let collector = self.collector();
        collector.bytes = bytes;
        collector.clear();
    }

    /// Undoes [`HttpByteStream::take`].
    pub fn resume(&mut self, bytes: Vec<u8>) {
        self.collector().bytes = bytes;
    }

    /// Adds bytes to the head, up to its end. Returns the number consumed.
    pub fn collect(&mut self, bytes: &[u8], ts: Timestamp) -> (usize, HeadCollectStatus) {
        self.collector().collect(bytes, ts)
    }

    /// Whether the last line of the head has no bytes yet.
    pub fn at_line_start(&self) -> bool {
        self.collector
            .as_ref()
            .is_none_or(|c| c.line_start == c.bytes.len() && c.tail.is_none())
    }

    /// The search for the next head.
    pub fn resync(&mut self) -> &mut ResyncSearch {
        &mut self.collector().resync
    }

    fn collector(&mut self) -> &mut HttpHeadCollector {
        let direction = self.direction;
        self.collector.get_or_insert_with(|| {
            Box::new(HttpHeadCollector {
                direction,
                span: MessageSpan::at(Timestamp::MIN),
                place: StreamPlace::default(),
                found: false,
                resync: ResyncSearch::default(),
                bytes: Vec::new(),
                line_start: 0,
                scanned: 0,
                len: 0,
                tail: None,
            })
        })
    }
}

impl HttpHeadCollector {
    fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        self.line_start = 0;
        self.scanned = 0;
        self.found = false;
        self.len = 0;
        self.tail = None;
    }

    fn collect(&mut self, bytes: &[u8], ts: Timestamp) -> (usize, HeadCollectStatus) {
        self.span.extend(ts);
        let (used, what) = self.add(bytes);
        self.len = self.len.wrapping_add(used as u32);
        if what == HeadCollectStatus::NoHead {
            self.clear();
        }
        (used, what)
    }

    fn add(&mut self, bytes: &[u8]) -> (usize, HeadCollectStatus) {
        let mut used = 0;
        while used < bytes.len() {
            let room = HEAD_BYTES_MAX.saturating_sub(self.bytes.len());
            if room == 0 || self.tail.is_some() {
                let (more, what) = self.add_to_tail(&bytes[used..]);
                return (used + more, what);
            }
            let piece = &bytes[used..bytes.len().min(used + COPY_BYTES.min(room))];
            self.bytes.extend_from_slice(piece);
            match self.scan() {
                HeadScanResult::More => used += piece.len(),
                HeadScanResult::Complete { unused } => {
                    return (used + piece.len() - unused, HeadCollectStatus::Complete);
                }
                HeadScanResult::NoHead { unused } => {
                    return (used + piece.len() - unused, HeadCollectStatus::NoHead);
                }
            }
        }
        (used, HeadCollectStatus::More)
    }

    /// Adds bytes beyond the limit, line by line.
    #[cold]
    fn add_to_tail(&mut self, bytes: &[u8]) -> (usize, HeadCollectStatus) {
        let HttpHeadCollector {
            tail,
            line_start,
            direction,
            bytes: kept,
            ..
        } = self;
        let tail = tail
            .get_or_insert_with(|| Box::new(HttpHeadTail::begin(*direction, kept, *line_start)));
        let mut used = 0;
        while let Some(nl) = memchr(b'\n', &bytes[used..]) {
            tail.add(&bytes[used..used + nl]);
            used += nl + 1;
            match tail.end_line(kept) {
                Some(HeadLineKind::Start) if !is_start_line(*direction, head::first_line(kept)) => {
                    return (used, HeadCollectStatus::NoHead);
                }
                Some(HeadLineKind::Last) => return (used, HeadCollectStatus::Complete),
                _ => {}
            }
        }
        tail.add(&bytes[used..]);
        (bytes.len(), HeadCollectStatus::More)
    }

    /// Scans new bytes up to the end of the head and truncates the buffer there.
    fn scan(&mut self) -> HeadScanResult {
        while let Some(nl) = memchr(b'\n', &self.bytes[self.scanned..]) {
            let end = self.scanned + nl;
            let unused = self.bytes.len() - (end + 1);
            self.scanned = end + 1;
            let line = head::without_cr(&self.bytes[self.line_start..end]);
            if self.line_start == 0 {
                if !is_start_line(self.direction, line) {
                    return HeadScanResult::NoHead { unused };
                }
            } else if line.is_empty() {
                self.bytes.truncate(end + 1);
                return HeadScanResult::Complete { unused };
            }
            self.line_start = self.scanned;
        }
        self.scanned = self.bytes.len();
        let undecided = self.line_start > 0 || self.may_begin(&self.bytes);
        if undecided {
            HeadScanResult::More
        } else {
            HeadScanResult::NoHead { unused: 0 }
        }
    }

    fn may_begin(&self, bytes: &[u8]) -> bool {
        match self.direction {
            Direction::ClientToServer => head::begins_request(bytes),
            Direction::ServerToClient => head::begins_response(bytes),
        }
    }
}

fn is_start_line(direction: Direction, line: &[u8]) -> bool {
    match direction {
        Direction::ClientToServer => head::request_line(line).is_some(),
        Direction::ServerToClient => head::status_line(line).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_cutting_collects_the_same_head() {
        let text = b"GET / HTTP/1.1\r\nHost: h\r\n\r\nrest";
        for n in 1..text.len() {
            let mut lane = HttpByteStream::new(Direction::ClientToServer);
            let mut used = 0;
            for piece in text.chunks(n) {
                let (u, what) = lane.collect(piece, Timestamp(0));
                used += u;
                if what == HeadCollectStatus::Complete {
                    break;
                }
                assert_eq!(what, HeadCollectStatus::More);
            }
            assert_eq!(
                (used, &lane.take().bytes[..]),
                (text.len() - 4, &text[..text.len() - 4])
            );
        }
    }
}

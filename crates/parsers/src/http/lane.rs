//! One direction of an HTTP/1 connection: its position in the byte stream, and a partly received head.
//!
//! Finds heads, in order or after losses, and their length. The contents of heads and the fate of messages
//! are handled by the connection. Holds at most [`HEAD_BYTES_MAX`] bytes and the parts of longer heads that
//! [`Tail`] keeps; no memory while heads arrive in one segment.

use flow::Place;
use memchr::memchr;

use super::body::Body;
use super::head;
use super::tail::{Cut, Line, Tail};
use wire::Timestamp;

use crate::resync::Resync;
use crate::{Direction, Span};

/// Maximum head length kept in full; of a longer one, only the fields that determine the end of the message
/// are kept.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes copied before they are parsed again.
const COPY_BYTES: usize = 2048;
/// Memory kept for the next head.
const KEPT_BYTES: usize = 4096;

/// Position in a byte stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Between messages.
    Between,
    /// In a partly received head.
    Head,
    /// In a body.
    Body(Body),
    /// Unknown: searching for the next head.
    Lost,
    /// In another protocol.
    Over,
}

/// One direction. One cache line, in `repr(C)` order.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Lane {
    pub state: State,
    /// The message in progress.
    pub message: Extent,
    collector: Option<Box<Collector>>,
    direction: Direction,
}

const _: () = assert!(size_of::<Lane>() == 64, "every segment touches a lane");

/// Progress of a message after its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Arrival of its last byte so far.
    pub last: Timestamp,
    pub body_bytes: u64,
    /// Bytes of its body are missing.
    pub gap: bool,
    /// The last bytes so far are among them and arrived after `last`.
    pub last_lost: bool,
    /// The end of its body is unknown.
    pub end_lost: bool,
}

/// A partly received head, or the search for one.
#[derive(Debug)]
struct Collector {
    direction: Direction,
    span: Span,
    /// Position of its start.
    place: Place,
    found: bool,
    resync: Resync,
    bytes: Vec<u8>,
    line_start: usize,
    scanned: usize,
    /// Bytes of the head so far.
    len: u32,
    /// The part beyond the limit.
    tail: Option<Box<Tail>>,
}

/// A collected head, as returned by [`Lane::take`].
pub struct Head {
    pub bytes: Vec<u8>,
    pub span: Span,
    /// Position of its start.
    pub place: Place,
    /// It was found by a search.
    pub found: bool,
    /// Length in bytes.
    pub len: u32,
    /// Parts that are not in `bytes`.
    pub cut: Cut,
}

/// Result of adding bytes to a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// The head is incomplete.
    More,
    /// The head is complete.
    Complete,
    /// Not a head; it has been dropped.
    NoHead,
}

/// Result of scanning a piece; its last `unused` bytes are not part of the head.
enum Scanned {
    More,
    Complete { unused: usize },
    NoHead { unused: usize },
}

impl Extent {
    /// A message whose head was complete at `ts`.
    pub fn at(ts: Timestamp) -> Extent {
        Extent { last: ts, body_bytes: 0, gap: false, last_lost: false, end_lost: false }
    }

    /// Adds bytes of the message.
    #[inline]
    pub fn extend(&mut self, body_bytes: u64, ts: Timestamp) {
        self.last = self.last.max(ts);
        self.body_bytes = self.body_bytes.saturating_add(body_bytes);
        self.last_lost = false;
    }
}

impl Lane {
    pub fn new(direction: Direction) -> Lane {
        let message = Extent::at(Timestamp::MIN);
        Lane { state: State::Between, message, direction, collector: None }
    }

    /// Begins to collect a head; `found`: it was found by a search.
    #[cold]
    pub fn start_head(&mut self, ts: Timestamp, place: Place, found: bool) {
        self.state = State::Head;
        let collector = self.collector();
        collector.clear();
        (collector.found, collector.span, collector.place) = (found, Span::at(ts), place);
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

    /// Returns the head with its metadata; the buffer is returned by [`Lane::give_back`].
    pub fn take(&mut self) -> Head {
        let collector = self.collector();
        let &mut Collector { span, place, found, len, .. } = collector;
        let cut = collector.tail.as_ref().map(|tail| tail.cut()).unwrap_or_default();
        Head { bytes: std::mem::take(&mut collector.bytes), span, place, found, len, cut }
    }

    /// Takes back the buffer of [`Lane::take`] for reuse.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        let collector = self.collector();
        collector.bytes = bytes;
        collector.clear();
    }

    /// Undoes [`Lane::take`].
    pub fn resume(&mut self, bytes: Vec<u8>) {
        self.collector().bytes = bytes;
    }

    /// Adds bytes to the head, up to its end. Returns the number consumed.
    pub fn collect(&mut self, bytes: &[u8], ts: Timestamp) -> (usize, Collected) {
        self.collector().collect(bytes, ts)
    }

    /// Whether the last line of the head has no bytes yet.
    pub fn at_line_start(&self) -> bool {
        self.collector.as_ref().is_none_or(|c| c.line_start == c.bytes.len() && c.tail.is_none())
    }

    /// The search for the next head.
    pub fn resync(&mut self) -> &mut Resync {
        &mut self.collector().resync
    }

    fn collector(&mut self) -> &mut Collector {
        let direction = self.direction;
        self.collector.get_or_insert_with(|| {
            Box::new(Collector {
                direction,
                span: Span::at(Timestamp::MIN),
                place: Place::default(),
                found: false,
                resync: Resync::default(),
                bytes: Vec::new(),
                line_start: 0,
                scanned: 0,
                len: 0,
                tail: None,
            })
        })
    }
}

impl Collector {
    fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
        (self.line_start, self.scanned, self.found) = (0, 0, false);
        (self.len, self.tail) = (0, None);
    }

    fn collect(&mut self, bytes: &[u8], ts: Timestamp) -> (usize, Collected) {
        self.span.extend(ts);
        let (used, what) = self.add(bytes);
        self.len = self.len.wrapping_add(used as u32);
        if what == Collected::NoHead {
            self.clear();
        }
        (used, what)
    }

    fn add(&mut self, bytes: &[u8]) -> (usize, Collected) {
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
                Scanned::More => used += piece.len(),
                Scanned::Complete { unused } => return (used + piece.len() - unused, Collected::Complete),
                Scanned::NoHead { unused } => return (used + piece.len() - unused, Collected::NoHead),
            }
        }
        (used, Collected::More)
    }

    /// Adds bytes beyond the limit, line by line.
    #[cold]
    fn add_to_tail(&mut self, bytes: &[u8]) -> (usize, Collected) {
        let Collector { tail, line_start, direction, bytes: kept, .. } = self;
        let tail = tail.get_or_insert_with(|| Box::new(Tail::begin(*direction, kept, *line_start)));
        let mut used = 0;
        while let Some(nl) = memchr(b'\n', &bytes[used..]) {
            tail.add(&bytes[used..used + nl]);
            used += nl + 1;
            match tail.end_line(kept) {
                Some(Line::Start) if !is_start_line(*direction, head::first_line(kept)) => {
                    return (used, Collected::NoHead);
                }
                Some(Line::Last) => return (used, Collected::Complete),
                _ => {}
            }
        }
        tail.add(&bytes[used..]);
        (bytes.len(), Collected::More)
    }

    /// Scans new bytes up to the end of the head and truncates the buffer there.
    fn scan(&mut self) -> Scanned {
        while let Some(nl) = memchr(b'\n', &self.bytes[self.scanned..]) {
            let end = self.scanned + nl;
            let unused = self.bytes.len() - (end + 1);
            self.scanned = end + 1;
            let line = head::without_cr(&self.bytes[self.line_start..end]);
            if self.line_start == 0 {
                if !is_start_line(self.direction, line) {
                    return Scanned::NoHead { unused };
                }
            } else if line.is_empty() {
                self.bytes.truncate(end + 1);
                return Scanned::Complete { unused };
            }
            self.line_start = self.scanned;
        }
        self.scanned = self.bytes.len();
        let undecided = self.line_start > 0 || self.may_begin(&self.bytes);
        if undecided { Scanned::More } else { Scanned::NoHead { unused: 0 } }
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
            let mut lane = Lane::new(Direction::ClientToServer);
            let mut used = 0;
            for piece in text.chunks(n) {
                let (u, what) = lane.collect(piece, Timestamp(0));
                used += u;
                if what == Collected::Complete {
                    break;
                }
                assert_eq!(what, Collected::More);
            }
            assert_eq!((used, &lane.take().bytes[..]), (text.len() - 4, &text[..text.len() - 4]));
        }
    }
}

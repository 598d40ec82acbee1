//! One direction of an HTTP/1 connection: in which message its byte stream is, and a head that has come in part.
//!
//! Finds heads, in order or after losses, and knows which of the next bytes they take. What a head says, and what
//! becomes of messages, is the connection's business. Holds at most [`HEAD_BYTES_MAX`] bytes and what [`Tail`] keeps of longer
//! heads, and no memory at all as long as heads come whole.

use flow::Place;
use memchr::memchr;

use super::body::Body;
use super::head;
use super::tail::{Cut, Line, Tail};
use wire::Timestamp;

use crate::resync::Resync;
use crate::{Direction, Span};

/// Longest head of which all is kept; of a longer one those fields are read on that tell where the message ends.
pub const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bytes copied before they are examined again.
const COPY_BYTES: usize = 2048;
/// Memory that is kept for the next head.
const KEPT_BYTES: usize = 4096;

/// Where a byte stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Between messages.
    Between,
    /// In a head that is being collected.
    Head,
    /// In a body.
    Body(Body),
    /// Anywhere: looking for the next head.
    Lost,
    /// In what is not HTTP/1.
    Over,
}

/// One direction. As long as a cache line, and laid out as written.
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

/// How far a message has come behind its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Arrival of its last byte so far.
    pub last: Timestamp,
    pub body_bytes: u64,
    /// Bytes of its body are missing.
    pub gap: bool,
    /// Among them the last so far, which came later than `last`.
    pub last_lost: bool,
    /// Where its body ended is not known.
    pub end_lost: bool,
}

/// A head that has come in part, or is looked for.
#[derive(Debug)]
struct Collector {
    direction: Direction,
    span: Span,
    /// Where it begins.
    place: Place,
    found: bool,
    resync: Resync,
    bytes: Vec<u8>,
    line_start: usize,
    scanned: usize,
    /// Bytes that the head has had so far.
    len: u32,
    /// What it says beyond the limit.
    tail: Option<Box<Tail>>,
}

/// A head that was collected, as [`Lane::take`] hands it out.
pub struct Head {
    pub bytes: Vec<u8>,
    pub span: Span,
    /// Where it begins.
    pub place: Place,
    /// It was found by looking for it.
    pub found: bool,
    /// Its length.
    pub len: u32,
    /// What of it is not in `bytes`.
    pub cut: Cut,
}

/// Result of adding bytes to a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collected {
    /// More is needed.
    More,
    /// The head is complete.
    Complete,
    /// This is no head; it has been dropped.
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

    /// More bytes of the message.
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

    /// A head begins that is to be collected; `found`: it was looked for.
    #[cold]
    pub fn start_head(&mut self, ts: Timestamp, place: Place, found: bool) {
        self.state = State::Head;
        let collector = self.collector();
        collector.clear();
        (collector.found, collector.span, collector.place) = (found, Span::at(ts), place);
    }

    /// The head being collected was found by looking for it.
    pub fn found(&self) -> bool {
        self.collector.as_ref().is_some_and(|c| c.found)
    }

    /// Forgets the head.
    pub fn clear(&mut self) {
        if let Some(collector) = &mut self.collector {
            collector.clear();
        }
    }

    /// Hands out the head and what is known of it; to be given back.
    pub fn take(&mut self) -> Head {
        let collector = self.collector();
        let &mut Collector { span, place, found, len, .. } = collector;
        let cut = collector.tail.as_ref().map(|tail| tail.cut()).unwrap_or_default();
        Head { bytes: std::mem::take(&mut collector.bytes), span, place, found, len, cut }
    }

    /// Takes back what [`Lane::take`] handed out, to use the memory again.
    pub fn give_back(&mut self, bytes: Vec<u8>) {
        let collector = self.collector();
        collector.bytes = bytes;
        collector.clear();
    }

    /// Takes back what [`Lane::take`] handed out, as if nothing had been.
    pub fn resume(&mut self, bytes: Vec<u8>) {
        self.collector().bytes = bytes;
    }

    /// Adds bytes to the head; those behind it stay where they are. Gives the number used.
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

    /// Looks at what is new up to the end of the head, which becomes the end of what is held.
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

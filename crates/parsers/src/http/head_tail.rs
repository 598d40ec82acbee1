//! Parts of a head beyond [`HEAD_BYTES_MAX`](super::byte_stream::HEAD_BYTES_MAX) that are kept: the end of the start
//! line, which contains the version, and the fields that determine the end of the message or have a column.
//! All other lines are skipped.

use super::head::{self, VERSION_BYTES};
use crate::Direction;

/// Fields to keep, in lower case.
const KEPT: [&[u8]; 6] = [
    b"content-length",
    b"transfer-encoding",
    b"expect",
    b"host",
    b"user-agent",
    b"content-type",
];
/// Maximum bytes kept of a line, and of all lines.
const LINE_BYTES_MAX: usize = 4096;
const TAIL_BYTES_MAX: usize = 16 << 10;

/// Parts of a head that were not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HttpHeadTruncation {
    /// Part of the request target or of a field in [`KEPT`].
    pub texts: bool,
    /// Other fields, or the reason phrase of a status line.
    pub fields: bool,
}

/// A complete line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadLineKind {
    /// The start line.
    Start,
    /// The empty line at the end of the head.
    Last,
}

/// The part of a head beyond the limit.
#[derive(Debug)]
pub struct HttpHeadTail {
    direction: Direction,
    in_start_line: bool,
    /// The last bytes of a start line, or the first bytes of any other line.
    line: Vec<u8>,
    /// Length of the line so far.
    line_len: usize,
    kept_before: bool,
    /// Bytes kept so far.
    len: usize,
    cut: HttpHeadTruncation,
}

impl HttpHeadTail {
    /// Continues a head whose first bytes are in `kept`, with its current line at `line_start`. A current
    /// line other than the start line is moved here.
    pub fn begin(direction: Direction, kept: &mut Vec<u8>, line_start: usize) -> HttpHeadTail {
        let mut tail = HttpHeadTail {
            direction,
            in_start_line: line_start == 0,
            line: Vec::new(),
            line_len: 0,
            kept_before: false,
            len: 0,
            cut: HttpHeadTruncation::default(),
        };
        tail.add(&kept[line_start..]);
        if !tail.in_start_line {
            kept.truncate(line_start);
        }
        tail
    }

    /// Adds bytes of the current line.
    pub fn add(&mut self, bytes: &[u8]) {
        self.line_len = self.line_len.saturating_add(bytes.len());
        if self.in_start_line {
            // Includes a possible CR.
            const ENOUGH: usize = VERSION_BYTES + 1;
            self.line
                .extend_from_slice(&bytes[bytes.len().saturating_sub(ENOUGH)..]);
            self.line.drain(..self.line.len().saturating_sub(ENOUGH));
        } else {
            let room = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Completes the current line and adds its relevant part to `kept`.
    pub fn end_line(&mut self, kept: &mut Vec<u8>) -> Option<HeadLineKind> {
        let ended = if std::mem::take(&mut self.in_start_line) {
            self.end_start_line(kept);
            Some(HeadLineKind::Start)
        } else {
            self.end_field(kept).then_some(HeadLineKind::Last)
        };
        self.line.clear();
        self.line_len = 0;
        ended
    }

    /// Parts of the head that were not kept.
    pub fn cut(&self) -> HttpHeadTruncation {
        self.cut
    }

    fn end_start_line(&mut self, kept: &mut Vec<u8>) {
        let line = head::without_cr(&self.line);
        let len = self.line_len - (self.line.len() - line.len());
        if self.direction == Direction::ServerToClient {
            // The reason phrase, which has no column.
            self.cut.fields = true;
        } else {
            self.cut.texts = true;
            if let Some(version) = line
                .last_chunk::<VERSION_BYTES>()
                .filter(|end| head::version(*end).is_some())
            {
                kept.truncate(len - VERSION_BYTES);
                kept.extend_from_slice(version);
            }
        }
        kept.push(b'\n');
    }

    /// Completes a field line; returns whether it is empty.
    fn end_field(&mut self, kept: &mut Vec<u8>) -> bool {
        let line = head::without_cr(&self.line);
        let is_last = line.is_empty();
        let matters = match line {
            [b' ' | b'\t', ..] => self.kept_before,
            _ => KEPT.iter().any(|name| {
                line.get(..name.len())
                    .is_some_and(|l| l.eq_ignore_ascii_case(name))
            }),
        };
        let fits = self.len + line.len() < TAIL_BYTES_MAX;
        if is_last || matters && fits {
            kept.extend_from_slice(line);
            kept.push(b'\n');
            self.len += line.len() + 1;
        }
        self.cut.texts |= matters && (!fits || self.line_len > LINE_BYTES_MAX);
        self.cut.fields |= !matters && !is_last;
        self.kept_before = matters;
        is_last
    }
}

//! What is kept of a head beyond [`HEAD_BYTES_MAX`](super::lane::HEAD_BYTES_MAX): the end of a start line, where the version
//! stands, and the fields that tell where the message ends or that have a column of their own. All other lines are passed over.

use super::head::{self, VERSION_BYTES};
use crate::Direction;

/// Fields that are kept, in lower case.
const KEPT: [&[u8]; 6] =
    [b"content-length", b"transfer-encoding", b"expect", b"host", b"user-agent", b"content-type"];
/// Most bytes of a line that are kept, and of all lines.
const LINE_BYTES_MAX: usize = 4096;
const TAIL_BYTES_MAX: usize = 16 << 10;

/// What of a head was not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Part of the request target or of a field in [`KEPT`].
    pub texts: bool,
    /// Other fields, or the reason of a status line.
    pub fields: bool,
}

/// A line that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// The start line.
    Start,
    /// The empty line at the head's end.
    Last,
}

/// The part of a head that is beyond the limit.
#[derive(Debug)]
pub struct Tail {
    direction: Direction,
    in_start_line: bool,
    /// Of a start line the last bytes, of another line the first ones.
    line: Vec<u8>,
    /// Length of the line so far.
    line_len: usize,
    kept_before: bool,
    /// Bytes kept so far.
    len: usize,
    cut: Cut,
}

impl Tail {
    /// The head's first bytes are in `kept`, and its line in progress begins at `line_start` of them. Another line than the
    /// start line moves here.
    pub fn begin(direction: Direction, kept: &mut Vec<u8>, line_start: usize) -> Tail {
        let mut tail = Tail {
            direction,
            in_start_line: line_start == 0,
            line: Vec::new(),
            line_len: 0,
            kept_before: false,
            len: 0,
            cut: Cut::default(),
        };
        tail.add(&kept[line_start..]);
        if !tail.in_start_line {
            kept.truncate(line_start);
        }
        tail
    }

    /// More bytes of the line in progress.
    pub fn add(&mut self, bytes: &[u8]) {
        self.line_len = self.line_len.saturating_add(bytes.len());
        if self.in_start_line {
            // One more for a CR.
            const ENOUGH: usize = VERSION_BYTES + 1;
            self.line.extend_from_slice(&bytes[bytes.len().saturating_sub(ENOUGH)..]);
            self.line.drain(..self.line.len().saturating_sub(ENOUGH));
        } else {
            let room = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// The current line is complete: adds its relevant part to `kept`.
    pub fn end_line(&mut self, kept: &mut Vec<u8>) -> Option<Line> {
        let ended = match std::mem::take(&mut self.in_start_line) {
            true => {
                self.end_start_line(kept);
                Some(Line::Start)
            }
            false => self.end_field(kept).then_some(Line::Last),
        };
        self.line.clear();
        self.line_len = 0;
        ended
    }

    /// What of the head was not kept.
    pub fn cut(&self) -> Cut {
        self.cut
    }

    fn end_start_line(&mut self, kept: &mut Vec<u8>) {
        let line = head::without_cr(&self.line);
        let len = self.line_len - (self.line.len() - line.len());
        if self.direction == Direction::ServerToClient {
            // The reason, which is not shown.
            self.cut.fields = true;
        } else {
            self.cut.texts = true;
            if let Some(version) =
                line.last_chunk::<VERSION_BYTES>().filter(|end| head::version(*end).is_some())
            {
                kept.truncate(len - VERSION_BYTES);
                kept.extend_from_slice(version);
            }
        }
        kept.push(b'\n');
    }

    /// Whether the line is empty.
    fn end_field(&mut self, kept: &mut Vec<u8>) -> bool {
        let line = head::without_cr(&self.line);
        let is_last = line.is_empty();
        let matters = match line {
            [b' ' | b'\t', ..] => self.kept_before,
            _ => KEPT.iter().any(|name| line.get(..name.len()).is_some_and(|l| l.eq_ignore_ascii_case(name))),
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

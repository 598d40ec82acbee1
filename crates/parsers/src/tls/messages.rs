//! Handshake messages, put together from the records that carry them (RFC 8446 section 4): a type, a length, and a body. Of a
//! longer one only the beginning is kept.

use wire::Timestamp;

use crate::Span;

/// Length of type and length.
const HEAD: usize = 4;
/// Most bytes of a body that are kept.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Types that are looked at.
pub mod kind {
    pub const CLIENT_HELLO: u8 = 1;
    pub const SERVER_HELLO: u8 = 2;
    pub const CERTIFICATE: u8 = 11;
    pub const SERVER_HELLO_DONE: u8 = 14;
}

/// A message that has come, as far as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub kind: u8,
    pub span: Span,
    /// When its last byte came is known.
    pub ended: bool,
    /// Bytes of its body are missing, or were too many.
    pub cut: bool,
}

/// The messages of one direction.
#[derive(Debug, Default)]
pub struct Collector {
    head: [u8; HEAD],
    held: usize,
    /// Bytes of the body that are to come.
    left: usize,
    span: Option<Span>,
    /// The last byte so far was seen.
    seen: bool,
    cut: bool,
    body: Vec<u8>,
    /// Where the next message begins is not known.
    lost: bool,
}

impl Collector {
    /// Whether message boundaries are lost.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// What is kept of the body of the message that has come.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether a message has begun and is not over.
    pub fn is_within(&self) -> bool {
        self.held > 0
    }

    /// Adds bytes. Returns the number used, and the message that they complete.
    pub fn feed(&mut self, bytes: &[u8], ts: Timestamp) -> (usize, Option<Message>) {
        if self.lost || bytes.is_empty() {
            return (bytes.len(), None);
        }
        self.begin();
        self.span.get_or_insert(Span::at(ts)).extend(ts);
        self.seen = true;
        let n = bytes.len().min(HEAD - self.held);
        self.head[self.held..self.held + n].copy_from_slice(&bytes[..n]);
        self.held += n;
        if self.held < HEAD {
            return (n, None);
        }
        if n > 0 {
            self.left =
                usize::from(self.head[1]) << 16 | usize::from(self.head[2]) << 8 | usize::from(self.head[3]);
        }
        let rest = &bytes[n..];
        let piece = &rest[..rest.len().min(self.left)];
        if !self.cut {
            let room = BODY_BYTES_MAX - self.body.len();
            self.body.extend_from_slice(&piece[..piece.len().min(room)]);
            self.cut = piece.len() > room;
        }
        self.left -= piece.len();
        (n + piece.len(), self.end())
    }

    /// Skips `missing` bytes. Returns the message that ends with them.
    pub fn gap(&mut self, missing: usize) -> Option<Message> {
        self.begin();
        if self.lost || self.held < HEAD || missing > self.left {
            self.lost = true;
            return None;
        }
        self.cut |= missing > 0;
        self.seen = missing == 0;
        self.left -= missing;
        self.end()
    }

    /// What has come of a message is all there will be.
    pub fn break_off(&mut self) -> Option<Message> {
        if self.lost || self.held < HEAD {
            return None;
        }
        (self.seen, self.cut, self.left) = (false, true, 0);
        self.lost = true;
        self.end()
    }

    /// Behind a message the next one begins: only now is the last one's body of no use any more.
    fn begin(&mut self) {
        if self.held == 0 {
            self.body.clear();
            (self.cut, self.seen) = (false, false);
        }
    }

    fn end(&mut self) -> Option<Message> {
        if self.left > 0 {
            return None;
        }
        let span = self.span.take()?;
        self.held = 0;
        Some(Message { kind: self.head[0], span, ended: self.seen, cut: self.cut })
    }
}

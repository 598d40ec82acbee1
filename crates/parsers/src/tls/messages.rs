//! Handshake messages reassembled from records (RFC 8446 section 4): a type, a length, and a body. Long
//! bodies are truncated.

use wire::Timestamp;

use crate::MessageSpan;

/// Length of the message header: type and length.
const HEAD: usize = 4;
/// Maximum bytes kept of a body.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Message types that are parsed.
pub mod kind {
    pub const CLIENT_HELLO: u8 = 1;
    pub const SERVER_HELLO: u8 = 2;
    pub const END_OF_EARLY_DATA: u8 = 5;
    pub const ENCRYPTED_EXTENSIONS: u8 = 8;
    pub const CERTIFICATE: u8 = 11;
    pub const SERVER_HELLO_DONE: u8 = 14;
    pub const FINISHED: u8 = 20;
    pub const KEY_UPDATE: u8 = 24;
}

/// A complete message, as far as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct TlsHandshakeMessage {
    pub kind: u8,
    pub span: MessageSpan,
    /// Whether the arrival of its last byte is known.
    pub ended: bool,
    /// Bytes of its body are missing or beyond the limit.
    pub cut: bool,
}

/// The messages of one direction.
#[derive(Debug, Default)]
pub struct TlsMessageCollector {
    head: [u8; HEAD],
    held: usize,
    /// Remaining bytes of the body.
    left: usize,
    span: Option<MessageSpan>,
    /// The last byte so far was captured.
    seen: bool,
    cut: bool,
    body: Vec<u8>,
    /// The start of the next message is unknown.
    lost: bool,
}

impl TlsMessageCollector {
    /// Whether message boundaries are lost.
    pub fn is_lost(&self) -> bool {
        self.lost
    }

    /// The stored body of the last message.
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Whether a message is in progress.
    pub fn is_within(&self) -> bool {
        self.held > 0
    }

    /// Adds bytes. Returns the number used, and the message that they complete.
    pub fn feed(&mut self, bytes: &[u8], ts: Timestamp) -> (usize, Option<TlsHandshakeMessage>) {
        if self.lost || bytes.is_empty() {
            return (bytes.len(), None);
        }
        self.begin();
        self.span.get_or_insert(MessageSpan::at(ts)).extend(ts);
        self.seen = true;
        let n = bytes.len().min(HEAD - self.held);
        self.head[self.held..self.held + n].copy_from_slice(&bytes[..n]);
        self.held += n;
        if self.held < HEAD {
            return (n, None);
        }
        if n > 0 {
            self.left = usize::from(self.head[1]) << 16
                | usize::from(self.head[2]) << 8
                | usize::from(self.head[3]);
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
    pub fn gap(&mut self, missing: usize) -> Option<TlsHandshakeMessage> {
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

    /// Ends the message in progress early.
    pub fn break_off(&mut self) -> Option<TlsHandshakeMessage> {
        if self.lost || self.held < HEAD {
            return None;
        }
        self.seen = false;
        self.cut = true;
        self.left = 0;
        self.lost = true;
        self.end()
    }

    /// Begins the next message, which invalidates the last one's body.
    fn begin(&mut self) {
        if self.held == 0 {
            self.body.clear();
            self.cut = false;
            self.seen = false;
        }
    }

    fn end(&mut self) -> Option<TlsHandshakeMessage> {
        if self.left > 0 {
            return None;
        }
        let span = self.span.take()?;
        self.held = 0;
        Some(TlsHandshakeMessage {
            kind: self.head[0],
            span,
            ended: self.seen,
            cut: self.cut,
        })
    }
}

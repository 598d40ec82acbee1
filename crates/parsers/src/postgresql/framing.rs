//! Divides one direction into messages: a type byte, four bytes of length that include themselves, the body. The first message
//! of a client has no type, and the response to a request for encryption is one byte.
//!
//! Returns complete messages with the first bytes of their body: borrowed if the message is contiguous, otherwise copied up to the
//! number of bytes that the caller needs. Other bytes are skipped by length, as is a gap inside a body.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use crate::MessageSpan;

/// Maximum length, as in the server (`MaxAllocSize`).
const LENGTH_MAX: u32 = 0x3fff_ffff;
const TYPED_HEADER: usize = 5;

/// Form of the next message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostgresForm {
    /// Type, length, body.
    #[default]
    Typed,
    /// Length, body.
    Untyped,
    /// One byte.
    Byte,
}

impl PostgresForm {
    fn header_len(self) -> usize {
        match self {
            PostgresForm::Typed => TYPED_HEADER,
            PostgresForm::Untyped => 4,
            PostgresForm::Byte => 1,
        }
    }
}

/// A complete message.
#[derive(Clone, Copy, Debug)]
pub struct PostgresMessage<'a> {
    /// Type; 0 for an untyped message, the byte itself for [`PostgresForm::Byte`].
    pub kind: u8,
    /// Length of header and body.
    pub wire_len: u32,
    /// First bytes of the body: all, or as many as were wanted or captured.
    pub head: &'a [u8],
    /// `head` is the whole body.
    pub is_whole: bool,
    /// Arrival of its first and last byte.
    pub span: MessageSpan,
    /// Bytes are missing.
    pub holed: bool,
    /// The last byte is missing, and its arrival is unknown.
    pub open_end: bool,
    /// Position of its start.
    pub place: StreamPlace,
}

impl PostgresMessage<'_> {
    /// Position after its end.
    pub fn end(&self) -> TcpSeq {
        self.place.seq.plus(self.wire_len)
    }
}

/// Result of [`PostgresFraming::next`].
#[derive(Debug)]
pub enum PostgresPiece<'a> {
    /// A message that ends in the bytes.
    Message(PostgresMessage<'a>),
    /// All bytes are consumed.
    More,
    /// The length is impossible.
    Invalid,
}

/// The message in progress.
#[derive(Debug)]
pub struct PostgresFraming {
    form: PostgresForm,
    header: [u8; TYPED_HEADER],
    header_len: u8,
    /// Remaining bytes of the body.
    left: u32,
    kept: Vec<u8>,
    /// Bytes of the body to keep.
    keep: usize,
    span: MessageSpan,
    holed: bool,
    open_end: bool,
    place: StreamPlace,
}

impl Default for PostgresFraming {
    fn default() -> Self {
        PostgresFraming {
            form: PostgresForm::Typed,
            header: [0; TYPED_HEADER],
            header_len: 0,
            left: 0,
            kept: Vec::new(),
            keep: 0,
            span: MessageSpan::at(Timestamp::MIN),
            holed: false,
            open_end: false,
            place: StreamPlace::default(),
        }
    }
}

impl PostgresFraming {
    /// Sets the form of the next message, unless one is in progress.
    pub fn set_form(&mut self, form: PostgresForm) {
        if self.is_between() {
            self.form = form;
        }
    }

    /// Returns the next message that ends in `bytes` and consumes it; `place`: that of `bytes`. `keep` returns, by type, how
    /// much of the body of a split message is wanted.
    #[inline]
    pub fn next<'a, 'b: 'a>(
        &'a mut self,
        bytes: &mut &'b [u8],
        (ts, place): (Timestamp, StreamPlace),
        keep: impl Fn(u8) -> usize,
    ) -> PostgresPiece<'a> {
        if self.header_len == 0 {
            if bytes.is_empty() {
                return PostgresPiece::More;
            }
            if self.form == PostgresForm::Typed
                && let Some((kind, wire_len)) = typed_header(bytes)
                && let Some((message, rest)) = bytes.split_at_checked(wire_len as usize)
                && wire_len >= TYPED_HEADER as u32
            {
                *bytes = rest;
                return PostgresPiece::Message(PostgresMessage {
                    kind,
                    wire_len,
                    head: &message[TYPED_HEADER..],
                    is_whole: true,
                    span: MessageSpan::at(ts),
                    holed: false,
                    open_end: false,
                    place,
                });
            }
            self.begin(ts, place);
        }
        self.resume(bytes, ts, keep)
    }

    /// Skips complete messages of type `kind`; returns their number and bytes.
    #[inline]
    pub fn skip_all(&self, kind: u8, bytes: &mut &[u8]) -> (u64, u64) {
        if self.header_len != 0 {
            return (0, 0);
        }
        let mut rest = *bytes;
        let mut n = 0;
        while let Some((found, wire_len)) = typed_header(rest)
            && found == kind
            && wire_len >= TYPED_HEADER as u32
            && let Some(behind) = rest.get(wire_len as usize..)
        {
            rest = behind;
            n += 1;
        }
        let skipped = bytes.len() - rest.len();
        *bytes = rest;
        (n, skipped as u64)
    }

    /// Handles `len` missing bytes. Returns whether the position of the next message is still known; a message that ended in
    /// the gap is returned by the next [`PostgresFraming::next`]. `cut`: they arrived with the last bytes captured.
    pub fn gap(&mut self, len: u64, cut: bool) -> bool {
        let is_inside = self.header_len as usize == self.form.header_len();
        if !is_inside || len > u64::from(self.left) {
            return false;
        }
        self.left -= len as u32;
        self.holed = true;
        self.open_end = self.left == 0 && !cut;
        self.keep = self.kept.len();
        true
    }

    /// Whether no message is in progress.
    pub fn is_between(&self) -> bool {
        self.header_len == 0
    }

    /// Discards the message in progress.
    pub fn reset(&mut self) {
        *self = PostgresFraming {
            kept: std::mem::take(&mut self.kept),
            ..PostgresFraming::default()
        };
    }

    fn begin(&mut self, ts: Timestamp, place: StreamPlace) {
        self.span = MessageSpan::at(ts);
        self.place = place;
        self.kept.clear();
        self.holed = false;
        self.open_end = false;
    }

    /// Continues a message that began earlier or ends later.
    fn resume<'a, 'b: 'a>(
        &'a mut self,
        bytes: &mut &'b [u8],
        ts: Timestamp,
        keep: impl Fn(u8) -> usize,
    ) -> PostgresPiece<'a> {
        let header_len = self.form.header_len();
        let have = self.header_len as usize;
        if have < header_len {
            let n = bytes.len().min(header_len - have);
            self.header[have..have + n].copy_from_slice(&bytes[..n]);
            self.header_len += n as u8;
            *bytes = &bytes[n..];
            self.span.extend(ts);
            if have + n < header_len {
                return PostgresPiece::More;
            }
            let Some(body) = self.wire_len().checked_sub(header_len as u32) else {
                self.header_len = 0;
                return PostgresPiece::Invalid;
            };
            if body > LENGTH_MAX {
                self.header_len = 0;
                return PostgresPiece::Invalid;
            }
            self.left = body;
            self.keep = keep(self.kind());
        }
        let n = bytes.len().min(self.left as usize);
        if n > 0 {
            let wanted = self.keep.saturating_sub(self.kept.len()).min(n);
            self.kept.extend_from_slice(&bytes[..wanted]);
            self.left -= n as u32;
            self.span.extend(ts);
            *bytes = &bytes[n..];
        }
        if self.left > 0 {
            return PostgresPiece::More;
        }
        self.header_len = 0;
        let wire_len = self.wire_len();
        PostgresPiece::Message(PostgresMessage {
            kind: self.kind(),
            wire_len,
            head: &self.kept,
            is_whole: self.kept.len() + header_len == wire_len as usize,
            span: self.span,
            holed: self.holed,
            open_end: self.open_end,
            place: self.place,
        })
    }

    fn kind(&self) -> u8 {
        match self.form {
            PostgresForm::Untyped => 0,
            PostgresForm::Typed | PostgresForm::Byte => self.header[0],
        }
    }

    /// Length with the header, by the header.
    fn wire_len(&self) -> u32 {
        let [a, b, c, d, e] = self.header;
        match self.form {
            PostgresForm::Typed => u32::from_be_bytes([b, c, d, e]).saturating_add(1),
            PostgresForm::Untyped => u32::from_be_bytes([a, b, c, d]),
            PostgresForm::Byte => 1,
        }
    }
}

/// Type and length, with the header, of the message that begins here.
#[inline]
pub fn typed_header(bytes: &[u8]) -> Option<(u8, u32)> {
    let [kind, length @ ..] = bytes.first_chunk::<TYPED_HEADER>()?;
    Some((*kind, u32::from_be_bytes(*length).saturating_add(1)))
}

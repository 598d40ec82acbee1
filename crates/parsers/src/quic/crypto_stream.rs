//! Handshake messages of one direction, reassembled from CRYPTO frames, which may come in any order.

use crate::tls::reader::TlsReader;

/// Maximum length of the messages of one direction, and of the bytes that wait for earlier ones; a ClientHello with
/// post-quantum keys has 2 KiB.
const BYTES_MAX: usize = 64 << 10;
/// Maximum number of pieces that wait for earlier ones.
const PIECES_MAX: usize = 64;

/// Bytes that do not fit into the limits.
#[derive(Debug)]
pub struct QuicCryptoOverflow;

/// A handshake message.
#[derive(Clone, Copy, Debug)]
pub struct QuicHandshakeMessage<'a> {
    pub kind: u8,
    pub body: &'a [u8],
    /// Whether all of its bytes are there.
    pub whole: bool,
}

/// The messages of one direction.
#[derive(Debug, Default)]
pub struct QuicCryptoStream {
    /// Contiguous bytes from the start.
    bytes: Vec<u8>,
    /// Pieces behind a missing one, with their offsets.
    later: Vec<(usize, Vec<u8>)>,
    /// Start of the next message.
    at: usize,
}

impl QuicCryptoStream {
    /// Adds the data of a frame.
    ///
    /// # Errors
    /// [`QuicCryptoOverflow`]: the data is beyond the limits and ignored.
    pub fn add(&mut self, offset: u64, data: &[u8]) -> Result<(), QuicCryptoOverflow> {
        let offset = usize::try_from(offset).map_err(|_| QuicCryptoOverflow)?;
        if offset.saturating_add(data.len()) > BYTES_MAX {
            return Err(QuicCryptoOverflow);
        }
        if offset > self.bytes.len() {
            return self.add_later(offset, data);
        }
        self.append(offset, data);
        let is_next = |(at, _): &(usize, Vec<u8>), end: usize| *at <= end;
        while let Some(next) = self
            .later
            .iter()
            .position(|piece| is_next(piece, self.bytes.len()))
        {
            let (at, piece) = self.later.swap_remove(next);
            self.append(at, &piece);
        }
        Ok(())
    }

    fn append(&mut self, offset: usize, data: &[u8]) {
        let known = self.bytes.len() - offset;
        self.bytes
            .extend_from_slice(data.get(known..).unwrap_or_default());
    }

    fn add_later(&mut self, offset: usize, data: &[u8]) -> Result<(), QuicCryptoOverflow> {
        let is_copy = |(at, piece): &(usize, Vec<u8>)| *at == offset && piece.len() >= data.len();
        if self.later.iter().any(is_copy) {
            return Ok(());
        }
        let held: usize = self.later.iter().map(|(_, piece)| piece.len()).sum();
        if self.later.len() == PIECES_MAX || held + data.len() > BYTES_MAX {
            return Err(QuicCryptoOverflow);
        }
        self.later.push((offset, data.to_vec()));
        Ok(())
    }

    /// The next message, if it is complete.
    pub fn next(&mut self) -> Option<QuicHandshakeMessage<'_>> {
        let from = self.at;
        let (message, length) = read(&self.bytes, from)?;
        if !message.whole {
            return None;
        }
        self.at += length;
        read(&self.bytes, from).map(|(message, _)| message)
    }

    /// The message in progress, as far as it is contiguous.
    pub fn incomplete(&self) -> Option<QuicHandshakeMessage<'_>> {
        read(&self.bytes, self.at).map(|(message, _)| message)
    }

    /// Whether the first byte is there.
    pub fn has_start(&self) -> bool {
        !self.bytes.is_empty()
    }
}

/// The message at `from`, and its length with its header.
fn read(bytes: &[u8], from: usize) -> Option<(QuicHandshakeMessage<'_>, usize)> {
    let mut reader = TlsReader(bytes.get(from..)?);
    let kind = reader.u8()?;
    let length = reader.u24()?;
    let body = &reader.0[..reader.0.len().min(length)];
    let whole = body.len() == length;
    Some((QuicHandshakeMessage { kind, body, whole }, length + 4))
}

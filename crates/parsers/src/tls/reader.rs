//! Numbers and vectors in TLS encoding (RFC 8446 section 3). Truncated input gives `None`.

/// Remaining bytes.
#[derive(Clone, Copy, Debug)]
pub struct TlsReader<'a>(pub &'a [u8]);

impl<'a> TlsReader<'a> {
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(n)?;
        self.0 = tail;
        Some(head)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.take(2).map(|b| u16::from_be_bytes([b[0], b[1]]))
    }

    pub fn u24(&mut self) -> Option<usize> {
        self.take(3)
            .map(|b| usize::from(b[0]) << 16 | usize::from(b[1]) << 8 | usize::from(b[2]))
    }

    /// A vector with a one-byte length.
    pub fn vector8(&mut self) -> Option<TlsReader<'a>> {
        let length = self.u8()?;
        self.take(length.into()).map(TlsReader)
    }

    /// A vector with a two-byte length.
    pub fn vector16(&mut self) -> Option<TlsReader<'a>> {
        let length = self.u16()?;
        self.take(length.into()).map(TlsReader)
    }

    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

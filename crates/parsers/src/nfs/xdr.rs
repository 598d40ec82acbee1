//! A cursor over XDR (RFC 4506): big-endian words, and opaques padded to a word. `None`: insufficient bytes,
//! or a length above the protocol's limit.

/// Remaining bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct XdrReader<'a>(&'a [u8]);

impl<'a> XdrReader<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> XdrReader<'a> {
        XdrReader(bytes)
    }

    /// Number of remaining bytes.
    #[inline]
    pub fn left(self) -> usize {
        self.0.len()
    }

    /// An unsigned int, an enum, a length.
    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*word))
    }

    /// An unsigned hyper.
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*word))
    }

    /// A bool.
    #[inline]
    pub fn bool(&mut self) -> Option<bool> {
        Some(self.u32()? != 0)
    }

    /// An opaque or a string of at most `max` bytes.
    #[inline]
    pub fn opaque(&mut self, max: usize) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        if len > max { None } else { self.fixed(len) }
    }

    /// An opaque of known length.
    #[inline]
    pub fn fixed(&mut self, len: usize) -> Option<&'a [u8]> {
        let bytes = self.0.get(..len)?;
        self.0 = self.0.get(len.checked_next_multiple_of(4)?..)?;
        Some(bytes)
    }

    /// Skips an array of at most `max` words.
    pub fn skip_words(&mut self, max: usize) -> Option<()> {
        let words = self.u32()? as usize;
        if words > max {
            return None;
        }
        self.fixed(4 * words)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_opaques() {
        let mut x = XdrReader::new(b"\0\0\0\x05hello\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02");
        assert_eq!(x.opaque(5), Some(&b"hello"[..]));
        assert_eq!((x.bool(), x.u64(), x.left()), (Some(true), Some(2), 0));
        assert_eq!((x.u32(), x.u64(), x.opaque(9)), (None, None, None));
    }

    #[test]
    fn oversized_lengths() {
        assert_eq!(XdrReader::new(b"\0\0\0\x05hello\0\0\0").opaque(4), None);
        assert_eq!(XdrReader::new(b"\0\0\0\x05hello").opaque(5), None);
        assert_eq!(XdrReader::new(b"\xff\xff\xff\xff").opaque(usize::MAX), None);
        assert_eq!(
            XdrReader::new(b"\xff\xff\xff\xff").skip_words(usize::MAX / 4),
            None
        );
    }
}

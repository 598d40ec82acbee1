//! Reads the integers and strings of MySQL payloads from the front of a slice; `None` if the bytes are
//! insufficient. ("Protocol basics: data types" in the MySQL source documentation.)

/// Remaining bytes.
#[derive(Clone, Copy, Debug)]
pub struct MysqlFieldReader<'a>(pub &'a [u8]);

impl<'a> MysqlFieldReader<'a> {
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    /// A little-endian integer of `n` (at most 8) bytes.
    pub fn int(&mut self, n: usize) -> Option<u64> {
        Some(
            self.take(n)?
                .iter()
                .rev()
                .fold(0, |v, b| v << 8 | u64::from(*b)),
        )
    }

    /// `int<lenenc>`.
    pub fn lenenc(&mut self) -> Option<u64> {
        match self.int(1)? {
            v @ 0..=0xfa => Some(v),
            0xfc => self.int(2),
            0xfd => self.int(3),
            0xfe => self.int(8),
            _ => None,
        }
    }

    /// `string<lenenc>`.
    pub fn lenenc_str(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.lenenc()?).ok()?;
        self.take(n)
    }

    /// `string<NUL>`: up to the next NUL, which is consumed.
    pub fn nul_str(&mut self) -> Option<&'a [u8]> {
        let n = memchr::memchr(0, self.0)?;
        let s = self.take(n);
        self.0 = &self.0[1..];
        s
    }

    /// `string<NUL>`, or all bytes if the NUL is missing.
    pub fn nul_str_or_rest(&mut self) -> &'a [u8] {
        self.nul_str()
            .unwrap_or_else(|| std::mem::take(&mut self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_length() {
        for (bytes, value) in [
            (&[0x07][..], Some(7)),
            (&[0xfa], Some(250)),
            (&[0xfb], None),
            (&[0xff], None),
            (&[0xfc, 1, 2], Some(0x201)),
            (&[0xfd, 1, 2, 3], Some(0x3_0201)),
            (
                &[0xfe, 1, 0, 0, 0, 0, 0, 0, 0x80],
                Some(0x8000_0000_0000_0001),
            ),
            (&[0xfe, 1], None),
            (&[], None),
        ] {
            assert_eq!(MysqlFieldReader(bytes).lenenc(), value, "{bytes:?}");
        }
    }

    #[test]
    fn strings() {
        let mut f = MysqlFieldReader(b"ab\0\x02cdrest");
        assert_eq!(f.nul_str(), Some(&b"ab"[..]));
        assert_eq!(f.lenenc_str(), Some(&b"cd"[..]));
        assert_eq!(f.nul_str(), None);
        assert_eq!(f.nul_str_or_rest(), b"rest");
        assert_eq!(f.take(1), None);
    }
}

//! A bounded reader of big-endian integers.

/// The unread rest of a buffer. Every method returns `None`, and reads nothing, if too few bytes are left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    pub fn len(&self) -> usize {
        self.rest.len()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// XDR opaque data (RFC 4506 section 4.10): a length, the bytes, and padding to four bytes. Padding that is
    /// missing at the end of the buffer is accepted.
    pub fn opaque(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let len = ahead.u32()? as usize;
        let taken = ahead.take(len)?;
        let padding = (len.wrapping_neg() & 3).min(ahead.len());
        ahead.take(padding);
        *self = ahead;
        Some(taken)
    }
}

/// An unsigned integer of one to eight bytes (reduced-size encoding, RFC 7011 section 6.2).
#[inline]
pub(crate) fn unsigned(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        1 => Some(bytes[0].into()),
        2 => Some(u16::from_be_bytes(bytes.try_into().ok()?).into()),
        4 => Some(u32::from_be_bytes(bytes.try_into().ok()?).into()),
        8 => Some(u64::from_be_bytes(bytes.try_into().ok()?)),
        3..=7 => {
            let shift = |value, byte: &u8| value << 8 | u64::from(*byte);
            Some(bytes.iter().fold(0, shift))
        }
        _ => None,
    }
}

/// A `float32` or `float64` (RFC 7011 §6.1.3); `None` for any other length.
pub(crate) fn float(value: &[u8]) -> Option<f64> {
    match *value {
        [a, b, c, d] => Some(f64::from(f32::from_be_bytes([a, b, c, d]))),
        _ => Some(f64::from_be_bytes(value.try_into().ok()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_reads_consume_nothing() {
        let mut cursor = Cursor::new(&[0, 0, 0, 9, 1, 2, 3]);
        assert_eq!(
            (cursor.opaque(), cursor.u64(), cursor.take(8)),
            (None, None, None)
        );
        assert_eq!(
            (cursor.u32(), cursor.u16(), cursor.u8(), cursor.u8()),
            (Some(9), Some(0x102), Some(3), None)
        );
    }

    #[test]
    fn opaque_data_is_padded_to_four_bytes() {
        let mut cursor = Cursor::new(&[0, 0, 0, 1, 7, 0, 0, 0, 0, 0, 0, 2, 8, 9]);
        assert_eq!(cursor.opaque(), Some(&[7][..]));
        assert_eq!(cursor.opaque(), Some(&[8, 9][..]));
        assert_eq!(cursor.len(), 0);
    }

    #[test]
    fn integers_have_one_to_eight_bytes() {
        assert_eq!(unsigned(&[1, 2, 3]), Some(0x01_0203));
        assert_eq!(unsigned(&[0xff; 8]), Some(u64::MAX));
        assert_eq!((unsigned(&[]), unsigned(&[0; 9])), (None, None));
    }
}

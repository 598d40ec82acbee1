//! Reads the values of a datum; lengths beyond its end are rejected.

use super::DECIMAL_DIGITS;

/// Errors of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum DatumFault {
    #[error("the record ends here")]
    Ends,
    #[error("union branch {0}; expected 0 or 1")]
    Branch(i64),
    #[error("a number of more than 64 bits")]
    Varint,
    #[error("a length of {0}, with {1} bytes left")]
    Length(i64, usize),
    #[error("a boolean of {0}")]
    Boolean(u8),
    #[error("text that is not UTF-8")]
    Utf8,
    #[error("{0} bytes instead of {1}")]
    Fixed(usize, i32),
    #[error("a decimal of {0} bytes; expected 1 to {DECIMAL_DIGITS} digits")]
    Decimal(usize),
    #[error("the batch is full")]
    Full,
}

/// The remaining bytes of a datum.
pub struct DatumInput<'a> {
    all: &'a [u8],
    /// Number of bytes read.
    pub at: usize,
}

impl<'a> DatumInput<'a> {
    /// Creates an input at the start of a datum.
    pub fn new(all: &'a [u8]) -> DatumInput<'a> {
        DatumInput { all, at: 0 }
    }

    /// Reads `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DatumFault> {
        let taken = self.all[self.at..].get(..count).ok_or(DatumFault::Ends)?;
        self.at += count;
        Ok(taken)
    }

    /// A zigzag varint.
    #[inline]
    pub fn long(&mut self) -> Result<i64, DatumFault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.all.get(self.at).ok_or(DatumFault::Ends)?;
            self.at += 1;
            // Only one bit of the tenth byte is used.
            if shift == 63 && byte > 1 {
                return Err(DatumFault::Varint);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err(DatumFault::Varint)
    }

    /// Bytes with a length prefix.
    pub fn bytes(&mut self) -> Result<&'a [u8], DatumFault> {
        let length = self.long()?;
        let left = self.all.len() - self.at;
        match usize::try_from(length) {
            Ok(length) if length <= left => self.take(length),
            _ => Err(DatumFault::Length(length, left)),
        }
    }

    /// A decimal with a length prefix: two's complement, big-endian.
    pub fn decimal(&mut self) -> Result<i128, DatumFault> {
        let bytes = self.bytes()?;
        let fault = DatumFault::Decimal(bytes.len());
        if bytes.is_empty() || bytes.len() > 16 {
            return Err(fault);
        }
        let fill = if bytes[0] >= 0x80 { 0xff } else { 0 };
        let mut all = [fill; 16];
        all[16 - bytes.len()..].copy_from_slice(bytes);
        let value = i128::from_be_bytes(all);
        let is_allowed = value.unsigned_abs() < 10_u128.pow(DECIMAL_DIGITS.into());
        if is_allowed { Ok(value) } else { Err(fault) }
    }
}

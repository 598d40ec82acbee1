//! Variable-length numbers, and a reader for untrusted bytes: it never panics, never reads beyond the end, and checks
//! claimed sizes before allocating memory.

use std::fmt;

/// The reason that bytes are not a partial result of a dataflow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MalformedPartial {
    /// Another version.
    Version(u8),
    /// Truncated bytes.
    Short,
    /// A partial result of another dataflow; contains the difference.
    OtherDataflow(&'static str),
    /// Larger than the engine's memory limit.
    TooLarge,
    /// Impossible values.
    Invalid(&'static str),
}

impl fmt::Display for MalformedPartial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MalformedPartial::Version(version) => write!(f, "partial result of version {version}"),
            MalformedPartial::Short => f.write_str("truncated partial result"),
            MalformedPartial::OtherDataflow(what) => {
                write!(f, "partial result of another dataflow: {what}")
            }
            MalformedPartial::TooLarge => f.write_str("partial result that is too large"),
            MalformedPartial::Invalid(what) => {
                write!(f, "malformed partial result: {what} is invalid")
            }
        }
    }
}

impl std::error::Error for MalformedPartial {}

/// Seven bits per byte, least significant first; the top bit marks continuation.
pub fn put(out: &mut Vec<u8>, value: impl Into<u128>) {
    let mut value = value.into();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed number in zigzag encoding.
pub fn put_signed(out: &mut Vec<u8>, value: impl Into<i128>) {
    let value = value.into();
    put(out, ((value << 1) ^ (value >> 127)) as u128);
}

/// A length.
pub fn put_len(out: &mut Vec<u8>, len: usize) {
    put(out, len as u64);
}

/// The eight bytes of a floating point number.
pub fn put_real(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}

/// A length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Eight bits per byte, least significant first.
pub fn put_bits(out: &mut Vec<u8>, bits: impl ExactSizeIterator<Item = bool>) {
    let start = out.len();
    out.resize(start + bits.len().div_ceil(8), 0);
    bits.enumerate()
        .filter(|(_, bit)| *bit)
        .for_each(|(i, _)| out[start + i / 8] |= 1 << (i % 8));
}

/// Maximum tuples of a pane; 2^16 such panes can be merged within 64 bits.
pub const TUPLES_MAX: u64 = 1 << 48;
/// Approximate amount by which a worker exceeds its limit before it reacts.
const BEYOND: usize = 32 << 20;
/// Memory allowed per input byte, if the limit is lower.
const BYTES_OF_BYTE: usize = 64;

/// A reader of untrusted bytes.
pub struct PartialReader<'a> {
    rest: &'a [u8],
    budget: ReadBudget,
}

/// Remaining memory for decoded values.
#[derive(Clone, Copy)]
pub struct ReadBudget(usize);

impl ReadBudget {
    /// A budget of about the memory of windows with `bytes_max`, or of what `read` bytes can produce.
    #[must_use]
    pub fn new(bytes_max: usize, read: usize) -> ReadBudget {
        ReadBudget(
            bytes_max
                .saturating_add(BEYOND)
                .max(read.saturating_mul(BYTES_OF_BYTE)),
        )
    }

    /// Subtracts `bytes` from the budget.
    pub fn spend(&mut self, bytes: usize) -> Result<(), MalformedPartial> {
        self.0 = self
            .0
            .checked_sub(bytes)
            .ok_or(MalformedPartial::TooLarge)?;
        Ok(())
    }
}

/// A bitmap written by [`put_bits`].
#[derive(Clone, Copy)]
pub struct PackedBits<'a>(&'a [u8]);

impl PackedBits<'_> {
    /// The bit at an index.
    #[must_use]
    pub fn get(&self, place: usize) -> bool {
        self.0[place / 8] >> (place % 8) & 1 == 1
    }
}

impl<'a> PartialReader<'a> {
    /// Creates a reader; no memory can be spent before [`PartialReader::allow`].
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> PartialReader<'a> {
        PartialReader {
            rest: bytes,
            budget: ReadBudget(0),
        }
    }

    /// Sets the memory budget for the following values: about the memory of windows with `bytes_max`, or the amount
    /// that the remaining bytes can produce.
    pub fn allow(&mut self, bytes_max: usize) {
        self.budget = ReadBudget::new(bytes_max, self.rest.len());
    }

    /// Subtracts `bytes` from the budget.
    pub fn spend(&mut self, bytes: usize) -> Result<(), MalformedPartial> {
        self.budget.spend(bytes)
    }

    /// Number of remaining bytes.
    #[must_use]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], MalformedPartial> {
        let (taken, rest) = self
            .rest
            .split_at_checked(n)
            .ok_or(MalformedPartial::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    /// One byte.
    pub fn byte(&mut self) -> Result<u8, MalformedPartial> {
        Ok(self.take(1)?[0])
    }

    /// A boolean.
    pub fn flag(&mut self) -> Result<bool, MalformedPartial> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MalformedPartial::Invalid("a flag")),
        }
    }

    /// A number written by [`put`].
    pub fn wide(&mut self) -> Result<u128, MalformedPartial> {
        // Most numbers are short.
        if self.rest.iter().take(8).any(|byte| *byte < 0x80) {
            return self.number().map(u128::from);
        }
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(MalformedPartial::Invalid("a number"))
    }

    /// A number of at most 64 bits.
    #[inline]
    pub fn number(&mut self) -> Result<u64, MalformedPartial> {
        match self.rest {
            [byte @ ..0x80, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, MalformedPartial> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(MalformedPartial::Invalid("a number"))
    }

    /// A number written by [`put_signed`].
    pub fn wide_signed(&mut self) -> Result<i128, MalformedPartial> {
        let value = self.wide()?;
        Ok((value >> 1) as i128 ^ -((value & 1) as i128))
    }

    /// A signed number of at most 64 bits.
    pub fn signed(&mut self) -> Result<i64, MalformedPartial> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A number of at most `max`.
    pub fn up_to(&mut self, max: u64, what: &'static str) -> Result<u64, MalformedPartial> {
        Some(self.number()?)
            .filter(|n| *n <= max)
            .ok_or(MalformedPartial::Invalid(what))
    }

    /// An index or a distance of at most `max`.
    pub fn len_up_to(&mut self, max: usize) -> Result<usize, MalformedPartial> {
        Ok(self.up_to(max as u64, "a place")? as usize)
    }

    /// A number of elements of at least one byte each.
    pub fn len(&mut self) -> Result<usize, MalformedPartial> {
        let len = usize::try_from(self.number()?).map_err(|_| MalformedPartial::Short)?;
        if len > self.rest.len() {
            Err(MalformedPartial::Short)
        } else {
            Ok(len)
        }
    }

    /// A number written by [`put_real`].
    pub fn real(&mut self) -> Result<f64, MalformedPartial> {
        let bytes = self
            .rest
            .first_chunk()
            .copied()
            .ok_or(MalformedPartial::Short)?;
        self.rest = &self.rest[8..];
        Ok(f64::from_le_bytes(bytes))
    }

    /// Bytes written by [`put_bytes`].
    pub fn bytes(&mut self) -> Result<&'a [u8], MalformedPartial> {
        let len = self.len()?;
        self.take(len)
    }

    /// UTF-8 text written by [`put_bytes`].
    pub fn text(&mut self) -> Result<&'a str, MalformedPartial> {
        std::str::from_utf8(self.bytes()?).map_err(|_| MalformedPartial::Invalid("a text"))
    }

    /// A bitmap of `n` bits written by [`put_bits`].
    pub fn bits(&mut self, n: usize) -> Result<PackedBits<'a>, MalformedPartial> {
        Ok(PackedBits(self.take(n.div_ceil(8))?))
    }

    /// A list of `n` elements of at least one byte each.
    pub fn list<T>(
        &mut self,
        n: usize,
        one: impl Fn(&mut PartialReader<'a>) -> Result<T, MalformedPartial>,
    ) -> Result<Vec<T>, MalformedPartial> {
        if n > self.rest.len() {
            return Err(MalformedPartial::Short);
        }
        self.spend(n * size_of::<T>())?;
        (0..n).map(|_| one(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(a in any::<u128>(), b in any::<i128>(), c in any::<u64>(), d in any::<i64>(), shift in 0u32..128) {
            let a = a >> shift;
            let b = b >> shift;
            let mut out = Vec::new();
            put(&mut out, a);
            put_signed(&mut out, b);
            put(&mut out, c);
            put_signed(&mut out, d);
            let mut reader = PartialReader::new(&out);
            prop_assert_eq!(reader.wide(), Ok(a));
            prop_assert_eq!(reader.wide_signed(), Ok(b));
            prop_assert_eq!(reader.number(), Ok(c));
            prop_assert_eq!(reader.signed(), Ok(d));
            prop_assert_eq!(reader.byte(), Err(MalformedPartial::Short));
        }

        #[test]
        fn any_bytes_are_a_number_or_none(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            let _ = (PartialReader::new(&bytes).wide(), PartialReader::new(&bytes).signed(), PartialReader::new(&bytes).len());
        }
    }

    #[test]
    fn bits_come_back() {
        let bits = |n: usize| (0..n).map(|i| i % 3 == 0);
        for n in [0, 1, 7, 8, 9, 30] {
            let mut out = Vec::new();
            put_bits(&mut out, bits(n).collect::<Vec<_>>().into_iter());
            let read = PartialReader::new(&out).bits(n).expect("enough");
            assert!(bits(n).enumerate().all(|(i, bit)| read.get(i) == bit));
            assert!(PartialReader::new(&out).bits(n + 8).is_err());
        }
    }
}

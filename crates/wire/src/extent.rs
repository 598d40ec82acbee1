//! A run of a packet's bytes: those that were captured, and how many there were on the wire. Headers are taken off
//! its front and lengths cut its end, so the two numbers stay right together whatever the snaplen did.

use std::ops::Range;

use crate::Undecodable;

/// Some layer of a packet: the captured bytes of it and its length on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent<'a> {
    /// What was captured of it, from its first byte.
    pub bytes: &'a [u8],
    /// Its length on the wire; never less than `bytes`.
    pub original_len: u32,
}

impl<'a> Extent<'a> {
    /// Of captured `bytes` out of `original_len`; an `original_len` below the captured length is raised to it.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8], original_len: u32) -> Extent<'a> {
        let captured_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Extent { bytes, original_len: original_len.max(captured_len) }
    }

    /// All of `bytes`, nothing cut.
    #[inline]
    #[must_use]
    pub fn whole(bytes: &'a [u8]) -> Extent<'a> {
        Extent::new(bytes, 0)
    }

    /// The first `N` bytes and what follows them.
    ///
    /// # Errors
    /// [`Undecodable::Truncated`] when they were not captured, [`Undecodable::Malformed`] when they never were there.
    #[inline]
    pub fn split_header<const N: usize>(self) -> Result<(&'a [u8; N], Extent<'a>), Undecodable> {
        match self.bytes.split_first_chunk::<N>() {
            Some((header, rest)) => {
                Ok((header, Extent { bytes: rest, original_len: self.original_len - N as u32 }))
            }
            None => Err(self.too_short(N)),
        }
    }

    /// The same for a length that the header states.
    ///
    /// # Errors
    /// As for [`Extent::split_header`].
    #[inline]
    pub fn split_at(self, n: usize) -> Result<(&'a [u8], Extent<'a>), Undecodable> {
        match self.bytes.split_at_checked(n) {
            // `n` is at most the captured length here, which `original_len` is never below.
            Some((header, rest)) => {
                Ok((header, Extent { bytes: rest, original_len: self.original_len - n as u32 }))
            }
            None => Err(self.too_short(n)),
        }
    }

    /// Cut to the `len` bytes that a header says it holds. What lies behind is padding; what is missing was not
    /// captured.
    #[inline]
    #[must_use]
    pub fn limit(self, len: u32) -> Extent<'a> {
        Extent { bytes: &self.bytes[..self.bytes.len().min(len as usize)], original_len: len }
    }

    #[cold]
    fn too_short(self, n: usize) -> Undecodable {
        if (self.original_len as usize) < n { Undecodable::Malformed } else { Undecodable::Truncated }
    }
}

/// A big-endian u16 at a constant place of a fixed header.
#[inline(always)]
pub(crate) fn be16<const N: usize>(header: &[u8; N], at: Range<usize>) -> u16 {
    u16::from_be_bytes(header[at].try_into().expect("a field of two bytes"))
}

/// A big-endian u32 at a constant place of a fixed header.
#[inline(always)]
pub(crate) fn be32<const N: usize>(header: &[u8; N], at: Range<usize>) -> u32 {
    u32::from_be_bytes(header[at].try_into().expect("a field of four bytes"))
}

/// `M` bytes at a constant place of a fixed header.
#[inline(always)]
pub(crate) fn array<const M: usize, const N: usize>(header: &[u8; N], at: Range<usize>) -> [u8; M] {
    header[at].try_into().expect("a field of M bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_cut_from_never_there() {
        let cut = Extent::new(&[1, 2, 3], 10);
        assert_eq!(cut.split_header::<4>(), Err(Undecodable::Truncated));
        assert_eq!(cut.split_at(11), Err(Undecodable::Malformed));
        assert_eq!(Extent::whole(&[1, 2, 3]).split_at(4), Err(Undecodable::Malformed));
    }

    #[test]
    fn both_lengths_move_together() {
        let (header, rest) = Extent::new(&[1, 2, 3], 10).split_header::<2>().expect("two of three");
        assert_eq!((header, rest), (&[1, 2], Extent { bytes: &[3], original_len: 8 }));
        assert_eq!(rest.limit(5), Extent { bytes: &[3], original_len: 5 });
        assert_eq!(rest.limit(0), Extent { bytes: &[], original_len: 0 });
    }

    #[test]
    fn a_wire_length_below_the_captured_one_is_not_believed() {
        assert_eq!(Extent::new(&[1, 2, 3], 1).original_len, 3);
    }
}

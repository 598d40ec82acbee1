//! A range of a packet's bytes with its captured and its original length. Removing headers and limiting lengths keeps
//! both consistent for any snaplen.

use std::ops::Range;

use crate::DecodeError;

/// A layer of a packet: its captured bytes and its length on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent<'a> {
    /// Captured bytes from the start of the layer.
    pub bytes: &'a [u8],
    /// Length on the wire; at least that of `bytes`.
    pub original_len: u32,
}

impl<'a> Extent<'a> {
    /// `bytes` captured out of `original_len`, which is raised to the captured length if lower.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8], original_len: u32) -> Extent<'a> {
        let captured_len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Extent {
            bytes,
            original_len: original_len.max(captured_len),
        }
    }

    /// Completely captured bytes.
    #[inline]
    #[must_use]
    pub fn whole(bytes: &'a [u8]) -> Extent<'a> {
        Extent::new(bytes, 0)
    }

    /// The first `N` bytes and the rest.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if they were not captured, [`DecodeError::Malformed`] if the packet is too short.
    #[inline]
    pub fn split_header<const N: usize>(self) -> Result<(&'a [u8; N], Extent<'a>), DecodeError> {
        match self.bytes.split_first_chunk::<N>() {
            Some((header, rest)) => Ok((
                header,
                Extent {
                    bytes: rest,
                    original_len: self.original_len - N as u32,
                },
            )),
            None => Err(self.too_short(N)),
        }
    }

    /// Same for a length stated in a header.
    ///
    /// # Errors
    /// As for [`Extent::split_header`].
    #[inline]
    pub fn split_at(self, n: usize) -> Result<(&'a [u8], Extent<'a>), DecodeError> {
        match self.bytes.split_at_checked(n) {
            // `n` is at most the captured length, and `original_len` is at least that.
            Some((header, rest)) => Ok((
                header,
                Extent {
                    bytes: rest,
                    original_len: self.original_len - n as u32,
                },
            )),
            None => Err(self.too_short(n)),
        }
    }

    /// Limits the range to the `len` bytes stated in a header. Bytes after it are padding; missing ones were not
    /// captured.
    #[inline]
    #[must_use]
    pub fn limit(self, len: u32) -> Extent<'a> {
        Extent {
            bytes: &self.bytes[..self.bytes.len().min(len as usize)],
            original_len: len,
        }
    }

    #[cold]
    fn too_short(self, n: usize) -> DecodeError {
        if (self.original_len as usize) < n {
            DecodeError::Malformed
        } else {
            DecodeError::Truncated
        }
    }
}

/// Big-endian u16 at a constant position of a fixed header.
#[inline(always)]
pub(crate) fn be16<const N: usize>(header: &[u8; N], at: Range<usize>) -> u16 {
    u16::from_be_bytes(header[at].try_into().expect("a field of two bytes"))
}

/// Big-endian u32 at a constant position of a fixed header.
#[inline(always)]
pub(crate) fn be32<const N: usize>(header: &[u8; N], at: Range<usize>) -> u32 {
    u32::from_be_bytes(header[at].try_into().expect("a field of four bytes"))
}

/// `M` bytes at a constant position of a fixed header.
#[inline(always)]
pub(crate) fn array<const M: usize, const N: usize>(header: &[u8; N], at: Range<usize>) -> [u8; M] {
    header[at].try_into().expect("a field of M bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_and_absent_bytes_are_distinguished() {
        let cut = Extent::new(&[1, 2, 3], 10);
        assert_eq!(cut.split_header::<4>(), Err(DecodeError::Truncated));
        assert_eq!(cut.split_at(11), Err(DecodeError::Malformed));
        assert_eq!(
            Extent::whole(&[1, 2, 3]).split_at(4),
            Err(DecodeError::Malformed)
        );
    }

    #[test]
    fn both_lengths_move_together() {
        let (header, rest) = Extent::new(&[1, 2, 3], 10)
            .split_header::<2>()
            .expect("two of three");
        assert_eq!(
            (header, rest),
            (
                &[1, 2],
                Extent {
                    bytes: &[3],
                    original_len: 8
                }
            )
        );
        assert_eq!(
            rest.limit(5),
            Extent {
                bytes: &[3],
                original_len: 5
            }
        );
        assert_eq!(
            rest.limit(0),
            Extent {
                bytes: &[],
                original_len: 0
            }
        );
    }

    #[test]
    fn a_wire_length_below_the_captured_one_is_not_believed() {
        assert_eq!(Extent::new(&[1, 2, 3], 1).original_len, 3);
    }
}

//! The common start of ICMP (RFC 792) and ICMPv6 (RFC 4443 §2.1) messages: type, code, checksum. The rest depends on
//! the type and is not decoded.

use crate::DecodeError;
use crate::extent::Extent;

mod field {
    pub const KIND: usize = 0;
    pub const CODE: usize = 1;
    pub const END: usize = 4;
}

/// A view of an ICMP or ICMPv6 header.
#[derive(Clone, Copy, Debug)]
pub struct IcmpHeader<'a> {
    header: &'a [u8; field::END],
    payload: Extent<'a>,
}

impl<'a> IcmpHeader<'a> {
    /// Checks the length once.
    ///
    /// # Errors
    /// When there are fewer than 4 bytes.
    #[inline]
    pub fn new_checked(message: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, payload) = message.split_header()?;
        Ok(Self { header, payload })
    }

    /// Type.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> u8 {
        self.header[field::KIND]
    }

    /// Code.
    #[inline]
    #[must_use]
    pub fn code(&self) -> u8 {
        self.header[field::CODE]
    }

    /// Body after the checksum.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deconstruct() {
        let icmp = IcmpHeader::new_checked(Extent::whole(&[3, 1, 0, 0, 9])).expect("long enough");
        assert_eq!(
            (icmp.kind(), icmp.code(), icmp.payload().bytes),
            (3, 1, &[9][..])
        );
    }

    #[test]
    fn too_short() {
        assert_eq!(
            IcmpHeader::new_checked(Extent::new(&[3, 1, 0], 8)).err(),
            Some(DecodeError::Truncated)
        );
        assert_eq!(
            IcmpHeader::new_checked(Extent::whole(&[3, 1, 0])).err(),
            Some(DecodeError::Malformed)
        );
    }
}

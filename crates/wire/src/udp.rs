//! UDP headers (RFC 768). The length field determines the end of the payload; 0 is a jumbogram (RFC 2675 §4) or a
//! datagram that the adapter will divide, and means unlimited.

use crate::DecodeError;
use crate::extent::{Extent, be16};

mod field {
    use std::ops::Range;
    pub const SRC_PORT: Range<usize> = 0..2;
    pub const DST_PORT: Range<usize> = 2..4;
    pub const LEN: Range<usize> = 4..6;
    pub const END: usize = 8;
}

/// Length of a UDP header.
pub(crate) const HEADER_LEN: usize = field::END;

/// A view of a UDP header with its payload.
#[derive(Clone, Copy, Debug)]
pub struct UdpHeader<'a> {
    header: &'a [u8; field::END],
    payload: Extent<'a>,
}

impl<'a> UdpHeader<'a> {
    /// Checks the lengths once.
    ///
    /// # Errors
    /// When the header is cut, or its length field is below the header length or above the datagram's.
    #[inline]
    pub fn new_checked(datagram: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, rest) = datagram.split_header::<{ field::END }>()?;
        let payload = match u32::from(be16(header, field::LEN)) {
            0 => rest,
            len => {
                let len = len
                    .checked_sub(field::END as u32)
                    .ok_or(DecodeError::Malformed)?;
                if len > rest.original_len {
                    return Err(DecodeError::Malformed);
                }
                rest.limit(len)
            }
        };
        Ok(Self { header, payload })
    }

    /// Sender's port.
    #[inline]
    #[must_use]
    pub fn src_port(&self) -> u16 {
        be16(self.header, field::SRC_PORT)
    }

    /// Receiver's port.
    #[inline]
    #[must_use]
    pub fn dst_port(&self) -> u16 {
        be16(self.header, field::DST_PORT)
    }

    /// The payload, limited by the length field.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATAGRAM: [u8; 12] = [0, 53, 0x80, 0, 0, 10, 0, 0, 1, 2, 3, 4];

    fn check(len: u8, captured: usize, original: u32, expected: Result<(&[u8], u32), DecodeError>) {
        let mut datagram = DATAGRAM;
        datagram[5] = len;
        let view = UdpHeader::new_checked(Extent::new(&datagram[..captured], original));
        assert_eq!(
            view.map(|u| (u.payload().bytes, u.payload().original_len)),
            expected
        );
    }

    #[test]
    fn deconstruct() {
        let udp = UdpHeader::new_checked(Extent::whole(&DATAGRAM)).expect("valid");
        assert_eq!((udp.src_port(), udp.dst_port()), (53, 0x8000));
        assert_eq!(udp.payload(), Extent::whole(&[1, 2]));
    }

    #[test]
    fn lengths() {
        check(12, 12, 12, Ok((&[1, 2, 3, 4], 4)));
        check(8, 12, 12, Ok((&[], 0)));
        check(0, 12, 12, Ok((&[1, 2, 3, 4], 4)));
        check(100, 12, 100, Ok((&[1, 2, 3, 4], 92)));
        check(7, 12, 12, Err(DecodeError::Malformed));
        check(13, 12, 12, Err(DecodeError::Malformed));
        check(12, 7, 12, Err(DecodeError::Truncated));
        check(12, 7, 7, Err(DecodeError::Malformed));
    }
}

//! Network service headers (RFC 8300 §2); metadata is skipped.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16, be32};

/// Base header and service path header.
const LEN_MIN: usize = 8;

/// A view of a network service header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NshHeader<'a> {
    /// Service path identifier.
    pub path: u32,
    /// The content's EtherType; [`EtherType::BRIDGED`] for a frame.
    pub ether_type: EtherType,
    /// The content.
    pub payload: Extent<'a>,
}

impl<'a> NshHeader<'a> {
    /// Checks version and length once.
    ///
    /// # Errors
    /// [`DecodeError::UnknownTunnel`] for other versions and contents; otherwise if it is cut, or its length is
    /// impossible.
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, DecodeError> {
        let (start, _) = packet.split_header::<LEN_MIN>()?;
        let len = usize::from(be16(start, 0..2) & 0x3f) * 4;
        if start[0] >> 6 != 0 {
            return Err(DecodeError::UnknownTunnel);
        } else if len < LEN_MIN {
            return Err(DecodeError::Malformed);
        }
        let ether_type = match start[3] {
            1 => EtherType::IPV4,
            2 => EtherType::IPV6,
            3 => EtherType::BRIDGED,
            4 => EtherType::NSH,
            5 => EtherType::MPLS,
            _ => return Err(DecodeError::UnknownTunnel),
        };
        Ok(Self {
            path: be32(start, 4..8) >> 8,
            ether_type,
            payload: packet.split_at(len)?.1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_passed_over() {
        let plain = [0x0f, 0xc2, 2, 1, 0, 0, 7, 255, 9];
        let expected = NshHeader {
            path: 7,
            ether_type: EtherType::IPV4,
            payload: Extent::whole(&[9]),
        };
        assert_eq!(NshHeader::new_checked(Extent::whole(&plain)), Ok(expected));
        let long = [&[0x0f, 0xc6, 1, 1, 0, 0, 7, 255][..], &[0; 16], &[9]].concat();
        assert_eq!(NshHeader::new_checked(Extent::whole(&long)), Ok(expected));
        assert_eq!(
            NshHeader::new_checked(Extent::whole(&[0x0f, 0xc1, 2, 1, 0, 0, 7, 255])),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            NshHeader::new_checked(Extent::whole(&[0x4f, 0xc2, 2, 1, 0, 0, 7, 255])),
            Err(DecodeError::UnknownTunnel)
        );
    }
}

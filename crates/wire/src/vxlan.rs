//! VXLAN headers (RFC 7348 §5), including the generic protocol extension (draft-ietf-nvo3-vxlan-gpe-12 §3.1), which
//! names its content.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be32};

/// The port assigned by IANA, and Linux's earlier default.
pub const PORTS: [u16; 2] = [4789, 8472];
/// The port of the generic protocol extension.
pub const GPE_PORT: u16 = 4790;

const HAS_NETWORK: u8 = 0x08;
const HAS_PROTOCOL: u8 = 0x04;

/// Fields of a VXLAN header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VxlanHeader<'a> {
    /// The virtual network's number (VNI).
    pub network: u32,
    /// Type of the content; `None`: an Ethernet frame.
    pub ether_type: Option<EtherType>,
    /// The content.
    pub payload: Extent<'a>,
}

impl<'a> VxlanHeader<'a> {
    /// Parses a datagram to one of [`PORTS`], with a frame inside, or to [`GPE_PORT`].
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] for other contents; otherwise if it is cut.
    pub fn new_checked(datagram: Extent<'a>, port: u16) -> Result<Self, DecodeError> {
        let (header, payload) = datagram.split_header::<8>()?;
        let is_typed = port == GPE_PORT && header[0] & HAS_PROTOCOL != 0;
        let ether_type = match header[3] {
            _ if header[0] & HAS_NETWORK == 0 => return Err(DecodeError::Malformed),
            _ if !is_typed => None,
            1 => Some(EtherType::IPV4),
            2 => Some(EtherType::IPV6),
            3 => None,
            4 => Some(EtherType::NSH),
            5 => Some(EtherType::MPLS),
            _ => return Err(DecodeError::Malformed),
        };
        Ok(Self {
            network: be32(header, 4..8) >> 8,
            ether_type,
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds() {
        let plain = [8, 0, 0, 0, 0, 0, 5, 0xff, 9];
        let expected = VxlanHeader {
            network: 5,
            ether_type: None,
            payload: Extent::whole(&[9]),
        };
        assert_eq!(
            VxlanHeader::new_checked(Extent::whole(&plain), PORTS[0]),
            Ok(expected)
        );
        let typed = [0x0c, 0, 0, 2, 0, 0, 5, 0, 9];
        let of_v6 = VxlanHeader {
            ether_type: Some(EtherType::IPV6),
            ..expected
        };
        assert_eq!(
            VxlanHeader::new_checked(Extent::whole(&typed), GPE_PORT),
            Ok(of_v6)
        );
        assert_eq!(
            VxlanHeader::new_checked(Extent::whole(&typed), PORTS[1]),
            Ok(expected)
        );
    }

    #[test]
    fn cut() {
        let cut = VxlanHeader::new_checked(Extent::new(&[8; 7], 8), PORTS[0]);
        assert_eq!(cut, Err(DecodeError::Truncated));
    }

    #[test]
    fn something_else() {
        assert_eq!(
            VxlanHeader::new_checked(Extent::whole(&[0x80; 8]), PORTS[0]),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            VxlanHeader::new_checked(Extent::whole(&[8; 7]), PORTS[0]),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            VxlanHeader::new_checked(Extent::whole(&[0x0c, 0, 0, 9, 0, 0, 0, 0]), GPE_PORT),
            Err(DecodeError::Malformed)
        );
    }
}

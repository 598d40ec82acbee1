//! LLC headers (IEEE 802.2) with SNAP (IEEE 802 §9.2), used by 802.3 frames, 802.11, token ring, FDDI, and ATM
//! instead of an EtherType.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16};

const SNAP: [u8; 3] = [0xaa, 0xaa, 3];
const IP: [u8; 3] = [6, 6, 3];
/// Organization codes followed by an EtherType: RFC 1042, and 802.1H bridges.
const WITH_ETHER_TYPE: [[u8; 3]; 2] = [[0, 0, 0], [0, 0, 0xf8]];

/// Content of an LLC header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlcContent<'a> {
    /// A protocol with an EtherType.
    Typed(EtherType, Extent<'a>),
    /// Another protocol, by destination service access point.
    Other(u8),
}

impl<'a> LlcContent<'a> {
    /// Checks the lengths once.
    ///
    /// # Errors
    /// When a header is cut.
    pub fn new_checked(frame: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, rest) = frame.split_header::<3>()?;
        match *header {
            IP => Ok(Self::Typed(EtherType::IPV4, rest)),
            SNAP => {
                let (snap, rest) = rest.split_header::<5>()?;
                if WITH_ETHER_TYPE
                    .iter()
                    .any(|organization| snap.starts_with(organization))
                {
                    Ok(Self::Typed(EtherType(be16(snap, 3..5)), rest))
                } else {
                    Ok(Self::Other(SNAP[0]))
                }
            }
            [destination, ..] => Ok(Self::Other(destination)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_and_without_snap() {
        let rest = Extent::whole(&[9]);
        for (frame, expected) in [
            (
                &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0, 9][..],
                Ok(LlcContent::Typed(EtherType::IPV4, rest)),
            ),
            (
                &[0xaa, 0xaa, 3, 0, 0, 0xf8, 0x86, 0xdd, 9],
                Ok(LlcContent::Typed(EtherType::IPV6, rest)),
            ),
            (
                &[0xaa, 0xaa, 3, 0, 0, 0x0c, 0x20, 0, 9],
                Ok(LlcContent::Other(0xaa)),
            ),
            (&[6, 6, 3, 9], Ok(LlcContent::Typed(EtherType::IPV4, rest))),
            (&[0x42, 0x42, 3, 0], Ok(LlcContent::Other(0x42))),
            (&[0xaa, 0xaa], Err(DecodeError::Malformed)),
            (&[0xaa, 0xaa, 3, 0], Err(DecodeError::Malformed)),
        ] {
            assert_eq!(
                LlcContent::new_checked(Extent::whole(frame)),
                expected,
                "{frame:x?}"
            );
        }
    }
}

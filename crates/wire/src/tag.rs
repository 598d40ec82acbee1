//! Tags between an Ethernet header and its content that contain only the next EtherType of interest: Cisco metadata
//! (CMD, with a security group), VN-Tag, 802.1BR E-Tag, and HSR. PRP has a trailer instead, which is padding to IP.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16};

/// Maximum number of these tags removed from one packet.
pub const TAGS_MAX: usize = 8;

const CISCO_METADATA: EtherType = EtherType(0x8909);
const VN_TAG: EtherType = EtherType(0x8926);
const E_TAG: EtherType = EtherType(0x893f);
const HSR: EtherType = EtherType(0x892f);

/// Removes a tag; returns the next EtherType and its payload. `None` if `ether_type` announces no tag.
///
/// # Errors
/// When the tag is cut.
pub fn peel(
    ether_type: EtherType,
    tag: Extent<'_>,
) -> Result<Option<(EtherType, Extent<'_>)>, DecodeError> {
    let len = match ether_type {
        VN_TAG | HSR => 4,
        E_TAG => 6,
        // Version, then the number of options of four bytes each.
        CISCO_METADATA => 2 + 4 * usize::from(tag.split_header::<2>()?.0[1]),
        _ => return Ok(None),
    };
    let (_, rest) = tag.split_at(len)?;
    let (next, rest) = rest.split_header::<2>()?;
    Ok(Some((EtherType(be16(next, 0..2)), rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag() {
        for (ether_type, tag) in [
            (CISCO_METADATA, &[1, 1, 0, 1, 0, 7][..]),
            (CISCO_METADATA, &[1, 2, 0, 1, 0, 7, 0, 1, 0, 8]),
            (VN_TAG, &[0; 4]),
            (E_TAG, &[0; 6]),
            (HSR, &[0; 4]),
        ] {
            let bytes = [tag, &[8, 0, 9]].concat();
            let expected = Some((EtherType::IPV4, Extent::whole(&[9])));
            assert_eq!(
                peel(ether_type, Extent::whole(&bytes)),
                Ok(expected),
                "{ether_type:x?}"
            );
            let cut = Extent::new(&bytes[..tag.len()], 60);
            assert_eq!(
                peel(ether_type, cut),
                Err(DecodeError::Truncated),
                "{ether_type:x?}"
            );
        }
        assert_eq!(peel(EtherType::IPV4, Extent::whole(&[])), Ok(None));
    }
}

//! VLAN tags: 802.1Q, and 802.1ad service tags stacked on them (IEEE 802.1Q-2022 §9.6). At most [`TAGS_MAX`] are
//! removed from one packet.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16};

/// Maximum tags removed from one packet: provider bridging stacks two, some carriers three or four.
pub const TAGS_MAX: usize = 8;

mod field {
    use std::ops::Range;
    pub const CONTROL: Range<usize> = 0..2;
    pub const ETHER_TYPE: Range<usize> = 2..4;
    pub const END: usize = ETHER_TYPE.end;
}

/// View of a tag, after the EtherType that announced it.
#[derive(Clone, Copy, Debug)]
pub struct VlanTag<'a> {
    header: &'a [u8; field::END],
    payload: Extent<'a>,
}

impl<'a> VlanTag<'a> {
    /// Checks the length once.
    ///
    /// # Errors
    /// When there are fewer than 4 bytes.
    #[inline]
    pub fn new_checked(tag: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, payload) = tag.split_header()?;
        Ok(Self { header, payload })
    }

    /// VLAN number; 0 is a priority tag.
    #[must_use]
    pub fn id(&self) -> u16 {
        be16(self.header, field::CONTROL) & 0x0fff
    }

    /// Priority code point.
    #[must_use]
    pub fn priority(&self) -> u8 {
        (be16(self.header, field::CONTROL) >> 13) as u8
    }

    /// Type of the payload.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.header, field::ETHER_TYPE))
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

/// Removes all stacked tags: returns the first other EtherType, its payload, and the number of the last VLAN.
///
/// # Errors
/// If a tag is cut, or there are more than [`TAGS_MAX`].
pub fn peel(
    mut ether_type: EtherType,
    mut rest: Extent<'_>,
) -> Result<(EtherType, Extent<'_>, Option<u16>), DecodeError> {
    let mut vlan = None;
    for _ in 0..TAGS_MAX {
        if !ether_type.is_vlan() {
            return Ok((ether_type, rest, vlan));
        }
        let tag = VlanTag::new_checked(rest)?;
        ether_type = tag.ether_type();
        rest = tag.payload();
        vlan = number(tag.id()).or(vlan);
    }
    if ether_type.is_vlan() {
        Err(DecodeError::Malformed)
    } else {
        Ok((ether_type, rest, vlan))
    }
}

/// VLAN of a tag's id; 0 is no VLAN.
#[inline]
pub(crate) fn number(id: u16) -> Option<u16> {
    (id != 0).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deconstruct() {
        let tag =
            VlanTag::new_checked(Extent::whole(&[0xa0, 0x64, 0x86, 0xdd, 9])).expect("long enough");
        assert_eq!(
            (tag.id(), tag.priority(), tag.ether_type()),
            (100, 5, EtherType::IPV6)
        );
        assert_eq!(tag.payload().bytes, [9]);
    }

    #[test]
    fn too_short() {
        assert_eq!(
            VlanTag::new_checked(Extent::new(&[0; 3], 4)).err(),
            Some(DecodeError::Truncated)
        );
        assert_eq!(
            VlanTag::new_checked(Extent::whole(&[0; 3])).err(),
            Some(DecodeError::Malformed)
        );
    }

    #[test]
    fn stacked_up_to_the_bound() {
        let stack = |n: usize| {
            [[0, 1, 0x81, 0x00]]
                .repeat(n - 1)
                .concat()
                .into_iter()
                .chain([0, 1, 8, 0, 7])
        };
        for n in 1..=TAGS_MAX {
            let bytes: Vec<u8> = stack(n).collect();
            let (ether_type, rest, vlan) =
                peel(EtherType::QINQ, Extent::whole(&bytes)).expect("within the bound");
            assert_eq!(
                (ether_type, rest.bytes, vlan),
                (EtherType::IPV4, &[7][..], Some(1)),
                "{n} tags"
            );
        }
        let bytes: Vec<u8> = stack(TAGS_MAX + 1).collect();
        assert_eq!(
            peel(EtherType::QINQ, Extent::whole(&bytes)).err(),
            Some(DecodeError::Malformed)
        );
    }
}

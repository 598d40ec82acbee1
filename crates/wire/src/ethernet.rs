//! Ethernet II frames (IEEE 802.3 §3.2.6) and the EtherTypes that are decoded. Frames whose type field is a length
//! (below 1536) carry LLC ([`crate::llc`]); the frame check sequence is ignored.

use crate::DecodeError;
use crate::extent::{Extent, array, be16};

mod field {
    use std::ops::Range;
    pub const DST: Range<usize> = 0..6;
    pub const SRC: Range<usize> = 6..12;
    pub const ETHER_TYPE: Range<usize> = 12..14;
    pub const END: usize = ETHER_TYPE.end;
}

/// Protocol after a link header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: EtherType = EtherType(0x0800);
    /// IPv6.
    pub const IPV6: EtherType = EtherType(0x86dd);
    /// An 802.1Q tag.
    pub const VLAN: EtherType = EtherType(0x8100);
    /// An 802.1ad service tag.
    pub const QINQ: EtherType = EtherType(0x88a8);
    /// A service tag of older switches.
    pub const QINQ_OLD: EtherType = EtherType(0x9100);
    /// A stack of MPLS labels.
    pub const MPLS: EtherType = EtherType(0x8847);
    /// MPLS labels for multicast, or upstream-assigned (RFC 5332).
    pub const MPLS_MULTICAST: EtherType = EtherType(0x8848);
    /// PPPoE session data.
    pub const PPPOE: EtherType = EtherType(0x8864);
    /// A provider backbone's I-tag (IEEE 802.1ah).
    pub const BACKBONE: EtherType = EtherType(0x88e7);
    /// A network service header.
    pub const NSH: EtherType = EtherType(0x894f);
    /// In tunnels: an Ethernet frame (RFC 1701 calls it transparent Ethernet bridging).
    pub const BRIDGED: EtherType = EtherType(0x6558);
    /// In GRE: ERSPAN of type I or II.
    pub const ERSPAN_TWO: EtherType = EtherType(0x88be);
    /// In GRE: ERSPAN of type III.
    pub const ERSPAN_THREE: EtherType = EtherType(0x22eb);

    /// Whether it is the length of an 802.3 frame with LLC.
    #[must_use]
    pub fn is_length(self) -> bool {
        self.0 < 1536
    }

    /// Whether a [`crate::vlan::VlanTag`] follows.
    #[inline]
    #[must_use]
    pub fn is_vlan(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ | Self::QINQ_OLD)
    }
}

/// View of an Ethernet frame.
#[derive(Clone, Copy, Debug)]
pub struct EthernetFrame<'a> {
    header: &'a [u8; field::END],
    payload: Extent<'a>,
}

impl<'a> EthernetFrame<'a> {
    /// Checks the length once; the accessors cannot fail after that.
    ///
    /// # Errors
    /// When there are fewer than 14 bytes.
    #[inline]
    pub fn new_checked(frame: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, payload) = frame.split_header()?;
        Ok(Self { header, payload })
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> [u8; 6] {
        array(self.header, field::DST)
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> [u8; 6] {
        array(self.header, field::SRC)
    }

    /// Type of the payload; a value below 1536 is the length of an LLC payload.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.header, field::ETHER_TYPE))
    }

    /// The payload, including padding.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 16] = [
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x08, 0x00, 0x45, 0x00,
    ];

    #[test]
    fn deconstruct() {
        let frame = EthernetFrame::new_checked(Extent::new(&FRAME, 60)).expect("long enough");
        assert_eq!(frame.dst(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(frame.src(), [7, 8, 9, 10, 11, 12]);
        assert_eq!(frame.ether_type(), EtherType::IPV4);
        assert_eq!(
            frame.payload(),
            Extent {
                bytes: &[0x45, 0],
                original_len: 46
            }
        );
    }

    #[test]
    fn too_short() {
        for n in 0..14 {
            let cut = Extent::new(&FRAME[..n], 60);
            assert_eq!(
                EthernetFrame::new_checked(cut).err(),
                Some(DecodeError::Truncated),
                "{n} bytes"
            );
            let runt = Extent::whole(&FRAME[..n]);
            assert_eq!(
                EthernetFrame::new_checked(runt).err(),
                Some(DecodeError::Malformed),
                "{n} bytes"
            );
        }
    }
}

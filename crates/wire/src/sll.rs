//! Linux cooked headers, used by captures of the `any` device: v1 (LINKTYPE_LINUX_SLL) and v2 (LINKTYPE_LINUX_SLL2),
//! <https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html>. The sender's link address is not kept.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16, be32};

mod field_v1 {
    use std::ops::Range;
    pub const PACKET_TYPE: Range<usize> = 0..2;
    pub const PROTOCOL: Range<usize> = 14..16;
    pub const END: usize = PROTOCOL.end;
}

mod field_v2 {
    use std::ops::Range;
    pub const PROTOCOL: Range<usize> = 0..2;
    pub const INTERFACE: Range<usize> = 4..8;
    pub const PACKET_TYPE: usize = 10;
    pub const END: usize = 20;
}

/// A view of a v1 header.
#[derive(Clone, Copy, Debug)]
pub struct SllHeader<'a> {
    header: &'a [u8; field_v1::END],
    payload: Extent<'a>,
}

impl<'a> SllHeader<'a> {
    /// Checks the length once.
    ///
    /// # Errors
    /// When there are fewer than 16 bytes.
    #[inline]
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, payload) = packet.split_header()?;
        Ok(Self { header, payload })
    }

    /// 0 to this host, 1 broadcast, 2 multicast, 3 to another host, 4 from this host.
    #[must_use]
    pub fn packet_type(&self) -> u16 {
        be16(self.header, field_v1::PACKET_TYPE)
    }

    /// Type of the payload; values below 1536 are not IP.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.header, field_v1::PROTOCOL))
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

/// A view of a v2 header.
#[derive(Clone, Copy, Debug)]
pub struct Sll2Header<'a> {
    header: &'a [u8; field_v2::END],
    payload: Extent<'a>,
}

impl<'a> Sll2Header<'a> {
    /// Checks the length once.
    ///
    /// # Errors
    /// When there are fewer than 20 bytes.
    #[inline]
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, payload) = packet.split_header()?;
        Ok(Self { header, payload })
    }

    /// As for v1.
    #[must_use]
    pub fn packet_type(&self) -> u8 {
        self.header[field_v2::PACKET_TYPE]
    }

    /// Index of the interface on the capturing machine.
    #[must_use]
    pub fn interface(&self) -> u32 {
        be32(self.header, field_v2::INTERFACE)
    }

    /// Type of the payload; values below 1536 are not IP.
    #[inline]
    #[must_use]
    pub fn ether_type(&self) -> EtherType {
        EtherType(be16(self.header, field_v2::PROTOCOL))
    }

    /// The payload.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: [u8; 17] = [0, 4, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 0x86, 0xdd, 0x60];
    const V2: [u8; 21] = [
        8, 0, 0, 0, 0, 0, 0, 3, 0, 1, 4, 6, 2, 2, 2, 2, 2, 2, 0, 0, 0x45,
    ];

    #[test]
    fn deconstruct() {
        let v1 = SllHeader::new_checked(Extent::new(&V1, 100)).expect("long enough");
        assert_eq!((v1.packet_type(), v1.ether_type()), (4, EtherType::IPV6));
        assert_eq!(
            v1.payload(),
            Extent {
                bytes: &[0x60],
                original_len: 84
            }
        );
        let v2 = Sll2Header::new_checked(Extent::new(&V2, 100)).expect("long enough");
        assert_eq!(
            (v2.packet_type(), v2.interface(), v2.ether_type()),
            (4, 3, EtherType::IPV4)
        );
        assert_eq!(
            v2.payload(),
            Extent {
                bytes: &[0x45],
                original_len: 80
            }
        );
    }

    #[test]
    fn too_short() {
        assert_eq!(
            SllHeader::new_checked(Extent::new(&V1[..15], 100)).err(),
            Some(DecodeError::Truncated)
        );
        assert_eq!(
            Sll2Header::new_checked(Extent::new(&V2[..19], 100)).err(),
            Some(DecodeError::Truncated)
        );
        assert_eq!(
            Sll2Header::new_checked(Extent::whole(&V2[..19])).err(),
            Some(DecodeError::Malformed)
        );
    }
}

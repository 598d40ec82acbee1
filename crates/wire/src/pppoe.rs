//! PPPoE sessions (RFC 2516 §4) and the PPP protocol field behind them (RFC 1661 §2), where it says IP. The length is not
//! looked at: that of the packet inside says the same.

use crate::Undecodable;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16};

/// A view of a PPPoE session header with the PPP protocol.
#[derive(Clone, Copy, Debug)]
pub struct PppoeHeader<'a> {
    header: &'a [u8; 8],
    payload: Extent<'a>,
}

impl<'a> PppoeHeader<'a> {
    /// Looks at the length and the version once.
    ///
    /// # Errors
    /// When there are not 8 bytes, or version, type and code are not those of session data.
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, Undecodable> {
        let (header, payload) = packet.split_header()?;
        if header[..2] != [0x11, 0] {
            return Err(Undecodable::Malformed);
        }
        Ok(Self { header, payload })
    }

    /// The session's number.
    #[must_use]
    pub fn session(&self) -> u16 {
        be16(self.header, 2..4)
    }

    /// What is inside, as Ethernet calls it; `None`: PPP's own (LCP, authentication …).
    #[must_use]
    pub fn ether_type(&self) -> Option<EtherType> {
        match be16(self.header, 6..8) {
            0x0021 => Some(EtherType::IPV4),
            0x0057 => Some(EtherType::IPV6),
            0x0281 => Some(EtherType::MPLS),
            _ => None,
        }
    }

    /// What follows, padding included.
    #[must_use]
    pub fn payload(&self) -> Extent<'a> {
        self.payload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 9] = [0x11, 0, 0, 7, 0, 3, 0, 0x57, 0x60];

    #[test]
    fn deconstruct() {
        let header = PppoeHeader::new_checked(Extent::whole(&PACKET)).expect("session data");
        assert_eq!((header.session(), header.ether_type()), (7, Some(EtherType::IPV6)));
        assert_eq!(header.payload().bytes, [0x60]);
    }

    #[test]
    fn too_short_or_not_data() {
        assert_eq!(
            PppoeHeader::new_checked(Extent::new(&PACKET[..7], 9)).err(),
            Some(Undecodable::Truncated)
        );
        let mut discovery = PACKET;
        discovery[1] = 9;
        assert_eq!(PppoeHeader::new_checked(Extent::whole(&discovery)).err(), Some(Undecodable::Malformed));
    }
}

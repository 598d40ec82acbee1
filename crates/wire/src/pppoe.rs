//! PPPoE session headers (RFC 2516 §4); PPP ([`crate::ppp`]) follows. The length is ignored: the inner packet states
//! the same.

use crate::DecodeError;
use crate::extent::{Extent, be16};

/// A view of a PPPoE session header.
#[derive(Clone, Copy, Debug)]
pub struct PppoeHeader<'a> {
    header: &'a [u8; 6],
    payload: Extent<'a>,
}

impl<'a> PppoeHeader<'a> {
    /// Checks length and version once.
    ///
    /// # Errors
    /// When there are fewer than 6 bytes, or version, type, and code are not those of session data.
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, payload) = packet.split_header()?;
        if header[..2] != [0x11, 0] {
            return Err(DecodeError::Malformed);
        }
        Ok(Self { header, payload })
    }

    /// The session's number.
    #[must_use]
    pub fn session(&self) -> u16 {
        be16(self.header, 2..4)
    }

    /// The PPP frame, padding included.
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
        assert_eq!(
            (header.session(), header.payload().bytes),
            (7, &PACKET[6..])
        );
    }

    #[test]
    fn too_short_or_not_data() {
        assert_eq!(
            PppoeHeader::new_checked(Extent::new(&PACKET[..5], 9)).err(),
            Some(DecodeError::Truncated)
        );
        let mut discovery = PACKET;
        discovery[1] = 9;
        assert_eq!(
            PppoeHeader::new_checked(Extent::whole(&discovery)).err(),
            Some(DecodeError::Malformed)
        );
    }
}

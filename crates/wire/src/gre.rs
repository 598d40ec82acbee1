//! GRE headers of version 0 (RFC 2784, with the key and sequence number of RFC 2890). Source routes (RFC 1701) and
//! version 1 (PPTP, RFC 2637) are rejected. The checksum is not verified.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16, be32};

const CHECKSUM: u16 = 0x8000;
const ROUTING: u16 = 0x4000;
const KEY: u16 = 0x2000;
const SEQUENCE: u16 = 0x1000;
const VERSION: u16 = 0x0007;

/// Fields of a GRE header.
#[derive(Clone, Copy, Debug)]
pub struct GreHeader<'a> {
    /// Type of the content.
    pub ether_type: EtherType,
    /// The key, if present.
    pub key: Option<u32>,
    /// Whether a sequence number is present; with ERSPAN this implies an ERSPAN header.
    pub is_numbered: bool,
    /// The content.
    pub payload: Extent<'a>,
}

impl<'a> GreHeader<'a> {
    /// Parses flags and lengths once.
    ///
    /// # Errors
    /// [`DecodeError::UnknownTunnel`] for other versions or a source route; otherwise if it is cut.
    pub fn new_checked(packet: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, mut rest) = packet.split_header::<4>()?;
        let flags = be16(header, 0..2);
        if flags & (VERSION | ROUTING) != 0 {
            return Err(DecodeError::UnknownTunnel);
        }
        let mut option = |flag: u16| match flags & flag {
            0 => Ok(None),
            _ => rest.split_header::<4>().map(|(word, behind)| {
                rest = behind;
                Some(be32(word, 0..4))
            }),
        };
        let _checksum = option(CHECKSUM)?;
        let key = option(KEY)?;
        let number = option(SEQUENCE)?;
        Ok(Self {
            ether_type: EtherType(be16(header, 2..4)),
            key,
            is_numbered: number.is_some(),
            payload: rest,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(flags: u8, expected: Result<(Option<u32>, bool, &[u8]), DecodeError>) {
        let packet = [flags, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3];
        let header = GreHeader::new_checked(Extent::whole(&packet));
        assert_eq!(
            header.map(|h| (h.key, h.is_numbered, h.payload.bytes)),
            expected,
            "{flags:x}"
        );
    }

    #[test]
    fn every_option() {
        check(0, Ok((None, false, &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3])));
        check(0x20, Ok((Some(1), false, &[0, 0, 0, 2, 0, 0, 0, 3])));
        check(0x30, Ok((Some(1), true, &[0, 0, 0, 3])));
        check(0xb0, Ok((Some(2), true, &[])));
        check(0x40, Err(DecodeError::UnknownTunnel));
        assert_eq!(
            GreHeader::new_checked(Extent::whole(&[0, 1, 8, 0])).err(),
            Some(DecodeError::UnknownTunnel)
        );
    }

    #[test]
    fn too_short() {
        for n in 0..12 {
            let packet = [0xa0, 0, 8, 0, 0, 0, 0, 1, 0, 0, 0, 2];
            let header = GreHeader::new_checked(Extent::new(&packet[..n], 12));
            assert_eq!(header.err(), Some(DecodeError::Truncated), "{n} bytes");
        }
    }
}

//! Frame relay (LINKTYPE_FRELAY): a Q.922 address of two to four bytes, followed by the encapsulation of RFC 2427
//! (control byte and network layer protocol) or Cisco's, an EtherType.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16};
use crate::llc::LlcContent;

const UNNUMBERED: u8 = 3;
const SNAP: u8 = 0x80;
/// Minimum EtherType.
const ETHER_TYPES: u16 = 0x0600;

/// The content, by its EtherType or by its network layer protocol.
///
/// # Errors
/// When a header is cut, or the address does not end.
pub fn open(frame: Extent<'_>) -> Result<LlcContent<'_>, DecodeError> {
    let (_, rest) = frame.split_at(address_len(frame)?)?;
    let (start, behind) = rest.split_header::<2>()?;
    if be16(start, 0..2) >= ETHER_TYPES {
        return Ok(LlcContent::Typed(EtherType(be16(start, 0..2)), behind));
    }
    // A byte of padding may precede the protocol.
    let (protocol, behind) = match *start {
        [UNNUMBERED, 0] => behind
            .split_header::<1>()
            .map(|([protocol], behind)| (*protocol, behind))?,
        [UNNUMBERED, protocol] => (protocol, behind),
        [control, _] => return Ok(LlcContent::Other(control)),
    };
    match protocol {
        0xcc => Ok(LlcContent::Typed(EtherType::IPV4, behind)),
        0x8e => Ok(LlcContent::Typed(EtherType::IPV6, behind)),
        SNAP => {
            let (snap, behind) = behind.split_header::<5>()?;
            match snap[..3] {
                [0, 0, 0] => Ok(LlcContent::Typed(EtherType(be16(snap, 3..5)), behind)),
                _ => Ok(LlcContent::Other(SNAP)),
            }
        }
        other => Ok(LlcContent::Other(other)),
    }
}

/// Length of the address, whose last byte has its lowest bit set.
fn address_len(frame: Extent<'_>) -> Result<usize, DecodeError> {
    for len in 1..=4 {
        let (address, _) = frame.split_at(len)?;
        if address[len - 1] & 1 == 1 {
            return Ok(len);
        }
    }
    Err(DecodeError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encapsulations() {
        let v4 = Ok(LlcContent::Typed(EtherType::IPV4, Extent::whole(&[9])));
        for (frame, expected) in [
            (&[0x18, 0x41, 3, 0xcc, 9][..], v4),
            (&[0x18, 0x40, 0x40, 0x41, 3, 0xcc, 9], v4),
            (&[0x18, 0x41, 8, 0, 9], v4),
            (&[0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0, 9], v4),
            (&[0x18, 0x41, 3, 0x81, 9], Ok(LlcContent::Other(0x81))),
            (&[0x18, 0x40, 0x40, 0x40, 3], Err(DecodeError::Malformed)),
        ] {
            assert_eq!(open(Extent::whole(frame)), expected, "{frame:x?}");
        }
    }
}

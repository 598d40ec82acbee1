//! Cisco HDLC: address, control, and a protocol that is an EtherType (LINKTYPE_C_HDLC).

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16};

/// First bytes of unicast and broadcast frames, which distinguish them from PPP in HDLC framing.
pub const ADDRESSES: [u8; 2] = [0x0f, 0x8f];

/// The protocol, and the content.
///
/// # Errors
/// When there are not 4 bytes.
pub fn open(frame: Extent<'_>) -> Result<(EtherType, Extent<'_>), DecodeError> {
    let (header, payload) = frame.split_header::<4>()?;
    Ok((EtherType(be16(header, 2..4)), payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deconstruct() {
        let opened = open(Extent::whole(&[0x0f, 0, 8, 0, 9]));
        assert_eq!(opened, Ok((EtherType::IPV4, Extent::whole(&[9]))));
        assert_eq!(
            open(Extent::whole(&[0x0f, 0, 8])),
            Err(DecodeError::Malformed)
        );
    }
}

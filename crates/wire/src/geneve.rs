//! Geneve headers (RFC 8926 §3.4). Options are skipped.

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::{Extent, be16, be32};

/// The port assigned by IANA.
pub const PORT: u16 = 6081;

const CONTROL: u8 = 0x80;

/// Fields of a Geneve header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GeneveHeader<'a> {
    /// The virtual network's number (VNI).
    pub network: u32,
    /// Type of the content.
    pub ether_type: EtherType,
    /// Content after the options.
    pub payload: Extent<'a>,
}

impl<'a> GeneveHeader<'a> {
    /// Parses a datagram to [`PORT`].
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] for other contents or a control message; otherwise if it is cut.
    pub fn new_checked(datagram: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, rest) = datagram.split_header::<8>()?;
        if header[0] >> 6 != 0 || header[1] & CONTROL != 0 {
            return Err(DecodeError::Malformed);
        }
        let (_, payload) = rest.split_at(usize::from(header[0] & 0x3f) * 4)?;
        Ok(Self {
            network: be32(header, 4..8) >> 8,
            ether_type: EtherType(be16(header, 2..4)),
            payload,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_an_option() {
        let datagram = [1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 4, 9];
        let expected = GeneveHeader {
            network: 5,
            ether_type: EtherType::BRIDGED,
            payload: Extent::whole(&[9]),
        };
        assert_eq!(
            GeneveHeader::new_checked(Extent::whole(&datagram)),
            Ok(expected)
        );
    }

    #[test]
    fn something_else() {
        assert_eq!(
            GeneveHeader::new_checked(Extent::whole(&[0x40, 0, 8, 0, 0, 0, 0, 0])),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            GeneveHeader::new_checked(Extent::whole(&[0, 0x80, 8, 0, 0, 0, 0, 0])),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            GeneveHeader::new_checked(Extent::whole(&[2, 0, 8, 0, 0, 0, 0, 0, 1, 2, 3, 4])),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            GeneveHeader::new_checked(Extent::whole(&[0; 7])),
            Err(DecodeError::Malformed)
        );
    }
}

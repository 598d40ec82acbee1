//! ERSPAN headers: a switch's mirror in GRE (draft-foschiano-erspan-03 §4). Type I has no header, type II 8 bytes,
//! type III 12 bytes and optionally 8 more for its platform.

use crate::DecodeError;
use crate::extent::{Extent, be16};

/// A mirrored packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErspanHeader<'a> {
    /// Number of the mirror session.
    pub session: u16,
    /// Whether the payload is an IP packet rather than an Ethernet frame.
    pub is_ip: bool,
    /// The mirrored packet.
    pub payload: Extent<'a>,
}

/// Type II (§4.2).
///
/// # Errors
/// When it is cut or of another version.
pub fn type_two(packet: Extent<'_>) -> Result<ErspanHeader<'_>, DecodeError> {
    let (header, payload) = packet.split_header::<8>()?;
    match header[0] >> 4 {
        1 => Ok(ErspanHeader {
            session: be16(header, 2..4) & 0x3ff,
            is_ip: false,
            payload,
        }),
        _ => Err(DecodeError::UnknownTunnel),
    }
}

/// Type III (§4.3).
///
/// # Errors
/// When it is cut, of another version, or mirrors neither Ethernet frames nor IP packets.
pub fn type_three(packet: Extent<'_>) -> Result<ErspanHeader<'_>, DecodeError> {
    let (header, rest) = packet.split_header::<12>()?;
    let flags = be16(header, 10..12);
    let payload = if flags & 1 == 0 {
        rest
    } else {
        rest.split_header::<8>()?.1
    };
    match (header[0] >> 4, flags >> 10 & 0x1f) {
        (2, kind @ (0 | 2)) => Ok(ErspanHeader {
            session: be16(header, 2..4) & 0x3ff,
            is_ip: kind == 2,
            payload,
        }),
        _ => Err(DecodeError::UnknownTunnel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_headers() {
        let two = [0x10, 5, 0x08, 0x64, 0, 0, 0, 1, 9];
        let expected = ErspanHeader {
            session: 100,
            is_ip: false,
            payload: Extent::whole(&[9]),
        };
        assert_eq!(type_two(Extent::whole(&two)), Ok(expected));
        let three = [0x20, 5, 0x08, 0x64, 0, 0, 0, 1, 0, 0, 0x08, 0, 9];
        assert_eq!(
            type_three(Extent::whole(&three)),
            Ok(ErspanHeader {
                is_ip: true,
                ..expected
            })
        );
        let platform = [
            0x20, 5, 0x08, 0x64, 0, 0, 0, 1, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9,
        ];
        assert_eq!(type_three(Extent::whole(&platform)), Ok(expected));
    }

    #[test]
    fn others() {
        assert_eq!(
            type_two(Extent::whole(&[0x20; 8])),
            Err(DecodeError::UnknownTunnel)
        );
        assert_eq!(
            type_three(Extent::whole(&[0x10; 12])),
            Err(DecodeError::UnknownTunnel)
        );
        assert_eq!(
            type_two(Extent::new(&[0x10; 7], 8)),
            Err(DecodeError::Truncated)
        );
        assert_eq!(
            type_three(Extent::new(&[0x21; 19], 20)),
            Err(DecodeError::Truncated)
        );
    }
}

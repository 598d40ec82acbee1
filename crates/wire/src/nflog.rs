//! Linux netfilter log messages (LINKTYPE_NFLOG): attributes with type and length, one of which is an IP packet. At
//! most [`ATTRIBUTES_MAX`] are parsed.

use crate::DecodeError;
use crate::extent::Extent;

/// Maximum attributes parsed; the kernel sends at most 20.
pub const ATTRIBUTES_MAX: usize = 64;

const PAYLOAD: u16 = 9;
const HEADER_LEN: u16 = 4;

/// The packet in a message.
///
/// # Errors
/// [`DecodeError::NotIp`] if there is none; otherwise if an attribute is cut or has an impossible length.
pub fn open(message: Extent<'_>) -> Result<Extent<'_>, DecodeError> {
    // Family, version, group.
    let (_, mut rest) = message.split_header::<4>()?;
    for _ in 0..ATTRIBUTES_MAX {
        if rest.original_len == 0 {
            return Err(DecodeError::NotIp);
        }
        let (header, payload) = rest.split_header::<4>()?;
        let (len, kind) = order(*header);
        if len < HEADER_LEN {
            return Err(DecodeError::Malformed);
        }
        if kind == PAYLOAD {
            return Ok(payload);
        }
        let padded = usize::from(len).next_multiple_of(4);
        // The last one may be unpadded.
        rest = rest
            .split_at(padded.min(rest.original_len.max(len.into()) as usize))?
            .1;
    }
    Err(DecodeError::Malformed)
}

/// Length and type are in the byte order of the capturing machine; types are small.
fn order([a, b, c, d]: [u8; 4]) -> (u16, u16) {
    match d {
        0 => (u16::from_le_bytes([a, b]), c.into()),
        _ => (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packet_is_an_attribute() {
        let little = [2, 0, 0, 1, 5, 0, 10, 0, 0, 0, 0, 0, 5, 0, 9, 0, 0x45];
        let big = [2, 0, 0, 1, 0, 5, 0, 10, 0, 0, 0, 0, 0, 5, 0, 9, 0x45];
        assert_eq!(open(Extent::whole(&little)), Ok(Extent::whole(&[0x45])));
        assert_eq!(open(Extent::whole(&big)), Ok(Extent::whole(&[0x45])));
        assert_eq!(open(Extent::whole(&little[..9])), Err(DecodeError::NotIp));
        assert_eq!(
            open(Extent::whole(&[2, 0, 0, 1, 3, 0, 1, 0])),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            open(Extent::new(&little[..11], 17)),
            Err(DecodeError::Truncated)
        );
        assert_eq!(
            open(Extent::whole(
                &[&[0; 4][..], &[4, 0, 1, 0].repeat(70)].concat()
            )),
            Err(DecodeError::Malformed)
        );
    }
}

//! GTP-U headers, version 1, with a subscriber's packet (3GPP TS 29.281 §5). At most [`EXTENSIONS_MAX`] extension
//! headers are skipped.

use crate::DecodeError;
use crate::extent::{Extent, be32};

/// The port of GTP-U.
pub const PORT: u16 = 2152;
/// Maximum extension headers skipped.
pub const EXTENSIONS_MAX: usize = 8;

const G_PDU: u8 = 255;
/// Flags for extension headers, sequence number, and N-PDU number; with any of them, four bytes follow.
const LONG: u8 = 0x07;
const HAS_EXTENSIONS: u8 = 0x04;

/// Fields of a GTP-U header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtpHeader<'a> {
    /// Tunnel endpoint identifier of the receiver; differs per direction.
    pub teid: u32,
    /// The subscriber's packet.
    pub payload: Extent<'a>,
}

impl<'a> GtpHeader<'a> {
    /// Parses a datagram to [`PORT`].
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] if it carries no packet; otherwise if it is cut.
    pub fn new_checked(datagram: Extent<'a>) -> Result<Self, DecodeError> {
        let (header, mut payload) = datagram.split_header::<8>()?;
        // Version 1, GTP rather than GTP'.
        if header[0] & 0xf0 != 0x30 || header[1] != G_PDU {
            return Err(DecodeError::Malformed);
        }
        let mut next = 0;
        if header[0] & LONG != 0 {
            let (long, rest) = payload.split_header::<4>()?;
            payload = rest;
            next = if header[0] & HAS_EXTENSIONS != 0 {
                long[3]
            } else {
                0
            };
        }
        for _ in 0..EXTENSIONS_MAX {
            if next == 0 {
                return Ok(Self {
                    teid: be32(header, 4..8),
                    payload,
                });
            }
            let ([words], _) = payload.split_header::<1>()?;
            let (extension, rest) = payload.split_at(usize::from(*words) * 4)?;
            // The last byte is the type of the next header; a header without a length is invalid.
            next = *extension.last().ok_or(DecodeError::Malformed)?;
            payload = rest;
        }
        Err(DecodeError::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(datagram: &[u8], expected: Option<&[u8]>) {
        let gtp = GtpHeader::new_checked(Extent::whole(datagram)).ok();
        assert_eq!(
            gtp.map(|g| (g.teid, g.payload.bytes)),
            expected.map(|p| (7, p)),
            "{datagram:x?}"
        );
    }

    #[test]
    fn headers_and_extensions() {
        check(&[0x30, 255, 0, 1, 0, 0, 0, 7, 9], Some(&[9]));
        check(&[0x32, 255, 0, 5, 0, 0, 0, 7, 0, 1, 0, 0xff, 9], Some(&[9]));
        check(
            &[0x34, 255, 0, 9, 0, 0, 0, 7, 0, 1, 0, 0x85, 1, 2, 3, 0, 9],
            Some(&[9]),
        );
    }

    #[test]
    fn something_else() {
        check(&[0x32, 1, 0, 4, 0, 0, 0, 7, 0, 1, 0, 0], None); // echo request
        check(&[0x48, 255, 0, 1, 0, 0, 0, 7, 9], None); // version 2
        check(&[0x34, 255, 0, 9, 0, 0, 0, 7, 0, 1, 0, 0x85, 0], None); // an extension without length
        let endless = [
            [0x34, 255, 0, 9, 0, 0, 0, 7, 0, 1, 0, 1].as_slice(),
            &[1, 0, 0, 1].repeat(9),
        ]
        .concat();
        check(&endless, None);
    }
}

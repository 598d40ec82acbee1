//! PPP frames (RFC 1661 §2), with or without the address and control bytes of HDLC framing (RFC 1662 §3.1), and with
//! a protocol field of two bytes or compressed to one (RFC 1661 §6.5).

use crate::DecodeError;
use crate::ethernet::EtherType;
use crate::extent::Extent;

/// Address and control bytes of HDLC framing.
const HDLC: [u8; 2] = [0xff, 3];

/// A view of a PPP frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PppFrame<'a> {
    /// Protocol number (<https://www.iana.org/assignments/ppp-numbers>).
    pub protocol: u16,
    /// The content.
    pub payload: Extent<'a>,
}

impl<'a> PppFrame<'a> {
    /// Checks the length once.
    ///
    /// # Errors
    /// When the protocol field is cut.
    pub fn new_checked(frame: Extent<'a>) -> Result<Self, DecodeError> {
        let frame = if frame.bytes.first() == Some(&HDLC[0]) {
            frame
                .split_header::<2>()
                .map(|(start, rest)| if *start == HDLC { rest } else { frame })?
        } else {
            frame
        };
        let ([first], rest) = frame.split_header::<1>()?;
        // Protocol numbers are odd, and the first of two bytes is even.
        if first & 1 == 1 {
            return Ok(Self {
                protocol: (*first).into(),
                payload: rest,
            });
        }
        let ([second], payload) = rest.split_header::<1>()?;
        Ok(Self {
            protocol: u16::from_be_bytes([*first, *second]),
            payload,
        })
    }

    /// EtherType of the content; `None` for PPP's own protocols and those not decoded.
    #[must_use]
    pub fn ether_type(&self) -> Option<EtherType> {
        match self.protocol {
            0x0021 => Some(EtherType::IPV4),
            0x0057 => Some(EtherType::IPV6),
            0x0281 => Some(EtherType::MPLS),
            0x0283 => Some(EtherType::MPLS_MULTICAST),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_framing() {
        for frame in [
            &[0, 0x21, 9][..],
            &[0x21, 9],
            &[0xff, 3, 0, 0x21, 9],
            &[0xff, 3, 0x21, 9],
        ] {
            let ppp = PppFrame::new_checked(Extent::whole(frame)).expect("whole");
            let expected = (Some(EtherType::IPV4), &[9][..]);
            assert_eq!(
                (ppp.ether_type(), ppp.payload.bytes),
                expected,
                "{frame:x?}"
            );
        }
        let lcp = PppFrame::new_checked(Extent::whole(&[0xc0, 0x21, 1])).expect("whole");
        assert_eq!((lcp.protocol, lcp.ether_type()), (0xc021, None));
        for frame in [&[][..], &[0], &[0xff, 3], &[0xff, 3, 0]] {
            assert_eq!(
                PppFrame::new_checked(Extent::whole(frame)),
                Err(DecodeError::Malformed),
                "{frame:x?}"
            );
        }
    }
}

//! L2TP data messages: version 2 (RFC 2661 §3.1), which carries PPP in UDP, and version 3 (RFC 3931 §4.1), which
//! carries frames or PPP in UDP or IP. A version 3 header states neither the length of its cookie nor its content:
//! the message is decoded only if exactly one interpretation gives a packet with consistent lengths.

use crate::DecodeError;
use crate::ethernet::{EtherType, EthernetFrame};
use crate::extent::{Extent, be16, be32};
use crate::ppp::PppFrame;

/// The port of L2TP.
pub const PORT: u16 = 1701;

const HAS_LENGTH: u16 = 0x4000;
const HAS_SEQUENCE: u16 = 0x0800;
const HAS_OFFSET: u16 = 0x0200;
/// Control messages, and bits that must be 0.
const NOT_DATA: u16 = 0x8000 | 0x3000 | 0x0400 | 0x00f0;
/// Possible offsets of the content: a cookie of up to 8 bytes, and a sublayer of 4.
const SKIPPED: [usize; 4] = [0, 4, 8, 12];
/// Longest headers needed for a decision: cookie and sublayer, a frame with eight VLAN tags, IPv6.
const SEEN_MIN: usize = 12 + 14 + 8 * 4 + 40;
/// Minimum Ethernet frame length; shorter frames are padded.
const FRAME_MIN: u32 = 60;

/// Session and content of a data message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L2tpMessage<'a> {
    /// Version 2: the receiver's tunnel in the upper half, and its session; version 3: its session.
    pub session: u32,
    /// The content.
    pub content: L2tpContent<'a>,
}

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2tpContent<'a> {
    /// An Ethernet frame.
    Frame(Extent<'a>),
    /// A network packet.
    Typed(EtherType, Extent<'a>),
}

impl<'a> L2tpMessage<'a> {
    /// Parses a datagram to [`PORT`].
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] if it carries no decodable packet; otherwise if it is cut.
    pub fn in_udp(datagram: Extent<'a>) -> Result<Self, DecodeError> {
        let (flags, rest) = datagram.split_header::<2>()?;
        let flags = be16(flags, 0..2);
        match flags & 0x0f {
            _ if flags & NOT_DATA != 0 => Err(DecodeError::Malformed),
            2 => Self::version_two(flags, rest),
            3 => Self::in_ip(rest.split_header::<2>()?.1),
            _ => Err(DecodeError::Malformed),
        }
    }

    fn version_two(flags: u16, rest: Extent<'a>) -> Result<Self, DecodeError> {
        let rest = if flags & HAS_LENGTH == 0 {
            rest
        } else {
            rest.split_header::<2>()?.1
        };
        let (ids, rest) = rest.split_header::<4>()?;
        let mut rest = if flags & HAS_SEQUENCE == 0 {
            rest
        } else {
            rest.split_header::<4>()?.1
        };
        if flags & HAS_OFFSET != 0 {
            let (offset, behind) = rest.split_header::<2>()?;
            rest = behind.split_at(be16(offset, 0..2).into())?.1;
        }
        let ppp = PppFrame::new_checked(rest)?;
        let ether_type = ppp.ether_type().ok_or(DecodeError::Malformed)?;
        Ok(Self {
            session: be32(ids, 0..4),
            content: L2tpContent::Typed(ether_type, ppp.payload),
        })
    }

    /// Parses a message of version 3 from its session on, as carried by IP protocol 115.
    ///
    /// # Errors
    /// As [`L2tpMessage::in_udp`].
    pub fn in_ip(message: Extent<'a>) -> Result<Self, DecodeError> {
        let (session, rest) = message.split_header::<4>()?;
        let session = be32(session, 0..4);
        if session == 0 {
            return Err(DecodeError::Malformed); // a control message
        }
        let read = |skipped: &usize| content(rest.split_at(*skipped).ok()?.1);
        let is_cut =
            rest.bytes.len() < SEEN_MIN && (rest.bytes.len() as u64) < rest.original_len.into();
        let unclear = if is_cut {
            DecodeError::Truncated
        } else {
            DecodeError::Malformed
        };
        let content = SKIPPED.iter().find_map(read).ok_or(unclear)?;
        Ok(Self { session, content })
    }
}

/// The content, if it is an Ethernet or PPP frame with an IP packet of exactly this length.
fn content(payload: Extent<'_>) -> Option<L2tpContent<'_>> {
    if let Ok(frame) = EthernetFrame::new_checked(payload)
        && let Ok((ether_type, ip, _)) = crate::vlan::peel(frame.ether_type(), frame.payload())
        && let Some(len) = ip_len(ether_type, ip)
        && (len == 0
            || len == ip.original_len
            || len < ip.original_len && payload.original_len <= FRAME_MIN)
    {
        return Some(L2tpContent::Frame(payload));
    }
    let ppp = PppFrame::new_checked(payload).ok()?;
    let ether_type = ppp.ether_type()?;
    let is_whole = |len| len == 0 || len == ppp.payload.original_len;
    ip_len(ether_type, ppp.payload)
        .is_some_and(is_whole)
        .then_some(L2tpContent::Typed(ether_type, ppp.payload))
}

/// Length stated in the header, if `ip` begins with an IP header; 0: unlimited.
fn ip_len(ether_type: EtherType, ip: Extent<'_>) -> Option<u32> {
    match ether_type {
        EtherType::IPV4 => {
            let (header, _) = ip.split_header::<20>().ok()?;
            (header[0] >> 4 == 4 && header[0] & 0x0f >= 5).then(|| be16(header, 2..4).into())
        }
        EtherType::IPV6 => {
            let (header, _) = ip.split_header::<40>().ok()?;
            let len = u32::from(be16(header, 4..6));
            (header[0] >> 4 == 6).then_some(if len == 0 { 0 } else { 40 + len })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: [u8; 21] = [
        0x45, 0, 0, 21, 0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 9,
    ];

    #[test]
    fn version_two() {
        let expected = Ok(L2tpMessage {
            session: 0x0005_0007,
            content: L2tpContent::Typed(EtherType::IPV4, Extent::whole(&IP)),
        });
        for (header, expected) in [
            (&[0, 2, 0, 5, 0, 7, 0xff, 3, 0, 0x21][..], expected),
            (&[0x40, 2, 0, 30, 0, 5, 0, 7, 0x21], expected),
            (
                &[0x4a, 2, 0, 30, 0, 5, 0, 7, 0, 1, 0, 2, 0, 2, 0, 0, 0, 0x21],
                expected,
            ),
            (
                &[0, 2, 0, 5, 0, 7, 0xff, 3, 0xc0, 0x21],
                Err(DecodeError::Malformed),
            ), // LCP
            (
                &[0xc8, 2, 0, 30, 0, 5, 0, 7, 0, 1, 0, 2],
                Err(DecodeError::Malformed),
            ), // control
            (
                &[0, 1, 0, 5, 0, 7, 0xff, 3, 0, 0x21],
                Err(DecodeError::Malformed),
            ),
        ] {
            let datagram = [header, &IP].concat();
            assert_eq!(
                L2tpMessage::in_udp(Extent::whole(&datagram)),
                expected,
                "{header:x?}"
            );
        }
    }

    #[test]
    fn version_three_is_decoded_if_unambiguous() {
        let frame = [&[2; 12][..], &[8, 0], &IP].concat();
        for skipped in SKIPPED {
            let message = [&[0, 0, 0, 7][..], &[1; 12][..skipped], &frame].concat();
            let opened = L2tpMessage::in_ip(Extent::whole(&message));
            let expected = L2tpMessage {
                session: 7,
                content: L2tpContent::Frame(Extent::whole(&frame)),
            };
            assert_eq!(opened, Ok(expected), "{skipped} bytes");
            let datagram = [&[0, 3, 0, 0][..], &message].concat();
            assert_eq!(
                L2tpMessage::in_udp(Extent::whole(&datagram)),
                Ok(expected),
                "{skipped} bytes"
            );
        }
        let longer = [&[0, 0, 0, 7][..], &frame, &[1; 60]].concat();
        assert_eq!(
            L2tpMessage::in_ip(Extent::whole(&longer)),
            Err(DecodeError::Malformed)
        );
        assert_eq!(
            L2tpMessage::in_ip(Extent::whole(&[0; 60])),
            Err(DecodeError::Malformed)
        );
    }
}

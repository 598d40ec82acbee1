//! The headers of each decoded link type, up to the first protocol.

use crate::decode_error::DecodeError;
use crate::ethernet::{EtherType, EthernetFrame};
use crate::extent::{be16, be32};
use crate::llc::LlcContent;
use crate::sll::{Sll2Header, SllHeader};
use crate::{Extent, LinkType, frame_relay, hdlc, monitor_header, nflog};

/// Protocol number of LLC frames in Linux cooked captures; other small numbers are other frames without EtherType.
const SLL_LLC: u16 = 4;
/// Link types whose header contains the link type of the packet: PPI and PKTAP.
const PPI: u16 = 192;
const PKTAP: u16 = 258;

/// The first protocol after a link header.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FirstProtocol<'a> {
    Typed(EtherType, Extent<'a>),
    Llc(LlcContent<'a>),
    LlcHeader(Extent<'a>),
    Ppp(Extent<'a>),
    Pppoe(Extent<'a>),
    /// An 802.11 frame, and whether its header is padded.
    Wifi(Extent<'a>, bool),
    /// Link type that is not decoded.
    Unread(u16),
}

/// Removes a link header.
///
/// # Errors
/// When it is cut, or its content is unknown.
pub(crate) fn open(
    link_type: LinkType,
    packet: Extent<'_>,
) -> Result<FirstProtocol<'_>, DecodeError> {
    Ok(match link_type {
        LinkType::Ethernet => {
            let frame = EthernetFrame::new_checked(packet)?;
            FirstProtocol::Typed(frame.ether_type(), frame.payload())
        }
        LinkType::Raw => FirstProtocol::Typed(ip_version(packet)?, packet),
        LinkType::Ipv4 => FirstProtocol::Typed(EtherType::IPV4, packet),
        LinkType::Ipv6 => FirstProtocol::Typed(EtherType::IPV6, packet),
        LinkType::LinuxSll => {
            let header = SllHeader::new_checked(packet)?;
            cooked(header.ether_type(), header.payload())
        }
        LinkType::LinuxSll2 => {
            let header = Sll2Header::new_checked(packet)?;
            cooked(header.ether_type(), header.payload())
        }
        LinkType::Null | LinkType::Loop => {
            let (ether_type, rest) = loopback_payload(packet)?;
            FirstProtocol::Typed(ether_type, rest)
        }
        LinkType::Other(number) => return other(number, packet),
    })
}

/// Link types by number (<https://www.tcpdump.org/linktypes.html>).
fn other(number: u16, packet: Extent<'_>) -> Result<FirstProtocol<'_>, DecodeError> {
    let typed = |(ether_type, rest)| FirstProtocol::Typed(ether_type, rest);
    let by_version = |rest| Ok(FirstProtocol::Typed(ip_version(rest)?, rest));
    match number {
        // Token ring, with a source route if indicated by the sender's address.
        6 => token_ring(packet).map(FirstProtocol::LlcHeader),
        9 => Ok(FirstProtocol::Ppp(packet)),
        // FDDI: frame control, and two addresses.
        10 => Ok(FirstProtocol::LlcHeader(packet.split_header::<13>()?.1)),
        // PPP in HDLC framing, or Cisco HDLC.
        50 if packet
            .bytes
            .first()
            .is_some_and(|first| hdlc::ADDRESSES.contains(first)) =>
        {
            hdlc::open(packet).map(typed)
        }
        50 => Ok(FirstProtocol::Ppp(packet)),
        51 => Ok(FirstProtocol::Pppoe(packet)),
        // ATM with LLC (RFC 2684).
        100 => Ok(FirstProtocol::LlcHeader(packet)),
        104 => hdlc::open(packet).map(typed),
        105 => Ok(FirstProtocol::Wifi(packet, false)),
        107 => frame_relay::open(packet).map(FirstProtocol::Llc),
        119 => monitor_header::prism(packet).map(|frame| FirstProtocol::Wifi(frame, false)),
        127 => monitor_header::radiotap(packet)
            .map(|(frame, padded)| FirstProtocol::Wifi(frame, padded)),
        163 => monitor_header::avs(packet).map(|frame| FirstProtocol::Wifi(frame, false)),
        // PPP whose address byte pppd has replaced by a direction; the control byte remains.
        166 => {
            let ([_, control], behind) = packet.split_header::<2>()?;
            Ok(FirstProtocol::Ppp(if *control == 3 {
                behind
            } else {
                packet.split_header::<1>()?.1
            }))
        }
        178 => juniper_ethernet(packet),
        PPI => {
            let (header, _) = packet.split_header::<8>()?;
            let (_, rest) = packet.split_at(u16::from_le_bytes([header[2], header[3]]).into())?;
            nested(be32(header, 4..8).swap_bytes(), rest)
        }
        // PPP after a direction byte.
        204 => Ok(FirstProtocol::Ppp(packet.split_header::<1>()?.1)),
        219 => Ok(FirstProtocol::Typed(EtherType::MPLS, packet)),
        // Solaris IPNET: versions, lengths, interfaces and zones.
        226 => by_version(packet.split_header::<24>()?.1),
        239 => by_version(nflog::open(packet)?),
        // IP over InfiniBand: a global route header, and a type with two reserved bytes.
        242 => {
            let (header, rest) = packet.split_header::<44>()?;
            Ok(FirstProtocol::Typed(EtherType(be16(header, 40..42)), rest))
        }
        PKTAP => {
            let (header, _) = packet.split_header::<12>()?;
            let (_, rest) = packet.split_at(be32(header, 0..4).swap_bytes() as usize)?;
            nested(be32(header, 8..12).swap_bytes(), rest)
        }
        number => Ok(FirstProtocol::Unread(number)),
    }
}

fn cooked(ether_type: EtherType, rest: Extent<'_>) -> FirstProtocol<'_> {
    match ether_type.0 {
        SLL_LLC => FirstProtocol::LlcHeader(rest),
        number if ether_type.is_length() => FirstProtocol::Llc(LlcContent::Other(number as u8)),
        _ => FirstProtocol::Typed(ether_type, rest),
    }
}

/// A packet that contains its own link type; not nested further.
fn nested(number: u32, packet: Extent<'_>) -> Result<FirstProtocol<'_>, DecodeError> {
    match u16::try_from(number) {
        Ok(PPI | PKTAP) | Err(_) => Err(DecodeError::Malformed),
        Ok(number) => open(LinkType::from(number), packet),
    }
}

/// Access control, frame control, and two addresses; the first bit of the second announces a route, whose first byte
/// contains its length.
fn token_ring(packet: Extent<'_>) -> Result<Extent<'_>, DecodeError> {
    let (header, rest) = packet.split_header::<14>()?;
    if header[8] & 0x80 == 0 {
        return Ok(rest);
    }
    let route_len = rest.split_header::<1>()?.0[0] & 0x1f;
    Ok(rest.split_at(route_len.into())?.1)
}

/// Frames of Juniper routers: a magic number, flags, and extensions if flagged.
fn juniper_ethernet(packet: Extent<'_>) -> Result<FirstProtocol<'_>, DecodeError> {
    const HAS_EXTENSIONS: u8 = 0x80;
    const HAS_NO_FRAME: u8 = 0x02;
    let (header, rest) = packet.split_header::<4>()?;
    if !header.starts_with(b"MGC") {
        return Err(DecodeError::Malformed);
    }
    let rest = match header[3] & HAS_EXTENSIONS {
        0 => rest,
        _ => {
            let (len, rest) = rest.split_header::<2>()?;
            rest.split_at(be16(len, 0..2).into())?.1
        }
    };
    match header[3] & HAS_NO_FRAME {
        0 => open(LinkType::Ethernet, rest),
        _ => Ok(FirstProtocol::Unread(178)),
    }
}

/// The address family before a loopback packet, in unknown byte order; IPv6 has a different number on every system
/// (Linux 10, NetBSD and OpenBSD 24, FreeBSD 28, macOS 30).
fn loopback_payload(packet: Extent<'_>) -> Result<(EtherType, Extent<'_>), DecodeError> {
    let (family, rest) = packet.split_header::<4>()?;
    let le = u32::from_le_bytes(*family);
    let be = u32::from_be_bytes(*family);
    match le.min(be) {
        2 => Ok((EtherType::IPV4, rest)),
        10 | 24 | 28 | 30 => Ok((EtherType::IPV6, rest)),
        // Some Windows adapters write two meaningless bytes and an EtherType.
        0x1_0000.. => Ok((EtherType(be16(family, 2..4)), rest)),
        _ => Err(DecodeError::NotIp),
    }
}

/// EtherType of an IP packet by its version field, if no header contains it.
pub(crate) fn ip_version(packet: Extent<'_>) -> Result<EtherType, DecodeError> {
    match packet.split_header::<1>()?.0[0] >> 4 {
        4 => Ok(EtherType::IPV4),
        6 => Ok(EtherType::IPV6),
        _ => Err(DecodeError::Malformed),
    }
}

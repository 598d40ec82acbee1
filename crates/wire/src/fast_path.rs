//! The fast path: TCP or UDP, except tunnel ports, in IPv4 without options or IPv6 without extension headers, in
//! Ethernet with at most one VLAN tag. This covers nearly every packet with one length check and plain loads. All
//! other packets, cut or unusual in any way, are decoded by the checked views, which alone define their meaning; both
//! give the same result for packets of the fast path.

use crate::ethernet::EtherType;
use crate::extent::{array, be16, be32};
use crate::packet::{Packet, PacketConsumer, TcpFlags, TcpInfo, TransportHeader};
use crate::tunnel::Tunnel;
use crate::walk::is_tunnel_port;
use crate::{Addr, CapturedPacket, Endpoint, FiveTuple, IpProtocol, LinkType, TcpSeq, vlan};

/// Length of the Ethernet header, including its type.
const LINK_LEN: usize = 14;
/// Length of a VLAN tag. After its removal the frame has the untagged layout.
const TAG_LEN: usize = 4;
/// Offset of the TCP or UDP header, and end of a TCP header without options.
const V4_SEGMENT: usize = LINK_LEN + 20;
const V4_END: usize = V4_SEGMENT + TCP_LEN;
const V6_SEGMENT: usize = LINK_LEN + 40;
const V6_END: usize = V6_SEGMENT + TCP_LEN;
/// A TCP header without options. Shorter UDP datagrams are not handled here.
const TCP_LEN: usize = 20;
const UDP_LEN: u32 = 8;

/// Whether the first headers prove that a packet is no fragment and contains none.
#[inline(always)]
pub(crate) fn is_whole(captured: &CapturedPacket<'_>) -> bool {
    let is_leaf = |protocol: u8, port: u16| match IpProtocol(protocol) {
        IpProtocol::TCP => true,
        IpProtocol::UDP => !is_tunnel_port(port),
        _ => false,
    };
    match frame(captured) {
        Some((EtherType::IPV4, frame, _)) => frame.first_chunk::<V4_END>().is_some_and(|head| {
            (head[LINK_LEN] == 0x45)
                & (be16(head, 20..22) & 0x3fff == 0)
                & is_leaf(head[23], be16(head, V4_SEGMENT + 2..V4_SEGMENT + 4))
        }),
        Some((EtherType::IPV6, frame, _)) => frame.first_chunk::<V6_END>().is_some_and(|head| {
            head[LINK_LEN] >> 4 == 6
                && is_leaf(head[20], be16(head, V6_SEGMENT + 2..V6_SEGMENT + 4))
        }),
        _ => false,
    }
}

/// Passes the packet to `take` and returns true if the fast path applies. IPv4 and IPv6 have separate code paths
/// through `take`, so that it is specialized for each and no fields are stored in memory.
#[inline(always)]
pub(crate) fn decode_into<'a>(
    captured: &CapturedPacket<'a>,
    take: &mut impl PacketConsumer<'a>,
) -> bool {
    let Some((ether_type, frame, vlan)) = frame(captured) else {
        return false;
    };
    match ether_type {
        EtherType::IPV4 => match ipv4(captured, frame, vlan) {
            Some(packet) => take.packet(captured, &packet),
            None => return false,
        },
        EtherType::IPV6 => match ipv6(captured, frame, vlan) {
            Some(packet) => take.packet(captured, &packet),
            None => return false,
        },
        _ => return false,
    }
    true
}

/// The packet, if the fast path applies.
#[inline(always)]
pub(crate) fn decode<'a>(captured: &CapturedPacket<'a>) -> Option<Packet<'a>> {
    let (ether_type, frame, vlan) = frame(captured)?;
    match ether_type {
        EtherType::IPV4 => ipv4(captured, frame, vlan),
        EtherType::IPV6 => ipv6(captured, frame, vlan),
        _ => None,
    }
}

/// Type and bytes after an optional VLAN tag, and the VLAN.
#[inline(always)]
fn frame<'a>(captured: &CapturedPacket<'a>) -> Option<(EtherType, &'a [u8], Option<u16>)> {
    let mut frame = captured.bytes;
    let mut ether_type = ether_type(frame)?;
    let mut vlan = None;
    if captured.link_type != LinkType::Ethernet {
        return None;
    }
    if ether_type != EtherType::IPV4 && ether_type.is_vlan() {
        vlan = vlan::number(u16::from_be_bytes([frame[LINK_LEN], frame[LINK_LEN + 1]]) & 0x0fff);
        frame = &frame[TAG_LEN..];
        ether_type = self::ether_type(frame)?;
    }
    Some((ether_type, frame, vlan))
}

/// EtherType of a frame that is long enough for the following headers.
#[inline(always)]
fn ether_type(frame: &[u8]) -> Option<EtherType> {
    Some(EtherType(be16(frame.first_chunk::<V4_END>()?, 12..14)))
}

#[inline(always)]
fn ipv4<'a>(
    captured: &CapturedPacket<'a>,
    frame: &'a [u8],
    vlan: Option<u16>,
) -> Option<Packet<'a>> {
    let head = frame.first_chunk::<V4_END>()?;
    let is_whole = be16(head, 20..22) & 0x3fff == 0; // neither an offset nor more fragments
    // If shorter than the header, this wraps to a length that no segment has room for.
    let len = u32::from(be16(head, 16..18)).wrapping_sub(20);
    if (head[LINK_LEN] != 0x45) | !is_whole | (len > 0xffff) {
        return None;
    }
    let src = Addr::v4(array(head, 26..30));
    let dst = Addr::v4(array(head, 30..34));
    let segment = head[V4_SEGMENT..].first_chunk()?;
    IpFields {
        src,
        dst,
        protocol: head[23],
        ttl: head[22],
        ip_id: be16(head, 18..20),
        vlan,
        len,
        header: &head[LINK_LEN..V4_SEGMENT],
    }
    .packet::<V4_SEGMENT>(captured, frame, segment)
}

#[inline(always)]
fn ipv6<'a>(
    captured: &CapturedPacket<'a>,
    frame: &'a [u8],
    vlan: Option<u16>,
) -> Option<Packet<'a>> {
    let head = frame.first_chunk::<V6_END>()?;
    // A length of 0 (a jumbogram, or a large segment of the capturing machine) fits no segment; the views handle it.
    let len = u32::from(be16(head, 18..20));
    if head[LINK_LEN] >> 4 != 6 {
        return None;
    }
    let src = Addr(array(head, 22..38));
    let dst = Addr(array(head, 38..54));
    let segment = head[V6_SEGMENT..].first_chunk()?;
    IpFields {
        src,
        dst,
        protocol: head[20],
        ttl: head[21],
        ip_id: 0,
        vlan,
        len,
        header: &[],
    }
    .packet::<V6_SEGMENT>(captured, frame, segment)
}

/// Fields of an IP header; `len` is the length of its segment or datagram, `header` the bytes of IPv4.
struct IpFields<'a> {
    src: Addr,
    dst: Addr,
    protocol: u8,
    ttl: u8,
    ip_id: u16,
    vlan: Option<u16>,
    len: u32,
    header: &'a [u8],
}

impl<'a> IpFields<'a> {
    /// Completes the packet with the segment at offset `AT` of the frame.
    #[inline(always)]
    fn packet<const AT: usize>(
        self,
        captured: &CapturedPacket<'a>,
        frame: &'a [u8],
        segment: &[u8; TCP_LEN],
    ) -> Option<Packet<'a>> {
        let protocol = IpProtocol(self.protocol);
        let (transport, header_len, len) = match protocol {
            IpProtocol::TCP => (
                TransportHeader::Tcp(tcp(segment)),
                u32::from(segment[12] >> 4) * 4,
                self.len,
            ),
            IpProtocol::UDP if is_tunnel_port(be16(segment, 2..4)) => return None,
            IpProtocol::UDP => (
                TransportHeader::Udp,
                UDP_LEN,
                u32::from(be16(segment, 4..6)),
            ),
            _ => return None,
        };
        let shortest = if protocol == IpProtocol::TCP {
            TCP_LEN as u32
        } else {
            UDP_LEN
        };
        // A datagram length of 0 is below the header length; the views handle it.
        if (header_len < shortest) | (len < header_len) | (len > self.len) {
            return None;
        }
        // Bytes cut by the snaplen are missing at the end: of the payload, or also of the options.
        let end = frame.len().min(AT + len as usize);
        let payload = frame.get(end.min(AT + header_len as usize)..end)?;
        let whole = frame.get(AT..end).unwrap_or_default();
        let checksum = if protocol == IpProtocol::TCP {
            be16(segment, 16..18)
        } else {
            be16(segment, 6..8)
        };
        let src = Endpoint {
            addr: self.src,
            port: be16(segment, 0..2),
        };
        let dst = Endpoint {
            addr: self.dst,
            port: be16(segment, 2..4),
        };
        Some(Packet {
            ts: captured.ts,
            original_len: captured.wire_len(),
            five_tuple: FiveTuple { src, dst, protocol },
            ttl: self.ttl,
            ip_id: self.ip_id,
            macs: captured.bytes.first_chunk(),
            vlan: self.vlan,
            tunnel: Tunnel::default(),
            transport,
            checksum,
            ip_header: self.header,
            segment: whole,
            payload,
            payload_original_len: len - header_len,
        })
    }
}

#[inline(always)]
fn tcp(segment: &[u8; TCP_LEN]) -> TcpInfo {
    TcpInfo {
        seq: TcpSeq(be32(segment, 4..8)),
        ack: TcpSeq(be32(segment, 8..12)),
        flags: TcpFlags(segment[13]),
        window: be16(segment, 14..16),
    }
}

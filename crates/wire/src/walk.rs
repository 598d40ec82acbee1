//! Decodes any packet header by header, from its link layer to the innermost transport, where [`crate::fast_path`]
//! does not apply. Tunnels are removed; the result is the innermost packet. Decoding ends at an IP fragment, whose
//! content is decoded after reassembly.

use crate::ah;
use crate::checksum;
use crate::decode_error::DecodeError;
use crate::erspan::{self, ErspanHeader};
use crate::ethernet::{EtherType, EthernetFrame};
use crate::fragment::{IpFragment, LengthFields};
use crate::geneve::{self, GeneveHeader};
use crate::gre::GreHeader;
use crate::gtp::{self, GtpHeader};
use crate::icmp::IcmpHeader;
use crate::ieee80211::{self, WifiFrame};
use crate::ipv4::Ipv4Header;
use crate::ipv6::Ipv6Header;
use crate::l2tp::{self, L2tpContent, L2tpMessage};
use crate::link_layer::{self, FirstProtocol, ip_version};
use crate::llc::LlcContent;
use crate::mpls;
use crate::nsh::NshHeader;
use crate::packet::{Packet, TcpInfo, TransportHeader};
use crate::pbb;
use crate::ppp::PppFrame;
use crate::pppoe::PppoeHeader;
use crate::tag;
use crate::tcp::TcpHeader;
use crate::tunnel::{Tunnel, TunnelLayer};
use crate::udp::{self, UdpHeader};
use crate::unread_protocol::UnreadProtocol;
use crate::vlan;
use crate::vxlan::{self, VxlanHeader};
use crate::{Addr, CapturedPacket, Endpoint, Extent, FiveTuple, IpProtocol, LinkType};

/// Result of decoding.
pub(crate) enum WalkOutcome<'a> {
    Packet(Packet<'a>),
    Fragment(IpFragment<'a>),
}

/// Next header to decode.
enum WalkStep<'a> {
    Frame(Extent<'a>),
    Typed(EtherType, Extent<'a>),
    Llc(Extent<'a>),
    Ppp(Extent<'a>),
    End(WalkOutcome<'a>),
}

/// Decodes a packet.
pub(crate) fn walk(captured: CapturedPacket<'_>) -> Result<WalkOutcome<'_>, DecodeError> {
    PacketWalk::new(captured).follow()
}

/// The protocol at which decoding of an undecodable packet ends, if known; for counting only.
#[must_use]
pub fn unread_protocol(captured: &CapturedPacket<'_>) -> Option<UnreadProtocol> {
    let mut way = PacketWalk::new(*captured);
    way.follow().err()?;
    way.unread
}

/// The packet inside tunnels, or after link headers unknown to capture filters, without its link header; `None` if
/// there are neither, or it is not IP. It may be a fragment, or otherwise undecodable.
#[must_use]
pub fn innermost<'a>(captured: &CapturedPacket<'a>) -> Option<CapturedPacket<'a>> {
    let mut way = PacketWalk::new(*captured);
    // A packet that cannot be decoded further may also have an IP header.
    let _ = way.follow();
    let (link_type, ip) = way
        .innermost
        .filter(|_| way.is_hidden || !way.tunnel.is_none())?;
    Some(CapturedPacket {
        link_type,
        original_len: ip.original_len,
        bytes: ip.bytes,
        ..*captured
    })
}

impl<'a> PacketWalk<'a> {
    fn new(captured: CapturedPacket<'a>) -> Self {
        PacketWalk {
            captured,
            vlan: None,
            tunnel: Tunnel::default(),
            innermost: None,
            lengths: LengthFields::default(),
            tags: 0,
            is_hidden: false,
            unread: None,
        }
    }

    fn follow(&mut self) -> Result<WalkOutcome<'a>, DecodeError> {
        let whole = Extent::new(self.captured.bytes, self.captured.original_len);
        let mut step = self.link(whole)?;
        // At least one iteration in three removes a layer or a tag, and both are bounded.
        loop {
            step = match step {
                WalkStep::Frame(frame) => {
                    let frame = EthernetFrame::new_checked(frame)?;
                    self.vlan = None;
                    WalkStep::Typed(frame.ether_type(), frame.payload())
                }
                WalkStep::Typed(ether_type, rest) => self.typed(ether_type, rest)?,
                WalkStep::Llc(rest) => self.llc(LlcContent::new_checked(rest)?)?,
                WalkStep::Ppp(rest) => self.ppp(rest)?,
                WalkStep::End(found) => return Ok(found),
            };
        }
    }
}

/// Whether a datagram to this port may be a tunnel's. One comparison for most: the range excludes ephemeral ports and
/// the lower ones.
#[inline(always)]
#[must_use]
pub fn is_tunnel_port(port: u16) -> bool {
    const LOWEST: u16 = l2tp::PORT;
    const HIGHEST: u16 = vxlan::PORTS[1];
    port.wrapping_sub(LOWEST) <= HIGHEST - LOWEST
        && matches!(
            port,
            LOWEST | gtp::PORT | HIGHEST | geneve::PORT | vxlan::GPE_PORT | 4789
        )
}

/// State of decoding.
struct PacketWalk<'a> {
    captured: CapturedPacket<'a>,
    vlan: Option<u16>,
    tunnel: Tunnel,
    /// The last IP packet.
    innermost: Option<(LinkType, Extent<'a>)>,
    /// Length fields of the outer headers.
    lengths: LengthFields,
    /// Number of tags removed, other than VLANs.
    tags: usize,
    /// Whether headers unknown to capture filters were removed.
    is_hidden: bool,
    /// The protocol at which decoding ended, if not IP.
    unread: Option<UnreadProtocol>,
}

/// Common fields of IPv4 and IPv6.
struct NetworkHeader<'a> {
    src: Addr,
    dst: Addr,
    ttl: u8,
    ip_id: u16,
    protocol: IpProtocol,
    /// The bytes of IPv4.
    header: &'a [u8],
    payload: Extent<'a>,
}

impl<'a> PacketWalk<'a> {
    fn link(&mut self, packet: Extent<'a>) -> Result<WalkStep<'a>, DecodeError> {
        self.is_hidden = matches!(self.captured.link_type, LinkType::Other(_));
        match link_layer::open(self.captured.link_type, packet)? {
            FirstProtocol::Typed(ether_type, rest) => Ok(WalkStep::Typed(ether_type, rest)),
            FirstProtocol::Llc(llc) => self.llc(llc),
            FirstProtocol::LlcHeader(rest) => Ok(WalkStep::Llc(rest)),
            FirstProtocol::Ppp(rest) => Ok(WalkStep::Ppp(rest)),
            FirstProtocol::Pppoe(rest) => self.pppoe(rest),
            FirstProtocol::Wifi(frame, padded) => self.wifi(frame, padded),
            FirstProtocol::Unread(number) => {
                self.unread = Some(UnreadProtocol::LinkType(number));
                Err(DecodeError::UnknownLinkType)
            }
        }
    }

    fn not_ip(&mut self, protocol: UnreadProtocol) -> Result<WalkStep<'a>, DecodeError> {
        self.unread = Some(protocol);
        Err(DecodeError::NotIp)
    }

    fn wifi(&mut self, frame: Extent<'a>, padded: bool) -> Result<WalkStep<'a>, DecodeError> {
        match ieee80211::open(frame, padded)? {
            WifiFrame::Data(rest) => Ok(WalkStep::Llc(rest)),
            WifiFrame::Aggregate(header, rest) => {
                self.lengths.add(self.captured.bytes, header.bytes, 12);
                Ok(WalkStep::Llc(rest))
            }
            WifiFrame::Unread(why) => self.not_ip(UnreadProtocol::Wifi(why)),
        }
    }

    fn llc(&mut self, llc: LlcContent<'a>) -> Result<WalkStep<'a>, DecodeError> {
        match llc {
            LlcContent::Typed(ether_type, rest) => {
                self.take_tag()?;
                Ok(WalkStep::Typed(ether_type, rest))
            }
            LlcContent::Other(access_point) => self.not_ip(UnreadProtocol::Llc(access_point)),
        }
    }

    fn ppp(&mut self, frame: Extent<'a>) -> Result<WalkStep<'a>, DecodeError> {
        let ppp = PppFrame::new_checked(frame)?;
        match ppp.ether_type() {
            Some(ether_type) => Ok(WalkStep::Typed(ether_type, ppp.payload)),
            None => self.not_ip(UnreadProtocol::Ppp(ppp.protocol)),
        }
    }

    fn pppoe(&mut self, packet: Extent<'a>) -> Result<WalkStep<'a>, DecodeError> {
        let session = PppoeHeader::new_checked(packet)?;
        self.tunnel
            .enter(TunnelLayer::Pppoe, Some(session.session().into()))?;
        Ok(WalkStep::Ppp(session.payload()))
    }

    fn take_tag(&mut self) -> Result<(), DecodeError> {
        self.tags += 1;
        self.is_hidden = true;
        if self.tags > tag::TAGS_MAX {
            Err(DecodeError::Malformed)
        } else {
            Ok(())
        }
    }

    /// Handles a type that is neither IP nor a tunnel: a tag, the length of an LLC frame, or undecodable.
    fn odd_type(
        &mut self,
        ether_type: EtherType,
        rest: Extent<'a>,
    ) -> Result<WalkStep<'a>, DecodeError> {
        if let Some((ether_type, rest)) = tag::peel(ether_type, rest)? {
            self.take_tag()?;
            return Ok(WalkStep::Typed(ether_type, rest));
        }
        if !ether_type.is_length() {
            return self.not_ip(UnreadProtocol::EtherType(ether_type.0));
        }
        // A length of 0 means unlimited, as in a reassembled datagram.
        let at = rest.bytes.as_ptr() as usize - self.captured.bytes.as_ptr() as usize;
        self.lengths.add(
            self.captured.bytes,
            &self.captured.bytes[at.saturating_sub(2)..],
            0,
        );
        let len = u32::from(ether_type.0);
        Ok(WalkStep::Llc(if (1..=rest.original_len).contains(&len) {
            rest.limit(len)
        } else {
            rest
        }))
    }

    fn typed(
        &mut self,
        ether_type: EtherType,
        rest: Extent<'a>,
    ) -> Result<WalkStep<'a>, DecodeError> {
        let (ether_type, rest, vlan) = vlan::peel(ether_type, rest)?;
        self.vlan = vlan.or(self.vlan);
        match ether_type {
            EtherType::IPV4 => self.ipv4(rest),
            EtherType::IPV6 => self.ipv6(rest),
            EtherType::MPLS | EtherType::MPLS_MULTICAST => self.mpls(rest),
            EtherType::PPPOE => self.pppoe(rest),
            EtherType::BACKBONE => {
                let (service, frame) = pbb::open(rest)?;
                self.enter((TunnelLayer::Pbb, Some(service), WalkStep::Frame(frame)))
            }
            EtherType::NSH => {
                let nsh = NshHeader::new_checked(rest)?;
                self.enter((
                    TunnelLayer::Nsh,
                    Some(nsh.path),
                    bridged(nsh.ether_type, nsh.payload),
                ))
            }
            other => self.odd_type(other, rest),
        }
    }

    fn mpls(&mut self, stack: Extent<'a>) -> Result<WalkStep<'a>, DecodeError> {
        let (label, rest) = mpls::peel(stack)?;
        self.tunnel.enter(TunnelLayer::Mpls, Some(label))?;
        match rest.split_header::<1>()?.0[0] >> 4 {
            4 => Ok(WalkStep::Typed(EtherType::IPV4, rest)),
            6 => Ok(WalkStep::Typed(EtherType::IPV6, rest)),
            0 => Ok(WalkStep::Frame(
                rest.split_header::<{ mpls::CONTROL_WORD_LEN }>()?.1,
            )),
            _ => Err(DecodeError::UnknownTunnel),
        }
    }

    fn ipv4(&mut self, packet: Extent<'a>) -> Result<WalkStep<'a>, DecodeError> {
        let ip = Ipv4Header::new_checked(packet)?;
        self.innermost = Some((LinkType::Ipv4, packet));
        if ip.is_fragment() {
            let fragment =
                IpFragment::of_v4(&self.captured, packet, &ip, (&self.tunnel, self.lengths));
            return Ok(WalkStep::End(WalkOutcome::Fragment(fragment)));
        }
        let src = ip.src();
        let dst = ip.dst();
        let ttl = ip.ttl();
        let ip_id = ip.ident();
        let header = &packet.bytes[..ip.header_len()];
        self.lengths.add(self.captured.bytes, packet.bytes, 2);
        let (protocol, payload) = ah::peel(ip.protocol(), ip.payload())?;
        self.network(
            NetworkHeader {
                src,
                dst,
                ttl,
                ip_id,
                protocol,
                header,
                payload,
            },
            [TunnelLayer::Ipip, TunnelLayer::SixInFour],
        )
    }

    fn ipv6(&mut self, packet: Extent<'a>) -> Result<WalkStep<'a>, DecodeError> {
        let ip = Ipv6Header::new_checked(packet)?;
        self.innermost = Some((LinkType::Ipv6, packet));
        if ip.is_fragment() {
            let fragment =
                IpFragment::of_v6(&self.captured, packet, &ip, (&self.tunnel, self.lengths))?;
            return Ok(WalkStep::End(WalkOutcome::Fragment(fragment)));
        }
        let src = ip.src();
        let dst = ip.dst();
        let ttl = ip.hop_limit();
        let ip_id = 0;
        self.lengths.add(self.captured.bytes, packet.bytes, 4);
        let protocol = ip.protocol();
        let payload = ip.payload();
        self.network(
            NetworkHeader {
                src,
                dst,
                ttl,
                ip_id,
                protocol,
                header: &[],
                payload,
            },
            [TunnelLayer::FourInSix, TunnelLayer::SixInSix],
        )
    }

    /// Handles the content of an IP packet; `in_ip` are the layers for IPv4 and IPv6 inside it.
    fn network(
        &mut self,
        network: NetworkHeader<'a>,
        in_ip: [TunnelLayer; 2],
    ) -> Result<WalkStep<'a>, DecodeError> {
        let payload = network.payload;
        let step = match network.protocol {
            IpProtocol::IPV4 => {
                self.enter((in_ip[0], None, WalkStep::Typed(EtherType::IPV4, payload)))?
            }
            IpProtocol::IPV6 => {
                self.enter((in_ip[1], None, WalkStep::Typed(EtherType::IPV6, payload)))?
            }
            IpProtocol::GRE => self.enter(gre(payload)?)?,
            // The header does not name its content: if ambiguous, the packet is a plain one of protocol 115.
            IpProtocol::L2TP => match L2tpMessage::in_ip(payload) {
                Ok(message) => self.enter(session(message))?,
                Err(DecodeError::Truncated) => return Err(DecodeError::Truncated),
                Err(_) => return self.transport(network),
            },
            IpProtocol::UDP => {
                let udp = UdpHeader::new_checked(payload)?;
                match udp_tunnel(&udp)? {
                    Some(tunnel) => {
                        self.lengths.add(self.captured.bytes, payload.bytes, 4);
                        self.enter(tunnel)?
                    }
                    None => {
                        return self.packet(
                            network,
                            (udp.src_port(), udp.dst_port()),
                            TransportHeader::Udp,
                            udp.payload(),
                        );
                    }
                }
            }
            _ => return self.transport(network),
        };
        self.tunnel.ends = Some((network.src, network.dst));
        Ok(step)
    }

    fn enter(&mut self, (layer, id, inside): OpenedLayer<'a>) -> Result<WalkStep<'a>, DecodeError> {
        self.tunnel.enter(layer, id)?;
        Ok(inside)
    }

    fn transport(&self, network: NetworkHeader<'a>) -> Result<WalkStep<'a>, DecodeError> {
        match network.protocol {
            IpProtocol::TCP => {
                let tcp = TcpHeader::new_checked(network.payload)?;
                let seq = tcp.seq();
                let ack = tcp.ack();
                let flags = tcp.flags();
                let window = tcp.window();
                let segment = TransportHeader::Tcp(TcpInfo {
                    seq,
                    ack,
                    flags,
                    window,
                });
                self.packet(
                    network,
                    (tcp.src_port(), tcp.dst_port()),
                    segment,
                    tcp.payload(),
                )
            }
            IpProtocol::ICMP | IpProtocol::ICMPV6 => {
                let icmp = IcmpHeader::new_checked(network.payload)?;
                let message = TransportHeader::Icmp {
                    kind: icmp.kind(),
                    code: icmp.code(),
                };
                self.packet(network, (0, 0), message, icmp.payload())
            }
            _ => {
                let payload = network.payload;
                self.packet(network, (0, 0), TransportHeader::Other, payload)
            }
        }
    }

    fn packet(
        &self,
        network: NetworkHeader<'a>,
        (src_port, dst_port): (u16, u16),
        transport: TransportHeader,
        payload: Extent<'a>,
    ) -> Result<WalkStep<'a>, DecodeError> {
        let src = Endpoint {
            addr: network.src,
            port: src_port,
        };
        let dst = Endpoint {
            addr: network.dst,
            port: dst_port,
        };
        Ok(WalkStep::End(WalkOutcome::Packet(Packet {
            ts: self.captured.ts,
            original_len: self.captured.wire_len(),
            five_tuple: FiveTuple {
                src,
                dst,
                protocol: network.protocol,
            },
            ttl: network.ttl,
            ip_id: network.ip_id,
            macs: self
                .captured
                .bytes
                .first_chunk()
                .filter(|_| self.captured.link_type == LinkType::Ethernet),
            vlan: self.vlan,
            tunnel: self.tunnel,
            transport,
            checksum: checksum::of_segment(&transport, network.payload.bytes),
            ip_header: network.header,
            segment: segment_of(&transport, network.payload.bytes, payload.bytes),
            payload: payload.bytes,
            payload_original_len: payload.original_len,
        })))
    }
}

/// The part of an IP packet's payload that belongs to the transport: padding after a datagram does not.
fn segment_of<'a>(transport: &TransportHeader, ip_payload: &'a [u8], payload: &[u8]) -> &'a [u8] {
    match transport {
        TransportHeader::Tcp(_) => ip_payload,
        TransportHeader::Udp => ip_payload
            .get(..udp::HEADER_LEN + payload.len())
            .unwrap_or_default(),
        _ => &[],
    }
}

/// A layer, its number, and its content.
type OpenedLayer<'a> = (TunnelLayer, Option<u32>, WalkStep<'a>);

fn gre(packet: Extent<'_>) -> Result<OpenedLayer<'_>, DecodeError> {
    let gre = GreHeader::new_checked(packet)?;
    match gre.ether_type {
        EtherType::ERSPAN_TWO if gre.is_numbered => mirrored(erspan::type_two(gre.payload)?),
        EtherType::ERSPAN_TWO => Ok((TunnelLayer::Erspan, None, WalkStep::Frame(gre.payload))),
        EtherType::ERSPAN_THREE => mirrored(erspan::type_three(gre.payload)?),
        other => Ok((TunnelLayer::Gre, gre.key, bridged(other, gre.payload))),
    }
}

/// The content after an EtherType, which may announce a frame.
fn bridged(ether_type: EtherType, payload: Extent<'_>) -> WalkStep<'_> {
    if ether_type == EtherType::BRIDGED {
        WalkStep::Frame(payload)
    } else {
        WalkStep::Typed(ether_type, payload)
    }
}

fn session(message: L2tpMessage<'_>) -> OpenedLayer<'_> {
    let inside = match message.content {
        L2tpContent::Frame(frame) => WalkStep::Frame(frame),
        L2tpContent::Typed(ether_type, packet) => WalkStep::Typed(ether_type, packet),
    };
    (TunnelLayer::L2tp, Some(message.session), inside)
}

fn mirrored(erspan: ErspanHeader<'_>) -> Result<OpenedLayer<'_>, DecodeError> {
    let inside = if erspan.is_ip {
        WalkStep::Typed(ip_version(erspan.payload)?, erspan.payload)
    } else {
        WalkStep::Frame(erspan.payload)
    };
    Ok((TunnelLayer::Erspan, Some(erspan.session.into()), inside))
}

/// Content of a tunnel datagram.
fn udp_tunnel<'a>(udp: &UdpHeader<'a>) -> Result<Option<OpenedLayer<'a>>, DecodeError> {
    let port = udp.dst_port();
    if !is_tunnel_port(port) {
        return Ok(None);
    }
    let opened = match port {
        l2tp::PORT => L2tpMessage::in_udp(udp.payload()).map(|message| {
            let (layer, session, inside) = session(message);
            (layer, session.unwrap_or_default(), inside)
        }),
        gtp::PORT => GtpHeader::new_checked(udp.payload()).and_then(|gtp| {
            Ok((
                TunnelLayer::Gtp,
                gtp.teid,
                WalkStep::Typed(ip_version(gtp.payload)?, gtp.payload),
            ))
        }),
        geneve::PORT => GeneveHeader::new_checked(udp.payload()).map(|geneve| {
            (
                TunnelLayer::Geneve,
                geneve.network,
                bridged(geneve.ether_type, geneve.payload),
            )
        }),
        _ => VxlanHeader::new_checked(udp.payload(), port).map(|vxlan| {
            let inside = match vxlan.ether_type {
                Some(other) => WalkStep::Typed(other, vxlan.payload),
                None => WalkStep::Frame(vxlan.payload),
            };
            (TunnelLayer::Vxlan, vxlan.network, inside)
        }),
    };
    match opened {
        Ok((layer, id, inside)) => Ok(Some((layer, Some(id), inside))),
        // A datagram of another protocol to that port.
        Err(DecodeError::Malformed) => Ok(None),
        Err(why) => Err(why),
    }
}

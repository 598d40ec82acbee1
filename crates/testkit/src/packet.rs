//! A test packet, from which both the bytes of an Ethernet frame (with correct lengths and checksums) and the decoded
//! [`wire::Packet`] are generated, so that tests of higher crates need no decoder.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use wire::packet::TcpFlags;
use wire::{
    CapturedPacket, Endpoint, FiveTuple, IpProtocol, LinkType, Packet, TcpInfo, TcpSeq, Timestamp,
    TransportHeader, Tunnel,
};

/// The transport protocol.
#[derive(Clone, Copy, Debug)]
pub enum TransportCarrier {
    /// TCP.
    Tcp(TcpInfo),
    /// UDP.
    Udp,
    /// ICMP or ICMPv6 (by address family), with type and code; the payload follows the 4-byte header.
    Icmp(u8, u8),
    /// Another IP protocol by number; ports are ignored.
    Other(u8),
}

/// A test packet.
#[derive(Clone, Debug)]
pub struct SentPacket {
    /// Capture time.
    pub ts: Timestamp,
    /// Source.
    pub src: SocketAddr,
    /// Destination, of the same address family.
    pub dst: SocketAddr,
    /// Transport header.
    pub carrier: TransportCarrier,
    /// TCP options, in words of 4 bytes.
    pub options: Vec<u8>,
    /// The complete payload.
    pub payload: Vec<u8>,
    /// Number of bytes at the end of the payload removed by the snaplen.
    pub cut: u32,
    /// IPv4 identification; unused for IPv6.
    pub ip_id: u16,
    /// TTL or hop limit.
    pub ttl: u8,
    /// 802.1Q tags, outermost first.
    pub vlans: Vec<u16>,
}

impl SentPacket {
    /// A complete TCP segment without VLAN tag.
    #[must_use]
    pub fn tcp(
        ts: Timestamp,
        ends: (SocketAddr, SocketAddr),
        tcp: TcpInfo,
        payload: &[u8],
    ) -> SentPacket {
        SentPacket::new(ts, ends, TransportCarrier::Tcp(tcp), payload)
    }

    /// A UDP datagram.
    #[must_use]
    pub fn udp(ts: Timestamp, ends: (SocketAddr, SocketAddr), payload: &[u8]) -> SentPacket {
        SentPacket::new(ts, ends, TransportCarrier::Udp, payload)
    }

    /// A packet from the first to the second of `ends`.
    #[must_use]
    pub fn new(
        ts: Timestamp,
        (src, dst): (SocketAddr, SocketAddr),
        carrier: TransportCarrier,
        payload: &[u8],
    ) -> SentPacket {
        SentPacket {
            ts,
            src,
            dst,
            carrier,
            options: Vec::new(),
            payload: payload.to_vec(),
            cut: 0,
            ip_id: 0,
            ttl: TTL,
            vlans: Vec::new(),
        }
    }

    /// TCP header of the packet, if it has one.
    #[must_use]
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        match self.carrier {
            TransportCarrier::Tcp(tcp) => Some(tcp),
            _ => None,
        }
    }

    /// The captured bytes, beginning with the Ethernet header.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.wire_bytes();
        bytes.truncate(bytes.len() - self.cut as usize);
        bytes
    }

    /// The bytes on the wire, independent of the snaplen.
    #[must_use]
    pub fn wire_bytes(&self) -> Vec<u8> {
        let mut out = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
        for vlan in &self.vlans {
            out.extend([0x81, 0x00]);
            out.extend(vlan.to_be_bytes());
        }
        let protocol = self.protocol();
        let segment = self.segment();
        match (self.src.ip(), self.dst.ip()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4(
                &mut out,
                (src, dst),
                (protocol, self.ip_id, self.ttl),
                &segment,
            ),
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                ipv6(&mut out, (src, dst), (protocol, self.ttl), &segment)
            }
            _ => panic!("both ends of a packet are of one address family"),
        }
        out
    }

    /// The packet as delivered by a capture source; `bytes` must be its [`SentPacket::to_bytes`].
    #[must_use]
    pub fn captured<'a>(&self, bytes: &'a [u8]) -> CapturedPacket<'a> {
        let original_len = bytes.len() as u32 + self.cut;
        CapturedPacket {
            ts: self.ts,
            link_type: LinkType::Ethernet,
            original_len,
            bytes,
        }
    }

    /// The packet as delivered by a decoder.
    #[must_use]
    pub fn packet(&self) -> Packet<'_> {
        let transport = match self.carrier {
            TransportCarrier::Tcp(tcp) => TransportHeader::Tcp(tcp),
            TransportCarrier::Udp => TransportHeader::Udp,
            TransportCarrier::Icmp(kind, code) => TransportHeader::Icmp { kind, code },
            TransportCarrier::Other(_) => TransportHeader::Other,
        };
        Packet {
            ts: self.ts,
            original_len: self.header_len() + self.payload.len() as u32,
            five_tuple: self.five_tuple(),
            ttl: self.ttl,
            ip_id: if self.src.is_ipv4() { self.ip_id } else { 0 },
            macs: None,
            vlan: self.vlans.last().copied().filter(|vlan| *vlan != 0),
            tunnel: Tunnel::default(),
            transport,
            checksum: self.checksum(),
            ip_header: &[],
            segment: &[],
            payload: &self.payload[..self.payload.len() - self.cut as usize],
            payload_original_len: self.payload.len() as u32,
        }
    }

    fn five_tuple(&self) -> FiveTuple {
        let ports = matches!(
            self.carrier,
            TransportCarrier::Tcp(_) | TransportCarrier::Udp
        );
        let end = |s: SocketAddr| Endpoint {
            addr: s.ip().into(),
            port: if ports { s.port() } else { 0 },
        };
        FiveTuple {
            src: end(self.src),
            dst: end(self.dst),
            protocol: IpProtocol(self.protocol()),
        }
    }

    fn protocol(&self) -> u8 {
        match self.carrier {
            TransportCarrier::Tcp(_) => 6,
            TransportCarrier::Udp => 17,
            TransportCarrier::Icmp(..) if self.src.is_ipv4() => 1,
            TransportCarrier::Icmp(..) => 58,
            TransportCarrier::Other(protocol) => protocol,
        }
    }

    fn header_len(&self) -> u32 {
        let network = if self.src.is_ipv4() { 20 } else { 40 };
        let transport = match self.carrier {
            TransportCarrier::Tcp(_) => 20 + self.options.len() as u32,
            TransportCarrier::Udp => 8,
            TransportCarrier::Icmp(..) => 4,
            TransportCarrier::Other(_) => 0,
        };
        14 + 4 * self.vlans.len() as u32 + network + transport
    }

    /// The checksum for TCP or UDP, 0 for others.
    fn checksum(&self) -> u16 {
        let at = match self.carrier {
            TransportCarrier::Tcp(_) => 16,
            TransportCarrier::Udp => 6,
            _ => return 0,
        };
        let segment = self.segment();
        u16::from_be_bytes([segment[at], segment[at + 1]])
    }

    /// Transport header and payload, with checksum.
    fn segment(&self) -> Vec<u8> {
        let (mut out, checksum_at) = match self.carrier {
            TransportCarrier::Tcp(tcp) => (self.tcp_header(tcp), Some(16)),
            TransportCarrier::Udp => (self.udp_header(), Some(6)),
            TransportCarrier::Icmp(kind, code) => (vec![kind, code, 0, 0], Some(2)),
            TransportCarrier::Other(_) => (Vec::new(), None),
        };
        out.extend_from_slice(&self.payload);
        if let Some(at) = checksum_at {
            let pseudo = if self.protocol() == 1 {
                0
            } else {
                self.pseudo_header_sum(out.len())
            };
            let sum = checksum(pseudo, &out);
            let sum = if sum == 0 && self.protocol() == 17 {
                0xffff
            } else {
                sum
            };
            out[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        out
    }

    fn tcp_header(&self, tcp: TcpInfo) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.src.port().to_be_bytes());
        out.extend(self.dst.port().to_be_bytes());
        out.extend(tcp.seq.0.to_be_bytes());
        out.extend(tcp.ack.0.to_be_bytes());
        let words = 5 + self.options.len() as u8 / 4;
        out.extend([words << 4, tcp.flags.0]);
        out.extend(tcp.window.to_be_bytes());
        out.extend([0; 4]);
        out.extend_from_slice(&self.options);
        out
    }

    fn udp_header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.src.port().to_be_bytes());
        out.extend(self.dst.port().to_be_bytes());
        out.extend((8 + self.payload.len() as u16).to_be_bytes());
        out.extend([0; 2]);
        out
    }

    fn pseudo_header_sum(&self, len: usize) -> u32 {
        let address = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => sum_words(&ip.octets()),
            IpAddr::V6(ip) => sum_words(&ip.octets()),
        };
        address(self.src.ip()) + address(self.dst.ip()) + u32::from(self.protocol()) + len as u32
    }
}

/// The decoded packets, in order.
#[must_use]
pub fn packets(sent: &[SentPacket]) -> Vec<Packet<'_>> {
    sent.iter().map(SentPacket::packet).collect()
}

/// A TCP header with a default window.
#[must_use]
pub fn tcp_info(seq: u32, ack: u32, flags: TcpFlags) -> TcpInfo {
    TcpInfo {
        seq: TcpSeq(seq),
        ack: TcpSeq(ack),
        flags,
        window: 64_000,
    }
}

const TTL: u8 = 64;

fn ipv4(
    out: &mut Vec<u8>,
    (src, dst): (Ipv4Addr, Ipv4Addr),
    (protocol, id, ttl): (u8, u16, u8),
    segment: &[u8],
) {
    out.extend([0x08, 0x00]);
    let mut header = vec![0x45, 0];
    header.extend((20 + segment.len() as u16).to_be_bytes());
    header.extend(id.to_be_bytes());
    header.extend([0x40, 0, ttl, protocol, 0, 0]);
    header.extend(src.octets());
    header.extend(dst.octets());
    let sum = checksum(0, &header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    out.extend(header);
    out.extend_from_slice(segment);
}

fn ipv6(
    out: &mut Vec<u8>,
    (src, dst): (Ipv6Addr, Ipv6Addr),
    (protocol, ttl): (u8, u8),
    segment: &[u8],
) {
    out.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    out.extend((segment.len() as u16).to_be_bytes());
    out.extend([protocol, ttl]);
    out.extend(src.octets());
    out.extend(dst.octets());
    out.extend_from_slice(segment);
}

/// The Internet checksum (RFC 1071) of `bytes`, continuing a sum.
fn checksum(begun: u32, bytes: &[u8]) -> u16 {
    let mut sum = begun + sum_words(bytes);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn sum_words(bytes: &[u8]) -> u32 {
    let word = |w: &[u8]| u32::from(w[0]) << 8 | u32::from(*w.get(1).unwrap_or(&0));
    bytes.chunks(2).map(word).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(a: &str, b: &str) -> (SocketAddr, SocketAddr) {
        (
            a.parse().expect("an address"),
            b.parse().expect("an address"),
        )
    }

    fn check(sent: &SentPacket) {
        let bytes = sent.to_bytes();
        let packet = sent.packet();
        assert_eq!(
            bytes.len() as u32 + sent.cut,
            packet.original_len,
            "{sent:?}"
        );
        assert!(bytes.ends_with(packet.payload), "{sent:?}");
        let wire = sent.wire_bytes();
        let network = 14 + 4 * sent.vlans.len();
        let transport = network + if sent.src.is_ipv4() { 20 } else { 40 };
        if sent.src.is_ipv4() {
            assert_eq!(checksum(0, &wire[network..transport]), 0, "{sent:?}");
        }
        if !matches!(sent.carrier, TransportCarrier::Other(_)) {
            let pseudo = if sent.protocol() == 1 {
                0
            } else {
                sent.pseudo_header_sum(wire.len() - transport)
            };
            assert_eq!(checksum(pseudo, &wire[transport..]), 0, "{sent:?}");
        }
    }

    /// Checks that decoding the bytes yields the test's packet.
    fn check_decoded(sent: &SentPacket) {
        let bytes = sent.to_bytes();
        let decoded = Packet::decode(&sent.captured(&bytes)).expect("a good packet");
        // Fields available only in the bytes are missing from undecoded packets.
        let decoded = Packet {
            macs: None,
            ip_header: &[],
            segment: &[],
            ..decoded
        };
        assert_eq!(format!("{decoded:?}"), format!("{:?}", sent.packet()));
    }

    #[test]
    fn lengths_and_checksums_are_right() {
        let tcp = TransportCarrier::Tcp(tcp_info(1, 2, TcpFlags::ACK));
        for pair in [
            ends("10.0.0.1:1024", "10.0.0.2:80"),
            ends("[2001:db8::1]:1024", "[2001:db8::2]:80"),
        ] {
            for carrier in [
                tcp,
                TransportCarrier::Udp,
                TransportCarrier::Icmp(8, 0),
                TransportCarrier::Other(132),
            ] {
                for payload in [&b""[..], b"x", b"hello world", &[0xff; 1400]] {
                    for vlans in [vec![], vec![7], vec![7, 8]] {
                        let cut = payload.len() as u32 / 2;
                        let sent = SentPacket {
                            cut,
                            vlans,
                            ..SentPacket::new(Timestamp(5), pair, carrier, payload)
                        };
                        check(&sent);
                        check_decoded(&sent);
                    }
                }
            }
        }
    }

    #[test]
    fn a_known_datagram() {
        // Calculated by hand: pseudo header 141d, header and payload 610c, together 7529, complement 8ad6.
        let sent = SentPacket::udp(Timestamp(0), ends("10.0.0.1:1", "10.0.0.2:2"), b"a");
        let bytes = sent.to_bytes();
        assert_eq!(bytes[24..26], [0x26, 0xce]);
        assert_eq!(bytes[34..], [0, 1, 0, 2, 0, 9, 0x8a, 0xd6, b'a']);
    }
}

//! Packets in any stack of encapsulations: the inner packet and the stack are decoded as constructed.

use proptest::prelude::*;
use testkit::packet::{SentPacket, tcp_info};
use wire::packet::{TcpFlags, TransportHeader};
use wire::tunnel::LAYERS_MAX;
use wire::{CapturedPacket, DecodeError, IpFragment, LinkType, Packet, Timestamp};

/// A packet under construction.
enum Content {
    Frame(Vec<u8>),
    Ip(Vec<u8>),
}

/// An encapsulation: kind, whether in IPv6, and a parameter.
type Wrap = (u8, bool, u16);

const OUTER: [&str; 2] = ["192.0.2.1", "198.51.100.2"];

impl Content {
    fn into_frame(self) -> Vec<u8> {
        match self {
            Content::Frame(frame) => frame,
            Content::Ip(ip) => frame(ether_type(&ip), &ip),
        }
    }

    fn typed(self) -> (u16, Vec<u8>) {
        match self {
            Content::Frame(frame) => (0x6558, frame),
            Content::Ip(ip) => (ether_type(&ip), ip),
        }
    }
}

fn ether_type(ip: &[u8]) -> u16 {
    if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

fn ppp(ip: &[u8]) -> u8 {
    if ether_type(ip) == 0x0800 { 0x21 } else { 0x57 }
}

fn frame(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &ether_type.to_be_bytes(), payload].concat()
}

fn ip(v6: bool, protocol: u8, payload: &[u8]) -> Content {
    let mut bytes = if v6 {
        vec![0x60, 0, 0, 0]
    } else {
        vec![0x45, 0]
    };
    if v6 {
        bytes.extend((payload.len() as u16).to_be_bytes());
        bytes.extend([protocol, 64]);
        bytes.extend([&[0xfd; 16][..], &[0xfc; 16]].concat());
    } else {
        bytes.extend((20 + payload.len() as u16).to_be_bytes());
        bytes.extend([
            0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2,
        ]);
    }
    bytes.extend(payload);
    Content::Ip(bytes)
}

fn udp(v6: bool, port: u16, payload: &[u8]) -> Content {
    let len = (8 + payload.len() as u16).to_be_bytes();
    ip(
        v6,
        17,
        &[&[0xc0, 0][..], &port.to_be_bytes(), &len, &[0, 0], payload].concat(),
    )
}

/// Adds one layer: its name and its number.
fn wrap(content: Content, (way, v6, n): Wrap) -> (Content, &'static str, Option<u32>) {
    let number = n.to_be_bytes();
    let id = Some(u32::from(n));
    match way % 12 {
        0 => {
            let header = [&[8, 0, 0, 0, 0][..], &number, &[0]].concat();
            let port = if n % 2 == 0 { 4789 } else { 8472 };
            (
                udp(v6, port, &[header, content.into_frame()].concat()),
                "vxlan",
                id,
            )
        }
        1 => {
            let (ether_type, inside) = content.typed();
            let header = [
                &[1, 0][..],
                &ether_type.to_be_bytes(),
                &[0],
                &number,
                &[0, 1, 2, 3, 0],
            ]
            .concat();
            (udp(v6, 6081, &[header, inside].concat()), "geneve", id)
        }
        2 => {
            let (ether_type, inside) = content.typed();
            // Checksum and sequence number are optional.
            let mut header = vec![0x20 | (way & 8) << 4 | (way & 16), 0];
            header.extend(ether_type.to_be_bytes());
            header.extend([0; 4].iter().take(if way & 8 > 0 { 4 } else { 0 }));
            header.extend([0, 0, number[0], number[1]]);
            header.extend([0; 4].iter().take(if way & 16 > 0 { 4 } else { 0 }));
            (ip(v6, 47, &[header, inside].concat()), "gre", id)
        }
        3 => {
            let session = n & 0x3ff;
            let [high, low] = session.to_be_bytes();
            let header = match way / 8 % 3 {
                0 => {
                    return (
                        ip(
                            v6,
                            47,
                            &[&[0, 0, 0x88, 0xbe][..], &content.into_frame()].concat(),
                        ),
                        "erspan",
                        None,
                    );
                }
                1 => vec![
                    0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 5, high, low, 0, 0, 0, 0,
                ],
                _ => vec![
                    0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 5, high, low, 0, 0, 0, 0, 0, 0, 0, 0,
                ],
            };
            (
                ip(v6, 47, &[header, content.into_frame()].concat()),
                "erspan",
                Some(session.into()),
            )
        }
        4 => {
            let (ether_type, inside) = match content {
                Content::Frame(_) => return wrap(content, (0, v6, n)),
                Content::Ip(ip) => (ether_type(&ip), ip),
            };
            let (protocol, name) = match (ether_type, v6) {
                (0x0800, false) => (4, "ipip"),
                (0x0800, true) => (4, "4in6"),
                (_, false) => (41, "6in4"),
                (_, true) => (41, "6in6"),
            };
            (ip(v6, protocol, &inside), name, None)
        }
        5 => {
            let inside = match content {
                Content::Frame(_) => return wrap(content, (1, v6, n)),
                Content::Ip(ip) => ip,
            };
            let header = [
                &[0x34, 255, 0, 0, 0, 0][..],
                &number,
                &[0, 0, 0, 0x85, 1, 2, 3, 0],
            ]
            .concat();
            (udp(v6, 2152, &[header, inside].concat()), "gtp", id)
        }
        6 => {
            let inside = match content {
                // After a control word.
                Content::Frame(frame) => [vec![0; 4], frame].concat(),
                Content::Ip(ip) => ip,
            };
            let entry = (u32::from(n) << 12 | 0x140).to_be_bytes();
            let stack = [&[0, 0, 0x10, 64][..], &entry, &inside].concat();
            (Content::Frame(frame(0x8847, &stack)), "mpls", id)
        }
        7 => {
            let message = match content {
                Content::Frame(frame) => return wrap(Content::Frame(frame), (8, v6, n)),
                Content::Ip(ip) => {
                    [&[0, 2, 0, 0][..], &number, &[0xff, 3, 0, ppp(&ip)], &ip].concat()
                }
            };
            (udp(v6, 1701, &message), "l2tp", id)
        }
        8 => {
            let session = n.max(1);
            let [high, low] = session.to_be_bytes();
            // A cookie of 4 bytes; the inner frame must contain IP to be found.
            let content = match content {
                Content::Frame(frame)
                    if ![[8, 0], [0x86, 0xdd]].contains(&[frame[12], frame[13]]) =>
                {
                    return wrap(Content::Frame(frame), (9, v6, n));
                }
                content => content,
            };
            let message = [&[0, 0, high, low, 5, 5, 5, 5][..], &content.into_frame()].concat();
            (ip(v6, 115, &message), "l2tp", Some(session.into()))
        }
        9 => {
            let tag = [&[0x10, 0][..], &number, &content.into_frame()].concat();
            (Content::Frame(frame(0x88e7, &tag)), "pbb", id)
        }
        10 => {
            let (next, inside) = match content {
                Content::Frame(frame) => (3, frame),
                Content::Ip(ip) => (if ether_type(&ip) == 0x0800 { 1 } else { 2 }, ip),
            };
            let header = [&[0x0f, 0xc2, 2, next, 0][..], &number, &[255], &inside].concat();
            (Content::Frame(frame(0x894f, &header)), "nsh", id)
        }
        _ => {
            let inside = match content {
                Content::Frame(_) => return wrap(content, (2, v6, n)),
                Content::Ip(ip) => ip,
            };
            // The protocol field is compressed or not.
            let long = if n % 2 == 0 { &[0][..] } else { &[] };
            let session = [
                &[0x11, 0][..],
                &number,
                &[0, 0],
                long,
                &[ppp(&inside)],
                &inside,
            ]
            .concat();
            (Content::Frame(frame(0x8864, &session)), "pppoe", id)
        }
    }
}

fn captured(bytes: &[u8], original_len: usize) -> CapturedPacket<'_> {
    let ts = Timestamp(1);
    let link_type = LinkType::Ethernet;
    CapturedPacket {
        ts,
        link_type,
        original_len: original_len as u32,
        bytes,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_innermost_packet_comes_out(
        v6: bool,
        is_frame: bool,
        payload in prop::collection::vec(any::<u8>(), 0..40),
        wraps in prop::collection::vec(any::<Wrap>(), 0..LAYERS_MAX + 2),
        cut in any::<prop::sample::Index>(),
    ) {
        let ends = if v6 { ("[fd00::1]:9", "[fd00::2]:80") } else { ("10.0.0.1:9", "10.0.0.2:80") };
        let ends = (ends.0.parse().expect("an end"), ends.1.parse().expect("an end"));
        let sent = SentPacket::tcp(Timestamp(1), ends, tcp_info(5, 6, TcpFlags::ACK), &payload);
        let bytes = sent.to_bytes();
        let mut content = if is_frame { Content::Frame(bytes) } else { Content::Ip(bytes[14..].to_vec()) };
        let mut names = Vec::new();
        let mut ids = Vec::new();
        for way in wraps {
            let (wrapped, name, id) = wrap(content, way);
            content = wrapped;
            names.insert(0, name);
            ids.push(id);
        }
        let frame = content.into_frame();
        let decoded = Packet::decode(&captured(&frame, frame.len()));
        if names.len() > LAYERS_MAX {
            prop_assert_eq!(decoded.err(), Some(DecodeError::TooDeep));
            return Ok(());
        }
        let packet = decoded.expect("a packet");
        prop_assert_eq!((packet.five_tuple, packet.payload), (sent.packet().five_tuple, &payload[..]));
        prop_assert!(matches!(packet.transport, TransportHeader::Tcp(tcp) if tcp.seq.0 == 5));
        prop_assert_eq!(packet.tunnel.to_string(), names.join("/"));
        prop_assert_eq!(packet.tunnel.id, ids.into_iter().flatten().next());
        if let Some((src, dst)) = packet.tunnel.ends {
            prop_assert!(src.to_ip().is_ipv6() || [src.to_string(), dst.to_string()] == OUTER);
        }
        prop_assert_eq!(packet.original_len as usize, frame.len());
        // With any snaplen, the packet is the same, or truncated.
        let part = &frame[..cut.index(frame.len() + 1)];
        match Packet::decode(&captured(part, frame.len())) {
            Ok(part) => {
                prop_assert_eq!((part.five_tuple, part.tunnel), (packet.five_tuple, packet.tunnel));
                prop_assert_eq!(part.payload_original_len as usize, payload.len());
                prop_assert!(payload.starts_with(part.payload));
            }
            Err(why) => prop_assert_eq!(why, DecodeError::Truncated),
        }
    }

    /// A first fragment at any depth is repaired into the whole packet that it is without fragmentation.
    #[test]
    fn headers_in_front_of_a_part_are_repaired(wraps in prop::collection::vec(any::<Wrap>(), 0..LAYERS_MAX)) {
        let ends = ("10.0.0.1:9".parse().expect("an end"), "10.0.0.2:80".parse().expect("an end"));
        let mut inner = SentPacket::udp(Timestamp(1), ends, b"sixteen bytes..!").to_bytes()[14..].to_vec();
        inner[6] = 0x20; // more fragments
        let mut content = Content::Ip(inner);
        for way in wraps {
            content = wrap(content, way).0;
        }
        let frame = content.into_frame();
        let part = IpFragment::of(&captured(&frame, frame.len())).expect("a fragment");
        prop_assert_eq!((part.offset, part.more, part.payload.bytes.len()), (0, true, 24));
        let mut whole = part.head.to_vec();
        prop_assert!(part.repair.apply(&mut whole, 24));
        whole.extend(part.payload.bytes);
        let packet = Packet::decode(&captured(&whole, whole.len()));
        prop_assert_eq!(packet.expect("a packet").payload, b"sixteen bytes..!");
        prop_assert!(!part.repair.apply(&mut whole.clone(), 70_000), "no datagram is that long");
    }
}

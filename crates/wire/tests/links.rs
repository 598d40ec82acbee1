//! Packets with every supported link header and tag, compared with their construction and with tshark.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use testkit::packet::{SentPacket, tcp_info};
use wire::packet::TcpFlags;
use wire::{
    CapturedPacket, DecodeError, IpFragment, LinkType, Packet, Timestamp, UnreadProtocol,
    innermost, unread_protocol,
};

const ETHERNET: u16 = 1;
const PAYLOAD: &[u8] = b"GET / HTTP/1.1\r\n\r\n";

/// A packet, and whether tshark decodes it with default preferences.
struct Case {
    name: &'static str,
    link_type: u16,
    bytes: Vec<u8>,
    tunnel: &'static str,
    has_witness: bool,
}

/// An Ethernet frame with a TCP segment.
fn plain() -> Vec<u8> {
    let ends = (
        "10.9.0.1:40000".parse().expect("an end"),
        "10.9.0.2:80".parse().expect("an end"),
    );
    SentPacket::tcp(Timestamp(1), ends, tcp_info(5, 6, TcpFlags::ACK), PAYLOAD).to_bytes()
}

fn ip() -> Vec<u8> {
    plain()[14..].to_vec()
}

fn ip_of(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = ip()[..20].to_vec();
    packet[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    packet[9] = protocol;
    [packet, payload.to_vec()].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let port = port.to_be_bytes();
    let len = (8 + payload.len() as u16).to_be_bytes();
    ip_of(17, &[&port[..], &port, &len, &[0, 0], payload].concat())
}

fn frame(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&plain()[..12], &ether_type.to_be_bytes(), payload].concat()
}

/// LLC and SNAP headers, followed by the packet.
fn snap() -> Vec<u8> {
    [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &ip()].concat()
}

fn authenticated(next: u8, payload: &[u8]) -> Vec<u8> {
    [
        &[next, 4, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1][..],
        &[9; 12],
        payload,
    ]
    .concat()
}

/// A wireless data frame to the access point.
fn wifi(first: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
    let addresses = [[2u8, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 3]].concat();
    [&[first, flags, 0, 0][..], &addresses, &[0, 0], rest].concat()
}

fn cases() -> Vec<Case> {
    let case = |name, link_type, bytes, tunnel| Case {
        name,
        link_type,
        bytes,
        tunnel,
        has_witness: true,
    };
    let unwitnessed = |name, link_type, bytes, tunnel| Case {
        name,
        link_type,
        bytes,
        tunnel,
        has_witness: false,
    };
    let with = |front: &[u8], rest: Vec<u8>| [front, &rest].concat();
    let length = snap().len() as u16;
    let mut prism = vec![0; 144];
    prism[..8].copy_from_slice(&[0x44, 0, 0, 0, 144, 0, 0, 0]);
    let mut avs = vec![0; 64];
    avs[..8].copy_from_slice(&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64]);
    let subframe = [&[2; 12][..], &length.to_be_bytes(), &snap()].concat();
    let l2tp = |session: &[u8], rest: Vec<u8>| with(session, rest);
    let cookie = [0, 0, 0, 7, 1, 2, 3, 4];
    vec![
        case("LLC and SNAP", ETHERNET, frame(length, &snap()), ""),
        case(
            "LLC in a VLAN",
            ETHERNET,
            frame(0x8100, &with(&[0, 5], with(&length.to_be_bytes(), snap()))),
            "",
        ),
        case(
            "Cisco metadata",
            ETHERNET,
            frame(0x8909, &with(&[1, 1, 0, 1, 0, 7, 8, 0], ip())),
            "",
        ),
        case(
            "VN-Tag",
            ETHERNET,
            frame(0x8926, &with(&[0, 1, 0, 2, 8, 0], ip())),
            "",
        ),
        unwitnessed(
            "E-Tag",
            ETHERNET,
            frame(0x893f, &with(&[0, 1, 0, 2, 0, 0, 8, 0], ip())),
            "",
        ),
        case(
            "HSR",
            ETHERNET,
            frame(0x892f, &with(&[0, 64, 0, 9, 8, 0], ip())),
            "",
        ),
        case(
            "PRP",
            ETHERNET,
            [plain(), vec![0, 9, 0xa0, 64, 0x88, 0xfb]].concat(),
            "",
        ),
        case(
            "PBB",
            ETHERNET,
            frame(0x88e7, &with(&[0x10, 0, 1, 2], plain())),
            "pbb",
        ),
        case(
            "NSH",
            ETHERNET,
            frame(0x894f, &with(&[0x0f, 0xc2, 2, 1, 0, 0, 7, 255], ip())),
            "nsh",
        ),
        case(
            "NSH with a frame",
            ETHERNET,
            frame(0x894f, &with(&[0x0f, 0xc2, 2, 3, 0, 0, 7, 255], plain())),
            "nsh",
        ),
        case(
            "PPPoE",
            ETHERNET,
            frame(0x8864, &with(&[0x11, 0, 0, 7, 0, 60, 0, 0x21], ip())),
            "pppoe",
        ),
        case(
            "PPPoE, compressed",
            ETHERNET,
            frame(0x8864, &with(&[0x11, 0, 0, 7, 0, 59, 0x21], ip())),
            "pppoe",
        ),
        case(
            "AH",
            ETHERNET,
            frame(0x0800, &ip_of(51, &authenticated(6, &ip()[20..]))),
            "",
        ),
        case(
            "AH with IP",
            ETHERNET,
            frame(0x0800, &ip_of(51, &authenticated(4, &ip()))),
            "ipip",
        ),
        case(
            "L2TP",
            ETHERNET,
            frame(
                0x0800,
                &udp(1701, &l2tp(&[0, 2, 0, 5, 0, 7, 0xff, 3, 0, 0x21], ip())),
            ),
            "l2tp",
        ),
        case(
            "L2TP with all fields",
            ETHERNET,
            frame(
                0x0800,
                &udp(
                    1701,
                    &l2tp(
                        &[0x4a, 2, 0, 90, 0, 5, 0, 7, 0, 1, 0, 2, 0, 2, 9, 9, 0x21],
                        ip(),
                    ),
                ),
            ),
            "l2tp",
        ),
        unwitnessed(
            "L2TPv3",
            ETHERNET,
            frame(0x0800, &ip_of(115, &with(&cookie, plain()))),
            "l2tp",
        ),
        unwitnessed(
            "L2TPv3 in UDP",
            ETHERNET,
            frame(
                0x0800,
                &udp(1701, &with(&[0, 3, 0, 0], with(&cookie, plain()))),
            ),
            "l2tp",
        ),
        case(
            "token ring",
            6,
            with(&[0x10, 0x40, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], snap()),
            "",
        ),
        case(
            "a route",
            6,
            with(
                &[
                    0x10, 0x40, 2, 0, 0, 0, 0, 1, 0x82, 0, 0, 0, 0, 2, 4, 0, 1, 2,
                ],
                snap(),
            ),
            "",
        ),
        case("PPP", 9, with(&[0, 0x21], ip()), ""),
        case(
            "PPP in HDLC framing",
            9,
            with(&[0xff, 3, 0, 0x21], ip()),
            "",
        ),
        case(
            "FDDI",
            10,
            with(&[0x50, 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], snap()),
            "",
        ),
        case("serial PPP", 50, with(&[0xff, 3, 0, 0x21], ip()), ""),
        case("serial HDLC", 50, with(&[0x0f, 0, 8, 0], ip()), ""),
        case(
            "PPP of PPPoE",
            51,
            with(&[0x11, 0, 0, 7, 0, 60, 0, 0x21], ip()),
            "pppoe",
        ),
        case("ATM", 100, snap(), ""),
        case("Cisco HDLC", 104, with(&[0x0f, 0, 8, 0], ip()), ""),
        case("802.11", 105, wifi(0x08, 1, &snap()), ""),
        case("802.11 QoS", 105, wifi(0x88, 1, &with(&[0, 0], snap())), ""),
        case(
            "802.11 aggregate",
            105,
            wifi(0x88, 1, &with(&[0x80, 0], subframe)),
            "",
        ),
        case("frame relay", 107, with(&[0x18, 0x41, 3, 0xcc], ip()), ""),
        case(
            "frame relay, Cisco's",
            107,
            with(&[0x18, 0x41, 8, 0], ip()),
            "",
        ),
        case(
            "frame relay, SNAP",
            107,
            with(&[0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0], ip()),
            "",
        ),
        case("Prism", 119, with(&prism, wifi(0x08, 1, &snap())), ""),
        case(
            "radiotap",
            127,
            with(&[0, 0, 9, 0, 2, 0, 0, 0, 0], wifi(0x08, 1, &snap())),
            "",
        ),
        case(
            "radiotap, padded",
            127,
            with(
                &[0, 0, 9, 0, 2, 0, 0, 0, 0x20],
                wifi(0x88, 1, &with(&[0, 0, 0, 0], snap())),
            ),
            "",
        ),
        case("AVS", 163, with(&avs, wifi(0x08, 1, &snap())), ""),
        unwitnessed("pppd", 166, with(&[0, 3, 0, 0x21], ip()), ""),
        case("Juniper", 178, with(&[0x4d, 0x47, 0x43, 0], plain()), ""),
        case(
            "PPI",
            192,
            with(&[0, 0, 8, 0, 105, 0, 0, 0], wifi(0x08, 1, &snap())),
            "",
        ),
        case(
            "PPP with direction",
            204,
            with(&[1, 0xff, 3, 0, 0x21], ip()),
            "",
        ),
        case(
            "IPNET",
            226,
            with(
                &[2, 2, 0, 0],
                [vec![0, 0, 0, 58], vec![0; 16], ip()].concat(),
            ),
            "",
        ),
        case("NFLOG", 239, with(&[2, 0, 0, 1, 62, 0, 9, 0], ip()), ""),
        case(
            "InfiniBand",
            242,
            [vec![0; 40], vec![8, 0, 0, 0], ip()].concat(),
            "",
        ),
        case(
            "LLC, cooked",
            113,
            with(&[0, 0, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0, 0, 4], snap()),
            "",
        ),
        unwitnessed(
            "PKTAP",
            258,
            [vec![12, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0], plain()].concat(),
            "",
        ),
    ]
}

fn captured<'a>(case: &Case, bytes: &'a [u8], original_len: usize) -> CapturedPacket<'a> {
    let link_type = LinkType::from(case.link_type);
    CapturedPacket {
        ts: Timestamp(1),
        link_type,
        original_len: original_len as u32,
        bytes,
    }
}

#[test]
fn packets_are_found_behind_every_header() {
    for case in cases() {
        let packet = Packet::decode(&captured(&case, &case.bytes, case.bytes.len()));
        let packet = packet.unwrap_or_else(|why| panic!("{}: {why:?}", case.name));
        let expected = Packet::decode(&CapturedPacket {
            link_type: LinkType::Ethernet,
            ..captured(&case, &plain(), 0)
        })
        .map(|packet| packet.five_tuple);
        assert_eq!(Ok(packet.five_tuple), expected, "{}", case.name);
        assert_eq!(
            (packet.payload, packet.tunnel.to_string().as_str()),
            (PAYLOAD, case.tunnel),
            "{}",
            case.name
        );
        // Capture filters apply to the inner packet.
        let is_seen_by_filters = ["PRP", "AH"].contains(&case.name);
        let inner = innermost(&captured(&case, &case.bytes, 0));
        assert_eq!(inner.is_none(), is_seen_by_filters, "{}", case.name);
        for n in 0..case.bytes.len() {
            match Packet::decode(&captured(&case, &case.bytes[..n], case.bytes.len())) {
                Ok(part) => assert_eq!(
                    part.five_tuple, packet.five_tuple,
                    "{}: {n} bytes",
                    case.name
                ),
                Err(why) => assert_eq!(why, DecodeError::Truncated, "{}: {n} bytes", case.name),
            }
        }
    }
}

/// A first fragment is repaired into a whole packet, with headers of any length before it.
#[test]
fn headers_in_front_of_a_part_are_repaired() {
    for case in cases()
        .iter()
        .filter(|case| !case.name.starts_with("L2TPv3"))
    {
        let mut bytes = case.bytes.clone();
        let at = bytes
            .windows(8)
            .rposition(|w| w[0] == 0x45 && w[1] == 0 && w[3] > 20)
            .expect("an IP header");
        bytes[at + 6] = 0x20; // more fragments
        let Some(part) = IpFragment::of(&captured(case, &bytes, bytes.len())) else {
            panic!("{}: not a fragment", case.name);
        };
        let longer = vec![7; 3000];
        let mut whole = part.head.to_vec();
        let all = [part.payload.bytes, &longer].concat();
        assert!(
            part.repair.apply(&mut whole, all.len() as u32),
            "{}",
            case.name
        );
        whole.extend(&all);
        let packet = Packet::decode(&captured(case, &whole, whole.len()));
        let packet = packet.unwrap_or_else(|why| panic!("{}: {why:?}", case.name));
        assert!(packet.payload.ends_with(&longer), "{}", case.name);
    }
}

#[test]
fn unsupported_frames_are_named() {
    for (link_type, bytes, name) in [
        (ETHERNET, frame(0x0806, &[0; 46]), "arp"),
        (ETHERNET, frame(0x8100, &[0, 5, 0x88, 0xcc, 0, 0]), "lldp"),
        (
            ETHERNET,
            frame(38, &[&[0x42, 0x42, 3][..], &[0; 43]].concat()),
            "stp",
        ),
        (
            ETHERNET,
            frame(0x8864, &[0x11, 0, 0, 7, 0, 2, 0xc0, 0x21, 1]),
            "ppp_lcp",
        ),
        (ETHERNET, frame(0x1234, &[0; 46]), "ethertype_0x1234"),
        (105, wifi(0x08, 0x41, &[0; 40]), "wifi_encrypted"),
        (105, wifi(0x80, 0, &[0; 40]), "wifi_management"),
        (189, vec![0; 64], "usb"),
        (147, vec![0; 64], "link_type_147"),
    ] {
        let link_type = LinkType::from(link_type);
        let packet = CapturedPacket {
            ts: Timestamp(1),
            link_type,
            original_len: bytes.len() as u32,
            bytes: &bytes,
        };
        let why = Packet::decode(&packet).err();
        assert!(
            matches!(why, Some(DecodeError::NotIp | DecodeError::UnknownLinkType)),
            "{name}: {why:?}"
        );
        assert_eq!(
            unread_protocol(&packet)
                .map(|protocol| protocol.to_string())
                .as_deref(),
            Some(name)
        );
    }
    let tags = frame(0x8926, &[[0, 1, 0, 2, 0x89, 0x26]].repeat(9).concat());
    let endless = CapturedPacket {
        ts: Timestamp(1),
        link_type: LinkType::Ethernet,
        original_len: 0,
        bytes: &tags,
    };
    assert_eq!(Packet::decode(&endless).err(), Some(DecodeError::Malformed));
    assert_eq!(unread_protocol(&endless), None::<UnreadProtocol>);
}

#[test]
fn tshark_reads_the_same() {
    testkit::require!("tshark");
    let mut by_link_type: BTreeMap<u16, Vec<Case>> = BTreeMap::new();
    for case in cases().into_iter().filter(|case| case.has_witness) {
        by_link_type.entry(case.link_type).or_default().push(case);
    }
    let expected = format!("10.9.0.1\t40000\t10.9.0.2\t80\t{}", PAYLOAD.len());
    for (link_type, cases) in by_link_type {
        let read = tshark(link_type, &cases);
        assert_eq!(read.len(), cases.len(), "link type {link_type}");
        for (case, read) in cases.iter().zip(read) {
            assert_eq!(read, expected, "{}", case.name);
        }
    }
}

/// One line per packet: innermost addresses and ports, and payload length.
fn tshark(link_type: u16, cases: &[Case]) -> Vec<String> {
    let mut capture = Vec::new();
    let mut add = |words: &[u32]| {
        words
            .iter()
            .for_each(|word| capture.extend(word.to_le_bytes()))
    };
    add(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, link_type.into()]);
    for case in cases {
        let len = case.bytes.len() as u32;
        [1, 0, len, len]
            .iter()
            .for_each(|word: &u32| capture.extend(word.to_le_bytes()));
        capture.extend(&case.bytes);
    }
    let file = std::env::temp_dir().join(format!("links-{}-{link_type}.pcap", std::process::id()));
    fs::write(&file, capture).expect("written");
    let mut tshark = Command::new("tshark");
    tshark
        .args(["-T", "fields", "-E", "occurrence=l", "-r"])
        .arg(&file);
    for field in ["ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "tcp.len"] {
        tshark.args(["-e", field]);
    }
    let read = tshark.output().expect("it runs");
    fs::remove_file(&file).expect("it exists");
    String::from_utf8(read.stdout)
        .expect("text")
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Damaged headers of every kind are decoded or rejected; decoded parts are consistent.
#[test]
fn damage_does_no_harm() {
    let mut rng = testkit::SeededRng::new(7);
    let cases = cases();
    for _ in 0..50_000 {
        let mut random = |below: usize| rng.next_u64() as usize % below.max(1);
        let case = &cases[random(cases.len())];
        let mut bytes = case.bytes.clone();
        for _ in 0..random(6) {
            let at = random(bytes.len());
            bytes[at] = random(256) as u8;
        }
        bytes.truncate(random(bytes.len() * 4).max(1));
        let packet = captured(case, &bytes, bytes.len() + random(100));
        let decoded = Packet::decode(&packet);
        assert!(
            decoded.is_err() || unread_protocol(&packet).is_none(),
            "{}: {bytes:x?}",
            case.name
        );
        if let (Ok(decoded), Some(inner)) = (&decoded, innermost(&packet)) {
            let inner = Packet::decode(&inner).expect("it was decoded as a part of all");
            assert_eq!(
                (inner.five_tuple, inner.payload),
                (decoded.five_tuple, decoded.payload),
                "{}",
                case.name
            );
        }
        if let Some(part) = IpFragment::of(&packet) {
            let _ = part.repair.apply(&mut part.head.to_vec(), 1480);
        }
    }
}

//! Decodes captured bytes: by the fast path if possible, otherwise header by header.

use crate::captured_packet::CapturedPacket;
use crate::decode_error::DecodeError;
use crate::fast_path;
use crate::fragment::IpFragment;
use crate::packet::{Packet, PacketConsumer};
use crate::walk::{WalkOutcome, walk};

impl<'a> Packet<'a> {
    /// Decodes link, network, and transport headers.
    ///
    /// # Errors
    /// [`DecodeError`] with the reason; an ordinary result, counted by the caller.
    // Inlined always: moving the result of a call would cost a third of the time.
    #[inline(always)]
    pub fn decode(captured: &CapturedPacket<'a>) -> Result<Packet<'a>, DecodeError> {
        match fast_path::decode(captured) {
            Some(packet) => Ok(packet),
            None => Packet::decode_any(*captured),
        }
    }

    /// Decodes a packet and passes it to `take`, which is compiled separately for the fast paths of IPv4 and IPv6,
    /// where the fields stay in registers, and for all other packets, whose fields are stored in memory.
    ///
    /// # Errors
    /// As [`Packet::decode`].
    #[inline(always)]
    pub fn decode_into(
        captured: &CapturedPacket<'a>,
        take: &mut impl PacketConsumer<'a>,
    ) -> Result<(), DecodeError> {
        if fast_path::decode_into(captured, take) {
            Ok(())
        } else {
            odd(*captured, take)
        }
    }

    /// Whether a fast check proves that a packet is no fragment and contains none; true for most packets.
    #[inline(always)]
    #[must_use]
    pub fn is_surely_whole(captured: &CapturedPacket<'_>) -> bool {
        fast_path::is_whole(captured)
    }

    /// Decodes any packet, header by header.
    // By value: a borrowed packet would have to be stored in memory on every call.
    #[inline(never)]
    fn decode_any(captured: CapturedPacket<'a>) -> Result<Packet<'a>, DecodeError> {
        match walk(captured)? {
            WalkOutcome::Packet(packet) => Ok(packet),
            WalkOutcome::Fragment(_) => Err(DecodeError::Fragment),
        }
    }
}

impl<'a> IpFragment<'a> {
    /// The fragment in a packet, also inside tunnels; `None` if the packet is complete or cannot be decoded.
    #[must_use]
    pub fn of(captured: &CapturedPacket<'a>) -> Option<IpFragment<'a>> {
        match walk(*captured) {
            Ok(WalkOutcome::Fragment(fragment)) => Some(fragment),
            _ => None,
        }
    }
}

#[inline(never)]
fn odd<'a>(
    captured: CapturedPacket<'a>,
    take: &mut impl PacketConsumer<'a>,
) -> Result<(), DecodeError> {
    let packet = Packet::decode_any(captured)?;
    take.packet(&captured, &packet);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::{TcpFlags, TransportHeader};
    use crate::{FiveTuple, LinkType, TcpSeq, Timestamp};

    const LINK_TYPES: [LinkType; 9] = [
        LinkType::Ethernet,
        LinkType::Null,
        LinkType::Loop,
        LinkType::Raw,
        LinkType::Ipv4,
        LinkType::Ipv6,
        LinkType::LinuxSll,
        LinkType::LinuxSll2,
        LinkType::Other(147),
    ];

    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let [high, low] = (20 + payload.len() as u16).to_be_bytes();
        let header = [
            0x45, 0, high, low, 0, 0, 0x40, 0, 61, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        [&header, payload].concat()
    }

    fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let [high, low] = (payload.len() as u16).to_be_bytes();
        let mut packet = vec![0x60, 0, 0, 0, high, low, protocol, 62];
        packet.extend([[0; 15].as_slice(), &[1], &[0; 15], &[2], payload].concat());
        packet
    }

    fn tcp(payload: &[u8]) -> Vec<u8> {
        let header = [
            0x1f, 0x90, 0, 80, 0, 0, 0, 7, 0, 0, 0, 9, 0x50, 0x18, 1, 0, 0, 0, 0, 0,
        ];
        [&header, payload].concat()
    }

    fn udp(payload: &[u8]) -> Vec<u8> {
        [&[0x80, 0, 0, 53, 0, 8 + payload.len() as u8, 0, 0], payload].concat()
    }

    fn ethernet(types: &[u16], payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend(types[0].to_be_bytes());
        types[1..]
            .iter()
            .for_each(|t| frame.extend([&[0, 5], t.to_be_bytes().as_slice()].concat()));
        frame.extend(payload);
        frame
    }

    fn decode(
        link_type: LinkType,
        bytes: &[u8],
        original_len: usize,
    ) -> Result<Packet<'_>, DecodeError> {
        Packet::decode(&CapturedPacket {
            ts: Timestamp(1),
            link_type,
            original_len: original_len as u32,
            bytes,
        })
    }

    /// Link type and bytes → "source > destination protocol: payload", or the error.
    fn check(link_type: LinkType, bytes: &[u8], expected: Result<&str, DecodeError>) {
        let decoded = decode(link_type, bytes, bytes.len()).map(|p| {
            let FiveTuple { src, dst, protocol } = p.five_tuple;
            let payload = String::from_utf8_lossy(p.payload);
            format!(
                "{} {} > {} {} {}: {payload}",
                src.addr, src.port, dst.addr, dst.port, protocol.0
            )
        });
        assert_eq!(
            decoded.as_deref(),
            expected.as_ref().map(|s| *s),
            "{link_type:?} {bytes:x?}"
        );
    }

    const TCP_HI: &str = "10.0.0.1 8080 > 10.0.0.2 80 6: hi";
    const UDP_HI: &str = "::1 32768 > ::2 53 17: hi";

    #[test]
    fn every_link_type() {
        let v4 = ipv4(6, &tcp(b"hi"));
        let v6 = ipv6(17, &udp(b"hi"));
        let with = |front: &[u8], rest: &[u8]| [front, rest].concat();
        check(LinkType::Ethernet, &ethernet(&[0x0800], &v4), Ok(TCP_HI));
        check(LinkType::Ethernet, &ethernet(&[0x86dd], &v6), Ok(UDP_HI));
        check(LinkType::Raw, &v4, Ok(TCP_HI));
        check(LinkType::Raw, &v6, Ok(UDP_HI));
        check(LinkType::Ipv4, &v4, Ok(TCP_HI));
        check(LinkType::Ipv6, &v6, Ok(UDP_HI));
        check(
            LinkType::LinuxSll,
            &with(&[0, 0, 0, 1, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0, 8, 0], &v4),
            Ok(TCP_HI),
        );
        let sll2 = [
            0x86, 0xdd, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 1, 1, 1, 1, 1, 0, 0,
        ];
        check(LinkType::LinuxSll2, &with(&sll2, &v6), Ok(UDP_HI));
        for link_type in [LinkType::Null, LinkType::Loop] {
            check(link_type, &with(&[2, 0, 0, 0], &v4), Ok(TCP_HI));
            check(link_type, &with(&[0, 0, 0, 2], &v4), Ok(TCP_HI));
            for family in [10, 24, 28, 30] {
                check(link_type, &with(&[family, 0, 0, 0], &v6), Ok(UDP_HI));
                check(link_type, &with(&[0, 0, 0, family], &v6), Ok(UDP_HI));
            }
            check(
                link_type,
                &with(&[7, 0, 0, 0], &v4),
                Err(DecodeError::NotIp),
            );
        }
        check(LinkType::Other(147), &v4, Err(DecodeError::UnknownLinkType));
    }

    #[test]
    fn tags_are_peeled_off() {
        let v4 = ipv4(6, &tcp(b"hi"));
        check(
            LinkType::Ethernet,
            &ethernet(&[0x8100, 0x0800], &v4),
            Ok(TCP_HI),
        );
        check(
            LinkType::Ethernet,
            &ethernet(&[0x88a8, 0x8100, 0x0800], &v4),
            Ok(TCP_HI),
        );
        check(
            LinkType::Ethernet,
            &ethernet(&[0x9100, 0x8100, 0x0800], &v4),
            Ok(TCP_HI),
        );
        check(
            LinkType::Ethernet,
            &ethernet(&[0x8100, 0x0806], &v4),
            Err(DecodeError::NotIp),
        );
    }

    #[test]
    fn frames_without_ip() {
        for ether_type in [0x0806, 0x88cc, 0x0026, 0x8863] {
            check(
                LinkType::Ethernet,
                &ethernet(&[ether_type], &[0; 46]),
                Err(DecodeError::NotIp),
            );
        }
        check(LinkType::Raw, &[0x15; 40], Err(DecodeError::Malformed));
        check(LinkType::Raw, &[], Err(DecodeError::Malformed));
    }

    #[test]
    fn padding_is_not_payload() {
        let padded = |ip: Vec<u8>| [ip, vec![0; 6]].concat();
        check(
            LinkType::Ethernet,
            &ethernet(&[0x0800], &padded(ipv4(6, &tcp(b"hi")))),
            Ok(TCP_HI),
        );
        check(
            LinkType::Ethernet,
            &ethernet(&[0x86dd], &padded(ipv6(17, &udp(b"hi")))),
            Ok(UDP_HI),
        );
        let bare = ethernet(&[0x0800], &padded(ipv4(6, &tcp(b""))));
        let packet = decode(LinkType::Ethernet, &bare, bare.len()).expect("an acknowledgment");
        assert_eq!((packet.payload.len(), packet.payload_original_len), (0, 0));
    }

    #[test]
    fn other_transports() {
        check(
            LinkType::Raw,
            &ipv4(1, &[8, 0, 0, 0]),
            Ok("10.0.0.1 0 > 10.0.0.2 0 1: "),
        );
        check(
            LinkType::Raw,
            &ipv6(58, &[128, 3, 0, 0]),
            Ok("::1 0 > ::2 0 58: "),
        );
        check(
            LinkType::Raw,
            &ipv4(132, b"sctp"),
            Ok("10.0.0.1 0 > 10.0.0.2 0 132: sctp"),
        );
        let echo = ipv6(58, &[128, 3, 0, 0]);
        let packet = decode(LinkType::Raw, &echo, echo.len()).expect("an echo request");
        assert!(matches!(
            packet.transport,
            TransportHeader::Icmp { kind: 128, code: 3 }
        ));
        assert_eq!(packet.ttl, 62);
    }

    #[test]
    fn fragments_and_malformed_segments() {
        let mut fragment = ipv4(6, &tcp(b"hi"));
        fragment[6] = 0x20;
        check(LinkType::Raw, &fragment, Err(DecodeError::Fragment));
        for offset in [0x40, 0x60] {
            let mut segment = tcp(b"hi");
            segment[12] = offset;
            check(
                LinkType::Raw,
                &ipv4(6, &segment),
                Err(DecodeError::Malformed),
            );
        }
        check(
            LinkType::Raw,
            &ipv4(6, &tcp(b"")[..19]),
            Err(DecodeError::Malformed),
        );
    }

    #[test]
    fn tcp_header_is_kept() {
        let bytes = ipv4(6, &tcp(b"hi"));
        let packet = decode(LinkType::Raw, &bytes, bytes.len()).expect("a segment");
        let TransportHeader::Tcp(segment) = packet.transport else {
            panic!("{packet:?}")
        };
        assert_eq!(
            (segment.seq, segment.ack, segment.window),
            (TcpSeq(7), TcpSeq(9), 256)
        );
        assert!(segment.flags.contains(TcpFlags::PSH | TcpFlags::ACK));
        assert!(
            !segment
                .flags
                .intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST)
        );
    }

    /// A packet cut at any position decodes to the same result, or to [`DecodeError::Truncated`].
    #[test]
    fn cut_at_every_byte() {
        let body = b"0123456789";
        for frame in [
            ethernet(&[0x0800], &ipv4(6, &tcp(body))),
            ethernet(&[0x8100, 0x86dd], &ipv6(6, &tcp(body))),
            ethernet(
                &[0x86dd],
                &ipv6(
                    0,
                    &[[17, 0, 1, 4, 0, 0, 0, 0].as_slice(), &udp(body)].concat(),
                ),
            ),
        ] {
            let headers = frame.len() - body.len();
            for n in 0..frame.len() {
                let Ok(packet) = decode(LinkType::Ethernet, &frame[..n], frame.len()) else {
                    let why = decode(LinkType::Ethernet, &frame[..n], frame.len()).err();
                    assert_eq!(
                        (why, n < headers),
                        (Some(DecodeError::Truncated), true),
                        "{n} bytes"
                    );
                    continue;
                };
                assert_eq!(
                    (packet.payload, packet.payload_original_len),
                    (&body[..n - headers], 10)
                );
            }
        }
    }

    /// Checks that both paths agree; the fast path may decline.
    fn check_fast(bytes: &[u8], original_len: usize) -> bool {
        let ts = Timestamp(1);
        let link_type = LinkType::Ethernet;
        let captured = CapturedPacket {
            ts,
            link_type,
            original_len: original_len as u32,
            bytes,
        };
        let fast = fast_path::decode(&captured);
        if let Some(packet) = &fast {
            let views = Packet::decode_any(captured);
            assert_eq!(
                format!("Ok({packet:?})"),
                format!("{views:?}"),
                "{bytes:x?}"
            );
        }
        fast.is_some()
    }

    #[test]
    fn plain_headers_take_the_fast_path() {
        let body = [7; 40].as_slice();
        let room = [0; 12].as_slice();
        let tcp = tcp(body);
        let udp = udp(body);
        for (types, of_ip) in [(0x0800, ipv4 as fn(u8, &[u8]) -> Vec<u8>), (0x86dd, ipv6)] {
            for segment in [of_ip(6, &tcp), of_ip(17, &udp)] {
                let frames = [vec![types], vec![0x8100, types], vec![0x88a8, types]];
                for frame in frames.map(|types| ethernet(&types, &segment)) {
                    assert!(check_fast(&frame, frame.len()), "{frame:x?}");
                    assert!(
                        check_fast(&[&frame, room].concat(), frame.len() + 12),
                        "with padding"
                    );
                    assert!(check_fast(&frame[..80], frame.len()), "cut");
                    assert!((0..frame.len()).any(|n| !check_fast(&frame[..n], frame.len())));
                }
            }
        }
        assert!(
            !check_fast(&ethernet(&[0x88a8, 0x8100, 0x0800], &ipv4(6, &tcp)), 0),
            "two tags"
        );
        assert!(
            !check_fast(&ethernet(&[0x0800], &ipv4(1, &[8; 40])), 0),
            "ICMP"
        );
    }

    fn any_packet() -> impl Strategy<Value = Vec<u8>> {
        let frames = vec![
            ethernet(&[0x0800], &ipv4(17, &udp(b"0123456789abcdef"))),
            ethernet(&[0x86dd], &ipv6(6, &tcp(b"0123456789"))),
            ethernet(&[0x9100, 0x86dd], &ipv6(17, &udp(b"0123456789abcdef"))),
            ethernet(&[0x8100, 0x0800], &ipv4(6, &tcp(b"0123456789"))),
            ethernet(&[0x0800], &ipv4(6, &tcp(b"0123456789"))),
            ethernet(&[0x8100, 0x86dd], &ipv6(6, &tcp(b"0123456789"))),
            ethernet(
                &[0x86dd],
                &ipv6(
                    0,
                    &[[44, 0, 1, 4, 0, 0, 0, 0], [6, 0, 0, 0, 0, 0, 0, 0]].concat(),
                ),
            ),
            ipv4(17, &udp(b"0123456789")),
            ipv6(
                51,
                &[[60, 4, 0, 0, 0, 0, 0, 0].as_slice(), &[0; 40]].concat(),
            ),
        ];
        let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
        let changed = (prop::sample::select(frames), changes).prop_map(|(mut frame, changes)| {
            let len = frame.len();
            changes
                .iter()
                .for_each(|(at, value)| frame[at.index(len)] = *value);
            frame
        });
        prop_oneof![4 => changed, 1 => proptest::collection::vec(any::<u8>(), 0..200)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn fast_path_equals_the_views(
            bytes in any_packet(),
            cut in any::<prop::sample::Index>(),
            more in 0usize..100,
        ) {
            check_fast(&bytes, bytes.len() + more);
            check_fast(&bytes[..cut.index(bytes.len() + 1)], bytes.len());
        }

        #[test]
        fn never_panics_and_cutting_only_shortens(bytes in any_packet(), cut in any::<prop::sample::Index>()) {
            for link_type in LINK_TYPES {
                let cut = &bytes[..cut.index(bytes.len() + 1)];
                let whole = decode(link_type, &bytes, bytes.len());
                match (decode(link_type, cut, bytes.len()), &whole) {
                    (Ok(part), Ok(whole)) => {
                        prop_assert_eq!(part.five_tuple, whole.five_tuple);
                        prop_assert_eq!(part.payload_original_len, whole.payload_original_len);
                        prop_assert!(whole.payload.starts_with(part.payload));
                        prop_assert!(whole.payload.len() <= whole.payload_original_len as usize);
                    }
                    (Err(why), Ok(_)) => prop_assert_eq!(why, DecodeError::Truncated),
                    (Err(_), Err(_)) => (),
                    (Ok(part), Err(why)) => prop_assert!(false, "{part:?} of what is {why:?} when whole"),
                }
            }
        }
    }
}

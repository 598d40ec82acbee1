//! Segments that do not belong to the connection: strays, forgeries, damage. Streams, roles, and lifetime of the
//! connection equal those of the dialogue without them.

use flow::{FlowTableConfig, FlowTableCounters};
use testkit::{SentPacket, TcpDialogue};
use wire::packet::TcpFlags;
use wire::{FlowSide, Packet, TcpSeq};

use super::{MS, SECOND, check, talk};
use crate::observe::Observer;

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const RST: TcpFlags = TcpFlags::RST;
const SYN_ACK: TcpFlags = TcpFlags(0x12);

/// Counters of rejected segments.
fn refused(counters: &FlowTableCounters) -> [u64; 3] {
    [
        counters.syns_ignored,
        counters.resets_ignored,
        counters.acks_ignored,
    ]
}

/// A dialogue in which `intrude` adds packets once in the middle.
fn with_intruder(intrude: impl Fn(&mut TcpDialogue)) -> TcpDialogue {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"ask");
    talk.advance(SECOND);
    intrude(&mut talk);
    talk.server().send(b"answer");
    talk.client().send(b"more");
    talk.server().send(b"enough");
    talk.close();
    talk
}

fn check_refused(intrude: impl Fn(&mut TcpDialogue), expected: [u64; 3], why: &str) {
    let seen = check(&with_intruder(intrude), "open <3 >6 <4 >6 <end >end FIN");
    let flow = seen.only();
    assert_eq!(refused(seen.table.counters()), expected, "{why}");
    assert_eq!(
        (flow.client(), flow.handshake_ns()),
        ((FlowSide::A, false), Some(20_000)),
        "{why}"
    );
    assert_eq!(
        (flow.conn_state().name(), flow.history().as_str()),
        ("SF", "ShADadFf"),
        "{why}"
    );
}

#[test]
fn a_stray_syn_changes_nothing() {
    for offset in [0, 1, -1_000, 77, 100_000, 1 << 21, 1 << 30, 1 << 31] {
        let why = format!("{offset} from the next number");
        check_refused(
            |talk| _ = talk.client().segment(offset, SYN, b""),
            [1, 0, 0],
            &why,
        );
        check_refused(
            |talk| _ = talk.server().segment(offset, SYN, b""),
            [1, 0, 0],
            &why,
        );
        check_refused(
            |talk| _ = talk.server().segment(offset, SYN_ACK, b""),
            [1, 0, 0],
            &why,
        );
        check_refused(
            |talk| _ = talk.client().segment(offset, SYN, b"GET /"),
            [1, 0, 0],
            &why,
        );
        let challenged = |talk: &mut TcpDialogue| {
            talk.client().segment(offset, SYN, b"");
            talk.server().ack();
        };
        check_refused(
            challenged,
            [1, 0, 0],
            "with the challenge that RFC 5961 has the server send",
        );
    }
}

#[test]
fn stray_syn_in_a_midstream_connection_does_not_set_the_client() {
    let mut talk = talk();
    talk.client().send(b"ask");
    talk.server()
        .segment(0, SYN, b"")
        .segment(5_000_000, SYN, b"")
        .send(b"answer");
    let mut seen = check(&talk, "open");
    seen.expire(talk.now.plus(SECOND));
    assert_eq!(seen.take_log(), "<3h >6h");
    assert_eq!(
        (seen.only().client(), refused(seen.table.counters())),
        ((FlowSide::A, true), [2, 0, 0])
    );
}

#[test]
fn reused_ports_are_a_new_connection_once_answered() {
    let reopen = |talk: &mut TcpDialogue| {
        talk.advance(SECOND);
        talk.client().send_unseen(1 << 24).syn();
        talk.advance(3 * MS);
        talk.server().send_unseen(1 << 25).syn_ack();
        talk.client().ack().send(b"two");
    };
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"one");
    reopen(&mut talk);
    let seen = check(&talk, "open <3 closed:PortReused open <3");
    let flow = seen.only();
    assert_eq!(
        (flow.client(), flow.handshake_ns()),
        ((FlowSide::A, false), Some(3 * MS + 20_000))
    );
    assert_eq!(
        (flow.first_ts(), flow.syn_ts()),
        (talk.sent()[5].ts, Some(talk.sent()[5].ts))
    );
    assert_eq!(
        flow.packets(FlowSide::A),
        3,
        "the SYN is one of the new connection"
    );
    assert_eq!(
        (seen.closed[0].1.as_str(), refused(seen.table.counters())),
        ("S1 ShADa", [0; 3])
    );

    let lacks = |n: usize, expected: &str| {
        let mut talk = self::talk();
        talk.handshake();
        talk.client().send(b"one");
        reopen(&mut talk);
        let mut sent = talk.take();
        sent.remove(n);
        let mut seen = Observer::new(FlowTableConfig::default());
        seen.run(&sent);
        assert_eq!(seen.take_log(), expected, "without packet {n}");
        assert_eq!(
            seen.only().client(),
            (FlowSide::A, false),
            "without packet {n}"
        );
    };
    lacks(5, "open <3 closed:PortReused open >3");
    // The server's stream is still unknown: it may be slightly late.
    lacks(6, "open <3 closed:PortReused open");
    lacks(7, "open <3 closed:PortReused open <3");
}

#[test]
fn a_connection_on_the_same_ports_where_one_direction_is_captured() {
    for side in [FlowSide::A, FlowSide::B] {
        let mut talk = talk();
        talk.handshake();
        talk.client().send(b"one");
        talk.server().send(b"1");
        talk.client().send_unseen(1 << 24).syn();
        talk.server().send_unseen(1 << 25).syn_ack();
        talk.client().ack().send(b"two");
        talk.server().send(b"22");
        let from = talk.address(side);
        let sent: Vec<SentPacket> = talk.take().into_iter().filter(|s| s.src == from).collect();
        let mut seen = Observer::new(FlowTableConfig::default());
        seen.run(&sent);
        let expected = match side {
            FlowSide::A => "open <3h closed:PortReused open",
            FlowSide::B => "open <1h closed:PortReused open",
        };
        assert_eq!(seen.take_log(), expected);
        assert_eq!(seen.only().client(), (FlowSide::A, false));
    }
}

#[test]
fn a_syn_ack_that_acknowledges_another_number_opens_nothing() {
    let mut talk = talk();
    talk.client().syn();
    let forged = |talk: &mut TcpDialogue, ack: u32| {
        talk.server().segment(77_000, SYN_ACK, b"").amend(|sent| {
            if let testkit::TransportCarrier::Tcp(tcp) = &mut sent.carrier {
                tcp.ack = TcpSeq(tcp.ack.0.wrapping_add(ack));
            }
        });
    };
    for ack in [1, 100, 1 << 20, 1 << 31, u32::MAX] {
        forged(&mut talk, ack);
    }
    talk.server().syn_ack();
    talk.client().ack().send(b"ask");
    talk.server().send(b"answer");
    let seen = check(&talk, "open <3 >6");
    assert_eq!(
        (seen.only().handshake_ns(), refused(seen.table.counters())),
        (Some(70_000), [5, 0, 0])
    );
}

#[test]
fn blind_resets_end_nothing() {
    for offset in [1 << 21, -(1 << 21), 1 << 30, 1 << 31] {
        let why = format!("{offset} from the next number");
        check_refused(
            |talk| _ = talk.client().segment(offset, RST, b""),
            [0, 1, 0],
            &why,
        );
        check_refused(
            |talk| _ = talk.server().segment(offset, RST | ACK, b""),
            [0, 1, 0],
            &why,
        );
    }
}

#[test]
fn acknowledgments_of_unsent_bytes_are_ignored() {
    for offset in [-5_000, -(1 << 25), 1 << 21, 1 << 30, 1 << 31] {
        let why = format!("{offset} from what was sent");
        check_refused(|talk| _ = talk.client().ack_at(offset), [0, 0, 1], &why);
        check_refused(|talk| _ = talk.server().ack_at(offset), [0, 0, 1], &why);
    }
    // The bytes of that segment are rejected as well (RFC 5961 §5): they are retransmitted, or missing.
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"ask");
    talk.server().send(b"false").amend(|sent| {
        if let testkit::TransportCarrier::Tcp(tcp) = &mut sent.carrier {
            tcp.ack = TcpSeq(tcp.ack.0.wrapping_sub(5_000_000));
        }
    });
    talk.server().send(b"answer");
    talk.client().ack();
    talk.advance(200 * MS);
    talk.server().ack();
    check(&talk, "open <3 >gap5 >6h");
}

/// Events for captured packets of which one byte is changed.
fn damaged(talk: &TcpDialogue, n: usize, change: impl Fn(&mut [u8])) -> Observer {
    let mut seen = Observer::new(FlowTableConfig::default());
    for (at, sent) in talk.sent().iter().enumerate() {
        let mut bytes = sent.to_bytes();
        if at == n {
            change(&mut bytes);
        }
        seen.packet(&Packet::decode(&sent.captured(&bytes)).expect("a segment"));
    }
    seen
}

/// Offset of the TCP header, after Ethernet and IPv4.
const TCP: usize = 34;

#[test]
fn checksum_decides_for_implausible_segments() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"one");
    talk.server().send(b"1");
    talk.client().send(b"two");
    talk.server().send(b"22");
    talk.client().ack();
    let damage = |n: usize, at: usize, bit: u8, expected: &str| {
        let mut seen = damaged(&talk, n, |bytes| bytes[TCP + at] ^= bit);
        seen.expire(talk.now.plus(3 * SECOND));
        assert_eq!(
            seen.take_log(),
            expected,
            "bit {bit} of byte {at} of packet {n}"
        );
        assert_eq!(seen.table.counters().damaged, 1);
    };
    damage(5, 7, 8, "open <3 >1 <gap3 >2h"); // sequence number
    damage(5, 11, 1, "open <3 >1 <gap3 >2h"); // acknowledgment, by one
    damage(5, 13, 1, "open <3 >1 <gap3 >2h"); // FIN
    damage(5, 13, 2, "open <3 >1 <gap3 >2h"); // SYN
    damage(5, 13, 4, "open <3 >1 <gap3 >2h"); // RST
    // This segment is not unusual, so its checksum is not verified.
    let seen = damaged(&talk, 5, |bytes| bytes[TCP + 20] ^= 1);
    assert_eq!(
        (seen.bytes(0, FlowSide::A), seen.table.counters().damaged),
        (b"oneuwo".to_vec(), 0)
    );
}

/// After an outage of the capture, the first request is accepted if its checksum is correct.
#[test]
fn segments_with_valid_checksums_are_accepted_with_any_acknowledgment() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"one");
    talk.server().send_unseen(5_000_000);
    talk.client().send(b"two");
    let mut seen = damaged(&talk, usize::MAX, |_| ());
    seen.expire(talk.now.plus(3 * SECOND));
    assert_eq!(
        (seen.bytes(0, FlowSide::A), refused(seen.table.counters())),
        (b"onetwo".to_vec(), [0; 3])
    );
}

#[test]
fn checksums_left_to_an_adapter_are_ignored() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send_unseen(3).send(b"late");
    talk.client().segment(-7, ACK, b"now");
    let mut seen = Observer::new(FlowTableConfig::default());
    for sent in talk.sent() {
        let mut bytes = sent.to_bytes();
        bytes[TCP + 16] ^= 0x55;
        seen.packet(&Packet::decode(&sent.captured(&bytes)).expect("a segment"));
    }
    assert_eq!(
        (seen.take_log().as_str(), seen.table.counters().damaged),
        ("open <3 <4h", 0)
    );
}

/// Payload of a dialogue with damaged packets, read with and without verification of checksums, and discarded packets.
fn verified(sent: &[SentPacket], damage: impl Fn(usize, &mut [u8])) -> [([Vec<u8>; 2], u64); 2] {
    [true, false].map(|verify_checksums| {
        let mut seen = Observer::new(FlowTableConfig {
            verify_checksums,
            ..FlowTableConfig::default()
        });
        for (at, sent) in sent.iter().enumerate() {
            let mut bytes = sent.to_bytes();
            damage(at, &mut bytes);
            seen.packet(&Packet::decode(&sent.captured(&bytes)).expect("a packet"));
        }
        // Longer than the wait for bytes that are not acknowledged.
        seen.expire(sent[sent.len() - 1].ts.plus(40 * SECOND));
        let bytes = [FlowSide::A, FlowSide::B].map(|side| seen.bytes(0, side));
        (bytes, seen.table.counters().damaged)
    })
}

/// The server answers the retransmission of a request that arrived damaged.
#[test]
fn damaged_segments_are_replaced_by_their_retransmission() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"one");
    talk.server().send(b"1");
    talk.advance(SECOND);
    talk.client().send(b"two");
    let [damaged, sent_again] = [5, 6].map(|n| n + 2);
    let again = talk.sent()[damaged].clone();
    assert_eq!(again.payload, b"two");
    let mut sent = talk.take();
    sent.insert(
        sent_again,
        SentPacket {
            ts: again.ts.plus(MS),
            ip_id: 77,
            ..again
        },
    );
    let read = verified(&sent, |at, bytes| {
        if at == damaged {
            bytes[TCP + 20] ^= 1;
        }
    });
    let right = [b"onetwo".to_vec(), b"1".to_vec()];
    let wrong = [b"oneuwo".to_vec(), b"1".to_vec()];
    assert_eq!(read, [(right, 1), (wrong, 0)]);
}

/// From some packet on, all checksums of a sender are wrong: the capture is on its own machine, or was rewritten.
#[test]
fn checksums_that_are_always_wrong_are_ignored() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    for _ in 0..8 {
        talk.client().send(b"ab");
    }
    let sent = talk.take();
    for from in [0, 3, 4, 7] {
        let [(read, discarded), (all, _)] = verified(&sent, |at, bytes| {
            if at >= from {
                bytes[TCP + 16] ^= 0x55;
            }
        });
        // Two are discarded before the third proves that they mean nothing.
        let lost = if from == 0 { 0 } else { 2 };
        assert_eq!(all[0], b"ab".repeat(8), "{from}");
        assert_eq!(
            (read[0].len(), discarded),
            (16 - 2 * lost as usize, lost),
            "{from}"
        );
    }
}

/// An adapter merges segments and keeps the checksum of the first.
#[test]
fn merged_segments_are_read() {
    let mut talk = talk();
    talk.acks = false;
    talk.segment_size = 4000;
    talk.handshake();
    talk.client().send(b"one").send(&[b'x'; 4000]).send(b"two");
    let sent = talk.take();
    let read = verified(&sent, |at, bytes| {
        if at > 3 {
            bytes[TCP + 16] ^= 0x55;
        }
    });
    for (read, discarded) in read {
        assert_eq!((read[0].len(), discarded), (4006, 0));
    }
}

/// Where segments longer than an Ethernet frame had right checksums, none is merged.
#[test]
fn damaged_large_frames_are_discarded() {
    let mut talk = talk();
    talk.acks = false;
    talk.segment_size = 8000;
    talk.handshake();
    talk.client().send(&[b'x'; 8000]).send(&[b'y'; 8000]);
    let sent = talk.take();
    let [(read, discarded), (all, _)] = verified(&sent, |at, bytes| {
        if at == 4 {
            bytes[TCP + 16] ^= 0x55;
        }
    });
    assert_eq!((read[0].len(), all[0].len(), discarded), (8000, 16000, 1));
}

/// Segments that the receiver announced are not merged, so that already the first one is verified.
#[test]
fn damaged_frames_of_an_announced_size_are_discarded() {
    for (announced, discarded) in [(8000, 1), (7999, 0)] {
        let mut talk = talk();
        talk.acks = false;
        talk.segment_size = 8000;
        talk.announced_size = Some(announced);
        talk.handshake();
        talk.client().send(&[b'x'; 8000]).send(b"two");
        let sent = talk.take();
        let [(read, count), (all, _)] = verified(&sent, |at, bytes| {
            if at == 3 {
                bytes[TCP + 20] ^= 1;
            }
        });
        let read_len = if discarded == 1 { 3 } else { 8003 };
        assert_eq!(
            (read[0].len(), all[0].len(), count),
            (read_len, 8003, discarded)
        );
    }
}

/// With a wrong length in its IP header, a segment looks cut by the snaplen.
#[test]
fn segments_with_a_damaged_ip_length_are_discarded() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"one").send(b"two");
    let sent = talk.take();
    let [(read, discarded), _] = verified(&sent, |at, bytes| {
        if at == 3 {
            bytes[16] ^= 1;
        }
    });
    assert_eq!((read[0].as_slice(), discarded), (&b"two"[..], 1));
}

/// The server's checksums are completed after the capture, and one packet of the client is cut by the snaplen.
#[test]
fn packets_that_cannot_be_verified_are_counted() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    for _ in 0..5 {
        talk.client().send(b"ask");
        talk.server().send(b"answer");
    }
    talk.client().send(b"cut").amend(|sent| sent.cut = 1);
    let sent = talk.take();
    for (verify_checksums, unverified) in [(true, 7), (false, 0)] {
        let mut seen = Observer::new(FlowTableConfig {
            verify_checksums,
            ..FlowTableConfig::default()
        });
        for sent in &sent {
            let mut bytes = sent.to_bytes();
            if sent.src.port() == 80 {
                bytes[TCP + 16] ^= 0x55;
            }
            seen.packet(&Packet::decode(&sent.captured(&bytes)).expect("a segment"));
        }
        let counters = seen.table.counters();
        assert_eq!(seen.bytes(0, FlowSide::B), b"answer".repeat(5));
        assert_eq!(
            (counters.checksums_unverified, counters.damaged),
            (unverified, 0)
        );
    }
}

/// The first packet of a sender arrives damaged, and its retransmission counts as a copy.
#[test]
fn a_side_is_trusted_after_a_damaged_handshake() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.server().send(b"one");
    talk.server().send(b"two");
    let mut sent = talk.take();
    sent.insert(1, sent[1].clone());
    let damaged = sent[4].clone();
    sent.insert(4, damaged);
    let [(read, discarded), _] = verified(&sent, |at, bytes| match at {
        1 => bytes[TCP + 16] ^= 0x55,
        4 => bytes[TCP + 20] ^= 1,
        _ => {}
    });
    assert_eq!((read[1].as_slice(), discarded), (&b"onetwo"[..], 1));
}

#[test]
fn datagrams_with_a_wrong_checksum_are_discarded() {
    let ends = ["10.0.0.1:40000", "10.0.0.2:53"].map(|end| end.parse().expect("an address"));
    let sent: Vec<SentPacket> = (0..4)
        .map(|n| {
            let ts = talk().now.plus(n * MS);
            SentPacket::new(
                ts,
                (ends[0], ends[1]),
                testkit::TransportCarrier::Udp,
                b"ask",
            )
        })
        .collect();
    let damaged = verified(&sent, |at, bytes| {
        if at == 2 {
            bytes[TCP + 8] ^= 1;
        }
    });
    assert_eq!(damaged.map(|(_, discarded)| discarded), [1, 0]);
}

#[test]
fn data_of_a_syn_that_the_server_leaves_comes_again() {
    let mut talk = talk();
    talk.acks = false;
    talk.client().syn_with(b"GET /");
    talk.server().segment(0, SYN_ACK, b"").amend(|sent| {
        if let testkit::TransportCarrier::Tcp(tcp) = &mut sent.carrier {
            tcp.ack = TcpSeq(tcp.ack.0 - 5);
        }
    });
    talk.server().send_unseen(1);
    talk.client().segment(-5, ACK, b"GET /");
    talk.server().send(b"200");
    let seen = check(&talk, "open <5 >3");
    let places = seen.places(0, FlowSide::A);
    let first = seen.only().first_ts();
    assert_eq!(places, [(1_001, 5_001)]);
    assert_eq!(first, talk.sent()[0].ts);
}

#[test]
fn data_of_a_syn_precedes_all_responses() {
    for server in [5_000, 1 << 31, u32::MAX - 3] {
        let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80").with_isn(77, server);
        talk.acks = false;
        talk.client().syn_with(b"GET /");
        talk.server().syn_ack().send(b"200");
        let seen = check(&talk, "open <5h >3");
        assert_eq!(seen.places(0, FlowSide::A), [(78, server.wrapping_add(1))]);
        assert_eq!(seen.places(0, FlowSide::B), [(server.wrapping_add(1), 83)]);
    }
    let mut alone = talk();
    alone.client().syn_with(b"GET /");
    let mut seen = check(&alone, "open");
    seen.expire(alone.now.plus(40 * SECOND));
    assert_eq!(
        seen.take_log(),
        "<5h closed:Idle",
        "nobody answers, so nobody knows more"
    );
    let mut followed = talk();
    followed.acks = false;
    followed
        .client()
        .syn_with(b"GET /")
        .segment(0, ACK, b" more");
    check(&followed, "open <5h").expire(followed.now.plus(SECOND));
}

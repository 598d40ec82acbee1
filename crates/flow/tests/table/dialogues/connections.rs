//! Conversations: handshakes, streams with gaps, and ends.

use flow::FlowTableConfig;
use testkit::TcpDialogue;
use wire::FlowSide;
use wire::packet::TcpFlags;

use super::{MS, SECOND, check, talk};
use crate::observe::Observer;

#[test]
fn an_ordinary_connection() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"request");
    talk.advance(3 * MS);
    talk.server().send(b"response!");
    talk.close();
    let seen = check(&talk, "open <7 >9 <end >end FIN");
    let flow = seen.only();
    assert_eq!(flow.client(), (FlowSide::A, false));
    assert_eq!(flow.handshake_ns(), Some(20_000));
    assert_eq!(
        (flow.conn_state().name(), flow.history().as_str()),
        ("SF", "ShADadFf")
    );
    assert_eq!(
        [flow.packets(FlowSide::A), flow.packets(FlowSide::B)],
        [6, 5]
    );
    assert_eq!(
        [
            flow.payload_bytes(FlowSide::A),
            flow.payload_bytes(FlowSide::B)
        ],
        [7, 9]
    );
    assert_eq!(flow.counters(FlowSide::A), Default::default());
    assert!(!flow.is_midstream());
}

#[test]
fn sender_of_the_first_syn_is_the_client() {
    // The client's address is higher than the server's, and its port is lower.
    let mut talk = TcpDialogue::new("10.0.0.9:20", "10.0.0.2:40000");
    talk.handshake();
    let seen = check(&talk, "open");
    assert_eq!(seen.only().client(), (FlowSide::B, false));
}

#[test]
fn higher_port_is_the_client_until_corrected_without_a_syn() {
    let mut talk = talk();
    talk.server().send(b"middle");
    let mut seen = check(&talk, "open");
    seen.expire(talk.now.plus(SECOND));
    assert_eq!(
        seen.take_log(),
        "<6h",
        "what it answers might have come late"
    );
    assert_eq!(seen.only().client(), (FlowSide::A, true));
    assert!(seen.only().is_midstream());
    assert_eq!(seen.only().history(), "^dA");
    let idx = seen.only_idx();
    seen.table.set_client(idx, FlowSide::B);
    assert_eq!(seen.only().client(), (FlowSide::B, false));
}

#[test]
fn segments_out_of_order_wait_for_each_other() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    for part in [b"aaaa", b"bbbb", b"cccc", b"dddd"] {
        talk.client().send(part);
    }
    let mut sent = talk.take();
    sent.swap(3, 6);
    sent.swap(4, 5);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent);
    assert_eq!(seen.take_log(), "open <4 <4h <4h <4h");
    assert_eq!(seen.bytes(0, FlowSide::A), b"aaaabbbbccccdddd");
    assert_eq!(seen.only().counters(FlowSide::A).out_of_order, 3);
    assert_eq!(seen.only().counters(FlowSide::A).retransmissions, 0);
}

#[test]
fn the_first_arrival_of_a_byte_wins() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    let ack = TcpFlags::ACK;
    talk.client()
        .segment(4, ack, b"EFGH")
        .segment(0, ack, b"abcdefgh")
        .segment(2, ack, b"...........l");
    talk.client().segment(9, ack, b"!!!!!");
    let seen = check(&talk, "open <4 <4h <6");
    assert_eq!(seen.bytes(0, FlowSide::A), b"abcdEFGH.....l");
    assert_eq!(seen.only().counters(FlowSide::A).retransmissions, 3);
    assert_eq!(seen.only().unique_bytes(FlowSide::A), 14);
    assert_eq!(seen.only().payload_bytes(FlowSide::A), 29);
}

#[test]
fn one_segment_fills_many_holes() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    let ack = TcpFlags::ACK;
    talk.client()
        .segment(1, ack, b"B")
        .segment(3, ack, b"D")
        .segment(5, ack, b"FG")
        .segment(0, ack, b"abcdefghi");
    let seen = check(&talk, "open <1 <1h <1 <1h <1 <2h <2");
    assert_eq!(seen.bytes(0, FlowSide::A), b"aBcDeFGhi");
}

#[test]
fn sequence_numbers_wrap() {
    let mut talk = talk().with_isn(u32::MAX - 5, u32::MAX - 1);
    talk.acks = false;
    talk.segment_size = 3;
    talk.handshake();
    talk.client().send(b"0123456789");
    talk.server().send(b"9876543210");
    talk.close();
    let mut sent = talk.take();
    sent.swap(4, 5);
    sent.swap(7, 9);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent);
    assert_eq!(seen.bytes(0, FlowSide::A), b"0123456789");
    assert_eq!(seen.bytes(0, FlowSide::B), b"9876543210");
    assert!(seen.take_log().ends_with("<end >end FIN"));
}

#[test]
fn a_gap_is_declared_when_the_bytes_were_acknowledged_long_enough_ago() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send_unseen(100).send(b"next");
    let mut seen = check(&talk, "open");
    talk.take();
    talk.advance(19 * MS);
    talk.server().ack();
    seen.run(&talk.take());
    assert_eq!(seen.take_log(), "");
    talk.advance(MS);
    talk.server().send(b"response");
    seen.run(&talk.take());
    assert_eq!(seen.take_log(), "<gap100 <4h >8h");
    let counters = seen.only().counters(FlowSide::A);
    assert_eq!(
        (
            counters.gaps,
            counters.gap_bytes,
            counters.acked_unseen_bytes
        ),
        (1, 100, 100)
    );
    assert!(seen.only().history().contains('G'));
}

#[test]
fn an_acknowledgment_before_its_data_is_reordering() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"request");
    talk.server().send(b"response");
    let mut sent = talk.take();
    sent.swap(3, 4); // the data and its ACK
    sent.swap(5, 6);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent);
    assert_eq!(seen.take_log(), "open <7 >8");
    assert_eq!(seen.only().counters(FlowSide::A), Default::default());
}

#[test]
fn lost_bytes_at_the_end_are_a_gap() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"abc");
    talk.client().send_unseen(50);
    talk.server().ack();
    let mut seen = check(&talk, "open <3");
    seen.expire(talk.now.plus(3 * SECOND));
    assert_eq!(seen.take_log(), "<gap50");
}

#[test]
fn gaps_wait_longer_without_acknowledgments() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send_unseen(10).send(b"late");
    let mut seen = check(&talk, "open");
    let since = talk.now;
    seen.expire(since.plus(29 * SECOND));
    assert_eq!(seen.take_log(), "");
    seen.expire(since.plus(33 * SECOND));
    assert_eq!(seen.take_log(), "<gap10 <4h");
    let mut seen = check(&talk, "open");
    talk.take();
    talk.advance(30 * SECOND);
    talk.client().ack();
    seen.run(talk.sent());
    assert_eq!(
        seen.take_log(),
        "<gap10 <4h",
        "the flow's next packet shows it too"
    );
}

#[test]
fn a_gap_closes_when_the_bytes_come_in_time() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send_unseen(4).send(b"efgh");
    talk.advance(18 * MS);
    talk.client().segment(-8, TcpFlags::ACK, b"abcd");
    let seen = check(&talk, "open <4 <4h");
    assert_eq!(seen.only().counters(FlowSide::A).out_of_order, 1);
}

#[test]
fn bytes_behind_their_gap_are_dropped_and_counted() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send_unseen(4).send(b"efgh");
    talk.advance(101 * MS);
    talk.server().ack();
    talk.client()
        .segment(-8, TcpFlags::ACK, b"abcd")
        .send(b"more");
    let seen = check(&talk, "open <gap4 <4h <4");
    let counters = seen.only().counters(FlowSide::A);
    assert_eq!(
        (
            counters.late_bytes,
            counters.retransmissions,
            counters.out_of_order
        ),
        (4, 0, 1)
    );
}

#[test]
fn held_bytes_are_bounded_by_a_gap() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send_unseen(10);
    for _ in 0..12 {
        talk.client().send(&[7; 1000]);
        talk.client().send_unseen(1);
    }
    let small = FlowTableConfig {
        held_bytes_max_per_direction: 10_000,
        ..FlowTableConfig::default()
    };
    let mut seen = Observer::new(small);
    seen.run(talk.sent());
    assert_eq!(
        seen.take_log(),
        "open <gap10 <1000h <gap1 <1000h <gap1 <1000h <gap1 <1000h <gap1 <1000h"
    );
    assert_eq!(seen.table.counters().held_overflows, 5);
    let none = FlowTableConfig {
        held_bytes_max: 0,
        ..FlowTableConfig::default()
    };
    let mut seen = Observer::new(none);
    seen.run(&talk.sent()[..6]);
    assert_eq!(seen.take_log(), "open <gap10 <1000 <gap1 <1000 <gap1 <1000");
}

#[test]
fn truncated_payload_is_a_gap_at_once() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(&[1; 100]).amend(|s| s.cut = 60);
    talk.client().send(&[2; 100]).amend(|s| s.cut = 100);
    talk.client().send(b"whole");
    let seen = check(&talk, "open <40 <gap60 <gap100 <5");
    let counters = seen.only().counters(FlowSide::A);
    assert_eq!((counters.cut_bytes, counters.gaps), (160, 0));
    assert_eq!(seen.only().unique_bytes(FlowSide::A), 205);
    let mut sent = talk.take();
    sent.swap(3, 5);
    sent.swap(4, 5);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent);
    assert_eq!(seen.take_log(), "open <40 <gap60 <gap100 <5h");
}

#[test]
fn fin_waits_for_preceding_bytes() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"first").fin_with(b"last");
    talk.server().fin();
    talk.client().ack();
    let mut sent = talk.take();
    sent.swap(3, 4);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent);
    assert_eq!(seen.take_log(), "open <5 <4h <end >end FIN");
}

#[test]
fn a_fin_behind_a_loss_ends_after_the_gap() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send_unseen(9).fin();
    talk.server().fin();
    let mut seen = check(&talk, "open");
    seen.expire(talk.now.plus(3 * SECOND));
    assert_eq!(seen.take_log(), "<gap9 <end >end FIN");
    seen.expire(talk.now.plus(20 * SECOND));
    assert_eq!(seen.take_log(), "closed:Idle");
}

#[test]
fn simultaneous_open_and_close() {
    let mut talk = talk();
    talk.client().syn();
    talk.server().syn();
    talk.client()
        .segment(-1, TcpFlags::SYN | TcpFlags::ACK, b"");
    talk.server()
        .segment(-1, TcpFlags::SYN | TcpFlags::ACK, b"");
    talk.server().send(b"hi");
    talk.acks = false;
    talk.client().fin();
    talk.server().segment(0, TcpFlags::FIN | TcpFlags::ACK, b"");
    let seen = check(&talk, "open >2 <end >end FIN");
    assert_eq!(seen.only().client(), (FlowSide::A, false));
    assert_eq!(seen.only().handshake_ns(), Some(30_000));
    assert_eq!(seen.only().conn_state().name(), "SF");
}

#[test]
fn a_split_handshake() {
    let mut talk = talk();
    talk.client().syn();
    talk.server().segment(0, TcpFlags::ACK, b"");
    talk.server().syn();
    talk.client()
        .segment(-1, TcpFlags::SYN | TcpFlags::ACK, b"");
    talk.server().ack();
    talk.client().send(b"GET");
    let seen = check(&talk, "open <3");
    assert_eq!(seen.only().client(), (FlowSide::A, false));
    assert_eq!(seen.only().handshake_ns(), Some(30_000));
}

#[test]
fn a_syn_ack_before_its_syn() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"GET");
    let mut sent = talk.take();
    sent.swap(0, 1);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent);
    assert_eq!(seen.take_log(), "open >3");
    assert_eq!(seen.only().client(), (FlowSide::A, false));
    assert_eq!(seen.only().handshake_ns(), Some(20_000));
    assert!(!seen.only().is_midstream());
}

#[test]
fn data_in_the_syn() {
    let mut talk = talk();
    talk.client()
        .syn_with(b"GET /")
        .syn_with(b"")
        .amend(|s| s.payload.clear());
    let mut fast = talk.take();
    fast.truncate(1);
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    talk.client().syn_with(b"GET /");
    talk.server().syn_ack();
    talk.server().send(b"200");
    talk.client().send(b" more");
    let seen = check(&talk, "open <5h >3 <5");
    assert_eq!(seen.bytes(0, FlowSide::A), b"GET / more");
    assert_eq!(
        seen.places(0, FlowSide::A)[0].1,
        seen.places(0, FlowSide::B)[0].0,
        "it had heard nothing"
    );
    let mut again = Observer::new(FlowTableConfig::default());
    again.run(&fast).run(talk.sent());
    assert_eq!(
        again.take_log(),
        "open <5h >3 <5",
        "the SYN once more is a retransmission"
    );
    let mut sent = talk.take();
    sent.swap(0, 1);
    let mut swapped = Observer::new(FlowTableConfig::default());
    swapped.run(&sent);
    assert_eq!(
        swapped.take_log(),
        "open >5 <3 >5",
        "the SYN-ACK had acknowledged the data"
    );
}

#[test]
fn duplicate_syns_and_used_ports() {
    let mut talk = talk();
    talk.client().syn();
    talk.advance(SECOND);
    talk.client().segment(-1, TcpFlags::SYN, b"");
    talk.server().syn_ack();
    talk.server()
        .segment(-1, TcpFlags::SYN | TcpFlags::ACK, b"");
    talk.client().ack();
    talk.client().send(b"one");
    let seen = check(&talk, "open <3");
    assert_eq!(seen.only().handshake_ns(), Some(SECOND + 40_000));
    let counters = [FlowSide::A, FlowSide::B].map(|side| seen.only().counters(side));
    assert_eq!(
        counters.map(|c| (c.syn_retransmissions, c.retransmissions)),
        [(1, 0); 2]
    );

    talk.client().send_unseen(1_000_000).syn();
    talk.server().send_unseen(70_000).syn_ack();
    talk.client().ack().send(b"two");
    let seen = check(&talk, "open <3 closed:PortReused open <3");
    assert_eq!(seen.bytes(1, FlowSide::A), b"two");
    assert_eq!(seen.closed[0].1, "S1 ShADa");
}

#[test]
fn ports_used_again_after_the_end() {
    let mut talk = talk();
    talk.handshake();
    talk.close();
    talk.client().ack();
    talk.client().send_unseen(500).syn();
    check(&talk, "open <end >end FIN closed:PortReused open");
    // The new connection's SYN was lost; its SYN-ACK reveals the connection.
    let mut talk = self::talk();
    talk.handshake();
    talk.close();
    talk.client().send_unseen(500);
    talk.server().send_unseen(900).syn_ack();
    talk.client().send(b"x");
    check(&talk, "open <end >end FIN closed:PortReused open >1");
}

#[test]
fn keep_alives_are_neither_data_nor_retransmission() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"data");
    talk.client()
        .segment(-1, TcpFlags::ACK, b"")
        .segment(-1, TcpFlags::ACK, b"\0");
    talk.server().ack();
    talk.server().segment(-1, TcpFlags::ACK, b"\0");
    talk.client().send(b"more");
    let seen = check(&talk, "open <4 <4");
    let client = seen.only().counters(FlowSide::A);
    let server = seen.only().counters(FlowSide::B);
    assert_eq!(
        (
            client.keep_alives,
            client.retransmissions,
            client.repeated_bytes
        ),
        (2, 0, 0)
    );
    assert_eq!((server.keep_alives, server.retransmissions), (1, 0));
    assert_eq!(seen.only().payload_bytes(FlowSide::A), 8);
}

#[test]
fn one_byte_sent_again_without_an_acknowledgment_is_a_retransmission() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"x");
    talk.advance(300 * MS);
    talk.client().segment(-1, TcpFlags::ACK, b"x");
    let seen = check(&talk, "open <1");
    assert_eq!(seen.only().counters(FlowSide::A).retransmissions, 1);
}

#[test]
fn zero_windows_and_their_probes() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"full");
    talk.server().ack().amend(|s| {
        if let testkit::TransportCarrier::Tcp(tcp) = &mut s.carrier {
            tcp.window = 0;
        }
    });
    talk.client()
        .segment(0, TcpFlags::ACK, b"n")
        .segment(0, TcpFlags::ACK, b"n");
    talk.advance(SECOND);
    talk.server().ack();
    talk.client().send(b"next");
    let seen = check(&talk, "open <4 <1 <3");
    assert_eq!(seen.bytes(0, FlowSide::A), b"fullnext");
    let counters = seen.only().counters(FlowSide::A);
    assert_eq!(
        (counters.zero_window_probes, counters.retransmissions),
        (1, 0)
    );
    assert_eq!(seen.only().counters(FlowSide::B).zero_windows, 1);
    assert_eq!(seen.only().history(), "ShADaw");
}

#[test]
fn duplicate_acknowledgments_are_counted() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"aa");
    talk.server().ack();
    talk.client().send(b"bb");
    for _ in 0..3 {
        talk.server().ack_at(-2);
    }
    let seen = check(&talk, "open <2 <2");
    assert_eq!(seen.only().counters(FlowSide::B).duplicate_acks, 3);
}

#[test]
fn a_reset_ends_both_streams() {
    let mut talk = talk();
    talk.handshake();
    talk.client()
        .send(b"abc")
        .send_unseen(5)
        .segment(2, TcpFlags::ACK, b"held");
    talk.server()
        .segment(0, TcpFlags::RST | TcpFlags::ACK, b"goodbye");
    talk.client().send(b"too late");
    let seen = check(&talk, "open <3 <gap7 <4h RST");
    let flow = seen.only();
    assert_eq!(flow.rst().map(|(_, side)| side), Some(FlowSide::B));
    assert_eq!(flow.conn_state().name(), "RSTR");
    assert_eq!(
        flow.payload_bytes(FlowSide::B),
        0,
        "the payload of a RST is no stream data"
    );
    assert_eq!(flow.counters(FlowSide::A).stragglers, 1);
}

#[test]
fn a_reset_out_of_window_is_ignored() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"abc");
    talk.client().segment(1 << 28, TcpFlags::RST, b"");
    talk.server()
        .segment(-(1 << 28), TcpFlags::RST | TcpFlags::ACK, b"");
    talk.client().send(b"def");
    let seen = check(&talk, "open <3 <3");
    assert_eq!(seen.table.counters().resets_ignored, 2);
}

#[test]
fn refused_and_unanswered_attempts() {
    let state = |talk: &TcpDialogue| {
        let mut seen = Observer::new(FlowTableConfig::default());
        seen.run(talk.sent()).close_all(talk.now);
        assert_eq!(seen.closed.len(), 1);
        seen.closed[0].1.clone()
    };
    let mut refused = talk();
    refused.client().syn();
    refused
        .server()
        .segment(-5000, TcpFlags::RST | TcpFlags::ACK, b"");
    assert_eq!(state(&refused), "REJ Sr");
    let mut unanswered = talk();
    unanswered.client().syn();
    unanswered.client().segment(-1, TcpFlags::SYN, b"");
    assert_eq!(state(&unanswered), "S0 S");
    let mut aborted = talk();
    aborted.client().syn().rst();
    assert_eq!(state(&aborted), "RSTOS0 SR");
    let mut by_client = talk();
    by_client.handshake();
    by_client.client().rst();
    assert_eq!(state(&by_client), "RSTO ShAR");
    let mut half_closed = talk();
    half_closed.handshake();
    half_closed.client().fin();
    assert_eq!(state(&half_closed), "S2 ShAFa");
    let mut server_half = talk();
    server_half.handshake();
    server_half.server().fin();
    assert_eq!(state(&server_half), "S3 ShAf");
    let mut attempt = talk();
    attempt.acks = false;
    attempt.client().syn().fin();
    assert_eq!(state(&attempt), "SH SF");
    let mut reply_only = talk();
    reply_only.acks = false;
    reply_only.server().syn_ack().fin();
    assert_eq!(state(&reply_only), "SHR ^hf");
    let mut reply_reset = talk();
    reply_reset.server().syn_ack().rst();
    assert_eq!(state(&reply_reset), "RSTRH ^hr");
    let mut midstream = talk();
    midstream.client().send(b"x");
    assert_eq!(state(&midstream), "OTH Da");
}

#[test]
fn a_lone_reset_is_a_flow() {
    let mut talk = talk();
    talk.client().rst();
    let mut seen = check(&talk, "open RST");
    talk.take();
    talk.client().syn();
    seen.run(talk.sent());
    assert_eq!(seen.take_log(), "closed:PortReused open");
}

#[test]
fn one_direction_alone() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"GET");
    talk.advance(5 * MS);
    talk.server().send(b"200");
    talk.close();
    let client: Vec<_> = talk
        .sent()
        .iter()
        .filter(|s| s.src == talk.address(FlowSide::A))
        .cloned()
        .collect();
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&client);
    assert_eq!(seen.take_log(), "open");
    assert_eq!(
        seen.only().counters(FlowSide::B).acked_unseen_bytes,
        4,
        "three bytes and, unknowingly, the FIN"
    );
    seen.expire(talk.now.plus(40 * SECOND));
    assert_eq!(seen.take_log(), "<3h <end FIN closed:Idle");
    let server: Vec<_> = talk
        .sent()
        .iter()
        .filter(|s| s.src == talk.address(FlowSide::B))
        .cloned()
        .collect();
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&server);
    assert_eq!(
        seen.only().client(),
        (FlowSide::A, false),
        "a SYN-ACK names the client"
    );
    seen.expire(talk.now.plus(40 * SECOND));
    assert_eq!(
        seen.take_log(),
        "open <3h <end FIN closed:Idle",
        "the client may only have been late"
    );
}

#[test]
fn a_lost_syn_ack_leaves_a_start_to_compare_with() {
    let mut talk = talk();
    talk.handshake();
    talk.server().send_unseen(10).send(b"late");
    let mut sent = talk.take();
    sent.remove(1);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent).expire(talk.now.plus(3 * SECOND));
    assert_eq!(seen.take_log(), "open >gap10 >4h");
}

#[test]
fn jumps_are_accepted_when_they_continue() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    let ack = TcpFlags::ACK;
    talk.client()
        .send(b"abc")
        .segment(1 << 31, ack, b"bogus")
        .send(b"def");
    let seen = check(&talk, "open <3 <3");
    assert_eq!(seen.only().counters(FlowSide::A).implausible, 1);
    talk.client().send_unseen((1 << 30) + 1);
    talk.client().send(b"one").send(b"two").send(b"six");
    let mut seen = check(&talk, "open <3 <3 <gap1073741831 <3");
    talk.take();
    talk.client().send(b"ten");
    seen.run(talk.sent());
    assert_eq!(seen.take_log(), "<3");
}

#[test]
fn a_false_acknowledgment_does_not_silence_a_stream() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"abc");
    talk.server().ack_at(1 << 25);
    talk.advance(200 * MS);
    talk.client().send(b"def");
    talk.advance(200 * MS);
    talk.server().ack();
    talk.client().send(b"ghi");
    let seen = check(&talk, "open <3 <3 <3");
    assert_eq!(
        (
            seen.table.counters().acks_ignored,
            seen.only().counters(FlowSide::B).implausible
        ),
        (1, 1)
    );
}

#[test]
fn large_gaps_need_two_acknowledging_segments() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send_unseen(50_000_000);
    talk.server().ack();
    talk.client().send_unseen(1_000);
    talk.server().ack();
    talk.advance(200 * MS);
    talk.client().send(b"on");
    let seen = check(&talk, "open <gap50001000 <2h");
    assert_eq!(seen.table.counters().acks_ignored, 1);
}

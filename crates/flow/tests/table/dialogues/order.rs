//! Order of delivery of both sides when packets are missing, late, or damaged.

use flow::FlowTableConfig;
use testkit::{SentPacket, TransportCarrier};
use wire::TcpSeq;
use wire::packet::TcpFlags;

use super::{MS, SECOND, talk};
use crate::observe::Observer;

/// Compares the log of these packets, including the events at the end of input.
fn check(sent: &[SentPacket], expected: &str) -> Observer {
    check_with(FlowTableConfig::default(), sent, expected)
}

fn check_with(config: FlowTableConfig, sent: &[SentPacket], expected: &str) -> Observer {
    let mut seen = Observer::new(config);
    let last = sent
        .iter()
        .map(|sent| sent.ts)
        .max()
        .expect("something was sent");
    seen.run(sent).expire(last.plus(3 * SECOND));
    assert_eq!(seen.take_log(), format!("open {expected}"));
    assert_eq!(seen.table.held_bytes(), 0);
    seen
}

/// A handshake, then requests and responses of these lengths, 1 ms apart.
fn conversation(lens: &[(usize, usize)]) -> Vec<SentPacket> {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    for (question, answer) in lens {
        talk.advance(MS);
        talk.client().send(&vec![b'q'; *question]);
        talk.advance(MS);
        talk.server().send(&vec![b'a'; *answer]);
    }
    talk.take()
}

fn claim(sent: &mut SentPacket, more: u32) {
    let TransportCarrier::Tcp(tcp) = &mut sent.carrier else {
        panic!("a segment")
    };
    tcp.ack = TcpSeq(tcp.ack.0.wrapping_add(more));
}

#[test]
fn an_answer_before_its_question_waits() {
    let mut sent = conversation(&[(5, 50), (6, 60), (7, 70)]);
    sent.swap(5, 6);
    check(&sent, "<5 >50 <6 >60h <7 >70");
    // The response precedes the SYN-ACK.
    let mut sent = conversation(&[(5, 50), (6, 60)]);
    let answer = sent.remove(4);
    sent.insert(1, answer);
    check(&sent, "<5 >50h <6 >60");
    // The response is the first packet.
    let mut sent = conversation(&[(5, 50), (6, 60)]);
    let answer = sent.remove(4);
    sent.insert(0, answer);
    check(&sent, ">5 <50h >6 <60");
}

/// The first packets of a connection in other orders, with and without the first bytes.
#[test]
fn streams_start_at_their_syn_anywhere_in_the_file() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"first").send(b"second");
    let [syn, syn_ack, ack, first, second] = [0, 1, 2, 3, 4];
    let answer = 5;
    talk.server().send(b"answer");
    let sent = talk.take();
    for (order, expected) in [
        (vec![second, syn, first, syn_ack, ack, answer], "<5 <6 >6"),
        (vec![second, syn_ack, syn, ack, first, answer], "<5 <6 >6"),
        (vec![second, syn_ack, first, ack, answer], "<5 <6 >6"),
        (vec![ack, second, syn, syn_ack, first, answer], "<5 <6 >6"),
        (vec![second, syn, answer, first, syn_ack, ack], "<5 <6 >6"),
        (vec![second, answer, syn, syn_ack, ack, first], "<5 <6 >6"),
        (vec![answer, second, syn, first, syn_ack, ack], ">5 >6 <6"),
        // The first bytes are missing.
        (vec![second, syn, syn_ack, ack, answer], "<gap5 <6 >6"),
    ] {
        let packets: Vec<_> = order.iter().map(|at: &usize| sent[*at].clone()).collect();
        let mut seen = Observer::new(FlowTableConfig::default());
        seen.run(&packets);
        assert!(!seen.only().is_midstream(), "{order:?}");
        seen.expire(talk.now.plus(3 * SECOND));
        let log = seen.take_log().replace('h', "");
        assert_eq!(log, format!("open {expected}"), "{order:?}");
        assert_eq!(seen.table.held_bytes(), 0);
    }
}

#[test]
fn midstream_connections_wait_once_for_earlier_segments() {
    let mut sent = conversation(&[(5, 50), (6, 60), (7, 70)]);
    sent.drain(..4);
    check(&sent, "<50h >6h <60h >7h <70h");
    // Bytes before the first ones arrive later.
    let order = [4, 0, 3, 1, 2].map(|at: usize| sent[at].clone());
    check(&order, "<50h >6h <60h >7h <70h");
    // The other side is never captured.
    sent.retain(|sent| sent.src.port() == 80);
    check(&sent, "<50h <60h <70h");
    let none = FlowTableConfig {
        held_bytes_max: 0,
        ..FlowTableConfig::default()
    };
    check_with(none, &sent, "<50 <60 <70");
}

#[test]
fn an_answer_to_a_lost_question_comes_behind_the_gap() {
    let mut sent = conversation(&[(5, 50), (6, 60), (7, 70)]);
    sent.remove(5);
    let seen = check(&sent, "<5 >50 <gap6 >60h <7h >70h");
    assert_eq!(seen.table.counters().acks_disbelieved, 0);
    // Both are lost.
    let mut sent = conversation(&[(5, 50), (6, 60), (7, 70)]);
    sent.drain(5..7);
    check(&sent, "<5 >50 <gap6 >gap60 <7h >70h");
}

#[test]
fn gaps_hold_later_segments_only() {
    // The second of two requests is late; the server responds to the first in the meantime.
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"one").send(b"two").send(b"six");
    talk.server()
        .send(b"first")
        .amend(|sent| claim(sent, 0u32.wrapping_sub(6)));
    let mut sent = talk.take();
    let late = sent.remove(4);
    sent.push(late);
    check(&sent, "<3 >5 <3 <3h");
}

#[test]
fn packets_between_two_holes_do_not_shorten_the_second_wait() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send_unseen(4).send(b"efgh");
    talk.client().segment(-8, TcpFlags::ACK, b"abcd");
    for _ in 0..9 {
        talk.server().ack(); // a repeated acknowledgment takes the slow path
    }
    talk.client().send_unseen(100).send(b"next");
    talk.advance(50 * MS);
    talk.server().ack();
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&talk.take());
    assert_eq!(seen.take_log(), "open <4 <4h");
    talk.advance(50 * MS);
    talk.server().ack();
    seen.run(talk.sent());
    assert_eq!(seen.take_log(), "<gap100 <4h");
}

#[test]
fn concurrent_segments_are_ordered_by_time() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"one");
    talk.server().send(b"first");
    talk.client()
        .send(b"two!")
        .amend(|sent| claim(sent, 0u32.wrapping_sub(5)));
    let mut sent = talk.take();
    let late = sent.remove(3);
    sent.push(late);
    check(&sent, "<3 >5h <4h");
}

#[test]
fn retransmissions_do_not_prove_earlier_receipt() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send_unseen(3).send(b"two!");
    talk.server().send_unseen(5);
    talk.client().segment(-7, TcpFlags::ACK, b"one");
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&talk.take());
    assert_eq!(
        seen.take_log(),
        "open <3 <4h",
        "the lost answer had not been heard before"
    );
    seen.expire(talk.now.plus(SECOND));
    assert_eq!(seen.take_log(), ">gap5");
}

#[test]
fn an_acknowledgment_that_the_next_packet_contradicts_is_not_believed() {
    let lens = [(5, 50), (6, 60), (7, 70)];
    for (lie, expected) in [
        // Far from all known positions: no receiver would accept the segment (RFC 9293 section 3.10.7.4).
        (500_000_000, "<5 >50 <gap6 >60h <7h >70h"),
        // Near: the other side acknowledges the waiting bytes, so they were sent before.
        (4_000, "<5 >50 <6h >60 <7 >70"),
    ] {
        let mut sent = conversation(&lens);
        claim(&mut sent[5], lie);
        let seen = check(&sent, expected);
        let counters = seen.table.counters();
        assert_eq!(
            (counters.acks_disbelieved > 0, counters.acks_ignored > 0),
            (lie < 1 << 20, lie > 1 << 20)
        );
        assert_eq!(counters.gaps, u64::from(lie > 1 << 20));
    }
}

/// The start of a connection in another order, as written by several queues of an adapter: bytes acknowledged before
/// the client's stream was known were not acknowledged by the SYN-ACK.
#[test]
fn a_late_syn_ack_contradicts_no_acknowledgment() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.server().send(b"greeting");
    talk.client().send(b"login");
    talk.server().segment(0, TcpFlags::ACK, b"");
    talk.server().send(b"welcome!!");
    talk.client().send(b"query!");
    let sent = talk.take();
    let file_order = [2, 5, 1, 6, 0, 7, 3, 4].map(|at: usize| sent[at].clone());
    check(&file_order, ">8 <5 >9h <6h");
}

#[test]
fn contradicted_acknowledgments_are_ignored() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"question");
    let mut sent = talk.take();
    claim(&mut sent[3], 100_000);
    for _ in 0..4 {
        talk.advance(9 * MS);
        // The request has not arrived at the server yet.
        talk.server()
            .send(b"stream")
            .amend(|sent| claim(sent, 0u32.wrapping_sub(8)));
    }
    sent.extend(talk.take());
    let seen = check(&sent, ">6 >6 <8h >6 >6");
    assert_eq!(
        (
            seen.table.counters().acks_disbelieved,
            seen.table.counters().gaps
        ),
        (1, 0)
    );
}

#[test]
fn order_is_kept_without_a_hold_budget() {
    let mut sent = conversation(&[(5, 50), (6, 60), (7, 70)]);
    sent.swap(5, 6);
    let none = FlowTableConfig {
        held_bytes_max: 0,
        ..FlowTableConfig::default()
    };
    let seen = check_with(none, &sent, "<5 >50 <gap6 >60 <7 >70");
    assert_eq!(seen.table.counters().held_overflows, 1);
}

#[test]
fn a_reset_comes_behind_all_that_waits() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send_unseen(4);
    talk.server().send(b"answer");
    talk.client().rst();
    check(talk.sent(), "<gap4 >6h RST");
}

#[test]
fn ignored_payload_is_not_held() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    talk.client().send_unseen(4);
    talk.server().send(&[7; 1000]);
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&talk.take());
    let held = seen.table.held_bytes();
    let idx = seen.only_idx();
    seen.table.ignore_payload(idx);
    assert_eq!(held - seen.table.held_bytes(), 1000);
    talk.server().send(&[7; 1000]).fin();
    seen.run(talk.sent()).expire(talk.now.plus(SECOND));
    assert_eq!(seen.take_log(), "open >end");
}

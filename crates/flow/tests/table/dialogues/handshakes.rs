//! The two round trips of a handshake, and cases in which they are unknown.

use flow::FlowTableConfig;
use testkit::{SentPacket, TcpDialogue};
use wire::{FlowSide, Timestamp};

use super::{MS, SECOND, talk};
use crate::observe::Observer;

/// Client and server round-trip times of the conversation without the packets in `missing`.
fn check(talk: &TcpDialogue, missing: &[usize], expected: [Option<i64>; 2]) {
    let packets = talk
        .sent()
        .iter()
        .enumerate()
        .filter(|(i, _)| !missing.contains(i));
    let packets: Vec<_> = packets.map(|(_, packet)| packet.clone()).collect();
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&packets);
    let flow = seen.only();
    assert_eq!([flow.client_rtt_ns(), flow.server_rtt_ns()], expected);
    if let [Some(client), Some(server)] = expected {
        assert_eq!(flow.handshake_ns(), Some(client + server));
    }
}

/// A handshake with these response times of server and client.
fn slow(server_ns: i64, client_ns: i64) -> TcpDialogue {
    let mut talk = talk();
    talk.acks = false;
    let start = talk.now;
    talk.client().syn();
    talk.now = start.plus(server_ns);
    talk.server().syn_ack();
    talk.now = start.plus(server_ns + client_ns);
    talk.client().ack();
    talk
}

#[test]
fn each_side_has_its_own() {
    check(&slow(3 * MS, 40 * MS), &[], [Some(40 * MS), Some(3 * MS)]);
    // Exceeds the range of the compact encoding.
    check(&slow(5 * SECOND, MS), &[], [Some(MS), Some(5 * SECOND)]);
    check(&slow(MS, 7 * SECOND), &[], [Some(7 * SECOND), Some(MS)]);
}

#[test]
fn a_step_that_was_not_seen_is_not_known() {
    check(&slow(3 * MS, 40 * MS), &[2], [None, Some(3 * MS)]);
    check(&slow(3 * MS, 40 * MS), &[1], [None, None]);
    check(&slow(3 * MS, 40 * MS), &[0], [Some(40 * MS), None]);
}

/// A handshake in which the packet at `place` is retransmitted `later_ns` later, before the next packet.
fn again(place: usize, later_ns: i64) -> [Option<i64>; 2] {
    let mut talk = slow(SECOND, SECOND);
    let mut packets = talk.take();
    let copy = packets[place].clone();
    packets.insert(
        place + 1,
        testkit::SentPacket {
            ts: copy.ts.plus(later_ns),
            ip_id: copy.ip_id + 7,
            ..copy
        },
    );
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&packets);
    [seen.only().client_rtt_ns(), seen.only().server_rtt_ns()]
}

#[test]
fn round_trips_of_retransmitted_handshakes_are_ambiguous() {
    assert_eq!(
        again(0, 900 * MS),
        [Some(SECOND), None],
        "which SYN is answered?"
    );
    assert_eq!(
        again(1, 900 * MS),
        [None, Some(SECOND)],
        "which SYN-ACK is?"
    );
    assert_eq!(
        again(2, 900 * MS),
        [Some(SECOND), Some(SECOND)],
        "the first ACK answers"
    );
}

#[test]
fn a_request_behind_a_lost_ack_is_no_round_trip() {
    let mut talk = slow(3 * MS, MS);
    talk.advance(SECOND);
    talk.client().send_unseen(10).send(b"later");
    // The ACK was lost: later segments do not show the time of its response to the SYN-ACK.
    check(&talk, &[2], [None, Some(3 * MS)]);
}

/// A tap that sees one direction only: the SYN-ACK shows the start of the other stream, but its bytes do not count as
/// capture loss.
#[test]
fn a_direction_that_is_not_captured_is_no_capture_loss() {
    for sides in [FlowSide::A, FlowSide::B] {
        let mut talk = talk();
        talk.handshake();
        for n in 0..300u32 {
            talk.client().send(&[1; 700]);
            talk.advance(40 * MS);
            talk.server().send(&[2; 900]);
            // Occasionally a larger gap than plausible capture loss.
            if n % 100 == 50 {
                talk.client().send_unseen(3 << 20);
            }
        }
        talk.close();
        let port = talk.address(sides).port();
        let sent: Vec<SentPacket> = talk
            .take()
            .into_iter()
            .filter(|one| one.src.port() == port)
            .collect();
        let mut seen = Observer::new(FlowTableConfig::default());
        seen.run(&sent);
        let counters = *seen.table.counters();
        assert_eq!(
            (
                counters.gaps,
                counters.acked_unseen_bytes,
                counters.acks_ignored
            ),
            (0, 0, 0)
        );
        assert!(counters.unseen_direction_bytes >= 300 * 700, "{counters:?}");
        let said = if sides == FlowSide::A {
            300 * 700
        } else {
            300 * 900
        };
        assert_eq!(seen.only().unique_bytes(sides), said);
        seen.close_all(Timestamp(0));
        assert_eq!(seen.table.counters().capture_loss().share(), 0.0);
    }
}

/// The first packets of a direction are missing and the rest is present: this is capture loss.
#[test]
fn a_direction_that_begins_late_lacks_its_beginning() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(&[1; 700]);
    talk.advance(40 * MS);
    talk.server().send(&[2; 900]);
    let mut sent = talk.take();
    sent.retain(|one| one.src.port() == 80);
    talk.advance(40 * MS);
    talk.client().send(b"second");
    talk.server().send(b"answer");
    sent.extend(talk.take());
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&sent);
    seen.expire(talk.now.plus(3 * SECOND));
    assert_eq!(seen.take_log(), "open <900 >gap700 >6h <6h");
    let counters = seen.table.counters();
    assert_eq!(
        (counters.unseen_direction_bytes, counters.acked_unseen_bytes),
        (0, 700)
    );
}

//! Lifetime of flows and order of eviction: timeouts, stragglers, floods, full tables, and clocks.

use flow::{CloseReason, FlowBudget, FlowEvents, FlowTable, FlowTableConfig, TrackingDetail};
use testkit::{SentPacket, TcpDialogue};
use wire::packet::TcpFlags;
use wire::{FlowSide, Timestamp};

use super::{MS, SECOND, check, check_with, talk};
use crate::observe::Observer;

#[test]
fn expired_flows_end_at_their_last_packet() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"x");
    let last = talk.sent().last().expect("said").ts;
    let mut seen = check(&talk, "open <1");
    seen.expire(last.plus(299 * SECOND));
    assert_eq!(seen.take_log(), "");
    seen.expire(last.plus(303 * SECOND));
    assert_eq!(seen.take_log(), "closed:Idle");
    assert_eq!(
        seen.seen[0].closed,
        Some((CloseReason::Idle, last.plus(300 * SECOND)))
    );
    // Without a call of `expire`, the next packet ends the flow.
    talk.advance(400 * SECOND);
    talk.client().send(b"y");
    let seen = check(&talk, "open <1 closed:Idle open resume <1");
    assert_eq!(
        seen.seen[0].closed,
        Some((CloseReason::Idle, last.plus(300 * SECOND)))
    );
}

/// Independent of whether `expire` or a packet detects the idle timeout, and of the type of the first packet.
#[test]
fn idle_connections_continue_at_their_position() {
    for (expires, gap) in [(false, 310), (true, 310), (true, 36_000)] {
        let mut talk = TcpDialogue::new("10.0.0.9:80", "10.0.0.1:40000");
        talk.handshake();
        talk.client().send(b"hello");
        talk.server().send(b"hi");
        let mut seen = check(&talk, "open <5 >2");
        for n in 0..3 {
            talk.advance(gap * SECOND);
            let before = talk.take().len();
            assert!(before > 0);
            if expires {
                seen.expire(talk.now);
                assert_eq!(seen.take_log(), "closed:Idle");
            }
            talk.server().send(b"push");
            talk.client().send(b"thanks");
            seen.run(talk.sent());
            let before = if expires {
                "open"
            } else {
                "closed:Idle open resume"
            };
            assert_eq!(seen.take_log(), format!("{before} <4 >6"), "{n}");
            let flow = seen.only();
            // The server sends first this time, from the lower port; the client is known from the handshake.
            assert_eq!(
                (flow.client(), flow.is_midstream()),
                ((FlowSide::B, false), false)
            );
            assert_eq!(
                flow.unique_bytes(FlowSide::A) + flow.unique_bytes(FlowSide::B),
                10
            );
            assert_eq!(seen.table.counters().connections_resumed, n + 1);
        }
        talk.advance(gap * SECOND);
        talk.take();
        talk.client().send_unseen(7);
        talk.client().send(b"x");
        talk.close();
        seen.run(talk.sent()).expire(talk.now.plus(SECOND));
        let log = seen.take_log();
        assert!(log.contains("open resume <gap7 <1h"), "{log}");
        assert!(log.ends_with("FIN"), "{log}");
    }
}

#[test]
fn segments_that_do_not_continue_open_a_new_connection() {
    let begin = || {
        let mut talk = talk();
        talk.handshake();
        talk.client().send(b"x");
        talk.advance(400 * SECOND);
        talk
    };
    let mut again = begin();
    again.handshake();
    check(&again, "open <1 closed:Idle open");
    let mut other = begin();
    let ends = (
        other.address(FlowSide::A).to_string(),
        other.address(FlowSide::B).to_string(),
    );
    let mut elsewhere = TcpDialogue::new(&ends.0, &ends.1).with_isn(1 << 30, 1 << 31);
    elsewhere.now = other.now;
    elsewhere.client().send(b"y");
    elsewhere.server().send(b"z");
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&other.take()).run(&elsewhere.take());
    assert_eq!(seen.table.counters().connections_resumed, 0);
    assert!(seen.take_log().starts_with("open <1 closed:Idle open"));
}

/// Bytes that the other side acknowledges after the idleness are a gap before its bytes, even if no packet of their sender
/// follows.
#[test]
fn bytes_lost_after_idleness_are_a_gap() {
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    talk.handshake();
    talk.client().send(b"hello");
    talk.server().send(b"hi");
    talk.advance(310 * SECOND);
    talk.server().send_unseen(5);
    talk.client()
        .segment(0, TcpFlags::PSH | TcpFlags::ACK, b"go");
    let mut seen = check(&talk, "open <5 >2 closed:Idle open resume");
    seen.expire(talk.now.plus(2 * SECOND));
    assert_eq!(seen.take_log(), ">gap5 <2h");
}

/// A retransmission after the idleness belongs to the connection, and its bytes are not delivered again.
#[test]
fn bytes_retransmitted_after_idleness_are_delivered_once() {
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
    talk.handshake();
    talk.client().send(b"hello");
    talk.advance(310 * SECOND);
    talk.client()
        .segment(-5, TcpFlags::PSH | TcpFlags::ACK, b"hello");
    talk.server().send(b"hi");
    talk.client().send(b"thanks");
    let seen = check(&talk, "open <5 closed:Idle open resume >2 <6");
    let flow = seen.only();
    assert_eq!(flow.client(), (FlowSide::A, false));
    assert!(!flow.is_midstream());
    assert_eq!(flow.unique_bytes(FlowSide::A), 6);
}

/// Idle connections are kept while there is space for flows, and evicted in the order in which they became idle.
#[test]
fn idle_connections_make_way_for_flows() {
    let connection = |n: u16| {
        let mut talk = TcpDialogue::new(&format!("10.0.0.1:{}", 40_000 + n), "10.0.0.2:80");
        talk.advance(i64::from(n) * MS);
        talk.handshake();
        talk.client().send(b"x");
        talk
    };
    let mut seen = Observer::new(FlowTableConfig {
        room: flow::FlowBudget::of_flows(6),
        ..FlowTableConfig::default()
    });
    let mut talks: Vec<TcpDialogue> = (0..4).map(connection).collect();
    talks.iter_mut().for_each(|talk| _ = seen.run(&talk.take()));
    let now = talks[3].now.plus(400 * SECOND);
    seen.expire(now);
    assert_eq!(seen.table.len(), 0);
    let mut fresh: Vec<TcpDialogue> = (10..14).map(connection).collect();
    for talk in &mut fresh {
        let mut sent = talk.take();
        sent.iter_mut()
            .for_each(|sent| sent.ts = sent.ts.plus(400 * SECOND));
        seen.run(&sent);
    }
    assert_eq!(seen.table.counters().connections_forgotten, 2);
    for (n, talk) in talks.iter_mut().enumerate().rev() {
        talk.advance(500 * SECOND);
        talk.client().send(b"y");
        let before = seen.table.counters().connections_resumed;
        seen.run(&talk.take()[..1]);
        let has_resumed = seen.table.counters().connections_resumed > before;
        assert_eq!(has_resumed, n >= 2, "{n}");
    }
}

#[test]
fn each_kind_of_flow_has_its_timeout() {
    let lives = |talk: &TcpDialogue, seconds: i64| {
        let mut seen = Observer::new(FlowTableConfig::default());
        seen.run(talk.sent());
        let last = talk.sent().last().expect("said").ts;
        seen.expire(last.plus(seconds * SECOND - MS));
        assert_eq!(seen.table.len(), 1);
        seen.expire(last.plus((seconds + 3) * SECOND));
        assert_eq!(seen.table.len(), 0);
    };
    let mut opening = talk();
    opening.client().syn();
    lives(&opening, 30);
    let mut done = talk();
    done.handshake();
    done.close();
    lives(&done, 5);
    let mut midstream = talk();
    midstream.client().send(b"x");
    lives(&midstream, 300);
    let mut datagrams = talk();
    datagrams.datagram(FlowSide::A, b"x");
    lives(&datagrams, 60);
}

#[test]
fn stragglers_stay_with_the_old_flow_but_new_data_begins_another() {
    let mut talk = talk();
    talk.handshake();
    talk.client().rst();
    for _ in 0..10 {
        talk.advance(4 * SECOND);
        talk.server().ack();
    }
    let mut seen = check(&talk, "open RST");
    talk.take();
    for _ in 0..3 {
        talk.advance(2 * SECOND);
        talk.server().send(b"I live");
    }
    seen.run(talk.sent()).expire(talk.now.plus(SECOND));
    assert_eq!(seen.take_log(), "closed:Idle open <6h");
}

#[test]
fn datagrams() {
    let mut talk = talk();
    talk.datagram(FlowSide::B, b"query");
    talk.datagram(FlowSide::A, b"an answer");
    talk.datagram(FlowSide::A, b"");
    let cut = SentPacket {
        cut: 4,
        ip_id: 77,
        ..talk.sent()[1].clone()
    };
    let mut seen = check(&talk, "open <d5/0 >d9/0 >d0/0");
    seen.run(&[cut]);
    assert_eq!(seen.take_log(), ">d5/4");
    assert_eq!(seen.only().client(), (FlowSide::B, false));
    assert_eq!(seen.only().unique_bytes(FlowSide::A), 18);
    assert_eq!(seen.only().conn_state().name(), "SF");
}

#[test]
fn payload_is_not_reassembled_without_need() {
    let mut talk = talk();
    talk.handshake();
    talk.client()
        .send(b"one")
        .send_unseen(3)
        .send(b"two")
        .segment(-3, TcpFlags::ACK, b"two");
    talk.client().segment(-6, TcpFlags::ACK, b"...");
    talk.advance(SECOND);
    talk.close();
    let seen = check_with(
        FlowTableConfig {
            detail: TrackingDetail::Segments,
            ..FlowTableConfig::default()
        },
        &talk,
        "open <end >end FIN",
    );
    assert_eq!(seen.only().unique_bytes(FlowSide::A), 9);
    assert_eq!(seen.only().counters(FlowSide::A).retransmissions, 1);

    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(&talk.sent()[..7]);
    assert_eq!(seen.take_log(), "open <3");
    let idx = seen.only_idx();
    seen.table.ignore_payload(idx);
    assert!(seen.table.held_bytes() < 300);
    seen.run(&talk.sent()[7..]);
    assert_eq!(seen.take_log(), "<end >end FIN");
    assert_eq!(seen.only().counters(FlowSide::A).cut_bytes, 0);
}

#[test]
fn a_mirrored_duplicate_is_no_retransmission() {
    let mut talk = talk();
    talk.acks = false;
    talk.handshake();
    let again = TcpFlags::ACK | TcpFlags::PSH;
    talk.client().send(b"abc").segment(-3, again, b"abc");
    talk.advance(200 * MS);
    talk.client().segment(-3, again, b"abc");
    let numbered = talk.take();
    let bare = numbered
        .iter()
        .map(|sent| SentPacket {
            ip_id: 0,
            ..sent.clone()
        })
        .collect();
    for (sent, expected) in [(numbered, (0, 2)), (bare, (1, 1))] {
        let mut seen = Observer::new(FlowTableConfig::default());
        seen.run(&sent);
        assert_eq!(seen.take_log(), "open <3");
        let counters = seen.only().counters(FlowSide::A);
        assert_eq!((counters.duplicates, counters.retransmissions), expected);
    }
}

#[test]
fn a_long_flow_reports_itself() {
    let mut talk = talk();
    talk.handshake();
    for _ in 0..5 {
        talk.advance(4 * SECOND);
        talk.client().send(b"x");
    }
    let config = FlowTableConfig {
        active_timeout_ns: Some(10 * SECOND),
        ..FlowTableConfig::default()
    };
    let mut seen = check_with(config, &talk, "open <1 <1 active <1 <1 active <1");
    seen.expire(talk.now.plus(35 * SECOND));
    assert_eq!(seen.take_log(), "active");
}

#[test]
fn syn_floods_do_not_evict_established_flows() {
    let mut seen = Observer::with(|c| c.room = FlowBudget::of_flows(320));
    let mut standing = Vec::new();
    for i in 0..200 {
        let mut talk = TcpDialogue::new(&format!("10.1.0.{i}:40000"), "10.0.0.2:80");
        talk.handshake();
        talk.client().send(b"hello");
        seen.run(talk.sent());
        standing.push(talk);
    }
    for i in 0..5_000 {
        let mut talk = TcpDialogue::new(
            &format!("10.2.{}.{}:40000", i / 250, i % 250),
            "10.0.0.2:80",
        );
        talk.advance(SECOND);
        talk.client().syn();
        seen.run(talk.sent());
    }
    assert_eq!(seen.table.len(), 320);
    let before = seen.seen.len();
    for talk in &mut standing {
        talk.take();
        talk.advance(2 * SECOND);
        talk.client().send(b"still here");
        seen.run(talk.sent());
    }
    assert_eq!(
        seen.seen.len(),
        before,
        "no standing flow had to be opened again"
    );
    seen.close_all(Timestamp(0));
}

#[test]
fn full_table_evicts_the_longest_idle_flow() {
    let mut seen = Observer::with(|c| c.room = FlowBudget::of_flows(8));
    for i in 0..100i64 {
        let mut talk = TcpDialogue::new(&format!("10.1.0.{i}:40000"), "10.0.0.2:80");
        talk.advance(i * SECOND);
        talk.handshake();
        seen.run(talk.sent());
    }
    assert_eq!(seen.table.counters().closed_for(CloseReason::Evicted), 92);
    let survivors: Vec<usize> = (0..100)
        .filter(|n| seen.seen[*n].closed.is_none())
        .collect();
    assert_eq!(survivors, (92..100).collect::<Vec<_>>());
}

#[test]
fn time_may_decrease_and_jump() {
    let mut talk = talk();
    talk.handshake();
    talk.client().send(b"a");
    talk.now = Timestamp(0);
    for _ in 0..200 {
        talk.client().send(b"b");
        talk.advance(SECOND);
    }
    talk.now = Timestamp(i64::MAX - SECOND);
    talk.client().send(b"c");
    let mut seen = Observer::new(FlowTableConfig::default());
    seen.run(talk.sent());
    assert_eq!(seen.seen.len(), 2, "the years between ended the flow");
    assert_eq!(seen.bytes(0, FlowSide::A).len(), 201);
    assert_eq!(seen.table.counters().closed_for(CloseReason::Idle), 1);
    seen.expire(Timestamp(i64::MAX));
    seen.close_all(Timestamp(i64::MIN));
}

#[test]
fn identities_are_documented_and_stable() {
    let mut talk = talk();
    talk.client().syn();
    let seen = check(&talk, "open");
    let flow = seen.only();
    assert_eq!(flow.id(), flow::flow_id(&flow.key(), flow.first_ts()));
    let mut bytes = Vec::new();
    for (last, port) in [(1, 40_000u16), (2, 80)] {
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]);
        bytes.extend(port.to_be_bytes());
    }
    bytes.push(6);
    bytes.extend(1_700_000_000_000_000_000i64.to_be_bytes());
    assert_eq!(flow.id(), xxhash_rust::xxh3::xxh3_64(&bytes));
}

/// SYN and SYN-ACK of `n` connections, by number.
fn connects(n: u32) -> impl Iterator<Item = SentPacket> {
    (0..n).flat_map(|i| {
        let mut talk = TcpDialogue::new(
            &format!("10.{}.{}.{}:40000", i >> 16, i >> 8 & 255, i & 255),
            "11.0.0.2:80",
        );
        talk.client().syn();
        talk.server().syn_ack();
        talk.take()
    })
}

#[test]
fn flows_within_the_budget_are_kept_in_any_division() {
    const N: u32 = 300_000;
    let room = FlowBudget::of_bytes(N as usize * FlowTable::<()>::FLOW_BYTES);
    let config = FlowTableConfig {
        room,
        detail: TrackingDetail::Segments,
        ..FlowTableConfig::default()
    };
    // A third of the connections goes to one of the tables that share the limit, the rest to the other.
    let mut tables = [FlowTable::<()>::new(config.clone()), FlowTable::new(config)];
    let mut events = FlowEvents::default();
    for (n, sent) in connects(N).enumerate() {
        tables[usize::from(n / 2 % 3 > 0)].process(&sent.packet(), &mut events);
    }
    let counters = tables.each_ref().map(|table| *table.counters());
    assert_eq!(
        counters.map(|c| c.opened),
        [u64::from(N) / 3, u64::from(N) / 3 * 2]
    );
    assert_eq!(counters.map(|c| c.closed_for(CloseReason::Evicted)), [0; 2]);
    // One more connection exceeds the limit.
    let mut talk = talk();
    talk.client().syn();
    tables[1].process(&talk.sent()[0].packet(), &mut events);
    assert_eq!(tables[1].counters().closed_for(CloseReason::Evicted), 1);
}

#[test]
fn continuing_evicted_flows_are_counted_once() {
    let mut seen = Observer::with(|c| c.room = FlowBudget::of_flows(1_000));
    let sent: Vec<SentPacket> = connects(20_000).collect();
    seen.run(&sent.iter().step_by(2).cloned().collect::<Vec<_>>());
    seen.run(&sent.iter().skip(1).step_by(2).cloned().collect::<Vec<_>>());
    let counters = *seen.table.counters();
    assert!(
        counters.closed_for(CloseReason::Evicted) > 30_000,
        "{counters:?}"
    );
    // Two entries in the same slot: only one remains.
    assert!((20_000..20_400).contains(&counters.flows()), "{counters:?}");
    assert_eq!((counters.capture_loss().share(), counters.gaps), (0.0, 0));
}

#[test]
fn flows_that_grow_make_others_leave() {
    let room = FlowBudget::of_bytes(100 * FlowTable::<usize>::FLOW_BYTES);
    let mut seen = Observer::with(|c| c.room = room);
    seen.run(&connects(90).collect::<Vec<_>>());
    for flow in seen.table.flows().into_iter().take(40) {
        seen.table
            .set_state_bytes(flow, FlowTable::<usize>::FLOW_BYTES as u32);
    }
    seen.make_room(Timestamp(0));
    let left = seen.table.len();
    assert!((45..90).contains(&left), "{left} flows are left");
    assert_eq!(
        seen.table.counters().closed_for(CloseReason::Evicted),
        90 - left as u64
    );
    seen.close_all(Timestamp(0));
}

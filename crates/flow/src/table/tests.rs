//! Compares the fast path with the slow path, lower levels of detail with higher ones, and long flows with short ones.

use proptest::prelude::*;
use testkit::{PacketMangler, SeededRng, SentPacket, TcpDialogue, TransportCarrier};
use wire::packet::TcpFlags;
use wire::{TcpSeq, TransportHeader};

use super::*;
use crate::FlowBudget;
use crate::event::FlowEvent;
use crate::flow_layout::SpillRecord;

const MS: i64 = 1_000_000;

/// Several concurrent damaged conversations, some joined midstream, some in one direction; with occasional random
/// packets.
fn traffic(seed: u64) -> Vec<SentPacket> {
    let mut rng = SeededRng::new(seed);
    let mut all = Vec::new();
    for n in 0..1 + rng.below(5) {
        let ends =
            [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")][rng.below(2) as usize];
        let (client, server) = if ends.0.contains(':') {
            (
                format!("[{}]:{}", ends.0, 40_000 + n),
                format!("[{}]:80", ends.1),
            )
        } else {
            (
                format!("{}:{}", ends.0, 40_000 + n),
                format!("{}:80", ends.1),
            )
        };
        let mut talk = TcpDialogue::new(&client, &server)
            .with_isn(rng.next_u64() as u32, rng.next_u64() as u32);
        converse(&mut talk, &mut rng);
        let mut sent = talk.take();
        sent.drain(..(rng.below(4) as usize * rng.below(3) as usize).min(sent.len()));
        if rng.chance(0.2) {
            sent.retain(|s| s.src.port() != 80);
        }
        let rate = |rng: &mut SeededRng, p: f64| if rng.chance(0.5) { 0.0 } else { p };
        let harm = PacketMangler {
            seed: rng.next_u64(),
            loss: rate(&mut rng, 0.1),
            duplicate: rate(&mut rng, 0.1),
            reorder: rate(&mut rng, 0.2),
            delay_max_ns: 5 * MS,
            resegment: rate(&mut rng, 0.3),
        };
        all.extend(harm.apply(&sent));
    }
    all.sort_by_key(|s| s.ts);
    for _ in 0..rng.below(6) {
        let at = rng.below(all.len() as u64 + 1) as usize;
        if let Some(nonsense) = all.get(at).map(|sent| distort(sent, &mut rng)) {
            all.insert(at, nonsense);
        }
    }
    all
}

fn converse(talk: &mut TcpDialogue, rng: &mut SeededRng) {
    talk.handshake();
    for _ in 0..rng.below(14) {
        talk.segment_size = 1 + rng.below(600) as usize;
        let n = 1 + rng.below(1500) as usize;
        let bytes = rng.bytes(n);
        match rng.below(2) {
            0 => talk.client().send(&bytes),
            _ => talk.server().send(&bytes),
        };
        talk.advance(match rng.below(12) {
            0 => 40_000 * MS,
            _ => rng.below(20) as i64 * MS,
        });
    }
    if rng.chance(0.8) {
        talk.close();
    } else {
        talk.client().rst();
    }
}

/// The same segment with a changed header field.
fn distort(sent: &SentPacket, rng: &mut SeededRng) -> SentPacket {
    let Some(mut tcp) = sent.tcp_info() else {
        return sent.clone();
    };
    match rng.below(6) {
        0 => tcp.flags = TcpFlags(rng.next_u64() as u8),
        1 => {
            tcp.seq = TcpSeq(
                tcp.seq
                    .0
                    .wrapping_add(rng.below(3000) as u32)
                    .wrapping_sub(1500),
            )
        }
        2 => {
            tcp.ack = TcpSeq(
                tcp.ack
                    .0
                    .wrapping_add(rng.below(3000) as u32)
                    .wrapping_sub(1500),
            )
        }
        3 => tcp.window = 0,
        4 => tcp.seq = TcpSeq(tcp.seq.0.wrapping_sub(1)),
        _ => tcp.ack = TcpSeq(rng.next_u64() as u32),
    }
    SentPacket {
        carrier: TransportCarrier::Tcp(tcp),
        ..sent.clone()
    }
}

/// Events of the traffic as text; `fast`: with the fast path where it applies.
fn outcome(traffic: &[SentPacket], config: &FlowTableConfig, fast: bool) -> Vec<String> {
    let mut table = FlowTable::<()>::new(config.clone());
    let mut events = FlowEvents::default();
    let mut said = Vec::new();
    let mut rng = SeededRng::new(1);
    for sent in traffic {
        let packet = sent.packet();
        let mut at = table.hash(&packet);
        if rng.chance(0.5) {
            table.prefetch_flow(&mut at, |_| ());
        }
        let idx = table.process_hashed(&packet, &at, &mut events);
        note(&table, &events, packet.payload, &mut said);
        if !fast {
            table.store.hot_mut(idx.0).put(flag::FAST, false);
        }
        if rng.chance(0.1) {
            table.expire(sent.ts, &mut events);
            note(&table, &events, &[], &mut said);
        }
        if !fast {
            (0..table.store.len())
                .for_each(|n| table.store.hot_mut(n as u32).put(flag::FAST, false));
        }
    }
    while table.close_all(Timestamp(0), &mut events) {
        note(&table, &events, &[], &mut said);
    }
    note(&table, &events, &[], &mut said);
    said.push(format!("{:?}", table.counters()));
    said
}

/// Records events independent of the order of flows.
fn note(table: &FlowTable<()>, events: &FlowEvents, payload: &[u8], said: &mut Vec<String>) {
    let mut list = events.list().to_vec();
    list.sort_by_key(|event| table.flow(event.flow).id());
    for event in list {
        said.push(match event.what {
            FlowEvent::Bytes {
                side, chunk, ts, ..
            } => {
                format!("{side:?} {ts} {:?}", events.bytes(chunk, payload))
            }
            FlowEvent::Closed { reason, ts } => {
                format!("{reason:?} {ts} {}", facts(table.flow(event.flow)))
            }
            what => format!("{what:?}"),
        });
    }
}

/// All public properties of a flow.
fn facts(flow: Flow<'_>) -> String {
    let side = |side| {
        let sums = (
            flow.packets(side),
            flow.bytes(side),
            flow.payload_bytes(side),
            flow.unique_bytes(side),
        );
        format!("{sums:?} {:?}", flow.counters(side))
    };
    format!(
        "{:x} {:?} {:?} {} {} {:?} {:?} {} {} {} {}",
        flow.id(),
        flow.key(),
        flow.client(),
        flow.first_ts(),
        flow.last_ts(),
        flow.handshake_ns(),
        flow.rst(),
        flow.conn_state().name(),
        flow.history(),
        side(FlowSide::A),
        side(FlowSide::B),
    )
}

/// Events other than payload, without the table's counters, which differ in held bytes. Ends come last: with payload
/// they wait for the other side's.
fn without_payload(said: &[String]) -> Vec<&String> {
    let is_payload = |line: &&String| {
        ["A ", "B ", "Gap", "Datagram", "FlowTableCounters"]
            .iter()
            .any(|begins| line.starts_with(begins))
    };
    let (mut ends, mut others): (Vec<_>, Vec<_>) = said
        .iter()
        .filter(|line| !is_payload(line))
        .partition(|line| line.starts_with("End"));
    ends.sort();
    others.extend(ends);
    others
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_short_way_leads_to_the_same(seed: u64, active in any::<bool>()) {
        let active_timeout_ns = active.then_some(30_000 * MS);
        let config = FlowTableConfig { active_timeout_ns, tcp_idle_ns: 60_000 * MS, ..FlowTableConfig::default() };
        let traffic = traffic(seed);
        prop_assert_eq!(outcome(&traffic, &config, true), outcome(&traffic, &config, false));
    }

    #[test]
    fn reduced_detail_gives_the_same_events(seed: u64) {
        let mut traffic = traffic(seed);
        let with = |traffic: &[SentPacket], detail| outcome(traffic, &FlowTableConfig { detail, ..FlowTableConfig::default() }, true);
        let full = with(&traffic, TrackingDetail::Payload);
        let segments = with(&traffic, TrackingDetail::Segments);
        prop_assert_eq!(without_payload(&full), without_payload(&segments));
        // Without payload copies are not detected: all packets are distinct, in IPv4 where that is visible.
        traffic.retain(|sent| sent.src.is_ipv4());
        (1..).zip(&mut traffic).for_each(|(ip_id, sent)| sent.ip_id = ip_id);
        prop_assert_eq!(with(&traffic, TrackingDetail::Segments), with(&traffic, TrackingDetail::Life));
    }
}

/// Small counters overflow into large ones in time, at any stream position.
#[test]
fn long_flows_are_counted_to_the_end() {
    let mut table = FlowTable::<()>::new(FlowTableConfig::default());
    let mut events = FlowEvents::default();
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80").with_isn(u32::MAX - 5, 7);
    talk.handshake();
    let handshake = talk.take();
    talk.client().send(b"x");
    let segment = talk.take().remove(0);
    for sent in &handshake {
        table.process(&sent.packet(), &mut events);
    }
    let big = vec![0; 60_000];
    let n = 200_000u32;
    let mut idx = FlowIdx(0);
    let mut delivered = 0u64;
    for i in 0..n {
        let mut packet = segment.packet();
        let TransportHeader::Tcp(tcp) = &mut packet.transport else {
            panic!("a segment")
        };
        tcp.seq = tcp.seq.plus(i.wrapping_mul(60_000));
        (
            packet.payload,
            packet.payload_original_len,
            packet.original_len,
        ) = (&big, 60_000, 60_054);
        idx = table.process(&packet, &mut events);
        delivered += events
            .list()
            .iter()
            .filter(|e| matches!(e.what, FlowEvent::Bytes { .. }))
            .count() as u64;
    }
    let flow = table.flow(idx);
    assert_eq!(delivered, u64::from(n));
    assert_eq!(flow.unique_bytes(FlowSide::A), u64::from(n) * 60_000);
    assert_eq!(flow.packets(FlowSide::A), u64::from(n) + 2);
    assert_eq!(flow.counters(FlowSide::A), crate::SideCounters::default());
    assert!(flow.bytes(FlowSide::A) > u64::from(n) * 60_054);
    assert_eq!(flow.start_seq(FlowSide::A), TcpSeq(u32::MAX - 4));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each flow is examined at most once for each clock time.
    #[test]
    fn expiry_makes_progress(
        idle in prop_oneof![1..4_000 * MS, 1..=i64::MAX],
        active in prop::option::of(prop_oneof![i64::MIN..=0, 1..4_000 * MS, 1..=i64::MAX]),
        flows in prop_oneof![1..100u32, 4_000..9_000u32],
        steps in prop::collection::vec(prop_oneof![
            4 => -5_000 * MS..30_000 * MS,
            1 => -900_000 * MS..900_000 * MS,
            1 => any::<i64>(),
        ], 1..12),
    ) {
        let config = FlowTableConfig { tcp_opening_idle_ns: idle, active_timeout_ns: active, ..FlowTableConfig::default() };
        let mut table = FlowTable::<()>::new(config);
        let mut events = FlowEvents::default();
        let mut now = 1_750_000_000_000 * MS;
        for step in steps {
            for flow in 0..flows {
                let ends = [format!("10.{}.{}.1:1", flow >> 8, flow & 255), "10.0.0.2:80".to_owned()];
                let mut talk = TcpDialogue::new(&ends[0], &ends[1]);
                talk.handshake();
                let mut sent = talk.take().remove(0);
                sent.ts = Timestamp(now.saturating_add(i64::from(flow)));
                table.process(&sent.packet(), &mut events);
            }
            now = now.saturating_add(step);
            let most = 2 + table.len() / 4096;
            let calls = (1..=most + 1).find(|_| !table.expire(Timestamp(now), &mut events));
            prop_assert!(calls.is_some_and(|calls| calls <= most), "{calls:?} calls for {} flows", table.len());
        }
    }
}

/// The two budgets of a table, and what its flows use of them, counted flow by flow: held bytes, and the room of
/// records.
fn budgets(table: &FlowTable<()>, room: i64) -> [(i64, i64); 2] {
    let places = 0..table.store.len() as u32;
    let spills = (places.clone()).filter_map(|place| table.store.cold(place).spill.as_deref());
    let held = spills.map(SpillRecord::held_bytes).sum::<usize>();
    let live = places.filter(|place| table.store.hot(*place).has(flag::LIVE));
    let used = live.map(|place| FlowTable::<()>::FLOW_BYTES + table.store.extra(place) as usize);
    let used = used.sum::<usize>() + table.dormant.bytes();
    [
        (table.held_bytes() as i64, held as i64),
        (room - table.config.room.left(), used as i64),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The budgets in use are what the flows use, after every call and however a flow ends.
    #[test]
    fn budgets_equal_the_use_of_flows(seed: u64, room in 0i64..6_000, held in 0usize..20_000, idle in 1..400 * MS) {
        let config = FlowTableConfig {
            room: FlowBudget::of_bytes(room as usize),
            held_bytes_max: held,
            held_bytes_max_per_direction: held / 2,
            tcp_idle_ns: idle,
            tcp_opening_idle_ns: idle,
            ..FlowTableConfig::default()
        };
        let mut rng = SeededRng::new(seed);
        let mut table = FlowTable::<()>::new(config);
        let mut events = FlowEvents::default();
        let check = |table: &mut FlowTable<()>, events: &FlowEvents, rng: &mut SeededRng, after: &str| {
            // The caller learns of a flow's bytes and its end from the same call.
            for event in events.list() {
                if rng.chance(0.3) {
                    table.set_state_bytes(event.flow, rng.below(1_000) as u32);
                }
                if rng.chance(0.02) {
                    table.ignore_payload(event.flow);
                } else if rng.chance(0.02) {
                    table.heed_payload(event.flow);
                }
            }
            for (used, counted) in budgets(table, room) {
                assert_eq!(used, counted, "{after}");
            }
        };
        for _ in 0..2 {
            let mut traffic = traffic(rng.next_u64());
            for sent in &mut traffic {
                let is_cut = rng.chance(0.1);
                sent.cut = u32::from(is_cut) * rng.below(sent.payload.len() as u64 + 1) as u32;
            }
            // Packets within 4 ms are in any order, so that flows begin without their SYN.
            traffic.sort_by_cached_key(|sent| sent.ts.0 + rng.below(4 * MS as u64) as i64);
            for sent in &traffic {
                table.process(&sent.packet(), &mut events);
                check(&mut table, &events, &mut rng, "a packet");
                let mut more = rng.chance(0.1);
                while more {
                    more = table.expire(sent.ts.plus(rng.below(30) as i64 * MS), &mut events);
                    check(&mut table, &events, &mut rng, "expiry");
                }
                more = rng.chance(0.05);
                while more {
                    more = table.make_room(sent.ts, &mut events);
                    check(&mut table, &events, &mut rng, "room for growth");
                }
            }
            let last = traffic.last().map_or(Timestamp(0), |sent| sent.ts);
            while table.close_all(last, &mut events) {
                check(&mut table, &events, &mut rng, "the end");
            }
            prop_assert_eq!((table.held_bytes(), table.len()), (0, 0));
        }
    }
}

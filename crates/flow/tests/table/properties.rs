//! Properties for any traffic: splitting, delaying, and duplicating the segments of a conversation does not change its
//! byte streams; a simple, slow reassembler gives the same result; random packets violate neither limits nor the order
//! of events.

use std::collections::BTreeMap;

use crate::observe::{Observer, Piece};
use flow::{CloseReason, FlowBudget, FlowTableConfig, TrackingDetail};
use proptest::prelude::*;
use testkit::{PacketMangler, SeededRng, SentPacket, TcpDialogue, TransportCarrier};
use wire::packet::TcpFlags;
use wire::{FlowSide, TcpInfo, TcpSeq, Timestamp};

const MS: i64 = 1_000_000;
const CASES: u32 = 250;

/// A conversation of random length and pace, and the bytes sent per side.
fn conversation(seed: u64) -> (Vec<SentPacket>, [Vec<u8>; 2]) {
    let mut rng = SeededRng::new(seed);
    let isn = |rng: &mut SeededRng| {
        if rng.chance(0.5) {
            u32::MAX - rng.below(5000) as u32
        } else {
            rng.next_u64() as u32
        }
    };
    let client = isn(&mut rng);
    let server = isn(&mut rng);
    let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80").with_isn(client, server);
    let mut said = [Vec::new(), Vec::new()];
    talk.handshake();
    talk.advance(2 * MS);
    for _ in 0..rng.below(12) {
        talk.segment_size = 1 + rng.below(700) as usize;
        let side = if rng.chance(0.5) {
            FlowSide::A
        } else {
            FlowSide::B
        };
        let n = 1 + rng.below(3000) as usize;
        let bytes = rng.bytes(n);
        match side {
            FlowSide::A => talk.client().send(&bytes),
            FlowSide::B => talk.server().send(&bytes),
        };
        said[side.index()].extend(bytes);
        talk.advance(rng.below(20) as i64 * MS);
    }
    talk.advance(2 * MS);
    talk.close();
    (talk.take(), said)
}

/// A simple, slow reassembler: every byte of one direction by its distance from the first; the first arrival counts.
fn oracle(sent: &[SentPacket], from: u32, isn: u32) -> BTreeMap<i64, u8> {
    let mut bytes = BTreeMap::new();
    for one in sent.iter().filter(|s| s.src.port() as u32 == from) {
        let tcp = one.tcp_info().expect("a TCP conversation");
        let at = i64::from(tcp.seq.0.wrapping_sub(isn.wrapping_add(1)));
        for (i, byte) in one.payload.iter().enumerate() {
            bytes.entry(at + i as i64).or_insert(*byte);
        }
    }
    bytes
}

/// Compares every delivered byte with the oracle; returns the number of bytes.
fn agree(pieces: &[Piece], oracle: &BTreeMap<i64, u8>) -> usize {
    let mut at = 0;
    let mut n = 0;
    for piece in pieces {
        match piece {
            Piece::Gap(len) => at += *len as i64,
            Piece::Bytes(bytes) => {
                for byte in bytes {
                    assert_eq!(oracle.get(&at), Some(byte), "byte {at} of the stream");
                    at += 1;
                }
                n += bytes.len();
            }
        }
    }
    n
}

fn run(sent: &[SentPacket], config: FlowTableConfig) -> Observer {
    let mut seen = Observer::new(config);
    seen.run(sent)
        .close_all(sent.last().map_or(Timestamp(0), |s| s.ts));
    seen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn harm_without_loss_changes_nothing(seed: u64) {
        let (sent, said) = conversation(seed);
        let harm = PacketMangler { seed, loss: 0.0, duplicate: 0.1, reorder: 0.3, delay_max_ns: MS, resegment: 0.4 };
        let harmed = harm.apply(&sent);
        let seen = run(&harmed, FlowTableConfig::default());
        prop_assert_eq!(seen.seen.len(), 1);
        prop_assert_eq!(&seen.bytes(0, FlowSide::A), &said[0]);
        prop_assert_eq!(&seen.bytes(0, FlowSide::B), &said[1]);
        prop_assert_eq!(seen.seen[0].terminated, Some(CloseReason::Fin));
        prop_assert_eq!(seen.table.counters().gaps, 0);
    }

    #[test]
    fn delivered_bytes_are_correct_under_loss(seed: u64, loss in 0.01f64..0.5) {
        let (sent, said) = conversation(seed);
        let harm = PacketMangler { seed, loss, duplicate: 0.1, reorder: 0.1, delay_max_ns: 30 * MS, resegment: 0.2 };
        let handshake = sent[..2].to_vec();
        let mut harmed = handshake.clone();
        harmed.extend(harm.apply(&sent[2..]));
        let seen = run(&harmed, FlowTableConfig { reorder_wait_ns: 10 * MS, ..FlowTableConfig::default() });
        let isn = |n: usize| handshake[n].tcp_info().expect("a TCP conversation").seq.0;
        for (n, port) in [(0, 40_000), (1, 80)] {
            let oracle = oracle(&harmed, port, isn(n));
            let delivered = agree(&seen.seen[0].streams[n], &oracle);
            prop_assert!(delivered <= oracle.len() && oracle.len() <= said[n].len());
        }
    }

    /// Forged packets with guessed sequence numbers have no effect.
    #[test]
    fn blind_forgeries_change_nothing(seed: u64, n in 1usize..20) {
        let (sent, said) = conversation(seed);
        let mut all = sent.clone();
        let mut rng = SeededRng::new(!seed);
        for _ in 0..n {
            let over = all.iter().rposition(|s| s.tcp_info().is_some_and(|tcp| tcp.flags.contains(TcpFlags::FIN)));
            let at = 3 + rng.below(over.map_or(0, |fin| fin as u64 - 2)) as usize;
            let forged = forged(&all, &mut rng);
            all.insert(at, SentPacket { ts: all[at - 1].ts, ..forged });
        }
        let alone = run(&sent, FlowTableConfig::default());
        let seen = run(&all, FlowTableConfig::default());
        prop_assert_eq!(seen.seen.len(), 1);
        prop_assert_eq!(&seen.bytes(0, FlowSide::A), &said[0]);
        prop_assert_eq!(&seen.bytes(0, FlowSide::B), &said[1]);
        prop_assert_eq!(seen.seen[0].terminated, Some(CloseReason::Fin));
        prop_assert_eq!(&seen.seen[0].places, &alone.seen[0].places);
        prop_assert_eq!(&seen.closed, &alone.closed);
    }

    #[test]
    fn conflicting_overlaps_go_to_the_first(seed: u64, n in 1usize..60) {
        let mut rng = SeededRng::new(seed);
        let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:80");
        talk.handshake();
        for _ in 0..n {
            let at = rng.below(400);
            let len = 1 + rng.below(60) as usize;
            let bytes = rng.bytes(len);
            talk.client().segment(at as i64, TcpFlags::ACK, &bytes);
        }
        let sent = talk.take();
        let seen = run(&sent, FlowTableConfig::default());
        let oracle = oracle(&sent, 40_000, 1_000);
        prop_assert_eq!(agree(&seen.seen[0].streams[0], &oracle), oracle.len());
    }

    #[test]
    fn garbage_breaks_nothing(seed: u64, n in 1usize..1500) {
        let mut rng = SeededRng::new(seed);
        let mut seen = Observer::new(random_config(&mut rng));
        let mut now = Timestamp(1_700_000_000_000_000_000);
        for _ in 0..n {
            now = next_time(&mut rng, now);
            seen.packet(&garbage(&mut rng, now).packet());
            if rng.chance(0.05) {
                seen.expire(now);
            }
            if rng.chance(0.01) {
                seen.close_all(now);
            }
            if rng.chance(0.02) && seen.table.len() == 1 {
                let idx = seen.only_idx();
                seen.table.ignore_payload(idx);
            }
        }
        seen.close_all(now);
        prop_assert!(seen.table.counters().held_bytes_peak <= seen.config.held_bytes_max as u64);
    }
}

/// A SYN, SYN-ACK, RST, acknowledgment, or data from one of the ends, with sequence numbers that are not theirs:
/// neither so close that a late acknowledgment could have them (one guess in 256 is), nor close to those of another
/// forgery, which they would confirm.
fn forged(sent: &[SentPacket], rng: &mut SeededRng) -> SentPacket {
    let numbers = |s: &SentPacket| {
        s.tcp_info()
            .map_or([TcpSeq(0); 2], |tcp| [tcp.seq, tcp.ack])
    };
    let known: Vec<TcpSeq> = sent.iter().flat_map(numbers).collect();
    let mut blind = || loop {
        let number = TcpSeq(rng.next_u64() as u32);
        if known
            .iter()
            .all(|known| number.distance(*known).unsigned_abs() > 1 << 24)
        {
            break number;
        }
    };
    let seq = blind();
    let ack = blind();
    let syn_ack = TcpFlags::SYN | TcpFlags::ACK;
    let data = TcpFlags::PSH | TcpFlags::ACK;
    let kinds = [
        TcpFlags::SYN,
        syn_ack,
        TcpFlags::RST,
        TcpFlags::RST | TcpFlags::ACK,
        TcpFlags::ACK,
        data,
    ];
    let flags = kinds[rng.below(6) as usize];
    let tcp = TcpInfo {
        seq,
        ack,
        flags,
        window: 1_000,
    };
    let payload = if flags == data {
        b"forged".to_vec()
    } else {
        Vec::new()
    };
    let ip_id = rng.next_u64() as u16;
    let like = &sent[rng.below(2) as usize];
    SentPacket {
        carrier: TransportCarrier::Tcp(tcp),
        payload,
        ip_id,
        ..like.clone()
    }
}

fn random_config(rng: &mut SeededRng) -> FlowTableConfig {
    FlowTableConfig {
        room: FlowBudget::of_flows(1 + rng.below(6) as usize),
        held_bytes_max_per_direction: rng.below(5000) as usize,
        held_bytes_max: rng.below(8000) as usize,
        detail: [
            TrackingDetail::Life,
            TrackingDetail::Segments,
            TrackingDetail::Payload,
            TrackingDetail::Payload,
        ][rng.below(4) as usize],
        active_timeout_ns: rng.chance(0.3).then(|| rng.below(1 << 34) as i64),
        seed: rng.next_u64(),
        ..FlowTableConfig::default()
    }
}

/// Mostly forward, sometimes backward, rarely far.
fn next_time(rng: &mut SeededRng, now: Timestamp) -> Timestamp {
    match rng.below(200) {
        0 => Timestamp(rng.next_u64() as i64),
        1..10 => now.plus(-(rng.below(1 << 32) as i64)),
        10..20 => now.plus(rng.below(1 << 36) as i64),
        _ => now.plus(rng.below(1 << 24) as i64),
    }
}

/// Few endpoints, sequence numbers close to each other or anywhere, all flags.
fn garbage(rng: &mut SeededRng, now: Timestamp) -> SentPacket {
    let end = |rng: &mut SeededRng| {
        format!("10.0.0.{}:80", rng.below(3))
            .parse()
            .expect("an address")
    };
    let seq = |rng: &mut SeededRng| match rng.below(10) {
        0 => rng.next_u64() as u32,
        1 => (1 << 31) + rng.below(100) as u32,
        _ => u32::MAX.wrapping_add(rng.below(3000) as u32),
    };
    let flags = match rng.below(8) {
        0 => TcpFlags(rng.next_u64() as u8),
        1 => TcpFlags::SYN,
        2 if rng.chance(0.3) => TcpFlags::FIN | TcpFlags::ACK,
        _ => TcpFlags::ACK,
    };
    let tcp = TcpInfo {
        seq: TcpSeq(seq(rng)),
        ack: TcpSeq(seq(rng)),
        flags,
        window: rng.below(3) as u16,
    };
    let carrier = if rng.chance(0.03) {
        TransportCarrier::Udp
    } else {
        TransportCarrier::Tcp(tcp)
    };
    let len = if rng.chance(0.5) {
        0
    } else {
        rng.below(900) as usize
    };
    let payload = rng.bytes(len);
    let cut = if rng.chance(0.1) {
        rng.below(len as u64 + 1) as u32
    } else {
        0
    };
    SentPacket {
        cut,
        ..SentPacket::new(now, (end(rng), end(rng)), carrier, &payload)
    }
}

//! Both sides of a connection are delivered in the order of sending, with any damage: generated conversations are
//! damaged and compared with the original.

use flow::{FlowEvent, FlowEvents, FlowTable, FlowTableConfig};
use proptest::prelude::*;
use testkit::{SeededRng, SentPacket};
use wire::packet::TcpFlags;
use wire::{FlowSide, TcpInfo, TcpSeq, Timestamp};

const MS: i64 = 1_000_000;
const START: i64 = 1_700_000_000_000_000_000;

/// Pattern of the client's requests.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// One request, then its response.
    ClosedLoop,
    /// Several requests, then all their responses.
    Batches,
    /// Requests at random times.
    UnderWay,
}

/// A conversation as sent: segments with payload, and pure acknowledgments.
struct Truth {
    sent: Vec<SentPacket>,
    /// Bytes sent per side.
    said: [Vec<u8>; 2],
}

/// State of a conversation during generation. An end has received everything sent at least half a round trip ago.
struct Making {
    rng: SeededRng,
    now: i64,
    isn: [u32; 2],
    truth: Truth,
    heard: [usize; 2],
}

impl Making {
    fn segment(&mut self, side: FlowSide, flags: TcpFlags, payload: &[u8]) {
        let own = side.index();
        let other = side.other().index();
        let at =
            |side: usize, n: usize| TcpSeq(self.isn[side].wrapping_add(1).wrapping_add(n as u32));
        let syn = flags.contains(TcpFlags::SYN);
        let seq = if syn {
            TcpSeq(self.isn[own])
        } else {
            at(own, self.truth.said[own].len())
        };
        let ack = if flags == TcpFlags::SYN {
            TcpSeq(0)
        } else {
            at(other, self.heard[own])
        };
        let ends = ["10.0.0.1:40000", "10.0.0.2:80"].map(|end| end.parse().expect("an address"));
        self.now += 1_000 + self.rng.below(50_000) as i64;
        let tcp = TcpInfo {
            seq,
            ack,
            flags,
            window: 60_000,
        };
        self.truth.sent.push(SentPacket::tcp(
            Timestamp(START + self.now),
            (ends[own], ends[other]),
            tcp,
            payload,
        ));
        self.truth.said[own].extend(payload);
    }

    /// A message in up to four segments.
    fn message(&mut self, side: FlowSide, most: u64) {
        for _ in 0..=self.rng.below(3) {
            let n = 1 + self.rng.below(most) as usize;
            let bytes = self.rng.bytes(n);
            self.segment(side, TcpFlags::ACK, &bytes);
        }
    }

    /// `side` receives everything sent to it.
    fn hear(&mut self, side: FlowSide) {
        self.heard[side.index()] = self.truth.said[side.other().index()].len();
        if self.rng.chance(0.5) {
            self.segment(side, TcpFlags::ACK, b"");
        }
    }
}

fn conversation(seed: u64, manner: Manner) -> Truth {
    let mut rng = SeededRng::new(seed);
    let isn = [rng.next_u64() as u32, rng.next_u64() as u32];
    let truth = Truth {
        sent: Vec::new(),
        said: [Vec::new(), Vec::new()],
    };
    let mut talk = Making {
        rng,
        now: 0,
        isn,
        truth,
        heard: [0; 2],
    };
    talk.segment(FlowSide::A, TcpFlags::SYN, b"");
    talk.segment(FlowSide::B, TcpFlags::SYN | TcpFlags::ACK, b"");
    talk.segment(FlowSide::A, TcpFlags::ACK, b"");
    // Packets of the handshake may be out of order, but only among themselves.
    talk.now += 20 * MS;
    for _ in 0..1 + talk.rng.below(30) {
        let questions = if matches!(manner, Manner::Batches) {
            1 + talk.rng.below(4)
        } else {
            1
        };
        match manner {
            Manner::ClosedLoop | Manner::Batches => {
                (0..questions).for_each(|_| talk.message(FlowSide::A, 300));
                talk.hear(FlowSide::B);
                (0..questions).for_each(|_| talk.message(FlowSide::B, 900));
                talk.hear(FlowSide::A);
            }
            Manner::UnderWay => {
                for _ in 0..3 {
                    let side = if talk.rng.chance(0.5) {
                        FlowSide::A
                    } else {
                        FlowSide::B
                    };
                    if talk.rng.chance(0.5) {
                        talk.hear(side)
                    } else {
                        talk.message(side, 500)
                    }
                }
            }
        }
        talk.now += talk.rng.below(3) as i64 * MS;
    }
    talk.truth
}

/// Effect of a capture on packets.
#[derive(Clone, Copy, Debug, Default)]
struct Damage {
    /// Maximum time by which packets move in the file.
    shuffle_ns: i64,
    /// Offset of side B's clock.
    skew_ns: i64,
    loss: [f64; 2],
    duplicate: f64,
}

impl Damage {
    fn apply(&self, seed: u64, sent: &[SentPacket]) -> Vec<SentPacket> {
        let mut rng = SeededRng::new(seed ^ 0x5eed);
        let mut keyed = Vec::new();
        for (n, one) in sent.iter().enumerate() {
            let side = if one.src.port() == 80 {
                FlowSide::B
            } else {
                FlowSide::A
            };
            let late = |rng: &mut SeededRng| {
                if self.shuffle_ns > 0 {
                    rng.below(self.shuffle_ns as u64) as i64
                } else {
                    0
                }
            };
            let mut damaged = one.clone();
            damaged.ts = one
                .ts
                .plus(if side == FlowSide::B { self.skew_ns } else { 0 });
            if n >= 3 && rng.chance(self.loss[side.index()]) {
                continue;
            }
            let copies = 1 + usize::from(rng.chance(self.duplicate));
            // The handshake stays first: this test does not cover the start of streams.
            let delay = if n < 3 { 0 } else { late(&mut rng) };
            for _ in 0..copies {
                keyed.push((damaged.ts.plus(delay), damaged.clone()));
            }
        }
        keyed.sort_by_key(|(key, _)| *key);
        keyed.into_iter().map(|(_, sent)| sent).collect()
    }
}

/// Delivered events.
#[derive(Default)]
struct Heard {
    /// Position up to which each side has been delivered, relative to its first byte.
    at: [i64; 2],
    bytes: [Vec<(i64, Vec<u8>)>; 2],
    gaps: [Vec<(i64, i64)>; 2],
    unsaid: usize,
}

fn run(truth: &Truth, sent: &[SentPacket], config: &FlowTableConfig) -> (Heard, FlowTable<()>) {
    let isn = [0, 1].map(|n| truth.sent[n].tcp_info().expect("a SYN").seq.plus(1));
    let mut table: FlowTable<()> = FlowTable::new(config.clone());
    let mut events = FlowEvents::default();
    let mut heard = Heard::default();
    let last = sent.iter().map(|sent| sent.ts).max().unwrap_or_default();
    for one in sent {
        table.process(&one.packet(), &mut events);
        take(&events, &one.payload, isn, &mut heard);
        assert!(table.held_bytes() <= config.held_bytes_max);
    }
    table.expire(last.plus(31_000 * MS), &mut events);
    take(&events, &[], isn, &mut heard);
    while table.close_all(last, &mut events) {
        take(&events, &[], isn, &mut heard);
    }
    take(&events, &[], isn, &mut heard);
    assert_eq!(table.held_bytes(), 0);
    assert!(table.counters().held_bytes_peak <= config.held_bytes_max as u64);
    (heard, table)
}

fn take(events: &FlowEvents, payload: &[u8], isn: [TcpSeq; 2], heard: &mut Heard) {
    for event in events.list() {
        match event.what {
            FlowEvent::Bytes {
                side, chunk, place, ..
            } => {
                let at = side.index();
                let other = side.other().index();
                let from = i64::from(place.seq.distance(isn[at]));
                assert_eq!(from, heard.at[at], "{side:?} goes on where it was");
                match place.ack {
                    Some(ack) => {
                        let ack = i64::from(ack.distance(isn[other]));
                        assert!(
                            ack <= heard.at[other],
                            "{side:?} {from} had heard {ack}: {:?}",
                            heard.at
                        );
                    }
                    None => heard.unsaid += 1,
                }
                let bytes = events.bytes(chunk, payload);
                heard.at[at] += bytes.len() as i64;
                heard.bytes[at].push((from, bytes.to_vec()));
            }
            FlowEvent::Gap { side, seq, len, .. } => {
                let from = i64::from(seq.distance(isn[side.index()]));
                assert_eq!(
                    from,
                    heard.at[side.index()],
                    "a gap of {side:?} begins where it was"
                );
                heard.at[side.index()] += len as i64;
                heard.gaps[side.index()].push((from, len as i64));
            }
            _ => {}
        }
    }
}

/// Every captured byte is delivered once and at its position, and gaps are exactly the missing bytes.
fn compare(truth: &Truth, sent: &[SentPacket], heard: &Heard, exactly: bool) {
    for side in [FlowSide::A, FlowSide::B] {
        let at = side.index();
        let isn = truth.sent[at].tcp_info().expect("a SYN").seq.plus(1);
        let mut kept = vec![false; truth.said[at].len()];
        for one in sent
            .iter()
            .filter(|s| (s.src.port() == 80) == (side == FlowSide::B) && !s.payload.is_empty())
        {
            let from = one.tcp_info().expect("TCP").seq.distance(isn) as usize;
            kept[from..from + one.payload.len()].fill(true);
        }
        for (from, bytes) in &heard.bytes[at] {
            let range = *from as usize..*from as usize + bytes.len();
            assert_eq!(
                &truth.said[at][range.clone()],
                bytes,
                "{side:?}'s bytes at {from}"
            );
            assert!(kept[range].iter().all(|kept| *kept));
        }
        for (from, len) in &heard.gaps[at] {
            let range = *from as usize..(*from + *len) as usize;
            assert!(range.end <= kept.len(), "{side:?} never said {range:?}");
            assert!(
                !exactly || kept[range.clone()].iter().all(|kept| !*kept),
                "{side:?} {range:?} was captured"
            );
        }
        let delivered: usize = heard.bytes[at].iter().map(|(_, bytes)| bytes.len()).sum();
        let expected = kept.iter().filter(|kept| **kept).count();
        assert!(
            !exactly || delivered == expected,
            "{side:?}: {delivered} of {expected} bytes"
        );
    }
}

fn manner(n: u8) -> Manner {
    [Manner::ClosedLoop, Manner::Batches, Manner::UnderWay][usize::from(n % 3)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_lost_is_all_in_order(seed: u64, n: u8, shuffle in 0i64..5, skew in -5i64..5) {
        let truth = conversation(seed, manner(n));
        let damage = Damage { shuffle_ns: shuffle * MS, skew_ns: skew * MS, duplicate: 0.05, ..Damage::default() };
        let sent = damage.apply(seed, &truth.sent);
        let (heard, table) = run(&truth, &sent, &FlowTableConfig::default());
        compare(&truth, &sent, &heard, true);
        prop_assert_eq!((heard.unsaid, heard.gaps.concat().len()), (0, 0), "{:?}", table.counters());
    }

    #[test]
    fn lost_segments_are_gaps(seed: u64, n: u8, shuffle in 0i64..5, skew in -5i64..5, a in 0f64..0.3, b in 0f64..0.3) {
        let truth = conversation(seed, manner(n));
        let loss = [[a, 0.0], [0.0, b], [a, b]][usize::from(n / 3 % 3)];
        let damage = Damage { shuffle_ns: shuffle * MS, skew_ns: skew * MS, loss, duplicate: 0.05 };
        let sent = damage.apply(seed, &truth.sent);
        let (heard, _) = run(&truth, &sent, &FlowTableConfig::default());
        compare(&truth, &sent, &heard, true);
        prop_assert_eq!(heard.unsaid, 0);
    }

    #[test]
    fn little_room_costs_bytes_and_no_order(seed: u64, n: u8, shuffle in 0i64..5, a in 0f64..0.3, room in 0usize..6000) {
        let truth = conversation(seed, manner(n));
        let damage = Damage { shuffle_ns: shuffle * MS, loss: [a, a], ..Damage::default() };
        let sent = damage.apply(seed, &truth.sent);
        let config = FlowTableConfig { held_bytes_max: room, ..FlowTableConfig::default() };
        let (heard, _) = run(&truth, &sent, &config);
        compare(&truth, &sent, &heard, false);
    }
}

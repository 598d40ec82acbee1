//! Packets captured twice. For any pattern of copies, a flow equals the flow without them, and retransmissions remain
//! retransmissions.

use flow::{FlowTableConfig, SideCounters};
use testkit::{SentPacket, TcpDialogue};
use wire::packet::TcpFlags;
use wire::{FlowSide, Packet};

use super::{MS, SECOND};
use crate::observe::Observer;

/// Changes that a mirror makes to copied packets.
type Mirror = fn(SentPacket) -> SentPacket;

const ONE_HOP_ON: Mirror = |sent| SentPacket {
    ttl: sent.ttl - 1,
    ..sent
};
const TAGGED: Mirror = |sent| SentPacket {
    vlans: vec![200],
    ..sent
};
const UNCHANGED: Mirror = |sent| sent;

/// Handshake, a burst, a retransmission, duplicate acknowledgments, a response, and the end; the first of them with
/// IPv4 identifications.
fn dialogue(client: &str, server: &str) -> Vec<SentPacket> {
    let mut talk = TcpDialogue::new(client, server);
    talk.handshake();
    talk.advance(MS);
    talk.client().send(&[7; 20_000]);
    talk.advance(MS);
    talk.client().segment(-100, TcpFlags::ACK, &[7; 100]);
    talk.advance(2 * MS);
    talk.server().ack_at(-1_000);
    talk.advance(2 * MS);
    talk.server().ack_at(-1_000).send(b"answer");
    talk.advance(SECOND);
    talk.close();
    talk.take()
}

fn without_numbers(sent: Vec<SentPacket>) -> Vec<SentPacket> {
    sent.into_iter()
        .map(|one| SentPacket { ip_id: 0, ..one })
        .collect()
}

/// Every packet, and its copy `delay_us` later.
fn mirrored(sent: &[SentPacket], mirror: Mirror, delay_us: i64) -> Vec<SentPacket> {
    let mut all: Vec<SentPacket> = sent
        .iter()
        .flat_map(|one| {
            [
                one.clone(),
                mirror(SentPacket {
                    ts: one.ts.plus(delay_us * 1_000),
                    ..one.clone()
                }),
            ]
        })
        .collect();
    all.sort_by_key(|one| one.ts);
    all
}

fn run(sent: &[SentPacket]) -> Observer {
    let mut seen = Observer::new(FlowTableConfig::default());
    for one in sent {
        let bytes = one.to_bytes();
        seen.packet(&Packet::decode(&one.captured(&bytes)).expect("a good packet"));
    }
    seen
}

fn check(sent: &[SentPacket], mirror: Mirror, delay_us: i64) {
    let once = run(sent);
    let twice = run(&mirrored(sent, mirror, delay_us));
    let once_flow = once.only();
    let twice_flow = twice.only();
    for side in [FlowSide::A, FlowSide::B] {
        assert_eq!(
            once_flow.packets(side),
            twice_flow.packets(side),
            "{side:?} {delay_us} us"
        );
        assert_eq!(once_flow.unique_bytes(side), twice_flow.unique_bytes(side));
        let counters = twice_flow.counters(side);
        assert_eq!(u64::from(counters.duplicates), once_flow.packets(side));
        assert_eq!(
            SideCounters {
                duplicates: 0,
                ..counters
            },
            once_flow.counters(side)
        );
    }
    assert_eq!(once_flow.history(), twice_flow.history());
    assert_eq!(
        (once.log, once.table.counters().duplicates_ambiguous),
        (twice.log, 0)
    );
}

#[test]
fn a_path_mirrored_at_both_ends_is_seen_once() {
    let numbered = dialogue("10.0.0.1:40000", "10.0.0.2:80");
    for delay_us in [1, 35, 470, 5_000] {
        for mirror in [ONE_HOP_ON, TAGGED, UNCHANGED] {
            check(&numbered, mirror, delay_us);
        }
    }
}

#[test]
fn path_distinguishes_duplicates_without_identifications() {
    let bare = without_numbers(dialogue("10.0.0.1:40000", "10.0.0.2:80"));
    let six = dialogue("[2001:db8::1]:40000", "[2001:db8::2]:80");
    for sent in [bare, six] {
        for delay_us in [1, 35, 470, 5_000] {
            check(&sent, ONE_HOP_ON, delay_us);
            check(&sent, TAGGED, delay_us);
        }
        // If the packets do not differ, the handshake reveals the mirror: a SYN is never retransmitted immediately.
        check(&sent, UNCHANGED, 1);
        check(&sent, UNCHANGED, 9);
    }
}

/// As sent by Linux: identification 0 in the SYN-ACK, nonzero in all other packets.
#[test]
fn a_syn_ack_without_number_is_seen_once() {
    let mut sent = dialogue("10.0.0.1:40000", "10.0.0.2:80");
    sent[1].ip_id = 0;
    for delay_us in [1, 470, 20_000] {
        check(&sent[..2], UNCHANGED, delay_us);
    }
    for delay_us in [1, 35, 470] {
        check(&sent, ONE_HOP_ON, delay_us);
        check(&sent, UNCHANGED, delay_us);
    }
}

fn datagrams(ends: (&str, &str), numbered: bool, gap: i64) -> Vec<SentPacket> {
    let mut talk = TcpDialogue::new(ends.0, ends.1);
    for n in 0..6u8 {
        talk.datagram(FlowSide::A, &[n; 30]);
        talk.advance(gap);
        talk.datagram(FlowSide::B, &[n; 200]);
        talk.advance(gap);
    }
    let sent = talk.take();
    if numbered {
        sent
    } else {
        without_numbers(sent)
    }
}

const FOUR: (&str, &str) = ("10.0.0.1:40000", "10.0.0.2:53");
const SIX: (&str, &str) = ("[2001:db8::1]:40000", "[2001:db8::2]:53");

#[test]
fn copied_datagrams() {
    for delay_us in [1, 35, 470, 5_000] {
        for mirror in [ONE_HOP_ON, TAGGED, UNCHANGED] {
            check(&datagrams(FOUR, true, MS), mirror, delay_us);
        }
        for mirror in [ONE_HOP_ON, TAGGED] {
            check(&datagrams(FOUR, false, 20 * MS), mirror, delay_us);
            check(&datagrams(SIX, false, 20 * MS), mirror, delay_us);
        }
    }
    // Only a request and its response.
    check(&datagrams(FOUR, true, MS)[..2], UNCHANGED, 35);
    check(&datagrams(SIX, true, MS)[..2], TAGGED, 35);
}

/// A first pair may be a copy or a repeated datagram; only the fact that all datagrams come in pairs distinguishes
/// them.
#[test]
fn first_pair_of_equal_datagrams_is_ambiguous() {
    let seen = run(&mirrored(&datagrams(SIX, false, 20 * MS), UNCHANGED, 35));
    let duplicates = [FlowSide::A, FlowSide::B].map(|side| seen.only().counters(side).duplicates);
    assert_eq!(
        (duplicates, seen.table.counters().duplicates_ambiguous),
        ([5, 6], 1)
    );

    let mut talk = TcpDialogue::new(SIX.0, SIX.1);
    for n in [1u8, 1, 1, 2, 3, 3, 4] {
        talk.datagram(FlowSide::A, &[n; 30]);
    }
    let seen = run(talk.sent());
    assert_eq!(seen.table.counters().duplicates_ambiguous, 3);
    assert_eq!(
        (
            seen.only().packets(FlowSide::A),
            seen.table.counters().duplicates
        ),
        (7, 0)
    );
}

#[test]
fn retransmissions_are_not_duplicates() {
    let mut talk = TcpDialogue::new(SIX.0, SIX.1);
    talk.acks = false;
    talk.handshake();
    talk.client().send(b"abc");
    let again = TcpFlags::ACK | TcpFlags::PSH;
    for wait in [2 * MS, 50 * MS, 200 * MS] {
        talk.advance(wait);
        talk.client().segment(-3, again, b"abc");
    }
    let seen = run(talk.sent());
    let counters = seen.only().counters(FlowSide::A);
    assert_eq!((counters.duplicates, counters.retransmissions), (0, 3));

    let mut syns = TcpDialogue::new(SIX.0, SIX.1);
    syns.client().syn();
    syns.advance(SECOND);
    syns.client().segment(-1, TcpFlags::SYN, b"");
    let seen = run(syns.sent());
    assert_eq!(seen.only().counters(FlowSide::A).syn_retransmissions, 1);
}

/// Some senders use one identification for all packets; it is ignored.
#[test]
fn one_number_for_all_is_none() {
    let mut talk = TcpDialogue::new(FOUR.0, FOUR.1);
    for n in 0..9u8 {
        talk.datagram(FlowSide::A, &[n; 30]);
    }
    let constant: Vec<SentPacket> = talk
        .take()
        .into_iter()
        .map(|one| SentPacket { ip_id: 7, ..one })
        .collect();
    let seen = run(&constant);
    assert_eq!(
        (
            seen.only().packets(FlowSide::A),
            seen.only().counters(FlowSide::A).duplicates
        ),
        (9, 0)
    );

    let constant: Vec<SentPacket> = dialogue(FOUR.0, FOUR.1)
        .into_iter()
        .map(|one| SentPacket { ip_id: 7, ..one })
        .collect();
    let bare = without_numbers(constant.clone());
    let [constant, bare] = [constant, bare].map(|sent| run(&sent));
    for side in [FlowSide::A, FlowSide::B] {
        assert_eq!(constant.only().packets(side), bare.only().packets(side));
        assert_eq!(constant.only().counters(side), bare.only().counters(side));
    }
}

/// Two taps with different snaplens: every packet twice, truncated to `snaplens` bytes of payload.
fn with_snaplens(
    sent: &[SentPacket],
    snaplens: [usize; 2],
    mirror: Mirror,
    delay_us: i64,
) -> Vec<SentPacket> {
    let cut = |one: &SentPacket, snaplen: usize| SentPacket {
        cut: one.payload.len().saturating_sub(snaplen) as u32,
        ..one.clone()
    };
    let mut all: Vec<SentPacket> = sent
        .iter()
        .flat_map(|one| {
            let later = SentPacket {
                ts: one.ts.plus(delay_us * 1_000),
                ..one.clone()
            };
            [cut(one, snaplens[0]), mirror(cut(&later, snaplens[1]))]
        })
        .collect();
    all.sort_by_key(|one| one.ts);
    all
}

#[test]
fn longer_of_two_duplicates_is_used() {
    const WHOLE: usize = usize::MAX;
    let sent = dialogue(FOUR.0, FOUR.1);
    let once = run(&sent);
    for snaplens in [[20, WHOLE], [0, WHOLE], [WHOLE, 20], [700, WHOLE]] {
        for delay_us in [1, 35, 470, 950] {
            for mirror in [ONE_HOP_ON, TAGGED, UNCHANGED] {
                let mut twice = run(&with_snaplens(&sent, snaplens, mirror, delay_us));
                for side in [FlowSide::A, FlowSide::B] {
                    let place = format!("{snaplens:?}, {delay_us} us, {side:?}");
                    assert!(
                        twice.seen[0].streams[side.index()] == once.seen[0].streams[side.index()],
                        "{place}"
                    );
                    assert_eq!(
                        twice.only().unique_bytes(side),
                        once.only().unique_bytes(side),
                        "{place}"
                    );
                    let counters = twice.only().counters(side);
                    assert_eq!(
                        u64::from(counters.duplicates),
                        once.only().packets(side),
                        "{place}"
                    );
                    assert_eq!(
                        SideCounters {
                            duplicates: 0,
                            ..counters
                        },
                        once.only().counters(side),
                        "{place}"
                    );
                }
                assert_eq!(twice.table.held_bytes(), 0);
                twice.close_all(sent[sent.len() - 1].ts.plus(SECOND));
            }
        }
    }
}

/// Bytes that neither copy has are a gap at the time of their segment, and later bytes wait for a short time only.
#[test]
fn bytes_truncated_in_both_duplicates_are_a_gap() {
    let mut talk = TcpDialogue::new(FOUR.0, FOUR.1);
    talk.handshake();
    talk.advance(MS);
    talk.client().send(&[1; 1_000]);
    talk.advance(30 * MS);
    talk.client().send(&[2; 10]);
    let sent = talk.take();
    let mut seen = run(&with_snaplens(&sent, [100, 300], ONE_HOP_ON, 50));
    assert_eq!(seen.take_log(), "open <100 <200 <gap700 <10h");
    assert_eq!(seen.only().counters(FlowSide::A).cut_bytes, 700);
    // The gap is reported even if no packet follows.
    let mut seen = run(&with_snaplens(&sent[..5], [100, 300], ONE_HOP_ON, 50));
    seen.expire(sent[4].ts.plus(3 * SECOND));
    assert_eq!(seen.take_log(), "open <100 <200 <gap700");
    // Without duplicates, the gap is reported immediately.
    let alone: Vec<SentPacket> = sent
        .iter()
        .map(|one| SentPacket {
            cut: one.payload.len().saturating_sub(100) as u32,
            ..one.clone()
        })
        .collect();
    assert_eq!(run(&alone[..4]).take_log(), "open <100 <gap900");
}

/// A FIN before bytes that were seen, though cut, is wrong, as one before delivered bytes is.
#[test]
fn a_fin_amid_cut_bytes_ends_nothing() {
    let mut talk = TcpDialogue::new(FOUR.0, FOUR.1);
    talk.handshake();
    talk.advance(MS);
    talk.client().send(&[1; 1_000]);
    talk.client()
        .segment(-500, TcpFlags::FIN | TcpFlags::ACK, b"");
    let sent = talk.take();
    let mut seen = run(&with_snaplens(&sent, [100, 300], ONE_HOP_ON, 50));
    seen.expire(sent[0].ts.plus(3 * SECOND));
    assert_eq!(seen.take_log(), "open <100 <200 <gap700");
}

/// If the length in a damaged header is too large, the next segment is no copy that completes it.
#[test]
fn the_next_segment_does_not_fill_cut_bytes() {
    let mut talk = TcpDialogue::new(FOUR.0, FOUR.1);
    talk.handshake();
    talk.advance(MS);
    let mut sent = with_snaplens(&talk.take(), [usize::MAX; 2], ONE_HOP_ON, 50);
    talk.client().send(&[1; 41]);
    talk.advance(MS);
    talk.client().segment(-8, TcpFlags::ACK, &[2; 33]);
    let mut later = talk.take();
    later[0].cut = 8;
    sent.append(&mut later);
    let mut seen = run(&sent);
    seen.expire(sent[0].ts.plus(3 * SECOND));
    assert_eq!(seen.take_log(), "open <33 <gap8 <25h");
}

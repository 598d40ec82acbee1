//! Comparison of the search with a reference implementation, for the heads of every protocol.

use flow::StreamPlace;
use proptest::prelude::*;
use wire::{TcpSeq, Timestamp};

use super::{
    CandidateVerdict, MessageCandidate, MessageLocator, ResyncSearch, SegmentBeginning, next_line,
};
use crate::dialogue::flow;
use crate::http::HttpHeadLocator as HttpHeads;
use crate::memcached::MemcachedMessageLocator as MemcachedHeads;
use crate::mysql::MysqlCommandLocator;
use crate::nfs::RpcRecordLocator as RpcHeads;
use crate::pairing::TransactionQueue;
use crate::{Direction, ParserCounters, ParserOutput, StreamSegment};

/// `<`, up to three digits, `>`.
struct TagLocator;

impl MessageLocator for TagLocator {
    const HEAD_BYTES_MAX: usize = 5;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        bytes[from..]
            .iter()
            .position(|b| *b == b'<')
            .map(|at| from + at)
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let digits = candidate.bytes[1..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        match candidate.bytes.get(1 + digits) {
            _ if candidate.bytes[0] != b'<' => CandidateVerdict::No,
            Some(b'>') => CandidateVerdict::Message,
            None => CandidateVerdict::More,
            Some(_) => CandidateVerdict::No,
        }
    }
}

/// `go`, at the start of a line or a segment.
struct LineLocator;

impl MessageLocator for LineLocator {
    const HEAD_BYTES_MAX: usize = 2;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        next_line(bytes, from)
    }

    fn begins_segment(&self, _: SegmentBeginning) -> bool {
        true
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        match candidate.bytes {
            b"go" => CandidateVerdict::Message,
            b"g" => CandidateVerdict::More,
            _ => CandidateVerdict::No,
        }
    }
}

/// Reference implementation: message starts in `bytes`, which arrive in one piece; a message may start at
/// each position in `segments`. The search continues after each message.
fn slow<H: MessageLocator>(heads: &H, bytes: &[u8], segments: &[usize]) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    'search: loop {
        let begun = from;
        for at in begun..bytes.len() {
            let is_start = at == begun || segments.contains(&at);
            let begins_segment = is_start
                && heads.begins_segment(SegmentBeginning {
                    place: place(at),
                    first: at == begun,
                    heard_more: at != begun,
                });
            let rest = &bytes[at..bytes.len().min(at + H::HEAD_BYTES_MAX)];
            let candidate = MessageCandidate {
                bytes: rest,
                ts: Timestamp(0),
                place: place(at),
                begins_segment,
            };
            if !begins_segment && heads.next(&bytes[begun..], at - begun) != Some(at - begun) {
                continue;
            }
            match heads.judge(&candidate) {
                CandidateVerdict::Message => {
                    found.push(at);
                    from = at + 1;
                    continue 'search;
                }
                CandidateVerdict::More if rest.len() < H::HEAD_BYTES_MAX => return found,
                CandidateVerdict::No | CandidateVerdict::More => {}
            }
        }
        return found;
    }
}

/// Same with [`ResyncSearch`], segment by segment.
fn fast<H: MessageLocator>(
    heads: &H,
    bytes: &[u8],
    segments: &[usize],
    resync: &mut ResyncSearch,
) -> Vec<usize> {
    let flow = flow();
    let mut found = Vec::new();
    let mut from = 0;
    let mut counters = ParserCounters::default();
    'search: loop {
        let skipped_before = counters.skipped_bytes;
        let mut out = ParserOutput::new(&flow, Timestamp(0), &mut counters, &mut []);
        resync.start_anew(&mut out);
        let skipped_at_first = out.counters.skipped_bytes;
        for (i, start) in segments.iter().enumerate() {
            let end = segments.get(i + 1).copied().unwrap_or(bytes.len());
            let start = from.max(*start);
            if start >= end {
                continue;
            }
            let segment = StreamSegment {
                bytes: &bytes[start..end],
                ts: Timestamp(start as i64),
                place: place(start),
            };
            let Some(message) = resync.find(heads, segment, &mut out) else {
                let held = resync.candidate().map_or(0, |c| c.bytes.len());
                assert!(held < H::HEAD_BYTES_MAX);
                assert_eq!(
                    out.counters.skipped_bytes - skipped_at_first,
                    (end - from - held) as u64
                );
                continue;
            };
            let at = start + message.used - message.held.len();
            assert_eq!(
                out.counters.skipped_bytes - skipped_at_first,
                (at - from) as u64
            );
            let began = segments
                .iter()
                .rfind(|s| **s <= at)
                .map_or(0, |s| from.max(*s));
            assert_eq!(message.ts, Timestamp(began as i64));
            let head: Vec<u8> = message.first(segment.bytes).collect();
            assert_eq!(head, bytes[at..end]);
            let mut replayed = Vec::new();
            message.replay(
                |StreamSegment {
                     bytes: held,
                     ts,
                     place: there,
                 }| {
                    let at = at + replayed.len();
                    let began = segments
                        .iter()
                        .rfind(|s| **s <= at)
                        .map_or(0, |s| from.max(*s));
                    let there_too = StreamPlace {
                        seq: TcpSeq(at as u32),
                        ..place(began)
                    };
                    assert_eq!((ts, there), (Timestamp(began as i64), there_too));
                    replayed.extend_from_slice(held);
                },
            );
            assert!(replayed.is_empty() || replayed == bytes[at..start]);
            found.push(at);
            from = at + 1;
            continue 'search;
        }
        assert!(counters.skipped_bytes >= skipped_before);
        return found;
    }
}

fn place(at: usize) -> StreamPlace {
    StreamPlace {
        seq: TcpSeq(at as u32),
        ack: Some(TcpSeq(7 + at as u32)),
    }
}

/// Checks that both agree between gaps; returns the number of messages.
fn check<H: MessageLocator>(heads: &H, runs: &[Vec<Vec<u8>>]) -> usize {
    let mut resync = ResyncSearch::default();
    let mut count = 0;
    for run in runs {
        let mut segments: Vec<usize> = Vec::new();
        let mut bytes = Vec::new();
        for piece in run.iter().filter(|piece| !piece.is_empty()) {
            segments.push(bytes.len());
            bytes.extend_from_slice(piece);
        }
        let found = fast(heads, &bytes, &segments, &mut resync);
        assert_eq!(
            found,
            slow(heads, &bytes, &segments),
            "{}",
            bytes.escape_ascii()
        );
        count += found.len();
    }
    count
}

/// Runs of bytes made of `parts`, with any boundaries.
fn runs(parts: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let part = prop_oneof![
        4 => proptest::sample::select(parts).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
    ];
    let bytes = proptest::collection::vec(part, 0..9).prop_map(|parts| parts.concat());
    let run =
        (bytes, proptest::collection::vec(0..400usize, 0..7)).prop_map(|(bytes, mut cuts)| {
            cuts.iter_mut().for_each(|cut| *cut %= bytes.len() + 1);
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            cuts.windows(2)
                .map(|cut| bytes[cut[0]..cut[1]].to_vec())
                .collect()
        });
    proptest::collection::vec(run, 1..4)
}

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

const TAGS: &[&[u8]] = &[b"<1>", b"<", b"12", b">", b"<123>", b"<1234>", b"x"];
const LINES: &[&[u8]] = &[b"go", b"g", b"o", b"\n", b"x"];
const HTTP: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\n",
    b"CONNECT example:1 HTTP/1.1\r\n",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.",
    b"Host: h\r\n",
    b" folded\r\n",
    b"\r\n",
    b"\n",
    b"{\"GET\":1}",
    b"POST ",
];
const MEMCACHED: &[&[u8]] = &[
    b"get k\r\n",
    b"set k 0 0 3\r\n",
    b"abc\r\n",
    b"get ",
    b"\r\n",
    b"k",
    b"STORED\r\n",
];
const MEMCACHED_BINARY: &[&[u8]] = &[
    b"\x80\x00\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0k",
    b"\x80\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x80\x00\0\x01",
    b"\x80",
    b"\0\0\0",
];
const SQL: &[&[u8]] = &[
    b"\x0b\0\0\0\x03select 1+1",
    b"\x05\0\0\x01\0\0\0\x02\0",
    b"\0\0\0",
    b"\x03sel",
    b"ect 1 from a",
    b"\x01\0\0\0\x0e",
];
const RPC: &[&[u8]] = &[
    b"\x80\0\0\x28\0\0\0\x07\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\x80\0\0\x18\0\0\0\x07\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    b"\0\0\0\x01\0\0\0",
    b"\0\0\0\0\0\0\0\x02\0",
    b"\0\0\0\0",
    b"\x80\0\0",
];

#[test]
fn there_is_something_to_find() {
    let whole = |parts: &[&[u8]]| vec![vec![parts.concat()]];
    assert_eq!(check(&TagLocator, &whole(TAGS)), 3);
    let segments = |parts: &[&[&[u8]]]| vec![parts.iter().map(|part| part.concat()).collect()];
    assert_eq!(
        check(&http(C, None), &segments(&[&[b"x\n"], &[HTTP[0], b"\r\n"]])),
        1
    );
    let responses: &[&[&[u8]]] = &[
        &[b"{}"],
        &[HTTP[2], b"\r\n"],
        &[b"GET\n"],
        &[b"HTTP/1.0 404\n\n"],
    ];
    assert_eq!(check(&http(S, None), &segments(responses)), 2);
    // Inside a segment they may be quoted.
    assert_eq!(
        check(&http(C, None), &whole(&[b"x\n", HTTP[0], b"\r\n"])),
        0
    );
    assert_eq!(check(&http(S, None), &whole(&[b"{}", HTTP[2], b"\r\n"])), 0);
    assert_eq!(
        check(
            &MysqlCommandLocator {
                expected: false,
                may_be_packed: false
            },
            &whole(SQL)
        ),
        1
    );
    assert_eq!(check(&RpcHeads(|xid| xid == 7), &whole(RPC)), 2);
    // Inside a value, too.
    assert_eq!(check(&memcached(false), &whole(MEMCACHED)), 1);
    assert_eq!(check(&memcached(true), &whole(MEMCACHED_BINARY)), 2);
}

fn http(direction: Direction, at: Option<TcpSeq>) -> HttpHeads<'static> {
    HttpHeads {
        direction,
        at,
        begins_write: false,
        transactions: Box::leak(Box::new(TransactionQueue::of_messages_from(16))),
    }
}

fn memcached(is_binary: bool) -> MemcachedHeads<'static> {
    let mut transactions = TransactionQueue::of_messages_from(4);
    transactions.join_midway();
    let transactions = Box::leak(Box::new(transactions));
    MemcachedHeads {
        transactions,
        direction: C,
        begins_write: false,
        is_binary,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn search_equals_a_slow_search_for_any_segmentation(
        tags in runs(TAGS), lines in runs(LINES), heads in runs(HTTP), text in runs(MEMCACHED),
        binary in runs(MEMCACHED_BINARY), sql in runs(SQL), rpc in runs(RPC), expected in any::<bool>(),
    ) {
        check(&TagLocator, &tags);
        check(&LineLocator, &lines);
        check(&http(C, None), &heads);
        check(&http(S, None), &heads);
        check(&http(S, Some(TcpSeq(7))), &heads);
        check(&memcached(false), &text);
        check(&memcached(true), &binary);
        check(&MysqlCommandLocator { expected, may_be_packed: expected }, &sql);
        check(&RpcHeads(|xid| xid == 7), &rpc);
    }
}

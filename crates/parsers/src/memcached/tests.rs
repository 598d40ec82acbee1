//! Conversations with the complete parser: text and meta commands here; the binary protocol, UDP, and missing
//! or hostile bytes in separate files.

use flow::StreamPlace;
use wire::Timestamp;

use super::*;
use crate::dialogue::ParserDialogue;
use Direction::{ClientToServer as C, ServerToClient as S};

mod binary;
mod losses;
mod udp;

const FIELDS: &[&str] = &[
    "command",
    "cache_key",
    "hit",
    "value_bytes",
    "status",
    "quality",
];

fn dialogue(fields: &[&'static str]) -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, fields)
}

/// A dialogue whose client has waited for each response, and the number of tuples so far.
fn waiting_client(fields: &[&'static str]) -> (ParserDialogue, usize) {
    let mut d = dialogue(fields);
    for _ in 0..4 {
        d.client("mn\r\n").server("MN\r\n");
    }
    (d, 4)
}

/// Plays `steps`, each the bytes of one end, and checks the tuples.
#[track_caller]
fn check(steps: &[(Direction, &str)], rows: &[&str]) {
    let mut d = dialogue(FIELDS);
    for (side, bytes) in steps {
        d.bytes(*side, bytes.as_bytes());
    }
    d.end(C).end(S);
    assert_eq!(d.rows(), rows, "{steps:?}");
}

#[test]
fn reads_and_stores() {
    check(
        &[
            (C, "set k 0 0 5\r\nhello\r\n"),
            (S, "STORED\r\n"),
            (C, "get k\r\n"),
            (S, "VALUE k 0 5\r\nhello\r\nEND\r\n"),
            (C, "get x\r\n"),
            (S, "END\r\n"),
        ],
        &[
            "set k - 5 stored exact",
            "get k true 5 hit exact",
            "get x false - miss exact",
        ],
    );
    check(
        &[
            (C, "cas k 0 0 1 77\r\nx\r\n"),
            (S, "EXISTS\r\n"),
            (C, "add k 0 0 1\r\nx\r\n"),
            (S, "NOT_STORED\r\n"),
            (C, "append k 0 0 0\r\n\r\n"),
            (S, "STORED\r\n"),
        ],
        &[
            "cas k - 1 exists exact",
            "add k - 1 not_stored exact",
            "append k - 0 stored exact",
        ],
    );
    check(
        &[(C, "gat 10 a b\r\n"), (S, "VALUE b 0 0\r\n\r\nEND\r\n")],
        &["gat a false - miss exact", "gat b true 0 hit exact"],
    );
}

#[test]
fn multi_get_gives_a_tuple_for_each_key() {
    let asked = (C, "gets a b c a d\r\n");
    let rows = [
        "gets a true 1 hit exact",
        "gets b false - miss exact",
        "gets c true 2 hit exact",
        "gets a true 1 hit exact",
        "gets d false - miss exact",
    ];
    check(
        &[
            asked,
            (
                S,
                "VALUE a 0 1 7\r\nx\r\nVALUE c 0 2 8\r\nxy\r\nVALUE a 0 1 7\r\nx\r\nEND\r\n",
            ),
        ],
        &rows,
    );
    // A proxy may respond in another order.
    check(
        &[
            asked,
            (
                S,
                "VALUE c 0 2 8\r\nxy\r\nVALUE a 0 1 7\r\nx\r\nVALUE a 0 1 7\r\nx\r\nEND\r\n",
            ),
        ],
        &rows,
    );
    check(
        &[(C, "get a\r\n"), (S, "VALUE z 0 1\r\nx\r\nEND\r\n")],
        &["- z true 1 hit half", "get a - - - half"],
    );
    check(
        &[
            (C, "get a\r\n"),
            (S, "VALUE a 0 1\r\nx\r\nVALUE z 0 2\r\nxy\r\nEND\r\n"),
        ],
        &["- z true 2 hit half", "get a true 1 hit exact"],
    );
}

#[test]
fn commands_without_keys() {
    check(
        &[
            (C, "stats\r\n"),
            (S, "STAT pid 1\r\nSTAT x y z\r\n"),
            (S, "END\r\n"),
            (C, "stats reset\r\n"),
            (S, "RESET\r\n"),
            (C, "stats detail dump\r\n"),
            (S, "PREFIX a get 1\r\nEND\r\n"),
            (C, "version noreply\r\n"),
            (S, "VERSION 1.6\r\n"),
            (C, "verbosity 1\r\n"),
            (S, "OK\r\n"),
            (C, "flush_all 0\r\n"),
            (S, "OK\r\n"),
            (C, "flush_all noreply\r\n"),
            (C, "slabs reassign 1 2\r\n"),
            (S, "NOTFULL x\r\n"),
            (C, "lru_crawler metadump all\r\n"),
            (S, "key=a exp=1\r\nkey=b\r\nEND\r\n"),
            (C, "lru_crawler mgdump 1\r\n"),
            (S, "mg a\r\nmg b\r\nEN\r\n"),
            (C, "shutdown\r\n"),
            (S, "ERROR: shutdown not enabled\r\n"),
            (C, "\r\n"),
            (S, "ERROR\r\n"),
            (C, "bogus a b\r\n"),
            (S, "ERROR\r\n"),
            (C, "quit\r\n"),
        ],
        &[
            "stats - - - ok exact",
            "stats - - - ok exact",
            "stats - - - ok exact",
            "version - - - ok exact",
            "verbosity - - - ok exact",
            "flush_all - - - ok exact",
            "flush_all - - - - exact",
            "slabs - - - refused exact",
            "lru_crawler - - - ok exact",
            "lru_crawler - - - ok exact",
            "shutdown - - - server_error exact",
            " - - - error exact",
            "bogus - - - error exact",
            "quit - - - - exact",
        ],
    );
}

#[test]
fn counters_deletes_and_touches() {
    check(
        &[
            (C, "incr n 1\r\ndecr n 2\r\nincr x 1\r\n"),
            (S, "11\r\n9  \r\nNOT_FOUND\r\n"),
            (C, "delete n\r\n"),
            (S, "DELETED\r\n"),
            (C, "touch n 1\r\n"),
            (S, "TOUCHED\r\n"),
            (C, "incr s 1\r\n"),
            (S, "CLIENT_ERROR cannot\r\n"),
        ],
        &[
            "incr n - - ok exact",
            "decr n - - ok exact",
            "incr x - - not_found exact",
            "delete n - - deleted exact",
            "touch n - - touched exact",
            "incr s - - client_error exact",
        ],
    );
}

#[test]
fn noreply_is_not_waited_for() {
    check(
        &[
            (
                C,
                "set a 0 0 1 noreply\r\nx\r\ndelete b noreply\r\nget a\r\n",
            ),
            (S, "VALUE a 0 1\r\nx\r\nEND\r\n"),
        ],
        &[
            "set a - 1 - exact",
            "delete b - - - exact",
            "get a true 1 hit exact",
        ],
    );
}

#[test]
fn pipelines_and_split_commands() {
    check(
        &[
            (C, "set p 0 0 9\r\nget a\r\nEN\r\nget p\r\nge"),
            (C, "t q\r"),
            (C, "\n"),
            (S, "STORED\r\nVALUE p 0 9\r\nget a"),
            (S, "\r\nEN\r"),
            (S, "\nEND\r\nEND\r\n"),
        ],
        &[
            "set p - 9 stored exact",
            "get p true 9 hit exact",
            "get q false - miss exact",
        ],
    );
}

#[test]
fn malformed_lines_as_the_server_reads_them() {
    // The block is five bytes; the bytes after it are a command (memcached 1.6.18).
    check(
        &[
            (C, "set t 0 0 3\r\ntoolong\r\n"),
            (S, "CLIENT_ERROR bad data chunk\r\nERROR\r\n"),
            (C, "get t\r\n"),
            (S, "END\r\n"),
        ],
        &[
            "set t - 3 client_error exact",
            "ng - - - error exact",
            "get t false - miss exact",
        ],
    );
    // No length, no block: the next line is a command.
    for bad in [
        "set t 0 0 -1",
        "set t 0 0 99999999999",
        "set t 0 0 x",
        "set t 0 0",
    ] {
        let line = format!("{bad}\r\nget a\r\n");
        check(
            &[
                (C, &line),
                (S, "CLIENT_ERROR bad command line format\r\nEND\r\n"),
            ],
            &["set t - - client_error exact", "get a false - miss exact"],
        );
    }
    // Too large: discarded; the response precedes the end of the value.
    check(
        &[
            (C, "set big 0 0 10\r\n01234"),
            (S, "SERVER_ERROR object too large for cache\r\n"),
            (C, "56789\r\nget a\r\n"),
            (S, "END\r\n"),
        ],
        &[
            "set big - 10 server_error untimed",
            "get a false - miss exact",
        ],
    );
    // Key too long: old servers parse the value as a command and answer it, too; new ones do not.
    let long = "k".repeat(251);
    let set = format!("set {long} 0 0 1\r\nx\r\n");
    let row = format!("set {long} - 1 client_error exact");
    for (bad, told, rows) in [
        (
            &*set,
            "CLIENT_ERROR bad\r\nERROR\r\n",
            &[&*row, "- - - - error half", "get a false - miss exact"][..],
        ),
        (
            &*set,
            "CLIENT_ERROR bad\r\n",
            &[&*row, "get a false - miss resync"],
        ),
        (
            "ms k S1\r\nx\r\n",
            "CLIENT_ERROR bad\r\nERROR\r\n",
            &[
                "ms k - 1 client_error exact",
                "- - - - error half",
                "get a false - miss exact",
            ],
        ),
    ] {
        let (mut d, n) = waiting_client(FIELDS);
        d.client(bad)
            .server(told)
            .client("get a\r\n")
            .server("END\r\n");
        assert_eq!(d.rows()[n..], *rows);
    }
}

#[test]
fn responses_without_requests_are_halves() {
    check(
        &[(S, "VALUE k 0 2\r\nxx\r\nEND\r\n"), (S, "STORED\r\n")],
        &["- k true 2 hit half", "- - - - stored half"],
    );
    check(
        &[(S, "ERROR Too many open connections\r\n")],
        &["- - - - error half"],
    );
    check(
        &[(C, "get a\r\nget b\r\n"), (S, "END\r\n")],
        &["get a false - miss exact", "get b - - - half"],
    );
}

#[test]
fn responses_before_a_request_do_not_answer_it() {
    check(
        &[
            (S, "END\r\n"),
            (C, "get a\r\n"),
            (S, "END\r\n"),
            (C, "get b\r\n"),
        ],
        &[
            "- - - - - half",
            "get a false - miss exact",
            "get b - - - half",
        ],
    );
}

#[test]
fn meta_commands() {
    check(
        &[
            (
                C,
                "ms m 4 T60\r\nmeta\r\nmg m v t f\r\nmg x v\r\nmn\r\nmd m\r\nmd m\r\nma n v\r\nmg m\r\nme m\r\nme x\r\n",
            ),
            (
                S,
                "HD\r\nVA 4 t60 f0\r\nmeta\r\nEN\r\nMN\r\nHD\r\nNF\r\nVA 2\r\n12\r\nHD\r\nME m exp=1\r\nEN\r\n",
            ),
        ],
        &[
            "ms m - 4 stored exact",
            "mg m true 4 hit exact",
            "mg x false - miss exact",
            "mn - - - ok exact",
            "md m - - deleted exact",
            "md m - - not_found exact",
            "ma n - 2 ok exact",
            "mg m true - hit exact",
            "me m - - ok exact",
            "me x - - not_found exact",
        ],
    );
    check(
        &[(C, "mg Zm9v b v\r\n"), (S, "VA 1 b\r\nx\r\n")],
        &["mg foo true 1 hit exact"],
    );
    check(
        &[(C, "ms k S2 T0\r\nab\r\n"), (S, "OK\r\n")],
        &["ms k - 2 stored exact"],
    );
}

#[test]
fn quiet_meta_commands_are_resolved_by_later_responses() {
    check(
        &[
            (C, "mg a v q O1\r\nmg b v q O2\r\nmg c v q O3\r\nmn\r\n"),
            (S, "VA 1 O2\r\nx\r\nMN\r\n"),
        ],
        &[
            "mg a false - miss exact",
            "mg b true 1 hit exact",
            "mg c false - miss exact",
            "mn - - - ok exact",
        ],
    );
    check(
        &[
            (C, "mg a v q k\r\nmg b v q k\r\nms c 1 q\r\nx\r\nmn\r\n"),
            (S, "VA 1 ka\r\nx\r\nMN\r\n"),
        ],
        &[
            "mg a true 1 hit exact",
            "mg b false - miss exact",
            "ms c - 1 stored exact",
            "mn - - - ok exact",
        ],
    );
    check(
        &[(C, "ma n q v\r\nma x q\r\nmn\r\n"), (S, "NF\r\nMN\r\n")],
        &[
            "- - - - not_found half",
            "ma n - - - half",
            "ma x - - - half",
            "mn - - - ok exact",
        ],
    );
    // One possible request, without a token.
    check(
        &[(C, "mg a v q\r\nmn\r\n"), (S, "VA 1\r\nx\r\nMN\r\n")],
        &["mg a true 1 hit exact", "mn - - - ok exact"],
    );
    // Two candidates: ambiguous.
    check(
        &[
            (C, "mg a v q\r\nmg b v q\r\nmn\r\n"),
            (S, "VA 1\r\nx\r\nMN\r\n"),
        ],
        &[
            "- - - 1 - half",
            "mg a - - - half",
            "mg b - - - half",
            "mn - - - ok exact",
        ],
    );
    // Nothing follows them, but the server's stream has ended: silent.
    check(&[(C, "mg a v q\r\n")], &["mg a false - miss exact"]);
}

#[test]
fn a_log_stream_is_not_read() {
    check(
        &[
            (C, "watch fetchers\r\n"),
            (S, "OK\r\nts=1 gid=1 type=item_get key=foo\r\n"),
            (S, "VALUE x 0 1\r\n"),
        ],
        &["watch - - - ok exact"],
    );
}

#[test]
fn long_lines_are_bounded() {
    let mut line = b"get".to_vec();
    (0..20_000).for_each(|i| line.extend(format!(" {i:07}").bytes()));
    line.extend(b"\r\n");
    for cut in [line.len(), 1000] {
        let mut d = dialogue(&["cache_key", "hit"]);
        line.chunks(cut).for_each(|c| {
            d.client(c);
        });
        d.server("VALUE 0000007 0 1\r\nx\r\nEND\r\nSTORED\r\n");
        let rows = d.rows();
        assert_eq!(rows.len(), 8191 + 1, "{cut}");
        assert_eq!((&*rows[7], &*rows[8]), ("0000007 true", "0000008 false"));
        assert_eq!(d.counters.oversized_heads, 1);
    }
}

#[test]
fn waiting_requests_are_bounded() {
    let mut d = dialogue(&["quality"]);
    d.limits.outstanding_max = 1024;
    for _ in 0..6000 {
        d.client("get a\r\n");
    }
    assert_eq!(d.rows().len(), 6000);
    assert!(d.counters.evicted_requests >= 1900);
}

/// `n` pipelined requests and their responses.
fn pipeline(n: usize, outstanding_max: usize) -> (Vec<String>, crate::ParserCounters) {
    let requests: String = (0..n).map(|i| format!("get k{i}\r\n")).collect();
    let response = |i| {
        if i % 3 == 0 {
            "END\r\n".to_owned()
        } else {
            format!("VALUE k{i} 0 1\r\nx\r\nEND\r\n")
        }
    };
    let responses: String = (0..n).map(response).collect();
    let mut d = dialogue(&["cache_key", "hit", "quality"]);
    d.limits.outstanding_max = outstanding_max;
    let rows = d.pipeline(requests.as_bytes(), responses.as_bytes()).rows();
    (rows, d.counters)
}

#[test]
fn a_pipeline_of_100_000_requests() {
    let (rows, counters) = pipeline(100_000, crate::ParserLimits::default().outstanding_max);
    assert_eq!(
        (rows.len(), counters),
        (100_000, crate::ParserCounters::default())
    );
    assert!(
        rows.iter()
            .enumerate()
            .all(|(i, row)| *row == format!("k{i} {} exact", i % 3 > 0))
    );
}

#[test]
fn evicted_requests_are_counted_once() {
    let (rows, counters) = pipeline(5000, 2000);
    assert_eq!(rows.len(), 5000);
    assert_eq!(counters.evicted_requests, counters.separated_halves);
    let evicted = counters.evicted_requests as usize;
    assert!((3000..=3001).contains(&evicted), "{evicted}");
    for (i, row) in rows.iter().enumerate() {
        let expected = if i < evicted {
            format!("k{i} - half")
        } else {
            format!("k{i} {} exact", i % 3 > 0)
        };
        assert_eq!(*row, expected);
    }
}

#[test]
fn memcached_get_has_reads_only() {
    let mut d = ParserDialogue::new(&PROTOCOL, schema_get(), GET_ONLY, &["command"]);
    d.client("set a 0 0 1\r\nx\r\nget a\r\nmg a\r\nversion\r\n")
        .server("STORED\r\nEND\r\nEN\r\nVERSION 1\r\n");
    assert_eq!(d.rows(), ["get", "mg"]);
}

#[test]
fn times_are_those_of_first_and_last_bytes() {
    let mut d = dialogue(&["response_time_ns", "transfer_time_ns", "ts", "ts_end"]);
    d.client("ge")
        .wait_us(9)
        .client("t a\r\n")
        .wait_us(99)
        .server("VAL")
        .wait_us(4)
        .server("UE a 0 3\r\nab")
        .wait_us(4)
        .server("c\r\nEND\r\n");
    assert_eq!(d.rows(), ["100000 10000 1000 121000"]);
    // A response before the end of the value: negative response time.
    let mut d = dialogue(&["response_time_ns", "transfer_time_ns", "quality"]);
    d.client("set a 0 0 3\r\nab")
        .server("SERVER_ERROR x\r\n")
        .wait_us(9)
        .client("c\r\n");
    assert_eq!(d.rows(), ["- 0 untimed"]);
}

/// Not a measurement: the run time shows that a long connection needs only a few buffers.
#[test]
fn a_long_connection() {
    let mut parser = MemcachedParser::default();
    let flow_end = |n| wire::Endpoint {
        addr: wire::Addr::v4([10, 0, 0, n]),
        port: 11211,
    };
    let flow = crate::FlowContext {
        id: 1,
        client: flow_end(1),
        server: flow_end(2),
        protocol: wire::IpProtocol::TCP,
        client_guessed: false,
        midstream: false,
        sample_rate: 1.0,
        tunnel: wire::Tunnel::default(),
        vlan: None,
        proxied: None,
        decrypted: None,
    };
    let mut counters = crate::ParserCounters::default();
    let schema = std::sync::Arc::new(schema());
    let mut taps = [crate::ParserSubscription::new(
        ALL,
        tuple::TupleWriter::new(schema.clone(), &[field::HIT]),
    )];
    let mut rows = 0;
    let asked = b"get some:key:of:usual:length\r\n";
    let told = b"VALUE some:key:of:usual:length 0 10\r\n0123456789\r\nEND\r\n";
    let [mut client, mut server] = [wire::TcpSeq(1), wire::TcpSeq(1)];
    for i in 0..20_000 {
        let now = Timestamp(i * 1000);
        let mut out = ParserOutput::new(&flow, now, &mut counters, &mut taps);
        let segment = |bytes, seq, ack| crate::StreamSegment {
            bytes,
            ts: now,
            place: StreamPlace {
                seq,
                ack: Some(ack),
            },
        };
        let question = segment(asked, client, server);
        client = question.end();
        parser.on_bytes(C, question, &mut out);
        let answer = segment(told, server, client);
        server = answer.end();
        parser.on_bytes(S, answer, &mut out);
        if taps[0].writer.is_full() {
            rows += taps[0].writer.finish().rows();
        }
    }
    assert_eq!(rows + taps[0].writer.finish().rows(), 20_000);
    assert_eq!(counters, crate::ParserCounters::default());
}

//! Requests and responses of several versions as tuples, prepared statements, frames, compression, and streams used again.

use super::frame_header::{crc24, crc32};
use super::*;
use crate::dialogue::ParserDialogue;
use crate::{ProbeContext, ProbeResult};

mod boundaries;
mod losses;

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const ID: &[u8; 16] = b"0123456789abcdef";

fn dialogue(fields: &[&'static str]) -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, fields)
}

fn string(text: &str) -> Vec<u8> {
    [&(text.len() as u16).to_be_bytes()[..], text.as_bytes()].concat()
}

fn long(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes()[..], text.as_bytes()].concat()
}

fn envelope(version: u8, flags: u8, stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    let [high, low] = stream.to_be_bytes();
    let length = (body.len() as u32).to_be_bytes();
    [&[version, flags, high, low, opcode][..], &length, body].concat()
}

fn request(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    envelope(4, 0, stream, opcode, body)
}

fn response(stream: i16, opcode: u8, body: &[u8]) -> Vec<u8> {
    envelope(0x84, 0, stream, opcode, body)
}

/// Parameters: consistency, and a page size.
fn parameters(version: u8, consistency: u16) -> Vec<u8> {
    let flags: &[u8] = if version >= 5 { &[0, 0, 0, 4] } else { &[4] };
    [
        &consistency.to_be_bytes()[..],
        flags,
        &5000u32.to_be_bytes(),
    ]
    .concat()
}

fn query(version: u8, stream: i16, text: &str) -> Vec<u8> {
    let body = [long(text), parameters(version, 6)].concat();
    envelope(version, 0, stream, codes::QUERY, &body)
}

fn prepare(stream: i16, text: &str) -> Vec<u8> {
    request(stream, codes::PREPARE, &long(text))
}

fn prepared(stream: i16, id: &[u8; 16]) -> Vec<u8> {
    let values = [
        &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0][..],
        &string("shop"),
        &string("orders"),
        &string("id"),
        &[0, 9],
    ];
    let body = [
        &4u32.to_be_bytes()[..],
        &[0, 16],
        id,
        &values.concat(),
        &[0, 0, 0, 4, 0, 0, 0, 1],
    ];
    response(stream, codes::RESULT, &body.concat())
}

fn execute(stream: i16, id: &[u8; 16]) -> Vec<u8> {
    request(
        stream,
        codes::EXECUTE,
        &[&[0, 16][..], id, &parameters(4, 1)].concat(),
    )
}

/// Metadata of two columns, and rows.
fn rows(more: bool, rows: u32, data: usize) -> Vec<u8> {
    let paging: &[u8] = if more { &[0, 0, 0, 2, 7, 7] } else { &[] };
    let parts = [
        &[0, 0, 0, 2, 0, 0, 0, if more { 3 } else { 1 }, 0, 0, 0, 2][..],
        paging,
        &string("shop"),
        &string("orders"),
        &string("id"),
        &[0, 9],
        &string("tags"),
        // A map of texts to a tuple of a list and a user-defined type.
        &[0, 0x21, 0, 0x0d, 0, 0x31, 0, 2, 0, 0x20, 0, 9, 0, 0x30],
        &string("shop"),
        &string("kind"),
        &[0, 1],
        &string("name"),
        &[0, 0],
        &string("custom"),
        &rows.to_be_bytes(),
        &vec![1; data],
    ];
    parts.concat()
}

fn void(stream: i16) -> Vec<u8> {
    response(stream, codes::RESULT, &1u32.to_be_bytes())
}

fn error(stream: i16, code: u32, rest: &[u8]) -> Vec<u8> {
    let body = [&code.to_be_bytes()[..], &string("no luck"), rest].concat();
    response(stream, codes::ERROR, &body)
}

/// A frame without compression.
fn frame(payload: &[u8], is_self_contained: bool) -> Vec<u8> {
    let fields = payload.len() as u32 | u32::from(is_self_contained) << 17;
    let head = &fields.to_le_bytes()[..3];
    [
        head,
        &crc24(head).to_le_bytes()[..3],
        payload,
        &crc32(payload).to_le_bytes(),
    ]
    .concat()
}

/// A frame with compression: a payload of literals.
fn compressed_frame(payload: &[u8]) -> Vec<u8> {
    let block = literals(payload);
    let fields = block.len() as u64 | (payload.len() as u64) << 17 | 1 << 34;
    let head = &fields.to_le_bytes()[..5];
    [
        head,
        &crc24(head).to_le_bytes()[..3],
        &block,
        &crc32(&block).to_le_bytes(),
    ]
    .concat()
}

/// A block of LZ4 that consists of literals.
fn literals(bytes: &[u8]) -> Vec<u8> {
    let mut block = vec![(bytes.len().min(15) as u8) << 4];
    if bytes.len() >= 15 {
        block.extend(std::iter::repeat_n(255, (bytes.len() - 15) / 255));
        block.push(((bytes.len() - 15) % 255) as u8);
    }
    block.extend_from_slice(bytes);
    block
}

fn startup(version: u8, compression: &str) -> Vec<u8> {
    let pairs = [("CQL_VERSION", "3.4.7"), ("COMPRESSION", compression)];
    let pairs: Vec<u8> = pairs
        .iter()
        .flat_map(|(key, value)| [string(key), string(value)].concat())
        .collect();
    envelope(
        version,
        0,
        1,
        codes::STARTUP,
        &[&[0, 2][..], &pairs].concat(),
    )
}

const MAIN: &[&str] = &[
    "command",
    "operation",
    "keyspace",
    "table",
    "result",
    "returned_rows",
    "error",
    "quality",
];

#[test]
fn queries_and_their_results() {
    let mut talk = dialogue(MAIN);
    talk.client(query(4, 1, "SELECT * FROM Orders WHERE id = 7"))
        .client(query(4, 2, "INSERT INTO a.b (c) VALUES ('x')"))
        .server(void(2))
        .server(response(1, codes::RESULT, &rows(false, 3, 100)))
        .client(query(4, 1, "USE shop"))
        .server(response(
            1,
            codes::RESULT,
            &[&3u32.to_be_bytes()[..], &string("shop")].concat(),
        ))
        .client(query(4, 1, "UPDATE Orders SET a = 1"))
        .server(error(
            1,
            0x1100,
            &[&[0, 6, 0, 0, 0, 1, 0, 0, 0, 2][..], &string("SIMPLE")].concat(),
        ));
    assert_eq!(
        talk.rows(),
        [
            "query INSERT a b void - - exact",
            "query SELECT shop orders rows 3 - exact",
            "query USE shop - set_keyspace - - exact",
            "query UPDATE shop orders error - write_timeout exact",
        ]
    );
}

#[test]
fn fields_of_a_request() {
    let mut talk = dialogue(&[
        "fingerprint",
        "summary",
        "consistency",
        "serial_consistency",
        "page_size",
        "continues",
        "more_pages",
        "version",
        "stream",
        "response_time_ns",
        "total_time_ns",
    ]);
    let text = "SELECT a FROM t WHERE id = 123e4567-e89b-12d3-a456-426614174000 AND b IN (0xCAFE, 12h30m) // note 'x";
    let values = [&[0, 2][..], &[0, 0, 0, 1, 9], &[0xff; 4]].concat();
    let body = [
        &long(text)[..],
        &[0, 1, 0x3d],
        &values,
        &100u32.to_be_bytes(),
        &[0, 0, 0, 1, 5],
        &[0, 9],
        &[0; 8],
    ]
    .concat();
    talk.client(request(300, codes::QUERY, &body))
        .server(&response(300, codes::RESULT, &rows(true, 100, 50))[..30])
        .server(&response(300, codes::RESULT, &rows(true, 100, 50))[30..]);
    assert_eq!(
        talk.rows(),
        [
            "SELECT a FROM t WHERE id = ? AND b IN (?) SELECT t ONE LOCAL_SERIAL 100 true true 4 300 1000 2000"
        ]
    );
}

#[test]
fn parameters_of_version_5() {
    let body = [
        &long("SELECT a FROM t")[..],
        &[0, 6, 0, 0, 0, 0x84],
        &10u32.to_be_bytes(),
        &string("shop"),
    ]
    .concat();
    let framed = envelope(5, 0, 2, codes::QUERY, &body);
    let answer = envelope(
        0x85,
        0,
        2,
        codes::RESULT,
        &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 9],
    );
    for is_compressed in [false, true] {
        let pack = |payload: &[u8]| {
            if is_compressed {
                compressed_frame(payload)
            } else {
                frame(payload, true)
            }
        };
        let mut talk = dialogue(&[
            "query",
            "keyspace",
            "table",
            "consistency",
            "returned_rows",
            "compression",
            "quality",
        ]);
        talk.client(startup(5, "lz4"))
            .server(envelope(0x85, 0, 1, codes::READY, b""))
            .client(pack(&framed))
            .server(pack(&answer));
        let name = if is_compressed { "lz4" } else { "-" };
        assert_eq!(
            talk.rows(),
            [
                "- - - - - - exact".to_owned(),
                format!("SELECT a FROM t shop t LOCAL_QUORUM 9 {name} exact"),
            ]
        );
        assert_eq!(talk.counters.malformed_messages, 0);
    }
}

/// A connection of version 5: envelopes that share a frame, and one that needs several.
fn framed_talk() -> [Vec<u8>; 2] {
    let text = format!("INSERT INTO t (a) VALUES ('{}')", "x".repeat(50_000));
    let large = query(5, 3, &text);
    let (first, second) = large.split_at(20_000);
    let client = [
        startup(5, ""),
        frame(
            &[query(5, 1, "SELECT a FROM s"), query(5, 2, "DELETE FROM s")].concat(),
            true,
        ),
        frame(first, false),
        frame(second, false),
    ];
    let result = envelope(0x85, 0, 1, codes::RESULT, &rows(false, 2, 30_000));
    let void = |stream| envelope(0x85, 0, stream, codes::RESULT, &1u32.to_be_bytes());
    let (head, tail) = result.split_at(10_000);
    let server = [
        envelope(0x85, 0, 1, codes::READY, b""),
        frame(head, false),
        frame(tail, false),
        frame(&[void(3), void(2)].concat(), true),
    ];
    [client.concat(), server.concat()]
}

#[test]
fn envelopes_share_frames_and_span_them() {
    let [client, server] = framed_talk();
    let mut talk = dialogue(&[
        "summary",
        "result",
        "returned_rows",
        "request_bytes",
        "response_bytes",
        "quality",
    ]);
    let start = startup(5, "").len();
    talk.client(&client[..start])
        .server(&server[..9])
        .pipeline(&client[start..], &server[9..]);
    let rows = talk.rows();
    assert_eq!(
        rows,
        [
            "- ready - 46 9 exact".to_owned(),
            format!("SELECT s rows 2 38 {} exact", 9 + rows_bytes(30_000)),
            format!("INSERT t void - {} 13 gap_body", 9 + 4 + 29 + 50_000 + 10),
            "DELETE s void - 36 13 exact".to_owned(),
        ]
    );
    // The text is longer than what is held of it.
    assert_eq!(talk.counters.oversized_heads, 1);
    assert_eq!(talk.counters.malformed_messages, 0);
}

fn rows_bytes(data: usize) -> usize {
    rows(false, 2, data).len()
}

#[test]
fn prepared_statements_are_known_on_all_connections() {
    let fields = &[
        "command",
        "query",
        "operation",
        "keyspace",
        "table",
        "consistency",
        "quality",
    ];
    let mut talk = dialogue(fields);
    talk.client(prepare(1, "SELECT a FROM orders WHERE id = ?"))
        .server(prepared(1, ID))
        .client(execute(2, ID))
        .server(void(2))
        .client(execute(2, b"another one does"))
        .server(error(
            2,
            0x2500,
            &[&[0, 16][..], b"another one does"].concat(),
        ));
    assert_eq!(
        talk.rows(),
        [
            "prepare SELECT a FROM orders WHERE id = ? PREPARE shop orders - exact",
            "execute SELECT a FROM orders WHERE id = ? SELECT shop orders ONE exact",
            "execute - - - - ONE gap_body",
        ]
    );
}

/// A response that may be that of an earlier use of the stream teaches nothing.
#[test]
fn streams_used_again_teach_nothing_and_mispair_nothing() {
    let mut talk = dialogue(&["command", "query", "result", "quality"]);
    talk.client(prepare(1, "SELECT a FROM s"))
        .client(prepare(1, "SELECT a FROM t"))
        .server(prepared(1, ID))
        .server(prepared(1, ID))
        .client(execute(2, ID))
        .server(void(2));
    assert_eq!(
        talk.rows(),
        [
            "prepare SELECT a FROM s - half",
            "prepare SELECT a FROM t - half",
            "- - prepared half",
            "- - prepared half",
            "execute - void gap_body",
        ]
    );
}

/// A late response, for which the client no longer waits, belongs to its request as long as the stream is not used again.
#[test]
fn late_responses_find_their_requests() {
    let mut talk = dialogue(&["summary", "stream", "quality", "response_time_ns"]);
    talk.client(query(4, 5, "SELECT a FROM slow"));
    for _ in 0..3 {
        talk.client(query(4, 6, "SELECT a FROM t")).server(void(6));
    }
    talk.wait_us(20_000_000).server(void(5));
    assert_eq!(
        talk.rows(),
        [
            "SELECT t 6 exact 1000",
            "SELECT t 6 exact 1000",
            "SELECT t 6 exact 1000",
            "SELECT slow 5 exact 20000007000",
        ]
    );
}

#[test]
fn events_are_no_responses() {
    let mut talk = dialogue(&[
        "command", "event", "keyspace", "table", "ok", "stream", "quality",
    ]);
    let event = |parts: &[&str]| {
        let body: Vec<u8> = parts.iter().flat_map(|part| string(part)).collect();
        response(-1, codes::EVENT, &body)
    };
    talk.client(query(4, 0, "SELECT a FROM t"))
        .server(event(&[
            "SCHEMA_CHANGE",
            "CREATED",
            "TABLE",
            "shop",
            "orders",
        ]))
        .server(void(0));
    assert_eq!(
        talk.rows(),
        [
            "event SCHEMA_CHANGE CREATED shop orders - -1 exact",
            "query - - t true 0 exact",
        ]
    );
}

#[test]
fn batches() {
    let mut talk = dialogue(&[
        "command",
        "operation",
        "summary",
        "statements",
        "batch_type",
        "consistency",
        "table",
        "quality",
    ]);
    let body = [
        &[1, 0, 3, 0][..],
        &long("INSERT INTO t (a) VALUES (?)"),
        &[0, 1, 0, 0, 0, 2, 8, 8],
        &[1, 0, 16],
        ID,
        &[0, 0],
        &[0],
        &long("DELETE FROM t"),
        &[0, 0],
        &[0, 6, 0],
    ];
    talk.client(request(3, codes::BATCH, &body.concat()))
        .server(void(3));
    assert_eq!(
        talk.rows(),
        ["batch BATCH BATCH INSERT t 3 unlogged LOCAL_QUORUM t exact"]
    );
}

#[test]
fn errors_warnings_and_traces() {
    let mut talk = dialogue(&[
        "error",
        "error_code",
        "received",
        "required",
        "warnings",
        "tracing_id",
        "ok",
    ]);
    let text = "SELECT a FROM t";
    let extras = [&ID[..], &[0, 2], &string("large"), &string("slow")].concat();
    let failed = [
        &0x1000u32.to_be_bytes()[..],
        &string("x"),
        &[0, 1, 0, 0, 0, 3, 0, 0, 0, 1],
    ]
    .concat();
    let answer = envelope(0x84, 0x0a, 1, codes::ERROR, &[extras, failed].concat());
    talk.client(query(4, 1, text)).server(answer);
    talk.client(query(4, 1, text))
        .server(error(1, 0x1200, &[0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0]));
    talk.client(query(4, 1, text)).server(error(1, 0x7777, b""));
    assert_eq!(
        talk.rows(),
        [
            "unavailable 4096 1 3 large\nslow 30313233-3435-3637-3839-616263646566 false",
            "read_timeout 4608 0 1 - - false",
            "30583 30583 - - - - false",
        ]
    );
}

/// Compression by STARTUP, and in a connection joined midway by trying.
#[test]
fn compressed_bodies() {
    let compress = |name: &str, plain: &[u8]| {
        let body = &plain[9..];
        let inner = if name == "lz4" {
            [&(body.len() as u32).to_be_bytes()[..], &literals(body)].concat()
        } else {
            assert!((64..128).contains(&body.len()));
            [&[body.len() as u8, 60 << 2, body.len() as u8 - 1][..], body].concat()
        };
        let mut message = envelope(plain[0], 1, 0, plain[4], &inner);
        message[2..4].copy_from_slice(&plain[2..4]);
        message
    };
    let text = "SELECT a, b, c FROM orders WHERE customer = 'x' AND total > 100 ALLOW FILTERING";
    for name in ["lz4", "snappy"] {
        for is_midstream in [false, true] {
            let mut talk = dialogue(&["summary", "returned_rows", "compression", "quality"]);
            if is_midstream {
                talk = talk.midstream();
            } else {
                talk.client(startup(4, name))
                    .server(response(1, codes::READY, b""));
            }
            for stream in [1, 2] {
                talk.client(compress(name, &query(4, stream, text)))
                    .server(compress(
                        name,
                        &response(stream, codes::RESULT, &rows(false, 3, 0)),
                    ));
            }
            let rows = talk.rows();
            let expected = format!("SELECT orders 3 {name} exact");
            assert_eq!(
                rows.last(),
                Some(&expected),
                "{name} {is_midstream} {rows:?}"
            );
            assert_eq!(rows.len(), 3 - usize::from(is_midstream), "{rows:?}");
        }
    }
}

/// A small body that states a large length, and copies of a byte, is decompressed up to the limits.
#[test]
fn hostile_compression_is_bounded() {
    for length in [u32::MAX, 1 << 30, 5_000_000] {
        let mut bomb = [&length.to_be_bytes()[..], &[0x1f, b'x', 1, 0]].concat();
        bomb.extend(vec![255; 40_000]);
        let mut talk = dialogue(&["query", "quality"]);
        talk.client(startup(4, "lz4"))
            .client(envelope(4, 1, 2, codes::QUERY, &bomb))
            .server(void(2));
        assert_eq!(talk.rows().len(), 2);
        let body = compression::body(Some(compression::CqlCompression::Lz4), &bomb, usize::MAX);
        assert!(body.is_some_and(|body| !body.is_whole && body.bytes.len() <= 1 << 20));
    }
    let length = [0xff, 0xff, 0xff, 0x7f];
    let body = compression::body(
        Some(compression::CqlCompression::Snappy),
        &[&length[..], &[0xfe; 9000]].concat(),
        usize::MAX,
    );
    assert!(body.is_some_and(|body| !body.is_whole && body.bytes.len() <= 1 << 20));
}

fn context(usual_port: bool, speaker: Option<Direction>) -> ProbeContext {
    ProbeContext {
        transport: wire::IpProtocol::TCP,
        usual_port,
        midstream: false,
        speaker,
        answers: false,
    }
}

#[test]
fn recognition_needs_a_body() {
    let probe = |bytes: &[u8], usual: bool| recognition::probe(bytes, context(usual, None));
    let options = request(0, codes::OPTIONS, b"");
    assert_eq!(probe(&options, true), ProbeResult::Request);
    assert_eq!(probe(&options, false), ProbeResult::NeedMore);
    assert_eq!(
        probe(&[options, startup(4, "")].concat(), false),
        ProbeResult::Request
    );
    assert_eq!(probe(&startup(0x42, "lz4"), false), ProbeResult::Request);
    assert_eq!(probe(&query(3, 9, "SELECT 1"), false), ProbeResult::Request);
    assert_eq!(probe(&execute(9, ID), false), ProbeResult::Request);
    assert_eq!(probe(&void(9), false), ProbeResult::Response);
    assert_eq!(probe(&error(9, 0x0a, b""), false), ProbeResult::Response);
    for other in [
        &b"\x04\x00\x00\x00\x05abcdefgh"[..],
        b"\x03\x00\x00\x00\x07\x00\x00\x00\x05\xff\xff\xff\xff\x00",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0; 64],
        &[4; 64],
        &[0x84; 64],
    ] {
        assert_eq!(probe(other, false), ProbeResult::NotForUs, "{other:?}");
    }
}

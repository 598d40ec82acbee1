//! Commands and operations as tuples, errors, exhaust responses, compression, gaps, and segment boundaries.

use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::dialogue::ParserDialogue;

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const CHECKSUM: u32 = 1;
const MORE: u32 = 2;

fn dialogue(fields: &[&'static str]) -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, fields)
}

fn element(kind: u8, name: &str, value: &[u8]) -> Vec<u8> {
    [&[kind], name.as_bytes(), b"\0", value].concat()
}

fn int(name: &str, value: i32) -> Vec<u8> {
    element(16, name, &value.to_le_bytes())
}

fn long(name: &str, value: i64) -> Vec<u8> {
    element(18, name, &value.to_le_bytes())
}

fn double(name: &str, value: f64) -> Vec<u8> {
    element(1, name, &value.to_le_bytes())
}

fn text(name: &str, value: &str) -> Vec<u8> {
    let length = (value.len() as u32 + 1).to_le_bytes();
    element(2, name, &[&length, value.as_bytes(), b"\0"].concat())
}

fn document(elements: &[Vec<u8>]) -> Vec<u8> {
    let inside = elements.concat();
    let length = (inside.len() as u32 + 5).to_le_bytes();
    [&length[..], &inside, b"\0"].concat()
}

fn sub(name: &str, elements: &[Vec<u8>]) -> Vec<u8> {
    element(3, name, &document(elements))
}

fn list(name: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let inside: Vec<Vec<u8>> = documents
        .iter()
        .enumerate()
        .map(|(i, document)| element(3, &i.to_string(), document))
        .collect();
    element(4, name, &document(&inside))
}

fn message(id: u32, to: u32, opcode: u32, body: &[u8]) -> Vec<u8> {
    let header = [body.len() as u32 + 16, id, to, opcode];
    let header: Vec<u8> = header.iter().flat_map(|n| n.to_le_bytes()).collect();
    [&header[..], body].concat()
}

/// An OP_MSG with one document.
fn msg(id: u32, to: u32, flags: u32, elements: &[Vec<u8>]) -> Vec<u8> {
    let checksum: &[u8] = if flags & CHECKSUM != 0 { b"abcd" } else { b"" };
    let flags = flags.to_le_bytes();
    message(
        id,
        to,
        2013,
        &[&flags, &b"\0"[..], &document(elements), checksum].concat(),
    )
}

/// A section of kind 1.
fn section(name: &str, documents: &[Vec<u8>]) -> Vec<u8> {
    let inside = [name.as_bytes(), b"\0", &documents.concat()].concat();
    let length = (inside.len() as u32 + 4).to_le_bytes();
    [&b"\x01"[..], &length, &inside].concat()
}

fn find(id: u32) -> Vec<u8> {
    let filter = [
        text("status", "open"),
        sub("total", &[int("$gt", 100)]),
        element(
            4,
            "tags",
            &document(&[text("0", "red"), text("1", "green")]),
        ),
    ];
    msg(
        id,
        0,
        0,
        &[
            text("find", "orders"),
            sub("filter", &filter),
            sub("sort", &[int("_id", -1)]),
            int("limit", 5),
            text("$db", "shop"),
        ],
    )
}

fn batch(id: u32, to: u32, cursor: i64, name: &str, documents: usize) -> Vec<u8> {
    let documents: Vec<Vec<u8>> = (0..documents)
        .map(|n| document(&[int("_id", n as i32), text("name", "of a product")]))
        .collect();
    let cursor = [
        list(name, &documents),
        long("id", cursor),
        text("ns", "shop.orders"),
    ];
    msg(id, to, 0, &[sub("cursor", &cursor), double("ok", 1.0)])
}

fn ok(id: u32, to: u32) -> Vec<u8> {
    msg(id, to, 0, &[double("ok", 1.0)])
}

const MAIN: &[&str] = &[
    "command",
    "database",
    "collection",
    "documents",
    "returned",
    "ok",
    "error_name",
    "response_time_ns",
    "quality",
];

#[test]
fn commands_with_their_shapes() {
    let mut talk = dialogue(&["fingerprint", "summary", "returned", "cursor_id"]);
    talk.client(find(7))
        .server(batch(1, 7, 99, "firstBatch", 3));
    let more = [
        long("getMore", 99),
        text("collection", "orders"),
        text("$db", "shop"),
    ];
    talk.client(msg(8, 0, 0, &more))
        .server(batch(2, 8, 0, "nextBatch", 120));
    let stage = |name: &str, inside: &[Vec<u8>]| document(&[sub(name, inside)]);
    let pipeline = [
        stage("$match", &[text("user", "alice@example.org")]),
        stage(
            "$group",
            &[text("_id", "$city"), sub("n", &[int("$sum", 1)])],
        ),
    ];
    let aggregate = [
        text("aggregate", "orders"),
        list("pipeline", &pipeline),
        sub("cursor", &[int("batchSize", 3)]),
        text("$db", "shop"),
    ];
    talk.client(msg(9, 0, 0, &aggregate))
        .server(batch(3, 9, 0, "firstBatch", 0));
    assert_eq!(
        talk.rows(),
        [
            "find orders {filter: {status: ?, total: {$gt: ?}, tags: [?]}, sort: {_id: ?}} find orders 3 99",
            "getMore orders getMore orders 120 99",
            "aggregate orders {pipeline: [{$match: {user: ?}}, {$group: {_id: ?, n: {$sum: ?}}}]} aggregate orders 0 -",
        ]
    );
}

#[test]
fn keys_that_are_values_are_folded() {
    let filter = [
        int("items.3.qty", 1),
        int("507f1f77bcf86cd799439011", 1),
        int("by.alice@example.org", 1),
        int("größe", 1),
    ];
    let command = [text("find", "t"), sub("filter", &filter), text("$db", "d")];
    let mut talk = dialogue(&["fingerprint"]);
    talk.client(msg(1, 0, 0, &command)).server(ok(1, 1));
    assert_eq!(
        talk.rows(),
        ["find t {filter: {items.?.qty: ?, ?: ?, by.?.org: ?, größe: ?}}"]
    );
}

#[test]
fn writes_in_the_body_and_in_sections() {
    let orders = [document(&[int("_id", 1)]), document(&[int("_id", 2)])];
    let update = document(&[
        sub("q", &[int("_id", 1)]),
        sub("u", &[sub("$set", &[text("status", "paid")])]),
        element(8, "multi", b"\0"),
    ]);
    let body = |command: &str| document(&[text(command, "orders"), text("$db", "shop")]);
    let with = |id: u32, flags: u32, sections: &[Vec<u8>]| {
        message(
            id,
            0,
            2013,
            &[&flags.to_le_bytes(), &sections.concat()[..]].concat(),
        )
    };
    let first = |document: Vec<u8>| [b"\0".to_vec(), document].concat();
    let mut talk = dialogue(&["fingerprint", "documents", "matched", "modified", "ok"]);
    let counted = |id: u32, n: i32| {
        msg(
            id,
            id,
            0,
            &[int("n", n), int("nModified", n), double("ok", 1.0)],
        )
    };
    let in_body = [
        text("insert", "orders"),
        list("documents", &orders),
        text("$db", "shop"),
    ];
    talk.client(msg(1, 0, 0, &in_body)).server(counted(1, 2));
    // The order of sections is free, and a checksum follows them.
    let insert = [
        section("documents", &orders),
        first(body("insert")),
        b"abcd".to_vec(),
    ];
    talk.client(with(2, CHECKSUM, &insert))
        .server(counted(2, 2));
    let updates = [first(body("update")), section("updates", &[update])];
    talk.client(with(3, 0, &updates)).server(counted(3, 1));
    assert_eq!(
        talk.rows(),
        [
            "insert orders 2 2 2 true",
            "insert orders 2 2 2 true",
            "update orders {q: {_id: ?}, u: {$set: {status: ?}}} 1 1 1 true",
        ]
    );
}

#[test]
fn errors_also_of_successful_commands() {
    let mut talk = dialogue(&["command", "ok", "error_code", "error_name", "error_message"]);
    let failed = [
        double("ok", 0.0),
        text("errmsg", "no such command"),
        int("code", 59),
        text("codeName", "CommandNotFound"),
    ];
    talk.client(msg(1, 0, 0, &[int("nothing", 1), text("$db", "admin")]))
        .server(msg(1, 1, 0, &failed));
    let write_error = document(&[
        int("index", 0),
        int("code", 11000),
        text("errmsg", "E11000"),
    ]);
    let duplicate = [
        int("n", 0),
        list("writeErrors", &[write_error]),
        double("ok", 1.0),
    ];
    let insert = || [text("insert", "orders"), text("$db", "shop")];
    talk.client(msg(2, 0, 0, &insert()))
        .server(msg(2, 2, 0, &duplicate));
    let concern = [
        int("n", 1),
        sub(
            "writeConcernError",
            &[int("code", 64), text("errmsg", "timeout")],
        ),
        double("ok", 1.0),
    ];
    talk.client(msg(3, 0, 0, &insert()))
        .server(msg(3, 3, 0, &concern));
    let unknown = [
        double("ok", 0.0),
        text("errmsg", "new"),
        int("code", 999_999),
    ];
    talk.client(msg(4, 0, 0, &insert()))
        .server(msg(4, 4, 0, &unknown));
    talk.client(msg(5, 0, 0, &insert()))
        .server(msg(5, 5, 0, &[int("ok", 0)]));
    assert_eq!(
        talk.rows(),
        [
            "nothing false 59 CommandNotFound no such command",
            "insert false 11000 DuplicateKey E11000",
            "insert false 64 WriteConcernTimeout timeout",
            "insert false 999999 999999 new",
            "insert false - ? -",
        ]
    );
}

/// An unanswered request delays nothing, unacknowledged writes are complete, and ids decide.
#[test]
fn responses_in_any_order() {
    let unacknowledged = [text("insert", "log"), text("$db", "d")];
    let mut talk = dialogue(MAIN);
    talk.client([find(1), find(2), msg(3, 0, MORE, &unacknowledged)].concat())
        .server(ok(10, 2))
        .client(find(4))
        .server(batch(11, 4, 0, "firstBatch", 1));
    assert_eq!(
        talk.rows(),
        [
            "insert d log - - - - - exact",
            "find shop orders - - true - 1000 exact",
            "find shop orders - 1 true - 1000 exact",
            "find shop orders - - - - - half",
        ]
    );
}

/// Each further reply of an exhaust response names the reply before it.
#[test]
fn exhaust_responses_are_one() {
    let hello = [
        int("hello", 1),
        int("maxAwaitTimeMS", 10_000),
        text("$db", "admin"),
    ];
    let mut talk = dialogue(&[
        "command",
        "monitoring",
        "waiting",
        "replies",
        "response_time_ns",
        "waited_ns",
        "ok",
        "quality",
    ]);
    talk.client(msg(5, 0, 1 << 16, &hello))
        .wait_us(9)
        .server(msg(40, 5, MORE, &[double("ok", 1.0)]))
        .server(msg(41, 40, MORE, &[double("ok", 1.0)]))
        .server(msg(42, 41, 0, &[double("ok", 1.0)]))
        .client(msg(6, 0, 0, &[int("ping", 1), text("$db", "admin")]))
        .server(ok(43, 6));
    assert_eq!(
        talk.rows(),
        [
            "hello true true 3 - 10000 true exact",
            "ping true false - 1000 - true exact"
        ]
    );
}

#[test]
fn waiting_for_changes_is_no_latency() {
    let more = |extra: &[Vec<u8>]| {
        let fields = [
            long("getMore", 7),
            text("collection", "t"),
            text("$db", "d"),
        ];
        [&fields[..], extra].concat()
    };
    let mut talk = dialogue(&["waiting", "response_time_ns", "total_time_ns", "waited_ns"]);
    talk.client(msg(1, 0, 0, &more(&[int("maxTimeMS", 1000)])))
        .server(batch(1, 1, 7, "nextBatch", 1));
    talk.client(msg(2, 0, 0, &more(&[])))
        .server(batch(2, 2, 7, "nextBatch", 0));
    talk.client(msg(3, 0, 0, &more(&[])))
        .server(batch(3, 3, 0, "nextBatch", 0));
    assert_eq!(
        talk.rows(),
        ["true - - 1000", "true - - 1000", "false 1000 1000 -"]
    );
}

#[test]
fn operations_before_op_msg() {
    let namespace = |name: &str| [&[0; 4], name.as_bytes(), b"\0"].concat();
    let query = |id: u32, name: &str, filter: &[Vec<u8>]| {
        message(
            id,
            0,
            2004,
            &[&namespace(name)[..], &[0; 8], &document(filter)].concat(),
        )
    };
    let reply = |to: u32, flags: u32, cursor: i64, documents: &[Vec<u8>]| {
        let head = [
            flags.to_le_bytes().to_vec(),
            cursor.to_le_bytes().to_vec(),
            vec![0; 4],
        ]
        .concat();
        let count = (documents.len() as u32).to_le_bytes();
        message(
            90,
            to,
            1,
            &[&head[..], &count, &documents.concat()].concat(),
        )
    };
    let mut talk = dialogue(&[
        "fingerprint",
        "database",
        "documents",
        "returned",
        "cursor_id",
        "ok",
        "error_name",
        "quality",
    ]);
    talk.client(query(0, "admin.$cmd", &[int("isMaster", 1)]))
        .server(reply(
            0,
            8,
            0,
            &[document(&[
                element(8, "ismaster", b"\x01"),
                double("ok", 1.0),
            ])],
        ));
    let filter = [
        sub("$query", &[int("a", 1)]),
        sub("$orderby", &[int("b", 1)]),
    ];
    talk.client(query(1, "test.things", &filter)).server(reply(
        1,
        8,
        5,
        &[document(&[int("a", 1)]), document(&[int("a", 1)])],
    ));
    let more = [&namespace("test.things")[..], &[0; 4], &5_i64.to_le_bytes()].concat();
    talk.client(message(2, 0, 2005, &more))
        .server(reply(2, 1, 0, &[]));
    talk.client(query(3, "test.things", &[int("a", 1)]))
        .server(reply(
            3,
            2,
            0,
            &[document(&[text("$err", "bad"), int("code", 2)])],
        ));
    let insert = [
        &namespace("test.things")[..],
        &document(&[]),
        &document(&[]),
    ]
    .concat();
    let update = [
        &namespace("test.things")[..],
        &[0; 4],
        &document(&[int("a", 1)]),
        &document(&[]),
    ]
    .concat();
    let delete = [
        &namespace("test.things")[..],
        &[0; 4],
        &document(&[int("b", 1)]),
    ]
    .concat();
    let kill = [&[0; 4][..], &[1, 0, 0, 0], &5_i64.to_le_bytes()].concat();
    talk.client(message(4, 0, 2002, &insert))
        .client(message(5, 0, 2001, &update))
        .client(message(6, 0, 2006, &delete))
        .client(message(7, 0, 2007, &kill));
    assert_eq!(
        talk.rows(),
        [
            "isMaster admin - - - true - exact",
            "query things {filter: {a: ?}} test - 2 5 true - exact",
            "get_more things test - 0 5 false CursorNotFound exact",
            "query things {filter: {a: ?}} test - 1 - false BadValue exact",
            "insert things test 2 - - - - exact",
            "update things {filter: {a: ?}} test 1 - - - - exact",
            "delete things {filter: {b: ?}} test 1 - - - - exact",
            "kill_cursors - - - 5 - - exact",
        ]
    );
}

/// Bytes of a message behind its header, compressed.
fn compressed(plain: &[u8], compressor: u8) -> Vec<u8> {
    let body = &plain[16..];
    let packed = match compressor {
        0 => body.to_vec(),
        // Literals alone.
        1 => {
            let mut out = vec![0x80 | body.len() as u8 & 0x7f, (body.len() >> 7) as u8];
            for part in body.chunks(50) {
                out.push((part.len() as u8 - 1) << 2);
                out.extend_from_slice(part);
            }
            out
        }
        2 => {
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
            zlib.write_all(body).expect("compresses in memory");
            zlib.finish().expect("compresses in memory")
        }
        _ => zstd::encode_all(body, 3).expect("compresses in memory"),
    };
    let number = |at: usize| u32::from_le_bytes(*plain[at..].first_chunk().expect("a header"));
    let size = (body.len() as u32).to_le_bytes();
    let inner = [&number(12).to_le_bytes()[..], &size, &[compressor], &packed].concat();
    message(number(4), number(8), 2012, &inner)
}

#[test]
fn compressed_messages() {
    for (compressor, name) in [(0, "noop"), (1, "snappy"), (2, "zlib"), (3, "zstd")] {
        let fields = &["compression", "fingerprint", "returned", "ok", "quality"];
        let mut talk = dialogue(fields);
        talk.client(compressed(&find(1), compressor))
            .server(compressed(&batch(1, 1, 0, "firstBatch", 100), compressor));
        let unacknowledged = msg(2, 0, MORE, &[text("insert", "t"), text("$db", "d")]);
        talk.client(compressed(&unacknowledged, compressor));
        let shape = "find orders {filter: {status: ?, total: {$gt: ?}, tags: [?]}, sort: {_id: ?}}";
        assert_eq!(
            talk.rows(),
            [
                format!("{name} {shape} 100 true exact"),
                format!("{name} insert t - - exact")
            ]
        );
        assert_eq!(talk.counters.oversized_heads, 0);
    }
}

/// A message that expands too much is read in part, counted, and marked.
#[test]
fn expansion_is_bounded() {
    let long = [
        text("find", "t"),
        text("comment", &"x".repeat(3 << 20)),
        text("$db", "d"),
    ];
    for compressor in [2, 3] {
        let mut talk = dialogue(&["command", "database", "ok", "quality"]);
        talk.client(compressed(&msg(1, 0, 0, &long), compressor))
            .server(ok(1, 1));
        assert_eq!(talk.rows(), ["find - true gap_body"]);
        assert_eq!(talk.counters.oversized_heads, 1);
    }
}

/// Copies of Snappy: lengths and distances of all three forms.
#[test]
fn snappy_copies() {
    let plain = msg(
        1,
        0,
        0,
        &[text("find", &"abcd".repeat(30)), text("$db", "d")],
    );
    let body = &plain[16..];
    let begin = body
        .windows(4)
        .position(|w| w == b"abcd")
        .expect("the value")
        + 4;
    let mut packed = vec![0x80 | body.len() as u8 & 0x7f, (body.len() >> 7) as u8];
    packed.push((begin as u8 - 1) << 2);
    packed.extend_from_slice(&body[..begin]);
    // 60 bytes from 4 bytes back, then 8, and 48 in the long form.
    packed.extend_from_slice(&[(59 << 2) | 2, 4, 0]);
    packed.extend_from_slice(&[(4 << 2) | 1, 4]);
    packed.extend_from_slice(&[(47 << 2) | 3, 8, 0, 0, 0]);
    let rest = &body[begin + 116..];
    packed.extend_from_slice(&[60 << 2, rest.len() as u8 - 1]);
    packed.extend_from_slice(rest);
    let head = [2013_u32.to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
    let mut talk = dialogue(&["collection", "database"]);
    talk.client(message(1, 0, 2012, &[&head[..], &[1], &packed].concat()))
        .server(ok(1, 1));
    assert_eq!(talk.rows(), [format!("{} d", "abcd".repeat(30))]);
}

/// Documents are skipped by their lengths: also a message above the size of a head is read to its end.
#[test]
fn long_messages_are_read_to_their_end() {
    let orders: Vec<Vec<u8>> = (0..9000).map(|n| document(&[int("_id", n)])).collect();
    let insert = [
        text("insert", "orders"),
        list("documents", &orders),
        text("$db", "shop"),
    ];
    let mut talk = dialogue(MAIN);
    let asked = msg(1, 0, 0, &insert);
    let answer = batch(1, 1, 0, "firstBatch", 20_000);
    assert!(asked.len() > 100_000 && answer.len() > 800_000);
    talk.pipeline(&asked, &answer);
    let row = &talk.rows()[0];
    assert!(
        row.starts_with("insert shop orders 9000 20000 true - "),
        "{row}"
    );
    assert!(row.ends_with("exact"), "{row}");
}

#[test]
fn gaps_inside_documents_are_skipped() {
    let big = document(&[text("name", &"x".repeat(3000))]);
    let cursor = [list("firstBatch", &[big.clone(), big]), long("id", 0)];
    let answer = msg(1, 1, 0, &[sub("cursor", &cursor), double("ok", 1.0)]);
    let mut talk = dialogue(MAIN);
    talk.client(find(1))
        .server(&answer[..1000])
        .gap(S, 1000)
        .server(&answer[2000..])
        .client(find(2))
        .server(ok(2, 2));
    let rows = talk.rows();
    assert_eq!(rows[0], "find shop orders - 2 true - 1000 gap_body");
    assert_eq!(rows[1], "find shop orders - - true - 1000 exact");
    assert_eq!(talk.counters.resyncs, 0);
}

#[test]
fn gaps_hide_no_other_messages() {
    let mut talk = dialogue(MAIN);
    talk.client(find(1))
        .client(find(2))
        .gap(S, 100)
        .server([&[7; 20][..], &ok(11, 2)].concat())
        .gap(C, 50)
        .client(find(4))
        .server(batch(12, 4, 0, "firstBatch", 1));
    let rows = talk.rows();
    let quality = |row: &String| row.rsplit(' ').next().unwrap_or_default().to_owned();
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert_eq!(rows.iter().filter(|row| quality(row) == "half").count(), 1);
}

#[test]
fn recognition() {
    let context = |speaker| ProbeContext {
        transport: wire::IpProtocol::TCP,
        usual_port: false,
        midstream: false,
        speaker,
        answers: false,
    };
    let request = find(1);
    let answer = batch(1, 1, 0, "firstBatch", 2);
    assert_eq!(probe(&request, context(None)), ProbeResult::Request);
    assert_eq!(probe(&answer, context(None)), ProbeResult::Response);
    assert_eq!(probe(&answer, context(Some(C))), ProbeResult::NotForUs);
    for compressor in 0..=3 {
        let packed = compressed(&request, compressor);
        assert_eq!(probe(&packed, context(None)), ProbeResult::Request);
    }
    for end in 0..25 {
        assert_eq!(
            probe(&request[..end], context(None)),
            ProbeResult::NeedMore,
            "{end}"
        );
    }
    for other in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03random\0\0",
        &[0; 64],
    ] {
        assert_eq!(probe(other, context(None)), ProbeResult::NotForUs);
    }
}

fn conversation(compressor: Option<u8>) -> Vec<(Direction, Vec<u8>)> {
    let pack = |plain: Vec<u8>| compressor.map_or(plain.clone(), |c| compressed(&plain, c));
    let updates = section("updates", &[document(&[sub("q", &[int("a", 1)])])]);
    let body = document(&[text("update", "t"), text("$db", "d")]);
    let write = message(2, 0, 2013, &[&[0; 4], &b"\0"[..], &body, &updates].concat());
    vec![
        (C, pack(find(1))),
        (S, pack(batch(1, 1, 4, "firstBatch", 12))),
        (C, pack(write)),
        (S, pack(msg(2, 2, 0, &[int("n", 1), double("ok", 1.0)]))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tuples_do_not_depend_on_segmentation(n in 1..300usize, compressor in proptest::option::of(0..4u8)) {
        let fields = &["fingerprint", "database", "documents", "returned", "matched", "ok", "cursor_id", "quality"];
        let (mut whole, mut cut) = (dialogue(fields), dialogue(fields));
        for (direction, bytes) in conversation(compressor) {
            whole.bytes(direction, &bytes);
            bytes.chunks(n).for_each(|part| { cut.bytes(direction, part); });
        }
        prop_assert_eq!(whole.rows(), cut.rows());
    }

    /// Lost messages: a response repeats the name of its request's collection as its first key, so that a wrong pair shows.
    #[test]
    fn no_pair_is_wrong(steps in proptest::collection::vec((any::<bool>(), 0..8u8, 0..1000usize), 1..80)) {
        let mut talk = dialogue(&["collection", "error_message"]);
        let mut outstanding = Vec::new();
        for (number, (asks, fate, pick)) in steps.into_iter().enumerate() {
            let (direction, bytes) = if asks || outstanding.is_empty() {
                let name = format!("t{number}");
                outstanding.push((number as u32, name.clone()));
                (C, msg(number as u32, 0, 0, &[text("find", &name), text("$db", "d")]))
            } else {
                let (id, name) = outstanding.swap_remove(pick % outstanding.len());
                (S, msg(500 + id, id, 0, &[double("ok", 0.0), text("errmsg", &name)]))
            };
            match fate {
                0 => { talk.gap(direction, bytes.len() as u64); }
                1 => { talk.bytes(direction, &bytes[..9]); talk.gap(direction, bytes.len() as u64 - 9); }
                _ => { talk.bytes(direction, &bytes); }
            }
        }
        for row in talk.rows() {
            let (asked, answered) = row.split_once(' ').expect("two fields");
            prop_assert!(asked == "-" || answered == "-" || asked == answered, "{row}");
        }
    }

    #[test]
    fn nothing_panics(
        flips in proptest::collection::vec((0..4usize, 0..400usize, any::<u8>()), 0..12),
        gap in 0..3000u64,
        compressor in proptest::option::of(0..4u8),
        n in 1..200usize,
    ) {
        let mut talk = dialogue(MAIN);
        for (turn, (direction, mut bytes)) in conversation(compressor).into_iter().enumerate() {
            for (_, at, value) in flips.iter().filter(|flip| flip.0 == turn) {
                let at = at % bytes.len();
                bytes[at] = *value;
            }
            bytes.chunks(n).for_each(|part| { talk.bytes(direction, part); });
            if turn == 1 && gap > 0 {
                talk.gap(direction, gap);
            }
        }
        talk.rows();
    }
}

//! Dialogues: whole connections, connections joined late, losses, limits.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::Direction::{self, ClientToServer, ServerToClient};
use crate::dialogue::ParserDialogue;
use crate::http2::{GRPC, HTTP2, PROTOCOL, schema, schema_grpc};

const FIELDS: &[&str] = &[
    "stream",
    "method",
    "url",
    "status",
    "request_bytes",
    "response_bytes",
    "response_time_ns",
    "quality",
];
const PREFACE: &[u8] = super::frames::PREFACE;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const BOTH: u8 = 5;

/// A frame.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A literal that is inserted into the table.
fn insert(name: &str, value: &str) -> Vec<u8> {
    [
        &[0x40, name.len() as u8],
        name.as_bytes(),
        &[value.len() as u8],
        value.as_bytes(),
    ]
    .concat()
}

/// GET of a path on `h`, whose path is inserted.
fn get(stream: u32, path: &str) -> Vec<u8> {
    let block = [&[0x82, 0x86], &insert(":path", path)[..], b"\x01\x01h"].concat();
    frame(1, BOTH, stream, &block)
}

/// GET of the path that was inserted as the n-th newest.
fn get_again(stream: u32, n: u8) -> Vec<u8> {
    frame(
        1,
        BOTH,
        stream,
        &[&[0x82, 0x86, 0xbe + n], &b"\x01\x01h"[..]].concat(),
    )
}

/// Head of a response with the status 200.
fn ok(stream: u32) -> Vec<u8> {
    frame(1, END_HEADERS, stream, &[0x88])
}

fn data(stream: u32, body: &[u8]) -> Vec<u8> {
    frame(0, END_STREAM, stream, body)
}

fn talk() -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), HTTP2, FIELDS)
}

fn started() -> ParserDialogue {
    let mut talk = talk();
    talk.client([PREFACE, &frame(4, 0, 0, b"")].concat());
    talk.server(frame(4, 0, 0, b""));
    talk
}

#[test]
fn streams_are_paired_in_any_order() {
    let rows = started()
        .client([get(1, "/a"), get(3, "/b")].concat())
        .server([ok(3), data(3, b"xyz")].concat())
        .server([ok(1), data(1, b"")].concat())
        .rows();
    assert_eq!(
        rows,
        [
            "3 GET h/b 200 0 3 1000 exact",
            "1 GET h/a 200 0 0 2000 exact"
        ]
    );
}

#[test]
fn rows_do_not_depend_on_segments() {
    let post = [
        frame(1, 0, 1, b"\x83\x86"),
        frame(9, 0, 1, &insert(":path", "/long")),
        frame(9, END_HEADERS, 1, b"\x01\x01h"),
        frame(0, 8, 1, b"\x02ab\0\0"),
        frame(0, 9, 1, b"\x01c\0"),
    ]
    .concat();
    let answer = [
        frame(1, END_HEADERS, 1, b"\x08\x03103"),
        frame(1, END_HEADERS | 0x20 | 8, 1, b"\x01\0\0\0\0\x10\x88\0"),
        frame(0, 0, 1, b"123"),
        frame(6, 0, 0, b"pingpong"),
        frame(1, BOTH, 1, &insert("x", "y")),
    ]
    .concat();
    let of = |piece: usize| {
        let mut talk = ParserDialogue::new(
            &PROTOCOL,
            schema(),
            HTTP2,
            &[
                "method",
                "url",
                "status",
                "interim_status",
                "request_bytes",
                "response_bytes",
                "end",
                "quality",
            ],
        );
        let client = [PREFACE, &frame(4, 0, 0, b""), &post].concat();
        for bytes in client.chunks(piece) {
            talk.client(bytes);
        }
        let server = [frame(4, 0, 0, b""), answer.clone()].concat();
        for bytes in server.chunks(piece) {
            talk.server(bytes);
        }
        talk.rows()
    };
    let expected = ["POST h/long 200 103 3 3 end_stream exact"];
    for piece in 1..200 {
        assert_eq!(of(piece), expected, "pieces of {piece}");
    }
}

#[test]
fn a_connection_joined_late_has_the_paths_that_it_saw() {
    for before in [1, 2, 20, 1000] {
        let mut talk = talk().midstream();
        let mut id = 2 * before + 1;
        let mut ask = |request: &dyn Fn(u32) -> Vec<u8>| {
            talk.client(request(id))
                .server([ok(id), data(id, b"1")].concat());
            id += 2;
        };
        // The path of the first two requests was inserted before.
        ask(&|id| get_again(id, 0));
        ask(&|id| get(id, "/new"));
        ask(&|id| get_again(id, 0));
        ask(&|id| get_again(id, 1));
        let rows: Vec<_> = talk
            .rows()
            .iter()
            .map(|row| row.split_once(' ').unwrap().1.to_owned())
            .collect();
        assert_eq!(
            rows,
            [
                "GET - 200 0 1 1000 midstream",
                "GET h/new 200 0 1 1000 exact",
                "GET h/new 200 0 1 1000 exact",
                "GET - 200 0 1 1000 midstream"
            ]
        );
    }
}

#[test]
fn a_lost_block_starts_a_new_window() {
    let rows = started()
        .client(get(1, "/a"))
        .server([ok(1), data(1, b"")].concat())
        .gap(ClientToServer, 40)
        .server([ok(3), data(3, b"")].concat())
        .client(get_again(5, 0))
        .server([ok(5), data(5, b"")].concat())
        .client(get(7, "/b"))
        .server([ok(7), data(7, b"")].concat())
        .rows();
    assert_eq!(
        rows,
        [
            "1 GET h/a 200 0 0 1000 exact",
            "3 - - 200 - 0 - half",
            "5 GET - 200 0 0 1000 resync",
            "7 GET h/b 200 0 0 1000 exact"
        ]
    );
}

#[test]
fn a_response_without_its_head_has_no_response_time() {
    let body = data(1, &[7; 100]);
    let rows = started()
        .client(get(1, "/a"))
        .gap(ServerToClient, 10)
        .server(frame(1, BOTH, 1, &insert("x", "y")))
        .client(get(3, "/b"))
        .server(ok(3))
        .server(&body[..5])
        .rows();
    assert_eq!(rows[0], "1 GET h/a - 0 - - resync");
    let body = data(1, &[7; 100]);
    let rows = started()
        .client(get(1, "/a"))
        .server([&ok(1)[..], &body[..20]].concat())
        .gap(ServerToClient, 60)
        .server(&body[80..])
        .rows();
    assert_eq!(rows, ["1 GET h/a 200 0 100 1000 gap_body"]);
}

#[test]
fn resets_and_the_end() {
    let mut talk = ParserDialogue::new(
        &PROTOCOL,
        schema(),
        HTTP2,
        &["stream", "status", "end", "quality"],
    );
    talk.client([PREFACE, &frame(4, 0, 0, b"")].concat());
    for (id, path) in [(1, "/a"), (3, "/b"), (5, "/c"), (7, "/d")] {
        talk.client(get(id, path));
    }
    talk.server([frame(4, 0, 0, b""), ok(1)].concat());
    talk.client(frame(3, 0, 1, &8_u32.to_be_bytes()));
    // Sent before the reset arrived.
    talk.server(data(1, b"late"));
    talk.server([ok(3), frame(3, 0, 3, &77_u32.to_be_bytes())].concat());
    talk.server(frame(7, 0, 0, b"\0\0\0\x05\0\0\0\0"));
    talk.end(ServerToClient);
    assert_eq!(
        talk.rows(),
        [
            "1 200 rst_stream(CANCEL) gap_body",
            "3 200 rst_stream(77) gap_body",
            "7 - goaway half",
            "5 - connection half"
        ]
    );
}

#[test]
fn a_closed_window_is_a_stall() {
    let mut talk = ParserDialogue::new(&PROTOCOL, schema(), HTTP2, &["stream", "window_stall_ns"]);
    // The client permits four bytes on a stream.
    let small = frame(4, 0, 0, b"\0\x04\0\0\0\x04");
    talk.client([PREFACE, &small].concat());
    talk.client(get(1, "/a"));
    talk.server([ok(1), frame(0, 0, 1, b"1234")].concat());
    talk.wait_us(100);
    talk.client(frame(8, 0, 1, &4_u32.to_be_bytes()));
    talk.wait_us(5);
    talk.server(data(1, b"5678"));
    assert_eq!(talk.rows(), ["1 101000"]);
}

#[test]
fn calls_of_grpc() {
    let fields = [
        "grpc_service",
        "grpc_method",
        "grpc_status",
        "grpc_message",
        "request_messages",
        "response_messages",
        "first_message_time_ns",
        "quality",
    ];
    let of = |answer: &[u8]| {
        let mut talk = ParserDialogue::new(&PROTOCOL, schema_grpc(), GRPC, &fields);
        let block = [
            &[0x83, 0x86],
            &insert(":path", "/p.S/Call")[..],
            &insert("content-type", "application/grpc"),
        ]
        .concat();
        talk.client([PREFACE, &frame(4, 0, 0, b"")].concat());
        talk.client([frame(1, END_HEADERS, 1, &block), data(1, b"\0\0\0\0\x02ab")].concat());
        // Not a call.
        talk.client(get(3, "/"));
        talk.server([answer, &ok(3), &data(3, b"")].concat());
        talk.rows()
    };
    let trailers = [
        insert("grpc-status", "5"),
        insert("grpc-message", "no%20such"),
    ]
    .concat();
    let messages = frame(0, 0, 1, b"\0\0\0\0\x01a\0\0\0\0\x01b");
    let answer = [ok(1), messages, frame(1, BOTH, 1, &trailers)].concat();
    assert_eq!(of(&answer), ["p.S Call NOT_FOUND no such 1 2 2000 exact"]);
    let only = frame(1, BOTH, 1, &[&[0x88], &trailers[..]].concat());
    assert_eq!(of(&only), ["p.S Call NOT_FOUND no such 1 0 - exact"]);
    let web = [ok(1), data(1, b"\x80\0\0\0\x0egrpc-status: 0")].concat();
    assert_eq!(of(&web), ["p.S Call OK - 1 0 2000 exact"]);
}

#[test]
fn an_upgraded_connection() {
    let mut talk = ParserDialogue::new(&crate::http::PROTOCOL, schema(), HTTP2, FIELDS);
    talk.client("GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n");
    talk.server(
        [
            &b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"[..],
            &frame(4, 0, 0, b""),
            &ok(1),
            &data(1, b"up"),
        ]
        .concat(),
    );
    talk.client([PREFACE, &frame(4, 0, 0, b""), &get(3, "/a")].concat());
    talk.server([ok(3), data(3, b"")].concat());
    assert_eq!(
        talk.rows(),
        [
            "1 GET h/up 200 0 2 1000 exact",
            "3 GET h/a 200 0 0 1000 exact"
        ]
    );
}

#[test]
fn promised_requests() {
    let promise = [
        &2_u32.to_be_bytes()[..],
        &[0x82, 0x86],
        &insert(":path", "/pushed"),
    ]
    .concat();
    let rows = started()
        .client(get(1, "/"))
        .server(frame(5, END_HEADERS, 1, &promise))
        .server([ok(1), data(1, b"")].concat())
        .server([ok(2), data(2, b"pp")].concat())
        .rows();
    assert_eq!(
        rows,
        [
            "1 GET h/ 200 0 0 2000 exact",
            "2 GET /pushed 200 0 2 2000 exact"
        ]
    );
}

#[test]
fn limits_of_blocks_and_streams() {
    let mut talk = started();
    talk.limits.outstanding_max = 1024;
    // A flood of CONTINUATION: 1 MiB of fields.
    talk.client(frame(1, END_STREAM, 1, b"\x82\x86\x01\x01h\x04\x02/f"));
    let filler = [&b"\x00\x01x\x7f\x81\x7f"[..], &[b'y'; 16_383 - 129 + 131]].concat();
    for _ in 0..64 {
        talk.client(frame(9, 0, 1, &filler[..16_000]));
    }
    talk.client(frame(9, END_HEADERS, 1, b""));
    talk.server([ok(1), data(1, b"")].concat());
    assert_eq!(talk.counters.oversized_heads, 1);
    for n in 0..3000 {
        talk.client(get(2 * n + 3, "/"));
    }
    for n in 3000..4000 {
        talk.client(get(2 * n + 3, "/"));
    }
    assert!(
        talk.counters.evicted_requests >= 2976,
        "{:?}",
        talk.counters
    );
    let rows = talk.rows();
    assert_eq!(rows[0], "1 GET h/f 200 0 0 1000 gap_body");
    assert_eq!(rows.len(), 4001);
}

#[test]
fn nothing_panics() {
    let whole = [
        PREFACE,
        &frame(4, 0, 0, b"\0\x04\0\0\0\x04"),
        &get(1, "/a"),
        &frame(1, 0x2d, 3, b"\xff"),
        &frame(5, 12, 3, b"\xff\xff"),
        &frame(9, 4, 3, b"\xff\xff\xff\xff\xff\xff"),
        &frame(3, 0, 1, b""),
        &frame(7, 0, 0, b""),
        &frame(8, 0, 0, b"\xff\xff\xff\xff"),
        &frame(0, 9, 1, b"\xff"),
    ]
    .concat();
    for cut in 0..whole.len() {
        for direction in [ClientToServer, ServerToClient] {
            let mut talk = talk();
            talk.bytes(direction, &whole[..cut]);
            talk.gap(direction, 3);
            talk.bytes(direction, &whole[cut..]);
            talk.bytes(Direction::other(direction), &whole[PREFACE.len()..]);
            talk.rows();
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(
        client in vec(any::<u8>(), 0..300),
        server in vec(any::<u8>(), 0..300),
        missing in 0..20_u64,
        midstream in any::<bool>(),
    ) {
        let mut talk = talk();
        if midstream {
            talk = talk.midstream();
        } else {
            talk.client(PREFACE);
        }
        for bytes in client.chunks(100) {
            talk.client(bytes);
        }
        talk.gap(ServerToClient, missing);
        talk.server(&server);
        talk.rows();
    }
}

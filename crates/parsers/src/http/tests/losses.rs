//! Streams seen from the middle, gaps, and lost messages.

use super::*;

#[test]
fn midstream() {
    let play = |steps: &[HttpTestStep]| play(dialogue(FIELDS).midstream(), steps).0;
    assert_eq!(
        play(&[get("/a"), ok(""), get("/b"), ok("")]),
        ["GET h /a 200 1000 midstream", "GET h /b 200 1000 exact"]
    );
    assert_eq!(
        play(&[ok("x"), get("/b"), ok("")]),
        ["- - - 200 - half", "GET h /b 200 1000 resync"]
    );
    // The server was still answering earlier requests when the first request was captured: the client does
    // not wait.
    let rows = play(&[get("/b"), s("rest of a body"), ok("old"), ok("new")]);
    assert_eq!(
        rows,
        ["- - - 200 - half", "- - - 200 - half", "GET h /b - - half"]
    );
}

#[test]
fn gaps_in_bodies() {
    let head = s("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789");
    let fields = &[
        "path",
        "status",
        "response_bytes",
        "transfer_time_ns",
        "quality",
    ];
    let check = |steps: &[HttpTestStep], rows: &[&str]| check_fields(fields, steps, rows);
    let tail = [get("/b"), ok("")];
    let with = |middle: &[HttpTestStep]| [&[get("/a"), head.clone()], middle, &tail].concat();
    check(
        &with(&[HttpTestStep::Gap(S, 80), s("0123456789")]),
        &["/a 200 100 2000 gap_body", "/b 200 0 0 exact"],
    );
    check(
        &with(&[HttpTestStep::Gap(S, 90)]),
        &["/a 200 100 - gap_body", "/b 200 0 0 exact"],
    );
    check(
        &[
            get("/0"),
            ok(""),
            get("/a"),
            head.clone(),
            get("/b"),
            HttpTestStep::Gap(S, 128),
            get("/c"),
            ok(""),
        ],
        &[
            "/0 200 0 0 exact",
            "/a 200 100 - gap_body",
            "/b - - - half",
            "/c 200 0 0 resync",
        ],
    );
    let chunked = s("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n0123456789");
    check(
        &[
            get("/a"),
            chunked.clone(),
            HttpTestStep::Gap(S, 90),
            s("\r\n0\r\n\r\n"),
            get("/b"),
            ok(""),
        ],
        &["/a 200 111 2000 gap_body", "/b 200 0 0 exact"],
    );
    check(
        &[
            get("/0"),
            ok(""),
            get("/a"),
            chunked,
            HttpTestStep::Gap(S, 95),
            s("x\r\n\r\n"),
            get("/b"),
            ok(""),
        ],
        &[
            "/0 200 0 0 exact",
            "/a 200 - - gap_body",
            "/b 200 0 0 resync",
        ],
    );
    check(
        &[
            get("/a"),
            s("HTTP/1.0 200 OK\r\n\r\nabc"),
            HttpTestStep::Gap(S, 7),
            s("def"),
            HttpTestStep::End(S),
        ],
        &["/a 200 13 2000 gap_body"],
    );
    check(
        &[
            c("PUT /a HTTP/1.1\r\nContent-Length: 10\r\n\r\n"),
            HttpTestStep::Gap(C, 10),
            ok(""),
        ],
        &["/a 200 0 0 gap_body"],
    );
}

#[test]
fn a_lost_response_is_not_replaced_by_the_next_one() {
    let paths = |steps: &[HttpTestStep], rows: &[&str]| {
        check_fields(&["path", "response_bytes", "quality"], steps, rows)
    };
    // The client has always waited for responses.
    paths(
        &[
            get("/a"),
            ok("1"),
            get("/b"),
            ok("22"),
            get("/c"),
            HttpTestStep::Gap(S, 41),
            get("/d"),
            ok("4444"),
            get("/e"),
            ok(""),
        ],
        &[
            "/a 1 exact",
            "/b 2 exact",
            "/c - half",
            "/d 4 resync",
            "/e 0 exact",
        ],
    );
    // Same, but the table reports the gap after the next request.
    paths(
        &[
            get("/a"),
            ok("1"),
            get("/b"),
            ok("22"),
            get("/c"),
            get("/d"),
            HttpTestStep::Gap(S, 41),
            ok("4444"),
            get("/e"),
            ok(""),
        ],
        &[
            "/a 1 exact",
            "/b 2 exact",
            "/c - half",
            "/d 4 resync",
            "/e 0 exact",
        ],
    );
    // One is lost, one is left.
    let batch = |names: &str| {
        c(names
            .split(' ')
            .map(|n| format!("GET /{n} HTTP/1.1\r\n\r\n"))
            .collect::<String>())
    };
    paths(
        &[
            batch("a b"),
            ok("1"),
            ok("22"),
            batch("c d e"),
            ok("333"),
            HttpTestStep::Gap(S, 41),
            ok("55555"),
            batch("f g"),
            ok("6"),
            ok("77"),
        ],
        &[
            "/a 1 exact",
            "/b 2 exact",
            "/c 3 exact",
            "/d - half",
            "/e 5 resync",
            "/f 1 exact",
            "/g 2 exact",
        ],
    );
    // Several are left: the pairs are known with the next batch.
    paths(
        &[
            batch("x y"),
            ok(""),
            ok(""),
            batch("a b"),
            ok("1"),
            ok("22"),
            batch("c d e"),
            HttpTestStep::Gap(S, 41),
            ok("55555"),
            batch("f g"),
            ok("6"),
            ok("77"),
        ],
        &[
            "/x 0 exact",
            "/y 0 exact",
            "/a 1 exact",
            "/b 2 exact",
            "/c - half",
            "/d - half",
            "/e 5 resync",
            "/f 1 resync",
            "/g 2 exact",
        ],
    );
    // Only the head is lost, but the client's behavior and further requests are unknown.
    paths(
        &[
            get("/a"),
            HttpTestStep::Gap(S, 38),
            s("rest"),
            get("/b"),
            ok("22"),
        ],
        &["/a - half", "/b 2 resync"],
    );
}

#[test]
fn a_lost_request_does_not_take_the_next_ones_response() {
    let paths = |steps: &[HttpTestStep], rows: &[&str]| {
        check_fields(&["path", "response_bytes", "quality"], steps, rows)
    };
    paths(
        &[
            get("/a"),
            ok("1"),
            get("/b"),
            ok("22"),
            HttpTestStep::Gap(C, 40),
            ok("333"),
            get("/d"),
            ok("4444"),
        ],
        &["/a 1 exact", "/b 2 exact", "- 3 half", "/d 4 resync"],
    );
    // The gap is shorter than a packet: `/d` begins a write. The gap has room for one request only.
    let long = || {
        c(format!(
            "GET /a HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n",
            "a".repeat(80)
        ))
    };
    paths(
        &[
            long(),
            get("/b"),
            HttpTestStep::Gap(C, 30),
            get("/d"),
            ok("1"),
            ok("22"),
            ok("333"),
            ok("4444"),
        ],
        &["/a 1 exact", "/b 2 exact", "- 3 half", "/d 4 resync"],
    );
    // The gap has room for more requests; requests before it keep their order.
    paths(
        &[
            long(),
            get("/b"),
            HttpTestStep::Gap(C, 80),
            get("/d"),
            ok("1"),
            ok("22"),
            ok("333"),
            ok("4444"),
        ],
        &[
            "/a 1 exact",
            "/b 2 exact",
            "- 3 half",
            "- 4 half",
            "/d - half",
        ],
    );
    // After a longer gap, a message at a packet start may belong to the body of a missing request.
    paths(
        &[
            long(),
            get("/b"),
            HttpTestStep::Gap(C, 200),
            get("/d"),
            ok("1"),
            ok("22"),
            ok("333"),
            ok("4444"),
        ],
        &["/a 1 exact", "/b 2 exact", "- 3 half", "- 4 half"],
    );
}

/// Between two messages, fewer bytes are missing than a message has.
#[test]
fn gap_too_small_for_a_message() {
    let fields = &["path", "status"];
    let start = [get("/a"), ok("hello")];
    let rest = [get("/b"), ok("x"), get("/c"), ok("y")];
    for direction in [C, S] {
        let steps = [&start[..], &[HttpTestStep::Gap(direction, 2)], &rest].concat();
        check_fields(fields, &steps, &["/a 200", "/b 200", "/c 200"]);
    }
    // The missing bytes begin the next message.
    let cut = s("TP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let steps = [&start[..], &[get("/b"), HttpTestStep::Gap(S, 2), cut]].concat();
    check_fields(fields, &steps, &["/a 200", "/b -"]);
}

/// Only a FIN proves that no bytes follow the last one seen, and that announced bytes were not sent.
#[test]
fn a_response_that_a_reset_breaks_off_is_not_exact() {
    for (length, at_fin) in [("Content-Length: 9\r\n", "gap_body"), ("", "exact")] {
        for (ends, expected) in [
            (true, &*format!("/a 200 4 1000 {at_fin}")),
            (false, "/a 200 - 1000 gap_body"),
        ] {
            let mut talk = dialogue(&[
                "path",
                "status",
                "response_bytes",
                "response_time_ns",
                "quality",
            ]);
            talk.client("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
            talk.server(format!("HTTP/1.1 200 OK\r\n{length}\r\nbody"));
            let talk = if ends {
                talk.end(Direction::ServerToClient)
            } else {
                talk.reset()
            };
            assert_eq!(talk.rows(), [expected], "{length:?}");
        }
    }
}

//! HTTP conversations and the expected tuples.

mod losses;
mod properties;

use super::*;
use crate::dialogue::ParserDialogue;
use crate::{Direction, ParserCounters, ParserLimits};

const FIELDS: &[&str] = &[
    "method",
    "host",
    "path",
    "status",
    "response_time_ns",
    "quality",
];
const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;

fn dialogue(fields: &[&'static str]) -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, fields)
}

/// One event; each takes a microsecond.
#[derive(Clone, Debug)]
enum HttpTestStep {
    Bytes(Direction, Vec<u8>),
    Gap(Direction, u64),
    End(Direction),
}

fn c(text: impl AsRef<[u8]>) -> HttpTestStep {
    HttpTestStep::Bytes(C, text.as_ref().to_vec())
}

fn s(text: impl AsRef<[u8]>) -> HttpTestStep {
    HttpTestStep::Bytes(S, text.as_ref().to_vec())
}

/// Description of the steps for failures.
fn tell(steps: &[HttpTestStep]) -> String {
    let who = |d: &Direction| if *d == C { 'C' } else { 'S' };
    let tell = |step: &HttpTestStep| match step {
        HttpTestStep::Bytes(d, bytes) => format!("{} {:?}", who(d), String::from_utf8_lossy(bytes)),
        HttpTestStep::Gap(d, len) => format!("{} misses {len}", who(d)),
        HttpTestStep::End(d) => format!("{} ends", who(d)),
    };
    steps.iter().map(tell).collect::<Vec<_>>().join("\n")
}

fn play(mut talk: ParserDialogue, steps: &[HttpTestStep]) -> (Vec<String>, crate::ParserCounters) {
    for step in steps {
        match step {
            HttpTestStep::Bytes(d, bytes) => talk.bytes(*d, bytes),
            HttpTestStep::Gap(d, len) => talk.gap(*d, *len),
            HttpTestStep::End(d) => talk.end(*d),
        };
    }
    let rows = talk.rows();
    (rows, talk.counters)
}

fn check(steps: &[HttpTestStep], rows: &[&str]) {
    assert_eq!(play(dialogue(FIELDS), steps).0, rows, "{}", tell(steps));
}

fn check_fields(fields: &[&'static str], steps: &[HttpTestStep], rows: &[&str]) {
    assert_eq!(play(dialogue(fields), steps).0, rows, "{}", tell(steps));
}

fn get(path: &str) -> HttpTestStep {
    c(format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"))
}

fn ok(body: &str) -> HttpTestStep {
    s(format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

#[test]
fn request_and_response() {
    check(&[get("/a"), ok("hello")], &["GET h /a 200 1000 exact"]);
    check_fields(
        &[
            "method",
            "host",
            "path",
            "url_query",
            "url",
            "url_template",
            "http_version",
            "status",
            "interim_status",
            "request_bytes",
            "response_bytes",
            "transfer_time_ns",
            "user_agent",
            "content_type",
        ],
        &[
            c(
                "POST /users/7?a=b HTTP/1.1\r\nhost: h:80\r\nUSER-AGENT: ua/1\r\nContent-Length: 3\r\n\r\nab",
            ),
            c("c"),
            s("HTTP/1.1 201 Created\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n12"),
            s("34"),
        ],
        &["POST h:80 /users/7 a=b h:80/users/7?a=b /users/{id} 1.1 201 - 3 4 1000 ua/1 text/html"],
    );
}

#[test]
fn only_get() {
    let mut talk = ParserDialogue::new(&PROTOCOL, schema_get(), GET_ONLY, &["method", "url"]);
    for step in [
        get("/a"),
        ok(""),
        c("PUT /b HTTP/1.1\r\n\r\n"),
        ok(""),
        ok("nobody asked"),
        get("/c"),
        ok(""),
    ] {
        let HttpTestStep::Bytes(d, bytes) = step else {
            continue;
        };
        talk.bytes(d, &bytes);
    }
    assert_eq!(talk.rows(), ["GET h/a", "GET h/c"]);
}

#[test]
fn targets() {
    let check = |line: &str, row: &str| {
        check_fields(
            &["host", "path", "url_query", "url"],
            &[c(format!("{line} HTTP/1.1\r\n\r\n"))],
            &[row],
        );
    };
    check("GET http://a:81/b?c", "a:81 /b c a:81/b?c");
    check("GET http://a", "a  - a");
    check("CONNECT a:443", "a:443 - - a:443");
    check("OPTIONS *", "- * - *");
    check("GET /x", "- /x - /x");
}

#[test]
fn keep_alive_and_pipelining() {
    check(
        &[get("/a"), ok("1"), get("/b"), ok("2")],
        &["GET h /a 200 1000 exact", "GET h /b 200 1000 exact"],
    );
    check(
        &[
            c(
                "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\nHEAD /c HTTP/1.1\r\n\r\nGET /d HTTP/1.1\r\n\r\n",
            ),
            s(
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n12HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            ),
            s("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
        ],
        &[
            "GET - /a 200 1000 exact",
            "GET - /b 404 1000 exact",
            "HEAD - /c 200 2000 exact",
            "GET - /d 204 2000 exact",
        ],
    );
}

#[test]
fn interim_responses_are_not_the_answer() {
    check_fields(
        &[
            "status",
            "interim_status",
            "response_time_ns",
            "request_bytes",
        ],
        &[
            c("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"),
            s("HTTP/1.1 100 Continue\r\n\r\n"),
            c("body"),
            s("HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n"),
            ok("x"),
        ],
        &["200 103 2000 4"],
    );
}

#[test]
fn early_final_responses() {
    let ask = c("POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 40\r\n\r\n");
    let refused = s("HTTP/1.1 417 No\r\nContent-Length: 0\r\n\r\n");
    check(
        &[ask.clone(), refused.clone(), get("/b"), ok("")],
        &["POST - /a 417 1000 exact", "GET h /b 200 1000 exact"],
    );
    check(
        &[
            ask.clone(),
            refused,
            HttpTestStep::End(S),
            HttpTestStep::End(C),
        ],
        &["POST - /a 417 1000 exact"],
    );
    check(
        &[
            c("POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\n12"),
            s("HTTP/1.1 413 Big\r\nContent-Length: 0\r\n\r\n"),
            c("34GET /b HTTP/1.1\r\n\r\n"),
            ok(""),
        ],
        &["POST - /a 413 - untimed", "GET - /b 200 1000 exact"],
    );
}

#[test]
fn bodies() {
    let check = |response: &[&str], end: bool, bytes: &str| {
        let mut steps = vec![get("/")];
        steps.extend(response.iter().map(s));
        steps.extend(end.then_some(HttpTestStep::End(S)));
        check_fields(&["status", "response_bytes"], &steps, &[bytes]);
    };
    check(
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"],
        false,
        "200 15",
    );
    check(
        &[
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: CHUNKED\r\n\r\n5;x=y\r\nhel",
            "lo\r\n0\r\nT: 1\r\n\r\n",
        ],
        false,
        "200 25",
    );
    check(
        &["HTTP/1.1 200 OK\nTransfer-Encoding:\n chunked\n\n1\nx\n0\n\n"],
        false,
        "200 7",
    );
    check(&["HTTP/1.0 200 OK\r\n\r\nabc", "def"], true, "200 6");
    check(
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc"],
        true,
        "200 3",
    );
    check(
        &["HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"],
        false,
        "304 0",
    );
    check(
        &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"],
        false,
        "200 -",
    );
    check(
        &["HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"],
        true,
        "200 3",
    );
    check(
        &[
            "\r\n\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ],
        false,
        "200 5",
    );
    check(
        &["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nxyz"],
        true,
        "200 22",
    );
}

#[test]
fn framing_that_hides_requests() {
    let paths =
        |text: &str, paths: &[&str]| check_fields(&["path", "request_bytes"], &[c(text)], paths);
    // Both lengths: chunks count. Two lengths: the first counts. Chunk size 2^64: the rest is body.
    paths(
        "POST /a HTTP/1.1\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
        &["/a 5", "/b 0"],
    );
    paths(
        "POST /a HTTP/1.1\r\nContent-Length:3\r\nContent-Length:9\r\n\r\n123GET /b HTTP/1.1\r\n\r\n",
        &["/a 3", "/b 0"],
    );
    paths(
        "POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\nGET /b HTTP/1.1\r\n\r\n",
        &["/a -"],
    );
    paths(
        "POST /a HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
        &["/a 5", "/b 0"],
    );
    paths(
        "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\nGET /b HTTP/1.1\r\n\r\n",
        &["/a 0", "/b 0"],
    );
}

#[test]
fn other_protocols_take_over() {
    let mut talk = dialogue(FIELDS);
    talk.client("GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
        .server("HTTP/1.1 101 Switching\r\n\r\n\x01\x05HTTP/1.1 200 OK\r\n");
    talk.client("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(talk.rows(), ["GET - /ws 101 1000 exact"]);
    check(
        &[
            c("CONNECT h:443 HTTP/1.1\r\n\r\n"),
            s("HTTP/1.1 200 Fine\r\n\r\n"),
            c("\x16\x03\x01"),
            s("\x16\x03"),
        ],
        &["CONNECT h:443 - 200 1000 exact"],
    );
    check(
        &[
            c("CONNECT h:443 HTTP/1.1\r\n\r\n"),
            s("HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"),
            get("/b"),
            ok(""),
        ],
        &["CONNECT h:443 - 407 1000 exact", "GET h /b 200 1000 exact"],
    );
}

#[test]
fn http_09() {
    check_fields(
        &[
            "method",
            "path",
            "http_version",
            "status",
            "response_bytes",
            "response_time_ns",
            "quality",
        ],
        &[
            c("GET /zeek.html\r\n"),
            s("<html>"),
            s("</html>"),
            HttpTestStep::End(S),
        ],
        &["GET /zeek.html 0.9 - 13 1000 exact"],
    );
    check(
        &[
            c("GET /x\r\n"),
            s("HTTP/1.0 400 Bad\r\n\r\n"),
            HttpTestStep::End(S),
        ],
        &["GET - /x 400 1000 exact"],
    );
    check(
        &[
            c("GET /HTTP/1.1\nHost: h\n\n"),
            s("HTTP/1.0 400 Bad\r\n\r\n"),
            HttpTestStep::End(S),
        ],
        &["GET h /HTTP/1.1 400 1000 exact"],
    );
}

#[test]
fn halves() {
    check(
        &[get("/a"), get("/b"), ok("")],
        &["GET h /a 200 2000 exact", "GET h /b - - half"],
    );
    check(&[ok("")], &["- - - 200 - half"]);
    check(
        &[get("/a"), HttpTestStep::End(S), get("/b")],
        &["GET h /a - - half", "GET h /b - - half"],
    );
    check(&[c("GET /a HTTP/1.1\r\nHost: ")], &[]);
    check(
        &[c("POST /a HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc")],
        &["POST - /a - - half"],
    );
}

#[test]
fn junk_after_a_request() {
    check(
        &[
            get("/0"),
            ok(""),
            get("/a"),
            ok(""),
            c("T / HTTP\r\n"),
            s("HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n"),
            get("/b"),
            ok(""),
        ],
        &[
            "GET h /0 200 1000 exact",
            "GET h /a 200 1000 exact",
            "- - - 400 - half",
            "GET h /b 200 1000 resync",
        ],
    );
}

#[test]
fn unsolicited_response() {
    let mut talk = dialogue(FIELDS);
    talk.server("HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n")
        .wait_us(20_000);
    talk.client("GET /a HTTP/1.1\r\n\r\n")
        .server("HTTP/1.1 204 No\r\n\r\n");
    assert_eq!(talk.rows(), ["- - - 408 - half", "GET - /a 204 1000 exact"]);
}

#[test]
fn heads_in_pieces() {
    let request = "GET /path HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut steps: Vec<HttpTestStep> = request.as_bytes().chunks(1).map(c).collect();
    steps.extend([ok("x")]);
    check(&steps, &["GET h /path 200 1000 exact"]);
}

/// Heads over the limit, in several segment sizes.
#[test]
fn heads_beyond_the_limit() {
    let long = "a".repeat(70_000);
    let check = |request: &str, response: &str, rows: [&str; 2], oversized: u64| {
        for piece in [1, 1400, 65_000, 1 << 20] {
            let said = [(C, request), (S, response)];
            let pieces = said.iter().flat_map(|(direction, text)| {
                text.as_bytes()
                    .chunks(piece)
                    .map(|bytes| HttpTestStep::Bytes(*direction, bytes.to_vec()))
            });
            let steps: Vec<HttpTestStep> = pieces.chain([get("/b"), ok("")]).collect();
            let (got, counters) = play(
                dialogue(&["path", "host", "http_version", "status", "quality"]),
                &steps,
            );
            assert_eq!(
                (&got[..], counters.oversized_heads),
                (&rows.map(str::to_owned)[..], oversized),
                "{piece}"
            );
        }
    };
    let plain = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    let last = "/b h 1.1 200 exact";
    // No text is lost: framing and host beyond the limit are read.
    let request = format!(
        "POST /a HTTP/1.0\r\nX: {long}\r\nHost: h\r\ncontent-LENGTH: 5\r\nY: z\r\n\r\nGET /"
    );
    check(&request, plain, ["/a h 1.0 200 exact", last], 1);
    let response = format!(
        "HTTP/1.1 201 {long}\r\nTransfer-Encoding:\r\n chunked\r\n\r\n3\r\nHTT\r\n0\r\n\r\n"
    );
    check(
        "GET /a HTTP/1.1\r\n\r\n",
        &response,
        ["/a - 1.1 201 exact", last],
        1,
    );
    let cookies = format!("Set-Cookie: {}\r\n", "a".repeat(99)).repeat(900);
    let response = format!("HTTP/1.1 200 OK\r\n{cookies}Content-Length: 9\r\n\r\nHTTP/1.1 ");
    check(
        "GET /a HTTP/1.1\r\n\r\n",
        &response,
        ["/a - 1.1 200 exact", last],
        1,
    );
    // A line across the limit.
    let at = |n: usize| {
        format!(
            "GET /a HTTP/1.1\r\nX: {}\r\nContent-Length: 12\r\n\r\nGET / HTTP/1",
            "a".repeat(n)
        )
    };
    for n in super::byte_stream::HEAD_BYTES_MAX - 60..super::byte_stream::HEAD_BYTES_MAX {
        check(
            &at(n),
            plain,
            ["/a - 1.1 200 exact", last],
            u64::from(n + 22 > super::byte_stream::HEAD_BYTES_MAX),
        );
    }
    // A cut path is not exact.
    let path = format!("/{}", &long[..super::byte_stream::HEAD_BYTES_MAX - 5]);
    let cut = format!("{path} - 1.1 200 gap_body");
    check(
        &format!("GET /{long} HTTP/1.1\r\n\r\n"),
        plain,
        [&cut, last],
        1,
    );
    let agents = format!("User-Agent: {long}\r\n");
    check(
        &format!("GET /a HTTP/1.1\r\n{agents}\r\n"),
        plain,
        ["/a - 1.1 200 gap_body", last],
        1,
    );
}

#[test]
fn bodies_that_a_fin_cuts_short() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for (response, quality) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello",
            "gap_body",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n", "gap_body"),
        (chunked, "gap_body"),
        ("HTTP/1.1 200 OK\r\n\r\nhello", "exact"),
    ] {
        check(
            &[get("/"), s(response), HttpTestStep::End(S)],
            &[&format!("GET h / 200 1000 {quality}")],
        );
    }
    let post = |more: &str| {
        c(format!(
            "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n{more}\r\n"
        ))
    };
    check(
        &[post(""), c("hello"), HttpTestStep::End(C), ok("")],
        &["POST h / 200 2000 gap_body"],
    );
    // The body of a rejected request may be omitted.
    check(
        &[
            post("Expect: 100-continue\r\n"),
            ok(""),
            HttpTestStep::End(C),
        ],
        &["POST h / 200 1000 exact"],
    );
}

#[test]
fn requests_without_responses_are_bounded() {
    let steps: Vec<HttpTestStep> = (0..3000).map(|_| get("/")).collect();
    let mut limited = dialogue(FIELDS);
    limited.limits.outstanding_max = 2000;
    let (rows, counters) = play(limited, &steps);
    assert_eq!((rows.len(), counters.evicted_requests), (3000, 1000));
}

/// `n` pipelined requests and their responses.
fn pipeline(n: usize, outstanding_max: usize) -> (Vec<String>, ParserCounters) {
    let requests: String = (0..n)
        .map(|i| format!("GET /{i} HTTP/1.1\r\nHost: h\r\n\r\n"))
        .collect();
    let response = |i| format!("HTTP/1.1 {} OK\r\nContent-Length: 2\r\n\r\nab", 200 + i % 4);
    let responses: String = (0..n).map(response).collect();
    let mut d = dialogue(&["path", "status", "quality"]);
    d.limits.outstanding_max = outstanding_max;
    let rows = d.pipeline(requests.as_bytes(), responses.as_bytes()).rows();
    (rows, d.counters)
}

#[test]
fn a_pipeline_of_100_000_requests() {
    let (rows, counters) = pipeline(100_000, ParserLimits::default().outstanding_max);
    assert_eq!((rows.len(), counters), (100_000, ParserCounters::default()));
    assert!(
        rows.iter()
            .enumerate()
            .all(|(i, row)| *row == format!("/{i} {} exact", 200 + i % 4))
    );
}

#[test]
fn evicted_requests_are_counted_once() {
    let (rows, counters) = pipeline(5000, 2000);
    assert_eq!(
        (
            rows.len(),
            counters.evicted_requests,
            counters.separated_halves
        ),
        (5000, 3000, 3000)
    );
    for (i, row) in rows.iter().enumerate() {
        let expected = if i < 3000 {
            format!("/{i} - half")
        } else {
            format!("/{i} {} exact", 200 + i % 4)
        };
        assert_eq!(*row, expected);
    }
}

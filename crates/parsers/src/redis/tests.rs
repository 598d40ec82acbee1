//! RESP values, commands and replies as tuples, gaps, and segment boundaries.

use proptest::prelude::*;

use super::*;
use crate::dialogue::ParserDialogue;
use crate::{ProbeContext, ProbeResult};

const C: Direction = Direction::ClientToServer;
const S: Direction = Direction::ServerToClient;
const FIELDS: &[&str] = &[
    "command",
    "key",
    "args",
    "hit",
    "error",
    "push",
    "response_time_ns",
    "quality",
];

fn dialogue() -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, FIELDS)
}

/// A command in array form.
fn command(words: &str) -> String {
    let words: Vec<&str> = words.split(' ').collect();
    let strings = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), strings.collect::<String>())
}

/// An array or push of strings, the last of which may be a number.
fn array(sign: char, words: &str) -> String {
    let value = |word: &str| match word.strip_prefix(':') {
        Some(_) => format!("{word}\r\n"),
        None => format!("${}\r\n{word}\r\n", word.len()),
    };
    let n = words.split(' ').count();
    format!(
        "{sign}{n}\r\n{}",
        words.split(' ').map(value).collect::<String>()
    )
}

/// Each line is a side and its bytes: `C` and `S`; `C!` is a client that has not received the server's bytes.
fn check(talk: &[(&str, String)], expected: &[&str]) {
    let mut dialogue = dialogue();
    for (side, said) in talk {
        match *side {
            "C" => dialogue.client(said),
            "C!" => dialogue.bytes_unheard(C, said.as_bytes()),
            "C-" => dialogue.gap(C, said.len() as u64),
            "S-" => dialogue.gap(S, said.len() as u64),
            _ => dialogue.server(said),
        };
    }
    assert_eq!(dialogue.rows(), expected);
}

fn s(text: &str) -> String {
    text.to_owned()
}

#[test]
fn commands_and_replies() {
    check(
        &[
            ("C", command("set a 1")),
            ("S", s("+OK\r\n")),
            (
                "C",
                command("GET a") + &command("GET b") + &command("HGET h f"),
            ),
            ("S", s("$1\r\n1\r\n$-1\r\n_\r\n")),
            ("C", command("INCR x")),
            ("S", s("-ERR value is not an integer\r\n")),
            ("C", command("LRANGE l 0 -1")),
            (
                "S",
                s("*3\r\n$1\r\na\r\n*2\r\n:1\r\n*0\r\n%1\r\n+k\r\n,1.5\r\n"),
            ),
            ("C", s("PING\r\n\r\nget 'a \"b'\r\n")),
            ("S", s("+PONG\r\n$0\r\n\r\n")),
            ("C", command("QUIT")),
        ],
        &[
            "SET a 2 - - false 1000 exact",
            "GET a 1 true - false 1000 exact",
            "GET b 1 false - false 1000 exact",
            "HGET h 2 false - false 1000 exact",
            "INCR x 1 - ERR value is not an integer false 1000 exact",
            "LRANGE l 3 - - false 1000 exact",
            "PING - 0 - - false 1000 exact",
            "GET a \"b 1 true - false 1000 exact",
            "QUIT - 0 - - - - half",
        ],
    );
}

#[test]
fn transactions() {
    check(
        &[
            (
                "C",
                command("MULTI") + &command("SET a 1") + &command("GET a") + &command("EXEC"),
            ),
            (
                "S",
                s("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n$1\r\n1\r\n"),
            ),
            ("C", command("MULTI") + &command("DISCARD")),
            ("S", s("+OK\r\n+OK\r\n")),
        ],
        &[
            "MULTI - 0 - - false 1000 exact",
            "SET a 2 - - false 1000 exact",
            "GET a 1 - - false 1000 exact",
            "EXEC - 0 - - false 1000 exact",
            "MULTI - 0 - - false 1000 exact",
            "DISCARD - 0 - - false 1000 exact",
        ],
    );
}

#[test]
fn subscriptions_with_resp2() {
    check(
        &[
            ("C", command("SUBSCRIBE a b") + &command("PSUBSCRIBE c*")),
            (
                "S",
                array('*', "subscribe a :1") + &array('*', "subscribe b :2"),
            ),
            ("S", array('*', "psubscribe c* :3")),
            (
                "S",
                array('*', "message a text") + &array('*', "pmessage c* cd text"),
            ),
            (
                "C",
                command("UNSUBSCRIBE")
                    + &command("PING")
                    + &command("PUNSUBSCRIBE c*")
                    + &command("LRANGE l 0 -1"),
            ),
            (
                "S",
                array('*', "unsubscribe b :2")
                    + &array('*', "message a late")
                    + &array('*', "unsubscribe a :1"),
            ),
            (
                "S",
                array('*', "pong ")
                    + &array('*', "punsubscribe c* :0")
                    + &array('*', "message a list"),
            ),
        ],
        &[
            "SUBSCRIBE a 2 - - false 1000 exact",
            "PSUBSCRIBE c* 1 - - false 2000 exact",
            "MESSAGE a - - - true - exact",
            "PMESSAGE cd - - - true - exact",
            "MESSAGE a - - - true - exact",
            "UNSUBSCRIBE - 0 - - false 1000 exact",
            "PING - 0 - - false 2000 exact",
            "PUNSUBSCRIBE c* 1 - - false 2000 exact",
            "LRANGE l 3 - - false 2000 exact",
        ],
    );
}

/// A client subscribes to channels `a b c` and pattern `p*`, a reply is missing, and `rest` follows.
fn subscriptions_after_a_loss(sign: char, rest: &[(&str, String)]) -> Vec<String> {
    let fields = &["command", "response_bytes", "transfer_time_ns", "quality"];
    let mut d = ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
    let ping = pong(sign);
    d.client(command("SUBSCRIBE a b c"));
    d.server(
        ["a :1", "b :2", "c :3"]
            .map(|c| array(sign, &format!("subscribe {c}")))
            .concat(),
    );
    d.client(command("PSUBSCRIBE p*"))
        .server(array(sign, "psubscribe p* :4"));
    for _ in 0..4 {
        d.client(command("PING")).server(&ping);
    }
    d.client(command("PING")).gap(S, ping.len() as u64);
    for _ in 0..16 {
        d.client(command("PING")).server(&ping);
    }
    for (side, said) in rest {
        match *side {
            "C" => d.client(said),
            _ => d.server(said),
        };
    }
    d.client(command("PING")).server(&ping);
    let rows = d.rows();
    rows[23..rows.len() - 1].to_vec()
}

/// The number of subscriptions is unknown after a loss: the reply to UNSUBSCRIBE ends at the next message that does not
/// confirm one subscription less.
#[test]
fn unsubscription_from_an_unknown_number_of_channels() {
    for sign in ['*', '>'] {
        let confirmation =
            |channel: &str, left| array(sign, &format!("unsubscribe {channel} :{left}"));
        let all = confirmation("a", 3) + &confirmation("b", 2) + &confirmation("c", 1);
        let n = all.len();
        let none = format!("{sign}3\r\n$11\r\nunsubscribe\r\n{}:1\r\n", null(sign));
        let ping = pong(sign);
        let last = array(sign, "punsubscribe p* :0");
        let rows = subscriptions_after_a_loss(
            sign,
            &[
                ("C", command("UNSUBSCRIBE") + &command("PING")),
                ("S", all.clone() + &ping),
                ("C", command("UNSUBSCRIBE")),
                ("S", none.clone()),
                ("C", command("PUNSUBSCRIBE")),
                ("S", last.clone()),
            ],
        );
        let expected = [
            format!("UNSUBSCRIBE {n} 0 exact"),
            format!("PING {} 0 exact", ping.len()),
            format!("UNSUBSCRIBE {} 0 exact", none.len()),
            format!("PUNSUBSCRIBE {} 0 exact", last.len()),
        ];
        assert_eq!(rows, expected);
        // The confirmations arrive one by one.
        let rows = subscriptions_after_a_loss(
            sign,
            &[
                ("C", command("UNSUBSCRIBE")),
                ("S", confirmation("a", 3)),
                ("S", confirmation("b", 2)),
                ("S", confirmation("c", 1)),
            ],
        );
        assert_eq!(rows, [format!("UNSUBSCRIBE {n} 2000 exact")]);
    }
}

fn pong(sign: char) -> String {
    if sign == '*' {
        array('*', "pong ")
    } else {
        s("+PONG\r\n")
    }
}

/// Null in RESP2 or RESP3.
fn null(sign: char) -> &'static str {
    if sign == '*' { "$-1\r\n" } else { "_\r\n" }
}

#[test]
fn pushes_of_resp3() {
    check(
        &[
            ("C", command("HELLO 3")),
            ("S", s("%1\r\n$5\r\nproto\r\n:3\r\n")),
            ("C", command("SUBSCRIBE a b") + &command("GET k")),
            (
                "S",
                array('>', "subscribe a :1")
                    + &array('>', "subscribe b :2")
                    + &array('>', "message a x")
                    + "$1\r\nv\r\n",
            ),
            ("S", s(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n")),
            ("C", command("LRANGE l 0 -1")),
            ("S", array('*', "message a list")),
            ("C", command("GET k")),
            ("S", s("|1\r\n+ttl\r\n:3600\r\n!8\r\nERR oops\r\n")),
        ],
        &[
            "HELLO - 1 - - false 1000 exact",
            "SUBSCRIBE a 2 - - false 1000 exact",
            "MESSAGE a - - - true - exact",
            "GET k 1 true - false 1000 exact",
            "INVALIDATE - - - - true - exact",
            "LRANGE l 3 - - false 1000 exact",
            "GET k 1 - - false 1000 exact",
        ],
    );
}

#[test]
fn commands_without_replies() {
    check(
        &[
            (
                "C",
                command("CLIENT REPLY OFF") + &command("SET a 1") + &command("CLIENT REPLY SKIP"),
            ),
            (
                "C",
                command("CLIENT REPLY ON")
                    + &command("CLIENT REPLY SKIP")
                    + &command("SET a 2")
                    + &command("GET a"),
            ),
            ("S", s("+OK\r\n$1\r\n2\r\n")),
        ],
        &[
            "CLIENT - 2 - - - - exact",
            "SET a 2 - - - - exact",
            "CLIENT - 2 - - - - exact",
            "CLIENT - 2 - - - - exact",
            "SET a 2 - - - - exact",
            "CLIENT - 2 - - false 1000 exact",
            "GET a 1 true - false 1000 exact",
        ],
    );
}

#[test]
fn monitor_and_replication() {
    check(
        &[
            ("C", command("MONITOR")),
            (
                "S",
                s("+OK\r\n+1339518083.107412 [0 127.0.0.1:60866] \"keys\" \"*\"\r\n"),
            ),
            ("C", command("PSYNC ? -1")),
            (
                "S",
                s("+FULLRESYNC 8de1787ba490483314a4d30f1c628bc5025eb761 0\r\n"),
            ),
            ("S", s("$10\r\nREDIS0009x*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n")),
            ("C", command("REPLCONF ACK 0")),
        ],
        &[
            "MONITOR - 0 - - false 1000 exact",
            "MONITOR - - - - true - exact",
            "PSYNC - 2 - - false 1000 exact",
        ],
    );
    check(
        &[
            ("C", command("SYNC")),
            ("S", s("\n\n$10\r\nREDIS")),
            ("S", s("0009x*2\r\n")),
        ],
        &["SYNC - 0 - - false 1000 exact"],
    );
}

#[test]
fn missing_bytes_of_long_values_are_passed_over() {
    let long = "x".repeat(5000);
    check(
        &[
            (
                "C",
                s("*4\r\n$4\r\nMSET\r\n$1\r\na\r\n$5000\r\n") + &long[..100],
            ),
            ("C-", s(&long[..4800])),
            ("C", s(&long[..100]) + "\r\n$1\r\nb\r\n" + &command("GET a")),
            ("S", s("+OK\r\n*2\r\n$5000\r\n")),
            ("S-", long.clone() + "\r\n"),
            ("S", s("*1\r\n:1\r\n")),
            ("C", command("GET b")),
            ("S", s("$1\r\nb\r\n")),
        ],
        &[
            "MSET a 3 - - false 1000 gap_body",
            "GET a 1 - - false 1000 gap_body",
            "GET b 1 true - false 1000 exact",
        ],
    );
}

/// The inside of a list looks like replies: after missing bytes in one, nothing is accepted before the next
/// reply.
#[test]
fn missing_bytes_between_values() {
    check(
        &[
            ("C", command("GET a")),
            ("S", s("$1\r\n1\r\n")),
            ("C", command("LRANGE l 0 -1")),
            ("S", s("*4\r\n$1\r\na\r\n")),
            ("S-", s("$1\r\nb\r\n")),
            ("S", s("$1\r\nc\r\n$1\r\nd\r\n")),
            ("C", command("GET b")),
            ("S", s("$1\r\nb\r\n")),
            ("C", command("GET c")),
            ("S", s("$1\r\nc\r\n")),
        ],
        &[
            "GET a 1 true - false 1000 exact",
            "LRANGE l 3 - - false 1000 gap_body",
            "GET b 1 true - false 1000 resync",
            "GET c 1 true - false 1000 exact",
        ],
    );
}

#[test]
fn requests_during_a_partial_head_are_not_losses() {
    check(
        &[
            ("C", command("GET a") + &command("GET b")),
            ("S", s("$1\r\na\r\n$")),
            ("C", command("GET c")),
            ("S", s("1\r\nb\r\n$1\r\nc\r\n")),
        ],
        &[
            "GET a 1 true - false 1000 exact",
            "GET b 1 true - false 1000 exact",
            "GET c 1 true - false 1000 exact",
        ],
    );
}

#[test]
fn probing() {
    let probe = |bytes: &[u8], usual_port, midstream| {
        let context = ProbeContext {
            transport: wire::IpProtocol::TCP,
            usual_port,
            midstream,
            speaker: None,
            answers: false,
        };
        probe::probe(bytes, context)
    };
    let check = |bytes: &str, at_home, away| {
        assert_eq!(
            probe(bytes.as_bytes(), true, false),
            at_home,
            "{bytes:?} on a usual port"
        );
        assert_eq!(
            probe(bytes.as_bytes(), false, false),
            away,
            "{bytes:?} elsewhere"
        );
    };
    use ProbeResult::{NeedMore, NotForUs, Request, Response};
    check(&command("GET a"), Request, Request);
    check("*1\r\n$4\r\nPI", NeedMore, NeedMore);
    check("*1\r\n$4\r\nP I", NeedMore, NotForUs);
    check("*1\r\n$4\r\n\0\0\0\0\r\n", Response, NotForUs);
    check("PING\r\n", Request, NeedMore);
    check("QUIT\r\n", Request, NotForUs);
    check("FAKE it\r\n", NeedMore, NotForUs);
    check("GET / HTTP/1.1\r\n", NotForUs, NotForUs);
    check("+OK\r\n", Response, NotForUs);
    check(&array('*', "message a b"), Response, Response);
    check("* OK IMAP4 ready\r\n", NotForUs, NotForUs);
    check("-----BEGIN", NeedMore, NotForUs);
    // The direction is unknown: a list of strings may be a reply.
    check(&array('*', "alice bob"), NotForUs, NotForUs);
    check(&array('*', "subscribe a :1"), Response, NotForUs);
    assert_eq!(probe(b"PING\r\n", true, true), NotForUs);
}

/// The guide to parsers states the number of lines of this parser.
#[test]
fn page_states_the_size_of_the_parser() {
    let count = |file: &str| {
        let product = file
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        product
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"))
            .count()
    };
    let files = [
        include_str!("../redis.rs"),
        include_str!("resp.rs"),
        include_str!("commands.rs"),
        include_str!("probe.rs"),
        include_str!("redact.rs"),
        include_str!("subscriptions.rs"),
    ];
    let all: usize = files.map(count).iter().sum();
    let page = include_str!("../../../../docs/write-a-parser.md");
    let said = format!("{all} lines without tests and comments");
    assert!(page.contains(&said), "{said}");
}

/// Commands with their replies, and unsolicited messages.
fn exchange() -> impl Strategy<Value = (String, String)> {
    let reply = prop_oneof![
        Just(s("+OK\r\n")),
        "-ERR [a-z ]{0,9}\r\n",
        "[a-z]{0,9}".prop_map(|text| format!("${}\r\n{text}\r\n", text.len())),
        Just(format!("${}\r\n{}\r\n", 3000, "$-1\r\n".repeat(600))),
        Just(s(
            "*3\r\n:1\r\n*2\r\n$-1\r\n%1\r\n+a\r\n|1\r\n+b\r\n_\r\n#t\r\n$2\r\nxy\r\n"
        )),
        Just(format!("*2\r\n${}\r\n{}\r\n:1\r\n", 1500, "y".repeat(1500))),
        Just(array('>', "message a b") + "(123\r\n"),
    ];
    let request = prop_oneof![
        "(GET|SET|lrange) [a-z]{1,5}( [a-z0-9]{1,9}){0,14}".prop_map(|words| command(&words)),
        Just(format!(
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2000\r\n{}\r\n",
            "*1\r\n".repeat(500)
        )),
        Just(s("PING 'x y'\r\n")),
    ];
    (request, reply)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn tuples_do_not_depend_on_segmentation(exchanges in proptest::collection::vec(exchange(), 1..8), n in 1..40usize) {
        let fields = &["command", "key", "args", "hit", "error", "push", "request_bytes", "response_bytes", "quality"];
        let new = || ParserDialogue::new(&PROTOCOL, schema(), ALL, fields);
        let mut whole = new();
        let mut cut = new();
        for (request, response) in &exchanges {
            whole.client(request).server(response);
            request.as_bytes().chunks(n).for_each(|piece| _ = cut.client(piece));
            response.as_bytes().chunks(n).for_each(|piece| _ = cut.server(piece));
        }
        let rows = whole.rows();
        let pushes = exchanges.iter().filter(|e| e.1.starts_with('>')).count();
        prop_assert_eq!(rows.len(), exchanges.len() + pushes);
        prop_assert!(rows.iter().all(|row| row.ends_with("exact")), "{:?}", rows);
        prop_assert_eq!(rows, cut.rows());
    }

    #[test]
    fn nothing_panics(steps in proptest::collection::vec(
        (any::<bool>(), "([*$>%|~!=+:,_#(-][0-9]{1,20}|\r\n|\n|SUBSCRIBE|subscribe|message|CLIENT|REPLY|OFF|PSYNC|[a-z]| ){0,12}", 0..20u64), 0..40,
    )) {
        let mut talk = dialogue();
        for (client, text, gap) in steps {
            let direction = if client { C } else { S };
            talk.bytes(direction, text.as_bytes());
            if gap < 4 {
                talk.gap(direction, if gap == 0 { u64::MAX } else { gap });
            }
        }
        talk.rows();
    }
}

/// `n` pipelined commands and their replies.
fn pipeline(n: usize, outstanding_max: usize) -> (Vec<String>, crate::ParserCounters) {
    let commands: String = (0..n).map(|i| command(&format!("GET {i}"))).collect();
    let replies: String = (0..n)
        .map(|i| {
            if i % 3 == 0 {
                s("$-1\r\n")
            } else {
                s("$1\r\nx\r\n")
            }
        })
        .collect();
    let mut d = ParserDialogue::new(&PROTOCOL, schema(), ALL, &["key", "hit", "quality"]);
    d.limits.outstanding_max = outstanding_max;
    let rows = d.pipeline(commands.as_bytes(), replies.as_bytes()).rows();
    (rows, d.counters)
}

#[test]
fn a_pipeline_of_100_000_commands() {
    let (rows, counters) = pipeline(100_000, crate::ParserLimits::default().outstanding_max);
    assert_eq!(
        (rows.len(), counters),
        (100_000, crate::ParserCounters::default())
    );
    assert!(
        rows.iter()
            .enumerate()
            .all(|(i, row)| *row == format!("{i} {} exact", i % 3 > 0))
    );
}

#[test]
fn evicted_commands_are_counted_once() {
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
            format!("{i} - half")
        } else {
            format!("{i} {} exact", i % 3 > 0)
        };
        assert_eq!(*row, expected);
    }
}

/// One reply in a thousand is missing from a pipeline: every row is correct, and the run time is bounded.
#[test]
fn losses_in_a_long_pipeline() {
    let n = 100_000;
    let mut d = ParserDialogue::new(
        &PROTOCOL,
        schema(),
        ALL,
        &["key", "response_bytes", "quality"],
    );
    let commands: String = (0..n).map(|i| command(&format!("GET {i}"))).collect();
    d.pipeline(commands.as_bytes(), b"");
    for i in 0..n {
        let reply = format!("${}\r\n{}\r\n", 1 + i % 7, "x".repeat(1 + i % 7));
        match i % 1000 {
            999 => d.gap(S, reply.len() as u64),
            _ => d.server(reply),
        };
    }
    let rows = d.rows();
    let commands = rows.iter().filter(|row| !row.starts_with('-')).count();
    assert_eq!(commands, n);
    assert!(rows.len() < 2 * n);
}

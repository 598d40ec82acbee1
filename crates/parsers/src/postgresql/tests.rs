//! Dialogues of a client and a server with the expected tuples: complete, with gaps, and joined midway.

use proptest::prelude::*;

use super::{ALL, PROTOCOL, schema};
use crate::Direction::{ClientToServer, ServerToClient};
use crate::dialogue::ParserDialogue;

const SHOWN: &[&str] = &[
    "quality",
    "command",
    "query",
    "returned_rows",
    "affected_rows",
    "error_code",
    "response_time_ns",
    "total_time_ns",
];

/// A typed message.
fn m(kind: u8, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

fn untyped(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    [&(body.len() as u32 + 4).to_be_bytes()[..], body].concat()
}

fn query(sql: &str) -> Vec<u8> {
    m(b'Q', format!("{sql}\0"))
}

fn parse(name: &str, sql: &str) -> Vec<u8> {
    m(b'P', format!("{name}\0{sql}\0\0\0"))
}

fn bind(portal: &str, statement: &str) -> Vec<u8> {
    m(b'B', format!("{portal}\0{statement}\0\0\0\0\0\0\0"))
}

fn execute(portal: &str) -> Vec<u8> {
    m(b'E', format!("{portal}\0\0\0\0\0"))
}

fn sync() -> Vec<u8> {
    m(b'S', "")
}

fn ready(state: u8) -> Vec<u8> {
    m(b'Z', [state])
}

fn done(tag: &str) -> Vec<u8> {
    m(b'C', format!("{tag}\0"))
}

fn row() -> Vec<u8> {
    m(b'D', [0, 1, 0, 0, 0, 1, b'a'])
}

fn described() -> Vec<u8> {
    m(b'T', [0, 0])
}

fn error(code: &str) -> Vec<u8> {
    m(b'E', format!("SERROR\0VERROR\0C{code}\0Mno\0\0"))
}

fn startup() -> Vec<u8> {
    untyped(b"\0\x03\0\0user\0app\0database\0shop\0application_name\0psql\0\0")
}

fn welcome() -> Vec<u8> {
    [
        m(b'R', [0, 0, 0, 0]),
        m(b'S', "server_version\x0015\0"),
        m(b'K', [0, 0, 0, 7, 0, 0, 0, 9]),
        ready(b'I'),
    ]
    .concat()
}

fn dialogue() -> ParserDialogue {
    ParserDialogue::new(&PROTOCOL, schema(), ALL, SHOWN)
}

/// Plays a login; `rows` of the result begin after its tuple.
fn logged_in(shown: &[&'static str]) -> ParserDialogue {
    let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, shown);
    talk.client(startup()).server(welcome());
    talk
}

#[track_caller]
fn check(talk: &mut ParserDialogue, expected: &[&str]) {
    let rows = talk.rows();
    assert_eq!(rows[1..], *expected);
}

#[test]
fn a_session() {
    let mut talk = dialogue();
    talk.client(untyped([4, 0xd2, 0x16, 0x2f]))
        .server(b"N")
        .client(startup())
        .server(m(b'R', [0, 0, 0, 5, 1, 2, 3, 4]))
        .client(m(b'p', "md5\0"))
        .server(welcome())
        .client(query("SELECT 1;"))
        .server([described(), row(), row(), done("SELECT 2"), ready(b'I')].concat())
        .client(query("INSERT INTO t VALUES (1)"))
        .server([done("INSERT 0 1"), ready(b'T')].concat())
        .client(query("SELECT x"))
        .server([error("42703"), ready(b'E')].concat())
        .client(query(""))
        .server([m(b'I', ""), ready(b'I')].concat())
        .client(m(b'X', ""));
    assert_eq!(
        talk.rows(),
        [
            "exact ssl_request - - - - 1000 1000",
            "exact login - - - - 1000 3000",
            "exact query SELECT 1; 2 - - 1000 1000",
            "exact query INSERT INTO t VALUES (1) - 1 - 1000 1000",
            "exact query SELECT x - - 42703 1000 1000",
            "exact query  - - - 1000 1000",
            "exact terminate - - - - - -",
        ]
    );
    assert!(talk.is_done());
}

#[test]
fn columns_of_the_connection() {
    let mut talk = logged_in(&[
        "user",
        "database",
        "application_name",
        "backend_pid",
        "transaction",
        "fingerprint",
        "summary",
    ]);
    talk.client(query("SELECT a FROM t WHERE \"b\" = 'x' AND c = $$y$$"))
        .server([described(), done("SELECT 0"), ready(b'T')].concat());
    check(
        &mut talk,
        &["app shop psql 7 open SELECT a FROM t WHERE \"b\" = ? AND c = ? SELECT t"],
    );
}

#[test]
fn the_extended_protocol() {
    let mut talk = logged_in(SHOWN);
    talk.client(
        [
            parse("", "SELECT $1"),
            bind("", ""),
            m(b'D', "P\0"),
            execute(""),
            sync(),
        ]
        .concat(),
    )
    .server(
        [
            m(b'1', ""),
            m(b'2', ""),
            described(),
            row(),
            done("SELECT 1"),
            ready(b'I'),
        ]
        .concat(),
    )
    .client([parse("s", "UPDATE t SET a = $1"), m(b'D', "Ss\0"), sync()].concat())
    .server([m(b'1', ""), m(b't', [0, 0]), m(b'n', ""), ready(b'I')].concat())
    .client([bind("p", "s"), execute("p"), sync()].concat())
    .server([m(b'2', ""), done("UPDATE 3"), ready(b'I')].concat())
    .client([bind("", "unknown"), execute(""), sync()].concat())
    .server([m(b'2', ""), done("SELECT 0"), ready(b'I')].concat());
    check(
        &mut talk,
        &[
            "exact execute SELECT $1 1 - - 1000 1000",
            "exact parse UPDATE t SET a = $1 - - - 1000 1000",
            "exact execute UPDATE t SET a = $1 - 3 - 1000 1000",
            "gap_body execute - 0 - - 1000 1000",
        ],
    );
}

#[test]
fn after_an_error_the_rest_of_a_batch_is_skipped() {
    let shown = &[
        "command",
        "query",
        "affected_rows",
        "error_code",
        "skipped",
        "batch_size",
        "statement_name",
        "portal",
        "suspended",
    ];
    let mut talk = logged_in(shown);
    let one = |sql: &str| [parse("", sql), bind("", ""), execute("")].concat();
    let two = [m(b'1', ""), m(b'2', "")].concat();
    talk.client([one("INSERT a"), one("INSERT b"), one("INSERT c"), sync()].concat())
        .server(
            [
                &two[..],
                &done("INSERT 0 1"),
                &m(b'1', ""),
                &error("23505"),
                &ready(b'E'),
            ]
            .concat(),
        )
        .client([parse("", "bad"), bind("", ""), execute(""), sync()].concat())
        .server([error("42601"), ready(b'I')].concat())
        .client([parse("x", "bad"), sync()].concat())
        .server([error("42601"), ready(b'I')].concat())
        .client([parse("x", "good"), bind("p", "x"), execute("p"), sync()].concat())
        .server([&two[..], &row(), &m(b's', ""), &ready(b'T')].concat())
        .client([execute("p"), sync()].concat())
        .server([row(), done("SELECT 1"), ready(b'I')].concat());
    check(
        &mut talk,
        &[
            "execute INSERT a 1 - - 3 - - -",
            "execute INSERT b - 23505 - 3 - - -",
            "execute INSERT c - - true 3 - - -",
            "execute bad - 42601 - - - - -",
            "parse bad - 42601 - - x - -",
            "execute good - - - - x p true",
            "execute good - - - - x p -",
        ],
    );
}

/// The client had received a result of which a later transmission was captured.
#[test]
fn a_statement_behind_a_retransmitted_result_is_not_queued() {
    let mut talk = logged_in(&["query", "response_time_ns", "queued_ns", "service_time_ns"]);
    let one = [done("SELECT 1"), ready(b'I')].concat();
    talk.client(query("SELECT 1")).wait_us(9).server(&one);
    talk.wait_us(-5).client(query("SELECT 2"));
    talk.wait_us(20).server(&one);
    check(
        &mut talk,
        &["SELECT 1 10000 0 10000", "SELECT 2 21000 0 21000"],
    );
}

#[test]
fn statements_behind_others_are_queued() {
    let shown = &[
        "query",
        "response_time_ns",
        "queued_ns",
        "service_time_ns",
        "transfer_time_ns",
    ];
    let mut talk = logged_in(shown);
    talk.client(query("SELECT 1; SELECT 2"));
    talk.wait_us(9)
        .server([described(), row(), done("SELECT 1")].concat());
    talk.wait_us(4).server([described(), row()].concat());
    talk.wait_us(1)
        .server([done("SELECT 1"), ready(b'I')].concat());
    talk.bytes_unheard(ClientToServer, &query("SELECT 3"));
    talk.bytes_unheard(ClientToServer, &query("SELECT 4"));
    talk.server([done("SELECT 0"), ready(b'I')].concat());
    talk.server([done("SELECT 0"), ready(b'I')].concat());
    check(
        &mut talk,
        &[
            "SELECT 1 10000 0 10000 0",
            "SELECT 2 15000 10000 5000 2000",
            "SELECT 3 2000 0 2000 0",
            "SELECT 4 2000 1000 1000 0",
        ],
    );
}

#[test]
fn copies() {
    let shown = &[
        "command",
        "query",
        "returned_rows",
        "affected_rows",
        "copy",
        "copied_bytes",
        "request_bytes",
        "response_bytes",
        "total_time_ns",
    ];
    let mut talk = logged_in(shown);
    talk.client(query("COPY t FROM STDIN"))
        .server(m(b'G', [0, 0, 0]))
        .client([m(b'd', "1\n"), m(b'd', "2\n"), m(b'c', "")].concat())
        .server([done("COPY 2"), ready(b'I')].concat())
        .client(query("COPY t TO STDOUT"))
        .server(
            [
                m(b'H', [0, 0, 0]),
                m(b'd', "1\n"),
                m(b'd', "2\n"),
                m(b'c', ""),
                done("COPY 2"),
                ready(b'I'),
            ]
            .concat(),
        )
        .client(
            [
                parse("", "COPY t FROM STDIN"),
                bind("", ""),
                execute(""),
                sync(),
            ]
            .concat(),
        )
        .server([m(b'1', ""), m(b'2', ""), m(b'G', [0, 0, 0])].concat())
        .client([m(b'd', "1\n"), m(b'c', ""), sync()].concat())
        .server([done("COPY 1"), ready(b'I')].concat())
        .client(query("SELECT 1"))
        .server([described(), row(), done("SELECT 1"), ready(b'I')].concat());
    check(
        &mut talk,
        &[
            "query COPY t FROM STDIN - 2 in 19 23 26 3000",
            "query COPY t TO STDOUT - 2 out - 22 45 1000",
            "execute COPY t FROM STDIN - 1 in 12 54 36 3000",
            "query SELECT 1 1 - - - 14 39 1000",
        ],
    );
}

#[test]
fn a_login_that_is_refused() {
    let mut talk = dialogue();
    talk.client(startup())
        .server(error("28P01"))
        .end(ServerToClient);
    assert_eq!(talk.rows(), ["exact login - - - 28P01 1000 1000"]);
    // The response begins as that of an accepted login.
    let mut talk = dialogue();
    talk.client(startup())
        .server(m(b'R', [0, 0, 0, 5, 1, 2, 3, 4]))
        .client(m(b'p', "md5\0"))
        .server(error("28P01"))
        .end(ServerToClient);
    assert_eq!(talk.rows(), ["exact login - - - 28P01 1000 3000"]);
}

/// A client that has no password leaves, and the server closes the connection. Without that end, more may have followed.
#[test]
fn a_login_without_an_end() {
    let request_for_password = m(b'R', [0, 0, 0, 5, 1, 2, 3, 4]);
    let mut talk = dialogue();
    talk.client(startup()).server(&request_for_password);
    assert_eq!(talk.rows(), ["gap_body login - - - - 1000 -"]);
    let mut talk = dialogue();
    talk.client(startup())
        .server(&request_for_password)
        .end(ServerToClient);
    assert_eq!(talk.rows(), ["exact login - - - - 1000 -"]);
}

#[test]
fn encryption_ends_what_can_be_read() {
    let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, &["command", "encoding"]);
    talk.client(untyped([4, 0xd2, 0x16, 0x2f])).server(b"S");
    assert!(talk.is_done() && talk.hands_over());
    assert_eq!(talk.rows(), ["ssl_request tls"]);
    assert_eq!(talk.counters.encrypted_flows, 1);
}

#[test]
fn a_cancellation_names_its_victim() {
    let mut talk = ParserDialogue::new(
        &PROTOCOL,
        schema(),
        ALL,
        &["quality", "command", "backend_pid"],
    );
    talk.client(untyped([4, 0xd2, 0x16, 0x2e, 0, 0, 0, 7, 0, 0, 0, 9]));
    assert_eq!(talk.rows(), ["exact cancel 7"]);
}

#[test]
fn notices_answer_nothing() {
    let mut talk = logged_in(SHOWN);
    talk.server(m(b'A', b"\0\0\0\x07channel\0\0"))
        .client(query("SET a = 1"))
        .server(
            [
                m(b'N', "SNOTICE\0\0"),
                m(b'S', "a\x001\0"),
                done("SET"),
                ready(b'I'),
            ]
            .concat(),
        )
        .server(m(b'N', "SNOTICE\0\0"))
        .client(query("SELECT 1"))
        .server([described(), done("SELECT 0"), ready(b'I')].concat());
    check(
        &mut talk,
        &[
            "exact query SET a = 1 - - - 1000 1000",
            "exact query SELECT 1 0 - - 1000 1000",
        ],
    );
}

#[test]
fn joined_midway() {
    let mut talk = dialogue().midstream();
    talk.server([row(), done("SELECT 1"), ready(b'I')].concat())
        .client(query("SELECT 1"))
        .server([described(), row(), done("SELECT 1"), ready(b'I')].concat())
        .client([bind("", "s"), execute(""), sync()].concat())
        .server([m(b'2', ""), done("UPDATE 1"), ready(b'I')].concat());
    let rows = talk.rows();
    assert_eq!(rows[rows.len() - 1], "gap_body execute - - 1 - 1000 1000");
    assert!(
        rows.iter()
            .any(|row| row == "midstream query SELECT 1 1 - - 1000 1000"),
        "{rows:?}"
    );
}

#[test]
fn missing_bytes() {
    let mut talk = logged_in(SHOWN);
    // Inside a row.
    let answer = [
        described(),
        m(b'D', [7; 2000]),
        row(),
        done("SELECT 2"),
        ready(b'I'),
    ]
    .concat();
    talk.client(query("SELECT 1")).server(&answer[..500]);
    talk.gap(ServerToClient, 700).server(&answer[1200..]);
    // Over the borders of rows.
    let answer = [row().repeat(100), done("SELECT 100"), ready(b'I')].concat();
    talk.client(query("SELECT 2"))
        .server([described(), row()].concat());
    talk.gap(ServerToClient, 500).server(&answer[500..]);
    talk.client(query("SELECT 3"))
        .server([described(), done("SELECT 0"), ready(b'I')].concat());
    // A request.
    talk.gap(ClientToServer, query("SELECT 4").len() as u64);
    talk.server([described(), done("SELECT 4"), ready(b'I')].concat());
    talk.client(query("SELECT 5"))
        .server([described(), done("SELECT 5"), ready(b'I')].concat());
    check(
        &mut talk,
        &[
            "gap_body query SELECT 1 2 - - 1000 3000",
            "gap_body query SELECT 2 - - - 1000 -",
            "resync query SELECT 3 0 - - 1000 1000",
            "half - - 4 - - - -",
            "resync query SELECT 5 5 - - 1000 1000",
        ],
    );
}

/// The end of a response whose beginning is missing, in two segments.
#[test]
fn a_split_end_after_missing_bytes() {
    let mut talk = logged_in(SHOWN);
    talk.client(query("SELECT 1")).server(described());
    talk.gap(ServerToClient, 500);
    let end = [row(), ready(b'I')].concat();
    let cut = end.len() - 3;
    talk.server(&end[..cut]).server(&end[cut..]);
    talk.client(query("SELECT 2"))
        .server([described(), row(), done("SELECT 1"), ready(b'I')].concat());
    check(
        &mut talk,
        &[
            "gap_body query SELECT 1 - - - 1000 -",
            "resync query SELECT 2 1 - - 1000 1000",
        ],
    );
    assert_eq!(talk.counters.malformed_messages, 0);
}

#[test]
fn batches_of_any_length() {
    let mut talk = logged_in(&["quality", "query", "affected_rows", "batch_size"]);
    let n = 5000;
    let one = [bind("", "s"), execute("")].concat();
    talk.client([parse("s", "INSERT INTO t VALUES ($1)"), sync()].concat())
        .server([m(b'1', ""), ready(b'I')].concat());
    let answer = [m(b'2', ""), done("INSERT 0 1")].concat();
    for part in 0..50 {
        let end = if part == 49 { sync() } else { Vec::new() };
        talk.client([one.repeat(n / 50), end].concat());
        talk.server(answer.repeat(n / 50));
    }
    talk.server(ready(b'I'));
    let rows = talk.rows();
    assert_eq!(rows.len(), 2 + n);
    assert!(
        rows[2..]
            .iter()
            .all(|row| row.starts_with("exact INSERT INTO t VALUES ($1) 1 "))
    );
}

/// A third execution is missing: the number of executions is unknown.
#[test]
fn a_batch_with_a_gap() {
    let mut talk = logged_in(&["command", "batch_size"]);
    let one = [bind("", "s"), execute("")].concat();
    talk.client([parse("s", "INSERT INTO t VALUES ($1)"), sync()].concat())
        .server([m(b'1', ""), ready(b'I')].concat())
        .client(one.repeat(2))
        .gap(ClientToServer, [one, sync()].concat().len() as u64);
    let answer = [m(b'2', ""), done("INSERT 0 1")].concat();
    talk.server([answer.repeat(3), ready(b'I')].concat());
    check(&mut talk, &["parse -", "execute -", "execute -"]);
}

#[test]
fn a_failed_batch_of_any_length() {
    let mut talk = logged_in(&["query", "error_code", "skipped"]);
    let n = 30_000;
    let one = [bind("", "s"), execute("")].concat();
    talk.client([parse("s", "INSERT INTO t VALUES ($1)"), sync()].concat())
        .server([m(b'1', ""), ready(b'I')].concat())
        .client([one.repeat(n), sync()].concat())
        .server([error("22012"), ready(b'I')].concat());
    let rows = talk.rows();
    assert_eq!(rows.len(), 2 + n);
    assert_eq!(rows[2], "INSERT INTO t VALUES ($1) 22012 -");
    assert_eq!(rows[3], "INSERT INTO t VALUES ($1) - true");
    // So far back, an unread Parse may have replaced it.
    assert_eq!(rows[1 + n], "- - true");
}

fn conversation() -> Vec<(crate::Direction, Vec<u8>)> {
    vec![
        (ClientToServer, startup()),
        (ServerToClient, welcome()),
        (ClientToServer, query("SELECT 'a'; SELECT 2")),
        (
            ServerToClient,
            [
                described(),
                row(),
                done("SELECT 1"),
                described(),
                done("SELECT 0"),
                ready(b'I'),
            ]
            .concat(),
        ),
        (
            ClientToServer,
            [
                parse("s", "SELECT $1"),
                bind("", "s"),
                execute(""),
                bind("", "s"),
                execute(""),
                sync(),
            ]
            .concat(),
        ),
        (
            ServerToClient,
            [
                m(b'1', ""),
                m(b'2', ""),
                row(),
                done("SELECT 1"),
                m(b'2', ""),
                error("22012"),
                ready(b'I'),
            ]
            .concat(),
        ),
        (ClientToServer, query("SELECT 9")),
        (
            ServerToClient,
            [described(), row(), done("SELECT 1"), ready(b'I')].concat(),
        ),
    ]
}

const UNTIMED: &[&str] = &[
    "quality",
    "command",
    "query",
    "returned_rows",
    "error_code",
    "skipped",
    "request_bytes",
    "response_bytes",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_segmentation_gives_the_same_tuples(sizes in prop::collection::vec(1usize..40, 1..20), late in any::<bool>()) {
        let play = |sizes: &[usize]| {
            let talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, UNTIMED);
            let mut talk = if late { talk.midstream() } else { talk };
            let mut sizes = sizes.iter().cycle();
            for (direction, bytes) in &conversation()[usize::from(late) * 2..] {
                let mut rest = &bytes[..];
                while !rest.is_empty() {
                    let n = rest.len().min(*sizes.next().expect("a cycle"));
                    talk.bytes(*direction, &rest[..n]);
                    rest = &rest[n..];
                }
            }
            talk.rows()
        };
        prop_assert_eq!(play(&sizes), play(&[100_000]));
    }

    #[test]
    fn a_gap_never_mispairs(at in 2usize..8, skip in 1usize..60, from in 0usize..60) {
        let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, &["quality", "query", "returned_rows", "error_code"]);
        let whole = {
            let mut talk = ParserDialogue::new(&PROTOCOL, schema(), ALL, &["query", "returned_rows", "error_code"]);
            for (direction, bytes) in conversation() {
                talk.bytes(direction, &bytes);
            }
            talk.rows()
        };
        for (i, (direction, bytes)) in conversation().into_iter().enumerate() {
            if i == at {
                let from = from.min(bytes.len());
                let to = (from + skip).min(bytes.len());
                if from > 0 {
                    talk.bytes(direction, &bytes[..from]);
                }
                talk.gap(direction, (to - from) as u64);
                if to < bytes.len() {
                    talk.bytes(direction, &bytes[to..]);
                }
            } else {
                talk.bytes(direction, &bytes);
            }
        }
        for row in talk.rows() {
            let (quality, values) = row.split_once(' ').expect("several columns");
            if ["exact", "untimed"].contains(&quality) {
                prop_assert!(whole.iter().any(|row| row == values), "{} of {:?}", row, whole);
            }
        }
    }

    #[test]
    fn any_bytes_are_read(says in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..60), 0u64..40), 0..20), late in any::<bool>()) {
        let talk = dialogue();
        let mut talk = if late { talk.midstream() } else { talk };
        for (up, bytes, gap) in says {
            let direction = if up { ClientToServer } else { ServerToClient };
            talk.bytes(direction, &bytes);
            talk.gap(direction, gap);
        }
        talk.rows();
    }
}

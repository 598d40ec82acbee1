//! Captures that once produced wrong results (`shared/data/found` next to the checkout; its README describes them). The
//! expected result comes from the undamaged file, from the file with its damage undone here, or from rules that the
//! bytes on the wire must satisfy. All use the program's own path.

use std::path::{Path, PathBuf};

use accuracy::job::observe;
use accuracy::observed::ObservedValue;
use accuracy::recording::for_each_packet;
use accuracy::{GroundTruth, ObservedTuple, PacketRecording};
use wire::{CapturedPacket, Timestamp};

const MS: i64 = 1_000_000;
/// A recording shifts packets with equal timestamps by up to this, so that each time identifies one packet.
const AS_WRITTEN: i64 = 10_000;

/// Source of the expected result.
enum Undamaged {
    /// Another file, without the damage.
    File(&'static str),
    /// The original bytes of packets, counted from one.
    Bytes(&'static [(usize, usize, u8)]),
    /// The clock was set back by this amount from these packets on.
    ClockBack(&'static [usize], i64),
}

struct Case {
    file: &'static str,
    parser: &'static str,
    undamaged: Undamaged,
    /// Tolerance of times.
    tolerance: i64,
    /// Minimum number of exact transactions in the undamaged file.
    transactions: usize,
    /// Minimum percentage found of the findable transactions.
    found: usize,
}

fn found(file: &str) -> Option<PathBuf> {
    Some(testkit::corpus()?.join("found").join(file))
}

/// The recording with its damage undone.
fn undamaged(path: &Path, undamaged: &Undamaged) -> PacketRecording {
    let (edits, steps, back): (&[_], &[usize], i64) = match undamaged {
        Undamaged::File(file) => {
            let other = path.with_file_name(file);
            return PacketRecording::load(&other, usize::MAX).expect("a capture");
        }
        Undamaged::Bytes(edits) => (edits, &[], 0),
        Undamaged::ClockBack(steps, back) => (&[], steps, *back),
    };
    let mut recording = PacketRecording::new();
    let mut n = 0;
    for_each_packet(path, |captured| {
        n += 1;
        let mut bytes = captured.bytes.to_vec();
        for (_, at, byte) in edits.iter().filter(|(packet, ..)| *packet == n) {
            bytes[*at] = *byte;
        }
        let back = back * steps.iter().filter(|from| **from <= n).count() as i64;
        recording.push(&CapturedPacket {
            bytes: &bytes,
            ts: Timestamp(captured.ts.0 + back),
            ..*captured
        });
        true
    })
    .expect("a capture");
    recording
}

fn check(case: &Case) {
    let Some(path) = found(case.file) else { return };
    let recording = undamaged(&path, &case.undamaged);
    let truth = GroundTruth::of(&recording, case.parser);
    let (transactions, unplaced) = truth.size();
    assert!(
        transactions >= case.transactions && unplaced == 0,
        "{}: {transactions}, {unplaced}",
        case.file
    );
    let mut seen = recording.seen_in(&path).expect("a capture");
    if let Undamaged::Bytes(edits) = case.undamaged {
        // A packet with a damaged header is restored; one with a damaged payload is not judged.
        for (packet, ..) in edits {
            seen[*packet - 1].packet = *packet - 1;
            seen[*packet - 1].kind = accuracy::PacketDamage::DamagedPayload;
        }
    }
    for workers in [1, 2] {
        let (told, ended) = observe(&path, case.parser, workers);
        assert!(
            ended.panics.is_empty() && ended.accounting.adds_up(),
            "{}",
            case.file
        );
        let count = truth.judge(&told, &seen, case.tolerance);
        let some: Vec<String> = count
            .faults
            .iter()
            .take(3)
            .map(ToString::to_string)
            .collect();
        let n = count.faults.len();
        assert!(
            n == 0,
            "{}: {n} of {} are wrong:\n{}",
            case.file,
            told.len(),
            some.join("\n")
        );
        let findable = count.findable;
        let found = count.found;
        assert!(
            found * 100 >= findable * case.found,
            "{}: {found} of {findable} are found",
            case.file
        );
    }
}

#[test]
fn a_request_is_missing() {
    check(&Case {
        file: "mysql_one_lost_min.pcap.gz",
        parser: "mysql_query",
        undamaged: Undamaged::File("mysql_one_lost_min.undamaged.pcap.gz"),
        tolerance: AS_WRITTEN,
        transactions: 1362,
        found: 95,
    });
}

#[test]
fn a_request_is_late() {
    check(&Case {
        file: "mc_late_request_min.pcap",
        parser: "memcached",
        undamaged: Undamaged::File("mc_late_request_min.undamaged.pcap"),
        tolerance: 2 * MS + AS_WRITTEN,
        transactions: 3,
        found: 95,
    });
}

#[test]
fn the_file_is_out_of_order() {
    check(&Case {
        file: "http_reord_min.pcap",
        parser: "http",
        undamaged: Undamaged::File("http_reord_min.undamaged.pcap"),
        tolerance: AS_WRITTEN,
        transactions: 7,
        found: 95,
    });
}

#[test]
fn the_clock_steps_back() {
    check(&Case {
        file: "mc_clockback.pcap",
        parser: "memcached",
        undamaged: Undamaged::ClockBack(&[53, 105], 30 * MS),
        tolerance: 60 * MS + AS_WRITTEN,
        transactions: 91,
        found: 95,
    });
}

#[test]
fn an_acknowledgment_is_damaged() {
    check(&Case {
        file: "mc_ack_damaged.pcap",
        parser: "memcached",
        undamaged: Undamaged::Bytes(&[(101, 43, 0x63)]),
        tolerance: AS_WRITTEN,
        transactions: 91,
        found: 95,
    });
}

#[test]
fn a_length_is_damaged() {
    check(&Case {
        file: "mc_body_length_damaged.pcap",
        parser: "memcached",
        undamaged: Undamaged::Bytes(&[(101, 74, 0)]),
        tolerance: AS_WRITTEN,
        transactions: 91,
        found: 0,
    });
}

/// The capture with an inserted SYN is stored with the others.
const KEEPALIVE: &str = "../live-captures/http_keepalive.pcap.gz";

#[test]
fn the_server_seems_to_open_a_connection() {
    check(&Case {
        file: "syn_from_server_next.pcap.gz",
        parser: "http",
        undamaged: Undamaged::File(KEEPALIVE),
        tolerance: AS_WRITTEN,
        transactions: 717,
        found: 95,
    });
}

#[test]
fn the_client_seems_to_open_a_connection() {
    check(&Case {
        file: "syn_from_client_random.pcap.gz",
        parser: "http",
        undamaged: Undamaged::File(KEEPALIVE),
        tolerance: AS_WRITTEN,
        transactions: 717,
        found: 95,
    });
}

fn told(file: &str, parser: &str) -> Vec<ObservedTuple> {
    found(file).map_or_else(Vec::new, |path| observe(&path, parser, 1).0)
}

fn number(told: &ObservedTuple, field: &str) -> Option<i128> {
    match told.value(field)? {
        ObservedValue::Number(n) => Some(*n),
        ObservedValue::Text(_) => None,
    }
}

fn text<'a>(told: &'a ObservedTuple, field: &str) -> Option<&'a str> {
    match told.value(field)? {
        ObservedValue::Text(text) => Some(text),
        ObservedValue::Number(_) => None,
    }
}

#[test]
fn a_request_in_a_syn() {
    let Some(_) = found("") else { return };
    // According to tshark, frame 1 is a SYN with GET /index.php, frame 3 the response: 400, 157 bytes of content.
    let all = told("tfo_3frames.pcap", "http");
    assert_eq!(all.len(), 1);
    let pair = &all[0];
    assert!(!pair.is_half(), "{pair}");
    assert_eq!((pair.client.port, pair.server.port), (56288, 80));
    assert_eq!(text(pair, "path"), Some("/index.php"));
    assert_eq!(
        (number(pair, "status"), number(pair, "response_bytes")),
        (Some(400), Some(157))
    );
}

/// The length of a captured statement equals that of its packet minus five bytes of header and command.
fn statements_are_whole(told: &[ObservedTuple]) {
    for one in told.iter().filter(|t| text(t, "command") == Some("query")) {
        if let (Some(query), Some(bytes)) = (text(one, "query"), number(one, "request_bytes")) {
            assert_eq!(query.len() as i128 + 5, bytes, "{one}");
        }
        assert!(
            text(one, "query").is_some() || text(one, "fingerprint").is_none(),
            "{one}"
        );
    }
}

#[test]
fn packets_are_cut() {
    let told = told("mysql_snap128.pcap", "mysql_query");
    statements_are_whole(&told);
    for one in &told {
        // The databases that the login and the commands select.
        let known = [None, Some("shop"), Some("mysql")];
        assert!(known.contains(&text(one, "database")), "{one}");
        // Headers take 66 of the 128 captured bytes of a packet.
        let whole = |field| number(one, field).is_none_or(|bytes| bytes <= 62);
        assert!(!one.is_exact() || whole("request_bytes"), "{one}");
    }
}

#[test]
fn a_statement_with_a_hole() {
    statements_are_whole(&told("mysql_cut_statement.pcap.gz", "mysql_query"));
}

#[test]
fn halves_of_meta_commands() {
    const SAY_OK: &[&str] = &[
        "incr",
        "decr",
        "flush_all",
        "stats",
        "version",
        "verbosity",
        "mn",
        "ma",
    ];
    for one in told("mc_mg_half.pcap.gz", "memcached") {
        let says_ok = text(&one, "status") == Some("ok");
        let command = text(&one, "command");
        assert!(
            !says_ok || command.is_some_and(|command| SAY_OK.contains(&command)),
            "{one}"
        );
    }
}

#[test]
fn times_jump() {
    for file in ["workers_time_jumps.pcap", "jump.pcap"] {
        let Some(path) = found(file) else { return };
        for parser in ["flow", "tcp_conn_time", "tcp_flow_key", "http"] {
            let (alone, ended) = observe(&path, parser, 1);
            for _ in 0..20 {
                let (together, shared) = observe(&path, parser, 2);
                assert_eq!(alone, together, "{file}, {parser}");
                assert_eq!(
                    ended.accounting.flows.opened, shared.accounting.flows.opened,
                    "{file}, {parser}"
                );
            }
        }
    }
}

/// Rows of a file: quality and selected fields.
fn rows_of(file: &str, parser: &str, fields: &[&str]) -> Option<Vec<String>> {
    let (told, _) = observe(&found(file)?, parser, 1);
    let row = |one: &ObservedTuple| {
        let values = fields.iter().map(|field| {
            one.value(field)
                .map_or("-".to_owned(), ObservedValue::to_string)
        });
        format!("{} {}", values.collect::<Vec<_>>().join(" "), one.quality)
    };
    Some(told.iter().map(row).collect())
}

#[test]
fn a_client_sends_while_responses_are_outstanding() {
    let Some(rows) = rows_of(
        "redis_async_s2c3.pcap",
        "redis",
        &["args", "hit", "response_bytes"],
    ) else {
        return;
    };
    assert!(
        rows.iter()
            .all(|row| row.contains("half") || !row.contains("216")),
        "{rows:#?}"
    );
}

#[test]
fn a_body_quotes_a_response_head() {
    for file in ["http_quoted_head_lost.pcap", "http_quoted_whole.pcap"] {
        let Some(rows) = rows_of(file, "http", &["path", "status", "response_bytes"]) else {
            return;
        };
        assert!(
            rows.iter().all(|row| !row.contains("503")),
            "{file}: {rows:#?}"
        );
    }
}

#[test]
fn the_clock_goes_back_while_requests_are_outstanding() {
    let fields = ["path", "status", "response_bytes"];
    let Some(rows) = rows_of("http_clockback_wrongpair.pcap", "http", &fields) else {
        return;
    };
    let of_another = |row: &&String| {
        row.starts_with("/r/3-13 ") && !row.ends_with("half") && !row.contains("200 17")
    };
    assert_eq!(rows.iter().find(of_another), None);
}

/// Heads of up to 70 kB: with more than the limit of 64 KiB, a path that was cut is not exact, other rows have all their values, and the
/// messages after such a head have their rows.
#[test]
fn heads_beyond_the_limit() {
    let Some(_) = found("") else { return };
    let mut told = told("http_heads.pcap.gz", "http");
    told.sort_by_key(|one| one.ts);
    // The length of the path, and whether the path is within the limit. The third row and the last but one have cookies beyond
    // the limit, which no default column contains.
    let expected = [
        (5, true),
        (7, true),
        (7, true),
        (5, true),
        (102, true),
        (5002, true),
        (20_002, true),
        (70_002, false),
        (202, true),
        (8, true),
        (6, true),
    ];
    assert_eq!(told.len(), expected.len());
    for (one, (path, is_exact)) in told.iter().zip(expected) {
        let is_path_whole = text(one, "path").map(str::len) == Some(path);
        assert_eq!(number(one, "status"), Some(200), "{one}");
        assert_eq!(text(one, "host"), Some("a"), "{one}");
        assert_eq!(number(one, "request_bytes"), Some(0), "{one}");
        assert_eq!(number(one, "response_bytes"), Some(2), "{one}");
        assert_eq!(
            (one.is_exact(), is_path_whole),
            (is_exact, is_exact),
            "{one}"
        );
    }
}

/// Three thousand statements are prepared, then each is executed.
#[test]
fn many_prepared_statements() {
    let Some(_) = found("") else { return };
    let told = told("mysql_stmts.pcap.gz", "mysql_query");
    let of = |command: &'static str| {
        let rows = told
            .iter()
            .filter(move |one| text(one, "command") == Some(command));
        rows.map(|one| (one.is_exact(), text(one, "query")))
            .collect::<Vec<_>>()
    };
    let prepared = of("stmt_prepare");
    assert_eq!(prepared.len(), 3000);
    assert!(
        prepared
            .iter()
            .all(|(is_exact, query)| *is_exact && query.is_some())
    );
    assert_eq!(of("stmt_execute"), prepared);
}

/// According to tshark, `dir_wcc` says 4096 bytes and 100.000000005 s.
#[test]
fn attributes_before_a_creation() {
    let fields = ["procedure", "size_before", "mtime_before"];
    let Some(rows) = rows_of("nfs_create_wcc.pcap", "nfs", &fields) else {
        return;
    };
    let right = [
        "CREATE 4096 100000000005 exact",
        "MKDIR 4096 100000000005 exact",
    ];
    assert_eq!(rows, right);
}

/// The head of a WRITE is lost, and its data contain a call with xid 7777.
#[test]
fn a_file_contains_a_call() {
    let Some(_) = found("") else { return };
    let told = told("nfs_embedded_call_lost.pcap.gz", "nfs");
    assert_eq!(
        told.iter().find(|one| number(one, "xid") == Some(7777)),
        None
    );
    let answered = told.iter().filter(|one| {
        text(one, "procedure") == Some("GETATTR") && text(one, "status") == Some("ok")
    });
    // As many as tshark pairs.
    assert_eq!(answered.count(), 120);
}

/// Fractions of nanoseconds under the magic number of microseconds.
#[test]
fn nanoseconds_in_a_file_of_microseconds() {
    let file = "bugs/pcap_nanoseconds_under_micro_magic.pcap";
    let Some(_) = found("") else { return };
    let times: Vec<_> = told(file, "http")
        .iter()
        .map(|one| one.response_time)
        .collect();
    let ms = |time: &Option<i64>| time.map(|time| (time + MS / 2) / MS);
    assert_eq!(
        times.iter().map(ms).collect::<Vec<_>>(),
        [Some(50), Some(80)]
    );
}

//! Compares `dns` with `dns.tsv` of every capture that has one: each query and its response by id, name, type, response
//! code, number of answers, truncation, retries, and times in nanoseconds. Differences are listed in [`DIFFERENCES`]
//! and explained in `docs/truth/dns.md`.

use std::collections::HashSet;
use std::path::Path;

use crate::support::{
    Difference, EVERYWHERE, Row, as_known, compare_captures, nanos, run, truth, unmatched,
    with_losses,
};

/// Known differences and their reasons.
const DIFFERENCES: &[Difference] = &[
    Difference {
        capture: "suricata-dns-corrupt-additionals.pcap",
        why: "tshark pairs no answer of which a record after the answers is malformed",
        count: (2, 1),
        digest: 0x92f1_0506_8efc_7dd4,
    },
    Difference {
        capture: "ndpi-fuzz-2006-06-26-2594.pcap",
        why: "messages with changed bytes whose header or question makes no sense are not taken for DNS",
        count: (108, 27),
        digest: 0x8674_3f2e_04d1_9ecb,
    },
    Difference {
        capture: "mercury-capture2.pcap.gz",
        why: "packets captured twice are no retries",
        count: (3, 3),
        digest: 0x12f3_fb6f_8934_8ad3,
    },
    Difference {
        capture: "swap.pcap",
        why: "an answer captured before its question finds it",
        count: (2, 1),
        digest: 0x2929_33a9_413b_43c7,
    },
];

/// A repeated query within this time is a retry of the first.
const PATIENCE_NS: i64 = 30_000_000_000;

#[test]
fn questions_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 3000, |capture, name| {
        // Duplicate packets do not change the truth.
        let told = if name == "dup.pcap" {
            &capture.with_file_name("base.pcap")
        } else {
            capture
        };
        let expected = truth(told, "dns.tsv").unwrap_or_default();
        as_known(name, &differences(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

/// With any packets missing, a response belongs to its own query, with the values and the end of the complete capture.
/// If the first transmission of a query is missing, the second counts.
#[test]
fn lost_packets_leave_no_wrong_pairs() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let what = |row: &Row| {
        let fields = [
            "client_port",
            "server_port",
            "transaction_id",
            "query_name",
            "query_type",
            "response_code",
        ];
        let fields = fields.map(|field| row.get(field).cloned().unwrap_or_default());
        let time = row
            .get("response_time_ns")
            .map(|time| time.parse::<i64>().expect("a number"));
        let answered = time.map(|time| row["ts"].parse::<i64>().expect("a number") + time);
        format!("{fields:?} {answered:?}")
    };
    let is_pair = |row: &&Row| row.contains_key("retries") && row.contains_key("response_time_ns");
    for name in [
        "live-captures/dns.pcap",
        "captures/dns/pcpp-DnsPackets.pcap",
    ] {
        let capture = root.join(name);
        let rows = run(&capture, "dns").rows;
        let whole: HashSet<String> = rows.iter().filter(is_pair).map(what).collect();
        let mut found = [0; 100];
        with_losses(&capture, "dns", |loss, rows| {
            for row in rows.iter().filter(is_pair) {
                // The first segment of a message over TCP may be lost; the tuple is then marked.
                assert!(
                    whole.contains(&what(row)) || row["transport"] == "tcp",
                    "{name}: {row:?}"
                );
                found[(loss * 100.0).round() as usize] += 1;
            }
        });
        let share = |percent: usize| f64::from(found[percent]) / 10.0 / whole.len() as f64;
        assert!(
            share(1) > 0.96 && share(15) > 0.65,
            "{name}: {} {}",
            share(1),
            share(15)
        );
    }
}

/// Rows on one side only: `-` truth, `+` ours.
fn differences(capture: &Path, truth: &[Row]) -> Vec<String> {
    let rows = run(capture, "dns").rows;
    let ours = rows.iter().map(of_tuple);
    unmatched(questions(truth), ours, Told::is_told_by, Told::text)
}

/// A query and its response.
struct Told {
    /// All fields except times.
    what: String,
    tcp: bool,
    ts: i64,
    time: Option<i64>,
    end: Option<i64>,
}

impl Told {
    /// For messages over TCP, the truth has only the time of the last segment.
    fn is_told_by(&self, ours: &Told) -> bool {
        let same = (self.ts, self.time) == (ours.ts, ours.time);
        let split = self.tcp && ours.ts <= self.ts && ours.time <= self.time;
        self.what == ours.what
            && self.end.is_none_or(|end| Some(end) == ours.end)
            && (same || split)
    }

    fn text(&self) -> String {
        format!(
            "{} at {} {}",
            self.what,
            self.ts,
            self.time.map_or("~".into(), |time| time.to_string())
        )
    }
}

/// A query in the truth: the frames that carried it, and its outcome.
struct Asked<'a> {
    frames: Vec<&'a str>,
    row: &'a Row,
    last_sent: i64,
    answer: Option<&'a Row>,
}

/// Combines the truth's rows per message into queries; each row names the frame of its query. The truth treats a
/// repeated query as new after five seconds; here it is a retry.
fn questions(truth: &[Row]) -> Vec<Told> {
    let mut questions = Vec::<Asked<'_>>::new();
    let mut alone = Vec::new();
    for row in truth.iter().filter(|row| !is_of_a_group(row)) {
        let ts = nanos(&row["t"]);
        if row["response"] == "0" {
            let again = |asked: &&mut Asked<'_>| {
                asked.answer.is_none()
                    && is_same(asked.row, row)
                    && ts - asked.last_sent <= PATIENCE_NS
            };
            match questions.iter_mut().rev().find(again) {
                Some(asked) => {
                    asked.frames.push(&row["frame"]);
                    asked.last_sent = ts;
                }
                None => questions.push(Asked {
                    frames: vec![&row["frame"]],
                    row,
                    last_sent: ts,
                    answer: None,
                }),
            }
            continue;
        }
        let asked_in = row.get("query_frame").map_or("", |frame| frame);
        let asked =
            |asked: &&mut Asked<'_>| asked.frames.contains(&asked_in) && is_same(asked.row, row);
        match questions.iter_mut().find(asked) {
            Some(Asked {
                answer: answer @ None,
                ..
            }) => *answer = Some(row),
            // Already answered.
            _ if row.contains_key("retransmission") => {}
            _ => alone.push(of_truth(None, Some(row), 0)),
        }
    }
    let retries = |asked: &Asked<'_>| asked.frames.len() - 1;
    questions
        .iter()
        .map(|asked| of_truth(Some(asked.row), asked.answer, retries(asked)))
        .chain(alone)
        .collect()
}

/// Whether two messages are about the same question. A server may change the case of letters.
fn is_same(a: &Row, b: &Row) -> bool {
    let name = |row: &Row| row.get("name").map(|name| name.to_ascii_lowercase());
    ["client", "cport", "server", "sport", "id", "type"]
        .iter()
        .all(|field| a.get(*field) == b.get(*field))
        && name(a) == name(b)
}

/// Multicast DNS and LLMNR.
fn is_of_a_group(row: &Row) -> bool {
    let ports = [&*row["cport"], &*row["sport"]];
    let group = ["224.0.0.", "ff02:", "239."]
        .iter()
        .any(|prefix| row["server"].starts_with(prefix));
    ports == ["5353", "5353"] || ports.contains(&"5355") || group
}

fn of_truth(asked: Option<&Row>, answer: Option<&Row>, retries: usize) -> Told {
    let any = asked.or(answer).expect("a question or an answer");
    let field = |row: Option<&Row>, name: &str| row.and_then(|row| row.get(name)).cloned();
    let id = u16::from_str_radix(any["id"].trim_start_matches("0x"), 16).expect("an id");
    let name = field(Some(any), "name").map(|name| match &*name {
        "<Root>" => ".".to_owned(),
        name => name.to_ascii_lowercase(),
    });
    const CODES: [&str; 6] = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED",
    ];
    let code = |code: String| match code.parse::<usize>().ok().and_then(|code| CODES.get(code)) {
        Some(name) => (*name).to_owned(),
        None => code,
    };
    let ts = nanos(&any["t"]);
    let what = shown([
        Some(format!("{}:{}", any["client"], any["cport"])),
        Some(format!("{}:{}", any["server"], any["sport"])),
        Some(any["transport"].clone()),
        Some(id.to_string()),
        name,
        field(Some(any), "type").map(|kind| if kind == "*" { "ANY".to_owned() } else { kind }),
        field(answer, "rcode").map(code),
        field(answer, "answers"),
        answer.map(|answer| answer.contains_key("truncated").to_string()),
        asked.map(|_| retries.to_string()),
    ]);
    // Without a captured query there is no end time: the response may have been held back while waiting for the query.
    let end = asked.and(answer).map(|answer| nanos(&answer["t"]));
    let time = end.map(|end| end - ts);
    Told {
        what,
        tcp: any["transport"] == "tcp",
        ts,
        time,
        end,
    }
}

fn of_tuple(row: &Row) -> Told {
    let field = |name: &str| row.get(name).cloned();
    let end = |end: &str| {
        Some(format!(
            "{}:{}",
            row[&format!("{end}_ip")],
            row[&format!("{end}_port")]
        ))
    };
    let what = shown([
        end("client"),
        end("server"),
        field("transport"),
        field("transaction_id"),
        field("query_name").map(|name| as_the_truth(&name)),
        field("query_type"),
        field("response_code"),
        field("answer_count"),
        field("truncated"),
        field("retries"),
    ]);
    let number = |name: &str| row.get(name).map(|n| n.parse::<i64>().expect("a number"));
    let ts = number("ts").expect("a time");
    Told {
        what,
        tcp: row["transport"] == "tcp",
        ts,
        time: number("response_time_ns"),
        end: number("ts_end"),
    }
}

/// Escapes unprintable characters like tshark.
fn as_the_truth(name: &str) -> String {
    let mut parts = name.split('\\');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.get(..3).and_then(|digits| digits.parse::<u32>().ok());
        out += &number.map_or(part.to_owned(), |_| format!("\u{fffd}{}", &part[3..]));
    }
    out
}

/// One line; `~` for an absent value.
fn shown(cells: [Option<String>; 10]) -> String {
    cells
        .map(|cell| {
            cell.filter(|text| !text.is_empty())
                .unwrap_or("~".to_owned())
        })
        .join(" ")
}

/// Captures that once produced wrong results; the expected values come from the bytes on the wire.
#[test]
fn unusual_messages_are_paired() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (file, pairs) in [("dns_z_bit.pcap", 3), ("dns_two_questions.pcap", 2)] {
        let found = run(&root.join("found/bugs").join(file), "dns");
        let exact = found
            .rows
            .iter()
            .filter(|row| row["quality"] == "exact" && row.contains_key("response_time_ns"));
        assert_eq!(
            (exact.count(), found.rows.len()),
            (pairs, pairs),
            "{file}: {:?}",
            found.rows
        );
        assert_eq!(found.accounting.parsers.malformed_messages, 0, "{file}");
    }
}

#[test]
fn five_thousand_questions_at_once_are_five_thousand() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let found = run(&root.join("found/dns_out5000.pcap.gz"), "dns");
    assert_eq!(found.rows.len(), 5000);
    assert!(found.rows.iter().all(|row| row["quality"] == "exact"));
}

/// If only responses are captured, flows and messages agree on the client.
#[test]
fn client_is_known_from_answers_alone() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let capture = root.join("found/bugs/dns_responses_only_roles.pcap");
    for parser in ["dns", "flow"] {
        for row in run(&capture, parser).rows {
            let server = (row["server_ip"].as_str(), row["server_port"].as_str());
            assert_eq!(server, ("10.9.0.2", "53"), "{parser}: {row:?}");
            assert_eq!(
                row["client_guessed"], "false",
                "{parser}: its own messages say it"
            );
        }
    }
}

//! Compares `tls` with `tls.tsv` of every capture that has one: each handshake with host, protocols, version, cipher
//! suite, alert, and times in microseconds (the truth's resolution); and no tuples for captures without TLS.
//! Differences are listed in [`DIFFERENCES`] and explained in `docs/truth/tls.md`.

use crate::support::{
    Difference, EVERYWHERE, Row, as_known, compare_captures, nanos, run, truth, unmatched,
    with_losses,
};

/// Known differences and their reasons.
const DIFFERENCES: &[Difference] = &[
    Difference {
        capture: "mercury-capture2.pcap.gz",
        why: "captured on both sides of a device that numbers the server's bytes anew: two connections by their numbers",
        count: (9, 18),
        digest: 0x72f5_6f93_ec5e_35d9,
    },
    Difference {
        capture: "retina-tls_ciphers.pcap",
        why: "a ClientHello in the form of SSL 2.0 is not read",
        count: (3, 3),
        digest: 0xca4c_2ed1_e47b_9e18,
    },
    Difference {
        capture: "wswiki-rsasnakeoil2.pcap",
        why: "a ClientHello in the form of SSL 2.0 is not read",
        count: (1, 1),
        digest: 0x3acf_659d_2f0d_1799,
    },
];

#[test]
fn handshakes_agree_with_the_truth() {
    compare_captures(EVERYWHERE, 200, |capture, name| {
        let expected = truth(capture, "tls.tsv").unwrap_or_default();
        // Connections joined midstream have no tuple.
        let has_hello =
            |row: &&Row| row.contains_key("client_hello") || row.contains_key("server_hello");
        let expected: Vec<_> = expected.iter().filter(has_hello).map(of_truth).collect();
        let rows = expected.len();
        let ours = run(capture, "tls").rows;
        let ours = ours.iter().map(of_tuple);
        let found = unmatched(expected, ours, Told::is_told_by, Told::text);
        as_known(name, &found, DIFFERENCES)?;
        Ok(rows)
    });
}

/// With packet loss, values equal those of the complete capture or are null.
#[test]
fn lost_packets_leave_nothing_wrong() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    const MAY_DIFFER: &[&str] = &["id", "quality", "ts", "ts_end", "client_guessed"];
    for name in [
        "live-captures/tls.pcap",
        "captures/tls/retina-tls_ciphers.pcap",
    ] {
        let capture = root.join(name);
        let whole = run(&capture, "tls").rows;
        with_losses(&capture, "tls", |_, rows| {
            for row in rows {
                let same = |other: &&Row| other["client_port"] == row["client_port"];
                let truth = whole
                    .iter()
                    .find(same)
                    .expect("the connection is in the whole capture");
                for (field, value) in row
                    .iter()
                    .filter(|(field, _)| !MAY_DIFFER.contains(&field.as_str()))
                {
                    assert_eq!(Some(value), truth.get(field), "{name}: {field} of {row:?}");
                }
            }
        });
    }
}

/// A handshake.
struct Told {
    what: String,
    /// Time of the ClientHello, or of its first segment.
    asked: Option<i64>,
    /// Time from the ClientHello to the ServerHello.
    time: Option<i64>,
}

impl Told {
    /// The truth uses the times of the messages' last segments.
    fn is_told_by(&self, ours: &Told) -> bool {
        let near = |a: i64, b: i64| (a - b).abs() < 1000;
        let same = self.asked == ours.asked
            && match (self.time, ours.time) {
                (Some(truth), Some(ours)) => near(truth, ours),
                (truth, ours) => truth == ours,
            };
        let split = self
            .asked
            .zip(ours.asked)
            .is_some_and(|(truth, ours)| ours < truth)
            || self
                .time
                .zip(ours.time)
                .is_some_and(|(truth, ours)| ours < truth);
        self.what == ours.what && (same || split)
    }

    fn text(&self) -> String {
        let number = |n: Option<i64>| n.map_or("~".to_owned(), |n| n.to_string());
        format!(
            "{} at {} {}",
            self.what,
            number(self.asked),
            number(self.time)
        )
    }
}

fn of_truth(row: &Row) -> Told {
    let field = |name: &str| row.get(name).filter(|text| !text.is_empty()).cloned();
    let number =
        |text: String| u16::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number");
    let version = |version: u16| match version {
        0x0300 => "SSL 3.0".to_owned(),
        0x0301..=0x0304 => format!("TLS 1.{}", version - 0x0301),
        other => format!("{other:#06x}"),
    };
    let server = row.contains_key("server_hello");
    let alert = field("alerts").and_then(|alerts| alerts.split(' ').next().map(str::to_owned));
    let [asked, answered] =
        ["t_client_hello", "t_server_hello"].map(|name| field(name).map(|t| nanos(&t)));
    let what = [
        Some(ends(row, ["client", "cport", "server", "sport"])),
        field("sni"),
        field("alpn").filter(|alpn| !alpn.is_empty()),
        field("version").filter(|_| server).map(number).map(version),
        field("cipher").filter(|_| server).map(|text| {
            let code = number(text);
            cipher(code).unwrap_or_else(|| format!("{code:#06x}"))
        }),
        alert.filter(|alert| !alert.is_empty()),
    ];
    Told {
        what: shown(what),
        asked,
        time: asked
            .zip(answered)
            .map(|(asked, answered)| answered - asked),
    }
}

fn of_tuple(row: &Row) -> Told {
    let field = |name: &str| row.get(name).cloned();
    let number = |name: &str| field(name).map(|n| n.parse::<i64>().expect("a number"));
    let alert = field("alert")
        .and_then(|alert| Some(format!("{}:{}", row.get("alert_by")?, alert_code(&alert)?)));
    let what = [
        Some(ends(
            row,
            ["client_ip", "client_port", "server_ip", "server_port"],
        )),
        field("sni"),
        field("alpn_offered"),
        field("version"),
        field("cipher"),
        alert,
    ];
    let server_only = !row.contains_key("version_offered");
    // An alert is also a response, but not a ServerHello.
    let time = number("response_time_ns").filter(|_| row.contains_key("version"));
    Told {
        what: shown(what),
        asked: number("ts").filter(|_| !server_only),
        time,
    }
}

fn ends(row: &Row, names: [&str; 4]) -> String {
    let [client, client_port, server, server_port] = names.map(|name| &*row[name]);
    format!("{client}:{client_port} {server}:{server_port}")
}

fn shown(cells: [Option<String>; 6]) -> String {
    cells.map(|cell| cell.unwrap_or("~".to_owned())).join(" ")
}

/// Cipher suites in the corpus, by the numbers in tshark's output.
fn cipher(code: u16) -> Option<String> {
    let name = parsers::tls::cipher_name(code)?;
    Some(name.to_owned())
}

/// Alerts in the corpus.
fn alert_code(name: &str) -> Option<u8> {
    let known = [
        ("close_notify", 0),
        ("unexpected_message", 10),
        ("bad_record_mac", 20),
        ("handshake_failure", 40),
        ("bad_certificate", 42),
        ("certificate_expired", 45),
        ("certificate_unknown", 46),
        ("unknown_ca", 48),
        ("protocol_version", 70),
        ("internal_error", 80),
        ("unrecognized_name", 112),
    ];
    known
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, code)| *code)
}

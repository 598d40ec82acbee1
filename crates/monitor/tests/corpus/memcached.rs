//! Compares memcached commands with `memcache.tsv` of every capture that has one: each row with command, keys, status,
//! hits, lengths, and times in nanoseconds. Differences are listed in [`DIFFERENCES`] and explained in
//! `docs/truth/memcached.md`.
//!
//! The truth has a row per command, the parser a tuple per key; the test combines the tuples of a command.

use std::path::Path;

use crate::support::{
    ListedDifferences, Row, as_listed, check_others, compare_captures, run, times, true_times,
    truth,
};

/// Captures over plain links.
const FOLDERS: &[&str] = &[
    "captures/memcached",
    "captures/mixed",
    "derived",
    "live-captures",
    "bench",
];

/// Captures of other protocols.
const OTHERS: &[&str] = &[
    "captures/cassandra",
    "captures/dns",
    "captures/http",
    "captures/http2",
    "captures/kafka",
    "captures/malformed",
    "captures/mixed",
    "captures/mongodb",
    "captures/mysql",
    "captures/nfs",
    "captures/pgsql",
    "captures/redis",
    "captures/tcp",
    "captures/tls",
    "live-captures",
];

/// Tunnels that are not decoded.
const TUNNELS: &[&str] = &["erspan", "geneve", "gre", "ipip", "mpls", "vxlan"];

/// Made from base.pcap with lost packets or changed bytes. Their own truth ends at the first damage; see
/// [`pairs_in_damaged_captures_are_correct`].
const DAMAGED: &[&str] = &["drop.pcap", "noise.pcap"];

/// Known differences: capture, and each difference in the format of [`compare`].
const DIFFERENCES: &ListedDifferences = &[(
    "mc_udp.pcap",
    // The server answers with two messages; the truth takes the first for the whole response.
    &[
        "missing: 10.77.0.2:38004 get u hit|miss at 1795291197025599000 155000 0",
        "missing: 10.77.0.2:38004 get v hit|miss at 1795291197025599000 155000 0",
        "missing: 10.77.0.2:38004 get w hit|miss at 1795291197025599000 155000 0",
        "surplus: 10.77.0.2:38004 get u hit at 1795291197025599000 155000 20000 exact",
        "surplus: 10.77.0.2:38004 get v miss at 1795291197025599000 155000 20000 exact",
        "surplus: 10.77.0.2:38004 get w miss at 1795291197025599000 155000 20000 exact",
    ],
)];

#[test]
fn commands_agree_with_the_truth() {
    compare_captures(FOLDERS, 12_000, |capture, name| {
        if TUNNELS.iter().any(|t| name.starts_with(t)) || DAMAGED.contains(&name) {
            return Ok(0);
        }
        let Some(expected) = truth(capture, "memcache.tsv") else {
            return Ok(0);
        };
        as_listed(name, &compare(capture, &expected), DIFFERENCES)?;
        Ok(expected.len())
    });
}

/// Every pair, and every quiet command without a response, is in the truth of the undamaged capture; and most
/// transactions whose packets are all present are found.
#[test]
fn pairs_in_damaged_captures_are_correct() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let base = truth(&root.join("derived/base.pcap"), "memcache.tsv")
        .expect("truth of the undamaged capture");
    for (name, whole_min) in [("drop.pcap", 65), ("noise.pcap", 80)] {
        let rows = run(&root.join("derived").join(name), "memcached").rows;
        let mut whole = 0;
        for row in rows.iter().filter(|r| r["quality"] != "half") {
            let right = base.iter().any(|t| {
                keys(t).into_iter().any(|key| {
                    let mut wanted = Wanted::of(t, key);
                    if row["quality"] == "gap_body" {
                        // The last packet may be missing.
                        for (at, field) in [(2, "transfer_time_ns"), (3, "total_time_ns")] {
                            wanted.times[at] = row.get(field).map(|_| number(row, field));
                        }
                    }
                    wanted.is(row)
                })
            });
            assert!(right, "{name}: {}", describe(row));
            whole += 1;
        }
        assert!(whole >= whole_min, "{name}: {whole} commands are whole");
    }
}

/// No other protocol is identified as memcached.
#[test]
fn other_protocols_have_no_tuples() {
    check_others(OTHERS, "memcached", "memcache.tsv", &[]);
}

/// Every difference between the truth's rows and the tuples, as text.
fn compare(capture: &Path, expected: &[Row]) -> Vec<String> {
    let mut rows = run(capture, "memcached").rows;
    rows.sort_by_key(|r| number(r, "ts"));
    let mut unused: Vec<Option<&Row>> = rows.iter().map(Some).collect();
    let mut found = Vec::new();
    for t in expected {
        let mut tuples = Vec::new();
        for key in keys(t) {
            let wanted = Wanted::of(t, key);
            match unused
                .iter()
                .position(|row| row.is_some_and(|row| wanted.is(row)))
            {
                Some(place) => tuples.extend(unused[place].take()),
                None => found.push(format!("missing: {}", wanted.describe())),
            }
        }
        found.extend(check_values(t, &tuples));
    }
    found.extend(
        unused
            .into_iter()
            .flatten()
            .map(|row| format!("surplus: {}", describe(row))),
    );
    found
}

/// A tuple that the truth requires.
#[derive(PartialEq, Eq)]
struct Wanted<'a> {
    client: String,
    command: &'a str,
    key: Option<&'a str>,
    statuses: Vec<String>,
    times: [Option<i64>; 4],
}

impl Wanted<'_> {
    fn of<'a>(t: &'a Row, key: Option<&'a str>) -> Wanted<'a> {
        Wanted {
            client: format!("{}:{}", t["client"], t["cport"]),
            command: t.get("command").map_or("", |c| c),
            key,
            statuses: statuses(t),
            times: true_times(t),
        }
    }

    fn is(&self, row: &Row) -> bool {
        let field = |name: &str| row.get(name).map(String::as_str);
        self.client == format!("{}:{}", row["client_ip"], row["client_port"])
            && Some(self.command) == field("command")
            && self.key == field("cache_key")
            && self
                .statuses
                .iter()
                .any(|s| s == field("status").unwrap_or_default())
            && self.times == times(row)
    }

    fn describe(&self) -> String {
        let [ts, response, transfer, _] = self
            .times
            .map(|t| t.map_or("-".to_owned(), |t| t.to_string()));
        let key = self.key.unwrap_or("-");
        format!(
            "{} {} {key} {} at {ts} {response} {transfer}",
            self.client,
            self.command,
            self.statuses.join("|")
        )
    }
}

fn describe(row: &Row) -> String {
    let f = |name: &str| row.get(name).map_or("-", |v| v);
    format!(
        "{}:{} {} {} {} at {} {} {} {}",
        f("client_ip"),
        f("client_port"),
        f("command"),
        f("cache_key"),
        f("status"),
        f("ts"),
        f("response_time_ns"),
        f("transfer_time_ns"),
        f("quality")
    )
}

/// The keys of a command; a single `None` for a command without a key. The truth also has the first argument of
/// commands without a key.
fn keys(t: &Row) -> Vec<Option<&str>> {
    let keyless = [
        "stats",
        "flush_all",
        "version",
        "quit",
        "mn",
        "stat",
        "noop",
        "flush",
        "bogus",
        "ng",
    ];
    match t.get("keys") {
        Some(keys) if !keyless.contains(&&*t["command"]) => keys.split(' ').map(Some).collect(),
        _ => vec![None],
    }
}

/// Possible statuses of this command's tuples. The silence of a quiet command has the status that it implies.
fn statuses(t: &Row) -> Vec<String> {
    let command = t.get("command").map_or("", |c| c);
    let Some(status) = t.get("status") else {
        let silent = match command {
            "getq" | "getkq" => "miss",
            "setq" => "stored",
            _ => "",
        };
        let half = t.get("opaque").is_some_and(|o| o.starts_with("udp"));
        return vec![if half { "" } else { silent }.to_owned()];
    };
    let read = matches!(command, "get" | "gets" | "getk" | "getq" | "getkq");
    let said = match (&**status, command) {
        ("END" | "incomplete", "stats") => "ok",
        ("END" | "incomplete", _) => return vec!["hit".to_owned(), "miss".to_owned()],
        ("value" | "VERSION" | "OK" | "MN", _) => "ok",
        ("HD", "ms") => "stored",
        ("HD", "md") => "deleted",
        ("VA", _) => "hit",
        ("EN", _) => "miss",
        ("0", _) if read => "hit",
        ("0", "set" | "add" | "replace") => "stored",
        ("0", "delete") => "deleted",
        ("0", _) => "ok",
        ("1", _) if read => "miss",
        ("1", _) => "not_found",
        ("2", _) => "exists",
        ("129", _) => "unknown_command",
        (other, _) => return vec![other.to_lowercase()],
    };
    vec![said.to_owned()]
}

/// Hits and lengths over all tuples of a command.
fn check_values(t: &Row, tuples: &[&Row]) -> Option<String> {
    let command = t.get("command").map_or("", |c| c);
    let place = || format!("{}:{} {command} {}", t["client"], t["cport"], t["n"]);
    let sum = tuples
        .iter()
        .filter_map(|r| r.get("value_bytes"))
        .map(|v| v.parse::<i64>().expect("a number"))
        .sum::<i64>();
    let hits = tuples
        .iter()
        .filter(|r| r.get("hit").is_some_and(|h| h == "true"))
        .count() as i64;
    let is_read = tuples.iter().any(|r| r.contains_key("hit"));
    if is_read && t.contains_key("hits") && hits != number(t, "hits") {
        return Some(format!("hits: {} {hits}", place()));
    }
    // The truth counts the text of a binary error as a value, and has no values for UDP and binary stores.
    let store = t["proto"] == "text" && !t.get("opaque").is_some_and(|o| o.starts_with("udp"));
    let compared = if is_read {
        hits > 0
    } else {
        store
            && matches!(
                command,
                "set" | "add" | "replace" | "append" | "prepend" | "cas" | "ms"
            )
    };
    (compared && sum != number(t, "value_bytes")).then(|| format!("value_bytes: {} {sum}", place()))
}

fn number(row: &Row, field: &str) -> i64 {
    row.get(field)
        .map_or(0, |v| v.parse().unwrap_or_else(|_| panic!("{field} = {v}")))
}

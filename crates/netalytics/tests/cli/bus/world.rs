//! Input of random queries: captures divided among hosts, and the parsers with results in each. The repository's own
//! captures are one such world; with `NETALYTICS_QUERIES` also captures of the corpus next to the workspace, and some
//! worlds are sampled.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::rng::SeededRng;

use super::hosts;
use super::rows::{Row, rows};
use super::terms::{Column, Kind, Table};
use crate::{Folder, ROOT, run};

/// Number of concurrent publishers.
const HOSTS: usize = 3;
/// Unused columns: identifiers, and those that exist only in tunnels or samples.
const UNUSED: &[&str] = &["id", "community_id", "sample_rate"];
/// Parsers whose tuples end with the input, such as unanswered requests, or use packets divided separately (fragments):
/// one host has all of them.
const OF_ONE_HOST: &[&str] = &["flow", "dns", "nfs", "rpc"];
/// Parsers that join with others.
const OF_CONNECTIONS: &[&str] = &["tcp_conn_time", "packet"];
/// Seeds per world.
const SEEDS: u64 = 100;
/// Captures of the corpus per world, and number tried.
const CAPTURES: usize = 3;
const TRIED: usize = 12;
/// Minimum and maximum number of tuples.
const TUPLES: std::ops::Range<usize> = 20..20_000;
const CAPTURE_BYTES_MAX: u64 = 1_500_000;

/// Selection of captures and flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct World {
    /// Era of the corpus; `None`: the repository's own captures.
    corpus: Option<u64>,
    pub sample: Option<&'static str>,
}

/// A capture with its parsers.
pub struct Place {
    pub capture: String,
    pub hosts: usize,
    pub parsers: Vec<String>,
    /// Parsers to join.
    pub joins: Vec<Vec<String>>,
}

impl World {
    /// World of a seed.
    pub fn of(seed: u64) -> World {
        let era = seed / SEEDS;
        let (is_home, sample) = match era % 6 {
            0 => (true, None),
            4 => (true, Some("0.6")),
            5 => (false, Some("0.5")),
            _ => (false, None),
        };
        World {
            corpus: (!is_home).then_some(era),
            sample,
        }
    }

    /// A seed of the repository's own captures, from any number.
    pub fn at_home(number: u64) -> u64 {
        number / SEEDS * 6 * SEEDS + number % SEEDS
    }

    /// Captures of the world.
    pub fn places(self) -> Vec<Place> {
        self.corpus
            .map(of_corpus)
            .filter(|places| !places.is_empty())
            .unwrap_or_else(home)
    }
}

fn names(all: &[&str]) -> Vec<String> {
    all.iter().map(|name| (*name).to_owned()).collect()
}

fn home() -> Vec<Place> {
    let place = |capture: &str, hosts, parsers: &[&str], joins: &[&[&str]]| Place {
        capture: format!("{ROOT}/captures/{capture}/in.pcap"),
        hosts,
        parsers: names(parsers),
        joins: joins.iter().map(|join| names(join)).collect(),
    };
    vec![
        place(
            "shop",
            HOSTS,
            &[
                "http",
                "mysql_query",
                "memcached",
                "packet",
                "tcp_conn_time",
            ],
            &[
                &["tcp_conn_time", "http"],
                &["http", "packet"],
                &["mysql_query", "tcp_conn_time", "packet"],
            ],
        ),
        place("shop", 1, &["flow"], &[]),
        place("redis", HOSTS, &["redis"], &[]),
        place("dns", 1, &["dns"], &[]),
        place("tls", HOSTS, &["tls"], &[]),
    ]
}

/// Random captures next to the workspace; empty if there are none.
fn of_corpus(era: u64) -> Vec<Place> {
    let mut random = SeededRng::new(era);
    let Some(corpus) = testkit::corpus() else {
        return Vec::new();
    };
    let mut folders = vec!["live-captures".to_owned()];
    let entries = fs::read_dir(corpus.join("captures"))
        .into_iter()
        .flatten()
        .flatten();
    folders
        .extend(entries.map(|entry| format!("captures/{}", entry.file_name().to_string_lossy())));
    folders.sort();
    let files: Vec<_> = folders
        .iter()
        .flat_map(|folder| testkit::captures_in(folder))
        .collect();
    let known: BTreeSet<String> = rows(&run(&["parsers", "--format", "jsonl"]))
        .iter()
        .filter_map(name_of)
        .collect();
    let mut places = Vec::new();
    let mut taken = BTreeSet::new();
    for _ in 0..TRIED {
        let file = &files[random.below(files.len() as u64) as usize];
        if places.len() < CAPTURES
            && fs::metadata(file).is_ok_and(|of| of.len() < CAPTURE_BYTES_MAX)
        {
            places.extend(found(file, &known, &mut taken));
        }
    }
    places
}

fn name_of(row: &Row) -> Option<String> {
    row.get("parser")
        .or_else(|| row.get("name"))
        .and_then(Value::as_str)
        .map(str::to_owned)
}

/// Parsers of a capture without data in other places.
fn found(file: &Path, known: &BTreeSet<String>, taken: &mut BTreeSet<String>) -> Vec<Place> {
    let capture = file.to_str().expect("UTF-8").to_owned();
    if !hosts::can_deal(&capture) {
        return Vec::new();
    }
    let is_there = |parser: &&String| {
        let ran = run(&[
            "query",
            &format!("PARSE {parser}"),
            "-r",
            &capture,
            "--format",
            "jsonl",
            "-q",
        ]);
        ran.code == 0 && TUPLES.contains(&ran.out.lines().count())
    };
    let parsers: Vec<String> = known.difference(taken).filter(is_there).cloned().collect();
    let (of_one, of_all): (Vec<String>, Vec<String>) = parsers
        .iter()
        .cloned()
        .partition(|parser| OF_ONE_HOST.contains(&parser.as_str()));
    let is_own = |parser: &&String| !OF_CONNECTIONS.contains(&parser.as_str());
    let own: Vec<&String> = of_all.iter().filter(is_own).collect();
    if own.is_empty() && of_one.is_empty() {
        return Vec::new();
    }
    let others = of_all
        .iter()
        .filter(|parser| OF_CONNECTIONS.contains(&parser.as_str()));
    let joins = others
        .flat_map(|other| own.iter().map(|own| vec![(*own).clone(), other.clone()]))
        .collect();
    taken.extend(parsers);
    let of = |parsers: Vec<String>, hosts, joins| Place {
        capture: capture.clone(),
        hosts,
        parsers,
        joins,
    };
    let places = [of(of_all, HOSTS, joins), of(of_one, 1, Vec::new())];
    places
        .into_iter()
        .filter(|place| !place.parsers.is_empty())
        .collect()
}

impl Place {
    /// Tables of its parsers and joins, with the parts of hosts.
    pub fn tables(&self, folder: &Folder, name: &str) -> Vec<Table> {
        let hosts = hosts::deal(&self.capture, self.hosts, folder, name);
        let alone = self.parsers.iter().map(|parser| vec![parser.clone()]);
        let all = alone.chain(self.joins.iter().cloned());
        all.filter_map(|parsers| table(parsers, &self.capture, hosts.clone()))
            .collect()
    }
}

/// Table of parsers in a capture; `None` for too few or too many tuples.
fn table(parsers: Vec<String>, capture: &str, hosts: Vec<String>) -> Option<Table> {
    let text = format!("PARSE {}", parsers.join(", "));
    let tuples = rows(&run(&[
        "query", &text, "-r", capture, "--format", "jsonl", "-q",
    ]));
    let mut columns: Vec<Column> = Vec::new();
    let mut names = BTreeSet::new();
    for parser in &parsers {
        for of in rows(&run(&["parsers", parser, "--format", "jsonl"])) {
            let field = of["field"].as_str().unwrap_or_default().to_owned();
            let name = if names.contains(&field) {
                format!("{parser}.{field}")
            } else {
                field.clone()
            };
            columns.extend(
                kind(&of)
                    .filter(|_| !UNUSED.contains(&field.as_str()))
                    .map(|kind| Column {
                        values: values(&tuples, &name),
                        name: name.clone(),
                        kind,
                    }),
            );
            names.insert(name);
        }
    }
    columns.retain(|column| !column.values.is_empty());
    let ends = || tuples.iter().filter_map(|tuple| tuple["ts_end"].as_i64());
    let span_ms = ends().max()?.saturating_sub(ends().min()?) / 1_000_000;
    let table = Table {
        parsers,
        capture: capture.to_owned(),
        hosts,
        columns,
        span_ms,
    };
    TUPLES.contains(&tuples.len()).then_some(table)
}

fn kind(column: &Row) -> Option<Kind> {
    let text = |name: &str| column[name].as_str().unwrap_or_default();
    Some(match (text("type"), text("unit")) {
        ("text", _) => Kind::Text,
        ("bool", _) => Kind::Bool,
        ("ip", _) => Kind::Ip,
        ("u64" | "i64", "bytes") => Kind::Bytes,
        ("u64" | "i64", "ns") => Kind::Duration,
        ("u64" | "i64", "epoch_ns") => Kind::Time,
        ("u64" | "i64", _) => Kind::Whole,
        _ => return None,
    })
}

/// Some distinct values.
fn values(tuples: &[Row], name: &str) -> Vec<Value> {
    let mut values: Vec<Value> = Vec::new();
    for value in tuples
        .iter()
        .filter_map(|tuple| tuple.get(name))
        .filter(|value| !value.is_null())
    {
        if values.len() < 40 && !values.contains(value) {
            values.push(value.clone());
        }
    }
    values
}

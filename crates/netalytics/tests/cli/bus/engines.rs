//! The ways in which a query is answered, and whether they answer alike.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use bus::{Kafka, Topics};
use serde_json::{Map, Value};
use testkit::cluster::Cluster;

use super::hosts::deal;
use super::opinion::Opinion;
use super::questions::Question;
use super::terms::{Column, Kind, Table};
use crate::{BINARY, Folder, ROOT, Ran, run};

/// Hosts that publish at the same time.
const HOSTS: usize = 3;
/// From before all that was published.
const EVER: &str = " SINCE 1980-01-01";
/// Columns that nobody asks for: identifiers, whose numbers are no numbers, and what is there only beside a tunnel or a sample.
const UNUSED: &[&str] = &["id", "community_id", "sample_rate"];

/// Who merges what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Tuples,
    Cells,
    FlinkTuples,
    FlinkCells,
}

/// What came of a comparison.
#[derive(Debug)]
pub enum Found {
    /// So many rows are the same.
    Equal(usize),
    /// It cannot be said in SQL, which was told before anything started.
    Refused,
    /// What differs first.
    Different(String),
}

pub type Row = Map<String, Value>;

/// See the module's text.
pub struct Engines {
    folder: Folder,
    kafka: String,
    flink: Vec<String>,
    /// What is asked of.
    pub tables: Vec<Table>,
    /// Of each parser the capture, and what each host has of it.
    captures: Vec<(String, String, Vec<String>)>,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Tuples, Way::Cells, Way::FlinkTuples, Way::FlinkCells];

    pub fn reads_cells(self) -> bool {
        matches!(self, Way::Cells | Way::FlinkCells)
    }
}

impl Engines {
    /// Has hosts publish the tuples of some captures.
    pub fn start(cluster: &Cluster) -> Engines {
        let flink = ["--engine", "flink", "--flink-gateway", cluster.gateway.as_deref().expect("a gateway")];
        let jobs = ["--flink", cluster.flink.as_deref().expect("Flink")];
        let mut engines = Engines {
            folder: Folder::new(),
            kafka: cluster.kafka.clone(),
            flink: flink.into_iter().chain(jobs).map(str::to_owned).collect(),
            tables: Vec::new(),
            captures: Vec::new(),
        };
        // What others have published here would be counted, too.
        engines.forget("");
        for (capture, hosts, parsers) in [
            ("shop", HOSTS, &["http", "mysql_query", "memcached", "packet", "tcp_conn_time"][..]),
            // Flows that have no end of their own end with the input, which is another one for each host.
            ("shop", 1, &["flow"]),
            ("redis", HOSTS, &["redis"]),
            ("dns", HOSTS, &["dns"]),
            ("tls", HOSTS, &["tls"]),
        ] {
            let file = format!("{ROOT}/captures/{capture}/in.pcap");
            let hosts = deal(&file, hosts, &engines.folder, &format!("{capture}-{hosts}"));
            for parser in parsers {
                engines.publish(&format!("PARSE {parser}"), &hosts, "tuples");
                engines.tables.push(table(parser, &file));
                engines.record(parser, &file);
                engines.captures.push(((*parser).to_owned(), file.clone(), hosts.clone()));
            }
        }
        engines
    }

    /// Keeps a parser's tuples for DuckDB.
    fn record(&self, parser: &str, file: &str) {
        let (query, recordings) =
            (format!("PARSE {parser}"), self.folder.path(&format!("recordings/{parser}")));
        let ran = run(&["record", &query, "-r", file, "-o", &recordings, "--no-redact", "-q"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
    }

    /// The third opinion; `None` where there is no DuckDB.
    pub fn opinion(&self) -> Option<Opinion> {
        Opinion::new(Path::new(&self.folder.path("recordings")))
    }

    fn capture(&self, question: &Question) -> &(String, String, Vec<String>) {
        self.captures.iter().find(|(parse, ..)| *parse == question.parse).expect("what was published")
    }

    /// Whether it is a query; one of tuples has to find some.
    pub fn is_valid(&self, question: &Question) -> bool {
        let text = question.text("");
        match question.processors.is_empty() {
            true => {
                let ran = run(&["query", &text, "-r", &self.capture(question).1, "--format", "jsonl", "-q"]);
                ran.code == 0 && ran.out.lines().count() > 3
            }
            false => run(&["explain", &text]).code == 0,
        }
    }

    /// The rows over the packets; `None`: late tuples or too little memory have a part in them.
    pub fn over_packets(&self, question: &Question) -> Option<Vec<Row>> {
        let (summary, text) = (self.folder.path("summary.json"), question.text(""));
        let (_, capture, _) = self.capture(question);
        let ran = run(&["query", &text, "-r", capture, "--format", "jsonl", "--summary-json", &summary]);
        assert_eq!(ran.code, 0, "{text}: {}", ran.err);
        let summary: Value =
            serde_json::from_reader(File::open(&summary).expect("a summary")).expect("a summary");
        let rows = rows(&ran);
        let is_exact = rows.iter().all(|row| row["approximate"] == false);
        (is_exact && summary["stream"]["tuples_late"] == 0).then_some(rows)
    }

    /// Has the hosts publish what they count for a query.
    pub fn publish_cells(&self, question: &Question) {
        let (_, _, hosts) = self.capture(question);
        self.publish(&question.text(""), hosts, "cells");
    }

    /// All at the same time, so that each has a partition of its own.
    fn publish(&self, query: &str, hosts: &[String], what: &str) {
        let flags =
            ["-r", "-", "--publish", what, "--no-redact", "--partitions", "3", "--kafka", &self.kafka];
        let start = |_: &String| {
            let mut command = Command::new(BINARY);
            command.args(["publish", query]).args(flags).stdin(Stdio::piped());
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the binary runs")
        };
        let mut started: Vec<_> = hosts.iter().map(start).collect();
        let mut says = Vec::new();
        let mut written = Vec::new();
        for (child, host) in started.iter_mut().zip(hosts) {
            let (mut input, host) = (child.stdin.take().expect("piped"), host.clone());
            written.push(std::thread::spawn(move || {
                std::io::copy(&mut File::open(host).expect("its capture"), &mut input).expect("it reads");
                input
            }));
        }
        for child in &mut started {
            let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
            let begun = lines.by_ref().find(|line| line.contains("publishing to") || line.contains("error"));
            assert!(begun.as_ref().is_some_and(|line| line.contains("publishing to")), "{query}: {begun:?}");
            says.push(lines);
        }
        // Nobody has ended, and left his partition to another, before all have one.
        written.into_iter().for_each(|input| drop(input.join().expect("it reads")));
        for (mut child, says) in started.into_iter().zip(says) {
            let said: Vec<String> = says.collect();
            assert!(child.wait().expect("it ends").success(), "{query}: {said:?}");
        }
    }

    /// Deletes all cells.
    pub fn forget_cells(&self) {
        self.forget("cells.");
    }

    fn forget(&self, what: &str) {
        let kafka = Kafka::new(&self.kafka, []).expect("an address");
        let topics = Topics::connect(&kafka, Duration::from_secs(20)).expect("a broker");
        for topic in topics.list().expect("topics").into_keys() {
            if topic.starts_with(&format!("netalytics.{what}")) && topic != "netalytics.lanes" {
                topics.delete(&topic).expect("it is deleted");
            }
        }
    }

    /// Whether what was published gives those rows.
    pub fn compare(&self, question: &Question, way: Way, expected: &[Row]) -> Found {
        let query = question.text(EVER);
        let published = if way.reads_cells() { "cells" } else { "tuples" };
        let flags = ["--kafka", &self.kafka, "--published", published, "--format", "jsonl"];
        let mut arguments = [&["query", &query][..], &flags].concat();
        if matches!(way, Way::FlinkTuples | Way::FlinkCells) {
            arguments.extend(self.flink.iter().map(String::as_str));
        }
        let mut ran = run(&arguments);
        // A cluster on a machine that is busy with other tests may lose sight of its own parts. That is told, and no answer.
        for _ in 0..2 {
            if ran.code == 1 && ran.err.contains("timed out") {
                ran = run(&arguments);
            }
        }
        match ran.code {
            0 => different(expected, &rows(&ran)).map_or(Found::Equal(expected.len()), Found::Different),
            2 if ran.err.contains("Flink cannot merge") => Found::Refused,
            code => Found::Different(format!("exit code {code}: {}", ran.err)),
        }
    }
}

fn rows(ran: &Ran) -> Vec<Row> {
    ran.out.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

/// What a parser finds in a capture.
fn table(parser: &str, capture: &str) -> Table {
    let ran = run(&["query", &format!("PARSE {parser}"), "-r", capture, "--format", "jsonl", "-q"]);
    let tuples = rows(&ran);
    let columns = rows(&run(&["parsers", parser, "--format", "jsonl"]));
    let column = |of: &Row| {
        let text = |name: &str| of[name].as_str().unwrap_or_default();
        let kind = match (text("type"), text("unit")) {
            ("text", _) => Kind::Text,
            ("bool", _) => Kind::Bool,
            ("ip", _) => Kind::Ip,
            ("u64" | "i64", "bytes") => Kind::Bytes,
            ("u64" | "i64", "ns") => Kind::Duration,
            ("u64" | "i64", "epoch_ns") => Kind::Time,
            ("u64" | "i64", _) => Kind::Whole,
            _ => return None,
        };
        let name = text("field").to_owned();
        let mut values: Vec<Value> = Vec::new();
        for value in tuples.iter().filter_map(|tuple| tuple.get(&name)).filter(|value| !value.is_null()) {
            if values.len() < 40 && !values.contains(value) {
                values.push(value.clone());
            }
        }
        let is_used = !values.is_empty() && !UNUSED.contains(&name.as_str());
        is_used.then_some(Column { name, kind, values })
    };
    Table { parse: parser.into(), columns: columns.iter().filter_map(column).collect() }
}

/// What differs first between the rows of each processor.
fn different(expected: &[Row], found: &[Row]) -> Option<String> {
    let mut names: Vec<&Value> =
        expected.iter().chain(found).map(|row| row.get("processor").unwrap_or(&Value::Null)).collect();
    names.sort_by_key(|name| name.to_string());
    names.dedup();
    names.into_iter().find_map(|name| {
        let of = |rows: &[Row]| -> Vec<Row> {
            rows.iter().filter(|row| row.get("processor").unwrap_or(&Value::Null) == name).cloned().collect()
        };
        let (a, b) = (of(expected), of(found));
        let place = a.iter().zip(&b).position(|(a, b)| !are_alike(a, b));
        if place.is_none() && a.len() == b.len() {
            return None;
        }
        let place = place.unwrap_or(a.len().min(b.len()));
        let row = |rows: &[Row]| rows.get(place).map(|row| Value::Object(row.clone()).to_string());
        Some(format!("{name}, row {place} of {} and {}:\n  {:?}\n  {:?}", a.len(), b.len(), row(&a), row(&b)))
    })
}

/// Equal, real numbers but for the order in which they were added. What a capture lost has tests of its own.
fn are_alike(a: &Row, b: &Row) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, a)| name == "lost" || b.get(name).is_some_and(|b| is_alike(a, b)))
}

fn is_alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) if x.is_f64() && y.is_f64() => {
            let (x, y) = (x.as_f64().unwrap_or(0.0), y.as_f64().unwrap_or(0.0));
            x == y || (x - y).abs() <= 1e-9 * x.abs().max(y.abs())
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_alike(a, b))
        }
        _ => a == b,
    }
}

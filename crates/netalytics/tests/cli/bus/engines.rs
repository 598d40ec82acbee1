//! Ways to answer a query, and their comparison.

use std::collections::{BTreeMap, BTreeSet};

use bus::{Kafka, TopicAdmin};
use testkit::cluster::TestCluster;
use testkit::programs::PATIENCE;

use super::opinion::{Opinion, Witness};
use super::publishing::{late, publish};
use super::questions::Question;
use super::rows::{Row, different, in_one_order, rows};
use super::terms::Table;
use super::world::World;
use crate::{Folder, Ran, run};

/// From before all published data.
const EVER: &str = " SINCE 1980-01-01";
/// Repetitions of a query if Flink has lost components.
pub const TIMES: usize = 3;

/// Engine and kind of published data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Tuples,
    Cells,
    FlinkTuples,
    FlinkCells,
}

/// Result of a comparison.
#[derive(Debug)]
pub enum Found {
    /// Equal, with the number of rows.
    Equal(usize),
    /// Not comparable: rejected before the start as unsupported by SQL, or late tuples.
    Aside,
    /// The first difference.
    Different(String),
}

/// See the module documentation.
pub struct Engines {
    folder: Folder,
    kafka: String,
    flink: Vec<String>,
    world: World,
    /// Tables for queries.
    pub tables: Vec<Table>,
    /// Recorded columns by parser.
    recorded: BTreeMap<String, Vec<String>>,
}

impl Way {
    pub const ALL: [Way; 4] = [Way::Tuples, Way::Cells, Way::FlinkTuples, Way::FlinkCells];

    pub fn reads_cells(self) -> bool {
        matches!(self, Way::Cells | Way::FlinkCells)
    }

    fn is_flink(self) -> bool {
        matches!(self, Way::FlinkTuples | Way::FlinkCells)
    }
}

impl Engines {
    /// Starts a publisher on each host of a world.
    pub fn start(cluster: &TestCluster, world: World) -> Engines {
        let flink = [
            "--engine",
            "flink",
            "--flink-gateway",
            cluster.gateway.as_deref().expect("a gateway"),
        ];
        let jobs = ["--flink", cluster.flink.as_deref().expect("Flink")];
        let mut engines = Engines {
            folder: Folder::new(),
            kafka: cluster.kafka.clone(),
            flink: flink.into_iter().chain(jobs).map(str::to_owned).collect(),
            world,
            tables: Vec::new(),
            recorded: BTreeMap::new(),
        };
        engines.publish_world();
        engines
    }

    pub fn is_in(&self, world: World) -> bool {
        self.world == world
    }

    /// Replaces the published data by that of another world.
    pub fn move_to(&mut self, world: World) {
        self.world = world;
        self.folder = Folder::new();
        self.tables.clear();
        self.recorded.clear();
        self.publish_world();
    }

    pub fn sample(&self) -> Option<&'static str> {
        self.world.sample
    }

    fn publish_world(&mut self) {
        // Other data published here would be counted, too.
        self.forget(|topic| topic.starts_with("netalytics."));
        let sample = self
            .world
            .sample
            .map(|sample| format!(" SAMPLE {sample}"))
            .unwrap_or_default();
        for (number, place) in self.world.places().iter().enumerate() {
            let tables = place.tables(&self.folder, &number.to_string());
            let Some(hosts) = tables.first().map(|table| table.hosts.clone()) else {
                continue;
            };
            // Only the ends of joined connections are used: they are published separately.
            let (apart, together): (Vec<&String>, Vec<&String>) = place
                .parsers
                .iter()
                .partition(|parser| *parser == "tcp_conn_time");
            for parsers in [together, apart]
                .iter()
                .filter(|parsers| !parsers.is_empty())
            {
                let names: Vec<&str> = parsers.iter().map(|name| name.as_str()).collect();
                publish(
                    &self.kafka,
                    &format!("PARSE {}{sample}", names.join(", ")),
                    &hosts,
                    "tuples",
                );
            }
            for parser in &place.parsers {
                self.record(parser, &sample, &place.capture);
            }
            self.tables.extend(tables);
        }
    }

    /// Records a parser's tuples for DuckDB.
    fn record(&mut self, parser: &str, sample: &str, file: &str) {
        let query = format!("PARSE {parser}{sample}");
        let recordings = self.recordings();
        let recordings = format!("{recordings}/{parser}");
        let ran = run(&[
            "record",
            &query,
            "-r",
            file,
            "-o",
            &recordings,
            "--no-redact",
            "-q",
        ]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let fields = rows(&run(&["parsers", parser, "--format", "jsonl"]));
        let fields = fields
            .iter()
            .map(|of| of["field"].as_str().expect("a name").to_owned());
        // Only present in samples.
        let fields = fields.filter(|name| name != "sample_rate").collect();
        self.recorded.insert(parser.to_owned(), fields);
    }

    fn recordings(&self) -> String {
        self.folder.path("recordings")
    }

    /// DuckDB's opinion for this world.
    pub fn opinion<'a>(&'a self, witness: &'a Witness) -> Opinion<'a> {
        Opinion {
            witness,
            recordings: self.recordings().into(),
            columns: &self.recorded,
        }
    }

    /// Capture of a query.
    pub fn capture(&self, question: &Question) -> &str {
        &self.table(question).capture
    }

    fn table(&self, question: &Question) -> &Table {
        self.tables
            .iter()
            .find(|table| table.parse() == question.parse)
            .expect("the published records")
    }

    /// Whether the query is valid; a query of tuples must have a result.
    pub fn is_valid(&self, question: &Question) -> bool {
        let text = question.text("");
        if question.processors.is_empty() {
            let ran = run(&[
                "query",
                &text,
                "-r",
                &self.table(question).capture,
                "--format",
                "jsonl",
                "-q",
            ]);
            ran.code == 0 && ran.out.lines().count() > 3
        } else {
            run(&["explain", &text]).code == 0
        }
    }

    /// Topics of the query's cells, which concurrent queries must not share.
    pub fn topics(&self, question: &Question) -> BTreeSet<String> {
        let ran = run(&[
            "explain",
            &question.text(""),
            "--engine",
            "flink",
            "--published",
            "cells",
        ]);
        let names = ran
            .out
            .split('\'')
            .filter(|word| word.starts_with("netalytics.cells."));
        names.map(str::to_owned).collect()
    }

    /// The part that Flink can merge from tuples.
    pub fn sayable(&self, question: &Question) -> Option<Question> {
        let can_be_said = |question: &Question| {
            let text = question.text_of_tuples("");
            run(&[
                "explain",
                &text,
                "--engine",
                "flink",
                "--published",
                "tuples",
            ])
            .code
                == 0
        };
        let alone = |one| Question {
            processors: vec![one],
            ..question.clone()
        };
        let processors = question
            .processors
            .iter()
            .filter(|one| can_be_said(&alone((*one).clone())));
        let some = Question {
            processors: processors.cloned().collect(),
            ..question.clone()
        };
        let is_some = some.processors.len() > 1 || question.processors.len() < 2;
        (is_some && can_be_said(&some)).then_some(some)
    }

    /// Rows over the packets; `None`: affected by late tuples or memory limits.
    pub fn over_packets(&self, question: &Question) -> Option<Vec<Row>> {
        let text = question.text("");
        let capture = self.capture(question);
        let (ran, late) = summed(&["query", &text, "-r", capture, "--format", "jsonl"]);
        assert_eq!(ran.code, 0, "{text}: {}", ran.err);
        let rows = rows(&ran);
        let is_exact =
            question.processors.is_empty() || rows.iter().all(|row| row["approximate"] == false);
        (is_exact && late == 0).then_some(rows)
    }

    /// Has the hosts publish cells for a query; returns the number of late tuples.
    pub fn publish_cells(&self, question: &Question) -> u64 {
        publish(
            &self.kafka,
            &question.text(""),
            &self.table(question).hosts,
            "cells",
        )
    }

    /// Deletes topics.
    pub fn forget(&self, is_meant: impl Fn(&str) -> bool) {
        let kafka = Kafka::new(&self.kafka, []).expect("an address");
        let topics = TopicAdmin::connect(&kafka, PATIENCE).expect("a broker");
        for topic in topics
            .list()
            .expect("topics")
            .into_keys()
            .filter(|topic| is_meant(topic))
        {
            topics.delete(&topic).expect("it is deleted");
        }
    }

    /// Compares the rows from published data.
    pub fn compare(&self, question: &Question, way: Way, expected: &[Row]) -> Found {
        let (query, published) = if way.reads_cells() {
            (question.text(EVER), "cells")
        } else {
            (question.text_of_tuples(EVER), "tuples")
        };
        let flags = [
            "--kafka",
            &self.kafka,
            "--published",
            published,
            "--format",
            "jsonl",
        ];
        let mut arguments = [&["query", &query][..], &flags].concat();
        if way.is_flink() {
            arguments.extend(self.flink.iter().map(String::as_str));
        }
        let (mut ran, mut late) = summed(&arguments);
        // A cluster on a busy machine may lose components. That is reported without an answer.
        for _ in 1..TIMES {
            if ran.code == 1
                && ["timed out", "in time"]
                    .iter()
                    .any(|words| ran.err.contains(words))
            {
                (ran, late) = summed(&arguments);
            }
        }
        match ran.code {
            0 => {
                let mut all = [expected.to_vec(), rows(&ran)];
                if question.processors.is_empty() {
                    all = all.map(in_one_order);
                }
                match different(&all[0], &all[1]) {
                    None => Found::Equal(expected.len()),
                    // A host that sees less traffic notices the end of a period later.
                    Some(_) if late > 0 => Found::Aside,
                    Some(how) => Found::Different(how),
                }
            }
            2 if ran.err.contains("Flink cannot merge") => Found::Aside,
            code => Found::Different(format!("exit code {code}: {}", ran.err)),
        }
    }
}

/// Runs the query; also returns the number of late tuples.
fn summed(arguments: &[&str]) -> (Ran, u64) {
    let folder = Folder::new();
    let file = folder.path("summary.json");
    let ran = run(&[arguments, &["--summary-json", &file]].concat());
    (ran, late(&file))
}

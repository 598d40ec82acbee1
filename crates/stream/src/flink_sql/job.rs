//! Parameters of a printed job besides its dataflow, and the resulting settings and connector options.

use std::collections::BTreeMap;

use super::lexical::text;

/// Maximum record size: a whole pane may exceed the default of Kafka clients.
const RECORD_BYTES_MAX: u32 = 8 << 20;
/// So often a job looks for new partitions. What is in them is late where others have come further by then.
const DISCOVERY_MS: u64 = 2000;

/// A job: where its records come from and go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// What it is called, so that it is found again.
    pub name: String,
    /// What it reads.
    pub from: From,
    /// The topics that it writes what it merged to: one for each pipeline, or of a dataflow without pipelines one.
    pub merged: Vec<String>,
    /// Where the brokers are: `HOST:PORT`, commas between.
    pub brokers: String,
    /// Options of Kafka's clients: name and value.
    pub properties: Vec<(String, String)>,
    /// The consumer group.
    pub group: String,
    /// From where on topics are read.
    pub start: Start,
    /// How far.
    pub end: End,
    /// What the names of its transactions begin with.
    pub transactions: String,
    /// Timeout of transactions; at most the brokers' limit.
    pub transaction_ms: u64,
    /// Checkpoint interval, by which results are delayed.
    pub checkpoint_ms: u64,
    /// Subtasks of each operator; `None`: as many as the cluster takes by default.
    pub parallelism: Option<u32>,
    /// For jobs without an end: time after which a partition without records no longer holds back the watermark. A job
    /// with an end waits for all partitions: one read to its end does not hold back, and one not yet read, because
    /// brokers or Flink are busy, would be late.
    pub idle_ms: u64,
    /// Maximum distance in event time of joined tuples. Results of a join are delayed by it.
    pub join_span_ms: i64,
}

/// What a job reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// Tuples, by input.
    Tuples(Vec<Source>),
    /// Cells, by pipeline.
    Cells(Vec<Source>),
}

impl From {
    /// The topics' names.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        let (From::Tuples(sources) | From::Cells(sources)) = self;
        sources.iter().map(|source| source.topic.clone()).collect()
    }
}

/// A topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its name.
    pub topic: String,
    /// How long records are waited for that a lane's promise said would not come.
    pub lateness_ms: i64,
}

/// From where on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// All that is there.
    Earliest,
    /// What was written at this time or later: milliseconds of the epoch.
    At(i64),
    /// What comes from now on.
    Latest,
    /// From these offsets, by topic for each of its partitions; what comes to other partitions as a whole.
    Offsets(BTreeMap<String, Vec<i64>>),
}

/// How far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// To what is there when the job starts; then it is finished.
    Bounded,
    /// For ever.
    Never,
}

/// Window aggregates and rankings of a processor in Flink's plan: panes in two stages for the rows and again for the marks, and the marks.
const OPERATORS: u64 = 6;
/// The same of the marks of tuples.
const OPERATORS_OF_TUPLES: u64 = 2;
/// Managed memory of an operator: Flink's hash table needs 1 MiB for buckets and fails without a few pages of 32 KiB
/// for records.
const OPERATOR_BYTES: u64 = (1 << 20) + (256 << 10);

/// Managed memory per slot for a dataflow with this many processors, with state on the heap.
#[must_use]
pub fn slot_memory_bytes(pipelines: usize) -> u64 {
    let operators = if pipelines == 0 { OPERATORS_OF_TUPLES } else { OPERATORS * pipelines as u64 };
    operators * OPERATOR_BYTES
}

impl Job {
    /// Settings of the session.
    pub(super) fn settings(&self) -> Vec<String> {
        let set = |name: &str, value: &str| format!("SET {} = {}", text(name), text(value));
        let mut all = vec![
            set("pipeline.name", &self.name),
            set("table.local-time-zone", "UTC"),
            set("execution.runtime-mode", "streaming"),
            set("execution.checkpointing.mode", "EXACTLY_ONCE"),
            set("execution.checkpointing.interval", &format!("{} ms", self.checkpoint_ms)),
            set("restart-strategy.type", "fixed-delay"),
            set("restart-strategy.fixed-delay.attempts", "2147483647"),
            set("restart-strategy.fixed-delay.delay", "1 s"),
        ];
        all.extend(self.parallelism.map(|n| set("parallelism.default", &n.to_string())));
        all
    }

    /// Options of a table that reads a topic.
    pub(super) fn reading(&self, source: &Source) -> String {
        let mut options = self.connector(&source.topic);
        options.push(("properties.group.id".into(), self.group.clone()));
        let mode = match &self.start {
            Start::Earliest => "earliest-offset",
            Start::At(_) => "timestamp",
            Start::Latest => "latest-offset",
            Start::Offsets(_) => "specific-offsets",
        };
        options.push(("scan.startup.mode".into(), mode.into()));
        if let Start::At(ms) = self.start {
            options.push(("scan.startup.timestamp-millis".into(), ms.to_string()));
        }
        if let Start::Offsets(of) = &self.start {
            let ends = of.get(&source.topic).into_iter().flatten().enumerate();
            let each: Vec<String> =
                ends.map(|(partition, offset)| format!("partition:{partition},offset:{offset}")).collect();
            options.push(("scan.startup.specific-offsets".into(), each.join(";")));
        }
        match self.end {
            End::Bounded => options.push(("scan.bounded.mode".into(), "latest-offset".into())),
            End::Never => {
                // Who begins to publish while the job runs may do so to a partition that is new.
                let discovery = format!("{DISCOVERY_MS} ms");
                options.push(("scan.topic-partition-discovery.interval".into(), discovery));
                options.push(("scan.watermark.idle-timeout".into(), format!("{} ms", self.idle_ms)));
            }
        }
        with(&options)
    }

    /// Options of the table that writes the topic of this number.
    pub(super) fn writing(&self, place: usize) -> String {
        let mut options = self.connector(self.merged.get(place).map_or("", String::as_str));
        options.push(("sink.delivery-guarantee".into(), "exactly-once".into()));
        options.push(("sink.transactional-id-prefix".into(), format!("{}-{place}", self.transactions)));
        // Marks have to come in their order.
        options.push(("sink.parallelism".into(), "1".into()));
        let request = "properties.max.request.size";
        if options.iter().all(|(name, _)| name != request) {
            options.push((request.into(), RECORD_BYTES_MAX.to_string()));
        }
        options.push(("properties.transaction.timeout.ms".into(), self.transaction_ms.to_string()));
        with(&options)
    }

    fn connector(&self, topic: &str) -> Vec<(String, String)> {
        let own = [
            ("connector", "kafka"),
            ("topic", topic),
            ("properties.bootstrap.servers", &self.brokers),
            ("format", "avro"),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given = self.properties.iter().map(|(name, value)| (format!("properties.{name}"), value.clone()));
        own.chain(given).collect()
    }
}

fn with(options: &[(String, String)]) -> String {
    let lines: Vec<String> =
        options.iter().map(|(name, value)| format!("  {} = {}", text(name), text(value))).collect();
    format!("WITH (\n{}\n)", lines.join(",\n"))
}

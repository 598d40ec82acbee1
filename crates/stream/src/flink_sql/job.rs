//! Parameters of a printed job besides its dataflow, and the resulting settings and connector options.

use std::collections::BTreeMap;

use super::lexical::text;

/// Maximum record size: a whole pane may exceed the default of Kafka clients.
const RECORD_BYTES_MAX: u32 = 8 << 20;
/// Interval between checks for new partitions. Their records may be late if other partitions are ahead.
const DISCOVERY_MS: u64 = 2000;

/// A job with its sources and destinations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlinkSqlJob {
    /// Name shown by Flink.
    pub name: String,
    /// Sources.
    pub from: FlinkJobInput,
    /// Topics for the merged results: one per pipeline, or a single one for a dataflow without pipelines.
    pub merged: Vec<String>,
    /// Broker addresses, `HOST:PORT`, comma-separated.
    pub brokers: String,
    /// Kafka client options: name and value.
    pub properties: Vec<(String, String)>,
    /// The consumer group.
    pub group: String,
    /// Start position in the topics.
    pub start: FlinkStartOffset,
    /// End position.
    pub end: FlinkStopMode,
    /// Prefix of the transactional IDs.
    pub transactions: String,
    /// Transaction timeout; at most the brokers' limit.
    pub transaction_ms: u64,
    /// Checkpoint interval, which delays results.
    pub checkpoint_ms: u64,
    /// Parallelism of each operator; `None` for the cluster's default.
    pub parallelism: Option<u32>,
    /// For jobs without an end: time after which a partition without records no longer holds back the watermark. A job
    /// with an end waits for all partitions: one read to its end does not hold back, and one not yet read, because
    /// brokers or Flink are busy, would be late.
    pub idle_ms: u64,
    /// Maximum distance in event time of joined tuples. Results of a join are delayed by it.
    pub join_span_ms: i64,
}

/// Sources of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlinkJobInput {
    /// Tuples, by input.
    Tuples(Vec<FlinkTopic>),
    /// Cells, by pipeline.
    Cells(Vec<FlinkTopic>),
}

impl FlinkJobInput {
    /// Topic names.
    #[must_use]
    pub fn topics(&self) -> Vec<String> {
        let (FlinkJobInput::Tuples(sources) | FlinkJobInput::Cells(sources)) = self;
        sources.iter().map(|source| source.topic.clone()).collect()
    }
}

/// A source topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlinkTopic {
    /// Topic name.
    pub topic: String,
    /// Time to wait for records that violate a lane's promise.
    pub lateness_ms: i64,
}

/// Start position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlinkStartOffset {
    /// The oldest available records.
    Earliest,
    /// Records written at or after this time, in milliseconds since the epoch.
    At(i64),
    /// Only new records.
    Latest,
    /// Offsets by topic and partition; other partitions are read completely.
    Offsets(BTreeMap<String, Vec<i64>>),
}

/// End position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlinkStopMode {
    /// The end of the topics at the start of the job; the job then finishes.
    Bounded,
    /// No end.
    Never,
}

/// Window aggregates and rankings per processor in Flink's plan: two stages of panes for the rows, the same for the
/// marks, and the marks themselves.
const OPERATORS: u64 = 6;
/// The same for the marks of tuples.
const OPERATORS_OF_TUPLES: u64 = 2;
/// Managed memory of an operator: Flink's hash table needs 1 MiB for buckets and fails without a few pages of 32 KiB
/// for records.
const OPERATOR_BYTES: u64 = (1 << 20) + (256 << 10);

/// Managed memory per slot for a dataflow with this many processors, with state on the heap.
#[must_use]
pub fn slot_memory_bytes(pipelines: usize) -> u64 {
    let operators = if pipelines == 0 {
        OPERATORS_OF_TUPLES
    } else {
        OPERATORS * pipelines as u64
    };
    operators * OPERATOR_BYTES
}

impl FlinkSqlJob {
    /// Session settings.
    pub(super) fn settings(&self) -> Vec<String> {
        let set = |name: &str, value: &str| format!("SET {} = {}", text(name), text(value));
        let mut all = vec![
            set("pipeline.name", &self.name),
            set("table.local-time-zone", "UTC"),
            set("execution.runtime-mode", "streaming"),
            set("execution.checkpointing.mode", "EXACTLY_ONCE"),
            set(
                "execution.checkpointing.interval",
                &format!("{} ms", self.checkpoint_ms),
            ),
            set("restart-strategy.type", "fixed-delay"),
            set("restart-strategy.fixed-delay.attempts", "2147483647"),
            set("restart-strategy.fixed-delay.delay", "1 s"),
        ];
        all.extend(
            self.parallelism
                .map(|n| set("parallelism.default", &n.to_string())),
        );
        all
    }

    /// Options of a source table.
    pub(super) fn reading(&self, source: &FlinkTopic) -> String {
        let mut options = self.connector(&source.topic);
        options.push(("properties.group.id".into(), self.group.clone()));
        let mode = match &self.start {
            FlinkStartOffset::Earliest => "earliest-offset",
            FlinkStartOffset::At(_) => "timestamp",
            FlinkStartOffset::Latest => "latest-offset",
            FlinkStartOffset::Offsets(_) => "specific-offsets",
        };
        options.push(("scan.startup.mode".into(), mode.into()));
        if let FlinkStartOffset::At(ms) = self.start {
            options.push(("scan.startup.timestamp-millis".into(), ms.to_string()));
        }
        if let FlinkStartOffset::Offsets(of) = &self.start {
            let ends = of.get(&source.topic).into_iter().flatten().enumerate();
            let each: Vec<String> = ends
                .map(|(partition, offset)| format!("partition:{partition},offset:{offset}"))
                .collect();
            options.push(("scan.startup.specific-offsets".into(), each.join(";")));
        }
        match self.end {
            FlinkStopMode::Bounded => {
                options.push(("scan.bounded.mode".into(), "latest-offset".into()))
            }
            FlinkStopMode::Never => {
                // A publisher that starts while the job runs may use a new partition.
                let discovery = format!("{DISCOVERY_MS} ms");
                options.push(("scan.topic-partition-discovery.interval".into(), discovery));
                options.push((
                    "scan.watermark.idle-timeout".into(),
                    format!("{} ms", self.idle_ms),
                ));
            }
        }
        with(&options)
    }

    /// Options of the sink table for the topic at index `place`.
    pub(super) fn writing(&self, place: usize) -> String {
        let mut options = self.connector(self.merged.get(place).map_or("", String::as_str));
        options.push(("sink.delivery-guarantee".into(), "exactly-once".into()));
        options.push((
            "sink.transactional-id-prefix".into(),
            format!("{}-{place}", self.transactions),
        ));
        // Marks must stay in order.
        options.push(("sink.parallelism".into(), "1".into()));
        let request = "properties.max.request.size";
        if options.iter().all(|(name, _)| name != request) {
            options.push((request.into(), RECORD_BYTES_MAX.to_string()));
        }
        options.push((
            "properties.transaction.timeout.ms".into(),
            self.transaction_ms.to_string(),
        ));
        with(&options)
    }

    fn connector(&self, topic: &str) -> Vec<(String, String)> {
        let own = [
            ("connector", "kafka"),
            ("topic", topic),
            ("properties.bootstrap.servers", &self.brokers),
            ("format", "avro"),
        ];
        let own = own
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let given = self
            .properties
            .iter()
            .map(|(name, value)| (format!("properties.{name}"), value.clone()));
        own.chain(given).collect()
    }
}

fn with(options: &[(String, String)]) -> String {
    let lines: Vec<String> = options
        .iter()
        .map(|(name, value)| format!("  {} = {}", text(name), text(value)))
        .collect();
    format!("WITH (\n{}\n)", lines.join(",\n"))
}

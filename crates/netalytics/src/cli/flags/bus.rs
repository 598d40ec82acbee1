//! Flags of queries and publishers that have Kafka between them.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};

use super::limits::{LimitFlags, bytes, duration};
use super::live::LiveFlags;
use super::text::QueryText;
use super::values::{WorkerCount, label, workers};

/// Connection to Kafka.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct KafkaFlags {
    /// Bootstrap brokers, separated by commas
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub kafka: String,

    #[command(flatten)]
    pub client: KafkaClientFlags,
}

/// Properties of the Kafka client.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct KafkaClientFlags {
    /// Property of librdkafka, as in security.protocol=SSL; repeatable
    #[arg(long = "kafka-property", value_name = "NAME=VALUE", value_parser = property, requires = "kafka")]
    pub properties: Vec<(String, String)>,

    /// File with properties of librdkafka, one per line; for passwords, which must not be on the command line
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "kafka")]
    pub kafka_properties: Option<PathBuf>,
}

/// Flags of queries over published records.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct BusFlags {
    /// Read tuples of netalytics publish from this Kafka instead of packets: bootstrap brokers, separated by commas
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["read", "interface", "listen"])]
    pub kafka: Option<String>,

    #[command(flatten)]
    pub client: KafkaClientFlags,

    /// With SINCE: continue with new records
    #[arg(long, requires = "kafka")]
    pub follow: bool,

    /// Kind of records to read: raw tuples, or cells of pre-aggregated groups [default: cells if published for this
    /// query]
    #[arg(long, value_enum, value_name = "WHAT", requires = "kafka")]
    pub published: Option<PublishContentFlag>,

    /// Engine that merges the records
    #[arg(long, value_enum, default_value_t = MergeEngineFlag::Embedded, value_name = "WHO", requires = "kafka")]
    #[arg(requires_if("flink", "flink_gateway"))]
    pub engine: MergeEngineFlag,

    #[command(flatten)]
    pub flink: FlinkFlags,
}

/// Addresses of Flink, and settings of its jobs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct FlinkFlags {
    /// Address of Flink's SQL Gateway
    #[arg(long, value_name = "URL", requires = "kafka")]
    pub flink_gateway: Option<String>,

    /// Address of Flink's REST API, for job states and failure reasons
    #[arg(long, value_name = "URL", requires = "flink_gateway")]
    pub flink: Option<String>,

    /// Bootstrap brokers as Flink reaches them [default: --kafka]
    #[arg(long, value_name = "HOST:PORT", requires = "flink_gateway")]
    pub flink_kafka: Option<String>,

    /// Property of Flink's Kafka client, as in security.protocol=SSL; repeatable
    #[arg(long = "flink-kafka-property", value_name = "NAME=VALUE", value_parser = property, requires = "flink_gateway")]
    pub flink_properties: Vec<(String, String)>,

    /// Certificates (PEM) of the authorities trusted for the gateway, for https:// [default: the system's]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "flink_gateway")]
    pub flink_ca: Option<PathBuf>,

    /// Interval of Flink's checkpoints, which is also that of its progress reports
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, requires = "flink_gateway")]
    #[arg(help_heading = "Tuning")]
    pub checkpoints: i64,

    /// Parallelism of Flink's operators [default: Flink's]
    #[arg(long, value_name = "N", requires = "flink_gateway")]
    #[arg(help_heading = "Tuning")]
    pub parallelism: Option<u32>,
}

/// Flags of `explain` for queries over published records.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct ExplainBusFlags {
    /// Engine to explain; flink prints the SQL
    #[arg(long, value_enum, default_value_t = MergeEngineFlag::Embedded, value_name = "WHO")]
    pub engine: MergeEngineFlag,

    /// Kind of records to read [default: cells with PROCESS, otherwise tuples]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub published: Option<PublishContentFlag>,

    /// Bootstrap brokers in the SQL
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    pub kafka: String,
}

impl ExplainBusFlags {
    /// The flags of the equivalent query, without unrelated ones.
    pub fn asked(&self) -> BusFlags {
        BusFlags {
            kafka: Some(self.kafka.clone()),
            client: KafkaClientFlags {
                properties: Vec::new(),
                kafka_properties: None,
            },
            follow: false,
            published: self.published,
            engine: self.engine,
            flink: FlinkFlags {
                flink_gateway: None,
                flink: None,
                flink_kafka: None,
                flink_properties: Vec::new(),
                flink_ca: None,
                checkpoints: 1_000_000_000,
                parallelism: None,
            },
        }
    }
}

/// Engine that merges records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MergeEngineFlag {
    /// This process
    Embedded,
    /// Flink
    Flink,
}

impl MergeEngineFlag {
    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            MergeEngineFlag::Embedded => "embedded",
            MergeEngineFlag::Flink => "flink",
        }
    }
}

/// Transport of agents' results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BusFlag {
    /// Kafka topics
    Kafka,
}

impl BusFlag {
    /// Name in the API.
    pub fn word(self) -> &'static str {
        match self {
            BusFlag::Kafka => "kafka",
        }
    }
}

/// Kind of published records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PublishContentFlag {
    /// Raw tuples, for any query with the same parser
    Tuples,
    /// Groups aggregated by the publisher, for queries with the same blocks
    Cells,
}

/// Behavior while no broker is reachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BrokerOutagePolicy {
    /// Wait; the capture drops packets and counts them
    Block,
    /// Drop records and count them
    Drop,
}

/// Compression of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordCompression {
    /// Fast
    Lz4,
    /// Small
    Zstd,
}

/// Flags of `publish`.
#[derive(Args, Debug)]
pub struct PublishFlags {
    #[command(flatten)]
    pub text: QueryText,

    /// Captures (pcap, pcapng, also gzip or zstd; - is standard input), merged by time
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// Capture filter; the same as --capture-filter
    #[arg(value_name = "FILTER", index = 2)]
    pub words: Vec<String>,

    #[command(flatten)]
    pub kafka: KafkaFlags,

    /// Kind of records to publish [default: cells with PROCESS, otherwise tuples]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Kafka")]
    pub publish: Option<PublishContentFlag>,

    /// Behavior while no broker is reachable
    #[arg(long, value_enum, default_value_t = BrokerOutagePolicy::Block, value_name = "WHAT", help_heading = "Kafka")]
    pub away: BrokerOutagePolicy,

    /// Maximum bytes of unacknowledged records; from half of it, SAMPLE auto samples fewer flows
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = bytes, help_heading = "Limits")]
    pub unacknowledged_max: usize,

    /// Compression of records
    #[arg(long, value_enum, default_value_t = RecordCompression::Lz4, value_name = "HOW", help_heading = "Tuning")]
    pub compression: RecordCompression,

    /// Number of partitions of new topics; each publisher uses one alone, and partitions are added if none is free
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Tuning")]
    pub partitions: u32,

    /// Retention time of new topics
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration, help_heading = "Tuning")]
    pub retention: i64,

    /// Replication factor of new topics [default: the brokers' default]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Tuning")]
    pub replication: Option<u16>,

    /// Send texts unchanged; otherwise SQL literals become ? and other user data keyed hashes
    #[arg(long, help_heading = "Kafka")]
    pub no_redact: bool,

    /// File with the key of these hashes, 32 hexadecimal digits; the same for all publishers of a query [default: a
    /// random key per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact", help_heading = "Kafka")]
    pub redact_key: Option<PathBuf>,

    /// Write the summary as JSON; it accounts for every packet and record
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Messages")]
    pub summary_json: Option<PathBuf>,

    /// Number of threads that process packets, 1 to 256; auto: one per core for files, one for live capture
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Resources")]
    pub workers: WorkerCount,

    /// Value of label.NAME in the query; repeatable
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, help_heading = "Input")]
    pub labels: Vec<(String, String)>,

    #[command(flatten)]
    pub limits: LimitFlags,
}

/// `security.protocol=SSL`.
fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().into(), value.trim().into()))
        }
        _ => Err("NAME=VALUE, as in security.protocol=SSL".into()),
    }
}

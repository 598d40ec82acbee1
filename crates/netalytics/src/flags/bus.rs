//! Flags of queries and publishers that have Kafka between them.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};

use super::limits::{Limits, bytes, duration};
use super::live::LiveFlags;
use super::query::{QueryText, Workers, label, workers};

/// Which Kafka.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct KafkaFlags {
    /// Brokers to ask first, several with commas between
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub kafka: String,

    #[command(flatten)]
    pub client: KafkaClientFlags,
}

/// How its brokers are spoken to.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct KafkaClientFlags {
    /// A property of librdkafka, as security.protocol=SSL; may be given several times
    #[arg(long = "kafka-property", value_name = "NAME=VALUE", value_parser = property, requires = "kafka")]
    pub properties: Vec<(String, String)>,

    /// A file with such properties, a line each, for passwords: other users of this machine see the flags of a command
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "kafka")]
    pub kafka_properties: Option<PathBuf>,
}

/// Who answers a query from what others have published.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct BusFlags {
    /// Answer from what netalytics publish has sent to this Kafka, in place of packets: brokers to ask first, several with commas
    /// between. Without SINCE from now on; with it what there is by now
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["read", "interface", "listen"])]
    pub kafka: Option<String>,

    #[command(flatten)]
    pub client: KafkaClientFlags,

    /// With SINCE: go on with what comes
    #[arg(long, requires = "kafka")]
    pub follow: bool,

    /// Kind of published data to read: raw tuples, or cells of pre-aggregated groups [default: cells if this query's
    /// cells are published]
    #[arg(long, value_enum, value_name = "WHAT", requires = "kafka")]
    pub published: Option<Published>,

    /// Who merges: this process or Flink
    #[arg(long, value_enum, default_value_t = Merging::Embedded, value_name = "WHO", requires = "kafka")]
    #[arg(requires_if("flink", "flink_gateway"))]
    pub engine: Merging,

    #[command(flatten)]
    pub flink: FlinkFlags,
}

/// Which Flink, and how its jobs are.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct FlinkFlags {
    /// Flink's SQL Gateway
    #[arg(long, value_name = "URL", requires = "kafka")]
    pub flink_gateway: Option<String>,

    /// Flink's own REST interface, for states and reasons that the gateway does not know
    #[arg(long, value_name = "URL", requires = "flink_gateway")]
    pub flink: Option<String>,

    /// Brokers by the names that Flink has for them, where those differ
    #[arg(long, value_name = "HOST:PORT", requires = "flink_gateway")]
    pub flink_kafka: Option<String>,

    /// A property of Flink's Kafka client, as security.protocol=SSL; may be given several times
    #[arg(long = "flink-kafka-property", value_name = "NAME=VALUE", value_parser = property, requires = "flink_gateway")]
    pub flink_properties: Vec<(String, String)>,

    /// A file (PEM) with the certificates of the authorities that have signed those of the gateway; for https://
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "flink_gateway")]
    pub flink_ca: Option<PathBuf>,

    /// Between two of Flink's checkpoints, with each of which it tells what it has merged
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, requires = "flink_gateway")]
    pub checkpoints: i64,

    /// Most workers of each of Flink's operators [default: Flink's]
    #[arg(long, value_name = "N", requires = "flink_gateway")]
    pub parallelism: Option<u32>,
}

/// What is explained of a query of what was published.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Kafka")]
pub struct ExplainBusFlags {
    /// Engine to explain: for flink, the SQL
    #[arg(long, value_enum, default_value_t = Merging::Embedded, value_name = "WHO")]
    pub engine: Merging,

    /// Which of what was published is read [default: cells of a query with PROCESS, else tuples]
    #[arg(long, value_enum, value_name = "WHAT")]
    pub published: Option<Published>,

    /// Brokers that stand in the SQL
    #[arg(long, value_name = "HOST:PORT", default_value = "localhost:9092")]
    pub kafka: String,
}

impl ExplainBusFlags {
    /// The flags of a query that would be asked so, all others left out.
    pub fn asked(&self) -> BusFlags {
        BusFlags {
            kafka: Some(self.kafka.clone()),
            client: KafkaClientFlags { properties: Vec::new(), kafka_properties: None },
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

/// Who merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Merging {
    /// This process
    Embedded,
    /// Flink
    Flink,
}

impl Merging {
    /// As the API has it.
    pub fn word(self) -> &'static str {
        match self {
            Merging::Embedded => "embedded",
            Merging::Flink => "flink",
        }
    }
}

/// Over what agents' findings come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Bus {
    /// Topics of Kafka
    Kafka,
}

impl Bus {
    /// As the API has it.
    pub fn word(self) -> &'static str {
        match self {
            Bus::Kafka => "kafka",
        }
    }
}

/// What is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Published {
    /// Raw tuples, for any query of the same parser
    Tuples,
    /// Groups counted where they are captured, for queries that count the same
    Cells,
}

/// What to do while no broker answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Away {
    /// Wait, so that nothing is lost but packets, which the capture counts
    Block,
    /// Drop records, and count them
    Drop,
}

/// How records are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Compression {
    /// Quick
    Lz4,
    /// Small
    Zstd,
}

/// Flags of `publish`.
#[derive(Args, Debug)]
pub struct PublishFlags {
    #[command(flatten)]
    pub text: QueryText,

    /// Captures to read, merged by time: pcap or pcapng, also gzip or zstd of either; - is standard input
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// A capture filter: the same as --capture-filter
    #[arg(value_name = "FILTER", index = 2)]
    pub words: Vec<String>,

    #[command(flatten)]
    pub kafka: KafkaFlags,

    /// What is published [default: cells of a query with PROCESS, else tuples]
    #[arg(long, value_enum, value_name = "WHAT", help_heading = "Kafka")]
    pub publish: Option<Published>,

    /// While no broker answers
    #[arg(long, value_enum, default_value_t = Away::Block, value_name = "WHAT", help_heading = "Kafka")]
    pub away: Away,

    /// Most memory for records that no broker has acknowledged; where half of it is taken, SAMPLE auto looks at fewer flows. Files are read no
    /// faster than 8 MiB of it allow, unless records are dropped
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = bytes, help_heading = "Kafka")]
    pub unacknowledged_max: usize,

    /// How records are packed
    #[arg(long, value_enum, default_value_t = Compression::Lz4, value_name = "HOW", help_heading = "Kafka")]
    pub compression: Compression,

    /// Partitions of topics that do not exist yet; who publishes has one alone, and where none is free there will be more
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Kafka")]
    pub partitions: u32,

    /// How long such topics keep what they have
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = duration, help_heading = "Kafka")]
    pub retention: i64,

    /// On how many brokers they keep it [default: the brokers']
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Kafka")]
    pub replication: Option<u16>,

    /// Send texts as the packets say them. Otherwise literals of SQL become ?, and cache keys, the values in URLs' queries and names
    /// of files become keyed hashes
    #[arg(long, help_heading = "Kafka")]
    pub no_redact: bool,

    /// Key of the hashes, 32 hexadecimal digits in a file: publishers of one query need the same key [default: a new
    /// random key per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact", help_heading = "Kafka")]
    pub redact_key: Option<PathBuf>,

    /// Write the summary, which accounts for every packet and record, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Messages")]
    pub summary_json: Option<PathBuf>,

    /// Threads that work on packets, each with its share of the flows; auto is one for each core with files, one live
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Workers")]
    pub workers: Workers,

    /// A label of what is read here, which the query calls label.NAME; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, help_heading = "Input")]
    pub labels: Vec<(String, String)>,

    #[command(flatten)]
    pub limits: Limits,
}

/// `security.protocol=SSL`.
fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().into(), value.trim().into())),
        _ => Err("NAME=VALUE, as in security.protocol=SSL".into()),
    }
}

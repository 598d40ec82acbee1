//! Flags of the verbs that take a query.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use sinks::Zone;
use tuple::{Family, Origin};

use super::Limits;
use super::bus::{BusFlags, ExplainBusFlags};
use super::limits::{bytes, duration};
use super::live::LiveFlags;
use super::network::{NetworkFlags, Shown};
use super::outlets::{OutletFlags, RedactFlags};
use super::zone::zone;

/// Flags of `query`.
#[derive(Args, Debug)]
pub struct QueryFlags {
    #[command(flatten)]
    pub work: WorkFlags,

    /// Where the result goes; without it, or with -, to standard output
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// How to print: table on a terminal, jsonl otherwise, unless this says so
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<Format>,

    /// Print JSON lines: short for --format jsonl
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub json: bool,

    /// Show addresses, not host names (only tables show names)
    #[arg(short = 'n', long, help_heading = "Output")]
    pub no_resolve: bool,

    /// Whose time tables show: local, UTC, a name as Europe/Berlin, or an offset as +02:00. Other formats have nanoseconds
    /// since 1970, and times in queries are UTC unless they say their offset
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone, help_heading = "Output")]
    pub time_zone: Zone,

    /// Which host names tables show: those of hosts files and captures, or also those that DNS answers in the captures give
    /// for addresses, for which the files are read twice
    #[arg(long, value_enum, default_value_t = ShownNames::Hosts, value_name = "WHICH", conflicts_with = "no_resolve")]
    #[arg(help_heading = "Output")]
    pub names: ShownNames,

    #[command(flatten)]
    pub outlets: OutletFlags,

    #[command(flatten)]
    pub redact: RedactFlags,
}

/// Flags of `record`.
#[derive(Args, Debug)]
pub struct RecordFlags {
    #[command(flatten)]
    pub work: WorkFlags,

    /// The folder of the data set; made if it is missing, and what it holds already stays
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub output: PathBuf,

    /// Keep texts as the packets say them. Otherwise literals of SQL become ?, and cache keys, the values in URLs' queries
    /// and names of files become keyed hashes
    #[arg(long, help_heading = "Output")]
    pub no_redact: bool,

    /// Key of the hashes, 32 hexadecimal digits in a file, for equal hashes in several recordings [default: a new
    /// random key per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact")]
    #[arg(help_heading = "Output")]
    pub redact_key: Option<PathBuf>,

    #[command(flatten)]
    pub outlets: OutletFlags,
}

/// Flags of every verb that answers a query.
#[derive(Args, Clone, Debug)]
pub struct WorkFlags {
    #[command(flatten)]
    pub text: QueryText,

    /// Captures to read, merged by time: pcap or pcapng, also gzip or zstd of either; - is standard input; or the
    /// folders of recordings
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// Captures of the same traffic made nearer to the servers, for tap.network_time and its like; -r are those made nearer to
    /// the clients
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    #[arg(requires = "read", help_heading = "Input")]
    pub server_tap: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// A capture filter: the same as --capture-filter
    #[arg(value_name = "FILTER", index = 2)]
    pub words: Vec<String>,

    /// End after this many packets that FROM, TO and the capture filter take, as LIMIT 5000p does
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Input")]
    pub count: Option<u64>,

    /// Write packets as pcapng: those that the query looks at, or with WHERE the whole flows of the tuples that pass; - is
    /// standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub write: Option<PathBuf>,

    /// With -w and WHERE, live or from a pipe: time for which packets are buffered
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, help_heading = "Output")]
    pub look_back: i64,

    /// When a file of recorded tuples or packets ends and the next begins: 1h (by the packets' clock), 1GB or 1h,1GB
    /// [default: 1GB for tuples, never for packets]
    #[arg(long, value_name = "WHEN", value_parser = rotate, help_heading = "Output")]
    pub rotate: Option<Rotate>,

    /// Show how far reading has come: auto does so on a terminal when it takes longer than a second
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Messages")]
    pub progress: Progress,

    /// Write the summary, which accounts for every packet, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Messages")]
    pub summary_json: Option<PathBuf>,

    /// Show how the workers are every so often, as in 1s: rates, losses, how full their tables are [with -v: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Messages")]
    pub stats: Option<i64>,

    /// Threads that work on packets, each with its share of the flows; auto is one for each core with files, one live
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Workers")]
    pub workers: Workers,

    /// Bind the workers to these cores, in turn; without a list, to all that may be used
    #[arg(long, value_name = "CORES", num_args = 0..=1, default_missing_value = "", value_parser = cores)]
    #[arg(help_heading = "Workers", require_equals = true)]
    pub pin: Option<Cores>,

    /// Check-sums of file data in the tuples of nfs and rpc: of every block of 512 bytes, or none, which spares hashing
    #[arg(long, value_enum, default_value_t = Checksums::Blocks, value_name = "WHICH", help_heading = "Output")]
    pub checksums: Checksums,

    /// Which of the possible samples SAMPLE takes, as in `SAMPLE 0.1`: another for every number
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub sample_seed: u64,

    /// A label of what is read here, which the query calls label.NAME; a recording keeps it; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, help_heading = "Input")]
    pub labels: Vec<(String, String)>,

    #[command(flatten)]
    pub bus: BusFlags,

    #[command(flatten)]
    pub network: NetworkFlags,

    /// What monitors' hosts run as netalytics, if it is elsewhere there than here
    #[arg(long, value_name = "PATH", requires = "network", help_heading = "In a network")]
    pub monitor_program: Option<PathBuf>,

    #[command(flatten)]
    pub limits: Limits,
}

/// Flags of `explain`.
#[derive(Args, Debug)]
pub struct ExplainFlags {
    #[command(flatten)]
    pub text: QueryText,

    #[command(flatten)]
    pub network: NetworkFlags,

    /// How the plan for the network is shown
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        requires = "network",
        help_heading = "In a network"
    )]
    pub format: Shown,

    #[command(flatten)]
    pub bus: ExplainBusFlags,

    /// Also say what the query would take of the hosts of this server's agents, about
    #[arg(long, value_name = "URL", help_heading = "By a server")]
    pub server: Option<String>,

    /// A file with the token [default: NETALYTICS_TOKEN, else the file NETALYTICS_TOKEN_FILE, else `token_file` in the client profile]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server", help_heading = "By a server")]
    pub token_file: Option<PathBuf>,

    /// The certificate of the authority that has signed the server's, PEM; for https://
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server", help_heading = "By a server")]
    pub ca: Option<PathBuf>,
}

/// Where the query comes from, and the names it may use.
#[derive(Args, Clone, Debug)]
pub struct QueryText {
    /// The query, in quotes
    #[arg(value_name = "QUERY", index = 1, conflicts_with = "query_file")]
    pub query: Option<String>,

    /// Read the query from a file; - is standard input
    #[arg(short = 'f', long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub query_file: Option<PathBuf>,

    /// Additional host names, in the syntax of /etc/hosts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub hosts: Option<PathBuf>,
}

impl QueryText {
    /// The same with the query's text, which is not read again.
    pub fn with_query(&self, query: String) -> QueryText {
        QueryText { query: Some(query), ..self.clone() }
    }
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: columns, units, rounded numbers
    Table,
    /// One JSON object a line, exact values
    #[value(alias = "json")]
    Jsonl,
    /// RFC 4180 with a header line, exact values
    Csv,
    /// One Apache Parquet file, exact values; of one result only
    Parquet,
}

/// Which check-sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Checksums {
    /// None
    Off,
    /// Of every block
    Blocks,
}

/// Which host names tables show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShownNames {
    /// Those of hosts files and captures
    Hosts,
    /// Also those of DNS answers
    Dns,
}

/// When to show how far reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// On a terminal, when it takes long
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

/// How many workers; `None`: as many as fit.
#[derive(Clone, Copy, Debug)]
pub struct Workers(pub Option<usize>);

/// Cores by number; none: all that this process may use.
#[derive(Clone, Debug)]
pub struct Cores(pub Vec<usize>);

/// More would only wait for each other.
const WORKERS_MAX: usize = 256;

/// When files end; at least one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotate {
    /// Nanoseconds.
    pub every_ns: Option<i64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

impl WorkFlags {
    /// What tuples that are found here say of where they come from.
    pub fn origin(&self) -> Origin {
        Origin { agent: None, labels: self.labels.iter().cloned().collect() }
    }
}

/// `role=web`.
pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    match Family::key(name) {
        Some(_) if !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err("NAME=VALUE, as in role=web; a name has letters, digits, - and _".into()),
    }
}

/// `1h`, `1GB`, `1h,1GB`.
fn rotate(text: &str) -> Result<Rotate, String> {
    let mut rotate = Rotate::default();
    for part in text.split(',').map(str::trim) {
        match (duration(part), bytes(part)) {
            (Ok(ns), _) if rotate.every_ns.is_none() => rotate.every_ns = Some(ns),
            (_, Ok(n)) if rotate.bytes.is_none() => rotate.bytes = Some(n as u64),
            _ => return Err("a time, a size, or both, as in 1h, 1GB or 1h,1GB".into()),
        }
    }
    Ok(rotate)
}

pub(super) fn workers(text: &str) -> Result<Workers, String> {
    match text.parse::<usize>() {
        _ if text == "auto" => Ok(Workers(None)),
        Ok(n @ 1..=WORKERS_MAX) => Ok(Workers(Some(n))),
        _ => Err(format!("auto, or a number from 1 to {WORKERS_MAX}")),
    }
}

/// `0,2-5`.
fn cores(text: &str) -> Result<Cores, String> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.trim().parse::<u16>().ok()?..=last.trim().parse::<u16>().ok()?;
        Some(range.map(usize::from))
    };
    let parts = text.split(',').filter(|part| !part.is_empty()).map(range);
    let cores: Option<Vec<_>> = parts.collect();
    let cores = cores.ok_or("cores by number, as in 0,2-5")?;
    Ok(Cores(cores.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_files_end() {
        let hour = Some(3_600_000_000_000);
        for (text, expected) in [
            ("1h", Some(Rotate { every_ns: hour, bytes: None })),
            ("1GB", Some(Rotate { every_ns: None, bytes: Some(1 << 30) })),
            ("64M, 1h", Some(Rotate { every_ns: hour, bytes: Some(64 << 20) })),
            ("1h,2h", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(rotate(text).ok(), expected, "{text}");
        }
    }
}

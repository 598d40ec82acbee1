//! Flags of the commands that take a query.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use sinks::DisplayZone;
use tuple::AgentOrigin;

use super::LimitFlags;
use super::bus::{BusFlags, ExplainBusFlags};
use super::limits::{bytes, duration};
use super::live::LiveFlags;
use super::network::{NetworkFlags, PlanFormat};
use super::outlets::{OutletFlags, RedactFlags};
use super::text::QueryText;
use super::values::{CoreList, WorkerCount, cores, label, workers};
use super::zone::zone;

/// Flags of `query`.
#[derive(Args, Debug)]
pub struct QueryFlags {
    #[command(flatten)]
    pub work: WorkFlags,

    /// Write the result to this file; - is standard output [default: -]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Output format [default: table on a terminal, otherwise jsonl]
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<OutputFormat>,

    /// Print JSON lines; short for --format jsonl
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub json: bool,

    /// Print addresses instead of host names in tables
    #[arg(short = 'n', long, help_heading = "Output")]
    pub no_resolve: bool,

    /// Time zone of times in tables: UTC, local, Europe/Berlin, +02:00
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone, help_heading = "Output")]
    pub time_zone: DisplayZone,

    /// Source of host names in tables; dns reads the files twice
    #[arg(long, value_enum, default_value_t = HostNameSource::Hosts, value_name = "WHICH", conflicts_with = "no_resolve")]
    #[arg(help_heading = "Output")]
    pub names: HostNameSource,

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

    /// Folder of the data set, created if missing; existing files are kept
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub output: PathBuf,

    /// Store texts unchanged; otherwise SQL literals become ? and other user data keyed hashes
    #[arg(long, help_heading = "Output")]
    pub no_redact: bool,

    /// File with the key of these hashes, 32 hexadecimal digits, for equal hashes in several recordings [default: a
    /// random key per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact")]
    #[arg(help_heading = "Output")]
    pub redact_key: Option<PathBuf>,

    #[command(flatten)]
    pub outlets: OutletFlags,
}

/// Flags of every command that runs a query.
#[derive(Args, Clone, Debug)]
pub struct WorkFlags {
    #[command(flatten)]
    pub text: QueryText,

    /// Captures (pcap, pcapng, also gzip or zstd; - is standard input) or recordings; merged by time
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// Captures of the same traffic closer to the servers, for tap.network_time; -r are those closer to the clients
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    #[arg(requires = "read", help_heading = "Input")]
    pub server_tap: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// Keys of TLS connections to decrypt: an NSS key log (SSLKEYLOGFILE), a named pipe, or a folder of key logs;
    /// repeatable, and followed while packets are captured
    #[arg(long, value_name = "FILE", value_hint = ValueHint::AnyPath, help_heading = "Input")]
    pub keys: Vec<PathBuf>,

    /// Time for which a connection of a live capture or pipe waits for its keys
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = duration, requires = "keys")]
    #[arg(help_heading = "Tuning")]
    pub key_wait: i64,

    /// Capture filter; the same as --capture-filter
    #[arg(value_name = "FILTER", index = 2)]
    pub words: Vec<String>,

    /// Stop after N packets that match FROM, TO and the capture filter, as LIMIT 5000p
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Input")]
    pub count: Option<u64>,

    /// Write packets as pcapng: those read, or with WHERE the complete flows of matching tuples; - is standard output,
    /// sflow://HOST:PORT an sFlow collector
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub write: Option<PathBuf>,

    /// Time for which -w with WHERE buffers packets of a live capture or pipe
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, help_heading = "Tuning")]
    pub look_back: i64,

    /// Start a new file of tuples or packets: 1h (packet time), 1GB or 1h,1GB [default: 1GB for tuples, never for
    /// packets]
    #[arg(long, value_name = "WHEN", value_parser = rotate, help_heading = "Output")]
    pub rotate: Option<FileRotation>,

    /// Progress on standard error; auto: on a terminal after one second
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto, value_name = "WHEN", help_heading = "Messages")]
    pub progress: ProgressMode,

    /// Write the summary as JSON; it accounts for every packet
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Messages")]
    pub summary_json: Option<PathBuf>,

    /// Print rates, losses and table sizes of each worker at this interval, as in 1s [default with -v: 1s]
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Messages")]
    pub stats: Option<i64>,

    /// Number of threads that process packets, 1 to 256; auto: one per core for files, one for live capture
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Resources")]
    pub workers: WorkerCount,

    /// Bind workers to these cores, as in 0,2-5; without a list, to all allowed cores
    #[arg(long, value_name = "CORES", num_args = 0..=1, default_missing_value = "", value_parser = cores)]
    #[arg(help_heading = "Tuning", require_equals = true)]
    pub pin: Option<CoreList>,

    /// Checksums of file data in tuples of nfs and rpc, per block of 512 bytes; off saves the hashing
    #[arg(long, value_enum, default_value_t = ChecksumFlag::Blocks, value_name = "WHICH", help_heading = "Output")]
    pub checksums: ChecksumFlag,

    /// Random seed for SAMPLE; the same seed selects the same flows
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(help_heading = "Input")]
    pub sample_seed: u64,

    /// Value of label.NAME in the query, stored in recordings; repeatable
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label, help_heading = "Input")]
    pub labels: Vec<(String, String)>,

    #[command(flatten)]
    pub bus: BusFlags,

    #[command(flatten)]
    pub network: NetworkFlags,

    /// Path of netalytics on the monitors' hosts [default: the path of this program]
    #[arg(
        long,
        value_name = "PATH",
        requires = "network",
        help_heading = "In a network"
    )]
    pub monitor_program: Option<PathBuf>,

    #[command(flatten)]
    pub limits: LimitFlags,
}

/// Flags of `explain`.
#[derive(Args, Debug)]
pub struct ExplainFlags {
    #[command(flatten)]
    pub text: QueryText,

    #[command(flatten)]
    pub network: NetworkFlags,

    /// Output format of the plan for a network
    #[arg(
        long,
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        requires = "network",
        help_heading = "In a network"
    )]
    pub format: PlanFormat,

    #[command(flatten)]
    pub bus: ExplainBusFlags,

    /// Also estimate the cost of the query on the hosts of this server's agents
    #[arg(long, value_name = "URL", help_heading = "By a server")]
    pub server: Option<String>,

    /// File with the token [default: NETALYTICS_TOKEN, NETALYTICS_TOKEN_FILE, or token_file in the client profile]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server", help_heading = "By a server")]
    pub token_file: Option<PathBuf>,

    /// Certificate (PEM) of the authority that signed the server's, for https:// [default: NETALYTICS_CA, ca in the
    /// client profile, or the system's authorities]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server", help_heading = "By a server")]
    pub ca: Option<PathBuf>,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Columns for people, with units and rounded numbers
    Table,
    /// One JSON object per line, exact values
    #[value(alias = "json")]
    Jsonl,
    /// RFC 4180 with a header line, exact values
    Csv,
    /// One Apache Parquet file, exact values; for a single result
    Parquet,
}

/// Checksums of file data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChecksumFlag {
    /// No checksums
    Off,
    /// One per block
    Blocks,
}

/// Source of host names in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HostNameSource {
    /// Hosts files and pcapng name records
    Hosts,
    /// Also DNS answers in the captures
    Dns,
}

/// Display of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// On a terminal after one second
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Rotation limits of files; at least one is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRotation {
    /// Nanoseconds.
    pub every_ns: Option<i64>,
    /// Bytes.
    pub bytes: Option<u64>,
}

impl WorkFlags {
    /// Origin of the tuples of this process.
    pub fn origin(&self) -> AgentOrigin {
        AgentOrigin {
            agent: None,
            labels: self.labels.iter().cloned().collect(),
        }
    }

    /// Names of the inputs.
    pub fn inputs(&self) -> Vec<String> {
        let interfaces = self.live.interfaces.iter().cloned();
        let mirrors = self.live.listen.iter().map(|listen| format!("{listen:?}"));
        self.read
            .iter()
            .map(|path| path.display().to_string())
            .chain(interfaces)
            .chain(mirrors)
            .collect()
    }
}

/// `1h`, `1GB`, `1h,1GB`.
fn rotate(text: &str) -> Result<FileRotation, String> {
    let mut rotate = FileRotation::default();
    for part in text.split(',').map(str::trim) {
        match (duration(part), bytes(part)) {
            (Ok(ns), _) if rotate.every_ns.is_none() => rotate.every_ns = Some(ns),
            (_, Ok(n)) if rotate.bytes.is_none() => rotate.bytes = Some(n as u64),
            _ => return Err("a time, a size, or both, as in 1h, 1GB or 1h,1GB".into()),
        }
    }
    Ok(rotate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_files_end() {
        let hour = Some(3_600_000_000_000);
        for (text, expected) in [
            (
                "1h",
                Some(FileRotation {
                    every_ns: hour,
                    bytes: None,
                }),
            ),
            (
                "1GB",
                Some(FileRotation {
                    every_ns: None,
                    bytes: Some(1 << 30),
                }),
            ),
            (
                "64M, 1h",
                Some(FileRotation {
                    every_ns: hour,
                    bytes: Some(64 << 20),
                }),
            ),
            ("1h,2h", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(rotate(text).ok(), expected, "{text}");
        }
    }
}

//! Flags of the commands that summarize an input with built-in queries: `overview`, `map`.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};

use super::limits::duration;
use super::live::LiveFlags;
use super::values::workers;
use super::{HostNameSource, LimitFlags, ProgressMode, WorkerCount};

/// Input of `overview` and `map`.
#[derive(Args, Debug)]
pub struct TrafficInputFlags {
    /// Captures (pcap, pcapng, also gzip or zstd; - is standard input), merged by time
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// Capture filter; the same as --capture-filter
    #[arg(value_name = "FILTER")]
    pub words: Vec<String>,

    /// Stop after this much packet time, as in 30s [default: the end of the files; live until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub span: Option<i64>,

    /// Progress on standard error; auto: on a terminal after one second
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto, value_name = "WHEN", help_heading = "Messages")]
    pub progress: ProgressMode,

    /// Number of threads that process packets, 1 to 256; auto: one per core for files, one for live capture
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Resources")]
    pub workers: WorkerCount,

    #[command(flatten)]
    pub limits: LimitFlags,
}

/// Flags of `overview`.
#[derive(Args, Debug)]
pub struct OverviewFlags {
    #[command(flatten)]
    pub look: TrafficInputFlags,

    /// Output format
    #[arg(long, value_enum, default_value_t = OverviewFormat::Text, help_heading = "Output")]
    pub format: OverviewFormat,
}

/// Output format of `overview`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverviewFormat {
    /// Text, as wide as the terminal or 80 columns
    Text,
    /// One JSON document, exact values
    Json,
}

/// Flags of `map`.
#[derive(Args, Debug)]
pub struct MapFlags {
    #[command(flatten)]
    pub look: TrafficInputFlags,

    /// Additional host names, in the syntax of /etc/hosts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub hosts: Option<PathBuf>,

    /// Print addresses instead of host names
    #[arg(short = 'n', long, help_heading = "Output")]
    pub no_resolve: bool,

    /// Source of host names; dns reads the files twice
    #[arg(long, value_enum, default_value_t = HostNameSource::Hosts, value_name = "WHICH", conflicts_with = "no_resolve")]
    #[arg(help_heading = "Output")]
    pub names: HostNameSource,

    /// Output format
    #[arg(long, value_enum, default_value_t = MapFormat::Text, help_heading = "Output")]
    pub format: MapFormat,
}

/// Output format of `map`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapFormat {
    /// Text, as wide as the terminal or 80 columns
    Text,
    /// One JSON document, exact values
    Json,
    /// Graphviz: | dot -Tsvg
    Dot,
}

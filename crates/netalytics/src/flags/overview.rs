//! Flags of what looks at all there is with queries of its own: `overview`, `map`.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};

use super::limits::duration;
use super::live::LiveFlags;
use super::query::workers;
use super::{Limits, Progress, ShownNames, Workers};

/// What to look at.
#[derive(Args, Debug)]
pub struct LookFlags {
    /// Captures to read, merged by time: pcap or pcapng, also gzip or zstd of either; - is standard input
    #[arg(short, long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    #[command(flatten)]
    pub live: LiveFlags,

    /// A capture filter: the same as --capture-filter
    #[arg(value_name = "FILTER")]
    pub words: Vec<String>,

    /// Look at so much of it, by the packets' clock, as in 30s [default: all of it; live until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub span: Option<i64>,

    /// Show how far reading has come: auto does so on a terminal when it takes longer than a second
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Messages")]
    pub progress: Progress,

    /// Threads that work on packets, each with its share of the flows; auto is one for each core with files, one live
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Workers")]
    pub workers: Workers,

    #[command(flatten)]
    pub limits: Limits,
}

/// What to look at, and how to show it.
#[derive(Args, Debug)]
pub struct OverviewFlags {
    #[command(flatten)]
    pub look: LookFlags,

    /// How to show it
    #[arg(long, value_enum, default_value_t = OverviewFormat::Text, help_heading = "Output")]
    pub format: OverviewFormat,
}

/// How an overview is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverviewFormat {
    /// For people: as wide as the terminal, or 80 columns
    Text,
    /// One JSON document, exact values
    Json,
}

/// What to look at, and how to show it.
#[derive(Args, Debug)]
pub struct MapFlags {
    #[command(flatten)]
    pub look: LookFlags,

    /// Names of hosts, in the syntax of /etc/hosts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub hosts: Option<PathBuf>,

    /// Show addresses, not host names
    #[arg(short = 'n', long, help_heading = "Output")]
    pub no_resolve: bool,

    /// Which host names are shown: those of hosts files and captures, or also those that DNS answers in the captures give for
    /// addresses, for which the files are read twice
    #[arg(long, value_enum, default_value_t = ShownNames::Hosts, value_name = "WHICH", conflicts_with = "no_resolve")]
    #[arg(help_heading = "Output")]
    pub names: ShownNames,

    /// How to show it
    #[arg(long, value_enum, default_value_t = MapFormat::Text, help_heading = "Output")]
    pub format: MapFormat,
}

/// How a map is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MapFormat {
    /// For people: as wide as the terminal, or 80 columns
    Text,
    /// One JSON document, exact values
    Json,
    /// For Graphviz: | dot -Tsvg
    Dot,
}

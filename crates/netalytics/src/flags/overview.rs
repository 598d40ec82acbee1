//! Flags of `overview`.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};

use super::limits::duration;
use super::live::LiveFlags;
use super::query::workers;
use super::{Limits, Progress, Workers};

/// What to look at, and how to show it.
#[derive(Args, Debug)]
pub struct OverviewFlags {
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

    /// How to show it
    #[arg(long, value_enum, default_value_t = OverviewFormat::Text, help_heading = "Output")]
    pub format: OverviewFormat,

    /// Show how far reading has come: auto does so on a terminal when it takes longer than a second
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Messages")]
    pub progress: Progress,

    /// Threads that work on packets, each with its share of the flows; auto is one for each core with files, one live
    #[arg(long, value_name = "N", default_value = "auto", value_parser = workers, help_heading = "Workers")]
    pub workers: Workers,

    #[command(flatten)]
    pub limits: Limits,
}

/// How an overview is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverviewFormat {
    /// For people: as wide as the terminal, or 80 columns
    Text,
    /// One JSON document, exact values
    Json,
}

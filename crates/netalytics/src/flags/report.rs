//! Flags of `report`.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use sinks::Zone;

use super::WorkFlags;
use super::limits::duration;
use super::zone::zone;

/// What a finding is of, and how it is written.
#[derive(Args, Debug)]
pub struct ReportFlags {
    #[command(flatten)]
    pub work: WorkFlags,

    /// Where the file goes; without it, or with -, to standard output
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// The whole finding, or its first picture
    #[arg(long, value_enum, default_value_t = ReportFormat::Html, help_heading = "Output")]
    pub format: ReportFormat,

    /// What stands above it [default: the names of what is read]
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub title: Option<String>,

    /// Show addresses, not host names
    #[arg(short = 'n', long, help_heading = "Output")]
    pub no_resolve: bool,

    /// Whose time is shown: local, UTC, a name as Europe/Berlin, or an offset as +02:00
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone, help_heading = "Output")]
    pub time_zone: Zone,

    /// Keep texts as the packets say them. Otherwise literals of SQL become ?, and cache keys, the values in URLs' queries
    /// and names of files become keyed hashes
    #[arg(long, help_heading = "Output")]
    pub no_redact: bool,

    /// Key of the hashes, 32 hexadecimal digits in a file, for equal hashes in several files [default: a new random key
    /// per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact")]
    #[arg(help_heading = "Output")]
    pub redact_key: Option<PathBuf>,

    /// Without QUERY: look at so much of it, by the packets' clock, as in 30s [default: all of it; live until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub span: Option<i64>,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One HTML file with everything in it
    Html,
    /// The first picture alone
    Svg,
}

//! Flags of `report`.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use sinks::DisplayZone;

use super::WorkFlags;
use super::limits::duration;
use super::zone::zone;

/// Flags of `report`.
#[derive(Args, Debug)]
pub struct ReportFlags {
    #[command(flatten)]
    pub work: WorkFlags,

    /// Write the report to this file; - is standard output [default: -]
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Html, help_heading = "Output")]
    pub format: ReportFormat,

    /// Title of the report [default: the names of the inputs]
    #[arg(long, value_name = "TEXT", help_heading = "Output")]
    pub title: Option<String>,

    /// Print addresses instead of host names
    #[arg(short = 'n', long, help_heading = "Output")]
    pub no_resolve: bool,

    /// Time zone of times: UTC, local, Europe/Berlin, +02:00
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone, help_heading = "Output")]
    pub time_zone: DisplayZone,

    /// Print texts unchanged; otherwise SQL literals become ? and other user data keyed hashes
    #[arg(long, help_heading = "Output")]
    pub no_redact: bool,

    /// File with the key of these hashes, 32 hexadecimal digits, for equal hashes in several reports [default: a
    /// random key per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact")]
    #[arg(help_heading = "Output")]
    pub redact_key: Option<PathBuf>,

    /// Without QUERY: stop after this much packet time, as in 30s [default: the end of the files; live until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration, help_heading = "Input")]
    pub span: Option<i64>,
}

/// Output format of `report`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// One self-contained HTML file
    Html,
    /// The first picture only
    Svg,
}

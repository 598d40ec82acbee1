//! Flags of `compare` and of `check`: another input to compare with, and when a number differs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::{QueryFlags, ServerQueryFlags, WorkFlags};

/// Flags of `compare`.
#[derive(Args, Debug)]
pub struct CompareFlags {
    #[command(flatten)]
    pub query: QueryFlags,

    #[command(flatten)]
    pub kept: ServerQueryFlags,

    /// Captures or recordings to compare with [default: the period of the query's BASELINE]
    #[arg(short, long, value_name = "FILE", num_args = 1.., conflicts_with = "server", value_hint = ValueHint::AnyPath, help_heading = "Input")]
    pub baseline: Vec<PathBuf>,

    /// Confidence level at which a difference is significant, 50% to below 100%
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = confidence)]
    pub confidence: f64,
}

/// Flags of `check`.
#[derive(Args, Debug)]
pub struct CheckFlags {
    #[command(flatten)]
    pub work: WorkFlags,

    #[command(flatten)]
    pub kept: ServerQueryFlags,

    /// Condition that all rows must meet, as in 'p99 < 50ms', 'any(status >= 500)' or 'rows > 0'; repeatable
    #[arg(long = "assert", value_name = "CONDITION", required = true)]
    pub asserts: Vec<String>,

    /// Captures or recordings to compare with, for baseline.p99, ratio.p99 and differs.p99 in assertions
    #[arg(short, long, value_name = "FILE", num_args = 1.., conflicts_with = "server", value_hint = ValueHint::AnyPath, help_heading = "Input")]
    pub baseline: Vec<PathBuf>,

    /// Confidence level at which a difference is significant, 50% to below 100%
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = confidence)]
    pub confidence: f64,

    /// Treat an assertion as met if no row is selected
    #[arg(long)]
    pub allow_empty: bool,

    /// Write the result of each assertion: JUnit XML if the name ends in .xml, otherwise JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub report: Option<PathBuf>,
}

fn confidence(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    share
        .ok()
        .filter(|share| (0.5..1.0).contains(share))
        .ok_or_else(|| "expected a share from 50% to below 100%".into())
}

//! Flags of `compare` and of `check`: another input to compare with, and when a number differs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::{KeptFlags, QueryFlags, WorkFlags};

/// Flags of `compare`.
#[derive(Args, Debug)]
pub struct CompareFlags {
    #[command(flatten)]
    pub query: QueryFlags,

    #[command(flatten)]
    pub kept: KeptFlags,

    /// What to compare with: captures or recordings, as with -r. Without it the query's BASELINE says which period
    #[arg(short, long, value_name = "FILE", num_args = 1.., conflicts_with = "server", value_hint = ValueHint::AnyPath, help_heading = "Input")]
    pub baseline: Vec<PathBuf>,

    /// Confidence level at which a value differs
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = confidence)]
    pub confidence: f64,
}

/// Flags of `check`.
#[derive(Args, Debug)]
pub struct CheckFlags {
    #[command(flatten)]
    pub work: WorkFlags,

    #[command(flatten)]
    pub kept: KeptFlags,

    /// What has to be true of every row: a condition over the columns of the result, as in 'p99 < 50ms'. any(…) is true of some
    /// row, 'rows > 0' is about their number, and WHERE behind it says which rows are meant. May be repeated
    #[arg(long = "assert", value_name = "CONDITION", required = true)]
    pub asserts: Vec<String>,

    /// What to compare with: captures or recordings. Assertions may say baseline.p99, ratio.p99 and differs.p99 then
    #[arg(short, long, value_name = "FILE", num_args = 1.., conflicts_with = "server", value_hint = ValueHint::AnyPath, help_heading = "Input")]
    pub baseline: Vec<PathBuf>,

    /// At which level a number differs
    #[arg(long, value_name = "SHARE", default_value = "95%", value_parser = confidence)]
    pub confidence: f64,

    /// Whether an assertion about rows of which there are none holds
    #[arg(long)]
    pub allow_empty: bool,

    /// Write the result of each assertion: JUnit XML if the file name ends in .xml, otherwise JSON
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

//! Flags of results that go to other programs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::limits::{bytes, duration, positive};

/// Additional destinations of rows.
#[derive(Args, Debug)]
#[command(next_help_heading = "To other programs")]
pub struct OutletFlags {
    /// Also send rows to this URL: tcp, prometheus, otlp+http, redis, webhook+https, kafka, ipfix, netflow9; @FILE
    /// reads it from a file; repeatable
    #[arg(long, value_name = "URL")]
    pub to: Vec<String>,

    /// Maximum bytes of rows that wait for each --to; beyond it, the oldest are dropped and counted
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = bytes, requires = "to")]
    #[arg(help_heading = "Tuning")]
    pub to_buffer: usize,

    /// Time after which a message that was not accepted is dropped
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, requires = "to")]
    #[arg(help_heading = "Tuning")]
    pub to_retry: i64,

    /// Maximum time to send the remaining rows at the end
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, requires = "to")]
    #[arg(help_heading = "Tuning")]
    pub to_timeout: i64,

    /// Maximum number of series per --to; the rest are left out and counted
    #[arg(long, value_name = "N", default_value = "10000", value_parser = positive, requires = "to")]
    #[arg(help_heading = "Tuning")]
    pub to_series: usize,
}

/// Redaction of rows sent to other programs.
#[derive(Args, Debug)]
#[command(next_help_heading = "To other programs")]
pub struct RedactFlags {
    /// With --to: send texts unchanged; otherwise SQL literals become ? and other user data keyed hashes
    #[arg(long, requires = "to")]
    pub no_redact: bool,

    /// With --to: file with the key of these hashes, 32 hexadecimal digits, for equal hashes in every run [default: a
    /// random key per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact", requires = "to")]
    pub redact_key: Option<PathBuf>,
}

//! Flags of results that go to other programs.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::limits::{bytes, duration, positive};

/// Additional destinations of rows.
#[derive(Args, Debug)]
#[command(next_help_heading = "To other programs")]
pub struct OutletFlags {
    /// Rows go there, too; may be repeated. tcp://HOST:PORT gets JSON lines, prometheus://127.0.0.1:9464 is a page here to be scraped,
    /// otlp+http://HOST:4318 a collector of OpenTelemetry, redis://HOST:6379/0, webhook+https://HOST/PATH,
    /// kafka://HOST:9092/netalytics.results; TLS by tcps, rediss and …+https. Behind # stand options: #secret-file=FILE,
    /// #secret-env=NAME, #ca-file=FILE, of Kafka #properties-file=FILE. @FILE: the address is in that file
    #[arg(long, value_name = "URL")]
    pub to: Vec<String>,

    /// Most bytes of rows that wait for each of them; beyond, the oldest are lost, and counted
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = bytes, requires = "to")]
    pub to_buffer: usize,

    /// How long a message is tried until it is given up
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, requires = "to")]
    pub to_retry: i64,

    /// How long they have at the end for what is left
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration, requires = "to")]
    pub to_timeout: i64,

    /// Most series that each of them shows; beyond, the others are left out, and counted
    #[arg(long, value_name = "N", default_value = "10000", value_parser = positive, requires = "to")]
    pub to_series: usize,
}

/// What texts of rows that leave look like.
#[derive(Args, Debug)]
#[command(next_help_heading = "To other programs")]
pub struct RedactFlags {
    /// With --to: send texts as the packets say them. Otherwise literals of SQL become ?, and cache keys, the values in URLs' queries
    /// and names of files become keyed hashes; what is printed here keeps them
    #[arg(long, requires = "to")]
    pub no_redact: bool,

    /// With --to: key of the hashes, 32 hexadecimal digits in a file, for equal hashes in every run [default: a new
    /// random key per run]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "no_redact", requires = "to")]
    pub redact_key: Option<PathBuf>,
}

//! Flags of the verbs that take a query.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};

use super::Limits;

/// Flags of `query`.
#[derive(Args, Debug)]
pub struct QueryFlags {
    #[command(flatten)]
    pub text: QueryText,

    /// Captures to read, merged by time: pcap or pcapng, also gzip or zstd of either; - is standard input
    #[arg(short, long, value_name = "FILE", num_args = 1.., required = true, value_hint = ValueHint::FilePath)]
    #[arg(help_heading = "Input")]
    pub read: Vec<PathBuf>,

    /// Where the result goes; without it, or with -, to standard output
    #[arg(short, long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// How to print: table on a terminal, jsonl otherwise, unless this says so
    #[arg(long, value_enum, help_heading = "Output")]
    pub format: Option<Format>,

    /// Show addresses, not host names (only tables show names)
    #[arg(long, help_heading = "Output")]
    pub no_resolve: bool,

    /// Show how far reading has come: auto does so on a terminal when it takes longer than a second
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "WHEN", help_heading = "Messages")]
    pub progress: Progress,

    /// Write the summary, which accounts for every packet, as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Messages")]
    pub summary_json: Option<PathBuf>,

    /// Threads that read packets; this version has one
    #[arg(long, value_name = "N", default_value = "1", value_parser = one_worker, help_heading = "Limits")]
    pub workers: u16,

    #[command(flatten)]
    pub limits: Limits,
}

/// Flags of `explain`.
#[derive(Args, Debug)]
pub struct ExplainFlags {
    #[command(flatten)]
    pub text: QueryText,
}

/// Where the query comes from, and the names it may use.
#[derive(Args, Debug)]
pub struct QueryText {
    /// The query, in quotes
    #[arg(value_name = "QUERY", required_unless_present = "query_file", conflicts_with = "query_file")]
    pub query: Option<String>,

    /// Read the query from a file; - is standard input
    #[arg(short = 'f', long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub query_file: Option<PathBuf>,

    /// Host names beside those of /etc/hosts, in the same syntax
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub hosts: Option<PathBuf>,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: columns, units, rounded numbers
    Table,
    /// One JSON object a line, exact values
    Jsonl,
    /// RFC 4180 with a header line, exact values
    Csv,
}

/// When to show how far reading has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    /// On a terminal, when it takes long
    Auto,
    /// In any case
    Always,
    /// Not at all
    Never,
}

fn one_worker(text: &str) -> Result<u16, String> {
    match text.parse::<u16>() {
        Ok(1) => Ok(1),
        Ok(_) => Err("this version works with 1 thread only".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

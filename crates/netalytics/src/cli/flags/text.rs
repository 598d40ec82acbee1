//! Flags of the text of a query.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

/// Source of the query, and additional host names.
#[derive(Args, Clone, Debug)]
pub struct QueryText {
    /// Query, in quotes
    #[arg(value_name = "QUERY", index = 1, conflicts_with = "query_file")]
    pub query: Option<String>,

    /// Read the query from this file; - is standard input
    #[arg(short = 'f', long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub query_file: Option<PathBuf>,

    /// Additional host names, in the syntax of /etc/hosts
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub hosts: Option<PathBuf>,
}

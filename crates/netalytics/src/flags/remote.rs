//! Flags of a query that a server's agents answer.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::limits::duration;
use super::query::QueryFlags;

/// Flags of `query`: what is asked, and who answers.
#[derive(Args, Debug)]
pub struct AskFlags {
    #[command(flatten)]
    pub query: QueryFlags,

    #[command(flatten)]
    pub remote: RemoteFlags,
}

/// Whose kept tuples and rows are asked.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "From what a server has kept")]
pub struct KeptFlags {
    /// Ask what the jobs of this server have kept; the query says since when (SINCE)
    #[arg(long, value_name = "URL", conflicts_with_all = ["read", "listen", "baseline"])]
    pub server: Option<String>,

    /// Only of a job for agents with this label; may be given several times
    #[arg(long, value_name = "LABEL=VALUE", requires = "server")]
    pub on: Vec<String>,

    /// A file with the token; else the environment's NETALYTICS_TOKEN
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub token_file: Option<PathBuf>,

    /// The certificate of the authority that has signed the server's, PEM; for https://
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub ca: Option<PathBuf>,
}

/// Who answers, when it is not this process.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "By a server's agents")]
pub struct RemoteFlags {
    /// Have the agents of this server answer, named by scheme, host and port; with -i from these interfaces of their hosts, * for any
    /// run of characters
    #[arg(long, value_name = "URL", conflicts_with_all = ["read", "listen"])]
    pub server: Option<String>,

    /// Only agents with this label; may be given several times
    #[arg(long, value_name = "LABEL=VALUE", requires = "server")]
    pub on: Vec<String>,

    /// A file with the token; else the environment's NETALYTICS_TOKEN
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub token_file: Option<PathBuf>,

    /// The certificate of the authority that has signed the server's, PEM; for https://
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub ca: Option<PathBuf>,

    /// How long the job goes on when this terminal is gone without having stopped it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, requires = "server")]
    pub lease: i64,

    /// Texts as the packets say them, which needs a token of the role raw; else those that may say something of a person are folded
    #[arg(long, requires = "server")]
    pub raw: bool,
}

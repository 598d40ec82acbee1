//! Flags of a query that a server's agents answer.

use std::path::PathBuf;

use clap::Args;
use clap::builder::ValueHint;

use super::limits::duration;
use super::query::QueryFlags;

/// Flags of `query`.
#[derive(Args, Debug)]
pub struct QueryCommandFlags {
    #[command(flatten)]
    pub query: QueryFlags,

    #[command(flatten)]
    pub remote: RemoteFlags,
}

/// Flags of a query that a server runs.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "By a server")]
pub struct ServerQueryFlags {
    /// Send the query to this server: with SINCE or BASELINE to its stored data, otherwise to its agents
    #[arg(long, value_name = "URL", conflicts_with_all = ["read", "listen", "labels", "kafka"])]
    pub server: Option<String>,

    /// Only agents with this label; repeatable
    #[arg(long, value_name = "LABEL=VALUE", requires = "server")]
    pub on: Vec<String>,

    /// File with the token [default: NETALYTICS_TOKEN, NETALYTICS_TOKEN_FILE, or token_file in the client profile]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub token_file: Option<PathBuf>,

    /// Certificate (PEM) of the authority that signed the server's, for https:// [default: NETALYTICS_CA, ca in the
    /// client profile, or the system's authorities]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub ca: Option<PathBuf>,
}

/// Flags of a query that a server's agents run.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "By a server")]
pub struct RemoteFlags {
    #[command(flatten)]
    pub kept: ServerQueryFlags,

    /// Run the job in the server's network (serve --network): planned monitors, switches that copy packets
    #[arg(long, requires = "server", conflicts_with_all = ["on", "interface"])]
    pub by_network: bool,

    /// Time for which the job continues after the connection to this terminal is lost
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, requires = "server")]
    pub lease: i64,

    /// Return texts unchanged (requires the role raw); otherwise texts that may identify a person are hashed
    #[arg(long, requires = "server")]
    pub raw: bool,
}

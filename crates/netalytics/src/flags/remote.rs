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

/// Which server answers in place of this process, and for which agents.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "By a server")]
pub struct KeptFlags {
    /// Have this server answer, named by scheme, host and port: from what its jobs have kept, where the query says since when (SINCE,
    /// BASELINE); else, with `query`, by its agents, with -i from these interfaces of their hosts, * for any run of characters
    #[arg(long, value_name = "URL", conflicts_with_all = ["read", "listen", "labels", "kafka"])]
    pub server: Option<String>,

    /// Only agents with this label, or jobs for such; may be given several times
    #[arg(long, value_name = "LABEL=VALUE", requires = "server")]
    pub on: Vec<String>,

    /// A file with the token [default: NETALYTICS_TOKEN, else the file NETALYTICS_TOKEN_FILE, else `token_file` in the client profile]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub token_file: Option<PathBuf>,

    /// The certificate of the authority that has signed the server's, PEM; for https://
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "server")]
    pub ca: Option<PathBuf>,
}

/// The same, and how its agents answer.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "By a server")]
pub struct RemoteFlags {
    #[command(flatten)]
    pub kept: KeptFlags,

    /// Run it in the server's network (serve --network): monitors where that is planned, and switches copy to them
    #[arg(long, requires = "server", conflicts_with_all = ["on", "interface"])]
    pub by_network: bool,

    /// How long the job goes on when this terminal is gone without having stopped it
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, requires = "server")]
    pub lease: i64,

    /// Texts as the packets say them, which needs a token of the role raw; else those that may say something of a person are folded
    #[arg(long, requires = "server")]
    pub raw: bool,
}

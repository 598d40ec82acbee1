//! Flags of `actions`.

use clap::{Args, Subcommand};

use super::service::ServerFlags;

/// Flags of `actions`.
#[derive(Args, Debug)]
pub struct ActionsFlags {
    /// Command [default: list the actions]
    #[command(subcommand)]
    pub what: Option<ActionsVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// Subcommands of `actions`.
#[derive(Debug, Subcommand)]
pub enum ActionsVerb {
    /// Create an action: it reads a job's windows, decides the number of replicas of each group, and has receivers
    /// apply it
    Add(Box<ActionAddFlags>),
    /// List the groups of an action with their replicas
    Show {
        /// Name or number of the action
        action: String,
    },
    /// List the decisions of an action, newest first
    Decisions {
        /// Name or number of the action
        action: String,

        /// Maximum number of entries
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Remove an action; existing replicas stay
    Remove {
        /// Name or number of the action
        action: String,
    },
}

/// Flags of `actions add`.
#[derive(Args, Debug)]
pub struct ActionAddFlags {
    /// Name of the action: letters, digits, -, _ and .
    pub name: String,

    /// Standing job, by name or number
    #[arg(long, value_name = "JOB")]
    pub job: String,

    /// Result of the job, by processor name or index
    #[arg(long)]
    pub result: Option<String>,

    /// Column with the load of a group in a window
    #[arg(long, value_name = "COLUMN", default_value = "count")]
    pub value: String,

    /// Load per replica above which a replica is added
    #[arg(long, value_name = "NUMBER")]
    pub upper: f64,

    /// Load per replica below which a replica is removed, at most half of --upper [default: a quarter of --upper]
    #[arg(long, value_name = "NUMBER")]
    pub lower: Option<f64>,

    /// Server for replicas; repeatable: a group with n replicas uses the first n
    #[arg(long = "on-server", value_name = "NAME", required = true)]
    pub servers: Vec<String>,

    /// Minimum replicas of a group [default: 1]
    #[arg(long, value_name = "N")]
    pub min: Option<u32>,

    /// Maximum replicas of a group [default: the number of servers]
    #[arg(long, value_name = "N")]
    pub max: Option<u32>,

    /// Maximum number of replicas added at once [default: 1]
    #[arg(long, value_name = "N")]
    pub step: Option<u32>,

    /// Time for which the load must stay above --upper [default: one window]
    #[arg(long, value_name = "TIME")]
    pub up_for: Option<String>,

    /// Time for which the load must stay below --lower [default: --backoff]
    #[arg(long, value_name = "TIME")]
    pub down_for: Option<String>,

    /// Minimum time between a completed decision and the next [default: 10s]
    #[arg(long, value_name = "TIME")]
    pub backoff: Option<String>,

    /// When replicas are removed: delay between the last receiver of --to and the others [default: 2s]
    #[arg(long, value_name = "TIME")]
    pub drain: Option<String>,

    /// Receiver of decisions: an outlet of the server, or as an admin a URL, webhook+https:// or redis://;
    /// repeatable, in the order for adding
    #[arg(long, value_name = "NAME", required = true)]
    pub to: Vec<String>,
}

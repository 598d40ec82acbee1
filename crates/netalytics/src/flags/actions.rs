//! Flags of `actions`.

use clap::{Args, Subcommand};

use super::service::ServerFlags;

/// Flags of `actions`.
#[derive(Args, Debug)]
pub struct ActionsFlags {
    /// What about them; listed unless said
    #[command(subcommand)]
    pub what: Option<ActionsVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// What about actions.
#[derive(Debug, Subcommand)]
pub enum ActionsVerb {
    /// Make an action: it looks at a job's windows, decides how many replicas groups are to have, and has that carried out
    Add(Box<AddFlags>),
    /// List the groups that an action follows, with their replicas
    Show {
        /// Its name or number
        action: String,
    },
    /// List what an action has decided, the newest first
    Decisions {
        /// Its name or number
        action: String,

        /// Maximum number of entries
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Remove an action; what stands by it stays
    Remove {
        /// Its name or number
        action: String,
    },
}

/// Flags of `actions add`.
#[derive(Args, Debug)]
pub struct AddFlags {
    /// What it is called: letters, digits, -, _ and .
    pub name: String,

    /// A standing job, by its name or number
    #[arg(long, value_name = "JOB")]
    pub job: String,

    /// Which of the job's results, by its processor's name or its place
    #[arg(long)]
    pub result: Option<String>,

    /// The column that says how much load a group has in a window
    #[arg(long, value_name = "COLUMN", default_value = "count")]
    pub value: String,

    /// Above so much for each replica one is added
    #[arg(long, value_name = "NUMBER")]
    pub upper: f64,

    /// Below so much for each replica one is taken away: at most half of --upper, a quarter of it unless said
    #[arg(long, value_name = "NUMBER")]
    pub lower: Option<f64>,

    /// A server; may be given several times: a group with n replicas is on the first n
    #[arg(long = "on-server", value_name = "NAME", required = true)]
    pub servers: Vec<String>,

    /// Replicas of a group without load; 1 unless said
    #[arg(long, value_name = "N")]
    pub min: Option<u32>,

    /// Maximum replicas of a group [default: the number of servers]
    #[arg(long, value_name = "N")]
    pub max: Option<u32>,

    /// Replicas that are added at once, at most; 1 unless said
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

    /// Who carries it out: a name that the server was given (serve --outlet NAME=URL), or as an admin a URL, webhook+https:// or redis://;
    /// may be given several times: told in this order when replicas are added, in the opposite one when they are taken away
    #[arg(long, value_name = "NAME", required = true)]
    pub to: Vec<String>,
}

//! Flags of the service, and of the verbs that ask one.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::Format;

/// Flags of `serve`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServeFlags {
    /// Something else than to serve
    #[command(subcommand)]
    pub what: Option<ServeVerb>,

    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7979")]
    pub listen: SocketAddr,

    /// Where jobs, tokens and results are kept; made if it is missing [default: /var/lib/netalytics for root, else
    /// ~/.local/state/netalytics]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,

    /// Show it at work: an agent of its own plays the shop's capture again and again, and three standing jobs watch that. The data
    /// go with the server, unless --data says where they are kept
    #[arg(long)]
    pub demo: bool,

    /// A name by which clients may call this server, beside localhost and the address; may be given several times
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,

    /// Most jobs that have not ended
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Limits")]
    pub jobs_max: usize,

    /// Most requests of one token a second
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits")]
    pub requests_per_second: u32,

    /// Most connections at once
    #[arg(long, value_name = "N", default_value_t = 512, help_heading = "Limits")]
    pub connections_max: usize,

    /// Most agents at once
    #[arg(long, value_name = "N", default_value_t = 1000, help_heading = "Limits")]
    pub agents_max: usize,

    /// Most live streams at once
    #[arg(long, value_name = "N", default_value_t = 100, help_heading = "Limits")]
    pub streams_max: usize,

    /// How many days results are kept; 0 keeps them
    #[arg(long, value_name = "DAYS", default_value_t = 7, help_heading = "Limits")]
    pub history_days: u16,

    /// How many MiB of results are kept, the newest; 0 keeps all
    #[arg(long, value_name = "MIB", default_value_t = 10_240, help_heading = "Limits")]
    pub history_mib: u32,
}

/// Something else than to serve.
#[derive(Debug, Subcommand)]
pub enum ServeVerb {
    /// Copy what the server was asked (jobs, tokens, the newest rows) into a new file, also while it runs
    Backup {
        /// The file, which must not exist
        file: PathBuf,

        /// The data directory
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

/// Whom to ask, and as whom.
#[derive(Args, Clone, Debug)]
pub struct ServerFlags {
    /// The server [default: the environment's NETALYTICS_SERVER, else http://127.0.0.1:7979]
    #[arg(long, global = true, value_name = "URL")]
    pub server: Option<String>,

    /// A file with the token; else the environment's NETALYTICS_TOKEN
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// How to print: a text for people, or one row for each
    #[arg(long, global = true, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Flags of `agents`.
#[derive(Args, Debug)]
pub struct AgentsFlags {
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Flags of `jobs`.
#[derive(Args, Debug)]
pub struct JobsFlags {
    /// What about them; listed unless said
    #[command(subcommand)]
    pub what: Option<JobsVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// What about jobs.
#[derive(Debug, Subcommand)]
pub enum JobsVerb {
    /// Start one
    Start {
        /// The query
        query: String,

        /// What it is called
        #[arg(long, default_value = "")]
        name: String,

        /// It runs until it is stopped, also after the server was started again
        #[arg(long)]
        standing: bool,

        /// A label that an agent must have to take part; may be given several times
        #[arg(long, value_name = "LABEL=VALUE")]
        on: Vec<String>,

        /// An interface of the agents' hosts, * for any run of characters; may be given several times [default: all that may be
        /// captured from]
        #[arg(short, long, value_name = "IFACE")]
        interface: Vec<String>,

        /// Look at packets only that this filter, in tcpdump's language, takes
        #[arg(long, value_name = "FILTER")]
        capture_filter: Option<String>,
    },
    /// Show one
    Show {
        /// Its number
        job: u64,
    },
    /// Stop one; what it has by then stays
    Stop {
        /// Its number
        job: u64,
    },
    /// Print the rows of one
    Results {
        /// Its number
        job: u64,

        /// Which of its results: a processor's name, or its place from 0; the first unless said
        #[arg(long)]
        result: Option<String>,

        /// Rows of this time or later: 2026-11-22T10:00:00Z, or nanoseconds since 1970
        #[arg(long, value_name = "TIME")]
        since: Option<String>,

        /// Rows before this time
        #[arg(long, value_name = "TIME")]
        until: Option<String>,
    },
}

//! Flags of `agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::limits::{bytes, duration};

/// Whom to serve, and as whom.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct AgentFlags {
    /// Something else than to serve
    #[command(subcommand)]
    pub what: Option<AgentVerb>,

    /// The server, which this agent dials: https://HOST:PORT, or http:// on this machine
    #[arg(long, value_name = "URL", required = true)]
    pub server: Option<String>,

    /// A file with the agent's token; else the environment's NETALYTICS_TOKEN. An agent that has enrolled needs none
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// The certificate of the authority that has signed the server's, PEM; for https:// without having enrolled [default: those that
    /// this system trusts]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// What this agent is called [default: as its certificate says, else the policy's name, else the machine's]
    #[arg(long)]
    pub name: Option<String>,

    /// What the owner of this host allows, in TOML [default: /etc/netalytics/agent.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// Where it keeps what the server has not taken; made if it is missing [default: /var/lib/netalytics/agent for root,
    /// else ~/.local/state/netalytics/agent]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Most bytes that wait for the server on disk; beyond, the oldest tuples go first, counted
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "256M", help_heading = "Limits")]
    pub spool_max: usize,

    /// A capture to play again and again in place of the interfaces
    #[arg(long, value_name = "FILE")]
    pub demo: Option<PathBuf>,

    /// The pause between two rounds of --demo
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub demo_pause: i64,

    /// Begin each round of --demo when all others begin it who play that capture with that pause: so all jobs see the same packets
    #[arg(long, requires = "demo")]
    pub demo_in_step: bool,

    /// End when standard input is closed, and so with the process that holds it open
    #[arg(long, hide = true)]
    pub while_held: bool,
}

/// Something else than to serve.
#[derive(Debug, Subcommand)]
pub enum AgentVerb {
    /// Make a key on this host and get a certificate for it, once, with a token from `netalytics agents enrol NAME`
    Enrol {
        /// The server: https://HOST:PORT
        #[arg(long, value_name = "URL")]
        server: String,

        /// A file with the one-time token; else the environment's NETALYTICS_TOKEN
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,

        /// The certificate of the authority that has signed the server's, PEM [default: the one that the token names, else those that
        /// this system trusts]
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,

        /// The agent's folder, as --folder of `netalytics agent`
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

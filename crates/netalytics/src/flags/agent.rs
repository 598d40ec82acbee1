//! Flags of `agent`.

use std::path::PathBuf;

use clap::Args;

use super::limits::{bytes, duration};

/// Whom to serve, and as whom.
#[derive(Args, Debug)]
pub struct AgentFlags {
    /// The server, which this agent dials: https://HOST:PORT, or http:// on this machine
    #[arg(long, value_name = "URL")]
    pub server: String,

    /// A file with the agent's token; else the environment's NETALYTICS_TOKEN
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// The certificate of the authority that has signed the server's, PEM; for https://
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// What this agent is called [default: the policy's name, else the machine's]
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

    /// End when standard input ends, and so with whoever holds it open
    #[arg(long, hide = true)]
    pub while_held: bool,
}

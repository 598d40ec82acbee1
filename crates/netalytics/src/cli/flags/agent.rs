//! Flags of `agent`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::limits::{bytes, duration};

/// Flags of `agent`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct AgentFlags {
    /// Subcommand [default: run the agent]
    #[command(subcommand)]
    pub what: Option<AgentVerb>,

    /// Server to connect to: https://HOST:PORT, or http:// on this machine
    #[arg(long, value_name = "URL", required = true)]
    pub server: Option<String>,

    /// File with the token of an agent that is not enrolled [default: NETALYTICS_TOKEN]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    /// Certificate (PEM) of the authority that signed the server's, if not enrolled [default: the system's
    /// authorities]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,

    /// Name of the agent [default: the name in its certificate, in its policy, or of the host]
    #[arg(long)]
    pub name: Option<String>,

    /// Policy of the host's owner (TOML) [default: /etc/netalytics/agent.toml if it exists]
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,

    /// Folder for data that the server has not acknowledged, created if missing [default: /var/lib/netalytics/agent
    /// for root, otherwise ~/.local/state/netalytics/agent]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// Maximum bytes on disk that wait for the server; beyond it, the oldest tuples are dropped and counted
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "256M", help_heading = "Agent limits")]
    pub spool_max: usize,

    /// Replay this capture in a loop instead of capturing from interfaces
    #[arg(long, value_name = "FILE")]
    pub demo: Option<PathBuf>,

    /// Pause between two rounds of --demo
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    pub demo_pause: i64,

    /// Start each round of --demo at the same time as other processes that replay the same capture
    #[arg(long, requires = "demo")]
    pub demo_in_step: bool,

    /// Stop when standard input is closed
    #[arg(long, hide = true)]
    pub while_held: bool,
}

/// Subcommands of `agent`.
#[derive(Debug, Subcommand)]
pub enum AgentVerb {
    /// Create a key on this host and get a certificate for it, with a token of `netalytics agents enroll NAME`
    #[command(alias = "enrol")]
    Enroll {
        /// Server: https://HOST:PORT
        #[arg(long, value_name = "URL")]
        server: String,

        /// File with the one-time token [default: NETALYTICS_TOKEN]
        #[arg(long, value_name = "FILE")]
        token_file: Option<PathBuf>,

        /// Certificate (PEM) of the authority that signed the server's [default: the one in the token, or the
        /// system's authorities]
        #[arg(long, value_name = "FILE")]
        ca: Option<PathBuf>,

        /// Folder of the agent, as for `netalytics agent`
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

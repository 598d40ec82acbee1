//! Flags of the commands that manage access to a server.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand, ValueEnum};

use super::limits::duration;
use super::service::ServerFlags;

/// Flags of `tokens`.
#[derive(Args, Debug)]
pub struct TokensFlags {
    /// Command [default: list the tokens]
    #[command(subcommand)]
    pub what: Option<TokensVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// Subcommands of `tokens`.
#[derive(Debug, Subcommand)]
pub enum TokensVerb {
    /// Create a token and print its secret, once
    Create {
        /// Name of the token
        name: String,

        /// Role
        #[arg(long, value_enum)]
        role: TokenRole,

        /// Network to which its queries are restricted, as in 10.1.0.0/16; repeatable [default: no restriction]
        #[arg(long = "network", value_name = "NETWORK")]
        networks: Vec<String>,

        /// Validity [default: until revoked]
        #[arg(long, value_name = "TIME", value_parser = duration)]
        expires: Option<i64>,

        /// Write the secret to this file (mode 0600) instead of standard output; an existing file is replaced
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
    /// Revoke a token and close its sessions, streams and connections
    Revoke {
        /// Name of the token
        name: String,
    },
}

/// Role of a token; each except the first includes the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TokenRole {
    /// Connect as the agent with the token's name
    Agent,
    /// Read jobs and results
    View,
    /// Also start jobs and stop one's own
    Run,
    /// Also tuples and unchanged texts
    Raw,
    /// Everything
    Admin,
}

/// Flags of `audit`.
#[derive(Args, Debug)]
pub struct AuditFlags {
    /// Maximum number of entries, newest first
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u16,

    #[command(flatten)]
    pub server: ServerFlags,
}

//! Flags of the verbs about who may ask a server what.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, Subcommand, ValueEnum};

use super::limits::duration;
use super::service::ServerFlags;

/// Flags of `tokens`.
#[derive(Args, Debug)]
pub struct TokensFlags {
    /// What about them; listed unless said
    #[command(subcommand)]
    pub what: Option<TokensVerb>,

    #[command(flatten)]
    pub server: ServerFlags,
}

/// What about tokens.
#[derive(Debug, Subcommand)]
pub enum TokensVerb {
    /// Make one, and print its secret, which is shown now and never again
    Create {
        /// What it is called
        name: String,

        /// What it allows
        #[arg(long, value_enum)]
        role: Role,

        /// A network that its queries have to stay in, as 10.1.0.0/16; may be given several times; all, unless said
        #[arg(long = "network", value_name = "NETWORK")]
        networks: Vec<String>,

        /// For how long it is good; until it is revoked, unless said
        #[arg(long, value_name = "TIME", value_parser = duration)]
        expires: Option<i64>,

        /// Write the secret to this file, which only its owner may read, instead of printing it; one that is there is replaced
        #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
        out: Option<PathBuf>,
    },
    /// End one, with its sessions, streams and connections
    Revoke {
        /// What it is called
        name: String,
    },
}

/// What a token allows; each but the first also what those before it do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Connect as the agent of the token's name, and nothing else
    Agent,
    /// Look
    View,
    /// Start jobs, and stop one's own
    Run,
    /// Tuples, and texts that are not folded
    Raw,
    /// Everything
    Admin,
}

/// Flags of `audit`.
#[derive(Args, Debug)]
pub struct AuditFlags {
    /// How many entries, the newest
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub limit: u16,

    #[command(flatten)]
    pub server: ServerFlags,
}

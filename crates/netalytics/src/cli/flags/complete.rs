//! Flags of `complete`.

use clap::ValueEnum;

/// What is completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionKind {
    /// A query, in part
    Query,
    /// The name of an interface, in part
    Interface,
}

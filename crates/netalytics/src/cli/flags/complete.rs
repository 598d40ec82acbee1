//! Flags of `complete`.

use clap::ValueEnum;

/// Kind of completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletionKind {
    /// A query, in part
    Query,
    /// The name of an interface, in part
    Interface,
}

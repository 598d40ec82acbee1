//! The command line: verbs, flags, and the help that goes with them. Decides nothing; see `commands` for what is done.

pub mod follow;
pub mod help;
pub mod limits;
pub mod listing;
pub mod live;
pub mod overview;
pub mod query;
mod zone;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgAction, Parser, Subcommand};
use clap_complete::Shell;

use crate::{output, summary_file, version};

pub use follow::{FlowName, FollowFlags};
pub use limits::Limits;
pub use listing::ListFlags;
pub use overview::{OverviewFlags, OverviewFormat};
pub use query::{
    Checksums, Cores, ExplainFlags, Format, Progress, QueryFlags, QueryText, RecordFlags, ShownNames,
    WorkFlags, Workers,
};

/// Response times, errors and rankings of services, from packets alone.
#[derive(Debug, Parser)]
#[command(name = "netalytics", version, long_version = version::long())]
#[command(about, long_about = help::ABOUT, after_help = help::EXAMPLES)]
#[command(disable_help_subcommand = true, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Option<Verb>,

    /// Say more about the run on standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages")]
    pub verbose: u8,

    /// No summary at the end; errors are still reported
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Messages")]
    pub quiet: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Answer a query from captured packets, or live ones
    #[command(long_about = help::QUERY, after_help = help::QUERY_EXAMPLES)]
    Query(Box<QueryFlags>),

    /// Show on one screen what a capture holds: protocols, services, talkers, slow and failing requests, what to ask next
    #[command(after_help = help::OVERVIEW_EXAMPLES)]
    Overview(Box<OverviewFlags>),

    /// Keep a query's tuples or results as a Parquet data set, which query -r reads back
    #[command(after_help = help::RECORD_EXAMPLES)]
    Record(Box<RecordFlags>),

    /// Show what the two sides of a flow said, in order; keep its packets
    #[command(after_help = help::FOLLOW_EXAMPLES)]
    Follow(FollowFlags),

    /// Show what a query would do: columns read, packets looked at, operators
    #[command(after_help = help::EXPLAIN_EXAMPLES)]
    Explain(ExplainFlags),

    /// List the parsers with every field, its type, unit and meaning
    #[command(after_help = help::PARSERS_EXAMPLES)]
    Parsers(ListFlags),

    /// List the processor blocks with their arguments, defaults and examples
    #[command(after_help = help::PROCESSORS_EXAMPLES)]
    Processors(ListFlags),

    /// List the network interfaces that can be captured from, with their state and addresses
    #[command(after_help = help::INTERFACES_EXAMPLES)]
    Interfaces(ListFlags),

    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell
        shell: Shell,
    },

    /// Print the manual page (roff): netalytics man | man -l -
    Man,
}

/// The flags that we were started with, or how to end when there is nothing to do: help was asked for, or they are wrong.
pub fn read() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        if !error.use_stderr() {
            // A closed pipe is fine.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        if let Some(path) = summary_json() {
            summary_file::refute(&path, "the flags are wrong");
        }
        let text = error.render();
        match output::visible_lines(&text.to_string()) {
            visible if visible == text.to_string() => drop(error.print()),
            visible => output::complain_lines(visible.trim_end()),
        }
        ExitCode::from(2)
    })
}

/// What `--summary-json` names among flags that are wrong, so that clap cannot say it.
fn summary_json() -> Option<PathBuf> {
    const FLAG: &[u8] = b"--summary-json";
    let mut words = std::env::args_os();
    let word = words.find(|word| word.as_bytes().starts_with(FLAG))?;
    match word.as_bytes()[FLAG.len()..] {
        [] => words.next().map(PathBuf::from),
        [b'=', ref path @ ..] => Some(OsStr::from_bytes(path).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_help_text() {
        let cli = Cli::command();
        for verb in cli.get_subcommands() {
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            for arg in verb.get_arguments() {
                assert!(arg.get_help().is_some(), "{} {}", verb.get_name(), arg.get_id());
            }
        }
    }
}

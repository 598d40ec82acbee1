//! The command line: verbs, flags, and help. `commands` implements them.

pub mod access;
pub mod actions;
pub mod agent;
pub mod aggregator;
pub mod alerts;
pub mod bus;
pub mod calibrate;
pub mod compare;
pub mod discover;
pub mod follow;
pub mod help;
pub mod limits;
pub mod listing;
pub mod live;
pub mod monitor;
pub mod network;
pub mod outlets;
pub mod overview;
pub mod query;
pub mod remote;
pub mod report;
pub mod service;
pub mod simulate;
pub mod words;
mod zone;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::color::{self, Color};
use crate::commands::complete::What;
use crate::{output, summary_file, version};

pub use aggregator::AggregatorFlags;
pub use compare::{CheckFlags, CompareFlags};
pub use follow::{FlowName, FollowFlags};
pub use limits::Limits;
pub use listing::ListFlags;
pub use monitor::MonitorFlags;
pub use outlets::RedactFlags;
pub use overview::{LookFlags, MapFlags, MapFormat, OverviewFlags, OverviewFormat};
pub use query::{
    Checksums, Cores, ExplainFlags, Format, Progress, QueryFlags, QueryText, RecordFlags, ShownNames,
    WorkFlags, Workers,
};
pub use remote::{AskFlags, KeptFlags};
pub use report::{ReportFlags, ReportFormat};
use words::{Input, Words};

/// Response times, errors and rankings of services, from packets alone.
#[derive(Debug, Parser)]
#[command(name = "netalytics", version, long_version = version::long())]
#[command(about, long_about = help::ABOUT, after_help = help::EXAMPLES)]
#[command(max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Option<Verb>,

    /// Say more about the run on standard error; twice for more
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages")]
    pub verbose: u8,

    /// No summary at the end; errors are still reported
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Messages")]
    pub quiet: bool,

    /// Colors in messages and in the help: auto has them on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    #[arg(help_heading = "Messages")]
    pub color: Color,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Answer a query from captured packets, or live ones
    #[command(long_about = help::QUERY, after_help = help::QUERY_EXAMPLES)]
    Query(Box<AskFlags>),

    /// Show on one screen what a capture holds: protocols, services, talkers, slow and failing requests, what to ask next
    #[command(after_help = help::OVERVIEW_EXAMPLES)]
    Overview(Box<OverviewFlags>),

    /// Show who asks whom: each client and service, how often, how fast, how well, and whose time it takes
    #[command(after_help = help::MAP_EXAMPLES)]
    Map(Box<MapFlags>),

    /// Write a finding as one HTML file that stands alone: the question, what was read, rows, pictures; without QUERY of all there is
    #[command(after_help = help::REPORT_EXAMPLES)]
    Report(Box<ReportFlags>),

    /// Put two periods, or two inputs, side by side: before and after a deployment, and what differs by more than noise
    #[command(after_help = help::COMPARE_EXAMPLES)]
    Compare(Box<CompareFlags>),

    /// Hold a query's result against assertions, such as 'p99 < 50ms': ends with 0 when they are true, with 1 when not
    #[command(after_help = help::CHECK_EXAMPLES)]
    Check(Box<CheckFlags>),

    /// Keep a query's tuples or results as a Parquet data set, which query -r reads back
    #[command(after_help = help::RECORD_EXAMPLES)]
    Record(Box<RecordFlags>),

    /// Send a query's tuples, or cells of its groups, to Kafka, where query --kafka and Flink merge those of many hosts
    #[command(after_help = help::PUBLISH_EXAMPLES)]
    Publish(Box<bus::PublishFlags>),

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

    /// Capture on this host for a server: start monitors when it asks, within what the host's owner allows
    #[command(after_help = help::AGENT_EXAMPLES)]
    Agent(agent::AgentFlags),

    /// Serve an API: jobs that agents carry out, their live results and their history
    #[command(after_help = help::SERVE_EXAMPLES)]
    Serve(Box<service::ServeFlags>),

    /// List the jobs of a server; start, show and stop one, print its rows
    #[command(after_help = help::JOBS_EXAMPLES)]
    Jobs(service::JobsFlags),

    /// List the agents of a server
    #[command(after_help = help::AGENTS_EXAMPLES)]
    Agents(service::AgentsFlags),

    /// List the tokens of a server, by which people and agents are let in; create and revoke one
    #[command(after_help = help::TOKENS_EXAMPLES)]
    Tokens(access::TokensFlags),

    /// Print a server's log of who did what
    #[command(after_help = help::AUDIT_EXAMPLES)]
    Audit(access::AuditFlags),

    /// List the alerts of a server; make and remove rules, silence alerts, test receivers
    #[command(after_help = help::ALERTS_EXAMPLES, args_conflicts_with_subcommands = true)]
    Alerts(alerts::AlertsFlags),

    /// List the actions of a server, by which load adds and removes replicas; make and remove one, show what it has decided
    #[command(after_help = help::ACTIONS_EXAMPLES)]
    Actions(actions::ActionsFlags),

    /// Measure what monitors, and a switch that copies, take on this machine, for explain --costs
    #[command(after_help = help::CALIBRATE_EXAMPLES)]
    Calibrate(calibrate::CalibrateFlags),

    /// Write the file of a network by what its switches and agents say
    Network(discover::NetworkVerbFlags),

    /// Study on drawn networks what a decision costs: where monitors go
    Simulate(simulate::SimulateFlags),

    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell
        shell: Shell,
    },

    /// Find what an order on standard input asks for, and say it in frames on standard output; for agents
    #[command(hide = true)]
    Monitor(Box<MonitorFlags>),

    /// Start the monitors that orders on standard input name, and say in frames on standard output what they find together
    #[command(hide = true)]
    Aggregator(Box<AggregatorFlags>),

    /// What a query or an interface's name may go on as; for the completion scripts
    #[command(hide = true)]
    Complete {
        /// What it is
        what: What,
        /// As far as it is typed
        text: String,
    },

    /// Print the manual page (roff): netalytics man | man -l -
    Man,
}

impl Verb {
    /// Arguments of a verb that reads packets.
    fn words(&mut self) -> Option<Words<'_>> {
        fn of_work(work: &mut WorkFlags) -> Words<'_> {
            let is_elsewhere = work.bus.kafka.is_some() || work.network.network.is_some();
            let WorkFlags { text, read, live, words, .. } = work;
            let input = if is_elsewhere { Input::Elsewhere } else { Input::Here };
            Words {
                read,
                interfaces: Vec::new(),
                others: words,
                query: Some(text),
                live,
                input,
                may_lack: false,
            }
        }
        fn of_look(look: &mut LookFlags) -> Words<'_> {
            let LookFlags { read, live, words, .. } = look;
            let (query, input) = (None, Input::Here);
            Words { read, interfaces: Vec::new(), others: words, query, live, input, may_lack: false }
        }
        let input = |server: Option<&String>| server.map_or(Input::Here, |_| Input::Elsewhere);
        match self {
            Verb::Query(flags) => {
                let words = of_work(&mut flags.query.work);
                let input = flags.remote.kept.server.as_ref().map_or(words.input, |_| Input::Elsewhere);
                Some(Words { input, ..words })
            }
            Verb::Record(flags) => Some(of_work(&mut flags.work)),
            Verb::Report(flags) => Some(Words { may_lack: true, ..of_work(&mut flags.work) }),
            Verb::Check(flags) => {
                let words = of_work(&mut flags.work);
                let input = flags.kept.server.as_ref().map_or(words.input, |_| Input::Elsewhere);
                Some(Words { input, ..words })
            }
            Verb::Compare(flags) => {
                let input = input(flags.kept.server.as_ref());
                Some(Words { input, ..of_work(&mut flags.query.work) })
            }
            Verb::Overview(flags) => Some(of_look(&mut flags.look)),
            Verb::Map(flags) => Some(of_look(&mut flags.look)),
            Verb::Publish(flags) => {
                let bus::PublishFlags { text, read, live, words, .. } = &mut **flags;
                let (query, others, input) = (Some(text), words, Input::Here);
                Some(Words { read, interfaces: Vec::new(), others, query, live, input, may_lack: false })
            }
            Verb::Monitor(flags) if flags.demo.is_none() => {
                let MonitorFlags { read, live, words, .. } = &mut **flags;
                Some(Words {
                    read,
                    interfaces: Vec::new(),
                    others: words,
                    query: None,
                    live,
                    input: Input::Here,
                    may_lack: false,
                })
            }
            _ => None,
        }
    }
}

/// Parses the command line; returns the exit status after help or an error.
pub fn read() -> Result<Cli, ExitCode> {
    color::choose(std::env::args_os());
    parse(std::env::args_os()).map_err(|error| {
        if !error.use_stderr() {
            // A closed pipe is not an error.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        if let Some(path) = summary_json() {
            summary_file::refute(&path, "the flags are wrong");
        }
        output::complain_lines(&in_our_words(&error));
        ExitCode::from(2)
    })
}

/// Parses the words of a command line.
///
/// # Errors
/// `clap::Error` for wrong arguments, and for a request for help.
pub fn parse(words: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Cli, clap::Error> {
    let mut command = Cli::command().color(color::chosen().into());
    let matches = command.try_get_matches_from_mut(words)?;
    let mut cli = Cli::from_arg_matches(&matches)?;
    let Some((name, matches)) = matches.subcommand() else { return Ok(cli) };
    let Some(mut words) = cli.verb.as_mut().and_then(Verb::words) else { return Ok(cli) };
    let interfaces = matches.get_occurrences::<String>("interface").into_iter().flatten();
    words.interfaces = interfaces.map(|words| words.cloned().collect()).collect();
    let settled = words.settle();
    let verb = command.find_subcommand_mut(name).expect("it was found");
    settled.map_err(|error| verb.error(ErrorKind::MissingRequiredArgument, error))?;
    Ok(cli)
}

/// A command-line error in the form of other errors: the problem, and the remedy.
fn in_our_words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let ours = text.lines().take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<&str> = ours.map(str::trim_end).filter(|line| !line.is_empty()).collect();
    format!("{}\n  --help explains the flags", lines.join("\n"))
}

/// Value of `--summary-json` on an invalid command line, which clap does not return.
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

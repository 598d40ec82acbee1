//! The command line: commands, flags, and their help. The modules of `commands` run the commands.

pub mod access;
pub mod actions;
pub mod agent;
pub mod aggregator;
pub mod alerts;
pub mod bus;
pub mod calibrate;
pub mod compare;
pub mod complete;
pub mod discover;
#[cfg(test)]
mod documented;
pub mod follow;
pub mod help;
mod layout;
pub mod limits;
pub mod listing;
pub mod live;
pub mod monitor;
pub mod network;
pub mod outlets;
pub mod overview;
pub mod positional;
pub mod query;
pub mod remote;
pub mod report;
pub mod service;
pub mod settings;
pub mod simulate;
mod text;
mod values;
mod zone;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgAction, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;

use crate::process::color::{self, ColorMode};
use crate::process::{output, version};
use crate::render::summary_file;

pub use aggregator::AggregatorFlags;
pub use compare::{CheckFlags, CompareFlags};
use complete::CompletionKind;
pub use follow::{FlowName, FollowFlags};
pub use limits::LimitFlags;
pub use listing::ListFlags;
pub use monitor::MonitorFlags;
pub use outlets::RedactFlags;
pub use overview::{MapFlags, MapFormat, OverviewFlags, OverviewFormat, TrafficInputFlags};
use positional::{InputLocation, PositionalArguments};
pub use query::{
    ChecksumFlag, ExplainFlags, HostNameSource, OutputFormat, ProgressMode, QueryFlags,
    RecordFlags, WorkFlags,
};
pub use remote::{QueryCommandFlags, ServerQueryFlags};
pub use report::{ReportFlags, ReportFormat};
use settings::Configuration;
pub use text::QueryText;
pub use values::{CoreList, WorkerCount};

/// Response times, errors and rankings of services, from packets alone.
#[derive(Debug, Parser)]
#[command(name = "netalytics", version, long_version = version::long())]
#[command(about, long_about = help::ABOUT, after_help = help::EXAMPLES)]
#[command(max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Option<CliCommand>,

    /// Print more messages to standard error; -vv prints even more
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Messages")]
    pub verbose: u8,

    /// Do not print the summary and notes; errors are still printed
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "verbose",
        help_heading = "Messages"
    )]
    pub quiet: bool,

    /// Colors in messages and help; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = ColorMode::Auto, value_name = "WHEN")]
    #[arg(help_heading = "Messages")]
    pub color: ColorMode,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Answer a query from captures, live packets, or a server
    #[command(long_about = help::QUERY, after_help = help::QUERY_EXAMPLES)]
    Query(Box<QueryCommandFlags>),

    /// Summarize a capture on one screen: protocols, services, talkers, slow and failing requests, queries to ask
    /// next
    #[command(after_help = help::OVERVIEW_EXAMPLES)]
    Overview(Box<OverviewFlags>),

    /// Print the map of clients and services with request rates, response times and errors
    #[command(after_help = help::MAP_EXAMPLES)]
    Map(Box<MapFlags>),

    /// Write one HTML file with a query, its rows and charts; without QUERY an overview
    #[command(after_help = help::REPORT_EXAMPLES)]
    Report(Box<ReportFlags>),

    /// Compare two periods or inputs and mark differences that are significant
    #[command(after_help = help::COMPARE_EXAMPLES)]
    Compare(Box<CompareFlags>),

    /// Test assertions on the result of a query, such as 'p99 < 50ms'; exit code 0 if all are true, otherwise 1
    #[command(after_help = help::CHECK_EXAMPLES)]
    Check(Box<CheckFlags>),

    /// Store the tuples or results of a query as Parquet files, which query -r reads
    #[command(after_help = help::RECORD_EXAMPLES)]
    Record(Box<RecordFlags>),

    /// Send the tuples or pre-aggregated groups of a query to Kafka, where query --kafka or Flink merges them
    #[command(after_help = help::PUBLISH_EXAMPLES)]
    Publish(Box<bus::PublishFlags>),

    /// Print the data of both directions of a flow, or write its packets
    #[command(after_help = help::FOLLOW_EXAMPLES)]
    Follow(FollowFlags),

    /// Print the plan of a query: columns, packets read, operators
    #[command(after_help = help::EXPLAIN_EXAMPLES)]
    Explain(ExplainFlags),

    /// List the parsers and their fields with type, unit and meaning
    #[command(after_help = help::PARSERS_EXAMPLES)]
    Parsers(ListFlags),

    /// List the processor blocks with arguments, defaults and examples
    #[command(after_help = help::PROCESSORS_EXAMPLES)]
    Processors(ListFlags),

    /// List the network interfaces that can be captured from, with state and addresses
    #[command(after_help = help::INTERFACES_EXAMPLES)]
    Interfaces(ListFlags),

    /// Capture on this host for a server, within the policy of the host's owner
    #[command(after_help = help::AGENT_EXAMPLES)]
    Agent(agent::AgentFlags),

    /// Run a server: it gives jobs to agents, stores their results, and has an API and a web page
    #[command(after_help = help::SERVE_EXAMPLES)]
    Serve(Box<service::ServeFlags>),

    /// List the jobs of a server; start, show and stop jobs, print their rows
    #[command(after_help = help::JOBS_EXAMPLES)]
    Jobs(service::JobsFlags),

    /// List the agents of a server; enroll and revoke agents
    #[command(after_help = help::AGENTS_EXAMPLES)]
    Agents(service::AgentsFlags),

    /// List the tokens of a server; create and revoke tokens
    #[command(after_help = help::TOKENS_EXAMPLES)]
    Tokens(access::TokensFlags),

    /// Print the audit log of a server
    #[command(after_help = help::AUDIT_EXAMPLES)]
    Audit(access::AuditFlags),

    /// List the alerts of a server; manage rules and silences, test receivers
    #[command(after_help = help::ALERTS_EXAMPLES, args_conflicts_with_subcommands = true)]
    Alerts(alerts::AlertsFlags),

    /// List the actions of a server, which add and remove replicas by load; create and remove actions, print their
    /// decisions
    #[command(after_help = help::ACTIONS_EXAMPLES)]
    Actions(actions::ActionsFlags),

    /// Measure the cost of monitors and of copying packets on this machine, for --costs
    #[command(after_help = help::CALIBRATE_EXAMPLES)]
    Calibrate(calibrate::CalibrateFlags),

    /// Describe a network from the data of its switches and agents
    Network(discover::NetworkVerbFlags),

    /// Simulate the placement of monitors in data center networks
    Simulate(simulate::SimulateFlags),

    /// Print all settings (limits and tuning) with value, default and origin, as a configuration file for --config
    #[command(after_help = help::CONFIG_EXAMPLES)]
    Config(settings::ConfigFlags),

    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS_EXAMPLES)]
    Completions {
        /// Shell
        shell: Shell,
    },

    /// Process the order on standard input and write frames to standard output; started by agents
    #[command(hide = true)]
    Monitor(Box<MonitorFlags>),

    /// Start the monitors of the orders on standard input and write their merged frames to standard output
    #[command(hide = true)]
    Aggregator(Box<AggregatorFlags>),

    /// Print completions of a query or interface name; used by the completion scripts
    #[command(hide = true)]
    Complete {
        /// Kind of text
        what: CompletionKind,
        /// Text typed so far
        text: String,
    },

    /// Print the manual page (roff): netalytics man | man -l -
    Man,
}

impl CliCommand {
    /// Arguments of a verb that reads packets.
    fn words(&mut self) -> Option<PositionalArguments<'_>> {
        fn of_work(work: &mut WorkFlags) -> PositionalArguments<'_> {
            let is_elsewhere = work.bus.kafka.is_some() || work.network.network.is_some();
            let WorkFlags {
                text,
                read,
                live,
                words,
                ..
            } = work;
            let input = if is_elsewhere {
                InputLocation::Elsewhere
            } else {
                InputLocation::Here
            };
            PositionalArguments {
                read,
                interfaces: Vec::new(),
                others: words,
                query: Some(text),
                live,
                input,
                may_lack: false,
            }
        }
        fn of_look(look: &mut TrafficInputFlags) -> PositionalArguments<'_> {
            let TrafficInputFlags {
                read, live, words, ..
            } = look;
            let query = None;
            let input = InputLocation::Here;
            PositionalArguments {
                read,
                interfaces: Vec::new(),
                others: words,
                query,
                live,
                input,
                may_lack: false,
            }
        }
        let input = |server: Option<&String>| {
            server.map_or(InputLocation::Here, |_| InputLocation::Elsewhere)
        };
        match self {
            CliCommand::Query(flags) => {
                let words = of_work(&mut flags.query.work);
                let input = flags
                    .remote
                    .kept
                    .server
                    .as_ref()
                    .map_or(words.input, |_| InputLocation::Elsewhere);
                Some(PositionalArguments { input, ..words })
            }
            CliCommand::Record(flags) => Some(of_work(&mut flags.work)),
            CliCommand::Report(flags) => Some(PositionalArguments {
                may_lack: true,
                ..of_work(&mut flags.work)
            }),
            CliCommand::Check(flags) => {
                let words = of_work(&mut flags.work);
                let input = flags
                    .kept
                    .server
                    .as_ref()
                    .map_or(words.input, |_| InputLocation::Elsewhere);
                Some(PositionalArguments { input, ..words })
            }
            CliCommand::Compare(flags) => {
                let input = input(flags.kept.server.as_ref());
                Some(PositionalArguments {
                    input,
                    ..of_work(&mut flags.query.work)
                })
            }
            CliCommand::Overview(flags) => Some(of_look(&mut flags.look)),
            CliCommand::Map(flags) => Some(of_look(&mut flags.look)),
            CliCommand::Publish(flags) => {
                let bus::PublishFlags {
                    text,
                    read,
                    live,
                    words,
                    ..
                } = &mut **flags;
                let query = Some(text);
                let others = words;
                let input = InputLocation::Here;
                Some(PositionalArguments {
                    read,
                    interfaces: Vec::new(),
                    others,
                    query,
                    live,
                    input,
                    may_lack: false,
                })
            }
            CliCommand::Monitor(flags) if flags.demo.is_none() => {
                let MonitorFlags {
                    read,
                    live,
                    words,
                    exports_from,
                    ..
                } = &mut **flags;
                live.relay.clone_from(exports_from);
                Some(PositionalArguments {
                    read,
                    interfaces: Vec::new(),
                    others: words,
                    query: None,
                    live,
                    input: InputLocation::Here,
                    may_lack: false,
                })
            }
            _ => None,
        }
    }
}

/// The flags of this process, or its exit code after printing help or an error.
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
        ExitCode::from(if error.kind() == ErrorKind::Io { 1 } else { 2 })
    })
}

/// Parses a command line.
///
/// # Errors
/// `clap::Error` for wrong arguments, and for a request for help.
pub fn parse(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
) -> Result<Cli, clap::Error> {
    parse_in(words, |name| std::env::var_os(name))
}

/// The command line with its help as it is shown.
pub fn command() -> Command {
    layout::arrange(Cli::command())
}

/// `parse` with the variables of an environment.
fn parse_in(
    words: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let mut command = command().color(color::chosen().into());
    let mut matches = command.try_get_matches_from_mut(&words)?;
    let mut listed = None;
    if let Some((name, of_verb)) = matches.subcommand()
        && command
            .find_subcommand(name)
            .is_some_and(settings::takes_settings)
    {
        let configuration = Configuration::read(&command, of_verb, variable);
        let configuration = configuration.map_err(|(kind, why)| command.error(kind, why))?;
        if name == "config" {
            listed = Some(configuration.settings(&self::command(), of_verb));
        }
        if !configuration.is_empty() {
            command = configuration
                .apply(self::command())
                .color(color::chosen().into());
            matches = command.try_get_matches_from_mut(&words)?;
        }
    }
    let mut cli = Cli::from_arg_matches(&matches)?;
    if let (Some(CliCommand::Config(flags)), Some(settings)) = (&mut cli.verb, listed) {
        flags.settings = settings;
    }
    let Some((name, matches)) = matches.subcommand() else {
        return Ok(cli);
    };
    let Some(mut words) = cli.verb.as_mut().and_then(CliCommand::words) else {
        return Ok(cli);
    };
    let interfaces = matches
        .get_occurrences::<String>("interface")
        .into_iter()
        .flatten();
    words.interfaces = interfaces.map(|words| words.cloned().collect()).collect();
    let settled = words.settle();
    let verb = command.find_subcommand_mut(name).expect("it was found");
    settled.map_err(|error| verb.error(ErrorKind::MissingRequiredArgument, error))?;
    Ok(cli)
}

/// A command-line error in the form of other errors: the problem, and the remedy.
fn in_our_words(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let ours = text
        .lines()
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let lines: Vec<&str> = ours
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let text = lines.join("\n");
    let other = OTHER_TOOLS.iter().find(|(flags, _)| {
        flags
            .iter()
            .any(|flag| text.contains(&format!("argument '{flag}'")))
    });
    match (other, lines.first()) {
        (Some((_, hint)), Some(first)) => format!("{first}\n  {hint}"),
        _ => format!("{text}\n  --help explains the flags"),
    }
}

/// Flags of other tools, and the equivalent.
const OTHER_TOOLS: &[(&[&str], &str)] = &[
    (
        &["-Y", "--display-filter"],
        "conditions are part of the query: PARSE http WHERE status >= 500",
    ),
    (
        &["--for", "--duration", "-a"],
        "a duration is part of the query: LIMIT 10s",
    ),
    (
        &["-T", "-e", "--fields"],
        "columns are part of the query: SELECT ts, url FROM http",
    ),
];

/// The value of `--summary-json` in a command line that clap rejects.
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
        command().debug_assert();
    }

    #[test]
    fn every_flag_has_a_help_text() {
        let cli = command();
        for verb in cli.get_subcommands() {
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            for arg in verb.get_arguments() {
                assert!(
                    arg.get_help().is_some(),
                    "{} {}",
                    verb.get_name(),
                    arg.get_id()
                );
            }
        }
    }
}

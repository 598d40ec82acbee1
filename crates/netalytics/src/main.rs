//! The program `netalytics`: parses the flags and runs one verb. Exit status: 0 (success), 1 (failure at run time; a
//! result may be incomplete) or 2 (wrong query or flags). Results go to standard output, messages to standard error.

#![forbid(unsafe_code)]

mod agent;
mod cli;
mod client;
mod commands;
mod diagnose;
mod kafka;
mod network;
mod process;
mod render;
mod run;
mod serve;
mod source;

use std::process::ExitCode;

use cli::flags::discover::{NetworkCommand, NetworkVerbFlags};
use cli::flags::{self, Cli, CliCommand};
use process::{exit_status, logging, output, panics, signals};

/// Flow tables and groups are large, with random access.
#[global_allocator]
static MEMORY: capture::HugePages = capture::HugePages;

fn main() -> ExitCode {
    panics::hush();
    panics::told(|| match flags::read() {
        Ok(cli) => run(cli),
        Err(code) => code,
    })
}

fn run(cli: Cli) -> ExitCode {
    logging::start(cli.verbose);
    if let Err(error) = signals::survive_user_signals() {
        output::complain(&format!(
            "warning: SIGUSR1 and SIGUSR2 end the program: {error}"
        ));
    }
    let ended = match cli.verb {
        None => commands::introduction::introduce(),
        Some(CliCommand::Query(flags)) => {
            commands::query::query(&flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Overview(flags)) => {
            commands::overview::overview(&flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Map(flags)) => commands::map::map(&flags, cli.quiet, cli.verbose > 0),
        Some(CliCommand::Report(flags)) => {
            commands::report::report(&flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Check(flags)) => {
            commands::check::check(&flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Compare(flags)) => {
            commands::compare::compare(&flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Record(flags)) => {
            commands::record::record(&flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Publish(flags)) => commands::publish::publish(&flags, cli.quiet),
        Some(CliCommand::Follow(flags)) => commands::follow::follow(&flags, cli.quiet),
        Some(CliCommand::Explain(flags)) => commands::explain::explain(&flags),
        Some(CliCommand::Parsers(flags)) => commands::parsers::list(&flags),
        Some(CliCommand::Processors(flags)) => commands::processors::list(&flags),
        Some(CliCommand::Interfaces(flags)) => commands::interfaces::list(&flags),
        Some(CliCommand::Monitor(flags)) => agent::monitor::monitor(&flags),
        Some(CliCommand::Aggregator(flags)) => agent::aggregator::aggregate(&flags),
        Some(CliCommand::Agent(flags)) => commands::agent::agent(&flags),
        Some(CliCommand::Serve(flags)) => commands::serve::serve(&flags),
        Some(CliCommand::Jobs(flags)) => commands::jobs::jobs(&flags),
        Some(CliCommand::Agents(flags)) => commands::jobs::agents(&flags),
        Some(CliCommand::Tokens(flags)) => commands::access::tokens(&flags),
        Some(CliCommand::Audit(flags)) => commands::access::audit(&flags),
        Some(CliCommand::Calibrate(flags)) => commands::calibrate::calibrate(&flags, cli.quiet),
        Some(CliCommand::Network(NetworkVerbFlags {
            what: NetworkCommand::Discover(flags),
        })) => commands::discover::discover(&flags, cli.quiet),
        Some(CliCommand::Simulate(flags)) => commands::simulate::simulate(&flags, cli.quiet),
        Some(CliCommand::Actions(flags)) => commands::actions::actions(&flags),
        Some(CliCommand::Alerts(flags)) => commands::alerts::alerts(&flags),
        Some(CliCommand::Complete { what, text }) => commands::complete::complete(what, &text),
        Some(CliCommand::Config(flags)) => commands::config::config(&flags),
        Some(CliCommand::Completions { shell }) => commands::completions::print(shell),
        Some(CliCommand::Man) => commands::man::print(),
    };
    exit_status::exit_code(ended)
}

//! The program `netalytics`: parses the flags and runs one verb. Exit status: 0 (success), 1 (failure at run time; a
//! result may be incomplete) or 2 (wrong query or flags). Results go to standard output, messages to standard error.

#![forbid(unsafe_code)]

mod asserting;
mod away_notice;
mod calibrating;
mod client_profile;
mod color;
mod commands;
mod comparing;
mod conversation;
mod delivering;
mod demo;
mod discovering;
mod display;
mod dns_names;
mod failure;
mod flags;
mod folder;
mod hosts;
mod job_bus;
mod job_network;
mod kafka;
mod keeping;
mod lease;
mod live;
mod logging;
mod looking;
mod loss_notice;
mod mapping;
mod merging;
mod networked;
mod orders;
mod output;
mod overview;
mod page;
mod panics;
mod passing;
mod period;
mod progress;
mod published;
mod publishing;
mod query_text;
mod redaction;
mod replaying;
mod reporting;
mod secret_file;
mod served;
mod shelf_reader;
mod signals;
mod simulating;
mod stats;
mod steered;
mod summary_file;
mod two_taps;
mod version;
mod watch;
mod why;

use std::process::ExitCode;

use flags::discover::{NetworkVerbFlags, OfNetwork};
use flags::{Cli, Verb};

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
        output::complain(&format!("warning: SIGUSR1 and SIGUSR2 end the program: {error}"));
    }
    let ended = match cli.verb {
        None => commands::introduction::introduce(),
        Some(Verb::Query(mut flags)) => commands::query::query(&mut flags, cli.quiet, cli.verbose > 0),
        Some(Verb::Overview(flags)) => commands::overview::overview(&flags, cli.quiet, cli.verbose > 0),
        Some(Verb::Map(flags)) => commands::map::map(&flags, cli.quiet, cli.verbose > 0),
        Some(Verb::Report(mut flags)) => commands::report::report(&mut flags, cli.quiet, cli.verbose > 0),
        Some(Verb::Check(mut flags)) => commands::check::check(&mut flags, cli.quiet, cli.verbose > 0),
        Some(Verb::Compare(flags)) => commands::compare::compare(&flags, cli.quiet, cli.verbose > 0),
        Some(Verb::Record(mut flags)) => commands::record::record(&mut flags, cli.quiet, cli.verbose > 0),
        Some(Verb::Publish(flags)) => commands::publish::publish(&flags, cli.quiet),
        Some(Verb::Follow(flags)) => commands::follow::follow(&flags, cli.quiet),
        Some(Verb::Explain(flags)) => commands::explain::explain(&flags),
        Some(Verb::Parsers(flags)) => commands::parsers::list(&flags),
        Some(Verb::Processors(flags)) => commands::processors::list(&flags),
        Some(Verb::Interfaces(flags)) => commands::interfaces::list(&flags),
        Some(Verb::Monitor(flags)) => commands::monitor::monitor(&flags),
        Some(Verb::Aggregator(flags)) => commands::aggregator::aggregate(&flags),
        Some(Verb::Agent(flags)) => commands::agent::agent(&flags),
        Some(Verb::Serve(flags)) => commands::serve::serve(&flags),
        Some(Verb::Jobs(flags)) => commands::jobs::jobs(&flags),
        Some(Verb::Agents(flags)) => commands::jobs::agents(&flags),
        Some(Verb::Tokens(flags)) => commands::access::tokens(&flags),
        Some(Verb::Audit(flags)) => commands::access::audit(&flags),
        Some(Verb::Calibrate(flags)) => commands::calibrate::calibrate(&flags, cli.quiet),
        Some(Verb::Network(NetworkVerbFlags { what: OfNetwork::Discover(flags) })) => {
            commands::discover::discover(&flags, cli.quiet)
        }
        Some(Verb::Simulate(flags)) => commands::simulate::simulate(&flags, cli.quiet),
        Some(Verb::Actions(flags)) => commands::actions::actions(&flags),
        Some(Verb::Alerts(flags)) => commands::alerts::alerts(&flags),
        Some(Verb::Complete { what, text }) => commands::complete::complete(what, &text),
        Some(Verb::Config(flags)) => commands::config::config(&flags),
        Some(Verb::Completions { shell }) => commands::completions::print(shell),
        Some(Verb::Man) => commands::man::print(),
    };
    failure::exit_code(ended)
}

//! The program `netalytics`: parses the flags and runs one verb. Exit status: 0 (success), 1 (failure at run time; a
//! result may be incomplete) or 2 (wrong query or flags). Results go to standard output, messages to standard error.

#![forbid(unsafe_code)]

mod assertions;
mod broker_notice;
mod calibration;
mod client_profile;
mod color;
mod commands;
mod comparison;
mod conversation;
mod demo;
mod diagnose_empty;
mod discovery;
mod display;
mod dns_names;
mod failure;
mod flags;
mod flink_merge;
mod folder;
mod hosts;
mod job_bus;
mod kafka;
mod kafka_publish;
mod kafka_read;
mod lease;
mod live_capture;
mod live_table;
mod logging;
mod loss_notice;
mod multi_query;
mod network_jobs;
mod network_plan;
mod network_run;
mod open_outlets;
mod output;
mod overview;
mod packet_writer;
mod page;
mod panics;
mod period;
mod process_input;
mod progress;
mod query_text;
mod recording_replay;
mod redaction;
mod remote_job;
mod report;
mod secret_file;
mod server_tap;
mod service_map;
mod signals;
mod stats;
mod stored_reader;
mod study_output;
mod summary_file;
mod temp_dir;
mod version;

use std::process::ExitCode;

use flags::discover::{NetworkCommand, NetworkVerbFlags};
use flags::{Cli, CliCommand};

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
        Some(CliCommand::Query(mut flags)) => commands::query::query(&mut flags, cli.quiet, cli.verbose > 0),
        Some(CliCommand::Overview(flags)) => commands::overview::overview(&flags, cli.quiet, cli.verbose > 0),
        Some(CliCommand::Map(flags)) => commands::map::map(&flags, cli.quiet, cli.verbose > 0),
        Some(CliCommand::Report(mut flags)) => {
            commands::report::report(&mut flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Check(mut flags)) => commands::check::check(&mut flags, cli.quiet, cli.verbose > 0),
        Some(CliCommand::Compare(flags)) => commands::compare::compare(&flags, cli.quiet, cli.verbose > 0),
        Some(CliCommand::Record(mut flags)) => {
            commands::record::record(&mut flags, cli.quiet, cli.verbose > 0)
        }
        Some(CliCommand::Publish(flags)) => commands::publish::publish(&flags, cli.quiet),
        Some(CliCommand::Follow(flags)) => commands::follow::follow(&flags, cli.quiet),
        Some(CliCommand::Explain(flags)) => commands::explain::explain(&flags),
        Some(CliCommand::Parsers(flags)) => commands::parsers::list(&flags),
        Some(CliCommand::Processors(flags)) => commands::processors::list(&flags),
        Some(CliCommand::Interfaces(flags)) => commands::interfaces::list(&flags),
        Some(CliCommand::Monitor(flags)) => commands::monitor::monitor(&flags),
        Some(CliCommand::Aggregator(flags)) => commands::aggregator::aggregate(&flags),
        Some(CliCommand::Agent(flags)) => commands::agent::agent(&flags),
        Some(CliCommand::Serve(flags)) => commands::serve::serve(&flags),
        Some(CliCommand::Jobs(flags)) => commands::jobs::jobs(&flags),
        Some(CliCommand::Agents(flags)) => commands::jobs::agents(&flags),
        Some(CliCommand::Tokens(flags)) => commands::access::tokens(&flags),
        Some(CliCommand::Audit(flags)) => commands::access::audit(&flags),
        Some(CliCommand::Calibrate(flags)) => commands::calibrate::calibrate(&flags, cli.quiet),
        Some(CliCommand::Network(NetworkVerbFlags { what: NetworkCommand::Discover(flags) })) => {
            commands::discover::discover(&flags, cli.quiet)
        }
        Some(CliCommand::Simulate(flags)) => commands::simulate::simulate(&flags, cli.quiet),
        Some(CliCommand::Actions(flags)) => commands::actions::actions(&flags),
        Some(CliCommand::Alerts(flags)) => commands::alerts::alerts(&flags),
        Some(CliCommand::Complete { what, text }) => commands::complete::complete(what, &text),
        Some(CliCommand::Config(flags)) => commands::config::config(&flags),
        Some(CliCommand::Completions { shell }) => commands::completions::print(shell),
        Some(CliCommand::Man) => commands::man::print(),
    };
    failure::exit_code(ended)
}

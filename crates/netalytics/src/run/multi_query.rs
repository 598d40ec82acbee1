//! One pass over the packets for several built-in queries, for `overview` and `map`.

use anyhow::Context;
use capture::live::StopSignal;
use capture::seccomp::{FileAccess, NetworkAccess};
use plan::{MonitorSpec, Plan, QueryLimit};
use planner::PlanOptions;
use recording::DataSet;
use runner::{MemoryDivision, QueryRun, RowWriting, RunSummary};
use sinks::Sink;

use crate::cli::flags::TrafficInputFlags;
use crate::cli::query_text::CommandQuery;
use crate::cli::verbosity::Verbosity;
use crate::diagnose::overview::advice;
use crate::diagnose::overview::queries::together;
use crate::diagnose::overview::rows::CollectedResults;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;
use crate::render::hosts::HostNames;
use crate::run::display::TerminalDisplay;
use crate::run::live_table::LiveTable;
use crate::run::loss_notice::LossNotice;
use crate::run::privileges;
use crate::run::progress::ReadProgress;
use crate::run::stats::WorkerStats;
use crate::source::packet_input;

/// Default line width.
const WIDTH: usize = 80;

/// Line width.
pub fn width() -> usize {
    output::terminal_size().map_or(WIDTH, |(columns, _)| columns)
}

/// Runs all queries in one pass over the packets.
pub fn look(
    flags: &TrafficInputFlags,
    texts: &[String],
    telling: Verbosity,
) -> anyhow::Result<(CollectedResults, RunSummary)> {
    let mut rows = CollectedResults::default();
    let summary = look_into(&mut rows, flags, texts, telling)?;
    Ok((rows, summary))
}

/// Like [`look`], with rows to a sink.
pub fn look_into(
    sink: &mut dyn Sink,
    flags: &TrafficInputFlags,
    texts: &[String],
    telling: Verbosity,
) -> anyhow::Result<RunSummary> {
    if flags.read.iter().any(|path| DataSet::is_one(path)) {
        return Err(wrong_flags(
            "this command reads packets, and a recording has tuples: use netalytics query",
        ));
    }
    if flags.live.reads_exports()? {
        return Err(wrong_flags(
            "this command reads packets, not export messages: use netalytics query with PARSE packet or PARSE flow",
        ));
    }
    let plans = plan_all(flags, texts)?;
    let monitor = MonitorSpec {
        limit: plans[0].monitor.limit,
        ..together(&plans)
    };
    run_plans(sink, flags, &plans, &monitor, telling)
}

/// The plans of all queries.
pub fn plan_all(flags: &TrafficInputFlags, texts: &[String]) -> anyhow::Result<Vec<Plan>> {
    let limit = QueryLimit {
        nanos: flags.span,
        packets: None,
    };
    let options = PlanOptions {
        limit,
        groups_max: flags.limits.groups_max,
        ..PlanOptions::default()
    };
    let plan = |text: &String| {
        let query = CommandQuery::new(text).check(&mut HostNames::default(), &[])?;
        anyhow::Ok(planner::lower_with(&query, &options))
    };
    texts.iter().map(plan).collect()
}

/// Runs plans, at least one, in one pass over the packets that `monitor` selects.
pub fn run_plans(
    sink: &mut dyn Sink,
    flags: &TrafficInputFlags,
    plans: &[Plan],
    monitor: &MonitorSpec,
    telling: Verbosity,
) -> anyhow::Result<RunSummary> {
    let capturing = flags.live.is_live();
    let stop = StopSignal::default();
    let input = packet_input::open(&flags.read, &flags.live, flags.workers, monitor, &stop)?;
    let signals = privileges::drop_all(
        &flags.live,
        &stop,
        FileAccess::ReadOnly,
        NetworkAccess::Closed,
        || Ok(()),
    )?;
    if capturing && telling != Verbosity::Errors {
        let until = flags.span.map_or("Ctrl-C ends it".into(), |ns| {
            format!(
                "for {}; Ctrl-C ends it sooner",
                sinks::units::duration(ns as f64)
            )
        });
        output::complain(&format!("analyzing {}; {until}", names(flags).join(", ")));
    }
    let whole = Plan {
        monitor: monitor.clone(),
        ..plans[0].clone()
    };
    let limits = flags.limits.of_run();
    let memory = MemoryDivision::divide(&limits, &whole, RowWriting::AtOnce);
    let mut run = QueryRun::start_several(monitor, plans, &memory.config(&limits), input)
        .context("cannot start the workers")?;
    run.stop = (!capturing).then_some(stop);
    let mut display = TerminalDisplay {
        progress: ReadProgress::new(flags.progress),
        stats: WorkerStats::new(None, signals.stats()),
        losses: LossNotice::new(capturing),
        watch: LiveTable::Nobody,
        prompt: false,
    };
    run.go(sink, &mut display)
        .context("cannot keep the results")?;
    Ok(run.end(&whole, signals.name()))
}

/// Prints unreadable input, and with `verbose` the counters of packets.
pub fn told(summary: &RunSummary, ended: CommandOutcome, verbose: bool) -> CommandOutcome {
    summary
        .complaints()
        .for_each(|text| output::complain(&format!("error: {text}")));
    if verbose {
        output::complain_lines(&format!("\n{}", summary.text().trim_end()));
    }
    if summary.is_complete() {
        ended
    } else {
        CommandOutcome::Incomplete
    }
}

/// Names of the inputs.
pub fn names(flags: &TrafficInputFlags) -> Vec<String> {
    let interfaces = flags.live.interfaces.iter().cloned();
    let mirrors = flags.live.listen.iter().map(|listen| format!("{listen:?}"));
    flags
        .read
        .iter()
        .map(|path| path.display().to_string())
        .chain(interfaces)
        .chain(mirrors)
        .collect()
}

/// Flags that select the same input, for another command.
pub fn input(flags: &TrafficInputFlags) -> String {
    let words = |words: &mut dyn Iterator<Item = String>| {
        words
            .map(|word| advice::shell_word(&word))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let input = match (flags.read.is_empty(), flags.live.interfaces.as_slice()) {
        (false, _) => format!(
            "-r {}",
            words(&mut flags.read.iter().map(|path| path.display().to_string()))
        ),
        (true, []) => format!("--listen {}", words(&mut names(flags).into_iter())),
        (true, interfaces) => {
            let flags = interfaces
                .iter()
                .map(|name| format!("-i {}", advice::shell_word(name)));
            flags.collect::<Vec<_>>().join(" ")
        }
    };
    match flags.live.filter.as_str() {
        "" => input,
        filter => format!("{input} --capture-filter {}", advice::shell_word(filter)),
    }
}

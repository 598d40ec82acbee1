//! One pass over the packets for several built-in queries, for `overview` and `map`.

use anyhow::Context;
use capture::live::Stop;
use capture::seccomp::{Files, Network};
use plan::{Limit, MonitorSpec, Plan};
use recording::DataSet;
use runner::{Memory, Run, Summary, Writing};
use sinks::Sink;

use crate::commands::work::{self, Telling};
use crate::display::Display;
use crate::failure::{Ended, wrong_flags};
use crate::flags::LookFlags;
use crate::hosts::Names;
use crate::live;
use crate::loss_notice::LossNotice;
use crate::output;
use crate::overview::advice;
use crate::overview::questions::together;
use crate::overview::rows::Collected;
use crate::progress::Progress;
use crate::query_text;
use crate::signals::Signals;
use crate::stats::Stats;
use crate::watch::Watch;

/// Default line width.
const WIDTH: usize = 80;

/// Line width.
pub fn width() -> usize {
    output::terminal_size().map_or(WIDTH, |(columns, _)| columns)
}

/// Runs all queries in one pass over the packets.
pub fn look(flags: &LookFlags, texts: &[String], telling: Telling) -> anyhow::Result<(Collected, Summary)> {
    let mut rows = Collected::default();
    let summary = look_into(&mut rows, flags, texts, telling)?;
    Ok((rows, summary))
}

/// Like [`look`], with rows to a sink.
pub fn look_into(
    sink: &mut dyn Sink,
    flags: &LookFlags,
    texts: &[String],
    telling: Telling,
) -> anyhow::Result<Summary> {
    if flags.read.iter().any(|path| DataSet::is_one(path)) {
        return Err(wrong_flags("this reads packets, and a recording holds tuples: ask it a query"));
    }
    let mut plans = Vec::new();
    for text in texts {
        plans.push(query_text::plan(text, &mut Names::default(), &[])?);
    }
    let limit = Limit { nanos: flags.span, packets: None };
    plans.iter_mut().for_each(|plan: &mut Plan| {
        flags.limits.bound(plan);
        plan.monitor.limit = limit;
    });
    let monitor = MonitorSpec { limit, ..together(&plans) };
    let capturing = flags.live.is_live();
    let stop = Stop::default();
    let input = work::open(&flags.read, &flags.live, flags.workers, &monitor, &stop)?;
    if capturing {
        live::give_up_privileges(&flags.live)?;
    }
    let signals = Signals::end_unwatched(&stop).context("cannot handle signals")?;
    if capturing {
        live::restrict_system_calls(&flags.live, Files::ReadOnly, Network::Closed);
        if telling != Telling::Errors {
            let until = flags.span.map_or("Ctrl-C ends it".into(), |ns| {
                format!("for {}; Ctrl-C ends it sooner", sinks::units::duration(ns as f64))
            });
            output::complain(&format!("looking at {}; {until}", names(flags).join(", ")));
        }
    }
    signals.watch().context("cannot handle signals")?;
    let mut whole = plans[0].clone();
    whole.monitor = monitor.clone();
    let limits = flags.limits.of_run();
    let memory = Memory::divide(&limits, &whole, Writing::AtOnce);
    let mut run = Run::start_several(&monitor, &plans, &memory.config(&limits), input)
        .context("cannot start the workers")?;
    run.stop = (!capturing).then_some(stop);
    let mut display = Display {
        progress: Progress::new(flags.progress),
        stats: Stats::new(None, signals.stats()),
        losses: LossNotice::new(capturing),
        watch: Watch::Nobody,
        prompt: false,
    };
    run.go(sink, &mut display).context("cannot keep the results")?;
    Ok(run.end(&whole, signals.name()))
}

/// Prints unreadable input, and with `verbose` the counters of packets.
pub fn told(summary: &Summary, ended: Ended, verbose: bool) -> Ended {
    summary.complaints().for_each(|text| output::complain(&format!("error: {text}")));
    if verbose {
        output::complain_lines(&format!("\n{}", summary.text().trim_end()));
    }
    if summary.is_complete() { ended } else { Ended::Incomplete }
}

/// Names of the inputs.
pub fn names(flags: &LookFlags) -> Vec<String> {
    let interfaces = flags.live.interfaces.iter().cloned();
    let mirrors = flags.live.listen.iter().map(|listen| format!("{listen:?}"));
    flags.read.iter().map(|path| path.display().to_string()).chain(interfaces).chain(mirrors).collect()
}

/// Flags that select the same input, for another command.
pub fn input(flags: &LookFlags) -> String {
    let words = |words: &mut dyn Iterator<Item = String>| {
        words.map(|word| advice::shell_word(&word)).collect::<Vec<_>>().join(" ")
    };
    let input = match (flags.read.is_empty(), flags.live.interfaces.as_slice()) {
        (false, _) => format!("-r {}", words(&mut flags.read.iter().map(|path| path.display().to_string()))),
        (true, []) => format!("--listen {}", words(&mut names(flags).into_iter())),
        (true, interfaces) => {
            let flags = interfaces.iter().map(|name| format!("-i {}", advice::shell_word(name)));
            flags.collect::<Vec<_>>().join(" ")
        }
    };
    match flags.live.filter.as_str() {
        "" => input,
        filter => format!("{input} --capture-filter {}", advice::shell_word(filter)),
    }
}

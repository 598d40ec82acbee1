//! `netalytics overview -r FILE…` or `-i IFACE`: what a capture holds, on one screen.

use anyhow::Context;
use capture::live::Stop;
use capture::seccomp::{Files, Network};
use plan::{Limit, Plan};
use recording::DataSet;

use crate::commands::work::{self, Telling};
use crate::display::Display;
use crate::failure::{Ended, wrong_flags};
use crate::flags::{OverviewFlags, OverviewFormat};
use crate::hosts::Names;
use crate::live;
use crate::loss_notice::LossNotice;
use crate::output;
use crate::overview::questions::{Questions, together};
use crate::overview::rows::Collected;
use crate::overview::{advice, found, json, screen};
use crate::progress::Progress;
use crate::query_text;
use crate::signals::Signals;
use crate::stats::Stats;
use crate::watch::Watch;
use runner::Run;
use runner::Summary;
use runner::{Memory, Writing};

/// Where nothing says how wide a line may be.
const WIDTH: usize = 80;

/// Looks at all of it, and shows what there is.
pub fn overview(flags: &OverviewFlags, quiet: bool, verbose: bool) -> anyhow::Result<Ended> {
    if flags.read.iter().any(|path| DataSet::is_one(path)) {
        return Err(wrong_flags("an overview reads packets, and a recording holds tuples: ask it a query"));
    }
    let questions = Questions::new();
    let (rows, summary) = look(flags, &questions, Telling::of(quiet, verbose))?;
    let mut found = found::find(&questions, &rows, &summary);
    found.next = advice::queries(&found, &questions);
    let text = match flags.format {
        OverviewFormat::Text => {
            let width = output::terminal_size().map_or(WIDTH, |(columns, _)| columns);
            screen::text(&found, &names(flags).join(", "), &input(flags), width)
        }
        OverviewFormat::Json => format!("{:#}\n", json::document(&found, &questions.texts, &names(flags))),
    };
    let ended = output::print(output::visible_lines(&text).as_bytes())?;
    summary.complaints().for_each(|text| output::complain(&format!("error: {text}")));
    if verbose {
        output::complain_lines(&format!("\n{}", summary.text().trim_end()));
    }
    Ok(if summary.is_complete() { ended } else { Ended::Incomplete })
}

/// Asks all questions of one pass over the packets.
fn look(
    flags: &OverviewFlags,
    questions: &Questions,
    telling: Telling,
) -> anyhow::Result<(Collected, Summary)> {
    let mut plans = Vec::new();
    for text in &questions.texts {
        plans.push(query_text::plan(text, &mut Names::default(), &[])?);
    }
    let limit = Limit { nanos: flags.span, packets: None };
    plans.iter_mut().for_each(|plan: &mut Plan| {
        flags.limits.bound(plan);
        plan.monitor.limit = limit;
    });
    let monitor = plan::MonitorSpec { limit, ..together(&plans) };
    let capturing = flags.live.is_live();
    let stop = Stop::default();
    let input = work::open(&flags.read, &flags.live, flags.workers, &monitor, &stop)?;
    if capturing {
        live::give_up_privileges(&flags.live)?;
    }
    let signals = Signals::end(&stop).context("cannot handle signals")?;
    if capturing {
        live::restrict_system_calls(&flags.live, Files::ReadOnly, Network::Closed);
        if telling != Telling::Errors {
            let until = flags.span.map_or("Ctrl-C ends it".into(), |ns| {
                format!("for {}; Ctrl-C ends it sooner", sinks::units::duration(ns as f64))
            });
            output::complain(&format!("looking at {}; {until}", names(flags).join(", ")));
        }
    }
    let mut whole = plans[0].clone();
    whole.monitor = monitor.clone();
    let limits = flags.limits.of_run();
    let memory = Memory::divide(&limits, &whole, Writing::AtOnce);
    let mut run = Run::start_several(&monitor, &plans, &memory.config(&limits), input)
        .context("cannot start the workers")?;
    run.stop = (!capturing).then_some(stop);
    let mut display = Display {
        progress: Progress::new(flags.progress),
        stats: Stats::new(None),
        losses: LossNotice::new(capturing),
        watch: Watch::Nobody,
        prompt: false,
    };
    let mut rows = Collected::default();
    run.go(&mut rows, &mut display).context("cannot keep the results")?;
    Ok((rows, run.end(&whole, signals.name())))
}

/// What is looked at, by name.
fn names(flags: &OverviewFlags) -> Vec<String> {
    let interfaces = flags.live.interfaces.iter().cloned();
    let mirrors = flags.live.listen.iter().map(|listen| format!("{listen:?}"));
    flags.read.iter().map(|path| path.display().to_string()).chain(interfaces).chain(mirrors).collect()
}

/// The flags that name it, for another command.
fn input(flags: &OverviewFlags) -> String {
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

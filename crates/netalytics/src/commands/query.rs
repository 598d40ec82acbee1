//! `netalytics query 'QUERY' -r FILE…` or `-i IFACE`: from the flags to a run, and from its end to the summary.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use monitor::Input;
use monitor::job::Config;
use plan::{MonitorSpec, Plan, Sample};
use sinks::{Csv, Jsonl, ResultHead, Sink, Style, Table};
use tracing::info;

use crate::failure::{Ended, wrong_flags};
use crate::flags::{Cores, Format, QueryFlags};
use crate::hosts::{self, Names};
use crate::live;
use crate::output::{self, Destination};
use crate::progress::Progress;
use crate::query_text;
use crate::run::{Display, Run};
use crate::stats::Stats;
use crate::summary::Summary;

/// Answers the query.
pub fn query(flags: &QueryFlags, quiet: bool, verbose: bool) -> anyhow::Result<Ended> {
    check_paths(flags)?;
    let text = query_text::read(&flags.text)?;
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let mut plan = query_text::plan(&text, &mut names, &flags.read)?;
    flags.limits.bound(&mut plan);
    plan.monitor.sample_seed = flags.sample_seed;
    mention(&plan);

    let capturing = flags.live.is_live();
    let input = match open(flags, &plan.monitor)? {
        Some(input) => input,
        None => return Ok(Ended::Incomplete),
    };
    let destination = Destination::open(flags.output.as_deref())?;
    let summary_file = flags.summary_json.as_deref().map(create).transpose()?;
    if capturing {
        live::give_up_privileges(&flags.live)?;
        if !quiet {
            let doing = match flags.live.asked() {
                Some((interface, _)) => format!("capturing from {interface}"),
                None => "capturing from mirrors sent here".into(),
            };
            output::complain(&format!("{doing}; Ctrl-C ends it"));
        }
    }
    let mut run = Run::start(&plan, &config(flags)?, input).context("cannot start the workers")?;
    let heads = run.heads(&plan);
    let (name, terminal) = (destination.name.clone(), destination.terminal);
    let mut sink = sink(flags, destination, &heads, names);
    let mut display = Display {
        progress: Progress::new(flags.progress),
        stats: stats(flags, verbose),
        prompt: capturing || flags.read.iter().any(|path| !path.is_file()),
    };
    let written = run.go(sink.as_mut(), &mut display);
    let mut summary = run.end(&plan);
    let closed = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if let (Err(error), false) = (&written, closed) {
        summary.output_error = Some(format!("cannot write the result to {name}; it is incomplete: {error}"));
    }
    end(summary_file, quiet || closed, &summary, sink.as_ref(), terminal)
}

/// Opens what is to be read; `None` when that was said to be impossible, file by file. Files wait for us, so that
/// as many workers read them as there are cores; a network does not wait, but the machine may have other work to do.
fn open(flags: &QueryFlags, wanted: &MonitorSpec) -> anyhow::Result<Option<Input>> {
    let workers = flags.workers.0.unwrap_or(1);
    if !flags.live.listen.is_empty() {
        let source = live::listen(&flags.live)?;
        return Ok(Some(if workers > 1 {
            Input::Shared(source, workers)
        } else {
            Input::Each(vec![source])
        }));
    }
    if flags.live.asked().is_some() {
        let sources = if flags.live.one_reader { 1 } else { workers };
        let mut sources = live::open(&flags.live, sources, wanted)?;
        // Where flows cannot be told apart before us there is one source, and we deal its packets ourselves.
        return Ok(Some(match (sources.len(), sources.pop()) {
            (1, Some(source)) if workers > 1 => Input::Shared(source, workers),
            (_, last) => Input::Each(sources.into_iter().chain(last).collect()),
        }));
    }
    let source = live::filter(capture::open(&flags.read), &flags.live)?;
    if source.errors().len() == flags.read.len() {
        source.errors().iter().for_each(|error| output::complain(&format!("error: {error}")));
        return Ok(None);
    }
    let cores = || std::thread::available_parallelism().map_or(1, Into::into);
    Ok(Some(Input::Shared(source, flags.workers.0.unwrap_or_else(cores))))
}

fn config(flags: &QueryFlags) -> anyhow::Result<Config> {
    let usable = || core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id);
    let cores = match &flags.pin {
        None => Vec::new(),
        Some(Cores(cores)) if cores.is_empty() => usable().collect(),
        Some(Cores(cores)) => cores.clone(),
    };
    if let Some(core) = cores.iter().find(|core| !usable().any(|id| id == **core)) {
        let usable: Vec<_> = usable().map(|id| id.to_string()).collect();
        return Err(wrong_flags(format!(
            "core {core} may not be used here; there are {}",
            usable.join(", ")
        )));
    }
    Ok(Config { monitor: flags.limits.monitor(), stream: flags.limits.stream(), cores })
}

fn stats(flags: &QueryFlags, verbose: bool) -> Stats {
    let every = flags.stats.map(|ns| Duration::from_nanos(ns.unsigned_abs()));
    Stats::new(every.or(verbose.then_some(Duration::from_secs(1))))
}

/// Says what there is to say when all has been read, or the result could not be written any more.
/// On a terminal the summary keeps its distance from the result.
fn end(
    summary_file: Option<(File, &Path)>,
    quiet: bool,
    summary: &Summary,
    sink: &dyn Sink,
    terminal: bool,
) -> anyhow::Result<Ended> {
    if !quiet {
        sink.notes().iter().for_each(|note| output::complain(&format!("note: {note}")));
    }
    summary.complaints().for_each(|text| output::complain(&format!("error: {text}")));
    if !quiet {
        let gap = if terminal { "\n" } else { "" };
        output::complain(&format!("{gap}{}", summary.text().trim_end()));
    }
    if let Some((mut file, path)) = summary_file {
        file.write_all(summary.json().as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(if summary.is_complete() { Ended::Done } else { Ended::Incomplete })
}

fn create(path: &Path) -> anyhow::Result<(File, &Path)> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok((file, path))
}

/// Refuses what would read one thing twice or destroy an input.
fn check_paths(flags: &QueryFlags) -> anyhow::Result<()> {
    let dash = |path: &Path| path == Path::new("-");
    let from_stdin = flags.read.iter().filter(|p| dash(p)).count()
        + usize::from(flags.text.query_file.as_deref().is_some_and(dash));
    if from_stdin > 1 {
        return Err(wrong_flags("standard input (-) can be read once only"));
    }
    if flags.summary_json.as_deref().is_some_and(dash) {
        return Err(wrong_flags("--summary-json wants a file; /dev/stderr shows it here"));
    }
    let written: Vec<&Path> =
        [&flags.output, &flags.summary_json].into_iter().flatten().map(AsRef::as_ref).collect();
    let read = flags.read.iter().chain(&flags.text.query_file).chain(&flags.text.hosts);
    let read: Vec<&Path> = read.map(AsRef::as_ref).collect();
    written.iter().try_for_each(|path| output::refuse_inputs(path, &read))?;
    match written[..] {
        [a, b] if a == b => Err(wrong_flags("--output and --summary-json name the same file")),
        _ => Ok(()),
    }
}

/// With `-v`: what the query was understood to be.
fn mention(plan: &Plan) {
    info!("query: {}", plan.query);
    if plan.monitor.sample == Sample::Auto {
        info!("SAMPLE auto: files wait for us, so every flow is looked at; it acts with live input only");
    }
}

fn sink(flags: &QueryFlags, destination: Destination, heads: &[ResultHead], names: Names) -> Box<dyn Sink> {
    let format = flags.format.unwrap_or(if destination.terminal { Format::Table } else { Format::Jsonl });
    let out = destination.writer;
    match format {
        Format::Jsonl => Box::new(Jsonl::new(out, heads)),
        Format::Csv => Box::new(Csv::new(out, heads)),
        Format::Table => {
            let width = destination.terminal.then(output::terminal_width).flatten();
            let names: Option<HashMap<_, _>> = (!flags.no_resolve).then_some(names.names);
            Box::new(Table::new(out, heads, Style { width, names }))
        }
    }
}

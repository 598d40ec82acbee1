//! What `query` and `record` have in common: from the flags to a run, and from its end to the summary.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use capture::{PacketFile, PacketRotation};
use monitor::job::Config;
use monitor::{Input, Keep};
use plan::{MonitorSpec, Plan, Sample};
use recording::Head;
use sinks::{ResultHead, Sink};
use tracing::info;
use tuple::{FieldId, Schema};

use crate::failure::{Ended, wrong_flags};
use crate::flags::{Checksums, Cores, WorkFlags};
use crate::hosts::{self, Names};
use crate::live;
use crate::loss_notice::LossNotice;
use crate::output;
use crate::progress::Progress;
use crate::query_text;
use crate::replay;
use crate::run::{Display, Run};
use crate::stats::Stats;
use crate::summary::Summary;

/// Where a verb's rows go.
pub trait Target {
    /// What has been opened before privileges are given up.
    type Ready;

    /// The file that is written, if it is one.
    fn path(&self) -> Option<&Path>;

    /// Whether Ctrl-C is to lose nothing, also where files are read.
    fn keeps(&self) -> bool;

    /// Adds columns that only this verb needs.
    fn widen(&self, _plan: &mut Plan) {}

    /// Opens what needs privileges.
    fn prepare(&self) -> anyhow::Result<Self::Ready>;

    /// What to call it in a message, and whether a person looks on.
    fn name(&self, ready: &Self::Ready) -> (String, bool);

    /// The sink for what will come.
    fn open(&self, ready: Self::Ready, opened: Opened) -> anyhow::Result<Box<dyn Sink>>;
}

/// What a sink may know before the first row.
pub struct Opened {
    /// The results.
    pub heads: Vec<ResultHead>,
    /// The same as tables, for sinks that keep them.
    pub tables: Vec<ResultTable>,
    /// Host names.
    pub names: Names,
}

/// A result as a table.
pub struct ResultTable {
    /// What it says of itself.
    pub head: Head,
    /// Its columns are of this schema.
    pub schema: Arc<Schema>,
    /// Which of them there are.
    pub columns: Vec<FieldId>,
}

/// Answers the query.
pub fn work<T: Target>(flags: &WorkFlags, target: &T, quiet: bool, verbose: bool) -> anyhow::Result<Ended> {
    check_paths(flags, target.path())?;
    let text = query_text::read(&flags.text)?;
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let checked = query_text::check(&text, &mut names, &flags.read)?;
    let capturing = flags.live.is_live();
    let (mut plan, replaying) = match replay::asked(&flags.read)? {
        true => match replay::open(checked, flags)? {
            Some((plan, replaying)) => (plan, Some(replaying)),
            None => return Ok(Ended::Incomplete),
        },
        false => (planner::lower(&checked), None),
    };
    flags.limits.bound(&mut plan);
    plan.monitor.sample_seed = flags.sample_seed;
    target.widen(&mut plan);
    if flags.checksums == Checksums::Off {
        replay::leave_out_checksums(&mut plan, "--checksums off")?;
    }
    mention(&plan);

    let input = match &replaying {
        Some(_) => None,
        None => match open(flags, &plan.monitor)? {
            Some(input) => Some(input),
            None => return Ok(Ended::Incomplete),
        },
    };
    let ready = target.prepare()?;
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
    let keep = flags.write.as_deref().map(|path| keep(path, flags)).transpose()?;
    let config = Config { keep: keep.clone(), ..config(flags)? };
    let mut run = match (input, replaying) {
        (Some(input), _) => Run::start(&plan, &config, input).context("cannot start the workers")?,
        (None, Some(replaying)) => Run::replay(&plan, config.stream, replaying),
        (None, None) => unreachable!("there is either packets or tuples"),
    };
    if let (Some(stop), false, true) = (run.stopper(), capturing, target.keeps()) {
        live::end_at_signals(&stop).context("cannot handle signals")?;
    }
    run.facts.inputs = inputs(flags);
    run.snaplen = if capturing { flags.live.snaplen } else { 0 };
    let (name, terminal) = target.name(&ready);
    let opened = Opened { heads: run.heads(&plan), tables: run.tables(&plan), names };
    let mut sink = target.open(ready, opened)?;
    let mut display = Display {
        progress: Progress::new(flags.progress),
        stats: stats(flags, verbose),
        losses: LossNotice::new(capturing),
        prompt: capturing || flags.read.iter().any(|path| !path.is_file() && !path.is_dir()),
    };
    let written = run.go(sink.as_mut(), &mut display);
    let mut summary = run.end(&plan);
    summary.kept = sink.kept();
    let closed = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if let (Err(error), false) = (&written, closed) {
        summary.output_errors.push(format!("cannot write the result to {name}; it is incomplete: {error}"));
    }
    if let (Some(keep), Some(path)) = (&keep, &flags.write) {
        let (kept, error) = keep.lock().unwrap_or_else(PoisonError::into_inner).finish();
        summary.packets_kept = Some(kept);
        let path = path.display();
        summary.output_errors.extend(error.map(|e| format!("cannot write all packets to {path}: {e}")));
    }
    end(summary_file, quiet || closed, &summary, sink.as_ref(), terminal)
}

/// Begins the file of packets.
fn keep(path: &Path, flags: &WorkFlags) -> anyhow::Result<Keep> {
    let rotate = flags.rotate.unwrap_or_default();
    let rotation = PacketRotation { every_ns: rotate.every_ns, bytes: rotate.bytes };
    let file = PacketFile::create(path, rotation)
        .with_context(|| format!("cannot write packets to {}", path.display()))?;
    Ok(Arc::new(Mutex::new(file)))
}

/// What is read, by name.
fn inputs(flags: &WorkFlags) -> Vec<String> {
    let interface = flags.live.asked().map(|(interface, _)| interface.to_owned());
    let mirrors = flags.live.listen.iter().map(|listen| format!("{listen:?}"));
    flags.read.iter().map(|path| path.display().to_string()).chain(interface).chain(mirrors).collect()
}

/// Opens what is to be read; `None` when that was said to be impossible, file by file. Files wait for us, so that
/// as many workers read them as there are cores; a network does not wait, but the machine may have other work to do.
fn open(flags: &WorkFlags, wanted: &MonitorSpec) -> anyhow::Result<Option<Input>> {
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

fn config(flags: &WorkFlags) -> anyhow::Result<Config> {
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
    Ok(Config { monitor: flags.limits.monitor(), stream: flags.limits.stream(), keep: None, cores })
}

fn stats(flags: &WorkFlags, verbose: bool) -> Stats {
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
fn check_paths(flags: &WorkFlags, output: Option<&Path>) -> anyhow::Result<()> {
    let dash = |path: &Path| path == Path::new("-");
    let from_stdin = flags.read.iter().filter(|p| dash(p)).count()
        + usize::from(flags.text.query_file.as_deref().is_some_and(dash));
    if from_stdin > 1 {
        return Err(wrong_flags("standard input (-) can be read once only"));
    }
    if flags.summary_json.as_deref().is_some_and(dash) {
        return Err(wrong_flags("--summary-json wants a file; /dev/stderr shows it here"));
    }
    if flags.write.as_deref().is_some_and(dash) {
        return Err(wrong_flags("--write wants a file"));
    }
    let written: Vec<&Path> =
        [output, flags.summary_json.as_deref(), flags.write.as_deref()].into_iter().flatten().collect();
    let read = flags.read.iter().chain(&flags.text.query_file).chain(&flags.text.hosts);
    let read: Vec<&Path> = read.map(AsRef::as_ref).collect();
    written.iter().try_for_each(|path| output::refuse_inputs(path, &read))?;
    let is_twice = |(i, path): (usize, &&Path)| written[..i].contains(path);
    match written.iter().enumerate().any(is_twice) {
        true => Err(wrong_flags("two of --output, --write and --summary-json name the same file")),
        false => Ok(()),
    }
}

/// With `-v`: what the query was understood to be.
fn mention(plan: &Plan) {
    info!("query: {}", plan.query);
    if plan.monitor.sample == Sample::Auto {
        info!("SAMPLE auto: files wait for us, so every flow is looked at; it acts with live input only");
    }
}

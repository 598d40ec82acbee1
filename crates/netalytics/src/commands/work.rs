//! Shared by `query` and `record`: from the flags to a run, and to the summary.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use capture::live::Stop;
use capture::seccomp::{Files, Network};
use monitor::Input;
use monitor::job::Config;
use plan::{Bounds, MonitorSpec, Plan, Sample};
use sinks::{Pace, ResultHead, Sink};
use tracing::info;

use crate::delivering;
use crate::display::Display;
use crate::failure::{Ended, Unreadable, wrong_flags};
use crate::flags::live::LiveFlags;
use crate::flags::{Checksums, Cores, WorkFlags, Workers};
use crate::hosts::{self, Names};
use crate::keeping::{self, Keeping, Packets};
use crate::live::{self, Owner};
use crate::loss_notice::LossNotice;
use crate::networked;
use crate::output;
use crate::period::{self, Periods};
use crate::progress::Progress;
use crate::published::{self, Answering};
use crate::query_text;
use crate::replaying;
use crate::signals::{self, Signals};
use crate::stats::Stats;
use crate::steered;
use crate::summary_file::SummaryFile;
use crate::two_taps;
use crate::watch::Watch;
use crate::why;
use runner::Summary;
use runner::bus::Reach;
use runner::replay::Replaying;
use runner::{Memory, Writing};
use runner::{ResultTable, Run};

/// Destination of a verb's rows.
pub trait Target {
    /// State opened before privileges are dropped.
    type Ready;

    /// Output file, if any.
    fn path(&self) -> Option<&Path>;

    /// Files opened after the first row.
    fn files(&self) -> Files;

    /// Kind of output writes.
    fn writing(&self) -> Writing;

    /// Adds columns that only this verb needs; rejects plans it does not support.
    fn fit(&self, _plan: &mut Plan) -> anyhow::Result<()> {
        Ok(())
    }

    /// Whether its rows are displayed as they arrive.
    fn is_watched(&self, _ready: &Self::Ready) -> bool {
        false
    }

    /// Which of the query's periods is read.
    fn period(&self, periods: &Periods) -> anyhow::Result<Bounds> {
        periods.only()
    }

    /// Opens files that need privileges.
    fn prepare(&self) -> anyhow::Result<Self::Ready>;

    /// Starts additional threads; privileges have been dropped.
    fn start(&self, _ready: &mut Self::Ready) -> anyhow::Result<()> {
        Ok(())
    }

    /// Completes the summary after all rows have been written.
    fn conclude(&self, _summary: &mut Summary) {}

    /// Name for messages, and whether it is a terminal.
    fn name(&self, ready: &Self::Ready) -> (String, bool);

    /// Opens the sink.
    fn open(&self, ready: Self::Ready, opened: Opened) -> anyhow::Result<Box<dyn Sink>>;
}

/// Properties of the results, known before the first row.
pub struct Opened {
    /// The results.
    pub heads: Vec<ResultHead>,
    /// The results as tables, for sinks that store them.
    pub tables: Vec<ResultTable>,
    /// Host names.
    pub names: Names,
    /// When rows of windows are shown.
    pub pace: Pace,
    /// Memory for row groups of Parquet, in bytes.
    pub row_group_bytes: usize,
}

/// Verbosity on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Errors only.
    Errors,
    /// Errors, summary and notes.
    Summary,
    /// Also statistics of workers.
    Everything,
}

impl Telling {
    /// From `-q` and `-v`.
    pub fn of(quiet: bool, verbose: bool) -> Telling {
        match (quiet, verbose) {
            (true, _) => Telling::Errors,
            (false, false) => Telling::Summary,
            (false, true) => Telling::Everything,
        }
    }
}

/// Source of the answer.
enum Source {
    /// Packets.
    Packets,
    /// A recording.
    Recording(Box<Replaying>),
    /// Published results on Kafka.
    Published(Box<Answering>),
    /// A network, in which monitors are started.
    Network(PathBuf),
}

/// Answers the query; writes the summary file however it ends.
pub fn work<T: Target>(flags: &WorkFlags, target: &T, telling: Telling) -> anyhow::Result<Ended> {
    check_paths(flags, target.path())?;
    signals::survive_size_limits().context("cannot handle signals")?;
    let create = |path| SummaryFile::create(path, Owner::of(&flags.live));
    let mut summary_file = flags.summary_json.as_deref().map(create).transpose()?;
    let ended = answer(flags, target, telling, summary_file.as_mut());
    if let (Err(error), Some(file)) = (&ended, &mut summary_file)
        && let Err(unwritten) = file.fail(&format!("{error:#}"))
    {
        output::complain(&format!("error: {unwritten:#}"));
    }
    ended
}

fn answer<T: Target>(
    flags: &WorkFlags,
    target: &T,
    telling: Telling,
    summary_file: Option<&mut SummaryFile>,
) -> anyhow::Result<Ended> {
    let text = query_text::read(&flags.text)?;
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let checked = match &flags.network.network {
        None => query_text::check(&text, &mut names, &flags.read)?,
        Some(_) => query_text::check_for_network(&text, &names)?,
    };
    let budget = checked.budget;
    let capturing = flags.live.is_live();
    let filtered = checked.filter.is_some();
    let is_recording = replaying::asked(&flags.read)?;
    let periods = period::settle(&checked, flags)?;
    let bounds = target.period(&periods)?;
    networked::alone(flags)?;
    let (mut plan, from) = match &flags.bus.kafka {
        Some(brokers) => {
            let (plan, answering) = published::open(checked, flags, brokers, bounds, telling)?;
            (plan, Source::Published(Box::new(answering)))
        }
        None if is_recording => {
            let (plan, replaying) = replaying::open(checked, flags, bounds, telling)?;
            (plan, Source::Recording(Box::new(replaying)))
        }
        None => {
            let from = flags.network.network.clone().map_or(Source::Packets, Source::Network);
            (planner::within(planner::lower(&checked), bounds), from)
        }
    };
    periods.end_live(&mut plan);
    flags.limits.bound(&mut plan);
    plan.monitor.sample_seed = flags.sample_seed;
    if let Some(count) = flags.count {
        let limit = &mut plan.monitor.limit.packets;
        *limit = Some(limit.map_or(count, |packets| packets.min(count)));
    }
    target.fit(&mut plan)?;
    if flags.checksums == Checksums::Off {
        replaying::leave_out_checksums(&mut plan, "--checksums off")?;
    }
    mention(&plan);
    if telling != Telling::Errors {
        why::never(&plan).iter().for_each(|reason| output::complain(&format!("note: {reason}")));
    }

    let stop = Stop::default();
    let input = match &from {
        Source::Packets => {
            Some(open(&flags.read, &flags.live, workers(flags, filtered), &plan.monitor, &stop)?)
        }
        Source::Recording(_) | Source::Published(_) | Source::Network(_) => None,
    };
    let planned = match &from {
        Source::Network(path) => Some(networked::plan(&flags.network, path, &plan, budget)?),
        _ => None,
    };
    let mut ready = target.prepare()?;
    let packets = Packets::prepare(flags)?;
    if capturing {
        live::give_up_privileges(&flags.live)?;
    }
    let signals = Signals::end_unwatched(&stop).context("cannot handle signals")?;
    target.start(&mut ready)?;
    if capturing {
        let files = if flags.write.is_some() { Files::New } else { target.files() };
        live::restrict_system_calls(&flags.live, files, Network::Closed);
    }
    signals.watch().context("cannot handle signals")?;
    if capturing && telling != Telling::Errors {
        let doing = match flags.live.interfaces.as_slice() {
            [] => "capturing from mirrors sent here".into(),
            interfaces => format!("capturing from {}", interfaces.join(" and ")),
        };
        output::complain(&format!("{doing}; Ctrl-C ends it"));
    }
    let keeping = Keeping::asked(flags, filtered, packets)?;
    let limits = flags.limits.of_run();
    let memory = Memory::divide(&limits, &plan, target.writing());
    info!("{memory}");
    let comes =
        planned.is_some() || matches!(&from, Source::Published(answering) if answering.reach != Reach::Past);
    let prompt = capturing || comes || flags.read.iter().any(|path| !path.is_file() && !path.is_dir());
    // Lines of statistics would be mixed with it.
    let is_watched = prompt && target.is_watched(&ready) && !plan.dataflow.pipelines.is_empty();
    let watch = match is_watched && flags.stats.is_none() && telling != Telling::Everything {
        true => Watch::begin(),
        false => Watch::Nobody,
    };
    let peek_bytes_max = watch.bytes_max();
    let mut config = Config { peek_bytes_max, cores: cores(flags)?, ..memory.config(&limits) };
    config.stream.server_tap =
        two_taps::read(flags, !flags.read.is_empty() && !is_recording, &plan, &config, &stop)?;
    let taps = config.stream.server_tap.clone();
    config.monitor.origin = Arc::new(flags.origin());
    keeping.join(&mut plan, &mut config);
    let mut run = match (input, from) {
        (_, Source::Recording(replaying)) => Run::replay(&plan, config.stream.clone(), *replaying),
        (_, Source::Published(answering)) => {
            let feed = answering.feed(&plan, &config, (flags.bus.engine, &flags.bus.flink))?;
            Run::fed(&plan, config.stream.window_bytes_max, feed)
        }
        (Some(input), Source::Packets) => {
            Run::start(&plan, &config, input).context("cannot start the workers")?
        }
        (_, Source::Network(_)) => {
            let planned = planned.expect("it was planned for the network");
            let program = flags.monitor_program.as_deref();
            let steered = steered::start(&plan, &planned, &config.stream, program)?;
            if telling != Telling::Errors {
                output::complain(&format!("capturing from {}; Ctrl-C ends it", steered.words()));
            }
            Run::fed(&plan, config.stream.window_bytes_max, Box::new(steered))
        }
        (None, Source::Packets) => unreachable!("packets were opened"),
    };
    // Live sources observe it themselves: packets that have arrived are still processed.
    run.stop = (!capturing).then(|| stop.clone());
    run.facts.inputs = inputs(flags);
    run.snaplen = if capturing { flags.live.snaplen } else { 0 };
    let (name, terminal) = target.name(&ready);
    let opened = Opened {
        heads: run.heads(&plan),
        tables: run.tables(&plan),
        names,
        pace: if prompt { Pace::AtOnce } else { Pace::Whole },
        row_group_bytes: memory.row_group_bytes,
    };
    let mut sink = target.open(ready, opened)?;
    let mut display = Display {
        progress: Progress::new(flags.progress),
        stats: stats(flags, telling, &signals),
        losses: LossNotice::new(capturing),
        watch,
        prompt,
    };
    let written = run.go(sink.as_mut(), &mut display);
    let mut summary = run.end(&plan, signals.name());
    if telling != Telling::Errors {
        taps.iter().filter_map(two_taps::exchanged).for_each(|warning| output::complain(&warning));
    }
    summary.taps = taps.map(|taps| taps.counts());
    summary.kept = sink.kept();
    summary.delivered = sink.delivered();
    summary.output_errors.extend(summary.delivered.iter().filter_map(delivering::complaint));
    summary.memory = Some(memory);
    let closed = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
    if let (Err(error), false) = (&written, closed) {
        summary.output_errors.push(format!("cannot write the result to {name}; it is incomplete: {error}"));
    }
    if let Some((kept, wrong)) = keeping.finish(flags, &plan.monitor, &config, &stop) {
        summary.packets_kept = Some(kept);
        summary.output_errors.extend(wrong);
    }
    if !closed {
        target.conclude(&mut summary);
    }
    let telling = if closed { Telling::Errors } else { telling };
    if telling != Telling::Errors && why::is_nothing(&plan, &summary) {
        let reasons = why::nothing(&plan, &summary);
        reasons.iter().for_each(|reason| output::complain(&format!("nothing found: {reason}")));
    }
    end(summary_file, telling, &summary, sink.as_ref(), terminal)
}

/// Names of the inputs.
pub fn inputs(flags: &WorkFlags) -> Vec<String> {
    let interfaces = flags.live.interfaces.iter().cloned();
    let mirrors = flags.live.listen.iter().map(|listen| format!("{listen:?}"));
    flags.read.iter().map(|path| path.display().to_string()).chain(interfaces).chain(mirrors).collect()
}

/// Number of workers. With look-back for matching flows, no separate reader thread is used: it would be far ahead of
/// the decisions on its packets.
fn workers(flags: &WorkFlags, filtered: bool) -> Workers {
    match !flags.live.is_live() && keeping::looks_back(flags, filtered) {
        true => Workers(Some(1)),
        false => flags.workers,
    }
}

/// Opens the input. Files are read by one worker per core; live capture defaults to one worker, because the machine may
/// have other work.
pub fn open(
    read: &[PathBuf],
    live: &LiveFlags,
    workers: Workers,
    wanted: &MonitorSpec,
    stop: &Stop,
) -> anyhow::Result<Input> {
    let some = workers.0.unwrap_or(1);
    if !live.listen.is_empty() {
        let source = crate::live::listen(live, stop)?;
        return Ok(if some > 1 { Input::Shared(source, some) } else { Input::Each(vec![source]) });
    }
    if !live.interfaces.is_empty() {
        let sources = if live.one_reader { 1 } else { some };
        let mut sources = crate::live::open(live, sources, wanted, stop)?;
        // If the kernel cannot distinguish flows, there is one source, and its packets are distributed here.
        return Ok(match (sources.len(), sources.pop()) {
            (1, Some(source)) if some > 1 => Input::Shared(source, some),
            (_, last) => Input::Each(sources.into_iter().chain(last).collect()),
        });
    }
    let source = crate::live::filter(capture::open_until(read, stop), live)?;
    if source.errors().len() == read.len() {
        return Err(Unreadable(source.errors().iter().map(ToString::to_string).collect()).into());
    }
    let cores = || std::thread::available_parallelism().map_or(1, Into::into);
    Ok(Input::Shared(source, workers.0.unwrap_or_else(cores)))
}

fn cores(flags: &WorkFlags) -> anyhow::Result<Vec<usize>> {
    let usable = || core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id);
    let cores = match &flags.pin {
        None => Vec::new(),
        Some(Cores(cores)) if cores.is_empty() => usable().collect(),
        Some(Cores(cores)) => cores.clone(),
    };
    if let Some(core) = cores.iter().find(|core| !usable().any(|id| id == **core)) {
        let usable: Vec<_> = usable().map(|id| id.to_string()).collect();
        return Err(wrong_flags(format!("core {core} is not available; available: {}", usable.join(", "))));
    }
    Ok(cores)
}

fn stats(flags: &WorkFlags, telling: Telling, signals: &Signals) -> Stats {
    let every = flags.stats.map(|ns| Duration::from_nanos(ns.unsigned_abs()));
    let every = every.or((telling == Telling::Everything).then_some(Duration::from_secs(1)));
    Stats::new(every, signals.stats())
}

/// Prints the final notes and the summary after the input has ended or writing has failed. On a terminal, an empty line
/// separates the summary from the result.
fn end(
    summary_file: Option<&mut SummaryFile>,
    telling: Telling,
    summary: &Summary,
    sink: &dyn Sink,
    terminal: bool,
) -> anyhow::Result<Ended> {
    let is_told = telling != Telling::Errors;
    if is_told {
        sink.notes().iter().for_each(|note| output::complain(&format!("note: {note}")));
    }
    summary.complaints().for_each(|text| output::complain(&format!("error: {text}")));
    if is_told {
        let gap = if terminal { "\n" } else { "" };
        output::complain_lines(&format!("{gap}{}", summary.text().trim_end()));
    }
    summary_file.map_or(Ok(()), |file| file.write(&summary.json()))?;
    Ok(if summary.is_complete() { Ended::Done } else { Ended::Incomplete })
}

/// Rejects outputs that are inputs, and duplicate paths.
pub fn check_paths(flags: &WorkFlags, output: Option<&Path>) -> anyhow::Result<()> {
    let dash = |path: &Path| path == Path::new("-");
    let from_stdin = flags.read.iter().filter(|p| dash(p)).count()
        + usize::from(flags.text.query_file.as_deref().is_some_and(dash));
    if from_stdin > 1 {
        return Err(wrong_flags("standard input (-) can be read once only"));
    }
    if flags.summary_json.as_deref().is_some_and(dash) {
        return Err(wrong_flags("--summary-json requires a file; /dev/stderr prints the summary here"));
    }
    if flags.write.as_deref().is_some_and(dash) && output.is_none_or(dash) {
        return Err(wrong_flags(
            "packets (-w -) and the result both go to standard output: write the result to a file with -o FILE, or discard it with -o /dev/null",
        ));
    }
    let write = flags.write.as_deref().filter(|path| !dash(path));
    let written: Vec<&Path> = [output, flags.summary_json.as_deref(), write].into_iter().flatten().collect();
    let read = flags.read.iter().chain(&flags.text.query_file).chain(&flags.text.hosts);
    let read: Vec<&Path> = read.map(AsRef::as_ref).collect();
    written.iter().try_for_each(|path| output::refuse_inputs(path, &read))?;
    let is_twice = |(i, path): (usize, &&Path)| written[..i].contains(path);
    match written.iter().enumerate().any(is_twice) {
        true => Err(wrong_flags("two of --output, --write and --summary-json name the same file")),
        false => Ok(()),
    }
}

/// With `-v`: prints the parsed query.
fn mention(plan: &Plan) {
    info!("query: {}", plan.query);
    if plan.monitor.sample == Sample::Auto {
        info!("SAMPLE auto applies to live input only: all flows of the files are read");
    }
}

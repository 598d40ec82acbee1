//! Runs the query of `query`, `record`, `report`, `check` and `compare`: from the flags to a run, and to the summary.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use capture::live::StopSignal;
use capture::seccomp::{FileAccess, NetworkAccess};
use monitor::job::JobConfig;
use plan::{Plan, SampleMode};
use runner::bus::TopicReach;
use runner::replay::ReplayRun;
use runner::{MemoryDivision, QueryRun, RunSummary};
use sinks::{Sink, WindowPace};
use tracing::info;

use crate::cli::flags::{ChecksumFlag, CoreList, WorkFlags, WorkerCount};
use crate::cli::query_text;
use crate::cli::verbosity::Verbosity;
use crate::diagnose::no_rows;
use crate::kafka;
use crate::kafka::read::KafkaSource;
use crate::network;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;
use crate::process::signals::{self, SignalHandlers};
use crate::render::hosts;
use crate::render::summary_file::SummaryFile;
use crate::run::display::TerminalDisplay;
use crate::run::live_table::LiveTable;
use crate::run::loss_notice::LossNotice;
use crate::run::packet_writer::{self, PacketFileState, PacketWriter};
use crate::run::progress::ReadProgress;
use crate::run::result_target::{ResultTarget, SinkContext};
use crate::run::stats::WorkerStats;
use crate::run::{open_outlets, privileges};
use crate::source::{packet_input, period, recording_replay, server_tap};

/// Source of the answer.
enum AnswerSource {
    /// Packets.
    Packets,
    /// A recording.
    Recording(Box<ReplayRun>),
    /// Published results on Kafka.
    Published(Box<KafkaSource>),
    /// A network, in which monitors are started.
    Network(PathBuf),
}

/// Answers the query; writes the summary file however it ends.
pub fn work<T: ResultTarget>(
    flags: &WorkFlags,
    target: &T,
    telling: Verbosity,
) -> anyhow::Result<CommandOutcome> {
    check_paths(flags, target.path())?;
    signals::survive_size_limits().context("cannot handle signals")?;
    let create = |path| SummaryFile::create(path, flags.live.file_owner());
    let mut summary_file = flags.summary_json.as_deref().map(create).transpose()?;
    let ended = answer(flags, target, telling, summary_file.as_mut());
    if let (Err(error), Some(file)) = (&ended, &mut summary_file)
        && let Err(unwritten) = file.fail(&format!("{error:#}"))
    {
        output::complain(&format!("error: {unwritten:#}"));
    }
    ended
}

fn answer<T: ResultTarget>(
    flags: &WorkFlags,
    target: &T,
    telling: Verbosity,
    summary_file: Option<&mut SummaryFile>,
) -> anyhow::Result<CommandOutcome> {
    let text = query_text::read(&flags.text)?;
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let checked = match &flags.network.network {
        None => query_text::check(&text, &mut names, &flags.read)?,
        Some(_) => query_text::check_for_network(&text, &names)?,
    };
    let budget = checked.budget;
    let capturing = flags.live.is_live();
    let filtered = checked.filter.is_some();
    let is_recording = recording_replay::asked(&flags.read)?;
    let periods = period::settle(&checked, flags)?;
    let bounds = target.period(&periods)?;
    network::plan::alone(flags)?;
    let (mut plan, from) = match &flags.bus.kafka {
        Some(brokers) => {
            let (plan, answering) = kafka::read::open(checked, flags, brokers, bounds, telling)?;
            (plan, AnswerSource::Published(Box::new(answering)))
        }
        None if is_recording => {
            let (plan, replaying) = recording_replay::open(checked, flags, bounds, telling)?;
            (plan, AnswerSource::Recording(Box::new(replaying)))
        }
        None => {
            let from = flags.network.network.clone().map_or(AnswerSource::Packets, AnswerSource::Network);
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
    if flags.checksums == ChecksumFlag::Off {
        recording_replay::leave_out_checksums(&mut plan, "--checksums off")?;
    }
    mention(&plan);
    if telling != Verbosity::Errors {
        no_rows::never(&plan).iter().for_each(|reason| output::complain(&format!("note: {reason}")));
    }

    let stop = StopSignal::default();
    let input = match &from {
        AnswerSource::Packets => Some(packet_input::open(
            &flags.read,
            &flags.live,
            workers(flags, filtered),
            &plan.monitor,
            &stop,
        )?),
        AnswerSource::Recording(_) | AnswerSource::Published(_) | AnswerSource::Network(_) => None,
    };
    let planned = match &from {
        AnswerSource::Network(path) => Some(network::plan::plan(&flags.network, path, &plan, budget)?),
        _ => None,
    };
    let mut ready = target.prepare()?;
    let packets = PacketFileState::prepare(flags)?;
    if capturing {
        privileges::give_up(&flags.live)?;
    }
    let signals = SignalHandlers::end_unwatched(&stop).context("cannot handle signals")?;
    target.start(&mut ready)?;
    if capturing {
        let files = if flags.write.is_some() { FileAccess::New } else { target.files() };
        privileges::restrict_system_calls(&flags.live, files, NetworkAccess::Closed);
    }
    signals.watch().context("cannot handle signals")?;
    if capturing && telling != Verbosity::Errors {
        let doing = match flags.live.interfaces.as_slice() {
            [] => "capturing from mirrors sent here".into(),
            interfaces => format!("capturing from {}", interfaces.join(" and ")),
        };
        output::complain(&format!("{doing}; Ctrl-C ends it"));
    }
    let keeping = PacketWriter::asked(flags, filtered, packets)?;
    let limits = flags.limits.of_run();
    let memory = MemoryDivision::divide(&limits, &plan, target.writing());
    info!("{memory}");
    let comes = planned.is_some()
        || matches!(&from, AnswerSource::Published(answering) if answering.reach != TopicReach::Past);
    let prompt = capturing || comes || flags.read.iter().any(|path| !path.is_file() && !path.is_dir());
    // Lines of statistics would be mixed with it.
    let is_watched = prompt && target.is_watched(&ready) && !plan.dataflow.pipelines.is_empty();
    let watch = match is_watched && flags.stats.is_none() && telling != Verbosity::Everything {
        true => LiveTable::begin(),
        false => LiveTable::Nobody,
    };
    let peek_bytes_max = watch.bytes_max();
    let mut config = JobConfig { peek_bytes_max, cores: cores(flags)?, ..memory.config(&limits) };
    config.stream.server_tap =
        server_tap::read(flags, !flags.read.is_empty() && !is_recording, &plan, &config, &stop)?;
    let taps = config.stream.server_tap.clone();
    config.monitor.origin = Arc::new(flags.origin());
    keeping.join(&mut plan, &mut config);
    let mut run = match (input, from) {
        (_, AnswerSource::Recording(replaying)) => QueryRun::replay(&plan, config.stream.clone(), *replaying),
        (_, AnswerSource::Published(answering)) => {
            let feed = answering.feed(&plan, &config, (flags.bus.engine, &flags.bus.flink))?;
            QueryRun::fed(&plan, config.stream.window_bytes_max, feed)
        }
        (Some(input), AnswerSource::Packets) => {
            QueryRun::start(&plan, &config, input).context("cannot start the workers")?
        }
        (_, AnswerSource::Network(_)) => {
            let planned = planned.expect("it was planned for the network");
            let program = flags.monitor_program.as_deref();
            let steered = network::run::start(&plan, &planned, &config.stream, program)?;
            if telling != Verbosity::Errors {
                output::complain(&format!("capturing from {}; Ctrl-C ends it", steered.words()));
            }
            QueryRun::fed(&plan, config.stream.window_bytes_max, Box::new(steered))
        }
        (None, AnswerSource::Packets) => unreachable!("packets were opened"),
    };
    // Live sources observe it themselves: packets that have arrived are still processed.
    run.stop = (!capturing).then(|| stop.clone());
    run.facts.inputs = inputs(flags);
    run.snaplen = if capturing { flags.live.snaplen } else { 0 };
    let (name, terminal) = target.name(&ready);
    let opened = SinkContext {
        heads: run.heads(&plan),
        tables: run.tables(&plan),
        names,
        pace: if prompt { WindowPace::AtOnce } else { WindowPace::Whole },
        row_group_bytes: memory.row_group_bytes,
    };
    let mut sink = target.open(ready, opened)?;
    let mut display = TerminalDisplay {
        progress: ReadProgress::new(flags.progress),
        stats: stats(flags, telling, &signals),
        losses: LossNotice::new(capturing),
        watch,
        prompt,
    };
    let written = run.go(sink.as_mut(), &mut display);
    let mut summary = run.end(&plan, signals.name());
    if telling != Verbosity::Errors {
        taps.iter().filter_map(server_tap::exchanged).for_each(|warning| output::complain(&warning));
    }
    summary.taps = taps.map(|taps| taps.counts());
    summary.kept = sink.kept();
    summary.delivered = sink.delivered();
    summary.output_errors.extend(summary.delivered.iter().filter_map(open_outlets::complaint));
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
    let telling = if closed { Verbosity::Errors } else { telling };
    if telling != Verbosity::Errors && no_rows::is_nothing(&plan, &summary) {
        let reasons = no_rows::nothing(&plan, &summary);
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
fn workers(flags: &WorkFlags, filtered: bool) -> WorkerCount {
    match !flags.live.is_live() && packet_writer::looks_back(flags, filtered) {
        true => WorkerCount(Some(1)),
        false => flags.workers,
    }
}

fn cores(flags: &WorkFlags) -> anyhow::Result<Vec<usize>> {
    let usable = || core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id);
    let cores = match &flags.pin {
        None => Vec::new(),
        Some(CoreList(cores)) if cores.is_empty() => usable().collect(),
        Some(CoreList(cores)) => cores.clone(),
    };
    if let Some(core) = cores.iter().find(|core| !usable().any(|id| id == **core)) {
        let usable: Vec<_> = usable().map(|id| id.to_string()).collect();
        return Err(wrong_flags(format!("core {core} is not available; available: {}", usable.join(", "))));
    }
    Ok(cores)
}

fn stats(flags: &WorkFlags, telling: Verbosity, signals: &SignalHandlers) -> WorkerStats {
    let every = flags.stats.map(|ns| Duration::from_nanos(ns.unsigned_abs()));
    let every = every.or((telling == Verbosity::Everything).then_some(Duration::from_secs(1)));
    WorkerStats::new(every, signals.stats())
}

/// Prints the final notes and the summary after the input has ended or writing has failed. On a terminal, an empty line
/// separates the summary from the result.
fn end(
    summary_file: Option<&mut SummaryFile>,
    telling: Verbosity,
    summary: &RunSummary,
    sink: &dyn Sink,
    terminal: bool,
) -> anyhow::Result<CommandOutcome> {
    let is_told = telling != Verbosity::Errors;
    if is_told {
        sink.notes().iter().for_each(|note| output::complain(&format!("note: {note}")));
    }
    summary.complaints().for_each(|text| output::complain(&format!("error: {text}")));
    if is_told {
        let gap = if terminal { "\n" } else { "" };
        output::complain_lines(&format!("{gap}{}", summary.text().trim_end()));
    }
    summary_file.map_or(Ok(()), |file| file.write(&summary.json()))?;
    Ok(if summary.is_complete() { CommandOutcome::Done } else { CommandOutcome::Incomplete })
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
    if plan.monitor.sample == SampleMode::Auto {
        info!("SAMPLE auto applies to live input only: all flows of the files are read");
    }
}

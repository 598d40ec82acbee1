//! A run before its threads start, in two phases: [`PreparedRun`] has opened the source and the files that need
//! privileges, and [`UnprivilegedRun`] has dropped them.

use std::sync::Arc;

use capture::live::StopSignal;
use capture::seccomp::{FileAccess, NetworkAccess};
use monitor::job::JobConfig;
use plan::{Plan, QueryLimit};
use planner::PlanOptions;
use runner::MemoryDivision;
use sinks::WindowPace;
use stream::SelectedFlows;
use tracing::info;

use crate::cli::flags::{CoreList, WorkFlags};
use crate::cli::query_text::ResolvedQuery;
use crate::cli::verbosity::Verbosity;
use crate::network;
use crate::process::failure::wrong_flags;
use crate::process::output;
use crate::process::signals::SignalHandlers;
use crate::render::hosts::HostNames;
use crate::run::display::TerminalDisplay;
use crate::run::live_table::LiveTable;
use crate::run::loss_notice::LossNotice;
use crate::run::packet_writer::{self, PacketFileState, PacketWriter};
use crate::run::privileges;
use crate::run::progress::ReadProgress;
use crate::run::query_source::{self, QuerySource};
use crate::run::result_target::{ResultTarget, RunRequest, SinkContext};
use crate::run::running_query::RunningQuery;
use crate::run::stats::WorkerStats;
use crate::source::{period, recording_replay, server_tap};

/// A run with its plan, an open source, and open files.
pub struct PreparedRun<'a, T: ResultTarget> {
    request: RunRequest<'a, T>,
    plan: Plan,
    source: QuerySource,
    names: HostNames,
    ready: T::Ready,
    chosen: Option<SelectedFlows>,
    packets: PacketFileState,
    stop: StopSignal,
}

/// A prepared run that has dropped its privileges and handles signals.
pub struct UnprivilegedRun<'a, T: ResultTarget> {
    prepared: PreparedRun<'a, T>,
    signals: SignalHandlers,
}

impl<'a, T: ResultTarget> PreparedRun<'a, T> {
    /// Plans the query, and opens everything that needs privileges.
    pub fn open(
        request: RunRequest<'a, T>,
        query: ResolvedQuery,
    ) -> anyhow::Result<PreparedRun<'a, T>> {
        let RunRequest {
            flags,
            target,
            telling,
        } = request;
        let ResolvedQuery { checked, names } = query;
        let text = checked.text.clone();
        let periods = period::settle(&checked, flags)?;
        let bounds = target.period(&periods)?;
        network::plan::alone(flags)?;
        let chosen = packet_writer::selection(flags, checked.filter.is_some());
        let options = PlanOptions {
            bounds,
            limit: QueryLimit {
                packets: flags.count,
                nanos: periods.live_ns,
            },
            groups_max: flags.limits.groups_max,
            sample_seed: flags.sample_seed,
            ..PlanOptions::default()
        };
        let mut options = target.options(&checked, options)?;
        options
            .columns
            .extend(chosen.iter().flat_map(SelectedFlows::columns));
        recording_replay::omit_checksums(&checked, flags, &mut options)?;
        let stop = StopSignal::default();
        let (plan, source) = QuerySource::open(checked, flags, &options, telling, &stop)?;
        let ready = target.prepare(&text)?;
        let packets = PacketFileState::prepare(flags)?;
        Ok(PreparedRun {
            request,
            plan,
            source,
            names,
            ready,
            chosen,
            packets,
            stop,
        })
    }

    /// Drops privileges; threads of the destination start before.
    pub fn drop_privileges(mut self) -> anyhow::Result<UnprivilegedRun<'a, T>> {
        let RunRequest {
            flags,
            target,
            telling,
        } = self.request;
        let files = if flags.write.is_some() {
            FileAccess::New
        } else {
            target.files()
        };
        let ready = &mut self.ready;
        let start = || target.start(ready);
        let signals =
            privileges::drop_all(&flags.live, &self.stop, files, NetworkAccess::Closed, start)?;
        if flags.live.is_live() && telling != Verbosity::Errors {
            let doing = match flags.live.interfaces.as_slice() {
                [] => "capturing from mirrors sent here".into(),
                interfaces => format!("capturing from {}", interfaces.join(" and ")),
            };
            output::complain(&format!("{doing}; Ctrl-C ends it"));
        }
        Ok(UnprivilegedRun {
            prepared: self,
            signals,
        })
    }
}

impl<'a, T: ResultTarget> UnprivilegedRun<'a, T> {
    /// Divides the memory, starts the source, and opens the sink.
    pub fn start(self) -> anyhow::Result<RunningQuery<'a, T>> {
        let UnprivilegedRun { prepared, signals } = self;
        let PreparedRun {
            request,
            plan,
            source,
            names,
            ready,
            chosen,
            packets,
            stop,
        } = prepared;
        let RunRequest {
            flags,
            target,
            telling,
        } = request;
        let capturing = source.is_capture(flags);
        let packets = PacketWriter::begin(flags, chosen, packets)?;
        let limits = flags.limits.of_run();
        let memory = MemoryDivision::divide(&limits, &plan, target.writing());
        info!("{memory}");
        let prompt = source.is_live(flags)
            || flags
                .read
                .iter()
                .any(|path| !path.is_file() && !path.is_dir());
        // Lines of statistics would be mixed with the progress display.
        let is_watched = prompt && target.is_watched(&ready) && !plan.dataflow.pipelines.is_empty();
        let watch = if is_watched && flags.stats.is_none() && telling != Verbosity::Everything {
            LiveTable::begin()
        } else {
            LiveTable::Nobody
        };
        let peek_bytes_max = watch.bytes_max();
        let mut config = JobConfig {
            peek_bytes_max,
            cores: cores(flags)?,
            marks_begin: capturing,
            ..memory.config(&limits)
        };
        config.stream.server_tap =
            server_tap::read(flags, source.is_capture_file(flags), &plan, &config, &stop)?;
        config.monitor.origin = Arc::new(flags.origin());
        packets.join(&mut config);
        let regulator = query_source::regulator(&plan, &source, flags, &mut config)?;
        let mut run = source.start(&plan, &config, flags, telling)?;
        run.regulator = regulator;
        // Live sources observe the stop signal themselves: packets that have arrived are still processed.
        run.stop = (!capturing).then(|| stop.clone());
        run.facts.inputs = flags.inputs();
        run.snaplen = if capturing { flags.live.snaplen } else { 0 };
        let name = target.name(&ready);
        let opened = SinkContext {
            heads: run.heads(&plan),
            tables: run.tables(&plan),
            names,
            pace: if prompt {
                WindowPace::AtOnce
            } else {
                WindowPace::Whole
            },
            row_group_bytes: memory.row_group_bytes,
        };
        let sink = target.open(ready, opened)?;
        let display = TerminalDisplay {
            progress: ReadProgress::new(flags.progress),
            stats: WorkerStats::of_run(flags, telling, &signals),
            losses: LossNotice::new(capturing),
            watch,
            prompt,
        };
        Ok(RunningQuery {
            request,
            plan,
            config,
            memory,
            run,
            sink,
            name,
            display,
            packets,
            signals,
            stop,
        })
    }
}

fn cores(flags: &WorkFlags) -> anyhow::Result<Vec<usize>> {
    let usable = || {
        core_affinity::get_core_ids()
            .unwrap_or_default()
            .into_iter()
            .map(|core| core.id)
    };
    let cores = match &flags.pin {
        None => Vec::new(),
        Some(CoreList(cores)) if cores.is_empty() => usable().collect(),
        Some(CoreList(cores)) => cores.clone(),
    };
    if let Some(core) = cores.iter().find(|core| !usable().any(|id| id == **core)) {
        let usable: Vec<_> = usable().map(|id| id.to_string()).collect();
        return Err(wrong_flags(format!(
            "core {core} is not available; available: {}",
            usable.join(", ")
        )));
    }
    Ok(cores)
}

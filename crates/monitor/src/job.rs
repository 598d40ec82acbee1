//! A running query: its threads, and the merge of their results.
//!
//! Every worker has a thread and either its own source (each live capture queue), or shares one with the others
//! (`shared_input.rs`). The owner of the job takes results from [`MonitorJob::next`]. A
//! worker that panics ends the job with an error.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use capture::{PacketSource, SourceError};
use collect::{Collector, IgnoreCoverage, LaneId, TakeRows};
use plan::{Dataflow, MonitorSpec, Plan, SampleMode};
use stream::{
    Engine, EngineOutput, EngineSet, LimitedStretch, LossCount, LossStretch, OutputConsumer,
};
use wire::Timestamp;

use crate::allowance::PacketAllowance;
use crate::capture_start::{CaptureStart, wall_clock};
use crate::chunk_reader::ChunkReader;
use crate::exports::ExportAccounting;
use crate::flush::{CompletedFlush, FlushProgress, FlushRequests};
use crate::gate::{Gate, SharedPacketRetention};
use crate::in_flight::InFlightBytes;
use crate::limiter::Limiter;
use crate::packet_chunk::PacketSorter;
use crate::sampling_control::{RateCeiling, RateHistory};
use crate::shared_input::SharedInput;
use crate::source_log::PacketFacts;
use crate::threads::{JobThread, WorkerMessage};
use crate::tuple_outputs::TupleOutputs;
use crate::vitals::{VitalsReading, WorkerVitals};
use crate::worker::{MonitorWorker, WorkerFinalReport};
use crate::{PacketAccounting, pipeline};

/// Packet sources of a job.
pub enum JobInput {
    /// One source shared by this number of workers.
    Shared(Box<dyn PacketSource>, usize),
    /// One live source per worker; event time follows the source's clock.
    Each(Vec<Box<dyn PacketSource>>),
}

impl JobInput {
    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        match self {
            JobInput::Shared(_, workers) => (*workers).max(1),
            JobInput::Each(sources) => sources.len(),
        }
    }
}

/// Limits and CPU cores of a job.
#[derive(Clone, Debug)]
pub struct JobConfig {
    /// Limits of all workers together.
    pub monitor: pipeline::MonitorConfig,
    /// Limits of each worker and of the collector; `join_*` and `window_bytes_max` are totals.
    pub stream: stream::EngineConfig,
    /// Maximum bytes of rows and partial windows between workers and the consumer of results.
    pub results_bytes_max: usize,
    /// Storage of admitted packets.
    pub keep: Option<SharedPacketRetention>,
    /// Copies open windows at the end of every epoch for [`MonitorJob::open_rows`], if those of a worker take at most this
    /// many bytes.
    pub peek_bytes_max: Option<usize>,
    /// Output of windows.
    pub windows: WindowEmission,
    /// This monitor's share of a packet LIMIT over several monitors.
    pub allowance: Option<PacketAllowance>,
    /// Requests to pass on open windows, with [`WindowEmission::HandedOn`].
    pub flush: FlushRequests,
    /// For live input: marks the windows that began before it, which are partial, as `approximate`.
    pub marks_begin: bool,
    /// Highest rate of SAMPLE auto that the consumers of results sustain.
    pub ceiling: RateCeiling,
    /// CPU cores for the workers, round robin; empty: no pinning.
    pub cores: Vec<usize>,
}

/// Destination of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowEmission {
    /// Windows are closed in this process; [`MonitorJob::next`] returns their rows.
    Closed,
    /// Partial windows are sent to another process; see [`MonitorJob::next_parts`].
    HandedOn {
        /// Interval at which open windows are sent, in event time.
        open_every_ns: i64,
    },
}

impl Default for JobConfig {
    fn default() -> JobConfig {
        JobConfig {
            monitor: pipeline::MonitorConfig::default(),
            stream: stream::EngineConfig::default(),
            results_bytes_max: 256 << 20,
            keep: None,
            peek_bytes_max: None,
            windows: WindowEmission::Closed,
            allowance: None,
            flush: FlushRequests::default(),
            marks_begin: false,
            ceiling: RateCeiling::default(),
            cores: Vec::new(),
        }
    }
}

/// A running query.
pub struct MonitorJob {
    messages: Receiver<WorkerMessage>,
    threads: Vec<JoinHandle<()>>,
    collector: Collector,
    vitals: Arc<[WorkerVitals]>,
    stop: Arc<AtomicBool>,
    flushed: FlushProgress,
    names: Vec<(IpAddr, String)>,
    packets: PacketFacts,
    ended: MonitorOutcome,
}

/// Summary of a finished job.
#[derive(Default)]
pub struct MonitorOutcome {
    /// Packet counts of all workers.
    pub accounting: PacketAccounting,
    /// Counters of the sources.
    pub source: capture::SourceCounters,
    /// Counters of the stream operators.
    pub stream: stream::EngineCounters,
    /// Windows of grouped results that contain no tuple.
    pub silences: Vec<stream::EmptyWindows>,
    /// Errors of the sources.
    pub errors: Vec<SourceError>,
    /// Timestamps of the first and the last packet.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Whether the job ended because of LIMIT.
    pub limit_reached: bool,
    /// Changes of the sampling rate under SAMPLE auto.
    pub sampling: RateHistory,
    /// Epochs whose rows were emitted in parts because they exceeded the memory limit.
    pub epochs_cut: u64,
    /// Panic messages of workers.
    pub panics: Vec<String>,
}

/// Maximum queued messages per worker, within the byte limit. If the consumer is slow, files are read more
/// slowly; live packets are dropped before the capture and counted.
const REPORTS_WAITING: usize = 4;

/// Result of [`MonitorJob::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorProgress {
    /// More results may follow.
    Going,
    /// No more results; [`MonitorJob::end`] returns the summary.
    Done,
}

impl MonitorJob {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread cannot be created.
    pub fn start(plan: &Plan, config: &JobConfig, input: JobInput) -> std::io::Result<MonitorJob> {
        MonitorJob::start_several(
            &plan.monitor,
            std::slice::from_ref(&plan.dataflow),
            config,
            input,
        )
    }

    /// Like [`MonitorJob::start`], for several dataflows over the same packets. The parsers are those of all their
    /// inputs, in that order; results are numbered consecutively.
    ///
    /// # Errors
    /// As [`MonitorJob::start`].
    pub fn start_several(
        monitor: &MonitorSpec,
        dataflows: &[Dataflow],
        config: &JobConfig,
        input: JobInput,
    ) -> std::io::Result<MonitorJob> {
        let workers = input.workers();
        let sample = match monitor.sample {
            SampleMode::Fraction(p) => p,
            SampleMode::All | SampleMode::Auto | SampleMode::Exported => 1.0,
        };
        let sample_seed = monitor.sample_seed;
        let window_bytes_max = config.stream.window_bytes_max / (workers + 1);
        let stream = stream::EngineConfig {
            sample,
            sample_seed,
            window_bytes_max,
            ..config.stream.clone()
        };
        let (tell, messages) = mpsc::sync_channel(REPORTS_WAITING * workers);
        // A quarter each for results that workers build, that are in flight, that wait for other workers, and that are
        // sorted.
        let results_quarter = config.results_bytes_max / 4;
        let in_flight = InFlightBytes::new(results_quarter);
        let mut job = MonitorJob {
            messages,
            threads: Vec::new(),
            collector: match config.windows {
                WindowEmission::Closed => {
                    Collector::new(EngineSet::new(dataflows, &stream), workers, results_quarter)
                }
                WindowEmission::HandedOn { .. } => Collector::relay(
                    EngineSet::worker(dataflows, &stream),
                    workers,
                    results_quarter,
                ),
            },
            vitals: WorkerVitals::of_all(workers),
            stop: Arc::default(),
            flushed: FlushProgress::of_workers(workers),
            names: Vec::new(),
            packets: PacketFacts::default(),
            ended: MonitorOutcome::default(),
        };
        let limiter = Limiter::of(monitor).within(config.allowance.clone());
        let limits = config.monitor.share(workers);
        let fragment_bytes = match &input {
            JobInput::Shared(..) => config.monitor.fragment_bytes_max,
            JobInput::Each(_) => limits.fragment_bytes_max,
        };
        let gate =
            || Gate::new(monitor, limiter.clone(), fragment_bytes).keeping(config.keep.clone());
        let packets_only = TupleOutputs::new(monitor, &config.monitor.origin).reads_packets_only()
            && config.monitor.taps.is_none();
        // Workers join tuples, each with an equal share of the limit.
        let join_rows_max = stream.join_rows_max.div_ceil(workers);
        let join_bytes_max = stream.join_bytes_max.div_ceil(workers);
        let stream = stream::EngineConfig {
            join_rows_max,
            join_bytes_max,
            ..stream
        };
        let stop = job.stop.clone();
        // A result without windows covers the run only.
        let mut pipelines = dataflows
            .iter()
            .flat_map(|dataflow| &dataflow.pipelines)
            .peekable();
        let has_windows =
            pipelines.peek().is_some() && pipelines.all(|pipeline| pipeline.window.is_some());
        let start = (config.marks_begin && has_windows).then(CaptureStart::now);
        let worker = |gate| {
            MonitorWorker::new(
                gate,
                monitor,
                dataflows,
                limits.clone(),
                &stream,
                results_quarter / workers,
            )
            .heeding(stop.clone())
            .peeking(config.peek_bytes_max)
            .flushing(config.flush.clone())
            .telling_open(match config.windows {
                WindowEmission::Closed => None,
                WindowEmission::HandedOn { open_every_ns } => Some(open_every_ns),
            })
        };
        let thread = |worker: usize| JobThread {
            worker,
            tell: tell.clone(),
            in_flight: in_flight.clone(),
            stop: job.stop.clone(),
            vitals: job.vitals.clone(),
            ceiling: config.ceiling.clone(),
            has_goal: monitor.goal.is_set(),
            start,
            core: config
                .cores
                .get(worker % config.cores.len().max(1))
                .copied(),
        };
        let mut threads = Vec::new();
        match input {
            JobInput::Shared(source, 0 | 1) => {
                let worker = worker(gate());
                threads.push(thread(0).spawn(move |thread| thread.run(worker, source, false))?);
            }
            JobInput::Shared(source, _) => {
                let gate = gate();
                // The reader applies the conditions if they depend on the order of packets.
                let conditions = || {
                    if gate.needs_order() {
                        Gate::open()
                    } else {
                        gate.conditions()
                    }
                };
                let seed = limits.flow.seed;
                // FROM and TO need the client, which is known by flow.
                let by_chunk = packets_only && gate.conditions().is_open();
                let shares: Vec<_> = (0..workers)
                    .map(|_| {
                        let conditions = (!by_chunk).then(&conditions);
                        let sorter = PacketSorter::new(conditions, workers, seed);
                        (worker(Gate::open()), sorter)
                    })
                    .collect();
                let reader = ChunkReader::new(source, gate, &limits.flow, start);
                let input = Arc::new(SharedInput::new(reader, workers));
                for (number, (worker, sorter)) in shares.into_iter().enumerate() {
                    let input = input.clone();
                    threads.push(
                        thread(number)
                            .spawn(move |thread| thread.run_shared(worker, sorter, &input))?,
                    );
                }
            }
            JobInput::Each(sources) => {
                limiter.start(wall_clock());
                for (number, source) in sources.into_iter().enumerate() {
                    let worker = worker(gate());
                    threads.push(
                        thread(number).spawn(move |thread| thread.run(worker, source, true))?,
                    );
                }
            }
        }
        job.threads = threads;
        Ok(job)
    }

    /// Waits up to `patience` for a message from a worker and passes complete rows to `out`.
    pub fn next(&mut self, patience: Duration, out: &mut dyn OutputConsumer) -> MonitorProgress {
        self.next_parts(patience, &mut IgnoreCoverage(out))
    }

    /// Like [`MonitorJob::next`], with [`WindowEmission::HandedOn`].
    pub fn next_parts(&mut self, patience: Duration, out: &mut dyn TakeRows) -> MonitorProgress {
        let lane = |worker: usize| LaneId(worker as u64);
        match self.messages.recv_timeout(patience) {
            Ok(WorkerMessage::Part(worker, part, _weight)) => {
                self.collector.take_part(lane(worker), part, out)
            }
            Ok(WorkerMessage::Report(worker, report, _weight)) => {
                self.collector.take(lane(worker), *report, out);
            }
            Ok(WorkerMessage::Flushed(worker, flush)) => self.flushed.add(worker, flush),
            Ok(WorkerMessage::Names(mut names)) => self.names.append(&mut names),
            Ok(WorkerMessage::Packets(facts)) => self.packets.add(facts),
            Ok(WorkerMessage::Rate(change)) => self.ended.sampling.add(change),
            // The worker waits for it.
            Ok(WorkerMessage::Barrier(answer)) => drop(answer.try_send(())),
            Ok(WorkerMessage::Closing(closing)) => self.ended.add(*closing),
            Ok(WorkerMessage::Panic(worker, text)) => {
                self.stop();
                self.ended.panics.push(text);
                self.collector.lost(lane(worker), out);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.collector.end(out);
                return MonitorProgress::Done;
            }
        }
        MonitorProgress::Going
    }

    /// Stops the threads as if the input had ended.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Vital signs of each worker.
    #[must_use]
    pub fn readings(&self) -> Vec<VitalsReading> {
        self.vitals.iter().map(WorkerVitals::read).collect()
    }

    /// Counts of export messages of all workers, about once a second of event time.
    #[must_use]
    pub fn exports(&self) -> ExportAccounting {
        let mut all = ExportAccounting::default();
        self.vitals
            .iter()
            .for_each(|vitals| all.add(&vitals.exports()));
        all
    }

    /// Level of the slice of flows that all workers apply; the minimum if they differ.
    #[must_use]
    pub fn slice_level(&self) -> u8 {
        self.vitals
            .iter()
            .map(|vitals| vitals.read().slice_level)
            .min()
            .unwrap_or(0)
    }

    /// Passes the rows of open windows to `out`, if [`JobConfig::peek_bytes_max`] is set. Returns false without
    /// rows if they are unknown or exceed the limit.
    pub fn open_rows(&mut self, out: &mut dyn OutputConsumer) -> bool {
        self.collector.open_rows(&mut IgnoreCoverage(out))
    }

    /// Host names found in the captures so far.
    #[must_use]
    pub fn names(&self) -> &[(IpAddr, String)] {
        &self.names
    }

    /// Facts about the packets of the rows so far.
    #[must_use]
    pub fn packets(&self) -> &PacketFacts {
        &self.packets
    }

    /// Captured bytes, and bytes missing from the capture.
    #[must_use]
    pub fn capture_loss(&self) -> LossCount {
        self.collector.capture_loss()
    }

    /// Packets reported as lost before the capture so far.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        self.collector.lost_packets()
    }

    /// Losses since the last call, with their time; only with [`WindowEmission::HandedOn`].
    pub fn take_lost(&mut self) -> Option<LossStretch> {
        self.collector.take_lost()
    }

    /// Time span of all limits that took effect since the last call; only with [`WindowEmission::HandedOn`].
    pub fn take_limited(&mut self) -> Option<LimitedStretch> {
        self.collector.take_limited()
    }

    /// Time span of all limits that took effect so far.
    #[must_use]
    pub fn limited(&self) -> Option<LimitedStretch> {
        self.collector.limited()
    }

    /// The last request of [`JobConfig::flush`] whose windows were passed on, once.
    pub fn take_flushed(&mut self) -> Option<CompletedFlush> {
        self.flushed.take(self.collector.released_epoch())
    }

    /// Watermark: later rows are from later packets.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        self.collector.watermark()
    }

    /// The engine that merges the results of the first dataflow; holds their schemas.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.collector.engine()
    }

    /// Stops and joins the threads; returns the summary.
    #[must_use]
    pub fn end(mut self) -> MonitorOutcome {
        self.stop();
        while self.next(Duration::from_secs(1), &mut RowDiscard) == MonitorProgress::Going {}
        for thread in self.threads.drain(..) {
            // The panic message has already been reported.
            let _ = thread.join();
        }
        let stream = self.collector.counters();
        let epochs_cut = self.collector.epochs_cut();
        let silences = self.collector.silences();
        MonitorOutcome {
            stream,
            silences,
            epochs_cut,
            ..self.ended
        }
    }
}

/// Discards rows.
struct RowDiscard;

impl OutputConsumer for RowDiscard {
    fn take(&mut self, _: EngineOutput) {}
}

impl MonitorOutcome {
    fn add(&mut self, closing: WorkerFinalReport) {
        self.accounting.add(&closing.accounting);
        if let Some(counters) = &closing.source {
            self.source.add(counters);
        }
        self.errors.extend(closing.errors);
        if let Some((first, last)) = closing.seen {
            let seen = self.seen.unwrap_or((first, last));
            self.seen = Some((seen.0.min(first), seen.1.max(last)));
        }
        self.limit_reached |= closing.limit_reached;
    }
}

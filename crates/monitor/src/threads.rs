//! Thread functions of a job: a worker with a source of its own, and one that shares a source. Each ends with its input, at
//! LIMIT, or on request; a panic is reported.

use std::any::Any;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, JoinHandle};

use capture::{PacketBlock, PacketSource};
use collect::{ReportPart, WorkerReport};
use plan::slice::share;
use stream::{LimitedStretch, LossStretch};
use wire::Timestamp;

use crate::BatchProgress;
use crate::capture_start::{CaptureStart, wall_clock};
use crate::chunk_reader::ChunkReader;
use crate::epochs::{EPOCH_NS, EpochSplitter};
use crate::flush::WorkerFlush;
use crate::in_flight::{InFlightBytes, InFlightWeight};
use crate::loss_meter::{LossMeter, lost};
use crate::packet_chunk::{ChunkEnd, EpochPackets, PacketChunk, PacketSorter};
use crate::sampling_control::{Governor, LoadObservation, RateCeiling, RateChange};
use crate::shared_input::{SharedInput, WorkerPresence, WorkerTask};
use crate::source_log::{PacketFacts, SourceLog, SourceNews};
use crate::vitals::{VitalsReading, WorkerVitals};
use crate::worker::{MonitorWorker, WorkerFinalReport};

/// Messages from threads to the owner of the job. The channel is bounded in messages and bytes: workers wait for a slow
/// consumer.
pub(crate) enum WorkerMessage {
    /// Results of an epoch in progress.
    Part(usize, ReportPart, InFlightWeight),
    Report(usize, Box<WorkerReport>, InFlightWeight),
    /// The report of an epoch contains all open windows, as requested.
    Flushed(usize, WorkerFlush),
    Names(Vec<(IpAddr, String)>),
    Packets(PacketFacts),
    Rate(RateChange),
    /// A request that is answered after all earlier messages of the worker are processed.
    Barrier(SyncSender<()>),
    Closing(Box<WorkerFinalReport>),
    Panic(usize, String),
}

/// One thread of a job.
pub(crate) struct JobThread {
    /// Number of the worker.
    pub worker: usize,
    pub tell: SyncSender<WorkerMessage>,
    pub in_flight: InFlightBytes,
    pub stop: Arc<AtomicBool>,
    pub vitals: Arc<[WorkerVitals]>,
    pub ceiling: RateCeiling,
    /// Whether the results determine the sampling rate.
    pub has_goal: bool,
    /// Start of the capture, whose windows are marked as partial; `None`: they are not.
    pub start: Option<CaptureStart>,
    pub core: Option<usize>,
}

impl JobThread {
    /// Starts a thread that runs `work`.
    pub fn spawn(
        self,
        work: impl FnOnce(&JobThread) + Send + 'static,
    ) -> std::io::Result<JoinHandle<()>> {
        let name = format!("worker {}", self.worker);
        Builder::new().name(name.clone()).spawn(move || {
            if let Some(id) = self.core {
                core_affinity::set_for_current(core_affinity::CoreId { id });
            }
            // Unfinished state is dropped with the closure; no other thread can see it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&self))) {
                self.tell(WorkerMessage::Panic(
                    self.worker,
                    format!("{name} failed: {}", words(panic.as_ref())),
                ));
            }
        })
    }

    /// Reads a source and processes its packets.
    pub fn run(&self, worker: MonitorWorker, source: Box<dyn PacketSource>, is_live: bool) {
        // The rate is not adapted to the load of files: they are read as fast as they are processed.
        let adapts = worker.monitor().adapts() && (is_live || self.has_goal);
        let governor = adapts.then(Governor::default);
        let numbered = if is_live {
            EpochNumbering::ByClock
        } else {
            EpochNumbering::InTurn
        };
        let log = SourceLog::default();
        let losses = LossMeter::default();
        let mut alone = StandaloneWorker {
            worker,
            source,
            governor,
            awaits_rate: adapts && !is_live,
            numbered,
            epoch: 0,
            log,
            losses,
        };
        let mut block = PacketBlock::default();
        let mut epochs = EpochSplitter::default();
        let mut start = self.start;
        while !self.is_stopped() && alone.source.next_block(&mut block) {
            alone
                .log
                .look(&block, alone.source.as_ref(), &mut |news| self.news(news));
            if let Some(partial) = begin(&mut start, &block, alone.source.as_ref()) {
                alone.worker.mark_partial(partial);
            }
            if self.run_block(&block, &mut epochs, &mut alone) == BatchProgress::LimitReached {
                alone.log.limit_reached = true;
                break;
            }
        }
        let StandaloneWorker {
            mut worker,
            source,
            mut log,
            mut losses,
            ..
        } = alone;
        log.tell_names(source.as_ref(), &mut |news| self.news(news));
        let lost = losses.look(source.as_ref(), &epochs);
        self.report(WorkerReport {
            lost,
            ..worker.finish(None, &mut |part| self.part(part))
        });
        let monitor = worker.monitor();
        self.show(&worker, Some(source.as_ref()));
        self.tell(WorkerMessage::Closing(log.closing(
            monitor.accounting(),
            source.as_ref(),
            monitor.clock(),
        )));
    }

    /// Processes a block, epoch by epoch.
    fn run_block(
        &self,
        block: &PacketBlock,
        epochs: &mut EpochSplitter,
        alone: &mut StandaloneWorker,
    ) -> BatchProgress {
        let mut from = 0;
        while from < block.len() {
            let end = epochs.ends_within(&block.records()[from..]);
            let to = end.map_or(block.len(), |n| from + n);
            if alone
                .worker
                .on_packets(block.range(from..to), &mut |part| self.part(part))
                == BatchProgress::LimitReached
            {
                let all = alone.source.counters().packets;
                let left = all.saturating_sub(alone.worker.monitor().accounting().received);
                let from = block.len().saturating_sub(left as usize);
                alone
                    .log
                    .unwanted
                    .extend_from_slice(&block.records()[from..]);
                return BatchProgress::LimitReached;
            }
            if end.is_some() {
                self.end_epoch(alone, epochs);
            }
            from = to;
        }
        let Some(clock) = block.clock() else {
            return BatchProgress::Continue;
        };
        if epochs.ends_at(clock) {
            self.end_epoch(alone, epochs);
        }
        let is_over = block.is_empty() && alone.worker.monitor().limiter().is_over(epochs.clock());
        if is_over {
            BatchProgress::LimitReached
        } else {
            BatchProgress::Continue
        }
    }

    fn end_epoch(&self, alone: &mut StandaloneWorker, epochs: &EpochSplitter) {
        let clock = epochs.clock();
        alone.epoch = match alone.numbered {
            EpochNumbering::InTurn => alone.epoch + 1,
            EpochNumbering::ByClock => epoch_of(clock).max(alone.epoch),
        };
        let lost = alone.losses.look(alone.source.as_ref(), epochs);
        let before = alone.worker.flushed();
        let report = alone
            .worker
            .end_epoch(alone.epoch, clock, &mut |part| self.part(part));
        self.report(WorkerReport { lost, ..report });
        self.flushed(&alone.worker, before, (alone.epoch, clock));
        if alone.awaits_rate {
            let (answer, answered) = sync_channel(1);
            self.tell(WorkerMessage::Barrier(answer));
            // An error: the job is ending.
            let _ = answered.recv();
        }
        if let Some(governor) = &mut alone.governor {
            self.adapt(&mut alone.worker, alone.source.as_ref(), governor);
        }
        self.show(&alone.worker, Some(alone.source.as_ref()));
    }

    /// Reads a shared source in turn with other workers, and processes this worker's packets.
    pub fn run_shared(
        &self,
        mut worker: MonitorWorker,
        mut sorter: PacketSorter,
        input: &SharedInput,
    ) {
        let _presence = WorkerPresence(input);
        let mut number = 0;
        let mut end = ChunkEnd::default();
        loop {
            match input.task(number) {
                WorkerTask::Read(reader, number, chunk) => {
                    let mut chunk = chunk.write().unwrap_or_else(PoisonError::into_inner);
                    input.read(self.read_chunk(reader, &mut chunk));
                    sorter.sort(&mut chunk, self.worker);
                    drop(chunk);
                    input.sorted(number);
                }
                WorkerTask::Process(chunk) => {
                    let chunk = chunk.read().unwrap_or_else(PoisonError::into_inner);
                    self.process(&mut worker, &chunk);
                    end = chunk.end;
                    drop(chunk);
                    input.processed(number);
                    number += 1;
                }
                WorkerTask::End => break,
            }
        }
        let report = worker.finish(Some(end.clock), &mut |part| self.part(part));
        self.report(self.with(report, end.lost, end.limited));
        self.show(&worker, None);
        let mut accounting = worker.monitor().accounting();
        accounting.add(sorter.accounting());
        self.tell(WorkerMessage::Closing(Box::new(WorkerFinalReport {
            accounting,
            ..WorkerFinalReport::default()
        })));
    }

    /// Fills a chunk. Returns the reader unless the input has ended.
    fn read_chunk(
        &self,
        mut reader: Box<ChunkReader>,
        chunk: &mut PacketChunk,
    ) -> Option<Box<ChunkReader>> {
        let tell = &mut |news| self.news(news);
        chunk.clear();
        let progress = if self.is_stopped() {
            BatchProgress::LimitReached
        } else {
            reader.read(chunk, tell)
        };
        self.vitals[0].write_position(reader.source().progress());
        if progress == BatchProgress::Continue {
            return Some(reader);
        }
        reader.finish(chunk);
        self.tell(WorkerMessage::Closing(reader.closing(tell)));
        None
    }

    /// Processes this worker's packets of a chunk, epoch by epoch.
    fn process(&self, worker: &mut MonitorWorker, chunk: &PacketChunk) {
        for (packets, end) in chunk.epochs(self.worker) {
            let early = &mut |part| self.part(part);
            match packets {
                EpochPackets::Undecoded(ranges) => {
                    for range in ranges {
                        worker.on_packets(chunk.range(range), early);
                    }
                }
                EpochPackets::Prepared(packets) => {
                    worker.on_prepared(chunk.select_prepared(packets), early);
                }
            }
            let Some(end) = end else { continue };
            let before = worker.flushed();
            let report = worker.end_epoch(end.epoch, end.clock, &mut |part| self.part(part));
            self.report(self.with(report, end.lost, end.limited));
            self.flushed(worker, before, (end.epoch, end.clock));
            self.show(worker, None);
        }
    }

    /// Adds the losses and limits of a shared source to the report of the first worker.
    fn with(
        &self,
        report: WorkerReport,
        lost: Option<LossStretch>,
        limited: Option<LimitedStretch>,
    ) -> WorkerReport {
        if self.worker > 0 {
            return report;
        }
        WorkerReport {
            lost,
            limited: LimitedStretch::union(report.limited, limited),
            ..report
        }
    }

    /// SAMPLE auto: adapts the sampling rate to the load.
    fn adapt(
        &self,
        worker: &mut MonitorWorker,
        source: &dyn PacketSource,
        governor: &mut Governor,
    ) {
        let lost = source.counters().lost_before_us.unwrap_or(0);
        let now = worker.monitor().clock();
        let ceiling = self.ceiling.get();
        let look = LoadObservation {
            now,
            backlog: source.backlog(),
            lost,
            ceiling,
        };
        if let Some(mut change) = governor.look(look, self.worker) {
            worker.set_sample_rate(change.rate);
            change.copied = share(worker.monitor().slice_level());
            self.tell(WorkerMessage::Rate(change));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self, report: WorkerReport) {
        let weight = self.in_flight.enter(report.part.bytes);
        self.tell(WorkerMessage::Report(self.worker, Box::new(report), weight));
    }

    /// Reports that a request was carried out after `before`, at the end of an epoch.
    fn flushed(&self, of: &MonitorWorker, before: u64, (epoch, clock): (u64, Timestamp)) {
        let number = of.flushed();
        if number > before {
            let flush = WorkerFlush {
                number,
                epoch,
                clock,
            };
            self.tell(WorkerMessage::Flushed(self.worker, flush));
        }
    }

    fn part(&self, part: ReportPart) {
        let weight = self.in_flight.enter(part.bytes);
        self.tell(WorkerMessage::Part(self.worker, part, weight));
    }

    fn news(&self, news: SourceNews) {
        self.tell(match news {
            SourceNews::Names(names) => WorkerMessage::Names(names),
            SourceNews::Packets(facts) => WorkerMessage::Packets(facts),
        });
    }

    /// Sends a message; ignored if the receiver was dropped.
    fn tell(&self, message: WorkerMessage) {
        let _ = self.tell.send(message);
    }

    /// Publishes the worker's vital signs.
    fn show(&self, worker: &MonitorWorker, source: Option<&dyn PacketSource>) {
        let number = self.worker;
        let accounting = worker.monitor().accounting();
        let counters = source.map(PacketSource::counters).unwrap_or_default();
        self.vitals[number].write(&VitalsReading {
            packets: accounting.received,
            bytes: counters.original_bytes,
            tuples: accounting.tuples,
            flows: worker.monitor().flows() as u64,
            gaps: accounting.flows.gaps,
            lost: lost(&counters),
            backlog: source.map_or(0.0, |source| source.backlog().into()),
            sample_rate: worker.monitor().sample_rate(),
            sampled_out: accounting.sampled_out,
            cut_off: accounting.cut_off,
            strays: accounting.strays,
            slice_level: worker.monitor().slice_level(),
            ..VitalsReading::default()
        });
        if !accounting.exports.is_empty() {
            self.vitals[number].write_exports(&accounting.exports);
        }
        if let Some(source) = source {
            self.vitals[number].write_position(source.progress());
        }
    }
}

/// Returns the event time in which a capture began when it becomes known, and clears `start`.
fn begin(
    start: &mut Option<CaptureStart>,
    block: &PacketBlock,
    source: &dyn PacketSource,
) -> Option<LimitedStretch> {
    let partial = (*start)?.stretch(block, &source.counters(), wall_clock())?;
    *start = None;
    Some(partial)
}

/// A worker that reads its source itself.
struct StandaloneWorker {
    worker: MonitorWorker,
    source: Box<dyn PacketSource>,
    governor: Option<Governor>,
    /// Whether an epoch ends only after its results have determined the rate of the next: the rows of a file do not
    /// depend on the speed of threads.
    awaits_rate: bool,
    numbered: EpochNumbering,
    epoch: u64,
    log: SourceLog,
    losses: LossMeter,
}

/// Numbering of epochs: consecutive for a single worker; by the clock for live workers, so that an idle
/// worker does not delay the others.
#[derive(Clone, Copy)]
enum EpochNumbering {
    InTurn,
    ByClock,
}

fn epoch_of(clock: Timestamp) -> u64 {
    u64::try_from(clock.0.div_euclid(EPOCH_NS)).unwrap_or(0)
}

/// Message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

//! Thread functions of a job: read and process, process distributed packets, or read and distribute. Each ends with its
//! input, at LIMIT, or on request; a panic is reported.

use std::any::Any;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};

use capture::{Block, Record, Source};
use collect::{Part, Report};
use plan::slice::share;
use stream::{Limited, Stretch};
use wire::{LinkType, Timestamp};

use crate::dispatch::{Dispatch, Share, WorkerGone};
use crate::epochs::{EPOCH_NS, Epochs};
use crate::in_flight::{InFlight, Weight};
use crate::job::PacketFacts;
use crate::losses::{LossMeter, lost};
use crate::pressure::{Ceiling, Change, Governor, Look};
use crate::ring::Receiver;
use crate::vitals::{Reading, Vitals};
use crate::worker::{Closing, Worker};
use crate::{Accounting, Progress};

/// Messages from threads to the owner of the job. The channel is bounded in messages and bytes: workers wait for a slow
/// consumer.
pub(crate) enum Message {
    /// Results of an epoch in progress.
    Part(usize, Part, Weight),
    Report(usize, Box<Report>, Weight),
    Names(Vec<(IpAddr, String)>),
    Packets(PacketFacts),
    Rate(Change),
    Closing(Box<Closing>),
    Panic(Option<usize>, String),
}

/// One thread of a job.
pub(crate) struct Thread {
    /// Number of the worker; `None` for the reader that distributes packets.
    pub worker: Option<usize>,
    pub tell: SyncSender<Message>,
    pub in_flight: InFlight,
    pub stop: Arc<AtomicBool>,
    pub vitals: Arc<[Vitals]>,
    pub ceiling: Ceiling,
    pub core: Option<usize>,
}

impl Thread {
    /// Starts a thread that runs `work`.
    pub fn spawn(self, work: impl FnOnce(&Thread) + Send + 'static) -> std::io::Result<JoinHandle<()>> {
        let name = self.worker.map_or("reader".to_owned(), |n| format!("worker {n}"));
        Builder::new().name(name.clone()).spawn(move || {
            if let Some(id) = self.core {
                core_affinity::set_for_current(core_affinity::CoreId { id });
            }
            // Unfinished state is dropped with the closure; no other thread can see it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&self))) {
                self.tell(Message::Panic(self.worker, format!("{name} failed: {}", words(panic.as_ref()))));
            }
        })
    }

    /// Reads a source and processes its packets.
    pub fn run(&self, worker: Worker, source: Box<dyn Source>, is_live: bool) {
        // The rate is not adapted for files: they are read as fast as they are processed.
        let governor = (is_live && worker.monitor().adapts()).then(Governor::default);
        let numbered = if is_live { Numbered::ByClock } else { Numbered::InTurn };
        let (log, losses) = (Logbook::default(), LossMeter::default());
        let mut alone = Alone { worker, source, governor, numbered, epoch: 0, log, losses };
        let (mut block, mut epochs) = (Block::default(), Epochs::default());
        while !self.is_stopped() && alone.source.next_block(&mut block) {
            self.facts(alone.log.saw(&block));
            if self.run_block(&block, &mut epochs, &mut alone) == Progress::LimitReached {
                alone.log.limit_reached = true;
                break;
            }
        }
        let Alone { mut worker, source, mut log, mut losses, .. } = alone;
        self.names(log.new_names(source.as_ref()));
        let lost = losses.look(source.as_ref(), &epochs);
        self.report(Report { lost, ..worker.finish(None, &mut |part| self.part(part)) });
        let monitor = worker.monitor();
        self.show(&worker, Some(source.as_ref()));
        self.tell(Message::Closing(log.closing(monitor.accounting(), source.as_ref(), monitor.clock())));
    }

    /// Processes a block, epoch by epoch.
    fn run_block(&self, block: &Block, epochs: &mut Epochs, alone: &mut Alone) -> Progress {
        let mut from = 0;
        while from < block.len() {
            let end = epochs.ends_within(&block.records()[from..]);
            let to = end.map_or(block.len(), |n| from + n);
            if alone.worker.on_packets(block.range(from..to), &mut |part| self.part(part))
                == Progress::LimitReached
            {
                let all = alone.source.counters().packets;
                let left = all.saturating_sub(alone.worker.monitor().accounting().received);
                let from = block.len().saturating_sub(left as usize);
                alone.log.unwanted.extend_from_slice(&block.records()[from..]);
                return Progress::LimitReached;
            }
            if end.is_some() {
                self.end_epoch(alone, epochs);
            }
            from = to;
        }
        let Some(clock) = block.clock() else { return Progress::Continue };
        if epochs.ends_at(clock) {
            self.end_epoch(alone, epochs);
        }
        let is_over = block.is_empty() && alone.worker.monitor().limiter().is_over(epochs.clock());
        if is_over { Progress::LimitReached } else { Progress::Continue }
    }

    fn end_epoch(&self, alone: &mut Alone, epochs: &Epochs) {
        let clock = epochs.clock();
        alone.epoch = match alone.numbered {
            Numbered::InTurn => alone.epoch + 1,
            Numbered::ByClock => epoch_of(clock).max(alone.epoch),
        };
        let lost = alone.losses.look(alone.source.as_ref(), epochs);
        let report = alone.worker.end_epoch(alone.epoch, clock, &mut |part| self.part(part));
        // Rows emitted now may contain these names.
        self.names(alone.log.new_names(alone.source.as_ref()));
        self.report(Report { lost, ..report });
        if let Some(governor) = &mut alone.governor {
            self.adapt(&mut alone.worker, alone.source.as_ref(), governor);
        }
        self.show(&alone.worker, Some(alone.source.as_ref()));
    }

    /// Processes packets distributed by a reader.
    pub fn run_behind(&self, mut worker: Worker, mut ring: Receiver<Share>) {
        // Worker 0 reports for the reader.
        let reports = self.worker == Some(0);
        let (mut clock, mut last) = (None, (None, None));
        while let Some(share) = ring.recv() {
            for (packets, end) in share.epochs() {
                worker.on_packets(packets, &mut |part| self.part(part));
                if let Some(end) = end {
                    let report = worker.end_epoch(end.epoch, end.clock, &mut |part| self.part(part));
                    self.report(if reports { with(report, end.lost, end.limited) } else { report });
                    self.show(&worker, None);
                }
            }
            (clock, last) = (Some(share.clock), (share.lost, share.limited));
        }
        let report = worker.finish(clock, &mut |part| self.part(part));
        self.report(if reports { with(report, last.0, last.1) } else { report });
        self.show(&worker, None);
        let accounting = worker.monitor().accounting();
        self.tell(Message::Closing(Box::new(Closing { accounting, ..Closing::default() })));
    }

    /// Reads a source and distributes its packets.
    pub fn deal(&self, mut source: Box<dyn Source>, mut dispatch: Dispatch) {
        let mut log = Logbook::default();
        let mut block = dispatch.empty_block();
        while !self.is_stopped() && source.next_block(&mut block) {
            self.facts(log.saw(&block));
            self.names(log.new_names(source.as_ref()));
            self.vitals[0].write_position(source.progress());
            match dispatch.deal(block, source.as_ref()) {
                Ok(Progress::Continue) => {}
                Ok(Progress::LimitReached) => {
                    log.limit_reached = true;
                    break;
                }
                // The worker has reported its own panic.
                Err(WorkerGone) => break,
            }
            block = dispatch.empty_block();
        }
        // An ended worker has reported its own panic.
        let _ = dispatch.finish(source.as_ref());
        self.names(log.new_names(source.as_ref()));
        log.unwanted = dispatch.unwanted();
        let (accounting, clock) = (dispatch.accounting(), dispatch.clock());
        self.tell(Message::Closing(log.closing(accounting, source.as_ref(), clock)));
    }

    /// SAMPLE auto: adapts the sampling rate to the load.
    fn adapt(&self, worker: &mut Worker, source: &dyn Source, governor: &mut Governor) {
        let lost = source.counters().lost_before_us.unwrap_or(0);
        let (now, ceiling) = (worker.monitor().clock(), self.ceiling.get());
        let look = Look { now, backlog: source.backlog(), lost, ceiling };
        if let Some(mut change) = governor.look(look, self.worker.unwrap_or(0)) {
            worker.set_sample_rate(change.rate);
            change.copied = share(worker.monitor().slice_level());
            self.tell(Message::Rate(change));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self, report: Report) {
        if let Some(worker) = self.worker {
            let weight = self.in_flight.enter(report.part.bytes);
            self.tell(Message::Report(worker, Box::new(report), weight));
        }
    }

    fn part(&self, part: Part) {
        if let Some(worker) = self.worker {
            let weight = self.in_flight.enter(part.bytes);
            self.tell(Message::Part(worker, part, weight));
        }
    }

    fn names(&self, names: Vec<(IpAddr, String)>) {
        if !names.is_empty() {
            self.tell(Message::Names(names));
        }
    }

    fn facts(&self, facts: Option<PacketFacts>) {
        facts.into_iter().for_each(|facts| self.tell(Message::Packets(facts)));
    }

    /// Sends a message; ignored if the receiver was dropped.
    fn tell(&self, message: Message) {
        let _ = self.tell.send(message);
    }

    /// Publishes the worker's vital signs.
    fn show(&self, worker: &Worker, source: Option<&dyn Source>) {
        let Some(number) = self.worker else { return };
        let accounting = worker.monitor().accounting();
        let counters = source.map(Source::counters).unwrap_or_default();
        self.vitals[number].write(&Reading {
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
            ..Reading::default()
        });
        if let Some(source) = source {
            self.vitals[number].write_position(source.progress());
        }
    }
}

/// Adds the reader's losses and limits to a worker's report.
fn with(report: Report, lost: Option<Stretch>, limited: Option<Limited>) -> Report {
    Report { lost, limited: Limited::union(report.limited, limited), ..report }
}

/// A worker that reads its source itself.
struct Alone {
    worker: Worker,
    source: Box<dyn Source>,
    governor: Option<Governor>,
    numbered: Numbered,
    epoch: u64,
    log: Logbook,
    losses: LossMeter,
}

/// Numbering of epochs: consecutive for a single worker; by the clock for live workers, so that an idle
/// worker does not delay the others.
#[derive(Clone, Copy)]
enum Numbered {
    InTurn,
    ByClock,
}

/// Facts about a source already reported by its reader.
#[derive(Default)]
struct Logbook {
    first_ts: Option<Timestamp>,
    link: Option<LinkType>,
    names_told: usize,
    limit_reached: bool,
    /// Packets that were read but lie beyond LIMIT.
    unwanted: Vec<Record>,
}

impl Logbook {
    /// Returns the new facts in a block. Only its first link type is checked.
    fn saw(&mut self, block: &Block) -> Option<PacketFacts> {
        let first = block.records().first()?;
        self.first_ts = self.first_ts.or(Some(first.ts));
        let is_known = self.link.replace(first.link_type) == Some(first.link_type);
        (!is_known).then(|| PacketFacts { first_ts: self.first_ts, links: vec![first.link_type] })
    }

    fn new_names(&mut self, source: &dyn Source) -> Vec<(IpAddr, String)> {
        let names = &source.names()[self.names_told..];
        self.names_told += names.len();
        names.to_vec()
    }

    fn closing(self, accounting: Accounting, source: &dyn Source, clock: Timestamp) -> Box<Closing> {
        let mut counters = source.counters();
        counters.take_back(&self.unwanted);
        Box::new(Closing {
            accounting,
            source: Some(counters),
            errors: source.errors().to_vec(),
            seen: self.first_ts.map(|first| (first, clock)),
            limit_reached: self.limit_reached,
        })
    }
}

fn epoch_of(clock: Timestamp) -> u64 {
    u64::try_from(clock.0.div_euclid(EPOCH_NS)).unwrap_or(0)
}

/// Message of a panic.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

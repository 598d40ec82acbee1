//! What the threads of a job do: read and work, work on what is dealt, or read and deal. Each ends when its input ends,
//! when LIMIT is reached, or when it is asked to; a panic is told and ends there.

use std::any::Any;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread::{Builder, JoinHandle};

use capture::{Block, Source};
use wire::{LinkType, Timestamp};

use crate::job::PacketFacts;
use crate::pressure::{Change, Governor, Look};
use crate::ring::Receiver;
use crate::spread::{Share, Spread, WorkerGone};
use crate::vitals::{Reading, Vitals};
use crate::worker::{Closing, EPOCH_NS, Epochs, Report, Worker};
use crate::{Accounting, Progress};

/// What threads tell whoever started them. The channel is bounded: a worker waits while
/// results are taken more slowly than they are made.
pub(crate) enum Message {
    Report(usize, Report),
    Names(Vec<(IpAddr, String)>),
    Packets(PacketFacts),
    Rate(Change),
    Closing(Box<Closing>),
    Panic(Option<usize>, String),
}

/// One thread of a job.
pub(crate) struct Crew {
    /// Its worker; none for a reader that deals.
    pub worker: Option<usize>,
    pub tell: SyncSender<Message>,
    pub stop: Arc<AtomicBool>,
    pub vitals: Arc<[Vitals]>,
    pub core: Option<usize>,
}

impl Crew {
    /// Starts a thread that does `work`.
    pub fn spawn(self, work: impl FnOnce(&Crew) + Send + 'static) -> std::io::Result<JoinHandle<()>> {
        let name = self.worker.map_or("reader".to_owned(), |n| format!("worker {n}"));
        Builder::new().name(name.clone()).spawn(move || {
            if let Some(id) = self.core {
                core_affinity::set_for_current(core_affinity::CoreId { id });
            }
            // What is left half done is dropped with the closure: nobody else can see it.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(&self))) {
                self.tell(Message::Panic(self.worker, format!("{name} failed: {}", words(panic.as_ref()))));
            }
        })
    }

    /// Reads a source and works on what it gives.
    pub fn run(&self, mut worker: Worker, mut source: Box<dyn Source>, is_live: bool) {
        let (mut block, mut log) = (Block::default(), Logbook::default());
        let (mut epochs, mut epoch) = (Epochs::default(), 0);
        // Files wait for us.
        let mut governor = (is_live && worker.monitor().adapts()).then(Governor::default);
        while !self.is_stopped() && source.next_block(&mut block) {
            let progress = worker.on_block(block.packets(), block.clock());
            self.facts(log.saw(&block));
            let clock = worker.monitor().clock();
            if epochs.is_over(clock) {
                epoch = if is_live { epoch_of(clock).max(epoch) } else { epoch + 1 };
                self.report(worker.report(epoch));
                self.names(log.new_names(source.as_ref()));
                if let Some(governor) = &mut governor {
                    self.adapt(&mut worker, source.as_ref(), governor);
                }
                self.show(&worker, Some(source.as_ref()));
            }
            let is_over = block.is_empty() && worker.monitor().limiter().is_over(clock);
            if progress == Progress::LimitReached || is_over {
                log.limit_reached = true;
                break;
            }
        }
        self.names(log.new_names(source.as_ref()));
        self.report(worker.finish());
        let monitor = worker.monitor();
        self.show(&worker, Some(source.as_ref()));
        self.tell(Message::Closing(log.closing(monitor.accounting(), source.as_ref(), monitor.clock())));
    }

    /// Works on what a reader deals.
    pub fn run_behind(&self, mut worker: Worker, mut ring: Receiver<Share>) {
        while let Some(share) = ring.recv() {
            worker.on_block(share.packets(), Some(share.clock));
            let epoch = share.epoch;
            // The reader may fill the block again while the report is made.
            drop(share);
            if let Some(epoch) = epoch {
                self.report(worker.report(epoch));
                self.show(&worker, None);
            }
        }
        self.report(worker.finish());
        self.show(&worker, None);
        let accounting = worker.monitor().accounting();
        self.tell(Message::Closing(Box::new(Closing { accounting, ..Closing::default() })));
    }

    /// Reads a source and deals its packets.
    pub fn deal(&self, mut source: Box<dyn Source>, mut spread: Spread) {
        let mut log = Logbook::default();
        let mut block = spread.empty_block();
        while !self.is_stopped() && source.next_block(&mut block) {
            self.facts(log.saw(&block));
            self.vitals[0].write_position(source.progress());
            match spread.deal(block) {
                Ok(Progress::Continue) => {}
                Ok(Progress::LimitReached) => {
                    log.limit_reached = true;
                    break;
                }
                // It has told why itself.
                Err(WorkerGone) => break,
            }
            block = spread.empty_block();
        }
        if !log.limit_reached {
            // Where a worker is gone it has told why itself.
            let _ = spread.finish();
        }
        self.names(log.new_names(source.as_ref()));
        let (accounting, clock) = (spread.accounting(), spread.clock());
        self.tell(Message::Closing(log.closing(accounting, source.as_ref(), clock)));
    }

    /// SAMPLE auto: has the sampling rate follow the pressure.
    fn adapt(&self, worker: &mut Worker, source: &dyn Source, governor: &mut Governor) {
        let lost = source.counters().lost_before_us.unwrap_or(0);
        let look = Look { now: worker.monitor().clock(), backlog: source.backlog(), lost };
        if let Some(change) = governor.look(look, self.worker.unwrap_or(0)) {
            worker.set_sample_rate(change.rate);
            self.tell(Message::Rate(change));
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self, report: Report) {
        if let Some(worker) = self.worker {
            self.tell(Message::Report(worker, report));
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

    /// When nobody listens any more, nobody wants to know.
    fn tell(&self, message: Message) {
        let _ = self.tell.send(message);
    }

    /// Shows how the worker is.
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
            lost: counters.lost_before_us.unwrap_or(0) + counters.nic_drops.unwrap_or(0),
            backlog: source.map_or(0.0, |source| source.backlog().into()),
            sample_rate: worker.monitor().sample_rate(),
            ..Reading::default()
        });
        if let Some(source) = source {
            self.vitals[number].write_position(source.progress());
        }
    }
}

/// What a thread that reads a source remembers of it.
#[derive(Default)]
struct Logbook {
    first_ts: Option<Timestamp>,
    link: Option<LinkType>,
    names_told: usize,
    limit_reached: bool,
}

impl Logbook {
    /// What a block says of the packets that was not known before. Links are looked at once a block.
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
        Box::new(Closing {
            accounting,
            source: Some(source.counters()),
            errors: source.errors().to_vec(),
            seen: self.first_ts.map(|first| (first, clock)),
            limit_reached: self.limit_reached,
        })
    }
}

/// Epochs of live workers go by the clock, so that one that has little to do does not hold back the others.
fn epoch_of(clock: Timestamp) -> u64 {
    u64::try_from(clock.0.div_euclid(EPOCH_NS)).unwrap_or(0)
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words")
}

//! A running query: its threads, and the merge of their results.
//!
//! Every worker has a thread and either its own source (each live capture queue) or a ring through which one reader
//! distributes the packets of a shared source (`dispatch.rs`). The owner of the job takes results from [`Job::next`]. A
//! worker that panics ends the job with an error.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use capture::{Source, SourceError};
use collect::{Collector, LaneId, TakeRows, Whatever};
use plan::{Dataflow, MonitorSpec, Plan, Sample};
use stream::{Engine, Engines, Limited, Loss, Output, Stretch, TakeOutput};
use wire::{LinkType, Timestamp};

use crate::allowance::Allowance;
use crate::dispatch::Dispatch;
use crate::gate::{Gate, Keep};
use crate::in_flight::InFlight;
use crate::limiter::Limiter;
use crate::outputs::Outputs;
use crate::pressure::{Ceiling, History};
use crate::threads::{Message, Thread};
use crate::vitals::{Reading, Vitals};
use crate::worker::{Closing, Worker};
use crate::{Accounting, pipeline};

/// Packet sources of a job.
pub enum Input {
    /// One source shared by this number of workers.
    Shared(Box<dyn Source>, usize),
    /// One live source per worker; event time follows the source's clock.
    Each(Vec<Box<dyn Source>>),
}

impl Input {
    /// Number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        match self {
            Input::Shared(_, workers) => (*workers).max(1),
            Input::Each(sources) => sources.len(),
        }
    }
}

/// Limits and CPU cores of a job.
#[derive(Clone, Debug)]
pub struct Config {
    /// Limits of all workers together.
    pub monitor: pipeline::Config,
    /// Limits of each worker and of the collector; `join_*` and `window_bytes_max` are totals.
    pub stream: stream::Config,
    /// Maximum bytes of rows and partial windows between workers and the consumer of results.
    pub results_bytes_max: usize,
    /// Storage of admitted packets.
    pub keep: Option<Keep>,
    /// Copies open windows at the end of every epoch for [`Job::open_rows`], if those of a worker take at most this
    /// many bytes.
    pub peek_bytes_max: Option<usize>,
    /// Output of windows.
    pub windows: Windows,
    /// This monitor's share of a packet LIMIT over several monitors.
    pub allowance: Option<Allowance>,
    /// Highest rate of SAMPLE auto that the consumers of results sustain.
    pub ceiling: Ceiling,
    /// CPU cores for the workers, round robin; empty: no pinning.
    pub cores: Vec<usize>,
}

/// Destination of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// Windows are closed in this process; [`Job::next`] returns their rows.
    Closed,
    /// Partial windows are sent to another process; see [`Job::next_parts`].
    HandedOn {
        /// Interval at which open windows are sent, in event time.
        open_every_ns: i64,
    },
}

impl Default for Config {
    fn default() -> Config {
        Config {
            monitor: pipeline::Config::default(),
            stream: stream::Config::default(),
            results_bytes_max: 256 << 20,
            keep: None,
            peek_bytes_max: None,
            windows: Windows::Closed,
            allowance: None,
            ceiling: Ceiling::default(),
            cores: Vec::new(),
        }
    }
}

/// A running query.
pub struct Job {
    messages: Receiver<Message>,
    threads: Vec<JoinHandle<()>>,
    collector: Collector,
    vitals: Arc<[Vitals]>,
    stop: Arc<AtomicBool>,
    names: Vec<(IpAddr, String)>,
    packets: PacketFacts,
    ended: Ended,
}

/// Facts about the packets read so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    /// Timestamp of the first packet.
    pub first_ts: Option<Timestamp>,
    /// Link types, without duplicates.
    pub links: Vec<LinkType>,
}

/// Summary of a finished job.
#[derive(Default)]
pub struct Ended {
    /// Packet counts of all workers.
    pub accounting: Accounting,
    /// Counters of the sources.
    pub source: capture::Counters,
    /// Counters of the stream operators.
    pub stream: stream::Counters,
    /// Windows of grouped results that contain no tuple.
    pub silences: Vec<stream::Silence>,
    /// Errors of the sources.
    pub errors: Vec<SourceError>,
    /// Timestamps of the first and the last packet.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Whether the job ended because of LIMIT.
    pub limit_reached: bool,
    /// Changes of the sampling rate under SAMPLE auto.
    pub sampling: History,
    /// Epochs whose rows were emitted in parts because they exceeded the memory limit.
    pub epochs_cut: u64,
    /// Panic messages of workers.
    pub panics: Vec<String>,
}

/// Maximum queued messages per worker, within the byte limit. If the consumer is slow, files are read more
/// slowly; live packets are dropped before the capture and counted.
const REPORTS_WAITING: usize = 4;

/// Result of [`Job::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// More results may follow.
    Going,
    /// No more results; [`Job::end`] returns the summary.
    Done,
}

impl Job {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread cannot be created.
    pub fn start(plan: &Plan, config: &Config, input: Input) -> std::io::Result<Job> {
        Job::start_several(&plan.monitor, std::slice::from_ref(&plan.dataflow), config, input)
    }

    /// Like [`Job::start`], for several dataflows over the same packets. The parsers are those of all their
    /// inputs, in that order; results are numbered consecutively.
    ///
    /// # Errors
    /// As [`Job::start`].
    pub fn start_several(
        monitor: &MonitorSpec,
        dataflows: &[Dataflow],
        config: &Config,
        input: Input,
    ) -> std::io::Result<Job> {
        let workers = input.workers();
        let sample = match monitor.sample {
            Sample::Fraction(p) => p,
            Sample::All | Sample::Auto => 1.0,
        };
        let sample_seed = monitor.sample_seed;
        let window_bytes_max = config.stream.window_bytes_max / (workers + 1);
        let stream = stream::Config { sample, sample_seed, window_bytes_max, ..config.stream.clone() };
        let (tell, messages) = mpsc::sync_channel(REPORTS_WAITING * workers);
        // One quarter each: built by workers, in flight, waiting for other workers' rows of the epoch, being
        // sorted.
        let results_quarter = config.results_bytes_max / 4;
        let in_flight = InFlight::new(results_quarter);
        let mut job = Job {
            messages,
            threads: Vec::new(),
            collector: match config.windows {
                Windows::Closed => Collector::new(Engines::new(dataflows, &stream), workers, results_quarter),
                Windows::HandedOn { .. } => {
                    Collector::relay(Engines::worker(dataflows, &stream), workers, results_quarter)
                }
            },
            vitals: Vitals::of_all(workers),
            stop: Arc::default(),
            names: Vec::new(),
            packets: PacketFacts::default(),
            ended: Ended::default(),
        };
        let limiter = Limiter::of(monitor).within(config.allowance.clone());
        let limits = config.monitor.share(workers);
        let fragment_bytes = match &input {
            Input::Shared(..) => config.monitor.fragment_bytes_max,
            Input::Each(_) => limits.fragment_bytes_max,
        };
        let gate = || Gate::new(monitor, limiter.clone(), fragment_bytes).keeping(config.keep.clone());
        let packets_only = Outputs::new(monitor, &config.monitor.origin).reads_packets_only()
            && config.monitor.taps.is_none();
        // Workers join tuples, each with an equal share of the limit.
        let join_rows_max = stream.join_rows_max.div_ceil(workers);
        let join_bytes_max = stream.join_bytes_max.div_ceil(workers);
        let stream = stream::Config { join_rows_max, join_bytes_max, ..stream };
        let stop = job.stop.clone();
        let worker = |gate| {
            Worker::new(
                gate,
                (monitor, dataflows),
                (limits.clone(), stream.clone()),
                results_quarter / workers,
            )
            .heeding(stop.clone())
            .peeking(config.peek_bytes_max)
            .telling_open(match config.windows {
                Windows::Closed => None,
                Windows::HandedOn { open_every_ns } => Some(open_every_ns),
            })
        };
        let thread = |worker: Option<usize>| Thread {
            worker,
            tell: tell.clone(),
            in_flight: in_flight.clone(),
            stop: job.stop.clone(),
            vitals: job.vitals.clone(),
            ceiling: config.ceiling.clone(),
            core: worker.and_then(|n| config.cores.get(n % config.cores.len().max(1)).copied()),
        };
        let mut threads = Vec::new();
        match input {
            Input::Shared(source, 0 | 1) => {
                let worker = worker(gate());
                threads.push(thread(Some(0)).spawn(move |thread| thread.run(worker, source, false))?);
            }
            Input::Shared(source, _) => {
                let (dispatch, rings) = Dispatch::new(gate(), workers, packets_only, &limits.flow);
                for (number, ring) in rings.into_iter().enumerate() {
                    let worker = worker(Gate::open());
                    threads.push(thread(Some(number)).spawn(move |thread| thread.run_behind(worker, ring))?);
                }
                threads.push(thread(None).spawn(move |thread| thread.deal(source, dispatch))?);
            }
            Input::Each(sources) => {
                limiter.start(wall_clock());
                for (number, source) in sources.into_iter().enumerate() {
                    let worker = worker(gate());
                    threads.push(thread(Some(number)).spawn(move |thread| thread.run(worker, source, true))?);
                }
            }
        }
        job.threads = threads;
        Ok(job)
    }

    /// Waits up to `patience` for a message from a worker and passes complete rows to `out`.
    pub fn next(&mut self, patience: Duration, out: &mut dyn TakeOutput) -> Step {
        self.next_parts(patience, &mut Whatever(out))
    }

    /// Like [`Job::next`], with [`Windows::HandedOn`].
    pub fn next_parts(&mut self, patience: Duration, out: &mut dyn TakeRows) -> Step {
        let lane = |worker: usize| LaneId(worker as u64);
        match self.messages.recv_timeout(patience) {
            Ok(Message::Part(worker, part, _weight)) => self.collector.take_part(lane(worker), part, out),
            Ok(Message::Report(worker, report, _weight)) => {
                self.collector.take(lane(worker), *report, out);
            }
            Ok(Message::Names(mut names)) => self.names.append(&mut names),
            Ok(Message::Packets(facts)) => self.packets.add(facts),
            Ok(Message::Rate(change)) => self.ended.sampling.add(change),
            Ok(Message::Closing(closing)) => self.ended.add(*closing),
            Ok(Message::Panic(worker, text)) => {
                self.stop();
                self.ended.panics.push(text);
                if let Some(worker) = worker {
                    self.collector.lost(lane(worker), out);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                self.collector.end(out);
                return Step::Done;
            }
        }
        Step::Going
    }

    /// Stops the threads as if the input had ended.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Vital signs of each worker.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        self.vitals.iter().map(Vitals::read).collect()
    }

    /// Level of the slice of flows that all workers apply; the minimum if they differ.
    #[must_use]
    pub fn slice_level(&self) -> u8 {
        self.vitals.iter().map(|vitals| vitals.read().slice_level).min().unwrap_or(0)
    }

    /// Passes the rows of open windows to `out`, if [`Config::peek_bytes_max`] is set. Returns false without
    /// rows if they are unknown or exceed the limit.
    pub fn open_rows(&mut self, out: &mut dyn TakeOutput) -> bool {
        self.collector.open_rows(&mut Whatever(out))
    }

    /// Host names found in the captures so far.
    #[must_use]
    pub fn names(&self) -> &[(IpAddr, String)] {
        &self.names
    }

    /// Facts about the packets behind the rows so far.
    #[must_use]
    pub fn packets(&self) -> &PacketFacts {
        &self.packets
    }

    /// Captured bytes, and bytes missing from the capture.
    #[must_use]
    pub fn capture_loss(&self) -> Loss {
        self.collector.capture_loss()
    }

    /// Packets reported as lost before the capture so far.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        self.collector.lost_packets()
    }

    /// Losses since the last call, with their time; only with [`Windows::HandedOn`].
    pub fn take_lost(&mut self) -> Option<Stretch> {
        self.collector.take_lost()
    }

    /// Time span of all limits that took effect since the last call; only with [`Windows::HandedOn`].
    pub fn take_limited(&mut self) -> Option<Limited> {
        self.collector.take_limited()
    }

    /// Time span of all limits that took effect so far.
    #[must_use]
    pub fn limited(&self) -> Option<Limited> {
        self.collector.limited()
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
    pub fn end(mut self) -> Ended {
        self.stop();
        while self.next(Duration::from_secs(1), &mut Nobody) == Step::Going {}
        for thread in self.threads.drain(..) {
            // The panic message has already been reported.
            let _ = thread.join();
        }
        let (stream, epochs_cut) = (self.collector.counters(), self.collector.epochs_cut());
        let silences = self.collector.silences();
        Ended { stream, silences, epochs_cut, ..self.ended }
    }
}

/// Discards rows.
struct Nobody;

impl TakeOutput for Nobody {
    fn take(&mut self, _: Output) {}
}

impl PacketFacts {
    fn add(&mut self, other: PacketFacts) {
        self.first_ts = self.first_ts.into_iter().chain(other.first_ts).min();
        for link in other.links {
            if !self.links.contains(&link) {
                self.links.push(link);
            }
        }
    }
}

impl Ended {
    fn add(&mut self, closing: Closing) {
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

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

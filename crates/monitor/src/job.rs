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

/// Where the packets come from.
pub enum Input {
    /// One source shared by this number of workers.
    Shared(Box<dyn Source>, usize),
    /// Live: a source for each worker, which keeps the time by its own clock.
    Each(Vec<Box<dyn Source>>),
}

impl Input {
    /// How many workers there will be.
    #[must_use]
    pub fn workers(&self) -> usize {
        match self {
            Input::Shared(_, workers) => (*workers).max(1),
            Input::Each(sources) => sources.len(),
        }
    }
}

/// Limits, and which cores to use.
#[derive(Clone, Debug)]
pub struct Config {
    /// Of all workers together.
    pub monitor: pipeline::Config,
    /// Of each worker, and of the place where they meet; `join_*` and `window_bytes_max` of all together.
    pub stream: stream::Config,
    /// Maximum bytes of rows and partial windows between workers and the consumer of results.
    pub results_bytes_max: usize,
    /// Where the packets that enter are kept.
    pub keep: Option<Keep>,
    /// Copies open windows at the end of every epoch for [`Job::open_rows`], if those of a worker take at most this
    /// many bytes.
    pub peek_bytes_max: Option<usize>,
    /// Output of windows.
    pub windows: Windows,
    /// This process's part of a limit of packets of several.
    pub allowance: Option<Allowance>,
    /// The highest rate of SAMPLE auto that those bear who take what is found.
    pub ceiling: Ceiling,
    /// Cores for the workers, in turn; none: wherever the system puts them.
    pub cores: Vec<usize>,
}

/// Output of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Windows {
    /// They are closed here: [`Job::next`] gives rows of them.
    Closed,
    /// They go to another process, by [`Job::next_parts`].
    HandedOn {
        /// How often that happens with those that are still open, in event time.
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

/// See the module's text.
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

/// What is known of the packets by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketFacts {
    /// The first one's time.
    pub first_ts: Option<Timestamp>,
    /// What their first bytes are, each kind once.
    pub links: Vec<LinkType>,
}

/// How it went.
#[derive(Default)]
pub struct Ended {
    /// Where every packet went, all workers together.
    pub accounting: Accounting,
    /// What the sources delivered.
    pub source: capture::Counters,
    /// Counters of the stream operators.
    pub stream: stream::Counters,
    /// The windows without a tuple of results with groups.
    pub silences: Vec<stream::Silence>,
    /// What went wrong with the sources.
    pub errors: Vec<SourceError>,
    /// Time of the first packet and of the last.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Whether LIMIT ended it.
    pub limit_reached: bool,
    /// How the sampling rates of SAMPLE auto have changed.
    pub sampling: History,
    /// Epochs whose rows came before their end, as there was no room for all of them.
    pub epochs_cut: u64,
    /// What workers said when they panicked.
    pub panics: Vec<String>,
}

/// Maximum messages of a worker that wait for the consumer of results, within the byte limit. With a slow consumer,
/// files wait, and live input is dropped before the capture and counted, so memory is bounded.
const REPORTS_WAITING: usize = 4;

/// Whether there will be more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Ask again.
    Going,
    /// No more results; [`Job::end`] returns the summary.
    Done,
}

impl Job {
    /// Starts the threads.
    ///
    /// # Errors
    /// When the system gives no more threads.
    pub fn start(plan: &Plan, config: &Config, input: Input) -> std::io::Result<Job> {
        Job::start_several(&plan.monitor, std::slice::from_ref(&plan.dataflow), config, input)
    }

    /// The same of several dataflows over the same packets. The parsers are those of all their inputs, in that order; results are
    /// numbered through.
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
        // Being made, on their way, waiting for other workers' rows of the same epoch, and being put in order.
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
        // Tuples are joined in the workers, each of which has its share of the room.
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

    /// Waits, but not longer than `patience`, for what the workers have to say. Rows that are complete go to `out`.
    pub fn next(&mut self, patience: Duration, out: &mut dyn TakeOutput) -> Step {
        self.next_parts(patience, &mut Whatever(out))
    }

    /// The same, with windows that are handed on.
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

    /// Asks the threads to end as if the input had ended here.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// How the workers are, each.
    #[must_use]
    pub fn readings(&self) -> Vec<Reading> {
        self.vitals.iter().map(Vitals::read).collect()
    }

    /// Level of the slice of flows that all workers apply; the lowest if they differ.
    #[must_use]
    pub fn slice_level(&self) -> u8 {
        self.vitals.iter().map(|vitals| vitals.read().slice_level).min().unwrap_or(0)
    }

    /// What windows that are still open hold so far, if [`Config::peek_bytes_max`] asks for it. False, and nothing, where that is
    /// not known, or is too much.
    pub fn open_rows(&mut self, out: &mut dyn TakeOutput) -> bool {
        self.collector.open_rows(&mut Whatever(out))
    }

    /// Host names that the captures hold, found so far.
    #[must_use]
    pub fn names(&self) -> &[(IpAddr, String)] {
        &self.names
    }

    /// What is known of the packets that the rows so far come from.
    #[must_use]
    pub fn packets(&self) -> &PacketFacts {
        &self.packets
    }

    /// Bytes that these packets have, and seem to lack.
    #[must_use]
    pub fn capture_loss(&self) -> Loss {
        self.collector.capture_loss()
    }

    /// Packets reported as lost before the capture so far.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        self.collector.lost_packets()
    }

    /// What was lost before us, and when, since this was asked last; where windows are handed on.
    pub fn take_lost(&mut self) -> Option<Stretch> {
        self.collector.take_lost()
    }

    /// The time of all limits that took effect since the last call; where windows are handed on.
    pub fn take_limited(&mut self) -> Option<Limited> {
        self.collector.take_limited()
    }

    /// The time of all limits that took effect so far.
    #[must_use]
    pub fn limited(&self) -> Option<Limited> {
        self.collector.limited()
    }

    /// How far event time has come: rows that follow are of later packets.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        self.collector.watermark()
    }

    /// The engine in which the results of the first dataflow meet: it knows their schemas.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.collector.engine()
    }

    /// Ends the threads that still work, and tells how it went.
    #[must_use]
    pub fn end(mut self) -> Ended {
        self.stop();
        while self.next(Duration::from_secs(1), &mut Nobody) == Step::Going {}
        for thread in self.threads.drain(..) {
            // The panic message has been reported; the result of the join is not needed.
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

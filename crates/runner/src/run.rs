//! A running query: starts the job, passes its rows to the sink, calls the observer, and creates the summary.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capture::live::StopSignal;
use monitor::job::JobConfig;
use monitor::vitals::VitalsReading;
use monitor::{JobInput, MonitorJob, MonitorOutcome, MonitorProgress};
use plan::{Dataflow, MonitorSpec, Plan, SampleMode};
use recording::{CaptureFacts, CapturedLink, FileMetadata, TableKind};
use sinks::{EmptyReason, ResultHead, RunVitals, Sink, distinct_names};
use stream::{Engine, EngineOutput, OutputConsumer, TupleProjection};
use tuple::{Batch, FieldId, Schema};
use wire::LinkType;

use crate::feed::TupleFeed;
use crate::rate_regulator::RateRegulator;
use crate::replay::{self, ReplayRun};
use crate::summary::RunSummary;

/// Maximum interval between flushes while rows are written.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// Interval at which the sink receives the state of the run.
const VITALS_EVERY: Duration = Duration::from_millis(100);
/// Interval of the observer without rows.
const PATIENCE: Duration = Duration::from_millis(50);

/// A running query.
pub struct QueryRun {
    work: RunInput,
    /// Displayed columns of tuples, if they are the result.
    shown: Option<TupleProjection>,
    started: Instant,
    rows: u64,
    flushed: Instant,
    vitals_told: Instant,
    names_told: usize,
    /// Facts about the packets, and those last passed to the sink.
    pub facts: CaptureFacts,
    told: CaptureFacts,
    /// Maximum captured bytes per packet, live; otherwise 0.
    pub snaplen: u32,
    /// Ends reading before the end of the input, for sources that do not observe it themselves.
    pub stop: Option<StopSignal>,
    /// Sets the sampling rate after each window.
    pub regulator: Option<RateRegulator>,
    /// Set by a source that ends at LIMIT itself.
    pub limited: Option<StopSignal>,
    reach: InputReach,
}

/// Extent to which the input was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputReach {
    /// To its end, or as far as requested. An input without an end, such as a pipe, ends when it is stopped.
    Whole,
    /// Stopped before its end.
    Cut,
}

/// Source of tuples.
enum RunInput {
    /// Packets.
    Packets(Box<MonitorJob>),
    /// Recorded or published data.
    Fed(Box<dyn TupleFeed>),
}

/// Position of reading.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunPosition {
    /// Bytes read, and the total if known.
    Read(u64, Option<u64>),
    /// Counters of a live capture; sum of all workers.
    Captured(VitalsReading),
}

/// A result as a table.
pub struct RunResultTable {
    /// Description.
    pub head: FileMetadata,
    /// Schema of its columns.
    pub schema: Arc<Schema>,
    /// Columns of the result.
    pub columns: Vec<FieldId>,
}

/// Observer of a running query.
pub trait RunObserver {
    /// Called repeatedly, between rows.
    ///
    /// # Errors
    /// `io::Error` of the sink, if something was shown there; reading stops.
    fn look(&mut self, run: &mut QueryRun, sink: &mut dyn Sink) -> io::Result<()>;

    /// Calls `write` to write rows, with any other terminal output hidden.
    ///
    /// # Errors
    /// Those of `write`.
    fn aside(&self, write: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        write()
    }

    /// Receives a note for the user.
    fn note(&self, _text: &str) {}

    /// Called at the end of reading.
    fn finish(&mut self, _position: RunPosition) {}

    /// Whether rows are flushed immediately.
    fn is_prompt(&self) -> bool {
        false
    }
}

/// No observer.
impl RunObserver for () {
    fn look(&mut self, _: &mut QueryRun, _: &mut dyn Sink) -> io::Result<()> {
        Ok(())
    }
}

impl RunInput {
    fn engine(&self) -> &Engine {
        match self {
            RunInput::Packets(job) => job.engine(),
            RunInput::Fed(feed) => feed.engine(),
        }
    }
}

impl QueryRun {
    /// Starts the threads.
    ///
    /// # Errors
    /// `io::Error` if the system cannot create threads.
    pub fn start(plan: &Plan, config: &JobConfig, input: JobInput) -> io::Result<QueryRun> {
        let started = Instant::now();
        let job = MonitorJob::start(plan, config, input)?;
        Ok(QueryRun::new(
            Some((plan, config.stream.window_bytes_max)),
            RunInput::Packets(Box::new(job)),
            started,
        ))
    }

    /// Starts several queries over the same packets; their results are numbered consecutively.
    ///
    /// # Errors
    /// As [`QueryRun::start`].
    pub fn start_several(
        monitor: &MonitorSpec,
        plans: &[Plan],
        config: &JobConfig,
        input: JobInput,
    ) -> io::Result<QueryRun> {
        let started = Instant::now();
        let dataflows: Vec<Dataflow> = plans.iter().map(|plan| plan.dataflow.clone()).collect();
        let job = MonitorJob::start_several(monitor, &dataflows, config, input)?;
        Ok(QueryRun::new(
            None,
            RunInput::Packets(Box::new(job)),
            started,
        ))
    }

    /// Starts a query over a recording.
    pub fn replay(plan: &Plan, config: stream::EngineConfig, replaying: ReplayRun) -> QueryRun {
        let bytes_max = config.window_bytes_max;
        let feed = replay::ReplayFeed::new(&plan.dataflow, config, replaying);
        QueryRun::fed(plan, bytes_max, Box::new(feed))
    }

    /// Starts a query over a feed; `bytes_max`: limit of raw tuples that wait for their order.
    pub fn fed(plan: &Plan, bytes_max: usize, feed: Box<dyn TupleFeed>) -> QueryRun {
        QueryRun::new(Some((plan, bytes_max)), RunInput::Fed(feed), Instant::now())
    }

    /// `of`: the plan whose raw tuples may be shown, and the memory limit of those that wait for their order.
    fn new(of: Option<(&Plan, usize)>, work: RunInput, started: Instant) -> QueryRun {
        let tuples = of.filter(|(plan, _)| plan.dataflow.pipelines.is_empty());
        let shown = tuples.map(|(plan, bytes_max)| {
            TupleProjection::new(&plan.dataflow, work.engine(), bytes_max)
        });
        QueryRun {
            work,
            shown,
            started,
            rows: 0,
            flushed: started,
            vitals_told: started,
            names_told: 0,
            facts: CaptureFacts::default(),
            told: CaptureFacts::default(),
            snaplen: 0,
            stop: None,
            regulator: None,
            limited: None,
            reach: InputReach::Whole,
        }
    }

    /// Descriptions of the results.
    pub fn heads(&self, plan: &Plan) -> Vec<ResultHead> {
        heads(plan, self.work.engine(), self.shown.as_ref())
    }

    /// Descriptions of the results as tables.
    pub fn tables(&self, plan: &Plan) -> Vec<RunResultTable> {
        let run = RandomState::new().hash_one(0);
        let parsers = plan
            .dataflow
            .inputs
            .iter()
            .map(|i| (i.schema.name.to_string(), i.schema.version));
        let parsers: Vec<_> = parsers.collect();
        let sample = match plan.monitor.sample {
            SampleMode::All => "all".into(),
            SampleMode::Auto => "auto".into(),
            SampleMode::Exported => "exported".into(),
            SampleMode::Fraction(p) => p.to_string(),
        };
        let table = |(processor, schema, columns): (Option<String>, &Arc<Schema>, Vec<FieldId>)| {
            RunResultTable {
                head: FileMetadata {
                    kind: if processor.is_some() {
                        TableKind::Result
                    } else {
                        TableKind::Tuples
                    },
                    table: processor.unwrap_or_else(|| schema.name.to_string()),
                    parsers: parsers.clone(),
                    query: plan.query.clone(),
                    version: env!("CARGO_PKG_VERSION").into(),
                    run,
                    sample: sample.clone(),
                    sample_seed: plan.monitor.sample_seed,
                    redacted: None,
                    capture: self.facts.clone(),
                },
                schema: schema.clone(),
                columns,
            }
        };
        results(plan, self.work.engine(), self.shown.as_ref())
            .into_iter()
            .map(table)
            .collect()
    }

    /// Runs until the input has ended, or LIMIT is reached, and all rows are written.
    ///
    /// # Errors
    /// `io::Error` of the sink; reading stops then. Errors of inputs are in the summary.
    pub fn go(&mut self, sink: &mut dyn Sink, observer: &mut dyn RunObserver) -> io::Result<()> {
        let result = self.take_results(sink, observer);
        observer.finish(self.position());
        let is_stopped = self.stop.as_ref().is_some_and(StopSignal::is_asked);
        if let (true, RunPosition::Read(read, Some(all))) = (is_stopped, self.position())
            && read < all
        {
            self.reach = InputReach::Cut;
        }
        result
    }

    /// Ends the run and returns the summary; `signal`: the signal that has ended it, if any.
    pub fn end(self, plan: &Plan, signal: Option<&str>) -> RunSummary {
        let is_full = self.shown.as_ref().is_some_and(TupleProjection::is_full);
        let regulated = self.regulator.as_ref().map(RateRegulator::outcome);
        let (ended, fed, problems, lacks) = match self.work {
            RunInput::Packets(job) => (job.end(), None, Vec::new(), Vec::new()),
            RunInput::Fed(feed) => {
                let stream = feed.engine().counters();
                let sampling = feed.sampling();
                let silences = feed
                    .engine()
                    .silences()
                    .filter(|silence| silence.windows > 0)
                    .cloned()
                    .collect();
                let mut ended = MonitorOutcome {
                    stream,
                    silences,
                    sampling,
                    ..MonitorOutcome::default()
                };
                ended.accounting.tuples = feed.fed().tuples();
                (ended, Some(feed.fed()), feed.problems(), feed.lacks())
            }
        };
        let mut summary = RunSummary::of(plan, ended, self.started.elapsed());
        summary.errors.extend(problems);
        let is_limited = self.limited.as_ref().is_some_and(StopSignal::is_asked);
        summary.limit_reached |= is_full || is_limited;
        let cut_short = signal
            .filter(|_| self.reach == InputReach::Cut)
            .map(|signal| {
                format!(
                    "{signal} ended the run before the end of the input; the result is incomplete"
                )
            });
        RunSummary {
            fed,
            rows: self.rows,
            cut_short,
            lacks,
            regulated,
            ..summary
        }
    }

    fn take_results(
        &mut self,
        sink: &mut dyn Sink,
        observer: &mut dyn RunObserver,
    ) -> io::Result<()> {
        loop {
            self.tell_names(sink);
            let is_stopped = self.stop.as_ref().is_some_and(StopSignal::is_asked);
            let is_full = self.shown.as_ref().is_some_and(TupleProjection::is_full);
            let shown = self.shown.as_mut();
            let mut delivery = RowDelivery {
                sink,
                shown,
                observer: &*observer,
                rows: 0,
                failed: None,
            };
            let (is_over, watermark) = match &mut self.work {
                RunInput::Packets(job) => {
                    if is_stopped || is_full {
                        job.stop();
                    }
                    let step = job.next(PATIENCE, &mut delivery);
                    (step == MonitorProgress::Done, Some(job.watermark().0))
                }
                RunInput::Fed(feed) if is_stopped || is_full => {
                    self.reach = if is_full || feed.is_endless() {
                        self.reach
                    } else {
                        InputReach::Cut
                    };
                    feed.finish(&mut delivery);
                    feed.notes().iter().for_each(|note| observer.note(note));
                    (true, None)
                }
                RunInput::Fed(feed) => {
                    let is_over = feed.next(&mut delivery) == MonitorProgress::Done;
                    feed.notes().iter().for_each(|note| observer.note(note));
                    (is_over, None)
                }
            };
            self.regulator.iter_mut().for_each(RateRegulator::follow);
            if is_over {
                delivery.finish();
                delivery.mention_cut();
            }
            let RowDelivery { rows, failed, .. } = delivery;
            self.rows += rows;
            failed.map_or(Ok(()), Err)?;
            self.tell_facts(sink, watermark);
            if is_over || self.vitals_told.elapsed() >= VITALS_EVERY {
                self.vitals_told = Instant::now();
                sink.learn_vitals(&self.vitals());
            }
            if rows > 0 {
                self.flush(sink, observer)?;
            }
            if let Some(watermark) = watermark {
                sink.advance(watermark)?;
            }
            if is_over {
                return observer.aside(&mut || sink.finish());
            }
            observer.look(self, sink)?;
        }
    }

    /// Current state of the run.
    fn vitals(&self) -> RunVitals {
        let mut vitals = RunVitals {
            rows: self.rows,
            ..RunVitals::default()
        };
        match &self.work {
            RunInput::Packets(job) => {
                for reading in job.readings() {
                    vitals.packets += reading.packets;
                    vitals.bytes += reading.bytes;
                    vitals.lost_packets += reading.lost;
                    vitals.flows += reading.flows;
                    vitals.tuples += reading.tuples;
                }
                vitals.unseen_bytes = job.capture_loss().lost;
            }
            RunInput::Fed(feed) => vitals.tuples = feed.fed().tuples(),
        }
        vitals
    }

    /// Passes facts about the packets to the sink.
    fn tell_facts(&mut self, sink: &mut dyn Sink, watermark: Option<i64>) {
        let RunInput::Packets(job) = &self.work else {
            return;
        };
        let packets = job.packets();
        self.facts.first_ts = packets.first_ts.map(|ts| ts.0);
        let loss = job.capture_loss();
        self.facts.seen_bytes = loss.seen;
        self.facts.unseen_bytes = loss.lost;
        self.facts.limited = job
            .limited()
            .map(|limited| (limited.from_ns, limited.to_ns));
        self.facts.last_ts = watermark.filter(|_| packets.first_ts.is_some());
        if self.facts.links.len() != packets.links.len() {
            let link = |link: &LinkType| CapturedLink {
                link_type: (*link).into(),
                snaplen: self.snaplen,
            };
            self.facts.links = packets.links.iter().map(link).collect();
        }
        if self.facts != self.told {
            self.told.clone_from(&self.facts);
            sink.learn_capture(&self.facts);
        }
    }

    /// The job, unless a recording is read.
    pub fn job(&mut self) -> Option<&mut MonitorJob> {
        match &mut self.work {
            RunInput::Packets(job) => Some(job),
            RunInput::Fed(_) => None,
        }
    }

    /// Position of reading.
    #[must_use]
    pub fn position(&self) -> RunPosition {
        match &self.work {
            // Live sources observe a stop themselves and have no end.
            RunInput::Packets(job) if self.stop.is_none() => {
                let readings = job.readings();
                let sum = |of: fn(&VitalsReading) -> u64| readings.iter().map(of).sum();
                RunPosition::Captured(VitalsReading {
                    packets: sum(|reading| reading.packets),
                    bytes: sum(|reading| reading.bytes),
                    tuples: sum(|reading| reading.tuples),
                    flows: sum(|reading| reading.flows),
                    lost: sum(|reading| reading.lost),
                    ..VitalsReading::default()
                })
            }
            RunInput::Packets(job) => {
                let (read, all) = job
                    .readings()
                    .first()
                    .map(|reading| reading.position)
                    .unwrap_or_default();
                RunPosition::Read(read, all)
            }
            RunInput::Fed(feed) => RunPosition::Read(feed.fed().bytes(), None),
        }
    }

    /// Passes host names in the captures to the sink.
    fn tell_names(&mut self, sink: &mut dyn Sink) {
        let RunInput::Packets(job) = &self.work else {
            return;
        };
        for (ip, name) in &job.names()[self.names_told..] {
            sink.learn_name(*ip, name);
        }
        self.names_told = job.names().len();
    }

    fn flush(&mut self, sink: &mut dyn Sink, observer: &dyn RunObserver) -> io::Result<()> {
        if observer.is_prompt() || self.flushed.elapsed() >= FLUSH_EVERY {
            observer.aside(&mut || sink.flush())?;
            self.flushed = Instant::now();
        }
        Ok(())
    }
}

/// Descriptions of an engine's results, or of tuples as the result.
#[must_use]
pub fn heads(plan: &Plan, engine: &Engine, shown: Option<&TupleProjection>) -> Vec<ResultHead> {
    let head = |(i, (processor, schema, columns)): (usize, Result<'_>)| {
        let pipeline = plan.dataflow.pipelines.get(i);
        ResultHead {
            processor,
            parsers: plan
                .dataflow
                .inputs
                .iter()
                .map(|input| input.schema.name.to_string())
                .collect(),
            columns: columns
                .iter()
                .map(|id| schema.field(*id).name.to_string())
                .collect(),
            keys: pipeline.map_or(0, |pipeline| pipeline.group.len()),
            slide_ns: pipeline
                .and_then(|pipeline| pipeline.window)
                .map(|window| window.slide_ns),
            empty: if pipeline.is_some_and(|pipeline| pipeline.selection.having.is_some()) {
                EmptyReason::NoneChosen
            } else {
                EmptyReason::NoTuples
            },
        }
    };
    results(plan, engine, shown)
        .into_iter()
        .enumerate()
        .map(head)
        .collect()
}

/// Name of a processor, if any, with the columns of its result.
type Result<'r> = (Option<String>, &'r Arc<Schema>, Vec<FieldId>);

/// Names of the processors with the columns of their results, or those of the tuples.
fn results<'r>(
    plan: &Plan,
    engine: &'r Engine,
    shown: Option<&'r TupleProjection>,
) -> Vec<Result<'r>> {
    let names = distinct_names(plan.dataflow.pipelines.iter().map(|p| p.name.as_str()));
    if let Some(shown) = shown {
        let (schema, columns) = shown.columns();
        return vec![(None, schema, columns)];
    }
    let result = |(i, name)| {
        let schema = engine.result_schema(i);
        (Some(name), schema, schema.ids().collect())
    };
    names.into_iter().enumerate().map(result).collect()
}

/// Passes rows to the sink as they are produced, so that no stage holds all rows of a window or epoch.
struct RowDelivery<'r> {
    sink: &'r mut dyn Sink,
    shown: Option<&'r mut TupleProjection>,
    observer: &'r dyn RunObserver,
    rows: u64,
    /// Error of the sink; nothing more is written then.
    failed: Option<io::Error>,
}

impl OutputConsumer for RowDelivery<'_> {
    fn take(
        &mut self,
        EngineOutput {
            pipeline,
            batch,
            watermark_ns,
        }: EngineOutput,
    ) {
        let batch = match &mut self.shown {
            Some(shown) => shown.take(&batch),
            None => Some(batch),
        };
        if let Some(batch) = batch {
            self.write(pipeline.unwrap_or(0), &batch, Some(watermark_ns));
        }
    }
}

impl RowDelivery<'_> {
    /// Emits the rows that are known only at the end.
    fn finish(&mut self) {
        let mut last = Vec::new();
        if let Some(shown) = &mut self.shown {
            shown.finish(|batch| last.push(batch));
        }
        last.iter().for_each(|batch| self.write(0, batch, None));
    }

    fn mention_cut(&self) {
        if self.shown.as_ref().is_some_and(|shown| shown.is_cut()) {
            let held = self.rows;
            self.observer.note(&format!(
                "ORDER BY held the first {held} rows only; more did not fit into its memory (--window-bytes-max)"
            ));
        }
    }

    fn write(&mut self, result: usize, batch: &Batch, watermark_ns: Option<i64>) {
        if self.failed.is_some() {
            return;
        }
        let observer = self.observer;
        let sink = &mut *self.sink;
        let written = observer.aside(&mut || {
            watermark_ns.map_or(Ok(()), |watermark_ns| sink.advance(watermark_ns))?;
            sink.write(result, batch)
        });
        match written {
            Ok(()) => self.rows += batch.rows() as u64,
            Err(error) => self.failed = Some(error),
        }
    }
}

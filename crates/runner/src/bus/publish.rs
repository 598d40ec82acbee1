//! A query whose tuples, or cells of groups, are published for others to merge.

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

use ::bus::lanes::ClaimedLane;
use ::bus::lanes::log::LimitPeriod;
use ::bus::tuples::{self, LanePromise};
use ::bus::{BusError, Producer, ProducerTarget};
use arrow_array::{Int64Array, RecordBatch};
use avro::AvroRecords;
use capture::live::StopSignal;
use collect::{CollectorLanes, ReportPart, TakeRows};
use monitor::job::{JobConfig, WindowEmission};
use monitor::sampling_control::RateCeiling;
use monitor::{JobInput, MonitorJob, MonitorProgress};
use plan::{Dataflow, Plan, SampleMode};
use stream::{Engine, EngineOutput, LossCount, PartialResultSet, sampling};
use tuple::{Batch, common};
use wire::Timestamp;

use super::feedback::{CeilingChange, PublishFeedback};
use super::topics::{SAMPLE_SEED, configured};
use crate::frames::FrameWriter;
use crate::summary::RunSummary;

/// Interval at which it checks whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Interval of beats without other records.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between two reports of limits.
const LIMITS_EVERY: Duration = Duration::from_millis(500);

/// Published data.
pub enum PublishedContent {
    /// Tuples of the dataflow's inputs, each with its target.
    Tuples(Vec<ProducerTarget>),
    /// Cells of the pipelines, each with its target; `None` for a pipeline with the measures of an earlier one.
    Cells(Vec<Option<ProducerTarget>>),
}

/// See the module documentation.
pub struct PublishRun {
    job: Box<MonitorJob>,
    out: PublishOutput,
    feedback: Option<PublishFeedback>,
    /// Number of times that limits took effect, as last reported.
    limited: u64,
    /// Time of that report.
    told: Instant,
    started: Instant,
}

/// Published data and its progress.
struct PublishOutput {
    producer: Arc<Producer>,
    what: PublishedContent,
    /// Per dataflow: engines that compute cells of windows and have the tuples' schema.
    engines: Vec<Engine>,
    is_sampled: bool,
    /// Last event time of the job.
    watermark_ns: i64,
    /// Lower bound of the run's event time; promises of the partition are not later.
    begins_ns: i64,
    /// Time of the last record.
    said: Instant,
    /// Whether cells were published since the last promise.
    is_handed_on: bool,
    /// Windows passed on before event time was known, by which cells are published.
    early: Vec<PartialResultSet>,
    records: AvroRecords,
    rows: u64,
    failed: Option<BusError>,
}

impl PublishRun {
    /// Starts the threads. `dataflows`: the plan's, or one per input for tuples. Feedback is used if the rate of SAMPLE
    /// auto follows the consumers. `begins_ns`: no result of the run ends before that time, if known.
    ///
    /// # Errors
    /// If the system cannot create more threads.
    pub fn start(
        (plan, dataflows): (&Plan, &[Dataflow]),
        config: &JobConfig,
        input: JobInput,
        (producer, what, begins_ns): (Arc<Producer>, PublishedContent, Option<i64>),
        feedback: Option<PublishFeedback>,
    ) -> io::Result<PublishRun> {
        let started = Instant::now();
        let windows = WindowEmission::HandedOn {
            open_every_ns: crate::OPEN_EVERY_NS,
        };
        let ceiling = feedback
            .as_ref()
            .map_or_else(RateCeiling::default, PublishFeedback::ceiling);
        let config = JobConfig {
            windows,
            ceiling,
            ..config.clone()
        };
        let job = Box::new(MonitorJob::start_several(
            &plan.monitor,
            dataflows,
            &config,
            input,
        )?);
        let out = PublishOutput {
            producer,
            what,
            engines: dataflows
                .iter()
                .map(|dataflow| Engine::worker(dataflow, configured(&config.stream, &plan.monitor)))
                .collect(),
            is_sampled: plan.monitor.sample != SampleMode::All,
            watermark_ns: i64::MIN,
            begins_ns: begins_ns.unwrap_or(i64::MIN),
            said: started,
            is_handed_on: false,
            early: Vec::new(),
            records: AvroRecords::default(),
            rows: 0,
            failed: None,
        };
        Ok(PublishRun {
            job,
            out,
            feedback,
            limited: 0,
            told: started,
            started,
        })
    }

    /// Publishes to its own partition until the input ends, or `stop` is set if the source does not observe it. Calls
    /// `changed` when feedback changes the sampling and `look` in every turn; reports progress to `told`.
    ///
    /// # Errors
    /// `BusError` of Kafka. Without brokers it waits, or drops, depending on the producer.
    pub fn go(
        &mut self,
        lane: &ClaimedLane,
        stop: Option<&StopSignal>,
        changed: &mut dyn FnMut(CeilingChange),
        look: &mut dyn FnMut(&MonitorJob),
        mut told: Option<&mut FrameWriter<'_>>,
    ) -> Result<(), BusError> {
        loop {
            lane.check()?;
            if let Some(feedback) = &mut self.feedback {
                let job = &self.job;
                let rates = || {
                    job.readings()
                        .iter()
                        .map(|reading| reading.sample_rate)
                        .fold(0.0, f64::max)
                };
                feedback
                    .look(&self.out.producer, rates)
                    .into_iter()
                    .for_each(&mut *changed);
            }
            if stop.is_some_and(StopSignal::is_asked) {
                self.job.stop();
            }
            look(&self.job);
            let step = self.job.next_parts(PATIENCE, &mut self.out);
            self.out.watermark_ns = self.out.watermark_ns.max(self.job.watermark().0);
            if step == MonitorProgress::Done || self.out.watermark_ns > i64::MIN {
                self.out.tell_early();
            }
            self.tell_limits(lane, step == MonitorProgress::Done);
            // Windows passed on can be merged once they are known to be complete.
            if step == MonitorProgress::Done
                || mem::take(&mut self.out.is_handed_on)
                || self.out.said.elapsed() >= BEAT_EVERY
            {
                self.out.beat();
                if let Some(frames) = &mut told {
                    frames.come_to(Timestamp(self.out.watermark_ns), self.job.capture_loss());
                    frames.report(
                        ReportPart::default(),
                        self.job.take_lost(),
                        self.job.take_limited(),
                    );
                }
            }
            if let Some(frames) = &mut told {
                frames.account(&self.job, step, self.out.producer.counters().dropped());
                if frames.is_unheard() {
                    self.job.stop();
                }
            }
            match self.out.failed.take() {
                Some(error) => return Err(error),
                None if step == MonitorProgress::Done => return Ok(()),
                None => {}
            }
        }
    }

    /// Publishes new limits before the promise by which readers close windows, at a limited rate.
    fn tell_limits(&mut self, lane: &ClaimedLane, is_last: bool) {
        let Some(limited) = self
            .job
            .limited()
            .filter(|limited| limited.times > self.limited)
        else {
            return;
        };
        if is_last || self.limited == 0 || self.told.elapsed() >= LIMITS_EVERY {
            self.limited = limited.times;
            self.told = Instant::now();
            lane.limit(LimitPeriod {
                from_ns: limited.from_ns,
                to_ns: limited.to_ns,
                times: limited.times,
            });
        }
    }

    /// Capture loss.
    #[must_use]
    pub fn capture_loss(&self) -> LossCount {
        self.job.capture_loss()
    }

    /// Waits until everything is acknowledged, up to a limit, and returns the outcome.
    pub fn end(
        self,
        plan: &Plan,
        patience: Duration,
        cut_short: Option<String>,
    ) -> (RunSummary, Result<(), BusError>) {
        let flushed = self.out.producer.flush(patience);
        let summary = RunSummary {
            rows: self.out.rows,
            sent: Some(self.out.producer.counters()),
            cut_short,
            ..RunSummary::of(plan, self.job.end(), self.started.elapsed())
        };
        (summary, flushed)
    }
}

impl TakeRows for PublishOutput {
    fn take(&mut self, output: EngineOutput, _: &CollectorLanes) {
        let PublishedContent::Tuples(targets) = &self.what else {
            return;
        };
        let rows = &output.batch;
        let is_of = |engine: &Engine| engine.tuples().0.name == rows.schema().name;
        let Some(target) = self
            .engines
            .iter()
            .position(is_of)
            .map(|input| targets[input])
        else {
            return;
        };
        let promise = LanePromise {
            before: self.promised_ns(),
            after: self.promised_ns(),
        };
        let replicates = self.is_sampled.then(|| replicates(rows));
        let records = tuples::to_records(rows, promise, replicates.as_ref());
        self.rows += rows.rows() as u64;
        self.send(target, &records);
    }

    fn hand_on(&mut self, windows: PartialResultSet) {
        match self.watermark_ns {
            i64::MIN => self.early.push(windows),
            _ => self.tell(&windows),
        }
    }
}

impl PublishOutput {
    fn tell_early(&mut self) {
        for windows in mem::take(&mut self.early) {
            self.tell(&windows);
        }
    }

    /// Publishes the cells of parts of windows.
    fn tell(&mut self, windows: &PartialResultSet) {
        let PublishedContent::Cells(targets) = &self.what else {
            return;
        };
        let targets = targets.clone();
        for partial in windows.each() {
            let cells = self.engines[0].cells(partial, self.promised_ns());
            for (target, batches) in targets.iter().zip(cells) {
                let Some(target) = target else { continue };
                for cells in batches {
                    self.rows += cells.num_rows() as u64;
                    self.is_handed_on = true;
                    self.send(*target, &cells);
                }
            }
        }
    }

    /// Promise: no later tuple ends before this.
    fn promised_ns(&self) -> i64 {
        self.watermark_ns.max(self.begins_ns)
    }

    /// Publishes the promise that nothing older than now follows.
    fn beat(&mut self) {
        match &self.what {
            PublishedContent::Tuples(targets) => {
                for (input, target) in targets.clone().into_iter().enumerate() {
                    let beat = tuples::beat(self.engines[input].tuples().0, self.promised_ns());
                    self.send(target, &beat);
                }
            }
            PublishedContent::Cells(targets) => {
                for (pipeline, target) in targets.clone().into_iter().enumerate() {
                    let Some(target) = target else { continue };
                    let beat = self.engines[0].promise(pipeline, self.promised_ns());
                    self.send(target, &beat);
                }
            }
        }
    }

    fn send(&mut self, target: ProducerTarget, rows: &RecordBatch) {
        if self.failed.is_some() {
            return;
        }
        self.records.clear();
        avro::encode(rows, &mut self.records)
            .expect("tuples and cells have types with an Avro form");
        self.said = Instant::now();
        self.failed = self.producer.send_all(target, &self.records).err();
    }
}

/// Assigns the tuples of a sample to replicates.
fn replicates(tuples: &Batch) -> Int64Array {
    let of = |id: &u64| i64::from(sampling::replicate(*id, SAMPLE_SEED));
    tuples.u64(common::ID).values().iter().map(of).collect()
}

//! Reads the output of another engine into the engine that completes it: cells, and marks with the number of cells in
//! each pane. Marks are in the order of panes; cells are in any order. A pane is completed once all its cells have
//! arrived, and not before panes marked earlier.

mod topic;

use std::time::{Duration, Instant};

use ::bus::{self, BusError, Kafka, NextRecord, PartitionRange, PartitionReader};
use monitor::MonitorProgress;
use plan::{Dataflow, TimeBounds};
use stream::cells::CellOrigin;
use stream::{Engine, EngineOutput, OutputConsumer, in_time_order};
use tuple::Batch;

use super::TopicReach;
use super::attach::attach;
use super::broker_contact::BrokerContact;
use super::late_marks::LateMarks;
use super::limit_marks::LimitMarks;
use super::record_problems::RecordProblems;
use crate::feed::TupleFeed;
use crate::summary::{FedInput, InputError, PublishedInput};
use topic::{MergedContent, MergedTopic};

/// Maximum wait before other work is checked.
const PATIENCE: Duration = Duration::from_millis(50);
/// Bytes prefetched per topic.
const PREFETCH_BYTES: usize = 16 << 20;
/// Maximum records per turn.
const RECORDS: usize = 4096;
/// Job of the other engine.
pub trait ExternalMerge {
    /// State of the job.
    fn look(&mut self) -> MergeJobStatus;

    /// Requests its remaining output and its end.
    fn drain(&mut self);

    /// Whether it has read everything published so far.
    fn has_read_all(&mut self) -> bool;

    /// Late rows dropped so far, if known.
    fn late(&self) -> u64;

    /// Notes for the user, one sentence each.
    fn notes(&mut self) -> Vec<String>;
}

/// Output of a job.
#[derive(Clone, Copy, Debug)]
pub struct MergeInput<'a> {
    /// Input of the query.
    pub origin: CellOrigin,
    /// Topics of the output: one per pipeline, or one of tuples.
    pub topics: &'a [String],
}

/// Range of a job's output to read.
#[derive(Clone, Copy, Debug)]
pub struct MergeScope {
    /// End of reading.
    pub reach: TopicReach,
    /// Period of panes: only cells of panes that start in it are used.
    pub bounds: TimeBounds,
    /// Deadline, if it does not end by itself.
    pub time: Option<Instant>,
}

/// State of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeJobStatus {
    /// Running.
    Going,
    /// Complete.
    Done,
    /// Failed, with the reason.
    Failed(String),
}

/// See the module documentation.
pub struct MergedFeed {
    engine: Engine,
    reader: PartitionReader,
    topics: Vec<MergedTopic>,
    job: Box<dyn ExternalMerge>,
    state: MergedFeedState,
    until: MergeScope,
    /// Maximum bytes that wait for the rest of their panes.
    waiting_max: usize,
    counts: PublishedInput,
    problems: RecordProblems,
    contact: BrokerContact,
    late: LateMarks,
    marks: LimitMarks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergedFeedState {
    Going,
    /// Publishing has ended; the job ends after reading everything.
    Published,
    /// The job has ended: its output is read to the end.
    Last,
}

impl MergedFeed {
    /// Completes the output of `job` with `engine`, which runs `dataflow`.
    ///
    /// # Errors
    /// Those of [`PartitionReader::new`] and [`PartitionReader::add`].
    ///
    /// # Panics
    /// Never: types of cells and tuples have an encoding.
    pub fn new(
        dataflow: &Dataflow,
        engine: Engine,
        kafka: &Kafka,
        merges: MergeInput<'_>,
        job: Box<dyn ExternalMerge>,
        (until, marks): (MergeScope, LimitMarks),
        waiting_max: usize,
    ) -> Result<MergedFeed, BusError> {
        let mut read = Vec::new();
        let mut reader = PartitionReader::new(kafka, PREFETCH_BYTES)?;
        for (pipeline, name) in merges.topics.iter().enumerate() {
            let part = PartitionRange {
                topic: name.clone(),
                partition: 0,
                from: 0,
                until: bus::PartitionEnd::Forever,
            };
            let part = reader.add(part)?;
            read.push(if engine.gives_tuples() {
                MergedTopic::of_tuples(dataflow, &engine, name, part)
            } else {
                MergedTopic::of_cells(
                    engine.cell_table(pipeline),
                    merges.origin,
                    pipeline,
                    name,
                    part,
                )
            });
        }
        let counts = PublishedInput::default();
        let problems = RecordProblems::default();
        Ok(MergedFeed {
            engine,
            reader,
            topics: read,
            job,
            state: MergedFeedState::Going,
            until,
            waiting_max,
            counts,
            problems,
            contact: BrokerContact::new(),
            late: LateMarks::new(),
            marks,
        })
    }

    /// Reads the available records of a topic; returns whether there were any.
    fn take(&mut self, number: usize) -> Result<bool, BusError> {
        let topic = &mut self.topics[number];
        let mut taken = 0;
        while taken < RECORDS {
            match self.reader.next(topic.part, Duration::ZERO)? {
                NextRecord::Record(record) => {
                    taken += 1;
                    self.counts.records += 1;
                    self.counts.bytes += record.payload().len() as u64;
                    if let Err(why) = topic.decoder.push(record.payload()) {
                        self.counts.malformed += 1;
                        self.problems.note(
                            format!("topic {}, offset {}", topic.name, record.offset()),
                            why,
                        );
                    }
                }
                NextRecord::Nothing | NextRecord::CaughtUp => break,
                NextRecord::Over => {
                    topic.is_over = true;
                    break;
                }
            }
        }
        if taken > 0 {
            let rows = topic.decoder.finish();
            topic.sort(&rows);
        }
        Ok(taken > 0)
    }

    /// Emits the complete panes.
    fn finish_panes(&mut self, number: usize, out: &mut dyn OutputConsumer) {
        let topic = &mut self.topics[number];
        while let Some((et_ms, rows)) = topic.next_whole() {
            let end_ms = et_ms.saturating_add(topic.pane_ms);
            self.late.come_to(end_ms.saturating_mul(1_000_000));
            match &topic.holds {
                MergedContent::Cells(pipeline) => {
                    let is_wanted = self.until.bounds.contains(et_ms.saturating_mul(1_000_000));
                    for rows in rows.iter().filter(|_| is_wanted) {
                        let refused = attach(&mut self.engine, *pipeline, rows);
                        self.counts.rows += (rows.num_rows() - refused.len()) as u64;
                        self.counts.malformed += refused.len() as u64;
                        let place = format!("topic {}", topic.name);
                        refused
                            .into_iter()
                            .for_each(|why| self.problems.note(place.as_str(), why));
                    }
                    self.engine.make_room(out);
                    self.engine.keep_promise(*pipeline, end_ms - 1, out);
                }
                MergedContent::Tuples(schema, fields) => {
                    let tuples: Vec<Batch> = rows
                        .iter()
                        .map(|rows| topic::tuples(rows, schema, fields))
                        .collect();
                    self.counts.rows += tuples.iter().map(Batch::rows).sum::<usize>() as u64;
                    let watermark_ns = end_ms.saturating_mul(1_000_000);
                    let mut give = |batch| {
                        out.take(EngineOutput {
                            pipeline: None,
                            batch,
                            watermark_ns,
                        })
                    };
                    in_time_order(tuples, &mut give);
                }
            }
        }
    }

    fn step(&mut self, out: &mut dyn OutputConsumer) -> Result<MonitorProgress, BusError> {
        if self.state != MergedFeedState::Last {
            let is_read = self.state == MergedFeedState::Published && self.job.has_read_all();
            if is_read || self.until.time.is_some_and(|time| Instant::now() >= time) {
                self.until.time = None;
                self.state = MergedFeedState::Going;
                self.job.drain();
            }
            match self.job.look() {
                MergeJobStatus::Going => {}
                // The job's output is in the topics now.
                MergeJobStatus::Done => self.read_to_the_end()?,
                MergeJobStatus::Failed(why) => {
                    self.problems.end("Flink", why);
                    return Ok(MonitorProgress::Done);
                }
            }
        }
        let mut is_heard = false;
        self.late.mark(&mut self.engine, self.job.late());
        self.marks.mark(&mut self.engine, &self.late, false);
        for number in 0..self.topics.len() {
            is_heard |= self.take(number)?;
            self.finish_panes(number, out);
        }
        let waiting: usize = self.topics.iter().map(|topic| topic.waiting).sum();
        if waiting > self.waiting_max {
            let flag = if self.engine.gives_tuples() {
                "--results-bytes-max"
            } else {
                "--window-bytes-max"
            };
            let why = format!(
                "more than {} bytes wait for the rest of their panes ({flag})",
                self.waiting_max
            );
            self.problems.end("Flink", why);
            return Ok(MonitorProgress::Done);
        }
        if is_heard {
            self.contact.heard();
        } else {
            if self.topics.iter().all(|topic| topic.is_over) {
                return Ok(MonitorProgress::Done);
            }
            match (self.contact.miss(&self.reader), self.state) {
                (Err(error), MergedFeedState::Last) => return Err(error),
                // The job continues as soon as it can.
                _ => self.reader.wait(PATIENCE),
            }
        }
        Ok(MonitorProgress::Going)
    }
}

impl MergedFeed {
    /// The job has ended: reads its output to the end.
    fn read_to_the_end(&mut self) -> Result<(), BusError> {
        self.reader = self.reader.of_the_rest()?;
        self.state = MergedFeedState::Last;
        Ok(())
    }
}

impl TupleFeed for MergedFeed {
    fn next(&mut self, out: &mut dyn OutputConsumer) -> MonitorProgress {
        let step = self.step(out).unwrap_or_else(|error| {
            self.problems.end("Kafka", error);
            MonitorProgress::Done
        });
        if step == MonitorProgress::Done {
            self.close(out);
        }
        step
    }

    /// Ends the job and reads its remaining output.
    fn finish(&mut self, out: &mut dyn OutputConsumer) {
        if self.state != MergedFeedState::Last {
            self.job.drain();
        }
        while self.next(out) == MonitorProgress::Going {}
    }

    fn begin_at(&mut self, watermark_ns: i64, latest_ns: &[Option<i64>]) {
        self.engine.begin_at(watermark_ns, latest_ns);
    }

    fn come_to_the_end(&mut self) -> Result<(), String> {
        if self.state == MergedFeedState::Going {
            self.state = MergedFeedState::Published;
        }
        Ok(())
    }

    fn cut_short(&self) -> Option<String> {
        self.problems.cut_short()
    }

    fn is_endless(&self) -> bool {
        self.until.reach != TopicReach::Past
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn fed(&self) -> FedInput {
        FedInput::Published(PublishedInput {
            late: self.job.late(),
            ..self.counts
        })
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = self.job.notes();
        notes.append(&mut self.contact.notes());
        notes
    }

    fn problems(&self) -> Vec<InputError> {
        self.problems.told()
    }
}

impl MergedFeed {
    fn close(&mut self, out: &mut dyn OutputConsumer) {
        let missing: usize = self.topics.iter().map(MergedTopic::missing).sum();
        if missing > 0 && self.problems.is_empty() {
            self.problems.end(
                "Flink",
                format!("{missing} panes arrived incomplete; the result lacks them"),
            );
        }
        self.marks
            .mark(&mut self.engine, &self.late, self.contact.away().is_none());
        self.engine.finish(out);
    }
}

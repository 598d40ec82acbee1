//! Reads published tuples, or cells of groups, of all lanes of some topics into the engine.
//!
//! A *lane* promises with every record that its later records are not older. Existing records are read in the order of
//! these promises, the lane furthest behind first, so nothing is late that was not late at its publisher. Live records,
//! once all lanes have caught up, are read as they arrive; a lane that is silent for a while delays nothing. If the
//! result consists of tuples, those of all lanes are sorted by time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ::bus::progress::ProgressReporter;
use ::bus::{BusError, NextRecord, PartitionRange, PartitionReader};
use monitor::MonitorProgress;
use plan::TimeBounds;
use stream::{Engine, OutputConsumer};

use super::attach::attach;
use super::broker_contact::BrokerContact;
use super::growing_topics::GrowingTopics;
use super::lane::{BusLane, BusLaneState, TopicRecords, told, within};
use super::late_marks::LateMarks;
use super::limit_marks::LimitMarks;
use super::record_problems::RecordProblems;
use super::tuple_orderer::TupleOrderer;
use crate::feed::TupleFeed;
use crate::summary::{FedInput, InputError, PublishedInput};

/// Maximum wait before other work is checked.
const PATIENCE: Duration = Duration::from_millis(50);
/// Maximum records of a lane per turn.
const RECORDS: usize = 4096;
/// Time after which a lane without records is no longer waited for during catch-up: its broker may be down.
const CATCHING_UP: Duration = Duration::from_secs(30);
/// Silence after which a lane delays nothing: an active lane sends something every second.
pub const SILENCE: Duration = Duration::from_secs(5);

/// End of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicReach {
    /// The end of the existing records.
    Past,
    /// Live records, until event time reaches this point, if given.
    Live(Option<i64>),
}

/// See the module documentation.
pub struct BusFeed {
    engine: Engine,
    reader: PartitionReader,
    lanes: Vec<BusLane>,
    reach: TopicReach,
    counts: PublishedInput,
    problems: RecordProblems,
    /// Tuples that wait for older ones of other lanes, if tuples are the result.
    in_order: Option<TupleOrderer>,
    contact: BrokerContact,
    late: LateMarks,
    /// Limits of publishers.
    marks: Option<LimitMarks>,
    /// Columns unknown to publishers of earlier versions, as last reported.
    lacking: String,
    notes: Vec<String>,
    /// Period of panes: only cells of panes that start in it are used.
    bounds: TimeBounds,
    /// Reports progress to publishers.
    progress: Option<ProgressReporter>,
    /// Finds new partitions.
    growing: Option<GrowingTopics>,
}

impl BusFeed {
    /// Feeds `engine` with the records of `reader`; `held_max`: maximum bytes of tuples that wait for older ones.
    #[must_use]
    pub fn new(
        engine: Engine,
        reader: PartitionReader,
        reach: TopicReach,
        bounds: TimeBounds,
        held_max: usize,
    ) -> BusFeed {
        let counts = PublishedInput::default();
        let problems = RecordProblems::default();
        let contact = BrokerContact::new();
        let in_order = engine.gives_tuples().then(|| TupleOrderer::new(held_max));
        BusFeed {
            engine,
            reader,
            lanes: Vec::new(),
            reach,
            counts,
            problems,
            in_order,
            contact,
            late: LateMarks::new(),
            marks: None,
            lacking: String::new(),
            notes: Vec::new(),
            bounds,
            progress: None,
            growing: None,
        }
    }

    /// Adds a partition; `is_live`: it has an active publisher.
    ///
    /// # Errors
    /// Those of [`PartitionReader::add`].
    pub fn add(
        &mut self,
        part: PartitionRange,
        records: TopicRecords,
        is_live: bool,
    ) -> Result<(), BusError> {
        let place = format!("topic {}, partition {}", part.topic, part.partition);
        let part = self.reader.add(part)?;
        let heard = is_live.then(Instant::now);
        let read = Instant::now();
        self.lanes.push(BusLane {
            part,
            place,
            records,
            promise: i64::MIN,
            heard,
            read,
            state: BusLaneState::Behind,
        });
        Ok(())
    }

    /// Enables progress reports to publishers.
    pub fn tell(&mut self, progress: ProgressReporter) {
        self.progress = Some(progress);
    }

    /// Marks the rows that limits of publishers may have changed.
    pub fn mark(&mut self, marks: LimitMarks) {
        self.marks = Some(marks);
    }

    /// Also reads partitions that its topics get from now on.
    pub fn grow(&mut self, growing: GrowingTopics) {
        self.growing = Some(growing);
    }

    fn add_new(&mut self, found: Vec<(PartitionRange, TopicRecords)>) -> Result<(), BusError> {
        found
            .into_iter()
            .try_for_each(|(part, records)| self.add(part, records, true))
    }

    fn tell_progress(&mut self) {
        let Some(progress) = self.progress.as_mut().filter(|progress| progress.is_due()) else {
            return;
        };
        let mut positions: BTreeMap<&str, Vec<Option<i64>>> = BTreeMap::new();
        for (number, part) in self.reader.parts().enumerate() {
            let at = positions.entry(&part.topic).or_default();
            let partition = usize::try_from(part.partition).unwrap_or_default();
            at.resize(at.len().max(partition + 1), None);
            at[partition] = Some(self.reader.position(number));
        }
        for (topic, at) in positions {
            progress.tell(topic, at);
        }
    }

    /// Reads records of a lane; returns whether there were any. Waits briefly for the first of expected records.
    fn take(
        &mut self,
        number: usize,
        wait: Duration,
        out: &mut dyn OutputConsumer,
    ) -> Result<bool, BusError> {
        let lane = &mut self.lanes[number];
        let mut taken = 0;
        while taken < RECORDS {
            match self
                .reader
                .next(lane.part, if taken == 0 { wait } else { Duration::ZERO })?
            {
                NextRecord::Record(record) => {
                    taken += 1;
                    self.counts.records += 1;
                    self.counts.bytes += record.payload().len() as u64;
                    if let Err(why) = lane.records.push(record.payload()) {
                        self.counts.malformed += 1;
                        let place = format!("{}, offset {}", lane.place, record.offset());
                        self.problems.note(place, why);
                    }
                }
                NextRecord::Nothing => break,
                NextRecord::CaughtUp => {
                    lane.state = BusLaneState::Going;
                    break;
                }
                NextRecord::Over => {
                    lane.state = BusLaneState::Over;
                    break;
                }
            }
        }
        if taken > 0 {
            lane.heard = Some(Instant::now());
            lane.read = Instant::now();
            self.feed(number, out);
        }
        if self.lanes[number].read.elapsed() > CATCHING_UP && self.reach != TopicReach::Past {
            self.lanes[number].state = BusLaneState::Going;
        }
        Ok(taken > 0)
    }

    /// Feeds the engine with the records read from a lane.
    fn feed(&mut self, number: usize, out: &mut dyn OutputConsumer) {
        let lane = &mut self.lanes[number];
        let promise = match &mut lane.records {
            TopicRecords::Tuples(input, decoder) => {
                let tuples = decoder.finish();
                let lacking = decoder.lacking().collect::<Vec<_>>().join(", ");
                if self.lacking.len() < lacking.len() {
                    let topic = lane.place.split(',').next().unwrap_or_default();
                    self.notes.push(format!(
                        "{topic}: a publisher of an earlier version does not have {lacking}, which is null in its tuples"
                    ));
                    self.lacking = lacking;
                }
                self.counts.rows += tuples.batch.rows() as u64;
                if tuples.batch.rows() > 0 {
                    match &mut self.in_order {
                        Some(held) => self.engine.push(*input, &tuples.batch, held),
                        None => self.engine.push(*input, &tuples.batch, out),
                    }
                }
                tuples.promise
            }
            TopicRecords::Cells(pipelines, decoder) => {
                let all = decoder.finish();
                let cells = within(&all, self.bounds);
                self.counts.rows += told(&cells, "pane").count() as u64;
                for (place, pipeline) in pipelines.iter().enumerate() {
                    let refused = attach(&mut self.engine, *pipeline, &cells);
                    // All of them see the same records.
                    if place == 0 {
                        self.counts.rows -= refused.len() as u64;
                        self.counts.malformed += refused.len() as u64;
                        refused
                            .into_iter()
                            .for_each(|why| self.problems.note(lane.place.as_str(), why));
                    }
                    self.engine.make_room(out);
                }
                told(&all, "wm_ms").max()
            }
        };
        lane.promise = lane.promise.max(promise.unwrap_or(i64::MIN));
    }

    /// Advances event time to that of the slowest lane waited for; returns whether the end is reached.
    fn advance(&mut self, out: &mut dyn OutputConsumer) -> bool {
        let is_past = self.reach == TopicReach::Past;
        let waited = |lane: &&BusLane| {
            let is_alive = lane.heard.is_some_and(|heard| heard.elapsed() < SILENCE);
            lane.state == BusLaneState::Behind
                || (lane.state == BusLaneState::Going && (is_past || is_alive))
        };
        let mut least: BTreeMap<Option<usize>, i64> = BTreeMap::new();
        for lane in self.lanes.iter().filter(waited) {
            for of in lane.records.pipelines() {
                let at = least.entry(of).or_insert(i64::MAX);
                *at = (*at).min(lane.promise);
            }
        }
        let late = self.engine.counters().tuples_late;
        self.late.mark(&mut self.engine, late);
        self.mark_limits(false);
        for (pipeline, promise) in &least {
            self.late.come_to(if pipeline.is_some() {
                promise.saturating_mul(1_000_000)
            } else {
                *promise
            });
            match pipeline {
                Some(pipeline) => self.engine.keep_promise(*pipeline, *promise, out),
                None => {
                    self.engine.advance(*promise, out);
                    self.in_order
                        .iter_mut()
                        .for_each(|held| held.release(*promise, out));
                }
            }
        }
        if let (Some(held), true) = (&mut self.in_order, least.is_empty()) {
            held.release_all(out);
        }
        let is_beyond = |promise: &i64, until_ns: i64, pipeline: &Option<usize>| match pipeline {
            Some(_) => promise.saturating_mul(1_000_000) >= until_ns,
            None => *promise >= until_ns,
        };
        match self.reach {
            // Without active lanes the clock decides.
            TopicReach::Live(Some(until_ns)) if least.is_empty() => is_silent_beyond(until_ns),
            TopicReach::Live(Some(until_ns)) => least
                .iter()
                .all(|(pipeline, promise)| is_beyond(promise, until_ns, pipeline)),
            _ => false,
        }
    }

    fn mark_limits(&mut self, last: bool) {
        self.marks
            .iter_mut()
            .for_each(|marks| marks.mark(&mut self.engine, &self.late, last));
    }

    fn step(&mut self, out: &mut dyn OutputConsumer) -> Result<MonitorProgress, BusError> {
        self.tell_progress();
        if let Some(growing) = self.growing.as_mut().filter(|growing| growing.is_due()) {
            // Without brokers there are no records, either.
            let found = growing.more(&self.engine).unwrap_or_default();
            self.add_new(found)?;
        }
        let is_past = self.reach == TopicReach::Past;
        let first = |lane: &(usize, &BusLane)| match lane.1.state {
            BusLaneState::Behind => true,
            BusLaneState::Going => is_past,
            BusLaneState::Over => false,
        };
        let behind = self
            .lanes
            .iter()
            .enumerate()
            .filter(first)
            .min_by_key(|(_, lane)| lane.promise);
        match (behind, self.reach) {
            (Some((number, _)), _) => {
                if self.take(number, PATIENCE, out)? {
                    self.contact.heard();
                } else {
                    let missed = self.contact.miss(&self.reader);
                    // Live readers wait without limit.
                    if is_past {
                        missed?;
                    }
                }
            }
            (None, TopicReach::Past) => return Ok(MonitorProgress::Done),
            (None, TopicReach::Live(_)) => {
                let mut is_heard = false;
                for number in 0..self.lanes.len() {
                    is_heard |= self.take(number, Duration::ZERO, out)?;
                }
                if is_heard {
                    self.contact.heard()
                } else {
                    drop(self.contact.miss(&self.reader));
                    self.reader.wait(PATIENCE);
                }
            }
        }
        Ok(if self.advance(out) {
            MonitorProgress::Done
        } else {
            MonitorProgress::Going
        })
    }
}

/// Whether a lane active at this time would have written by now.
fn is_silent_beyond(ns: i64) -> bool {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let until = Duration::from_nanos(u64::try_from(ns).unwrap_or(0)).saturating_add(SILENCE);
    now >= until
}

impl TupleFeed for BusFeed {
    fn next(&mut self, out: &mut dyn OutputConsumer) -> MonitorProgress {
        let step = self.step(out).unwrap_or_else(|error| {
            self.problems.end("Kafka", error);
            MonitorProgress::Done
        });
        if step == MonitorProgress::Done {
            self.finish(out);
        }
        step
    }

    fn finish(&mut self, out: &mut dyn OutputConsumer) {
        if let (Some(error), true) = (self.contact.away(), self.problems.is_empty()) {
            self.problems.end("Kafka", error);
        }
        self.mark_limits(self.contact.away().is_none());
        match &mut self.in_order {
            Some(held) => {
                self.engine.finish(held);
                held.release(i64::MAX, out);
            }
            None => self.engine.finish(out),
        }
    }

    fn begin_at(&mut self, watermark_ns: i64, latest_ns: &[Option<i64>]) {
        self.engine.begin_at(watermark_ns, latest_ns);
    }

    fn come_to_the_end(&mut self) -> Result<(), String> {
        let found = self
            .growing
            .as_mut()
            .map_or(Ok(Vec::new()), |growing| growing.more(&self.engine));
        let rest = found.and_then(|found| {
            self.add_new(found)?;
            self.reader.of_the_rest()
        });
        self.reader = rest.map_err(|why| why.to_string())?;
        self.reach = TopicReach::Past;
        self.growing = None;
        Ok(())
    }

    fn cut_short(&self) -> Option<String> {
        self.problems.cut_short()
    }

    fn is_endless(&self) -> bool {
        self.reach != TopicReach::Past
    }

    fn engine(&self) -> &Engine {
        &self.engine
    }

    fn fed(&self) -> FedInput {
        let hurried = self.in_order.as_ref().map_or(0, TupleOrderer::hurried);
        FedInput::Published(PublishedInput {
            hurried,
            ..self.counts
        })
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.append(&mut self.contact.notes());
        notes
    }

    fn problems(&self) -> Vec<InputError> {
        self.problems.told()
    }
}

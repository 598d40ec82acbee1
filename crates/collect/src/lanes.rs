//! Lanes that report: they join, fall silent, return, and end. Each has reached a point in event time, and results are
//! released up to the slowest active lane. A silent lane has not ended: it may still have data for released rows, which
//! is noted in these rows ([`Coverage`]).

use std::collections::{BTreeMap, VecDeque};

use stream::{Loss, Output, Partials};
use wire::Timestamp;

use crate::report::{Part, Report};

/// Identifies a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

/// What is to be expected of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It will join; nothing waits for it.
    Expected,
    /// It is at work: nothing is released that it may still have to say something of.
    Active,
    /// It says nothing now, but is not at its end; nothing waits for it.
    Idle,
    /// It has said all that it had to say.
    Finished,
    /// It had more to say, and will not say it.
    Lost,
}

/// Which lanes should have said something of a time, and which have not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// How many lanes should have.
    pub expected: usize,
    /// Those that had not come to its end when it was released, in order.
    pub missing: Vec<LaneId>,
}

/// All lanes.
#[derive(Default)]
pub struct Lanes {
    all: BTreeMap<LaneId, Lane>,
    /// How far event time had come before what is being released now.
    pub(crate) since: Timestamp,
    /// Lateness of each result's windows, for which a reporter keeps their content, too.
    lateness_ns: Vec<i64>,
}

/// One reporter.
pub(crate) struct Lane {
    pub state: State,
    /// Event time of its last report that counts.
    pub watermark: Timestamp,
    /// What its packets seemed to lack by then.
    pub loss: Loss,
    /// What it had of open windows by then.
    pub open: Option<Partials>,
    /// Results of its current epoch.
    pub part: Part,
    /// Of epochs that others have not ended.
    pub waiting: VecDeque<Report>,
    /// The epoch of its latest report.
    pub latest: Option<u64>,
}

impl Lane {
    fn new(state: State) -> Lane {
        Lane {
            state,
            watermark: Timestamp::MIN,
            loss: Loss::default(),
            open: None,
            part: Part::default(),
            waiting: VecDeque::new(),
            latest: None,
        }
    }

    fn is_active(&self) -> bool {
        self.state == State::Active
    }
}

impl Lanes {
    /// So many that are at work already.
    pub(crate) fn of_workers(workers: usize) -> Lanes {
        let lanes = (0..workers as u64).map(|n| (LaneId(n), Lane::new(State::Active)));
        Lanes { all: lanes.collect(), since: Timestamp::MIN, lateness_ns: Vec::new() }
    }

    /// The same, for results with these latenesses.
    pub(crate) fn with_lateness(self, lateness_ns: Vec<i64>) -> Lanes {
        Lanes { lateness_ns, ..self }
    }

    /// The lane with this identifier; an unknown lane joins.
    pub(crate) fn get(&mut self, id: LaneId) -> &mut Lane {
        self.all.entry(id).or_insert_with(|| Lane::new(State::Active))
    }

    /// What is to be expected of a lane from now on.
    pub fn set(&mut self, id: LaneId, state: State) {
        self.get(id).state = state;
    }

    /// A lane has come so far.
    pub fn come_to(&mut self, id: LaneId, watermark: Timestamp) {
        let lane = self.get(id);
        lane.watermark = lane.watermark.max(watermark);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.all.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.all.values_mut()
    }

    /// Those for which others wait.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Lane> {
        self.iter().filter(|lane| lane.is_active())
    }

    /// How far a lane had come by its last report, and what its packets seemed to lack by then.
    #[must_use]
    pub fn told(&self, id: LaneId) -> (Timestamp, Loss) {
        self.all.get(&id).map_or((Timestamp::MIN, Loss::default()), |lane| (lane.watermark, lane.loss))
    }

    /// What is to be expected of each.
    pub fn states(&self) -> impl Iterator<Item = (LaneId, State)> + '_ {
        self.all.iter().map(|(id, lane)| (*id, lane.state))
    }

    /// Event time reached by the slowest active lane, or without active lanes by the fastest.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        let least = self.active().map(|lane| lane.watermark).min();
        least.or_else(|| self.iter().map(|lane| lane.watermark).max()).unwrap_or(Timestamp::MIN)
    }

    /// Cuts what was released into parts of one coverage each. It holds while [`crate::TakeRows::take`] has it.
    pub fn cover(&self, output: &Output, take: &mut dyn FnMut(Output, Coverage)) {
        let batch = &output.batch;
        let column = |name| batch.schema().find(name).map(|id| batch.i64(id).values());
        let bounds = |row: usize| match (column("window_start"), column("window_end"), output.pipeline) {
            (Some(starts), Some(ends), Some(_)) => (Timestamp(starts[row]), Timestamp(ends[row])),
            (_, _, None) => (self.since, Timestamp(output.watermark_ns)),
            _ => (Timestamp::MIN, Timestamp::MAX),
        };
        let mut from = 0;
        while from < batch.rows() {
            let here = bounds(from);
            let to = match output.pipeline {
                Some(_) => (from + 1..batch.rows()).find(|row| bounds(*row) != here),
                None => None,
            };
            let to = to.unwrap_or(batch.rows());
            let part = Output { batch: batch.slice(from, to - from), ..output.clone() };
            let lateness_ns = output.pipeline.and_then(|pipeline| self.lateness_ns.get(pipeline)).copied();
            take(part, self.coverage(here, lateness_ns.unwrap_or(0)));
            from = to;
        }
    }

    /// Coverage of a period with an exclusive end. A lane's data for it are complete when its event time has advanced
    /// past the end by the lateness; an ended lane may have had more data.
    #[must_use]
    pub fn coverage(&self, (start, end): (Timestamp, Timestamp), lateness_ns: i64) -> Coverage {
        let told_at = Timestamp(end.0.saturating_add(lateness_ns));
        let is_over = |lane: &Lane| lane.state == State::Finished;
        let is_expected = |lane: &Lane| !is_over(lane) || lane.watermark >= start;
        let expected = self.iter().filter(|lane| is_expected(lane)).count();
        let missing = self.all.iter().filter(|(_, lane)| !is_over(lane) && lane.watermark < told_at);
        Coverage { expected, missing: missing.map(|(id, _)| *id).collect() }
    }
}

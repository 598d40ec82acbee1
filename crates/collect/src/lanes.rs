//! Lanes that report: they join, fall silent, return, and end. Each has reached a point in event time, and results are
//! released up to the slowest active lane. A silent lane has not ended: it may still have data for released rows, which
//! is noted in these rows ([`LaneCoverage`]).

use std::collections::{BTreeMap, VecDeque};

use stream::{EngineOutput, LossCount, PartialResultSet};
use wire::Timestamp;

use crate::report::{ReportPart, WorkerReport};

/// Identifier of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u64);

/// State of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneActivity {
    /// Announced; no release waits for the lane.
    Expected,
    /// Working: only data it has passed is released.
    Active,
    /// Silent, but not ended; no release waits for the lane.
    Idle,
    /// Complete.
    Finished,
    /// Ended with data lost.
    Lost,
}

/// Lanes expected to report on a period, and those missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneCoverage {
    /// Number of expected lanes.
    pub expected: usize,
    /// Lanes that had not reached the end of the period at its release, in order.
    pub missing: Vec<LaneId>,
}

/// All lanes.
#[derive(Default)]
pub struct CollectorLanes {
    all: BTreeMap<LaneId, CollectorLane>,
    /// Event time before the current release.
    pub(crate) since: Timestamp,
    /// Lateness of each result's windows, for which lanes also hold their content.
    lateness_ns: Vec<i64>,
}

/// State of a lane.
pub(crate) struct CollectorLane {
    pub state: LaneActivity,
    /// Event time of its last valid report.
    pub watermark: Timestamp,
    /// Capture loss of the lane at that report.
    pub loss: LossCount,
    /// Content of its open windows at that report.
    pub open: Option<PartialResultSet>,
    /// Results of its current epoch.
    pub part: ReportPart,
    /// Reports of epochs that others have not ended.
    pub waiting: VecDeque<WorkerReport>,
    /// Epoch of its latest report.
    pub latest: Option<u64>,
}

impl CollectorLane {
    fn new(state: LaneActivity) -> CollectorLane {
        CollectorLane {
            state,
            watermark: Timestamp::MIN,
            loss: LossCount::default(),
            open: None,
            part: ReportPart::default(),
            waiting: VecDeque::new(),
            latest: None,
        }
    }

    fn is_active(&self) -> bool {
        self.state == LaneActivity::Active
    }
}

impl CollectorLanes {
    /// Active lanes of this number of workers.
    pub(crate) fn of_workers(workers: usize) -> CollectorLanes {
        let lanes =
            (0..workers as u64).map(|n| (LaneId(n), CollectorLane::new(LaneActivity::Active)));
        CollectorLanes {
            all: lanes.collect(),
            since: Timestamp::MIN,
            lateness_ns: Vec::new(),
        }
    }

    /// Sets the lateness of each result.
    pub(crate) fn with_lateness(self, lateness_ns: Vec<i64>) -> CollectorLanes {
        CollectorLanes {
            lateness_ns,
            ..self
        }
    }

    /// The lane with this identifier; an unknown lane joins.
    pub(crate) fn get(&mut self, id: LaneId) -> &mut CollectorLane {
        self.all
            .entry(id)
            .or_insert_with(|| CollectorLane::new(LaneActivity::Active))
    }

    /// Sets the state of a lane.
    pub fn set(&mut self, id: LaneId, state: LaneActivity) {
        self.get(id).state = state;
    }

    /// Advances a lane to this event time.
    pub fn come_to(&mut self, id: LaneId, watermark: Timestamp) {
        let lane = self.get(id);
        lane.watermark = lane.watermark.max(watermark);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &CollectorLane> {
        self.all.values()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut CollectorLane> {
        self.all.values_mut()
    }

    /// Lanes that are waited for.
    pub(crate) fn active(&self) -> impl Iterator<Item = &CollectorLane> {
        self.iter().filter(|lane| lane.is_active())
    }

    /// Watermark and capture loss of a lane's last report.
    #[must_use]
    pub fn told(&self, id: LaneId) -> (Timestamp, LossCount) {
        self.all
            .get(&id)
            .map_or((Timestamp::MIN, LossCount::default()), |lane| {
                (lane.watermark, lane.loss)
            })
    }

    /// States of all lanes.
    pub fn states(&self) -> impl Iterator<Item = (LaneId, LaneActivity)> + '_ {
        self.all.iter().map(|(id, lane)| (*id, lane.state))
    }

    /// Event time reached by the slowest active lane, or without active lanes by the fastest.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        let least = self.active().map(|lane| lane.watermark).min();
        least
            .or_else(|| self.iter().map(|lane| lane.watermark).max())
            .unwrap_or(Timestamp::MIN)
    }

    /// Splits released rows by their coverage, which is valid during [`crate::TakeRows::take`].
    pub fn cover(&self, output: &EngineOutput, take: &mut dyn FnMut(EngineOutput, LaneCoverage)) {
        let batch = &output.batch;
        let column = |name| batch.schema().find(name).map(|id| batch.i64(id).values());
        let bounds = |row: usize| match (
            column("window_start"),
            column("window_end"),
            output.pipeline,
        ) {
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
            let part = EngineOutput {
                batch: batch.slice(from, to - from),
                ..output.clone()
            };
            let lateness_ns = output
                .pipeline
                .and_then(|pipeline| self.lateness_ns.get(pipeline))
                .copied();
            take(part, self.coverage(here, lateness_ns.unwrap_or(0)));
            from = to;
        }
    }

    /// Coverage of a period with an exclusive end. A lane's data for it are complete when its event time has advanced
    /// past the end by the lateness; an ended lane may have had more data.
    #[must_use]
    pub fn coverage(&self, (start, end): (Timestamp, Timestamp), lateness_ns: i64) -> LaneCoverage {
        let told_at = Timestamp(end.0.saturating_add(lateness_ns));
        let is_over = |lane: &CollectorLane| lane.state == LaneActivity::Finished;
        let is_expected = |lane: &CollectorLane| !is_over(lane) || lane.watermark >= start;
        let expected = self.iter().filter(|lane| is_expected(lane)).count();
        let missing = self
            .all
            .iter()
            .filter(|(_, lane)| !is_over(lane) && lane.watermark < told_at);
        LaneCoverage {
            expected,
            missing: missing.map(|(id, _)| *id).collect(),
        }
    }
}

//! A job over both taps of a flow: agents report the requests of each tap, which are joined here ([`stream::TapJoin`]).
//! The result counts as the report of another lane.
//!
//! Records of agents stay in the store until no later request can match theirs; each commit stores the position of the
//! emitted requests. So a restarted server reads the same records again and emits only what had not been emitted.
//! Clocks determine only how long a request waits: each record is corrected by the offset of its agent's clock as known
//! then, at the latest possible time, and a lane has advanced as far as is certain. So the uncertainty of clocks adds
//! to the patience.

use std::sync::Arc;

use collect::{CollectorLanes, LaneActivity, LaneId, ReportError, ReportPart, WorkerReport};
use link::LaneRecord;
use plan::Plan;
use planner::BothTaps;
use serde::{Deserialize, Serialize};
use stream::{
    EngineOutput, EngineSet, LossCount, OutputConsumer, TapCounts, TapJoin, TapRowsStatus,
};
use tuple::{Batch, common};
use wire::Timestamp;

use super::commit_queue::PendingRecord;
use super::lanes::LaneFacts;
use crate::job::JobId;
use crate::job::engine_config::engine_config;
use crate::store::sqlite::{FrameStore, LaneMark, NewFrame, StoreError};

/// Lane of the joined requests.
pub const JOINED: LaneId = LaneId(u64::MAX - 1);
/// Name of that lane in the store; differs from the names of agents' lanes.
const NAME: &str = "joined";
/// Records per read from the store.
const FRAMES: usize = 64;

/// Limits of a job's join.
#[derive(Clone, Copy, Debug)]
pub struct JoinLimits {
    /// Time for which a request waits for the other tap after all agents have passed its end.
    pub patience_ns: i64,
    /// Maximum memory of waiting requests, in bytes.
    pub bytes_max: usize,
}

/// Position of the join, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct JoinCheckpoint {
    seq: u64,
    /// Requests that ended before this were emitted.
    through_ns: i64,
    /// Time by the clocks of the taps up to which requests were emitted.
    watermark_ns: i64,
    joined: u64,
    client_only: u64,
    server_only: u64,
    unkept: u64,
}

/// Whether the joiner's state equals the stored one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JoinerState {
    AsStored,
    /// The joiner took records whose commit failed.
    Astray,
}

/// See the module documentation.
pub struct JobJoiner {
    job: JobId,
    /// Plan for the joined requests.
    plan: Arc<Plan>,
    /// Engines that decode agents' records.
    agents: EngineSet,
    /// Position of each lane, by the corrected clock.
    pub lanes: CollectorLanes,
    limits: JoinLimits,
    join: TapJoin,
    saved: JoinCheckpoint,
    held: JoinerState,
}

impl JobJoiner {
    /// Creates an empty join.
    pub fn new(job: JobId, both: &BothTaps, limits: JoinLimits, window_bytes: usize) -> JobJoiner {
        let dataflow = std::slice::from_ref(&both.agents.dataflow);
        JobJoiner {
            job,
            plan: both.joined.clone(),
            agents: EngineSet::new(dataflow, &engine_config(&both.agents, window_bytes)),
            lanes: CollectorLanes::default(),
            limits,
            join: TapJoin::new(limits.patience_ns, limits.bytes_max),
            saved: JoinCheckpoint {
                seq: 0,
                through_ns: i64::MIN,
                watermark_ns: i64::MIN,
                joined: 0,
                client_only: 0,
                server_only: 0,
                unkept: 0,
            },
            held: JoinerState::AsStored,
        }
    }

    /// Decodes a record.
    pub fn decode(&self, payload: &[u8]) -> Result<WorkerReport, ReportError> {
        WorkerReport::decode(payload, &self.agents)
    }

    /// Restores the committed state of an earlier process or joiner. Returns the number of unreadable records.
    pub fn go_on(&mut self, store: &FrameStore) -> Result<u64, StoreError> {
        let marks = store.lanes(self.job)?;
        let mark = marks.iter().find(|mark| mark.lane == NAME);
        if let Some(saved) = mark.and_then(|mark| serde_json::from_str(&mark.facts).ok()) {
            self.saved = saved;
        }
        let JoinCheckpoint {
            through_ns,
            joined,
            client_only,
            server_only,
            unkept,
            ..
        } = self.saved;
        let counts = TapCounts {
            joined,
            client_only,
            server_only,
            unkept,
        };
        let JoinLimits {
            patience_ns,
            bytes_max,
        } = self.limits;
        self.join = TapJoin::new(patience_ns, bytes_max).begin_at(through_ns, counts);
        let mut last = 0;
        let mut unreadable = 0;
        loop {
            let frames = store.read(self.job, last, FRAMES)?;
            let Some(newest) = frames.last() else { break };
            last = newest.id;
            for frame in frames.iter().filter(|frame| frame.of.lane.is_some()) {
                match self.read(&frame.of.payload) {
                    Some((ahead_ns, report)) => self.add(&report, ahead_ns, TapRowsStatus::Again),
                    None => unreadable += 1,
                }
            }
        }
        self.held = JoinerState::AsStored;
        Ok(unreadable)
    }

    /// Returns to the committed state after a failed commit.
    pub fn recover(&mut self, store: &FrameStore) -> Result<(), StoreError> {
        match self.held {
            JoinerState::AsStored => Ok(()),
            JoinerState::Astray => self.go_on(store).map(drop),
        }
    }

    /// Decodes a stored record: the clock offset of its agent, and its report.
    fn read(&self, kept: &[u8]) -> Option<(i64, WorkerReport)> {
        let (ahead, payload) = kept.split_first_chunk()?;
        Some((i64::from_le_bytes(*ahead), self.decode(payload).ok()?))
    }

    fn add(&mut self, report: &WorkerReport, ahead_ns: i64, taken: TapRowsStatus) {
        report
            .part
            .rows
            .iter()
            .for_each(|rows| self.join.take(rows, ahead_ns, taken));
    }

    /// Processes a record whose clock is ahead by at least `ahead_ns`; returns the frame to store, if any. Not durable
    /// until [`JobJoiner::committed`].
    pub fn take(&mut self, entry: &PendingRecord, ahead_ns: i64) -> Option<NewFrame> {
        let (LaneRecord::Data(data), Some(report)) = (&entry.record, &entry.report) else {
            return None;
        };
        let ends = |rows: &Batch| rows.i64(common::TS_END).values().iter().copied().max();
        let last = report.part.rows.iter().filter_map(ends).max()?;
        self.held = JoinerState::Astray;
        self.add(report, ahead_ns, TapRowsStatus::New);
        let payload = [&ahead_ns.to_le_bytes()[..], &data.payload].concat().into();
        let over_ns = last.saturating_sub(ahead_ns).saturating_add(1);
        Some(NewFrame {
            job: self.job,
            lane: Some(entry.key.text()),
            over_ns,
            payload,
        })
    }

    /// Requests that no longer wait, as a report; `None`: none, and no change. `ahead_ns`: clock offsets of the lanes
    /// that may send more.
    pub fn give(&mut self, ahead_ns: impl Iterator<Item = i64>) -> Option<WorkerReport> {
        let mut given = Vec::new();
        self.join
            .advance(self.lanes.watermark().0, &mut |batch| given.push(batch));
        if given.is_empty() && self.join.through_ns() == self.saved.through_ns {
            return None;
        }
        self.held = JoinerState::Astray;
        let behind = self
            .join
            .through_ns()
            .saturating_add(ahead_ns.min().unwrap_or(0));
        let watermark = behind.min(self.join.earliest_ns().unwrap_or(i64::MAX));
        Some(self.report(&given, watermark.max(self.saved.watermark_ns)))
    }

    /// All waiting requests.
    pub fn give_all(&mut self) -> WorkerReport {
        let mut given = Vec::new();
        self.join.finish(&mut |batch| given.push(batch));
        self.report(&given, self.saved.watermark_ns)
    }

    /// Applies the plan to joined requests, with an engine as on an agent.
    fn report(&self, given: &[Batch], watermark_ns: i64) -> WorkerReport {
        let mut part = ReportPart::default();
        if !given.is_empty() {
            let dataflow = std::slice::from_ref(&self.plan.dataflow);
            let mut engines =
                EngineSet::worker(dataflow, &engine_config(&self.plan, self.limits.bytes_max));
            let mut rows = JoinedRows(Vec::new());
            given
                .iter()
                .for_each(|batch| engines.push(0, batch, &mut rows));
            rows.0.into_iter().for_each(|batch| part.add_rows(batch));
            if !self.plan.dataflow.pipelines.is_empty() {
                part.add_windows(engines.detach_all());
            }
        }
        let watermark = Timestamp(watermark_ns);
        WorkerReport {
            epoch: 0,
            watermark,
            part,
            loss: LossCount::default(),
            lost: None,
            limited: None,
            open: None,
        }
    }

    /// Position after a report, for the store.
    pub fn mark(&self, watermark: Timestamp) -> LaneMark {
        let saved = self.now(watermark);
        let facts = serde_json::to_string(&saved).unwrap_or_default();
        LaneMark {
            job: self.job,
            lane: NAME.into(),
            seq: saved.seq,
            facts,
        }
    }

    fn now(&self, watermark: Timestamp) -> JoinCheckpoint {
        let TapCounts {
            joined,
            client_only,
            server_only,
            unkept,
        } = self.join.counts();
        JoinCheckpoint {
            seq: self.saved.seq + 1,
            through_ns: self.join.through_ns(),
            watermark_ns: watermark.0,
            joined,
            client_only,
            server_only,
            unkept,
        }
    }

    /// Notes that the records taken and the requests emitted are committed.
    pub fn committed(&mut self, watermark: Timestamp) {
        self.saved = self.now(watermark);
        self.held = JoinerState::AsStored;
    }

    /// Watermark of the committed requests.
    pub fn watermark(&self) -> Timestamp {
        Timestamp(self.saved.watermark_ns)
    }

    /// Records of agents that ended before this are no longer needed.
    pub fn over_ns(&self) -> i64 {
        self.join.over_ns()
    }

    /// Advances a lane, by its position minus the uncertainty of its clock.
    pub fn come_to(&mut self, lane: LaneId, state: LaneActivity, facts: &LaneFacts) {
        let most_ns = facts.ahead_ns.saturating_add(facts.uncertain_ns);
        self.lanes.set(lane, state);
        self.lanes
            .come_to(lane, Timestamp(facts.watermark_ns.saturating_sub(most_ns)));
    }

    /// Number of requests by tap.
    pub fn counts(&self) -> TapCounts {
        self.join.counts()
    }
}

struct JoinedRows(Vec<Batch>);

impl OutputConsumer for JoinedRows {
    fn take(&mut self, output: EngineOutput) {
        self.0.push(output.batch);
    }
}

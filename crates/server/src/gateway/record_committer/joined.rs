//! Commits the records of a job that joins the requests of two taps: the records, the joined requests, and the position
//! of the join in one transaction.

use collect::WorkerReport;
use stream::LossCount;
use wire::Timestamp;

use super::{AgentClocks, CommittedRecords, RecordCommitter};
use crate::gateway::commit_queue::PendingRecord;
use crate::gateway::job_input::JobInput;
use crate::gateway::job_runtime::{JobResults, JobRuntime, UnpublishedRows};
use crate::gateway::job_runtimes::{JobRuntimes, Marks};
use crate::gateway::lanes::{LaneEnd, mark};
use crate::gateway::tuple_results::EmitTime;
use crate::job::JobId;
use crate::job::counters::GatewayStage;
use crate::results::hub::WindowState;
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{CommitProgress, FrameStore, JoinedFrames, NewFrame, StoreError};

/// Changes committed in one transaction.
struct JoinedCommit {
    joined: JoinedFrames,
    /// Tuples that are rows.
    rows: Vec<UnpublishedRows>,
    /// Joined requests.
    emitted: Option<WorkerReport>,
    /// Watermark after them.
    watermark: Timestamp,
    /// Size of the tuples in bytes.
    bytes: usize,
}

impl RecordCommitter {
    /// Commits the records of a job over both taps, if any, and the requests that no longer wait. `None`: no change.
    ///
    /// # Errors
    /// `PersistError` when they cannot be stored.
    pub fn commit_joined(
        &mut self,
        job: JobId,
        entries: Vec<PendingRecord>,
        clocks: AgentClocks,
        jobs: &mut JobRuntimes,
    ) -> Result<Option<CommittedRecords>, PersistError> {
        // With a wrong clock offset, its requests would never match. The first round trip is part of the session's
        // start.
        let (entries, early): (Vec<PendingRecord>, Vec<PendingRecord>) = entries
            .into_iter()
            .partition(|entry| clocks.is_settled(&entry.key.agent));
        self.queue.extend(early);
        let marks = jobs.marks(&entries, &mut |_, _, _| {});
        let is_open = |runtime: &&mut JobRuntime| {
            runtime.input.joiner().is_some() && runtime.ending.is_none()
        };
        let Some(runtime) = jobs.get_mut(&job).filter(is_open) else {
            // The join has emitted everything.
            let unused = (!entries.is_empty()).then(|| CommittedRecords::of(entries));
            return Ok(unused);
        };
        let prepared = self.hub.meters.during(GatewayStage::Merge, || {
            join(runtime, &self.frames, &entries, marks, &clocks)
        });
        let stored = match prepared {
            Ok(None) => return Ok(None),
            Ok(Some(JoinedCommit {
                joined,
                rows,
                emitted,
                watermark,
                bytes,
            })) => self
                .store_joined(runtime, &rows, joined)
                .map(|()| (emitted, watermark, bytes)),
            Err(error) => Err(error.into()),
        };
        let (emitted, watermark, bytes) = match stored {
            Ok(stored) => stored,
            Err(error) => {
                self.take_back(runtime, entries);
                return Err(error);
            }
        };
        runtime.frames_bytes += bytes as u64;
        if let Some(joining) = runtime.input.joiner_mut() {
            joining.committed(watermark);
        }
        let is_direct = runtime.is_direct();
        if let Some(report) = emitted.filter(|_| !is_direct) {
            self.hub
                .meters
                .during(GatewayStage::Merge, || runtime.merge_joined(report));
        }
        Ok(Some(CommittedRecords {
            entries,
            clocks: Some(clocks),
        }))
    }

    fn store_joined(
        &self,
        runtime: &JobRuntime,
        rows: &[UnpublishedRows],
        joined: JoinedFrames,
    ) -> Result<(), PersistError> {
        let job = runtime.id;
        if runtime.is_direct() {
            let progress = CommitProgress {
                text: serde_json::to_string(&runtime.progress).unwrap_or_default(),
                watermark_ns: i64::MIN,
                joined: Some(joined),
                ..CommitProgress::default()
            };
            let deliveries: Vec<_> = rows
                .iter()
                .map(|rows| rows.delivery(job, WindowState::Closed))
                .collect();
            let commit = || self.hub.commit(job, &deliveries, &progress);
            return self.hub.meters.during_commit(commit);
        }
        let append = || self.frames.append_joined(job, &joined);
        Ok(self.hub.meters.during_commit(append)?)
    }
}

/// Joins new records; `None`: no records and no change.
fn join(
    runtime: &mut JobRuntime,
    store: &FrameStore,
    entries: &[PendingRecord],
    mut marks: Marks,
    clocks: &AgentClocks,
) -> Result<Option<JoinedCommit>, StoreError> {
    let JobRuntime {
        id: job,
        input: JobInput::BothTaps(joining),
        results,
        lanes,
        ..
    } = runtime
    else {
        return Ok(None);
    };
    joining.recover(store)?;
    let taken = entries
        .iter()
        .filter_map(|entry| joining.take(entry, clocks.least_ns(&entry.key.agent)));
    let mut frames: Vec<NewFrame> = taken.collect();
    let open = lanes
        .known
        .iter()
        .filter(|(_, known)| known.facts.end == LaneEnd::Open);
    let emitted = joining.give(open.map(|(key, _)| clocks.least_ns(&key.agent)));
    if entries.is_empty() && emitted.is_none() {
        return Ok(None);
    }
    let watermark = emitted
        .as_ref()
        .map_or(joining.watermark(), |report| report.watermark);
    let mut rows = Vec::new();
    let mut bytes = 0;
    if let Some(report) = emitted.as_ref().filter(|report| !report.part.is_empty()) {
        let over_ns = match results {
            JobResults::Tuples(tuples) if tuples.when == EmitTime::AtOnce => {
                let batches = tuples.take(report).into_iter();
                rows.extend(batches.map(|batch| UnpublishedRows::of_tuples(batch, watermark.0)));
                None
            }
            JobResults::Tuples(_) => Some(i64::MAX),
            JobResults::Windows(windows) => Some(windows.over_at(report, LossCount::default())),
        };
        frames.extend(over_ns.map(|over_ns| {
            let payload = report.encode();
            bytes = payload.len();
            NewFrame {
                job: *job,
                lane: None,
                over_ns,
                payload: payload.into(),
            }
        }));
    }
    for ((_, key), (_, facts)) in &mut marks {
        let offset = clocks.offset(&key.agent);
        facts.ahead_ns = offset.ns;
        facts.uncertain_ns = offset.uncertain_ns;
    }
    let mut marks: Vec<_> = marks
        .iter()
        .map(|((job, key), of)| mark(*job, key, of))
        .collect();
    marks.push(joining.mark(watermark));
    let joined = JoinedFrames {
        frames,
        marks,
        over_ns: joining.over_ns(),
    };
    Ok(Some(JoinedCommit {
        joined,
        rows,
        emitted,
        watermark,
        bytes,
    }))
}

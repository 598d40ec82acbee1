//! Commits the records of agents in groups, together with the positions of their lanes, and the completed rows of jobs.
//! After a failure, the records of a group are pending again. The stored records of a job are kept small.

mod joined;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use control::AgentPresence;
use link::{ClockOffset, LaneRecord};
use wire::Timestamp;

use super::commit_queue::{CommitQueue, PendingRecord};
use super::control_driver::ControlDriver;
use super::job_runtime::{JobResults, JobRuntime, UnpublishedRows};
use super::job_runtimes::JobRuntimes;
use super::lanes::{LaneFacts, LaneKey, mark};
use super::sessions::GatewaySessions;
use crate::job::JobId;
use crate::job::counters::GatewayStage;
use crate::results::hub::{ResultHub, WindowState};
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{
    CommitProgress, FrameStore, JoinedFrames, NewFrame, StoreError, now_ns,
};

/// Maximum offset of agents' results ahead of the server's clock, since they advance event time.
const AHEAD_MAX_NS: i64 = 3_600_000_000_000;

/// Minimum interval between stored positions of a job that advances.
const PROGRESS_EVERY_NS: u64 = 1_000_000_000;

/// See the module documentation.
pub struct RecordCommitter {
    queue: CommitQueue,
    frames: FrameStore,
    hub: Arc<ResultHub>,
    /// Minimum size at which stored records of a job are replaced by their partial result, in bytes.
    frames_bytes: u64,
}

/// Effect of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// Nothing was due.
    Unchanged,
    /// Rows and position are committed.
    Committed,
}

/// Pending records by the way in which they are committed.
#[derive(Default)]
pub struct RecordGroups {
    /// Stored until their windows are closed.
    pub stored: Vec<PendingRecord>,
    /// Rows, by job.
    pub rows: BTreeMap<JobId, Vec<PendingRecord>>,
    /// Requests of two taps, by job.
    pub joined: BTreeMap<JobId, Vec<PendingRecord>>,
    /// Records of joins that have emitted everything: acknowledged only.
    pub unused: Vec<PendingRecord>,
}

/// Committed records, to be acknowledged and merged.
#[derive(Default)]
pub struct CommittedRecords {
    pub entries: Vec<PendingRecord>,
    /// Clock offsets used by a join.
    pub clocks: Option<AgentClocks>,
}

impl CommittedRecords {
    /// Records that were not joined.
    pub fn of(entries: Vec<PendingRecord>) -> CommittedRecords {
        CommittedRecords {
            entries,
            clocks: None,
        }
    }
}

/// Clock offsets of a job's agents, and the agents for which windows no longer wait.
pub struct AgentClocks {
    offsets: BTreeMap<String, ClockOffset>,
    absent: Vec<String>,
}

impl AgentClocks {
    /// Offsets as measured, or as of the last committed records of the job.
    pub fn of(driver: &ControlDriver, runtime: Option<&JobRuntime>) -> AgentClocks {
        let lanes = runtime.into_iter().flat_map(|runtime| &runtime.lanes.known);
        let committed = lanes
            .filter(|(_, known)| known.seq > 0)
            .map(|(key, known)| {
                let LaneFacts {
                    ahead_ns: ns,
                    uncertain_ns,
                    ..
                } = known.facts;
                (key.agent.clone(), ClockOffset { ns, uncertain_ns })
            });
        let agents = || driver.control().agents();
        let measured = agents().filter_map(|(agent, _, offset)| Some((agent.to_owned(), offset?)));
        let absent = agents()
            .filter(|(_, presence, _)| matches!(presence, AgentPresence::Absent { .. }))
            .map(|(agent, ..)| agent.to_owned());
        AgentClocks {
            offsets: committed.chain(measured).collect(),
            absent: absent.collect(),
        }
    }

    /// Offset of an agent's clock; zero if unknown.
    pub fn offset(&self, agent: &str) -> ClockOffset {
        self.offsets.get(agent).copied().unwrap_or_default()
    }

    /// Lower bound of an agent's offset, in nanoseconds.
    fn least_ns(&self, agent: &str) -> i64 {
        let offset = self.offset(agent);
        offset.ns.saturating_sub(offset.uncertain_ns)
    }

    /// Whether the offset of an agent is known, or will not become known.
    fn is_settled(&self, agent: &str) -> bool {
        self.offsets.contains_key(agent) || self.absent.iter().any(|absent| absent == agent)
    }
}

impl RecordCommitter {
    /// A committer without pending records; `frames_bytes`: see [`super::GatewaySettings::frames_bytes`].
    pub fn new(frames: FrameStore, hub: Arc<ResultHub>, frames_bytes: u64) -> RecordCommitter {
        RecordCommitter {
            queue: CommitQueue::default(),
            frames,
            hub,
            frames_bytes,
        }
    }

    /// The pending records.
    pub fn queue(&mut self) -> &mut CommitQueue {
        &mut self.queue
    }

    /// The store of records.
    pub fn frames(&self) -> &FrameStore {
        &self.frames
    }

    /// Size of the pending records, in bytes.
    pub fn bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Time of arrival of the oldest pending record.
    pub fn since(&self) -> Option<Instant> {
        self.queue.since()
    }

    /// Decodes a record and adds it to the pending ones. A record of a removed job is acknowledged and dropped.
    pub fn receive(
        &mut self,
        session: u64,
        record: LaneRecord,
        sessions: &mut GatewaySessions,
        jobs: &JobRuntimes,
    ) {
        let lane = record.lane();
        let meters = &self.hub.meters;
        meters.records_received.add(1);
        if let LaneRecord::Data(data) = &record {
            meters.bytes_received.add(data.payload.len() as u64);
        }
        let runtime = jobs.get(&JobId(lane.job));
        let runtime = runtime.filter(|runtime| runtime.ending.is_none() && !runtime.is_full());
        let Some((runtime, from)) = runtime.zip(sessions.get(session)) else {
            meters.records_unclaimed.add(1);
            return sessions.acknowledge(session, lane, record.seq(), meters);
        };
        let latest = Timestamp(now_ns().saturating_add(AHEAD_MAX_NS));
        let report = match &record {
            LaneRecord::Lost(_) => None,
            LaneRecord::Data(data) => {
                match meters.during(GatewayStage::Decode, || runtime.decode(&data.payload)) {
                    Ok(mut report) => {
                        report.watermark = report.watermark.min(latest);
                        Some(report)
                    }
                    Err(why) => {
                        tracing::warn!("agent {} sends a {why} of job {}", from.agent, runtime.id);
                        None
                    }
                }
            }
        };
        self.queue.push(PendingRecord {
            session,
            job: runtime.id,
            key: LaneKey::of(&from.agent, lane),
            record,
            report,
        });
    }

    /// Removes and returns the pending records.
    pub fn take_groups(&mut self, jobs: &JobRuntimes) -> RecordGroups {
        let mut groups = RecordGroups::default();
        for entry in self.queue.take() {
            match jobs.get(&entry.job) {
                Some(runtime) if runtime.input.joiner().is_some() => match &runtime.ending {
                    Some(_) => groups.unused.push(entry),
                    None => groups.joined.entry(entry.job).or_default().push(entry),
                },
                Some(runtime) if runtime.is_direct() => {
                    groups.rows.entry(entry.job).or_default().push(entry)
                }
                _ => groups.stored.push(entry),
            }
        }
        groups
    }

    /// Appends records to the stored ones.
    ///
    /// # Errors
    /// `StoreError` when they cannot be stored.
    pub fn append(
        &mut self,
        entries: Vec<PendingRecord>,
        jobs: &mut JobRuntimes,
    ) -> Result<CommittedRecords, StoreError> {
        let mut frames = Vec::new();
        let marks = jobs.marks(&entries, &mut |entry, runtime, before| {
            let (LaneRecord::Data(data), Some(report)) = (&entry.record, &entry.report) else {
                return;
            };
            let over_ns = match &runtime.results {
                JobResults::Windows(windows) => windows.over_at(report, before.loss()),
                JobResults::Tuples(_) => i64::MAX,
            };
            if over_ns > runtime.progress.watermark_ns {
                frames.push(NewFrame {
                    job: entry.job,
                    lane: Some(entry.key.text()),
                    over_ns,
                    payload: data.payload.clone(),
                });
            }
        });
        let marks: Vec<_> = marks
            .iter()
            .map(|((job, key), of)| mark(*job, key, of))
            .collect();
        let begun = Instant::now();
        let appended = self
            .hub
            .meters
            .during(GatewayStage::Commit, || self.frames.append(&frames, &marks));
        if let Err(error) = appended {
            self.queue.extend(entries);
            return Err(error);
        }
        self.hub.meters.commits.record(begun.elapsed());
        for frame in &frames {
            if let Some(runtime) = jobs.get_mut(&frame.job) {
                runtime.frames_bytes += frame.payload.len() as u64;
            }
        }
        Ok(CommittedRecords::of(entries))
    }

    /// Commits tuples as rows of a job.
    ///
    /// # Errors
    /// `PersistError` when they cannot be stored.
    pub fn commit_rows(
        &mut self,
        job: JobId,
        entries: Vec<PendingRecord>,
        jobs: &mut JobRuntimes,
    ) -> Result<CommittedRecords, PersistError> {
        let marks = jobs.marks(&entries, &mut |_, _, _| {});
        let runtime = jobs.get_mut(&job).ok_or(PersistError::NoJob(job))?;
        let JobResults::Tuples(tuples) = &mut runtime.results else {
            return Ok(CommittedRecords::default());
        };
        let mut rows = Vec::new();
        for report in entries.iter().filter_map(|entry| entry.report.as_ref()) {
            let batches = tuples.take(report).into_iter();
            rows.extend(batches.map(|batch| UnpublishedRows::of_tuples(batch, report.watermark.0)));
        }
        let progress = CommitProgress {
            text: serde_json::to_string(&runtime.progress).unwrap_or_default(),
            watermark_ns: i64::MIN,
            marks: marks
                .iter()
                .map(|((job, key), of)| mark(*job, key, of))
                .collect(),
            ..CommitProgress::default()
        };
        let deliveries: Vec<_> = rows
            .iter()
            .map(|rows| rows.delivery(job, WindowState::Closed))
            .collect();
        let commit = || self.hub.commit(job, &deliveries, &progress);
        if let Err(error) = self.hub.meters.during_commit(commit) {
            self.take_back(runtime, entries);
            return Err(error);
        }
        Ok(CommittedRecords::of(entries))
    }

    /// Commits the completed rows of a job with its position.
    ///
    /// # Errors
    /// `PersistError` when they cannot be stored; they remain.
    pub fn publish(
        &self,
        runtime: &mut JobRuntime,
        now_ns: u64,
    ) -> Result<Publication, PersistError> {
        if runtime.is_direct() && runtime.ending.is_none() {
            return Ok(Publication::Unchanged);
        }
        self.hub
            .meters
            .during(GatewayStage::Merge, || runtime.note_progress());
        let is_news = runtime.published.as_ref() != Some(&runtime.progress);
        let is_due = now_ns.saturating_sub(runtime.published_at_ns) >= PROGRESS_EVERY_NS;
        let is_end = runtime.progress.watermark_ns == i64::MAX;
        if runtime.rows.is_empty() && !(is_news && (is_due || is_end)) {
            return Ok(Publication::Unchanged);
        }
        let progress = CommitProgress {
            text: serde_json::to_string(&runtime.progress).unwrap_or_default(),
            watermark_ns: runtime.progress.watermark_ns,
            marks: Vec::new(),
            lacking: runtime.lacking(),
            joined: runtime.input.joiner().map(|_| JoinedFrames {
                over_ns: i64::MIN,
                ..JoinedFrames::default()
            }),
        };
        let deliveries: Vec<_> = runtime
            .rows
            .iter()
            .map(|rows| rows.delivery(runtime.id, WindowState::Closed))
            .collect();
        // Sorted tuples stay until the end.
        let commit = || self.hub.commit(runtime.id, &deliveries, &progress);
        self.hub.meters.during_commit(commit)?;
        runtime.rows.clear();
        runtime.published = Some(runtime.progress.clone());
        runtime.published_at_ns = now_ns;
        Ok(Publication::Committed)
    }

    /// Shows the content of open windows if the job has watchers.
    pub fn show_open(&self, runtime: &mut JobRuntime) {
        let job = runtime.id;
        if !self.hub.is_watched(job) {
            return;
        }
        for rows in runtime.open_rows() {
            if let Err(error) = self.hub.publish(&rows.delivery(job, WindowState::Open)) {
                tracing::debug!("cannot show open rows of job {job}: {error}");
            }
        }
    }

    /// Replaces the stored records of a job by their partial result if there are many.
    ///
    /// # Errors
    /// `StoreError` when the partial result cannot be stored; the records remain.
    pub fn compact(&self, runtime: &mut JobRuntime) -> Result<(), StoreError> {
        if runtime.frames_bytes <= runtime.frames_bytes_max {
            return Ok(());
        }
        let which = runtime.frames_kept();
        let Ok(bytes) = self.frames.bytes(runtime.id, which) else {
            return Ok(());
        };
        runtime.frames_bytes = bytes;
        let JobResults::Windows(windows) = &runtime.results else {
            return Ok(());
        };
        if bytes <= runtime.frames_bytes_max {
            return Ok(());
        }
        let Some(records) = windows.in_short(bytes / 2) else {
            runtime.frames_bytes_max = bytes.saturating_mul(2);
            return Ok(());
        };
        let frame = |(over_ns, payload): (i64, Vec<u8>)| NewFrame {
            job: runtime.id,
            lane: None,
            over_ns,
            payload: payload.into(),
        };
        let frames: Vec<NewFrame> = records.into_iter().map(frame).collect();
        self.frames.replace(runtime.id, which, &frames)?;
        runtime.frames_bytes = frames.iter().map(|frame| frame.payload.len() as u64).sum();
        runtime.frames_bytes_max = self.frames_bytes.max(4 * runtime.frames_bytes);
        Ok(())
    }

    /// Makes uncommitted records of a job pending again.
    fn take_back(&mut self, runtime: &mut JobRuntime, entries: Vec<PendingRecord>) {
        if runtime.is_direct()
            && let (JobResults::Tuples(tuples), Ok(kept)) =
                (&mut runtime.results, self.hub.rows_kept(runtime.id, 0))
        {
            tuples.begin_at(kept);
        }
        self.queue.extend(entries);
    }
}

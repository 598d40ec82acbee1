//! Converts records to rows for jobs that join the requests of two taps: the records, the joined requests, and the
//! position of the join are committed in one transaction.

use std::collections::BTreeMap;
use std::time::Instant;

use collect::WorkerReport;
use control::{EndReason, ServerEvent};
use link::ClockOffset;
use stream::LossCount;
use wire::Timestamp;

use super::EventLoop;
use super::commit::commit_rows;
use crate::gateway::commit_queue::PendingRecord;
use crate::gateway::job_input::JobInput;
use crate::gateway::job_runtime::{JobResults, JobRuntime, UnpublishedRows};
use crate::gateway::job_runtimes::Marks;
use crate::gateway::lanes::{LaneEnd, LaneFacts, mark};
use crate::gateway::tuple_results::EmitTime;
use crate::job::JobId;
use crate::job::counters::GatewayStage;
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{CommitProgress, FrameStore, JoinedFrames, NewFrame, StoreError};

/// Changes committed in one transaction.
struct JoinedCommit {
    joined: JoinedFrames,
    /// Tuples that are rows.
    rows: Vec<UnpublishedRows>,
    /// Joined requests.
    given: Option<WorkerReport>,
    /// Watermark after them.
    watermark: Timestamp,
    /// Their size in bytes.
    bytes: usize,
}

impl EventLoop {
    /// Commits the records of a job over both taps, if any, and the requests that no longer wait.
    pub fn commit_joined(&mut self, job: JobId, entries: Vec<PendingRecord>) {
        let ahead = self.clocks(job);
        // With a wrong clock offset, its requests would never match. The first round trip is part of the session's
        // start.
        let is_measured = |entry: &PendingRecord| {
            ahead.contains_key(&entry.key.agent) || self.driver.is_absent(&entry.key.agent)
        };
        let (entries, early): (Vec<PendingRecord>, Vec<PendingRecord>) =
            entries.into_iter().partition(is_measured);
        early.into_iter().for_each(|entry| self.pending.push(entry));
        let marks = self.works.marks(&entries, &mut |_, _, _| {});
        let Some(work) = self
            .works
            .get_mut(&job)
            .filter(|work| work.input.joiner().is_some())
        else {
            return;
        };
        if work.ending.is_some() {
            // The join has emitted everything.
            return self.merge_committed(entries, |_, _, _| {});
        }
        let (store, is_direct) = (&self.frames, work.is_direct());
        let prepared = self.hub.meters.during(GatewayStage::Merge, || {
            together(work, store, &entries, (marks, &ahead))
        });
        let kept = match prepared {
            Ok(None) => return,
            Ok(Some(JoinedCommit {
                joined,
                rows,
                given,
                watermark,
                bytes,
            })) => self
                .keep_joined(job, (rows, joined))
                .map(|()| (given, watermark, bytes)),
            Err(error) => Err(error.into()),
        };
        let (given, watermark, bytes) = match kept {
            Ok(kept) => kept,
            Err(error) => return self.give_back(job, entries, &error),
        };
        self.store_works();
        let Some(work) = self.works.get_mut(&job) else {
            return;
        };
        work.frames_bytes += bytes as u64;
        if let Some(joining) = work.input.joiner_mut() {
            joining.committed(watermark);
        }
        if let Some(report) = given.filter(|_| !is_direct) {
            self.hub
                .meters
                .during(GatewayStage::Merge, || work.merge_joined(report));
        }
        self.merge_committed(entries, |work, entry, mut mark| {
            note(&mut mark.1, &ahead, &entry.key.agent);
            work.merge_record(&entry.key, entry.report, mark);
        });
        self.publish(job);
        if self.works.get(&job).is_some_and(JobRuntime::is_full) {
            self.decide(ServerEvent::Stop {
                job: job.0,
                why: EndReason::RowLimit,
            });
        }
    }

    fn keep_joined(
        &self,
        job: JobId,
        (rows, joined): (Vec<UnpublishedRows>, JoinedFrames),
    ) -> Result<(), PersistError> {
        let Some(work) = self.works.get(&job) else {
            return Err(PersistError::NoJob(job));
        };
        if work.is_direct() {
            let text = serde_json::to_string(&work.progress).unwrap_or_default();
            let (watermark_ns, joined) = (i64::MIN, Some(joined));
            return commit_rows(
                &self.hub,
                job,
                &rows,
                &CommitProgress {
                    text,
                    watermark_ns,
                    joined,
                    ..CommitProgress::default()
                },
            );
        }
        let begun = Instant::now();
        self.hub.meters.during(GatewayStage::Commit, || {
            self.frames.append_joined(job, &joined)
        })?;
        self.hub.meters.commits.record(begun.elapsed());
        Ok(())
    }

    /// Returns uncommitted records to the queue.
    fn give_back(&mut self, job: JobId, entries: Vec<PendingRecord>, error: &PersistError) {
        let kept = self.hub.rows_kept(job, 0);
        if let Some(work) = self.works.get_mut(&job).filter(|work| work.is_direct())
            && let (JobResults::Tuples(tuples), Ok(kept)) = (&mut work.results, kept)
        {
            tuples.begin_at(kept);
        }
        entries
            .into_iter()
            .for_each(|entry| self.pending.push(entry));
        self.unkept(job, error);
    }

    /// Clock offsets of agents: as measured, or as of the last committed records of the job.
    fn clocks(&self, job: JobId) -> Clocks {
        let committed = self
            .works
            .get(&job)
            .into_iter()
            .flat_map(|work| &work.lanes.known);
        let committed = committed
            .filter(|(_, known)| known.seq > 0)
            .map(|(key, known)| (key.agent.clone(), ahead_by(&known.facts)));
        let measured = self.driver.control().agents();
        let measured = measured.filter_map(|(agent, _, ahead)| Some((agent.to_owned(), ahead?)));
        committed.chain(measured).collect()
    }
}

type Clocks = BTreeMap<String, ClockOffset>;

/// Lower bound of a clock's offset.
fn least(clocks: &Clocks, agent: &str) -> i64 {
    clocks
        .get(agent)
        .map_or(0, |ahead| ahead.ns.saturating_sub(ahead.uncertain_ns))
}

/// Notes the clock offset in the state of a lane.
fn note(facts: &mut LaneFacts, clocks: &Clocks, agent: &str) {
    let ClockOffset { ns, uncertain_ns } = clocks.get(agent).copied().unwrap_or_default();
    (facts.ahead_ns, facts.uncertain_ns) = (ns, uncertain_ns);
}

fn ahead_by(facts: &LaneFacts) -> ClockOffset {
    ClockOffset {
        ns: facts.ahead_ns,
        uncertain_ns: facts.uncertain_ns,
    }
}

/// Joins new records; `None`: no records and no change.
fn together(
    work: &mut JobRuntime,
    store: &FrameStore,
    entries: &[PendingRecord],
    (mut marks, clocks): (Marks, &Clocks),
) -> Result<Option<JoinedCommit>, StoreError> {
    let JobRuntime {
        id: job,
        input: JobInput::BothTaps(joining),
        results,
        lanes,
        ..
    } = work
    else {
        return Ok(None);
    };
    joining.recover(store)?;
    let taken = entries
        .iter()
        .filter_map(|entry| joining.take(entry, least(clocks, &entry.key.agent)));
    let mut frames: Vec<NewFrame> = taken.collect();
    let open = lanes
        .known
        .iter()
        .filter(|(_, known)| known.facts.end == LaneEnd::Open);
    let given = joining.give(open.map(|(key, _)| least(clocks, &key.agent)));
    if entries.is_empty() && given.is_none() {
        return Ok(None);
    }
    let watermark = given
        .as_ref()
        .map_or(joining.watermark(), |report| report.watermark);
    let (mut rows, mut bytes) = (Vec::new(), 0);
    if let Some(report) = given.as_ref().filter(|report| !report.part.is_empty()) {
        let over_ns = match results {
            JobResults::Tuples(tuples) if tuples.when == EmitTime::AtOnce => {
                let row = |batch| UnpublishedRows {
                    result: 0,
                    batch,
                    watermark_ns: watermark.0,
                    missing: Vec::new(),
                };
                rows.extend(tuples.take(report).into_iter().map(row));
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
    marks
        .iter_mut()
        .for_each(|((_, key), (_, facts))| note(facts, clocks, &key.agent));
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
        given,
        watermark,
        bytes,
    }))
}

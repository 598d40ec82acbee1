//! Converts records to rows: records are committed in groups, acknowledged, and counted; completed rows are published.

use std::collections::BTreeMap;
use std::time::Instant;

use control::EndReason;
use link::LaneRecord;
use wire::Timestamp;

use super::EventLoop;
use crate::gateway::commit_queue::PendingRecord;
use crate::gateway::job_runtime::{JobResults, JobRuntime, UnpublishedRows};
use crate::gateway::lanes::{LaneFacts, LaneKey, mark};
use crate::job::counters::GatewayStage;
use crate::job::{JobId, JobState};
use crate::results::hub::{AgentCoverage, ResultDelivery, WindowState};
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{CommitProgress, JoinedFrames, NewFrame, StoreError, now_ns};

/// Minimum interval between stored positions of a job that advances.
const PROGRESS_EVERY_NS: u64 = 1_000_000_000;

/// Maximum offset of agents' results ahead of the server's clock, since they advance event time.
const AHEAD_MAX_NS: i64 = 3_600_000_000_000;

impl EventLoop {
    /// Handles a record.
    pub fn receive_record(&mut self, session: u64, record: LaneRecord) {
        let lane = record.lane();
        self.hub.meters.records_received.add(1);
        if let LaneRecord::Data(data) = &record {
            self.hub
                .meters
                .bytes_received
                .add(data.payload.len() as u64);
        }
        let work = self.works.get(&JobId(lane.job));
        let work = work.filter(|work| work.ending.is_none() && !work.is_full());
        let Some((work, from)) = work.zip(self.sessions.get(session)) else {
            // The job has been removed.
            self.hub.meters.records_unclaimed.add(1);
            self.sessions
                .acknowledge(session, lane, record.seq(), &self.hub.meters);
            return;
        };
        let meters = &self.hub.meters;
        let latest = Timestamp(now_ns().saturating_add(AHEAD_MAX_NS));
        let report = match &record {
            LaneRecord::Lost(_) => None,
            LaneRecord::Data(data) => {
                match meters.during(GatewayStage::Decode, || work.decode(&data.payload)) {
                    Ok(mut report) => {
                        report.watermark = report.watermark.min(latest);
                        Some(report)
                    }
                    Err(why) => {
                        tracing::warn!("agent {} sends a {why} of job {}", from.agent, work.id);
                        None
                    }
                }
            }
        };
        let (job, key) = (work.id, LaneKey::of(&from.agent, lane));
        self.pending.push(PendingRecord {
            session,
            job,
            key,
            record,
            report,
        });
        if self.pending.bytes() >= self.settings.commit_bytes {
            self.commit();
        }
    }

    /// Commits the pending records.
    pub fn commit(&mut self) {
        let since = self.pending.since();
        let entries = self.pending.take();
        if entries.is_empty() {
            return;
        }
        let mut kept = Vec::new();
        let [mut direct, mut joined]: [BTreeMap<JobId, Vec<PendingRecord>>; 2] = Default::default();
        for entry in entries {
            match self.works.get(&entry.job) {
                Some(work) if work.input.joiner().is_some() => {
                    joined.entry(entry.job).or_default().push(entry)
                }
                Some(work) if work.is_direct() => direct.entry(entry.job).or_default().push(entry),
                _ => kept.push(entry),
            }
        }
        self.append_records(kept);
        direct
            .into_iter()
            .for_each(|(job, entries)| self.commit_direct(job, entries));
        joined
            .into_iter()
            .for_each(|(job, entries)| self.commit_joined(job, entries));
        // After a failure they are pending again.
        if let (Some(since), None) = (since, self.pending.since()) {
            self.hub.meters.commit_delays.record(since.elapsed());
        }
    }

    /// Appends records to the stored ones.
    fn append_records(&mut self, entries: Vec<PendingRecord>) {
        let mut frames = Vec::new();
        let marks = self.works.marks(&entries, &mut |entry, work, before| {
            let (LaneRecord::Data(data), Some(report)) = (&entry.record, &entry.report) else {
                return;
            };
            let over_ns = match &work.results {
                JobResults::Windows(windows) => windows.over_at(report, before.loss()),
                JobResults::Tuples(_) => i64::MAX,
            };
            if over_ns > work.progress.watermark_ns {
                let (lane, payload) = (Some(entry.key.text()), data.payload.clone());
                frames.push(NewFrame {
                    job: entry.job,
                    lane,
                    over_ns,
                    payload,
                });
            }
        });
        let stored: Vec<_> = marks
            .iter()
            .map(|((job, key), of)| mark(*job, key, of))
            .collect();
        let begun = Instant::now();
        let kept = self.hub.meters.during(GatewayStage::Commit, || {
            self.frames.append(&frames, &stored)
        });
        if let Err(error) = kept {
            entries
                .into_iter()
                .for_each(|entry| self.pending.push(entry));
            return self.store_failed(&error);
        }
        self.hub.meters.commits.record(begun.elapsed());
        self.store_works();
        for frame in &frames {
            if let Some(work) = self.works.get_mut(&frame.job) {
                work.frames_bytes += frame.payload.len() as u64;
            }
        }
        self.merge_committed(entries, |work, entry, mark| {
            work.merge_record(&entry.key, entry.report, mark)
        });
    }

    /// Stores tuples that are rows, together with the positions of their lanes.
    fn commit_direct(&mut self, job: JobId, mut entries: Vec<PendingRecord>) {
        let marks = self.works.marks(&entries, &mut |_, _, _| {});
        let Some(work) = self.works.get_mut(&job) else {
            return;
        };
        let JobResults::Tuples(tuples) = &mut work.results else {
            return;
        };
        let mut rows = Vec::new();
        for report in entries.iter_mut().filter_map(|entry| entry.report.as_mut()) {
            let watermark_ns = report.watermark.0;
            let made = tuples.take(report).into_iter();
            rows.extend(made.map(|batch| UnpublishedRows {
                result: 0,
                batch,
                watermark_ns,
                missing: Vec::new(),
            }));
        }
        let progress = CommitProgress {
            text: serde_json::to_string(&work.progress).unwrap_or_default(),
            watermark_ns: i64::MIN,
            marks: marks
                .iter()
                .map(|((job, key), of)| mark(*job, key, of))
                .collect(),
            ..CommitProgress::default()
        };
        if let Err(error) = commit_rows(&self.hub, job, &rows, &progress) {
            if let Ok(kept) = self.hub.rows_kept(job, 0) {
                tuples.begin_at(kept);
            }
            entries
                .into_iter()
                .for_each(|entry| self.pending.push(entry));
            return self.unkept(job, &error);
        }
        self.store_works();
        self.merge_committed(entries, |work, entry, mark| {
            work.merge_record(&entry.key, None, mark)
        });
        if self.works.get(&job).is_some_and(JobRuntime::is_full) {
            self.decide(control::ServerEvent::Stop {
                job: job.0,
                why: EndReason::RowLimit,
            });
        }
    }

    /// Acknowledges committed records and merges them into results.
    pub fn merge_committed(
        &mut self,
        entries: Vec<PendingRecord>,
        take: impl Fn(&mut JobRuntime, PendingRecord, (u64, LaneFacts)),
    ) {
        let mut first = BTreeMap::new();
        let hub = self.hub.clone();
        for entry in entries {
            let (session, lane, seq) = (entry.session, entry.record.lane(), entry.record.seq());
            self.sessions
                .acknowledge(session, lane, seq, &self.hub.meters);
            hub.meters.records_committed.add(1);
            if let LaneRecord::Data(data) = &entry.record {
                hub.meters.bytes_committed.add(data.payload.len() as u64);
            }
            first.entry(entry.job).or_insert(lane);
            let Some(work) = self.works.get_mut(&entry.job) else {
                continue;
            };
            let mut mark = work.lanes.mark(&entry.key);
            mark.0 = seq;
            mark.1.take(
                &entry.record,
                entry
                    .report
                    .as_ref()
                    .map(|report| (report.watermark.0, report.loss)),
            );
            hub.meters
                .during(GatewayStage::Merge, || take(work, entry, mark));
        }
        for (job, lane) in first {
            self.settle_merged(job);
            self.publish(job);
            self.decide(control::ServerEvent::Committed { lane });
        }
        self.sessions
            .ids()
            .into_iter()
            .for_each(|session| self.pump(session));
    }

    /// Publishes the completed rows of a job; returns whether none remain.
    pub fn publish(&mut self, job: JobId) -> bool {
        let now_ns = self.now().monotonic_ns;
        let Some(work) = self.works.get_mut(&job) else {
            return true;
        };
        if work.is_direct() && work.ending.is_none() {
            return true;
        }
        self.hub
            .meters
            .during(GatewayStage::Merge, || work.note_progress());
        let is_news = work.published.as_ref() != Some(&work.progress);
        let is_due = now_ns.saturating_sub(work.published_at_ns) >= PROGRESS_EVERY_NS;
        let is_end = work.progress.watermark_ns == i64::MAX;
        if work.rows.is_empty() && !(is_news && (is_due || is_end)) {
            return !is_news || !is_end;
        }
        let progress = CommitProgress {
            text: serde_json::to_string(&work.progress).unwrap_or_default(),
            watermark_ns: work.progress.watermark_ns,
            marks: Vec::new(),
            lacking: work.lacking(),
            joined: work.input.joiner().map(|_| JoinedFrames {
                over_ns: i64::MIN,
                ..JoinedFrames::default()
            }),
        };
        // Sorted tuples stay until the end.
        if let Err(error) = commit_rows(&self.hub, job, &work.rows, &progress) {
            self.unkept(job, &error);
            return false;
        }
        work.rows.clear();
        work.published = Some(work.progress.clone());
        work.published_at_ns = now_ns;
        self.shorten(job);
        true
    }

    /// Publishes the content of open windows if the job has watchers.
    pub fn show_open(&mut self, job: JobId) {
        let Some(work) = self
            .works
            .get_mut(&job)
            .filter(|_| self.hub.is_watched(job))
        else {
            return;
        };
        for UnpublishedRows {
            result,
            batch,
            watermark_ns,
            missing,
        } in work.open_rows()
        {
            let coverage = AgentCoverage { missing };
            let (state, coverage) = (WindowState::Open, &coverage);
            let delivery = ResultDelivery {
                job,
                result,
                batch: &batch,
                state,
                watermark_ns,
                coverage,
            };
            if let Err(error) = self.hub.publish(&delivery) {
                tracing::debug!("cannot show open rows of job {job}: {error}");
            }
        }
    }

    /// Replaces the stored records of a job by their partial result if there are many.
    fn shorten(&mut self, job: JobId) {
        let Some(work) = self
            .works
            .get_mut(&job)
            .filter(|work| work.frames_bytes > work.frames_bytes_max)
        else {
            return;
        };
        let which = work.frames_kept();
        let Ok(bytes) = self.frames.bytes(job, which) else {
            return;
        };
        work.frames_bytes = bytes;
        let JobResults::Windows(windows) = &work.results else {
            return;
        };
        if bytes <= work.frames_bytes_max {
            return;
        }
        let records = windows.in_short(bytes / 2);
        let Some(records) = records else {
            work.frames_bytes_max = bytes.saturating_mul(2);
            return;
        };
        let frame = |(over_ns, payload): (i64, Vec<u8>)| NewFrame {
            job,
            lane: None,
            over_ns,
            payload: payload.into(),
        };
        let frames: Vec<NewFrame> = records.into_iter().map(frame).collect();
        match self.frames.replace(job, which, &frames) {
            Ok(()) => {
                work.frames_bytes = frames.iter().map(|frame| frame.payload.len() as u64).sum();
                work.frames_bytes_max = self.settings.frames_bytes.max(4 * work.frames_bytes);
            }
            Err(error) => self.store_failed(&error),
        }
    }

    /// Publishes the last rows of ended jobs, and their end.
    pub fn end_jobs(&mut self) {
        let ending = self
            .works
            .values()
            .filter_map(|work| Some((work.id, work.ending.clone()?)));
        for (job, mut end) in ending.collect::<Vec<_>>() {
            if !self.is_copied_no_more(job, &mut end) || !self.is_read(job, &mut end) {
                continue;
            }
            if let Some(work) = self.works.get_mut(&job) {
                work.end();
            }
            if !self.publish(job) {
                continue;
            }
            self.account(job);
            if let Err(error) = self.hub.turn(job, JobState::Ended(end), None) {
                self.unkept(job, &error);
                continue;
            }
            self.works.remove(&job);
            self.driver.forget(job);
        }
    }

    /// Handles a failure to store rows.
    pub fn unkept(&mut self, job: JobId, error: &PersistError) {
        match error {
            PersistError::Store(error) => self.store_failed(error),
            PersistError::NoJob(_) => {
                self.works.remove(&job);
                let why = EndReason::Stopped { by: String::new() };
                self.decide(control::ServerEvent::Stop { job: job.0, why });
            }
            error => {
                tracing::warn!("cannot store rows of job {job}: {error}");
                self.store_failed(&StoreError::Full);
            }
        }
    }
}

/// Commits rows with the position of the job.
pub fn commit_rows(
    hub: &crate::results::hub::ResultHub,
    job: JobId,
    rows: &[UnpublishedRows],
    progress: &CommitProgress,
) -> Result<(), PersistError> {
    let coverages: Vec<AgentCoverage> = rows
        .iter()
        .map(|row| AgentCoverage {
            missing: row.missing.clone(),
        })
        .collect();
    let delivery = |(row, coverage)| {
        let UnpublishedRows {
            result,
            batch,
            watermark_ns,
            ..
        }: &UnpublishedRows = row;
        let state = WindowState::Closed;
        ResultDelivery {
            job,
            result: *result,
            batch,
            state,
            watermark_ns: *watermark_ns,
            coverage,
        }
    };
    let deliveries: Vec<ResultDelivery<'_>> = rows.iter().zip(&coverages).map(delivery).collect();
    let begun = Instant::now();
    hub.meters.during(GatewayStage::Commit, || {
        hub.commit(job, &deliveries, Some(progress))
    })?;
    hub.meters.commits.record(begun.elapsed());
    Ok(())
}

//! Commits records, acknowledges and merges them, and publishes completed rows.

use std::collections::BTreeMap;
use std::time::Duration;

use control::{EndReason, ServerEvent};
use link::LaneRecord;

use super::EventLoop;
use crate::gateway::commit_queue::PendingRecord;
use crate::gateway::job_runtime::JobRuntime;
use crate::gateway::record_committer::{AgentClocks, CommittedRecords, Publication};
use crate::job::JobId;
use crate::job::counters::GatewayStage;
use crate::store::persist_error::PersistError;

impl EventLoop {
    /// Commits the pending records.
    pub fn commit(&mut self) {
        let Some(since) = self.committer.since() else {
            return;
        };
        let groups = self.committer.take_groups(&self.jobs);
        match self.committer.append(groups.stored, &mut self.jobs) {
            Ok(committed) => {
                self.store_works();
                self.merge(committed);
            }
            Err(error) => self.store_failed(&error.into()),
        }
        for (job, entries) in groups.rows {
            match self.committer.commit_rows(job, entries, &mut self.jobs) {
                Ok(committed) => {
                    self.store_works();
                    self.merge(committed);
                    self.stop_if_full(job);
                }
                Err(error) => self.persist_failed(job, &error),
            }
        }
        for (job, entries) in groups.joined {
            self.commit_joined(job, entries);
        }
        self.merge(CommittedRecords::of(groups.unused));
        // After a failure they are pending again.
        if self.committer.since().is_none() {
            self.hub.meters.commit_delays.record(since.elapsed());
        }
    }

    /// Commits the records of a job over both taps, if any, and the requests that no longer wait.
    pub fn commit_joined(&mut self, job: JobId, entries: Vec<PendingRecord>) {
        let clocks = AgentClocks::of(&self.driver, self.jobs.get(&job));
        match self
            .committer
            .commit_joined(job, entries, clocks, &mut self.jobs)
        {
            Ok(None) => {}
            Ok(Some(committed)) => {
                self.store_works();
                self.merge(committed);
                self.publish(job);
                self.stop_if_full(job);
            }
            Err(error) => self.persist_failed(job, &error),
        }
    }

    /// Acknowledges committed records and merges them into results.
    fn merge(&mut self, committed: CommittedRecords) {
        let CommittedRecords { entries, clocks } = committed;
        let mut lanes = BTreeMap::new();
        for entry in entries {
            let lane = entry.record.lane();
            let seq = entry.record.seq();
            let meters = &self.hub.meters;
            self.sessions.acknowledge(entry.session, lane, seq, meters);
            meters.records_committed.add(1);
            if let LaneRecord::Data(data) = &entry.record {
                meters.bytes_committed.add(data.payload.len() as u64);
            }
            lanes.entry(entry.job).or_insert(lane);
            if let Some(runtime) = self.jobs.get_mut(&entry.job) {
                let clock = clocks
                    .as_ref()
                    .map(|clocks| clocks.offset(&entry.key.agent));
                meters.during(GatewayStage::Merge, || runtime.merge_record(entry, clock));
            }
        }
        for (job, lane) in lanes {
            self.settle_merged(job);
            self.publish(job);
            self.decide(ServerEvent::Committed { lane });
        }
        self.sessions.pump_all();
    }

    /// Publishes the merged rows of a job that are ready.
    pub fn settle_merged(&mut self, job: JobId) {
        let patience = Duration::from_nanos(self.settings.first_report_ns);
        let runtime = self.jobs.get_mut(&job);
        let is_ready = runtime.is_some_and(|runtime| runtime.take_ready_rows(patience));
        if is_ready
            && self.publish(job)
            && let Some(runtime) = self.jobs.get_mut(&job)
            && let Some(reading) = runtime.input.reader_mut()
        {
            reading.kept();
        }
    }

    /// Publishes the completed rows of a job; returns whether none remain.
    pub fn publish(&mut self, job: JobId) -> bool {
        let now_ns = self.now().monotonic_ns;
        let Some(runtime) = self.jobs.get_mut(&job) else {
            return true;
        };
        match self.committer.publish(runtime, now_ns) {
            Ok(Publication::Unchanged) => true,
            Ok(Publication::Committed) => {
                if let Err(error) = self.committer.compact(runtime) {
                    self.store_failed(&error.into());
                }
                true
            }
            Err(error) => {
                self.persist_failed(job, &error);
                false
            }
        }
    }

    /// Ends a job that has reached LIMIT … ROWS.
    fn stop_if_full(&mut self, job: JobId) {
        if self.jobs.get(&job).is_some_and(JobRuntime::is_full) {
            self.decide_stop(job, EndReason::RowLimit);
        }
    }

    /// Handles a failure to store rows.
    pub fn persist_failed(&mut self, job: JobId, error: &PersistError) {
        match error {
            PersistError::NoJob(_) => {
                self.jobs.remove(&job);
                self.decide_stop(job, EndReason::Stopped { by: String::new() });
            }
            error => self.store_failed(error),
        }
    }
}

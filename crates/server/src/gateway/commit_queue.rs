//! Records received but not committed.

use std::time::Instant;

use collect::WorkerReport;
use link::LaneRecord;

use super::lanes::LaneKey;
use crate::job::JobId;

/// A received record.
pub struct PendingRecord {
    /// Session on which it arrived.
    pub session: u64,
    /// Job.
    pub job: JobId,
    /// Lane.
    pub key: LaneKey,
    /// Record.
    pub record: LaneRecord,
    /// The decoded report; `None`: empty or unreadable.
    pub report: Option<WorkerReport>,
}

/// Queue of received records.
#[derive(Default)]
pub struct CommitQueue {
    entries: Vec<PendingRecord>,
    bytes: usize,
    since: Option<Instant>,
}

impl CommitQueue {
    /// Appends a record.
    pub fn push(&mut self, entry: PendingRecord) {
        self.bytes += bytes_of(&entry.record);
        self.since.get_or_insert_with(Instant::now);
        self.entries.push(entry);
    }

    /// Removes and returns all records.
    pub fn take(&mut self) -> Vec<PendingRecord> {
        (self.bytes, self.since) = (0, None);
        std::mem::take(&mut self.entries)
    }

    /// Drops all records of an agent.
    pub fn forget(&mut self, agent: &str) {
        let entries = self.take();
        entries.into_iter().filter(|entry| entry.key.agent != agent).for_each(|entry| self.push(entry));
    }

    /// Size of the queue in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Time of arrival of the oldest record.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }
}

fn bytes_of(record: &LaneRecord) -> usize {
    match record {
        LaneRecord::Data(data) => data.payload.len(),
        LaneRecord::Lost(_) => 0,
    }
}

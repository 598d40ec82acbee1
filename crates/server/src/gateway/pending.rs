//! Records that have come and are not committed yet.

use std::time::Instant;

use collect::Report;
use link::Record;

use super::lanes::Key;
use crate::job::JobId;

/// A record that is not committed yet.
pub struct Entry {
    /// Whence.
    pub session: u64,
    /// Of which job.
    pub job: JobId,
    /// Of which lane.
    pub key: Key,
    /// The record.
    pub record: Record,
    /// The decoded report; `None`: empty or unreadable.
    pub report: Option<Report>,
}

/// Records that are not committed yet.
#[derive(Default)]
pub struct Pending {
    entries: Vec<Entry>,
    bytes: usize,
    since: Option<Instant>,
}

impl Pending {
    /// Adds one.
    pub fn push(&mut self, entry: Entry) {
        self.bytes += bytes_of(&entry.record);
        self.since.get_or_insert_with(Instant::now);
        self.entries.push(entry);
    }

    /// All of them.
    pub fn take(&mut self) -> Vec<Entry> {
        (self.bytes, self.since) = (0, None);
        std::mem::take(&mut self.entries)
    }

    /// Nothing that came by another session of an agent will be committed any more.
    pub fn forget(&mut self, agent: &str) {
        let entries = self.take();
        entries.into_iter().filter(|entry| entry.key.agent != agent).for_each(|entry| self.push(entry));
    }

    /// How much waits.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Since when the oldest waits.
    pub fn since(&self) -> Option<Instant> {
        self.since
    }
}

fn bytes_of(record: &Record) -> usize {
    match record {
        Record::Data(data) => data.payload.len(),
        Record::Lost(_) => 0,
    }
}

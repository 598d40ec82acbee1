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

    /// Appends records.
    pub fn extend(&mut self, entries: Vec<PendingRecord>) {
        entries.into_iter().for_each(|entry| self.push(entry));
    }

    /// Removes and returns all records.
    pub fn take(&mut self) -> Vec<PendingRecord> {
        self.bytes = 0;
        self.since = None;
        std::mem::take(&mut self.entries)
    }

    /// Drops all records of an agent.
    pub fn forget(&mut self, agent: &str) {
        let entries = self.take();
        entries
            .into_iter()
            .filter(|entry| entry.key.agent != agent)
            .for_each(|entry| self.push(entry));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of an agent with this number of bytes, and its sequence number.
    fn pending(agent: &str, seq: u64, bytes: usize) -> PendingRecord {
        let payload = vec![0; bytes].into();
        let data = link::DataRecord {
            seq,
            payload,
            ..link::DataRecord::default()
        };
        let key = LaneKey {
            agent: agent.into(),
            boot: 1,
            attempt: 1,
        };
        PendingRecord {
            session: 1,
            job: JobId(7),
            key,
            record: LaneRecord::Data(data),
            report: None,
        }
    }

    fn seqs(queue: &mut CommitQueue) -> Vec<u64> {
        queue
            .take()
            .iter()
            .map(|entry| entry.record.seq())
            .collect()
    }

    #[test]
    fn records_are_taken_in_order_with_their_bytes() {
        let mut queue = CommitQueue::default();
        assert!(queue.since().is_none());
        queue.push(pending("a", 1, 10));
        let since = queue.since();
        queue.push(pending("b", 2, 5));
        assert_eq!(
            (queue.bytes(), queue.since()),
            (15, since),
            "the time of the oldest record"
        );
        assert_eq!(seqs(&mut queue), [1, 2]);
        assert_eq!((queue.bytes(), queue.since()), (0, None));
    }

    #[test]
    fn records_of_an_agent_are_dropped() {
        let mut queue = CommitQueue::default();
        [("a", 1, 10), ("b", 2, 5), ("a", 3, 7), ("ab", 4, 1)]
            .into_iter()
            .for_each(|(agent, seq, bytes)| queue.push(pending(agent, seq, bytes)));
        queue.forget("a");
        assert_eq!(queue.bytes(), 6);
        assert_eq!(seqs(&mut queue), [2, 4]);
        queue.push(pending("a", 5, 1));
        queue.forget("a");
        assert_eq!((queue.bytes(), queue.since()), (0, None));
    }

    #[test]
    fn lost_records_have_no_bytes() {
        let mut queue = CommitQueue::default();
        let lost = link::LostRecords {
            first: 1,
            last: 9,
            ..Default::default()
        };
        queue.push(PendingRecord {
            record: LaneRecord::Lost(lost),
            ..pending("a", 0, 0)
        });
        assert_eq!((queue.bytes(), queue.since().is_some()), (0, true));
    }
}

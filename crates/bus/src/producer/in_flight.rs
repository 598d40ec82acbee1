//! Unacknowledged records: their memory, the age of the oldest, and the end of the acknowledged part of the partition.
//! Pure: times are arguments.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Overhead of a waiting record.
pub const OVERHEAD: u64 = 256;

/// Resolution of wait times.
const GRAIN: Duration = Duration::from_millis(10);
/// Maximum stored times, however long brokers are unreachable.
const MARKS_MAX: usize = 1024;

/// A counter with a single writer and any readers.
#[derive(Debug, Default)]
pub struct SingleWriterSum(AtomicU64);

impl SingleWriterSum {
    /// Not `fetch_add`, which takes as long as the rest of a record's handling.
    pub fn add(&self, more: u64) {
        self.0
            .store(self.read().wrapping_add(more), Ordering::Release);
    }

    /// The count; the caller also sees all writes made before it was stored.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Counts acknowledged records. On its own cache line: another thread sends records at the same time.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct AcknowledgedCounts {
    pub records: SingleWriterSum,
    pub bytes: SingleWriterSum,
}

impl AcknowledgedCounts {
    /// Adds a record.
    pub fn add(&self, bytes: u64) {
        self.records.add(1);
        self.bytes.add(bytes);
    }
}

/// Memory of waiting records of all targets.
#[derive(Debug, Default)]
pub struct InFlightMemory {
    /// Bytes of all sent records.
    handed: CacheAligned<AtomicU64>,
    /// Bytes of acknowledged and rejected records.
    settled: CacheAligned<SingleWriterSum>,
}

/// A value on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CacheAligned<T>(T);

impl InFlightMemory {
    /// Reserves space for records of `payload` bytes in total, within `bytes_max`. A single record always has space.
    pub fn reserve(&self, records: usize, payload: usize, bytes_max: u64) -> bool {
        let bytes = taken(records, payload);
        // Read first: records settled later count as waiting.
        let settled = self.settled.0.read();
        let before = self
            .handed
            .0
            .fetch_add(bytes, Ordering::Relaxed)
            .wrapping_sub(settled);
        let fits = (before == 0 && records == 1) || before + bytes <= bytes_max;
        if !fits {
            self.handed.0.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Releases the reservation of records that were rejected immediately.
    pub fn take_back(&self, records: usize, payload: usize) {
        self.handed
            .0
            .fetch_sub(taken(records, payload), Ordering::Relaxed);
    }

    /// Notes the acknowledgment or failure of a record.
    pub fn settle(&self, payload: usize) {
        self.settled.0.add(taken(1, payload));
    }

    /// Bytes of waiting records.
    pub fn bytes(&self) -> u64 {
        let settled = self.settled.0.read();
        self.handed.0.load(Ordering::Relaxed).wrapping_sub(settled)
    }
}

/// Bytes of these records with overhead.
pub fn taken(records: usize, payload: usize) -> u64 {
    payload as u64 + records as u64 * OVERHEAD
}

/// Records of one target, acknowledged in sending order.
#[derive(Debug, Default)]
pub struct TargetQueue {
    /// Whether records go to several partitions by their keys, so that offsets are meaningless.
    by_key: bool,
    handed: Mutex<HandedMarks>,
    settled: SettledCounts,
}

/// Written by one thread only.
#[derive(Debug, Default)]
#[repr(align(128))]
struct SettledCounts {
    /// Records acknowledged or failed.
    count: SingleWriterSum,
    /// Offset after the last acknowledged record; 0: none.
    end: AtomicI64,
}

impl TargetQueue {
    /// For one partition, or for partitions by the records' keys.
    pub fn new(by_key: bool) -> TargetQueue {
        TargetQueue {
            by_key,
            ..TargetQueue::default()
        }
    }

    /// Notes that this number of records was sent.
    pub fn hand_over(&self, records: usize, now: Duration) {
        let mut handed = self.handed.lock().unwrap_or_else(|e| e.into_inner());
        let settled = self.settled.count.read();
        if handed
            .marks
            .back()
            .is_none_or(|(_, last)| now >= *last + GRAIN)
        {
            handed.forget(settled);
            if handed.marks.len() < MARKS_MAX {
                let first = handed.count;
                handed.marks.push_back((first, now));
            }
        }
        handed.count += records as u64;
    }

    /// Notes the acknowledgment or failure of the next record.
    pub fn settle(&self) {
        self.settled.count.add(1);
    }

    /// Notes the offset of an acknowledged record; returns whether it follows the previous ones. If not, the topic was
    /// recreated in between. A negative offset is unknown: the broker had the record already, from an attempt whose
    /// response was lost.
    pub fn written(&self, offset: i64) -> bool {
        if self.by_key || offset < 0 {
            return true;
        }
        let end = self.settled.end.load(Ordering::Relaxed);
        self.settled
            .end
            .store(end.max(offset.saturating_add(1)), Ordering::Relaxed);
        end <= offset
    }

    /// Offset after the last acknowledged record.
    pub fn end(&self) -> Option<i64> {
        Some(self.settled.end.load(Ordering::Relaxed)).filter(|end| *end > 0)
    }

    /// Removes this number of records sent last, which were rejected immediately.
    pub fn take_back(&self, records: usize) {
        self.handed.lock().unwrap_or_else(|e| e.into_inner()).count -= records as u64;
    }

    /// Number of waiting records, and the send time of the oldest.
    pub fn waiting(&self) -> (u64, Option<Duration>) {
        let mut handed = self.handed.lock().unwrap_or_else(|e| e.into_inner());
        let settled = self.settled.count.read().min(handed.count);
        handed.forget(settled);
        let since = handed.marks.front().map(|(_, at)| *at);
        let count = handed.count - settled;
        (count, since.filter(|_| count > 0))
    }
}

#[derive(Debug, Default)]
struct HandedMarks {
    count: u64,
    /// First record sent at or after each time.
    marks: VecDeque<(u64, Duration)>,
}

impl HandedMarks {
    /// Drops marks before that of the oldest record.
    fn forget(&mut self, settled: u64) {
        while self
            .marks
            .get(1)
            .is_some_and(|(first, _)| *first <= settled)
        {
            self.marks.pop_front();
        }
        if settled == self.count {
            self.marks.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn the_oldest_is_known_by_its_time() {
        let queue = TargetQueue::default();
        assert_eq!(queue.waiting(), (0, None));
        for time in [0, 5, 20, 40] {
            queue.hand_over(1, at(time));
        }
        assert_eq!(queue.waiting(), (4, Some(at(0))));
        queue.settle();
        // Sent at 5, which the resolution does not distinguish from 0.
        assert_eq!(queue.waiting(), (3, Some(at(0))));
        queue.settle();
        assert_eq!(queue.waiting(), (2, Some(at(20))));
        queue.settle();
        assert_eq!(queue.waiting(), (1, Some(at(40))));
        queue.settle();
        assert_eq!(queue.waiting(), (0, None));
        queue.hand_over(1, at(100));
        assert_eq!(queue.waiting(), (1, Some(at(100))));
        queue.take_back(1);
        assert_eq!(queue.waiting(), (0, None));
    }

    #[test]
    fn the_end_is_that_of_the_last_acknowledged() {
        let queue = TargetQueue::default();
        assert_eq!(queue.end(), None);
        for (offset, expected) in [(0, 1), (7, 8), (6, 8)] {
            assert_eq!(queue.written(offset), offset != 6);
            assert_eq!(queue.end(), Some(expected));
        }
        // The broker had the record already, and does not return its offset.
        assert!(queue.written(-1001));
        assert_eq!(queue.end(), Some(8));
    }

    #[test]
    fn offsets_of_several_partitions_are_not_comparable() {
        let queue = TargetQueue::new(true);
        assert!(queue.written(7) && queue.written(3));
        assert_eq!(queue.end(), None);
    }

    #[test]
    fn times_are_bounded_and_err_on_the_old_side() {
        let queue = TargetQueue::default();
        let all = 3 * MARKS_MAX as u64;
        (0..all).for_each(|i| queue.hand_over(1, at(10 * i)));
        (1..all).for_each(|_| queue.settle());
        let (count, since) = queue.waiting();
        assert_eq!(count, 1);
        assert!(
            since.is_some_and(|since| since <= at(10 * all)),
            "{since:?}"
        );
    }

    #[test]
    fn memory_is_bounded_and_a_large_record_finds_room_alone() {
        let memory = InFlightMemory::default();
        assert!(memory.reserve(1, 5000, 1000));
        assert!(!memory.reserve(1, 1, 1000));
        memory.settle(5000);
        assert!(memory.reserve(1, 100, 1000) && memory.reserve(1, 100, 1000));
        assert!(!memory.reserve(1, 100, 1000));
        assert_eq!(memory.bytes(), 2 * (100 + OVERHEAD));
    }
}

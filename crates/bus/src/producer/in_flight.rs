//! What was handed over and is not acknowledged yet: how much memory it takes, and since when the oldest of it waits; and where in
//! the partition the acknowledged ends. Pure: times are arguments.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Overhead of a waiting record.
pub const OVERHEAD: u64 = 256;

/// Resolution of wait times.
const GRAIN: Duration = Duration::from_millis(10);
/// No more times are kept than this, however long brokers are away.
const MARKS_MAX: usize = 1024;

/// A sum to which one thread alone adds, and which any may read.
#[derive(Debug, Default)]
pub struct Tally(AtomicU64);

impl Tally {
    /// Not by `fetch_add`, which takes as long as all else that is done for a record.
    pub fn add(&self, more: u64) {
        self.0.store(self.read().wrapping_add(more), Ordering::Release);
    }

    /// Who reads it sees also what was done before.
    pub fn read(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// Records that brokers have acknowledged. On a cache line of its own: one thread counts here while another hands over.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Acknowledged {
    pub records: Tally,
    pub bytes: Tally,
}

impl Acknowledged {
    /// One more.
    pub fn add(&self, bytes: u64) {
        self.records.add(1);
        self.bytes.add(bytes);
    }
}

/// Memory of records that wait, of all targets.
#[derive(Debug, Default)]
pub struct Memory {
    /// Of all that were handed over.
    handed: Apart<AtomicU64>,
    /// Of those of them that wait no more.
    settled: Apart<Tally>,
}

/// On cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl Memory {
    /// Reserves room for records of `payload` bytes in total, within `bytes_max`. A single record always has room.
    pub fn reserve(&self, records: usize, payload: usize, bytes_max: u64) -> bool {
        let bytes = taken(records, payload);
        // First: what is settled later counts as waiting.
        let settled = self.settled.0.read();
        let before = self.handed.0.fetch_add(bytes, Ordering::Relaxed).wrapping_sub(settled);
        let fits = (before == 0 && records == 1) || before + bytes <= bytes_max;
        if !fits {
            self.handed.0.fetch_sub(bytes, Ordering::Relaxed);
        }
        fits
    }

    /// Records for which there was room were refused on the spot.
    pub fn take_back(&self, records: usize, payload: usize) {
        self.handed.0.fetch_sub(taken(records, payload), Ordering::Relaxed);
    }

    /// A record is acknowledged, or given up.
    pub fn settle(&self, payload: usize) {
        self.settled.0.add(taken(1, payload));
    }

    /// What waits takes.
    pub fn bytes(&self) -> u64 {
        let settled = self.settled.0.read();
        self.handed.0.load(Ordering::Relaxed).wrapping_sub(settled)
    }
}

/// What records take while they wait.
pub fn taken(records: usize, payload: usize) -> u64 {
    payload as u64 + records as u64 * OVERHEAD
}

/// One target's records, which are acknowledged in the order in which they were handed over.
#[derive(Debug, Default)]
pub struct Queue {
    /// They go to several partitions, by their keys: their offsets say nothing.
    by_key: bool,
    handed: Mutex<Handed>,
    settled: Settled,
}

/// Only one thread writes here.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Settled {
    /// Records acknowledged, or given up.
    count: Tally,
    /// The offset behind the last record that was acknowledged; 0: none was.
    end: AtomicI64,
}

impl Queue {
    /// Of one partition, or of those that records' keys say.
    pub fn new(by_key: bool) -> Queue {
        Queue { by_key, ..Queue::default() }
    }

    /// So many records are handed over.
    pub fn hand_over(&self, records: usize, now: Duration) {
        let mut handed = self.handed.lock().unwrap_or_else(|e| e.into_inner());
        let settled = self.settled.count.read();
        if handed.marks.back().is_none_or(|(_, last)| now >= *last + GRAIN) {
            handed.forget(settled);
            if handed.marks.len() < MARKS_MAX {
                let first = handed.count;
                handed.marks.push_back((first, now));
            }
        }
        handed.count += records as u64;
    }

    /// The next record is acknowledged, or given up.
    pub fn settle(&self) {
        self.settled.count.add(1);
    }

    /// A record is acknowledged, with this offset; whether it stands behind those before. If not, the topic was made anew in between.
    /// A negative offset is one that the broker did not tell: it had the record already, from an attempt whose answer was lost.
    pub fn written(&self, offset: i64) -> bool {
        if self.by_key || offset < 0 {
            return true;
        }
        let end = self.settled.end.load(Ordering::Relaxed);
        self.settled.end.store(end.max(offset.saturating_add(1)), Ordering::Relaxed);
        end <= offset
    }

    /// The offset behind the last record that was acknowledged.
    pub fn end(&self) -> Option<i64> {
        Some(self.settled.end.load(Ordering::Relaxed)).filter(|end| *end > 0)
    }

    /// So many of the records that were handed over last were refused on the spot.
    pub fn take_back(&self, records: usize) {
        self.handed.lock().unwrap_or_else(|e| e.into_inner()).count -= records as u64;
    }

    /// How many wait, and since when the oldest does.
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
struct Handed {
    count: u64,
    /// From which record on they were handed over at this time or later.
    marks: VecDeque<(u64, Duration)>,
}

impl Handed {
    /// Marks in front of the one that the oldest record belongs to.
    fn forget(&mut self, settled: u64) {
        while self.marks.get(1).is_some_and(|(first, _)| *first <= settled) {
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
        let queue = Queue::default();
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
        let queue = Queue::default();
        assert_eq!(queue.end(), None);
        for (offset, expected) in [(0, 1), (7, 8), (6, 8)] {
            assert_eq!(queue.written(offset), offset != 6);
            assert_eq!(queue.end(), Some(expected));
        }
        // The broker had it already, and does not say where.
        assert!(queue.written(-1001));
        assert_eq!(queue.end(), Some(8));
    }

    #[test]
    fn offsets_of_several_partitions_say_nothing() {
        let queue = Queue::new(true);
        assert!(queue.written(7) && queue.written(3));
        assert_eq!(queue.end(), None);
    }

    #[test]
    fn times_are_bounded_and_err_on_the_old_side() {
        let queue = Queue::default();
        let all = 3 * MARKS_MAX as u64;
        (0..all).for_each(|i| queue.hand_over(1, at(10 * i)));
        (1..all).for_each(|_| queue.settle());
        let (count, since) = queue.waiting();
        assert_eq!(count, 1);
        assert!(since.is_some_and(|since| since <= at(10 * all)), "{since:?}");
    }

    #[test]
    fn memory_is_bounded_and_a_large_record_finds_room_alone() {
        let memory = Memory::default();
        assert!(memory.reserve(1, 5000, 1000));
        assert!(!memory.reserve(1, 1, 1000));
        memory.settle(5000);
        assert!(memory.reserve(1, 100, 1000) && memory.reserve(1, 100, 1000));
        assert!(!memory.reserve(1, 100, 1000));
        assert_eq!(memory.bytes(), 2 * (100 + OVERHEAD));
    }
}

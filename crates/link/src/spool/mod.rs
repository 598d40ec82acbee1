//! Spool of an agent: records not committed by the server. Limited in bytes: memory first, then segments in a
//! [`SegmentStore`]. Without space, raw tuples are dropped before partial results and old records before new ones, each
//! counted in a loss sent in its place; sent records are never dropped, because the server may have them.
//!
//! After a restart, lanes of earlier incarnations are sent under their old names, and closed with a loss of unknown
//! size.

mod queue;
mod segments;
mod store;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message;

pub use store::{NoDisk, SegmentStore, SegmentStoreError};

use crate::message::{DataRecord, LaneRange, LaneResume, LostRecords, PayloadFormat, RecordLane};
use queue::{LaneQueue, RecordPlace, SpoolEntry};
use segments::SpoolSegments;
use store::{AcknowledgedLane, SpoolLedger};

/// Limits of a spool.
#[derive(Debug, Clone, Copy)]
pub struct SpoolLimits {
    /// Maximum bytes in memory; more go to segments.
    pub memory_bytes_max: u64,
    /// Maximum bytes in total.
    pub bytes_max: u64,
    /// Size of a full segment.
    pub segment_bytes: u64,
}

impl Default for SpoolLimits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 16 << 20,
            bytes_max: 256 << 20,
            segment_bytes: 4 << 20,
        }
    }
}

/// Counters of records.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SpoolCounters {
    /// Records added.
    pub records: u64,
    /// Records dropped or unreadable.
    pub lost_records: u64,
    /// Tuples in lost records.
    pub lost_tuples: u64,
    /// Records found at the start.
    pub leftovers: u64,
    /// Segments with an incomplete last record.
    pub torn: u64,
    /// Failed operations of the store.
    pub store_failed: u64,
}

/// Maximum plausible sequence number; higher ones are forged.
const SEQ_MAX: u64 = u64::MAX >> 1;

/// Next item to send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum OutgoingRecord {
    /// An encoded record.
    Data(Bytes),
    /// A loss.
    Lost(LostRecords),
}

/// Uncommitted records.
pub struct Spool {
    store: Box<dyn SegmentStore>,
    limits: SpoolLimits,
    boot: u64,
    /// Previous incarnation, if that ended in order.
    boot_ended: u64,
    lanes: BTreeMap<RecordLane, LaneQueue>,
    segments: SpoolSegments,
    arrivals: u64,
    memory_bytes: u64,
    counters: SpoolCounters,
}

impl Spool {
    /// Opens the stored records for the incarnation `boot`.
    pub fn open(mut store: Box<dyn SegmentStore>, limits: SpoolLimits, boot: u64) -> Self {
        let ledger = SpoolLedger::load(&mut *store).unwrap_or_default();
        let (segments, records, torn) =
            SpoolSegments::open(&mut *store, &ledger, limits.segment_bytes);
        let mut spool = Self {
            store,
            limits,
            boot,
            boot_ended: 0,
            lanes: BTreeMap::new(),
            segments,
            arrivals: 0,
            memory_bytes: 0,
            counters: SpoolCounters {
                leftovers: records.len() as u64,
                torn,
                ..SpoolCounters::default()
            },
        };
        let acked: BTreeMap<RecordLane, u64> = ledger
            .lanes
            .iter()
            .map(|acked| (acked.lane, acked.seq))
            .collect();
        let acked = |lane: &RecordLane| acked.get(lane).copied().unwrap_or_default();
        for (data, place) in records {
            if data.seq > acked(&data.lane) && data.seq <= SEQ_MAX {
                spool.arrivals += 1;
                let entry = entry(&data, place, spool.arrivals);
                spool.take_back(data.lane, acked(&data.lane), data.seq, entry);
            } else if let RecordPlace::Segment { segment, .. } = place {
                spool.segments.forget(segment);
            }
        }
        for lost in &ledger.lost {
            if lost.first > acked(&lost.lane) && lost.last <= SEQ_MAX {
                spool.arrivals += 1;
                spool.take_back(
                    lost.lane,
                    acked(&lost.lane),
                    lost.first,
                    SpoolEntry::of_lost(lost, spool.arrivals),
                );
            }
        }
        spool.drop_segments();
        spool
    }

    fn take_back(&mut self, lane: RecordLane, acked: u64, first: u64, entry: SpoolEntry) {
        let queue = self
            .lanes
            .entry(lane)
            .or_insert_with(|| LaneQueue::new(acked, entry.from_ns));
        queue.newest = queue.newest.max(entry.last);
        queue.sent = queue.newest;
        queue.is_closed |= entry.closes;
        queue.watermark_ns = queue.watermark_ns.max(entry.to_ns);
        queue.entries.insert(first, entry);
    }

    /// Counters of records.
    pub fn counters(&self) -> SpoolCounters {
        self.counters
    }

    /// Bytes stored, and their maximum.
    pub fn fill(&self) -> (u64, u64) {
        (
            self.memory_bytes + self.segments.bytes(),
            self.limits.bytes_max,
        )
    }

    /// Lanes, for [`Hello`](crate::Hello).
    pub fn lanes(&self) -> Vec<LaneRange> {
        self.lanes
            .iter()
            .filter_map(|(&lane, queue)| queue.range(lane))
            .collect()
    }

    /// Whether all records of a lane are committed.
    pub fn is_drained(&self, lane: RecordLane) -> bool {
        self.lanes
            .get(&lane)
            .is_none_or(|queue| queue.entries.is_empty())
    }

    /// Appends a record to its lane; sets its `seq`. Nothing may follow a last record.
    pub fn push(&mut self, mut data: DataRecord) -> u64 {
        self.counters.records += 1;
        self.arrivals += 1;
        let queue = self
            .lanes
            .entry(data.lane)
            .or_insert_with(|| LaneQueue::new(0, data.from_ns));
        data.seq = queue.newest + 1;
        let body = Bytes::from(data.encode_to_vec());
        self.memory_bytes += body.len() as u64;
        let seq = queue.push(entry(&data, RecordPlace::Memory(body), self.arrivals));
        self.make_room();
        seq
    }

    /// Appends a loss to a lane after a crash of its monitor. `tuples`: `None` for an unknown number.
    pub fn push_lost(
        &mut self,
        lane: RecordLane,
        to_ns: i64,
        tuples: Option<u64>,
        is_last: bool,
    ) -> u64 {
        self.arrivals += 1;
        let queue = self
            .lanes
            .entry(lane)
            .or_insert_with(|| LaneQueue::new(0, to_ns));
        let from_ns = queue.watermark_ns.min(to_ns);
        let lost = LostRecords {
            lane,
            from_ns,
            to_ns,
            tuples,
            is_last,
            ..LostRecords::default()
        };
        queue.push(SpoolEntry::of_lost(&lost, self.arrivals))
    }

    /// Writes records in memory to the store before the agent ends; returns whether all were written.
    pub fn flush(&mut self) -> bool {
        self.spill();
        self.memory_bytes == 0
    }

    /// Records that the incarnation `boot` ended in order: its results are in the spool or were sent.
    #[must_use]
    pub fn after(mut self, boot: u64) -> Self {
        self.boot_ended = boot;
        self
    }

    /// Starts a new incarnation for a server that does not know the stored records: they are dropped and counted as
    /// lost. Returns the number of records and tuples.
    pub fn begin_again(&mut self, boot: u64) -> (u64, u64) {
        let entries = self.lanes.values().flat_map(|queue| queue.entries.values());
        let mut records = 0;
        let mut tuples = 0;
        for entry in entries.filter(|entry| !entry.is_lost()) {
            records += 1;
            tuples += entry.tuples.unwrap_or_default();
        }
        self.counters.lost_records += records;
        self.counters.lost_tuples += tuples;
        self.boot = boot;
        self.lanes.clear();
        self.memory_bytes = 0;
        self.segments.forget_all();
        let unneeded = self.segments.unneeded();
        self.drop_those(unneeded);
        (records, tuples)
    }

    /// Starts a session: records that the server has are released, all others are sent again. `wall_ns` is the reported
    /// end of lanes of earlier incarnations.
    pub(crate) fn resume(&mut self, lanes: &[LaneResume], wall_ns: i64) -> Vec<RecordLane> {
        for resume in lanes {
            let is_dead = resume.lane.boot != self.boot;
            if is_dead {
                self.lanes.entry(resume.lane).or_insert_with(|| {
                    LaneQueue::new(
                        resume.durable.min(SEQ_MAX),
                        resume.watermark_ns.min(wall_ns),
                    )
                });
            }
            let Some(queue) = self.lanes.get_mut(&resume.lane) else {
                continue;
            };
            if is_dead {
                // The record was sent from memory and is committed, but not on disk.
                queue.newest = queue.newest.max(resume.durable.min(SEQ_MAX));
                queue.watermark_ns = queue.watermark_ns.max(resume.watermark_ns.min(wall_ns));
                // The last record was sent from memory; nothing may follow it.
                queue.is_closed |= resume.is_closed;
            }
            let durable = resume.durable.min(queue.newest);
            self.release(resume.lane, durable);
        }
        for queue in self.lanes.values_mut() {
            queue.fill_holes(self.arrivals);
            queue.sent = queue.acked;
        }
        let dead = self
            .lanes
            .iter()
            .filter(|(lane, queue)| lane.boot != self.boot && !queue.is_closed);
        for lane in dead.map(|(&lane, _)| lane).collect::<Vec<_>>() {
            let tuples = (lane.boot == self.boot_ended).then_some(0);
            self.push_lost(lane, wall_ns, tuples, true);
        }
        self.drained()
    }

    /// Handles an acknowledgment up to `seq`. Returns the lanes completed by it; `None`: the record was never sent.
    pub(crate) fn ack(&mut self, lane: RecordLane, seq: u64) -> Option<Vec<RecordLane>> {
        let is_sent = self.lanes.get(&lane).is_none_or(|queue| seq <= queue.sent);
        is_sent.then(|| {
            self.release(lane, seq);
            self.drained()
        })
    }

    /// Returns the oldest unsent record of this session, and marks it as sent.
    pub(crate) fn next_to_send(&mut self) -> Option<OutgoingRecord> {
        let (_, lane, first) = self
            .lanes
            .iter()
            .filter_map(|(&lane, queue)| {
                queue
                    .unsent()
                    .next()
                    .map(|(first, entry)| (entry.arrival, lane, first))
            })
            .min()?;
        let queue = self.lanes.get_mut(&lane)?;
        let body = match &queue.entries.get(&first)?.place {
            RecordPlace::Memory(body) => Some(body.clone()),
            &RecordPlace::Segment {
                segment,
                offset,
                length,
            } => {
                let body = store::read(&mut *self.store, segment, offset, length);
                if body.is_none() {
                    self.counters.store_failed += 1;
                    self.give_up(lane, first);
                }
                body
            }
            RecordPlace::Lost => None,
        };
        let queue = self.lanes.get_mut(&lane)?;
        // The next record, or the loss that contains it: losses that were not sent yet are merged.
        let (&first, entry) = queue.entries.range(queue.sent + 1..).next()?;
        queue.sent = entry.last;
        Some(body.map_or_else(
            || OutgoingRecord::Lost(entry.as_lost(lane, first)),
            OutgoingRecord::Data,
        ))
    }

    fn release(&mut self, lane: RecordLane, seq: u64) {
        let Some(queue) = self.lanes.get_mut(&lane) else {
            return;
        };
        for entry in queue.ack(seq) {
            match entry.place {
                RecordPlace::Memory(body) => self.memory_bytes -= body.len() as u64,
                RecordPlace::Segment { segment, .. } => self.segments.forget(segment),
                RecordPlace::Lost => {}
            }
        }
        self.drop_segments();
    }

    /// Removes completed lanes.
    fn drained(&mut self) -> Vec<RecordLane> {
        let is_over = |queue: &LaneQueue| queue.is_closed && queue.entries.is_empty();
        let over: Vec<RecordLane> = self
            .lanes
            .iter()
            .filter(|(_, q)| is_over(q))
            .map(|(&lane, _)| lane)
            .collect();
        self.lanes.retain(|_, queue| !is_over(queue));
        over
    }

    fn make_room(&mut self) {
        if self.memory_bytes > self.limits.memory_bytes_max {
            self.spill();
        }
        // If the store fails, records stay in memory.
        while self.memory_bytes > self.limits.memory_bytes_max && self.give_way_in_memory() {}
        while self.memory_bytes + self.segments.bytes() > self.limits.bytes_max && self.give_way() {
        }
    }

    /// Moves records from memory to segments, oldest first, while the store accepts them.
    fn spill(&mut self) {
        let in_memory = self.lanes.iter().flat_map(|(&lane, queue)| {
            let memory = queue
                .entries
                .iter()
                .filter(|(_, entry)| matches!(entry.place, RecordPlace::Memory(_)));
            memory.map(move |(&first, entry)| (entry.arrival, lane, first))
        });
        let mut order: Vec<(u64, RecordLane, u64)> = in_memory.collect();
        order.sort_unstable();
        for (_, lane, first) in order {
            let Some(entry) = self
                .lanes
                .get_mut(&lane)
                .and_then(|queue| queue.entries.get_mut(&first))
            else {
                continue;
            };
            let RecordPlace::Memory(body) = &entry.place else {
                continue;
            };
            let Ok(place) = self.segments.append(&mut *self.store, entry.form, body) else {
                self.counters.store_failed += 1;
                break;
            };
            self.memory_bytes -= body.len() as u64;
            entry.place = place;
        }
        self.segments.sync(&mut *self.store);
    }

    /// Drops the oldest possible segment, or a record in memory; tuples before partial results.
    fn give_way(&mut self) -> bool {
        for form in [PayloadFormat::Tuples, PayloadFormat::Partial] {
            let sent = self.segments_with_sent();
            if let Some(segment) = self.segments.oldest(form, &sent) {
                self.give_up_segment(segment);
                return true;
            }
            if let Some((lane, first)) = self.oldest_in_memory(form) {
                self.give_up(lane, first);
                return true;
            }
        }
        false
    }

    fn give_way_in_memory(&mut self) -> bool {
        let oldest = [PayloadFormat::Tuples, PayloadFormat::Partial]
            .into_iter()
            .find_map(|form| self.oldest_in_memory(form));
        oldest
            .map(|(lane, first)| self.give_up(lane, first))
            .is_some()
    }

    fn oldest_in_memory(&self, form: PayloadFormat) -> Option<(RecordLane, u64)> {
        let oldest = |(&lane, queue): (&RecordLane, &LaneQueue)| {
            let is_wanted = |entry: &SpoolEntry| {
                entry.form == form && matches!(entry.place, RecordPlace::Memory(_))
            };
            let (first, entry) = queue.unsent().find(|(_, entry)| is_wanted(entry))?;
            Some((entry.arrival, lane, first))
        };
        self.lanes
            .iter()
            .filter_map(oldest)
            .min()
            .map(|(_, lane, first)| (lane, first))
    }

    fn segments_with_sent(&self) -> Vec<u32> {
        let sent = self
            .lanes
            .values()
            .flat_map(|queue| queue.entries.range(..=queue.sent));
        let segment = |entry: &SpoolEntry| match entry.place {
            RecordPlace::Segment { segment, .. } => Some(segment),
            _ => None,
        };
        sent.filter_map(|(_, entry)| segment(entry)).collect()
    }

    fn give_up_segment(&mut self, segment: u32) {
        let is_in = |entry: &SpoolEntry| matches!(entry.place, RecordPlace::Segment { segment: s, .. } if s == segment);
        let inside = self.lanes.iter().flat_map(|(&lane, queue)| {
            queue
                .entries
                .iter()
                .filter(|(_, entry)| is_in(entry))
                .map(move |(&first, _)| (lane, first))
        });
        for (lane, first) in inside.collect::<Vec<_>>() {
            self.give_up(lane, first);
        }
        self.drop_segments();
    }

    /// Replaces a record by a loss.
    fn give_up(&mut self, lane: RecordLane, first: u64) {
        let Some(queue) = self.lanes.get_mut(&lane) else {
            return;
        };
        let Some(entry) = queue.entries.get(&first) else {
            return;
        };
        self.counters.lost_records += 1;
        self.counters.lost_tuples += entry.tuples.unwrap_or_default();
        match &entry.place {
            RecordPlace::Memory(body) => self.memory_bytes -= body.len() as u64,
            &RecordPlace::Segment { segment, .. } => self.segments.forget(segment),
            RecordPlace::Lost => {}
        }
        queue.give_up(first);
    }

    /// Removes segments without needed records. The ledger is written first: a removed segment still listed in it would
    /// be an error at every start.
    fn drop_segments(&mut self) {
        let dropped = self.segments.unneeded();
        if !dropped.is_empty() {
            self.drop_those(dropped);
        }
    }

    fn drop_those(&mut self, dropped: Vec<u32>) {
        let lost = self.lanes.iter().flat_map(|(&lane, queue)| {
            queue
                .entries
                .iter()
                .filter(|(_, e)| e.is_lost())
                .map(move |(&first, e)| e.as_lost(lane, first))
        });
        let ledger = SpoolLedger {
            oldest: self.segments.first_number(),
            dropped: dropped.clone(),
            lanes: self
                .lanes
                .iter()
                .map(|(&lane, queue)| AcknowledgedLane {
                    lane,
                    seq: queue.acked,
                })
                .collect(),
            lost: lost.collect(),
        };
        // A full disk may reject it, but continuing is the only way to free it: losses missing in the ledger are then
        // found as holes of unknown size.
        self.counters.store_failed += u64::from(ledger.save(&mut *self.store).is_err());
        for segment in dropped {
            self.segments.drop(segment);
            self.store.remove(segment);
        }
    }
}

fn entry(data: &DataRecord, place: RecordPlace, arrival: u64) -> SpoolEntry {
    SpoolEntry {
        last: data.seq,
        arrival,
        place,
        form: data.form(),
        from_ns: data.from_ns,
        to_ns: data.watermark_ns.max(data.from_ns),
        tuples: Some(data.tuples),
        closes: data.is_last,
    }
}

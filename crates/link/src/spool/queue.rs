//! Unacknowledged records of one lane, in order, with their places.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::message::{LaneRange, LostRecords, PayloadFormat, RecordLane};

/// Place of a record.
#[derive(Debug, Clone)]
pub(super) enum RecordPlace {
    Memory(Bytes),
    Segment {
        segment: u32,
        offset: u64,
        length: u64,
    },
    /// Dropped; only counted.
    Lost,
}

/// A record, or several consecutive lost ones.
#[derive(Debug, Clone)]
pub(super) struct SpoolEntry {
    /// Last sequence number; the first is the key.
    pub last: u64,
    /// Arrival number in the spool; the lowest is the oldest.
    pub arrival: u64,
    pub place: RecordPlace,
    pub form: PayloadFormat,
    pub from_ns: i64,
    pub to_ns: i64,
    pub tuples: Option<u64>,
    /// Whether nothing follows in the lane.
    pub closes: bool,
}

impl SpoolEntry {
    pub(super) fn is_lost(&self) -> bool {
        matches!(self.place, RecordPlace::Lost)
    }

    pub(super) fn as_lost(&self, lane: RecordLane, first: u64) -> LostRecords {
        let &Self {
            last,
            from_ns,
            to_ns,
            tuples,
            closes,
            ..
        } = self;
        LostRecords {
            lane,
            first,
            last,
            from_ns,
            to_ns,
            tuples,
            is_last: closes,
        }
    }

    pub(super) fn of_lost(lost: &LostRecords, arrival: u64) -> Self {
        let &LostRecords {
            last,
            from_ns,
            to_ns,
            tuples,
            is_last,
            ..
        } = lost;
        Self {
            last,
            arrival,
            place: RecordPlace::Lost,
            form: PayloadFormat::Tuples,
            from_ns,
            to_ns,
            tuples,
            closes: is_last,
        }
    }
}

#[derive(Debug)]
pub(super) struct LaneQueue {
    pub entries: BTreeMap<u64, SpoolEntry>,
    /// Highest sequence number committed at the server.
    pub acked: u64,
    /// Highest sequence number possibly at the server: such records are not dropped, since they might count twice.
    pub sent: u64,
    pub newest: u64,
    pub watermark_ns: i64,
    pub is_closed: bool,
}

impl LaneQueue {
    pub(super) fn new(acked: u64, watermark_ns: i64) -> Self {
        Self {
            entries: BTreeMap::new(),
            acked,
            sent: acked,
            newest: acked,
            watermark_ns,
            is_closed: false,
        }
    }

    pub(super) fn range(&self, lane: RecordLane) -> Option<LaneRange> {
        let (&oldest, _) = self.entries.first_key_value()?;
        Some(LaneRange {
            lane,
            oldest,
            newest: self.newest,
        })
    }

    /// Entries that have never been sent, oldest first.
    pub(super) fn unsent(&self) -> impl Iterator<Item = (u64, &SpoolEntry)> {
        self.entries
            .range(self.sent + 1..)
            .map(|(&first, entry)| (first, entry))
    }

    /// Appends an entry; returns its first sequence number.
    pub(super) fn push(&mut self, mut entry: SpoolEntry) -> u64 {
        let first = self.newest + 1;
        entry.last = first;
        self.newest = first;
        self.is_closed |= entry.closes;
        self.watermark_ns = self.watermark_ns.max(entry.to_ns);
        self.entries.insert(first, entry);
        first
    }

    /// Drops a record: its entry becomes a loss, merged with adjacent losses.
    pub(super) fn give_up(&mut self, first: u64) {
        let Some(entry) = self.entries.get_mut(&first) else {
            return;
        };
        entry.place = RecordPlace::Lost;
        let next = entry.last + 1;
        self.merge(first, next);
        let before = self
            .entries
            .range(..first)
            .next_back()
            .map(|(&before, _)| before);
        if let Some(before) = before.filter(|&before| before > self.sent) {
            self.merge(before, first);
        }
    }

    fn merge(&mut self, left: u64, right: u64) {
        let are_lost = |first| self.entries.get(&first).is_some_and(SpoolEntry::is_lost);
        if !are_lost(left) || !are_lost(right) {
            return;
        }
        let Some(right) = self.entries.remove(&right) else {
            return;
        };
        let Some(left) = self.entries.get_mut(&left) else {
            return;
        };
        left.last = right.last;
        left.from_ns = left.from_ns.min(right.from_ns);
        left.to_ns = left.to_ns.max(right.to_ns);
        left.tuples = left
            .tuples
            .zip(right.tuples)
            .map(|(a, b)| a.saturating_add(b));
        left.closes |= right.closes;
    }

    /// Removes and returns committed entries.
    pub(super) fn ack(&mut self, seq: u64) -> Vec<SpoolEntry> {
        self.acked = self.acked.max(seq);
        let mut gone = Vec::new();
        while let Some(first) = self.entries.first_entry() {
            if first.get().last > seq {
                break;
            }
            gone.push(first.remove());
        }
        // A loss that was partly committed before the counting process died.
        let cut = self
            .entries
            .first_key_value()
            .map(|(&first, _)| first)
            .filter(|&first| first <= seq);
        if let Some(entry) = cut.and_then(|first| self.entries.remove(&first)) {
            self.entries.insert(seq + 1, entry);
        }
        gone
    }

    /// Fills gaps between entries with losses of unknown size.
    pub(super) fn fill_holes(&mut self, arrival: u64) {
        let mut expected = self.acked + 1;
        let mut from_ns = self.watermark_ns;
        let mut holes = Vec::new();
        for (&first, entry) in &self.entries {
            if first > expected {
                holes.push((
                    expected,
                    first - 1,
                    from_ns.min(entry.from_ns),
                    entry.from_ns,
                ));
            }
            expected = entry.last + 1;
            from_ns = entry.to_ns;
        }
        for (first, last, from_ns, to_ns) in holes {
            let lost = LostRecords {
                first,
                last,
                from_ns,
                to_ns,
                ..LostRecords::default()
            };
            self.entries
                .insert(first, SpoolEntry::of_lost(&lost, arrival));
        }
    }
}

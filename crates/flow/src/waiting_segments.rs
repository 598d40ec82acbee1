//! Bytes that one direction of a connection waits for: held segments after a hole, and what is known of the missing ones.
//!
//! Positions are those of [`crate::reassembly`].

use std::collections::BTreeMap;

use wire::{TcpSeq, Timestamp};

use crate::event_outlet::{EventOutlet, ReassemblyTimeouts, SegmentStamp};
#[cfg(test)]
use crate::reassembly_budget::HELD_OVERHEAD_BYTES;
use crate::reassembly_budget::ReassemblyBudget;

/// Packets of the connection after a hole that prove more than slight reordering.
const REORDER_PACKETS: u8 = 4;
/// Factor of the wait time before that.
const SLOW_WAITS: i64 = 5;
/// Bytes that a stream waits for, and abandoned bytes.
#[derive(Debug)]
pub(crate) struct WaitingSegments {
    /// Held segments by position, disjoint, all after a hole.
    pub segments: BTreeMap<i64, HeldSegment>,
    /// Cost of `segments` in the budget.
    pub cost: usize,
    pub fin: Option<FinMark>,
    /// Next bytes that the snaplen cut from a segment of which a longer copy may follow.
    pub cut: Option<StreamCut>,
    /// Position acknowledged by the other end beyond the bytes seen, with its time.
    pub overtaken: Option<(i64, Timestamp)>,
    /// Time of the highest acknowledgment beyond the bytes seen, and the sequence number of its segment, if it
    /// arrived after this stream was known.
    pub acked_by: (Timestamp, Option<TcpSeq>),
    /// Arrival of the last bytes in order: while some arrive, others may.
    pub progress: Timestamp,
    /// Time from which waiting is counted after the packets' clock was set back.
    pub set_back: Option<Timestamp>,
    /// The last gap, to distinguish late bytes from repeated ones.
    pub last_gap: (i64, i64),
    /// Consecutive segments at an implausible position: the next position, and their number.
    pub strays: (TcpSeq, u8),
    /// Packets of the connection since the wait began.
    pub packets: u8,
}

/// A held segment.
#[derive(Debug)]
pub(crate) struct HeldSegment {
    pub len: u32,
    /// Less than `len` if cut by the snaplen.
    pub captured: u32,
    pub ts: Timestamp,
    pub ack: Option<TcpSeq>,
    /// The captured bytes; empty if no parser needs them.
    pub bytes: Vec<u8>,
}

impl HeldSegment {
    /// Whether no parser needed the captured bytes when they arrived, or needs them now.
    pub fn is_forgotten(&self) -> bool {
        self.bytes.len() < self.captured as usize
    }
}

/// Bytes that the snaplen cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamCut {
    /// Start of the segment's bytes, of which the first were captured.
    pub start: i64,
    pub end: i64,
    pub said: SegmentStamp,
}

/// The end of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FinMark {
    pub pos: i64,
    pub ts: Timestamp,
    pub ack: Option<TcpSeq>,
}

impl Default for WaitingSegments {
    fn default() -> WaitingSegments {
        WaitingSegments {
            segments: BTreeMap::new(),
            cost: 0,
            fin: None,
            cut: None,
            overtaken: None,
            acked_by: (Timestamp::MIN, None),
            progress: Timestamp::MIN,
            set_back: None,
            last_gap: (0, 0),
            strays: (TcpSeq(0), 0),
            packets: 0,
        }
    }
}

impl WaitingSegments {
    /// Whether all of these bytes are held.
    pub fn holds(&self, start: i64, end: i64) -> bool {
        let before = self.segments.range(..=start).next_back();
        before.is_some_and(|(at, held)| at + i64::from(held.len) >= end)
    }

    /// End of the cut bytes that are waited for.
    pub fn cut_end(&self) -> Option<i64> {
        self.cut.map(|cut| cut.end)
    }

    /// Adds `bytes` to all positions.
    pub fn move_by(&mut self, bytes: i64) {
        let segments = std::mem::take(&mut self.segments).into_iter();
        self.segments = segments.map(|(at, held)| (at + bytes, held)).collect();
        if let Some(fin) = &mut self.fin {
            fin.pos += bytes;
        }
        if let Some(cut) = &mut self.cut {
            cut.start += bytes;
            cut.end += bytes;
        }
        self.overtaken = None;
    }

    /// Adds cut bytes of held segments that are in `payload`, which spans `begin` to `present`, as far as memory
    /// allows. Only a segment that begins no later can be a copy.
    pub fn lengthen(
        &mut self,
        (begin, present): (i64, i64),
        payload: &[u8],
        out: &mut EventOutlet<'_>,
    ) {
        for (at, held) in self.segments.range_mut(begin..present.max(begin)) {
            let from = at + i64::from(held.captured);
            let stop = present.min(at + i64::from(held.len));
            if !out.deliver || held.is_forgotten() || from >= stop {
                continue;
            }
            let more = &payload[(from - begin) as usize..(stop - begin) as usize];
            if !out.budget.fits(self.cost, more.len()) {
                return;
            }
            held.bytes.extend_from_slice(more);
            held.captured += more.len() as u32;
            self.cost += more.len();
            out.budget.take(more.len(), out.totals);
        }
    }

    /// Whether some of these bytes lie in the last declared gap.
    pub fn has_lost(&self, start: i64, end: i64) -> bool {
        start < self.last_gap.1 && self.last_gap.0 < end
    }

    /// Whether a segment with a lower acknowledgment proves that an earlier one was wrong. A segment with the same
    /// sequence number may only be late.
    pub fn is_contradicted(&self, (ts, seq): (Timestamp, TcpSeq)) -> bool {
        let (acked_ts, acked_seq) = self.acked_by;
        self.overtaken.is_some()
            && ts > acked_ts
            && acked_seq.is_some_and(|acked_seq| acked_seq.before(seq))
    }

    /// Withdraws the acknowledgment beyond the bytes seen.
    pub fn unacknowledge(&mut self) {
        self.overtaken = None;
    }

    /// Cost in the budget.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Cost of the held segments, counted piece by piece.
    #[cfg(test)]
    pub fn cost_of_pieces(&self) -> usize {
        let bytes = self.segments.values().map(|held| held.bytes.len());
        bytes.map(|bytes| bytes + HELD_OVERHEAD_BYTES).sum()
    }

    /// Wait time for acknowledged bytes. On a slow connection, a packet that is a few packets late is late by
    /// more time.
    pub fn reorder_wait(&self, patience: ReassemblyTimeouts) -> i64 {
        let is_fast = self.packets >= REORDER_PACKETS;
        if is_fast {
            patience.reorder_wait_ns
        } else {
            patience.reorder_wait_ns.saturating_mul(SLOW_WAITS)
        }
    }

    /// Records whether the clock is before the start of the wait by more than packets may be reordered.
    pub fn heed_clock(&mut self, now: Timestamp, patience: ReassemblyTimeouts) {
        let noted = self
            .missed_since(i64::MIN)
            .map_or(self.progress, |since| since.max(self.progress));
        self.set_back = match self.set_back {
            _ if noted.since(now) <= patience.reorder_wait_ns => None,
            Some(since) if since <= now => Some(since),
            _ => Some(now),
        };
    }

    /// Wait time for bytes missing since `since`, by a clock that may have been set back.
    pub fn waited(&self, since: Timestamp, now: Timestamp) -> i64 {
        now.since(self.set_back.unwrap_or(since.max(self.progress)))
    }

    /// Counts a packet of the connection while bytes are missing.
    pub fn count_packet(&mut self) {
        self.packets = self.packets.saturating_add(1);
    }

    /// Time of the next the check for missing bytes, if no packet arrives before.
    pub fn deadline(&self, patience: ReassemblyTimeouts) -> Option<Timestamp> {
        if let Some(StreamCut { said: (ts, _), .. }) = self.cut {
            return Some(ts.plus(patience.reorder_wait_ns));
        }
        let since = self.overtaken.and_then(|_| self.missed_since(i64::MIN));
        let overtaken = since.map(|ts| ts.max(self.progress).plus(self.reorder_wait(patience)));
        let held = self
            .next_known()
            .map(|(_, ts)| ts.max(self.progress).plus(patience.gap_wait_ns));
        overtaken.into_iter().chain(held).min()
    }

    /// Drops the held bytes and keeps their positions.
    pub fn forget_bytes(&mut self, budget: &mut ReassemblyBudget) {
        for held in self.segments.values_mut() {
            budget.release(held.bytes.len());
            self.cost -= held.bytes.len();
            held.bytes = Vec::new();
        }
    }

    /// Time at which bytes from `pos` on were first known to be missing; they were sent before that.
    pub fn missed_since(&self, pos: i64) -> Option<Timestamp> {
        let behind = self.next_known().map(|(_, ts)| ts);
        let acked = self
            .overtaken
            .filter(|(acked, _)| *acked > pos)
            .map(|(_, ts)| ts);
        behind.into_iter().chain(acked).min()
    }

    /// Position and arrival of the first data after the hole: a held segment, or the FIN.
    pub fn next_known(&self) -> Option<(i64, Timestamp)> {
        let held = self
            .segments
            .first_key_value()
            .map(|(pos, held)| (*pos, held.ts));
        held.into_iter()
            .chain(self.fin.map(|fin| (fin.pos, fin.ts)))
            .min()
    }

    /// End of the highest byte or FIN seen after the hole.
    pub fn highest(&self) -> i64 {
        let held = self
            .segments
            .last_key_value()
            .map_or(0, |(pos, held)| pos + i64::from(held.len));
        held.max(self.fin.map_or(0, |fin| fin.pos))
            .max(self.cut.map_or(0, |cut| cut.end))
    }
}

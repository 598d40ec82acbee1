//! Reassembly of one direction's TCP segments. Converts segments to contiguous bytes and gaps for `order`, which
//! merges both directions. Holds at most its share of a [`ReassemblyBudget`]; when that is used up, a gap is reported instead
//! of waiting. The first arrival of a byte wins. Independent of handshakes, of the other direction (except its
//! acknowledgments), and of protocols.
//!
//! Bytes are counted by *position*: an `i64` that is 0 at the stream's first byte and never wraps.

use wire::{TcpSeq, Timestamp};

use crate::EventBytes;
use crate::delivery_order::{PLAUSIBLE, PieceContent, StreamPiece};
use crate::event_outlet::EventOutlet;
use crate::reassembly_budget::{HELD_OVERHEAD_BYTES, ReassemblyBudget};
use crate::waiting_segments::{FinMark, HeldSegment, StreamCut, WaitingSegments};

/// Position and bytes of a segment; SYN and RST are handled by the caller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    /// Sequence number of the first payload byte.
    pub seq: TcpSeq,
    /// Payload length on the wire; `payload` is shorter if cut by the snaplen.
    pub len: u32,
    pub payload: &'a [u8],
    pub fin: bool,
    pub ts: Timestamp,
    /// Acknowledgment number of the segment, if any.
    pub ack: Option<TcpSeq>,
}

/// One direction's byte stream, unpacked from its flow's records for a call.
#[derive(Debug)]
pub(crate) struct ByteStream {
    /// Held data and its state; allocated on demand.
    pub waiting: Option<Box<WaitingSegments>>,
    /// Position of the next byte in order.
    pub pos: i64,
    /// Distinct bytes seen, by length on the wire.
    pub unique_bytes: u64,
    /// Sequence number at `pos`, plus one once the FIN is consumed.
    pub next: TcpSeq,
    /// [`BUSY`] and [`PROBED`].
    pub bits: u8,
    /// Whether the FIN was reached.
    pub ended: bool,
}

/// `waiting` must be checked at the next packet.
pub(crate) const BUSY: u8 = 1;
/// The last byte was a zero-window probe, which its sender will repeat.
pub(crate) const PROBED: u8 = 2;

/// Consecutive segments at an implausible position after which the stream continues there.
const STRAYS_BELIEVED: u8 = 3;
/// Same for positions in a declared gap: a few may only be late.
const LATE_BELIEVED: u8 = 32;

impl ByteStream {
    /// Processes a segment: delivers, holds, or counts it.
    pub fn accept(&mut self, segment: &Segment<'_>, out: &mut EventOutlet<'_>) {
        if self.ended {
            return self.count_after_end(segment, out);
        }
        let distance = segment.seq.distance(self.next);
        if self.is_stray(distance, segment) {
            if !self.believe_stray(segment, out) {
                return;
            }
        } else if let Some(waiting) = &mut self.waiting {
            waiting.strays.1 = 0;
        }
        self.place(segment, out);
        if segment.fin && !self.ended {
            let fin = self.pos_of(segment.seq) + i64::from(segment.len);
            if fin >= self.reached() {
                let fin = FinMark {
                    pos: fin,
                    ts: segment.ts,
                    ack: segment.ack,
                };
                self.waiting.get_or_insert_default().fin.get_or_insert(fin);
            }
        }
        self.drain(out);
        self.settle(out.acked);
    }

    /// Handles an acknowledgment `ack` beyond the bytes seen; `newly`: the first one. `by`: its time, and the
    /// sequence number of its segment, unless from an earlier one.
    pub fn acknowledged_beyond(
        &mut self,
        ack: TcpSeq,
        newly: bool,
        by: (Timestamp, Option<TcpSeq>),
    ) {
        let distance = ack.distance(self.next);
        if self.ended || !(1..=PLAUSIBLE).contains(&distance) {
            return;
        }
        let pos = self.pos + i64::from(distance);
        let waiting = self.waiting.get_or_insert_default();
        if newly || waiting.overtaken.is_none() {
            waiting.acked_by = by;
        }
        waiting.overtaken.get_or_insert((pos, by.0));
        self.bits |= BUSY;
    }

    /// Abandons missing bytes whose wait time has passed.
    pub fn check(&mut self, out: &mut EventOutlet<'_>) {
        self.settle(out.acked);
        let mut is_set_back = false;
        if let Some(waiting) = &mut self.waiting {
            waiting.heed_clock(out.now, out.patience);
            is_set_back = waiting.set_back.is_some();
        }
        if self.cut().is_some() {
            let until = out.now.plus(-out.patience.reorder_wait_ns);
            self.release_cuts(Some(until).filter(|_| !is_set_back), out);
            self.settle(out.acked);
            if self.cut().is_some() {
                return;
            }
        }
        while let Some(target) = self.hopeless(out) {
            self.gap_to(target, out);
            self.drain(out);
            self.settle(out.acked);
        }
    }

    /// Abandons the first missing bytes below `ack`, to free memory; returns false if there are none.
    pub fn give_up(&mut self, ack: TcpSeq, out: &mut EventOutlet<'_>) -> bool {
        let distance = i64::from(ack.distance(self.next));
        if self.ended || distance <= 0 {
            return false;
        }
        if self.cut().is_some() {
            self.release_cuts(None, out);
            self.settle(out.acked);
            return true;
        }
        let known = self
            .waiting
            .as_ref()
            .and_then(|waiting| waiting.next_known());
        let acked = self.pos + distance;
        self.gap_to(known.map_or(acked, |(known, _)| known.min(acked)), out);
        self.drain(out);
        self.settle(out.acked);
        true
    }

    /// Delivers everything held, with gaps in between, and acknowledged but missing bytes as a last gap.
    pub fn flush(&mut self, out: &mut EventOutlet<'_>) {
        if self.waiting.is_none() {
            return;
        }
        self.flush_held(out);
        if let Some(acked) = out.acked.filter(|_| !self.ended) {
            let distance = acked.distance(self.next);
            if (1..=PLAUSIBLE).contains(&distance) {
                self.gap_to(self.pos + i64::from(distance), out);
            }
        }
        self.forget(out.budget);
    }

    /// Drops everything held.
    pub fn forget(&mut self, budget: &mut ReassemblyBudget) {
        if let Some(waiting) = self.waiting.take() {
            budget.release(waiting.cost);
        }
        self.bits &= !BUSY;
    }

    /// Moves the start of the stream back to `begins`. `pieces` has everything before `next`, held behind
    /// the hole and not yet delivered.
    pub fn begin_earlier(
        &mut self,
        begins: TcpSeq,
        pieces: Vec<StreamPiece>,
        out: &mut EventOutlet<'_>,
    ) {
        let waiting = self.waiting.get_or_insert_default();
        let end = std::mem::replace(&mut self.next, begins);
        let moved = i64::from(end.distance(begins)) - std::mem::take(&mut self.pos);
        waiting.move_by(moved);
        let ends = pieces.iter().skip(1).map(|piece| piece.seq).chain([end]);
        let ends = ends.collect::<Vec<_>>();
        for (piece, end) in pieces.into_iter().zip(ends) {
            let at = i64::from(piece.seq.distance(begins));
            let bytes = match piece.what {
                PieceContent::Kept(bytes) => bytes.into_vec(),
                PieceContent::Forgotten(_) => Vec::new(),
                _ => {
                    self.ended = false;
                    waiting.fin = Some(FinMark {
                        pos: at,
                        ts: piece.ts,
                        ack: piece.ack,
                    });
                    continue;
                }
            };
            let held = HeldSegment {
                len: end.distance(piece.seq) as u32,
                captured: end.distance(piece.seq) as u32,
                ts: piece.ts,
                ack: piece.ack,
                bytes,
            };
            let cost = held.bytes.len() + HELD_OVERHEAD_BYTES;
            waiting.cost += cost;
            out.budget.take(cost, out.totals);
            waiting.segments.insert(at, held);
        }
        if let Some(acked) = out.acked {
            self.acknowledged_beyond(acked, true, (out.now, None));
        }
        self.settle(out.acked);
    }

    fn advance(&mut self, n: i64) {
        self.pos += n;
        self.next = TcpSeq(self.next.0.wrapping_add(n as u32));
    }

    /// Delivers or holds the new bytes of a segment, and counts the others.
    fn place(&mut self, segment: &Segment<'_>, out: &mut EventOutlet<'_>) {
        let begin = self.pos_of(segment.seq);
        let end = begin + i64::from(segment.len);
        let fin = self
            .waiting
            .as_ref()
            .and_then(|w| w.fin)
            .map_or(i64::MAX, |fin| fin.pos);
        let (last_gap, highest) = self
            .waiting
            .as_ref()
            .map_or(((0, 0), 0), |w| (w.last_gap, w.highest()));
        let mut new = 0;
        if self.waiting.is_some() && out.mirrored {
            self.fill(segment, out);
        }
        let mut at = begin.max(self.reached());
        while at < end.min(fin) {
            let (start, stop) = if at == self.pos {
                self.deliver(segment, begin, end.min(fin), out)
            } else {
                self.hold(segment, begin, at, end.min(fin), out)
            };
            new += (stop - start) as u64;
            at = stop.max(self.pos);
        }
        self.unique_bytes += new;
        out.totals.stream_bytes += new;
        let old = u64::from(segment.len) - new;
        let overlap = |(start, stop): (i64, i64)| (end.min(stop) - begin.max(start)).max(0) as u64;
        let late = overlap(last_gap) + overlap((i64::MIN, 0));
        let probe = self.bits & PROBED != 0 && old == 1;
        self.bits &= !PROBED;
        let out_of_order = late > 0 || (new > 0 && old == 0 && begin < highest);
        if old == 0 && !out_of_order {
            return;
        }
        let counters = &mut *out.counters;
        counters.repeated_bytes += old;
        counters.late_bytes += late;
        if out_of_order {
            counters.out_of_order += 1;
        } else if !probe {
            counters.retransmissions += 1;
        }
    }

    /// Delivers from the packet up to `end` or the first held segment, then held segments; returns the delivered
    /// part.
    fn deliver(
        &mut self,
        segment: &Segment<'_>,
        begin: i64,
        end: i64,
        out: &mut EventOutlet<'_>,
    ) -> (i64, i64) {
        let from = self.pos;
        let stop = self.first_held().map_or(end, |held| held.min(end));
        let present = begin + segment.payload.len() as i64;
        if present > from {
            let chunk = EventBytes::InPacket {
                start: (from - begin) as u32,
                end: (stop.min(present) - begin) as u32,
            };
            out.bytes(self.next, chunk, (segment.ts, segment.ack));
        }
        self.advance(stop.min(present.max(from)) - from);
        let said = (segment.ts, segment.ack);
        self.cut_up_to(
            StreamCut {
                start: from,
                end: stop,
                said,
            },
            out,
        );
        if let Some(waiting) = &mut self.waiting {
            waiting.progress = waiting.progress.max(segment.ts);
        }
        self.drain(out);
        (from, stop)
    }

    /// Holds the first part from `at` on that is not held yet; returns that part. May declare a gap to free memory.
    fn hold(
        &mut self,
        segment: &Segment<'_>,
        begin: i64,
        at: i64,
        end: i64,
        out: &mut EventOutlet<'_>,
    ) -> (i64, i64) {
        let waiting = self.waiting.get_or_insert_default();
        if let Some((start, held)) = waiting.segments.range(..=at).next_back() {
            let covered = start + i64::from(held.len);
            if covered > at {
                return (covered, covered);
            }
        }
        let stop = waiting
            .segments
            .range(at..)
            .next()
            .map_or(end, |(start, _)| (*start).min(end));
        let payload = segment.payload;
        let from = ((at - begin) as usize).min(payload.len());
        let captured = &payload[from..((stop - begin) as usize).min(payload.len())];
        let bytes = if out.deliver { captured } else { &[] };
        let cost = bytes.len() + HELD_OVERHEAD_BYTES;
        let ordered = out.order.as_ref().map_or(0, |order| order.cost(out.side));
        if !out.budget.fits(ordered + waiting.cost, cost) {
            out.totals.held_overflows += 1;
            let target = self.first_held().map_or(at, |held| held.min(at));
            self.gap_to(target, out);
            self.drain(out);
            return (at, at);
        }
        let held = HeldSegment {
            len: (stop - at) as u32,
            captured: captured.len() as u32,
            ts: segment.ts,
            ack: segment.ack,
            bytes: bytes.to_vec(),
        };
        waiting.segments.insert(at, held);
        waiting.cost += cost;
        out.budget.take(cost, out.totals);
        (at, stop)
    }

    /// Delivers held segments that are in order now, and ends the stream when its FIN is reached.
    fn drain(&mut self, out: &mut EventOutlet<'_>) {
        while let Some(waiting) = &mut self.waiting {
            if let Some(fin) = waiting.fin.filter(|fin| fin.pos <= self.pos) {
                debug_assert_eq!(fin.pos, self.pos, "nothing is delivered beyond a FIN");
                return self.end(fin, out);
            }
            let Some(first) = waiting
                .segments
                .first_entry()
                .filter(|e| *e.key() <= self.pos)
            else {
                return;
            };
            debug_assert_eq!(*first.key(), self.pos, "held segments follow a gap");
            let held = first.remove();
            let cost = held.bytes.len() + HELD_OVERHEAD_BYTES;
            waiting.cost -= cost;
            out.budget.release(cost);
            let room = waiting.fin.map_or(i64::MAX, |fin| fin.pos - self.pos);
            let len = i64::from(held.len).min(room);
            let seq = self.next;
            let start = self.pos;
            let end = start + len;
            let captured = i64::from(held.captured).min(len);
            let said = (held.ts, held.ack);
            if captured > 0 && held.is_forgotten() {
                out.forgotten(seq, captured as u32, said);
            } else if captured > 0 {
                let chunk = out.events.hold(&held.bytes[..captured as usize]);
                out.bytes(seq, chunk, said);
            }
            self.advance(captured);
            self.cut_up_to(StreamCut { start, end, said }, out);
        }
    }

    /// Handles bytes that the snaplen cut off: a gap, but not a loss of the network. If a longer copy of the segment
    /// may follow, waits for it.
    fn cut_up_to(&mut self, cut: StreamCut, out: &mut EventOutlet<'_>) {
        if cut.end > self.pos && out.mirrored && out.deliver {
            self.waiting.get_or_insert_default().cut = Some(cut);
        } else {
            self.skip_cut(cut, out);
        }
    }

    fn skip_cut(&mut self, cut: StreamCut, out: &mut EventOutlet<'_>) {
        let len = cut.end - self.pos;
        let seq = self.next;
        if len > 0 {
            self.advance(len);
            out.counters.cut_bytes += len as u64;
            out.gap(seq, len as u64, cut.said);
        }
    }

    /// The cut bytes that are waited for.
    fn cut(&self) -> Option<StreamCut> {
        self.waiting.as_ref()?.cut.filter(|cut| cut.end > self.pos)
    }

    /// End of the bytes in order, with cut ones.
    fn reached(&self) -> i64 {
        self.cut().map_or(self.pos, |cut| cut.end)
    }

    /// Stops waiting for cut bytes; if `since` is given, only those of segments captured up to then.
    fn release_cuts(&mut self, since: Option<Timestamp>, out: &mut EventOutlet<'_>) {
        while let Some(cut) = self
            .cut()
            .filter(|cut| since.is_none_or(|since| cut.said.0 <= since))
        {
            self.skip_cut(cut, out);
            self.drain(out);
        }
    }

    /// Fills cut bytes from a longer copy of the segment. A segment that begins amid the bytes is not a copy: the length
    /// in a damaged header may be too large, and then it is the next segment, with a time of its own.
    pub fn fill(&mut self, segment: &Segment<'_>, out: &mut EventOutlet<'_>) {
        let begin = self.pos_of(segment.seq);
        let present = begin + segment.payload.len() as i64;
        if let Some(StreamCut { start, end, said }) = self.cut()
            && begin <= start
            && present > self.pos
        {
            let stop = present.min(end);
            let chunk = EventBytes::InPacket {
                start: (self.pos - begin) as u32,
                end: (stop - begin) as u32,
            };
            out.bytes(self.next, chunk, said);
            self.advance(stop - self.pos);
            self.drain(out);
        }
        if let Some(waiting) = &mut self.waiting {
            waiting.lengthen((begin, present), segment.payload, out);
        }
    }

    fn end(&mut self, fin: FinMark, out: &mut EventOutlet<'_>) {
        let seq = self.next;
        self.next = seq.plus(1);
        self.ended = true;
        self.forget(out.budget);
        out.end(seq, (fin.ts, fin.ack));
    }

    /// Position up to which missing bytes will not arrive any more, if any.
    fn hopeless(&self, out: &EventOutlet<'_>) -> Option<i64> {
        let waiting = self.waiting.as_ref()?;
        let known = waiting.next_known();
        if let Some((acked, _)) = waiting.overtaken.filter(|(acked, _)| *acked > self.pos)
            && let Some(since) = waiting.missed_since(self.pos)
            && waiting.waited(since, out.now) >= waiting.reorder_wait(out.patience)
        {
            return Some(known.map_or(acked, |(known, _)| known.min(acked)));
        }
        let (known, since) = known?;
        (waiting.waited(since, out.now) >= out.patience.gap_wait_ns).then_some(known)
    }

    fn first_held(&self) -> Option<i64> {
        Some(*self.waiting.as_ref()?.segments.first_key_value()?.0)
    }

    fn gap_to(&mut self, target: i64, out: &mut EventOutlet<'_>) {
        self.release_cuts(None, out);
        let len = target - self.pos;
        if len <= 0 {
            return;
        }
        let acked = out.acked.map_or(0, |acked| {
            i64::from(acked.distance(self.next)).clamp(0, len)
        });
        let mut ts = out.now;
        let seq = self.next;
        if let Some(waiting) = &mut self.waiting {
            ts = waiting.missed_since(self.pos).unwrap_or(ts);
            waiting.last_gap = (self.pos, target);
            waiting.packets = 0;
        }
        self.advance(len);
        let counters = &mut *out.counters;
        counters.gaps += 1;
        counters.gap_bytes += len as u64;
        counters.acked_unseen_bytes += acked as u64;
        out.totals.gaps += 1;
        out.totals.gap_bytes += len as u64;
        out.totals.acked_unseen_bytes += acked as u64;
        out.gap(seq, len as u64, (ts, None));
    }

    fn flush_held(&mut self, out: &mut EventOutlet<'_>) {
        self.release_cuts(None, out);
        while let Some((known, _)) = self
            .waiting
            .as_ref()
            .and_then(|waiting| waiting.next_known())
        {
            if known > self.pos {
                self.gap_to(known, out);
            }
            self.drain(out);
            self.release_cuts(None, out);
        }
    }

    /// Removes an acknowledgment that the bytes have reached, and updates whether anything waits.
    pub fn settle(&mut self, acked: Option<TcpSeq>) {
        let pos = self.pos;
        let next = self.next;
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        if waiting
            .overtaken
            .is_some_and(|(overtaken, _)| overtaken <= pos)
        {
            let more = acked
                .map(|a| i64::from(a.distance(next)))
                .filter(|d| *d > 0);
            waiting.overtaken = more.map(|d| (pos + d, waiting.acked_by.0));
        }
        waiting.cut = waiting.cut.filter(|cut| cut.end > pos);
        let idle = waiting.segments.is_empty()
            && waiting.fin.is_none()
            && waiting.cut.is_none()
            && waiting.overtaken.is_none();
        if idle {
            waiting.packets = 0;
        }
        self.bits = if idle && waiting.strays.1 == 0 {
            self.bits & !BUSY
        } else {
            self.bits | BUSY
        };
    }

    /// Whether a segment lies at an implausible position: beyond any window, or in a gap after which nothing arrived.
    fn is_stray(&self, distance: i32, segment: &Segment<'_>) -> bool {
        if !(-PLAUSIBLE..=PLAUSIBLE).contains(&distance) {
            return true;
        }
        let Some(waiting) = self.waiting.as_ref().filter(|_| segment.len > 0) else {
            return false;
        };
        let begin = self.pos + i64::from(distance);
        let (gap_start, gap_end) = waiting.last_gap;
        gap_end == self.pos && begin >= gap_start && begin + i64::from(segment.len) <= gap_end
    }

    /// Counts consecutive strays; after enough of them the stream continues there, after a gap.
    fn believe_stray(&mut self, segment: &Segment<'_>, out: &mut EventOutlet<'_>) -> bool {
        let waiting = self.waiting.get_or_insert_default();
        let (expected, count) = waiting.strays;
        let count = if segment.seq == expected && count > 0 {
            count + 1
        } else {
            1
        };
        waiting.strays = (segment.seq.plus(segment.len), count);
        self.bits |= BUSY;
        let is_late = (-PLAUSIBLE..0).contains(&segment.seq.distance(self.next));
        if count
            < if is_late {
                LATE_BELIEVED
            } else {
                STRAYS_BELIEVED
            }
        {
            let counters = &mut *out.counters;
            counters.repeated_bytes += u64::from(segment.len);
            if is_late {
                counters.late_bytes += u64::from(segment.len);
                counters.out_of_order += 1;
            } else {
                counters.implausible += 1;
                out.totals.implausible += 1;
            }
            return false;
        }
        waiting.strays.1 = 0;
        waiting.fin = None;
        self.flush_held(out);
        self.jump_to(segment.seq, out);
        true
    }

    /// Continues at `seq`. Sequence numbers only advance, so an earlier one is nearly 2^32 ahead.
    fn jump_to(&mut self, seq: TcpSeq, out: &mut EventOutlet<'_>) {
        let len = i64::from(seq.0.wrapping_sub(self.next.0));
        let from = self.next;
        self.advance(len);
        if let Some(waiting) = &mut self.waiting {
            waiting.overtaken = None;
            waiting.last_gap = (0, 0);
        }
        out.totals.resyncs += 1;
        out.counters.resyncs += 1;
        out.gap(from, len as u64, (out.now, None));
    }

    fn pos_of(&self, seq: TcpSeq) -> i64 {
        self.pos + i64::from(seq.distance(self.next))
    }

    /// A repeated FIN is ignored; repeated bytes are a retransmission; bytes after the FIN are discarded.
    fn count_after_end(&mut self, segment: &Segment<'_>, out: &mut EventOutlet<'_>) {
        if segment.len == 0 {
            return;
        }
        let at = self.pos_of(segment.seq);
        let counters = &mut *out.counters;
        counters.repeated_bytes += u64::from(segment.len);
        if (0..self.pos).contains(&at) {
            counters.retransmissions += 1;
        } else {
            counters.implausible += 1;
            out.totals.implausible += 1;
        }
    }
}

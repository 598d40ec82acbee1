//! Delivery order of a connection's bytes, gaps, and ends: the order of sending.
//!
//! A segment that acknowledges `ack` proves that its sender had received everything of the other side below `ack`. So
//! it is delivered once everything of the other side below `ack` has been, as bytes or as a gap. Packet times and
//! capture order only break ties.
//!
//! Waiting data is queued per side, after reassembly: a queue holds bytes in order, and gaps. So a side has been
//! delivered up to the head of its queue or, if that is empty, up to the next byte that reassembly expects.
//!
//! An acknowledgment is rejected, and the bytes are delivered without it,
//! - when it exceeds what reassembly accepts for its side (see `tcp_state::on_ack`), or covers bytes that the other
//!   side, which has sent its FIN, never sent;
//! - when the other side continues below it with bytes that were captured long after;
//! - when both heads wait for each other: neither sender can have received the other's data first.
//!
//! A side without captured packets is not waited for; but while the flow is young (`reorder_wait_ns`), its packets
//! may still arrive, and data that acknowledges them waits. Without a SYN, all data of a young flow waits, because earlier bytes may
//! still arrive.
//!
//! So data only waits for a gap that reassembly will fill or abandon, never forever.

use std::collections::VecDeque;

use wire::{FlowSide, TcpSeq, Timestamp};

use crate::event::{EventBytes, FlowEvent, FlowEvents, FlowIdx, StreamPlace};
use crate::metrics::FlowTableCounters;
use crate::reassembly_budget::{HELD_OVERHEAD_BYTES, ReassemblyBudget};

/// Maximum plausible distance from the next byte: TCP's largest window (RFC 7323 §2.3).
pub(crate) const PLAUSIBLE: i32 = 1 << 30;

/// A part of one side's stream, in order.
#[derive(Debug)]
pub(crate) struct StreamPiece {
    /// Position of its start.
    pub seq: TcpSeq,
    /// Acknowledgment of its sender, if known.
    pub ack: Option<TcpSeq>,
    pub ts: Timestamp,
    pub what: PieceContent,
}

#[derive(Debug)]
pub(crate) enum PieceContent {
    /// Bytes located by the events of this call.
    Bytes(EventBytes),
    /// Bytes stored beyond the call.
    Kept(Box<[u8]>),
    /// Length of bytes that no parser needed when the piece was stored.
    Forgotten(u32),
    /// A gap of this length.
    Gap(u64),
    End,
}

/// State that decides on delivery, besides the waiting pieces. Per side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryContext {
    /// Next byte in order, if anything of the side is known.
    pub next: [Option<TcpSeq>; 2],
    /// Whether the side's FIN and everything before it has arrived.
    pub ended: [bool; 2],
    /// Highest accepted acknowledgment.
    pub acked: [Option<TcpSeq>; 2],
    /// Maximum reordering of packets in the capture.
    pub reorder_wait_ns: i64,
    /// The flow began less than that ago: packets of an unseen side may still arrive.
    pub young: bool,
    /// No SYN was seen.
    pub unopened: bool,
}

/// Whether a piece may be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeliveryDecision {
    Now,
    /// After bytes of the other side.
    Later,
    /// The acknowledgment covers bytes that were never sent.
    Unbelievable,
}

/// Waiting pieces of both sides of a connection. Between calls at most one side waits, for a hole of the other.
#[derive(Debug, Default)]
pub(crate) struct DeliveryOrder {
    queues: [VecDeque<StreamPiece>; 2],
    /// Number of pieces at the end that are not charged to the budget yet.
    fresh: [usize; 2],
    /// Cost of the other pieces.
    costs: [usize; 2],
}

impl DeliveryContext {
    /// Whether a piece of `side` may be delivered when the other side has been up to `delivered`.
    fn turn(
        &self,
        side: FlowSide,
        ack: Option<TcpSeq>,
        delivered: Option<TcpSeq>,
    ) -> DeliveryDecision {
        if self.awaits_opening() {
            return DeliveryDecision::Later;
        }
        let Some(ack) = ack else {
            return DeliveryDecision::Now;
        };
        let Some(delivered) = delivered else {
            return if self.young {
                DeliveryDecision::Later
            } else {
                DeliveryDecision::Now
            };
        };
        let at = side.index();
        let other = side.other().index();
        let is_up_to = |known: Option<TcpSeq>| known.is_some_and(|known| ack.distance(known) <= 0);
        match ack.distance(delivered) {
            ..=0 => DeliveryDecision::Now,
            // The acknowledged bytes are available, but wait themselves.
            ..=PLAUSIBLE if is_up_to(self.next[other]) => DeliveryDecision::Later,
            // The acknowledged bytes are missing: they will arrive or be abandoned.
            ..=PLAUSIBLE if is_up_to(self.acked[at]) && !self.ended[other] => {
                DeliveryDecision::Later
            }
            _ => DeliveryDecision::Unbelievable,
        }
    }

    /// Whether the SYN, or bytes before the first ones, may still arrive.
    pub fn awaits_opening(&self) -> bool {
        self.young && self.unopened
    }

    /// Withdraws the acknowledgment `ack` of `side`, so that reassembly does not wait for it.
    fn take_back(&mut self, side: FlowSide, ack: Option<TcpSeq>) {
        let next = self.next[side.other().index()];
        let acked = &mut self.acked[side.index()];
        if let (Some(ack), Some(next), Some(highest)) = (ack, next, *acked)
            && ack.distance(next) > 0
            && highest.distance(ack) >= 0
        {
            *acked = Some(next);
        }
    }

    /// Whether a piece of `side` may be delivered immediately if nothing waits.
    pub fn allows(&self, side: FlowSide, ack: Option<TcpSeq>) -> bool {
        self.turn(side, ack, self.next[side.other().index()]) == DeliveryDecision::Now
    }
}

impl StreamPiece {
    /// Delivers the piece as an event; bytes and gaps only if `wanted`.
    pub fn tell(self, side: FlowSide, wanted: bool, flow: FlowIdx, events: &mut FlowEvents) {
        let StreamPiece { seq, ack, ts, what } = self;
        let place = StreamPlace { seq, ack };
        if !wanted && !matches!(what, PieceContent::End) {
            return;
        }
        let chunk = match what {
            PieceContent::Gap(len) => {
                return events.push(flow, FlowEvent::Gap { side, seq, len, ts });
            }
            // The bytes are needed again.
            PieceContent::Forgotten(len) => {
                let len = u64::from(len);
                return events.push(flow, FlowEvent::Gap { side, seq, len, ts });
            }
            PieceContent::End => return events.push(flow, FlowEvent::End { side, ts }),
            PieceContent::Bytes(chunk) => chunk,
            PieceContent::Kept(bytes) => events.hold(&bytes),
        };
        events.push(
            flow,
            FlowEvent::Bytes {
                side,
                chunk,
                ts,
                place,
            },
        );
    }

    /// Drops the bytes and keeps the position.
    fn forget_bytes(&mut self) {
        self.what = match &self.what {
            PieceContent::Bytes(chunk) => PieceContent::Forgotten(chunk.len()),
            PieceContent::Kept(bytes) => PieceContent::Forgotten(bytes.len() as u32),
            _ => return,
        };
    }

    /// Cost in the budget.
    fn cost(&self) -> usize {
        HELD_OVERHEAD_BYTES
            + match &self.what {
                PieceContent::Bytes(chunk) => chunk.len() as usize,
                PieceContent::Kept(bytes) => bytes.len(),
                PieceContent::Forgotten(_) | PieceContent::Gap(_) | PieceContent::End => 0,
            }
    }
}

impl DeliveryOrder {
    /// Adds the next piece of `side`.
    pub fn push(&mut self, side: FlowSide, piece: StreamPiece) {
        if let Some(ack) = piece.ack {
            self.had_heard(side, piece.seq, ack);
        }
        self.queues[side.index()].push_back(piece);
        self.fresh[side.index()] += 1;
    }

    /// Records that `side` had received at most up to `ack` when its stream was at `seq`. Earlier pieces with a
    /// higher acknowledgment were retransmitted later, or are damaged: they are corrected.
    pub fn had_heard(&mut self, side: FlowSide, seq: TcpSeq, ack: TcpSeq) {
        /// A larger difference is itself damage.
        const NEAR: i32 = 1 << 20;
        for piece in self.queues[side.index()]
            .iter_mut()
            .rev()
            .filter(|piece| piece.seq.before(seq))
        {
            match &mut piece.ack {
                Some(said) if (1..=NEAR).contains(&said.distance(ack)) => *said = ack,
                Some(_) => return,
                None => {}
            }
        }
    }

    /// Removes and returns the next piece to deliver, if any. Counts a rejected acknowledgment and withdraws it in
    /// `heard`.
    pub fn pop(
        &mut self,
        heard: &mut DeliveryContext,
        budget: &mut ReassemblyBudget,
        totals: &mut FlowTableCounters,
    ) -> Option<(FlowSide, StreamPiece)> {
        let side = match [FlowSide::A, FlowSide::B].map(|side| self.turn(side, heard)) {
            [None, None] => return None,
            _ if heard.awaits_opening() => return None,
            [Some(DeliveryDecision::Now), Some(DeliveryDecision::Now)] => self.earlier(),
            [Some(DeliveryDecision::Now), Some(_)] => {
                self.unless_late(FlowSide::A, heard.reorder_wait_ns)
            }
            [Some(_), Some(DeliveryDecision::Now)] => {
                self.unless_late(FlowSide::B, heard.reorder_wait_ns)
            }
            [Some(DeliveryDecision::Unbelievable), _] => FlowSide::A,
            [_, Some(DeliveryDecision::Unbelievable)] => FlowSide::B,
            [Some(DeliveryDecision::Later), Some(DeliveryDecision::Later)] => self.earlier(),
            [Some(DeliveryDecision::Now), None] => FlowSide::A,
            [None, Some(DeliveryDecision::Now)] => FlowSide::B,
            [Some(DeliveryDecision::Later), None] | [None, Some(DeliveryDecision::Later)] => {
                return None;
            }
        };
        let has_turn = self.turn(side, heard) == Some(DeliveryDecision::Now);
        let mut piece = self.take(side, budget)?;
        if !has_turn {
            totals.acks_disbelieved += 1;
            heard.take_back(side, piece.ack.take());
        }
        Some((side, piece))
    }

    /// Keeps waiting pieces beyond the call: copies their bytes, charged to the budget, if wanted. Returns false if
    /// the budget is used up and something must be delivered first; `others` is the cost of other held data per side.
    pub fn keep(
        &mut self,
        wanted: Option<(&FlowEvents, &[u8])>,
        others: [usize; 2],
        budget: &mut ReassemblyBudget,
        totals: &mut FlowTableCounters,
    ) -> bool {
        for at in [0, 1] {
            while self.fresh[at] > 0 {
                let n = self.queues[at].len() - self.fresh[at];
                let piece = &mut self.queues[at][n];
                if wanted.is_none() {
                    piece.forget_bytes();
                }
                let cost = piece.cost();
                if !budget.fits(others[at] + self.costs[at], cost) {
                    return false;
                }
                if let (PieceContent::Bytes(chunk), Some((events, payload))) = (&piece.what, wanted)
                {
                    piece.what = PieceContent::Kept(events.bytes(*chunk, payload).into());
                }
                self.costs[at] += cost;
                self.fresh[at] -= 1;
                budget.take(cost, totals);
            }
        }
        true
    }

    /// Removes and returns the undelivered bytes of `side` since `start`, and its end, if it was kept. Returns nothing
    /// if other bytes were kept, or some of them delivered.
    pub fn take_all_from(
        &mut self,
        side: FlowSide,
        start: TcpSeq,
        budget: &mut ReassemblyBudget,
    ) -> Option<Vec<StreamPiece>> {
        let queue = &self.queues[side.index()];
        let is_from_start = queue.front().is_some_and(|piece| piece.seq == start);
        let are_bytes = queue
            .iter()
            .all(|piece| !matches!(piece.what, PieceContent::Bytes(_) | PieceContent::Gap(_)));
        (is_from_start && are_bytes)
            .then(|| std::iter::from_fn(|| self.take(side, budget)).collect())
    }

    fn turn(&self, side: FlowSide, heard: &DeliveryContext) -> Option<DeliveryDecision> {
        let other = side.other().index();
        let delivered = self.queues[other]
            .front()
            .map(|piece| piece.seq)
            .or(heard.next[other]);
        let ack = self.queues[side.index()].front()?.ack;
        Some(heard.turn(side, ack, delivered))
    }

    /// The side whose head was captured first, if both may be next. A gap has no such time (it is detected later than
    /// it was sent), so bytes precede it: their sender need not have received the missing ones.
    fn earlier(&self) -> FlowSide {
        let [a, b] = [0, 1].map(|side| {
            self.queues[side]
                .front()
                .map(|piece| (matches!(piece.what, PieceContent::Gap(_)), piece.ts))
        });
        if a <= b { FlowSide::A } else { FlowSide::B }
    }

    /// Returns `side`, whose turn it is; or the other side, if its head was captured too long before to have received
    /// these bytes.
    fn unless_late(&self, side: FlowSide, reorder_wait_ns: i64) -> FlowSide {
        let head = |side: FlowSide| self.queues[side.index()].front();
        let Some(next) = head(side) else { return side };
        let Some(waits) = head(side.other()) else {
            return side;
        };
        let late = next.ts.since(waits.ts) > reorder_wait_ns;
        if late && !matches!(next.what, PieceContent::Gap(_)) {
            side.other()
        } else {
            side
        }
    }

    fn take(&mut self, side: FlowSide, budget: &mut ReassemblyBudget) -> Option<StreamPiece> {
        let at = side.index();
        let piece = self.queues[at].pop_front()?;
        if self.fresh[at] > self.queues[at].len() {
            self.fresh[at] -= 1;
        } else {
            self.costs[at] -= piece.cost();
            budget.release(piece.cost());
        }
        Some(piece)
    }

    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Cost of all waiting pieces in the budget.
    pub fn held(&self) -> usize {
        self.costs.iter().sum()
    }

    /// Cost of the waiting pieces of `side` in the budget.
    pub fn cost(&self, side: FlowSide) -> usize {
        self.costs[side.index()]
    }

    /// Cost of the waiting pieces, counted piece by piece.
    #[cfg(test)]
    pub fn cost_of_pieces(&self) -> usize {
        self.queues.iter().flatten().map(StreamPiece::cost).sum()
    }

    /// The side that waits between calls, and the acknowledgment it waits for.
    pub fn waits_for(&self) -> Option<(FlowSide, TcpSeq)> {
        let [a, b] = [FlowSide::A, FlowSide::B]
            .map(|side| Some((side, self.queues[side.index()].front()?.ack?)));
        a.or(b)
    }

    /// Rejects the acknowledgments of the first waiting pieces.
    pub fn disbelieve_heads(&mut self, totals: &mut FlowTableCounters) {
        for piece in self.queues.iter_mut().filter_map(VecDeque::front_mut) {
            totals.acks_disbelieved += u64::from(piece.ack.take().is_some());
        }
    }

    /// Drops the bytes, which are no longer needed, and keeps their positions.
    pub fn forget_bytes(&mut self, budget: &mut ReassemblyBudget) {
        for at in [0, 1] {
            let queue = &mut self.queues[at];
            let before = self.costs[at];
            queue.iter_mut().for_each(StreamPiece::forget_bytes);
            self.costs[at] = queue.iter().map(StreamPiece::cost).sum();
            budget.release(before - self.costs[at]);
        }
    }
}

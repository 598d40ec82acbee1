//! In which order a connection's bytes, gaps and ends are delivered: that in which both sides said them.
//!
//! A segment of one side that acknowledges `ack` proves that its sender had received everything of the other side below
//! `ack` when it spoke. So it is delivered once everything of the other side below `ack` has been: as bytes or as a gap.
//! That is the rule; times of packets and their order in the capture only break ties.
//!
//! What has to wait stands in its side's queue, behind reassembly: a queue holds bytes that are in order already, and gaps. So a
//! side has been delivered up to the head of its queue or, where its queue is empty, up to the next byte that reassembly expects.
//!
//! An acknowledgment is not believed, and the bytes are delivered without it,
//! - when it says more than reassembly believes of its side (see `tcp_state::on_ack`), or covers bytes that the other
//!   side, which has sent its FIN, never sent;
//! - when the other side goes on below it with bytes that were captured long after;
//! - when both heads wait for each other: neither can have heard the other before it spoke.
//!
//! A side of which no packet was captured is not waited for; but as long as the flow is young (`reorder_wait_ns`), its packets may
//! still come, and what acknowledges them waits.
//!
//! So what waits, waits for a hole that reassembly will fill or give up; nothing waits for ever.

use std::collections::VecDeque;

use wire::{Side, TcpSeq, Timestamp};

use crate::event::{Chunk, Events, FlowEvent, FlowIdx, Place};
use crate::metrics::Counters;
use crate::reassembly::{Budget, HELD_OVERHEAD_BYTES, PLAUSIBLE};

/// A part of what one side says, in its order.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Where it begins.
    pub seq: TcpSeq,
    /// What its sender had received, if that is known.
    pub ack: Option<TcpSeq>,
    pub ts: Timestamp,
    pub what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// Bytes where the events of this call find them.
    Bytes(Chunk),
    /// Bytes that outlast the call.
    Kept(Box<[u8]>),
    /// So many bytes that are missing.
    Gap(u64),
    End,
}

/// What decides about pieces besides those that wait. By side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    /// The next byte in order, of a side of which anything is known.
    pub next: [Option<TcpSeq>; 2],
    /// Which has sent its FIN, and everything before it.
    pub ended: [bool; 2],
    /// The highest acknowledgment that is believed.
    pub acked: [Option<TcpSeq>; 2],
    /// A capture's packets may be that much out of order.
    pub reorder_wait_ns: i64,
    /// The flow began less than that ago: of a side of which nothing is known earlier packets may still come.
    pub young: bool,
}

/// Whether a piece may be delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Now,
    /// After bytes of the other side.
    Later,
    /// Its acknowledgment covers what was never sent.
    Unbelievable,
}

/// What waits of both sides of one connection. At rest at most one side waits, for a hole of the other.
#[derive(Debug, Default)]
pub(crate) struct Order {
    queues: [VecDeque<Piece>; 2],
    /// How many pieces, the last ones, are not charged to the budget yet.
    fresh: [usize; 2],
    /// What the others cost.
    costs: [usize; 2],
}

impl Heard {
    /// When a piece of `side` may be delivered, if the other side has been up to `delivered`.
    fn turn(&self, side: Side, ack: Option<TcpSeq>, delivered: Option<TcpSeq>) -> Turn {
        let Some(ack) = ack else { return Turn::Now };
        let Some(delivered) = delivered else { return if self.young { Turn::Later } else { Turn::Now } };
        let (at, other) = (side.index(), side.other().index());
        let is_up_to = |known: Option<TcpSeq>| known.is_some_and(|known| ack.distance(known) <= 0);
        match ack.distance(delivered) {
            ..=0 => Turn::Now,
            // What it had heard is here, and waits itself.
            ..=PLAUSIBLE if is_up_to(self.next[other]) => Turn::Later,
            // What it had heard is missing: it will come or be given up.
            ..=PLAUSIBLE if is_up_to(self.acked[at]) && !self.ended[other] => Turn::Later,
            _ => Turn::Unbelievable,
        }
    }

    /// `side` had not received what `ack` says: reassembly need not look for it.
    fn take_back(&mut self, side: Side, ack: Option<TcpSeq>) {
        let (next, acked) = (self.next[side.other().index()], &mut self.acked[side.index()]);
        if let (Some(ack), Some(next), Some(highest)) = (ack, next, *acked)
            && ack.distance(next) > 0
            && highest.distance(ack) >= 0
        {
            *acked = Some(next);
        }
    }

    /// Whether a piece of `side` may be delivered at once where nothing waits.
    pub fn allows(&self, side: Side, ack: Option<TcpSeq>) -> bool {
        self.turn(side, ack, self.next[side.other().index()]) == Turn::Now
    }
}

impl Piece {
    /// Delivers it as an event; bytes and gaps only if they are `wanted`.
    pub fn tell(self, side: Side, wanted: bool, flow: FlowIdx, events: &mut Events) {
        let Piece { seq, ack, ts, what } = self;
        let place = Place { seq, ack };
        if !wanted && !matches!(what, What::End) {
            return;
        }
        let chunk = match what {
            What::Gap(len) => return events.push(flow, FlowEvent::Gap { side, seq, len, ts }),
            What::End => return events.push(flow, FlowEvent::End { side, ts }),
            What::Bytes(chunk) => chunk,
            What::Kept(bytes) => events.hold(&bytes),
        };
        events.push(flow, FlowEvent::Bytes { side, chunk, ts, place });
    }

    /// Keeps its place only.
    fn forget_bytes(&mut self) {
        if let What::Bytes(_) | What::Kept(_) = self.what {
            self.what = What::Kept(Box::default());
        }
    }

    /// What it costs of the budget.
    fn cost(&self) -> usize {
        HELD_OVERHEAD_BYTES
            + match &self.what {
                What::Bytes(Chunk::InPacket { start, end } | Chunk::Held { start, end }) => {
                    (end - start) as usize
                }
                What::Kept(bytes) => bytes.len(),
                What::Gap(_) | What::End => 0,
            }
    }
}

impl Order {
    /// Adds what `side` says next.
    pub fn push(&mut self, side: Side, piece: Piece) {
        if let Some(ack) = piece.ack {
            self.had_heard(side, piece.seq, ack);
        }
        self.queues[side.index()].push_back(piece);
        self.fresh[side.index()] += 1;
    }

    /// `side` had received no more than up to `ack` when its stream had come to `seq`, so it had not when it said what is
    /// before `seq` either. A piece before that acknowledges more was sent again later, or is damaged: it is set right.
    pub fn had_heard(&mut self, side: Side, seq: TcpSeq, ack: TcpSeq) {
        /// What is farther off is damaged itself.
        const NEAR: i32 = 1 << 20;
        for piece in self.queues[side.index()].iter_mut().rev().filter(|piece| piece.seq.before(seq)) {
            match &mut piece.ack {
                Some(said) if (1..=NEAR).contains(&said.distance(ack)) => *said = ack,
                Some(_) => return,
                None => {}
            }
        }
    }

    /// Takes the next piece to deliver, if any. Counts an acknowledgment that is rejected and takes it back in `heard`.
    pub fn pop(
        &mut self,
        heard: &mut Heard,
        budget: &mut Budget,
        totals: &mut Counters,
    ) -> Option<(Side, Piece)> {
        let side = match [Side::A, Side::B].map(|side| self.turn(side, heard)) {
            [None, None] => return None,
            [Some(Turn::Now), Some(Turn::Now)] => self.earlier(),
            [Some(Turn::Now), Some(_)] => self.unless_late(Side::A, heard.reorder_wait_ns),
            [Some(_), Some(Turn::Now)] => self.unless_late(Side::B, heard.reorder_wait_ns),
            [Some(Turn::Unbelievable), _] => Side::A,
            [_, Some(Turn::Unbelievable)] => Side::B,
            [Some(Turn::Later), Some(Turn::Later)] => self.earlier(),
            [Some(Turn::Now), None] => Side::A,
            [None, Some(Turn::Now)] => Side::B,
            [Some(Turn::Later), None] | [None, Some(Turn::Later)] => return None,
        };
        let has_turn = self.turn(side, heard) == Some(Turn::Now);
        let mut piece = self.take(side, budget)?;
        if !has_turn {
            totals.acks_disbelieved += 1;
            heard.take_back(side, piece.ack.take());
        }
        Some((side, piece))
    }

    /// Lets what waits outlast the call: copies it, at the budget's cost, from where the call's bytes are, if they are wanted.
    /// False when the budget is spent, and something has to be delivered first; `others`: what else waits of each side.
    pub fn keep(
        &mut self,
        wanted: Option<(&Events, &[u8])>,
        others: [usize; 2],
        budget: &mut Budget,
        totals: &mut Counters,
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
                if let (What::Bytes(chunk), Some((events, payload))) = (&piece.what, wanted) {
                    piece.what = What::Kept(events.bytes(*chunk, payload).into());
                }
                self.costs[at] += cost;
                self.fresh[at] -= 1;
                budget.take(cost, totals);
            }
        }
        true
    }

    fn turn(&self, side: Side, heard: &Heard) -> Option<Turn> {
        let other = side.other().index();
        let delivered = self.queues[other].front().map(|piece| piece.seq).or(heard.next[other]);
        let ack = self.queues[side.index()].front()?.ack;
        Some(heard.turn(side, ack, delivered))
    }

    /// Of two heads that both may be next the one that was captured first. A gap has no such time (it was noticed later than it
    /// was sent), so bytes go before it: their sender did not need to hear what is missing.
    fn earlier(&self) -> Side {
        let [a, b] = [0, 1].map(|side| {
            self.queues[side].front().map(|piece| (matches!(piece.what, What::Gap(_)), piece.ts))
        });
        if a <= b { Side::A } else { Side::B }
    }

    /// `side`, whose turn it is. But if its bytes were captured long after what waits for them, that cannot have heard them: then the
    /// other side, whose acknowledgment is not believed.
    fn unless_late(&self, side: Side, reorder_wait_ns: i64) -> Side {
        let head = |side: Side| self.queues[side.index()].front();
        let (Some(next), Some(waits)) = (head(side), head(side.other())) else { return side };
        let late = next.ts.since(waits.ts) > reorder_wait_ns;
        if late && !matches!(next.what, What::Gap(_)) { side.other() } else { side }
    }

    fn take(&mut self, side: Side, budget: &mut Budget) -> Option<Piece> {
        let at = side.index();
        let piece = self.queues[at].pop_front()?;
        if self.fresh[at] > self.queues[at].len() {
            self.fresh[at] -= 1;
        } else {
            self.costs[at] -= piece.cost();
            budget.held -= piece.cost();
        }
        Some(piece)
    }

    pub fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// What the pieces of `side` that wait cost of the budget.
    pub fn cost(&self, side: Side) -> usize {
        self.costs[side.index()]
    }

    /// The side that waits at rest, and for which bytes of the other: those below this acknowledgment.
    pub fn waits_for(&self) -> Option<(Side, TcpSeq)> {
        let [a, b] = [Side::A, Side::B].map(|side| Some((side, self.queues[side.index()].front()?.ack?)));
        a.or(b)
    }

    /// Rejects the acknowledgments that the first waiting pieces depend on.
    pub fn disbelieve_heads(&mut self, totals: &mut Counters) {
        for piece in self.queues.iter_mut().filter_map(VecDeque::front_mut) {
            totals.acks_disbelieved += u64::from(piece.ack.take().is_some());
        }
    }

    /// Drops the bytes, which are not needed anymore, and keeps their positions.
    pub fn forget_bytes(&mut self, budget: &mut Budget) {
        for at in [0, 1] {
            let (queue, before) = (&mut self.queues[at], self.costs[at]);
            queue.iter_mut().for_each(Piece::forget_bytes);
            self.costs[at] = queue.iter().map(Piece::cost).sum();
            budget.held -= before - self.costs[at];
        }
    }
}

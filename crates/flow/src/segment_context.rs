//! Context of the handling of a segment, and the passage of bytes from a flow's records through
//! reassembly and the order of delivery to the events.

use wire::{FlowSide, TcpSeq, Timestamp};

use crate::delivery_order::DeliveryContext;
use crate::event_outlet::{EventOutlet, ReassemblyTimeouts};
use crate::flow::FlowCore;
use crate::flow_layout::{flag, half_bit};
use crate::flow_mut::FlowMut;
use crate::metrics::{FlowTableCounters, HistoryLetter};
use crate::reassembly::ByteStream;
use crate::reassembly_budget::{HELD_OVERHEAD_BYTES, ReassemblyBudget};
use crate::{FlowEvents, FlowIdx};

/// Environment of a call, besides the flow.
pub(crate) struct SegmentContext<'a> {
    pub events: &'a mut FlowEvents,
    pub flow: FlowIdx,
    pub reassemble: bool,
    pub patience: ReassemblyTimeouts,
    pub budget: &'a mut ReassemblyBudget,
    pub totals: &'a mut FlowTableCounters,
    pub now: Timestamp,
}

impl SegmentContext<'_> {
    /// Whether the flow's payload is wanted.
    #[inline]
    pub fn delivers(&self, flow: &FlowMut<'_>) -> bool {
        self.reassemble && !flow.hot.has(flag::IGNORED)
    }

    /// Unpacks the stream of `side`, calls `act`, and packs it again.
    pub fn on_stream<R>(
        &mut self,
        flow: &mut FlowMut<'_>,
        side: FlowSide,
        act: impl FnOnce(&mut ByteStream, &mut EventOutlet<'_>) -> R,
    ) -> R {
        let mut stream = unpack(flow, side);
        let other = side.other();
        let heard = self.heard(flow.core());
        let deliver = self.delivers(flow);
        let mirrored = flow.hot.has(flag::MIRRORED);
        let spill = flow.spill_mut();
        let mut out = EventOutlet {
            deliver,
            mirrored,
            events: &mut *self.events,
            flow: self.flow,
            side,
            now: self.now,
            acked: heard.acked[other.index()],
            patience: self.patience,
            budget: &mut *self.budget,
            counters: &mut spill.counters[side.index()],
            totals: &mut *self.totals,
            order: &mut spill.order,
            heard,
        };
        let result = act(&mut stream, &mut out);
        pack(flow, side, stream);
        self.release(flow);
        result
    }

    /// State that determines the order in which the two sides' bytes are delivered. A side without captured packets
    /// delays nothing.
    pub fn heard(&self, flow: FlowCore<'_>) -> DeliveryContext {
        let hot = flow.hot;
        let wait_ns = self.patience.reorder_wait_ns;
        let young = self.now.since(flow.first_ts()).saturating_abs() < wait_ns;
        let is_here = |side| hot.is_started(side) && (young || flow.is_captured(side));
        let sides = [FlowSide::A, FlowSide::B];
        DeliveryContext {
            next: sides.map(|side| is_here(side).then_some(hot.next[side.index()])),
            ended: sides.map(|side| hot.is_ended(side)),
            acked: sides.map(|side| {
                hot.did(side, half_bit::ACK_SEEN)
                    .then_some(hot.ack[side.index()])
            }),
            reorder_wait_ns: wait_ns,
            young,
            unopened: flow.is_unopened(),
        }
    }

    /// Delivers waiting pieces whose turn it is.
    fn release(&mut self, flow: &mut FlowMut<'_>) {
        self.release_by(flow, true);
    }

    /// Same, without waiting for packets of a side that was not seen or for a SYN.
    fn release_without_waiting(&mut self, flow: &mut FlowMut<'_>) {
        self.release_by(flow, false);
    }

    fn release_by(&mut self, flow: &mut FlowMut<'_>, waits: bool) {
        if !flow.core().holds_back() {
            return;
        }
        let heard = self.heard(flow.core());
        let before = DeliveryContext {
            young: heard.young && waits,
            ..heard
        };
        let Some(mut order) = flow.spill_mut().order.take() else {
            return;
        };
        let mut heard = before;
        let wanted = self.delivers(flow);
        while let Some((side, piece)) = order.pop(&mut heard, self.budget, self.totals) {
            piece.tell(side, wanted, self.flow, self.events);
        }
        for side in [FlowSide::A, FlowSide::B]
            .into_iter()
            .filter(|s| heard.acked[s.index()] != before.acked[s.index()])
        {
            take_back(flow, side, heard.acked[side.index()].unwrap_or_default());
        }
        flow.spill_mut().order = Some(order).filter(|order| !order.is_empty());
    }

    /// Keeps waiting data beyond this call. If the budget is insufficient, the bytes it waits for are abandoned.
    pub fn settle(&mut self, flow: &mut FlowMut<'_>, payload: &[u8]) {
        self.release(flow);
        let wanted = self.delivers(flow);
        while let Some(spill) = &mut flow.cold.spill
            && let Some(order) = &mut spill.order
        {
            let others = spill
                .waiting
                .each_ref()
                .map(|waiting| waiting.as_ref().map_or(0, |w| w.cost()));
            let bytes = wanted.then_some((&*self.events, payload));
            if order.keep(bytes, others, self.budget, self.totals) {
                return;
            }
            self.hurry(flow);
        }
    }

    /// Releases what waits for packets that may still arrive, or abandons the first bytes that something waits for.
    fn hurry(&mut self, flow: &mut FlowMut<'_>) {
        self.totals.held_overflows += 1;
        if self.heard(flow.core()).awaits_opening() {
            self.release_without_waiting(flow);
        }
        let Some(order) = flow
            .cold
            .spill
            .as_ref()
            .and_then(|spill| spill.order.as_ref())
        else {
            return;
        };
        let waits_for = order.waits_for();
        if waits_for.is_some_and(|(side, _)| !flow.hot.is_started(side.other())) {
            return self.release_without_waiting(flow);
        }
        let gives_up = |(side, ack): (FlowSide, TcpSeq)| {
            let before = repeats_of(flow, side.other());
            let gave_up =
                self.on_stream(flow, side.other(), |stream, out| stream.give_up(ack, out));
            note_repeats(flow, side.other(), before);
            gave_up
        };
        if !waits_for.is_some_and(gives_up) {
            self.disbelieve_heads(flow);
        }
    }

    /// Frees memory for a segment of a side that waits for the other.
    pub fn make_room(&mut self, flow: &mut FlowMut<'_>, side: FlowSide, len: usize) {
        while let Some(spill) = &flow.cold.spill
            && let Some(order) = spill.order.as_ref().filter(|order| order.cost(side) > 0)
            && let waiting = spill.waiting[side.index()].as_ref().map_or(0, |w| w.cost())
            && !self
                .budget
                .fits(order.cost(side) + waiting, len + HELD_OVERHEAD_BYTES)
        {
            self.hurry(flow);
        }
    }

    fn disbelieve_heads(&mut self, flow: &mut FlowMut<'_>) {
        if let Some(order) = &mut flow.spill_mut().order {
            order.disbelieve_heads(self.totals);
        }
        self.release_without_waiting(flow);
    }

    /// Delivers everything that waits.
    pub fn flush(&mut self, flow: &mut FlowMut<'_>) {
        for side in [FlowSide::A, FlowSide::B] {
            if flow.cold.spill.is_some() {
                self.on_stream(flow, side, |stream, out| stream.flush(out));
            }
        }
        self.release_without_waiting(flow);
        while flow.core().holds_back() {
            self.disbelieve_heads(flow);
        }
    }
}

/// Withdraws an acknowledgment: `side` has received no more than up to `ack`.
pub(crate) fn take_back(flow: &mut FlowMut<'_>, side: FlowSide, ack: TcpSeq) {
    flow.hot.ack[side.index()] = ack;
    if let Some(waiting) = &mut flow.spill_mut().waiting[side.other().index()] {
        waiting.unacknowledge();
    }
}

pub(crate) fn unpack(flow: &mut FlowMut<'_>, side: FlowSide) -> ByteStream {
    let at = side.index();
    let (pos, unique_bytes) = flow.core().place(side);
    let next = flow.hot.next[at];
    let ended = flow.hot.is_ended(side);
    let spill = flow.spill_mut();
    let waiting = spill.waiting[at].take();
    let bits = spill.stream[at];
    ByteStream {
        waiting,
        pos,
        unique_bytes,
        next,
        bits,
        ended,
    }
}

pub(crate) fn pack(flow: &mut FlowMut<'_>, side: FlowSide, stream: ByteStream) {
    let at = side.index();
    flow.hot.next[at] = stream.next;
    flow.hot.put(flag::ENDED << at, stream.ended);
    flow.drop_anchor(side, (stream.pos, stream.unique_bytes));
    let spill = flow.spill_mut();
    spill.waiting[at] = stream.waiting;
    spill.stream[at] = stream.bits;
}

/// Retransmissions and gaps of a side so far.
pub(crate) fn repeats_of(flow: &FlowMut<'_>, side: FlowSide) -> (u32, u32) {
    let counters = flow
        .cold
        .spill
        .as_ref()
        .map(|spill| &spill.counters[side.index()]);
    counters.map_or((0, 0), |c| (c.retransmissions, c.gaps))
}

/// Zeek's letters for a retransmission and a gap.
pub(crate) fn note_repeats(flow: &mut FlowMut<'_>, side: FlowSide, before: (u32, u32)) {
    let after = repeats_of(flow, side);
    if after.0 > before.0 {
        flow.note_letter(side, HistoryLetter::RETRANSMISSION);
    }
    if after.1 > before.1 {
        flow.note_letter(side, HistoryLetter::GAP);
    }
}

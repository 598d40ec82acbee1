//! Decides which flows are reported: by FROM and TO, and by tap. Both depend on the client, so a flow stays
//! undecided until its client is known. Each is decided once per flow; the tap again when the address table
//! changes.

use flow::FlowIdx;
use parsers::{FlowProtocol, ProbeBuffer};
use plan::FlowSlice;
use wire::Endpoint;

use super::{CUT_OFF, FlowVerdict, Monitor};
use crate::slice::{SharedSlice, is_in};
use crate::tuple_outputs::TupleConsumer;

impl FlowVerdict {
    #[inline]
    pub fn of_mark(mark: u8) -> FlowVerdict {
        match mark {
            0 => FlowVerdict::Open,
            1 => FlowVerdict::In,
            2 => FlowVerdict::Out,
            _ => FlowVerdict::Elsewhere,
        }
    }

    pub fn leaves_out(self) -> bool {
        matches!(self, FlowVerdict::Out | FlowVerdict::Elsewhere)
    }
}

impl Monitor {
    /// Decides whether a flow is reported, if its client is known.
    pub(super) fn decide(&mut self, idx: FlowIdx) {
        let verdict = if self.asks.every_flow {
            FlowVerdict::In
        } else {
            self.judge(idx)
        };
        self.table.set_mark(idx, verdict as u8);
        if verdict.leaves_out() {
            self.table.state_mut(idx).stream = FlowProtocol::Ignored;
            self.table.ignore_payload(idx);
        }
    }

    fn judge(&self, idx: FlowIdx) -> FlowVerdict {
        let flow = self.table.flow(idx);
        let (side, guessed) = flow.client();
        let client = flow.key().end(side);
        let server = flow.key().end(side.other());
        let verdict = self.verdict_between(client, server);
        if !guessed || verdict == self.verdict_between(server, client) {
            verdict
        } else {
            FlowVerdict::Open
        }
    }

    fn verdict_between(&self, client: Endpoint, server: Endpoint) -> FlowVerdict {
        if !self.addresses.matches(client, server) {
            FlowVerdict::Out
        } else if self
            .taps
            .as_ref()
            .is_none_or(|taps| taps.tells(client, server))
        {
            FlowVerdict::In
        } else {
            FlowVerdict::Elsewhere
        }
    }

    pub(super) fn verdict(&self, idx: FlowIdx) -> FlowVerdict {
        FlowVerdict::of_mark(self.table.mark(idx))
    }

    /// Whether tuples of the flow may be written now; an undecided flow is judged by the guessed client.
    pub(super) fn asked_for(&self, idx: FlowIdx) -> bool {
        match self.verdict(idx) {
            FlowVerdict::In => true,
            FlowVerdict::Out | FlowVerdict::Elsewhere => false,
            FlowVerdict::Open => {
                let flow = self.table.flow(idx);
                let (side, _) = flow.client();
                let client = flow.key().end(side);
                let server = flow.key().end(side.other());
                self.verdict_between(client, server) == FlowVerdict::In
            }
        }
    }

    /// Decides all flows again if the address table of taps has changed.
    pub(super) fn heed_taps(&mut self, out: &mut dyn TupleConsumer) {
        let Some(taps) = &mut self.taps else { return };
        if !taps.refresh() {
            return;
        }
        let is_sliced = self.adaptive.slice() != FlowSlice::default();
        self.asks.every_flow = self.addresses.passes_all() && taps.tells_all() && !is_sliced;
        for idx in self.table.flows() {
            let before = self.verdict(idx);
            let now = if self.asks.every_flow {
                FlowVerdict::In
            } else {
                self.judge(idx)
            };
            if now.leaves_out() && !before.leaves_out() {
                // Another tap continues the flow; unfinished transactions are reported here as halves.
                self.close_stream(idx, self.table.flow(idx).last_ts());
                self.decide(idx);
            } else if before == FlowVerdict::Elsewhere && now != before {
                self.take_up(idx, now);
            }
            self.flush_full(out);
        }
        self.flush(out);
    }

    /// Applies a change of the slice that switches copy. Flows outside it end here as sampled out; their
    /// partial results are not reported, because the remaining flows are scaled up to represent them.
    pub(super) fn heed_slice(&mut self) {
        let Some(slice) = self.slice.as_ref().map(SharedSlice::get) else {
            return;
        };
        let before = self.adaptive.slice();
        if slice == before {
            return;
        }
        self.adaptive.set_slice(self.clock, slice);
        // Marks have to be checked from now on.
        self.asks.every_flow = false;
        if slice.level < before.level {
            return;
        }
        for idx in self.table.flows() {
            let key = self.table.flow(idx).key();
            let state = self.table.state_mut(idx);
            if state.level == CUT_OFF {
                continue;
            }
            if is_in(slice, &[key.a, key.b]) {
                state.level = state.level.max(slice.level);
                continue;
            }
            if let FlowProtocol::Probing(probing) = &state.stream {
                self.awaited_bytes -= probing.excess();
            }
            state.level = CUT_OFF;
            state.stream = FlowProtocol::Ignored;
            self.table.set_mark(idx, FlowVerdict::Out as u8);
            self.table.ignore_payload(idx);
            self.accounting.cut_off += 1;
        }
    }

    /// Handles packets of a flow that was cut off, after a change of the slice that admits any such flow.
    pub(super) fn come_again(&mut self, idx: FlowIdx, level: u8) {
        self.table.state_mut(idx).level = level;
        let verdict = self.judge(idx);
        if verdict.leaves_out() {
            self.table.set_mark(idx, verdict as u8)
        } else {
            self.take_up(idx, verdict)
        }
    }

    /// Starts reading a flow that another tap reported so far, as one joined midway.
    fn take_up(&mut self, idx: FlowIdx, verdict: FlowVerdict) {
        self.table.set_mark(idx, verdict as u8);
        self.table.heed_payload(idx);
        self.table.state_mut(idx).stream = FlowProtocol::Probing(Box::new(ProbeBuffer::midway()));
    }
}

//! Memory of flows in the table's [`FlowBudget`], and eviction when it is used up.

use wire::packet::TcpFlags;
use wire::{Packet, Timestamp, TransportHeader};

use super::FlowTable;
use crate::duplicates::LatestPacket;
use crate::event::{CloseReason, FlowEvents, FlowIdx};
use crate::flow_layout::{ColdRecord, HotRecord, SpillRecord, flag};

/// Approximate bytes of a flow in the index, the timing wheel, and the array of extra bytes.
const LISTED_BYTES: usize = 32;
/// Bytes of a flow's spilled record.
const SPILL_BYTES: u32 = size_of::<SpillRecord>() as u32;
/// Flows evicted per new flow: more than one, because flows may have grown since they opened.
const EVICTED_PER_FLOW: usize = 4;
/// Flows closed per call to `make_room`.
const EVICTED_PER_CALL: usize = 1024;

impl<S: Default> FlowTable<S> {
    /// Bytes of a flow without a spilled record and the caller's allocations.
    pub const FLOW_BYTES: usize = size_of::<HotRecord>()
        + size_of::<ColdRecord>()
        + size_of::<[LatestPacket; 2]>()
        + size_of::<S>()
        + LISTED_BYTES;

    /// Sets the bytes that the caller has allocated for a flow, for example for its parser. Ignored for a closed flow,
    /// whose bytes were released when it left the table.
    pub fn set_state_bytes(&mut self, flow: FlowIdx, bytes: u32) {
        if !self.store.hot(flow.0).has(flag::LIVE) {
            return;
        }
        let is_counted = self
            .store
            .cold(flow.0)
            .spill
            .as_ref()
            .is_some_and(|spill| spill.is_counted);
        self.resize(flow.0, bytes + if is_counted { SPILL_BYTES } else { 0 });
    }

    /// Closes flows while the limit is exceeded; a bounded number, true while there are more. New flows make room for
    /// themselves; this is for flows that grow.
    pub fn make_room(&mut self, now: Timestamp, events: &mut FlowEvents) -> bool {
        self.begin(events);
        events.before = None;
        for _ in 0..EVICTED_PER_CALL {
            if !self.config.room.is_overdrawn() || self.has_nobody() {
                return false;
            }
            self.evict(now, events);
        }
        true
    }

    /// Makes room for a flow that opens with `packet`.
    pub(super) fn enter(&mut self, packet: &Packet<'_>, hash: u64, events: &mut FlowEvents) {
        let begins = matches!(&packet.transport, TransportHeader::Tcp(tcp) if tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::ACK));
        self.counters.reopened += u64::from(self.evicted.take(hash) && !begins);
        for _ in 0..EVICTED_PER_FLOW {
            if self.config.room.is_left() || self.has_nobody() {
                break;
            }
            self.evict(packet.ts, events);
        }
        self.config.room.enter(Self::FLOW_BYTES);
    }

    pub(super) fn leave(&mut self, place: u32) {
        let extra = std::mem::take(self.store.extra_mut(place)) as usize;
        self.config.room.leave(Self::FLOW_BYTES + extra);
    }

    /// Counts a flow's spilled record once it exists.
    #[inline]
    pub(super) fn count_spill(&mut self, place: u32) {
        if let Some(spill) = self
            .store
            .cold_mut(place)
            .spill
            .as_mut()
            .filter(|spill| !spill.is_counted)
        {
            spill.is_counted = true;
            let extra = *self.store.extra_mut(place);
            self.resize(place, extra + SPILL_BYTES);
        }
    }

    pub(super) fn resize(&mut self, place: u32, now: u32) {
        let before = std::mem::replace(self.store.extra_mut(place), now);
        self.config.room.resize(before as usize, now as usize);
    }

    fn has_nobody(&self) -> bool {
        self.is_empty() && self.dormant.is_empty()
    }

    /// Removes an idle connection or, if there is none, closes a flow.
    fn evict(&mut self, now: Timestamp, events: &mut FlowEvents) {
        if self.dormant.forget_oldest() {
            self.counters.connections_forgotten += 1;
            return;
        }
        let victim = self.choose_victim();
        self.evicted
            .remember(self.store.flow(victim).key().hash(self.config.seed));
        self.close(victim, CloseReason::Evicted, now, now, events);
    }
}

//! The flow table: finds or opens a packet's flow, counts, passes TCP to `fast_path` or else to `tcp_state`, and
//! removes flows that are idle, closed, or too many. Every call clears the events and returns its own.
//!
//! Memory is bounded: flows within their [`crate::FlowBudget`], `held_bytes_max` bytes; packets in order allocate nothing.
//! The result for a flow depends only on its own packets and the caller's clock, not on other flows (except for
//! eviction).

mod checksums;
mod eviction;
mod lookup;
mod removal;
mod slow_path;

use wire::{FlowSide, Packet, Timestamp};

use crate::config::{FlowTableConfig, TrackingDetail};
use crate::dormant_connections::DormantTable;
use crate::duplicates::fingerprint;
use crate::event::{FlowEvents, FlowIdx, StreamPlace};
use crate::event_outlet::ReassemblyTimeouts;
use crate::evicted_flows::EvictedFlows;
use crate::expiry::{NONE, TableClock, TimingWheel};
use crate::fast_path::{self, FastPathOutcome, FastPathRules, FastPathSegment};
use crate::flow::Flow;
use crate::flow_layout::{PendingOpening, flag};
use crate::index::FlowIndex;
use crate::metrics::FlowTableCounters;
use crate::reassembly_budget::ReassemblyBudget;
use crate::segment_context::SegmentContext;
use crate::store::{ChunkedArray, FlowStore};
use crate::tcp_state;

pub use lookup::HashedKey;

/// The flow table; `S` is the caller's state per flow.
#[derive(Debug)]
pub struct FlowTable<S: Default> {
    config: FlowTableConfig,
    index: FlowIndex,
    store: FlowStore,
    states: ChunkedArray<S>,
    /// Free places.
    free: Vec<u32>,
    /// Flows closed in the last call, still readable.
    closed: Vec<u32>,
    /// Idle connections. The state of those in `resting`, as indices into `closed`, is still in `states`.
    dormant: DormantTable<S>,
    resting: Vec<u32>,
    clock: TableClock,
    rules: FastPathRules,
    wheel: TimingWheel,
    /// Number of flows not worth keeping.
    cheap: usize,
    /// Position of the clock hand for eviction.
    hand: usize,
    /// Position of `close_all`.
    closing: usize,
    budget: ReassemblyBudget,
    counters: FlowTableCounters,
    evicted: EvictedFlows,
    /// The confirmed SYN with which the next flow of its endpoints begins.
    opening: Option<PendingOpening>,
}

impl<S: Default> FlowTable<S> {
    /// Creates an empty table.
    #[must_use]
    pub fn new(config: FlowTableConfig) -> Self {
        let budget =
            ReassemblyBudget::new(config.held_bytes_max, config.held_bytes_max_per_direction);
        FlowTable {
            store: FlowStore::new(config.detail > TrackingDetail::Life),
            rules: FastPathRules {
                idle_ns: config.tcp_idle_ns.max(0) as u64,
                floor: Timestamp::MIN,
            },
            dormant: DormantTable::new(config.room.clone()),
            config,
            index: FlowIndex::new(),
            states: ChunkedArray::default(),
            free: Vec::new(),
            closed: Vec::new(),
            resting: Vec::new(),
            clock: TableClock::default(),
            wheel: TimingWheel::new(),
            cheap: 0,
            hand: 0,
            closing: 0,
            budget,
            counters: FlowTableCounters::default(),
            evicted: EvictedFlows::default(),
            opening: None,
        }
    }

    /// Processes a packet; returns its flow, which stays readable until the next call even if closed.
    #[inline]
    pub fn process(&mut self, packet: &Packet<'_>, events: &mut FlowEvents) -> FlowIdx {
        let hashed = self.hash(packet);
        self.process_hashed(packet, &hashed, events)
    }

    /// Same with a precomputed hash.
    #[inline(always)]
    pub fn process_hashed(
        &mut self,
        packet: &Packet<'_>,
        at: &HashedKey,
        events: &mut FlowEvents,
    ) -> FlowIdx {
        self.begin(events);
        self.counters.packets += 1;
        let found = self.find(at, &packet.five_tuple);
        let is_discarded =
            self.config.verify_checksums && self.is_discarded(found, at.side, packet);
        if let Some(place) = found
            && !is_discarded
            && let segment = FastPathSegment::of(packet)
            && let Some(taken) = self.take_in_fast(place, at.side, &segment)
        {
            if let Some(said) = taken.bytes {
                let bytes = tcp_state::bytes_of(at.side, segment.len, segment.ts, said);
                events.push(taken.flow, bytes);
            }
            return taken.flow;
        }
        let packet = *packet;
        FlowIdx(self.process_slowly(found, &packet, at, is_discarded, events))
    }

    /// Processes a segment on the fast path, if its flow is at the prefetched place. `None`: nothing has changed, and
    /// [`FlowTable::process_hashed`] must be called. There are no events. Not for a table that
    /// [verifies checksums](FlowTable::verifies_checksums).
    #[inline(always)]
    pub fn process_fast(
        &mut self,
        at: &HashedKey,
        segment: &FastPathSegment,
    ) -> Option<FastPathOutcome> {
        debug_assert!(!self.config.verify_checksums, "bytes are needed");
        if at.place == NONE || !self.is_v4_flow_of(at.place, at) {
            return None;
        }
        let taken = self.take_in_fast(at.place, at.side, segment)?;
        self.counters.packets += 1;
        Some(taken)
    }

    /// Whether the table needs the bytes of every packet, for its checksum.
    #[must_use]
    pub fn verifies_checksums(&self) -> bool {
        self.config.verify_checksums
    }

    /// Whether a packet continues a flow in the table; for callers that do not admit every flow, before
    /// [`FlowTable::process_hashed`]. A flow that this packet proves to have ended is closed in any case.
    pub fn goes_on(
        &mut self,
        packet: &Packet<'_>,
        at: &HashedKey,
        events: &mut FlowEvents,
    ) -> bool {
        self.begin(events);
        self.find(at, &packet.five_tuple).is_some_and(|place| {
            let now = self.clock.at(packet.ts, self.store.core(place).seen_at());
            self.judge(place, at.side, packet, now, false, events)
                .is_some()
        })
    }

    /// Read access to a flow.
    ///
    /// # Panics
    /// May panic, or return another flow, for an index whose flow was closed in an earlier call.
    #[inline]
    #[must_use]
    pub fn flow(&self, flow: FlowIdx) -> Flow<'_> {
        self.store.flow(flow.0)
    }

    /// The caller's state of a flow.
    ///
    /// # Panics
    /// As [`FlowTable::flow`].
    #[inline]
    #[must_use]
    pub fn state(&self, flow: FlowIdx) -> &S {
        self.states.at(flow.0)
    }

    /// The caller's state of a flow, mutable.
    ///
    /// # Panics
    /// As [`FlowTable::flow`].
    #[inline]
    pub fn state_mut(&mut self, flow: FlowIdx) -> &mut S {
        self.states.at_mut(flow.0)
    }

    /// A flow with the caller's state, mutable.
    ///
    /// # Panics
    /// As [`FlowTable::flow`].
    #[inline(always)]
    pub fn flow_and_state(&mut self, flow: FlowIdx) -> (Flow<'_>, &mut S) {
        (self.store.flow(flow.0), self.states.at_mut(flow.0))
    }

    /// Two bits of the caller, stored where [`FlowTable::process_hashed`] reads anyway; 0 for a new flow.
    ///
    /// # Panics
    /// As [`FlowTable::flow`].
    #[inline]
    #[must_use]
    pub fn mark(&self, flow: FlowIdx) -> u8 {
        (self.store.hot(flow.0).word >> flag::MARK_SHIFT) as u8 & 3
    }

    /// Sets [`FlowTable::mark`] to the low two bits of `mark`.
    ///
    /// # Panics
    /// As [`FlowTable::flow`].
    #[inline]
    pub fn set_mark(&mut self, flow: FlowIdx, mark: u8) {
        let hot = self.store.hot_mut(flow.0);
        hot.word = hot.word & !(3 << flag::MARK_SHIFT) | u64::from(mark & 3) << flag::MARK_SHIFT;
    }

    /// Sets the client found by a parser. Ignored if a SYN determined it.
    pub fn set_client(&mut self, flow: FlowIdx, client: FlowSide) {
        let mut flow = self.store.flow_mut(flow.0);
        if !flow.hot.has(flag::CLIENT_BY_SYN) {
            flow.put_client(client);
            flow.hot.put(flag::CLIENT_GUESSED, false);
        }
    }

    /// Stops payload of this flow: no more `Bytes`, `Gap`, and `Datagram` events, and nothing is held.
    pub fn ignore_payload(&mut self, flow: FlowIdx) {
        let flow = self.store.flow_mut(flow.0);
        flow.hot.put(flag::IGNORED, true);
        if let Some(spill) = &mut flow.cold.spill {
            spill
                .waiting
                .iter_mut()
                .flatten()
                .for_each(|waiting| waiting.forget_bytes(&mut self.budget));
            if let Some(order) = &mut spill.order {
                order.forget_bytes(&mut self.budget);
            }
        }
    }

    /// Resumes payload of this flow from here on.
    pub fn heed_payload(&mut self, flow: FlowIdx) {
        self.store.flow_mut(flow.0).hot.put(flag::IGNORED, false);
    }

    /// All flows in the table.
    #[must_use]
    pub fn flows(&self) -> Vec<FlowIdx> {
        let is_live = |place: &u32| self.store.hot(*place).has(flag::LIVE);
        (0..self.store.len() as u32)
            .filter(is_live)
            .map(FlowIdx)
            .collect()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &FlowTableCounters {
        &self.counters
    }

    /// Bytes held now, overhead included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.budget.held()
    }

    /// Number of flows in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether the table is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Clears the last call's events and frees the flows it closed.
    #[inline]
    fn begin(&mut self, events: &mut FlowEvents) {
        events.clear();
        if !self.closed.is_empty() {
            self.free_closed();
        }
    }

    #[inline(never)]
    fn free_closed(&mut self) {
        while let Some(place) = self.resting.pop() {
            let hash = self.store.flow(place).key().hash(self.config.seed);
            self.dormant
                .keep_state(hash, place, std::mem::take(self.states.at_mut(place)));
        }
        while let Some(place) = self.closed.pop() {
            *self.states.at_mut(place) = S::default();
            self.store.cold_mut(place).spill = None;
            self.free.push(place);
        }
    }

    /// Processes a segment that needs only its flow's hot record.
    #[inline(always)]
    fn take_in_fast(
        &mut self,
        place: u32,
        side: FlowSide,
        segment: &FastPathSegment,
    ) -> Option<FastPathOutcome> {
        let &FastPathSegment { ts, len, .. } = segment;
        if self
            .config
            .active_timeout_ns
            .is_some_and(|period| ts.since(self.store.cold(place).active_since) >= period)
        {
            return None;
        }
        let hot = self.store.hot_mut(place);
        if !fast_path::take_in(hot, side, segment, self.rules) {
            return None;
        }
        self.counters.stream_bytes += u64::from(len);
        let is_wanted =
            len > 0 && self.config.detail == TrackingDetail::Payload && !hot.has(flag::IGNORED);
        if let Some(latest) = self.store.latest_mut(place) {
            let fingerprint = || fingerprint(segment.seq, segment.ack, len, segment.checksum);
            latest[side.index()].note(ts, len as u16, segment.ip_id, fingerprint);
        }
        let flow = FlowIdx(place);
        let bytes = is_wanted.then_some(StreamPlace {
            seq: segment.seq,
            ack: Some(segment.ack),
        });
        Some(FastPathOutcome { flow, bytes })
    }
}

fn patience(config: &FlowTableConfig) -> ReassemblyTimeouts {
    ReassemblyTimeouts {
        reorder_wait_ns: config.reorder_wait_ns,
        gap_wait_ns: config.gap_wait_ns,
    }
}

#[inline]
fn context<'a>(
    config: &FlowTableConfig,
    budget: &'a mut ReassemblyBudget,
    totals: &'a mut FlowTableCounters,
    events: &'a mut FlowEvents,
    place: u32,
    now: Timestamp,
) -> SegmentContext<'a> {
    let flow = FlowIdx(place);
    let reassemble = config.detail == TrackingDetail::Payload;
    SegmentContext {
        events,
        flow,
        reassemble,
        patience: patience(config),
        budget,
        totals,
        now,
    }
}

#[cfg(test)]
mod tests;

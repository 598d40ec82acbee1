//! The flow table: finds or opens a packet's flow, counts, passes TCP to `fast_path` or else to `tcp_state`, and
//! removes flows that are idle, closed, or too many. Every call clears the events and returns its own.
//!
//! Memory is bounded: flows within their [`crate::Room`], `held_bytes_max` bytes; packets in order allocate nothing.
//! The result for a flow depends only on its own packets and the caller's clock, not on other flows (except for
//! eviction).

mod leaving;
mod lookup;
mod making_room;
mod slow_path;

use wire::{Packet, Side, Timestamp};

use crate::config::{Config, Detail};
use crate::dormant::Dormant;
use crate::duplicates::fingerprint;
use crate::event::{Events, FlowIdx, Place};
use crate::evicted::Evicted;
use crate::expiry::{Clock, NONE, Wheel};
use crate::fast_path::{self, Rules, Segment};
use crate::flow::Flow;
use crate::index::Index;
use crate::metrics::Counters;
use crate::reassembly::{Budget, Patience};
use crate::record::flag;
use crate::store::{Chunks, Store};
use crate::tcp_state::{self, Context};
use crate::unconfirmed::Opening;

pub use lookup::Hashed;

/// The flow table; `S` is the caller's state per flow.
#[derive(Debug)]
pub struct Table<S: Default> {
    config: Config,
    index: Index,
    store: Store,
    states: Chunks<S>,
    /// Free places.
    free: Vec<u32>,
    /// Flows closed in the last call, still readable.
    closed: Vec<u32>,
    /// Idle connections. The state of those in `resting`, as indices into `closed`, is still in `states`.
    dormant: Dormant<S>,
    resting: Vec<u32>,
    clock: Clock,
    rules: Rules,
    wheel: Wheel,
    /// Number of flows not worth keeping.
    cheap: usize,
    /// Position of the clock hand for eviction.
    hand: usize,
    /// Position of `close_all`.
    closing: usize,
    budget: Budget,
    counters: Counters,
    evicted: Evicted,
    /// The confirmed SYN with which the next flow of its endpoints begins.
    opening: Option<Opening>,
}

impl<S: Default> Table<S> {
    /// Creates an empty table.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let budget = Budget {
            held: 0,
            max: config.held_bytes_max,
            max_per_direction: config.held_bytes_max_per_direction,
        };
        Table {
            store: Store::new(config.detail > Detail::Life),
            rules: Rules { idle_ns: config.tcp_idle_ns.max(0) as u64, floor: Timestamp::MIN },
            dormant: Dormant::new(config.room.clone()),
            config,
            index: Index::new(),
            states: Chunks::default(),
            free: Vec::new(),
            closed: Vec::new(),
            resting: Vec::new(),
            clock: Clock::default(),
            wheel: Wheel::new(),
            cheap: 0,
            hand: 0,
            closing: 0,
            budget,
            counters: Counters::default(),
            evicted: Evicted::default(),
            opening: None,
        }
    }

    /// Processes a packet; returns its flow, which stays readable until the next call even if closed.
    #[inline]
    pub fn process(&mut self, packet: &Packet<'_>, events: &mut Events) -> FlowIdx {
        let hashed = self.hash(packet);
        self.process_hashed(packet, &hashed, events)
    }

    /// Same with a precomputed hash.
    #[inline(always)]
    pub fn process_hashed(&mut self, packet: &Packet<'_>, at: &Hashed, events: &mut Events) -> FlowIdx {
        self.begin(events);
        self.counters.packets += 1;
        let found = self.find(at, &packet.five_tuple);
        if let Some(place) = found
            && self.take_in_fast(place, at.side, &Segment::of(packet), events)
        {
            return FlowIdx(place);
        }
        let packet = *packet;
        FlowIdx(self.process_slowly(found, (&packet, at), events))
    }

    /// Processes a segment on the fast path, if its flow is at the prefetched place. `None`: nothing has changed, and
    /// [`Table::process_hashed`] must be called. The only event is the segment's bytes, if payload is wanted;
    /// otherwise `events` is unchanged.
    #[inline(always)]
    pub fn process_fast(&mut self, at: &Hashed, segment: &Segment, events: &mut Events) -> Option<FlowIdx> {
        if self.config.detail == Detail::Payload {
            self.begin(events);
        }
        let place = at.place;
        let is_taken_in = place != NONE
            && self.is_v4_flow_of(place, at)
            && self.take_in_fast(place, at.side, segment, events);
        self.counters.packets += u64::from(is_taken_in);
        is_taken_in.then_some(FlowIdx(place))
    }

    /// Whether a packet continues a flow in the table; for callers that do not admit every flow, before
    /// [`Table::process_hashed`]. A flow that this packet proves to have ended is closed in any case.
    pub fn goes_on(&mut self, packet: &Packet<'_>, at: &Hashed, events: &mut Events) -> bool {
        self.begin(events);
        self.find(at, &packet.five_tuple).is_some_and(|place| {
            let now = self.clock.at(packet.ts, self.store.core(place).seen_at());
            self.judge(place, at.side, (packet, now), events).is_some()
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
    /// As [`Table::flow`].
    #[inline]
    #[must_use]
    pub fn state(&self, flow: FlowIdx) -> &S {
        self.states.at(flow.0)
    }

    /// The caller's state of a flow, mutable.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    pub fn state_mut(&mut self, flow: FlowIdx) -> &mut S {
        self.states.at_mut(flow.0)
    }

    /// A flow with the caller's state, mutable.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    pub fn flow_and_state(&mut self, flow: FlowIdx) -> (Flow<'_>, &mut S) {
        (self.store.flow(flow.0), self.states.at_mut(flow.0))
    }

    /// Two bits of the caller, stored where [`Table::process_hashed`] reads anyway; 0 for a new flow.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    #[must_use]
    pub fn mark(&self, flow: FlowIdx) -> u8 {
        (self.store.hot(flow.0).word >> flag::MARK_SHIFT) as u8 & 3
    }

    /// Sets [`Table::mark`] to the low two bits of `mark`.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    pub fn set_mark(&mut self, flow: FlowIdx, mark: u8) {
        let hot = self.store.hot_mut(flow.0);
        hot.word = hot.word & !(3 << flag::MARK_SHIFT) | u64::from(mark & 3) << flag::MARK_SHIFT;
    }

    /// Sets the client found by a parser. Ignored if a SYN determined it.
    pub fn set_client(&mut self, flow: FlowIdx, client: Side) {
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
            spill.waiting.iter_mut().flatten().for_each(|waiting| waiting.forget_bytes(&mut self.budget));
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
        (0..self.store.len() as u32).filter(is_live).map(FlowIdx).collect()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes held now, overhead included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.budget.held
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
    fn begin(&mut self, events: &mut Events) {
        events.clear();
        if !self.closed.is_empty() {
            self.free_closed();
        }
    }

    #[inline(never)]
    fn free_closed(&mut self) {
        while let Some(place) = self.resting.pop() {
            let hash = self.store.flow(place).key().hash(self.config.seed);
            self.dormant.keep_state(hash, place, std::mem::take(self.states.at_mut(place)));
        }
        while let Some(place) = self.closed.pop() {
            *self.states.at_mut(place) = S::default();
            self.store.cold_mut(place).spill = None;
            self.free.push(place);
        }
    }

    /// Processes a segment that needs only its flow's hot record.
    #[inline(always)]
    fn take_in_fast(&mut self, place: u32, side: Side, segment: &Segment, events: &mut Events) -> bool {
        let &Segment { ts, len, .. } = segment;
        if self
            .config
            .active_timeout_ns
            .is_some_and(|period| ts.since(self.store.cold(place).active_since) >= period)
        {
            return false;
        }
        let hot = self.store.hot_mut(place);
        if !fast_path::take_in(hot, side, segment, self.rules) {
            return false;
        }
        self.counters.stream_bytes += u64::from(len);
        if len > 0 && self.config.detail == Detail::Payload && !hot.has(flag::IGNORED) {
            let said = Place { seq: segment.seq, ack: Some(segment.ack) };
            events.push(FlowIdx(place), tcp_state::bytes_of(side, len, ts, said));
        }
        if let Some(latest) = self.store.latest_mut(place) {
            let fingerprint = || fingerprint(segment.seq, segment.ack, len, segment.checksum);
            latest[side.index()].note(ts, len as u16, segment.ip_id, fingerprint);
        }
        true
    }
}

fn patience(config: &Config) -> Patience {
    Patience { reorder_wait_ns: config.reorder_wait_ns, gap_wait_ns: config.gap_wait_ns }
}

#[inline]
fn context<'a>(
    config: &Config,
    budget: &'a mut Budget,
    totals: &'a mut Counters,
    events: &'a mut Events,
    place: u32,
    now: Timestamp,
) -> Context<'a> {
    let (flow, reassemble) = (FlowIdx(place), config.detail == Detail::Payload);
    Context { events, flow, reassemble, patience: patience(config), budget, totals, now }
}

#[cfg(test)]
mod tests;

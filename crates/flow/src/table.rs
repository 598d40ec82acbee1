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

/// The flow table; `S` is what the caller keeps for each flow.
#[derive(Debug)]
pub struct Table<S: Default> {
    config: Config,
    index: Index,
    store: Store,
    states: Chunks<S>,
    /// Places that are free.
    free: Vec<u32>,
    /// Closed in the last call and still readable.
    closed: Vec<u32>,
    /// Idle connections. The state of those in `resting`, as positions in `closed`, is still in `states`.
    dormant: Dormant<S>,
    resting: Vec<u32>,
    clock: Clock,
    rules: Rules,
    wheel: Wheel,
    /// How many flows are not worth keeping.
    cheap: usize,
    /// Where the search for a flow to evict goes on.
    hand: usize,
    /// Where `close_all` goes on.
    closing: usize,
    budget: Budget,
    counters: Counters,
    evicted: Evicted,
    /// What the next flow begins with, if it is of the same ends: a SYN that was not believed till it was answered.
    opening: Option<Opening>,
}

impl<S: Default> Table<S> {
    /// An empty table.
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

    /// Takes a packet in; returns its flow, which stays readable until the next call even if it was closed.
    #[inline]
    pub fn process(&mut self, packet: &Packet<'_>, events: &mut Events) -> FlowIdx {
        let hashed = self.hash(packet);
        self.process_hashed(packet, &hashed, events)
    }

    /// The same with a hash computed before.
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

    /// Takes in a segment on the fast path, of a flow that is where it was guessed to be. `None`: it has to
    /// be taken in by [`Table::process_hashed`]; nothing has changed then. The only event is the segment's
    /// bytes, where payload is wanted; otherwise `events` stay what they were.
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

    /// Whether a packet goes on with a flow that is here, for who does not let every flow in: to be asked before
    /// [`Table::process_hashed`]. A flow that this packet shows to be over is closed, whether or not the packet gets in.
    pub fn goes_on(&mut self, packet: &Packet<'_>, at: &Hashed, events: &mut Events) -> bool {
        self.begin(events);
        self.find(at, &packet.five_tuple).is_some_and(|place| {
            let now = self.clock.at(packet.ts, self.store.core(place).seen_at());
            self.judge(place, at.side, (packet, now), events).is_some()
        })
    }

    /// A flow.
    ///
    /// # Panics
    /// May panic, or show another flow, for an index whose flow has been closed in an earlier call.
    #[inline]
    #[must_use]
    pub fn flow(&self, flow: FlowIdx) -> Flow<'_> {
        self.store.flow(flow.0)
    }

    /// What the caller keeps for a flow.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    #[must_use]
    pub fn state(&self, flow: FlowIdx) -> &S {
        self.states.at(flow.0)
    }

    /// The same, to change it.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    pub fn state_mut(&mut self, flow: FlowIdx) -> &mut S {
        self.states.at_mut(flow.0)
    }

    /// A flow, and what the caller keeps for it, to change that.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    pub fn flow_and_state(&mut self, flow: FlowIdx) -> (Flow<'_>, &mut S) {
        (self.store.flow(flow.0), self.states.at_mut(flow.0))
    }

    /// Two bits that the caller keeps where [`Table::process_hashed`] looks anyway: 0 for a new flow.
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

    /// A parser has recognised who asks. A SYN that was seen knows better.
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

    /// The flows that are in the table.
    #[must_use]
    pub fn flows(&self) -> Vec<FlowIdx> {
        let is_live = |place: &u32| self.store.hot(*place).has(flag::LIVE);
        (0..self.store.len() as u32).filter(is_live).map(FlowIdx).collect()
    }

    /// What the table has done so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes that wait now, overhead included.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.budget.held
    }

    /// How many flows are in the table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether no flow is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets the last call's events and the flows it closed.
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

    /// Takes in a segment that needs nothing but its flow's hot record.
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

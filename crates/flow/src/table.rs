//! The flow table: finds a packet's flow or opens one, counts, hands TCP on to `fast_path` and, where that does not do,
//! to `tcp_state`, lets flows go when they are idle, closed or too many. Every call clears the events and returns
//! those of this call. Promises bounded memory: `flows_max` flows, `held_bytes_max` bytes; nothing is allocated for
//! a packet in order. What becomes of a flow depends on its own packets and on the caller's clock only, not on what
//! other flows do (but for eviction).

use std::hint::black_box;
use std::ptr;

use wire::{FiveTuple, FlowKey, IpProtocol, Packet, Side, TcpInfo, Timestamp, Transport, V4Key};

use crate::config::{Config, Detail};
use crate::duplicates::{self, Sighting, fingerprint};
use crate::event::{Chunk, CloseReason, Events, FlowEvent, FlowIdx, Place};
use crate::expiry::{Clock, NONE, Wheel};
use crate::fast_path::{self, Rules, Segment};
use crate::flow::{Flow, FlowCore};
use crate::gatekeeping::{self, Verdict};
use crate::index::Index;
use crate::metrics::Counters;
use crate::reassembly::{Budget, Patience};
use crate::record::{self, flag};
use crate::store::{Chunks, Store};
use crate::tcp_state::{self, Context};
use crate::timeouts::{idle_timeout, is_news, report_active};
use crate::unconfirmed::Opening;

/// A packet's flow key as the table compares it, and its hash: so that a batch can be hashed and prefetched before it
/// is processed.
#[derive(Clone, Copy, Debug)]
pub struct Hashed {
    /// The key's hash by the table's seed.
    pub hash: u64,
    /// Addresses and ports of IPv4; the hash and 0 of a wide key.
    addrs: u64,
    ports: u32,
    /// The sender.
    pub side: Side,
    /// Where the flow probably is, see [`Table::prefetch_flow`].
    place: u32,
    /// Flags that its record must have.
    kind: u64,
    /// As [`wire::FlowKey::network`].
    network: u8,
}

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
    /// What the next flow begins with, if it is of the same ends: a SYN that was not believed till it was answered.
    opening: Option<Opening>,
}

/// Flows looked at to find one to evict.
const EVICTION_SAMPLE: usize = 16;
/// One in so many places is left to flows that are not worth keeping, before one that is has to go.
const CHEAP_SHARE: usize = 16;
/// Flows that one call to `expire` looks at.
const EXPIRE_FLOWS: usize = 4096;
/// Flows whose memory is asked for together where many end.
const AT_A_TIME: usize = 32;
/// Flows that one call to `close_all` closes.
const CLOSE_FLOWS: usize = 1024;

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
            config,
            index: Index::new(),
            states: Chunks::default(),
            free: Vec::new(),
            closed: Vec::new(),
            clock: Clock::default(),
            wheel: Wheel::new(),
            cheap: 0,
            hand: 0,
            closing: 0,
            budget,
            counters: Counters::default(),
            opening: None,
        }
    }

    /// The flow key of a packet and its hash.
    #[inline(always)]
    #[must_use]
    pub fn hash(&self, packet: &Packet<'_>) -> Hashed {
        self.hash_in(packet, 0)
    }

    /// The same in one of several networks, as [`wire::FlowKey::network`].
    #[inline(always)]
    #[must_use]
    pub fn hash_in(&self, packet: &Packet<'_>, network: u8) -> Hashed {
        let tuple = &packet.five_tuple;
        let transport = match tuple.protocol {
            IpProtocol::TCP => flag::TCP,
            IpProtocol::UDP => flag::UDP,
            _ => 0,
        };
        let (hash, addrs, ports, side, width) = match V4Key::of_ends(tuple.src, tuple.dst) {
            Some((key @ V4Key { addrs, ports }, side)) if (transport != 0) & (network == 0) => {
                (key.hash(tuple.protocol, self.config.seed), addrs, ports, side, 0)
            }
            _ => {
                let (hash, side) = self.hash_wide(*tuple, network);
                (hash, hash, 0, side, flag::WIDE)
            }
        };
        Hashed { hash, addrs, ports, side, place: NONE, kind: flag::LIVE | transport | width, network }
    }

    // What goes in and out in registers does not have to lie in memory for every packet.
    #[inline(never)]
    fn hash_wide(&self, tuple: FiveTuple, network: u8) -> (u64, Side) {
        let (key, side) = tuple.flow_key();
        (FlowKey { network, ..key }.hash(self.config.seed), side)
    }

    /// Has the memory fetched where [`Table::prefetch_flow`] will look; `fetch` asks for the cache line at an address
    /// and does not wait for it. For a batch of packets: this for all of them, then that for all, then
    /// [`Table::prefetch_rest`], then the packets.
    #[inline]
    pub fn prefetch_index(&self, at: &Hashed, fetch: impl Fn(*const u8)) {
        fetch(self.index.first_entry(at.hash).cast());
    }

    /// Has the memory fetched that [`Table::process_hashed`] will read first, and remembers where that is.
    #[inline]
    pub fn prefetch_flow(&self, at: &mut Hashed, fetch: impl Fn(*const u8)) {
        if let Some(place) = self.index.guess(at.hash) {
            at.place = place;
            fetch(ptr::from_ref(self.store.hot(place)).cast());
        }
    }

    /// Has the memory fetched that a packet needs besides, if it does not take the fast path.
    #[inline]
    pub fn prefetch_rest(&self, at: &Hashed, segment: &Segment, fetch: impl Fn(*const u8)) {
        if at.place != NONE && !(segment.fits_fast_path() && self.store.hot(at.place).has(flag::FAST)) {
            fetch(ptr::from_ref(self.store.cold(at.place)).cast());
            fetch(self.wheel.link_of(at.place));
        }
    }

    /// Where the caller's state of the flow is that a packet probably has: to have it fetched, or what it points at.
    /// It may be another flow's.
    #[inline]
    pub fn state_of(&self, at: &Hashed) -> Option<&S> {
        (at.place != NONE).then(|| self.states.at(at.place))
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

    /// Moves the clock on, as at the end of a block of packets; lets go of flows that are idle at `now`, and gives up
    /// on bytes that silent flows wait for. Looks at a bounded number of flows; true while there are more.
    pub fn expire(&mut self, now: Timestamp, events: &mut Events) -> bool {
        self.begin(events);
        let clock = self.clock.advance(now);
        self.rules.floor = self.clock.floor();
        self.counters.clock_rebases = self.clock.rebases;
        for _ in 0..EXPIRE_FLOWS / AT_A_TIME {
            let (mut due, mut n) = ([NONE; AT_A_TIME], 0);
            while n < AT_A_TIME
                && let Some(place) = self.wheel.pop(clock)
            {
                due[n] = place;
                n += 1;
            }
            self.touch(&due[..n]);
            due[..n].iter().for_each(|place| self.look_after(*place, (now, clock), events));
            if n < AT_A_TIME {
                return false;
            }
        }
        true
    }

    /// The input has ended: closes a bounded number of flows; true while there are more, and till then nothing else may
    /// be asked of the table.
    pub fn close_all(&mut self, now: Timestamp, events: &mut Events) -> bool {
        self.begin(events);
        if self.closing == 0 {
            // Nothing will be looked for any more: taking flows out one by one would be waiting for memory.
            (self.index, self.wheel) = (Index::new(), Wheel::new());
        }
        let mut left = CLOSE_FLOWS;
        while left > 0 && self.closing < self.store.len() {
            let place = self.closing as u32;
            if self.store.hot(place).has(flag::LIVE) {
                self.close(place, CloseReason::EndOfInput, (now, now), events);
                left -= 1;
            }
            self.closing += 1;
        }
        let more = self.closing < self.store.len();
        if !more {
            self.closing = 0;
        }
        more
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

    /// Nobody wants this flow's payload: no more `Bytes`, `Gap` and `Datagram`, and nothing is held.
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

    /// Somebody wants this flow's payload again, from here on.
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

    /// Reads a little of what looking after these flows will read, first of all of them: so that memory is waited for once
    /// and not for each.
    fn touch(&self, places: &[u32]) {
        for place in places {
            black_box((self.store.hot(*place).word, self.store.cold(*place).first_ts));
        }
        for place in places {
            let hash = self.store.flow(*place).key().hash(self.config.seed);
            black_box(self.index.guess(hash));
        }
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
        while let Some(place) = self.closed.pop() {
            *self.states.at_mut(place) = S::default();
            self.store.cold_mut(place).spill = None;
            self.free.push(place);
        }
    }

    /// The packet's flow. There is only one live record with its key, so a good guess saves looking for it.
    #[inline(always)]
    fn find(&self, at: &Hashed, tuple: &FiveTuple) -> Option<u32> {
        if at.place != NONE && self.is_flow_of(at.place, at, tuple) {
            return Some(at.place);
        }
        self.look_up(at, *tuple)
    }

    #[inline(never)]
    fn look_up(&self, at: &Hashed, tuple: FiveTuple) -> Option<u32> {
        self.index.find(at.hash, |place| self.is_flow_of(place, at, &tuple))
    }

    #[inline(never)]
    fn has_wide(&self, place: u32, tuple: FiveTuple, network: u8) -> bool {
        self.store.has_wide(place, &FlowKey { network, ..tuple.flow_key().0 })
    }

    #[inline(always)]
    fn is_flow_of(&self, place: u32, at: &Hashed, tuple: &FiveTuple) -> bool {
        self.looks_like(place, at) && (at.kind & flag::WIDE == 0 || self.has_wide(place, *tuple, at.network))
    }

    /// The same where the hot record holds all of the key.
    #[inline(always)]
    fn is_v4_flow_of(&self, place: u32, at: &Hashed) -> bool {
        self.looks_like(place, at) && at.kind & flag::WIDE == 0
    }

    #[inline(always)]
    fn looks_like(&self, place: u32, at: &Hashed) -> bool {
        let hot = self.store.hot(place);
        (hot.addrs == at.addrs) & (hot.ports == at.ports) & (hot.word & (flag::KIND | flag::LIVE) == at.kind)
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

    /// A packet that opens, changes or ends a flow, or is not quite in order.
    #[inline(never)]
    fn process_slowly(
        &mut self,
        found: Option<u32>,
        (packet, at): (&Packet<'_>, &Hashed),
        events: &mut Events,
    ) -> u32 {
        let going_on = found.and_then(|place| {
            let now = self.clock.at(packet.ts, self.store.core(place).seen_at());
            Some((place, now, self.judge(place, at.side, (packet, now), events)?))
        });
        let Some((place, now, verdict)) = going_on else { return self.begin_flow(packet, at, events) };
        if self.leave_out_copy(place, at.side, packet) {
            return place;
        }
        match verdict {
            Verdict::Acceptable | Verdict::OtherConnection => {
                self.take_in(place, at.side, (packet, now), events);
            }
            refused => self.refuse((place, at), refused, (packet, now)),
        }
        place
    }

    /// A packet of no flow that is here.
    fn begin_flow(&mut self, packet: &Packet<'_>, at: &Hashed, events: &mut Events) -> u32 {
        let now = self.clock.at(packet.ts, i64::MIN);
        let key = FlowKey { network: at.network, ..packet.five_tuple.flow_key().0 };
        let place = match self.opening.take().filter(|opening| opening.is_of(&key)) {
            Some(opening) => {
                let first = opening.packet(&packet.five_tuple, at.side);
                let place = self.open(&key, (at, opening.side), (&first, now), events);
                self.take_in(place, opening.side, (&first, now), events);
                place
            }
            None => self.open(&key, (at, at.side), (packet, now), events),
        };
        self.take_in(place, at.side, (packet, now), events);
        place
    }

    /// Counts a segment that is not believed; it says nothing else to the flow.
    fn refuse(&mut self, (place, at): (u32, &Hashed), verdict: Verdict, (packet, now): (&Packet<'_>, i64)) {
        let Some(tcp) = tcp_of(packet) else { return };
        let (key, side) = (FlowKey { network: at.network, ..packet.five_tuple.flow_key().0 }, at.side);
        let mut flow = self.store.flow_mut(place);
        flow.count(side, packet);
        flow.set_seen_at(now);
        flow.counters_mut(side).implausible += 1;
        let counters = &mut self.counters;
        match verdict {
            Verdict::Acceptable | Verdict::OtherConnection => {}
            Verdict::SynUnconfirmed => {
                counters.syns_ignored += 1;
                let opening = Opening::of(key, side, packet, tcp);
                let known = &mut flow.spill_mut().opening;
                if !known.as_ref().is_some_and(|known| known.is_sent_again_as(&opening)) {
                    *known = Some(Box::new(opening));
                }
            }
            Verdict::ResetOutOfWindow => counters.resets_ignored += 1,
            Verdict::UnsentAcknowledged => {
                counters.acks_ignored += 1;
                flow.spill_mut().doubted[side.index()] = Some((tcp.ack, packet.ts));
            }
            Verdict::Damaged => counters.damaged += 1,
        }
        flow.classify();
    }

    /// Counts a packet that was captured before, and nothing else; true if it is one.
    fn leave_out_copy(&mut self, place: u32, side: Side, packet: &Packet<'_>) -> bool {
        let mut flow = self.store.flow_mut(place);
        let Some(latest) = flow.latest.as_deref() else { return false };
        match duplicates::judge(latest, flow.core(), side, packet) {
            Sighting::First => return false,
            Sighting::Ambiguous => {
                self.counters.duplicates_ambiguous += 1;
                return false;
            }
            Sighting::Copy => {}
        }
        flow.hot.put(flag::MIRRORED, true);
        flow.counters_mut(side).duplicates += 1;
        self.counters.duplicates += 1;
        true
    }

    /// What a packet may say to the flow found; `None` when that has ended before it, and is closed now.
    fn judge(
        &mut self,
        place: u32,
        side: Side,
        (packet, now): (&Packet<'_>, i64),
        events: &mut Events,
    ) -> Option<Verdict> {
        let flow = self.store.core(place);
        let idle_ns = idle_timeout(flow, &self.config);
        if now.saturating_sub(flow.seen_at()) > idle_ns {
            let ts = flow.last_ts().plus(idle_ns).min(packet.ts);
            self.close(place, CloseReason::Idle, (packet.ts, ts), events);
            return None;
        }
        let Some(tcp) = tcp_of(packet) else { return Some(Verdict::Acceptable) };
        let young = packet.ts.since(flow.first_ts()).saturating_abs() <= self.config.reorder_wait_ns;
        let opening = flow.cold.spill.as_ref().and_then(|spill| spill.opening.as_deref()).copied();
        let confirmed = opening.filter(|opening| opening.is_confirmed_by(flow, side, tcp));
        let verdict = gatekeeping::judge(flow, side, (packet, tcp), young);
        if verdict != Verdict::OtherConnection && (confirmed.is_none() || verdict == Verdict::Damaged) {
            return Some(verdict);
        }
        if let Some(opening) = confirmed {
            opening.uncount(&mut self.store.flow_mut(place));
            self.counters.syns_ignored -= 1;
            self.opening = confirmed;
        }
        self.close(place, CloseReason::PortReused, (packet.ts, packet.ts), events);
        None
    }

    /// A flow that begins with `packet`, which `first` sent.
    fn open(
        &mut self,
        key: &FlowKey,
        (at, first): (&Hashed, Side),
        (packet, now): (&Packet<'_>, i64),
        events: &mut Events,
    ) -> u32 {
        if self.len() >= self.config.flows_max.max(1) {
            let victim = self.choose_victim();
            self.close(victim, CloseReason::Evicted, (packet.ts, packet.ts), events);
        }
        let place = self.free.pop().unwrap_or(self.store.len() as u32);
        let records = record::open(key, first, packet, (at.addrs, at.ports, at.kind));
        self.store.put(place, records, (at.kind & flag::WIDE != 0).then_some(*key));
        if place as usize == self.states.len() {
            self.states.push(S::default());
        }
        self.store.flow_mut(place).set_seen_at(now);
        self.index.insert(at.hash, place);
        self.cheap += 1;
        self.counters.opened += 1;
        self.schedule(place, now);
        events.push(FlowIdx(place), FlowEvent::Opened);
        place
    }

    /// Counts a packet of a live flow and lets its transport speak.
    fn take_in(&mut self, place: u32, side: Side, (packet, now): (&Packet<'_>, i64), events: &mut Events) {
        let mut flow = self.store.flow_mut(place);
        if let Some(period) = self.config.active_timeout_ns {
            report_active(&mut flow, FlowIdx(place), (packet.ts, period), events);
        }
        if let Some(latest) = &mut flow.latest {
            latest[side.index()].note_packet(packet, flow.hot.has(flag::MIRRORED));
        }
        flow.learn_checksum(side, packet);
        let (was_terminated, seen_at) = (flow.core().is_terminated(), flow.core().seen_at());
        flow.count(side, packet);
        let is_news = was_terminated && is_news(flow.core(), side, packet);
        flow.set_seen_at(if is_news { seen_at } else { now });
        let is_tcp = flow.core().is_tcp();
        let mut ended = false;
        match tcp_of(packet).filter(|_| is_tcp) {
            Some(tcp) => {
                let mut cx =
                    context(&self.config, &mut self.budget, &mut self.counters, events, place, packet.ts);
                tcp_state::on_segment(&mut flow, side, (packet, tcp), &mut cx);
                ended = flow.core().is_terminated() && !was_terminated;
                let core = flow.core();
                if ended || core.is_busy(Side::A) || core.is_busy(Side::B) || core.holds_back() {
                    self.hasten(place, packet.ts, now);
                }
            }
            None => self.datagram(place, side, packet, events),
        }
        let mut flow = self.store.flow_mut(place);
        if ended {
            self.cheap += usize::from(flow.hot.has(flag::VALUED));
            flow.hot.put(flag::VALUED, false);
        } else if !flow.hot.has(flag::VALUED) && flow.core().is_worth_keeping() {
            flow.hot.put(flag::VALUED, true);
            self.cheap -= 1;
        }
        flow.classify();
    }

    fn datagram(&mut self, place: u32, side: Side, packet: &Packet<'_>, events: &mut Events) {
        let mut flow = self.store.flow_mut(place);
        flow.count_payload(side, packet.payload_original_len);
        let len = packet.payload.len() as u32;
        let cut = packet.payload_original_len.saturating_sub(len);
        if cut > 0 {
            flow.counters_mut(side).cut_bytes += u64::from(cut);
        }
        if self.config.detail == Detail::Payload && !flow.hot.has(flag::IGNORED) {
            let chunk = Chunk::InPacket { start: 0, end: len };
            events.push(FlowIdx(place), FlowEvent::Datagram { side, chunk, cut, ts: packet.ts });
        }
    }

    /// A flow's tick has passed: it is idle, or waits for bytes that will not come, or has to be looked at later.
    fn look_after(&mut self, place: u32, (now, clock): (Timestamp, i64), events: &mut Events) {
        let mut flow = self.store.flow_mut(place);
        let idle_ns = idle_timeout(flow.core(), &self.config);
        if clock.saturating_sub(flow.core().seen_at()) > idle_ns {
            let ts = flow.core().last_ts().plus(idle_ns);
            return self.close(place, CloseReason::Idle, (now, ts), events);
        }
        if let Some(period) = self.config.active_timeout_ns {
            report_active(&mut flow, FlowIdx(place), (now, period), events);
        }
        let mut cx = context(&self.config, &mut self.budget, &mut self.counters, events, place, now);
        tcp_state::check(&mut flow, &mut cx);
        flow.classify();
        self.schedule(place, clock);
        self.hasten(place, now, clock);
    }

    /// Puts the flow in the wheel for its idle timeout.
    fn schedule(&mut self, place: u32, clock: i64) {
        let flow = self.store.core(place);
        let idle_ns = idle_timeout(flow, &self.config);
        let period = self.config.active_timeout_ns.unwrap_or(i64::MAX);
        self.wheel.schedule(place, flow.seen_at().saturating_add(idle_ns.min(period)), clock);
    }

    /// Has the flow looked at as soon as bytes it waits for become hopeless, or a timeout grown shorter is over.
    fn hasten(&mut self, place: u32, now: Timestamp, clock: i64) {
        let flow = self.store.core(place);
        let wait = tcp_state::deadline(flow, patience(&self.config)).map(|ts| ts.since(now).max(0));
        let idle = idle_timeout(flow, &self.config);
        self.wheel.hasten(place, clock.saturating_add(wait.unwrap_or(idle).min(idle)), clock);
    }

    /// Delivers what waits and takes the flow out; `ts` is what the event says, `now` when it was decided.
    fn close(
        &mut self,
        place: u32,
        reason: CloseReason,
        (now, ts): (Timestamp, Timestamp),
        events: &mut Events,
    ) {
        let mut flow = self.store.flow_mut(place);
        let mut cx = context(&self.config, &mut self.budget, &mut self.counters, events, place, now);
        tcp_state::on_close(&mut flow, &mut cx);
        flow.hot.put(flag::LIVE | flag::FAST, false);
        self.cheap -= usize::from(!flow.hot.has(flag::VALUED));
        tcp_state::forget(&mut flow, &mut self.budget);
        let hash = self.store.flow(place).key().hash(self.config.seed);
        self.index.remove(hash, place);
        self.wheel.cancel(place);
        self.closed.push(place);
        self.counters.closed[reason as usize] += 1;
        events.push(FlowIdx(place), FlowEvent::Closed { reason, ts });
    }

    /// Tries and tombstones first, while they are more than their share; else the flow idle longest of a few.
    fn choose_victim(&mut self) -> u32 {
        if self.cheap * CHEAP_SHARE > self.config.flows_max {
            return self.next_cheap();
        }
        let mut best: Option<(i64, u32)> = None;
        let mut looked_at = 0;
        for _ in 0..EVICTION_SAMPLE * CHEAP_SHARE {
            let flow = self.advance_hand();
            if flow.hot.has(flag::LIVE) && flow.hot.has(flag::VALUED) {
                let candidate = (flow.seen_at(), self.hand as u32);
                best = Some(best.map_or(candidate, |best| best.min(candidate)));
                looked_at += 1;
            }
            if looked_at == EVICTION_SAMPLE {
                break;
            }
        }
        best.map_or_else(|| self.next_cheap(), |(_, place)| place)
    }

    /// The cheap flow that the hand comes to next. As it goes round and what it frees is used again behind it, that is
    /// one of the oldest; over a round it looks at [`CHEAP_SHARE`] places for each flow it finds, at the most.
    fn next_cheap(&mut self) -> u32 {
        for _ in 0..self.store.len() {
            let hot = self.advance_hand().hot;
            if hot.has(flag::LIVE) && !hot.has(flag::VALUED) {
                break;
            }
        }
        self.hand as u32
    }

    fn advance_hand(&mut self) -> FlowCore<'_> {
        self.hand = (self.hand + 1) % self.store.len();
        self.store.core(self.hand as u32)
    }
}

fn tcp_of<'p>(packet: &'p Packet<'_>) -> Option<&'p TcpInfo> {
    match &packet.transport {
        Transport::Tcp(tcp) => Some(tcp),
        _ => None,
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

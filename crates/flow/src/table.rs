//! The flow table: finds a packet's flow or opens one, counts, hands TCP on to `tcp_state`, lets flows go when
//! they are idle, closed or too many. Every call clears the events and returns those of this call. Promises
//! bounded memory: `flows_max` flows, `held_bytes_max` bytes; nothing is allocated for a packet in order.

use std::hint::black_box;

use wire::packet::TcpFlags;
use wire::{FlowKey, Packet, Side, TcpInfo, Timestamp, Transport};

use crate::event::{Chunk, CloseReason, Events, FlowEvent, FlowIdx};
use crate::expiry::{Clock, Lists, Wheel};
use crate::flow::{Flow, FlowCore, flow_bit};
use crate::index::Index;
use crate::metrics::Counters;
use crate::reassembly::{Budget, Patience};
use crate::tcp_state::{self, Context};

/// Limits and timeouts.
#[derive(Clone, Debug)]
pub struct Config {
    /// Most flows at once.
    pub flows_max: usize,
    /// Idle timeout of established TCP, and of TCP joined midstream.
    pub tcp_idle_ns: i64,
    /// Idle timeout while the handshake is incomplete, and of a FIN in a capture without the other direction.
    pub tcp_opening_idle_ns: i64,
    /// How long a terminated flow stays for stragglers.
    pub tcp_closed_idle_ns: i64,
    /// Idle timeout of everything else.
    pub udp_idle_ns: i64,
    /// Report a living flow this often.
    pub active_timeout_ns: Option<i64>,
    /// Bytes that may wait in one direction of a flow, overhead included.
    pub held_bytes_max_per_direction: usize,
    /// Bytes that may wait in the whole table.
    pub held_bytes_max: usize,
    /// How long bytes that were acknowledged may still come late.
    pub reorder_wait_ns: i64,
    /// How long bytes that were not acknowledged may still come.
    pub gap_wait_ns: i64,
    /// Whether anyone wants payload: if not there are no `Bytes`, `Gap` or `Datagram` events.
    pub reassemble: bool,
    /// For the hash; a secret one keeps strangers from choosing colliding flows.
    pub seed: u64,
}

/// A packet's flow key and its hash, so that a batch can be hashed and prefetched before it is processed.
#[derive(Clone, Copy, Debug)]
pub struct Hashed {
    /// The key.
    pub key: FlowKey,
    /// The sender.
    pub side: Side,
    /// The key's hash by the table's seed.
    pub hash: u64,
}

/// The flow table; `S` is what the caller keeps for each flow.
#[derive(Debug)]
pub struct Table<S: Default> {
    config: Config,
    index: Index,
    flows: Vec<Flow<S>>,
    /// Places of `flows` that are free.
    free: Vec<u32>,
    /// Closed in the last call and still readable.
    closed: Vec<u32>,
    clock: Clock,
    wheel: Wheel,
    /// Flows that are not worth keeping, the oldest first.
    cheap: Lists,
    /// Where the search for a flow to evict goes on.
    hand: usize,
    /// Where `close_all` goes on.
    closing: usize,
    budget: Budget,
    counters: Counters,
}

/// Flows looked at to find one to evict.
const EVICTION_SAMPLE: usize = 16;
/// One in so many places is left to flows that are not worth keeping, before one that is has to go.
const CHEAP_SHARE: usize = 16;
/// Flows that one call to `expire` looks at.
const EXPIRE_FLOWS: usize = 4096;
/// Flows that one call to `close_all` closes.
const CLOSE_FLOWS: usize = 1024;

impl Default for Config {
    fn default() -> Config {
        const SECOND: i64 = 1_000_000_000;
        Config {
            flows_max: 1 << 20,
            tcp_idle_ns: 300 * SECOND,
            tcp_opening_idle_ns: 30 * SECOND,
            tcp_closed_idle_ns: 5 * SECOND,
            udp_idle_ns: 60 * SECOND,
            active_timeout_ns: None,
            held_bytes_max_per_direction: 1 << 20,
            held_bytes_max: 64 << 20,
            reorder_wait_ns: SECOND / 10,
            gap_wait_ns: 30 * SECOND,
            reassemble: true,
            seed: 0,
        }
    }
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
            config,
            index: Index::new(),
            flows: Vec::new(),
            free: Vec::new(),
            closed: Vec::new(),
            clock: Clock::default(),
            wheel: Wheel::new(),
            cheap: Lists::new(1),
            hand: 0,
            closing: 0,
            budget,
            counters: Counters::default(),
        }
    }

    /// The flow key of a packet and its hash.
    #[inline]
    #[must_use]
    pub fn hash(&self, packet: &Packet<'_>) -> Hashed {
        let (key, side) = packet.five_tuple.flow_key();
        Hashed { key, side, hash: key.hash(self.config.seed) }
    }

    /// Fetches into the cache what [`Table::process_hashed`] will read. Call it for a batch of packets first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(flow) = self.index.peek(hash).and_then(|place| self.flows.get(place as usize)) {
            black_box((flow.seen_at, flow.halves[0].packets, flow.halves[1].packets));
        }
    }

    /// Takes a packet in; returns its flow, which stays readable until the next call even if it was closed.
    #[inline]
    pub fn process(&mut self, packet: &Packet<'_>, events: &mut Events) -> FlowIdx {
        let hashed = self.hash(packet);
        self.process_hashed(packet, &hashed, events)
    }

    /// The same with a hash computed before.
    pub fn process_hashed(&mut self, packet: &Packet<'_>, at: &Hashed, events: &mut Events) -> FlowIdx {
        self.begin(events);
        self.counters.packets += 1;
        let now = self.clock.advance(packet.ts);
        let found = self.index.find(at.hash, |place| self.flows[place as usize].key == at.key);
        let place = match found.filter(|place| !self.is_over(*place, at.side, (packet, now), events)) {
            Some(place) => place,
            None => self.open(at, (packet, now), events),
        };
        self.take_in(place, at.side, (packet, now), events);
        FlowIdx(place)
    }

    /// Lets go of flows that are idle at `now`, and gives up on bytes that silent flows wait for. Looks at a
    /// bounded number of flows; true while there are more.
    pub fn expire(&mut self, now: Timestamp, events: &mut Events) -> bool {
        self.begin(events);
        let clock = self.clock.advance(now);
        for _ in 0..EXPIRE_FLOWS {
            let Some(place) = self.wheel.pop(clock) else { return false };
            self.look_after(place, (now, clock), events);
        }
        true
    }

    /// The input has ended: closes a bounded number of flows; true while there are more.
    pub fn close_all(&mut self, now: Timestamp, events: &mut Events) -> bool {
        self.begin(events);
        let mut left = CLOSE_FLOWS;
        while left > 0 && self.closing < self.flows.len() {
            let place = self.closing as u32;
            if self.flows[self.closing].has(flow_bit::LIVE) {
                self.close(place, CloseReason::EndOfInput, (now, now), events);
                left -= 1;
            }
            self.closing += 1;
        }
        let more = self.closing < self.flows.len();
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
    pub fn flow(&self, flow: FlowIdx) -> &Flow<S> {
        &self.flows[flow.0 as usize]
    }

    /// A flow, to change its state.
    ///
    /// # Panics
    /// As [`Table::flow`].
    #[inline]
    pub fn flow_mut(&mut self, flow: FlowIdx) -> &mut Flow<S> {
        &mut self.flows[flow.0 as usize]
    }

    /// Nobody wants this flow's payload: no more `Bytes`, `Gap` and `Datagram`, and nothing is held.
    pub fn ignore_payload(&mut self, flow: FlowIdx) {
        let flow = &mut self.flows[flow.0 as usize];
        flow.bits |= flow_bit::IGNORED;
        let core: &mut FlowCore = flow;
        for half in &mut core.halves {
            half.stream.forget_bytes(&mut self.budget);
        }
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
        while let Some(place) = self.closed.pop() {
            self.flows[place as usize].state = S::default();
            self.flows[place as usize].counters = None;
            self.free.push(place);
        }
    }

    /// Whether the flow found has ended before this packet; closes it then.
    #[inline]
    fn is_over(
        &mut self,
        place: u32,
        side: Side,
        (packet, now): (&Packet<'_>, i64),
        events: &mut Events,
    ) -> bool {
        let flow = &self.flows[place as usize];
        let idle_ns = idle_timeout(flow, &self.config);
        if now.saturating_sub(flow.seen_at) > idle_ns {
            let ts = flow.last_ts.plus(idle_ns).min(packet.ts);
            self.close(place, CloseReason::Idle, (packet.ts, ts), events);
            return true;
        }
        let Some(tcp) = tcp_of(packet)
            .filter(|tcp| tcp.flags.contains(TcpFlags::SYN) && !tcp.flags.contains(TcpFlags::RST))
        else {
            return false;
        };
        let young = packet.ts.since(flow.first_ts).saturating_abs() <= self.config.reorder_wait_ns;
        if tcp_state::is_another_connection(flow, side, tcp, young) {
            self.close(place, CloseReason::PortReused, (packet.ts, packet.ts), events);
            return true;
        }
        false
    }

    fn open(&mut self, at: &Hashed, (packet, now): (&Packet<'_>, i64), events: &mut Events) -> u32 {
        if self.len() >= self.config.flows_max.max(1) {
            let victim = self.choose_victim();
            self.close(victim, CloseReason::Evicted, (packet.ts, packet.ts), events);
        }
        let mut flow = Flow::new(at.key, at.side, packet);
        flow.seen_at = now;
        let place = match self.free.pop() {
            Some(place) => {
                self.flows[place as usize] = flow;
                place
            }
            None => {
                self.flows.push(flow);
                self.flows.len() as u32 - 1
            }
        };
        self.index.insert(at.hash, place);
        self.cheap.push_back(0, place);
        self.counters.opened += 1;
        self.schedule(place, now);
        events.push(FlowIdx(place), FlowEvent::Opened);
        place
    }

    /// Counts a packet of a live flow and lets its transport speak.
    #[inline]
    fn take_in(&mut self, place: u32, side: Side, (packet, now): (&Packet<'_>, i64), events: &mut Events) {
        let flow = &mut self.flows[place as usize];
        if let Some(period) = self.config.active_timeout_ns {
            report_active(flow, FlowIdx(place), (packet.ts, period), events);
        }
        flow.count(side, packet);
        let was_terminated = flow.is_terminated();
        if !was_terminated || !is_news(flow, side, packet) {
            flow.seen_at = now;
        }
        match tcp_of(packet).filter(|_| flow.is_tcp()) {
            Some(tcp) => {
                let mut cx =
                    context(&self.config, &mut self.budget, &mut self.counters, events, place, packet.ts);
                tcp_state::on_segment(flow, side, (packet, tcp), &mut cx);
                let busy = flow.halves[0].stream.is_busy() || flow.halves[1].stream.is_busy();
                if busy || (flow.is_terminated() && !was_terminated) {
                    self.hasten(place, packet.ts, now);
                }
            }
            None => self.datagram(place, side, packet, events),
        }
        let flow = &mut self.flows[place as usize];
        if !flow.has(flow_bit::VALUED) && flow.is_worth_keeping() {
            flow.bits |= flow_bit::VALUED;
            self.cheap.remove(place);
        } else if flow.is_terminated() && !was_terminated {
            flow.bits &= !flow_bit::VALUED;
            self.cheap.push_back(0, place);
        }
    }

    fn datagram(&mut self, place: u32, side: Side, packet: &Packet<'_>, events: &mut Events) {
        let flow = &mut self.flows[place as usize];
        flow.half_mut(side).stream.unique_bytes += u64::from(packet.payload_original_len);
        let len = packet.payload.len() as u32;
        let cut = packet.payload_original_len.saturating_sub(len);
        if cut > 0 {
            flow.counters_mut(side).cut_bytes += u64::from(cut);
        }
        if self.config.reassemble && !flow.has(flow_bit::IGNORED) {
            let chunk = Chunk::InPacket { start: 0, end: len };
            events.push(FlowIdx(place), FlowEvent::Datagram { side, chunk, cut, ts: packet.ts });
        }
    }

    /// A flow's tick has passed: it is idle, or waits for bytes that will not come, or has to be looked at later.
    fn look_after(&mut self, place: u32, (now, clock): (Timestamp, i64), events: &mut Events) {
        let flow = &mut self.flows[place as usize];
        let idle_ns = idle_timeout(flow, &self.config);
        if clock.saturating_sub(flow.seen_at) > idle_ns {
            let ts = flow.last_ts.plus(idle_ns);
            return self.close(place, CloseReason::Idle, (now, ts), events);
        }
        if let Some(period) = self.config.active_timeout_ns {
            report_active(flow, FlowIdx(place), (now, period), events);
        }
        let mut cx = context(&self.config, &mut self.budget, &mut self.counters, events, place, now);
        tcp_state::check(flow, &mut cx);
        self.schedule(place, clock);
        self.hasten(place, now, clock);
    }

    /// Puts the flow in the wheel for its idle timeout.
    fn schedule(&mut self, place: u32, clock: i64) {
        let flow = &self.flows[place as usize];
        let idle_ns = idle_timeout(flow, &self.config);
        let period = self.config.active_timeout_ns.unwrap_or(i64::MAX);
        self.wheel.schedule(place, flow.seen_at.saturating_add(idle_ns.min(period)), clock);
    }

    /// Has the flow looked at as soon as bytes it waits for become hopeless, or a timeout grown shorter is over.
    fn hasten(&mut self, place: u32, now: Timestamp, clock: i64) {
        let flow = &self.flows[place as usize];
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
        let flow = &mut self.flows[place as usize];
        let mut cx = context(&self.config, &mut self.budget, &mut self.counters, events, place, now);
        tcp_state::on_close(flow, &mut cx);
        flow.bits &= !flow_bit::LIVE;
        let core: &mut FlowCore = flow;
        for half in &mut core.halves {
            half.stream.forget(&mut self.budget);
        }
        let hash = core.key.hash(self.config.seed);
        self.index.remove(hash, place);
        self.wheel.cancel(place);
        self.cheap.remove(place);
        self.closed.push(place);
        self.counters.closed[reason as usize] += 1;
        self.counters.clock_rebases = self.clock.rebases;
        events.push(FlowIdx(place), FlowEvent::Closed { reason, ts });
    }

    /// Tries and tombstones first, while they are more than their share; else the flow idle longest of a few.
    fn choose_victim(&mut self) -> u32 {
        let cheapest = self.cheap.first(0);
        if let Some(place) = cheapest.filter(|_| self.cheap.len() * CHEAP_SHARE > self.config.flows_max) {
            return place;
        }
        let mut best: Option<(i64, u32)> = None;
        let mut looked_at = 0;
        for _ in 0..EVICTION_SAMPLE * CHEAP_SHARE {
            self.hand = (self.hand + 1) % self.flows.len();
            let flow = &self.flows[self.hand];
            if flow.has(flow_bit::LIVE) && flow.has(flow_bit::VALUED) {
                let candidate = (flow.seen_at, self.hand as u32);
                best = Some(best.map_or(candidate, |best| best.min(candidate)));
                looked_at += 1;
            }
            if looked_at == EVICTION_SAMPLE {
                break;
            }
        }
        best.map(|(_, place)| place).or(cheapest).expect("a full table has a flow, valued or cheap")
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
    let (flow, reassemble) = (FlowIdx(place), config.reassemble);
    Context { events, flow, reassemble, patience: patience(config), budget, totals, now }
}

/// How long a flow may be silent, by what it has come to.
#[inline]
fn idle_timeout(flow: &FlowCore, config: &Config) -> i64 {
    if !flow.is_tcp() {
        config.udp_idle_ns
    } else if flow.is_terminated() {
        config.tcp_closed_idle_ns
    } else if flow.has(flow_bit::HANDSHAKE_DONE) {
        config.tcp_idle_ns
    } else {
        opening_timeout(flow, config)
    }
}

/// Without a handshake, payload shows that a connection stands; unless its only side has said FIN.
fn opening_timeout(flow: &FlowCore, config: &Config) -> i64 {
    let over = |half: &crate::flow::Half| half.packets == 0 || half.stream.is_ended();
    let unread = flow.halves.iter().all(|half| half.stream.unique_bytes == 0);
    if unread || flow.halves.iter().all(over) { config.tcp_opening_idle_ns } else { config.tcp_idle_ns }
}

/// Whether a packet of a terminated flow brings new bytes, or acknowledges such: then the flow does not live
/// longer for it, and after a while they are taken for a flow of their own.
fn is_news(flow: &FlowCore, side: Side, packet: &Packet<'_>) -> bool {
    let (own, other) = (&flow.half(side).stream, &flow.half(side.other()).stream);
    tcp_of(packet).is_some_and(|tcp| {
        let beyond = own.next().before(tcp.seq.plus(packet.payload_original_len));
        packet.payload_original_len > 0 && beyond
            || tcp.flags.contains(TcpFlags::ACK) && other.is_started() && other.next().before(tcp.ack)
    })
}

fn report_active(flow: &mut FlowCore, idx: FlowIdx, (now, period): (Timestamp, i64), events: &mut Events) {
    let lived = now.since(flow.active_since);
    if lived >= period.max(1) {
        flow.active_since = flow.active_since.plus(lived - lived % period.max(1));
        events.push(idx, FlowEvent::ActiveTimeout);
    }
}

//! The data path, told once: [`Monitor::on_block`] takes packets, `on_packet` shows every step in order.
//!
//! Runs to completion on one thread: no locks, nothing allocated per packet. Packets are taken in batches so that the
//! flow table's memory is asked for while the packets before are still being worked on.

use arrayvec::ArrayVec;
use flow::{CaptureLoss, CloseReason, Event, Events, Flow, FlowEvent, FlowIdx, Hashed, SideCounters, Table};
use parsers::flow_level::{flow_record, tcp_conn_time};
use parsers::probing::{ProbeFlow, direction};
use parsers::{FlowContext, FlowFacts, FlowRef, Output, Probing, Stream};
use plan::{MonitorSpec, Sample};
use wire::packet::TcpFlags;
use wire::{Captured, IpProtocol, Packet, Side, TakePacket, Timestamp, Transport};

use crate::Accounting;
use crate::address_filter::AddressFilter;
use crate::gate::{Gate, Verdict};
use crate::limiter::Limiter;
use crate::outputs::{Batches, FLOW_FIELDS, Outputs, nobody};
use crate::sample::Adaptive;

/// Packets worked on at a time: enough to hide a cache miss, few enough to stay in the first-level cache.
const BATCH: usize = 64;

/// Limits of a monitor.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The flow table's; `detail` is decided by the plan.
    pub flow: flow::Config,
}

impl Config {
    /// What each of `workers` workers may use of it.
    #[must_use]
    pub fn share(&self, workers: usize) -> Config {
        let workers = workers.max(1);
        Config {
            flow: flow::Config {
                flows_max: self.flow.flows_max.div_ceil(workers),
                held_bytes_max: self.flow.held_bytes_max.div_ceil(workers),
                ..self.flow.clone()
            },
        }
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More packets are welcome.
    Continue,
    /// LIMIT has been reached: nothing more will be taken.
    LimitReached,
}

/// Turns packets into tuple batches for one query.
pub struct Monitor {
    gate: Gate,
    addresses: AddressFilter,
    asks: Asks,
    table: Table<FlowState>,
    outputs: Outputs,
    /// The rate under SAMPLE auto.
    adaptive: Adaptive,
    events: Events,
    accounting: Accounting,
    /// How late it was when the last block ended: the same for all workers of a query that read one input.
    clock: Timestamp,
    /// The time of what is being worked on: the clock, or the packet's if that is later.
    now: Timestamp,
    /// The latest packet.
    latest: Timestamp,
    /// The clock when the last epoch ended.
    watermark: Timestamp,
    /// Whether a flow may have more than one record.
    reports_again: bool,
}

/// What the monitor remembers of a flow.
#[derive(Default)]
struct FlowState {
    connection: Connection,
    stream: Stream,
    /// The parser did not get the connection's first bytes.
    joined_midway: bool,
    /// Once SAMPLE auto has changed the rate: that at which such flows are in; else 0.
    rate: f64,
    reported: Option<Box<flow_record::Counts>>,
}

/// Whether a flow is asked for by FROM and TO; kept as the table's mark, where every packet finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FlowVerdict {
    /// It depends on which end is the client, and that is not known yet.
    Open,
    In,
    Out,
}

/// What `tcp_conn_time` has said of a connection.
#[derive(Clone, Copy, Default)]
struct Connection {
    started: Option<Timestamp>,
    ended: bool,
}

/// A packet that is to be worked on.
struct Admitted<'a> {
    /// Decoding it once more costs less than carrying what came of it the first time.
    captured: Captured<'a>,
    at: Hashed,
}

/// What a plan asks of every packet, settled once.
#[derive(Clone, Copy)]
struct Asks {
    /// Nothing but the packets themselves: there is no need to know their flows.
    packets_only: bool,
    packets: bool,
    connections: bool,
    payload: bool,
    /// FROM and TO leave nothing out.
    every_flow: bool,
    /// Who a flow is, in what is written without a protocol's parser.
    identity: bool,
    /// What flow records count.
    counts: bool,
    /// What flow records say of a connection's life.
    life: bool,
    /// SAMPLE auto: the rate may change.
    adapts: bool,
    /// The rate at which flows are in where that does not change.
    rate: f64,
}

impl Monitor {
    /// A monitor with nothing seen yet, behind a gate of its own.
    #[must_use]
    pub fn new(spec: &MonitorSpec, config: Config) -> Monitor {
        Monitor::behind(Gate::new(spec, Limiter::new(spec.limit)), spec, config)
    }

    /// A monitor behind `gate`.
    #[must_use]
    pub fn behind(gate: Gate, spec: &MonitorSpec, config: Config) -> Monitor {
        let outputs = Outputs::new(spec);
        let reports_again = config.flow.active_timeout_ns.is_some();
        let flow = flow::Config { detail: outputs.detail(), ..config.flow };
        let addresses = AddressFilter::new(spec);
        let every_flow = addresses.passes_all();
        let adapts = spec.sample == Sample::Auto;
        let asks = Asks {
            packets_only: every_flow && !adapts && outputs.reads_packets_only(),
            packets: outputs.reads_packets(),
            connections: outputs.reads_connections(),
            payload: outputs.reads_payload(),
            every_flow,
            identity: outputs.wants_any(&FLOW_FIELDS),
            counts: outputs.records_want(&flow_record::COUNTS),
            life: outputs.records_want(&[flow_record::CONN_STATE, flow_record::HISTORY]),
            adapts,
            rate: if let Sample::Fraction(p) = spec.sample { p } else { 1.0 },
        };
        Monitor {
            gate,
            addresses,
            asks,
            adaptive: Adaptive::new(flow.tcp_idle_ns, flow.udp_idle_ns),
            table: Table::new(flow),
            outputs,
            events: Events::default(),
            accounting: Accounting::default(),
            clock: Timestamp::MIN,
            now: Timestamp::MIN,
            latest: Timestamp::MIN,
            watermark: Timestamp::MIN,
            reports_again,
        }
    }

    /// Works on a block's packets, or a share of them. At its end it is `clock`, or as late as the latest packet.
    /// Tuples are added to `out` when enough have come together; [`Monitor::end_epoch`] hands over the rest.
    pub fn on_block<'a>(
        &mut self,
        packets: impl Iterator<Item = Captured<'a>>,
        clock: Option<Timestamp>,
        out: &mut Batches,
    ) -> Progress {
        let progress = if self.asks.packets_only { self.on_packets(packets) } else { self.on_flows(packets) };
        self.clock = self.clock.max(clock.unwrap_or(self.latest));
        self.now = self.clock;
        self.expire();
        self.adaptive.forget(self.clock);
        if self.outputs.any_full() {
            self.flush(out);
        }
        progress
    }

    /// Ends an epoch: hands over all tuples written so far. From now on none is earlier than the clock.
    pub fn end_epoch(&mut self, out: &mut Batches) {
        self.flush(out);
        self.watermark = self.clock;
    }

    /// Ends every flow and hands over all tuples.
    pub fn finish(&mut self, out: &mut Batches) {
        let mut events = std::mem::take(&mut self.events);
        loop {
            let more = self.table.close_all(self.clock, &mut events);
            self.on_events(&events, &[], None);
            if self.outputs.any_full() {
                self.flush(out);
            }
            if !more {
                break;
            }
        }
        self.events = events;
        self.flush(out);
    }

    /// How late it is by the packets: tuples that come now have no earlier `ts_end`.
    #[must_use]
    pub fn clock(&self) -> Timestamp {
        self.clock
    }

    /// Where every packet went.
    #[must_use]
    pub fn accounting(&self) -> Accounting {
        Accounting { flows: *self.table.counters(), ..self.accounting.clone() }
    }

    /// What the packets so far seem to lack.
    #[must_use]
    pub fn capture_loss(&self) -> CaptureLoss {
        self.table.counters().capture_loss()
    }

    /// LIMIT, as all workers share it.
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        self.gate.limiter()
    }

    /// Whether the sampling rate may change: SAMPLE auto.
    #[must_use]
    pub fn adapts(&self) -> bool {
        self.asks.adapts
    }

    /// The share of new flows that is looked at.
    #[must_use]
    pub fn sample_rate(&self) -> f64 {
        if self.asks.adapts { self.adaptive.rate() } else { self.asks.rate }
    }

    /// From now on so large a share of new flows is looked at; those that are in stay in. For SAMPLE auto only.
    pub fn set_sample_rate(&mut self, rate: f64) {
        self.adaptive.set(self.clock, rate);
    }

    /// How many flows are in the table.
    #[must_use]
    pub fn flows(&self) -> usize {
        self.table.len()
    }

    /// Packets for parsers that look at nothing else.
    fn on_packets<'a>(&mut self, packets: impl Iterator<Item = Captured<'a>>) -> Progress {
        let (mut progress, mut entered) = (Progress::Continue, 0);
        for captured in packets {
            let mut write = Write { outputs: &mut self.outputs, packets: &mut entered };
            let verdict = self.gate.admit(&captured, &mut self.accounting, &mut write);
            if verdict == Verdict::Over {
                progress = Progress::LimitReached;
                break;
            }
            self.latest = self.latest.max(captured.ts);
        }
        self.accounting.received += entered;
        self.accounting.parsed += entered;
        progress
    }

    /// Packets one by one with their flows: a batch at a time, so that memory is there when it is needed.
    fn on_flows<'a>(&mut self, mut packets: impl Iterator<Item = Captured<'a>>) -> Progress {
        let mut events = std::mem::take(&mut self.events);
        let mut progress = Progress::Continue;
        while progress == Progress::Continue {
            let mut admitted = ArrayVec::<Admitted<'_>, BATCH>::new();
            progress = self.admit(&mut packets, &mut admitted);
            if admitted.is_empty() {
                break;
            }
            for ready in &mut admitted {
                self.table.prefetch_flow(&mut ready.at, capture::prefetch);
            }
            for ready in &admitted {
                self.table.prefetch_rest(&ready.at, capture::prefetch);
            }
            if self.asks.payload {
                self.prefetch_parsers(&admitted);
            }
            self.accounting.received += admitted.len() as u64;
            self.accounting.parsed += admitted.len() as u64;
            for ready in &admitted {
                let mut work = Work { monitor: self, at: &ready.at, events: &mut events };
                let decoded = Packet::decode_into(&ready.captured, &mut work);
                debug_assert!(decoded.is_ok(), "it was decoded when it was admitted");
            }
        }
        self.events = events;
        progress
    }

    /// Asks for the memory of what knows the flows' protocols.
    #[inline]
    fn prefetch_parsers(&self, admitted: &[Admitted<'_>]) {
        for state in admitted.iter().filter_map(|ready| self.table.state_of(&ready.at)) {
            capture::prefetch(std::ptr::from_ref(state).cast());
        }
        for state in admitted.iter().filter_map(|ready| self.table.state_of(&ready.at)) {
            if let Stream::Parsing { parser, .. } = &state.stream {
                let parser: *const u8 = std::ptr::from_ref(parser.as_ref()).cast();
                // What every message touches lies in the first lines.
                for line in 0..4 {
                    capture::prefetch(parser.wrapping_add(64 * line));
                }
            }
        }
    }

    /// Takes a batch of packets that are worked on, and asks for the memory of their flows.
    #[inline]
    fn admit<'a>(
        &mut self,
        packets: &mut impl Iterator<Item = Captured<'a>>,
        admitted: &mut ArrayVec<Admitted<'a>, BATCH>,
    ) -> Progress {
        while !admitted.is_full()
            && let Some(captured) = packets.next()
        {
            let mut enter = Enter { table: &self.table, admitted };
            let verdict = self.gate.admit(&captured, &mut self.accounting, &mut enter);
            if verdict == Verdict::Over {
                return Progress::LimitReached;
            }
            self.latest = self.latest.max(captured.ts);
        }
        Progress::Continue
    }

    /// One packet, from its headers to its tuples.
    #[inline(always)]
    fn on_packet(&mut self, packet: &Packet<'_>, at: &Hashed, events: &mut Events) {
        self.now = self.clock.max(packet.ts);
        if self.adaptive.has_changed() {
            return self.on_sampled_packet(*packet, at, events);
        }
        let idx = self.table.process_hashed(packet, at, events);
        self.on_flow_packet(idx, packet, events);
    }

    /// The same once SAMPLE auto has changed the rate: the packets of flows that are in, or get in by them.
    #[inline(never)]
    fn on_sampled_packet(&mut self, packet: Packet<'_>, at: &Hashed, events: &mut Events) {
        let goes_on = self.table.goes_on(&packet, at, events);
        // What was left of a flow that it has shown to be over.
        self.on_events(events, &[], None);
        let rate = self.adaptive.rate_of(&packet);
        if !goes_on && !Adaptive::takes(&packet.five_tuple.flow_key().0, rate) {
            self.accounting.parsed -= 1;
            self.accounting.sampled_out += 1;
            return;
        }
        let idx = self.table.process_hashed(&packet, at, events);
        let state = self.table.state_mut(idx);
        // Flows from before the first change were all in; into others such a packet would have let any flow like this.
        if !goes_on || state.rate > 0.0 {
            state.rate = state.rate.max(rate);
        }
        self.on_flow_packet(idx, &packet, events);
    }

    /// A packet that the table has taken in.
    #[inline(always)]
    fn on_flow_packet(&mut self, idx: FlowIdx, packet: &Packet<'_>, events: &Events) {
        if !events.list().is_empty() {
            // A copy: what others borrow has to lie in memory, for every packet if it is this one.
            let packet = *packet;
            self.on_events(events, packet.payload, Some(&packet));
        }
        if !self.asks.every_flow && self.verdict(idx) == FlowVerdict::Out {
            self.accounting.parsed -= 1;
            self.accounting.filtered.direction += 1;
            return;
        }
        if self.asks.packets && self.asked_for(idx) {
            let (packet, context) = (*packet, self.context(idx));
            self.outputs.on_packet(&packet, &context);
        }
        if self.asks.connections
            && let Transport::Tcp(tcp) = &packet.transport
            && tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN)
        {
            self.on_control_segment(idx, tcp.flags, packet.ts);
        }
    }

    fn on_events(&mut self, events: &Events, payload: &[u8], packet: Option<&Packet<'_>>) {
        for &Event { flow, what } in events.list() {
            match what {
                FlowEvent::Opened => self.on_opened(flow, packet),
                FlowEvent::Bytes { side, chunk, ts } => {
                    self.on_bytes(flow, side, events.bytes(chunk, payload), ts);
                }
                FlowEvent::Datagram { side, chunk, cut, ts } => {
                    self.on_datagram(flow, side, events.bytes(chunk, payload), (cut, ts));
                }
                FlowEvent::Gap { side, len, ts } => self.on_gap(flow, side, len, ts),
                FlowEvent::End { side, ts } => {
                    self.parse(flow, |parser, asker, out| parser.on_end(direction(side, asker), ts, out));
                }
                FlowEvent::Terminated { reason, ts } => self.on_terminated(flow, reason, ts),
                FlowEvent::ActiveTimeout => self.record(flow, "active_timeout", self.now),
                FlowEvent::Closed { reason, ts } => self.on_closed(flow, reason, ts),
            }
        }
    }

    fn on_opened(&mut self, idx: FlowIdx, packet: Option<&Packet<'_>>) {
        self.decide(idx);
        if self.verdict(idx) == FlowVerdict::Out {
            return;
        }
        if let Some(packet) = packet
            && packet.five_tuple.protocol == IpProtocol::TCP
            && self.asked_for(idx)
        {
            let context = self.context(idx);
            self.outputs.on_first_packet(packet, &context);
        }
    }

    /// Settles FROM and TO for a flow as far as its client is known.
    fn decide(&mut self, idx: FlowIdx) {
        let verdict = if self.addresses.passes_all() {
            FlowVerdict::In
        } else {
            let flow = self.table.flow(idx);
            let (client, guessed) = flow.client();
            let (client, server) = (flow.key().end(client), flow.key().end(client.other()));
            match (self.addresses.matches(client, server), self.addresses.matches(server, client)) {
                (true, true) => FlowVerdict::In,
                (true, false) if !guessed => FlowVerdict::In,
                (false, _) if !guessed => FlowVerdict::Out,
                _ => FlowVerdict::Open,
            }
        };
        self.table.set_mark(idx, verdict as u8);
        if verdict == FlowVerdict::Out {
            self.table.state_mut(idx).stream = Stream::Ignored;
            self.table.ignore_payload(idx);
        }
    }

    fn verdict(&self, idx: FlowIdx) -> FlowVerdict {
        match self.table.mark(idx) {
            0 => FlowVerdict::Open,
            1 => FlowVerdict::In,
            _ => FlowVerdict::Out,
        }
    }

    /// Whether tuples of the flow may be written now; where nothing better is known, the guessed client counts.
    fn asked_for(&self, idx: FlowIdx) -> bool {
        match self.verdict(idx) {
            FlowVerdict::In => true,
            FlowVerdict::Out => false,
            FlowVerdict::Open => {
                let flow = self.table.flow(idx);
                let client = flow.client().0;
                self.addresses.matches(flow.key().end(client), flow.key().end(client.other()))
            }
        }
    }

    fn on_bytes(&mut self, idx: FlowIdx, side: Side, bytes: &[u8], ts: Timestamp) {
        if matches!(self.table.state(idx).stream, Stream::New | Stream::Probing(_))
            && !self.recognise(idx, side, bytes, ts)
        {
            return;
        }
        self.parse(idx, |parser, asker, out| parser.on_bytes(direction(side, asker), bytes, ts, out));
    }

    fn on_datagram(&mut self, idx: FlowIdx, side: Side, bytes: &[u8], (cut, ts): (u32, Timestamp)) {
        if matches!(self.table.state(idx).stream, Stream::New | Stream::Probing(_))
            && !self.recognise(idx, side, bytes, ts)
        {
            return;
        }
        self.parse(idx, |parser, asker, out| parser.on_datagram(direction(side, asker), bytes, cut, ts, out));
    }

    fn on_gap(&mut self, idx: FlowIdx, side: Side, len: u64, ts: Timestamp) {
        match &mut self.table.state_mut(idx).stream {
            stream @ Stream::New => {
                let mut probing = Box::<Probing>::default();
                probing.on_gap(side);
                *stream = Stream::Probing(probing);
            }
            Stream::Probing(probing) => probing.on_gap(side),
            _ => self.parse(idx, |parser, asker, out| parser.on_gap(direction(side, asker), len, ts, out)),
        }
    }

    /// Asks the protocols whether these bytes are theirs. True when one has been found; the bytes before these have
    /// been fed to its parser then.
    fn recognise(&mut self, idx: FlowIdx, side: Side, bytes: &[u8], ts: Timestamp) -> bool {
        let flow = self.table.flow(idx);
        let (key, (client, guessed)) = (flow.key(), flow.client());
        let about = ProbeFlow {
            transport: key.protocol,
            client: (!guessed).then_some(client),
            ports: [key.a.port, key.b.port],
            midstream: flow.is_midstream(),
        };
        let state = self.table.state_mut(idx);
        let mut probing = match std::mem::take(&mut state.stream) {
            Stream::Probing(probing) => probing,
            _ => Box::default(),
        };
        match probing.on_bytes(side, bytes, ts, about, self.outputs.protocols()) {
            Ok(None) => state.stream = Stream::Probing(probing),
            Err(()) => {
                state.stream = Stream::Ignored;
                self.table.ignore_payload(idx);
            }
            Ok(Some(found)) => {
                let protocol = self.outputs.protocols()[usize::from(found.protocol)];
                let (parser, asker) = ((protocol.start)(), found.asker);
                state.joined_midway = probing.joined_midway();
                state.stream = Stream::Parsing { parser, protocol: found.protocol, asker };
                if guessed || key.protocol != IpProtocol::TCP {
                    self.table.set_client(idx, asker);
                }
                self.decide(idx);
                self.parse(idx, |parser, asker, out| probing.replay(asker, parser, out));
                return true;
            }
        }
        false
    }

    /// Lets the flow's parser, if it has one, act; forgets it when it has no more to say.
    fn parse(
        &mut self,
        idx: FlowIdx,
        act: impl FnOnce(&mut dyn parsers::StreamParser, Side, &mut Output<'_>),
    ) {
        if !self.asks.payload {
            return;
        }
        let mut stream = std::mem::take(&mut self.table.state_mut(idx).stream);
        if let Stream::Parsing { parser, protocol, asker } = &mut stream {
            let facts = Facts { table: &self.table, idx, rate: self.asks.rate };
            let flow = FlowRef::new(facts.is_midstream(), &facts);
            let taps = self.outputs.taps(*protocol);
            let mut out = Output::new(flow, self.now, &mut self.accounting.parsers, taps);
            act(parser.as_mut(), *asker, &mut out);
            if parser.is_done() {
                parser.on_close(&mut out);
                stream = Stream::Ignored;
                self.table.ignore_payload(idx);
            }
        }
        self.table.state_mut(idx).stream = stream;
    }

    fn on_terminated(&mut self, idx: FlowIdx, reason: CloseReason, ts: Timestamp) {
        self.close_stream(idx);
        if reason == CloseReason::Rst {
            self.on_connection_end(idx, tcp_conn_time::Flag::Rst, ts);
        }
    }

    fn on_closed(&mut self, idx: FlowIdx, reason: CloseReason, ts: Timestamp) {
        self.close_stream(idx);
        let last_ts = self.table.flow(idx).last_ts();
        self.on_connection_end(idx, tcp_conn_time::Flag::Expired, last_ts);
        self.record(idx, reason.name(), ts.max(self.watermark));
    }

    fn close_stream(&mut self, idx: FlowIdx) {
        self.parse(idx, |parser, _, out| parser.on_close(out));
        if self.asks.payload {
            self.table.state_mut(idx).stream = Stream::Ignored;
        }
    }

    /// A SYN or FIN, for `tcp_conn_time`.
    fn on_control_segment(&mut self, idx: FlowIdx, flags: TcpFlags, ts: Timestamp) {
        let connection = &mut self.table.state_mut(idx).connection;
        if flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK) && connection.started.is_none() {
            connection.started = Some(ts);
            if self.asked_for(idx) {
                let context = self.context(idx);
                self.outputs.on_start(ts, &context);
            }
        }
        if flags.contains(TcpFlags::FIN) {
            self.on_connection_end(idx, tcp_conn_time::Flag::Fin, ts);
        }
    }

    fn on_connection_end(&mut self, idx: FlowIdx, flag: tcp_conn_time::Flag, ts: Timestamp) {
        if !self.asks.connections {
            return;
        }
        let flow = self.table.flow(idx);
        let connection = self.table.state(idx).connection;
        if !flow.is_tcp() || connection.ended {
            return;
        }
        let end =
            tcp_conn_time::End { flag, ts, started: connection.started, handshake_ns: flow.handshake_ns() };
        self.table.state_mut(idx).connection.ended = true;
        if self.asked_for(idx) {
            let context = self.context(idx);
            self.outputs.on_end(&end, self.now, &context);
        }
    }

    /// Writes a flow's record: all that has been counted since the one before.
    fn record(&mut self, idx: FlowIdx, reason: &str, now: Timestamp) {
        if !self.outputs.reads_flows() || !self.asked_for(idx) {
            return;
        }
        let counts = if self.asks.counts { self.counts_since(idx) } else { flow_record::Counts::default() };
        let flow = self.table.flow(idx);
        let tcp = flow.is_tcp() && self.asks.life;
        let history = tcp.then(|| flow.history());
        let record = flow_record::Record {
            first_ts: flow.first_ts(),
            last_ts: flow.last_ts(),
            now,
            counts,
            handshake_ns: flow.handshake_ns(),
            conn_state: tcp.then(|| flow.conn_state().name()),
            history: history.as_deref(),
            reason,
        };
        let context = self.context(idx);
        self.outputs.on_record(&record, &context);
    }

    /// What has been counted of a flow since its last record.
    fn counts_since(&mut self, idx: FlowIdx) -> flow_record::Counts {
        let counts = counts(&self.table.flow(idx));
        match (&mut self.table.state_mut(idx).reported, self.reports_again) {
            (Some(before), _) => counts.since(&std::mem::replace(before, counts)),
            (none, true) => {
                *none = Some(Box::new(counts));
                counts
            }
            (_, false) => counts,
        }
    }

    /// What the tuples of a flow have in common; nothing in particular where nobody asks.
    fn context(&self, idx: FlowIdx) -> FlowContext {
        if !self.asks.identity {
            return nobody(self.table.flow(idx).key().protocol);
        }
        Facts { table: &self.table, idx, rate: self.asks.rate }.context()
    }

    fn flush(&mut self, out: &mut Batches) {
        self.accounting.tuples += self.outputs.flush(out);
    }

    /// Takes idle flows out of the table.
    fn expire(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        self.table.expire(self.clock, &mut events);
        self.on_events(&events, &[], None);
        self.events = events;
    }
}

/// Writes tuples of packets alone.
struct Write<'m> {
    outputs: &'m mut Outputs,
    packets: &'m mut u64,
}

impl<'a> TakePacket<'a> for Write<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &Captured<'a>, packet: &Packet<'a>) {
        *self.packets += 1;
        self.outputs.on_bare_packet(packet);
    }
}

/// Notes where a packet's flow will be looked for.
struct Enter<'m, 'b, 'a> {
    table: &'m Table<FlowState>,
    admitted: &'b mut ArrayVec<Admitted<'a>, BATCH>,
}

impl<'a> TakePacket<'a> for Enter<'_, '_, 'a> {
    #[inline(always)]
    fn packet(&mut self, captured: &Captured<'a>, packet: &Packet<'a>) {
        let at = self.table.hash(packet);
        self.table.prefetch_index(&at, capture::prefetch);
        self.admitted.push(Admitted { captured: *captured, at });
    }
}

/// Works on a packet with its flow.
struct Work<'m> {
    monitor: &'m mut Monitor,
    at: &'m Hashed,
    events: &'m mut Events,
}

impl<'a> TakePacket<'a> for Work<'_> {
    #[inline(always)]
    fn packet(&mut self, _: &Captured<'a>, packet: &Packet<'a>) {
        self.monitor.on_packet(packet, self.at, self.events);
    }
}

/// A flow, asked who it is only when a tuple says so.
struct Facts<'a> {
    table: &'a Table<FlowState>,
    idx: FlowIdx,
    /// The sampling rate of flows that have none of their own.
    rate: f64,
}

impl Facts<'_> {
    fn is_midstream(&self) -> bool {
        self.table.flow(self.idx).is_midstream() || self.table.state(self.idx).joined_midway
    }
}

impl FlowFacts for Facts<'_> {
    fn context(&self) -> FlowContext {
        let flow = self.table.flow(self.idx);
        let (key, (client, client_guessed)) = (flow.key(), flow.client());
        FlowContext {
            id: flow.id(),
            client: key.end(client),
            server: key.end(client.other()),
            protocol: key.protocol,
            client_guessed,
            midstream: self.is_midstream(),
            sample_rate: Some(self.table.state(self.idx).rate)
                .filter(|rate| *rate > 0.0)
                .unwrap_or(self.rate),
        }
    }
}

/// A flow's counts, the client's first.
fn counts(flow: &Flow<'_>) -> flow_record::Counts {
    let client = flow.client().0;
    let sides = [client, client.other()];
    let sum = |of: fn(&SideCounters) -> u64| sides.iter().map(|side| of(&flow.counters(*side))).sum();
    flow_record::Counts {
        packets: sides.map(|side| flow.packets(side)),
        bytes: sides.map(|side| flow.bytes(side)),
        payload_bytes: sides.map(|side| flow.payload_bytes(side)),
        retransmissions: sum(|c| u64::from(c.retransmissions)),
        out_of_order: sum(|c| u64::from(c.out_of_order)),
        gaps: sum(|c| u64::from(c.gaps)),
        gap_bytes: sum(|c| c.gap_bytes),
        acked_unseen_bytes: sum(|c| c.acked_unseen_bytes),
        duplicates: sum(|c| u64::from(c.duplicates)),
    }
}

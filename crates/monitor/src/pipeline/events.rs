//! Handles flow events: start and end of flows and connections, and flow records.

use flow::{
    CloseReason, Flow, FlowEvent, FlowEvents, FlowIdx, IndexedFlowEvent, SideCounters, StreamPlace,
};
use parsers::flow_level::{flow_record, tcp_conn_time};
use parsers::{FlowContext, FlowFacts, FlowProtocol, StreamEnd, StreamGap, StreamSegment};
use tuple::TapEnd;
use wire::packet::TcpFlags;
use wire::{FlowSide, IpProtocol, Packet, Timestamp};

use super::{FlowState, Monitor, ParserEvent, RareFlowState};
use crate::taps::TapFilter;
use crate::tuple_outputs::{FlowApplication, nobody};

impl Monitor {
    pub(super) fn on_events(
        &mut self,
        events: &FlowEvents,
        payload: &[u8],
        packet: Option<&Packet<'_>>,
    ) {
        self.last_packet_before = events.last_packet_before();
        for &IndexedFlowEvent { flow, what } in events.list() {
            match what {
                FlowEvent::Opened => self.on_opened(flow, packet),
                FlowEvent::Resumed { from } => self.on_resumed(flow, from),
                FlowEvent::Bytes {
                    side,
                    chunk,
                    ts,
                    place,
                } => {
                    let segment = StreamSegment {
                        bytes: events.bytes(chunk, payload),
                        ts,
                        place,
                    };
                    self.parse(flow, side, ParserEvent::Bytes(segment));
                }
                FlowEvent::Datagram {
                    side,
                    chunk,
                    cut,
                    ts,
                } => {
                    let bytes = events.bytes(chunk, payload);
                    let place = StreamPlace::default();
                    self.parse(
                        flow,
                        side,
                        ParserEvent::Datagram(StreamSegment { bytes, ts, place }, cut),
                    );
                }
                FlowEvent::Gap { side, seq, len, ts } => {
                    self.parse(flow, side, ParserEvent::Gap(StreamGap { seq, len, ts }));
                }
                FlowEvent::End { side, .. } => {
                    self.parse(flow, side, ParserEvent::End(StreamEnd::Fin))
                }
                FlowEvent::Terminated { reason, ts } => self.on_terminated(flow, reason, ts),
                FlowEvent::ActiveTimeout => self.record(flow, "active_timeout", self.now),
                FlowEvent::Closed { reason, ts } => self.on_closed(flow, reason, ts),
            }
        }
        self.last_packet_before = None;
    }

    fn on_opened(&mut self, idx: FlowIdx, packet: Option<&Packet<'_>>) {
        self.decide(idx);
        if self.verdict(idx).leaves_out() {
            return;
        }
        if self.asks.path
            && let Some(Packet { tunnel, vlan, .. }) = packet
            && (vlan.is_some() || !tunnel.is_none())
        {
            self.table.state_mut(idx).rare.get_or_insert_default().path = (*tunnel, *vlan);
        }
        if let Some(packet) = packet
            && packet.five_tuple.protocol == IpProtocol::TCP
            && self.asked_for(idx)
        {
            let context = self.context(idx);
            self.outputs.on_first_packet(packet, &context);
        }
    }

    /// Moves the parser to the new flow of a connection that was idle.
    fn on_resumed(&mut self, idx: FlowIdx, from: FlowIdx) {
        let FlowState {
            stream,
            joined_midway,
            application,
            ..
        } = std::mem::take(self.table.state_mut(from));
        if !self.verdict(idx).leaves_out() {
            let state = self.table.state_mut(idx);
            (state.stream, state.joined_midway, state.application) =
                (stream, joined_midway, application);
        }
    }

    fn on_terminated(&mut self, idx: FlowIdx, reason: CloseReason, ts: Timestamp) {
        if reason == CloseReason::Rst {
            // No further data from either side.
            for side in [FlowSide::A, FlowSide::B] {
                self.parse(idx, side, ParserEvent::End(StreamEnd::Reset));
            }
        }
        self.close_stream(idx, self.table.flow(idx).last_ts());
        if reason == CloseReason::Rst {
            self.on_connection_end(idx, tcp_conn_time::FlowEndReason::Rst, ts);
        }
    }

    fn on_closed(&mut self, idx: FlowIdx, reason: CloseReason, ts: Timestamp) {
        let is_idle = reason == CloseReason::Idle;
        let last_ts = self.table.flow(idx).last_ts();
        if is_idle {
            self.rest_stream(idx, ts)
        } else {
            self.close_stream(idx, last_ts)
        }
        self.on_connection_end(idx, tcp_conn_time::FlowEndReason::Expired, last_ts);
        if self.asks.payload {
            self.count_unread(idx);
        }
        self.record(idx, reason.name(), ts.max(self.watermark));
        if is_idle {
            // The flow's record ends here; its connection may continue in another flow.
            let FlowState {
                stream,
                joined_midway,
                application,
                ..
            } = std::mem::take(self.table.state_mut(idx));
            *self.table.state_mut(idx) = FlowState {
                stream,
                joined_midway,
                application,
                ..FlowState::default()
            };
        }
    }

    /// Handles a SYN or FIN for `tcp_conn_time`.
    pub(super) fn on_control_segment(&mut self, idx: FlowIdx, flags: TcpFlags, ts: Timestamp) {
        // An unconfirmed SYN does not start a connection; it is reported when the server's answer confirms
        // it.
        let syn = self.table.flow(idx).syn_ts();
        let started = &mut self.table.state_mut(idx).started;
        if let Some(syn) = syn.filter(|_| flags.contains(TcpFlags::SYN) && started.is_none()) {
            *started = Some(syn);
            if self.asked_for(idx) {
                let context = self.context(idx);
                self.outputs.on_start(syn, &context);
            }
        }
        if flags.contains(TcpFlags::FIN) {
            self.on_connection_end(idx, tcp_conn_time::FlowEndReason::Fin, ts);
        }
    }

    fn on_connection_end(
        &mut self,
        idx: FlowIdx,
        flag: tcp_conn_time::FlowEndReason,
        ts: Timestamp,
    ) {
        if !self.asks.connections {
            return;
        }
        let flow = self.table.flow(idx);
        let state = self.table.state(idx);
        if !flow.is_tcp() || state.ended {
            return;
        }
        let end = tcp_conn_time::ConnectionClose {
            flag,
            ts,
            started: state.started,
            handshake_ns: flow.handshake_ns(),
        };
        self.table.state_mut(idx).ended = true;
        if self.asked_for(idx) {
            let context = self.context(idx);
            self.outputs.on_end(&end, self.now, &context);
        }
    }

    /// Writes a flow record with all counts since the previous one.
    fn record(&mut self, idx: FlowIdx, reason: &str, now: Timestamp) {
        if !self.outputs.reads_flows() || !self.asked_for(idx) {
            return;
        }
        let counts = if self.asks.counts {
            self.counts_since(idx)
        } else {
            flow_record::FlowCounts::default()
        };
        let flow = self.table.flow(idx);
        let tcp = flow.is_tcp() && self.asks.life;
        let history = tcp.then(|| flow.history());
        let record = flow_record::FlowRecord {
            first_ts: flow.first_ts(),
            last_ts: flow.last_ts(),
            now,
            counts,
            handshake_ns: flow.handshake_ns(),
            rtt_ns: [flow.client_rtt_ns(), flow.server_rtt_ns()],
            conn_state: tcp.then(|| flow.conn_state().name()),
            history: history.as_deref(),
            application: self.outputs.name_of(self.application(idx)),
            reason,
        };
        let context = self.context(idx);
        self.outputs.on_record(&record, &context);
    }

    /// Application protocol of a flow, as recognized so far.
    fn application(&self, idx: FlowIdx) -> FlowApplication {
        let state = self.table.state(idx);
        match &state.stream {
            FlowProtocol::Probing(probing) => probing
                .named()
                .map_or(state.application, FlowApplication::Named),
            _ => state.application,
        }
    }

    /// Counts of a flow since its last record.
    fn counts_since(&mut self, idx: FlowIdx) -> flow_record::FlowCounts {
        let counts = counts(&self.table.flow(idx));
        if !self.reports_again {
            return counts;
        }
        let before = self
            .table
            .state_mut(idx)
            .rare
            .get_or_insert_default()
            .reported
            .replace(counts);
        before.map_or(counts, |before| counts.since(&before))
    }

    /// Fields common to all tuples of a flow; empty if no output needs them.
    pub(super) fn context(&self, idx: FlowIdx) -> FlowContext {
        if !self.asks.identity && !self.asks.path && !self.asks.proxied && !self.asks.decrypted {
            return nobody(self.table.flow(idx).key().protocol);
        }
        let state = self.table.state(idx);
        let facts = MonitorFlowFacts {
            flow: self.table.flow(idx),
            // Packet and flow tuples do not depend on where a parser joined the connection.
            joined_midway: false,
            rate: state.rate(self.asks.rate),
            rare: state.rare.as_deref(),
            taps: None,
        };
        facts.context()
    }
}

/// Lazy access to the fields of a flow: computed only for columns that are written.
pub(super) struct MonitorFlowFacts<'a> {
    pub flow: Flow<'a>,
    pub joined_midway: bool,
    pub rate: f64,
    pub rare: Option<&'a RareFlowState>,
    pub taps: Option<&'a TapFilter>,
}

impl MonitorFlowFacts<'_> {
    #[inline]
    pub fn is_midstream(&self) -> bool {
        self.joined_midway || self.flow.is_midstream()
    }
}

impl FlowFacts for MonitorFlowFacts<'_> {
    fn context(&self) -> FlowContext {
        let flow = &self.flow;
        let key = flow.key();
        let (client, client_guessed) = flow.client();
        let (tunnel, vlan) = self.rare.map(|rare| rare.path).unwrap_or_default();
        let proxied = self.rare.and_then(|rare| rare.proxied);
        let decrypted = self.rare.and_then(|rare| rare.decrypted.clone());
        FlowContext {
            id: flow.id(),
            client: key.end(client),
            server: key.end(client.other()),
            protocol: key.protocol,
            client_guessed,
            midstream: self.is_midstream(),
            sample_rate: self.rate,
            tunnel,
            vlan,
            proxied,
            decrypted,
        }
    }

    fn tap_end(&self) -> Option<TapEnd> {
        let key = self.flow.key();
        let client = self.flow.client().0;
        self.taps?.end(key.end(client), key.end(client.other()))
    }
}

/// Counts of a flow, the client first.
fn counts(flow: &Flow<'_>) -> flow_record::FlowCounts {
    let client = flow.client().0;
    let sides = [client, client.other()];
    let sum =
        |of: fn(&SideCounters) -> u64| sides.iter().map(|side| of(&flow.counters(*side))).sum();
    flow_record::FlowCounts {
        packets: sides.map(|side| flow.packets(side)),
        bytes: sides.map(|side| flow.bytes(side)),
        payload_bytes: sides.map(|side| flow.payload_bytes(side)),
        retransmissions: sum(SideCounters::resent),
        syn_retransmissions: sum(|c| u64::from(c.syn_retransmissions)),
        out_of_order: sum(|c| u64::from(c.out_of_order)),
        gaps: sum(|c| u64::from(c.gaps)),
        gap_bytes: sum(|c| c.gap_bytes),
        acked_unseen_bytes: sum(|c| c.acked_unseen_bytes),
        duplicates: sum(|c| u64::from(c.duplicates)),
    }
}

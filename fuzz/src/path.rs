//! The path of packets in the monitor (`pipeline/{slow_path,events,parse}.rs`): flow table, recognition, parser. Compares
//! the delivered bytes with the sent ones.

use flow::{
    CloseReason, FastPathSegment as Fast, FlowBudget, FlowEvent, FlowEvents, FlowIdx, FlowTable,
    FlowTableConfig, IndexedFlowEvent, StreamPlace,
};
use parsers::probing::{ProbeFlow, ProtocolCandidates, RoleDoubt, direction};
use parsers::{
    Direction, FlowProtocol, ParserOutput, ProbeBuffer, ProtocolDefinition, StreamEnd, StreamGap,
    StreamParser, StreamSegment,
};
use tuple::Schema;
use wire::{FiveTuple, FlowSide, IpProtocol, Packet, TcpSeq, Timestamp};

use crate::script::{Ends, Script};
use crate::{Heard, Tuples, context, endpoints};

#[derive(Default)]
struct State {
    stream: FlowProtocol,
    joined_midway: bool,
    /// Number of bytes delivered per side.
    delivered: [Option<TcpSeq>; 2],
    /// Whether each side has sent bytes: a side without captured bytes delays nothing.
    spoke: [bool; 2],
}

/// Bytes sent by both ends.
pub struct Truth {
    pub ends: Ends,
    pub said: [Vec<u8>; 2],
}

/// The flow table and the parsers of its flows.
pub struct Path {
    script: Script,
    protocol: &'static ProtocolDefinition,
    table: FlowTable<State>,
    held_max: usize,
    now: Timestamp,
    tuples: Tuples,
    bytes: u64,
}

impl Path {
    pub fn new(protocol: &'static ProtocolDefinition, schema: Schema, script: Script) -> Path {
        let (held_max, wait) = if script.tight {
            (1 << 12, 1_000_000)
        } else {
            (1 << 16, 20_000_000)
        };
        let config = FlowTableConfig {
            room: FlowBudget::of_flows(4),
            held_bytes_max: held_max,
            held_bytes_max_per_direction: held_max,
            reorder_wait_ns: wait,
            ..FlowTableConfig::default()
        };
        let table = FlowTable::new(config);
        let tuples = Tuples::new(schema);
        Path {
            script,
            protocol,
            table,
            held_max,
            now: Timestamp::MIN,
            tuples,
            bytes: 0,
        }
    }

    pub fn take(&mut self, packet: &Packet<'_>, truth: &Truth, events: &mut FlowEvents) {
        self.now = self.now.max(packet.ts);
        let mut at = self.table.hash(packet);
        self.table.prefetch_flow(&mut at, |_| {});
        let fast = Fast::of(packet);
        if let Some(taken) = self.table.process_fast(&at, &fast) {
            if let Some(place) = taken.bytes {
                let segment = StreamSegment {
                    bytes: &packet.payload[..fast.payload_len()],
                    ts: packet.ts,
                    place,
                };
                self.compare(taken.flow, at.side, segment, truth);
                self.on_bytes(taken.flow, at.side, segment);
            }
        } else {
            self.table.process_hashed(packet, &at, events);
            self.on_events(events, packet.payload, truth);
        }
        assert!(self.table.held_bytes() <= self.held_max);
    }

    pub fn expire(&mut self, now: i64, truth: &Truth, events: &mut FlowEvents) {
        self.now = self.now.max(Timestamp(now));
        loop {
            let more = self.table.expire(self.now, events);
            self.on_events(events, &[], truth);
            if !more {
                return;
            }
        }
    }

    pub fn finish(mut self, truth: &Truth, events: &mut FlowEvents) -> Heard {
        loop {
            let more = self.table.close_all(self.now, events);
            self.on_events(events, &[], truth);
            if !more {
                break;
            }
        }
        assert_eq!(
            self.table.held_bytes(),
            0,
            "something is held behind the end"
        );
        self.tuples.count(true);
        Heard {
            bytes: self.bytes,
            tuples: self.tuples.written,
        }
    }

    fn on_events(&mut self, events: &FlowEvents, payload: &[u8], truth: &Truth) {
        for &IndexedFlowEvent { flow, what } in events.list() {
            match what {
                FlowEvent::Opened | FlowEvent::Resumed { .. } | FlowEvent::ActiveTimeout => {}
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
                    self.compare(flow, side, segment, truth);
                    self.on_bytes(flow, side, segment);
                }
                FlowEvent::Datagram {
                    side,
                    chunk,
                    cut,
                    ts,
                } => {
                    let bytes = events.bytes(chunk, payload);
                    self.bytes += bytes.len() as u64;
                    if self.is_recognized(
                        flow,
                        side,
                        StreamSegment {
                            bytes,
                            ts,
                            place: StreamPlace::default(),
                        },
                    ) {
                        self.parse(flow, |parser, asker, out| {
                            parser.on_datagram(direction(side, asker), bytes, cut, ts, out);
                        });
                    }
                }
                FlowEvent::Gap { side, seq, len, ts } => {
                    self.advance(flow, side, seq, len);
                    self.on_gap(flow, side, StreamGap { seq, len, ts });
                }
                FlowEvent::End { side, .. } => self.on_end(flow, side, StreamEnd::Fin),
                FlowEvent::Terminated { reason, .. } => {
                    if reason == CloseReason::Rst {
                        self.on_end(flow, FlowSide::A, StreamEnd::Reset);
                        self.on_end(flow, FlowSide::B, StreamEnd::Reset);
                    }
                    self.close_stream(flow);
                }
                FlowEvent::Closed { .. } => self.close_stream(flow),
            }
        }
    }

    /// Checks that the next bytes of `side` equal the sent ones, and that all bytes acknowledged by their sender were
    /// delivered.
    fn compare(
        &mut self,
        flow: FlowIdx,
        side: FlowSide,
        segment: StreamSegment<'_>,
        truth: &Truth,
    ) {
        let StreamSegment { bytes, place, .. } = segment;
        let by = if side == self.client() {
            Direction::ClientToServer
        } else {
            Direction::ServerToClient
        };
        let begin = place.seq.distance(truth.ends.start(by)) as usize;
        assert_eq!(
            truth.said[by as usize].get(begin..begin + bytes.len()),
            Some(bytes),
            "sent by {by:?} at {begin}"
        );
        let state = self.table.state_mut(flow);
        state.spoke[side.index()] = true;
        let other = side.other().index();
        if let (Some(ack), Some(delivered), true) =
            (place.ack, state.delivered[other], state.spoke[other])
        {
            // A FIN is acknowledged as well.
            assert!(
                ack.distance(delivered) <= 1,
                "{ack:?} was heard, {delivered:?} delivered"
            );
        }
        self.advance(flow, side, place.seq, bytes.len() as u64);
        self.bytes += bytes.len() as u64;
    }

    fn advance(&mut self, flow: FlowIdx, side: FlowSide, seq: TcpSeq, len: u64) {
        let delivered = &mut self.table.state_mut(flow).delivered[side.index()];
        assert!(
            delivered.is_none_or(|before| before == seq),
            "{delivered:?}, then {seq:?}"
        );
        *delivered = Some(seq.plus(len as u32));
    }

    fn client(&self) -> FlowSide {
        five_tuple(self.script, Direction::ClientToServer)
            .flow_key()
            .1
    }

    fn on_bytes(&mut self, flow: FlowIdx, side: FlowSide, segment: StreamSegment<'_>) {
        if self.is_recognized(flow, side, segment) {
            self.parse(flow, |parser, asker, out| {
                parser.on_bytes(direction(side, asker), segment, out)
            });
        }
    }

    fn on_gap(&mut self, flow: FlowIdx, side: FlowSide, gap: StreamGap) {
        match &mut self.table.state_mut(flow).stream {
            stream @ FlowProtocol::New => {
                let mut probing = Box::<ProbeBuffer>::default();
                probing.on_gap(side, gap);
                *stream = FlowProtocol::Probing(probing);
            }
            FlowProtocol::Probing(probing) => probing.on_gap(side, gap),
            _ => self.parse(flow, |parser, asker, out| {
                parser.on_gap(direction(side, asker), gap, out)
            }),
        }
    }

    fn on_end(&mut self, flow: FlowIdx, side: FlowSide, end: StreamEnd) {
        self.parse(flow, |parser, asker, out| {
            parser.on_end(direction(side, asker), end, out)
        });
    }

    /// Whether the flow has a parser, which was given the earlier bytes.
    fn is_recognized(&mut self, idx: FlowIdx, side: FlowSide, segment: StreamSegment<'_>) -> bool {
        if !matches!(
            self.table.state(idx).stream,
            FlowProtocol::New | FlowProtocol::Probing(_)
        ) {
            return true;
        }
        let known = !self.script.probed;
        let protocol = self.protocol;
        let client = self.client();
        let about = ProbeFlow::from(&self.table.flow(idx));
        let state = self.table.state_mut(idx);
        let mut probing = match std::mem::take(&mut state.stream) {
            FlowProtocol::Probing(probing) => probing,
            _ => Box::default(),
        };
        let candidates = ProtocolCandidates {
            read: &[protocol],
            named: &[],
            room: 1 << 20,
        };
        let found = if known {
            Ok(Some(client))
        } else {
            probing
                .on_bytes(side, segment, about, candidates)
                .map(|found| found.map(|found| found.asker))
        };
        let asker = match found {
            Ok(Some(asker)) => asker,
            Ok(None) => {
                state.stream = FlowProtocol::Probing(probing);
                return false;
            }
            Err(()) => {
                state.stream = FlowProtocol::Ignored;
                self.table.ignore_payload(idx);
                return false;
            }
        };
        state.joined_midway = probing.joined_midway();
        state.stream = FlowProtocol::Parsing {
            parser: (protocol.start)(),
            protocol: 0,
            asker,
            doubt: RoleDoubt::default(),
        };
        if about.client.is_none() || about.transport != IpProtocol::TCP {
            self.table.set_client(idx, asker);
        }
        self.parse(idx, |parser, asker, out| probing.replay(asker, parser, out));
        true
    }

    fn parse(
        &mut self,
        idx: FlowIdx,
        act: impl FnOnce(&mut dyn StreamParser, FlowSide, &mut ParserOutput<'_>),
    ) {
        let (flow, state) = self.table.flow_and_state(idx);
        let flow = context(self.script, state.joined_midway || flow.is_midstream());
        let FlowProtocol::Parsing { parser, asker, .. } = &mut state.stream else {
            return;
        };
        let mut out = ParserOutput::new(
            &flow,
            self.now,
            &mut self.tuples.counters,
            &mut self.tuples.taps,
        );
        act(parser.as_mut(), *asker, &mut out);
        if parser.is_done() {
            parser.on_close(&mut out);
            state.stream = FlowProtocol::Ignored;
            self.table.ignore_payload(idx);
        }
        self.tuples.count(false);
    }

    fn close_stream(&mut self, flow: FlowIdx) {
        self.parse(flow, |parser, _, out| parser.on_close(out));
        self.table.state_mut(flow).stream = FlowProtocol::Ignored;
    }
}

/// The five-tuple of packets sent by `by`.
pub fn five_tuple(script: Script, by: Direction) -> FiveTuple {
    let ends = endpoints(script);
    let protocol = if script.udp {
        IpProtocol::UDP
    } else {
        IpProtocol::TCP
    };
    FiveTuple {
        src: ends[by as usize],
        dst: ends[1 - by as usize],
        protocol,
    }
}

//! What a flow's bytes say: asks the protocols whose they are, and lets the parser of the one found act.

use flow::{FlowIdx, Place};
use parsers::probing::{ProbeFlow, direction};
use parsers::{FlowRef, Gap, Output, Probing, Segment, Stream};
use wire::{IpProtocol, Side, Timestamp};

use super::Monitor;
use super::events::Facts;

impl Monitor {
    pub(super) fn on_bytes(&mut self, idx: FlowIdx, side: Side, segment: Segment<'_>) {
        if matches!(self.table.state(idx).stream, Stream::New | Stream::Probing(_))
            && !self.recognise(idx, side, segment)
        {
            return;
        }
        self.parse(idx, |parser, asker, out| parser.on_bytes(direction(side, asker), segment, out));
    }

    pub(super) fn on_datagram(
        &mut self,
        idx: FlowIdx,
        side: Side,
        bytes: &[u8],
        (cut, ts): (u32, Timestamp),
    ) {
        if matches!(self.table.state(idx).stream, Stream::New | Stream::Probing(_))
            && !self.recognise(idx, side, Segment { bytes, ts, place: Place::default() })
        {
            return;
        }
        self.parse(idx, |parser, asker, out| parser.on_datagram(direction(side, asker), bytes, cut, ts, out));
    }

    pub(super) fn on_gap(&mut self, idx: FlowIdx, side: Side, gap: Gap) {
        match &mut self.table.state_mut(idx).stream {
            stream @ Stream::New => {
                let mut probing = Box::<Probing>::default();
                probing.on_gap(side, gap);
                *stream = Stream::Probing(probing);
            }
            Stream::Probing(probing) => probing.on_gap(side, gap),
            _ => self.parse(idx, |parser, asker, out| parser.on_gap(direction(side, asker), gap, out)),
        }
    }

    pub(super) fn on_end(&mut self, idx: FlowIdx, side: Side, ts: Timestamp) {
        self.parse(idx, |parser, asker, out| parser.on_end(direction(side, asker), ts, out));
    }

    /// Asks the protocols whether these bytes are theirs. True when one has been found; the bytes before these have
    /// been fed to its parser then.
    fn recognise(&mut self, idx: FlowIdx, side: Side, segment: Segment<'_>) -> bool {
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
        match probing.on_bytes(side, segment, about, self.outputs.protocols()) {
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
    pub(super) fn parse(
        &mut self,
        idx: FlowIdx,
        act: impl FnOnce(&mut dyn parsers::StreamParser, Side, &mut Output<'_>),
    ) {
        if !self.asks.payload {
            return;
        }
        let (flow, state) = self.table.flow_and_state(idx);
        // Packets may come in another order than their times: what is complete now is not so before its last one.
        let now = self.now.max(flow.last_ts());
        let known = (state.joined_midway, state.rate, state.rare.as_deref());
        let facts = Facts::of(flow, known, self.asks.rate);
        let Stream::Parsing { parser, protocol, asker } = &mut state.stream else { return };
        let flow = FlowRef::new(facts.is_midstream(), &facts);
        let taps = self.outputs.taps(*protocol);
        let out = Output::new(flow, now, &mut self.accounting.parsers, taps);
        let mut out = out.with_limits(self.limits);
        act(parser.as_mut(), *asker, &mut out);
        if parser.is_done() {
            parser.on_close(&mut out);
            state.stream = Stream::Ignored;
            self.table.ignore_payload(idx);
        }
    }

    pub(super) fn close_stream(&mut self, idx: FlowIdx) {
        self.parse(idx, |parser, _, out| parser.on_close(out));
        if self.asks.payload {
            self.table.state_mut(idx).stream = Stream::Ignored;
        }
    }
}

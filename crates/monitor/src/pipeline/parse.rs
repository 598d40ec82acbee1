//! What the sides of a flow say goes to its parser, which writes tuples; as long as the flow has none, to the protocols, which are asked whose
//! it is.

use flow::FlowIdx;
use parsers::probing::{ProbeFlow, direction};
use parsers::{End, FlowRef, Gap, Output, Probing, Segment, Stream};
use wire::{IpProtocol, Side};

use super::Monitor;
use super::events::Facts;
use crate::outputs::Application;

/// What a parser is given.
pub(super) enum Input<'a> {
    Bytes(Segment<'a>),
    /// A datagram, so many bytes of which were cut off.
    Datagram(Segment<'a>, u32),
    Gap(Gap),
    /// The side says no more.
    End(End),
    /// The flow is over.
    Close,
    /// What was said before it was known whose it is.
    Earlier(Box<Probing>),
}

impl Monitor {
    /// Gives the flow's parser what `side` said; forgets the parser when it has no more to say. A flow that has none yet gets
    /// one if these bytes tell whose it is.
    #[inline(always)]
    pub(super) fn parse(&mut self, idx: FlowIdx, side: Side, input: Input<'_>) {
        if !self.asks.payload {
            return;
        }
        if matches!(self.table.state(idx).stream, Stream::New | Stream::Probing(_))
            && !self.probe(idx, side, &input)
        {
            return;
        }
        let (flow, state) = self.table.flow_and_state(idx);
        // Packets may come in another order than their times: what is complete now is not so before its last one.
        let now = self.now.max(flow.last_ts());
        let known = (state.joined_midway, state.rate(self.asks.rate), state.rare.as_deref());
        let facts = Facts::of(flow, known, self.taps.as_ref());
        let Stream::Parsing { parser, protocol, asker } = &mut state.stream else { return };
        let flow = FlowRef::new(facts.is_midstream(), &facts);
        let out = Output::new(flow, now, &mut self.accounting.parsers, self.outputs.taps(*protocol));
        let mut out = out.with_limits(self.limits);
        let direction = direction(side, *asker);
        match input {
            Input::Bytes(segment) => parser.on_bytes(direction, segment, &mut out),
            Input::Datagram(Segment { bytes, ts, .. }, cut) => {
                parser.on_datagram(direction, bytes, cut, ts, &mut out);
            }
            Input::Gap(gap) => parser.on_gap(direction, gap, &mut out),
            Input::End(end) => parser.on_end(direction, end, &mut out),
            Input::Close => parser.on_close(&mut out),
            Input::Earlier(probing) => probing.replay(*asker, parser.as_mut(), &mut out),
        }
        if parser.is_done() {
            parser.on_close(&mut out);
            if parser.hands_over() {
                // Whose the next bytes are, they tell.
                state.stream = Stream::New;
                return;
            }
            state.stream = Stream::Ignored;
            self.table.ignore_payload(idx);
        }
    }

    /// What a flow without a parser says. Whether it has one now.
    #[inline(never)]
    fn probe(&mut self, idx: FlowIdx, side: Side, input: &Input<'_>) -> bool {
        match (&mut self.table.state_mut(idx).stream, input) {
            (_, Input::Bytes(segment) | Input::Datagram(segment, _)) => {
                return self.recognise(idx, side, *segment);
            }
            (Stream::Probing(probing), Input::Gap(gap)) => probing.on_gap(side, *gap),
            (stream, Input::Gap(gap)) => {
                let mut probing = Box::<Probing>::default();
                probing.on_gap(side, *gap);
                *stream = Stream::Probing(probing);
            }
            (_, Input::End(_) | Input::Close | Input::Earlier(_)) => {}
        }
        false
    }

    /// Asks the protocols whether these bytes are theirs. True when one has been found; the bytes before these have
    /// been fed to its parser then.
    fn recognise(&mut self, idx: FlowIdx, side: Side, segment: Segment<'_>) -> bool {
        let about = ProbeFlow::from(&self.table.flow(idx));
        let state = self.table.state_mut(idx);
        let mut probing = match std::mem::take(&mut state.stream) {
            Stream::Probing(probing) => probing,
            _ => Box::default(),
        };
        match probing.on_bytes(side, segment, about, self.outputs.candidates()) {
            Ok(None) => state.stream = Stream::Probing(probing),
            Err(()) => {
                state.application = name(&probing);
                state.stream = Stream::Ignored;
                if let Some(asker) = probing.asker() {
                    self.heed_asker(idx, asker, about);
                }
                self.table.ignore_payload(idx);
            }
            Ok(Some(found)) => {
                let protocol = self.outputs.protocols()[usize::from(found.protocol)];
                let (parser, asker) = ((protocol.start)(), found.asker);
                state.joined_midway = probing.joined_midway();
                // Who began first gives the name, whichever of the two is read.
                state.application =
                    probing.named().map_or(Application::Read(found.protocol), Application::ReadInside);
                state.stream = Stream::Parsing { parser, protocol: found.protocol, asker };
                self.heed_asker(idx, asker, about);
                self.parse(idx, side, Input::Earlier(probing));
                return true;
            }
        }
        false
    }

    /// It is known who asks. A SYN knew before.
    fn heed_asker(&mut self, idx: FlowIdx, asker: Side, about: ProbeFlow) {
        if about.client.is_none() || about.transport != IpProtocol::TCP {
            self.table.set_client(idx, asker);
        }
        self.decide(idx);
    }

    pub(super) fn close_stream(&mut self, idx: FlowIdx) {
        self.parse(idx, Side::A, Input::Close);
        if self.asks.payload {
            let state = self.table.state_mut(idx);
            if let Stream::Probing(probing) = std::mem::replace(&mut state.stream, Stream::Ignored) {
                state.application = name(&probing);
            }
        }
    }

    /// A flow leaves: if nobody has read it, it counts among those, under its name.
    pub(super) fn count_unread(&mut self, idx: FlowIdx) {
        let application = self.table.state(idx).application;
        if matches!(application, Application::Read(_) | Application::ReadInside(_)) || !self.asked_for(idx) {
            return;
        }
        let flow = self.table.flow(idx);
        let is_silent = flow.unique_bytes(Side::A) + flow.unique_bytes(Side::B) == 0;
        let unread = &mut self.accounting.unread;
        match self.outputs.name_of(application) {
            _ if is_silent => unread.silent += 1,
            None => unread.unknown += 1,
            Some(name) => *unread.named.entry(name).or_default() += 1,
        }
    }
}

/// What is known of a flow that no parser reads.
fn name(probing: &Probing) -> Application {
    probing.named().map_or(Application::Unknown, Application::Named)
}

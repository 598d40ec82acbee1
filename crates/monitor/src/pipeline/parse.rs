//! Passes each direction's bytes to the flow's parser, which writes tuples. Until a parser is assigned, the
//! bytes go to protocol recognition.

use flow::FlowIdx;
use parsers::probing::{ProbeFlow, RecognizedProtocol, RoleDoubt, RoleReview, direction};
use parsers::{FlowProtocol, FlowRef, ParserOutput, ProbeBuffer, StreamSegment};
use wire::{FlowSide, IpProtocol, Timestamp};

use super::events::MonitorFlowFacts;
use super::{Monitor, ParserEvent};
use crate::tuple_outputs::FlowApplication;

/// Maximum bytes held by all flows while recognition waits for a response, beyond the small limit of each
/// flow.
const AWAITED_BYTES_MAX: usize = 16 << 20;
/// Estimated memory of a parser in bytes: its state and pending requests.
const PARSER_BYTES: u32 = 768;

impl Monitor {
    /// Passes the next bytes of `side` to the flow's parser. Same as [`Monitor::parse`], compiled for the common case.
    #[inline(always)]
    pub(super) fn parse_bytes(&mut self, idx: FlowIdx, side: FlowSide, segment: StreamSegment<'_>) {
        let input = ParserEvent::Bytes(segment);
        match &self.table.state(idx).stream {
            FlowProtocol::Parsing { doubt, .. } if !doubt.is_open() => {
                self.deliver(idx, side, input)
            }
            _ => self.parse(idx, side, input),
        }
    }

    /// Passes input from `side` to the flow's parser and removes the parser when it has finished. Without a
    /// parser, runs protocol recognition, which may assign one.
    #[inline(never)]
    pub(super) fn parse(&mut self, idx: FlowIdx, side: FlowSide, mut input: ParserEvent<'_>) {
        if !self.asks.payload {
            return;
        }
        match &self.table.state(idx).stream {
            FlowProtocol::New | FlowProtocol::Probing(_) => {
                let Some(rest) = self.probe(idx, side, input) else {
                    return;
                };
                input = rest;
            }
            FlowProtocol::Parsing { doubt, .. } if doubt.is_open() => {
                self.review(idx, side, &input)
            }
            FlowProtocol::Decrypting(_) => return self.parse_tls(idx, side, input),
            _ => {}
        }
        self.deliver(idx, side, input);
    }

    /// Passes input to the flow's parser, if it has one.
    #[inline(always)]
    fn deliver(&mut self, idx: FlowIdx, side: FlowSide, mut input: ParserEvent<'_>) {
        let (flow, state) = self.table.flow_and_state(idx);
        // `ts_end` of transactions that this input abandons: the same whether the next packet or the clock reveals a loss, but not in a
        // window that has been emitted.
        let before = self.last_packet_before.filter(|(of, _)| *of == idx);
        let last_packet = before.map_or(flow.last_ts(), |(_, ts)| ts);
        let ended = match input {
            ParserEvent::Bytes(segment) | ParserEvent::Datagram(segment, _) => {
                segment.ts.max(last_packet)
            }
            // Bytes that the snaplen cut off belong to this packet.
            ParserEvent::Gap(gap) => gap.ts.max(last_packet),
            ParserEvent::End(_) | ParserEvent::Earlier(_) | ParserEvent::Silence(_) => last_packet,
            ParserEvent::Close(ts) | ParserEvent::Rest(ts) => ts,
        };
        let now = ended.max(self.open_from);
        let facts = MonitorFlowFacts {
            flow,
            joined_midway: state.joined_midway,
            rate: state.rate(self.asks.rate),
            rare: state.rare.as_deref(),
            taps: self.taps.as_ref(),
        };
        let FlowProtocol::Parsing {
            parser,
            protocol,
            asker,
            ..
        } = &mut state.stream
        else {
            return;
        };
        let flow = FlowRef::new(facts.is_midstream(), &facts);
        let out = ParserOutput::new(
            flow,
            now,
            &mut self.accounting.parsers,
            self.outputs.taps(*protocol),
        );
        let mut out = out
            .with_limits(self.limits)
            .with_room(&self.outstanding)
            .with_names(&self.names);
        let direction = direction(side, *asker);
        match &mut input {
            ParserEvent::Bytes(segment) => parser.on_bytes(direction, *segment, &mut out),
            ParserEvent::Datagram(StreamSegment { bytes, ts, .. }, cut) => {
                parser.on_datagram(direction, bytes, *cut, *ts, &mut out);
            }
            ParserEvent::Gap(gap) => parser.on_gap(direction, *gap, &mut out),
            ParserEvent::End(end) => parser.on_end(direction, *end, &mut out),
            ParserEvent::Close(_) => parser.on_close(&mut out),
            ParserEvent::Silence(now) => parser.on_silence(*now, &mut out),
            ParserEvent::Rest(_) if parser.on_idle(&mut out) => {}
            ParserEvent::Rest(_) => {
                state.stream = FlowProtocol::Probing(Box::new(ProbeBuffer::midway()));
                return;
            }
            ParserEvent::Earlier(probing) => {
                std::mem::take(probing).replay(*asker, parser.as_mut(), &mut out);
            }
        }
        if let Some(last) = out.wake {
            self.silences.push(last, idx, facts.flow.id());
        }
        if parser.is_done() {
            parser.on_close(&mut out);
            if let Some(unread) = parser.hands_over() {
                // The next bytes determine the protocol.
                state.stream = FlowProtocol::New;
                if let (ParserEvent::Bytes(segment), 1..) = (input, unread) {
                    let rest = segment.behind(segment.bytes.len() - unread);
                    self.parse(idx, side, ParserEvent::Bytes(rest));
                }
                return;
            }
            state.stream = FlowProtocol::Ignored;
            self.stop_reading(idx);
        }
    }

    /// Ends the delivery of a flow's bytes, unless they are those of a decrypted connection.
    pub(super) fn stop_reading(&mut self, idx: FlowIdx) {
        if !self.is_inside_tls {
            self.table.ignore_payload(idx);
            self.table.set_state_bytes(idx, 0);
        }
    }

    /// Handles input of a flow without a parser. Returns the rest of the input once a parser is assigned.
    #[inline(never)]
    fn probe<'a>(
        &mut self,
        idx: FlowIdx,
        side: FlowSide,
        input: ParserEvent<'a>,
    ) -> Option<ParserEvent<'a>> {
        match (&mut self.table.state_mut(idx).stream, input) {
            (_, ParserEvent::Bytes(segment)) => {
                return self.recognize(idx, side, segment).map(ParserEvent::Bytes);
            }
            (_, ParserEvent::Datagram(segment, cut)) => {
                return self
                    .recognize(idx, side, segment)
                    .map(|rest| ParserEvent::Datagram(rest, cut));
            }
            (FlowProtocol::Probing(probing), ParserEvent::Gap(gap)) => {
                self.awaited_bytes -= probing.excess();
                probing.on_gap(side, gap);
                self.awaited_bytes += probing.excess();
            }
            (stream, ParserEvent::Gap(gap)) => {
                let mut probing = Box::<ProbeBuffer>::default();
                probing.on_gap(side, gap);
                *stream = FlowProtocol::Probing(probing);
            }
            (
                _,
                ParserEvent::End(_)
                | ParserEvent::Close(_)
                | ParserEvent::Rest(_)
                | ParserEvent::Silence(_)
                | ParserEvent::Earlier(_),
            ) => {}
        }
        None
    }

    /// Runs protocol recognition on these bytes. After a match, passes the held bytes to the parser and
    /// returns the remaining ones. A PROXY protocol header is removed first.
    fn recognize<'a>(
        &mut self,
        idx: FlowIdx,
        side: FlowSide,
        segment: StreamSegment<'a>,
    ) -> Option<StreamSegment<'a>> {
        let about = ProbeFlow::from(&self.table.flow(idx));
        let state = self.table.state_mut(idx);
        let mut probing = match std::mem::take(&mut state.stream) {
            FlowProtocol::Probing(probing) => probing,
            _ => Box::default(),
        };
        self.awaited_bytes -= probing.excess();
        let Some(segment) = probing.behind_header(side, segment, about) else {
            self.awaited_bytes += probing.excess();
            self.go_on_probing(idx, probing);
            return None;
        };
        if self.keys.is_some() && self.begins_tls(idx, side, segment, &probing) {
            return None;
        }
        let room = AWAITED_BYTES_MAX.saturating_sub(self.awaited_bytes);
        match probing.on_bytes(side, segment, about, self.outputs.candidates(room)) {
            Ok(None) => {
                self.awaited_bytes += probing.excess();
                self.go_on_probing(idx, probing);
                None
            }
            Err(()) => {
                self.leave_unread(idx, &probing);
                if let Some(asker) = probing.asker() {
                    self.heed_asker(idx, asker, about);
                }
                self.stop_reading(idx);
                None
            }
            Ok(Some(found)) => {
                self.start(idx, side, probing, found);
                Some(segment)
            }
        }
    }

    /// Starts the parser of the recognized protocol and passes it the held bytes.
    fn start(
        &mut self,
        idx: FlowIdx,
        side: FlowSide,
        probing: Box<ProbeBuffer>,
        found: RecognizedProtocol,
    ) {
        let about = ProbeFlow::from(&self.table.flow(idx));
        self.heed_header(idx, &probing);
        let state = self.table.state_mut(idx);
        let RecognizedProtocol { protocol, asker } = found;
        let parser = (self.outputs.protocols()[usize::from(protocol)].start)();
        state.joined_midway = probing.joined_midway();
        // The outer protocol names the flow, whichever of the two is parsed.
        state.application = probing
            .named()
            .map_or(FlowApplication::Read(protocol), FlowApplication::ReadInside);
        let is_certain =
            about.client.is_some() || about.transport != IpProtocol::TCP || probing.is_proxied();
        let doubt = if is_certain {
            RoleDoubt::default()
        } else {
            RoleDoubt::open()
        };
        state.stream = FlowProtocol::Parsing {
            parser,
            protocol,
            asker,
            doubt,
        };
        self.table.set_state_bytes(idx, PARSER_BYTES);
        self.heed_asker(idx, asker, about);
        self.parse(idx, side, ParserEvent::Earlier(probing));
    }

    /// Holds the bytes of a flow until its protocol is recognized.
    fn go_on_probing(&mut self, idx: FlowIdx, probing: Box<ProbeBuffer>) {
        self.table.set_state_bytes(idx, probing.bytes() as u32);
        self.table.state_mut(idx).stream = FlowProtocol::Probing(probing);
    }

    /// Checks whether a segment contradicts the assumed client and server. With enough evidence the sides are
    /// swapped, and the connection is read from here on as one joined midway.
    #[cold]
    fn review(&mut self, idx: FlowIdx, side: FlowSide, input: &ParserEvent<'_>) {
        let ParserEvent::Bytes(segment) = input else {
            return;
        };
        let about = ProbeFlow::from(&self.table.flow(idx));
        let state = self.table.state_mut(idx);
        let FlowProtocol::Parsing {
            protocol,
            asker,
            doubt,
            ..
        } = &mut state.stream
        else {
            return;
        };
        let place = *protocol;
        let client = asker.other();
        let protocol = self.outputs.protocols()[usize::from(place)];
        if doubt.review(protocol, *asker, (side, segment.bytes), about) == RoleReview::Same {
            return;
        }
        let last_packet = self.table.flow(idx).last_ts();
        self.parse(idx, side, ParserEvent::Close(last_packet));
        let state = self.table.state_mut(idx);
        state.joined_midway = true;
        let parser = (protocol.start)();
        let doubt = RoleDoubt::default();
        state.stream = FlowProtocol::Parsing {
            parser,
            protocol: place,
            asker: client,
            doubt,
        };
        self.table.set_client(idx, client);
        self.decide(idx);
    }

    /// Stores the contents of a PROXY protocol header if a column needs them.
    pub(super) fn heed_header(&mut self, idx: FlowIdx, probing: &ProbeBuffer) {
        self.accounting.parsers.unrecognized_bytes += probing.passed_over();
        if let Some(proxied) = probing.proxied().filter(|_| self.asks.proxied) {
            self.table
                .state_mut(idx)
                .rare
                .get_or_insert_default()
                .proxied = Some(proxied);
        }
    }

    /// Ends recognition of a flow that no parser reads, and keeps its name.
    fn leave_unread(&mut self, idx: FlowIdx, probing: &ProbeBuffer) {
        self.heed_header(idx, probing);
        let state = self.table.state_mut(idx);
        state.application = probing
            .named()
            .map_or(FlowApplication::Unknown, FlowApplication::Named);
        state.stream = FlowProtocol::Ignored;
    }

    /// Sets the client found by recognition, unless a SYN determined it.
    pub(super) fn heed_asker(&mut self, idx: FlowIdx, asker: FlowSide, about: ProbeFlow) {
        if about.client.is_none() || about.transport != IpProtocol::TCP {
            self.table.set_client(idx, asker);
        }
        self.decide(idx);
    }

    /// Calls the parsers that have waited for silence long enough.
    pub(super) fn call_silent(&mut self) {
        while let Some((idx, id)) = self.silences.pop(self.clock) {
            if self.table.flow(idx).id() == id {
                self.parse(idx, FlowSide::A, ParserEvent::Silence(self.clock));
            }
        }
    }

    /// Ends the parser of a flow that has ended at `ts`.
    pub(super) fn close_stream(&mut self, idx: FlowIdx, ts: Timestamp) {
        if !self.asks.payload {
            return;
        }
        self.end_probing(idx);
        self.parse(idx, FlowSide::A, ParserEvent::Close(ts));
        self.table.state_mut(idx).stream = FlowProtocol::Ignored;
    }

    /// Writes the pending transactions of a flow whose idle timeout ended at `ts`. The parser of a TCP connection between two
    /// transactions is kept.
    pub(super) fn rest_stream(&mut self, idx: FlowIdx, ts: Timestamp) {
        if !self.table.flow(idx).is_tcp() || !self.asks.payload {
            return self.close_stream(idx, ts);
        }
        if self.end_probing(idx) {
            self.table.state_mut(idx).stream =
                FlowProtocol::Probing(Box::new(ProbeBuffer::midway()));
        } else {
            self.parse(idx, FlowSide::A, ParserEvent::Rest(ts));
        }
    }

    /// Ends the recognition of an idle or closed flow. Returns true if its protocol stays unknown and the
    /// flow is unread.
    pub(super) fn end_probing(&mut self, idx: FlowIdx) -> bool {
        let stream = &mut self.table.state_mut(idx).stream;
        if !matches!(stream, FlowProtocol::Probing(_)) {
            return false;
        }
        let FlowProtocol::Probing(probing) = std::mem::take(stream) else {
            return false;
        };
        self.awaited_bytes -= probing.excess();
        if let Some(found) = probing.claimed() {
            self.start(idx, found.asker, probing, found);
            return false;
        }
        self.leave_unread(idx, &probing);
        true
    }

    /// Counts a closed flow that was not parsed, by protocol name.
    pub(super) fn count_unread(&mut self, idx: FlowIdx) {
        let application = self.table.state(idx).application;
        if matches!(
            application,
            FlowApplication::Read(_) | FlowApplication::ReadInside(_)
        ) || !self.asked_for(idx)
        {
            return;
        }
        let flow = self.table.flow(idx);
        let is_silent = flow.unique_bytes(FlowSide::A) + flow.unique_bytes(FlowSide::B) == 0;
        let unread = &mut self.accounting.unread;
        match self.outputs.name_of(application) {
            _ if is_silent => unread.silent += 1,
            None => unread.unknown += 1,
            Some(name) => *unread.named.entry(name).or_default() += 1,
        }
    }
}

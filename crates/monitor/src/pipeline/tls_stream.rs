//! TLS connections to decrypt: the encrypted stream goes to the parser of handshakes, the plaintext through protocol
//! recognition to the parser of its protocol.

use std::sync::Arc;

use flow::FlowIdx;
use parsers::probing::{ProbeFlow, direction};
use parsers::tls_decrypt::{
    TlsInput, TlsKeyStore, TlsOutcome, TlsPlaintextSink, TlsSession, begins_with_client_hello,
};
use parsers::{
    DecryptedFlow, Direction, FlowProtocol, ProbeBuffer, StreamEnd, StreamGap, StreamSegment,
    TlsNames,
};
use wire::{FlowSide, IpProtocol, Timestamp};

use super::{Monitor, ParserEvent};
use crate::tuple_outputs::FlowApplication;

/// Plaintext of a connection on its way to the parser.
struct PlaintextPath<'m> {
    monitor: &'m mut Monitor,
    idx: FlowIdx,
    asker: FlowSide,
}

impl PlaintextPath<'_> {
    fn pass(&mut self, direction: Direction, input: ParserEvent<'_>) {
        let side = match direction {
            Direction::ClientToServer => self.asker,
            Direction::ServerToClient => self.asker.other(),
        };
        self.monitor.parse(self.idx, side, input);
    }
}

impl TlsPlaintextSink for PlaintextPath<'_> {
    fn names(&mut self, names: &TlsNames) {
        if self.monitor.asks.decrypted {
            let state = self.monitor.table.state_mut(self.idx);
            state.rare.get_or_insert_default().decrypted = Some(Arc::new(names.clone()));
        }
    }

    fn bytes(&mut self, direction: Direction, segment: StreamSegment<'_>) {
        self.pass(direction, ParserEvent::Bytes(segment));
    }

    fn gap(&mut self, direction: Direction, gap: StreamGap) {
        self.pass(direction, ParserEvent::Gap(gap));
    }

    fn end(&mut self, direction: Direction, end: StreamEnd) {
        self.pass(direction, ParserEvent::End(end));
    }
}

impl Monitor {
    /// Starts the decryption of a connection if these bytes begin it. Returns whether they do.
    #[cold]
    pub(super) fn begins_tls(
        &mut self,
        idx: FlowIdx,
        side: FlowSide,
        segment: StreamSegment<'_>,
        probing: &ProbeBuffer,
    ) -> bool {
        let about = ProbeFlow::from(&self.table.flow(idx));
        let is_inside = self.is_inside_tls;
        let has_keys = |store: &Arc<TlsKeyStore>| store.generation() > 0 && !is_inside;
        let Some(store) = self.keys.clone().filter(has_keys) else {
            return false;
        };
        if about.transport != IpProtocol::TCP
            || about.client.is_some_and(|client| client != side)
            || !begins_with_client_hello(segment.bytes)
        {
            return false;
        }
        self.heed_header(idx, probing);
        self.heed_asker(idx, side, about);
        let flow = DecryptedFlow {
            session: TlsSession::new(store),
            asker: side,
            outer: FlowProtocol::New,
            inner: FlowProtocol::New,
        };
        self.table.state_mut(idx).stream = FlowProtocol::Decrypting(Box::new(flow));
        self.parse_tls(idx, side, ParserEvent::Bytes(segment));
        true
    }

    /// Passes input of a decrypted connection to both of its parsers.
    #[cold]
    pub(super) fn parse_tls(&mut self, idx: FlowIdx, side: FlowSide, input: ParserEvent<'_>) {
        let stream = std::mem::take(&mut self.table.state_mut(idx).stream);
        let FlowProtocol::Decrypting(mut flow) = stream else {
            return;
        };
        self.is_inside_tls = true;
        let before = flow.session.outcome();
        match input {
            ParserEvent::Bytes(segment) => {
                self.parse_outer(idx, side, input, &mut flow);
                self.decrypt(idx, side, (TlsInput::Bytes(segment), segment.ts), &mut flow);
            }
            ParserEvent::Gap(gap) => {
                self.parse_outer(idx, side, input, &mut flow);
                self.decrypt(idx, side, (TlsInput::Gap(gap), gap.ts), &mut flow);
            }
            ParserEvent::End(end) => {
                self.parse_outer(idx, side, input, &mut flow);
                let now = self.table.flow(idx).last_ts();
                self.decrypt(idx, side, (TlsInput::End(end), now), &mut flow);
            }
            ParserEvent::Silence(_) => self.parse_outer(idx, side, input, &mut flow),
            ParserEvent::Close(ts) => self.close_tls(idx, ts, &mut flow),
            ParserEvent::Rest(ts) => self.rest_tls(idx, ts, &mut flow),
            ParserEvent::Datagram(..) | ParserEvent::Earlier(_) => {}
        }
        self.is_inside_tls = false;
        self.count_tls(before, &mut flow);
        let is_read = !flow.session.is_over() && !matches!(flow.inner, FlowProtocol::Ignored)
            || !matches!(flow.outer, FlowProtocol::Ignored);
        if is_read {
            let bytes = flow.session.bytes() as u32;
            self.table.state_mut(idx).stream = FlowProtocol::Decrypting(flow);
            self.table.set_state_bytes(idx, bytes);
        } else {
            self.table.state_mut(idx).stream = FlowProtocol::Ignored;
            self.stop_reading(idx);
        }
    }

    /// Passes input to the protocol of the encrypted stream, which names the flow unless that of the plaintext is known.
    fn parse_outer(
        &mut self,
        idx: FlowIdx,
        side: FlowSide,
        input: ParserEvent<'_>,
        flow: &mut DecryptedFlow,
    ) {
        let state = self.table.state_mut(idx);
        let application = state.application;
        state.stream = std::mem::take(&mut flow.outer);
        self.parse(idx, side, input);
        self.put_back(idx, application, &mut flow.outer);
    }

    /// Takes the protocol of a stream back from the flow's state. An unknown protocol does not replace a known name.
    fn put_back(&mut self, idx: FlowIdx, application: FlowApplication, into: &mut FlowProtocol) {
        let state = self.table.state_mut(idx);
        *into = std::mem::take(&mut state.stream);
        if state.application == FlowApplication::Unknown
            || matches!(application, FlowApplication::Read(_))
        {
            state.application = application;
        }
    }

    /// Decrypts input and passes the plaintext to its protocol.
    fn decrypt(
        &mut self,
        idx: FlowIdx,
        side: FlowSide,
        (input, now): (TlsInput<'_>, Timestamp),
        flow: &mut DecryptedFlow,
    ) {
        let direction = direction(side, flow.asker);
        self.inside(idx, flow, |session, sink| {
            session.on_input(direction, input, now, sink);
        });
    }

    /// Runs the decryption with the state of the plaintext's protocol in place.
    fn inside(
        &mut self,
        idx: FlowIdx,
        flow: &mut DecryptedFlow,
        run: impl FnOnce(&mut TlsSession, &mut dyn TlsPlaintextSink),
    ) {
        let state = self.table.state_mut(idx);
        let application = state.application;
        state.stream = std::mem::take(&mut flow.inner);
        let mut path = PlaintextPath {
            asker: flow.asker,
            monitor: self,
            idx,
        };
        run(&mut flow.session, &mut path);
        self.put_back(idx, application, &mut flow.inner);
    }

    fn close_tls(&mut self, idx: FlowIdx, ts: Timestamp, flow: &mut DecryptedFlow) {
        self.inside(idx, flow, |session, sink| session.close(sink));
        for stream in [&mut flow.inner, &mut flow.outer] {
            let state = self.table.state_mut(idx);
            let application = state.application;
            state.stream = std::mem::take(stream);
            self.close_stream(idx, ts);
            self.put_back(idx, application, stream);
        }
    }

    fn rest_tls(&mut self, idx: FlowIdx, ts: Timestamp, flow: &mut DecryptedFlow) {
        for stream in [&mut flow.inner, &mut flow.outer] {
            let state = self.table.state_mut(idx);
            let application = state.application;
            state.stream = std::mem::take(stream);
            self.rest_stream(idx, ts);
            self.put_back(idx, application, stream);
        }
    }

    /// Counts the result of a session when it changes.
    fn count_tls(&mut self, before: TlsOutcome, flow: &mut DecryptedFlow) {
        let outcome = flow.session.outcome();
        let tls = &mut self.accounting.tls;
        let counters = flow.session.take_counters();
        tls.resyncs += counters.resyncs;
        tls.sealed_records += counters.sealed_records;
        if outcome == before {
            return;
        }
        match outcome {
            TlsOutcome::Open => {}
            TlsOutcome::Decrypting => tls.decrypted += 1,
            TlsOutcome::KeysMissing => tls.keys_missing += 1,
            TlsOutcome::Unsupported(name) => *tls.unsupported.entry(name).or_default() += 1,
            TlsOutcome::Unreadable => tls.unreadable += 1,
        }
    }
}

//! Meaning of a connection's messages: start, cycles, and responses.
//!
//! Receives complete messages of either direction in order. Pairing is done by [`crate::pairing`]; effects and tuples by
//! [`PostgresSessionState`].

use wire::TcpSeq;

use super::cycle::{PostgresRequest, PostgresRequestKind, PostgresStepKind, TEXT_MAX};
use super::framing::{PostgresForm, PostgresMessage};
use super::messages::{CANCEL, GSS, SSL, is_version_3, protocol_number};
use super::response::{PostgresProgress, PostgresResponse};
use super::session_state::{PostgresSessionChange, PostgresSessionState};
use crate::pairing::{MessageCompleteness, ResponseMatch, ResponseSlot, TransactionQueue};
use crate::resync::SegmentBeginning;
use crate::{Direction, ParserOutput};

/// Maximum bytes kept of a message without text.
const HEAD_MAX: usize = 2048;
/// Sync, and ReadyForQuery.
const MESSAGE_BYTES_MIN: [u32; 2] = [5, 6];
/// Results of a cycle after which those written are removed.
const RESULTS_HELD: usize = 256;
/// Maximum bytes of outstanding requests besides the budget.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Expected next message of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PostgresPhase {
    /// An untyped message.
    Start,
    /// The response to a request for encryption is outstanding.
    Negotiating,
    /// Typed messages.
    Messages,
}

/// Protocol state of one connection.
pub struct PostgresSession {
    transactions: TransactionQueue<PostgresRequest, PostgresResponse>,
    effects: PostgresSessionState,
    phase: PostgresPhase,
    /// The current or last request, and whether it is complete.
    request: u64,
    is_open: bool,
    /// The client copies data after a complete extended cycle: the server ignores its Sync, and waits for another one.
    ignores_sync: bool,
    /// The response in progress.
    response: Option<ResponseSlot>,
    held_bytes: usize,
    /// Nothing more can be parsed.
    pub done: bool,
    /// The next bytes are encrypted: another protocol.
    pub is_encrypted: bool,
}

impl PostgresSession {
    /// A connection without any messages so far.
    pub fn new() -> PostgresSession {
        let [request, _] = MESSAGE_BYTES_MIN;
        let mut transactions = TransactionQueue::of_messages_from(request);
        transactions.set_smallest_messages(MESSAGE_BYTES_MIN);
        PostgresSession {
            transactions,
            effects: PostgresSessionState::default(),
            phase: PostgresPhase::Start,
            request: 0,
            is_open: false,
            ignores_sync: false,
            response: None,
            held_bytes: 0,
            done: false,
            is_encrypted: false,
        }
    }

    /// Determines the wanted columns, and whether the start was missed, before the first bytes.
    pub fn start(&mut self, out: &ParserOutput<'_>) {
        self.effects.start(out);
        if out.flow.midstream {
            self.phase = PostgresPhase::Messages;
            self.transactions.join_midway();
        }
    }

    /// Form of the next message of `direction`.
    pub fn form(&self, direction: Direction) -> PostgresForm {
        match (direction, self.phase) {
            (Direction::ClientToServer, PostgresPhase::Messages) => PostgresForm::Typed,
            (Direction::ClientToServer, _) => PostgresForm::Untyped,
            (Direction::ServerToClient, PostgresPhase::Negotiating) => PostgresForm::Byte,
            (Direction::ServerToClient, _) => PostgresForm::Typed,
        }
    }

    /// Bytes wanted of the body of a split message, by its type.
    pub fn keep(&self, direction: Direction) -> impl Fn(u8) -> usize + use<> {
        let text = self.effects.keeps_text;
        move |kind| match (direction, kind) {
            (Direction::ClientToServer, b'Q' | b'P') if text => TEXT_MAX + HEAD_MAX,
            (_, b'd') | (Direction::ServerToClient, b'D' | b'T') => 0,
            _ => HEAD_MAX,
        }
    }

    /// Whether messages of the server with this type can be counted without being read.
    pub fn rows_kind(&mut self) -> Option<u8> {
        let slot = self.response?;
        let response = self.transactions.response_mut(slot)?;
        response.counts_rows().then_some(b'D')
    }

    /// Adds skipped rows.
    pub fn add_rows(&mut self, n: u64, wire_bytes: u64, ts: wire::Timestamp) {
        if let Some(response) = self
            .response
            .and_then(|slot| self.transactions.response_mut(slot))
        {
            response.add_rows(n, wire_bytes, ts);
        }
    }

    /// Handles a message of the client. Returns false if it is invalid.
    pub fn client_message(&mut self, m: &PostgresMessage<'_>, out: &mut ParserOutput<'_>) -> bool {
        if m.kind == 0 {
            return self.untyped(m, out);
        }
        if let Some(step) = PostgresStepKind::of(m.kind) {
            self.begin_cycle(m, out);
            let keeps_text = self.effects.keeps_text;
            if let Some(request) = self.transactions.request_mut(self.request) {
                let before = request.held_bytes();
                let has_room = request.add_step(step, m, keeps_text);
                out.counters.evicted_requests += u64::from(!has_room);
                self.held_bytes += request.held_bytes() - before;
            }
            return true;
        }
        match m.kind {
            b'S' if self.ignores_sync && !self.is_open => {
                self.ignores_sync = false;
                self.pass(m);
            }
            b'S' => {
                self.begin_cycle(m, out);
                if let Some(request) = self.transactions.request_mut(self.request) {
                    request.add(m);
                }
                self.finish_request(m, out);
            }
            b'Q' => self.single(PostgresRequestKind::Query, m, out),
            b'F' => self.single(PostgresRequestKind::FunctionCall, m, out),
            b'X' => self.single(PostgresRequestKind::Terminate, m, out),
            b'H' if self.is_open => {
                if let Some(request) = self.transactions.request_mut(self.request) {
                    request.add(m);
                }
            }
            b'd' | b'c' | b'f' => self.copy_data(m),
            b'H' | b'p' => self.pass(m),
            _ => {
                out.counters.malformed_messages += 1;
                return false;
            }
        }
        true
    }

    /// Handles a message of the server. Returns false if it is invalid.
    pub fn server_message(&mut self, m: &PostgresMessage<'_>, out: &mut ParserOutput<'_>) -> bool {
        let is_byte = self.phase == PostgresPhase::Negotiating;
        if !is_byte && b"NASK".contains(&m.kind) {
            self.aside(m);
            return true;
        }
        if self.response.is_none() {
            let of = self.transactions.next_to_answer(m.place);
            let of = of.map_or(PostgresRequestKind::Unseen, |request| request.kind);
            let fits = |request: &PostgresRequest| {
                if request.can_begin(m.kind) {
                    ResponseMatch::Maybe
                } else {
                    ResponseMatch::No
                }
            };
            let (slot, response) = self.transactions.response(m.span.first, m.place, fits);
            response.restart(of, m);
            self.response = Some(slot);
        }
        let Some(slot) = self.response else {
            return true;
        };
        let Some(response) = self.transactions.response_mut(slot) else {
            self.response = (m.kind != b'Z').then_some(slot);
            return true;
        };
        if is_byte {
            response.add_bytes(m);
            self.phase = PostgresPhase::Start;
            self.finish_response(Some(m.end()), out);
            return true;
        }
        let progress = response.on_message(m);
        let is_long = response.results.len() >= RESULTS_HELD;
        match progress {
            PostgresProgress::More if is_long => self.write_part(slot, out),
            PostgresProgress::More => {}
            PostgresProgress::Done => self.finish_response(Some(m.end()), out),
            PostgresProgress::Endless => {
                self.finish_response(Some(m.end()), out);
                self.close(out);
            }
            PostgresProgress::Malformed => {
                out.counters.malformed_messages += 1;
                return false;
            }
        }
        true
    }

    /// Handles missing client bytes after which the next message's position is unknown.
    pub fn client_lost(&mut self, out: &mut ParserOutput<'_>) {
        if self.is_open {
            self.is_open = false;
            if let Some(request) = self.transactions.finish_request(self.request, None) {
                request.seen = MessageCompleteness::Cut;
            }
        }
        self.phase = PostgresPhase::Messages;
        self.ignores_sync = false;
        self.miss_requests();
        self.flush(out);
    }

    /// Records further missing or unreadable client bytes.
    pub fn miss_requests(&mut self) {
        self.effects.miss_requests();
        self.transactions.miss(Direction::ClientToServer);
    }

    /// Handles missing server bytes after which the next message's position is unknown.
    pub fn server_lost(&mut self, out: &mut ParserOutput<'_>) {
        if let Some(response) = self
            .response
            .and_then(|slot| self.transactions.response_mut(slot))
        {
            response.holed = true;
            response.open_end = true;
        }
        self.finish_response(None, out);
        self.transactions.miss(Direction::ServerToClient);
        if self.phase == PostgresPhase::Negotiating {
            self.close(out);
        }
    }

    /// Whether acknowledgments prove that a message of `direction` begins with a segment.
    pub fn begins_message(&self, direction: Direction, beginning: SegmentBeginning) -> bool {
        self.transactions.begins_message(direction, beginning)
    }

    /// Records a search for a response from `place` on.
    pub fn search(&mut self, place: flow::StreamPlace) {
        self.transactions.search(place);
    }

    /// Skips bytes of the server between two responses.
    pub fn pass_server(&mut self, begin: TcpSeq, end: TcpSeq) {
        self.transactions
            .pass(Direction::ServerToClient, begin, Some(end));
    }

    /// Ends the server's stream.
    pub fn end_responses(&mut self, out: &mut ParserOutput<'_>) {
        if let Some(response) = self.end_response_in_progress() {
            // A client without a password leaves during the login.
            response.holed |= response.of != PostgresRequestKind::Login;
        }
        self.transactions.end_responses();
        self.flush(out);
    }

    /// Handles an idle connection: held transactions are written. Returns whether parsing can continue.
    pub fn rest(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = self.response.is_none() && !self.is_open && !self.done;
        if !is_between || self.phase != PostgresPhase::Messages || !self.transactions.rest() {
            return false;
        }
        self.flush(out);
        self.transactions.held() == 0 && !self.done
    }

    /// Writes pending transactions and ends parsing.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        self.done = true;
        if let Some(response) = self.end_response_in_progress() {
            response.holed = true;
        }
        self.transactions.close();
        self.flush(out);
    }

    /// A response that the end of its stream cuts off keeps its results.
    fn end_response_in_progress(&mut self) -> Option<&mut PostgresResponse> {
        let slot = self.response.take()?;
        let response = self.transactions.finish_response(slot, None)?;
        response.open_end = true;
        Some(response)
    }

    /// Handles the first messages of a client.
    fn untyped(&mut self, m: &PostgresMessage<'_>, out: &mut ParserOutput<'_>) -> bool {
        let kind = match protocol_number(m.head) {
            Some(SSL) => PostgresRequestKind::Ssl,
            Some(GSS) => PostgresRequestKind::Gss,
            Some(CANCEL) => PostgresRequestKind::Cancel,
            Some(number) if is_version_3(number) => PostgresRequestKind::Login,
            _ => {
                out.counters.malformed_messages += 1;
                return false;
            }
        };
        self.phase = match kind {
            PostgresRequestKind::Ssl | PostgresRequestKind::Gss => PostgresPhase::Negotiating,
            _ => PostgresPhase::Messages,
        };
        self.single(kind, m, out);
        true
    }

    /// Begins an extended cycle, unless one is in progress.
    fn begin_cycle(&mut self, m: &PostgresMessage<'_>, out: &mut ParserOutput<'_>) {
        if !self.is_open {
            self.begin_request(PostgresRequestKind::Extended, m, out);
            self.is_open = true;
        }
    }

    /// Handles a request of one message.
    fn single(
        &mut self,
        kind: PostgresRequestKind,
        m: &PostgresMessage<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        if self.is_open {
            // The client ends a cycle without Sync; the server responds to it nevertheless.
            self.finish_request(m, out);
        }
        self.begin_request(kind, m, out);
        let has_text = kind != PostgresRequestKind::Query || self.effects.keeps_text;
        if let Some(request) = self.transactions.request_mut(self.request) {
            request.add(m);
            if has_text {
                request.set_text(m);
            }
            self.held_bytes += request.held_bytes();
        }
        self.finish_request(m, out);
    }

    fn begin_request(
        &mut self,
        kind: PostgresRequestKind,
        m: &PostgresMessage<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.ignores_sync = false;
        let losses = self.effects.losses();
        self.transactions
            .make_room(out, PostgresRequest::held_bytes);
        let (number, request) =
            self.transactions
                .request(m.span.first, m.place, kind.expects(), false);
        self.request = number;
        request.restart(kind, m.span.first, losses);
        while self.held_bytes > WAITING_BYTES_MAX
            && self.held_bytes > WAITING_BYTES_MAX + self.transactions.text_bytes_borrowed()
            && self.transactions.held() > 1
            && self.transactions.evict_oldest()
        {
            self.flush(out);
        }
        out.counters.evicted_requests += self.transactions.take_evicted();
    }

    fn finish_request(&mut self, m: &PostgresMessage<'_>, out: &mut ParserOutput<'_>) {
        self.is_open = false;
        self.transactions
            .finish_request(self.request, Some(m.end()));
        self.flush(out);
    }

    /// Handles data that the client copies: part of the last request.
    fn copy_data(&mut self, m: &PostgresMessage<'_>) {
        if let Some(request) = self.transactions.request_mut(self.request) {
            request.copied_bytes += u64::from(m.wire_len);
            let is_extended = request.kind == PostgresRequestKind::Extended;
            self.ignores_sync = is_extended && !self.is_open;
        }
        if !self.is_open {
            self.pass(m);
        }
    }

    /// Skips client bytes between requests.
    fn pass(&mut self, m: &PostgresMessage<'_>) {
        self.transactions
            .pass(Direction::ClientToServer, m.place.seq, Some(m.end()));
    }

    /// Handles a message of the server that may come at any time.
    fn aside(&mut self, m: &PostgresMessage<'_>) {
        if m.kind == b'K' {
            let pid = m.head.first_chunk().map(|pid| u32::from_be_bytes(*pid));
            self.effects.backend_pid = pid;
        }
        match self
            .response
            .and_then(|slot| self.transactions.response_mut(slot))
        {
            Some(response) => response.add_bytes(m),
            None => {
                self.transactions.allow_unsolicited_messages();
                self.pass_server(m.place.seq, m.end());
            }
        }
    }

    /// Completes the response in progress.
    fn finish_response(&mut self, end: Option<TcpSeq>, out: &mut ParserOutput<'_>) {
        if let Some(slot) = self.response.take() {
            self.transactions.finish_response(slot, end);
            self.flush(out);
        }
    }

    /// Writes and removes the results of a long cycle so far.
    fn write_part(&mut self, slot: ResponseSlot, out: &mut ParserOutput<'_>) {
        let PostgresSession {
            transactions,
            effects,
            ..
        } = self;
        if !transactions.is_exact() {
            return;
        }
        transactions.with_pair(slot, |seq, request, response| {
            let is_whole = request.seen == MessageCompleteness::Whole && !response.holed;
            if is_whole && request.kind == PostgresRequestKind::Extended {
                out.request = Some(seq);
                effects.conclude_part(request, response, out);
            }
        });
    }

    /// Applies and writes finished transactions.
    fn flush(&mut self, out: &mut ParserOutput<'_>) {
        let PostgresSession {
            transactions,
            effects,
            held_bytes,
            ..
        } = self;
        let mut change = PostgresSessionChange::None;
        transactions.hand_out(|transaction| {
            if transaction.is_separated() {
                out.counters.separated_halves += 1;
                return;
            }
            let bytes = transaction.request().map_or(0, PostgresRequest::held_bytes);
            *held_bytes = held_bytes.saturating_sub(bytes);
            out.request = transaction.request_seq();
            match effects.conclude(transaction, out) {
                PostgresSessionChange::None => {}
                other => change = other,
            }
            let (request, response) = transaction.parts_mut();
            request.shrink();
            response.shrink();
        });
        match change {
            _ if self.done => {}
            PostgresSessionChange::None => {}
            PostgresSessionChange::NotEncrypted => self.phase = PostgresPhase::Start,
            PostgresSessionChange::Encrypted => {
                out.counters.encrypted_flows += 1;
                self.is_encrypted = true;
                self.close(out);
            }
            PostgresSessionChange::End => self.close(out),
        }
    }
}

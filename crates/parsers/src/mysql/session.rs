//! Meaning of a connection's packets: login, commands, and responses.
//!
//! Receives complete packets of either direction in order and keeps the state for the next one. Pairing is
//! done by [`crate::pairing`]; effects and tuples by [`MysqlSessionState`](super::session_state::MysqlSessionState). Independent of
//! headers, gaps inside packets, and compression.

use flow::StreamPlace;
use wire::TcpSeq;

use super::command::{self, MysqlRequestKind, MysqlResponseForm};
use super::framing::{MysqlPacket, PACKET_MAX};
use super::login::{self, capability};
use super::response::{self, MysqlDialect, MysqlResponse, MysqlResponseProgress};
use super::session_state::{MysqlSessionChange, MysqlSessionState};
use super::transaction::{KEPT_BYTES, MysqlRequest, expects};
use super::{attributes, probe};
use crate::pairing::MessageCompleteness;
use crate::pairing::{ResponseMatch, ResponseSlot, TransactionQueue};
use crate::{Direction, ParserOutput};

/// Maximum bytes kept of a statement's text.
pub const TEXT_MAX: usize = 1 << 16;
/// Maximum bytes kept of a payload without text.
const HEAD_MAX: usize = 1024;
/// Maximum bytes of text of outstanding requests.
const WAITING_TEXT_MAX: usize = 1 << 18;
/// Header and one byte of payload.
const MESSAGE_BYTES_MIN: u32 = 5;

/// Expected next packet of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MysqlPhase {
    /// Any packet.
    Start,
    /// A login.
    Greeted,
    /// Authentication data, or a command.
    Authenticating,
    /// A command.
    Commands,
}

/// Message in progress of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MysqlClientState {
    /// None.
    Between,
    /// A request of several packets.
    Request,
    /// A request that began before its first packet was complete.
    Unread,
    /// A file upload.
    Upload,
}

/// Completeness of the client's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MysqlClientHistory {
    /// Complete.
    Unbroken,
    /// Incomplete: implausible commands are rejected.
    Broken,
}

/// Protocol state of one connection.
pub struct MysqlSession {
    transactions: TransactionQueue<MysqlRequest, MysqlResponse>,
    effects: MysqlSessionState,
    phase: MysqlPhase,
    speaking: MysqlClientState,
    history: MysqlClientHistory,
    server_spoke: bool,
    /// Capabilities offered by the server, and those agreed on.
    offered: u64,
    capabilities: Option<u64>,
    dialect: MysqlDialect,
    /// The current or last request.
    request: u64,
    /// The response in progress, its destination, and the position after its last packet.
    response: Option<MysqlResponse>,
    spot: ResponseSlot,
    response_end: Option<TcpSeq>,
    /// Bytes of text of outstanding requests.
    text_bytes: usize,
    /// Both directions are compressed from here on.
    pub packs: bool,
    /// Nothing more can be parsed.
    pub done: bool,
    /// TLS follows.
    pub is_encrypted: bool,
}

impl MysqlSession {
    /// A connection without any packets so far.
    pub fn new() -> MysqlSession {
        MysqlSession {
            transactions: TransactionQueue::of_messages_from(MESSAGE_BYTES_MIN)
                .of_clients_that_wait(),
            effects: MysqlSessionState::default(),
            phase: MysqlPhase::Start,
            speaking: MysqlClientState::Between,
            history: MysqlClientHistory::Unbroken,
            server_spoke: false,
            offered: u64::MAX,
            capabilities: None,
            dialect: MysqlDialect::default(),
            request: 0,
            response: None,
            spot: ResponseSlot::default(),
            response_end: None,
            text_bytes: 0,
            packs: false,
            done: false,
            is_encrypted: false,
        }
    }

    /// Determines the wanted columns, and whether the start was missed, before the first bytes.
    pub fn start(&mut self, out: &ParserOutput<'_>) {
        self.effects.start(out);
        if out.flow.midstream {
            self.history = MysqlClientHistory::Broken;
            self.transactions.join_midway();
        }
    }

    /// Handles a connection joined midway that is compressed.
    pub fn join_packed(&mut self) {
        self.phase = MysqlPhase::Commands;
        self.server_spoke = true;
        self.effects.encoding = Some("zlib");
        self.dialect.unordered = true;
    }

    /// Records zstd compression.
    pub fn is_zstd(&mut self) {
        self.effects.encoding = Some("zstd");
    }

    /// Bytes wanted of the client's next payload, by its first byte.
    #[inline]
    pub fn client_keep(&self) -> impl Fn(u8) -> usize + use<> {
        let none = self.speaking != MysqlClientState::Between;
        let text = self.effects.keeps_text;
        move |first| match first {
            _ if none => 0,
            command::QUERY | command::STMT_PREPARE if text => TEXT_MAX + HEAD_MAX,
            _ => HEAD_MAX,
        }
    }

    /// Bytes wanted of the server's next payload, by its first byte.
    #[inline]
    pub fn server_keep(&self) -> impl Fn(u8) -> usize + use<> {
        let rows = self.in_rows();
        move |first| if rows && first < 0xfe { 1 } else { HEAD_MAX }
    }

    /// Whether rows follow, which [`MysqlSession::add_rows`] handles in bulk.
    #[inline]
    pub fn in_rows(&self) -> bool {
        self.response.as_ref().is_some_and(MysqlResponse::in_rows)
    }

    /// Required sequence number of the next row, if any.
    pub fn next_seq(&self) -> Option<u8> {
        self.response.as_ref().and_then(MysqlResponse::next_seq)
    }

    /// Adds skipped rows.
    pub fn add_rows(&mut self, rows: u64, wire_bytes: u64, ts: wire::Timestamp) {
        if let Some(response) = &mut self.response {
            response.add_rows(rows, wire_bytes, ts);
        }
    }

    /// Whether any bytes of the server were parsed.
    pub fn server_spoke(&self) -> bool {
        self.server_spoke
    }

    /// Whether the connection was captured from its start after all: the server's first bytes are a greeting.
    pub fn is_opening(&self, bytes: &[u8]) -> bool {
        let version = bytes.get(4..).filter(|_| bytes[3] == 0).unwrap_or_default();
        !self.server_spoke
            && matches!(version, [9 | 10, b'0'..=b'9', ..])
            && login::greeting(version).is_some()
    }

    /// Handles a packet of the client. Returns false if it is invalid.
    pub fn client_packet(&mut self, p: &MysqlPacket<'_>, out: &mut ParserOutput<'_>) -> bool {
        match (self.speaking, self.phase) {
            (MysqlClientState::Request, _) => self.go_on(p, out),
            (MysqlClientState::Unread, _) => self.read_adopted(p, out),
            (_, MysqlPhase::Greeted) if p.seq != 0 => self.login(p, out),
            (_, MysqlPhase::Start) if p.seq != 0 && probe::is_login(p.len as usize, p.head) => {
                self.login(p, out)
            }
            (_, MysqlPhase::Authenticating) if p.seq != 0 => self.pass(p),
            (_, MysqlPhase::Authenticating) if self.agreed_compression().is_some() => {
                self.close(out)
            }
            (MysqlClientState::Between, _) if p.seq == 0 => {
                self.begin_commands();
                return self.command(p, out);
            }
            _ => {
                // A requested file, up to an empty packet.
                let request = self.transactions.request_mut(self.request);
                let may_upload = self.speaking == MysqlClientState::Upload
                    || request.is_some_and(|r| r.kind.may_upload());
                self.speaking = if p.len > 0 && may_upload {
                    MysqlClientState::Upload
                } else {
                    MysqlClientState::Between
                };
                self.pass(p);
            }
        }
        true
    }

    /// Handles a packet of the server. Returns false if it is invalid.
    pub fn server_packet(&mut self, p: &MysqlPacket<'_>, out: &mut ParserOutput<'_>) -> bool {
        if !std::mem::replace(&mut self.server_spoke, true) && p.seq == 0 && self.opening(p) {
            return true;
        }
        if self
            .response
            .as_ref()
            .is_some_and(|r| r.may_be_over() && !r.is_belated_eof(p))
        {
            self.settle(out);
        }
        if self.response.is_none() && !self.begin_response(p) {
            return self.response.is_none() && !self.is_answer_out_of_sequence(p, out);
        }
        let Some(response) = &mut self.response else {
            return true;
        };
        self.response_end = Some(p.end());
        match response.on_packet(p, &mut self.dialect) {
            MysqlResponseProgress::More | MysqlResponseProgress::Maybe => true,
            MysqlResponseProgress::Done => {
                self.finish(out);
                true
            }
            MysqlResponseProgress::Malformed => {
                out.counters.malformed_messages += 1;
                false
            }
        }
    }

    /// Handles missing client bytes after which the next packet's position is unknown. A partial packet
    /// becomes a request with an unknown end.
    pub fn client_lost(&mut self, partial: Option<MysqlPacket<'_>>, out: &mut ParserOutput<'_>) {
        self.adopt(partial, out);
        if matches!(
            self.speaking,
            MysqlClientState::Request | MysqlClientState::Unread
        ) && let Some(request) = self.transactions.finish_request(self.request, None)
        {
            request.seen = MessageCompleteness::Cut;
        }
        self.speaking = MysqlClientState::Between;
        self.history = MysqlClientHistory::Broken;
        if self.phase != MysqlPhase::Authenticating {
            self.phase = MysqlPhase::Commands;
        }
        self.miss_requests();
        self.flush(out);
    }

    /// Records further missing or unreadable client bytes.
    pub fn miss_requests(&mut self) {
        self.effects.miss_requests();
        self.transactions.miss(Direction::ClientToServer);
    }

    /// Handles missing server bytes after which the next packet's position is unknown.
    pub fn server_lost(&mut self, out: &mut ParserOutput<'_>) {
        self.server_spoke = true;
        self.settle(out);
        self.effects.miss_responses();
        if let Some(response) = &mut self.response {
            response.holed = true;
            response.open_end = true;
            response.outcome = Default::default();
            self.response_end = None;
            self.finish(out);
        }
        self.transactions.miss(Direction::ServerToClient);
        let logging_in = self.phase == MysqlPhase::Authenticating;
        if logging_in && self.agreed_compression().is_some() {
            self.close(out);
        }
    }

    /// Expected format of a packet at `place` as the response to the request whose client had received
    /// everything before.
    pub fn expected_at(&self, place: StreamPlace) -> Option<MysqlExpectedResponse> {
        let request = self.transactions.answered_from(place)?;
        let seq = (request.seen != MessageCompleteness::Cut).then_some(request.answer_seq);
        Some(MysqlExpectedResponse {
            awaited: request.awaited(),
            seq,
        })
    }

    /// Turns the client's packet in progress into a request before its end.
    pub fn adopt(&mut self, partial: Option<MysqlPacket<'_>>, out: &mut ParserOutput<'_>) {
        let Some(p) = partial.filter(|_| !self.done && self.speaking == MysqlClientState::Between)
        else {
            return;
        };
        match (self.phase, p.head.first()) {
            (MysqlPhase::Greeted, _) if p.seq != 0 => self.begin_login(&p),
            (phase, Some(&code)) if p.seq == 0 && phase != MysqlPhase::Authenticating => {
                self.begin_commands();
                self.settle(out);
                self.begin_command(code, &p);
            }
            _ => return,
        }
        self.speaking = MysqlClientState::Unread;
    }

    /// Completes the first packet of a request adopted earlier.
    fn read_adopted(&mut self, p: &MysqlPacket<'_>, out: &mut ParserOutput<'_>) {
        let Some(request) = self.transactions.request_mut(self.request) else {
            self.speaking = MysqlClientState::Between;
            return;
        };
        let kind = request.kind;
        let losses = request.losses;
        self.text_bytes -= request.text.len();
        request.become_one(kind, p);
        request.losses = losses;
        self.fill(kind, p);
        self.end_packet(p);
        self.flush(out);
    }

    /// Ends the server's stream.
    pub fn end_responses(&mut self, out: &mut ParserOutput<'_>) {
        self.settle(out);
        self.transactions.end_responses();
        self.flush(out);
    }

    /// Handles an idle connection: held transactions are written. Returns whether parsing can continue.
    pub fn rest(&mut self, out: &mut ParserOutput<'_>) -> bool {
        self.settle(out);
        let is_between =
            self.response.is_none() && self.speaking == MysqlClientState::Between && !self.done;
        if !is_between || !self.transactions.rest() {
            return false;
        }
        self.flush(out);
        self.transactions.held() == 0 && !self.done
    }

    /// Writes pending transactions and ends parsing.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        self.done = true;
        self.settle(out);
        if let (Some(response), Some(slot)) = (
            self.response.take(),
            self.transactions.response_mut(self.spot),
        ) {
            *slot = response;
        }
        self.transactions.close();
        self.flush(out);
    }

    /// Skips client bytes between requests.
    fn pass(&mut self, p: &MysqlPacket<'_>) {
        self.transactions
            .pass(Direction::ClientToServer, p.place.seq, Some(p.end()));
    }

    fn begin_commands(&mut self) {
        if self.phase == MysqlPhase::Greeted {
            // The login was not captured.
            self.history = MysqlClientHistory::Broken;
        }
        self.phase = MysqlPhase::Commands;
    }

    /// Handles the rest of a request whose beginning is known.
    fn go_on(&mut self, p: &MysqlPacket<'_>, out: &mut ParserOutput<'_>) {
        let goes_on = p.len == PACKET_MAX;
        if let Some(request) = self.transactions.request_mut(self.request) {
            request.extend(p);
        }
        if !goes_on {
            self.speaking = MysqlClientState::Between;
            self.transactions
                .finish_request(self.request, Some(p.end()));
            self.flush(out);
        }
    }

    /// Handles the server's first packet, with sequence number 0: a greeting, or a rejected connection.
    fn opening(&mut self, p: &MysqlPacket<'_>) -> bool {
        if let Some(offered) = login::greeting(p.head) {
            self.offered = offered;
            if self.phase == MysqlPhase::Start {
                self.phase = MysqlPhase::Greeted;
            }
            self.transactions
                .pass(Direction::ServerToClient, p.place.seq, Some(p.end()));
            return true;
        }
        false
    }

    fn login(&mut self, p: &MysqlPacket<'_>, out: &mut ParserOutput<'_>) {
        if login::is_tls_request(p.head, p.len) {
            out.counters.encrypted_flows += 1;
            self.is_encrypted = true;
            self.effects.encoding = Some("tls");
            self.begin_request(MysqlRequestKind::TlsRequest, p);
            self.transactions.finish_request(self.request, None);
            return self.close(out);
        }
        self.begin_login(p);
        self.transactions
            .finish_request(self.request, Some(p.end()));
    }

    fn begin_login(&mut self, p: &MysqlPacket<'_>) {
        self.phase = MysqlPhase::Authenticating;
        self.begin_request(MysqlRequestKind::Login, p);
        self.fill(MysqlRequestKind::Login, p);
    }

    fn command(&mut self, p: &MysqlPacket<'_>, out: &mut ParserOutput<'_>) -> bool {
        self.settle(out);
        let is_plausible = |code: &u8| match self.history {
            MysqlClientHistory::Unbroken => command::is_of_clients(*code),
            _ => command::is_plausible(*code, p.len),
        };
        let Some(code) = p.first().filter(is_plausible) else {
            // The command byte may be missing.
            out.counters.malformed_messages += 1;
            self.miss_requests();
            return self.history == MysqlClientHistory::Unbroken;
        };
        if self.effects.keeps_text
            && MysqlRequestKind::Command(code).has_text()
            && p.len as usize > TEXT_MAX + 1
        {
            out.counters.oversized_heads += 1;
        }
        self.transactions
            .make_room(out, |request| request.text.len());
        self.begin_command(code, p);
        self.end_packet(p);
        while self.text_bytes > WAITING_TEXT_MAX
            && self.text_bytes > WAITING_TEXT_MAX + self.transactions.text_bytes_borrowed()
            && self.transactions.held() > 1
        {
            if !self.transactions.evict_oldest() {
                break;
            }
            self.flush(out);
        }
        out.counters.evicted_requests += self.transactions.take_evicted();
        self.flush(out);
        true
    }

    fn begin_command(&mut self, code: u8, p: &MysqlPacket<'_>) {
        self.begin_request(MysqlRequestKind::Command(code), p);
        self.fill(MysqlRequestKind::Command(code), p);
    }

    /// Stores the contents of `p`, the first packet of the last request.
    #[inline]
    fn fill(&mut self, kind: MysqlRequestKind, p: &MysqlPacket<'_>) {
        if kind == MysqlRequestKind::Login {
            let login = login::login(p.head, p.is_whole());
            self.capabilities = login.capabilities.map(|wanted| wanted & self.offered);
            self.dialect = self.capabilities.map(MysqlDialect::of).unwrap_or_default();
        }
        let Some(request) = self.transactions.request_mut(self.request) else {
            return;
        };
        let body = p.head.get(1..).unwrap_or_default();
        match kind {
            MysqlRequestKind::Login => {
                login::write_account(&mut request.text, login::login(p.head, p.is_whole()))
            }
            MysqlRequestKind::Command(command::CHANGE_USER) => {
                login::write_account(
                    &mut request.text,
                    login::change_user(body, self.capabilities),
                );
            }
            _ if kind.has_statement() => {
                request.statement = body.first_chunk().map_or(0, |id| u32::from_le_bytes(*id));
            }
            _ if kind.has_text() && self.effects.keeps_text => {
                let has_attributes = kind == MysqlRequestKind::Command(command::QUERY);
                let text = if has_attributes {
                    attributes::behind(body, self.capabilities)
                } else {
                    body
                };
                request
                    .text
                    .extend_from_slice(&text[..text.len().min(TEXT_MAX)]);
                request.text_cut = request.text.len() < TEXT_MAX && !p.is_whole();
                request.shortened =
                    !request.text_cut && p.len as usize > body.len() - text.len() + TEXT_MAX + 1;
            }
            _ => {}
        }
        self.text_bytes += request.text.len();
    }

    /// Completes the first packet of the last request, and the request unless it continues in the next
    /// packet.
    fn end_packet(&mut self, p: &MysqlPacket<'_>) {
        if p.len == PACKET_MAX {
            self.speaking = MysqlClientState::Request;
        } else {
            self.speaking = MysqlClientState::Between;
            self.transactions
                .finish_request(self.request, Some(p.end()));
        }
    }

    #[inline]
    fn begin_request(&mut self, kind: MysqlRequestKind, p: &MysqlPacket<'_>) {
        let losses = self.effects.losses();
        let (number, request) =
            self.transactions
                .request(p.span.first, p.place, expects(kind), false);
        self.request = number;
        request.become_one(kind, p);
        request.losses = losses;
    }

    /// Handles the first packet of a response and finds its request. Returns false if it is not one.
    fn begin_response(&mut self, p: &MysqlPacket<'_>) -> bool {
        let is_error = p.first() == Some(0xff);
        let asked = self.transactions.next_to_answer(p.place);
        let unordered = self.dialect.unordered;
        let awaited = match asked {
            Some(request) if request.can_get(p.seq, unordered) || is_error => request.awaited(),
            None if p.seq == 1 || is_error && p.seq == 0 => MysqlResponseForm::Result,
            _ => return false,
        };
        let mut response = MysqlResponse::new(awaited);
        response.unasked = asked.is_none();
        response.first_seq = p.seq;
        response.unordered = unordered || is_error;
        let fit = |request: &MysqlRequest| {
            if request.can_get(p.seq, unordered) || is_error {
                ResponseMatch::Maybe
            } else {
                ResponseMatch::No
            }
        };
        self.spot = self.transactions.response(p.span.first, p.place, fit).0;
        response.refused = p.seq == 0 && self.phase == MysqlPhase::Start;
        self.response = Some(response);
        true
    }

    /// Handles a packet that does not begin a response; returns whether one was expected.
    fn is_answer_out_of_sequence(
        &mut self,
        p: &MysqlPacket<'_>,
        out: &mut ParserOutput<'_>,
    ) -> bool {
        let awaited = self.transactions.next_to_answer(p.place).is_some();
        out.counters.malformed_messages += u64::from(awaited);
        if !awaited {
            self.transactions
                .pass(Direction::ServerToClient, p.place.seq, Some(p.end()));
        }
        awaited
    }

    /// Completes a response that only an optional EOF packet could continue.
    #[inline]
    fn settle(&mut self, out: &mut ParserOutput<'_>) {
        if self
            .response
            .as_ref()
            .is_some_and(MysqlResponse::may_be_over)
        {
            self.dialect.deprecate_eof.get_or_insert(true);
            self.finish(out);
        }
    }

    /// Completes the current response.
    fn finish(&mut self, out: &mut ParserOutput<'_>) {
        let Some(response) = self.response.take() else {
            return;
        };
        if let Some(slot) = self
            .transactions
            .finish_response(self.spot, self.response_end)
        {
            *slot = response;
        }
        self.flush(out);
    }

    /// Applies and writes finished transactions.
    fn flush(&mut self, out: &mut ParserOutput<'_>) {
        let MysqlSession {
            transactions,
            effects,
            text_bytes,
            ..
        } = self;
        let mut change = MysqlSessionChange::None;
        transactions.hand_out(|transaction| {
            if transaction.is_separated() {
                out.counters.separated_halves += 1;
                return;
            }
            *text_bytes -= transaction
                .request()
                .map_or(0, |request| request.text.len());
            out.request = transaction.request_seq();
            match effects.conclude(transaction, out) {
                MysqlSessionChange::None => {}
                other => change = other,
            }
            let (request, _) = transaction.parts_mut();
            if request.text.capacity() > KEPT_BYTES {
                request.text = Vec::new();
            }
        });
        match change {
            MysqlSessionChange::None => {}
            MysqlSessionChange::LoggedIn => {
                self.phase = MysqlPhase::Commands;
                self.effects.encoding = self.agreed_compression();
                self.packs = self.effects.encoding.is_some();
                self.dialect.unordered = self.packs;
            }
            MysqlSessionChange::End if self.done => {}
            MysqlSessionChange::End => self.close(out),
        }
    }

    fn agreed_compression(&self) -> Option<&'static str> {
        match self.capabilities? {
            c if c & capability::COMPRESS != 0 => Some("zlib"),
            c if c & capability::ZSTD != 0 => Some("zstd"),
            _ => None,
        }
    }
}

/// Expected first packet of a response.
#[derive(Clone, Copy, Debug)]
pub struct MysqlExpectedResponse {
    awaited: MysqlResponseForm,
    /// Sequence number, if known.
    seq: Option<u8>,
}

impl MysqlExpectedResponse {
    /// The response to a request that was not captured.
    pub const ANY: MysqlExpectedResponse = MysqlExpectedResponse {
        awaited: MysqlResponseForm::Result,
        seq: Some(1),
    };

    /// Whether a packet that begins with `head`, header and first byte, matches.
    pub fn can_begin(self, head: [u8; 5]) -> bool {
        self.seq.is_none_or(|seq| seq == head[3]) && response::can_begin(self.awaited, head)
    }
}

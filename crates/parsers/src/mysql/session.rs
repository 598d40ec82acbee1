//! What a connection's packets mean: the login, commands, their responses, and the state that both leave behind.
//!
//! Takes whole packets of either direction in order, pairs requests with responses and writes the tuples. Requests are
//! answered in order; where bytes were lost a response belongs to a request only if it began after it, for a client
//! asks again only once it was answered. Knows nothing of headers, gaps inside packets, and compression.

use flow::Place;
use tuple::TupleWriter;
use wire::Timestamp;

use super::command::{self, Awaited, DefaultDatabase, Kind};
use super::framing::{PACKET_MAX, Packet};
use super::login::{self, capability};
use super::request::{Request, Requests};
use super::response::{self, Dialect, Progress, Response};
use super::shorten::shorten;
use super::statements::Statements;
use super::tuples::{self, Context};
use super::{DATABASE, FINGERPRINT, QUERY};
use super::{attributes, fingerprint, probe};
use crate::heard::{Fit, fit};
use crate::{Output, Quality};

/// Bytes of a statement's text that are kept.
pub const TEXT_MAX: usize = 1 << 16;
/// Bytes of a packet's payload that are kept where no text is in it.
const HEAD_MAX: usize = 1024;
/// Longest statement, without its literals, whose fingerprint is remembered.
const SHORT_MAX: usize = 512;

/// What the client's next packet can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Anything.
    Start,
    /// A login.
    Greeted,
    /// What a login still needs, or a command.
    Authenticating,
    /// A command.
    Commands,
}

/// Who may be answered by bytes of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaits {
    /// The request at this place.
    Request(usize),
    /// No request that was seen.
    Nobody,
    /// One whose response has begun already, or which it is cannot be known.
    NoNew,
}

/// What requests that are missing may have changed, by their responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Unseen {
    /// None is missing.
    #[default]
    Nothing,
    /// No response to one was seen yet.
    Unanswered,
    /// All responses were those to requests that change neither user nor database.
    Harmless,
    /// A response was not, or is missing too.
    Anything,
}

/// What is going on in one connection.
pub struct Session {
    phase: Phase,
    server_spoke: bool,
    /// What the server offered, and what both agreed on.
    offered: u64,
    capabilities: Option<u64>,
    dialect: Dialect,
    user: Option<Vec<u8>>,
    database: Option<Vec<u8>>,
    /// What requests that are missing may have changed.
    unseen: Unseen,
    /// A response is missing, and none was seen to a request that was seen, since.
    response_lost: bool,
    /// The next request is the first behind missing ones.
    behind_loss: bool,
    requests: Requests,
    statements: Statements,
    /// The response to the oldest request, once it has begun.
    response: Option<Response>,
    /// The client's last packet goes on in the next one.
    goes_on: bool,
    /// The client sends a file.
    uploading: bool,
    /// The client's packet under way is already among the requests.
    adopted: bool,
    /// Requests may have been missed: the next response need not be that of the oldest request.
    uncertain: bool,
    /// The client's packets were followed from the first one on.
    unbroken: bool,
    /// The client has been seen to ask again before it was answered.
    pipelines: bool,
    /// Responses to requests up to then have gone by.
    answered_until: Timestamp,
    /// A transaction that is over, but whose request may turn out to be another.
    parked: Option<(Request, Response)>,
    /// Quality of the next request.
    next_quality: Quality,
    fingerprint: Vec<u8>,
    scratch: Vec<u8>,
    keeps_text: bool,
    /// How the content is wrapped, for the tuple.
    pub encoding: Option<&'static str>,
    /// Both directions are compressed from here on.
    pub packs: bool,
    /// Nothing more can be read.
    pub done: bool,
}

impl Session {
    /// A connection of which nothing was seen yet.
    pub fn new() -> Session {
        Session {
            phase: Phase::Start,
            server_spoke: false,
            offered: u64::MAX,
            capabilities: None,
            dialect: Dialect::default(),
            user: None,
            database: None,
            unseen: Unseen::Nothing,
            response_lost: false,
            behind_loss: false,
            requests: Requests::default(),
            statements: Statements::default(),
            response: None,
            goes_on: false,
            uploading: false,
            adopted: false,
            uncertain: false,
            unbroken: true,
            pipelines: false,
            answered_until: Timestamp::MIN,
            parked: None,
            next_quality: Quality::Exact,
            fingerprint: Vec::new(),
            scratch: Vec::new(),
            keeps_text: true,
            encoding: None,
            packs: false,
            done: false,
        }
    }

    /// Before the first bytes: what is wanted, and whether the start was missed.
    pub fn start(&mut self, out: &Output<'_>) {
        self.keeps_text = [QUERY, FINGERPRINT, DATABASE].iter().any(|f| out.wants(*f));
        if out.flow.midstream {
            self.next_quality = Quality::Midstream;
            self.unbroken = false;
            self.uncertain = true;
        }
    }

    /// The connection was joined late and is compressed.
    pub fn join_packed(&mut self) {
        self.phase = Phase::Commands;
        self.server_spoke = true;
        self.encoding = Some("zlib");
        self.dialect.unordered = true;
    }

    /// How much of the client's next payload is wanted, by its first byte.
    pub fn client_keep(&self) -> impl Fn(u8) -> usize + use<> {
        let none = self.goes_on || self.uploading;
        let keeps_text = self.keeps_text;
        move |first| match first {
            _ if none => 0,
            command::QUERY | command::STMT_PREPARE if keeps_text => TEXT_MAX + HEAD_MAX,
            _ => HEAD_MAX,
        }
    }

    /// How much of the server's next payload is wanted, by its first byte.
    pub fn server_keep(&self) -> impl Fn(u8) -> usize + use<> {
        let rows = self.in_rows();
        move |first| if rows && first < 0xfe { 1 } else { HEAD_MAX }
    }

    /// Whether rows are coming, which [`Session::add_rows`] takes in bulk.
    pub fn in_rows(&self) -> bool {
        self.response.as_ref().is_some_and(Response::in_rows)
    }

    /// Sequence number of the next row, if it must have one.
    pub fn next_seq(&self) -> Option<u8> {
        self.response.as_ref().and_then(Response::next_seq)
    }

    /// Rows that were stepped over.
    pub fn add_rows(&mut self, rows: u64, wire_bytes: u64, ts: Timestamp) {
        if let Some(response) = &mut self.response {
            response.add_rows(rows, wire_bytes, ts);
        }
    }

    /// A packet of the client. False: it cannot be one.
    pub fn client_packet(&mut self, p: &Packet<'_>, out: &mut Output<'_>) -> bool {
        if self.adopted || self.goes_on {
            self.continuation(p, out);
            return true;
        }
        match self.phase {
            Phase::Greeted if p.seq != 0 => self.login(p, out),
            Phase::Start if p.seq != 0 && probe::is_login(p.len as usize, p.head) => self.login(p, out),
            Phase::Authenticating if p.seq != 0 => self.note_hole(p),
            Phase::Authenticating if self.agreed_compression().is_some() => self.close(out),
            _ if self.uploading => {
                self.uploading = p.len > 0;
                self.note_hole(p);
            }
            _ if p.seq == 0 => {
                self.begin_commands();
                return self.command(p, out);
            }
            _ => {
                self.uploading = p.len > 0 && self.requests.back_mut().is_some_and(|r| r.kind.may_upload());
                self.note_hole(p);
            }
        }
        true
    }

    /// Bytes are missing of what the client sends in the middle of a transaction: a file, or a part of its login.
    fn note_hole(&mut self, p: &Packet<'_>) {
        if let Some(request) = self.requests.front_mut().filter(|_| p.holed) {
            request.quality = request.quality.max(Quality::GapBody);
        }
    }

    fn begin_commands(&mut self) {
        if self.phase == Phase::Greeted {
            // The login was not seen.
            (self.unbroken, self.uncertain) = (false, true);
        }
        self.phase = Phase::Commands;
    }

    /// Whether anything of the server was read.
    pub fn server_spoke(&self) -> bool {
        self.server_spoke
    }

    /// Whether the connection was seen from its start after all: the server's first bytes are a greeting.
    pub fn is_opening(&self, bytes: &[u8]) -> bool {
        let version = bytes.get(4..).filter(|_| bytes[3] == 0).unwrap_or_default();
        !self.server_spoke
            && matches!(version, [9 | 10, b'0'..=b'9', ..])
            && login::greeting(version).is_some()
    }

    /// Whether a packet of the server would come without the request that it answers: that one may be late.
    pub fn lacks_request(&self) -> bool {
        if self.response.is_some() || !self.server_spoke {
            return false;
        }
        !self.requests.front().is_some_and(|r| r.complete && r.awaited() != Awaited::Nothing)
    }

    /// A packet of the server. False: it does not fit at all.
    pub fn server_packet(&mut self, p: &Packet<'_>, out: &mut Output<'_>) -> bool {
        if !self.server_spoke {
            self.server_spoke = true;
            if p.seq == 0 && self.opening(p) {
                return true;
            }
        }
        if self.response.as_ref().is_some_and(|r| r.may_be_over() && !r.is_belated_eof(p)) {
            self.settle(out);
        }
        if self.response.is_none() && !self.response_begins(p, out) {
            return true;
        }
        let Some(response) = &mut self.response else { return true };
        match response.on_packet(p, &mut self.dialect) {
            Progress::More | Progress::Maybe => true,
            Progress::Done => {
                self.finish(out);
                true
            }
            Progress::Malformed => {
                out.counters.malformed_messages += 1;
                false
            }
        }
    }

    /// The client's packet under way becomes a request before its end was seen.
    pub fn adopt(&mut self, partial: Option<Packet<'_>>) {
        let Some(p) = partial.filter(|_| !self.done && !self.goes_on && !self.adopted && !self.uploading)
        else {
            return;
        };
        let mut request = match (self.phase, p.head.first()) {
            (Phase::Greeted, _) if p.seq != 0 => {
                self.phase = Phase::Authenticating;
                self.login_request(&p)
            }
            (phase, Some(&code)) if p.seq == 0 && phase != Phase::Authenticating => {
                self.begin_commands();
                self.command_request(code, &p)
            }
            _ => return,
        };
        request.complete = false;
        self.requests.push(request);
        self.adopted = true;
    }

    /// Client bytes are missing, and with them the place of the next packet. What is left of one is a request whose
    /// end is somewhere in the gap.
    /// `cut`: they arrived with those before them.
    pub fn client_lost(&mut self, partial: Option<Packet<'_>>, cut: bool, out: &mut Output<'_>) {
        self.adopt(partial);
        (self.goes_on, self.adopted, self.uploading) = (false, false, false);
        self.uncertain = true;
        self.unbroken = false;
        self.next_quality = self.next_quality.max(Quality::Resync);
        self.miss_requests();
        if let Some(request) = self.requests.back_mut().filter(|r| !r.complete) {
            (request.complete, request.open_end) = (true, !cut);
            request.packets = None;
            request.quality = request.quality.max(Quality::GapBody);
        }
        self.requests.iter_mut().for_each(|r| r.followed_by_gap = true);
        self.confirm(false, out);
        if self.phase != Phase::Authenticating {
            self.phase = Phase::Commands;
        }
        self.flush(out);
    }

    /// Client bytes that could not be read: before the server has spoken they belong to the request that was cut.
    pub fn client_skipped(&mut self, ts: Timestamp) {
        self.miss_requests();
        let cut = |r: &&mut Request| r.is_seen() && r.packets.is_none();
        if let (None, Some(request)) = (&self.response, self.requests.back_mut().filter(cut)) {
            request.span.extend(ts);
            request.open_end = false;
        }
    }

    /// What is missing may have been requests.
    fn miss_requests(&mut self) {
        self.behind_loss = true;
        let unanswered = self.response_lost || self.unseen == Unseen::Anything;
        self.unseen = if unanswered { Unseen::Anything } else { Unseen::Unanswered };
    }

    /// More client bytes are missing.
    pub fn client_end_lost(&mut self) {
        self.miss_requests();
        if let Some(request) = self.requests.back_mut().filter(|r| r.packets.is_none()) {
            request.open_end = true;
        }
    }

    /// Server bytes are missing, and with them the place of the next packet.
    pub fn server_lost(&mut self, out: &mut Output<'_>) {
        self.server_spoke = true;
        self.response_lost = true;
        if self.unseen != Unseen::Nothing {
            self.unseen = Unseen::Anything;
        }
        if self.response.as_ref().is_some_and(Response::may_be_over) {
            self.settle(out);
        }
        match &mut self.response {
            Some(response) => {
                response.holed = true;
                response.outcome = Default::default();
            }
            None => {
                if let Some(request) = self.requests.front_mut() {
                    request.lost = true;
                }
            }
        }
        if self.requests.front().is_some_and(|r| r.kind == Kind::Login) && self.agreed_compression().is_some()
        {
            self.close(out);
        }
    }

    /// Where the server's packets are not known: whose response its bytes of the time `ts` can begin. Bytes of the
    /// response that was under way are added to it.
    pub fn awaits_at(&mut self, ts: Timestamp, place: Option<Place>) -> Awaits {
        self.answered_until = self.answered_until.max(ts);
        if let Some((index, Fit::Next)) = place.and_then(|place| self.requests.answered_from(place))
            && !self.pipelines
        {
            return Awaits::Request(index);
        }
        let Some(index) = self.requests.answered_at(ts) else { return Awaits::Nobody };
        let (followed_by_gap, unseen) =
            self.requests.get_mut(index).map_or((false, true), |r| (r.followed_by_gap, !r.is_seen()));
        if let Some(response) = self.response.as_mut().filter(|_| index == 0) {
            // It cannot be told from the next one's, if there is another request in the gap.
            response.open_end = followed_by_gap || unseen;
            if let Some(span) = &mut response.span {
                span.extend(ts);
            }
            return Awaits::NoNew;
        }
        let lost =
            self.requests.get_mut(index).is_none_or(|r| r.lost || r.place.is_some() && place.is_some());
        if lost || followed_by_gap || self.requests.is_pipelined(index) {
            return Awaits::NoNew;
        }
        Awaits::Request(index)
    }

    /// The server's last bytes were not seen.
    pub fn end_unseen(&mut self) {
        if let Some(response) = &mut self.response {
            response.open_end = true;
        }
    }

    /// Whether the request at `index` can be answered by a packet that begins with `head`: header and first byte.
    pub fn can_begin(&self, index: Option<usize>, head: [u8; 5]) -> bool {
        let request = index.and_then(|i| self.requests.get(i));
        let (awaited, packets) = request.map_or((Awaited::Result, Some(1)), |r| (r.awaited(), r.packets));
        packets.is_none_or(|n| n == head[3]) && response::can_begin(awaited, head)
    }

    /// The next server packet answers the request at `index`: those before it are given up.
    pub fn resume_at(&mut self, index: usize, known: bool, out: &mut Output<'_>) {
        for _ in 0..index {
            self.abandon(true, out);
        }
        let newest = self.requests.len() == 1;
        if let Some(request) = self.requests.front_mut() {
            request.tentative = newest && !known;
            request.quality = request.quality.max(Quality::Resync);
        }
    }

    /// The request at `index` will never be answered for sure.
    pub fn doubt(&mut self, index: usize) {
        if let Some(request) = self.requests.get_mut(index) {
            request.lost = true;
        }
    }

    /// Writes what waits: nothing after it is read.
    pub fn close(&mut self, out: &mut Output<'_>) {
        self.settle(out);
        self.confirm(true, out);
        while self.requests.front().is_some() {
            let over = self.asked_again();
            self.abandon(over, out);
        }
        self.done = true;
    }

    /// Whether the client asked again after the response under way: then it was over.
    fn asked_again(&mut self) -> bool {
        let Some(end) = self.response.as_ref().and_then(|r| r.span).map(|s| s.last) else { return false };
        self.requests.get_mut(1).is_some_and(|next| next.span.first > end)
    }

    /// The rest of a request whose beginning is already among the requests.
    fn continuation(&mut self, p: &Packet<'_>, out: &mut Output<'_>) {
        let first = std::mem::take(&mut self.adopted);
        self.goes_on = p.len == PACKET_MAX;
        let Some(request) = self.requests.back_mut().filter(|r| !r.complete) else { return };
        request.span.extend(p.span.last);
        request.open_end = p.open_end;
        if first {
            request.wire_bytes = p.wire_len();
        } else {
            request.wire_bytes += p.wire_len();
            request.packets = request.packets.map(|n| n.wrapping_add(1));
        }
        if p.holed {
            request.quality = request.quality.max(Quality::GapBody);
        }
        request.complete = !self.goes_on;
        if request.complete {
            self.flush(out);
        }
    }

    /// The server's first packet, with sequence number 0: a greeting, or the connection is refused.
    fn opening(&mut self, p: &Packet<'_>) -> bool {
        if let Some(offered) = login::greeting(p.head) {
            self.offered = offered;
            if self.phase == Phase::Start {
                self.phase = Phase::Greeted;
            }
            return true;
        }
        if p.first() == Some(0xff) && self.phase == Phase::Start {
            self.requests.push(Request::unseen(Kind::Connect, p.span.first));
            self.response = Some(Response::new(Awaited::Result));
        }
        false
    }

    fn login(&mut self, p: &Packet<'_>, out: &mut Output<'_>) {
        self.phase = Phase::Authenticating;
        if login::is_tls_request(p.head, p.len) {
            out.counters.encrypted_flows += 1;
            self.encoding = Some("tls");
            let mut request = self.request(Kind::TlsRequest, p);
            request.complete = true;
            self.requests.push(request);
            return self.close(out);
        }
        let request = self.login_request(p);
        self.requests.push(request);
    }

    fn login_request(&mut self, p: &Packet<'_>) -> Request {
        let login = login::login(p.head, p.is_whole());
        self.capabilities = login.capabilities.map(|wanted| wanted & self.offered);
        self.dialect = self.capabilities.map(Dialect::of).unwrap_or_default();
        let mut request = self.request(Kind::Login, p);
        login::write_account(&mut request.text, login);
        request
    }

    fn command(&mut self, p: &Packet<'_>, out: &mut Output<'_>) -> bool {
        self.settle(out);
        let code = p.first().filter(|code| self.unbroken || command::is_plausible(*code, p.len));
        let Some(code) = code else {
            // Which command it is may be in a hole.
            self.miss_requests();
            out.counters.malformed_messages += 1;
            return self.unbroken;
        };
        if self.keeps_text && Kind::Command(code).has_text() && p.len as usize > TEXT_MAX + 1 {
            out.counters.oversized_heads += 1;
        }
        self.goes_on = p.len == PACKET_MAX;
        self.verify(p.span.last, out);
        let mut request = self.command_request(code, p);
        request.complete = !self.goes_on;
        self.requests.push(request);
        self.pipelines |= self.requests.is_pipelined(self.requests.len() - 1);
        while self.requests.overflows() {
            out.counters.evicted_requests += 1;
            self.abandon(false, out);
        }
        self.flush(out);
        true
    }

    fn command_request(&mut self, code: u8, p: &Packet<'_>) -> Request {
        let kind = Kind::Command(code);
        let mut request = self.request(kind, p);
        let body = &p.head[1..];
        if code == command::CHANGE_USER {
            login::write_account(&mut request.text, login::change_user(body, self.capabilities));
        } else if kind.has_statement() {
            request.statement = body.first_chunk().map_or(0, |id| u32::from_le_bytes(*id));
        } else if kind.has_text() && self.keeps_text {
            let text =
                if code == command::QUERY { attributes::behind(body, self.capabilities) } else { body };
            request.text.extend_from_slice(&text[..text.len().min(TEXT_MAX)]);
            request.cut = request.text.len() < TEXT_MAX && !p.is_whole();
        }
        request
    }

    fn request(&mut self, kind: Kind, p: &Packet<'_>) -> Request {
        let mut quality = std::mem::replace(&mut self.next_quality, Quality::Exact);
        if p.holed {
            quality = quality.max(Quality::GapBody);
        }
        let text = self.requests.buffer();
        let lost = p.place.is_none() && p.span.last <= self.answered_until;
        let (span, wire_bytes, packets) = (p.span, p.wire_len(), Some(p.seq.wrapping_add(1)));
        Request {
            kind,
            text,
            statement: 0,
            span,
            open_end: p.open_end,
            cut: false,
            place: p.place,
            wire_bytes,
            packets,
            complete: true,
            lost,
            followed_by_gap: false,
            tentative: false,
            behind_loss: std::mem::take(&mut self.behind_loss),
            quality,
        }
    }

    /// The first packet of a response: makes sure there is a request for it. False: it is not one.
    fn response_begins(&mut self, p: &Packet<'_>, out: &mut Output<'_>) -> bool {
        self.confirm(false, out);
        while self.requests.front().is_some_and(|r| r.lost || self.was_answered_before(r, p)) {
            self.abandon(false, out);
        }
        let is_error = p.first() == Some(0xff);
        let (awaited, expected) = match self.requests.front() {
            Some(r) if self.can_be_to(r, p) => (r.awaited(), r.packets),
            _ if p.seq != 1 && !(is_error && p.seq == 0) => return false,
            _ => {
                // Should its request still come, it must not get a later response.
                self.answered_until = self.answered_until.max(p.span.first);
                self.uncertain = true;
                self.requests.push_front(Request::unseen(Kind::Unseen, p.span.first));
                (Awaited::Result, None)
            }
        };
        let in_sequence =
            expected.is_none_or(|n| n == p.seq) || awaited == Awaited::Auth || self.dialect.unordered;
        if !in_sequence && !is_error {
            out.counters.malformed_messages += 1;
            return false;
        }
        self.response = Some(Response::new(awaited));
        if self.requests.front().is_some_and(|r| r.kind == Kind::Unseen) {
            self.response.iter_mut().for_each(|r| r.unasked = true);
        }
        true
    }

    /// Whether the response to `request` came before `p`: then it was lost.
    fn was_answered_before(&self, request: &Request, p: &Packet<'_>) -> bool {
        let places =
            request.place.zip(p.place).filter(|_| !self.pipelines && request.awaited() != Awaited::Nothing);
        places.is_some_and(|(asked, answered)| fit(asked, answered) == Fit::Later)
    }

    /// Whether a response that begins with `p` can be to `request`.
    fn can_be_to(&self, request: &Request, p: &Packet<'_>) -> bool {
        match (request.place, p.place) {
            (Some(asked), Some(answered)) => fit(asked, answered) != Fit::Impossible,
            _ => !(self.uncertain && p.span.first < request.span.last && request.complete),
        }
    }

    /// A response that may be over is.
    fn settle(&mut self, out: &mut Output<'_>) {
        if self.response.as_ref().is_some_and(Response::may_be_over) {
            self.dialect.deprecate_eof.get_or_insert(true);
            self.finish(out);
        }
    }

    /// The oldest request's response is over.
    fn finish(&mut self, out: &mut Output<'_>) {
        let Some(response) = self.response.take() else { return };
        let Some(mut request) = self.requests.pop() else { return };
        if request.tentative {
            self.parked = Some((request, response));
        } else {
            self.conclude(&mut request, &response, out);
        }
    }

    /// The client has asked again, at `ts`: what was paired tentatively is right if that came after the response began.
    fn verify(&mut self, ts: Timestamp, out: &mut Output<'_>) {
        let begun = |r: &Response| r.span.map_or(ts, |s| s.first);
        if let Some((_, response)) = &self.parked {
            let right = ts >= begun(response);
            return self.confirm(right, out);
        }
        let Some(response) = &mut self.response else { return };
        if response.span.is_some_and(|s| ts < s.last) && response.holed {
            response.open_end = true;
        }
        let right = ts >= begun(response);
        if let Some(request) = self.requests.front_mut().filter(|r| r.tentative) {
            request.tentative = false;
            if !right {
                self.response = None;
                self.abandon(false, out);
            }
        }
    }

    /// What was paired tentatively is right, or cannot be known to be.
    fn confirm(&mut self, right: bool, out: &mut Output<'_>) {
        let Some((mut request, response)) = self.parked.take() else { return };
        if right {
            return self.conclude(&mut request, &response, out);
        }
        let first = response.span.map_or(request.span.last, |s| s.first);
        self.emit(&request, None, Quality::Half, false, out);
        self.emit(
            &Request::unseen(Kind::Unseen, first),
            Some(&response),
            Quality::Half,
            !response.doubtful,
            out,
        );
    }

    /// A transaction is over.
    fn conclude(&mut self, request: &mut Request, response: &Response, out: &mut Output<'_>) {
        let quality = if response.holed { Quality::GapBody } else { Quality::Exact };
        let failed = response.outcome.error.is_some();
        self.take_effect(request, response, failed);
        self.emit(request, Some(response), quality.max(request.quality), !response.doubtful, out);
        match (request.kind, response.outcome.statement) {
            (Kind::Command(command::STMT_PREPARE), Some(id)) if self.keeps_text => {
                if request.cut {
                    self.statements.insert_unread(id);
                } else {
                    self.statements.insert(id, std::mem::take(&mut request.text));
                }
            }
            (Kind::Command(command::STMT_PREPARE), _) => self.statements.preparation_failed(),
            _ => {}
        }
        if request.is_seen() && request.packets.is_some() {
            (self.uncertain, self.response_lost) = (false, false);
        }
        self.requests.recycle(std::mem::take(&mut request.text));
        self.flush(out);
        if response.outcome.endless || request.kind == Kind::Connect {
            self.close(out);
        }
    }

    /// What a response changes for what comes after it.
    fn take_effect(&mut self, request: &Request, response: &Response, failed: bool) {
        self.doubt_account(request, Some(response));
        match request.kind {
            Kind::Login | Kind::Command(command::CHANGE_USER) => self.take_account(request),
            _ => {}
        }
        match request.kind {
            Kind::Command(command::CHANGE_USER | command::RESET_CONNECTION) if !failed => {
                self.statements.clear()
            }
            Kind::Login if !failed => {
                self.phase = Phase::Commands;
                self.encoding = self.agreed_compression();
                self.packs = self.encoding.is_some();
                self.dialect.unordered = self.packs;
            }
            _ => {}
        }
        if !failed {
            let asked = request.database_after();
            let changed = match (&response.outcome.database, &asked) {
                // The request says what the response, of which that part is missing, does not.
                (DefaultDatabase::Unread, DefaultDatabase::Is(_)) | (DefaultDatabase::Unchanged, _) => &asked,
                (told, _) => told,
            };
            changed.apply(&mut self.database);
        }
    }

    fn take_account(&mut self, request: &Request) {
        let account = login::read_account(&request.text);
        self.user = account.map(|(user, _)| user.to_vec());
        self.database = account.map(|(_, name)| name.to_vec()).filter(|name| !name.is_empty());
    }

    fn agreed_compression(&self) -> Option<&'static str> {
        match self.capabilities? {
            c if c & capability::COMPRESS != 0 => Some("zlib"),
            c if c & capability::ZSTD != 0 => Some("zstd"),
            _ => None,
        }
    }

    /// Writes those that await nothing.
    fn flush(&mut self, out: &mut Output<'_>) {
        while self.response.is_none() {
            match self.requests.front() {
                Some(r) if r.awaited() == Awaited::Nothing && r.complete => {}
                _ => return,
            }
            let Some(request) = self.requests.pop() else { return };
            self.emit(&request, None, request.quality, true, out);
            if request.kind == Kind::Command(command::STMT_CLOSE) {
                self.statements.remove(request.statement);
            }
            self.requests.recycle(request.text);
        }
    }

    /// The oldest request gets no response, or no more of the one that has begun; `over`: that one did end.
    fn abandon(&mut self, over: bool, out: &mut Output<'_>) {
        let Some(request) = self.requests.pop() else { return };
        if matches!(request.kind, Kind::Login | Kind::Command(command::CHANGE_USER)) {
            self.take_account(&request);
        } else if request.database_after() != DefaultDatabase::Unchanged {
            // Whether it did is not known.
            self.database = None;
        }
        let response = self.response.take();
        let over = over && response.is_some() || request.complete && request.awaited() == Awaited::Nothing;
        let quality = if over { Quality::GapBody.max(request.quality) } else { Quality::Half };
        let quality = if response.is_none() && over { request.quality } else { quality };
        self.emit(&request, response.as_ref(), quality, over, out);
        self.requests.recycle(request.text);
    }

    /// A request that is missing may have been `USE` or `COM_CHANGE_USER`, unless its response was that to something
    /// else.
    fn doubt_account(&mut self, request: &Request, response: Option<&Response>) {
        if request.kind == Kind::Unseen && self.unseen != Unseen::Nothing {
            let harmless = response.map(|response| &response.outcome).is_some_and(|o| {
                o.rows.is_some() || o.error.is_some() || o.affected_rows.is_some_and(|rows| rows > 0)
            });
            self.unseen = match self.unseen {
                Unseen::Anything => Unseen::Anything,
                _ if harmless => Unseen::Harmless,
                _ => Unseen::Anything,
            };
        }
        if request.behind_loss {
            // What was lost since then is for the request behind that.
            let lost_since = self.behind_loss || self.requests.iter_mut().any(|r| r.behind_loss);
            let next = if lost_since { Unseen::Anything } else { Unseen::Nothing };
            if let Unseen::Unanswered | Unseen::Anything = std::mem::replace(&mut self.unseen, next) {
                (self.user, self.database) = (None, None);
            }
        }
    }

    fn emit(
        &mut self,
        request: &Request,
        response: Option<&Response>,
        quality: Quality,
        over: bool,
        out: &mut Output<'_>,
    ) {
        self.doubt_account(request, response);
        let statement =
            if request.kind.has_statement() { self.statements.find(request.statement) } else { None };
        let wants_fingerprint = out.wants(FINGERPRINT);
        let (query, fingerprint): (Option<&[u8]>, Option<&[u8]>) = match (statement, request.kind) {
            (Some(statement), _) => {
                if wants_fingerprint {
                    statement.fingerprint();
                }
                (Some(&statement.text), statement.known_fingerprint())
            }
            (None, Kind::Command(code)) if request.kind.has_text() && !request.cut => {
                let is_sql = code != command::INIT_DB;
                if is_sql && wants_fingerprint {
                    fingerprint(&request.text, &mut self.scratch, &mut self.fingerprint, out);
                }
                (Some(&request.text), is_sql.then_some(&self.fingerprint))
            }
            _ => (None, None),
        };
        let context = Context {
            query,
            fingerprint,
            // What was not seen may have changed them.
            user: self.user.as_deref().filter(|_| request.kind != Kind::Unseen),
            database: self.database.as_deref().filter(|_| request.kind != Kind::Unseen),
            encoding: self.encoding,
        };
        let fill = |w: &mut TupleWriter| tuples::write(w, request, response.map(|r| (r, over)), &context);
        out.emit(request.span.first, quality, |_| true, fill);
    }
}

/// Makes `fingerprint` that of `sql`: of statements that differ in their literals alone, once.
fn fingerprint(sql: &[u8], scratch: &mut Vec<u8>, fingerprint: &mut Vec<u8>, out: &mut Output<'_>) {
    fingerprint.clear();
    scratch.clear();
    match out.memo() {
        Some(memo) if shorten(sql, SHORT_MAX, scratch) => {
            memo.append(scratch, fingerprint, fingerprint::fingerprint);
        }
        _ => fingerprint::fingerprint(sql, fingerprint),
    }
}

//! HTTP/1 (RFC 9110, 9112): one tuple per request with its response.
//!
//! Reads both byte streams in place: heads line by line, bodies by arithmetic; only a head that comes in pieces is
//! copied, at most 64 KiB of it. Pairs in order, also over gaps and in connections joined midway, and then hands out
//! halves rather than a wrong pair ([`crate::in_order`]). An interim response is not the answer. After `101 Switching
//! Protocols` or a CONNECT that succeeded the connection is somebody else's.
//!
//! Body bytes are counted as they are transferred: with chunk sizes and trailers, compressed as they come.
//! Does not read HTTP/2, does not decode contents, does not reconstruct what a proxy or cache would have done.

mod body;
mod head;
mod lane;
mod probe;
mod transaction;
mod url;

#[cfg(test)]
mod tests;

use tuple::Schema;
use wire::Timestamp;

use self::body::{Body, Skip};
use self::head::{Coding, Head, RequestHead, RequestLine, ResponseHead};
use self::lane::{Collected, Lane, State};
use self::transaction::{Method, Request, Response, Texts, Wanted};
use crate::in_order::{InOrder, Place};
use crate::{Direction, Output, Protocol, Span, StreamParser};

/// Variant: every transaction.
pub const ALL: u8 = 0;
/// Variant: GET only.
pub const GET_ONLY: u8 = 1;

/// Most text kept of requests that wait for responses.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The protocol.
pub static PROTOCOL: Protocol = Protocol {
    name: "http",
    ports: &[80, 8000, 8008, 8080, 8081, 8888, 3000, 3128, 5000, 9200],
    tcp: true,
    udp: false,
    probe: probe::probe,
    start: || Box::<Parser>::default(),
};

/// The fields of both parsers.
pub mod fields {
    tuple::fields! {
        METHOD: Text, None, "method", "request method";
        HOST: Text, None, "host", "host and port asked for: of the request target, else the Host field";
        PATH: Text, None, "path", "path asked for, without the query string";
        URL_QUERY: Text, None, "url_query", "what follows the ? in the request target";
        URL: Text, None, "url", "host, path and query string";
        URL_TEMPLATE: Text, None, "url_template", "path with numbers, UUIDs and long tokens as {id}";
        HTTP_VERSION: Text, None, "http_version", "0.9, 1.0 or 1.1: the request's, else the response's";
        STATUS: U64, None, "status", "response status code";
        INTERIM_STATUS: U64, None, "interim_status", "status code of the last interim response (1xx) before it";
        REQUEST_BYTES: U64, Bytes, "request_bytes", "request body as transferred, chunk framing included";
        RESPONSE_BYTES: U64, Bytes, "response_bytes", "response body as transferred, chunk framing included";
        RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "last byte of the request to first byte of the response";
        TRANSFER_TIME_NS: I64, Nanoseconds, "transfer_time_ns", "first to last byte of the response";
        USER_AGENT: Text, None, "user_agent", "the request's User-Agent field";
        CONTENT_TYPE: Text, None, "content_type", "the response's Content-Type field";
    }
}

/// The schema of `http`.
#[must_use]
pub fn schema() -> Schema {
    schema_of("http", "HTTP/1 requests with their responses")
}

/// The schema of `http_get`.
#[must_use]
pub fn schema_get() -> Schema {
    schema_of("http_get", "HTTP/1 GET requests with their responses")
}

fn schema_of(name: &'static str, doc: &'static str) -> Schema {
    Schema::of_parser(name, 1, doc, fields::FIELDS, Some(fields::RESPONSE_TIME_NS), Some(fields::URL))
}

/// One connection.
struct Parser {
    client: Lane,
    server: Lane,
    exchanges: InOrder<Request, Response>,
    /// The request whose body the client is sending.
    request: u64,
    /// The response whose body the server is sending.
    response: Place,
    /// Status of the last interim response.
    interim: u16,
    /// The final response came before the body that the client said it would send: it may not send it.
    body_doubtful: bool,
    /// Texts of the requests held.
    waiting_bytes: usize,
    server_seen: bool,
    emitted: bool,
    done: bool,
    wanted: Option<Wanted>,
    texts: Texts,
    scratch: Vec<u8>,
}

impl Default for Parser {
    fn default() -> Self {
        Parser {
            client: Lane::new(Direction::ClientToServer),
            server: Lane::new(Direction::ServerToClient),
            exchanges: InOrder::default(),
            request: 0,
            response: Place::Alone,
            interim: 0,
            body_doubtful: false,
            waiting_bytes: 0,
            server_seen: false,
            emitted: false,
            done: false,
            wanted: None,
            texts: Texts::default(),
            scratch: Vec::new(),
        }
    }
}

impl StreamParser for Parser {
    fn on_bytes(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        if direction == Direction::ServerToClient && !bytes.is_empty() {
            self.complete_simple_request(out);
        }
        let mut rest = bytes;
        while !rest.is_empty() && !self.done {
            let used = self.step(direction, rest, ts, out);
            rest = &rest[used..];
        }
        self.server_seen |= direction == Direction::ServerToClient;
    }

    fn on_gap(&mut self, direction: Direction, len: u64, _: Timestamp, out: &mut Output<'_>) {
        if self.done || len == 0 {
            return;
        }
        match self.lane(direction).state {
            State::Between | State::Head => {
                let bytes = len.saturating_add(self.lane(direction).collected() as u64);
                self.lane(direction).clear();
                self.lose_to_gap(direction, bytes, true, out);
            }
            State::LongHead { .. } => self.lose_end(direction, len, out),
            State::Body(body) => self.skip(direction, body, len, out),
            State::Lost => {
                let before = self.lane(direction).loss;
                self.lane(direction).loss = Some(self.exchanges.loss(direction, before, len, false));
            }
        }
        self.flush(out);
    }

    fn on_end(&mut self, direction: Direction, _: Timestamp, out: &mut Output<'_>) {
        if direction == Direction::ClientToServer {
            self.complete_simple_request(out);
        }
        self.end(direction, out);
        self.flush(out);
    }

    fn on_close(&mut self, out: &mut Output<'_>) {
        self.complete_simple_request(out);
        self.end(Direction::ServerToClient, out);
        self.end(Direction::ClientToServer, out);
        self.exchanges.close();
        self.flush(out);
    }

    fn is_done(&self) -> bool {
        self.done
    }
}

/// Bytes: each step uses some, or changes the state so that the next one does.
impl Parser {
    fn step(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        match self.lane(direction).state {
            State::Between => self.between(direction, bytes, ts, out),
            State::Head => self.collect(direction, bytes, ts, out),
            State::LongHead { line_empty, body } => {
                self.long_head(direction, line_empty, body, bytes, ts, out)
            }
            State::Body(body) => self.body(direction, body, bytes, ts, out),
            State::Lost => self.search(direction, bytes, ts, out),
        }
    }

    /// A head that lies in `bytes` as a whole is read where it lies.
    fn between(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        if matches!(bytes[0], b'\r' | b'\n') {
            return bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        }
        let partial = match direction {
            Direction::ClientToServer => match head::request(bytes) {
                Head::Complete { head, len, folded: false } => {
                    self.begin_request(&head, len, Span::at(ts), None, out);
                    return len;
                }
                head => head != Head::Invalid,
            },
            Direction::ServerToClient if self.answers_simple(bytes) => {
                self.begin_simple_response(ts, out);
                return 0;
            }
            Direction::ServerToClient => match head::response(bytes) {
                Head::Complete { head, len, folded: false } => {
                    self.begin_response(&head, Span::at(ts), None, out);
                    return len;
                }
                head => head != Head::Invalid,
            },
        };
        if partial {
            self.start_head(direction, ts, false);
        } else {
            self.not_a_head(direction, out);
        }
        0
    }

    fn collect(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        let lane = self.lane(direction);
        let (used, what) = lane.collect(bytes, ts);
        match what {
            Collected::More => {}
            Collected::Complete => self.begin_collected(direction, None, out),
            Collected::TooLong => {
                let line_empty = lane.at_line_start();
                out.counters.oversized_heads += 1;
                self.begin_collected(direction, Some(line_empty), out);
            }
            Collected::NoHead => self.not_a_head(direction, out),
        }
        used
    }

    /// Passes over what is too long in a head.
    fn long_head(
        &mut self,
        direction: Direction,
        mut line_empty: bool,
        body: Body,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> usize {
        self.extend(direction, 0, ts);
        let mut at = 0;
        while let Some(nl) = memchr::memchr(b'\n', &bytes[at..]) {
            let empty = line_empty && matches!(&bytes[at..at + nl], [] | [b'\r']);
            at += nl + 1;
            if empty {
                self.enter(direction, body, None, out);
                return at;
            }
            line_empty = true;
        }
        line_empty &= matches!(&bytes[at..], [] | [b'\r']);
        self.lane(direction).state = State::LongHead { line_empty, body };
        bytes.len()
    }

    fn body(
        &mut self,
        direction: Direction,
        mut body: Body,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> usize {
        if self.has_no_body_after_all(direction, bytes) {
            self.finish(direction, out);
            return 0;
        }
        let advance = body.advance(bytes);
        out.counters.malformed_messages += u64::from(advance.malformed);
        self.extend(direction, advance.used as u64, ts);
        self.lane(direction).state = State::Body(body);
        if advance.done {
            self.finish(direction, out);
        }
        advance.used
    }

    fn search(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        let found = self.lane(direction).find(bytes);
        if let Some(loss) = self.lane(direction).loss.take() {
            self.exchanges.resume(direction, loss, found == Some(0), ts);
        }
        let skipped = found.unwrap_or(bytes.len());
        out.counters.skipped_bytes += skipped as u64;
        if found.is_some() {
            self.start_head(direction, ts, true);
        }
        skipped
    }
}

/// Messages.
impl Parser {
    fn start_head(&mut self, direction: Direction, ts: Timestamp, found: bool) {
        let lane = self.lane(direction);
        lane.clear();
        lane.found = found;
        lane.span = Span::at(ts);
        lane.state = State::Head;
    }

    /// The collected head is complete, or too long (`long`: whether its last line is empty so far).
    fn begin_collected(&mut self, direction: Direction, long: Option<bool>, out: &mut Output<'_>) {
        let (mut bytes, span, found) = self.lane(direction).take();
        if long.is_some() {
            // The start line itself may be too long: what is there of it counts.
            bytes.push(b'\n');
        }
        let mut unfolded = Vec::new();
        match direction {
            Direction::ClientToServer => match whole(&bytes, &mut unfolded, head::request) {
                Some(head) => {
                    self.begin_request(&head, bytes.len(), span, Some(Collection { found, long }), out)
                }
                None => self.not_a_head(direction, out),
            },
            Direction::ServerToClient => match whole(&bytes, &mut unfolded, head::response) {
                Some(head) => self.begin_response(&head, span, Some(Collection { found, long }), out),
                None => self.not_a_head(direction, out),
            },
        }
        self.lane(direction).give_back(bytes);
    }

    fn begin_request(
        &mut self,
        head: &RequestHead<'_>,
        len: usize,
        span: Span,
        how: Option<Collection>,
        out: &mut Output<'_>,
    ) {
        let how = how.unwrap_or_default();
        let wanted = *self.wanted.get_or_insert_with(|| Wanted::new(out));
        let request = Request::new(head, span, wanted, &mut self.texts);
        self.waiting_bytes += request.text_bytes();
        while self.waiting_bytes > WAITING_BYTES_MAX && self.exchanges.evict_oldest() {
            self.flush(out);
        }
        self.request = self.exchanges.request(request, len, span.first, how.found);
        self.body_doubtful = false;
        out.counters.evicted_requests += self.exchanges.take_evicted();
        let framing = head.framing;
        let body = match framing.coding {
            Coding::Chunked => Body::CHUNKED,
            Coding::Other => Body::Length(0),
            Coding::None => Body::Length(framing.content_length.unwrap_or(0)),
        };
        out.counters.malformed_messages += u64::from(framing.bad_length || framing.coding == Coding::Other);
        self.enter(Direction::ClientToServer, body, how.long, out);
    }

    fn begin_response(
        &mut self,
        head: &ResponseHead<'_>,
        span: Span,
        how: Option<Collection>,
        out: &mut Output<'_>,
    ) {
        let how = how.unwrap_or_default();
        let status = head.status;
        if (100..200).contains(&status) && status != 101 {
            self.interim = status;
            match how.long {
                Some(_) => self.lose(Direction::ServerToClient, out),
                None => self.server.state = State::Between,
            }
            return;
        }
        let wanted = *self.wanted.get_or_insert_with(|| Wanted::new(out));
        let interim = std::mem::take(&mut self.interim);
        let response = Response::new(head, span, interim, wanted, &mut self.texts);
        let may_be_early = !out.flow.midstream || self.exchanges.requests() > 0;
        self.response = self.exchanges.response(response, span.first, how.found, may_be_early);
        let request = self.exchanges.request_of(self.response);
        let method = request.map(|r| r.method);
        self.body_doubtful = request.is_some_and(|r| r.expects_continue && r.body_bytes == 0)
            && self.response == Place::With(self.request)
            && matches!(self.client.state, State::Body(_));
        out.counters.malformed_messages += u64::from(head.framing.bad_length);
        if status == 101 || method == Some(Method::Connect) && (200..300).contains(&status) {
            self.switch_protocols(out);
        } else {
            self.enter(Direction::ServerToClient, response_body(head, method), how.long, out);
        }
    }

    /// What follows is not HTTP/1.
    fn switch_protocols(&mut self, out: &mut Output<'_>) {
        self.finish(Direction::ServerToClient, out);
        self.end(Direction::ClientToServer, out);
        self.exchanges.close();
        self.flush(out);
        self.done = true;
    }

    /// The head of a message is over and its body begins.
    fn enter(&mut self, direction: Direction, body: Body, long: Option<bool>, out: &mut Output<'_>) {
        match long {
            Some(line_empty) => self.lane(direction).state = State::LongHead { line_empty, body },
            None if body == Body::Length(0) => self.finish(direction, out),
            None => self.lane(direction).state = State::Body(body),
        }
    }

    /// More bytes of the message in progress.
    fn extend(&mut self, direction: Direction, body_bytes: u64, ts: Timestamp) {
        if let Some((span, bytes, ..)) = self.message(direction) {
            span.extend(ts);
            *bytes = bytes.saturating_add(body_bytes);
        }
    }

    /// The message in progress is complete.
    fn finish(&mut self, direction: Direction, out: &mut Output<'_>) {
        match direction {
            Direction::ClientToServer => self.exchanges.finish_request(self.request),
            Direction::ServerToClient => {
                let last = self.exchanges.response_mut(self.response).map_or(Timestamp::MIN, |r| r.span.last);
                self.exchanges.finish_response(self.response, last);
            }
        }
        self.lane(direction).state = State::Between;
        self.flush(out);
    }

    /// A body was announced, but the other end's behaviour says that it need not come, and `bytes` begin another message:
    /// the client did not get its `100 Continue`; or the response may be one to HEAD.
    fn has_no_body_after_all(&mut self, direction: Direction, bytes: &[u8]) -> bool {
        match direction {
            Direction::ClientToServer => {
                let end = memchr::memchr(b'\n', bytes);
                let line = head::without_cr(&bytes[..end.unwrap_or(bytes.len())]);
                std::mem::take(&mut self.body_doubtful) && head::is_plausible_request(line, end.is_none())
            }
            Direction::ServerToClient => {
                let place = self.response;
                bytes.starts_with(b"HTTP/1.")
                    && self.exchanges.request_of(place).is_none_or(|r| r.method == Method::Head)
                    && self.exchanges.response_mut(place).is_some_and(|r| r.body_bytes == 0)
            }
        }
    }

    /// A client that has sent one line without a version, and waits: HTTP/0.9.
    fn complete_simple_request(&mut self, out: &mut Output<'_>) {
        if self.client.state != State::Head || !self.client.at_line_start() || self.client.found {
            return;
        }
        let (bytes, span, _) = self.client.take();
        let line = bytes.strip_suffix(b"\n").map(head::without_cr).and_then(head::request_line);
        match line.filter(probe::is_simple) {
            Some(line) => {
                let line = RequestLine { version: Some(*b"0.9"), ..line };
                let head = RequestHead {
                    line,
                    host: None,
                    user_agent: None,
                    framing: head::Framing::default(),
                    expects_continue: false,
                };
                self.begin_request(&head, bytes.len(), span, None, out);
                self.client.give_back(bytes);
            }
            None => self.client.resume(bytes),
        }
    }

    fn answers_simple(&self, bytes: &[u8]) -> bool {
        self.exchanges.next_to_answer().is_some_and(Request::is_simple)
            && !bytes.starts_with(&b"HTTP/"[..bytes.len().min(5)])
    }

    fn begin_simple_response(&mut self, ts: Timestamp, out: &mut Output<'_>) {
        self.response = self.exchanges.response(Response::simple(Span::at(ts)), ts, false, false);
        self.enter(Direction::ServerToClient, Body::UntilEnd, None, out);
    }
}

/// Losses and ends.
impl Parser {
    /// The bytes at hand, which should begin a message, do not.
    fn not_a_head(&mut self, direction: Direction, out: &mut Output<'_>) {
        let joined = direction == Direction::ServerToClient && out.flow.midstream && !self.server_seen;
        if joined && self.exchanges.is_waiting() {
            self.exchanges.join_midway();
        }
        out.counters.malformed_messages += u64::from(!joined && !self.lane(direction).found);
        self.lose(direction, out);
    }

    /// Where `direction` is in its byte stream is not known any more, because of what is in it.
    fn lose(&mut self, direction: Direction, out: &mut Output<'_>) {
        out.counters.resyncs += 1;
        self.lane(direction).state = State::Lost;
        self.exchanges.lose(direction, out.now);
    }

    /// The same, because of what is missing.
    fn lose_to_gap(&mut self, direction: Direction, len: u64, next_began: bool, out: &mut Output<'_>) {
        out.counters.resyncs += 1;
        let loss = self.exchanges.loss(direction, None, len, next_began);
        let lane = self.lane(direction);
        lane.state = State::Lost;
        lane.loss = Some(loss);
        if direction == Direction::ServerToClient {
            self.interim = 0;
        }
    }

    /// A gap in a body. What is missing does not count for its times: it came between what was seen.
    fn skip(&mut self, direction: Direction, mut body: Body, len: u64, out: &mut Output<'_>) {
        let skip = body.skip(len);
        let missing = match skip {
            Skip::EndedInside(over) => len - over,
            _ => len,
        };
        if let Some((_, bytes, gap, _)) = self.message(direction) {
            *gap = true;
            *bytes = bytes.saturating_add(missing);
        }
        match skip {
            Skip::Inside => self.lane(direction).state = State::Body(body),
            Skip::Ended => self.finish(direction, out),
            Skip::EndedInside(over) => {
                self.finish(direction, out);
                self.lose_to_gap(direction, over, true, out);
            }
            Skip::Lost => self.lose_end(direction, len, out),
        }
    }

    /// The end of the message in progress is somewhere in a gap.
    fn lose_end(&mut self, direction: Direction, len: u64, out: &mut Output<'_>) {
        if let Some((_, _, gap, end_lost)) = self.message(direction) {
            (*gap, *end_lost) = (true, true);
        }
        self.finish(direction, out);
        self.lose_to_gap(direction, len, false, out);
    }

    /// No more bytes of `direction` will come.
    fn end(&mut self, direction: Direction, out: &mut Output<'_>) {
        match self.lane(direction).state {
            State::Body(_) | State::LongHead { .. } => self.finish(direction, out),
            State::Between | State::Head | State::Lost => {}
        }
        let lane = self.lane(direction);
        lane.clear();
        lane.state = State::Between;
        match direction {
            Direction::ClientToServer => self.exchanges.no_more_requests(),
            Direction::ServerToClient => self.exchanges.no_more_responses(),
        }
    }

    fn flush(&mut self, out: &mut Output<'_>) {
        while let Some(exchange) = self.exchanges.pop() {
            let wanted = *self.wanted.get_or_insert_with(|| Wanted::new(out));
            transaction::emit(&exchange, !self.emitted, wanted, &mut self.scratch, out);
            self.emitted = true;
            self.waiting_bytes -= exchange.request.as_ref().map_or(0, Request::text_bytes);
            self.texts.recycle(exchange);
        }
    }

    fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    /// Times, body bytes, gap and lost end of the message in progress.
    fn message(&mut self, direction: Direction) -> Option<(&mut Span, &mut u64, &mut bool, &mut bool)> {
        match direction {
            Direction::ClientToServer => {
                let m = self.exchanges.request_mut(self.request)?;
                Some((&mut m.span, &mut m.body_bytes, &mut m.gap, &mut m.end_lost))
            }
            Direction::ServerToClient => {
                let m = self.exchanges.response_mut(self.response)?;
                Some((&mut m.span, &mut m.body_bytes, &mut m.gap, &mut m.end_lost))
            }
        }
    }
}

/// How a head was come by that did not lie in one piece.
#[derive(Clone, Copy, Default)]
struct Collection {
    /// By looking for it.
    found: bool,
    /// It is longer than the limit, and the last line held is empty so far.
    long: Option<bool>,
}

/// The head in `bytes`, with folded fields put together.
fn whole<'a, H>(bytes: &'a [u8], unfolded: &'a mut Vec<u8>, read: impl Fn(&'a [u8]) -> Head<H>) -> Option<H> {
    match read(bytes) {
        Head::Complete { head, folded: false, .. } | Head::Partial(Some(head)) => Some(head),
        Head::Complete { head, .. } => {
            *unfolded = head::unfold(bytes);
            match read(unfolded) {
                Head::Complete { head, .. } => Some(head),
                Head::Partial(_) | Head::Invalid => Some(head),
            }
        }
        Head::Partial(None) | Head::Invalid => None,
    }
}

/// RFC 9112 section 6.3.
fn response_body(head: &ResponseHead<'_>, method: Option<Method>) -> Body {
    if matches!(head.status, 204 | 304) || method == Some(Method::Head) {
        return Body::Length(0);
    }
    match (head.framing.coding, head.framing.content_length) {
        (Coding::Chunked, _) => Body::CHUNKED,
        (Coding::None, Some(n)) => Body::Length(n),
        _ => Body::UntilEnd,
    }
}

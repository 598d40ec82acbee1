//! Messages of an HTTP/1 connection: what follows a head, which response answers which request, and when both
//! are complete.

use wire::TcpSeq;

use super::body::HttpBody;
use super::byte_stream::{self, HttpMessageExtent, HttpStreamState};
use super::connection::{HeadOrigin, HttpConnection, HttpSuccessor};
use super::head::{self, HeadParseResult, RequestHead, RequestLine, ResponseHead, TransferCoding};
use super::head_tail::HttpHeadTruncation;
use super::probe;
use super::transaction::{self, HttpMethod, HttpProjection, HttpRequest};
use crate::http2::Http2Connection;
use crate::pairing::{ResponseExpectation, ResponseMatch, ResponseSlot};
use crate::{Direction, MessageSpan, ParserOutput, StreamSegment};

/// Maximum bytes of text of outstanding requests, besides borrowed memory.
const WAITING_BYTES_MAX: usize = 1 << 20;

impl HttpConnection {
    /// Handles the collected head.
    #[cold]
    pub(super) fn begin_collected(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let fields = self.wanted(out).fields;
        let byte_stream::CollectedHead {
            bytes,
            span,
            place,
            found,
            len,
            cut,
        } = self.lane(direction).take();
        let how = HeadOrigin {
            found,
            cut,
            place,
            len: Some(len),
        };
        out.counters.oversized_heads += u64::from(cut != HttpHeadTruncation::default());
        let mut unfolded = Vec::new();
        match direction {
            Direction::ClientToServer => {
                match whole(&bytes, &mut unfolded, |b| head::request(b, fields)) {
                    Some(head) => self.begin_request(&head, &bytes, span, how, out),
                    None => self.not_a_head(direction, out),
                }
            }
            Direction::ServerToClient => {
                match whole(&bytes, &mut unfolded, |b| head::response(b, fields)) {
                    Some(head) => self.begin_response(&head, &bytes, span, how, out),
                    None => self.not_a_head(direction, out),
                }
            }
        }
        self.lane(direction).give_back(bytes);
    }

    #[inline]
    pub(super) fn begin_request(
        &mut self,
        head: &RequestHead<'_>,
        bytes: &[u8],
        span: MessageSpan,
        how: HeadOrigin,
        out: &mut ParserOutput<'_>,
    ) {
        let wanted = self.wanted.get_or_insert_with(|| HttpProjection::new(out));
        self.transactions.make_room(out, HttpRequest::text_bytes);
        let (number, request) = self.transactions.request(
            span.first,
            how.place,
            ResponseExpectation::Response,
            how.found,
        );
        request.become_one(head, wanted);
        if let Some(named) = &wanted.headers {
            request.keep_headers(bytes, named);
        }
        self.simple |= request.is_simple();
        self.waiting_bytes += request.text_bytes();
        self.request = number;
        self.client.message = HttpMessageExtent::at(span.last);
        self.client.message.gap = how.is_cut(wanted.headers.is_some());
        self.body_doubtful = false;
        if head.expects_continue {
            // A `100 Continue` is not a final response: missing bytes may hide only that.
            self.transactions.allow_unsolicited_messages();
        }
        self.bound(out);
        let framing = head.framing;
        let body = match framing.coding {
            TransferCoding::Chunked => HttpBody::CHUNKED,
            TransferCoding::Other => HttpBody::Length(0),
            TransferCoding::None => HttpBody::Length(framing.content_length.unwrap_or(0)),
        };
        out.counters.malformed_messages +=
            u64::from(framing.bad_length || framing.coding == TransferCoding::Other);
        self.enter(
            Direction::ClientToServer,
            body,
            Some(how.end(bytes.len())),
            out,
        );
    }

    #[inline]
    pub(super) fn begin_response(
        &mut self,
        head: &ResponseHead<'_>,
        bytes: &[u8],
        span: MessageSpan,
        how: HeadOrigin,
        out: &mut ParserOutput<'_>,
    ) {
        let status = head.status;
        if (100..200).contains(&status) && status != 101 {
            self.interim = status;
            self.transactions.allow_unsolicited_messages();
            self.transactions.pass(
                Direction::ServerToClient,
                how.place.seq,
                Some(how.end(bytes.len())),
            );
            self.server.state = HttpStreamState::Between;
            return;
        }
        let interim = std::mem::take(&mut self.interim);
        let (spot, response) = self
            .transactions
            .response(span.first, how.place, |_| ResponseMatch::Maybe);
        response.become_one(head, interim);
        let named = self
            .wanted
            .as_ref()
            .and_then(|wanted| wanted.headers.as_ref());
        if let Some(named) = named {
            response.keep_headers(bytes, named);
        }
        self.response = spot;
        self.server.message = HttpMessageExtent::at(span.last);
        self.server.message.gap = how.is_cut(named.is_some());
        let request = self.transactions.request_of(spot);
        let method = request.map(|r| r.method);
        self.body_doubtful = request.is_some_and(|r| r.expects_continue)
            && spot == ResponseSlot::With(self.request)
            && matches!(self.client.state, HttpStreamState::Body(_))
            && self.client.message.body_bytes == 0;
        out.counters.malformed_messages += u64::from(head.framing.bad_length);
        let is_tunnel = method == Some(HttpMethod::Connect) && (200..300).contains(&status);
        if status == 101 || is_tunnel {
            self.behind = if is_tunnel {
                HttpSuccessor::Tunneled
            } else {
                HttpSuccessor::Unread
            };
            if status == 101 && head::is_upgrade_to_h2c(bytes) {
                self.upgrade();
            }
            self.switch_protocols(Some(how.end(bytes.len())), out);
        } else {
            let body = response_body(head, method);
            self.enter(
                Direction::ServerToClient,
                body,
                Some(how.end(bytes.len())),
                out,
            );
        }
    }

    /// Starts HTTP/2, whose first stream has the request in progress.
    #[cold]
    fn upgrade(&mut self) {
        let last = self.client.message.last;
        let request = self.transactions.request_of(self.response);
        let request = request.map(|request| request.upgraded(last));
        self.http2 = Some(Box::new(Http2Connection::upgraded(request.as_ref())));
    }

    /// Ends HTTP/1 on the connection.
    #[cold]
    fn switch_protocols(&mut self, end: Option<TcpSeq>, out: &mut ParserOutput<'_>) {
        self.finish(Direction::ServerToClient, end, out);
        self.end(Direction::ClientToServer, out);
        self.transactions.close();
        self.flush(out);
        self.client.state = HttpStreamState::Over;
        self.server.state = HttpStreamState::Over;
    }

    /// Enters the body of a message whose head ended at `end`.
    #[inline]
    pub(super) fn enter(
        &mut self,
        direction: Direction,
        body: HttpBody,
        end: Option<TcpSeq>,
        out: &mut ParserOutput<'_>,
    ) {
        match body {
            HttpBody::Length(0) => self.finish(direction, end, out),
            _ => self.lane(direction).state = HttpStreamState::Body(body),
        }
    }

    /// Completes the message in progress; it ended at `end`, if known.
    #[inline]
    pub(super) fn finish(
        &mut self,
        direction: Direction,
        end: Option<TcpSeq>,
        out: &mut ParserOutput<'_>,
    ) {
        self.lane(direction).state = HttpStreamState::Between;
        match direction {
            Direction::ClientToServer => {
                if let Some(request) = self.transactions.finish_request(self.request, end) {
                    request.extent = self.client.message;
                }
            }
            Direction::ServerToClient => {
                let extent = self.server.message;
                if let Some(response) = self.transactions.finish_response(self.response, end) {
                    response.extent = extent;
                }
            }
        }
        self.flush(out);
    }

    /// Writes finished transactions.
    #[inline]
    pub(super) fn flush(&mut self, out: &mut ParserOutput<'_>) {
        let HttpConnection {
            transactions,
            wanted,
            emitted,
            waiting_bytes,
            ..
        } = self;
        transactions.hand_out(|transaction| {
            if transaction.is_separated() {
                out.counters.separated_halves += 1;
                return;
            }
            let wanted = wanted.get_or_insert_with(|| HttpProjection::new(out));
            out.request = transaction.request_seq();
            transaction::emit(transaction, !*emitted, wanted, out);
            *emitted = true;
            *waiting_bytes -= transaction.request().map_or(0, HttpRequest::text_bytes);
            transaction::trim(transaction);
        });
    }

    /// Evicts the oldest requests if their number or text exceeds the limits.
    #[inline]
    fn bound(&mut self, out: &mut ParserOutput<'_>) {
        if self.waiting_bytes > WAITING_BYTES_MAX || self.transactions.has_evicted() {
            self.evict(out);
        }
    }

    #[cold]
    fn evict(&mut self, out: &mut ParserOutput<'_>) {
        // The response in progress may answer the oldest request.
        if matches!(self.server.state, HttpStreamState::Body(_))
            && let Some(response) = self.transactions.response_mut(self.response)
        {
            response.extent = self.server.message;
        }
        self.flush(out);
        let max = WAITING_BYTES_MAX + self.transactions.text_bytes_borrowed();
        while self.waiting_bytes > max
            && self.transactions.held() > 1
            && self.transactions.evict_oldest()
        {
            self.flush(out);
        }
        out.counters.evicted_requests += self.transactions.take_evicted();
    }

    /// Whether the response in progress, of which only the head was received, may answer HEAD, if its request
    /// is still held.
    pub(super) fn may_answer_head(&self) -> bool {
        self.transactions
            .request_of(self.response)
            .is_none_or(|r| r.method == HttpMethod::Head)
    }

    /// Completes an HTTP/0.9 request: one line without a version, after which the client waits.
    #[inline]
    pub(super) fn complete_simple_request(&mut self, out: &mut ParserOutput<'_>) {
        if self.client.state == HttpStreamState::Head
            && self.client.at_line_start()
            && !self.client.found()
        {
            self.try_simple_request(out);
        }
    }

    #[cold]
    fn try_simple_request(&mut self, out: &mut ParserOutput<'_>) {
        let byte_stream::CollectedHead {
            bytes, span, place, ..
        } = self.client.take();
        let line = bytes
            .strip_suffix(b"\n")
            .map(head::without_cr)
            .and_then(head::request_line);
        match line.filter(probe::is_simple) {
            Some(line) => {
                let line = RequestLine {
                    version: Some(*b"0.9"),
                    ..line
                };
                let head = RequestHead {
                    line,
                    host: None,
                    user_agent: None,
                    framing: head::HttpFraming::default(),
                    expects_continue: false,
                };
                self.begin_request(&head, &bytes, span, HeadOrigin::whole(place), out);
                self.client.give_back(bytes);
            }
            None => self.client.resume(bytes),
        }
    }

    #[inline]
    pub(super) fn answers_simple(&self, segment: StreamSegment<'_>) -> bool {
        let bytes = segment.bytes;
        self.simple
            && self
                .transactions
                .next_to_answer(segment.place)
                .is_some_and(HttpRequest::is_simple)
            && !bytes.starts_with(&b"HTTP/"[..bytes.len().min(5)])
    }

    #[cold]
    pub(super) fn begin_simple_response(
        &mut self,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let (spot, response) = self
            .transactions
            .response(segment.ts, segment.place, |_| ResponseMatch::Maybe);
        response.become_simple();
        self.response = spot;
        self.server.message = HttpMessageExtent::at(segment.ts);
        self.enter(Direction::ServerToClient, HttpBody::UntilEnd, None, out);
    }
}

/// Parses the head in `bytes`, with folded fields joined.
fn whole<'a, H>(
    bytes: &'a [u8],
    unfolded: &'a mut Vec<u8>,
    read: impl Fn(&'a [u8]) -> HeadParseResult<H>,
) -> Option<H> {
    match read(bytes) {
        HeadParseResult::Complete {
            head,
            folded: false,
            ..
        }
        | HeadParseResult::Partial(Some(head)) => Some(head),
        HeadParseResult::Complete { head, .. } => {
            *unfolded = head::unfold(bytes);
            match read(unfolded) {
                HeadParseResult::Complete { head, .. } => Some(head),
                HeadParseResult::Partial(_) | HeadParseResult::Invalid => Some(head),
            }
        }
        HeadParseResult::Partial(None) | HeadParseResult::Invalid => None,
    }
}

/// Body of a response by RFC 9112 section 6.3.
#[inline]
fn response_body(head: &ResponseHead<'_>, method: Option<HttpMethod>) -> HttpBody {
    if matches!(head.status, 204 | 304) || method == Some(HttpMethod::Head) {
        return HttpBody::Length(0);
    }
    match (head.framing.coding, head.framing.content_length) {
        (TransferCoding::Chunked, _) => HttpBody::CHUNKED,
        (TransferCoding::None, Some(n)) => HttpBody::Length(n),
        _ => HttpBody::UntilEnd,
    }
}

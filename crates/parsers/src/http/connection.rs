//! One HTTP/1 connection: a state machine over the bytes of both directions.
//!
//! Each step consumes bytes, or changes the state so that the next one does. The meaning of messages is in
//! `messages.rs`, the effect of missing bytes in `losses.rs`.

use flow::StreamPlace;
use wire::TcpSeq;

use super::byte_stream::{HEAD_BYTES_MAX, HeadCollectStatus, HttpByteStream, HttpStreamState};
use super::head::{self, HeadParseResult};
use super::head_tail::HttpHeadTruncation;
use super::search::HttpHeadLocator;
use super::transaction::{HttpProjection, HttpRequest, HttpResponse};
use crate::http2::Http2Connection;
use crate::pairing::{ResponseSlot, TransactionQueue};
use crate::write_boundaries::ConnectionWrites;
use crate::{
    Direction, MessageSpan, ParserOutput, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

/// `HTTP/1.0 200` and an empty line.
const MESSAGE_BYTES_MIN: u32 = 16;

/// One connection. Fields are in `repr(C)` order: each segment uses its lane, the start and end of a message
/// the rest.
#[repr(C)]
pub struct HttpConnection {
    pub(super) client: HttpByteStream,
    pub(super) server: HttpByteStream,
    /// The request whose body the client is sending.
    pub(super) request: u64,
    /// The response whose body the server is sending.
    pub(super) response: ResponseSlot,
    pub(super) wanted: Option<HttpProjection>,
    /// Bytes of text of the held requests.
    pub(super) waiting_bytes: usize,
    /// Status of the last interim response.
    pub(super) interim: u16,
    /// The final response preceded the announced request body: the client may omit it.
    pub(super) body_doubtful: bool,
    /// An HTTP/0.9 request was sent.
    pub(super) simple: bool,
    pub(super) server_seen: bool,
    pub(super) emitted: bool,
    pub(super) behind: HttpSuccessor,
    packets: ConnectionWrites,
    pub(super) transactions: TransactionQueue<HttpRequest, HttpResponse>,
    /// The connection after an upgrade to HTTP/2.
    pub(super) http2: Option<Box<Http2Connection>>,
}

/// Origin of a head.
#[derive(Clone, Copy)]
pub struct HeadOrigin {
    /// Whether the head was found by a search.
    pub(super) found: bool,
    /// Parts that were not kept.
    pub(super) cut: HttpHeadTruncation,
    /// Position of its start.
    pub(super) place: StreamPlace,
    /// Length of the message, unless all of it is available.
    pub(super) len: Option<u32>,
}

impl HeadOrigin {
    /// A complete head at the expected position.
    pub(super) fn whole(place: StreamPlace) -> HeadOrigin {
        HeadOrigin {
            found: false,
            cut: HttpHeadTruncation::default(),
            place,
            len: None,
        }
    }

    /// End of the head, of which `len` bytes are available.
    pub(super) fn end(&self, len: usize) -> TcpSeq {
        self.place.seq.plus(self.len.unwrap_or(len as u32))
    }

    /// Whether a text of the message is cut; `named`: a query names header fields.
    pub(super) fn is_cut(&self, named: bool) -> bool {
        self.cut.texts || self.cut.fields && named
    }
}

/// Data after the last HTTP/1 message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpSuccessor {
    /// An unknown protocol.
    Unread,
    /// A tunnel opened by CONNECT, with any protocol.
    Tunneled,
}

impl Default for HttpConnection {
    fn default() -> Self {
        HttpConnection {
            client: HttpByteStream::new(Direction::ClientToServer),
            server: HttpByteStream::new(Direction::ServerToClient),
            transactions: TransactionQueue::of_messages_from(MESSAGE_BYTES_MIN),
            request: 0,
            response: ResponseSlot::default(),
            wanted: None,
            waiting_bytes: 0,
            interim: 0,
            body_doubtful: false,
            simple: false,
            server_seen: false,
            emitted: false,
            behind: HttpSuccessor::Unread,
            packets: ConnectionWrites::default(),
            http2: None,
        }
    }
}

impl StreamParser for HttpConnection {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        if self.wanted.is_none() {
            self.begin_connection(out);
        }
        if direction == Direction::ServerToClient && !segment.bytes.is_empty() {
            self.complete_simple_request(out);
        }
        self.packets.come(direction, segment);
        self.read(direction, segment, out);
        self.server_seen |= direction == Direction::ServerToClient;
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        if let Some(http2) = &mut self.http2 {
            return http2.on_gap(direction, gap, out);
        }
        if gap.len > 0 {
            if self.wanted.is_none() {
                self.begin_connection(out);
            }
            let cut = self.packets.miss(direction, gap);
            if let Some(start) = cut.filter(|_| direction == Direction::ClientToServer) {
                self.transactions.cut_packet(start);
            }
            self.miss(direction, gap, out);
        }
    }

    fn on_end(&mut self, direction: Direction, end: StreamEnd, out: &mut ParserOutput<'_>) {
        if let Some(http2) = &mut self.http2 {
            return http2.on_end(direction, end, out);
        }
        if direction == Direction::ClientToServer {
            self.complete_simple_request(out);
        }
        if end == StreamEnd::Reset {
            self.break_off(direction);
        }
        self.end(direction, out);
        if direction == Direction::ServerToClient && end == StreamEnd::Fin {
            self.transactions.end_responses();
        }
        self.flush(out);
    }

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        if let Some(http2) = &mut self.http2 {
            return http2.on_close(out);
        }
        self.complete_simple_request(out);
        for direction in [Direction::ServerToClient, Direction::ClientToServer] {
            self.break_off(direction);
            self.end(direction, out);
        }
        self.transactions.close();
        self.flush(out);
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        if let Some(http2) = &mut self.http2 {
            return http2.on_idle(out);
        }
        self.complete_simple_request(out);
        let is_between = [self.client.state, self.server.state] == [HttpStreamState::Between; 2];
        if is_between && !self.body_doubtful && self.transactions.rest() {
            self.flush(out);
            if self.transactions.held() == 0 {
                return true;
            }
        }
        if self.client.state == HttpStreamState::Over {
            self.on_close(out);
            return false;
        }
        self.pause(out);
        self.transactions.held() == 0
    }

    fn is_done(&self) -> bool {
        self.client.state == HttpStreamState::Over
            && self.http2.as_ref().is_none_or(|http2| http2.is_done())
    }

    fn hands_over(&self) -> Option<usize> {
        (self.behind == HttpSuccessor::Tunneled).then_some(0)
    }
}

impl HttpConnection {
    #[cold]
    fn begin_connection(&mut self, out: &ParserOutput<'_>) {
        self.wanted = Some(HttpProjection::new(out));
        if out.flow.midstream {
            self.transactions.join_midway();
        }
    }

    #[inline]
    fn read(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let used = match self.lane(direction).state {
                HttpStreamState::Between => self.between(direction, rest, out),
                HttpStreamState::Body(_) => self.body(direction, rest, out),
                HttpStreamState::Head => self.collect(direction, rest, out),
                HttpStreamState::Lost => self.search(direction, rest, out),
                HttpStreamState::Over => self.after_http1(direction, rest, out),
            };
            rest = rest.behind(used);
        }
    }

    /// Bytes of the protocol after HTTP/1.
    #[cold]
    fn after_http1(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        if let Some(http2) = &mut self.http2 {
            http2.on_bytes(direction, segment, out);
        }
        segment.bytes.len()
    }

    /// Parses a head in place if it lies within `segment`.
    #[inline]
    fn between(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, place } = segment;
        if matches!(bytes[0], b'\r' | b'\n') {
            let blank = bytes
                .iter()
                .take_while(|b| matches!(b, b'\r' | b'\n'))
                .count();
            self.transactions
                .pass(direction, place.seq, Some(segment.first(blank).end()));
            return blank;
        }
        if direction == Direction::ClientToServer
            && out.flow.midstream
            && self.transactions.requests() == 0
        {
            // Earlier bytes are unknown: these may be in the middle of a message.
            self.client.state = HttpStreamState::Lost;
            return 0;
        }
        let fields = self.wanted(out).fields;
        let partial = match direction {
            // By reference: a head would be copied.
            Direction::ClientToServer => match &head::request(bytes, fields) {
                &HeadParseResult::Complete {
                    ref head,
                    len,
                    folded: false,
                } if len <= HEAD_BYTES_MAX => {
                    self.begin_request(
                        head,
                        &bytes[..len],
                        MessageSpan::at(ts),
                        HeadOrigin::whole(place),
                        out,
                    );
                    return len;
                }
                head => *head != HeadParseResult::Invalid,
            },
            Direction::ServerToClient if self.answers_simple(segment) => {
                self.begin_simple_response(segment, out);
                return 0;
            }
            Direction::ServerToClient => match &head::response(bytes, fields) {
                &HeadParseResult::Complete {
                    ref head,
                    len,
                    folded: false,
                } if len <= HEAD_BYTES_MAX => {
                    self.begin_response(
                        head,
                        &bytes[..len],
                        MessageSpan::at(ts),
                        HeadOrigin::whole(place),
                        out,
                    );
                    return len;
                }
                head => *head != HeadParseResult::Invalid,
            },
        };
        if partial {
            self.lane(direction).start_head(ts, place, false);
        } else {
            self.not_a_head(direction, out);
        }
        0
    }

    #[inline]
    fn body(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, place } = segment;
        if self.has_no_body_after_all(direction, bytes) {
            if direction == Direction::ServerToClient
                && self.transactions.request_of(self.response).is_none()
            {
                // The bytes may also be the body: without the request this is unknown.
                self.lose_end_to_doubt(out);
            } else {
                self.finish(direction, Some(place.seq), out);
            }
            return 0;
        }
        let lane = self.lane(direction);
        let HttpStreamState::Body(body) = &mut lane.state else {
            return 0;
        };
        let advance = body.advance(bytes);
        lane.message.extend(advance.used as u64, ts);
        out.counters.malformed_messages += u64::from(advance.malformed);
        if advance.done {
            self.finish(direction, Some(segment.first(advance.used).end()), out);
        }
        advance.used
    }

    /// Whether an announced body is absent because `bytes` begin another message: the client did not get its
    /// `100 Continue`, or the response may answer HEAD.
    #[inline]
    fn has_no_body_after_all(&mut self, direction: Direction, bytes: &[u8]) -> bool {
        match direction {
            Direction::ClientToServer => {
                std::mem::take(&mut self.body_doubtful) && {
                    let end = memchr::memchr(b'\n', bytes);
                    let line = head::without_cr(&bytes[..end.unwrap_or(bytes.len())]);
                    head::is_plausible_request(line, end.is_none())
                }
            }
            Direction::ServerToClient => {
                let start = b"HTTP/1.";
                self.server.message.body_bytes == 0
                    && start[..start.len().min(bytes.len())]
                        == bytes[..start.len().min(bytes.len())]
                    && self.may_answer_head()
            }
        }
    }

    #[cold]
    fn collect(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let (used, what) = self.lane(direction).collect(segment.bytes, segment.ts);
        match what {
            HeadCollectStatus::More => {}
            HeadCollectStatus::Complete => self.begin_collected(direction, out),
            HeadCollectStatus::NoHead => self.not_a_head(direction, out),
        }
        used
    }

    #[cold]
    fn search(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let at = match direction {
            Direction::ClientToServer => None,
            Direction::ServerToClient => {
                self.transactions.search(segment.place);
                self.transactions.next_response_seq()
            }
        };
        let HttpConnection {
            client,
            server,
            transactions,
            packets,
            ..
        } = self;
        let lane = if direction == Direction::ClientToServer {
            client
        } else {
            server
        };
        let begins_write = packets.begins_write(direction, segment);
        let found = lane.resync().find(
            &HttpHeadLocator {
                direction,
                at,
                begins_write,
                transactions,
            },
            segment,
            out,
        );
        let Some(found) = found else {
            return segment.bytes.len();
        };
        if found.skipped {
            // The skipped bytes may be the end of a message, or several messages.
            self.transactions.lose(direction);
        }
        self.lane(direction).start_head(found.ts, found.place, true);
        found.replay(|held| self.read(direction, held, out))
    }

    #[inline]
    pub(super) fn lane(&mut self, direction: Direction) -> &mut HttpByteStream {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    /// Requirements of the queries, computed once.
    #[inline]
    pub(super) fn wanted(&mut self, out: &ParserOutput<'_>) -> &HttpProjection {
        self.wanted.get_or_insert_with(|| HttpProjection::new(out))
    }
}

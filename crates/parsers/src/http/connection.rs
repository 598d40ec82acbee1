//! One HTTP/1 connection: takes the bytes of both directions and knows, step by step, what they are part of.
//!
//! Each step uses some bytes, or changes the state so that the next one does. What a message means is in
//! `messages.rs`, what missing bytes do in `losses.rs`.

use wire::Timestamp;

use super::body::Body;
use super::head::{self, Head};
use super::lane::{Collected, Lane, State};
use super::messages::Collection;
use super::search::Heads;
use super::transaction::{Request, Response, Wanted};
use crate::in_order::{InOrder, Spot};
use crate::{Direction, Output, Span, StreamParser};

/// `HTTP/1.0 200` and an empty line.
const MESSAGE_BYTES_MIN: u32 = 16;

/// One connection. Laid out as written: each segment touches its lane, a message's begin and end the rest.
#[repr(C)]
pub struct Connection {
    pub(super) client: Lane,
    pub(super) server: Lane,
    /// The request whose body the client is sending.
    pub(super) request: u64,
    /// The response whose body the server is sending.
    pub(super) response: Spot,
    pub(super) wanted: Option<Wanted>,
    /// Texts of the requests held.
    pub(super) waiting_bytes: usize,
    /// Status of the last interim response.
    pub(super) interim: u16,
    /// The final response came before the body that the client said it would send: it may not send it.
    pub(super) body_doubtful: bool,
    /// There was a request of HTTP/0.9.
    pub(super) simple: bool,
    pub(super) server_seen: bool,
    pub(super) emitted: bool,
    pub(super) exchanges: InOrder<Request, Response>,
}

impl Default for Connection {
    fn default() -> Self {
        Connection {
            client: Lane::new(Direction::ClientToServer),
            server: Lane::new(Direction::ServerToClient),
            exchanges: InOrder::of_messages_from(MESSAGE_BYTES_MIN),
            request: 0,
            response: Spot::default(),
            wanted: None,
            waiting_bytes: 0,
            interim: 0,
            body_doubtful: false,
            simple: false,
            server_seen: false,
            emitted: false,
        }
    }
}

impl StreamParser for Connection {
    fn on_bytes(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        if direction == Direction::ServerToClient && !bytes.is_empty() {
            self.complete_simple_request(out);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = self.step(direction, rest, ts, out);
            rest = &rest[used..];
        }
        self.server_seen |= direction == Direction::ServerToClient;
    }

    fn on_gap(&mut self, direction: Direction, len: u64, ts: Timestamp, out: &mut Output<'_>) {
        if len > 0 {
            self.miss(direction, len, ts, out);
        }
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
        for direction in [Direction::ServerToClient, Direction::ClientToServer] {
            self.break_off(direction);
            self.end(direction, out);
        }
        self.exchanges.close();
        self.flush(out);
    }

    fn is_done(&self) -> bool {
        self.client.state == State::Over
    }
}

impl Connection {
    #[inline]
    fn step(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        match self.lane(direction).state {
            State::Between => self.between(direction, bytes, ts, out),
            State::Body(_) => self.body(direction, bytes, ts, out),
            State::Head => self.collect(direction, bytes, ts, out),
            State::LongHead { line_empty, body } => {
                self.long_head(direction, (line_empty, body), bytes, ts, out)
            }
            State::Lost => self.search(direction, bytes, ts, out),
            State::Over => bytes.len(),
        }
    }

    /// A head that lies in `bytes` as a whole is read where it lies.
    #[inline]
    fn between(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        if matches!(bytes[0], b'\r' | b'\n') {
            return bytes.iter().take_while(|b| matches!(b, b'\r' | b'\n')).count();
        }
        if direction == Direction::ClientToServer && out.flow.midstream && self.exchanges.requests() == 0 {
            // What came before is not known: these bytes may be in the middle of anything.
            self.client.lose(None);
            return 0;
        }
        let fields = self.wanted(out).fields;
        let partial = match direction {
            Direction::ClientToServer => match head::request(bytes, fields) {
                Head::Complete { head, len, folded: false } => {
                    self.begin_request(&head, len, Span::at(ts), Collection::whole(out.place_of(bytes)), out);
                    return len;
                }
                head => head != Head::Invalid,
            },
            Direction::ServerToClient if self.answers_simple(bytes) => {
                self.begin_simple_response(ts, out);
                return 0;
            }
            Direction::ServerToClient => match head::response(bytes, fields) {
                Head::Complete { head, len, folded: false } => {
                    self.begin_response(
                        &head,
                        len,
                        Span::at(ts),
                        Collection::whole(out.place_of(bytes)),
                        out,
                    );
                    return len;
                }
                head => head != Head::Invalid,
            },
        };
        if partial {
            self.lane(direction).start_head(ts, out.place_of(bytes), false);
        } else {
            self.not_a_head(direction, out);
        }
        0
    }

    #[inline]
    fn body(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        if self.has_no_body_after_all(direction, bytes) {
            self.exchanges.ends(direction, out.place_of(bytes).map(|place| place.seq));
            self.finish(direction, out);
            return 0;
        }
        if direction == Direction::ServerToClient
            && self.server.message.body_bytes == 0
            && let (Spot::Apart(_), State::Body(Body::Length(len))) = (self.response, self.server.state)
        {
            self.exchanges.ends(direction, out.place_of(bytes).and_then(|place| place.behind(len)));
        }
        let lane = self.lane(direction);
        let State::Body(body) = &mut lane.state else { return 0 };
        let advance = body.advance(bytes);
        lane.message.extend(advance.used as u64, ts);
        out.counters.malformed_messages += u64::from(advance.malformed);
        if advance.done {
            self.exchanges.ends(direction, out.place_of(&bytes[advance.used..]).map(|place| place.seq));
            self.finish(direction, out);
        }
        advance.used
    }

    /// A body was announced, but the other end's behaviour says that it need not come, and `bytes` begin another message:
    /// the client did not get its `100 Continue`; or the response may be one to HEAD.
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
                    && start[..start.len().min(bytes.len())] == bytes[..start.len().min(bytes.len())]
                    && self.may_answer_head()
            }
        }
    }

    #[cold]
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

    /// Passes over what is too long in a head. `rest`: whether the present line is empty so far, and what comes then.
    #[cold]
    fn long_head(
        &mut self,
        direction: Direction,
        rest: (bool, Body),
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> usize {
        let (mut line_empty, body) = rest;
        self.lane(direction).message.extend(0, ts);
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

    #[cold]
    fn search(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        let skipped_before = out.counters.skipped_bytes;
        let found = self.lane(direction).resync().find(&Heads(direction), bytes, ts, out);
        let loss = self.lane(direction).take_loss();
        if let Some(loss) = loss {
            let head = found.as_ref().filter(|_| out.counters.skipped_bytes == skipped_before);
            self.exchanges.resume(direction, loss, head.map(|found| found.place), ts);
        }
        let Some(found) = found else { return bytes.len() };
        if direction == Direction::ClientToServer && found.skipped && loss.is_none() {
            // What was passed over may be the end of a request.
            self.exchanges.lose(direction, ts);
        }
        let began = found.ts;
        self.lane(direction).start_head(began, found.place, true);
        found.replay(bytes, out, |held, ts, out| self.on_bytes(direction, held, ts, out))
    }

    #[inline]
    pub(super) fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    /// What the queries need, found out once.
    #[inline]
    pub(super) fn wanted(&mut self, out: &Output<'_>) -> &Wanted {
        self.wanted.get_or_insert_with(|| Wanted::new(out.columns()))
    }
}

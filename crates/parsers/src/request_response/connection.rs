//! The two directions of a connection: bytes to parts of messages, parts to messages, messages to
//! transactions.

use wire::{TcpSeq, Timestamp};

use super::lane::{Answering, Lane, Message, State};
use super::{Cut, Messages, Role, Talk, Then};
use crate::pairing::{Spot, Transactions};
use crate::{Direction, End, Gap, Output, Segment, Span, StreamParser};

/// Bytes of a split head copied before `cut` is first called again; after that the buffer doubles.
const COPY_BYTES: usize = 512;

/// The parser of protocol `M` for one flow.
pub struct RequestResponse<M> {
    pub(super) protocol: M,
    pub(super) client: Lane,
    pub(super) server: Lane,
    pub(super) transactions: Transactions<Message<M>, Message<M>>,
    pub(super) request: u64,
    pub(super) answering: Answering,
    /// The response that the server's next message continues.
    pub(super) open: Option<Spot>,
    /// The unsolicited message in progress.
    pub(super) unsolicited: Message<M>,
    pub(super) then: Then,
    started: bool,
    pub(super) emitted: bool,
}

/// A part of a message.
#[derive(Clone, Copy)]
struct Part {
    head: usize,
    body: u64,
    /// State for the parts that follow, if any.
    rest: Option<u64>,
}

impl<M: Messages> RequestResponse<M> {
    /// For [`crate::Protocol::start`].
    #[must_use]
    pub fn start() -> Box<dyn StreamParser> {
        let transactions = Transactions::of_messages_from(M::BYTES_MIN);
        Box::new(RequestResponse::<M> {
            protocol: M::default(),
            client: Lane::default(),
            server: Lane::default(),
            transactions: match M::TALK {
                Talk::OneForOne => transactions,
                Talk::Freely => transactions.with_silent_requests().with_unsolicited_messages(),
            },
            request: 0,
            answering: Answering::Nothing,
            open: None,
            unsolicited: Message::default(),
            then: Then::Messages,
            started: false,
            emitted: false,
        })
    }

    fn begin_connection(&mut self, out: &Output<'_>) {
        if !std::mem::replace(&mut self.started, true) && out.flow.midstream {
            self.transactions.join_midway();
            (self.client.state, self.server.state) = (State::Lost, State::Lost);
            self.protocol.lose(Direction::ClientToServer);
            self.protocol.lose(Direction::ServerToClient);
        }
    }

    /// Consumes bytes of `segment`, or changes the state so that the next step does. Returns the number of
    /// bytes consumed.
    fn step(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let lane = self.lane(direction);
        match lane.state {
            State::Body { left, rest } => {
                let used = usize::try_from(left).unwrap_or(usize::MAX).min(segment.bytes.len());
                self.extend(direction, segment.ts);
                self.go_to(direction, left - used as u64, rest, out);
                used
            }
            State::Between | State::Inside(_) if lane.head.is_empty() => {
                self.in_place(direction, segment, out)
            }
            State::Between | State::Inside(_) => self.split(direction, segment, out),
            State::Lost => self.search(direction, segment, out),
            State::Over => segment.bytes.len(),
        }
    }

    /// Parses a head in place.
    fn in_place(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let bytes = &segment.bytes[..segment.bytes.len().min(M::HEAD_BYTES_MAX)];
        let lane = self.lane(direction);
        lane.span = Some(Span::at(segment.ts));
        if lane.state == State::Between {
            lane.place = segment.place;
        }
        match self.cut(direction, bytes) {
            Cut::Message { head, body } if (1..=bytes.len()).contains(&head) => {
                self.take(direction, &bytes[..head], Part { head, body, rest: None }, out)
            }
            Cut::Part { head, body, rest } if (1..=bytes.len()).contains(&head) => {
                self.take(direction, &bytes[..head], Part { head, body, rest: Some(rest) }, out)
            }
            Cut::Filler(len) if (1..=bytes.len()).contains(&len) => {
                self.transactions.pass(direction, segment.place.seq, segment.place.behind(len as u64));
                len
            }
            Cut::NeedMore => self.split(direction, segment, out),
            _ => self.no_message(direction, segment, out),
        }
    }

    /// Collects a head that is split over segments.
    fn split(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let Segment { bytes, ts, .. } = segment;
        let lane = self.lane(direction);
        let before = lane.head.len();
        let n = bytes.len().min(before.max(COPY_BYTES)).min(M::HEAD_BYTES_MAX.saturating_sub(before));
        lane.head.extend_from_slice(&bytes[..n]);
        lane.span.get_or_insert(Span::at(ts)).extend(ts);
        let held = std::mem::take(&mut lane.head);
        let fits = |head: usize| (before..=held.len()).contains(&head) && head > 0;
        let used = match self.cut(direction, &held) {
            Cut::Message { head, body } if fits(head) => {
                self.take(direction, &held[..head], Part { head, body, rest: None }, out) - before
            }
            Cut::Part { head, body, rest } if fits(head) => {
                self.take(direction, &held[..head], Part { head, body, rest: Some(rest) }, out) - before
            }
            Cut::Filler(len) if fits(len) => {
                let Lane { place, .. } = *self.lane_of(direction);
                self.transactions.pass(direction, place.seq, place.behind(len as u64));
                len - before
            }
            Cut::NeedMore if held.len() < M::HEAD_BYTES_MAX => {
                self.lane(direction).head = held;
                return n;
            }
            cut => {
                out.counters.oversized_heads += u64::from(cut == Cut::NeedMore);
                out.counters.skipped_bytes += before as u64;
                return self.no_message(direction, segment, out);
            }
        };
        let lane = self.lane(direction);
        lane.head = held;
        lane.head.clear();
        used
    }

    fn cut(&self, direction: Direction, bytes: &[u8]) -> Cut {
        match self.lane_of(direction).state {
            State::Inside(rest) => self.protocol.go_on(direction, rest, bytes),
            _ => self.protocol.cut(direction, bytes),
        }
    }

    /// Begins or continues a message with `head`, which is the complete head of the part.
    fn take(&mut self, direction: Direction, head: &[u8], part: Part, out: &mut Output<'_>) -> usize {
        let lane = self.lane(direction);
        let span = lane.span.take().unwrap_or(Span::at(out.now));
        let length = part.body.saturating_add(head.len() as u64);
        if lane.state == State::Between {
            lane.bytes = length;
            if direction == Direction::ClientToServer {
                self.transactions.make_room(out, |request| request.head.capacity());
            }
            self.begin(direction, head, span, part);
            out.counters.evicted_requests += self.transactions.take_evicted();
        } else {
            lane.bytes = lane.bytes.saturating_add(length);
        }
        if let Some(message) = self.message(direction) {
            message.add(head, part.body);
        }
        self.extend(direction, span.last);
        self.go_to(direction, part.body, part.rest, out);
        part.head
    }

    fn begin(&mut self, direction: Direction, head: &[u8], span: Span, part: Part) {
        let RequestResponse { protocol, transactions, .. } = self;
        if direction == Direction::ClientToServer {
            let (place, found) = (self.client.place, std::mem::take(&mut self.client.found));
            let expects = protocol.request(head);
            let (number, request) = transactions.request(span.first, place, expects, found);
            self.request = number;
            return request.begin(span, Role::Answer);
        }
        let place = self.server.place;
        self.server.found = false;
        let asked = match self.open {
            Some(spot) => transactions.request_of(spot),
            None => transactions.next_to_answer(place),
        };
        let role = protocol.response(head, asked.map(|request| &request.head[..]));
        self.answering = match (role, self.open) {
            (Role::Unsolicited, _) => Answering::Unsolicited,
            (Role::Aside, _) => Answering::Aside,
            (Role::Fragment, _) => Answering::Fragment,
            (Role::Answer | Role::AnswerGoesOn, Some(spot)) => Answering::Request(spot),
            (Role::Answer | Role::AnswerGoesOn, None) => {
                let kept = &head[..head.len().min(M::KEPT_BYTES_MAX)];
                let (spot, response) =
                    transactions.response(span.first, place, |request| M::fit(&request.head, kept));
                response.begin(span, role);
                Answering::Request(spot)
            }
        };
        if let Answering::Request(spot) = self.answering {
            self.open = (role == Role::AnswerGoesOn).then_some(spot);
        }
        if !matches!(self.answering, Answering::Request(_)) {
            self.unsolicited.begin(span, role);
            if role != Role::Fragment && part.rest.is_none() {
                transactions.pass(direction, place.seq, place.behind(self.server.bytes));
            }
        }
    }

    /// Sets the state: `left` bytes of body, then `rest` of the message, if any.
    fn go_to(&mut self, direction: Direction, left: u64, rest: Option<u64>, out: &mut Output<'_>) {
        match (left, rest) {
            (1.., _) => self.lane(direction).state = State::Body { left, rest },
            (0, Some(rest)) => self.lane(direction).state = State::Inside(rest),
            (0, None) => {
                let Lane { place, bytes, .. } = *self.lane_of(direction);
                self.finish(direction, place.behind(bytes), out);
            }
        }
    }

    /// Ends the message in progress, at `end` if known.
    pub(super) fn finish(&mut self, direction: Direction, end: Option<TcpSeq>, out: &mut Output<'_>) {
        self.lane(direction).state = State::Between;
        match (direction, self.answering) {
            (Direction::ClientToServer, _) => {
                self.transactions.finish_request(self.request, end);
                self.emit_silent(out);
            }
            (_, Answering::Request(_)) if self.open.is_some() => {}
            (_, Answering::Request(spot)) => _ = self.transactions.finish_response(spot, end),
            (_, Answering::Unsolicited) => {
                self.transactions.pass(direction, self.server.place.seq, end);
                self.emit_unsolicited(out);
            }
            (_, Answering::Aside) => self.transactions.pass(direction, self.server.place.seq, end),
            (_, Answering::Fragment) => self.transactions.lose(direction),
            (_, Answering::Nothing) => {}
        }
        if direction == Direction::ServerToClient {
            self.answering = Answering::Nothing;
        }
        self.then = self.protocol.then();
        if self.then != Then::Messages {
            (self.client.state, self.server.state) = (State::Over, State::Over);
        }
        self.flush(out);
    }

    /// Records that bytes of the message in progress arrived at `ts`.
    fn extend(&mut self, direction: Direction, ts: Timestamp) {
        if let Some(message) = self.message(direction) {
            message.extend(ts);
        }
    }

    pub(super) fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    pub(super) fn lane_of(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::ClientToServer => &self.client,
            Direction::ServerToClient => &self.server,
        }
    }

    /// The message in progress.
    pub(super) fn message(&mut self, direction: Direction) -> Option<&mut Message<M>> {
        match direction {
            Direction::ClientToServer => self.transactions.request_mut(self.request),
            Direction::ServerToClient => match self.answering {
                Answering::Request(spot) => self.transactions.response_mut(spot),
                _ => Some(&mut self.unsolicited),
            },
        }
    }
}

impl<M: Messages> StreamParser for RequestResponse<M> {
    fn on_bytes(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) {
        self.begin_connection(out);
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let used = self.step(direction, rest, out);
            rest = rest.behind(used);
        }
        if direction == Direction::ServerToClient && self.server.is_within() {
            self.transactions.speaks(segment.end());
        }
    }

    fn on_gap(&mut self, direction: Direction, gap: Gap, out: &mut Output<'_>) {
        self.begin_connection(out);
        self.miss(direction, gap, out);
    }

    fn on_end(&mut self, direction: Direction, end: End, out: &mut Output<'_>) {
        self.end(direction, out);
        if direction == Direction::ServerToClient && end == End::Fin {
            self.transactions.end_responses();
        }
        self.flush(out);
    }

    fn on_close(&mut self, out: &mut Output<'_>) {
        self.end(Direction::ServerToClient, out);
        self.end(Direction::ClientToServer, out);
        self.transactions.close();
        self.flush(out);
    }

    fn on_idle(&mut self, out: &mut Output<'_>) -> bool {
        let is_between = |lane: &Lane| lane.state == State::Between && lane.head.is_empty();
        let is_between = is_between(&self.client) && is_between(&self.server) && self.open.is_none();
        if is_between && self.transactions.rest() {
            self.flush(out);
            if self.transactions.held() == 0 {
                return true;
            }
        }
        if self.client.state == State::Over || self.server.state == State::Over {
            self.on_close(out);
            return false;
        }
        self.pause(out);
        self.transactions.held() == 0
    }

    fn is_done(&self) -> bool {
        self.then != Then::Messages
    }

    fn hands_over(&self) -> bool {
        self.then == Then::AnotherProtocol
    }
}

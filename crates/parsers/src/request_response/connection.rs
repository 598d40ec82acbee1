//! The two directions of a connection: bytes to parts of messages, parts to messages, messages to
//! transactions.

use wire::{TcpSeq, Timestamp};

use super::byte_stream::{
    MessageByteStream, MessageStreamState, ParsedMessage, ServerMessageTarget,
};
use super::request_ids::RequestIds;
use super::{
    CorrelationIds, ExchangePattern, MessageBoundary, MessageSuccessor, RequestResponseProtocol,
    ServerMessageRole,
};
use crate::pairing::{ResponseExpectation, ResponseSlot, TransactionQueue};
use crate::{
    Direction, MessageSpan, ParserOutput, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

/// Bytes of a split head copied before `cut` is first called again; after that the buffer doubles.
const COPY_BYTES: usize = 512;

/// The parser of protocol `M` for one flow.
pub struct RequestResponseParser<M> {
    pub(crate) protocol: M,
    pub(super) client: MessageByteStream,
    pub(super) server: MessageByteStream,
    pub(super) transactions: TransactionQueue<ParsedMessage<M>, ParsedMessage<M>>,
    pub(super) request: u64,
    pub(super) ids: RequestIds,
    pub(super) answering: ServerMessageTarget,
    /// The response that the server's next message continues.
    pub(super) open: Option<ResponseSlot>,
    /// The unsolicited message in progress.
    pub(super) unsolicited: ParsedMessage<M>,
    pub(super) then: MessageSuccessor,
    started: bool,
    pub(super) emitted: bool,
}

/// A part of a message.
#[derive(Clone, Copy)]
struct MessagePart {
    head: usize,
    body: u64,
    /// State for the parts that follow, if any.
    rest: Option<u64>,
}

impl<M: RequestResponseProtocol> RequestResponseParser<M> {
    /// For [`crate::ProtocolDefinition::start`].
    #[must_use]
    pub fn start() -> Box<dyn StreamParser> {
        Box::new(RequestResponseParser::<M>::new())
    }

    /// A parser that another one feeds.
    pub(crate) fn new() -> RequestResponseParser<M> {
        let transactions = match M::IDS {
            CorrelationIds::None => TransactionQueue::of_messages_from(M::BYTES_MIN),
            _ => TransactionQueue::of_messages_from(M::BYTES_MIN).with_ids(),
        };
        RequestResponseParser::<M> {
            protocol: M::default(),
            client: MessageByteStream::default(),
            server: MessageByteStream::default(),
            transactions: match M::TALK {
                ExchangePattern::OneForOne => transactions,
                ExchangePattern::Freely => transactions
                    .with_silent_requests()
                    .with_unsolicited_messages(),
            },
            request: 0,
            ids: RequestIds::default(),
            answering: ServerMessageTarget::Nothing,
            open: None,
            unsolicited: ParsedMessage::default(),
            then: MessageSuccessor::Messages,
            started: false,
            emitted: false,
        }
    }

    pub(super) fn begin_connection(&mut self, out: &ParserOutput<'_>) {
        if !std::mem::replace(&mut self.started, true) && out.flow.midstream {
            self.transactions.join_midway();
            (self.client.state, self.server.state) =
                (MessageStreamState::Lost, MessageStreamState::Lost);
            self.protocol.lose(Direction::ClientToServer);
            self.protocol.lose(Direction::ServerToClient);
        }
    }

    /// Consumes bytes of `segment`, or changes the state so that the next step does. Returns the number of
    /// bytes consumed.
    fn step(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = self.lane(direction);
        match lane.state {
            MessageStreamState::Body { left, rest } => {
                let used = usize::try_from(left)
                    .unwrap_or(usize::MAX)
                    .min(segment.bytes.len());
                self.extend(direction, segment.ts);
                self.go_to(direction, left - used as u64, rest, out);
                used
            }
            MessageStreamState::Between | MessageStreamState::Inside(_) if lane.head.is_empty() => {
                self.in_place(direction, segment, out)
            }
            MessageStreamState::Between | MessageStreamState::Inside(_) => {
                self.split(direction, segment, out)
            }
            MessageStreamState::Lost => self.search(direction, segment, out),
            MessageStreamState::Over => segment.bytes.len(),
        }
    }

    /// Parses a head in place.
    fn in_place(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let bytes = &segment.bytes[..segment.bytes.len().min(M::HEAD_BYTES_MAX)];
        let lane = self.lane(direction);
        lane.span = Some(MessageSpan::at(segment.ts));
        if lane.state == MessageStreamState::Between {
            lane.place = segment.place;
        }
        match self.cut(direction, bytes) {
            MessageBoundary::Message { head, body } if (1..=bytes.len()).contains(&head) => self
                .take(
                    direction,
                    &bytes[..head],
                    MessagePart {
                        head,
                        body,
                        rest: None,
                    },
                    out,
                ),
            MessageBoundary::Part { head, body, rest } if (1..=bytes.len()).contains(&head) => self
                .take(
                    direction,
                    &bytes[..head],
                    MessagePart {
                        head,
                        body,
                        rest: Some(rest),
                    },
                    out,
                ),
            MessageBoundary::Filler(len) if (1..=bytes.len()).contains(&len) => {
                self.transactions.pass(
                    direction,
                    segment.place.seq,
                    segment.place.behind(len as u64),
                );
                len
            }
            MessageBoundary::NeedMore => self.split(direction, segment, out),
            _ => self.no_message(direction, segment, out),
        }
    }

    /// Collects a head that is split over segments.
    fn split(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, .. } = segment;
        let lane = self.lane(direction);
        let before = lane.head.len();
        let n = bytes
            .len()
            .min(before.max(COPY_BYTES))
            .min(M::HEAD_BYTES_MAX.saturating_sub(before));
        lane.head.extend_from_slice(&bytes[..n]);
        lane.span.get_or_insert(MessageSpan::at(ts)).extend(ts);
        let held = std::mem::take(&mut lane.head);
        let fits = |head: usize| (before..=held.len()).contains(&head) && head > 0;
        let used = match self.cut(direction, &held) {
            MessageBoundary::Message { head, body } if fits(head) => {
                self.take(
                    direction,
                    &held[..head],
                    MessagePart {
                        head,
                        body,
                        rest: None,
                    },
                    out,
                ) - before
            }
            MessageBoundary::Part { head, body, rest } if fits(head) => {
                self.take(
                    direction,
                    &held[..head],
                    MessagePart {
                        head,
                        body,
                        rest: Some(rest),
                    },
                    out,
                ) - before
            }
            MessageBoundary::Filler(len) if fits(len) => {
                let MessageByteStream { place, .. } = *self.lane_of(direction);
                self.transactions
                    .pass(direction, place.seq, place.behind(len as u64));
                len - before
            }
            MessageBoundary::NeedMore if held.len() < M::HEAD_BYTES_MAX => {
                self.lane(direction).head = held;
                return n;
            }
            cut => {
                out.counters.oversized_heads += u64::from(cut == MessageBoundary::NeedMore);
                out.counters.skipped_bytes += before as u64;
                return self.no_message(direction, segment, out);
            }
        };
        let lane = self.lane(direction);
        lane.head = held;
        lane.head.clear();
        used
    }

    fn cut(&self, direction: Direction, bytes: &[u8]) -> MessageBoundary {
        match self.lane_of(direction).state {
            MessageStreamState::Inside(rest) => self.protocol.go_on(direction, rest, bytes),
            _ => self.protocol.cut(direction, bytes),
        }
    }

    /// Begins or continues a message with `head`, which is the complete head of the part.
    fn take(
        &mut self,
        direction: Direction,
        head: &[u8],
        part: MessagePart,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = self.lane(direction);
        let span = lane.span.take().unwrap_or(MessageSpan::at(out.now));
        let length = part.body.saturating_add(head.len() as u64);
        let before = match lane.state {
            MessageStreamState::Inside(rest) => Some(rest),
            _ => None,
        };
        let begins = lane.state == MessageStreamState::Between;
        self.protocol.read(direction, head, before, out.names);
        let lane = self.lane(direction);
        if begins {
            lane.bytes = length;
            if direction == Direction::ClientToServer {
                self.release_slots(out);
                self.transactions
                    .make_room(out, |request| request.head.capacity());
            }
            self.begin(direction, head, span, part, out);
            out.counters.evicted_requests += self.transactions.take_evicted();
        } else {
            lane.bytes = lane.bytes.saturating_add(length);
        }
        self.add(direction, head, before, part.body, out);
        self.extend(direction, span.last);
        self.go_to(direction, part.body, part.rest, out);
        part.head
    }

    /// Adds a part to the message in progress.
    fn add(
        &mut self,
        direction: Direction,
        head: &[u8],
        before: Option<u64>,
        body: u64,
        out: &mut ParserOutput<'_>,
    ) {
        let transactions = &mut self.transactions;
        let message = match (direction, self.answering.slot()) {
            (Direction::ClientToServer, _) => transactions.request_mut(self.request),
            (Direction::ServerToClient, Some(slot)) => transactions.response_mut(slot),
            (Direction::ServerToClient, None) => Some(&mut self.unsolicited),
        };
        if let Some(message) = message
            && !message.add((&self.protocol, direction), head, before, body)
        {
            out.counters.oversized_heads += 1;
        }
    }

    fn begin(
        &mut self,
        direction: Direction,
        head: &[u8],
        span: MessageSpan,
        part: MessagePart,
        out: &mut ParserOutput<'_>,
    ) {
        if direction == Direction::ClientToServer {
            return self.begin_request(head, span, out);
        }
        self.server.found = false;
        if M::IDS != CorrelationIds::None {
            self.begin_response_by_id(head, span, out);
        } else {
            self.begin_response(head, span);
        }
        if self.answering.slot().is_none() {
            let place = self.server.place;
            let role = self.unsolicited.role;
            if role != ServerMessageRole::Fragment && part.rest.is_none() {
                let end = place.behind(self.server.bytes);
                self.transactions.pass(direction, place.seq, end);
            }
        }
    }

    fn begin_request(&mut self, head: &[u8], span: MessageSpan, out: &mut ParserOutput<'_>) {
        let place = self.client.place;
        let found = std::mem::take(&mut self.client.found);
        let expects = self.protocol.request(head);
        let (number, request) = self.transactions.request(span.first, place, expects, found);
        self.request = number;
        request.begin(span, ServerMessageRole::Answer);
        if M::IDS != CorrelationIds::None && expects != ResponseExpectation::Nothing {
            self.note_id(head, number, out);
        }
    }

    fn begin_response(&mut self, head: &[u8], span: MessageSpan) {
        let RequestResponseParser {
            protocol,
            transactions,
            ..
        } = self;
        let place = self.server.place;
        if let Some(spot) = self.open.take_if(|_| !protocol.goes_on(head)) {
            transactions.finish_response(spot, Some(place.seq));
        }
        let asked = match self.open {
            Some(spot) => transactions.request_of(spot),
            None => transactions.next_to_answer(place),
        };
        let role = protocol.response(head, asked.map(|request| &request.head[..]));
        self.answering = match (role, self.open) {
            (ServerMessageRole::Unsolicited, _) => ServerMessageTarget::Unsolicited,
            (ServerMessageRole::Aside, _) => ServerMessageTarget::Aside,
            (ServerMessageRole::Fragment, _) => ServerMessageTarget::Fragment,
            (_, Some(spot)) => ServerMessageTarget::Request(spot),
            (_, None) => {
                let kept = &head[..head.len().min(M::KEPT_BYTES_MAX)];
                let (spot, response) =
                    transactions.response(span.first, place, |request| M::fit(&request.head, kept));
                response.begin(span, role);
                ServerMessageTarget::Request(spot)
            }
        };
        if let ServerMessageTarget::Request(spot) = self.answering {
            self.open = (role != ServerMessageRole::Answer).then_some(spot);
        }
        if self.answering.slot().is_none() {
            self.unsolicited.begin(span, role);
        }
    }

    /// Sets the state: `left` bytes of body, then `rest` of the message, if any.
    fn go_to(
        &mut self,
        direction: Direction,
        left: u64,
        rest: Option<u64>,
        out: &mut ParserOutput<'_>,
    ) {
        match (left, rest) {
            (1.., _) => self.lane(direction).state = MessageStreamState::Body { left, rest },
            (0, Some(rest)) => self.lane(direction).state = MessageStreamState::Inside(rest),
            (0, None) => {
                let MessageByteStream { place, bytes, .. } = *self.lane_of(direction);
                self.finish(direction, place.behind(bytes), out);
            }
        }
    }

    /// Ends the message in progress, at `end` if known.
    pub(super) fn finish(
        &mut self,
        direction: Direction,
        end: Option<TcpSeq>,
        out: &mut ParserOutput<'_>,
    ) {
        self.lane(direction).state = MessageStreamState::Between;
        match (direction, self.answering) {
            (Direction::ClientToServer, _) => {
                self.transactions.finish_request(self.request, end);
                self.emit_silent(out);
            }
            (_, ServerMessageTarget::RequestInPart(_)) => {}
            (_, ServerMessageTarget::Request(spot)) if self.open.is_some() => {
                let response = self.transactions.response_mut(spot);
                if response.is_some_and(|r| r.role == ServerMessageRole::AnswerMayGoOn) {
                    self.transactions.may_end(end);
                }
            }
            (_, ServerMessageTarget::Request(spot)) => {
                self.transactions.finish_response(spot, end);
                self.emit_by_id(spot, out);
            }
            (_, ServerMessageTarget::Unsolicited) => {
                self.transactions
                    .pass(direction, self.server.place.seq, end);
                self.emit_unsolicited(out);
            }
            (_, ServerMessageTarget::Aside) => {
                self.transactions
                    .pass(direction, self.server.place.seq, end)
            }
            (_, ServerMessageTarget::Fragment) => self.transactions.lose(direction),
            (_, ServerMessageTarget::Nothing) => {}
        }
        if direction == Direction::ServerToClient {
            self.answering = ServerMessageTarget::Nothing;
        }
        self.then = self.protocol.then();
        if self.then != MessageSuccessor::Messages {
            (self.client.state, self.server.state) =
                (MessageStreamState::Over, MessageStreamState::Over);
        }
        self.flush(out);
    }

    /// Records that bytes of the message in progress arrived at `ts`.
    fn extend(&mut self, direction: Direction, ts: Timestamp) {
        if let Some(message) = self.message(direction) {
            message.extend(ts);
        }
    }

    pub(super) fn lane(&mut self, direction: Direction) -> &mut MessageByteStream {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    pub(super) fn lane_of(&self, direction: Direction) -> &MessageByteStream {
        match direction {
            Direction::ClientToServer => &self.client,
            Direction::ServerToClient => &self.server,
        }
    }

    /// The message in progress.
    pub(super) fn message(&mut self, direction: Direction) -> Option<&mut ParsedMessage<M>> {
        match direction {
            Direction::ClientToServer => self.transactions.request_mut(self.request),
            Direction::ServerToClient => match self.answering.slot() {
                Some(spot) => self.transactions.response_mut(spot),
                None => Some(&mut self.unsolicited),
            },
        }
    }
}

impl<M: RequestResponseProtocol> StreamParser for RequestResponseParser<M> {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
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

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.begin_connection(out);
        self.miss(direction, gap, out);
    }

    fn on_end(&mut self, direction: Direction, end: StreamEnd, out: &mut ParserOutput<'_>) {
        self.end(direction, out);
        if direction == Direction::ServerToClient && end == StreamEnd::Fin {
            self.transactions.end_responses();
        }
        self.flush(out);
    }

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.end(Direction::ServerToClient, out);
        self.end(Direction::ClientToServer, out);
        self.transactions.close();
        self.flush(out);
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = |lane: &MessageByteStream| {
            lane.state == MessageStreamState::Between && lane.head.is_empty()
        };
        let is_between =
            is_between(&self.client) && is_between(&self.server) && self.open.is_none();
        if is_between && self.transactions.rest() {
            self.flush(out);
            if self.transactions.held() == 0 {
                return true;
            }
        }
        if self.client.state == MessageStreamState::Over
            || self.server.state == MessageStreamState::Over
        {
            self.on_close(out);
            return false;
        }
        self.pause(out);
        self.transactions.held() == 0
    }

    fn is_done(&self) -> bool {
        self.then != MessageSuccessor::Messages
    }

    fn hands_over(&self) -> Option<usize> {
        (self.then == MessageSuccessor::AnotherProtocol).then_some(0)
    }
}

//! A parser for any protocol in which a server answers requests in order, of which only two things are its own: where a
//! message ends ([`Messages::cut`]) and what its tuple shows ([`Messages::write`]).
//!
//! Does the rest: heads that come in pieces (copied, bounded), bodies (passed over, not copied), pairing over gaps
//! ([`crate::in_order`]), times, qualities, halves, counters. `template.rs` is an example. Not for protocols in which
//! the server speaks unasked, answers out of order or answers one request more than once: these need a state of their
//! own, as `http.rs` has.

use std::marker::PhantomData;

use flow::Place;
use tuple::{FieldId, TupleWriter};
use wire::Timestamp;

use crate::in_order::{Exchange, InOrder, Loss, Spot};
use crate::resync::{Candidate, Heads, Resync, Verdict};
use crate::{Direction, Output, Quality, Span, StreamParser};

/// Longest head; a message that does not say where it ends within so many bytes is none.
pub const HEAD_BYTES_MAX: usize = 8192;
/// How much of a head that is split is copied before `cut` looks at it again.
const COPY_BYTES: usize = 512;
/// Most memory that a place in the queue keeps for the next head there.
const KEPT_BYTES: usize = 1024;

/// What a protocol has to say of its messages.
pub trait Messages: Send + 'static {
    /// The field that takes the response time.
    const RESPONSE_TIME_NS: FieldId;

    /// Cuts the first message off `bytes`, which begin with it.
    fn cut(direction: Direction, bytes: &[u8]) -> Cut;

    /// Where in `bytes[from..]` a message could start: by this one is found again where the place was lost, besides at the
    /// start of segments. See [`Heads::next`].
    fn next(direction: Direction, bytes: &[u8], from: usize) -> Option<usize>;

    /// Writes the protocol's own fields. Each head is what `cut` said it is; `None`: not seen.
    fn write(request: Option<&[u8]>, response: Option<&[u8]>, w: &mut TupleWriter);
}

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The head goes on behind these bytes.
    NeedMore,
    /// A message: bytes to keep for [`Messages::write`], and bytes behind them that nobody needs.
    Message {
        /// At least one, and no more than there are.
        head: usize,
        /// Any number; they need not have come yet.
        body: u64,
    },
    /// No message begins here.
    NoMessage,
}

/// The parser of protocol `M` for one flow.
pub struct RequestResponse<M> {
    client: Lane,
    server: Lane,
    exchanges: InOrder<Message, Message>,
    request: u64,
    response: Spot,
    emitted: bool,
    protocol: PhantomData<fn() -> M>,
}

/// Where `M`'s messages could start.
struct Search<M>(Direction, PhantomData<M>);

impl<M: Messages> Heads for Search<M> {
    const HEAD_BYTES_MAX: usize = HEAD_BYTES_MAX;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        M::next(self.0, bytes, from)
    }

    fn begins_segment(&self, _: bool) -> bool {
        true
    }

    fn judge(&self, candidate: &Candidate<'_>) -> Verdict {
        match M::cut(self.0, candidate.bytes) {
            Cut::Message { head, .. } if (1..=candidate.bytes.len()).contains(&head) => Verdict::Message,
            Cut::NeedMore => Verdict::More,
            Cut::Message { .. } | Cut::NoMessage => Verdict::No,
        }
    }
}

/// One direction.
#[derive(Default)]
struct Lane {
    state: State,
    /// A head of which not all has come.
    head: Vec<u8>,
    span: Option<Span>,
    /// Where it begins in what both sides say.
    place: Option<Place>,
    /// The next head was looked for.
    found: bool,
    loss: Option<Loss>,
    resync: Resync,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// In a head, or before one.
    #[default]
    Head,
    /// In a body: bytes to come.
    Body(u64),
    /// A message may begin anywhere.
    Lost,
}

struct Message {
    span: Span,
    gap: bool,
    head: Vec<u8>,
}

impl Default for Message {
    fn default() -> Self {
        Message { span: Span::at(Timestamp::MIN), gap: false, head: Vec::new() }
    }
}

impl<M: Messages> RequestResponse<M> {
    /// For [`crate::Protocol::start`].
    #[must_use]
    pub fn start() -> Box<dyn StreamParser> {
        Box::new(RequestResponse::<M> {
            client: Lane::default(),
            server: Lane::default(),
            exchanges: InOrder::default(),
            request: 0,
            response: Spot::default(),
            emitted: false,
            protocol: PhantomData,
        })
    }

    /// Uses some of `bytes`, or changes the state so that the next step does.
    fn step(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        let lane = self.lane(direction);
        match lane.state {
            State::Body(left) => {
                let used = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                self.body(direction, left - used as u64, ts, out);
                used
            }
            State::Lost => self.search(direction, bytes, ts, out),
            State::Head if lane.head.is_empty() => self.head_in_place(direction, bytes, ts, out),
            State::Head => self.split_head(direction, bytes, ts, out),
        }
    }

    fn head_in_place(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> usize {
        match M::cut(direction, bytes) {
            Cut::Message { head, body } if (1..=bytes.len()).contains(&head) => {
                self.lane(direction).place = out.place_of(bytes);
                self.begin(direction, &bytes[..head], Span::at(ts), body, out);
                head
            }
            Cut::NeedMore => {
                (self.lane(direction).span, self.lane(direction).place) =
                    (Some(Span::at(ts)), out.place_of(bytes));
                self.split_head(direction, bytes, ts, out)
            }
            Cut::Message { .. } | Cut::NoMessage => self.no_message(direction, bytes, ts, out),
        }
    }

    fn split_head(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> usize {
        let lane = self.lane(direction);
        let before = lane.head.len();
        let piece = &bytes[..bytes.len().min(COPY_BYTES)];
        lane.head.extend_from_slice(piece);
        let span = lane.span.get_or_insert(Span::at(ts));
        span.extend(ts);
        let span = *span;
        match M::cut(direction, &lane.head) {
            Cut::Message { head, body } if (before..=lane.head.len()).contains(&head) && head > 0 => {
                let collected = std::mem::take(&mut lane.head);
                self.begin(direction, &collected[..head], span, body, out);
                self.lane(direction).head = collected;
                self.lane(direction).head.clear();
                head - before
            }
            Cut::NeedMore if lane.head.len() < HEAD_BYTES_MAX => piece.len(),
            cut => {
                out.counters.oversized_heads += u64::from(cut == Cut::NeedMore);
                self.no_message(direction, bytes, ts, out)
            }
        }
    }

    /// Looks for the next message.
    fn search(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) -> usize {
        let skipped_before = out.counters.skipped_bytes;
        let heads = Search::<M>(direction, PhantomData);
        let found = self.lane(direction).resync.find(&heads, bytes, ts, out);
        if let Some(loss) = self.lane(direction).loss.take() {
            let head = found.as_ref().filter(|_| out.counters.skipped_bytes == skipped_before);
            self.exchanges.resume(direction, loss, head.map(|found| found.place), ts);
        }
        let Some(found) = found else { return bytes.len() };
        *self.lane(direction) = Lane { found: true, ..Lane::default() };
        found.replay(bytes, out, |held, ts, out| self.on_bytes(direction, held, ts, out))
    }

    fn begin(&mut self, direction: Direction, head: &[u8], span: Span, body: u64, out: &mut Output<'_>) {
        let found = std::mem::take(&mut self.lane(direction).found);
        let place = self.lane(direction).place.take();
        self.lane(direction).span = None;
        let message = match direction {
            Direction::ClientToServer => {
                if self.exchanges.requests() == 0 {
                    self.exchanges.begin(place, out.flow.midstream);
                }
                let (number, message) = self.exchanges.request(head.len(), span.first, place, found);
                self.request = number;
                message
            }
            Direction::ServerToClient => {
                let may_be_early = !out.flow.midstream || self.exchanges.requests() > 0;
                let (place, message) = self.exchanges.response(span.first, place, found, may_be_early);
                self.response = place;
                message
            }
        };
        (message.span, message.gap) = (span, false);
        message.head.clear();
        message.head.extend_from_slice(head);
        self.exchanges
            .ends(direction, place.and_then(|place| place.behind(body.saturating_add(head.len() as u64))));
        out.counters.evicted_requests += self.exchanges.take_evicted();
        self.body(direction, body, span.last, out);
    }

    /// `left` bytes of the message in progress are to come; some, or its head, came at `ts`.
    fn body(&mut self, direction: Direction, left: u64, ts: Timestamp, out: &mut Output<'_>) {
        let mut last = ts;
        if let Some(message) = self.message(direction) {
            message.span.extend(ts);
            last = message.span.last;
        }
        if left > 0 {
            self.lane(direction).state = State::Body(left);
            return;
        }
        self.lane(direction).state = State::Head;
        match direction {
            Direction::ClientToServer => _ = self.exchanges.finish_request(self.request),
            Direction::ServerToClient => _ = self.exchanges.finish_response(self.response, last),
        }
        self.flush(out);
    }

    /// What should be a message is none: looks for one in `bytes`.
    fn no_message(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        ts: Timestamp,
        out: &mut Output<'_>,
    ) -> usize {
        out.counters.malformed_messages += 1;
        out.counters.resyncs += 1;
        let lane = std::mem::replace(self.lane(direction), Lane { state: State::Lost, ..Lane::default() });
        // What was found will not be found again.
        let used = if lane.found { bytes.len() } else { 0 };
        out.counters.skipped_bytes +=
            (lane.head.len().saturating_sub(bytes.len().min(COPY_BYTES)) + used) as u64;
        self.exchanges.lose(direction, ts);
        used
    }

    fn end(&mut self, direction: Direction, out: &mut Output<'_>) {
        if let State::Body(_) = self.lane(direction).state {
            let last = self.message(direction).map_or(Timestamp::MIN, |m| m.span.last);
            self.body(direction, 0, last, out);
        }
        self.lane(direction).resync.start_anew(out);
        *self.lane(direction) = Lane::default();
        match direction {
            Direction::ClientToServer => self.exchanges.no_more_requests(),
            Direction::ServerToClient => self.exchanges.no_more_responses(),
        }
        self.flush(out);
    }

    fn flush(&mut self, out: &mut Output<'_>) {
        let RequestResponse { exchanges, emitted, .. } = self;
        exchanges.hand_out(|exchange| {
            emit::<M>(exchange, !*emitted, out);
            *emitted = true;
            let (request, response) = exchange.places();
            for head in [&mut request.head, &mut response.head] {
                if head.capacity() > KEPT_BYTES {
                    *head = Vec::new();
                }
            }
        });
    }

    fn lane(&mut self, direction: Direction) -> &mut Lane {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    fn message(&mut self, direction: Direction) -> Option<&mut Message> {
        match direction {
            Direction::ClientToServer => self.exchanges.request_mut(self.request),
            Direction::ServerToClient => self.exchanges.response_mut(self.response),
        }
    }
}

impl<M: Messages> StreamParser for RequestResponse<M> {
    fn on_bytes(&mut self, direction: Direction, bytes: &[u8], ts: Timestamp, out: &mut Output<'_>) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = self.step(direction, rest, ts, out);
            rest = &rest[used..];
        }
    }

    fn on_gap(&mut self, direction: Direction, len: u64, _: Timestamp, out: &mut Output<'_>) {
        let (state, before) = (self.lane(direction).state, self.lane(direction).loss);
        let beyond = match state {
            State::Body(left) => {
                if let Some(message) = self.message(direction) {
                    message.gap = true;
                }
                let last = self.message(direction).map_or(Timestamp::MIN, |m| m.span.last);
                self.body(direction, left.saturating_sub(len), last, out);
                len.saturating_sub(left)
            }
            State::Head => len.saturating_add(self.lane(direction).head.len() as u64),
            State::Lost => len,
        };
        // A head may have begun.
        let held = self.lane(direction).resync.start_anew(out) as u64;
        if beyond > 0 {
            let (bytes, begun) = (beyond.saturating_add(held), state != State::Lost || held > 0);
            let loss = self.exchanges.loss(direction, before, bytes, begun);
            out.counters.resyncs += u64::from(state != State::Lost);
            *self.lane(direction) = Lane { state: State::Lost, loss: Some(loss), ..Lane::default() };
        }
    }

    fn on_end(&mut self, direction: Direction, _: Timestamp, out: &mut Output<'_>) {
        self.end(direction, out);
    }

    fn on_close(&mut self, out: &mut Output<'_>) {
        self.end(Direction::ServerToClient, out);
        self.end(Direction::ClientToServer, out);
        self.exchanges.close();
        self.flush(out);
    }
}

fn emit<M: Messages>(exchange: &Exchange<Message, Message>, first: bool, out: &mut Output<'_>) {
    let (request, response) = (exchange.request(), exchange.response());
    let quality = match (request, response) {
        (Some(_), Some(_)) if first && out.flow.midstream => Quality::Midstream,
        (Some(_), Some(_)) if exchange.resync() => Quality::Resync,
        (Some(q), Some(r)) if q.gap || r.gap => Quality::GapBody,
        (Some(_), Some(_)) => Quality::Exact,
        _ => Quality::Half,
    };
    out.emit(
        exchange.first(),
        quality,
        |_| true,
        |w| {
            M::write(request.map(|m| &m.head[..]), response.map(|m| &m.head[..]), w);
            if let (Some(request), Some(response)) = (request, response) {
                w.i64(M::RESPONSE_TIME_NS, response.span.first.since(request.span.last));
            }
        },
    );
}

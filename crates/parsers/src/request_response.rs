//! A parser for any protocol in which a server answers requests in order, of which only two things are its own: where a
//! message ends ([`Messages::cut`]) and what its tuple shows ([`Messages::write`]).
//!
//! Does the rest: heads that come in pieces (copied, bounded), bodies (passed over, not copied), pairing over gaps
//! ([`crate::pairing`]), times, qualities, halves, counters. `template.rs` is an example. Not for protocols in which
//! the server speaks unasked, answers out of order or answers one request more than once: these need a state of their
//! own, as `http.rs` has.

use std::marker::PhantomData;

use flow::Place;
use tuple::{FieldId, TupleWriter};
use wire::{TcpSeq, Timestamp};

use crate::pairing::{Answers, Expects, Fit, Spot, Transaction, Transactions};
use crate::resync::{Candidate, Heads, Resync, Verdict};
use crate::{Direction, End, Gap, Output, Quality, Segment, Span, StreamParser};

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

    /// Bytes of the smallest message: missing bytes hide the fewer messages, the larger this is.
    const BYTES_MIN: u32 = 1;

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
    transactions: Transactions<Message, Message>,
    request: u64,
    response: Spot,
    started: bool,
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
    /// When it came, and where it begins.
    span: Option<Span>,
    place: Place,
    /// It was looked for.
    found: bool,
    /// Where the message in progress ends.
    end: Option<TcpSeq>,
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

impl Answers<Message> for Message {}

impl<M: Messages> RequestResponse<M> {
    /// For [`crate::Protocol::start`].
    #[must_use]
    pub fn start() -> Box<dyn StreamParser> {
        Box::new(RequestResponse::<M> {
            client: Lane::default(),
            server: Lane::default(),
            transactions: Transactions::of_messages_from(M::BYTES_MIN),
            request: 0,
            response: Spot::default(),
            started: false,
            emitted: false,
            protocol: PhantomData,
        })
    }

    fn begin_connection(&mut self, out: &Output<'_>) {
        if !std::mem::replace(&mut self.started, true) && out.flow.midstream {
            self.transactions.join_midway();
        }
    }

    /// Uses some of `segment`, or changes the state so that the next step does.
    fn step(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let lane = self.lane(direction);
        match lane.state {
            State::Body(left) => {
                let used = usize::try_from(left).unwrap_or(usize::MAX).min(segment.bytes.len());
                self.body(direction, left - used as u64, segment.ts, out);
                used
            }
            State::Lost => self.search(direction, segment, out),
            State::Head if lane.head.is_empty() => self.head_in_place(direction, segment, out),
            State::Head => self.split_head(direction, segment, out),
        }
    }

    fn head_in_place(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let Segment { bytes, ts, place } = segment;
        (self.lane(direction).span, self.lane(direction).place) = (Some(Span::at(ts)), place);
        match M::cut(direction, bytes) {
            Cut::Message { head, body } if (1..=bytes.len()).contains(&head) => {
                self.begin(direction, &bytes[..head], Span::at(ts), body, out);
                head
            }
            Cut::NeedMore => self.split_head(direction, segment, out),
            Cut::Message { .. } | Cut::NoMessage => self.no_message(direction, segment, out),
        }
    }

    fn split_head(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let Segment { bytes, ts, .. } = segment;
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
                self.no_message(direction, segment, out)
            }
        }
    }

    /// Looks for the next message.
    fn search(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let heads = Search::<M>(direction, PhantomData);
        let found = self.lane(direction).resync.find(&heads, segment, out);
        let Some(found) = found else { return segment.bytes.len() };
        if found.skipped {
            self.transactions.lose(direction);
        }
        *self.lane(direction) = Lane { found: true, ..Lane::default() };
        found.replay(|held| self.on_bytes(direction, held, out))
    }

    fn begin(&mut self, direction: Direction, head: &[u8], span: Span, body: u64, out: &mut Output<'_>) {
        let lane = self.lane(direction);
        let (place, found) = (lane.place, std::mem::take(&mut lane.found));
        (lane.span, lane.end) = (None, place.behind(body.saturating_add(head.len() as u64)));
        let message = match direction {
            Direction::ClientToServer => {
                let (number, message) =
                    self.transactions.request(span.first, place, Expects::Response, found);
                self.request = number;
                message
            }
            Direction::ServerToClient => {
                let (spot, message) = self.transactions.response(span.first, place, |_| Fit::Maybe);
                self.response = spot;
                message
            }
        };
        (message.span, message.gap) = (span, false);
        message.head.clear();
        message.head.extend_from_slice(head);
        out.counters.evicted_requests += self.transactions.take_evicted();
        self.body(direction, body, span.last, out);
    }

    /// `left` bytes of the message in progress are to come; some, or its head, came at `ts`.
    fn body(&mut self, direction: Direction, left: u64, ts: Timestamp, out: &mut Output<'_>) {
        if let Some(message) = self.message(direction) {
            message.span.extend(ts);
        }
        if left > 0 {
            self.lane(direction).state = State::Body(left);
            return;
        }
        self.finish(direction, self.lane_of(direction).end, out);
    }

    fn finish(&mut self, direction: Direction, end: Option<TcpSeq>, out: &mut Output<'_>) {
        self.lane(direction).state = State::Head;
        match direction {
            Direction::ClientToServer => _ = self.transactions.finish_request(self.request, end),
            Direction::ServerToClient => _ = self.transactions.finish_response(self.response, end),
        }
        self.flush(out);
    }

    /// What should be a message is none: looks for one in `segment`.
    fn no_message(&mut self, direction: Direction, segment: Segment<'_>, out: &mut Output<'_>) -> usize {
        let bytes = segment.bytes;
        out.counters.malformed_messages += 1;
        out.counters.resyncs += 1;
        let lane = std::mem::replace(self.lane(direction), Lane { state: State::Lost, ..Lane::default() });
        // What was found will not be found again.
        let used = if lane.found { bytes.len() } else { 0 };
        out.counters.skipped_bytes +=
            (lane.head.len().saturating_sub(bytes.len().min(COPY_BYTES)) + used) as u64;
        self.transactions.lose(direction);
        used
    }

    /// No more bytes of `direction` will come.
    fn end(&mut self, direction: Direction, out: &mut Output<'_>) {
        if let State::Body(_) = self.lane(direction).state {
            self.finish(direction, None, out);
        }
        self.lane(direction).resync.start_anew(out);
        *self.lane(direction) = Lane::default();
    }

    fn flush(&mut self, out: &mut Output<'_>) {
        let RequestResponse { transactions, emitted, .. } = self;
        transactions.hand_out(|transaction| {
            emit::<M>(transaction, !*emitted, out);
            *emitted = true;
            let (request, response) = transaction.parts_mut();
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

    fn lane_of(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::ClientToServer => &self.client,
            Direction::ServerToClient => &self.server,
        }
    }

    fn message(&mut self, direction: Direction) -> Option<&mut Message> {
        match direction {
            Direction::ClientToServer => self.transactions.request_mut(self.request),
            Direction::ServerToClient => self.transactions.response_mut(self.response),
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
    }

    fn on_gap(&mut self, direction: Direction, gap: Gap, out: &mut Output<'_>) {
        self.begin_connection(out);
        let len = gap.len;
        let state = self.lane(direction).state;
        if let State::Body(left) = state {
            if let Some(message) = self.message(direction) {
                message.gap = true;
            }
            if left > len {
                self.lane(direction).state = State::Body(left - len);
                return;
            }
            self.finish(direction, self.lane_of(direction).end, out);
            if left == len {
                return;
            }
        }
        // A head may have begun.
        self.lane(direction).resync.start_anew(out);
        out.counters.resyncs += u64::from(state != State::Lost);
        *self.lane(direction) = Lane { state: State::Lost, ..Lane::default() };
        self.transactions.miss(direction);
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
}

fn emit<M: Messages>(transaction: &Transaction<Message, Message>, first: bool, out: &mut Output<'_>) {
    let (request, response) = (transaction.request(), transaction.response());
    let time = request.zip(response).map(|(request, response)| response.span.first.since(request.span.last));
    let known = time.filter(|time| *time >= 0);
    let quality = match (request, response) {
        (Some(_), Some(_)) if first && out.flow.midstream => Quality::Midstream,
        (Some(_), Some(_)) if transaction.resynchronised() => Quality::Resync,
        (Some(q), Some(r)) if q.gap || r.gap => Quality::GapBody,
        (Some(_), Some(_)) if known.is_none() => Quality::Untimed,
        (Some(_), Some(_)) => Quality::Exact,
        _ => Quality::Half,
    };
    out.emit(
        transaction.first(),
        quality,
        |_| true,
        |w| {
            M::write(request.map(|m| &m.head[..]), response.map(|m| &m.head[..]), w);
            if let Some(time) = known {
                w.i64(M::RESPONSE_TIME_NS, time);
            }
        },
    );
}

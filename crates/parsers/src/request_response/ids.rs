//! Responses found by correlation ids, in any order.

use hashbrown::HashMap;
use wire::TcpSeq;

use super::byte_stream::ServerMessageTarget;
use super::connection::RequestResponseParser;
use super::{CorrelationIds, RequestResponseProtocol, ServerMessageRole};
use crate::pairing::{OUTSTANDING_MIN, ResponseMatch, ResponseSlot, TransactionOutcome};
use crate::{Direction, MessageSpan, ParserOutput};

/// Entries from which stale ones are removed.
const PURGED_FROM: usize = 64;
/// Losses of client bytes, while requests are outstanding, after which none of these is paired.
const LOSSES_MAX: usize = 64;

/// Outstanding requests by id; entries of requests that are no longer held are removed from time to time.
#[derive(Default)]
pub struct RequestIds {
    requests: HashMap<u64, NamedRequest>,
    /// Number of entries at which stale ones are removed.
    purged_at: usize,
    /// Positions of missing client bytes, oldest first: requests that were not seen may have used ids again.
    requests_lost: Vec<TcpSeq>,
    /// Number of losses of server bytes.
    response_losses: u32,
}

#[derive(Clone, Copy)]
struct NamedRequest {
    number: u64,
    /// Value of [`RequestIds::response_losses`] when the request began.
    response_losses: u32,
    /// The response to an earlier request with the same id may still come.
    is_ambiguous: bool,
}

impl RequestIds {
    fn first_loss_after(&self, seq: TcpSeq) -> Option<TcpSeq> {
        let is_after = |lost: &&TcpSeq| lost.distance(seq) > 0;
        self.requests_lost.iter().find(is_after).copied()
    }
}

impl<M: RequestResponseProtocol> RequestResponseParser<M> {
    /// Records that messages of `direction` may be missing from `from` on.
    pub(super) fn lose_ids(&mut self, direction: Direction, from: TcpSeq) {
        match (M::IDS, direction) {
            (CorrelationIds::None, _) => {}
            (_, Direction::ServerToClient) => {
                self.ids.response_losses = self.ids.response_losses.wrapping_add(1);
            }
            (CorrelationIds::Unique, Direction::ClientToServer) => {}
            (CorrelationIds::Reused, Direction::ClientToServer) => {
                if self.transactions.waiting().next().is_none() {
                    self.ids.requests_lost.clear();
                }
                if self.ids.requests_lost.len() == LOSSES_MAX {
                    // No outstanding request is named any more.
                    self.ids.requests.clear();
                    self.ids.requests_lost.clear();
                }
                self.ids.requests_lost.push(from);
            }
        }
    }

    /// Records the id of request `number`.
    pub(super) fn note_id(&mut self, head: &[u8], number: u64, out: &mut ParserOutput<'_>) {
        let Some(id) = M::id(Direction::ClientToServer, head) else {
            return;
        };
        let response_losses = self.ids.response_losses;
        let earlier = self.ids.requests.get(&id).copied();
        let earlier =
            earlier.filter(|earlier| self.transactions.place_of(earlier.number).is_some());
        let named = NamedRequest {
            number,
            response_losses,
            // Without a loss, its client has given up, and its response may still come.
            is_ambiguous: earlier.is_some_and(|earlier| earlier.response_losses == response_losses),
        };
        if let Some(earlier) = earlier {
            self.transactions
                .conclude(earlier.number, TransactionOutcome::Half);
            self.emit_by_id(ResponseSlot::With(earlier.number), out);
        }
        self.ids.requests.insert(id, named);
        if self.ids.requests.len() > self.ids.purged_at.max(PURGED_FROM) {
            let transactions = &self.transactions;
            self.ids
                .requests
                .retain(|_, named| transactions.place_of(named.number).is_some());
            self.ids.purged_at = 2 * self.ids.requests.len();
        }
    }

    /// Begins a server message that names its request.
    pub(super) fn begin_response_by_id(
        &mut self,
        head: &[u8],
        span: MessageSpan,
        out: &mut ParserOutput<'_>,
    ) {
        let id = M::id(Direction::ServerToClient, head);
        let named = id.and_then(|id| self.ids.requests.get(&id)).copied();
        let asked = named.and_then(|named| {
            self.transactions
                .request_of(ResponseSlot::With(named.number))
        });
        let role = self
            .protocol
            .response(head, asked.map(|request| &request.head[..]));
        self.answering = match role {
            ServerMessageRole::Answer => {
                ServerMessageTarget::Request(self.slot_of_response(named, span, role, out))
            }
            ServerMessageRole::AnswerGoesOn => {
                ServerMessageTarget::RequestInPart(self.slot_of_response(named, span, role, out))
            }
            ServerMessageRole::Unsolicited => ServerMessageTarget::Unsolicited,
            ServerMessageRole::Aside => ServerMessageTarget::Aside,
            ServerMessageRole::Fragment => ServerMessageTarget::Fragment,
        };
        let Some(slot) = self.answering.slot() else {
            return self.unsolicited.begin(span, role);
        };
        let Some((id, named)) = id.zip(named) else {
            return;
        };
        if slot != ResponseSlot::With(named.number) {
            return;
        }
        let next = M::id_of_rest(head).filter(|_| role == ServerMessageRole::AnswerGoesOn);
        if next != Some(id) {
            self.ids.requests.remove(&id);
        }
        if let Some(next) = next {
            self.ids.requests.insert(next, named);
        }
    }

    /// Begins or continues the response to the request that was `named`.
    fn slot_of_response(
        &mut self,
        named: Option<NamedRequest>,
        span: MessageSpan,
        role: ServerMessageRole,
        out: &mut ParserOutput<'_>,
    ) -> ResponseSlot {
        let place = self.server.place;
        let transactions = &mut self.transactions;
        if let Some(NamedRequest {
            number,
            is_ambiguous,
            ..
        }) = named
        {
            let slot = ResponseSlot::With(number);
            if transactions.is_in_answer(number) {
                return slot;
            }
            let asked = transactions.place_of(number);
            let lost = asked.and_then(|asked| self.ids.first_loss_after(asked.seq));
            let may_be_reused =
                lost.is_some_and(|lost| place.ack.is_none_or(|ack| ack.distance(lost) > 0));
            if is_ambiguous || may_be_reused {
                transactions.conclude(number, TransactionOutcome::Half);
                self.emit_by_id(slot, out);
            } else if let Some(response) = transactions.response_by_id(number, span.first, place) {
                response.begin(span, role);
                return slot;
            } else {
                // It answers a request that was evicted, or an earlier one with the same id; both have rows.
                return transactions.response_to_evicted(span.first, place);
            }
        }
        let (slot, response) = self
            .transactions
            .response(span.first, place, |_| ResponseMatch::Maybe);
        response.begin(span, role);
        slot
    }

    /// Releases slots of finished transactions behind the oldest request, if most transactions held are finished.
    pub(super) fn release_slots(&mut self, out: &mut ParserOutput<'_>) {
        let held = self.transactions.held();
        if M::IDS == CorrelationIds::None
            || held < OUTSTANDING_MIN
            || held < 4 * self.ids.requests.len()
        {
            return;
        }
        if let Some(number) = self.transactions.defer_oldest()
            && let Some(request) = self.transactions.request_mut(number)
            && let Some(id) = M::id(Direction::ClientToServer, &request.head)
            && let Some(named) = self.ids.requests.get_mut(&id)
        {
            named.number = number;
        }
        self.flush(out);
    }
}

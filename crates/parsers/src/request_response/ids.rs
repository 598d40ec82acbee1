//! Responses found by correlation ids, in any order.

use wire::TcpSeq;

use super::byte_stream::ServerMessageTarget;
use super::connection::RequestResponseParser;
use super::request_ids::NamedRequest;
use super::{CorrelationIds, RequestResponseProtocol, ServerMessageRole};
use crate::pairing::{OUTSTANDING_MIN, ResponseMatch, ResponseSlot, TransactionOutcome};
use crate::{Direction, MessageSpan, ParserOutput};

impl<M: RequestResponseProtocol> RequestResponseParser<M> {
    /// Records that messages of `direction` may be missing from `from` on.
    pub(super) fn lose_ids(&mut self, direction: Direction, from: TcpSeq) {
        match (M::IDS, direction) {
            (CorrelationIds::None, _) => {}
            (_, Direction::ServerToClient) => self.ids.lose_responses(),
            (CorrelationIds::Unique, Direction::ClientToServer) => {}
            (CorrelationIds::Reused, Direction::ClientToServer) => {
                let is_idle = self.transactions.waiting().next().is_none();
                self.ids.lose_requests(from, is_idle);
            }
        }
    }

    /// Records the id of request `number`.
    pub(super) fn note_id(&mut self, head: &[u8], number: u64, out: &mut ParserOutput<'_>) {
        let Some(id) = M::id(Direction::ClientToServer, head) else {
            return;
        };
        let transactions = &mut self.transactions;
        let waits = |named: &NamedRequest| transactions.place_of(named.number).is_some();
        let earlier = self.ids.get(id).filter(waits);
        self.ids.add(id, number, earlier);
        self.ids
            .purge(|number| transactions.place_of(number).is_some());
        if let Some(earlier) = earlier {
            transactions.conclude(earlier.number, TransactionOutcome::Half);
            self.emit_by_id(ResponseSlot::With(earlier.number), out);
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
        let named = id.and_then(|id| self.ids.get(id));
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
            ServerMessageRole::AnswerGoesOn | ServerMessageRole::AnswerMayGoOn => {
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
        self.ids.replace(id, named, next);
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
        if M::IDS == CorrelationIds::None || held < OUTSTANDING_MIN || held < 4 * self.ids.len() {
            return;
        }
        let oldest = self.transactions.requests() - held as u64;
        if let Some(number) = self.transactions.defer_oldest()
            && let Some(request) = self.transactions.request_mut(number)
            && let Some(id) = M::id(Direction::ClientToServer, &request.head)
        {
            self.ids.renumber(id, oldest, number);
        }
        self.flush(out);
    }
}

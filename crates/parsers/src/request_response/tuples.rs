//! Writes transactions and unsolicited messages as tuples.

use wire::Timestamp;

use super::byte_stream::ParsedMessage;
use super::connection::RequestResponseParser;
use super::{CorrelationIds, MessageView, RequestResponseProtocol, ServerMessageRole};
use crate::pairing::{MessageCompleteness, PairedTransaction, ResponseSlot, TransactionOutcome};
use crate::{ParserOutput, TupleQuality};

/// Maximum memory that a queue slot keeps for the next head.
const KEPT_BYTES: usize = 1024;

impl<M: RequestResponseProtocol> RequestResponseParser<M> {
    /// Writes finished transactions.
    pub(super) fn flush(&mut self, out: &mut ParserOutput<'_>) {
        let RequestResponseParser {
            transactions,
            emitted,
            ..
        } = self;
        transactions.hand_out(|transaction| emit(transaction, emitted, out));
    }

    /// Writes the transaction whose response, found by its id, has just ended.
    pub(super) fn emit_by_id(&mut self, spot: ResponseSlot, out: &mut ParserOutput<'_>) {
        if let (true, ResponseSlot::With(number)) = (M::IDS != CorrelationIds::None, spot) {
            let emitted = &mut self.emitted;
            self.transactions
                .hand_out_one(number, |transaction| emit(transaction, emitted, out));
        }
    }

    /// Writes the request that has just ended, if it is never answered.
    pub(super) fn emit_silent(&mut self, out: &mut ParserOutput<'_>) {
        self.transactions.hand_out_silent(self.request, |request| {
            TransactionRow::of(request, false).write(out)
        });
    }

    /// Writes the unsolicited message.
    pub(super) fn emit_unsolicited(&mut self, out: &mut ParserOutput<'_>) {
        let message = &self.unsolicited;
        let quality = if message.seen == MessageCompleteness::Whole {
            TupleQuality::Exact
        } else {
            TupleQuality::GapBody
        };
        let times = (message.span.first, Some(message.span.last));
        TransactionRow {
            times,
            quality,
            request: None,
            response: Some(message),
        }
        .write(out);
        if self.unsolicited.head.capacity() > KEPT_BYTES {
            self.unsolicited.head = Vec::new();
        }
    }
}

fn emit<M: RequestResponseProtocol>(
    transaction: &mut PairedTransaction<ParsedMessage<M>, ParsedMessage<M>>,
    emitted: &mut bool,
    out: &mut ParserOutput<'_>,
) {
    if transaction.is_separated() {
        out.counters.separated_halves += 1;
        return;
    }
    out.request = transaction.request_seq();
    TransactionRow::of(transaction, !*emitted && out.flow.midstream).write(out);
    *emitted = true;
    let (request, response) = transaction.parts_mut();
    for head in [&mut request.head, &mut response.head] {
        if head.capacity() > KEPT_BYTES {
            *head = Vec::new();
        }
    }
}

struct TransactionRow<'a, M> {
    /// Start time, and the time of the last byte.
    times: (Timestamp, Option<Timestamp>),
    quality: TupleQuality,
    request: Option<&'a ParsedMessage<M>>,
    response: Option<&'a ParsedMessage<M>>,
}

impl<M: RequestResponseProtocol> TransactionRow<'_, M> {
    /// `midway`: a pair is marked as the first of a connection joined midway.
    fn of(
        transaction: &PairedTransaction<ParsedMessage<M>, ParsedMessage<M>>,
        midway: bool,
    ) -> TransactionRow<'_, M> {
        let request = transaction.request();
        let response = transaction.response();
        let last = |message: Option<&ParsedMessage<M>>| {
            message.map_or(Timestamp::MIN, |message| message.span.last)
        };
        let times = (
            transaction.first(),
            transaction.complete_at(last(request), last(response)),
        );
        let mut row = TransactionRow {
            times,
            quality: TupleQuality::Half,
            request,
            response,
        };
        let is_silent =
            transaction.outcome() == TransactionOutcome::Silent && transaction.request_ended();
        row.quality = match (request, response) {
            (Some(_), Some(_)) if midway => TupleQuality::Midstream,
            (Some(_), Some(_)) if transaction.resynchronized() => TupleQuality::Resync,
            (Some(q), Some(r))
                if q.seen != MessageCompleteness::Whole || r.seen != MessageCompleteness::Whole =>
            {
                TupleQuality::GapBody
            }
            (Some(_), Some(_)) if row.response_time().is_some_and(|ns| ns < 0) => {
                TupleQuality::Untimed
            }
            (Some(_), Some(_)) if row.transfer_time().is_some_and(|ns| ns < 0) => {
                TupleQuality::Untimed
            }
            (Some(_), Some(_)) => TupleQuality::Exact,
            (Some(q), None) if is_silent && q.seen == MessageCompleteness::Whole => {
                TupleQuality::Exact
            }
            (Some(_), None) if is_silent => TupleQuality::GapBody,
            _ => TupleQuality::Half,
        };
        row
    }

    /// Time from the last byte of the request to the first byte of the response, if both were seen.
    fn response_time(&self) -> Option<i64> {
        let (request, response) = self.request.zip(self.response)?;
        request
            .seen
            .has_end()
            .then(|| response.span.first.since(request.span.last))
    }

    /// Time from the first to the last byte of the response, if both were seen.
    fn transfer_time(&self) -> Option<i64> {
        let response = self.response.filter(|response| response.seen.has_end())?;
        Some(response.span.last.since(response.span.first))
    }

    /// Time from the last byte of the request to the last byte of the response, if both were seen.
    fn total_time(&self) -> Option<i64> {
        let (request, response) = self.request.zip(self.response)?;
        let is_seen = request.seen.has_end() && response.seen.has_end();
        is_seen.then(|| response.span.last.since(request.span.last))
    }

    fn write(&self, out: &mut ParserOutput<'_>) {
        let known = |time: Option<i64>| time.filter(|ns| *ns >= 0);
        let pair = self.request.zip(self.response);
        let response_time = known(self.response_time());
        let waits =
            pair.map(|(request, response)| M::waits(&request.head, &response.head, response_time));
        // Without the request it is not known whether the server waited.
        let is_unasked = self.request.is_none() && M::WAITED_NS.is_some();
        let times = match waits.unwrap_or((!is_unasked).then_some(false)) {
            Some(false) => [
                (Some(M::RESPONSE_TIME_NS), response_time),
                (M::TRANSFER_TIME_NS, known(self.transfer_time())),
                (M::TOTAL_TIME_NS, known(self.total_time())),
            ],
            Some(true) => [(M::WAITED_NS, response_time), (None, None), (None, None)],
            None => [(None, None); 3],
        };
        out.emit(
            self.times,
            self.quality,
            |_| true,
            |w| {
                M::write(
                    self.request.map(ParsedMessage::said),
                    self.response.map(ParsedMessage::said),
                    w,
                );
                if let (Some(field), Some(Some(waits))) = (M::WAITING, waits) {
                    w.bool(field, waits);
                }
                for (field, message) in M::BYTES.iter().zip([self.request, self.response]) {
                    if let (Some(field), Some(m)) = (
                        field,
                        message.filter(|m| m.seen != MessageCompleteness::Cut),
                    ) {
                        w.u64(*field, m.bytes);
                    }
                }
                for (field, time) in times {
                    if let (Some(field), Some(time)) = (field, time) {
                        w.i64(field, time);
                    }
                }
            },
        );
    }
}

impl MessageView<'_> {
    /// Whether the message is unsolicited.
    #[must_use]
    pub fn is_unsolicited(self) -> bool {
        self.role == ServerMessageRole::Unsolicited
    }
}

//! Writes transactions and unsolicited messages as tuples.

use wire::Timestamp;

use super::connection::RequestResponse;
use super::lane::Message;
use super::{Messages, Role, Said};
use crate::pairing::{Outcome, Seen, Transaction};
use crate::{Output, Quality};

/// Maximum memory that a queue slot keeps for the next head.
const KEPT_BYTES: usize = 1024;

impl<M: Messages> RequestResponse<M> {
    /// Writes finished transactions.
    pub(super) fn flush(&mut self, out: &mut Output<'_>) {
        let RequestResponse { transactions, emitted, .. } = self;
        transactions.hand_out(|transaction| {
            if transaction.is_separated() {
                out.counters.separated_halves += 1;
                return;
            }
            out.request = transaction.request_seq();
            Row::of(transaction, !*emitted && out.flow.midstream).write(out);
            *emitted = true;
            let (request, response) = transaction.parts_mut();
            for head in [&mut request.head, &mut response.head] {
                if head.capacity() > KEPT_BYTES {
                    *head = Vec::new();
                }
            }
        });
    }

    /// Writes the request that has just ended, if it is never answered.
    pub(super) fn emit_silent(&mut self, out: &mut Output<'_>) {
        self.transactions.hand_out_silent(self.request, |request| Row::of(request, false).write(out));
    }

    /// Writes the unsolicited message.
    pub(super) fn emit_unsolicited(&mut self, out: &mut Output<'_>) {
        let message = &self.unsolicited;
        let quality = if message.seen == Seen::Whole { Quality::Exact } else { Quality::GapBody };
        let times = (message.span.first, Some(message.span.last));
        Row { times, quality, request: None, response: Some(message) }.write(out);
        if self.unsolicited.head.capacity() > KEPT_BYTES {
            self.unsolicited.head = Vec::new();
        }
    }
}

struct Row<'a, M> {
    /// Start time, and the time of the last byte.
    times: (Timestamp, Option<Timestamp>),
    quality: Quality,
    request: Option<&'a Message<M>>,
    response: Option<&'a Message<M>>,
}

impl<M: Messages> Row<'_, M> {
    /// `midway`: a pair is marked as the first of a connection joined midway.
    fn of(transaction: &Transaction<Message<M>, Message<M>>, midway: bool) -> Row<'_, M> {
        let (request, response) = (transaction.request(), transaction.response());
        let last = |message: Option<&Message<M>>| message.map_or(Timestamp::MIN, |message| message.span.last);
        let times = (transaction.first(), transaction.complete_at(last(request), last(response)));
        let mut row = Row { times, quality: Quality::Half, request, response };
        let is_silent = transaction.outcome() == Outcome::Silent && transaction.request_ended();
        row.quality = match (request, response) {
            (Some(_), Some(_)) if midway => Quality::Midstream,
            (Some(_), Some(_)) if transaction.resynchronised() => Quality::Resync,
            (Some(q), Some(r)) if q.seen != Seen::Whole || r.seen != Seen::Whole => Quality::GapBody,
            (Some(_), Some(_)) if row.response_time().is_some_and(|ns| ns < 0) => Quality::Untimed,
            (Some(_), Some(_)) if row.transfer_time().is_some_and(|ns| ns < 0) => Quality::Untimed,
            (Some(_), Some(_)) => Quality::Exact,
            (Some(q), None) if is_silent && q.seen == Seen::Whole => Quality::Exact,
            (Some(_), None) if is_silent => Quality::GapBody,
            _ => Quality::Half,
        };
        row
    }

    /// Time from the last byte of the request to the first byte of the response, if both were seen.
    fn response_time(&self) -> Option<i64> {
        let (request, response) = self.request.zip(self.response)?;
        request.seen.has_end().then(|| response.span.first.since(request.span.last))
    }

    /// Time from the first to the last byte of the response, if both were seen.
    fn transfer_time(&self) -> Option<i64> {
        let response = self.response.filter(|response| response.seen.has_end())?;
        Some(response.span.last.since(response.span.first))
    }

    fn write(&self, out: &mut Output<'_>) {
        let known = |time: Option<i64>| time.filter(|ns| *ns >= 0);
        let (response_time, transfer_time) = (known(self.response_time()), known(self.transfer_time()));
        out.emit(
            self.times,
            self.quality,
            |_| true,
            |w| {
                M::write(self.request.map(Message::said), self.response.map(Message::said), w);
                for (field, message) in M::BYTES.iter().zip([self.request, self.response]) {
                    if let (Some(field), Some(m)) = (field, message.filter(|m| m.seen != Seen::Cut)) {
                        w.u64(*field, m.bytes);
                    }
                }
                if let Some(time) = response_time {
                    w.i64(M::RESPONSE_TIME_NS, time);
                }
                if let (Some(field), Some(time)) = (M::TRANSFER_TIME_NS, transfer_time) {
                    w.i64(field, time);
                }
            },
        );
    }
}

impl Said<'_> {
    /// Whether the message is unsolicited.
    #[must_use]
    pub fn is_unsolicited(self) -> bool {
        self.role == Role::Unsolicited
    }
}

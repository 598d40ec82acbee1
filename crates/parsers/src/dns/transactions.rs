//! Matches responses to questions of one flow by id and question; either may be captured first.

use wire::Timestamp;

use super::early_responses::{
    DnsAnsweredQueries, DnsEarlyResponse, DnsEarlyResponses, DnsTransactionHalf, DnsUnpairedHalves,
    SKEW_NS,
};
use super::emit;
use super::message::{DnsHeader, DnsMessage, DnsQuestion};
use super::pending_queries::{DnsPendingQueries, DnsPendingQuery, DnsQuestionEcho};
use crate::pairing::can_answer;
use crate::{Direction, MessageSpan, ParserOutput};

/// Queries of a flow and their outcomes.
#[derive(Default)]
pub struct DnsTransactions {
    waiting: DnsPendingQueries,
    early: DnsEarlyResponses,
    answered: DnsAnsweredQueries,
    halves: DnsUnpairedHalves,
}

impl DnsTransactions {
    /// Handles a message; `question` is its first question.
    pub fn message(
        &mut self,
        message: &DnsMessage<'_>,
        question: DnsQuestion<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        match (message.header.is_answer(), question) {
            (true, question) => self.answer(message, question, out),
            (false, DnsQuestion::Whole(question)) => self.question(message, question, out),
            // Cookies only (RFC 7873 section 5.4), or an operation without a question.
            (false, DnsQuestion::None) => self.question(message, &[], out),
            // The name is cut or malformed: a response to it would be ambiguous.
            (false, _) => emit::half(message, out),
        }
    }

    /// Ends the flow.
    pub fn close(&mut self, out: &mut ParserOutput<'_>) {
        while let Some(held) = self.early.take_oldest() {
            unasked(&held, out);
        }
        while let Some(place) = self.waiting.oldest() {
            emit::tuple(self.waiting.get(place), None, out);
            self.waiting.remove(place);
        }
    }

    fn question(&mut self, message: &DnsMessage<'_>, question: &[u8], out: &mut ParserOutput<'_>) {
        let DnsMessage {
            direction,
            header,
            span,
            place,
            found,
            ..
        } = *message;
        let crowded_out = match self.waiting.find(direction, header.id, question) {
            Ok(at) => {
                let asked = self.waiting.get(at);
                asked.retries = asked.retries.saturating_add(1);
                asked.last_sent = asked.last_sent.max(span.last);
                out.counters.retransmitted_calls += 1;
                return;
            }
            Err(crowded_out) => crowded_out,
        };
        if self
            .halves
            .take(DnsTransactionHalf::Answer, direction, header.id, question)
        {
            out.counters.separated_halves += 1;
            return self
                .answered
                .note(direction, header.id, question, span.last);
        }
        let mut asked = DnsPendingQuery {
            direction,
            header,
            question: Vec::new(),
            span,
            last_sent: span.last,
            place,
            found,
            gap: message.is_cut(),
            bytes: message.len,
            retries: 0,
        };
        if let Some(held) = self.early.take(&asked, question) {
            asked.question.extend_from_slice(question);
            if let Some(answer) = message_of(&held) {
                emit::tuple(&asked, Some(&answer), out);
            }
            self.answered
                .note(direction, header.id, question, span.last);
            return;
        }
        if let Some(oldest) = crowded_out {
            out.counters.evicted_requests += 1;
            self.give_up(oldest, out);
        }
        self.waiting.enter(asked, question);
    }

    fn answer(
        &mut self,
        message: &DnsMessage<'_>,
        question: DnsQuestion<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let DnsMessage {
            direction,
            header,
            span,
            ..
        } = *message;
        let asker = direction.other();
        let (repeated, whole) = match question {
            DnsQuestion::Whole(question) => (DnsQuestionEcho::Whole(question), Some(question)),
            DnsQuestion::Cut(seen) => (DnsQuestionEcho::Beginning(seen), None),
            DnsQuestion::None | DnsQuestion::Malformed => (DnsQuestionEcho::Nothing, None),
        };
        let found = self.waiting.find_asked(asker, header.id, repeated);
        if let Some(at) = found.filter(|at| can_get(self.waiting.get(*at), message)) {
            let asked = self.waiting.get(at);
            emit::tuple(asked, Some(message), out);
            self.answered
                .note(asker, header.id, &asked.question, span.first);
            self.waiting.remove(at);
        } else if self.answered.knows(asker, header.id, whole, span.first) {
            out.counters.repeated_replies += 1;
        } else if let Some(question) = whole
            && self
                .halves
                .take(DnsTransactionHalf::Question, asker, header.id, question)
        {
            out.counters.separated_halves += 1;
            self.answered.note(asker, header.id, question, span.first);
        } else if message.place.is_none() && whole.is_some() {
            if let Some(oldest) = self
                .early
                .hold(direction, message.bytes, message.len, span.first)
            {
                out.counters.evicted_requests += 1;
                self.crowd_out(&oldest, out);
            }
        } else {
            emit::half(message, out);
        }
    }

    /// Writes a response that was evicted before its question was captured.
    #[cold]
    fn crowd_out(&mut self, held: &DnsEarlyResponse, out: &mut ParserOutput<'_>) {
        unasked(held, out);
        let Some(header) = DnsHeader::read(&held.bytes) else {
            return;
        };
        if let DnsQuestion::Whole(question) = DnsQuestion::read(&held.bytes, header) {
            self.halves.note(
                DnsTransactionHalf::Answer,
                held.direction.other(),
                header.id,
                question,
            );
        }
    }

    /// Removes entries that can no longer be matched, when `direction` sends at `now`.
    pub fn expire(&mut self, direction: Direction, now: Timestamp, out: &mut ParserOutput<'_>) {
        while let Some(held) = self.early.take_overdue(direction, now) {
            unasked(&held, out);
        }
        while let Some(place) = self.waiting.expired(now) {
            self.give_up(place, out);
        }
    }

    fn give_up(&mut self, place: usize, out: &mut ParserOutput<'_>) {
        let asked = self.waiting.get(place);
        emit::tuple(asked, None, out);
        self.halves.note(
            DnsTransactionHalf::Question,
            asked.direction,
            asked.header.id,
            &asked.question,
        );
        self.waiting.remove(place);
    }
}

/// Whether a response may answer this question rather than an earlier one with the same id and name: over TCP
/// by acknowledgments, otherwise by time.
fn can_get(asked: &DnsPendingQuery, answer: &DnsMessage<'_>) -> bool {
    match (asked.place, answer.place) {
        (Some(asked), Some(answered)) => can_answer(asked, answered),
        _ => answer.span.first >= asked.span.last.plus(-SKEW_NS),
    }
}

fn message_of(held: &DnsEarlyResponse) -> Option<DnsMessage<'_>> {
    Some(DnsMessage {
        direction: held.direction,
        header: DnsHeader::read(&held.bytes)?,
        bytes: &held.bytes,
        len: held.len,
        span: MessageSpan::at(held.ts),
        place: None,
        found: None,
    })
}

/// Writes a response without a question.
fn unasked(held: &DnsEarlyResponse, out: &mut ParserOutput<'_>) {
    if let Some(message) = message_of(held) {
        emit::half(&message, out);
    }
}

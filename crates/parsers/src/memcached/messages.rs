//! Start, continuation, and end of requests and responses, independent of the protocol.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::byte_stream::MemcachedStreamState;
use super::command::{MemcachedCommandClass, MemcachedStatus};
use super::connection::{
    MemcachedConnection, MemcachedJoinState, MemcachedOpenResponse, MemcachedResponseEnd,
};
use super::emit;
use super::keys::MemcachedKeyCursor;
use super::transaction::{
    MemcachedRequest, MemcachedRequestHead, MemcachedResponse, RefusedValuePolicy,
};
use crate::pairing::MessageCompleteness;
use crate::pairing::{ResponseExpectation, ResponseSlot, TransactionOutcome};
use crate::{Direction, MessageSpan, ParserOutput, StreamGap};

/// Maximum memory of keys and texts of held requests, besides borrowed memory.
const WEIGHT_MAX: usize = 512 * 1024;

impl MemcachedConnection {
    /// Begins a request at `place`. Its keys and then its value follow.
    #[inline]
    pub(super) fn begin_request(
        &mut self,
        asked: &MemcachedRequestHead<'_>,
        span: MessageSpan,
        place: StreamPlace,
    ) -> &mut MemcachedRequest {
        let found = std::mem::take(&mut self.client.found);
        let (number, request) = self
            .transactions
            .request(span.first, place, asked.expects, found);
        self.request = number;
        request.become_one(asked, span.last);
        request
    }

    /// Completes the stored part of the request; `value` bytes follow the part that ends at `end`.
    #[inline]
    pub(super) fn read_request(&mut self, value: u64, end: TcpSeq, out: &mut ParserOutput<'_>) {
        self.transactions.make_room(out, MemcachedRequest::weight);
        self.weight += self
            .transactions
            .request_mut(self.request)
            .map_or(0, |request| request.weight());
        if self.weight > WEIGHT_MAX || self.transactions.has_evicted() {
            self.evict(out);
        }
        match value {
            0 => self.finish_request(end, out),
            bytes => self.client.state = MemcachedStreamState::Value(bytes),
        }
    }

    #[cold]
    fn evict(&mut self, out: &mut ParserOutput<'_>) {
        self.flush(out);
        let max = WEIGHT_MAX + self.transactions.text_bytes_borrowed();
        while self.weight > max && self.transactions.held() > 1 && self.transactions.evict_oldest()
        {
            self.flush(out);
        }
        out.counters.evicted_requests += self.transactions.take_evicted();
    }

    #[inline]
    fn finish_request(&mut self, end: TcpSeq, out: &mut ParserOutput<'_>) {
        let Some(request) = self.transactions.finish_request(self.request, Some(end)) else {
            return;
        };
        match request.expects {
            ResponseExpectation::Nothing => self.write_silent(out),
            // The response may have arrived.
            _ if request.value_bytes.is_some() => {}
            _ => return,
        }
        self.flush(out);
    }

    /// Writes the current request, which is finished because it is never answered.
    fn write_silent(&mut self, out: &mut ParserOutput<'_>) {
        let MemcachedConnection {
            transactions,
            weight,
            ..
        } = self;
        transactions.hand_out_silent(self.request, |transaction| {
            *weight -= transaction.request().map_or(0, MemcachedRequest::weight);
            emit::emit(transaction, false, out);
        });
    }

    /// Begins a response at `spot`.
    #[inline]
    pub(super) fn begin_answering(&mut self, spot: ResponseSlot) -> MemcachedOpenResponse {
        let class = self
            .transactions
            .request_of(spot)
            .map_or(MemcachedCommandClass::Any, |request| request.class);
        self.server.found = false;
        MemcachedOpenResponse {
            spot,
            class,
            cursor: MemcachedKeyCursor::default(),
            ends: MemcachedResponseEnd::WithValue,
        }
    }

    /// The response in progress, if it is still held.
    #[inline]
    pub(super) fn response_mut(&mut self) -> Option<&mut MemcachedResponse> {
        self.transactions.response_mut(self.answering?.spot)
    }

    /// Records a returned `key` with the length of its value.
    #[inline]
    pub(super) fn key_came(&mut self, key: &[u8], value_bytes: u64) {
        let Some(answering) = &mut self.answering else {
            return;
        };
        if let ResponseSlot::With(number) = answering.spot
            && let Some(request) = self.transactions.request_mut(number)
            && request.keys.came(key, value_bytes, &mut answering.cursor)
        {
            return;
        }
        if let Some(response) = self.response_mut() {
            response.keep_key(key, Some(value_bytes));
        }
    }

    /// Ends the response in progress.
    pub(super) fn finish_response(&mut self, end: TcpSeq, out: &mut ParserOutput<'_>) {
        let Some(MemcachedOpenResponse { spot, class, .. }) = self.answering.take() else {
            return;
        };
        let status = self
            .transactions
            .finish_response(spot, Some(end))
            .map(|response| response.status(class));
        match (class, status) {
            (MemcachedCommandClass::Watch, Some(MemcachedStatus::Ok)) => {
                self.server.state = MemcachedStreamState::Over
            }
            (
                MemcachedCommandClass::Storage | MemcachedCommandClass::MetaSet,
                Some(
                    MemcachedStatus::Error
                    | MemcachedStatus::ClientError
                    | MemcachedStatus::ServerError,
                ),
            ) if self
                .transactions
                .request_of(spot)
                .is_some_and(|r| r.refused == RefusedValuePolicy::MayBeRead) =>
            {
                // Each line of the value may be answered.
                self.transactions.lose(Direction::ServerToClient);
            }
            _ => {}
        }
        self.flush(out);
    }

    /// Ends the response in progress without its remaining part.
    pub(super) fn cut_response(&mut self) {
        let Some(answering) = self.answering.take() else {
            return;
        };
        if let Some(response) = self.transactions.finish_response(answering.spot, None) {
            response.seen = MessageCompleteness::Cut;
        }
    }

    /// Records bytes of a value up to `end`, with `left` remaining; `ts` is `None` if they are missing.
    #[inline]
    pub(super) fn pass_value(
        &mut self,
        direction: Direction,
        left: u64,
        ts: Option<Timestamp>,
        end: TcpSeq,
        out: &mut ParserOutput<'_>,
    ) {
        self.lane(direction).state = if left == 0 {
            MemcachedStreamState::Between
        } else {
            MemcachedStreamState::Value(left)
        };
        match direction {
            Direction::ClientToServer => {
                if let (Some(ts), Some(request)) = (ts, self.transactions.request_mut(self.request))
                {
                    request.extend(ts);
                }
                if left == 0 {
                    self.finish_request(end, out);
                }
            }
            Direction::ServerToClient => {
                if let (Some(ts), Some(response)) = (ts, self.response_mut()) {
                    response.extend(ts);
                }
                if left == 0
                    && self
                        .answering
                        .is_some_and(|a| a.ends == MemcachedResponseEnd::WithValue)
                {
                    self.finish_response(end, out);
                }
            }
        }
    }

    /// Whether the gap after a value is exactly the end of its response: only `END\r\n` can follow the last
    /// requested key.
    pub(super) fn ends_in_gap(&mut self, gap: StreamGap, out: &mut ParserOutput<'_>) -> bool {
        const END: &[u8] = b"END\r\n";
        let head = &self.server.head;
        let Some(answering) = self
            .answering
            .filter(|a| a.class == MemcachedCommandClass::Retrieval)
        else {
            return false;
        };
        let all_came = self
            .transactions
            .request_of(answering.spot)
            .is_some_and(|r| answering.cursor.is_behind(&r.keys));
        if !all_came || !END.starts_with(head) || gap.len != (END.len() - head.len()) as u64 {
            return false;
        }
        self.server.head.clear();
        self.server.span = None;
        self.server.state = MemcachedStreamState::Between;
        if let Some(response) = self.response_mut() {
            response.seen.miss(gap.ts != response.last);
            response.last = response.last.max(gap.ts);
            response.end_with(super::reply::MemcachedReplyKind::End);
        }
        self.finish_response(gap.after(gap.len), out);
        true
    }

    /// Writes finished transactions.
    #[inline]
    pub(super) fn flush(&mut self, out: &mut ParserOutput<'_>) {
        let MemcachedConnection {
            transactions,
            weight,
            start,
            opaques,
            evicted,
            ..
        } = self;
        transactions.hand_out(|transaction| {
            if transaction.is_separated() {
                out.counters.separated_halves += 1;
                return;
            }
            *weight -= transaction.request().map_or(0, MemcachedRequest::weight);
            out.request = transaction.request_seq();
            if emit::emit(transaction, *start == MemcachedJoinState::Midway, out)
                == emit::MemcachedTupleKind::Pair
            {
                *start = MemcachedJoinState::Behind;
            }
            if transaction.outcome() == TransactionOutcome::BrokenOff
                && opaques.are_unique()
                && let Some(request) = transaction.request()
            {
                evicted.push(request.opaque);
            }
            let (request, response) = transaction.parts_mut();
            request.trim();
            response.trim();
        });
    }
}

//! Missing bytes, invalid bytes, and ends of streams; and the search for the next message after them.

use std::marker::PhantomData;

use super::byte_stream::{MessageByteStream, MessageStreamState, ParsedMessage};
use super::connection::RequestResponseParser;
use super::{CorrelationIds, MessageBoundary, MessagePosition, RequestResponseProtocol};
use crate::pairing::{MessageCompleteness, TransactionQueue};
use crate::resync::{CandidateVerdict, MessageCandidate, MessageLocator, SegmentBeginning};
use crate::{Direction, ParserOutput, StreamGap, StreamSegment};

/// Search for the start of a message of `M`.
struct ProtocolMessageLocator<'a, M> {
    direction: Direction,
    protocol: &'a M,
    transactions: &'a TransactionQueue<ParsedMessage<M>, ParsedMessage<M>>,
    of: PhantomData<M>,
}

impl<M: RequestResponseProtocol> MessageLocator for ProtocolMessageLocator<'_, M> {
    const HEAD_BYTES_MAX: usize = M::HEAD_BYTES_MAX;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        M::next(self.direction, bytes, from)
    }

    fn begins_segment(&self, beginning: SegmentBeginning) -> bool {
        self.transactions.begins_message(self.direction, beginning)
    }

    fn judge(&self, candidate: &MessageCandidate<'_>) -> CandidateVerdict {
        let answers = || self.transactions.answered_from(candidate.place).is_some();
        let found = match self.direction {
            Direction::ServerToClient if answers() => MessagePosition::AnswerStart,
            _ if candidate.begins_segment => MessagePosition::SegmentStart,
            _ => MessagePosition::Anywhere,
        };
        if !self
            .protocol
            .believe(self.direction, candidate.bytes, found)
        {
            return CandidateVerdict::No;
        }
        match self.protocol.cut(self.direction, candidate.bytes) {
            MessageBoundary::Message { head, .. } | MessageBoundary::Part { head, .. }
                if (1..=candidate.bytes.len()).contains(&head) =>
            {
                CandidateVerdict::Message
            }
            MessageBoundary::NeedMore => CandidateVerdict::More,
            _ => CandidateVerdict::No,
        }
    }
}

impl<M: RequestResponseProtocol> RequestResponseParser<M> {
    /// Searches for the next message.
    pub(super) fn search(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let RequestResponseParser {
            protocol,
            transactions,
            client,
            server,
            ..
        } = self;
        if direction == Direction::ServerToClient {
            transactions.search(segment.place);
        }
        let heads = ProtocolMessageLocator {
            direction,
            protocol,
            transactions,
            of: PhantomData,
        };
        let lane = if direction == Direction::ClientToServer {
            client
        } else {
            server
        };
        let Some(found) = lane.resync.find(&heads, segment, out) else {
            return segment.bytes.len();
        };
        *lane = MessageByteStream {
            found: true,
            ..MessageByteStream::default()
        };
        if found.skipped {
            transactions.lose(direction);
        }
        found.replay(|held| crate::StreamParser::on_bytes(self, direction, held, out))
    }

    /// Handles bytes that are not the expected message or part: searches for one in `segment`.
    #[cold]
    pub(super) fn no_message(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        out.counters.malformed_messages += 1;
        // A message that was found by a search is not found again.
        let used = if self.lane(direction).found {
            segment.bytes.len()
        } else {
            0
        };
        out.counters.skipped_bytes += used as u64;
        let MessageByteStream { place, .. } = *self.lane_of(direction);
        self.lose_ids(direction, place.seq);
        self.get_lost(direction, out);
        self.transactions.lose(direction);
        self.flush(out);
        used
    }

    /// Handles a loss behind which nothing is known of the stream, not even where a body ends.
    pub(crate) fn lose_place(
        &mut self,
        direction: Direction,
        gap: StreamGap,
        out: &mut ParserOutput<'_>,
    ) {
        self.begin_connection(out);
        if self.lane(direction).state != MessageStreamState::Over {
            self.lose_ids(direction, gap.seq);
            self.get_lost(direction, out);
            self.transactions.miss(direction);
            self.flush(out);
        }
    }

    /// Handles a gap.
    pub(super) fn miss(
        &mut self,
        direction: Direction,
        gap: StreamGap,
        out: &mut ParserOutput<'_>,
    ) {
        let ended = self
            .transactions
            .request_mut(self.request)
            .map(|request| request.span.last);
        if direction == Direction::ClientToServer && ended == Some(gap.ts) {
            self.transactions.cut_behind_request();
        }
        match self.lane(direction).state {
            MessageStreamState::Over => return,
            MessageStreamState::Body { left, rest } => {
                if let Some(message) = self.message(direction) {
                    // Bytes cut by the snaplen arrived with the bytes before them.
                    message.seen.miss(gap.ts != message.span.last);
                    if left <= gap.len && rest.is_none() {
                        message.span.extend(gap.ts);
                    }
                }
                if left > gap.len {
                    self.lane(direction).state = MessageStreamState::Body {
                        left: left - gap.len,
                        rest,
                    };
                    return;
                }
                let end = gap.after(left);
                match rest {
                    Some(rest) => self.lane(direction).state = MessageStreamState::Inside(rest),
                    None => self.finish(direction, Some(end), out),
                }
                if left == gap.len {
                    return;
                }
            }
            MessageStreamState::Between
            | MessageStreamState::Inside(_)
            | MessageStreamState::Lost => {}
        }
        self.lose_place(direction, gap, out);
    }

    /// Handles an idle connection with a message in progress: it is written as cut.
    #[cold]
    pub(super) fn pause(&mut self, out: &mut ParserOutput<'_>) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            if self.lane_of(direction).is_within()
                && let Some(message) = self.message(direction)
            {
                message.seen = MessageCompleteness::Cut;
            }
        }
        if let Some(spot) = self.open.or(self.answering.slot())
            && let Some(response) = self.transactions.finish_response(spot, None)
        {
            response.seen = MessageCompleteness::Cut;
        }
        self.transactions.pause();
        self.flush(out);
    }

    /// Ends `direction`.
    pub(super) fn end(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        self.break_off(direction, out);
        self.lane(direction).resync.start_anew(out);
        let state = match self.lane(direction).state {
            MessageStreamState::Over => MessageStreamState::Over,
            _ => MessageStreamState::Between,
        };
        *self.lane(direction) = MessageByteStream {
            state,
            ..MessageByteStream::default()
        };
    }

    /// Enters the state in which the start of the next message is unknown.
    fn get_lost(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        self.break_off(direction, out);
        let lane = self.lane(direction);
        lane.resync.start_anew(out);
        out.counters.resyncs += u64::from(lane.state != MessageStreamState::Lost);
        *lane = MessageByteStream {
            state: MessageStreamState::Lost,
            ..MessageByteStream::default()
        };
        self.protocol.lose(direction);
    }

    /// Ends the message in progress, if any, without its end.
    fn break_off(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        if matches!(
            self.lane(direction).state,
            MessageStreamState::Inside(_) | MessageStreamState::Body { .. }
        ) {
            if let Some(message) = self.message(direction) {
                message.seen = MessageCompleteness::Cut;
            }
            self.finish(direction, None, out);
        }
        // The same for a response with further parts.
        if direction == Direction::ServerToClient
            && let Some(spot) = self.open.take()
            && let Some(response) = self.transactions.finish_response(spot, None)
        {
            response.seen = MessageCompleteness::Cut;
        }
        if direction == Direction::ServerToClient && M::IDS != CorrelationIds::None {
            self.transactions
                .begun_responses()
                .for_each(|response| response.seen = MessageCompleteness::Cut);
        }
    }
}

//! Missing bytes, invalid bytes, and ends of streams; and the search for the next message after them.

use std::marker::PhantomData;

use super::connection::RequestResponse;
use super::lane::{Answering, Lane, Message, State};
use super::{Cut, Found, Messages};
use crate::pairing::{Seen, Transactions};
use crate::resync::{Beginning, Candidate, Heads, Verdict};
use crate::{Direction, Gap, Output, Segment};

/// Search for the start of a message of `M`.
struct Search<'a, M> {
    direction: Direction,
    protocol: &'a M,
    transactions: &'a Transactions<Message<M>, Message<M>>,
    of: PhantomData<M>,
}

impl<M: Messages> Heads for Search<'_, M> {
    const HEAD_BYTES_MAX: usize = M::HEAD_BYTES_MAX;

    fn next(&self, bytes: &[u8], from: usize) -> Option<usize> {
        M::next(self.direction, bytes, from)
    }

    fn begins_segment(&self, beginning: Beginning) -> bool {
        self.transactions.begins_message(self.direction, beginning)
    }

    fn judge(&self, candidate: &Candidate<'_>) -> Verdict {
        let answers = || self.transactions.answered_from(candidate.place).is_some();
        let found = match self.direction {
            Direction::ServerToClient if answers() => Found::AnswerStart,
            _ if candidate.begins_segment => Found::SegmentStart,
            _ => Found::Anywhere,
        };
        if !self.protocol.believe(self.direction, candidate.bytes, found) {
            return Verdict::No;
        }
        match self.protocol.cut(self.direction, candidate.bytes) {
            Cut::Message { head, .. } | Cut::Part { head, .. }
                if (1..=candidate.bytes.len()).contains(&head) =>
            {
                Verdict::Message
            }
            Cut::NeedMore => Verdict::More,
            _ => Verdict::No,
        }
    }
}

impl<M: Messages> RequestResponse<M> {
    /// Searches for the next message.
    pub(super) fn search(
        &mut self,
        direction: Direction,
        segment: Segment<'_>,
        out: &mut Output<'_>,
    ) -> usize {
        let RequestResponse { protocol, transactions, client, server, .. } = self;
        if direction == Direction::ServerToClient {
            transactions.search(segment.place);
        }
        let heads = Search { direction, protocol, transactions, of: PhantomData };
        let lane = if direction == Direction::ClientToServer { client } else { server };
        let Some(found) = lane.resync.find(&heads, segment, out) else { return segment.bytes.len() };
        *lane = Lane { found: true, ..Lane::default() };
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
        segment: Segment<'_>,
        out: &mut Output<'_>,
    ) -> usize {
        out.counters.malformed_messages += 1;
        // A message that was found by a search is not found again.
        let used = if self.lane(direction).found { segment.bytes.len() } else { 0 };
        out.counters.skipped_bytes += used as u64;
        self.get_lost(direction, out);
        self.transactions.lose(direction);
        self.flush(out);
        used
    }

    /// Handles a gap.
    pub(super) fn miss(&mut self, direction: Direction, gap: Gap, out: &mut Output<'_>) {
        match self.lane(direction).state {
            State::Over => return,
            State::Body { left, rest } => {
                if let Some(message) = self.message(direction) {
                    // Bytes cut by the snaplen arrived with the bytes before them.
                    message.seen.miss(gap.ts != message.span.last);
                    if left <= gap.len && rest.is_none() {
                        message.span.extend(gap.ts);
                    }
                }
                if left > gap.len {
                    self.lane(direction).state = State::Body { left: left - gap.len, rest };
                    return;
                }
                let end = gap.after(left);
                match rest {
                    Some(rest) => self.lane(direction).state = State::Inside(rest),
                    None => self.finish(direction, Some(end), out),
                }
                if left == gap.len {
                    return;
                }
            }
            State::Between | State::Inside(_) | State::Lost => {}
        }
        if self.lane(direction).state != State::Over {
            self.get_lost(direction, out);
            self.transactions.miss(direction);
            self.flush(out);
        }
    }

    /// Handles an idle connection with a message in progress: it is written as cut.
    #[cold]
    pub(super) fn pause(&mut self, out: &mut Output<'_>) {
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            if self.lane_of(direction).is_within()
                && let Some(message) = self.message(direction)
            {
                message.seen = Seen::Cut;
            }
        }
        let answering = match self.answering {
            Answering::Request(spot) => Some(spot),
            _ => None,
        };
        if let Some(spot) = self.open.or(answering)
            && let Some(response) = self.transactions.finish_response(spot, None)
        {
            response.seen = Seen::Cut;
        }
        self.transactions.pause();
        self.flush(out);
    }

    /// Ends `direction`.
    pub(super) fn end(&mut self, direction: Direction, out: &mut Output<'_>) {
        self.break_off(direction, out);
        self.lane(direction).resync.start_anew(out);
        let state = match self.lane(direction).state {
            State::Over => State::Over,
            _ => State::Between,
        };
        *self.lane(direction) = Lane { state, ..Lane::default() };
    }

    /// Enters the state in which the start of the next message is unknown.
    fn get_lost(&mut self, direction: Direction, out: &mut Output<'_>) {
        self.break_off(direction, out);
        let lane = self.lane(direction);
        lane.resync.start_anew(out);
        out.counters.resyncs += u64::from(lane.state != State::Lost);
        *lane = Lane { state: State::Lost, ..Lane::default() };
        self.protocol.lose(direction);
    }

    /// Ends the message in progress, if any, without its end.
    fn break_off(&mut self, direction: Direction, out: &mut Output<'_>) {
        if matches!(self.lane(direction).state, State::Inside(_) | State::Body { .. }) {
            if let Some(message) = self.message(direction) {
                message.seen = Seen::Cut;
            }
            self.finish(direction, None, out);
        }
        // The same for a response with further parts.
        if direction == Direction::ServerToClient
            && let Some(spot) = self.open.take()
            && let Some(response) = self.transactions.finish_response(spot, None)
        {
            response.seen = Seen::Cut;
        }
    }
}

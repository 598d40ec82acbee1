//! What missing bytes, bytes that make no sense and ends do to an HTTP/1 connection.

use super::body::{Body, Skip};
use super::connection::Connection;
use super::lane::State;
use crate::{Direction, Output};
use wire::Timestamp;

impl Connection {
    /// `len` bytes of `direction` are missing.
    #[cold]
    pub(super) fn miss(&mut self, direction: Direction, len: u64, ts: Timestamp, out: &mut Output<'_>) {
        match self.lane(direction).state {
            State::Between => self.lose_to_gap(direction, len, true, out),
            State::Head => {
                let bytes = len.saturating_add(self.lane(direction).collected() as u64);
                self.lane(direction).clear();
                self.lose_to_gap(direction, bytes, true, out);
            }
            State::LongHead { .. } => self.lose_end(direction, len, out),
            State::Body(body) => self.skip(direction, body, (len, ts), out),
            State::Lost => {
                let before = self.lane(direction).take_loss();
                // A head may have begun.
                let held = self.lane(direction).resync().start_anew(out) as u64;
                let loss = self.exchanges.loss(direction, before, len.saturating_add(held), held > 0);
                self.lane(direction).lose(Some(loss));
            }
            State::Over => return,
        }
        self.flush(out);
    }

    /// The bytes at hand, which should begin a message, do not.
    #[cold]
    pub(super) fn not_a_head(&mut self, direction: Direction, out: &mut Output<'_>) {
        let joined = direction == Direction::ServerToClient && out.flow.midstream && !self.server_seen;
        if joined && self.exchanges.is_waiting() {
            self.exchanges.join_midway();
        }
        out.counters.malformed_messages += u64::from(!joined && !self.lane(direction).found());
        self.lose(direction, out);
    }

    /// Where `direction` is in its byte stream is not known any more, because of what is in it.
    #[cold]
    pub(super) fn lose(&mut self, direction: Direction, out: &mut Output<'_>) {
        out.counters.resyncs += 1;
        self.lane(direction).lose(None);
        self.exchanges.lose(direction, out.now);
    }

    /// The same, because of what is missing.
    fn lose_to_gap(&mut self, direction: Direction, len: u64, next_began: bool, out: &mut Output<'_>) {
        out.counters.resyncs += 1;
        let loss = self.exchanges.loss(direction, None, len, next_began);
        self.lane(direction).lose(Some(loss));
        if direction == Direction::ServerToClient {
            self.interim = 0;
        }
    }

    /// A gap in a body, which showed at `ts`. When what is missing came is not known, only that it was between what was
    /// seen.
    fn skip(
        &mut self,
        direction: Direction,
        mut body: Body,
        (len, ts): (u64, Timestamp),
        out: &mut Output<'_>,
    ) {
        let skip = body.skip(len);
        let missing = match skip {
            Skip::EndedInside(over) => len - over,
            _ => len,
        };
        if direction == Direction::ServerToClient
            && self.server.message.body_bytes == 0
            && self.may_answer_head()
        {
            // There may be no body, whatever its length: these may be other messages.
            return self.lose_end(direction, len, out);
        }
        let message = &mut self.lane(direction).message;
        message.gap = true;
        // What the snaplen cut off came with the bytes before it.
        message.last_lost = ts != message.last;
        message.body_bytes = message.body_bytes.saturating_add(missing);
        match skip {
            Skip::Inside => self.lane(direction).state = State::Body(body),
            Skip::Ended => self.finish(direction, out),
            Skip::EndedInside(over) => {
                self.finish(direction, out);
                self.lose_to_gap(direction, over, true, out);
            }
            Skip::Lost => self.lose_end(direction, len, out),
        }
    }

    /// The end of the message in progress is somewhere in a gap.
    fn lose_end(&mut self, direction: Direction, len: u64, out: &mut Output<'_>) {
        let message = &mut self.lane(direction).message;
        (message.gap, message.end_lost) = (true, true);
        self.exchanges.ends(direction, None);
        self.finish(direction, out);
        self.lose_to_gap(direction, len, false, out);
    }

    /// The connection is over, but `direction` did not say that it had no more to say.
    pub(super) fn break_off(&mut self, direction: Direction) {
        let lane = self.lane(direction);
        if matches!(lane.state, State::Body(_) | State::LongHead { .. }) {
            (lane.message.gap, lane.message.end_lost) = (true, true);
        }
    }

    /// No more bytes of `direction` will come.
    pub(super) fn end(&mut self, direction: Direction, out: &mut Output<'_>) {
        match self.lane(direction).state {
            State::Body(_) | State::LongHead { .. } => self.finish(direction, out),
            State::Lost => _ = self.lane(direction).resync().start_anew(out),
            State::Between | State::Head => {}
            State::Over => return,
        }
        let lane = self.lane(direction);
        lane.clear();
        lane.state = State::Between;
        match direction {
            Direction::ClientToServer => self.exchanges.no_more_requests(),
            Direction::ServerToClient => self.exchanges.no_more_responses(),
        }
    }
}

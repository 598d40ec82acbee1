//! Missing bytes, invalid bytes, and ends of streams in an HTTP/1 connection.

use super::body::{HttpBody, HttpBodySkip};
use super::byte_stream::{HttpMessageExtent, HttpStreamState};
use super::connection::HttpConnection;
use crate::{Direction, ParserOutput, StreamGap};

impl HttpConnection {
    /// Handles a gap in `direction`.
    #[cold]
    pub(super) fn miss(
        &mut self,
        direction: Direction,
        gap: StreamGap,
        out: &mut ParserOutput<'_>,
    ) {
        match self.lane(direction).state {
            HttpStreamState::Between => self.lose_to_gap(direction, out),
            HttpStreamState::Head => {
                self.lane(direction).clear();
                self.lose_to_gap(direction, out);
            }
            HttpStreamState::Body(body) => self.skip(direction, body, gap, out),
            HttpStreamState::Lost => {
                // A head may have begun.
                self.lane(direction).resync().start_anew(out);
                self.transactions.miss(direction);
            }
            HttpStreamState::Over => return,
        }
        self.flush(out);
    }

    /// Handles bytes that do not begin the expected message.
    #[cold]
    pub(super) fn not_a_head(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let joined =
            direction == Direction::ServerToClient && out.flow.midstream && !self.server_seen;
        out.counters.malformed_messages += u64::from(!joined && !self.lane(direction).found());
        self.lose(direction, out);
    }

    /// Enters the state in which the start of the next message is unknown, after invalid bytes.
    #[cold]
    pub(super) fn lose(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        out.counters.resyncs += 1;
        self.lane(direction).state = HttpStreamState::Lost;
        self.transactions.lose(direction);
    }

    /// Same after missing bytes.
    fn lose_to_gap(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        out.counters.resyncs += 1;
        self.transactions.miss(direction);
        self.lane(direction).state = HttpStreamState::Lost;
        if direction == Direction::ServerToClient {
            self.interim = 0;
        }
    }

    /// Handles a gap in a body. The arrival of the missing bytes is unknown.
    fn skip(
        &mut self,
        direction: Direction,
        mut body: HttpBody,
        gap: StreamGap,
        out: &mut ParserOutput<'_>,
    ) {
        let skip = body.skip(gap.len);
        let missing = match skip {
            HttpBodySkip::EndedInside(over) => gap.len - over,
            _ => gap.len,
        };
        if direction == Direction::ServerToClient
            && self.server.message.body_bytes == 0
            && self.may_answer_head()
        {
            // The response may have no body: the gap may contain other messages.
            return self.lose_end(direction, gap, out);
        }
        let message = &mut self.lane(direction).message;
        message.gap = true;
        // Bytes cut by the snaplen arrived with the bytes before them.
        message.last_lost = gap.ts != message.last;
        if matches!(skip, HttpBodySkip::Ended | HttpBodySkip::EndedInside(_)) {
            message.last = message.last.max(gap.ts);
        }
        message.body_bytes = message.body_bytes.saturating_add(missing);
        match skip {
            HttpBodySkip::Inside => self.lane(direction).state = HttpStreamState::Body(body),
            HttpBodySkip::Ended => self.finish(direction, Some(gap.after(missing)), out),
            HttpBodySkip::EndedInside(_) => {
                self.finish(direction, Some(gap.after(missing)), out);
                self.lose_to_gap(direction, out);
            }
            HttpBodySkip::Lost => self.lose_end(direction, gap, out),
        }
    }

    /// Ends the message in progress at an unknown position in a gap.
    fn lose_end(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        let message = &mut self.lane(direction).message;
        message.gap = true;
        message.end_lost = true;
        message.last = message.last.max(gap.ts);
        self.finish(direction, None, out);
        self.lose_to_gap(direction, out);
    }

    /// Ends the response in progress when it is unknown whether it has a body.
    #[cold]
    pub(super) fn lose_end_to_doubt(&mut self, out: &mut ParserOutput<'_>) {
        self.server.message.gap = true;
        self.server.message.end_lost = true;
        self.finish(Direction::ServerToClient, None, out);
        self.lose(Direction::ServerToClient, out);
    }

    /// Handles the end of the connection when `direction` had no FIN.
    pub(super) fn break_off(&mut self, direction: Direction) {
        let lane = self.lane(direction);
        if matches!(lane.state, HttpStreamState::Body(_)) {
            lane.message.gap = true;
            lane.message.end_lost = true;
        }
    }

    /// Handles an idle connection with a message in progress: it is written as cut.
    #[cold]
    pub(super) fn pause(&mut self, out: &mut ParserOutput<'_>) {
        let cut = |message: HttpMessageExtent| HttpMessageExtent {
            gap: true,
            end_lost: true,
            ..message
        };
        if matches!(self.server.state, HttpStreamState::Body(_))
            && let Some(response) = self.transactions.finish_response(self.response, None)
        {
            response.extent = cut(self.server.message);
        }
        if matches!(self.client.state, HttpStreamState::Body(_))
            && let Some(request) = self.transactions.request_mut(self.request)
        {
            request.extent = cut(self.client.message);
        }
        self.transactions.pause();
        self.flush(out);
    }

    /// Ends `direction`.
    pub(super) fn end(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        match self.lane(direction).state {
            HttpStreamState::Body(body) => {
                // The announced body is incomplete; a client may omit the body of a rejected request (RFC
                // 9110 section 10.1.1).
                let refused = direction == Direction::ClientToServer && self.body_doubtful;
                self.lane(direction).message.gap |= body != HttpBody::UntilEnd && !refused;
                self.finish(direction, None, out);
            }
            HttpStreamState::Lost => _ = self.lane(direction).resync().start_anew(out),
            HttpStreamState::Between | HttpStreamState::Head => {}
            HttpStreamState::Over => return,
        }
        let lane = self.lane(direction);
        lane.clear();
        lane.state = HttpStreamState::Between;
    }
}

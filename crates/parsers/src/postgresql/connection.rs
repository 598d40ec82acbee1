//! Bytes of one connection: message boundaries, and the search for them after missing bytes.

use flow::StreamPlace;
use wire::{TcpSeq, Timestamp};

use super::framing::{PostgresFraming, PostgresPiece};
use super::search::PostgresMessageLocator;
use super::session::PostgresSession;
use crate::resync::ResyncSearch;
use crate::{Direction, ParserOutput, StreamEnd, StreamGap, StreamParser, StreamSegment};

/// One direction.
#[derive(Default)]
struct PostgresByteStream {
    framing: PostgresFraming,
    /// The position of the next message is unknown.
    is_lost: bool,
    resync: ResyncSearch,
    /// Arrival of the last bytes, and their acknowledgment.
    arrived: Option<Timestamp>,
    heard: Option<TcpSeq>,
}

/// One connection.
pub struct PostgresConnection {
    lanes: [PostgresByteStream; 2],
    session: PostgresSession,
    started: bool,
}

impl StreamParser for PostgresConnection {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.start(out);
        if self.session.done {
            return;
        }
        if self.lanes[direction as usize].is_lost {
            self.search(direction, segment, out);
        } else {
            self.messages(direction, segment, out);
        }
        let lane = &mut self.lanes[direction as usize];
        lane.arrived = Some(segment.ts);
        lane.heard = segment.place.ack.or(lane.heard);
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.start(out);
        if self.session.done || gap.len == 0 {
            return;
        }
        let lane = &mut self.lanes[direction as usize];
        // Bytes cut by the snaplen arrived with the bytes before them.
        let is_cut = lane.arrived == Some(gap.ts);
        if lane.is_lost || !lane.framing.gap(gap.len, is_cut) {
            return self.lose(direction, out);
        }
        let place = StreamPlace {
            seq: gap.after(gap.len),
            ack: lane.heard,
        };
        let ended = StreamSegment {
            bytes: &[],
            ts: lane.arrived.unwrap_or(gap.ts),
            place,
        };
        if !self.lanes[direction as usize].framing.is_between() {
            self.messages(direction, ended, out);
        }
    }

    fn on_end(&mut self, direction: Direction, end: StreamEnd, out: &mut ParserOutput<'_>) {
        if (direction, end) == (Direction::ServerToClient, StreamEnd::Fin) && !self.session.done {
            self.session.end_responses(out);
        }
    }

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        if !self.session.done {
            self.session.close(out);
        }
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = |lane: &PostgresByteStream| !lane.is_lost && lane.framing.is_between();
        let goes_on = self.lanes.iter().all(is_between) && self.session.rest(out);
        if !goes_on {
            self.on_close(out);
        }
        goes_on
    }

    fn is_done(&self) -> bool {
        self.session.done
    }

    fn hands_over(&self) -> Option<usize> {
        self.session.is_encrypted.then_some(0)
    }
}

impl PostgresConnection {
    /// A connection without any bytes so far.
    pub fn new() -> PostgresConnection {
        PostgresConnection {
            lanes: Default::default(),
            session: PostgresSession::new(),
            started: false,
        }
    }

    fn start(&mut self, out: &ParserOutput<'_>) {
        if !std::mem::replace(&mut self.started, true) {
            self.session.start(out);
            let midstream = out.flow.midstream;
            self.lanes
                .iter_mut()
                .for_each(|lane| lane.is_lost = midstream);
        }
    }

    /// Handles bytes that continue the messages before.
    fn messages(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let StreamSegment { bytes, ts, .. } = segment;
        let mut rest = bytes;
        while !self.session.done {
            let framing = &mut self.lanes[direction as usize].framing;
            if direction == Direction::ServerToClient
                && let Some(kind) = self.session.rows_kind()
            {
                let (rows, wire_bytes) = framing.skip_all(kind, &mut rest);
                if rows > 0 {
                    self.session.add_rows(rows, wire_bytes, ts);
                }
            }
            framing.set_form(self.session.form(direction));
            let place = segment.behind(bytes.len() - rest.len()).place;
            let keep = self.session.keep(direction);
            let is_valid = match framing.next(&mut rest, (ts, place), keep) {
                PostgresPiece::More => return,
                PostgresPiece::Invalid => {
                    out.counters.malformed_messages += 1;
                    false
                }
                PostgresPiece::Message(message) => match direction {
                    Direction::ClientToServer => self.session.client_message(&message, out),
                    Direction::ServerToClient => self.session.server_message(&message, out),
                },
            };
            if !is_valid {
                out.counters.skipped_bytes += rest.len() as u64;
                return self.lose(direction, out);
            }
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Enters the state in which the position of the next message is unknown.
    #[cold]
    fn lose(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = &mut self.lanes[direction as usize];
        let is_first = !std::mem::replace(&mut lane.is_lost, true);
        out.counters.resyncs += u64::from(is_first);
        lane.framing.reset();
        lane.resync.start_anew(out);
        match direction {
            Direction::ClientToServer if is_first => self.session.client_lost(out),
            Direction::ClientToServer => self.session.miss_requests(),
            Direction::ServerToClient => self.session.server_lost(out),
        }
    }

    /// Searches for the next message.
    #[cold]
    fn search(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        if direction == Direction::ServerToClient {
            self.session.search(segment.place);
        }
        let locator = PostgresMessageLocator {
            direction,
            session: &self.session,
            segment_end: segment.end(),
        };
        let lane = &mut self.lanes[direction as usize];
        let Some(found) = lane.resync.find(&locator, segment, out) else {
            if direction == Direction::ClientToServer {
                self.session.miss_requests();
            }
            return;
        };
        lane.is_lost = false;
        if found.skipped && direction == Direction::ClientToServer {
            self.session.miss_requests();
        }
        let is_ready = found.first(segment.bytes).next() == Some(b'Z');
        if direction == Direction::ServerToClient && is_ready && !found.begins_segment() {
            // The end of a response whose beginning is missing: it ends the segment.
            return self.session.pass_server(found.place.seq, segment.end());
        }
        let used = found.replay(|held| self.messages(direction, held, out));
        self.messages(direction, segment.behind(used), out);
    }
}

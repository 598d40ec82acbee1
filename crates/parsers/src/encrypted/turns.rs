//! Turns of a connection: the client's records, then the server's. A turn is complete when the client sends again, or
//! when the server has been silent for [`SILENCE_NS`].

use wire::{TcpSeq, Timestamp};

use crate::{Direction, SILENCE_NS};

/// The records of one side.
#[derive(Clone, Copy, Debug)]
pub struct TurnSide {
    /// Arrival of the first byte, and of the last one so far.
    pub first: Timestamp,
    pub last: Timestamp,
    pub bytes: u64,
    pub records: u64,
    /// Sequence number after the last byte.
    pub end: TcpSeq,
    /// Sequence number of the first byte.
    pub start: TcpSeq,
    /// Bytes and end of the first record, and start of the second.
    pub opening: (u64, Option<Timestamp>),
    /// Bytes are missing.
    pub has_gap: bool,
    /// Both times are those of captured packets.
    pub is_timed: bool,
    /// The connection ended within a record.
    pub is_cut: bool,
    /// Number of records that are shorter than those of a long message.
    short: u64,
}

/// Length from which a record may be part of a message of several records, in bytes.
const LONG_RECORD_BYTES: u64 = 8192;

/// Bytes of a record or of a part of the stream without known records.
#[derive(Clone, Copy, Debug)]
pub struct TurnPiece {
    pub first: Timestamp,
    pub start: TcpSeq,
    pub end: TcpSeq,
    pub bytes: u64,
    /// Acknowledgment of its sender, if known.
    pub ack: Option<TcpSeq>,
    /// Its records are unknown because bytes are missing.
    pub has_gap: bool,
    pub is_timed: bool,
}

/// A turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct Turn {
    pub client: Option<TurnSide>,
    pub server: Option<TurnSide>,
    /// A pause in the request, or a possible ticket before the response.
    pub is_doubtful: bool,
    pub overlaps: bool,
    /// From the previous response to this request.
    pub think_ns: Option<i64>,
}

/// The turns of a connection that are not yet written.
#[derive(Debug, Default)]
pub struct OpenTurns {
    /// A turn whose response the server may continue.
    pub answered: Option<Turn>,
    /// The latest turn.
    pub open: Option<Turn>,
    /// The sender's side of the record in progress, for each direction.
    growing: [Option<GrowingSide>; 2],
    /// End of the last response.
    last_response: Option<Timestamp>,
    /// Minimum pause within a request that may separate two requests, in nanoseconds.
    pause_ns: i64,
}

/// The side that a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrowingSide {
    Answered,
    Open,
}

impl TurnSide {
    fn of(piece: TurnPiece) -> TurnSide {
        TurnSide {
            first: piece.first,
            last: piece.first,
            bytes: piece.bytes,
            records: 1,
            end: piece.end,
            start: piece.start,
            opening: (piece.bytes, None),
            has_gap: piece.has_gap,
            is_timed: piece.is_timed,
            is_cut: false,
            short: u64::from(piece.bytes < LONG_RECORD_BYTES),
        }
    }

    fn add(&mut self, piece: TurnPiece) {
        self.opening.1.get_or_insert(piece.first);
        self.last = self.last.max(piece.first);
        self.bytes += piece.bytes;
        self.records += 1;
        self.short += u64::from(piece.bytes < LONG_RECORD_BYTES);
        self.end = piece.end;
        self.has_gap |= piece.has_gap;
        self.is_timed &= piece.is_timed;
    }

    /// Removes the first record; `None` if there is no other.
    pub fn without_first(self) -> Option<TurnSide> {
        let (bytes, second) = self.opening;
        Some(TurnSide {
            first: second?,
            bytes: self.bytes - bytes,
            records: self.records - 1,
            short: self.short - u64::from(bytes < LONG_RECORD_BYTES),
            opening: (self.bytes - bytes, None),
            ..self
        })
    }

    /// Whether the records may be several requests: three or more short ones, or two of nearly the same length.
    fn may_be_several(&self) -> bool {
        let first = self.opening.0;
        let second = self.bytes - first;
        self.short >= 3
            || self.short == 2 && self.records == 2 && first.abs_diff(second) <= first / 4
    }
}

impl OpenTurns {
    /// No turns; a pause within a request above `pause_ns` may separate two requests.
    pub fn with_pause(pause_ns: i64) -> OpenTurns {
        OpenTurns {
            pause_ns,
            ..OpenTurns::default()
        }
    }

    /// Sets the pause of [`OpenTurns::with_pause`].
    pub fn set_pause(&mut self, pause_ns: i64) {
        self.pause_ns = pause_ns;
    }

    /// Adds a record of the client. Returns a turn that is complete.
    pub fn on_client(&mut self, piece: TurnPiece) -> Option<Turn> {
        self.growing[Direction::ClientToServer as usize] = Some(GrowingSide::Open);
        let think_ns = self
            .last_response
            .map(|last| piece.first.since(last))
            .filter(|think| *think >= 0);
        let begun = Turn {
            client: Some(TurnSide::of(piece)),
            think_ns,
            ..Turn::default()
        };
        match &mut self.open {
            Some(Turn {
                client: Some(client),
                server: None,
                is_doubtful,
                ..
            }) => {
                *is_doubtful |= piece.first.since(client.last) > self.pause_ns;
                client.add(piece);
                None
            }
            _ => {
                let complete = self.open.replace(begun);
                let earlier = std::mem::replace(&mut self.answered, complete);
                self.reattach();
                earlier
            }
        }
    }

    /// Adds a record of the server. Returns the turns that are complete.
    pub fn on_server(&mut self, piece: TurnPiece) -> [Option<Turn>; 2] {
        let at = Direction::ServerToClient as usize;
        let quiet = |turn: &Turn| turn.is_quiet(piece.first);
        let mut complete = [self.answered.take_if(|turn| quiet(turn)), None];
        let pushed = Turn {
            server: Some(TurnSide::of(piece)),
            ..Turn::default()
        };
        let heard = |client: &TurnSide| piece.ack.is_none_or(|ack| ack.distance(client.end) >= 0);
        self.growing[at] = Some(GrowingSide::Open);
        match &mut self.open {
            Some(turn) if turn.client.as_ref().is_some_and(|client| !heard(client)) => {
                turn.overlaps = true;
                self.growing[at] = None;
                if let Some(answered) = &mut self.answered {
                    answered.overlaps = true;
                    if let Some(server) = &mut answered.server {
                        server.add(piece);
                        self.growing[at] = Some(GrowingSide::Answered);
                    }
                }
            }
            Some(turn) if quiet(turn) => complete[1] = self.open.replace(pushed),
            Some(turn) => match &mut turn.server {
                Some(server) => server.add(piece),
                None => {
                    turn.server = Some(TurnSide::of(piece));
                    complete[1] = self.answered.take();
                }
            },
            None => self.open = Some(pushed),
        }
        self.note_response(piece.first);
        complete
    }

    /// Adds bytes of the record in progress, whose arrival is unknown unless `is_timed`.
    pub fn on_bytes(&mut self, direction: Direction, ts: Timestamp, is_timed: bool) {
        let Some(side) = self.growing_side(direction) else {
            return;
        };
        side.last = side.last.max(ts);
        side.is_timed &= is_timed;
        if direction == Direction::ServerToClient {
            self.note_response(ts);
        }
    }

    /// The side that the record in progress belongs to.
    pub fn growing_side(&mut self, direction: Direction) -> Option<&mut TurnSide> {
        let turn = match self.growing[direction as usize]? {
            GrowingSide::Open => self.open.as_mut()?,
            GrowingSide::Answered => self.answered.as_mut()?,
        };
        match direction {
            Direction::ClientToServer => turn.client.as_mut(),
            Direction::ServerToClient => turn.server.as_mut(),
        }
    }

    /// The record in progress belongs to no turn.
    pub fn ignore(&mut self, direction: Direction) {
        self.growing[direction as usize] = None;
    }

    /// Removes the first record of the open turn's server, which was no response.
    pub fn drop_response_start(&mut self) {
        if let Some(turn) = &mut self.open {
            turn.server = turn.server.and_then(TurnSide::without_first);
        }
        self.ignore(Direction::ServerToClient);
    }

    /// The turns whose server has been silent until `now`.
    pub fn take_quiet(&mut self, now: Timestamp) -> [Option<Turn>; 2] {
        [
            self.answered.take_if(|turn| turn.is_quiet(now)),
            self.open.take_if(|turn| turn.is_quiet(now)),
        ]
    }

    /// All turns.
    pub fn take_all(&mut self) -> [Option<Turn>; 2] {
        [self.answered.take(), self.open.take()]
    }

    /// Time of the last response in a turn that is not written: the earlier one of two.
    pub fn last_response(&self) -> Option<Timestamp> {
        let turns = [&self.answered, &self.open].into_iter().flatten();
        turns.filter_map(|turn| Some(turn.server?.last)).min()
    }

    fn note_response(&mut self, ts: Timestamp) {
        self.last_response = Some(self.last_response.map_or(ts, |last| last.max(ts)));
    }

    /// The server's record in progress stays with its turn, which was the open one.
    fn reattach(&mut self) {
        let at = Direction::ServerToClient as usize;
        self.growing[at] = self.growing[at].and(self.answered.map(|_| GrowingSide::Answered));
    }
}

impl Turn {
    /// Whether the request may be several.
    pub fn is_burst(&self) -> bool {
        self.is_doubtful || self.client.is_some_and(|client| client.may_be_several())
    }

    /// Whether the server has responded and been silent for [`SILENCE_NS`] until `now`, or the clock was set back.
    fn is_quiet(&self, now: Timestamp) -> bool {
        self.server.is_some_and(|server| {
            let silence = now.since(server.last);
            !(-SILENCE_NS..=SILENCE_NS).contains(&silence)
        })
    }
}

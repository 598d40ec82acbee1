//! Assigns the records of a TLS connection to turns. Left out: the handshake, session tickets, alerts, and control frames
//! of HTTP/2, as far as their lengths show them.

use std::ops::RangeInclusive;

use wire::{TcpSeq, Timestamp};

use super::emit;
use super::records::{RecordHead, RecordStep, RecordStream};
use super::session::{ApplicationProtocol, TlsSession};
use super::turns::{OpenTurns, Turn, TurnPiece};
use crate::tls::byte_stream::{HEAD, kind};
use crate::{Direction, ParserOutput, StreamGap, StreamSegment};

/// Lengths of a Finished message: of SHA-256 and SHA-384.
const FINISHED_BYTES: [u64; 2] = [36, 52];
/// Length of an alert.
const ALERT_BYTES: u64 = 2;
/// Length of an interim response of HTTP/1 (`HTTP/1.1 100 Continue`).
const CONTINUE_BYTES: u64 = 25;
/// Maximum number of records of the client's last flight of a handshake, and with early data.
const FLIGHT_RECORDS_MAX: u32 = 3;
const EARLY_RECORDS_MAX: u32 = 64;
/// Lengths of NewSessionTicket messages.
const TICKET_BYTES: RangeInclusive<u64> = 60..=1500;
/// Maximum length of HTTP/2's first frames: SETTINGS with eight parameters, WINDOW_UPDATE, and an acknowledgment.
const SETTINGS_BYTES_MAX: u64 = 9 + 8 * 6 + 13 + 9;
/// Lengths of a client's preface with such records.
const PREFACES: RangeInclusive<u64> = 24..=24 + SETTINGS_BYTES_MAX;
/// Lengths of control frames of HTTP/2: acknowledged SETTINGS, WINDOW_UPDATE or RST_STREAM, PING or GOAWAY. Several in a
/// record have lengths that requests have, too.
const CONTROL_BYTES: [u64; 3] = [SETTINGS_ACK_BYTES, 13, 17];
const SETTINGS_ACK_BYTES: u64 = 9;
/// Bytes of a response after which clients send WINDOW_UPDATE: a quarter of the default window.
const WINDOW_BYTES_MIN: u64 = 1 << 14;
/// Pause in a request that may separate two requests, if the round-trip time is unknown, and its minimum.
const PAUSE_NS: i64 = 10_000_000;
const PAUSE_NS_MIN: i64 = 1_000_000;

/// Progress of a TLS 1.3 connection until the first data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpeningStage {
    /// The client's last flight has had this many records.
    Flight(u32),
    /// The client's last flight ended here; the server may send tickets. `pair`: the length of the first, if a second one
    /// may follow; `had_ticket`: one came before the request.
    Tickets {
        end: TcpSeq,
        pair: Option<u64>,
        had_ticket: bool,
    },
    /// Records are data.
    Data,
}

/// Assigns records to turns.
#[derive(Debug)]
pub struct TurnReader {
    streams: [RecordStream; 2],
    turns: OpenTurns,
    stage: OpeningStage,
    /// Time of the last bytes of each direction.
    heard: [Option<Timestamp>; 2],
    /// Round-trip time of the client, from its answer to the server's first flight.
    round_trip_ns: Option<i64>,
    /// The client's preface of HTTP/2 was left out.
    has_preface: bool,
    /// End of a record that may have been a request rather than a control frame: the response was short.
    doubtful_control: Option<TcpSeq>,
    /// Data of the client, and of the server, were read.
    has_asked: bool,
    has_answered: bool,
    /// Application protocol, as far as known.
    protocol: Option<ApplicationProtocol>,
    /// A turn was written.
    has_written: bool,
    /// A call of [`TurnReader::wake`] is due.
    is_waking: bool,
}

impl Default for TurnReader {
    fn default() -> Self {
        TurnReader {
            streams: [RecordStream::new(); 2],
            turns: OpenTurns::with_pause(PAUSE_NS),
            stage: OpeningStage::Data,
            heard: [None; 2],
            round_trip_ns: None,
            has_preface: false,
            doubtful_control: None,
            has_asked: false,
            has_answered: false,
            protocol: None,
            has_written: false,
            is_waking: false,
        }
    }
}

impl TurnReader {
    /// Initializes the reader with the result of the handshake.
    pub fn begin(&mut self, session: &TlsSession) {
        self.protocol = session.protocol;
        if session.is_tls13 {
            self.stage = OpeningStage::Flight(0);
        }
    }

    /// Whether the connection can continue after an idle timeout.
    pub fn is_between(&self) -> bool {
        self.streams.iter().all(RecordStream::is_between)
    }

    /// Handles the next bytes of one direction. Without a session, the handshake is in progress.
    pub fn bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        session: Option<&TlsSession>,
        out: &mut ParserOutput<'_>,
    ) {
        let at = direction as usize;
        self.measure(direction, segment.ts, session);
        let was_heard = self.heard[at].replace(segment.ts).is_some();
        if !self.streams[at].resume(segment.bytes) {
            if let Some(session) = session.filter(|_| was_heard) {
                let piece = TurnPiece {
                    first: segment.ts,
                    start: segment.place.seq,
                    end: segment.end(),
                    bytes: segment.bytes.len() as u64,
                    ack: segment.place.ack,
                    has_gap: true,
                    is_timed: true,
                };
                self.add(direction, piece, session, out);
            }
            return;
        }
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let (used, step) = self.streams[at].step(rest);
            rest = rest.behind(used);
            match (step, session) {
                (Some(RecordStep::Begun(head)), Some(session)) => {
                    self.on_record(direction, head, session, out);
                }
                (Some(RecordStep::Ended(ts)), _) => self.turns.on_bytes(direction, ts, true),
                _ => {}
            }
        }
    }

    /// Handles missing bytes of one direction.
    pub fn gap(
        &mut self,
        direction: Direction,
        gap: StreamGap,
        session: Option<&TlsSession>,
        out: &mut ParserOutput<'_>,
    ) {
        let at = direction as usize;
        // Bytes cut off by the snaplen arrived with the bytes before them.
        let is_timed = self.heard[at] == Some(gap.ts);
        let is_within = !self.streams[at].is_between();
        let (step, is_read) = self.streams[at].gap(gap.len, gap.ts);
        if let Some(side) = self.turns.growing_side(direction).filter(|_| is_within) {
            side.has_gap |= !is_timed || !is_read;
        }
        if let Some(RecordStep::Ended(ts)) = step {
            self.turns.on_bytes(direction, ts, is_timed);
        }
        if let Some(session) = session.filter(|_| !is_read && self.heard[at].is_some()) {
            let piece = TurnPiece {
                first: gap.ts,
                start: gap.seq,
                end: gap.after(gap.len),
                bytes: gap.len,
                ack: None,
                has_gap: true,
                is_timed,
            };
            self.add(direction, piece, session, out);
        }
    }

    /// Writes the turns whose response is complete at `now` because the server is silent.
    pub fn wake(
        &mut self,
        now: Timestamp,
        session: Option<&TlsSession>,
        out: &mut ParserOutput<'_>,
    ) {
        self.is_waking = false;
        let quiet = self.turns.take_quiet(now);
        self.write(quiet, session, out);
        self.await_silence(out);
    }

    /// Writes all turns, at the end of the connection or when it is idle.
    pub fn close(&mut self, session: Option<&TlsSession>, out: &mut ParserOutput<'_>) {
        self.is_waking = false;
        for direction in [Direction::ClientToServer, Direction::ServerToClient] {
            if !self.streams[direction as usize].is_between()
                && let Some(side) = self.turns.growing_side(direction)
            {
                side.is_cut = true;
            }
        }
        let all = self.turns.take_all();
        self.write(all, session, out);
    }

    /// Measures the client's round-trip time: from the server's first flight to the client's answer.
    fn measure(&mut self, direction: Direction, ts: Timestamp, session: Option<&TlsSession>) {
        if direction == Direction::ServerToClient || self.round_trip_ns.is_some() {
            return;
        }
        if let Some(flight) = self.heard[Direction::ServerToClient as usize]
            && session.is_none_or(|session| session.is_from_start)
        {
            let round_trip = ts.since(flight);
            self.round_trip_ns = Some(round_trip);
            self.turns.set_pause((2 * round_trip).max(PAUSE_NS_MIN));
        }
    }

    /// Handles the header of a record.
    fn on_record(
        &mut self,
        direction: Direction,
        head: RecordHead,
        session: &TlsSession,
        out: &mut ParserOutput<'_>,
    ) {
        self.turns.ignore(direction);
        if head.kind != kind::DATA {
            return;
        }
        let piece = TurnPiece {
            first: head.first,
            start: head.place.seq,
            end: head.place.seq.plus(HEAD as u32 + u32::from(head.len)),
            bytes: u64::from(head.len.saturating_sub(session.overhead)),
            ack: head.place.ack,
            has_gap: false,
            is_timed: true,
        };
        let is_left_out = match direction {
            Direction::ClientToServer => self.is_no_request(&piece, session),
            Direction::ServerToClient => self.is_no_response(&piece, session),
        };
        if !is_left_out {
            self.add(direction, piece, session, out);
        }
    }

    /// Adds bytes of one direction to the turns.
    fn add(
        &mut self,
        direction: Direction,
        piece: TurnPiece,
        session: &TlsSession,
        out: &mut ParserOutput<'_>,
    ) {
        let complete = match direction {
            Direction::ClientToServer => {
                if let OpeningStage::Tickets { pair: Some(_), .. } = self.stage {
                    self.stage = OpeningStage::Data;
                }
                self.doubtful_control = None;
                [self.turns.on_client(piece), None]
            }
            Direction::ServerToClient => {
                self.has_answered = true;
                let is_answer = |end: TcpSeq| piece.ack.is_none_or(|ack| ack.distance(end) >= 0);
                if let (Some(_), Some(turn)) = (
                    self.doubtful_control.take_if(|end| is_answer(*end)),
                    &mut self.turns.open,
                ) {
                    turn.overlaps = true;
                }
                self.turns.on_server(piece)
            }
        };
        self.write(complete, Some(session), out);
        self.await_silence(out);
    }

    /// Whether a record of the client is not part of a request.
    fn is_no_request(&mut self, piece: &TurnPiece, session: &TlsSession) -> bool {
        if let OpeningStage::Flight(records) = self.stage {
            let most = if session.has_early_data {
                EARLY_RECORDS_MAX
            } else {
                FLIGHT_RECORDS_MAX
            };
            let is_last = FINISHED_BYTES.contains(&piece.bytes) || records + 1 >= most;
            self.stage = if is_last {
                OpeningStage::Tickets {
                    end: piece.end,
                    pair: None,
                    had_ticket: false,
                }
            } else {
                OpeningStage::Flight(records + 1)
            };
            return true;
        }
        if piece.bytes == ALERT_BYTES && session.is_tls13 {
            return true;
        }
        let is_first = !std::mem::replace(&mut self.has_asked, true);
        if session.offers_http2 {
            self.recognize_by_client(piece.bytes);
        }
        let is_http2 = self.protocol == Some(ApplicationProtocol::Http2);
        let is_preface = is_first && is_http2 && PREFACES.contains(&piece.bytes);
        self.has_preface |= is_preface;
        let is_control = self.is_control(piece.bytes);
        if is_control && piece.bytes != SETTINGS_ACK_BYTES && self.is_response_short() {
            self.doubtful_control = Some(piece.end);
        }
        is_preface || is_control
    }

    /// Whether a record of the server is not part of a response.
    fn is_no_response(&mut self, piece: &TurnPiece, session: &TlsSession) -> bool {
        let has_received = |end: TcpSeq| piece.ack.is_none_or(|ack| ack.distance(end) >= 0);
        match self.stage {
            OpeningStage::Data => {}
            // The client's last flight ended with a record that has the Finished message and others.
            OpeningStage::Flight(0) => return true,
            OpeningStage::Flight(_) => self.stage = OpeningStage::Data,
            OpeningStage::Tickets { end, .. } if !has_received(end) => return true,
            OpeningStage::Tickets {
                end,
                pair,
                had_ticket,
            } => {
                let is_asked = self
                    .turns
                    .open
                    .and_then(|turn| turn.client)
                    .is_some_and(|client| has_received(client.end));
                let is_ticket = match pair {
                    None => self.is_first_ticket(piece.bytes, end, is_asked, had_ticket),
                    Some(first) => self.is_second_ticket(piece.bytes, first, session),
                };
                if is_ticket {
                    return true;
                }
            }
        }
        if piece.bytes == ALERT_BYTES && session.is_tls13 {
            return true;
        }
        let is_first = !std::mem::replace(&mut self.has_answered, true);
        if is_first {
            self.recognize(piece.bytes, session);
            if self.protocol == Some(ApplicationProtocol::Http2)
                && piece.bytes <= SETTINGS_BYTES_MAX
            {
                self.drop_preface();
                return true;
            }
        }
        let is_interim =
            piece.bytes == CONTINUE_BYTES && self.protocol == Some(ApplicationProtocol::Http1);
        is_interim || self.is_control(piece.bytes)
    }

    /// Whether the first record after the client's last flight is a session ticket: the request has not arrived. Otherwise
    /// it counts as a response until another record shows that it was a ticket.
    fn is_first_ticket(
        &mut self,
        bytes: u64,
        end: TcpSeq,
        is_asked: bool,
        had_ticket: bool,
    ) -> bool {
        let may_be = TICKET_BYTES.contains(&bytes);
        let is_ticket = may_be && !is_asked;
        self.stage = if is_ticket || may_be && !had_ticket {
            OpeningStage::Tickets {
                end,
                pair: (!is_ticket).then_some(bytes),
                had_ticket: had_ticket || is_ticket,
            }
        } else {
            OpeningStage::Data
        };
        is_ticket
    }

    /// Whether this record, after one of `first` bytes that counts as a response, shows that both or the first were tickets:
    /// tickets come in pairs of nearly one length, and HTTP/2 begins with SETTINGS. Returns true for a ticket.
    fn is_second_ticket(&mut self, bytes: u64, first: u64, session: &TlsSession) -> bool {
        self.stage = OpeningStage::Data;
        // The content of tickets is padded to blocks of 16 bytes.
        let is_pair = [0, 16, 32].contains(&bytes.abs_diff(first));
        let may_be_http2 =
            session.offers_http2 || session.protocol == Some(ApplicationProtocol::Http2);
        if is_pair || may_be_http2 && bytes <= SETTINGS_BYTES_MAX {
            self.turns.drop_response_start();
            self.has_answered = false;
            self.protocol = session.protocol;
        } else if let Some(turn) = &mut self.turns.open {
            turn.is_doubtful = true;
        }
        is_pair
    }

    /// Estimates the protocol from the server's first data: HTTP/2 begins with SETTINGS, which are shorter than any
    /// response of HTTP/1.
    fn recognize(&mut self, bytes: u64, session: &TlsSession) {
        if self.protocol.is_none() && session.offers_http2 {
            self.protocol = Some(if bytes <= SETTINGS_BYTES_MAX {
                ApplicationProtocol::Http2
            } else {
                ApplicationProtocol::Http1
            });
        }
    }

    /// Recognizes HTTP/2 by a record of the client: acknowledged SETTINGS after the server's data, or another record after
    /// the preface, before the server has answered.
    fn recognize_by_client(&mut self, bytes: u64) {
        let first = self.turns.open.and_then(|turn| turn.client);
        let follows_preface =
            first.is_some_and(|client| client.records == 1 && is_preface(client.bytes));
        if self.has_answered && bytes == SETTINGS_ACK_BYTES {
            self.protocol = Some(ApplicationProtocol::Http2);
        } else if !self.has_answered && !self.has_written && follows_preface {
            self.protocol = Some(ApplicationProtocol::Http2);
            self.drop_preface();
        }
    }

    /// Removes the client's preface and SETTINGS from the first request, if they are a record of their own.
    fn drop_preface(&mut self) {
        let was_dropped = std::mem::replace(&mut self.has_preface, true);
        let Some(turn) = self.turns.open.as_mut().filter(|_| !was_dropped) else {
            return;
        };
        if let Some(client) = turn.client
            && PREFACES.contains(&client.opening.0)
        {
            turn.client = client.without_first();
            turn.is_doubtful = false;
            if turn.client.is_none() {
                self.turns.open = None;
                self.turns.ignore(Direction::ClientToServer);
            }
        }
    }

    /// Whether the response so far is too short for a WINDOW_UPDATE.
    fn is_response_short(&self) -> bool {
        let server = self.turns.open.and_then(|turn| turn.server);
        server.is_some_and(|server| server.bytes < WINDOW_BYTES_MIN)
    }

    /// Whether a record of this length has control frames of HTTP/2 only.
    fn is_control(&self, bytes: u64) -> bool {
        self.protocol == Some(ApplicationProtocol::Http2) && CONTROL_BYTES.contains(&bytes)
    }

    fn await_silence(&mut self, out: &mut ParserOutput<'_>) {
        if !self.is_waking
            && let Some(last) = self.turns.last_response()
        {
            self.is_waking = true;
            out.wake = Some(last);
        }
    }

    fn write(
        &mut self,
        turns: [Option<Turn>; 2],
        session: Option<&TlsSession>,
        out: &mut ParserOutput<'_>,
    ) {
        for turn in turns.into_iter().flatten() {
            let is_first = !std::mem::replace(&mut self.has_written, true);
            emit::tuple(&turn, session, self.protocol, is_first, out);
        }
    }
}

/// Whether a record of this length can be the preface of HTTP/2 with SETTINGS, with or without WINDOW_UPDATE
/// (RFC 9113 sections 3.4, 6.5, and 6.9).
fn is_preface(bytes: u64) -> bool {
    let is_settings = |bytes: u64| bytes.is_multiple_of(6) && bytes <= 8 * 6;
    let settings = bytes.checked_sub(24 + 9);
    settings.is_some_and(|bytes| is_settings(bytes) || bytes >= 13 && is_settings(bytes - 13))
}

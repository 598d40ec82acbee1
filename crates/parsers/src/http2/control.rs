//! Frames that control streams and the connection.

use super::connection::Http2Connection;
use super::frames::FRAME_BYTES_DEFAULT;
use super::streams::StreamOutcome;
use crate::{Direction, ParserOutput};

/// Settings that are read.
const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_FRAME_SIZE: u16 = 5;

impl Http2Connection {
    /// RST_STREAM. After the response it only ends a request that is no longer read.
    pub(super) fn reset_stream(
        &mut self,
        direction: Direction,
        payload: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        let lane = self.lane(direction);
        let id = lane.frame.stream;
        let ts = lane.span.last;
        let code = number(payload, 0);
        if let Some(stream) = self.streams.get(id) {
            let outcome = if stream.response.is_ended {
                StreamOutcome::EndStream
            } else {
                StreamOutcome::Reset(code)
            };
            stream.outcome.get_or_insert((outcome, ts));
            self.write(id, out);
        }
    }

    /// GOAWAY of a server: it does not process streams above the last one that it names.
    pub(super) fn go_away(
        &mut self,
        direction: Direction,
        payload: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        if direction == Direction::ClientToServer || payload.len() < 8 {
            return;
        }
        let last = number(payload, 0) & 0x7fff_ffff;
        let ts = self.server.span.last;
        let refused = |id: u32| id > last && id % 2 == 1;
        for id in self.streams.that(|stream| refused(stream.id)) {
            if let Some(stream) = self.streams.get(id) {
                stream.outcome = Some((StreamOutcome::GoAway, ts));
            }
            self.write(id, out);
        }
    }

    /// SETTINGS, which bind the other side.
    pub(super) fn heed_settings(&mut self, direction: Direction, payload: &[u8]) {
        let other = direction.other();
        for setting in payload.chunks_exact(6) {
            let value = number(setting, 2);
            match u16::from_be_bytes([setting[0], setting[1]]) {
                INITIAL_WINDOW_SIZE => {
                    let lane = self.lane(other);
                    let change = i64::from(value) - lane.stream_window;
                    lane.stream_window = i64::from(value);
                    for stream in self.streams.all() {
                        stream.message(other).window += change;
                    }
                }
                MAX_FRAME_SIZE => {
                    self.lane(other).frame_bytes_max =
                        value.clamp(FRAME_BYTES_DEFAULT, (1 << 24) - 1);
                }
                _ => {}
            }
        }
    }

    /// WINDOW_UPDATE, which permits the other side to send.
    pub(super) fn open_window(&mut self, direction: Direction, payload: &[u8]) {
        let lane = self.lane(direction);
        let id = lane.frame.stream;
        let ts = lane.span.last;
        let more = i64::from(number(payload, 0) & 0x7fff_ffff);
        let other = direction.other();
        if id == 0 {
            self.lane(other).window += more;
        } else if let Some(stream) = self.streams.get(id) {
            stream.message(other).window += more;
        }
        if self.stalled == 0 {
            return;
        }
        let window = self.lane(other).window;
        for stream in self.streams.all() {
            let message = stream.message(other);
            if message.stalled_at.is_some() && message.window.min(window) > 0 {
                message.opened_at.get_or_insert(ts);
            }
        }
    }
}

/// The number at `at`; 0 if bytes are missing.
fn number(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..at + 4)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

//! Missing and invalid bytes of a connection.

use super::connection::Http2Connection;
use super::frames::kind;
use super::lane::FramingState;
use crate::{Direction, ParserOutput, StreamGap};

impl Http2Connection {
    /// Handles a gap in `direction`.
    #[cold]
    pub(super) fn miss(
        &mut self,
        direction: Direction,
        gap: StreamGap,
        out: &mut ParserOutput<'_>,
    ) {
        self.lose_windows();
        let lane = self.lane(direction);
        match lane.state {
            FramingState::Payload if gap.len <= u64::from(lane.left) => {
                let len = gap.len as u32;
                // Bytes cut by the snaplen arrived with the bytes before them.
                let is_late = gap.ts != lane.span.last;
                lane.is_damaged = true;
                lane.span.extend(gap.ts);
                if lane.frame.kind == kind::DATA {
                    self.miss_data(direction, len, gap.ts, is_late);
                }
                let lane = self.lane(direction);
                lane.left -= len;
                if lane.left == 0 {
                    self.finish_frame(direction, &[], out);
                }
            }
            FramingState::Over => {}
            FramingState::Lost => {
                if let Some(search) = &mut lane.search {
                    search.start_anew(out);
                }
                self.lose_messages(direction);
            }
            _ => self.lose(direction, out),
        }
    }

    /// Handles missing bytes of a DATA frame.
    fn miss_data(&mut self, direction: Direction, len: u32, ts: wire::Timestamp, is_late: bool) {
        let lane = self.lane(direction);
        let id = lane.frame.stream;
        let content = lane.left.saturating_sub(lane.padding.unwrap_or(0)).min(len);
        let is_padded = lane.padding.is_none();
        lane.padding.get_or_insert(0);
        let first = lane.span.first;
        if let Some(stream) = self.streams.get(id) {
            let message = stream.message(direction);
            message.extend(ts);
            message.last_lost = is_late;
            message.gap = true;
            message.body_bytes += u64::from(content);
            message.messages.miss(content);
            message.messages.is_unknown |= is_padded;
            message.frames_lost |= is_padded;
            message.first_data.get_or_insert((first, ts));
        }
    }

    /// Handles the end of a frame other than DATA of which bytes are missing: its stream is known, its content
    /// is not.
    #[cold]
    pub(super) fn lose_frame(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = self.lane(direction);
        if lane.frame.has_headers() {
            lane.lose_block();
            lane.has_lost = true;
            if lane.frame.kind == kind::HEADERS {
                self.lose_head(direction, out);
            }
        }
    }

    /// Handles bytes that are no frames, or a gap beyond the current frame: the next frame is searched for.
    #[cold]
    pub(super) fn lose(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        out.counters.resyncs += 1;
        let lane = self.lane(direction);
        lane.lose_block();
        lane.has_lost = true;
        lane.state = FramingState::Lost;
        self.lose_windows();
        self.lose_messages(direction);
    }

    /// Frames of any stream may be missing.
    fn lose_messages(&mut self, direction: Direction) {
        for stream in self.streams.all() {
            let message = stream.message(direction);
            if !message.is_ended {
                message.gap = true;
                message.frames_lost = true;
                message.messages.is_unknown = true;
            }
        }
    }

    /// Updates of windows may be missing.
    fn lose_windows(&mut self) {
        self.windows_unknown = true;
        for stream in self.streams.all() {
            stream.windows_unknown = true;
        }
    }
}

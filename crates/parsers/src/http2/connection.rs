//! One HTTP/2 connection: the frames of both directions. The meaning of header blocks is in `messages.rs`, that
//! of frames which control streams in `control.rs`, the effect of missing bytes in `losses.rs`.

use super::frames::{FRAME_HEAD_BYTES, FrameHead, PREFACE, WINDOW_DEFAULT, kind};
use super::lane::{FramingState, Http2Lane};
use super::projection::Http2Projection;
use super::search::Http2FrameLocator;
use super::streams::{OpenStreams, StreamOutcome, part};
use crate::{
    Direction, MessageSpan, ParserOutput, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

/// Request of HTTP/1 with which a connection was upgraded.
pub struct UpgradedRequest<'a> {
    pub method: &'a [u8],
    pub host: Option<&'a [u8]>,
    pub target: &'a [u8],
    pub user_agent: Option<&'a [u8]>,
    /// Arrival of its last byte.
    pub ts: wire::Timestamp,
}

/// One connection.
pub struct Http2Connection {
    pub(super) client: Http2Lane,
    pub(super) server: Http2Lane,
    pub(super) streams: OpenStreams,
    /// Highest number of a stream that the client opened.
    pub(super) highest: u32,
    pub(super) wanted: Option<Box<Http2Projection>>,
    /// Streams with a closed window.
    pub(super) stalled: usize,
    /// Streams opened since the search for those whose end was lost.
    pub(super) opened: u32,
    pub(super) emitted: bool,
    /// A side ended the connection.
    pub(super) is_ended: bool,
    pub(super) is_started: bool,
    /// Frames that change windows may be missing.
    pub(super) windows_unknown: bool,
}

impl Default for Http2Connection {
    fn default() -> Self {
        Http2Connection {
            client: Http2Lane::new(FramingState::Preface(0), true),
            server: Http2Lane::new(FramingState::Head(0), true),
            streams: OpenStreams::default(),
            highest: 0,
            wanted: None,
            stalled: 0,
            opened: 0,
            emitted: false,
            is_ended: false,
            is_started: false,
            windows_unknown: false,
        }
    }
}

impl StreamParser for Http2Connection {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.start(out);
        self.read(direction, segment, out);
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        if gap.len > 0 {
            self.start(out);
            self.miss(direction, gap, out);
        }
    }

    fn on_end(&mut self, _: Direction, _: StreamEnd, _: &mut ParserOutput<'_>) {
        self.is_ended = true;
    }

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        for id in self.streams.that(|_| true) {
            if self.is_ended
                && let Some(stream) = self.streams.get(id)
            {
                stream
                    .outcome
                    .get_or_insert((StreamOutcome::Connection, out.now));
            }
            self.write(id, out);
        }
        self.client.state = FramingState::Over;
        self.server.state = FramingState::Over;
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = [self.client.state, self.server.state]
            .iter()
            .all(|state| matches!(state, FramingState::Head(0) | FramingState::Lost));
        if !is_between || self.is_ended {
            self.on_close(out);
            return false;
        }
        for id in self.streams.that(|_| true) {
            self.write(id, out);
        }
        true
    }

    fn is_done(&self) -> bool {
        self.client.state == FramingState::Over
    }
}

impl Http2Connection {
    /// A connection that began with HTTP/1 and was upgraded: the request, if known, is stream 1.
    pub fn upgraded(request: Option<&UpgradedRequest<'_>>) -> Http2Connection {
        let mut connection = Http2Connection {
            is_started: true,
            highest: 1,
            ..Http2Connection::default()
        };
        let stream = connection.streams.open(1, [WINDOW_DEFAULT; 2]);
        let Some(request) = request else {
            return connection;
        };
        stream.is_get = request.method == b"GET";
        let message = &mut stream.request;
        message.is_seen = true;
        message.is_ended = true;
        message.first = Some(request.ts);
        message.head_last = request.ts;
        message.last = request.ts;
        message.texts.keep(part::METHOD, request.method);
        message.texts.keep(part::TARGET, request.target);
        if let Some(host) = request.host {
            message.texts.keep(part::HOST, host);
        }
        if let Some(agent) = request.user_agent {
            message.texts.keep(part::USER_AGENT, agent);
        }
        connection
    }

    /// Prepares for a connection that is older than the capture.
    #[inline]
    fn start(&mut self, out: &ParserOutput<'_>) {
        if !self.is_started {
            self.is_started = true;
            if out.flow.midstream {
                self.client = Http2Lane::new(FramingState::Preface(0), false);
                self.server = Http2Lane::new(FramingState::Lost, false);
                self.windows_unknown = true;
            }
        }
    }

    #[inline]
    pub(super) fn lane(&mut self, direction: Direction) -> &mut Http2Lane {
        match direction {
            Direction::ClientToServer => &mut self.client,
            Direction::ServerToClient => &mut self.server,
        }
    }

    fn read(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        let mut rest = segment;
        while !rest.bytes.is_empty() {
            let used = match self.lane(direction).state {
                FramingState::Head(have) => self.head(direction, have, rest, out),
                FramingState::Payload => self.payload(direction, rest, out),
                FramingState::Preface(have) => self.preface(direction, have, rest, out),
                FramingState::Lost => self.search(direction, rest, out),
                FramingState::Over => rest.bytes.len(),
            };
            rest = rest.behind(used);
        }
    }

    #[cold]
    fn preface(
        &mut self,
        direction: Direction,
        have: usize,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let part = (PREFACE.len() - have).min(segment.bytes.len());
        if segment.bytes[..part] != PREFACE[have..have + part] {
            self.lose(direction, out);
            return 0;
        }
        let lane = self.lane(direction);
        lane.state = if have + part == PREFACE.len() {
            lane.has_lost = false;
            lane.hpack = super::hpack::HpackDecoder::new(true);
            FramingState::Head(0)
        } else {
            FramingState::Preface(have + part)
        };
        part
    }

    /// Reads the header of a frame, of which `have` bytes were seen.
    #[inline]
    fn head(
        &mut self,
        direction: Direction,
        have: usize,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, place } = segment;
        let lane = self.lane(direction);
        let part = (FRAME_HEAD_BYTES - have).min(bytes.len());
        lane.head_bytes[have..have + part].copy_from_slice(&bytes[..part]);
        if have == 0 {
            lane.span = MessageSpan::at(ts);
            lane.place = place;
        }
        lane.span.extend(ts);
        if have + part < FRAME_HEAD_BYTES {
            lane.state = FramingState::Head(have + part);
            return part;
        }
        lane.frame = FrameHead::parse(&lane.head_bytes);
        // A length or stream that no frame has: the bytes before were not frames, either.
        if lane.frame.len > lane.frame_bytes_max.max(1 << 20) {
            out.counters.malformed_messages += 1;
            self.lose(direction, out);
            return part;
        }
        lane.left = lane.frame.len;
        lane.padding = (!lane.frame.is_padded()).then_some(0);
        lane.is_damaged = false;
        lane.payload.clear();
        lane.state = FramingState::Payload;
        if lane.left == 0 {
            self.finish_frame(direction, &[], out);
        }
        part
    }

    #[inline]
    fn payload(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let StreamSegment { bytes, ts, .. } = segment;
        let lane = self.lane(direction);
        let part = bytes.len().min(lane.left as usize);
        let bytes = &bytes[..part];
        let left = lane.left;
        lane.left -= part as u32;
        lane.span.extend(ts);
        let frame = lane.frame;
        if frame.kind == kind::DATA {
            self.data(direction, left, bytes, ts);
        } else if frame.is_read() {
            if lane.left == 0 && lane.payload.is_empty() && !lane.is_damaged {
                self.finish_frame(direction, bytes, out);
                return part;
            }
            lane.collect(bytes);
        }
        if self.lane(direction).left == 0 {
            let payload = std::mem::take(&mut self.lane(direction).payload);
            self.finish_frame(direction, &payload, out);
            self.lane(direction).payload = payload;
        }
        part
    }

    /// Handles bytes of a DATA frame, of which `left` bytes were still to come. They are not copied.
    #[inline]
    fn data(&mut self, direction: Direction, left: u32, bytes: &[u8], ts: wire::Timestamp) {
        let mut left = left;
        let mut bytes = bytes;
        let lane = self.lane(direction);
        let id = lane.frame.stream;
        if lane.padding.is_none()
            && let Some((padding, rest)) = bytes.split_first()
        {
            lane.padding = Some(u32::from(*padding));
            bytes = rest;
            left -= 1;
        }
        let content = left.saturating_sub(lane.padding.unwrap_or(0));
        let content = &bytes[..bytes.len().min(content as usize)];
        let first = lane.span.first;
        let counts = self
            .wanted
            .as_ref()
            .is_none_or(|wanted| wanted.counts_messages);
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        let message = stream.message(direction);
        message.extend(ts);
        message.body_bytes += content.len() as u64;
        if !content.is_empty() {
            let (of_first, until) = message.first_data.get_or_insert((first, ts));
            if *of_first == first {
                *until = ts;
            }
            if counts {
                message.messages.read(content);
            }
        }
    }

    /// Ends the current frame.
    #[inline]
    pub(super) fn finish_frame(
        &mut self,
        direction: Direction,
        payload: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        let lane = self.lane(direction);
        lane.state = FramingState::Head(0);
        let frame = lane.frame;
        let is_damaged = lane.is_damaged;
        if lane.block.is_some() && frame.kind != kind::CONTINUATION {
            out.counters.malformed_messages += 1;
            lane.lose_block();
        }
        match frame.kind {
            kind::DATA => self.end_data(direction, out),
            _ if is_damaged => self.lose_frame(direction, out),
            kind::HEADERS | kind::PUSH_PROMISE => self.begin_block(direction, payload, out),
            kind::CONTINUATION => self.continue_block(direction, payload, out),
            kind::RST_STREAM => self.reset_stream(direction, payload, out),
            kind::SETTINGS => self.heed_settings(direction, payload),
            kind::GOAWAY => self.go_away(direction, payload, out),
            kind::WINDOW_UPDATE => self.open_window(direction, payload),
            _ => {}
        }
        self.lane(direction).found = false;
    }

    fn end_data(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = self.lane(direction);
        let frame = lane.frame;
        let ts = lane.span.last;
        lane.window -= i64::from(frame.len);
        let window = lane.window;
        let Some(stream) = self.streams.get(frame.stream) else {
            return;
        };
        let message = stream.message(direction);
        let was_stalled = message.stalled_at.is_some();
        if let Some((from, to)) = message.stalled_at.zip(message.opened_at) {
            message.stall_ns += to.since(from).max(0);
            message.stalled_at = None;
        }
        message.opened_at = None;
        if frame.len == 0 {
            message.extend(ts);
        }
        message.window -= i64::from(frame.len);
        if frame.ends_stream() {
            message.is_ended = true;
            message.stalled_at = None;
        } else if message.stalled_at.is_none() && message.window.min(window) <= 0 {
            message.stalled_at = Some(ts);
        }
        let is_stalled = message.stalled_at.is_some();
        self.stalled += usize::from(is_stalled);
        self.stalled -= usize::from(was_stalled).min(self.stalled);
        if frame.ends_stream() {
            self.settle(frame.stream, out);
        }
    }

    /// Writes a complete stream.
    #[inline]
    pub(super) fn settle(&mut self, id: u32, out: &mut ParserOutput<'_>) {
        if self.streams.get(id).is_some_and(|stream| stream.is_over()) {
            self.write(id, out);
        }
    }

    #[cold]
    fn search(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) -> usize {
        let lane = self.lane(direction);
        let locator = Http2FrameLocator {
            len_max: lane.frame_bytes_max,
        };
        let search = lane.search.get_or_insert_default();
        let Some(found) = search.find(&locator, segment, out) else {
            return segment.bytes.len();
        };
        lane.search = None;
        lane.state = FramingState::Head(0);
        lane.found = true;
        found.replay(|held| self.read(direction, held, out))
    }
}

//! Header blocks: requests, responses, and trailers of streams.

use flow::StreamPlace;
use wire::Timestamp;

use super::connection::Http2Connection;
use super::frames::kind;
use super::hpack::HeaderField;
use super::lane::{BLOCK_BYTES_MAX, HeaderBlock};
use super::projection::Http2Projection;
use super::streams::{Http2Message, Http2Stream, part};
use crate::{Direction, ParserOutput};

/// A complete header block.
#[derive(Clone, Copy)]
struct BlockFacts {
    stream: u32,
    promised: Option<u32>,
    ends_stream: bool,
    is_cut: bool,
    found: bool,
    /// Arrival of its first byte.
    first: Timestamp,
    place: StreamPlace,
}

/// What a header block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockRole {
    /// The head of a message.
    Head,
    Trailers,
    /// Its stream is unknown, or was written.
    Aside,
}

/// What the pseudo fields of a block told.
#[derive(Default)]
struct BlockContent {
    /// It has pseudo fields of a request.
    is_request: bool,
    is_get: bool,
    status: Option<u16>,
}

impl Http2Connection {
    /// HEADERS or PUSH_PROMISE.
    pub(super) fn begin_block(
        &mut self,
        direction: Direction,
        payload: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        let lane = self.lane(direction);
        let frame = lane.frame;
        let mut promised = None;
        let mut fragment = frame.fragment(payload);
        if frame.kind == kind::PUSH_PROMISE {
            let parts = fragment.and_then(<[u8]>::split_first_chunk);
            promised = parts.map(|(id, _)| u32::from_be_bytes(*id) & 0x7fff_ffff);
            fragment = parts.map(|(_, rest)| rest);
        }
        let Some(fragment) = fragment else {
            out.counters.malformed_messages += 1;
            return lane.lose_block();
        };
        let facts = BlockFacts {
            stream: frame.stream,
            promised,
            ends_stream: frame.ends_stream(),
            is_cut: fragment.len() > BLOCK_BYTES_MAX,
            found: lane.found,
            first: lane.span.first,
            place: lane.place,
        };
        if frame.ends_headers() {
            self.read_block(direction, facts, fragment, out);
            return;
        }
        let mut bytes = std::mem::take(&mut lane.spare);
        bytes.extend_from_slice(&fragment[..fragment.len().min(BLOCK_BYTES_MAX)]);
        lane.block = Some(HeaderBlock {
            stream: facts.stream,
            promised,
            ends_stream: facts.ends_stream,
            bytes,
            is_cut: facts.is_cut,
            first: facts.first,
            place: facts.place,
            found: facts.found,
        });
    }

    /// CONTINUATION.
    #[cold]
    pub(super) fn continue_block(
        &mut self,
        direction: Direction,
        payload: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        let lane = self.lane(direction);
        let frame = lane.frame;
        let Some(mut block) = lane
            .block
            .take()
            .filter(|block| block.stream == frame.stream)
        else {
            // The start of the block was lost.
            return lane.lose_block();
        };
        let room = BLOCK_BYTES_MAX - block.bytes.len();
        block.is_cut |= frame.len as usize > room;
        block
            .bytes
            .extend_from_slice(&payload[..payload.len().min(room)]);
        if !frame.ends_headers() {
            lane.block = Some(block);
            return;
        }
        let facts = BlockFacts {
            stream: block.stream,
            promised: block.promised,
            ends_stream: block.ends_stream,
            is_cut: block.is_cut,
            found: block.found,
            first: block.first,
            place: block.place,
        };
        self.read_block(direction, facts, &block.bytes, out);
        self.lane(direction).keep_buffer(block.bytes);
    }

    fn read_block(
        &mut self,
        direction: Direction,
        facts: BlockFacts,
        block: &[u8],
        out: &mut ParserOutput<'_>,
    ) {
        self.wanted
            .get_or_insert_with(|| Box::new(Http2Projection::new(out)));
        match direction {
            Direction::ClientToServer => self.read_request(facts, block, out),
            Direction::ServerToClient if facts.promised.is_some() => {
                self.read_promise(facts, block, out);
            }
            Direction::ServerToClient => self.read_response(facts, block, out),
        }
    }

    fn read_request(&mut self, facts: BlockFacts, block: &[u8], out: &mut ParserOutput<'_>) {
        let id = facts.stream;
        let is_known = self
            .streams
            .get(id)
            .is_some_and(|stream| stream.request.is_seen);
        let role = match () {
            () if is_known => BlockRole::Trailers,
            () if id > self.highest && id % 2 == 1 => BlockRole::Head,
            () => BlockRole::Aside,
        };
        if role == BlockRole::Head {
            self.open_stream(id, facts.place, out);
        }
        let content = self.decode(Direction::ClientToServer, id, facts, role, block, out);
        let has_lost = self.client.has_lost;
        let last = self.client.span.last;
        if role == BlockRole::Head && has_lost && !content.is_request {
            // The trailers of a request whose head was lost.
            if let Some(stream) = self.streams.take(id) {
                self.streams.give_back(stream);
            }
            return;
        }
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        if role == BlockRole::Head {
            stream.is_get = content.is_get;
            begin_message(&mut stream.request, facts, last);
        }
        end_block(&mut stream.request, facts, last);
        if facts.ends_stream {
            self.settle(id, out);
        }
    }

    /// Opens the stream of a request.
    pub(super) fn open_stream(
        &mut self,
        id: u32,
        place: StreamPlace,
        out: &mut ParserOutput<'_>,
    ) -> &mut Http2Stream {
        self.make_room(out);
        if id % 2 == 1 {
            self.highest = self.highest.max(id);
        }
        let windows = [self.client.stream_window, self.server.stream_window];
        let stream = self.streams.open(id, windows);
        stream.place = Some(place.seq);
        stream.windows_unknown = self.windows_unknown;
        stream
    }

    /// PUSH_PROMISE: the request of a stream that the server opens.
    #[cold]
    fn read_promise(&mut self, facts: BlockFacts, block: &[u8], out: &mut ParserOutput<'_>) {
        let id = facts.promised.unwrap_or_default();
        let is_new = id > 0 && id.is_multiple_of(2) && self.streams.get(id).is_none();
        let role = if is_new {
            self.open_stream(id, facts.place, out).place = None;
            BlockRole::Head
        } else {
            BlockRole::Aside
        };
        let content = self.decode(Direction::ServerToClient, id, facts, role, block, out);
        let last = self.server.span.last;
        if is_new && let Some(stream) = self.streams.get(id) {
            stream.is_get = content.is_get;
            begin_message(&mut stream.request, facts, last);
            stream.request.extend(last);
            stream.request.is_ended = true;
        }
    }

    fn read_response(&mut self, facts: BlockFacts, block: &[u8], out: &mut ParserOutput<'_>) {
        let id = facts.stream;
        let is_seen = self.streams.get(id).map(|stream| stream.response.is_seen);
        let role = match is_seen {
            Some(true) => BlockRole::Trailers,
            Some(false) => BlockRole::Head,
            // Its request was sent before the capture, or was lost.
            None if self.client.has_lost && !self.streams.was_written(id) => {
                self.open_response(id, out);
                BlockRole::Head
            }
            None => BlockRole::Aside,
        };
        let content = self.decode(Direction::ServerToClient, id, facts, role, block, out);
        let last = self.server.span.last;
        let has_lost = self.server.has_lost;
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        if role == BlockRole::Head {
            if let Some(interim @ 100..200) = content.status {
                stream.interim = interim;
                return;
            }
            let may_be_trailers = stream.response.frames_lost || is_seen.is_none() && has_lost;
            begin_message(&mut stream.response, facts, last);
            stream.status = content.status.unwrap_or(0);
            if content.status.is_none() && may_be_trailers {
                stream.response.first = None;
            }
        }
        end_block(&mut stream.response, facts, last);
        if facts.ends_stream {
            self.settle(id, out);
        }
    }

    /// Opens the stream of a response whose request is unknown.
    #[cold]
    fn open_response(&mut self, id: u32, out: &mut ParserOutput<'_>) {
        self.make_room(out);
        let stream = self.streams.open(id, [0; 2]);
        stream.windows_unknown = true;
        if id % 2 == 1 {
            self.highest = self.highest.max(id);
        }
    }

    /// Decodes a block into the message of its stream.
    fn decode(
        &mut self,
        direction: Direction,
        id: u32,
        facts: BlockFacts,
        role: BlockRole,
        block: &[u8],
        out: &mut ParserOutput<'_>,
    ) -> BlockContent {
        let Http2Connection {
            client,
            server,
            streams,
            wanted,
            ..
        } = self;
        let lane = match direction {
            Direction::ClientToServer => client,
            Direction::ServerToClient => server,
        };
        let mut content = BlockContent::default();
        let mut target = streams
            .get(id)
            .filter(|_| role != BlockRole::Aside)
            .map(|stream| match facts.promised {
                Some(_) => &mut stream.request,
                None => stream.message(direction),
            });
        let of_request = direction == Direction::ClientToServer || facts.promised.is_some();
        let wanted = wanted.as_deref();
        let mut unresolved = 0;
        let result = lane.hpack.decode(block, |field| {
            unresolved += u64::from(field.name.is_none());
            content.heed(field);
            if let (Some(message), Some(wanted)) = (&mut target, wanted)
                && let HeaderField {
                    name: Some(name),
                    value: Some(value),
                } = field
            {
                keep_field(message, (name, value), role, of_request, wanted);
            }
        });
        if result.is_err() || facts.is_cut {
            lane.hpack.restart();
            lane.has_lost = true;
        }
        out.counters.malformed_messages += u64::from(result.is_err() && !facts.is_cut);
        out.counters.oversized_heads +=
            u64::from(facts.is_cut || unresolved > 0 && lane.hpack.is_cut());
        if let Some(message) = target {
            message.unresolved += unresolved;
            message.gap |= result.is_err() || facts.is_cut;
            if content
                .status
                .is_some_and(|status| (100..200).contains(&status))
            {
                message.clear_texts();
            }
            streams.count_texts(id);
        }
        content
    }

    /// Handles a HEADERS frame whose block was lost.
    #[cold]
    pub(super) fn lose_head(&mut self, direction: Direction, out: &mut ParserOutput<'_>) {
        let lane = self.lane(direction);
        let frame = lane.frame;
        let span = lane.span;
        let place = lane.place;
        let id = frame.stream;
        let is_new = direction == Direction::ClientToServer
            && id > self.highest
            && id % 2 == 1
            && self.streams.get(id).is_none();
        if is_new {
            self.open_stream(id, place, out);
        }
        let Some(stream) = self.streams.get(id) else {
            return;
        };
        let message = stream.message(direction);
        // A response may be an interim one.
        if is_new {
            message.first = Some(span.first);
            message.head_last = span.last;
        }
        message.is_seen |= is_new || frame.ends_stream();
        message.gap = true;
        message.frames_lost = true;
        message.extend(span.last);
        message.last_lost = true;
        message.is_ended |= frame.ends_stream();
        if frame.ends_stream() {
            self.settle(id, out);
        }
    }

    /// Writes streams that take too much memory, or whose end was lost.
    fn make_room(&mut self, out: &mut ParserOutput<'_>) {
        while let Some(id) = self.streams.next_evicted(out) {
            out.counters.evicted_requests += 1;
            self.write(id, out);
        }
        self.opened += 1;
        if self.opened.is_multiple_of(64) && (self.client.has_lost || self.server.has_lost) {
            for id in self.streams.given_up(out.now) {
                self.write(id, out);
            }
        }
    }
}

impl BlockContent {
    fn heed(&mut self, field: HeaderField<'_>) {
        match field.name {
            Some(b":method") => {
                self.is_request = true;
                self.is_get = field.value == Some(b"GET");
            }
            Some(b":path" | b":scheme" | b":authority") => self.is_request = true,
            Some(b":status") => {
                let text = field
                    .value
                    .and_then(|value| std::str::from_utf8(value).ok());
                self.status = text.and_then(|text| text.parse().ok());
            }
            _ => {}
        }
    }
}

fn begin_message(message: &mut Http2Message, facts: BlockFacts, last: Timestamp) {
    message.is_seen = true;
    message.first = Some(facts.first);
    message.head_last = last;
    message.found = facts.found;
}

fn end_block(message: &mut Http2Message, facts: BlockFacts, last: Timestamp) {
    message.extend(last);
    message.is_ended |= facts.ends_stream;
}

/// Keeps a field if a column needs it.
fn keep_field(
    message: &mut Http2Message,
    (name, value): (&[u8], &[u8]),
    role: BlockRole,
    of_request: bool,
    wanted: &Http2Projection,
) {
    let part = match name {
        b"grpc-status" => part::GRPC_STATUS,
        b"grpc-message" => part::GRPC_MESSAGE,
        _ if role == BlockRole::Trailers => return,
        b":method" => part::METHOD,
        b":path" => part::TARGET,
        b":authority" => part::AUTHORITY,
        b":scheme" => part::SCHEME,
        b"host" => part::HOST,
        b"user-agent" => part::USER_AGENT,
        b"content-type" => {
            message.is_grpc = value.starts_with(b"application/grpc");
            part::CONTENT_TYPE
        }
        _ => part::COUNT,
    };
    if part < part::COUNT && wanted.texts[part] {
        message.texts.keep(part, value);
    }
    if role == BlockRole::Head && wanted.names_fields && !name.starts_with(b":") {
        let headers = message.headers.get_or_insert_default();
        for (values, names) in headers.iter_mut().zip(wanted.names_in(of_request)) {
            values.add(name, value, names);
        }
    }
}

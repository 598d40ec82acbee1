//! Streams of a connection: the messages of a request and its response, and the table of open streams.

use std::collections::VecDeque;

use hashbrown::HashMap;
use wire::{TcpSeq, Timestamp};

use super::grpc::GrpcMessages;
use crate::http::headers::HeaderValues;
use crate::pairing::{BudgetLoan, OUTSTANDING_MIN};
use crate::{Direction, ParserOutput};

/// Maximum bytes of text of open streams.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Maximum memory for text that a free stream keeps.
const KEPT_BYTES: usize = 1024;
/// Maximum number of free streams.
const SPARE_MAX: usize = 64;
/// Numbers kept of streams that were written before their end.
const WRITTEN_MAX: usize = 256;
/// Time after which a stream whose end may have been lost is written.
const PATIENCE_NS: i64 = 10_000_000_000;

/// Texts of a message; indices are those of [`part`].
#[derive(Debug, Default)]
pub struct MessageTexts {
    bytes: Vec<u8>,
    parts: [Option<(u32, u32)>; part::COUNT],
}

/// Texts of a message.
pub mod part {
    pub const METHOD: usize = 0;
    pub const AUTHORITY: usize = 1;
    pub const HOST: usize = 2;
    pub const SCHEME: usize = 3;
    pub const TARGET: usize = 4;
    pub const USER_AGENT: usize = 5;
    pub const CONTENT_TYPE: usize = 6;
    pub const GRPC_STATUS: usize = 7;
    pub const GRPC_MESSAGE: usize = 8;
    pub const COUNT: usize = 9;
}

impl MessageTexts {
    /// Keeps a text; the first one of its kind is valid.
    pub fn keep(&mut self, part: usize, text: &[u8]) {
        if self.parts[part].is_none() {
            let start = self.bytes.len() as u32;
            self.bytes.extend_from_slice(text);
            self.parts[part] = Some((start, self.bytes.len() as u32));
        }
    }

    /// The text, if known.
    pub fn get(&self, part: usize) -> Option<&[u8]> {
        let (start, end) = self.parts[part]?;
        Some(&self.bytes[start as usize..end as usize])
    }

    fn clear(&mut self) {
        self.parts = [None; part::COUNT];
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

/// One message of a stream.
#[derive(Debug)]
pub struct Http2Message {
    /// Its head, or a part of it, was seen.
    pub is_seen: bool,
    /// Arrival of its first byte; `None` if that was lost.
    pub first: Option<Timestamp>,
    /// Arrival of the last byte of its head.
    pub head_last: Timestamp,
    /// Arrival of its last byte so far.
    pub last: Timestamp,
    /// It ended with END_STREAM.
    pub is_ended: bool,
    /// Its last bytes so far are missing.
    pub last_lost: bool,
    /// Bytes are missing.
    pub gap: bool,
    /// Frames may be missing: its length and its end may be unknown.
    pub frames_lost: bool,
    /// It directly follows missing bytes.
    pub found: bool,
    pub body_bytes: u64,
    /// Arrival of the first and last byte of its first DATA.
    pub first_data: Option<(Timestamp, Timestamp)>,
    /// Fields of its blocks that could not be resolved.
    pub unresolved: u64,
    /// Whether its content type is that of gRPC.
    pub is_grpc: bool,
    pub messages: GrpcMessages,
    pub texts: MessageTexts,
    /// Fields named by queries of `http`, and of `http2`.
    pub headers: Option<Box<[HeaderValues; 2]>>,
    /// Bytes that its sender may still send on the stream.
    pub window: i64,
    /// Since when the window is closed, and when it was opened again.
    pub stalled_at: Option<Timestamp>,
    pub opened_at: Option<Timestamp>,
    /// Time at closed windows.
    pub stall_ns: i64,
}

impl Default for Http2Message {
    fn default() -> Self {
        Http2Message {
            is_seen: false,
            first: None,
            head_last: Timestamp::MIN,
            last: Timestamp::MIN,
            is_ended: false,
            last_lost: false,
            gap: false,
            frames_lost: false,
            found: false,
            body_bytes: 0,
            first_data: None,
            unresolved: 0,
            is_grpc: false,
            messages: GrpcMessages::default(),
            texts: MessageTexts::default(),
            headers: None,
            window: 0,
            stalled_at: None,
            opened_at: None,
            stall_ns: 0,
        }
    }
}

impl Http2Message {
    fn clear(&mut self) {
        let Http2Message {
            mut texts,
            mut messages,
            mut headers,
            ..
        } = std::mem::take(self);
        texts.clear();
        messages.clear();
        if let Some(headers) = &mut headers {
            headers.iter_mut().for_each(HeaderValues::clear);
        }
        *self = Http2Message {
            texts,
            messages,
            headers,
            ..Http2Message::default()
        };
    }

    /// Removes what an interim response contained.
    pub fn clear_texts(&mut self) {
        self.texts.clear();
        self.unresolved = 0;
        self.is_grpc = false;
        if let Some(headers) = &mut self.headers {
            headers.iter_mut().for_each(HeaderValues::clear);
        }
    }

    /// Arrival of its last byte, if it has ended and that byte was seen.
    pub fn end(&self) -> Option<Timestamp> {
        (self.is_ended && !self.last_lost).then_some(self.last)
    }

    /// Extends it by bytes that arrived at `ts`.
    pub fn extend(&mut self, ts: Timestamp) {
        self.last = self.last.max(ts);
        self.last_lost = false;
    }

    /// Memory of its texts in bytes.
    fn text_bytes(&self) -> usize {
        let headers = self.headers.iter().flat_map(|headers| headers.iter());
        self.texts.bytes.len()
            + self.messages.trailers.len()
            + headers.map(HeaderValues::text_bytes).sum::<usize>()
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOutcome {
    /// Both messages did.
    EndStream,
    /// RST_STREAM with this code.
    Reset(u32),
    /// The server announced that it does not process the stream.
    GoAway,
    /// The connection ended before.
    Connection,
}

/// A stream.
#[derive(Debug, Default)]
pub struct Http2Stream {
    pub id: u32,
    pub request: Http2Message,
    pub response: Http2Message,
    /// Position of the request's start.
    pub place: Option<TcpSeq>,
    pub is_get: bool,
    /// Status of the response; 0: unknown.
    pub status: u16,
    /// Status of the last interim response; 0: none.
    pub interim: u16,
    /// Flow control is not known from the stream's start on.
    pub windows_unknown: bool,
    /// The end, and its time.
    pub outcome: Option<(StreamOutcome, Timestamp)>,
    /// Memory of its texts that [`OpenStreams`] counts.
    counted_bytes: usize,
}

impl Http2Stream {
    /// The message of one direction.
    pub fn message(&mut self, direction: Direction) -> &mut Http2Message {
        match direction {
            Direction::ClientToServer => &mut self.request,
            Direction::ServerToClient => &mut self.response,
        }
    }

    /// Whether no further frame is to be expected.
    pub fn is_over(&self) -> bool {
        let request = &self.request;
        self.outcome.is_some()
            || self.response.is_ended
                && (request.is_ended || !request.is_seen || request.frames_lost)
    }

    /// Whether the end of one of its messages may have been lost, long before `now`.
    fn is_given_up(&self, now: Timestamp) -> bool {
        (self.request.frames_lost || self.response.frames_lost)
            && now.since(self.request.last.max(self.response.last)) > PATIENCE_NS
    }
}

/// The open streams of a connection.
#[derive(Debug, Default)]
pub struct OpenStreams {
    streams: HashMap<u32, Box<Http2Stream>>,
    /// Numbers in the order of their start; streams that are not open are removed later.
    order: VecDeque<u32>,
    /// Allocations of written streams, for later ones.
    #[expect(clippy::vec_box, reason = "the allocations are reused")]
    spare: Vec<Box<Http2Stream>>,
    /// Numbers of streams that were written before their end.
    written: VecDeque<u32>,
    text_bytes: usize,
    loan: BudgetLoan,
}

impl OpenStreams {
    /// The open stream with this number.
    #[inline]
    pub fn get(&mut self, id: u32) -> Option<&mut Http2Stream> {
        self.streams.get_mut(&id).map(Box::as_mut)
    }

    /// All open streams, in any order.
    pub fn all(&mut self) -> impl Iterator<Item = &mut Http2Stream> {
        self.streams.values_mut().map(Box::as_mut)
    }

    /// Whether a stream was written before its end.
    pub fn was_written(&self, id: u32) -> bool {
        self.written.contains(&id)
    }

    /// Opens a stream.
    pub fn open(&mut self, id: u32, windows: [i64; 2]) -> &mut Http2Stream {
        let mut stream = self.spare.pop().unwrap_or_default();
        stream.id = id;
        stream.request.window = windows[0];
        stream.response.window = windows[1];
        if self.order.len() > 2 * self.streams.len() + SPARE_MAX {
            let streams = &self.streams;
            self.order.retain(|id| streams.contains_key(id));
        }
        self.order.push_back(id);
        self.streams.entry(id).insert(stream).into_mut()
    }

    /// Counts the texts of a stream that may have grown.
    pub fn count_texts(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            let bytes = stream.request.text_bytes() + stream.response.text_bytes();
            self.text_bytes += bytes;
            self.text_bytes -= stream.counted_bytes;
            stream.counted_bytes = bytes;
        }
    }

    /// Removes a stream.
    pub fn take(&mut self, id: u32) -> Option<Box<Http2Stream>> {
        let stream = self.streams.remove(&id)?;
        self.text_bytes -= stream.counted_bytes;
        let is_over = stream.request.is_ended && stream.response.is_ended;
        if !is_over {
            if self.written.len() == WRITTEN_MAX {
                self.written.pop_front();
            }
            self.written.push_back(id);
        }
        Some(stream)
    }

    /// Takes a written stream for reuse.
    pub fn give_back(&mut self, mut stream: Box<Http2Stream>) {
        if self.spare.len() < SPARE_MAX {
            stream.request.clear();
            stream.response.clear();
            let Http2Stream {
                request, response, ..
            } = *stream;
            *stream = Http2Stream {
                request,
                response,
                ..Http2Stream::default()
            };
            self.spare.push(stream);
        }
    }

    /// The oldest stream if another one or its texts would exceed the limits.
    pub fn next_evicted(&mut self, out: &ParserOutput<'_>) -> Option<u32> {
        let places = OUTSTANDING_MIN + self.loan.places;
        let has_place = self.streams.len() < places
            || self.streams.len() < out.limits.outstanding_max && self.borrow(out);
        if has_place && self.text_bytes <= TEXT_BYTES_MAX + self.loan.text {
            return None;
        }
        self.oldest()
    }

    #[cold]
    fn borrow(&mut self, out: &ParserOutput<'_>) -> bool {
        let text = self.text_bytes;
        self.loan
            .extend(out.room, OUTSTANDING_MIN, size_of::<Http2Stream>(), || text)
    }

    fn oldest(&mut self) -> Option<u32> {
        while let Some(id) = self.order.front() {
            if self.streams.contains_key(id) {
                return Some(*id);
            }
            self.order.pop_front();
        }
        None
    }

    /// Numbers of the open streams that satisfy `is`, ascending.
    pub fn that(&self, is: impl Fn(&Http2Stream) -> bool) -> Vec<u32> {
        let streams = self.streams.values().filter(|stream| is(stream));
        let mut ids: Vec<u32> = streams.map(|stream| stream.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Numbers of the streams whose end may have been lost long before `now`.
    pub fn given_up(&self, now: Timestamp) -> Vec<u32> {
        self.that(|stream| stream.is_given_up(now))
    }
}

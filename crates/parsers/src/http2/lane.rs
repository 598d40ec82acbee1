//! One direction of a connection: where its next bytes belong.

use flow::StreamPlace;
use wire::Timestamp;

use super::frames::{FRAME_BYTES_DEFAULT, FRAME_HEAD_BYTES, FrameHead, WINDOW_DEFAULT};
use super::hpack::HpackDecoder;
use crate::MessageSpan;
use crate::resync::ResyncSearch;

/// Maximum bytes of a header block that are read.
pub const BLOCK_BYTES_MAX: usize = 64 << 10;

/// What the next bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramingState {
    /// The client's preface, of which this many bytes were seen.
    Preface(usize),
    /// The header of a frame, of which this many bytes were seen.
    Head(usize),
    /// The payload of the current frame.
    Payload,
    /// Unknown: the next frame is searched for.
    Lost,
    /// Not HTTP/2.
    Over,
}

/// One direction.
#[derive(Debug)]
pub struct Http2Lane {
    pub state: FramingState,
    pub head_bytes: [u8; FRAME_HEAD_BYTES],
    /// The current frame.
    pub frame: FrameHead,
    pub span: MessageSpan,
    /// Position of its start.
    pub place: StreamPlace,
    /// Bytes of its payload still to come.
    pub left: u32,
    /// Length of its padding, once known.
    pub padding: Option<u32>,
    /// Bytes of its payload are missing.
    pub is_damaged: bool,
    /// Payload that came in parts.
    pub payload: Vec<u8>,
    /// Header block in progress.
    pub block: Option<HeaderBlock>,
    /// Buffer of the last block.
    pub spare: Vec<u8>,
    pub hpack: HpackDecoder,
    pub search: Option<Box<ResyncSearch>>,
    /// The current frame was found by a search.
    pub found: bool,
    /// Longest frame that the receiver permits.
    pub frame_bytes_max: u32,
    /// Bytes that the sender may still send on the connection, and at first on a stream.
    pub window: i64,
    pub stream_window: i64,
    /// Whether frames may be missing since the start of the connection.
    pub has_lost: bool,
}

/// A header block whose frames are still coming.
#[derive(Debug)]
pub struct HeaderBlock {
    pub stream: u32,
    /// The stream that a PUSH_PROMISE promises.
    pub promised: Option<u32>,
    pub ends_stream: bool,
    pub bytes: Vec<u8>,
    /// Bytes beyond the limit were dropped.
    pub is_cut: bool,
    pub first: Timestamp,
    pub place: StreamPlace,
    pub found: bool,
}

impl Http2Lane {
    pub fn new(state: FramingState, is_whole: bool) -> Http2Lane {
        Http2Lane {
            state,
            head_bytes: [0; FRAME_HEAD_BYTES],
            frame: FrameHead::default(),
            span: MessageSpan::at(Timestamp::MIN),
            place: StreamPlace::default(),
            left: 0,
            padding: None,
            is_damaged: false,
            payload: Vec::new(),
            block: None,
            spare: Vec::new(),
            hpack: HpackDecoder::new(is_whole),
            search: None,
            found: false,
            frame_bytes_max: FRAME_BYTES_DEFAULT,
            window: WINDOW_DEFAULT,
            stream_window: WINDOW_DEFAULT,
            has_lost: !is_whole,
        }
    }

    /// Adds to the payload of the current frame, up to the limit.
    pub fn collect(&mut self, bytes: &[u8]) {
        let room = (BLOCK_BYTES_MAX + 512).saturating_sub(self.payload.len());
        self.payload
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Ends the block in progress and keeps its buffer.
    pub fn drop_block(&mut self) {
        if let Some(block) = self.block.take() {
            self.keep_buffer(block.bytes);
        }
    }

    /// Keeps a buffer for the next block.
    pub fn keep_buffer(&mut self, mut bytes: Vec<u8>) {
        bytes.clear();
        bytes.shrink_to(4096);
        self.spare = bytes;
    }

    /// The dynamic table is unknown from here on: a block was lost.
    pub fn lose_block(&mut self) {
        self.drop_block();
        self.hpack.restart();
    }
}

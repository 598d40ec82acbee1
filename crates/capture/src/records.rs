//! Destination of records of capture files, and the reason why reading stopped.

use wire::{LinkType, Timestamp};

use crate::block::{PacketBlock, PacketRecord};

/// Maximum record length; also the limit of a stream's buffer. Same as in Wireshark.
pub(crate) const RECORD_MAX: usize = 128 << 20;

/// Destination of records: a block, and the base of their offsets.
pub(crate) struct RecordSink<'a> {
    block: &'a mut PacketBlock,
    origin: WindowOrigin,
}

/// Position of a window's bytes in a block.
#[derive(Clone, Copy)]
pub(crate) struct WindowOrigin {
    buffer: u32,
    window_start: u32,
}

impl WindowOrigin {
    /// A packet whose captured bytes are completely in the window, from `start` on.
    #[inline(always)]
    pub fn record(
        self,
        ts: Timestamp,
        link_type: LinkType,
        lengths: PacketLengths,
        start: usize,
    ) -> PacketRecord {
        let PacketLengths { original_len, len } = lengths;
        let buffer = self.buffer;
        let start = self.window_start + start as u32;
        PacketRecord {
            ts,
            link_type,
            original_len,
            len,
            start,
            buffer,
        }
    }
}

impl<'a> RecordSink<'a> {
    /// Records of a window that begins at `window_start` in `buffer` of the block.
    pub fn new(block: &'a mut PacketBlock, buffer: u32, window_start: usize) -> Self {
        // Buffers are windows, which are far below 4 GiB.
        RecordSink {
            block,
            origin: WindowOrigin {
                buffer,
                window_start: window_start as u32,
            },
        }
    }

    /// Advances the base by `len` bytes.
    pub fn skip(&mut self, len: usize) {
        self.origin.window_start += len as u32;
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.block.is_full()
    }

    /// Adds a packet whose captured bytes are completely in the window, from `start` on.
    #[inline]
    pub fn push(
        &mut self,
        ts: Timestamp,
        link_type: LinkType,
        lengths: PacketLengths,
        start: usize,
    ) {
        self.block
            .push(self.origin.record(ts, link_type, lengths, start));
    }

    /// Free records, to be written from the front, followed by [`RecordSink::filled`]; the bulk form of
    /// [`RecordSink::push`].
    pub fn places(&mut self) -> (WindowOrigin, &mut [PacketRecord]) {
        (self.origin, self.block.room())
    }

    /// Declares the first `n` records to be packets.
    pub fn filled(&mut self, n: usize) {
        self.block.filled(n);
    }
}

/// Original and captured length of a packet.
pub(crate) struct PacketLengths {
    pub original_len: u32,
    pub len: u32,
}

/// Reason why no further record was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RecordStop {
    /// The block is full, or the unit of times may change; the next call continues.
    Full,
    /// The next item needs this many bytes, more than the window has.
    Need(usize),
    /// The next item is invalid; reading cannot continue.
    Bad(String),
}

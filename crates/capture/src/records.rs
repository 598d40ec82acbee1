//! What every format of capture files reads records into, and why it stopped.

use wire::{LinkType, Timestamp};

use crate::block::{Block, Record};

/// Longest record that is believed; a stream's buffer never grows beyond it. Wireshark draws the line here as well.
pub(crate) const RECORD_MAX: usize = 128 << 20;

/// Where records go: a block, and what its record starts count from.
pub(crate) struct Records<'a> {
    block: &'a mut Block,
    origin: Origin,
}

/// Where in a block a window's bytes lie.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    buffer: u32,
    window_start: u32,
}

impl Origin {
    /// A packet whose captured bytes lie whole in the window, from `start` on.
    #[inline(always)]
    pub fn record(self, ts: Timestamp, link_type: LinkType, lengths: Lengths, start: usize) -> Record {
        let Lengths { original_len, len } = lengths;
        let (buffer, start) = (self.buffer, self.window_start + start as u32);
        Record { ts, link_type, original_len, len, start, buffer }
    }
}

impl<'a> Records<'a> {
    /// Records of a window that begins at `window_start` in `buffer` of the block.
    pub fn new(block: &'a mut Block, buffer: u32, window_start: usize) -> Self {
        // Buffers are windows, which are far below 4 GiB.
        Records { block, origin: Origin { buffer, window_start: window_start as u32 } }
    }

    /// The same block, for records of a window that begins `len` bytes later.
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

    /// Adds a packet whose captured bytes lie whole in the window, from `start` on.
    #[inline]
    pub fn push(&mut self, ts: Timestamp, link_type: LinkType, lengths: Lengths, start: usize) {
        self.block.push(self.origin.record(ts, link_type, lengths, start));
    }

    /// Places for packets to be written from the front on, and then said to be [`Records::filled`]: a reader's
    /// counterpart of [`Records::push`] for the packets that it reads all the time.
    pub fn places(&mut self) -> (Origin, &mut [Record]) {
        (self.origin, self.block.room())
    }

    /// The first `n` places are packets now.
    pub fn filled(&mut self, n: usize) {
        self.block.filled(n);
    }
}

/// How long a packet was on the wire, and in the capture.
pub(crate) struct Lengths {
    pub original_len: u32,
    pub len: u32,
}

/// Why no further record was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// No room for another record.
    Full,
    /// What comes next takes this many bytes, more than are left in the window.
    Need(usize),
    /// What comes next can not be read, nor anything after it.
    Bad(String),
}

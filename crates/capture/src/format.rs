//! What reads records out of bytes: the one interface that classic pcap and pcapng share. A format is fed a window
//! onto the file, appends the records that are whole in it, and says why it stopped. It does no input of its own, so
//! mapped files and streams run through the same code.

use std::net::IpAddr;

use wire::{LinkType, Timestamp};

use crate::block::{Block, Record};
use crate::foreign;
use crate::pcap_file::PcapFile;
use crate::pcapng::PcapNg;

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

    #[inline]
    pub fn is_full(&self) -> bool {
        self.block.is_full()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
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

/// A capture file's format, with all that it remembers of the file.
pub(crate) enum Format {
    /// The first bytes have not been seen.
    Undetected,
    Pcap(PcapFile),
    PcapNg(PcapNg),
}

/// Bytes that tell all formats apart, and which none is shorter than.
const HEAD_LEN: usize = 24;

impl Format {
    /// Reads what is whole in `window`, as long as there is room in `records`: how many bytes are done with, and
    /// why it stopped there. Called again with the window moved that far it goes on.
    pub fn read(&mut self, window: &[u8], records: &mut Records<'_>) -> (usize, Stop) {
        match self {
            Format::Pcap(pcap) => pcap.read(window, records),
            Format::PcapNg(pcapng) => pcapng.read(window, records),
            Format::Undetected if window.len() < HEAD_LEN => (0, Stop::Need(HEAD_LEN)),
            Format::Undetected => match Self::detect(window) {
                Some((format, header_len)) => {
                    *self = format;
                    let (len, stop) = self.read_behind(header_len, window, records);
                    (header_len + len, stop)
                }
                None => (0, Stop::Bad(foreign::describe(window))),
            },
        }
    }

    fn read_behind(&mut self, start: usize, window: &[u8], records: &mut Records<'_>) -> (usize, Stop) {
        records.origin.window_start += start as u32;
        self.read(&window[start..], records)
    }

    /// The format, and the length of the header that is done with by that.
    fn detect(window: &[u8]) -> Option<(Format, usize)> {
        if let Some(pcap) = PcapFile::of_header(window.first_chunk()?) {
            return Some((Format::Pcap(pcap), crate::pcap_file::HEADER_LEN));
        }
        PcapNg::of_header(window.first_chunk()?).map(|pcapng| (Format::PcapNg(pcapng), 0))
    }

    /// What to say when the file ends with `rest`, of which `needed` bytes were to come; `packet` is the number of
    /// the packet that would have been next.
    pub fn cut(&self, rest: &[u8], needed: usize, packet: u64) -> String {
        match self {
            Format::Pcap(pcap) => pcap.cut(rest, needed, packet),
            Format::PcapNg(pcapng) => pcapng.cut(rest, needed, packet),
            Format::Undetected if rest.is_empty() => "the file is empty".into(),
            Format::Undetected if is_magic_start(rest) => {
                format!(
                    "the file ends inside its header: {} bytes; it was probably cut while being written",
                    rest.len()
                )
            }
            Format::Undetected => foreign::describe(rest),
        }
    }

    /// Packets that the file says were lost before it.
    pub fn lost_before_us(&self) -> Option<u64> {
        match self {
            Format::PcapNg(pcapng) => pcapng.lost_before_us(),
            _ => None,
        }
    }

    /// Host names read since the last call.
    pub fn take_names(&mut self) -> Vec<(IpAddr, String)> {
        match self {
            Format::PcapNg(pcapng) => pcapng.take_names(),
            _ => Vec::new(),
        }
    }
}

/// Whether a file that is too short to be a capture began as one.
fn is_magic_start(rest: &[u8]) -> bool {
    let magics = crate::pcap_file::MAGICS.iter().flat_map(|m| [m.to_be_bytes(), m.to_le_bytes()]);
    magics
        .chain([crate::pcapng::SECTION_HEADER.to_be_bytes()])
        .any(|m| rest.starts_with(&m[..rest.len().min(4)]))
}

#[cfg(test)]
pub(crate) mod samples {
    use std::sync::Arc;

    use super::*;

    /// What `format` reads of a window.
    pub fn read(format: &mut Format, window: &[u8]) -> (Block, usize, Stop) {
        let mut block = Block::default();
        let buffer = block.add_buffer(Arc::new(window.to_vec()));
        let (len, stop) = format.read(window, &mut Records::new(&mut block, buffer, 0));
        (block, len, stop)
    }
}

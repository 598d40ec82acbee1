//! The trait that every origin of packets has, and what it counts.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::block::{Block, Record};
use crate::live::Clock;

/// An origin of packets.
pub trait Source: Send {
    /// Fills `block`, whatever it held before, with the next packets; false at the end. A live source comes back with
    /// an empty block and its clock when nothing has come for a while. An error ends only the input it happened in:
    /// what was read before is delivered first, and the error is then found in [`Source::errors`].
    fn next_block(&mut self, block: &mut Block) -> bool;

    /// What has gone wrong so far, in the order in which it happened.
    fn errors(&self) -> &[SourceError];

    /// What has been delivered so far.
    fn counters(&self) -> Counters;

    /// Host names that the capture itself carries (pcapng name resolution blocks) found so far.
    fn names(&self) -> &[(IpAddr, String)] {
        &[]
    }

    /// Share of the capture buffer in use, 0 to 1; 0 if the input waits for its reader, or if unknown.
    fn backlog(&self) -> f32 {
        0.0
    }

    /// Bytes of input consumed, and how many there are if that is known; for a progress bar.
    fn progress(&self) -> (u64, Option<u64>) {
        (0, None)
    }
}

/// Counts of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets delivered.
    pub packets: u64,
    /// Their length on the wire, in bytes.
    pub original_bytes: u64,
    /// Their captured bytes.
    pub captured_bytes: u64,
    /// Packets cut by the snaplen.
    pub truncated_packets: u64,
    /// Packets that the capturing system says it lost (pcapng interface statistics, the kernel when its buffer was full);
    /// `None` unknown.
    pub lost_before_us: Option<u64>,
    /// Packets that a capture filter left out after they had been read; a live one leaves them in the kernel, uncounted.
    pub filtered: u64,
    /// How often the capture buffer was full, live.
    pub buffer_overflows: u64,
    /// Packets that the network adapter dropped before the kernel saw them; `None` unknown. With several workers only
    /// the first one says it: they have one adapter.
    pub nic_drops: Option<u64>,
    /// Whose clock was asked to stamp packets; `None` where the capture was made elsewhere.
    pub clock: Option<Clock>,
    /// Packets stamped by the machine's clock although the adapter's was asked for: those that this machine sent.
    pub unstamped_packets: u64,
    /// Times that a file states in a unit in which they cannot be: fractions of a second of a million microseconds and more, or
    /// times beyond the year 2262. They were read in the finer unit in which they can.
    pub nanosecond_fractions: u64,
}

impl Counters {
    /// Counts the packets of a block.
    pub(crate) fn count(&mut self, block: &Block) {
        self.packets += block.len() as u64;
        for record in block.records() {
            self.original_bytes += u64::from(record.original_len);
            self.captured_bytes += u64::from(record.len);
            self.truncated_packets += u64::from(record.original_len > record.len);
        }
    }

    /// Takes packets back that were delivered and then not wanted any more: how many those are depends on the length of
    /// a block, and that is not to show.
    pub fn take_back(&mut self, unwanted: &[Record]) {
        self.packets = self.packets.saturating_sub(unwanted.len() as u64);
        for record in unwanted {
            self.original_bytes = self.original_bytes.saturating_sub(record.original_len.into());
            self.captured_bytes = self.captured_bytes.saturating_sub(record.len.into());
            let is_truncated = record.original_len > record.len;
            self.truncated_packets = self.truncated_packets.saturating_sub(is_truncated.into());
        }
    }

    /// Adds what another source has delivered.
    pub fn add(&mut self, other: &Counters) {
        self.packets += other.packets;
        self.original_bytes += other.original_bytes;
        self.captured_bytes += other.captured_bytes;
        self.truncated_packets += other.truncated_packets;
        let sum = |a: Option<u64>, b| a.into_iter().chain(b).reduce(u64::saturating_add);
        self.lost_before_us = sum(self.lost_before_us, other.lost_before_us);
        self.filtered += other.filtered;
        self.buffer_overflows += other.buffer_overflows;
        self.nic_drops = sum(self.nic_drops, other.nic_drops);
        self.clock = self.clock.or(other.clock);
        self.unstamped_packets += other.unstamped_packets;
        self.nanosecond_fractions += other.nanosecond_fractions;
    }
}

/// Something wrong with an input, and where.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {}{message}", path.display(), offset.map(|o| format!("byte {o}: ")).unwrap_or_default())]
pub struct SourceError {
    /// The file; `-` for standard input.
    pub path: PathBuf,
    /// Byte offset in the (uncompressed) input, if known.
    pub offset: Option<u64>,
    /// What is wrong, and what a person can do.
    pub message: String,
    /// Whether packets of this input had been delivered before.
    pub after_packets: u64,
}

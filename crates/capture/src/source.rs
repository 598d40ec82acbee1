//! The trait of packet sources, and their counters.

use std::net::IpAddr;
use std::path::PathBuf;

use crate::block::{PacketBlock, PacketRecord};
use crate::live::options::TimestampClock;

/// A source of packets.
pub trait PacketSource: Send {
    /// Fills `block`, replacing its contents, with the next packets; returns false at the end. A live source returns
    /// an empty block with its clock if no packet arrives for a while. An error ends only the affected input: packets
    /// read before it are delivered first, then it is in [`PacketSource::errors`].
    fn next_block(&mut self, block: &mut PacketBlock) -> bool;

    /// Errors so far, in order.
    fn errors(&self) -> &[SourceError];

    /// Counters so far.
    fn counters(&self) -> SourceCounters;

    /// Host names in the capture itself (pcapng name resolution blocks) found so far.
    fn names(&self) -> &[(IpAddr, String)] {
        &[]
    }

    /// Share of the capture buffer in use, 0 to 1; 0 if the input waits for its reader, or if unknown.
    fn backlog(&self) -> f32 {
        0.0
    }

    /// Bytes of input consumed, and the total if known; for a progress bar.
    fn progress(&self) -> (u64, Option<u64>) {
        (0, None)
    }
}

/// Counts of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourceCounters {
    /// Packets delivered.
    pub packets: u64,
    /// Length of these packets on the wire, in bytes.
    pub original_bytes: u64,
    /// Captured bytes of these packets.
    pub captured_bytes: u64,
    /// Packets cut by the snaplen.
    pub truncated_packets: u64,
    /// Packets that the capturing system reports as lost (pcapng interface statistics; the kernel when its buffer is
    /// full); `None`: unknown.
    pub lost_before_us: Option<u64>,
    /// Packets removed by a capture filter after reading; a live filter drops them in the kernel, uncounted.
    pub filtered: u64,
    /// Number of times the live capture buffer was full.
    pub buffer_overflows: u64,
    /// Packets dropped by the network adapter before the kernel; `None`: unknown. With several workers only the first
    /// reports it, because they share an adapter.
    pub nic_drops: Option<u64>,
    /// Clock requested for timestamps; `None` for files.
    pub clock: Option<TimestampClock>,
    /// Packets stamped by the machine's clock although the adapter's was requested: those sent by this machine.
    pub unstamped_packets: u64,
    /// Timestamps that are impossible in the stated unit of a file: fractions of a second of a million microseconds
    /// or more, or times beyond the year 2262. They were read in the finer unit that fits.
    pub nanosecond_fractions: u64,
}

impl SourceCounters {
    /// Counts the packets of a block.
    pub(crate) fn count(&mut self, block: &PacketBlock) {
        self.packets += block.len() as u64;
        for record in block.records() {
            self.original_bytes += u64::from(record.original_len);
            self.captured_bytes += u64::from(record.len);
            self.truncated_packets += u64::from(record.original_len > record.len);
        }
    }

    /// Subtracts packets that were delivered but lie beyond LIMIT, whose number depends on the block size.
    pub fn take_back(&mut self, unwanted: &[PacketRecord]) {
        self.packets = self.packets.saturating_sub(unwanted.len() as u64);
        for record in unwanted {
            self.original_bytes = self
                .original_bytes
                .saturating_sub(record.original_len.into());
            self.captured_bytes = self.captured_bytes.saturating_sub(record.len.into());
            let is_truncated = record.original_len > record.len;
            self.truncated_packets = self.truncated_packets.saturating_sub(is_truncated.into());
        }
    }

    /// Adds the counters of another source.
    pub fn add(&mut self, other: &SourceCounters) {
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

/// An error of an input, with its position.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {}{message}", path.display(), offset.map(|o| format!("byte {o}: ")).unwrap_or_default())]
pub struct SourceError {
    /// The file; `-` for standard input.
    pub path: PathBuf,
    /// Byte offset in the (uncompressed) input, if known.
    pub offset: Option<u64>,
    /// The error, and what to do.
    pub message: String,
    /// Number of packets of this input delivered before.
    pub after_packets: u64,
}

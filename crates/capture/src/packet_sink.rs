//! Destination of stored packets: a file, or a receiver on the network.

use std::{fmt, io};

use wire::CapturedPacket;

/// Counts of written packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketFileCounts {
    /// Packets.
    pub packets: u64,
    /// Packets not written because of an error, including all later ones.
    pub packets_lost: u64,
    /// Files.
    pub files: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Tuples whose packets had already been discarded when selected, or whose flow exceeded the limit.
    pub tuples_missed: u64,
}

/// Destination of stored packets.
pub trait PacketSink: fmt::Debug + Send {
    /// Writes a packet. Packets that cannot be written are counted; [`PacketSink::finish`] returns the error.
    fn take(&mut self, packet: &CapturedPacket<'_>);

    /// Writes what is buffered, so that a reader sees it; [`PacketSink::finish`] returns an error.
    fn flush(&mut self);

    /// Writes what is buffered; returns the counts, and the first error.
    fn finish(&mut self) -> (PacketFileCounts, Option<io::Error>);
}

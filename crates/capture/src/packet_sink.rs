//! Destination of stored packets: a file, or a receiver on the network.

use std::{fmt, io};

use wire::CapturedPacket;

use crate::packet_file::PacketFileCounts;

/// Destination of stored packets.
pub trait PacketSink: fmt::Debug + Send {
    /// Writes a packet. Packets that cannot be written are counted; [`PacketSink::finish`] returns the error.
    fn take(&mut self, packet: &CapturedPacket<'_>);

    /// Writes what is buffered; returns the counts, and the first error.
    fn finish(&mut self) -> (PacketFileCounts, Option<io::Error>);
}

//! Packets selected for a request of the server: a file that is sent in parts.

use std::fs::File;
use std::os::unix::fs::FileExt;

use link::{PACKETS_PART_BYTES, PacketReply};

/// Packets selected for a request.
#[derive(Debug)]
pub struct SelectedPackets {
    /// The file, already deleted; `None`: there are no such packets.
    pub file: Option<File>,
    /// Size of the file in bytes.
    pub total: u64,
    /// Whether later packets are not in the file.
    pub is_cut: bool,
}

impl SelectedPackets {
    /// Part of the file from `offset` on.
    pub fn part(&self, request: u64, offset: u64) -> PacketReply {
        let mut part = vec![0; PACKETS_PART_BYTES];
        let read = match &self.file {
            Some(file) => file.read_at(&mut part, offset),
            None => Ok(0),
        };
        part.truncate(*read.as_ref().unwrap_or(&0));
        PacketReply {
            request,
            offset,
            total: self.total,
            part: part.into(),
            problem: read.err().map(|why| why.to_string()).unwrap_or_default(),
            is_cut: self.is_cut,
        }
    }
}

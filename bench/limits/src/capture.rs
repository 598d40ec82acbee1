//! A classic little-endian pcap in huge-page memory and the walk over its records.

use crate::prefetch::prefetch;
use memmap2::{Advice, MmapMut};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

pub struct Capture(MmapMut);

#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub seconds: u32,
    pub original: u32,
    pub packet: &'a [u8],
}

/// Zeroed memory on huge pages, if available.
pub fn memory(bytes: usize) -> MmapMut {
    let map = MmapMut::map_anon(bytes).expect("memory for the limits");
    #[cfg(target_os = "linux")]
    let _ = map.advise(Advice::HugePage);
    map
}

impl Capture {
    pub fn load(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut map = memory(file.metadata()?.len() as usize);
        file.read_exact(&mut map)?;
        match map.first_chunk() {
            Some([0xd4, 0xc3, 0xb2, 0xa1] | [0x4d, 0x3c, 0xb2, 0xa1]) => Ok(Self(map)),
            _ => Err(io::Error::other("not a little-endian pcap")),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// `AHEAD` prefetches 1.5 KB ahead: the next record's position is known only after this one is read.
    pub fn records<const AHEAD: bool>(&self) -> impl Iterator<Item = Record<'_>> {
        let bytes = self.bytes();
        let mut at = 24;
        std::iter::from_fn(move || {
            let head: &[u8; 16] = bytes.get(at..)?.first_chunk()?;
            let word =
                |k: usize| u32::from_le_bytes([head[k], head[k + 1], head[k + 2], head[k + 3]]);
            let start = at + 16;
            at = start + word(8) as usize;
            if AHEAD {
                prefetch(bytes, start + 1536);
            }
            Some(Record {
                seconds: word(0),
                original: word(12),
                packet: bytes.get(start..at)?,
            })
        })
    }
}

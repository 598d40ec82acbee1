//! Writes packets as pcapng (<https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>) as captured, with
//! nanosecond timestamps and original lengths, one interface per link type. Without rotation they go to one file;
//! with it to `NAME-000001.pcapng` and so on. A partially written file is readable at any time: the format needs no
//! end.
//!
//! Counters contain what the system has accepted. Packets are written many at a time; if the system does not accept
//! them all, none of them is kept, so that a file never ends within a packet.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use wire::{CapturedPacket, LinkType, Timestamp};

use crate::interruptible_writer::InterruptibleWriter;
use crate::packet_sink::{PacketFileCounts, PacketSink};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Size of the write buffer in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Rotation limits of files; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketRotation {
    /// At multiples of this many nanoseconds since the epoch, by the packets' clock.
    pub every_ns: Option<i64>,
    /// At this size.
    pub bytes: Option<u64>,
}

/// A file, or a series of files.
#[derive(Debug)]
pub struct PacketFile {
    path: PathBuf,
    /// Flushes each packet, for a reader of the stream.
    is_prompt: bool,
    rotation: PacketRotation,
    out: InterruptibleWriter,
    /// Blocks in the write buffer, and the number of packets among them.
    waiting: Vec<u8>,
    packets_waiting: u64,
    /// Link types of the file's interfaces, by number.
    links: Vec<LinkType>,
    /// Bytes of the file, including the write buffer.
    file_bytes: u64,
    stretch: Option<i64>,
    kept: PacketFileCounts,
    error: Option<io::Error>,
    /// The block being assembled.
    block: Vec<u8>,
}

impl PacketFile {
    /// Creates the file at `path`, or with rotation the first of its numbered files.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, rotation: PacketRotation) -> io::Result<PacketFile> {
        let is_numbered = rotation != PacketRotation::default();
        let out = create(&if is_numbered {
            numbered(path, 1)
        } else {
            path.to_owned()
        })?;
        PacketFile::of(path, out, rotation)
    }

    /// Writes to standard output, each packet immediately.
    ///
    /// # Errors
    /// When there is none.
    pub fn to_stdout() -> io::Result<PacketFile> {
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let file = PacketFile::of(Path::new("-"), out, PacketRotation::default())?;
        Ok(PacketFile {
            is_prompt: true,
            ..file
        })
    }

    /// Writes to an empty file that is already open.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn onto(file: File) -> io::Result<PacketFile> {
        PacketFile::of(Path::new("-"), file, PacketRotation::default())
    }

    fn of(path: &Path, out: File, rotation: PacketRotation) -> io::Result<PacketFile> {
        let mut file = PacketFile {
            path: path.to_owned(),
            is_prompt: false,
            rotation,
            out: InterruptibleWriter::new(out, || false),
            waiting: Vec::with_capacity(BUFFER_BYTES),
            packets_waiting: 0,
            links: Vec::new(),
            file_bytes: 0,
            stretch: None,
            kept: PacketFileCounts {
                files: 1,
                ..PacketFileCounts::default()
            },
            error: None,
            block: Vec::new(),
        };
        file.section()?;
        Ok(file)
    }

    /// Abandons a pipe whose reader has stopped, once the end is requested.
    #[must_use]
    pub fn ending(self, is_end_requested: fn() -> bool) -> PacketFile {
        PacketFile {
            out: self.out.ending(is_end_requested),
            ..self
        }
    }

    /// Changes the owner of the file; without root it already belongs to the user.
    pub fn give_to(&self, user: u32, group: u32) {
        let _ = std::os::unix::fs::fchown(&self.out.file, Some(user), Some(group));
    }

    /// Flushes the write buffer.
    fn hand_over(&mut self) -> io::Result<()> {
        let packets = std::mem::take(&mut self.packets_waiting);
        let result = self.out.write_all(&self.waiting);
        match result {
            Ok(()) => {
                self.kept.packets += packets;
                self.kept.bytes += self.waiting.len() as u64;
            }
            Err(_) => {
                self.kept.packets_lost += packets;
                // For a file that cannot be truncated (a device, a pipe), the original error suffices.
                let _ = self
                    .out
                    .file
                    .set_len(self.file_bytes - self.waiting.len() as u64);
            }
        }
        self.waiting.clear();
        result
    }

    fn write(&mut self, packet: &CapturedPacket<'_>) -> io::Result<()> {
        let stretch = self
            .rotation
            .every_ns
            .map(|ns| packet.ts.0.div_euclid(ns.max(1)));
        let is_over = self.stretch.is_some() && self.stretch < stretch;
        let is_full = self
            .rotation
            .bytes
            .is_some_and(|max| self.file_bytes >= max);
        if is_over || is_full {
            self.next_file()?;
        }
        self.stretch = self.stretch.max(stretch);
        let interface = self.interface(packet.link_type)?;
        let Timestamp(ts) = packet.ts;
        // The format has no time before 1970.
        let ts = u64::try_from(ts).unwrap_or(0);
        let words = [
            interface,
            (ts >> 32) as u32,
            ts as u32,
            packet.bytes.len() as u32,
            packet.original_len,
        ];
        self.block.clear();
        words
            .iter()
            .for_each(|word| self.block.extend(word.to_le_bytes()));
        self.block.extend_from_slice(packet.bytes);
        self.end_block(ENHANCED_PACKET)
    }

    fn next_file(&mut self) -> io::Result<()> {
        self.hand_over()?;
        let out = create(&numbered(&self.path, self.kept.files + 1))?;
        self.out = InterruptibleWriter::new(out, || false);
        self.kept.files += 1;
        self.links.clear();
        self.file_bytes = 0;
        self.section()
    }

    fn section(&mut self) -> io::Result<()> {
        const APPLICATION: &str = concat!("netalytics ", env!("CARGO_PKG_VERSION"));
        self.block.clear();
        self.block.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        self.block.extend([1, 0, 0, 0]);
        // The length of the section is unknown.
        self.block.extend([0xff; 8]);
        self.option(4, APPLICATION.as_bytes());
        self.option(0, &[]);
        self.end_block(SECTION_HEADER)
    }

    /// Interface number of a link type; a new one is described in the file.
    fn interface(&mut self, link_type: LinkType) -> io::Result<u32> {
        if let Some(at) = self.links.iter().position(|known| *known == link_type) {
            return Ok(at as u32);
        }
        self.links.push(link_type);
        self.block.clear();
        self.block.extend(u16::from(link_type).to_le_bytes());
        // Reserved, and a snaplen of 0: no limit.
        self.block.extend([0; 6]);
        // if_tsresol: nanoseconds.
        self.option(9, &[9]);
        self.option(0, &[]);
        self.end_block(INTERFACE_DESCRIPTION)?;
        Ok(self.links.len() as u32 - 1)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.block.extend_from_slice(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Appends the assembled block to the write buffer, flushing it first if it is full.
    fn end_block(&mut self, kind: u32) -> io::Result<()> {
        self.pad();
        let length = self.block.len() + 12;
        if !self.waiting.is_empty() && self.waiting.len() + length > BUFFER_BYTES {
            self.hand_over()?;
        }
        let length_field = (length as u32).to_le_bytes();
        for part in [
            &kind.to_le_bytes()[..],
            &length_field,
            &self.block,
            &length_field,
        ] {
            self.waiting.extend_from_slice(part);
        }
        self.file_bytes += length as u64;
        Ok(())
    }
}

impl PacketSink for PacketFile {
    /// After an error nothing more is written.
    fn take(&mut self, packet: &CapturedPacket<'_>) {
        if self.error.is_none() {
            self.error = self.write(packet).err();
        }
        match self.error {
            None => self.packets_waiting += 1,
            Some(_) => self.kept.packets_lost += 1,
        }
        if self.is_prompt {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.error.is_none() && !self.waiting.is_empty() {
            self.error = self.hand_over().err();
        }
    }

    fn finish(&mut self) -> (PacketFileCounts, Option<io::Error>) {
        let error = self.error.take().or_else(|| self.hand_over().err());
        (self.kept, error)
    }
}

/// Creates a file readable by its owner only, or truncates the existing one.
fn create(path: &Path) -> io::Result<File> {
    const OWNER_ONLY: u32 = 0o600;
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(OWNER_ONLY)
        .open(path)
}

/// `out.pcapng` and 1: `out-000001.pcapng`.
fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number:06}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PacketBlock, open};

    fn packets() -> Vec<CapturedPacket<'static>> {
        let packet = |(n, link_type): (i64, LinkType)| CapturedPacket {
            ts: Timestamp(1_700_000_000_123_456_789 + n * 600_000_001),
            link_type,
            original_len: 100 + n as u32,
            bytes: &b"some bytes of a packet"[..n as usize % 20],
        };
        let links = [LinkType::Ethernet, LinkType::Raw, LinkType::Ethernet]
            .into_iter()
            .cycle();
        (0..50).zip(links).map(packet).collect()
    }

    /// Writes packets and reads them back unchanged, from `files` files.
    fn check(rotation: PacketRotation, files: u64) {
        let folder = tempfile::tempdir().expect("a folder for test files");
        let path = folder.path().join("out.pcapng");
        let mut file = PacketFile::create(&path, rotation).expect("it can be made");
        packets().iter().for_each(|packet| file.take(packet));
        let (kept, error) = file.finish();
        assert!(error.is_none());
        assert_eq!(
            (kept.packets, kept.packets_lost, kept.files),
            (50, 0, files)
        );
        let paths: Vec<_> = match files {
            1 => vec![path],
            _ => (1..=files)
                .map(|n| folder.path().join(format!("out-{n:06}.pcapng")))
                .collect(),
        };
        assert_eq!(
            paths
                .iter()
                .map(|p| p.metadata().expect("it exists").len())
                .sum::<u64>(),
            kept.bytes
        );
        let mut source = open(&paths);
        let mut block = PacketBlock::default();
        let mut read = 0;
        while source.next_block(&mut block) {
            for (got, want) in block.packets().zip(&packets()[read..]) {
                assert_eq!(
                    (got.ts, got.link_type, got.original_len, got.bytes),
                    (want.ts, want.link_type, want.original_len, want.bytes)
                );
            }
            read += block.len();
        }
        assert!(source.errors().is_empty(), "{:?}", source.errors());
        assert_eq!(read, 50);
    }

    #[test]
    fn reads_back() {
        check(PacketRotation::default(), 1);
    }

    #[test]
    fn rotates() {
        check(
            PacketRotation {
                every_ns: Some(10_000_000_000),
                bytes: None,
            },
            3,
        );
        check(
            PacketRotation {
                every_ns: None,
                bytes: Some(1000),
            },
            3,
        );
    }

    #[test]
    fn full_disk_is_reported() {
        let Ok(mut file) = PacketFile::create(Path::new("/dev/full"), PacketRotation::default())
        else {
            return;
        };
        let bytes = vec![7; 100_000];
        for _ in 0..5 {
            let captured = CapturedPacket {
                ts: Timestamp(0),
                link_type: LinkType::Raw,
                original_len: 100_000,
                bytes: &bytes,
            };
            file.take(&captured);
        }
        let (kept, error) = file.finish();
        assert!(error.is_some(), "{kept:?}");
        assert_eq!((kept.packets, kept.packets_lost, kept.bytes), (0, 5, 0));
    }
}

//! The packets of a capture in every supported input format.

use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use capture::{PacketBlock, PacketSource};
use tempfile::TempDir;

/// Encodings of the same packets; see the module documentation.
pub struct Forms {
    folder: TempDir,
    files: Vec<&'static str>,
    /// Bytes read through a pipe.
    piped: Vec<u8>,
}

/// Opens a source in one format.
pub type Open = Box<dyn Fn() -> Box<dyn PacketSource>>;

impl Forms {
    /// The forms of a capture's packets; if there are several link types, only packets with the first.
    pub fn of(capture: &Path) -> Forms {
        let packets = Packets::of(capture);
        let pcap = packets.pcap();
        let pcapng = packets.pcapng(None);
        let mut forms = Forms {
            folder: folder(),
            files: Vec::new(),
            piped: Vec::new(),
        };
        forms.put("pcap", &pcap);
        forms.put("pcapng", &pcapng);
        forms.put("pcap.gzip", &gzip(&pcap));
        forms.put("pcapng.zstd", &zstd(&pcapng));
        Forms {
            piped: pcap,
            ..forms
        }
    }

    /// The same packets in pcapng, with `lost` lost packets reported after every 50th packet.
    pub fn with_losses(capture: &Path, lost: u64) -> Forms {
        let pcapng = Packets::of(capture).pcapng(Some(lost));
        let mut forms = Forms {
            folder: folder(),
            files: Vec::new(),
            piped: Vec::new(),
        };
        forms.put("pcapng", &pcapng);
        forms.put("pcapng.zstd", &zstd(&pcapng));
        Forms {
            piped: pcapng,
            ..forms
        }
    }

    fn put(&mut self, name: &'static str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).expect("a write");
        self.files.push(name);
    }

    /// All formats with their names; the first is a plain file.
    pub fn all(&self) -> Vec<(String, Open)> {
        let file = |name: &str| -> (String, Open) {
            let path: PathBuf = self.folder.path().join(name);
            (
                name.to_owned(),
                Box::new(move || capture::open(std::slice::from_ref(&path))),
            )
        };
        let pipe = |pieces: &'static [usize]| -> (String, Open) {
            let bytes = self.piped.clone();
            let open =
                move || capture::from_reader(Path::new("-"), Pieces::of(bytes.clone(), pieces));
            (format!("a pipe in pieces of {pieces:?}"), Box::new(open))
        };
        let mut all: Vec<_> = self.files.iter().map(|name| file(name)).collect();
        all.extend([
            pipe(&[1 << 20]),
            pipe(&[7, 1500, 90, 4096, 1]),
            pipe(&[333]),
        ]);
        all
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory")
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes)
        .and_then(|()| gzip.finish())
        .expect("memory")
}

/// A pipe that returns a fixed number of bytes per read.
struct Pieces {
    bytes: Cursor<Vec<u8>>,
    lengths: std::iter::Cycle<std::slice::Iter<'static, usize>>,
}

impl Pieces {
    fn of(bytes: Vec<u8>, lengths: &'static [usize]) -> Pieces {
        Pieces {
            bytes: Cursor::new(bytes),
            lengths: lengths.iter().cycle(),
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = into
            .len()
            .min(*self.lengths.next().expect("a cycle does not end"));
        self.bytes.read(&mut into[..len])
    }
}

/// Packets as time, original length, and bytes.
struct Packets {
    link: u16,
    packets: Vec<(u64, u32, Vec<u8>)>,
}

impl Packets {
    fn of(capture: &Path) -> Packets {
        let mut source = capture::open(&[capture.to_owned()]);
        let mut block = PacketBlock::default();
        let mut link = None;
        let mut packets = Vec::new();
        while source.next_block(&mut block) {
            for packet in block.packets() {
                // Classic pcap has 32 bits for seconds.
                let ts = u64::try_from(packet.ts.0)
                    .ok()
                    .filter(|ts| ts / SECOND <= u64::from(u32::MAX));
                let fits = *link.get_or_insert(packet.link_type) == packet.link_type;
                let packet = |ts| (ts, packet.original_len, packet.bytes.to_vec());
                packets.extend(ts.filter(|_| fits).map(packet));
            }
        }
        Packets {
            link: link.map_or(1, u16::from),
            packets,
        }
    }

    /// Classic pcap with nanosecond timestamps.
    fn pcap(&self) -> Vec<u8> {
        let mut out = words(&[0xa1b2_3c4d, 4 << 16 | 2, 0, 0, 262_144, self.link.into()]);
        for (ts, len, bytes) in &self.packets {
            out.extend(words(&[
                (ts / SECOND) as u32,
                (ts % SECOND) as u32,
                bytes.len() as u32,
                *len,
            ]));
            out.extend(bytes);
        }
        out
    }

    /// pcapng; a block that readers skip follows every seventh packet, and one that reports `lost` follows every 50th.
    fn pcapng(&self, lost: Option<u64>) -> Vec<u8> {
        let mut out = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
        let nanoseconds = words(&[1 << 16 | 9, 9, 0]);
        out.extend(block(
            1,
            &[words(&[self.link.into(), 0]), nanoseconds].concat(),
        ));
        // Names 10.77.0.2 "s".
        out.extend(block(4, &words(&[6 << 16 | 1, 0x0200_4d0a, 0x73, 0])));
        for (n, (ts, len, bytes)) in self.packets.iter().enumerate() {
            let head = words(&[0, (ts >> 32) as u32, *ts as u32, bytes.len() as u32, *len]);
            out.extend(block(6, &[&head[..], bytes].concat()));
            if n % 7 == 6 {
                out.extend(block(0x0bad, b"skip me"));
            }
            if let (Some(lost), 49) = (lost, n % 50) {
                let all = lost * (n as u64 / 50 + 1);
                let told = words(&[0, 0, 0, 8 << 16 | 5, all as u32, (all >> 32) as u32, 0]);
                out.extend(block(5, &told));
            }
        }
        out
    }
}

const SECOND: u64 = 1_000_000_000;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A padded pcapng block.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let padding = body.len().next_multiple_of(4) - body.len();
    let len = (12 + body.len() + padding) as u32;
    [
        words(&[kind, len]),
        body.to_vec(),
        vec![0; padding],
        words(&[len]),
    ]
    .concat()
}

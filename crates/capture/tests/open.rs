//! Opening the arguments of `-r`: plain, compressed, nested, empty, and missing files, and files that are not
//! captures.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// A file of `n` packets with the times `start`, `start` + 10, … seconds and the content `mark`.
fn pcap(start: u32, n: u32, mark: u8) -> Vec<u8> {
    let mut file = [0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 262_144, 1]
        .map(u32::to_le_bytes)
        .concat();
    for i in 0..n {
        file.extend([start + 10 * i, 0, 40, 60].map(u32::to_le_bytes).concat());
        file.extend([mark; 40]);
    }
    file
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(bytes)
        .expect("writing to memory cannot fail");
    encoder.finish().expect("writing to memory cannot fail")
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("writing to memory cannot fail")
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, bytes).expect("a write");
        path
    }
}

/// Seconds and first byte of each packet, and the errors.
fn read(paths: &[PathBuf]) -> (Vec<(i64, u8)>, Vec<String>) {
    let mut source = capture::open(paths);
    let mut packets = Vec::new();
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        packets.extend(
            block
                .packets()
                .map(|p| (p.ts.0 / 1_000_000_000, p.bytes[0])),
        );
    }
    let folder = |e: &capture::SourceError| e.path.parent().map(Path::to_owned).unwrap_or_default();
    let line = |e: &capture::SourceError| {
        e.to_string()
            .replace(&format!("{}/", folder(e).display()), "")
    };
    (packets, source.errors().iter().map(line).collect())
}

/// Checks the packets and errors of one file.
fn check(bytes: &[u8], packets: usize, errors: &[&str]) {
    let folder = Folder::new();
    let (read, found) = read(&[folder.file("in.pcap", bytes)]);
    assert_eq!(read.len(), packets, "{found:?}");
    assert_eq!(found.len(), errors.len(), "{found:?}");
    for (found, expected) in found.iter().zip(errors) {
        assert!(
            found.starts_with("in.pcap: ") && found.contains(expected),
            "{found}"
        );
        assert!(!found.contains('\n'), "{found}");
    }
}

#[test]
fn compressed_once_twice_and_in_pieces() {
    let file = pcap(0, 1000, 1);
    check(&file, 1000, &[]);
    check(&gzip(&file), 1000, &[]);
    check(&zstd(&file), 1000, &[]);
    check(&zstd(&gzip(&file)), 1000, &[]);
    check(&gzip(&gzip(&gzip(&file))), 1000, &[]);
    let (start, end) = file.split_at(12_345);
    check(&[gzip(start), gzip(end)].concat(), 1000, &[]);
    check(&[zstd(start), zstd(end)].concat(), 1000, &[]);
}

#[test]
fn packets_before_damaged_compression_are_read() {
    // Random marks; otherwise the first block would contain everything.
    let file: Vec<u8> = (0..2000)
        .flat_map(|i: u32| pcap(i, 1, (i.wrapping_mul(2_654_435_761) >> 24) as u8)[24..].to_vec())
        .collect();
    let file = [&pcap(0, 0, 0)[..], &file].concat();
    for (packed, name) in [(gzip(&file), "gzip"), (zstd(&file), "zstd")] {
        let folder = Folder::new();
        let (whole, errors) = read(&[folder.file("whole", &packed)]);
        assert_eq!((whole.len(), errors.len()), (2000, 0));
        for cut in [packed.len() - 1, packed.len() / 2, 30] {
            let (packets, errors) = read(&[folder.file("cut", &packed[..cut])]);
            assert!(whole.starts_with(&packets), "{name} cut at {cut}");
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert!(
                errors[0].contains(&format!("the {name} data ends early")),
                "{errors:?}"
            );
        }
        let mut broken = packed.clone();
        let at = packed.len() - 6;
        broken[at] ^= 0x55;
        let (packets, errors) = read(&[folder.file("broken", &broken)]);
        assert!(whole.starts_with(&packets));
        assert!(
            errors.len() == 1 && errors[0].contains(&format!("the {name} data is damaged")),
            "{errors:?}"
        );
    }
}

#[test]
fn files_of_other_formats_are_named() {
    check(b"", 0, &["the file is empty"]);
    check(&gzip(b""), 0, &["the file is empty"]);
    check(
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\0\0\0\x01\0",
        0,
        &["looks like a PNG image"],
    );
    check(
        b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0",
        0,
        &["looks like an ELF program"],
    );
    check(
        b"<!DOCTYPE html>\n<html><head>",
        0,
        &["looks like an HTML page"],
    );
    check(b"hello\n", 0, &["looks like text"]);
    check(
        b"BZh91AY&SY\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
        0,
        &["bzip2 -d"],
    );
    check(&[0x17; 100], 0, &["it begins with 17 17 17 17 17 17 17 17"]);
    check(&gzip(&[0x17; 100]), 0, &["it begins with 17 17"]);
    check(
        &[0xd4, 0xc3],
        0,
        &["the file ends inside its header: 2 bytes"],
    );
    check(&pcap(0, 0, 0), 0, &[]);
}

#[test]
fn unopenable_paths_are_reported() {
    let folder = Folder::new();
    let paths = [
        folder.0.path().join("missing.pcap"),
        folder.file("good.pcap", &pcap(0, 3, 1)),
        folder.0.path().into(),
    ];
    let (packets, errors) = read(&paths);
    assert_eq!(packets.len(), 3);
    assert_eq!(errors[0], "missing.pcap: no such file");
    assert!(
        errors[1].ends_with(": is a directory: name the capture files in it"),
        "{errors:?}"
    );
    assert_eq!(errors.len(), 2);
    assert!(read(&[]).0.is_empty());
}

#[test]
fn several_files_are_merged() {
    let folder = Folder::new();
    let paths = [
        folder.file("a.pcap", &pcap(0, 100, 1)),
        folder.file("b.pcap.gz", &gzip(&pcap(5, 100, 2))),
        folder.file("c.pcap.zst", &zstd(&pcap(5, 100, 3))),
        folder.file("cut.pcap", &pcap(2000, 2, 4)[..120]),
    ];
    let (packets, errors) = read(&paths);
    let expected: Vec<_> = (0..100)
        .flat_map(|i| [(10 * i, 1), (10 * i + 5, 2), (10 * i + 5, 3)])
        .collect();
    assert_eq!(packets[..300], expected);
    assert_eq!(packets[300..], [(2000, 4)]);
    assert!(
        errors.len() == 1
            && errors[0].starts_with("cut.pcap: byte 80: the file ends inside packet 2: 24 of 40"),
        "{errors:?}"
    );
}

#[test]
fn progress_reaches_the_end() {
    let folder = Folder::new();
    for bytes in [
        pcap(0, 5000, 1),
        gzip(&pcap(0, 5000, 1)),
        zstd(&pcap(0, 5000, 1)),
    ] {
        let mut source = capture::open(&[folder.file("in", &bytes)]);
        assert_eq!(source.progress().1, Some(bytes.len() as u64));
        let mut block = capture::PacketBlock::default();
        while source.next_block(&mut block) {}
        assert_eq!(
            source.progress(),
            (bytes.len() as u64, Some(bytes.len() as u64))
        );
        let counters = source.counters();
        assert_eq!((counters.packets, counters.truncated_packets), (5000, 5000));
        assert_eq!(
            (counters.original_bytes, counters.captured_bytes),
            (300_000, 200_000)
        );
        assert_eq!(counters.lost_before_us, None);
    }
}

/// Data from a pipe is delivered immediately, not when a buffer is full.
#[test]
#[cfg(target_os = "linux")]
fn pipes_are_read_incrementally() {
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let file = pcap(0, 3, 1);
    let more = 24 + 2 * 56 + 20;
    writer
        .write_all(&file[..more])
        .expect("a pipe takes that much");
    let mut source = capture::open(&[PathBuf::from(format!(
        "/proc/self/fd/{}",
        reader.as_raw_fd()
    ))]);
    let mut block = capture::PacketBlock::default();
    assert!(source.next_block(&mut block), "{:?}", source.errors());
    assert_eq!(block.len(), 2);
    assert_eq!(source.progress(), (more as u64, None));
    writer
        .write_all(&file[more..])
        .expect("a pipe takes that much");
    drop(writer);
    assert!(source.next_block(&mut block));
    assert_eq!(block.len(), 1);
    assert!(!source.next_block(&mut block) && source.errors().is_empty());
}

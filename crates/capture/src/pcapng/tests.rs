//! Tests of blocks in both byte orders, valid and invalid.

use super::samples::PcapngBlockWriter;
use super::*;
use crate::format::CaptureFormat;

/// Time, original length and bytes.
type Seen = (i64, u32, Vec<u8>);

fn read(bytes: &[u8]) -> (CaptureFormat, Vec<Seen>, RecordStop) {
    let mut format = CaptureFormat::Undetected;
    let mut packets = Vec::new();
    let mut at = 0;
    loop {
        let (block, len, stop) = crate::format::samples::read(&mut format, &bytes[at..]);
        packets.extend(
            block
                .packets()
                .map(|c| (c.ts.0, c.original_len, c.bytes.to_vec())),
        );
        at += len;
        if stop != RecordStop::Full {
            return (format, packets, stop);
        }
    }
}

/// Blocks → time, original length, and bytes of each packet, without errors.
fn check(blocks: &PcapngBlockWriter, expected: &[(i64, u32, &[u8])]) {
    let (_, packets, stop) = read(&blocks.bytes);
    let packets: Vec<_> = packets
        .iter()
        .map(|(ts, len, bytes)| (*ts, *len, &bytes[..]))
        .collect();
    assert_eq!(
        (&packets[..], stop),
        (expected, RecordStop::Need(BLOCK_HEAD))
    );
}

fn check_bad(blocks: &[u8], packets: usize, expected: &str) {
    let (_, read, stop) = read(blocks);
    let RecordStop::Bad(message) = stop else {
        panic!("{stop:?}")
    };
    assert!(message.contains(expected), "{message}");
    assert_eq!(read.len(), packets, "{message}");
}

#[test]
fn packets_in_every_block_and_both_orders() {
    for big_endian in [false, true] {
        let blocks = PcapngBlockWriter::new(big_endian)
            .interface(1, 0, &[])
            .enhanced(0, 5, 99, &[1, 2, 3]);
        let fields = [0, 6, 2, 2].map(|w| blocks.word(w)).concat();
        let interface = blocks.short(0);
        let blocks = blocks.block(OBSOLETE_PACKET, &[&interface, &[0xff; 2], &fields, &[4, 5]]);
        let original_len = blocks.word(3);
        let blocks = blocks.block(SIMPLE_PACKET, &[&original_len, &[6, 7, 8]]);
        check(
            &blocks,
            &[
                (5000, 99, &[1, 2, 3]),
                (6000, 2, &[4, 5]),
                (6000, 3, &[6, 7, 8]),
            ],
        );
    }
}

#[test]
fn a_simple_packet_is_cut_by_the_snaplen() {
    let blocks = PcapngBlockWriter::new(false).interface(1, 2, &[]);
    let original_len = blocks.word(100);
    check(
        &blocks.block(SIMPLE_PACKET, &[&original_len, &[6, 7, 0, 0]]),
        &[(0, 100, &[6, 7])],
    );
}

#[test]
fn resolutions_and_offsets() {
    let check = |option: u8, units: u64, offset: i64, expected: i64| {
        let blocks = PcapngBlockWriter::new(false);
        let options = [
            blocks.option(9, &[option]),
            blocks.option(14, &blocks.long(offset as u64)),
        ]
        .concat();
        check(
            &blocks.interface(1, 0, &options).enhanced(0, units, 0, &[]),
            &[(expected, 0, &[])],
        );
    };
    check(0, 3, 0, 3_000_000_000);
    check(3, 1500, 0, 1_500_000_000);
    check(6, 1, 0, 1000);
    check(9, 1, 10, 10_000_000_001);
    check(12, 1_234_567, 0, 1234);
    check(127, u64::MAX, 0, 1);
    check(0x80, 3, -1, 2_000_000_000);
    check(0x80 | 10, 512, 0, 500_000_000);
    check(0xff, u64::MAX, 0, 0);
    check(0, u64::MAX, i64::MAX, i64::MAX);
    // Nanoseconds since 1970 stated as microseconds, and microseconds as milliseconds.
    check(6, 1_700_000_000_123_456_789, 0, 1_700_000_000_123_456_789);
    check(3, 1_700_000_000_123_456, 0, 1_700_000_000_123_456_000);
    check(0, 0, i64::MIN, i64::MIN);
}

#[test]
fn each_packet_has_its_interface() {
    let blocks = PcapngBlockWriter::new(false);
    let nanoseconds = blocks.option(9, &[9]);
    let blocks = blocks.interface(1, 0, &[]).interface(113, 0, &nanoseconds);
    let blocks = blocks.enhanced(1, 7, 0, &[]).enhanced(0, 7, 0, &[]);
    // A new section, in the other byte order, has its own interfaces.
    let blocks = blocks
        .section(true)
        .interface(101, 0, &[])
        .enhanced(0, 8, 0, &[]);
    let (block, ..) = crate::format::samples::read(&mut CaptureFormat::Undetected, &blocks.bytes);
    let seen: Vec<_> = block.packets().map(|c| (c.ts.0, c.link_type)).collect();
    assert_eq!(
        seen,
        [
            (7, LinkType::LinuxSll),
            (7000, LinkType::Ethernet),
            (8000, LinkType::Raw)
        ]
    );
}

#[test]
fn names_and_losses() {
    for big_endian in [false, true] {
        let blocks = PcapngBlockWriter::new(big_endian)
            .interface(1, 0, &[])
            .interface(1, 0, &[]);
        let names = [
            blocks.option(1, b"\x0a\0\0\x01first\0alias\0"),
            blocks.option(1, b"\x0a\0\0\x02bad\x1b[2J\0"),
            blocks.option(1, b"\x0a"),
            blocks.option(2, b"\x20\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\x01six\0"),
            blocks.option(0, &[]),
            blocks.option(1, b"\x0a\0\0\x03after the end\0"),
        ];
        let statistics = |blocks: PcapngBlockWriter, interface: u32, lost: &[(u16, u64)]| {
            let options: Vec<_> = lost
                .iter()
                .map(|(code, n)| blocks.option(*code, &blocks.long(*n)))
                .collect();
            let interface = blocks.word(interface);
            blocks.block(
                INTERFACE_STATISTICS,
                &[&interface, &[0; 8], &options.concat()],
            )
        };
        let blocks = blocks.block(NAME_RESOLUTION, &[&names.concat()]);
        let blocks = statistics(blocks, 0, &[(4, 100), (5, 3)]);
        let blocks = statistics(blocks, 0, &[(5, 4), (7, 10)]); // replaces
        let blocks = statistics(statistics(blocks, 1, &[(5, 1000)]), 9, &[(5, 1)]);
        let blocks = statistics(
            blocks.section(!big_endian).interface(1, 0, &[]),
            0,
            &[(5, 20_000)],
        );
        let (mut format, _, stop) = read(&blocks.bytes);
        assert_eq!(
            (stop, format.lost_before_us()),
            (RecordStop::Need(BLOCK_HEAD), Some(21_014))
        );
        let names = format.take_names();
        let names: Vec<_> = names
            .iter()
            .map(|(ip, name)| (ip.to_string(), &name[..]))
            .collect();
        assert_eq!(
            names,
            [("10.0.0.1".into(), "first"), ("2001::1".into(), "six")]
        );
    }
}

#[test]
fn other_blocks_are_skipped() {
    let blocks = PcapngBlockWriter::new(false)
        .block(0xbad, &[&[1; 9]])
        .block(0x0a, &[b"secrets"])
        .block(0x4000_0bad, &[]);
    check(
        &blocks.interface(1, 0, &[]).enhanced(0, 1, 0, &[]),
        &[(1000, 0, &[])],
    );
}

#[test]
fn bad_blocks() {
    let good = || {
        PcapngBlockWriter::new(false)
            .interface(1, 0, &[])
            .enhanced(0, 1, 4, &[1, 2, 3, 4])
    };
    check_bad(
        &good().enhanced(1, 1, 0, &[]).bytes,
        1,
        "interface 1, but only 1",
    );
    let patched = |at_end: usize, value: u8| {
        let mut bytes = good().bytes;
        let at = bytes.len() - at_end;
        bytes[at] = value;
        bytes
    };
    check_bad(
        &patched(4, 36 + 4),
        0,
        "36 bytes at its start and 40 at its end",
    );
    check_bad(&patched(32, 8), 0, "impossible length of 8 bytes");
    check_bad(&patched(32, 37), 0, "impossible length of 37 bytes");
    check_bad(
        &patched(29, 0x80),
        0,
        "impossible length of 2147483684 bytes",
    );
    check_bad(&patched(16, 5), 0, "claims 5 captured bytes");
    check_bad(
        &good().block(ENHANCED_PACKET, &[&[0; 16]]).bytes,
        1,
        "too short",
    );
    check_bad(
        &good().block(INTERFACE_DESCRIPTION, &[&[0; 4]]).bytes,
        1,
        "too short",
    );
    let section = good().bytes.len();
    let mut next = good().section(true);
    next.bytes[section + 13] = 2;
    check_bad(&next.bytes, 1, "version 2.0");
    next.bytes[section + 8] = 0;
    check_bad(&next.bytes, 1, "byte order");
}

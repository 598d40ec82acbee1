//! Arbitrary fragments, in Ethernet or in VXLAN: no panic, bounded memory, and only whole packets as output.
#![no_main]

use libfuzzer_sys::fuzz_target;
use monitor::fragments::FragmentReassembler;
use wire::{CapturedPacket, IpFragment, LinkType, Timestamp};

const HELD_MAX: usize = 20_000;

/// A fragment: datagram, offset in units of 8 bytes, more-fragments flag, IPv6, tunnel, length, truncation.
type Part = (u8, u8, bool, bool, bool, u8, u8);

fuzz_target!(|parts: Vec<Part>| {
    let mut table = FragmentReassembler::new(HELD_MAX);
    let mut came = 0;
    let mut went = 0;
    for (n, part) in parts.into_iter().enumerate() {
        let (bytes, original_len) = packet(part);
        let ts = Timestamp(n as i64 * 1_000_000_000);
        let captured = CapturedPacket {
            ts,
            link_type: LinkType::Ethernet,
            original_len,
            bytes: &bytes,
        };
        let Some(fragment) = IpFragment::of(&captured) else {
            continue;
        };
        came += 1;
        let whole = table.add(&fragment, 1, captured.wire_len());
        for whole in whole.into_iter().chain(table.give_up(ts)) {
            went += whole.packets;
            assert!(IpFragment::of(&whole.captured()).is_none());
            assert!(whole.bytes.len() <= 65_535 + 200);
        }
        assert!(table.held_bytes() <= HELD_MAX);
    }
    went += table
        .give_up_all()
        .iter()
        .map(|whole| whole.packets)
        .sum::<u64>();
    assert!(went <= came);
    assert_eq!(table.held_bytes(), 0);
});

fn packet((ident, offset, more, v6, tunneled, len, cut): Part) -> (Vec<u8>, u32) {
    let payload: Vec<u8> = (0..len).collect();
    let mut ip = if v6 {
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend((8 + u16::from(len)).to_be_bytes());
        ip.extend([44, 64]);
        ip.extend([0xfd; 32]);
        ip.extend([17, 0]);
        ip.extend((u16::from(offset) << 3 | u16::from(more)).to_be_bytes());
        ip.extend([0, 0, 0, ident % 4]);
        ip
    } else {
        let mut ip = vec![0x45, 0];
        ip.extend((20 + u16::from(len)).to_be_bytes());
        ip.extend([0, ident % 4]);
        ip.extend((u16::from(offset) | u16::from(more) << 13).to_be_bytes());
        ip.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        ip
    };
    ip.extend(payload);
    let ether_type = if v6 { [0x86, 0xdd] } else { [8, 0] };
    let mut frame = [&[2; 12][..], &ether_type, &ip].concat();
    if tunneled {
        let mut outer = [
            &[2; 12][..],
            &[
                8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2,
            ],
        ]
        .concat();
        outer.extend([0x30, 0, 0x12, 0xb5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0]);
        outer.extend(frame);
        frame = outer;
    }
    let original_len = frame.len() as u32;
    frame.truncate(frame.len().saturating_sub(usize::from(cut / 16)));
    (frame, original_len)
}

//! Arbitrary bytes as a capture file, compressed or not.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: Vec<u8>| {
    let len = input.len();
    let mut source = capture::from_reader(Path::new("fuzz"), std::io::Cursor::new(input));
    let mut packets = 0;
    let mut blocks = 0u32;
    let mut block = capture::PacketBlock::default();
    while source.next_block(&mut block) {
        packets += block.packets().len() as u64;
        blocks += 1;
        assert!(blocks < 100_000, "blocks without end");
    }
    assert_eq!(packets, source.counters().packets);
    // A record header has at least 12 bytes; a compressed file may expand a thousandfold.
    assert!(packets <= 1 + len as u64 * 2000);
});

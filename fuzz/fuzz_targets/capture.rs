//! Any bytes as a capture file, compressed or not.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: Vec<u8>| {
    let len = input.len();
    let mut source = capture::from_reader(Path::new("fuzz"), std::io::Cursor::new(input));
    let (mut packets, mut batches) = (0, 0u32);
    while let Some(batch) = source.next_batch() {
        packets += batch.len() as u64;
        batches += 1;
        assert!(batches < 100_000, "a batch without end");
    }
    assert_eq!(packets, source.counters().packets);
    // A record header has at least 12 bytes; a compressed file may hold a thousand times its length.
    assert!(packets <= 1 + len as u64 * 2000);
});

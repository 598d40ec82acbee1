//! Arbitrary key logs: each line is a secret, counted as unknown, or skipped.
#![no_main]

use libfuzzer_sys::fuzz_target;
use parsers::tls_decrypt::TlsKeyStore;

fuzz_target!(|input: &[u8]| {
    let store = TlsKeyStore::new(|_| {});
    store.add_lines(input);
    let lines = input.split(|byte| *byte == b'\n').count() as u64;
    let counters = store.counters();
    assert!(counters.secrets + counters.unknown_lines <= lines);
    assert_eq!(counters.evicted, 0);
    // The same lines replace the same secrets.
    store.add_lines(input);
    assert_eq!(store.counters().secrets, 2 * counters.secrets);
});

//! Arbitrary conversations for the QUIC parser, whose packets are taken as decrypted.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::quic::PROTOCOL,
    parsers::quic::schema(),
    9,
    input
));

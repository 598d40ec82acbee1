//! Arbitrary conversations for the MySQL parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::mysql::PROTOCOL,
    parsers::mysql::schema(),
    4,
    input
));

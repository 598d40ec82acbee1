//! Arbitrary conversations for the MongoDB parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::mongodb::PROTOCOL,
    parsers::mongodb::schema(),
    24,
    input
));

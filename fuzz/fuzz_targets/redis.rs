//! Arbitrary conversations for the Redis parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::redis::PROTOCOL,
    parsers::redis::schema(),
    2,
    input
));

//! Arbitrary conversations for the HTTP parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::http::PROTOCOL,
    parsers::http::schema(),
    8,
    input
));

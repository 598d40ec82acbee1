//! Arbitrary conversations for the HTTP/2 parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::http2::PROTOCOL,
    parsers::http2::schema(),
    12,
    input
));

//! Arbitrary conversations for the DNS parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::dns::PROTOCOL,
    parsers::dns::schema(),
    12,
    input
));

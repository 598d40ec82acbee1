//! Arbitrary conversations for the PostgreSQL parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::postgresql::PROTOCOL,
    parsers::postgresql::schema(),
    5,
    input
));

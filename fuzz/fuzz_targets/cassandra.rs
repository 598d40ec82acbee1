//! Arbitrary conversations for the Cassandra parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::cassandra::PROTOCOL,
    parsers::cassandra::schema(),
    9,
    input
));

//! Arbitrary conversations for the memcached parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::memcached::PROTOCOL,
    parsers::memcached::schema(),
    1,
    input
));

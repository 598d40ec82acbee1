//! Arbitrary conversations for the Kafka parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::kafka::PROTOCOL,
    parsers::kafka::schema(),
    8,
    input
));

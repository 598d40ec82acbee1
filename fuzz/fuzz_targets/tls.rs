//! Arbitrary conversations for the TLS parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::encrypted::PROTOCOL,
    parsers::tls::schema(),
    7,
    input
));

//! Arbitrary conversations for the ONC RPC and NFS parser.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::converse(
    &parsers::nfs::PROTOCOL,
    parsers::nfs::schema_rpc(),
    4,
    input
));

//! Arbitrary records of a TLS connection with keys, which are taken as decrypted.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| netalytics_fuzz::decryption::decrypt(input));

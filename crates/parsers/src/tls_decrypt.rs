//! Decryption of TLS 1.2 and 1.3 with keys from key logs: ciphertext of a connection in, plaintext out, which takes
//! the place of the connection's bytes before its protocol is recognized. See `docs/encrypted.md`.

mod aes_blocks;
mod cbc_records;
mod key_store;
mod lane;
mod record_keys;
mod session;

pub use key_store::{TlsKeyCounters, TlsKeyStore, TlsSecretLabel};
pub use session::{TlsInput, TlsOutcome, TlsPlaintextSink, TlsSession, TlsSessionCounters};

/// Whether bytes begin with a ClientHello.
#[must_use]
pub fn begins_with_client_hello(bytes: &[u8]) -> bool {
    matches!(bytes, [22, 3, 0..=4, _, _, 1, ..])
}

//! TLS (RFC 8446, RFC 5246 and earlier, SSL 3.0): one tuple per handshake, from its unencrypted part.
//!
//! Reads records, reassembles handshake messages, and extracts names, versions, times, alerts, and
//! unencrypted certificates. [`crate::encrypted`] reads the rest of the connection. TLS that begins inside another
//! protocol (STARTTLS, a proxy) is recognized by its ClientHello. See `docs/tls.md`. Not parsed: SSL 2.0,
//! DTLS, QUIC, and encrypted content.

pub(crate) mod byte_stream;
mod certificate;
pub(crate) mod codes;
mod connection;
mod emit;
pub mod field;
mod handshake;
pub(crate) mod hello;
pub(crate) mod messages;
mod probe;
pub(crate) mod reader;
#[cfg(test)]
mod tests;

use tuple::{Schema, SchemaFacts};

pub use self::codes::cipher as cipher_name;
pub(crate) use self::connection::TlsConnection;
pub(crate) use self::handshake::TlsHandshake;
pub(crate) use self::probe::probe;

pub use self::emit::ALL;

/// Semantic facts for the query language. An unrecognized-name warning of a server is not a failure. A
/// handshake whose end was not seen has an unknown result.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some(
        "handshake_time_ns >= 0 and (alert is null or alert != 'encrypted' and alert_level = 'warning')",
    ),
    first: &[
        "ts",
        "client_ip",
        "sni",
        "version",
        "alert",
        "handshake_time_ns",
    ],
    ..SchemaFacts::NONE
};

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let measure = Some(field::HANDSHAKE_TIME);
    let key = Some(field::SNI);
    let doc = "TLS handshakes, from their unencrypted part";
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("tls", 1, doc, field::FIELDS, measure, key)
    }
}

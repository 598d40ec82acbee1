//! TLS (RFC 8446, RFC 5246 and earlier, SSL 3.0): one tuple per handshake, from its unencrypted part.
//!
//! Reads records, reassembles handshake messages, and extracts names, versions, times, alerts, and
//! unencrypted certificates. The rest of the connection is not parsed. TLS that begins inside another
//! protocol (STARTTLS, a proxy) is recognized by its ClientHello. See `docs/tls.md`. Not parsed: SSL 2.0,
//! DTLS, QUIC, and encrypted content.

mod byte_stream;
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
use self::connection::TlsConnection;
use crate::{
    Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

/// Variant: every handshake.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "tls",
    ports: &[443, 8443, 993, 995, 465, 636, 853, 5671, 6697, 8883],
    tcp: true,
    udp: false,
    probe: probe::probe,
    start: || Box::<TlsConnection>::default(),
};

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

impl StreamParser for TlsConnection {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.bytes(direction, segment, out);
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.gap(direction, gap, out);
    }

    fn on_end(&mut self, _: Direction, _: StreamEnd, _: &mut ParserOutput<'_>) {}

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.close(out);
    }

    fn is_done(&self) -> bool {
        self.is_over()
    }
}

//! TLS (RFC 8446, RFC 5246 and earlier, SSL 3.0): one tuple per handshake, from its unencrypted part.
//!
//! Reads records, reassembles handshake messages, and extracts names, versions, times, alerts, and
//! unencrypted certificates. The rest of the connection is not parsed. TLS that begins inside another
//! protocol (STARTTLS, a proxy) is recognized by its ClientHello. See `docs/tls.md`. Not parsed: SSL 2.0,
//! DTLS, QUIC, and encrypted content.

mod byte_stream;
mod certificate;
mod codes;
mod connection;
mod emit;
mod hello;
mod messages;
mod probe;
mod reader;
#[cfg(test)]
mod tests;

use tuple::{Schema, SchemaFacts};

pub use self::codes::cipher as cipher_name;
use self::connection::TlsConnection;
use crate::{Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment};

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

/// Fields specific to the parser.
pub mod field {
    tuple::fields! {
        SNI: Text, None, "sni", "server name sent by the client (SNI), in lower case";
        VERSION: Text, None, "version", "negotiated version: TLS 1.3, TLS 1.2, ..., SSL 3.0";
        CIPHER: Text, None, "cipher", "negotiated cipher suite by its IANA name, or its number";
        ALPN: Text, None, "alpn", "application protocol chosen by the server (ALPN); null from TLS 1.3 on, where it is encrypted";
        HANDSHAKE_TIME: I64, Nanoseconds, "handshake_time_ns", "from the first byte of the ClientHello until the client may send data: the last byte of the server's Finished, in TLS 1.3 the first byte of the client's";
        RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of the ClientHello to the first byte of the server's response";
        RESUMED: Bool, None, "resumed", "whether the handshake resumes a session or uses a pre-shared key";
        ALERT: Text, None, "alert", "first alert: handshake_failure, unknown_ca, ...; encrypted if only its length is known";
        ALERT_LEVEL: Text, None, "alert_level", "warning or fatal; null if it is encrypted";
        ALERT_BY: Text, None, "alert_by", "sender of the alert: client or server";
        CERTIFICATE_SUBJECT: Text, None, "certificate_subject", "common name of the server's certificate; null from TLS 1.3 on";
        CERTIFICATE_NAMES: Text, None, "certificate_names", "alternative names and addresses of the certificate, separated by commas";
        CERTIFICATE_ISSUER: Text, None, "certificate_issuer", "issuer of the certificate: common name, otherwise organization";
        CERTIFICATE_NOT_AFTER: I64, EpochNanoseconds, "certificate_not_after", "end of the certificate's validity";
        CLIENT_CERTIFICATE: Bool, None, "client_certificate", "whether the client sent a certificate; null from TLS 1.3 on";
        ALPN_OFFERED: Text, None, "alpn_offered", "application protocols offered by the client (ALPN), separated by commas";
        VERSION_OFFERED: Text, None, "version_offered", "highest version offered by the client";
        HELLO_RETRY: Bool, None, "hello_retry", "whether the server requested another ClientHello";
    }
}

/// Semantic facts for the query language. An unrecognized-name warning of a server is not a failure. A
/// handshake whose end was not seen has an unknown result.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some(
        "handshake_time_ns >= 0 and (alert is null or alert != 'encrypted' and alert_level = 'warning')",
    ),
    first: &["sni", "version", "alert", "handshake_time_ns"],
    ..SchemaFacts::NONE
};

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let measure = Some(field::HANDSHAKE_TIME);
    let key = Some(field::SNI);
    let doc = "TLS handshakes, from their unencrypted part";
    Schema { facts: &FACTS, ..Schema::of_parser("tls", 1, doc, field::FIELDS, measure, key) }
}

impl StreamParser for TlsConnection {
    fn on_bytes(&mut self, direction: Direction, segment: StreamSegment<'_>, out: &mut ParserOutput<'_>) {
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

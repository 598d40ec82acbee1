//! QUIC versions 1 and 2 (RFC 9000, RFC 9369): one tuple per handshake, from its Initial packets.
//!
//! Initial packets are encrypted with keys that anyone can derive from the first connection ID of the client
//! (RFC 9001 section 5.2). They contain the ClientHello and the ServerHello; everything later is encrypted with
//! secret keys, so that times come from packet headers. See `docs/quic.md`. Not parsed: drafts, Google QUIC,
//! and HTTP/3. A connection whose first packet was not captured, or that moves to other addresses, has no tuple
//! there.

mod codes;
mod connection;
mod crypto_stream;
mod emit;
pub mod field;
mod frames;
mod handshake;
mod header;
mod keys;
#[cfg(test)]
mod tests;

use tuple::{Schema, SchemaFacts};
use wire::Timestamp;

use self::connection::QuicFlow;
use crate::{
    Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

/// Variant: every handshake.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "quic",
    ports: &[443, 8443],
    tcp: false,
    udp: true,
    probe: header::probe,
    start: || Box::<QuicFlow>::default(),
};

/// Semantic facts for the query language. A handshake whose end was not seen has an unknown result.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some("error is null and handshake_time_ns >= 0"),
    first: &[
        "ts",
        "client_ip",
        "sni",
        "alpn_offered",
        "error",
        "handshake_time_ns",
    ],
    ..SchemaFacts::NONE
};

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    let measure = Some(field::HANDSHAKE_TIME);
    let key = Some(field::SNI);
    let doc = "QUIC handshakes, from their Initial packets";
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("quic", 1, doc, field::FIELDS, measure, key)
    }
}

impl StreamParser for QuicFlow {
    fn on_bytes(&mut self, _: Direction, _: StreamSegment<'_>, _: &mut ParserOutput<'_>) {}

    fn on_gap(&mut self, _: Direction, _: StreamGap, _: &mut ParserOutput<'_>) {}

    fn on_end(&mut self, _: Direction, _: StreamEnd, _: &mut ParserOutput<'_>) {}

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.close(out);
    }

    fn on_datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        self.datagram(direction, bytes, cut, ts, out);
    }
}

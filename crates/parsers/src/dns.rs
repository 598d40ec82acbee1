//! DNS (RFC 1035 and its updates) over UDP and TCP: one tuple per question with its response.
//!
//! A response is matched with the question of the same id, name, type, and class on the same connection. A
//! question repeated before its response counts as a retry; times are those of the first transmission. See
//! `docs/dns.md` for the fields, the clocks, and the limits. Not parsed: multicast DNS and LLMNR, which have
//! no request–response pairs, and DNS inside TLS, HTTPS, or QUIC.

mod answer_section;
mod byte_stream;
mod codes;
mod connection;
mod early_responses;
mod emit;
pub mod field;
mod message;
mod name;
mod pending_queries;
mod probe;
#[cfg(test)]
mod tests;
mod transactions;

use tuple::{Schema, SchemaFacts};
use wire::Timestamp;

use self::connection::DnsFlow;
use crate::{
    Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

/// Variant: every tuple.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "dns",
    ports: &[53],
    tcp: true,
    udp: true,
    probe: probe::probe,
    start: || Box::<DnsFlow>::default(),
};

/// Columns displayed first.
const FIRST: &[&str] = &[
    "ts",
    "client_ip",
    "query_name",
    "response_code",
    "response_time_ns",
    "query_type",
    "answers",
];

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    // NXDOMAIN counts as success: the server answered correctly.
    let facts = &SchemaFacts {
        success: Some("response_code in ('NOERROR', 'NXDOMAIN')"),
        not_found: Some("response_code = 'NXDOMAIN'"),
        first: FIRST,
        added: &["total_time_ns"],
        ..SchemaFacts::NONE
    };
    let measure = Some(field::RESPONSE_TIME);
    let key = Some(field::QUERY_NAME);
    let doc = "DNS queries with their answers, over UDP and TCP";
    Schema {
        facts,
        ..Schema::of_parser("dns", 1, doc, field::FIELDS, measure, key)
    }
}

impl StreamParser for DnsFlow {
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

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        let is_between = self.is_between();
        self.close(out);
        is_between
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

    fn is_done(&self) -> bool {
        self.is_of_others()
    }
}

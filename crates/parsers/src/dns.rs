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
use crate::{Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment};

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

/// Fields specific to the parser.
pub mod field {
    tuple::fields! {
        QUERY_NAME: Text, None, "query_name", "queried name in lower case, without the final dot; . is the root";
        QUERY_TYPE: Text, None, "query_type", "queried record type: A, AAAA, MX, ...; TYPE and a number if it has no name";
        RESPONSE_CODE: Text, None, "response_code", "NOERROR, NXDOMAIN, SERVFAIL, REFUSED, ...; null without an answer";
        ANSWERS: Text, None, "answers", "record data of the answer, separated by commas; text in quotes, names in lower case; the type only, for types that are not decoded";
        ANSWER_COUNT: U64, None, "answer_count", "records in the answer section";
        TTL_MIN: U64, None, "ttl_min", "minimum time to live of these records, in seconds";
        TRUNCATED: Bool, None, "truncated", "whether the answer was truncated (TC), so that the client must retry over TCP";
        AUTHORITATIVE: Bool, None, "authoritative", "whether the answer is authoritative (AA)";
        RECURSION_DESIRED: Bool, None, "recursion_desired", "whether the client requests recursion (RD)";
        RETRIES: U64, None, "retries", "retransmissions of the query before its answer; times are those of the first transmission";
        TRANSACTION_ID: U64, None, "transaction_id", "message id, which the answer repeats";
        RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of the query to the first byte of the answer";
        REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the query, without the length prefix over TCP";
        RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the answer, likewise";
        OPCODE: Text, None, "opcode", "opcode: query, iquery, status, notify, update";
    }
}

/// Columns displayed first.
const FIRST: &[&str] = &["query_name", "query_type", "response_code", "answers", "response_time_ns"];

/// The schema.
#[must_use]
pub fn schema() -> Schema {
    // NXDOMAIN counts as success: the server answered correctly.
    let facts = &SchemaFacts {
        success: Some("response_code in ('NOERROR', 'NXDOMAIN')"),
        first: FIRST,
        ..SchemaFacts::NONE
    };
    let measure = Some(field::RESPONSE_TIME);
    let key = Some(field::QUERY_NAME);
    let doc = "DNS queries with their answers, over UDP and TCP";
    Schema { facts, ..Schema::of_parser("dns", 1, doc, field::FIELDS, measure, key) }
}

impl StreamParser for DnsFlow {
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

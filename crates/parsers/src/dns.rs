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
        QUERY_NAME: Text, None, "query_name", "name asked for, in lower case and without the last dot; . is the root";
        QUERY_TYPE: Text, None, "query_type", "type of records asked for: A, AAAA, MX, ...; TYPE and a number where it has no name";
        RESPONSE_CODE: Text, None, "response_code", "NOERROR, NXDOMAIN, SERVFAIL, REFUSED, ...; null without an answer";
        ANSWERS: Text, None, "answers", "data of the answer's records, a comma between; text in quotes, names in lower case; of types that are not read the type";
        ANSWER_COUNT: U64, None, "answer_count", "records in the answer section";
        TTL_MIN: U64, None, "ttl_min", "least time to live of these records, in seconds";
        TRUNCATED: Bool, None, "truncated", "whether the answer did not fit, and is to be asked for over TCP";
        AUTHORITATIVE: Bool, None, "authoritative", "whether the server answered of its own authority";
        RECURSION_DESIRED: Bool, None, "recursion_desired", "whether the client asks the server to ask others";
        RETRIES: U64, None, "retries", "how often the question was sent again before its answer; times are the first one's";
        TRANSACTION_ID: U64, None, "transaction_id", "id by which the answer names its question";
        RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "last byte of the question to first byte of the answer";
        REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the question, without the length before it over TCP";
        RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the answer, likewise";
        OPCODE: Text, None, "opcode", "kind of question: query, iquery, status, notify, update";
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
    let (measure, key) = (Some(field::RESPONSE_TIME), Some(field::QUERY_NAME));
    let doc = "DNS questions with their answers, over UDP and TCP";
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

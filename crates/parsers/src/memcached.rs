//! Memcached: the text protocol with meta commands, and the binary protocol, over TCP and UDP.
//!
//! One tuple per command and key; a command without a key has one tuple with a null key. All three protocols
//! share one set of statuses (see the `status` field). `noreply` commands have no status; a quiet command
//! without a response has the status it implies. A value that was not requested is a half. Not parsed: TLS,
//! SASL contents, proxy commands, replication (TAP, DCP) of derived servers.
//!
//! Sources: memcached's doc/protocol.txt, doc/protocol-binary.xml, and proto_text.c.

use tuple::{Schema, SchemaFacts, TAPS, WorkloadFacts};
use wire::Timestamp;

use crate::{
    Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment,
};

mod binary;
mod binary_header;
mod byte_stream;
mod command;
mod connection;
mod emit;
pub mod field;
mod keys;
mod messages;
mod opaques;
mod recognition;
mod redact;
mod reply;
mod text;
mod transaction;
mod udp;
mod udp_frame;
mod words;

#[cfg(test)]
mod tests;
pub use emit::{ALL, GET_ONLY};
#[cfg(test)]
pub(crate) use recognition::MemcachedMessageLocator;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "memcached",
    ports: &[11211],
    tcp: true,
    udp: true,
    probe: recognition::probe,
    start: || Box::new(MemcachedParser::default()),
};

/// The schema of all commands.
#[must_use]
pub fn schema() -> Schema {
    schema_of(
        "memcached",
        "memcached commands, one tuple per command and requested key",
    )
}

/// The schema of the reads.
#[must_use]
pub fn schema_get() -> Schema {
    schema_of(
        "memcached_get",
        "memcached reads (get, gets, gat, gats, mg, and binary gets), one tuple per requested key",
    )
}

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    // Statuses of a command the server processed; a miss counts as success. The binary protocol's errors are
    // open-ended, so the successes are listed.
    success: Some(
        "status in ('hit', 'miss', 'stored', 'not_stored', 'exists', 'not_found', 'deleted', 'touched', 'ok', \
         'auth_continue')",
    ),
    not_found: Some("hit = false"),
    workload: Some(WorkloadFacts {
        operation: "command",
        reads: "command like 'get%' or command like 'gat%' or command = 'mg'",
        writes: "command like 'set%' or command like 'add%' or command like 'replace%' or command like 'append%' or \
                 command like 'prepend%' or command in ('cas', 'ms')",
        status: "status",
        bytes: ["value_bytes", "value_bytes"],
    }),
    first: &[
        "ts",
        "client_ip",
        "command",
        "cache_key",
        "status",
        "response_time_ns",
        "total_time_ns",
    ],
    added: &["total_time_ns"],
    families: &[TAPS],
    ..SchemaFacts::NONE
};

fn schema_of(name: &'static str, doc: &'static str) -> Schema {
    let measure = Some(field::RESPONSE_TIME);
    let key = Some(field::CACHE_KEY);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser(name, 1, doc, field::FIELDS, measure, key)
    }
}

#[derive(Default)]
struct MemcachedParser {
    connection: connection::MemcachedConnection,
    exchanges: udp::MemcachedUdpExchanges,
}

impl StreamParser for MemcachedParser {
    fn on_bytes(
        &mut self,
        direction: Direction,
        segment: StreamSegment<'_>,
        out: &mut ParserOutput<'_>,
    ) {
        self.connection.on_bytes(direction, segment, out);
    }

    fn on_gap(&mut self, direction: Direction, gap: StreamGap, out: &mut ParserOutput<'_>) {
        self.connection.on_gap(direction, gap, out);
    }

    fn on_end(&mut self, direction: Direction, end: StreamEnd, out: &mut ParserOutput<'_>) {
        if end == StreamEnd::Fin {
            self.connection.on_end(direction, out);
        }
    }

    fn on_close(&mut self, out: &mut ParserOutput<'_>) {
        self.connection.close(out);
        self.exchanges.close(out);
    }

    fn on_idle(&mut self, out: &mut ParserOutput<'_>) -> bool {
        self.connection.rest(out)
    }

    fn on_datagram(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        cut: u32,
        ts: Timestamp,
        out: &mut ParserOutput<'_>,
    ) {
        self.exchanges.on_datagram(direction, bytes, cut, ts, out);
    }
}

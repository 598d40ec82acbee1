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

use crate::{Direction, ParserOutput, ProtocolDefinition, StreamEnd, StreamGap, StreamParser, StreamSegment};

mod binary;
mod byte_stream;
mod command;
mod connection;
mod emit;
mod keys;
mod messages;
mod opaques;
mod recognition;
mod redact;
mod reply;
mod text;
mod transaction;
mod udp;
mod words;

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use self::recognition::MemcachedMessageLocator;

/// Variant: every tuple.
pub const ALL: u8 = 0;
/// Variant: reads only.
pub const GET_ONLY: u8 = 1;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "memcached",
    ports: &[11211],
    tcp: true,
    udp: true,
    probe: recognition::probe,
    start: || Box::new(MemcachedParser::default()),
};

/// Fields specific to the parser.
pub mod field {
    use tuple::redact::HASH;

    use super::redact::COMMAND_WORDS;

    tuple::fields! {
        COMMAND: Text, None, "command", "command as in the protocol: get, gets, set, mg, getkq, increment, ...; null if the request was not captured" => COMMAND_WORDS;
        CACHE_KEY: Text, None, "cache_key", "requested key (base64 keys of meta commands decoded); null for commands without a key" => HASH;
        HIT: Bool, None, "hit", "whether a read found its key; null for other commands and errors";
        VALUE_BYTES: U64, Bytes, "value_bytes", "length of the value stored or read";
        STATUS: Text, None, "status", "hit, miss, stored, not_stored, exists, not_found, deleted, touched, ok, error, client_error, server_error, busy, refused, or a binary protocol's error (too_large, unknown_command, 0x...); null for noreply";
        RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of the request to the first byte of the response";
        TRANSFER_TIME: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the response";
    }
}

/// The schema of all commands.
#[must_use]
pub fn schema() -> Schema {
    schema_of("memcached", "memcached commands, one tuple per command and requested key")
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
    workload: Some(WorkloadFacts {
        operation: "command",
        reads: "command like 'get%' or command like 'gat%' or command = 'mg'",
        writes: "command like 'set%' or command like 'add%' or command like 'replace%' or command like 'append%' or \
                 command like 'prepend%' or command in ('cas', 'ms')",
        status: "status",
        bytes: ["value_bytes", "value_bytes"],
    }),
    first: &["command", "cache_key", "status", "response_time_ns"],
    families: &[TAPS],
    ..SchemaFacts::NONE
};

fn schema_of(name: &'static str, doc: &'static str) -> Schema {
    let measure = Some(field::RESPONSE_TIME);
    let key = Some(field::CACHE_KEY);
    Schema { facts: &FACTS, ..Schema::of_parser(name, 1, doc, field::FIELDS, measure, key) }
}

#[derive(Default)]
struct MemcachedParser {
    connection: connection::MemcachedConnection,
    exchanges: udp::MemcachedUdpExchanges,
}

impl StreamParser for MemcachedParser {
    fn on_bytes(&mut self, direction: Direction, segment: StreamSegment<'_>, out: &mut ParserOutput<'_>) {
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

//! PostgreSQL, protocol 3.0 to 3.2: one tuple per executed statement with its result, one for the login, and one for each other
//! request ("Frontend/Backend Protocol" in the PostgreSQL documentation).
//!
//! Messages have no identifiers. The unit of pairing is a *cycle*: the client's messages up to Sync (or a simple Query, or a login), and
//! the server's up to ReadyForQuery. Cycles are answered in order (`pairing`). Inside a cycle, the n-th message that has a
//! response gets the n-th response; after an error, the server discards the rest of the cycle.
//!
//! After missing bytes, the client is found at a segment that begins a message, the server there or at a ReadyForQuery that ends its
//! segment. The rules are in `connection`, the meaning of messages in `session`, tuples in `session_state`.

mod columns;
mod connection;
mod cycle;
mod framing;
mod messages;
mod probe;
mod response;
mod search;
mod session;
mod session_state;
mod statements;
#[cfg(test)]
mod tests;
mod tuples;

use tuple::{Schema, SchemaFacts, TAPS, WorkloadFacts};

use self::columns::{FIELDS, FINGERPRINT, RESPONSE_TIME};
use self::connection::PostgresConnection;
use crate::ProtocolDefinition;

/// Variant: every tuple.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "postgresql",
    ports: &[5432, 5433, 6432],
    tcp: true,
    udp: false,
    probe: probe::probe,
    start: || Box::new(PostgresConnection::new()),
};

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    success: Some(
        "error_code is null and skipped is null and (response_time_ns >= 0ns or response_time_ns < 0ns)",
    ),
    workload: Some(WorkloadFacts {
        operation: "fingerprint",
        reads: "fingerprint like 'select%' or fingerprint like 'SELECT%'",
        writes: "fingerprint like 'insert%' or fingerprint like 'update%' or fingerprint like 'delete%' or \
                 fingerprint like 'merge%' or fingerprint like 'INSERT%' or fingerprint like 'UPDATE%' or \
                 fingerprint like 'DELETE%' or fingerprint like 'MERGE%'",
        status: "error_code",
        bytes: ["response_bytes", "request_bytes"],
    }),
    first: &[
        "ts",
        "client_ip",
        "query",
        "error_code",
        "response_time_ns",
        "total_time_ns",
    ],
    families: &[TAPS],
    ..SchemaFacts::NONE
};

/// The schema of `postgresql`.
#[must_use]
pub fn schema() -> Schema {
    let doc = "PostgreSQL statements with their results";
    let measure = Some(RESPONSE_TIME);
    let key = Some(FINGERPRINT);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("postgresql", 1, doc, FIELDS, measure, key)
    }
}

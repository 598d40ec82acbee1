//! MySQL and MariaDB: one tuple per command with its result, and one for the login.
//!
//! Reads the protocol from version 4.1 and the differences of 3.23, uncompressed and compressed (zlib), up to
//! the start of TLS, which is reported. The text of a prepared statement is shown with every execution. A
//! response spans the server's first packet to the one that ends the command: over several results, for `LOAD
//! DATA LOCAL` from the request for the file on, for a login over all rounds of authentication. Values in
//! rows are not read.
//!
//! In slow mode, after missing bytes, the next command is searched after bytes of the server, or anywhere by
//! its SQL; a response is searched after bytes of a command. The rules are in `connection`, those of pairing
//! in `session`.

mod attributes;
mod columns;
mod command;
mod compression;
mod connection;
mod fields;
mod framing;
mod login;
mod probe;
mod response;
mod search;
mod session;
mod session_state;
#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use search::MysqlCommandLocator;
mod transaction;
mod tuples;

use connection::MysqlConnection;
use tuple::{Schema, SchemaFacts, TAPS, WorkloadFacts};

use self::columns::{FIELDS, FINGERPRINT, RESPONSE_TIME};
use crate::ProtocolDefinition;

/// Variant: every tuple.
pub const ALL: u8 = 0;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "mysql",
    ports: &[3306, 3307, 4000, 6033],
    tcp: true,
    udp: false,
    probe: probe::probe,
    start: || Box::new(MysqlConnection::new()),
};

/// Semantic facts for the query language.
const FACTS: SchemaFacts = SchemaFacts {
    // Without a response, the response time and thus the second condition is null.
    success: Some(
        "(error_code is null or error_code = 0) and (response_time_ns >= 0ns or response_time_ns < 0ns)",
    ),
    workload: Some(WorkloadFacts {
        operation: "fingerprint",
        reads: "fingerprint like 'select%' or fingerprint like 'SELECT%'",
        writes: "fingerprint like 'insert%' or fingerprint like 'update%' or fingerprint like 'delete%' or \
                 fingerprint like 'replace%' or fingerprint like 'INSERT%' or fingerprint like 'UPDATE%' or \
                 fingerprint like 'DELETE%' or fingerprint like 'REPLACE%'",
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
    added: &["total_time_ns", "summary"],
    families: &[TAPS],
    ..SchemaFacts::NONE
};

/// The schema of `mysql_query`.
#[must_use]
pub fn schema() -> Schema {
    let doc = "MySQL and MariaDB commands with their results";
    let measure = Some(RESPONSE_TIME);
    let key = Some(FINGERPRINT);
    Schema {
        facts: &FACTS,
        ..Schema::of_parser("mysql_query", 1, doc, FIELDS, measure, key)
    }
}

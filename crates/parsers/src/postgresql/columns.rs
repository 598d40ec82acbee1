//! Columns specific to the parser.

use tuple::{HASH, TextFold};

use crate::sql::SqlDialect;
use crate::sql::fingerprint::fingerprint_in;

/// Redaction: a statement is replaced by its fingerprint.
const LITERALS: TextFold = TextFold {
    name: "sql",
    fold: |_, sql, out| fingerprint_in(SqlDialect::PostgreSql, sql, out),
};

tuple::fields! {
    QUERY: Text, None, "query", "text of the statement (up to 64 KiB), also if it was prepared earlier" => LITERALS;
    FINGERPRINT: Text, None, "fingerprint", "statement with literals replaced by ?, and lists and rows of literals reduced to one";
    SUMMARY: Text, None, "summary", "operations of the statement and their tables, up to 255 bytes: SELECT orders users";
    COMMAND: Text, None, "command", "login, query, execute, function_call, cancel, terminate, ssl_request, gss_request; parse, bind, describe, close, or sync if nothing is executed, extended if that is not known";
    DATABASE: Text, None, "database", "database of the connection, if its start was captured";
    USER: Text, None, "user", "user of the login, if captured";
    APPLICATION_NAME: Text, None, "application_name", "application_name of the connection, if captured";
    STATEMENT_NAME: Text, None, "statement_name", "name of the prepared statement; null for the unnamed one";
    PORTAL: Text, None, "portal", "name of the portal; null for the unnamed one";
    BACKEND_PID: U64, None, "backend_pid", "process of the server that serves the connection, if known; for cancel, the process to be interrupted";
    BATCH_SIZE: U64, None, "batch_size", "statements executed up to the same Sync; null for one";
    RETURNED_ROWS: U64, None, "returned_rows", "rows in the result; null if the statement returns none";
    AFFECTED_ROWS: U64, None, "affected_rows", "rows changed, inserted, or copied, as counted by the server";
    COPY: Text, None, "copy", "in or out if the statement copies data from or to the client, both for replication; null otherwise";
    COPIED_BYTES: U64, Bytes, "copied_bytes", "length of the messages with data that the client sends; null without any, or if some are missing";
    SUSPENDED: Bool, None, "suspended", "the result continues with a later execution of the portal; null otherwise";
    ERROR_CODE: Text, None, "error_code", "SQLSTATE of the error, ? if it was not captured or not sent; null without an error";
    SEVERITY: Text, None, "severity", "ERROR, FATAL, or PANIC, as localized by the server; null without an error";
    ERROR_MESSAGE: Text, None, "error_message", "the server's message for the error (up to 1024 bytes)" => HASH;
    SKIPPED: Bool, None, "skipped", "discarded by the server after an error in the same batch; null otherwise";
    TRANSACTION: Text, None, "transaction", "state after the cycle: idle, open, or failed";
    ENCODING: Text, None, "encoding", "encryption that follows: tls or gss; null for none";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the messages of the statement; of a Query with several statements, of all of them";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the messages of the result";
    RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of Query or Execute to the first byte of the result";
    TRANSFER_TIME: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the result";
    TOTAL_TIME: I64, Nanoseconds, "total_time_ns", "from the last byte of Query or Execute to the last byte of the result";
    QUEUED: I64, Nanoseconds, "queued_ns", "part of response_time_ns until the previous result of the connection was complete: the time behind other statements";
    SERVICE_TIME: I64, Nanoseconds, "service_time_ns", "response_time_ns without queued_ns";
}

//! Columns specific to the parser.

use tuple::{HASH, TextFold};

use crate::sql::SqlDialect;
use crate::sql::fingerprint::fingerprint_in;

/// Redaction: a statement is replaced by its fingerprint.
const LITERALS: TextFold = TextFold {
    name: "cql",
    fold: |_, cql, out| fingerprint_in(SqlDialect::Cql, cql, out),
};

tuple::fields! {
    COMMAND: Text, None, "command", "query, prepare, execute, batch, options, startup, auth_response, or register; event for a message that the server sends unasked; null if the request was not captured";
    QUERY: Text, None, "query", "text of the statement (up to 32 KiB), also if it was prepared earlier; of a batch that of its first statement" => LITERALS;
    FINGERPRINT: Text, None, "fingerprint", "statement with literals replaced by ?, and lists and rows of literals reduced to one";
    SUMMARY: Text, None, "summary", "operations of the statement and their tables, up to 255 bytes: SELECT orders";
    OPERATION: Text, None, "operation", "first keyword of the statement in upper case: SELECT, INSERT; BATCH for several statements, PREPARE for a statement that is prepared";
    KEYSPACE: Text, None, "keyspace", "keyspace of the table: from the result, the statement, the request, or USE on the connection; null if none of them was captured";
    TABLE: Text, None, "table", "table of the result, else of the statement";
    CONSISTENCY: Text, None, "consistency", "consistency level of the request: ONE, LOCAL_QUORUM";
    SERIAL_CONSISTENCY: Text, None, "serial_consistency", "consistency level of conditions, if the request states one";
    PAGE_SIZE: U64, None, "page_size", "rows per page, if the request states it";
    CONTINUES: Bool, None, "continues", "the request asks for a further page; null otherwise";
    MORE_PAGES: Bool, None, "more_pages", "whether the result has further pages; null without rows";
    STATEMENTS: U64, None, "statements", "statements of a batch; null for other commands";
    BATCH_TYPE: Text, None, "batch_type", "logged, unlogged, or counter; null for other commands";
    RESULT: Text, None, "result", "kind of the response: void, rows, set_keyspace, prepared, schema_change, ready, authenticate, supported, auth_challenge, auth_success, or error";
    RETURNED_ROWS: U64, None, "returned_rows", "rows of this page; null if the response has none";
    OK: Bool, None, "ok", "whether the response is not an error; null without a response";
    ERROR_CODE: U64, None, "error_code", "code of the error: 4608 (0x1200) is read_timeout; null without an error";
    ERROR: Text, None, "error", "name of the error, its code if it has no known name; null without an error";
    ERROR_MESSAGE: Text, None, "error_message", "the server's message for the error (up to 1024 bytes)" => HASH;
    RECEIVED: U64, None, "received", "replicas that had responded before the error: of timeouts and failures; of unavailable those alive";
    REQUIRED: U64, None, "required", "replicas that the consistency level requires; null without such an error";
    WARNINGS: Text, None, "warnings", "the server's warnings, separated by line feeds (up to 1024 bytes)" => HASH;
    TRACING_ID: Text, None, "tracing_id", "identifier of the trace that the request asked for";
    EVENT: Text, None, "event", "type of an event and what changed: STATUS_CHANGE UP";
    COMPRESSION: Text, None, "compression", "lz4 or snappy; null for none";
    VERSION: U64, None, "version", "version of the protocol in the request, else in the response: 3 to 5; 65 and 66 are those of DataStax";
    STREAM: I64, None, "stream", "number by which the response names the request; -1 for an event";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the request: on the wire, in version 5 without frames and decompressed";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the response, as request_bytes";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "from the last byte of the request to the first byte of the response";
    TRANSFER_TIME_NS: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the response";
    TOTAL_TIME_NS: I64, Nanoseconds, "total_time_ns", "from the last byte of the request to the last byte of the response";
}

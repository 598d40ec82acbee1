//! Columns specific to the parser.

use tuple::TextFold;

use crate::sql::fingerprint;

/// Redaction: a statement is replaced by its fingerprint.
const LITERALS: TextFold = TextFold {
    name: "sql",
    fold: |_, sql, out| fingerprint::fingerprint(sql, out),
};

tuple::fields! {
    QUERY: Text, None, "query", "text of the statement (up to 64 KiB), also if it was prepared earlier; database name for init_db" => LITERALS;
    FINGERPRINT: Text, None, "fingerprint", "statement with literals replaced by ?, and lists and rows of literals reduced to one";
    COMMAND: Text, None, "command", "login, ssl_request, connect, or the protocol's command: query, stmt_execute, ping …";
    DATABASE: Text, None, "database", "default database after the command, if known";
    USER: Text, None, "user", "user of the login, if captured";
    ROWS: U64, None, "rows", "rows of all result sets";
    AFFECTED_ROWS: U64, None, "affected_rows", "rows changed, found, or inserted, as counted by the server";
    ERROR_CODE: U64, None, "error_code", "the server's error number; null without an error";
    ENCODING: Text, None, "encoding", "compression or encryption of the connection: zlib, zstd, or tls; null for none";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the command's packets, decompressed";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the response's packets, decompressed";
    RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of the command to the first byte of the response";
    TRANSFER_TIME: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the response";
    TOTAL_TIME: I64, Nanoseconds, "total_time_ns", "from the last byte of the command to the last byte of the response";
    SUMMARY: Text, None, "summary", "operations of the statement and their tables, up to 255 bytes: SELECT orders users";
}

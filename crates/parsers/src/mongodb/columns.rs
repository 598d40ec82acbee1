//! Columns specific to the parser.

use tuple::HASH;

tuple::fields! {
    COMMAND: Text, None, "command", "name of the command, as find or insert; of operations before OP_MSG: query, get_more, insert, update, delete, kill_cursors; null if the request was not captured";
    DATABASE: Text, None, "database", "database of the command";
    COLLECTION: Text, None, "collection", "collection of the command; null for commands without one";
    FINGERPRINT: Text, None, "fingerprint", "command and collection, and the keys and operators of filter, pipeline, update, sort, and projection with values replaced by ?";
    SUMMARY: Text, None, "summary", "command and collection: find orders";
    DOCUMENTS: U64, None, "documents", "statements of an insert, update, or delete; null for other commands";
    RETURNED: U64, None, "returned", "documents in the result; null if the command returns none";
    MATCHED: U64, None, "matched", "documents matched, inserted, deleted, or counted, as counted by the server (n)";
    MODIFIED: U64, None, "modified", "documents changed by an update, as counted by the server (nModified)";
    CURSOR_ID: I64, None, "cursor_id", "cursor that the response leaves open, or of which the request reads on; null for none";
    OK: Bool, None, "ok", "whether the response states no error, also none of a write or of the write concern; null without a response";
    ERROR_CODE: I64, None, "error_code", "code of the error: of the command, else of its first failed write, else of the write concern; null without an error or a code";
    ERROR_NAME: Text, None, "error_name", "name of the error, its code if it has no known name, ? without a code; null without an error";
    ERROR_MESSAGE: Text, None, "error_message", "the server's message for the error (up to 1024 bytes)" => HASH;
    MONITORING: Bool, None, "monitoring", "whether the command is hello, isMaster, or ping: monitoring of the topology, handshakes, and checks of health";
    WAITING: Bool, None, "waiting", "the server waited for an event: hello with maxAwaitTimeMS, or getMore with maxTimeMS or an empty result of an open cursor. The time is waited_ns";
    REPLIES: U64, None, "replies", "messages of an exhaust response; null for one";
    COMPRESSION: Text, None, "compression", "snappy, zlib, zstd, or noop; null for none";
    TXN_NUMBER: I64, None, "txn_number", "number of the transaction or of the retryable write in its session";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the request on the wire";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the response on the wire";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "from the last byte of the request to the first byte of the response; null if the server waited";
    TRANSFER_TIME_NS: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the response; null if the server waited";
    TOTAL_TIME_NS: I64, Nanoseconds, "total_time_ns", "from the last byte of the request to the last byte of the response; null if the server waited";
    WAITED_NS: I64, Nanoseconds, "waited_ns", "from the last byte of the request to the first byte of the response if the server waited; null otherwise";
}

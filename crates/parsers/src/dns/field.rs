//! Fields specific to the parser.

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
    TOTAL_TIME: I64, Nanoseconds, "total_time_ns", "from the last byte of the query to the last byte of the answer: over TCP it may arrive in several segments";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the query, without the length prefix over TCP";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the answer, without the length prefix over TCP";
    OPCODE: Text, None, "opcode", "opcode: query, iquery, status, notify, update";
}

//! Fields specific to the parser.

tuple::fields! {
    SNI: Text, None, "sni", "server name sent by the client (SNI), in lower case; null if the connection was joined midway";
    PROTOCOL: Text, None, "protocol", "application protocol: by ALPN up to TLS 1.2; from TLS 1.3 on estimated from the client's offer and the first records: h2 or http/1.1; null if unknown";
    VERSION: Text, None, "version", "negotiated version: TLS 1.3, TLS 1.2, ...; null if the connection was joined midway";
    CERTAINTY: Text, None, "certainty", "turn: records of the client, then of the server; burst: possibly several requests; overlap: the client sent before the response was complete; push: the server sent without a request";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "bytes of the client's records without the overhead of encryption; an upper bound if padded";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "bytes of the server's records without the overhead of encryption; an upper bound if padded";
    REQUEST_RECORDS: U64, None, "request_records", "number of the client's records";
    RESPONSE_RECORDS: U64, None, "response_records", "number of the server's records";
    RESPONSE_TIME: I64, Nanoseconds, "response_time_ns", "from the last byte of the client's records to the first byte of the server's; null unless certainty is turn";
    TRANSFER_TIME: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the server's records; null unless certainty is turn";
    TOTAL_TIME: I64, Nanoseconds, "total_time_ns", "from the last byte of the client's records to the last byte of the server's; null unless certainty is turn";
    UNCERTAIN_TIME: I64, Nanoseconds, "uncertain_time_ns", "like response_time_ns, of a burst or an overlap; null for a turn";
    THINK_TIME: I64, Nanoseconds, "think_time_ns", "from the last byte of the previous response on the connection to the first byte of the request";
}

//! Columns specific to the parser.

tuple::fields! {
    API: Text, None, "api", "name of the API, as Produce, Fetch, or OffsetCommit; null if the request was not captured";
    API_VERSION: I64, None, "api_version", "its version in the request";
    TOPIC: Text, None, "topic", "the topic, if the response or else the request has only one: its name, or its identifier if the name is not known";
    TOPIC_ID: Text, None, "topic_id", "identifier of this topic in the form of Kafka's tools; null if the message states the name";
    TOPICS: U64, None, "topics", "topics of the request, or of the fetch session that it continues";
    PARTITION: I64, None, "partition", "the partition, if the response or else the request has only one";
    PARTITIONS: U64, None, "partitions", "partitions of the request, or of the fetch session that it continues";
    GROUP: Text, None, "group", "consumer group of the request; of Fetch the group that the same client joined on the same connection";
    CLIENT_ID: Text, None, "client_id", "name that the client gives itself";
    TRANSACTIONAL_ID: Text, None, "transactional_id", "transactional id of the producer";
    RECORDS: U64, None, "records", "records of Produce and of the response of Fetch, by the headers of batches; null inside of compressed messages before version 2";
    RECORD_BYTES: U64, Bytes, "record_bytes", "length of the record batches, compressed";
    COMPRESSION: Text, None, "compression", "none, gzip, snappy, lz4, or zstd, of the first batch";
    ACKS: I64, None, "acks", "acknowledgments that Produce asks for: -1 of all in-sync replicas, 1 of the leader, 0 none: there is no response";
    BASE_OFFSET: I64, None, "base_offset", "first offset of the only partition: as assigned by Produce, or of the first batch fetched";
    LAST_OFFSET: I64, None, "last_offset", "last offset of the only partition";
    HIGH_WATERMARK: I64, None, "high_watermark", "high watermark of the only partition, in the response of Fetch";
    LAG: I64, None, "lag", "records behind the response of Fetch up to the high watermark, of the partition with most; null if it has no records, unless it has one partition";
    OK: Bool, None, "ok", "whether the response states no error; null without a response";
    ERROR: Text, None, "error", "name of the first error in the response, its code if it has no known name; null without an error";
    THROTTLE_TIME_NS: I64, Nanoseconds, "throttle_time_ns", "time for which the broker delays the client because of a quota, by its own word";
    MAX_WAIT_NS: I64, Nanoseconds, "max_wait_ns", "time for which Fetch lets the broker wait";
    MIN_BYTES: U64, Bytes, "min_bytes", "bytes for which Fetch lets the broker wait";
    WAITING: Bool, None, "waiting", "the broker waited for records: the response of Fetch has fewer bytes than min_bytes, or took 0.9 of max_wait_ns or more. The time is waited_ns";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "length of the request on the wire";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "length of the response on the wire";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "from the last byte of the request to the first byte of the response; null if the broker waited";
    TRANSFER_TIME_NS: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the response; null if the broker waited";
    TOTAL_TIME_NS: I64, Nanoseconds, "total_time_ns", "from the last byte of the request to the last byte of the response; null if the broker waited";
    WAITED_NS: I64, Nanoseconds, "waited_ns", "from the last byte of the request to the first byte of the response if the broker waited; null otherwise";
}

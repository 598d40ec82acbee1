//! Fields specific to the parser.

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
    TOTAL_TIME: I64, Nanoseconds, "total_time_ns", "from the last byte of the request to the last byte of the response";
}

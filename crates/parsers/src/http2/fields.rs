//! Fields of `http2` and `grpc`, after those of `http`.

use tuple::redact::HASH;

use crate::http::fields::FIELDS as OF_HTTP;
use crate::http::redact::URL_VALUES;

tuple::fields! {
    after OF_HTTP;
    STREAM: U64, None, "stream", "number of the stream on its connection";
    AUTHORITY: Text, None, "authority", "requested host and port: the field :authority" => URL_VALUES;
    SCHEME: Text, None, "scheme", "http or https: the field :scheme";
    GRPC_SERVICE: Text, None, "grpc_service", "gRPC: called service with its package";
    GRPC_METHOD: Text, None, "grpc_method", "gRPC: called method";
    GRPC_STATUS: Text, None, "grpc_status", "gRPC: status of the call: OK, CANCELLED, DEADLINE_EXCEEDED, ..., or its number if unknown";
    GRPC_MESSAGE: Text, None, "grpc_message", "gRPC: text of the status" => HASH;
    REQUEST_MESSAGES: U64, None, "request_messages", "gRPC: messages of the client";
    RESPONSE_MESSAGES: U64, None, "response_messages", "gRPC: messages of the server";
    FIRST_MESSAGE_TIME_NS: I64, Nanoseconds, "first_message_time_ns", "from the last byte of the request's first DATA, or of its head if it has none before, to the first byte of the response's first DATA";
    END: Text, None, "end", "end of the stream: end_stream, rst_stream(CANCEL) or with another code, goaway (not processed), or connection; null while it is open";
    WINDOW_STALL_NS: I64, Nanoseconds, "window_stall_ns", "time for which flow control kept the senders of both messages from sending";
    UNRESOLVED: U64, None, "unresolved", "header fields that refer to blocks which were not captured";
}

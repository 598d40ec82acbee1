//! Fields and variants of both parsers.

use super::redact::{MEDIA_TYPE_VALUES, PATH_VALUES, QUERY_VALUES, URL_VALUES};

/// Variant: every transaction.
pub const ALL: u8 = 0;
/// Variant: GET only.
pub const GET_ONLY: u8 = 1;
/// Variants with the fields of `http`.
pub const OF_HTTP: [u8; 2] = [ALL, GET_ONLY];

tuple::fields! {
    METHOD: Text, None, "method", "request method";
    HOST: Text, None, "host", "requested host and port: from the request target, otherwise the Host field" => URL_VALUES;
    PATH: Text, None, "path", "requested path without the query string" => PATH_VALUES;
    URL_QUERY: Text, None, "url_query", "query string of the request target, without the ?" => QUERY_VALUES;
    URL: Text, None, "url", "host, path and query string" => URL_VALUES;
    URL_TEMPLATE: Text, None, "url_template", "path with numbers, UUIDs and long tokens as {id}" => PATH_VALUES;
    HTTP_VERSION: Text, None, "http_version", "0.9, 1.0, 1.1, or 2: version of the request, otherwise of the response";
    STATUS: U64, None, "status", "response status code";
    INTERIM_STATUS: U64, None, "interim_status", "status code of the last interim response (1xx) before the response";
    REQUEST_BYTES: U64, Bytes, "request_bytes", "request body as transferred, including chunk framing";
    RESPONSE_BYTES: U64, Bytes, "response_bytes", "response body as transferred, including chunk framing";
    RESPONSE_TIME_NS: I64, Nanoseconds, "response_time_ns", "from the last byte of the request to the first byte of the response";
    TRANSFER_TIME_NS: I64, Nanoseconds, "transfer_time_ns", "from the first to the last byte of the response";
    TOTAL_TIME_NS: I64, Nanoseconds, "total_time_ns", "from the last byte of the request to the last byte of the response";
    USER_AGENT: Text, None, "user_agent", "the request's User-Agent field";
    CONTENT_TYPE: Text, None, "content_type", "the response's Content-Type field" => MEDIA_TYPE_VALUES;
}

//! HTTP/2 (RFC 9113) and gRPC: one tuple per stream, which is a request with its response.
//!
//! Both byte streams are read frame by frame; DATA is skipped by length, and only prefixes of gRPC messages are
//! read. Responses belong to requests by the number of the stream, also after missing bytes. Header blocks are
//! decoded in the order of the connection; what they refer to before the capture is unknown (`hpack.rs`). The
//! tuples are those of `http`, with more fields in `http2` and `grpc`.

mod connection;
mod control;
mod emit;
pub mod fields;
mod frames;
mod grpc;
mod hpack;
mod huffman;
mod lane;
mod losses;
mod messages;
mod projection;
mod search;
mod static_table;
mod streams;
#[cfg(test)]
mod tests;

use tuple::{Schema, SchemaFacts};

pub(crate) use self::connection::{Http2Connection, UpgradedRequest};
pub use self::projection::{GRPC, HTTP2};
use crate::ProtocolDefinition;
use crate::http::facts;
use crate::http::fields as http_fields;

/// The protocol.
pub static PROTOCOL: ProtocolDefinition = ProtocolDefinition {
    name: "http2",
    ports: &[80, 8080, 50051],
    tcp: true,
    udp: false,
    probe: search::probe,
    start: || Box::<Http2Connection>::default(),
};

/// A call that the server refused has the status 200.
const SUCCESS: &str = "status < 400 and (grpc_status is null or grpc_status = 'OK') and (end is null or end = 'end_stream')";

/// The schema of `http2`.
#[must_use]
pub fn schema() -> Schema {
    const FACTS: SchemaFacts = SchemaFacts {
        success: Some(SUCCESS),
        added: &[],
        ..facts::FACTS
    };
    schema_of("http2", "HTTP/2 requests with their responses", &FACTS)
}

/// The schema of `grpc`.
#[must_use]
pub fn schema_grpc() -> Schema {
    const FACTS: SchemaFacts = SchemaFacts {
        success: Some(SUCCESS),
        workload: None,
        first: &[
            "ts",
            "client_ip",
            "grpc_service",
            "grpc_method",
            "grpc_status",
            "response_time_ns",
            "total_time_ns",
        ],
        added: &[],
        ..facts::FACTS
    };
    schema_of("grpc", "gRPC calls with their results, over HTTP/2", &FACTS)
}

fn schema_of(name: &'static str, doc: &'static str, facts: &'static SchemaFacts) -> Schema {
    let fields = [http_fields::FIELDS, fields::FIELDS].concat();
    let measure = Some(http_fields::RESPONSE_TIME_NS);
    let key = Some(http_fields::URL);
    Schema {
        facts,
        ..Schema::of_parser(name, 1, doc, &fields, measure, key)
    }
}

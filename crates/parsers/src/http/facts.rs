//! Semantic facts about requests, also those of HTTP/2.

use tuple::{SchemaFacts, TAPS, WorkloadFacts};

use super::headers;

/// Semantic facts for the query language.
pub(crate) const FACTS: SchemaFacts = SchemaFacts {
    success: Some("status < 400"),
    workload: Some(WorkloadFacts {
        operation: "method",
        reads: "method in ('GET', 'HEAD')",
        writes: "method in ('POST', 'PUT', 'PATCH', 'DELETE')",
        status: "status",
        bytes: ["response_bytes", "request_bytes"],
    }),
    first: &[
        "ts",
        "client_ip",
        "method",
        "path",
        "status",
        "response_time_ns",
        "total_time_ns",
    ],
    added: &["total_time_ns"],
    families: &[headers::OF_REQUEST, headers::OF_RESPONSE, TAPS],
    ..SchemaFacts::NONE
};

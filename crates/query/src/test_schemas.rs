//! Small schemas and hosts for the tests of this crate.

use std::sync::Arc;

use tuple::{ColumnFamily, DataType, Field, HASH, Schema, SchemaFacts, Unit, WorkloadFacts};

use crate::HostTable;

/// Parsers of the registry with fewer fields.
pub(crate) fn schemas() -> Vec<Arc<Schema>> {
    use DataType::{Bool, I64, Ip, Json, Text, U64};
    let f = |name, data_type, unit| Field::new(name, data_type, unit, "");
    let http = [
        f("method", Text, Unit::None),
        f("host", Text, Unit::None),
        f("path", Text, Unit::None),
        f("url", Text, Unit::None),
        f("status", U64, Unit::None),
        f("response_bytes", U64, Unit::Bytes),
        f("response_time_ns", I64, Unit::Nanoseconds),
        f("transfer_time_ns", I64, Unit::Nanoseconds),
    ];
    vec![
        parser(
            "tcp_flow_key",
            &[
                f("src_ip", Ip, Unit::None),
                f("src_port", U64, Unit::None),
                f("dst_ip", Ip, Unit::None),
                f("dst_port", U64, Unit::None),
            ],
            None,
            None,
        ),
        parser(
            "tcp_conn_time",
            &[
                f("event", Text, Unit::None),
                f("flag", Text, Unit::None),
                f("handshake_ns", I64, Unit::Nanoseconds),
                f("conn_time_ns", I64, Unit::Nanoseconds),
            ],
            Some("conn_time_ns"),
            None,
        ),
        parser(
            "tcp_pkt_size",
            &[
                f("src_ip", Ip, Unit::None),
                f("dst_ip", Ip, Unit::None),
                f("packet_bytes", U64, Unit::Bytes),
                f("payload_bytes", U64, Unit::Bytes),
            ],
            Some("packet_bytes"),
            None,
        ),
        parser("http", &http, Some("response_time_ns"), Some("url")),
        parser("http_get", &http, Some("response_time_ns"), Some("url")),
        parser(
            "mysql_query",
            &[
                f("query", Text, Unit::None),
                f("fingerprint", Text, Unit::None),
                f("error_code", U64, Unit::None),
                f("response_time_ns", I64, Unit::Nanoseconds),
                f("total_time_ns", I64, Unit::Nanoseconds),
            ],
            Some("response_time_ns"),
            Some("fingerprint"),
        ),
        parser(
            "memcached",
            &[
                f("command", Text, Unit::None),
                f("cache_key", Text, Unit::None),
                f("hit", Bool, Unit::None),
                f("status", Text, Unit::None),
                f("checksums", Json, Unit::None),
                f("response_time_ns", I64, Unit::Nanoseconds),
            ],
            Some("response_time_ns"),
            Some("cache_key"),
        ),
    ]
}

/// h1, h2, and a longer name.
pub(crate) fn hosts() -> HostTable {
    let mut table = HostTable::new();
    table.insert_hosts_file(
        "10.0.0.1 h1\n10.0.0.2 h2\n2001:db8::2 h2\n10.0.0.9 web-1.example.com\n",
    );
    table
}

fn parser(
    name: &'static str,
    own: &[Field],
    measure: Option<&str>,
    key: Option<&str>,
) -> Arc<Schema> {
    let mut schema = Schema::of_parser(name, 1, "", own, None, None);
    schema.measure = measure.and_then(|m| schema.find(m));
    schema.key = key.and_then(|k| schema.find(k));
    schema.facts = facts(name);
    Arc::new(schema)
}

fn facts(parser: &str) -> &'static SchemaFacts {
    const fn success(success: &'static str) -> SchemaFacts {
        SchemaFacts {
            success: Some(success),
            ..SchemaFacts::NONE
        }
    }
    const HTTP: SchemaFacts = SchemaFacts {
        workload: Some(WorkloadFacts {
            operation: "method",
            reads: "method in ('GET', 'HEAD')",
            writes: "method in ('POST', 'PUT', 'PATCH', 'DELETE')",
            status: "status",
            bytes: ["response_bytes", "request_bytes"],
        }),
        families: &[
            ColumnFamily {
                name: "request_header",
                doc: "",
                fold: Some(HASH),
            },
            ColumnFamily {
                name: "response_header",
                doc: "",
                fold: Some(HASH),
            },
        ],
        ..success("status < 400")
    };
    match parser {
        "http" | "http_get" => &HTTP,
        "mysql_query" => {
            const {
                &success(
                    "(error_code is null or error_code = 0) and (response_time_ns >= 0ns or response_time_ns < 0ns)",
                )
            }
        }
        "memcached" => const { &success("status in ('hit', 'miss', 'stored')") },
        "tcp_conn_time" => {
            const {
                &SchemaFacts {
                    whole: Some("event = 'end'"),
                    ..success("flag = 'FIN'")
                }
            }
        }
        _ => &SchemaFacts::NONE,
    }
}

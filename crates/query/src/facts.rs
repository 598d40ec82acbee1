//! What the language knows of parsers beyond their schemas, as data: the paper's names of fields, the columns that are
//! differences of two times, which tuples count as a success, and which take part at all.

use tuple::Schema;

/// Other names of fields, in the order in which they are tried; compared in lower case and without `_`.
const ALIASES: &[(&str, &[&str])] = &[
    ("srcip", &["src_ip", "client_ip"]),
    ("sourceip", &["src_ip", "client_ip"]),
    ("srcport", &["src_port", "client_port"]),
    ("sourceport", &["src_port", "client_port"]),
    ("destip", &["dst_ip", "server_ip"]),
    ("dstip", &["dst_ip", "server_ip"]),
    ("destinationip", &["dst_ip", "server_ip"]),
    ("destport", &["dst_port", "server_port"]),
    ("dstport", &["dst_port", "server_port"]),
    ("destinationport", &["dst_port", "server_port"]),
    ("get", &["url"]),
];

/// Columns that hold the difference of two times; with `diff` the first one that an input has is the value.
pub(crate) const DIFFERENCES: &[&str] = &["conn_time_ns", "response_time_ns", "duration_ns"];

/// One parser's facts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fact {
    /// The parser.
    pub parser: &'static str,
    /// Which tuples are a success, in our own language. Null where that cannot be said: such tuples do not count.
    pub success: &'static str,
    /// Which tuples stand for the whole of what the parser reports, where others are mere parts.
    pub whole: Option<&'static str>,
}

/// Every parser that has any. Of several inputs the first *here* says what a success is: a response tells more than
/// the end of its connection.
pub(crate) const FACTS: &[Fact] = &[
    fact("http", "status < 400"),
    fact("http_get", "status < 400"),
    // Without a response there is no response time, and the second part is null.
    fact(
        "mysql_query",
        "(error_code is null or error_code = 0) and (response_time_ns >= 0ns or response_time_ns < 0ns)",
    ),
    fact("memcached", MEMCACHED),
    fact("memcached_get", MEMCACHED),
    fact("nfs", RPC),
    fact("rpc", RPC),
    Fact { parser: "tcp_conn_time", success: "flag = 'FIN'", whole: Some("event = 'end'") },
];

/// What a server says that did what it was asked; a miss is an answer, too. The binary protocol's errors have no end,
/// so that it is the successes that are named.
const MEMCACHED: &str = "status in ('hit', 'miss', 'stored', 'not_stored', 'exists', 'not_found', 'deleted', 'touched', \
                         'ok', 'auth_continue')";

/// A call that was taken, and did what it was asked where its procedure can fail.
const RPC: &str = "rpc_status = 'success' and (status is null or status = 'ok')";

const fn fact(parser: &'static str, success: &'static str) -> Fact {
    Fact { parser, success, whole: None }
}

/// What `workload-profile` reads of a parser's tuples: names of fields, and conditions in our own language. A field that
/// the parser does not have is left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    /// The parsers.
    pub parsers: &'static [&'static str],
    /// What was done.
    pub operation: &'static str,
    /// Which operations read.
    pub reads: &'static str,
    /// Which write.
    pub writes: &'static str,
    /// How they ended.
    pub status: &'static str,
    /// Bytes that a read moved, and that a write moved.
    pub bytes: [&'static str; 2],
}

/// Every parser whose tuples tell of operations. The fields of files have the same names with all: `count`, `offset`,
/// `file_handle`, `aligned`, `block_checksums`.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        parsers: &["nfs", "rpc"],
        operation: "procedure",
        reads: "procedure = 'READ'",
        writes: "procedure = 'WRITE'",
        status: "status",
        bytes: ["result_count", "result_count"],
    },
    Workload {
        parsers: &["http", "http_get"],
        operation: "method",
        reads: "method in ('GET', 'HEAD')",
        writes: "method in ('POST', 'PUT', 'PATCH', 'DELETE')",
        status: "status",
        bytes: ["response_bytes", "request_bytes"],
    },
    Workload {
        parsers: &["mysql_query"],
        operation: "fingerprint",
        reads: "fingerprint like 'select%' or fingerprint like 'SELECT%'",
        writes: "fingerprint like 'insert%' or fingerprint like 'update%' or fingerprint like 'delete%' or \
                 fingerprint like 'replace%' or fingerprint like 'INSERT%' or fingerprint like 'UPDATE%' or \
                 fingerprint like 'DELETE%' or fingerprint like 'REPLACE%'",
        status: "error_code",
        bytes: ["response_bytes", "request_bytes"],
    },
    Workload {
        parsers: &["memcached", "memcached_get"],
        operation: "command",
        reads: "command like 'get%' or command like 'gat%' or command = 'mg'",
        writes: "command like 'set%' or command like 'add%' or command like 'replace%' or command like 'append%' or \
                 command like 'prepend%' or command in ('cas', 'ms')",
        status: "status",
        bytes: ["value_bytes", "value_bytes"],
    },
];

/// What `workload-profile` reads of a parser's tuples.
pub(crate) fn workload(schema: &Schema) -> Option<&'static Workload> {
    WORKLOADS.iter().find(|w| w.parsers.contains(&schema.name.as_ref()))
}

/// What is known of a parser.
pub(crate) fn of(schema: &Schema) -> Option<&'static Fact> {
    FACTS.iter().find(|f| f.parser == schema.name)
}

/// The fields that `name` may stand for, if it is one of the other names.
pub(crate) fn meant_by(name: &str) -> &'static [&'static str] {
    let plain = name.to_lowercase().replace('_', "");
    ALIASES.iter().find(|(alias, _)| *alias == plain).map_or(&[], |(_, fields)| fields)
}

//! Names of the language in addition to those of schemas: the paper's names of some fields, and columns with
//! differences of two times.

/// Aliases of fields, in order of precedence; compared in lowercase and without `_`.
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

/// Names used by other tools, and the fields to suggest: the first that exists. They are not accepted as names.
const CALLED: &[(&[&str], &[&str])] = &[
    (
        &[
            "responsesize",
            "responselength",
            "responsebodybytes",
            "bodybytessent",
            "contentlength",
            "size",
        ],
        &["response_bytes"],
    ),
    (
        &["requestsize", "requestlength", "requestbodybytes"],
        &["request_bytes"],
    ),
    (
        &[
            "latency",
            "latencyms",
            "elapsed",
            "duration",
            "durationms",
            "requesttime",
            "time",
            "ttfb",
            "rtt",
            "responsetimems",
        ],
        &["response_time_ns", "conn_time_ns", "duration_ns"],
    ),
    (
        &["code", "statuscode", "responsecode", "httpstatus"],
        &["status", "error_code"],
    ),
    (&["error", "errno", "errorno"], &["error_code", "status"]),
    (&["uri", "requesturi", "endpoint", "page"], &["url", "path"]),
    (&["route", "template"], &["url_template"]),
    (
        &["verb", "httpmethod", "requestmethod"],
        &["method", "command"],
    ),
    (&["hostname", "vhost", "domain", "authority"], &["host"]),
    (&["useragent", "ua"], &["user_agent"]),
    (&["statement", "sql"], &["query"]),
    (&["digest", "normalizedquery"], &["fingerprint"]),
    (&["key"], &["cache_key"]),
    (&["rcode"], &["response_code"]),
    (&["name", "qname", "query"], &["query_name"]),
    (
        &["client", "ip", "clientaddr", "remoteaddr", "origh"],
        &["client_ip", "src_ip"],
    ),
    (&["server", "serveraddr", "resph"], &["server_ip", "dst_ip"]),
    (
        &["src", "source", "sourceaddress", "ip.src", "ipv6.src"],
        &["src_ip", "client_ip"],
    ),
    (
        &["dst", "dest", "destination", "ip.dst", "ipv6.dst"],
        &["dst_ip", "server_ip"],
    ),
    (
        &["tcp.srcport", "udp.srcport"],
        &["src_port", "client_port"],
    ),
    (
        &["port", "tcp.port", "udp.port", "tcp.dstport", "udp.dstport"],
        &["server_port", "dst_port"],
    ),
    (&["frame.time", "frame.timeepoch"], &["ts"]),
    (&["frame.len"], &["packet_bytes"]),
    (&["http.time", "dns.time"], &["response_time_ns"]),
    (&["http.request.method"], &["method"]),
    (&["http.response.code"], &["status"]),
    (&["http.request.uri", "http.request.fulluri"], &["url"]),
    (&["http.useragent"], &["user_agent"]),
    (&["dns.qry.name"], &["query_name"]),
    (&["dns.flags.rcode"], &["response_code"]),
    (&["mysql.query"], &["query"]),
    (&["tls.handshake.extensionsservername"], &["sni"]),
    (&["timestamp"], &["ts"]),
    (
        &["proto", "protocol", "service", "app"],
        &["application", "transport"],
    ),
    (&["retransmits", "retrans"], &["retransmissions"]),
];

/// Fields to suggest for `name`.
pub(crate) fn called(name: &str) -> &'static [&'static str] {
    let plain = name.to_lowercase().replace(['_', '-'], "");
    CALLED
        .iter()
        .find(|(called, _)| called.contains(&plain.as_str()))
        .map_or(&[], |(_, fields)| fields)
}

/// Columns with the difference of two times; `diff` uses the first one of an input as its value.
pub(crate) const DIFFERENCES: &[&str] = &["conn_time_ns", "response_time_ns", "duration_ns"];

/// The fields that `name` may refer to, if it is an alias.
pub(crate) fn meant_by(name: &str) -> &'static [&'static str] {
    let plain = name.to_lowercase().replace('_', "");
    ALIASES
        .iter()
        .find(|(alias, _)| *alias == plain)
        .map_or(&[], |(_, fields)| fields)
}

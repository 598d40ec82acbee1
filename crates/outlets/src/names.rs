//! Names of columns in other systems. The column `url_template` is `url.template` in OpenTelemetry and so in OTLP, and
//! in Prometheus with `_` for each dot. Columns not listed keep their names.

/// Attributes of OpenTelemetry's semantic conventions: parser (`*`: any), column, name. `db.query.text` is the statement
/// without literals, as the conventions require unless a user asks for them.
const OPEN_TELEMETRY: &[(&str, &str, &str)] = &[
    ("*", "client_ip", "client.address"),
    ("*", "client_port", "client.port"),
    ("*", "server_ip", "server.address"),
    ("*", "server_port", "server.port"),
    ("*", "src_ip", "source.address"),
    ("*", "src_port", "source.port"),
    ("*", "dst_ip", "destination.address"),
    ("*", "dst_port", "destination.port"),
    ("*", "transport", "network.transport"),
    ("http", "method", "http.request.method"),
    ("http", "host", "http.request.header.host"),
    ("http", "path", "url.path"),
    ("http", "url_query", "url.query"),
    ("http", "url", "url.full"),
    ("http", "url_template", "url.template"),
    ("http", "http_version", "network.protocol.version"),
    ("http", "status", "http.response.status_code"),
    ("http", "user_agent", "user_agent.original"),
    ("http", "content_type", "http.response.header.content_type"),
    ("http2", "scheme", "url.scheme"),
    ("http2", "grpc_method", "rpc.method"),
    ("http2", "grpc_status", "rpc.status_code"),
    ("http2", "end", "error.type"),
    ("mysql_query", "fingerprint", "db.query.text"),
    ("mysql_query", "summary", "db.query.summary"),
    ("mysql_query", "command", "db.operation.name"),
    ("mysql_query", "database", "db.namespace"),
    ("mysql_query", "error_code", "db.response.status_code"),
    ("postgresql", "fingerprint", "db.query.text"),
    ("postgresql", "summary", "db.query.summary"),
    ("postgresql", "command", "db.operation.name"),
    ("postgresql", "database", "db.namespace"),
    ("postgresql", "error_code", "db.response.status_code"),
    ("postgresql", "batch_size", "db.operation.batch.size"),
    ("postgresql", "returned_rows", "db.response.returned_rows"),
    ("mongodb", "fingerprint", "db.query.text"),
    ("mongodb", "summary", "db.query.summary"),
    ("mongodb", "command", "db.operation.name"),
    ("mongodb", "collection", "db.collection.name"),
    ("mongodb", "database", "db.namespace"),
    ("mongodb", "error_code", "db.response.status_code"),
    ("mongodb", "error_name", "error.type"),
    ("mongodb", "documents", "db.operation.batch.size"),
    ("mongodb", "returned", "db.response.returned_rows"),
    ("cassandra", "fingerprint", "db.query.text"),
    ("cassandra", "summary", "db.query.summary"),
    ("cassandra", "operation", "db.operation.name"),
    ("cassandra", "table", "db.collection.name"),
    ("cassandra", "keyspace", "db.namespace"),
    ("cassandra", "error_code", "db.response.status_code"),
    ("cassandra", "error", "error.type"),
    ("cassandra", "statements", "db.operation.batch.size"),
    ("cassandra", "returned_rows", "db.response.returned_rows"),
    ("cassandra", "consistency", "cassandra.consistency.level"),
    ("cassandra", "page_size", "cassandra.page.size"),
    ("kafka", "api", "messaging.operation.name"),
    ("kafka", "topic", "messaging.destination.name"),
    ("kafka", "partition", "messaging.destination.partition.id"),
    ("kafka", "group", "messaging.consumer.group.name"),
    ("kafka", "client_id", "messaging.client.id"),
    ("kafka", "records", "messaging.batch.message_count"),
    ("kafka", "base_offset", "messaging.kafka.offset"),
    ("kafka", "error", "error.type"),
    ("redis", "command", "db.operation.name"),
    ("memcached", "command", "db.operation.name"),
    ("dns", "query_name", "dns.question.name"),
    ("nfs", "procedure", "onc_rpc.procedure.name"),
    ("nfs", "status", "error.type"),
    ("rpc", "procedure", "onc_rpc.procedure.name"),
    ("encrypted", "sni", "tls.client.server_name"),
    ("encrypted", "version", "tls.protocol.version"),
    ("encrypted", "protocol", "tls.next_protocol"),
    ("tls", "sni", "tls.client.server_name"),
    ("tls", "version", "tls.protocol.version"),
    ("tls", "cipher", "tls.cipher"),
    ("quic", "sni", "tls.client.server_name"),
    ("quic", "cipher", "tls.cipher"),
];

/// All renamed columns: parser (`*`: any), column, attribute.
pub fn attributes() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    OPEN_TELEMETRY.iter().copied()
}

/// Attribute name of a column in results of these parsers' tuples.
pub fn attribute<'a>(parsers: &[String], column: &'a str) -> &'a str {
    let is_of = |parser: &str| {
        // Parsers of parts of a protocol have the same columns: http_get, memcached_get; http2 and grpc have those of http.
        let has = |name: &String| match name.as_str() {
            "http2" | "grpc" => matches!(parser, "http2" | "http"),
            name => name == parser || name.strip_suffix("_get") == Some(parser),
        };
        parser == "*" || parsers.iter().any(has)
    };
    let found = OPEN_TELEMETRY
        .iter()
        .find(|(parser, name, _)| *name == column && is_of(parser));
    found.map_or(column, |(_, _, name)| name)
}

/// Converts to a valid Prometheus name.
pub fn for_prometheus(name: &str) -> String {
    let mut text: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, '_');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_names_of_open_telemetry() {
        for (parser, column, name) in [
            ("http", "url_template", "url.template"),
            ("http_get", "status", "http.response.status_code"),
            ("grpc", "grpc_status", "rpc.status_code"),
            ("http2", "status", "http.response.status_code"),
            ("nfs", "status", "error.type"),
            ("dns", "status", "status"),
            ("tcp_conn_time", "client_ip", "client.address"),
            (
                "http",
                "request_header.x_request_id",
                "request_header.x_request_id",
            ),
        ] {
            assert_eq!(attribute(&[parser.to_owned()], column), name);
        }
        assert_eq!(for_prometheus("url.template"), "url_template");
        assert_eq!(for_prometheus("2nd-x"), "_2nd_x");
    }
}

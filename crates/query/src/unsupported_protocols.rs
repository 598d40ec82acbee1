//! Protocols without a parser of the requested name: the parser's actual name, or that there is none yet, and the
//! available queries on their flows.

use std::sync::Arc;

use tuple::Schema;

/// A protocol and its names.
struct UnsupportedProtocol {
    /// Names in queries, in lowercase.
    said: &'static [&'static str],
    /// Common name.
    name: &'static str,
    /// Value of the column `application` of flows, and the name of a parser, should one be added.
    application: &'static str,
    /// The reason if it may never be supported.
    why: Option<&'static str>,
}

const ENCRYPTED: Option<&str> = Some("is encrypted and cannot be read without keys");

const PROTOCOLS: &[UnsupportedProtocol] = &[
    of(&["dns", "mdns"], "DNS", "dns"),
    of(&["redis", "resp", "valkey", "keydb"], "Redis", "redis"),
    UnsupportedProtocol {
        said: &["tls", "ssl"],
        name: "TLS",
        application: "tls",
        why: ENCRYPTED,
    },
    UnsupportedProtocol {
        said: &["https"],
        name: "HTTPS is HTTP over TLS, which",
        application: "tls",
        why: ENCRYPTED,
    },
    UnsupportedProtocol {
        said: &["quic", "http3", "h3"],
        name: "QUIC",
        application: "quic",
        why: ENCRYPTED,
    },
    UnsupportedProtocol {
        said: &["ssh", "sftp", "scp"],
        name: "SSH",
        application: "ssh",
        why: ENCRYPTED,
    },
    of(&["http2", "h2", "h2c", "grpc"], "HTTP/2", "http2"),
    of(
        &["postgres", "postgresql", "pgsql", "psql"],
        "PostgreSQL",
        "postgresql",
    ),
    of(&["mongo", "mongodb"], "MongoDB", "mongodb"),
    of(&["cassandra", "cql", "scylla"], "Cassandra", "cassandra"),
    of(&["kafka"], "Kafka", "kafka"),
    of(&["amqp", "rabbitmq"], "AMQP", "amqp"),
    of(&["mqtt"], "MQTT", "mqtt"),
    of(&["nats"], "NATS", "nats"),
    of(&["mssql", "sqlserver", "tds"], "SQL Server (TDS)", "tds"),
    of(&["oracle", "tns"], "Oracle (TNS)", "oracle"),
    of(&["smtp", "mail"], "SMTP", "smtp"),
    of(&["imap"], "IMAP", "imap"),
    of(&["pop3", "pop"], "POP3", "pop3"),
    of(&["ftp"], "FTP", "ftp"),
    of(&["smb", "cifs"], "SMB", "smb"),
    of(&["ldap"], "LDAP", "ldap"),
    of(&["kerberos"], "Kerberos", "kerberos"),
    of(&["sip"], "SIP", "sip"),
    of(&["ntp"], "NTP", "ntp"),
    of(&["dhcp", "bootp"], "DHCP", "dhcp"),
    of(&["snmp"], "SNMP", "snmp"),
    of(&["syslog"], "Syslog", "syslog"),
    of(&["netflow"], "NetFlow", "netflow"),
    of(&["rdp"], "RDP", "rdp"),
];

/// Aliases of parsers.
const PARSERS: &[(&str, &str)] = &[
    ("mysql", "mysql_query"),
    ("mariadb", "mysql_query"),
    ("sql", "mysql_query"),
    ("memcache", "memcached"),
    ("nfsv3", "nfs"),
    ("nfsv4", "nfs"),
    ("nfs4", "nfs"),
    ("portmap", "rpc"),
    ("flows", "flow"),
    ("conn", "flow"),
    ("netflows", "flow"),
    ("tcp", "tcp_conn_time"),
    ("connections", "tcp_conn_time"),
    ("packets", "packet"),
    ("ip", "packet"),
    ("frame", "packet"),
    ("icmp", "packet"),
    ("udp", "packet"),
];

const fn of(
    said: &'static [&'static str],
    name: &'static str,
    application: &'static str,
) -> UnsupportedProtocol {
    UnsupportedProtocol {
        said,
        name,
        application,
        why: None,
    }
}

/// Hint for the unknown parser `word`.
pub(crate) fn hint(word: &str, schemas: &[Arc<Schema>]) -> Option<String> {
    let word = word.to_lowercase();
    let parser = |name: &str| schemas.iter().find(|schema| schema.name == name);
    if let Some(meant) = PARSERS
        .iter()
        .find(|(said, _)| *said == word)
        .and_then(|(_, name)| parser(name))
    {
        return Some(format!("did you mean `{}`?", meant.name));
    }
    let UnsupportedProtocol {
        name,
        application,
        why,
        ..
    } = PROTOCOLS.iter().find(|p| p.said.contains(&word.as_str()))?;
    if let Some(meant) = parser(application) {
        return Some(match why {
            Some(why) if word != "ssl" => {
                format!("{name} {why}; `{}` reads its handshake", meant.name)
            }
            _ => format!("did you mean `{}`?", meant.name),
        });
    }
    let reason = why.map_or_else(|| "is not supported yet".to_owned(), str::to_owned);
    let flows = parser("flow").filter(|flow| flow.find("application").is_some());
    let instead = flows
        .map(|_| format!("; to count its flows: PARSE flow WHERE application = '{application}'"));
    Some(format!("{name} {reason}{}", instead.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use tuple::{DataType, Field, Unit};

    use super::*;

    #[test]
    fn every_name_has_an_answer() {
        let schema = |name: &'static str, fields: &[Field]| {
            Arc::new(Schema::of_parser(name, 1, "tests", fields, None, None))
        };
        let application = [Field::new(
            "application",
            DataType::Text,
            Unit::None,
            "what it speaks",
        )];
        let some = [
            schema("flow", &application),
            schema("http", &[]),
            schema("mysql_query", &[]),
        ];
        let more = [some.as_slice(), &[schema("tls", &[]), schema("redis", &[])]].concat();
        for (word, without, with) in [
            (
                "dns",
                "DNS is not supported yet; to count its flows: PARSE flow WHERE application = 'dns'",
                "DNS is not supported yet",
            ),
            (
                "Postgres",
                "PostgreSQL is not supported yet; to count its flows",
                "PostgreSQL is not supported yet",
            ),
            (
                "HTTPS",
                "HTTPS is HTTP over TLS, which is encrypted",
                "which is encrypted and cannot be read without keys; `tls` reads",
            ),
            (
                "ssl",
                "TLS is encrypted and cannot be read without keys; to count its flows",
                "did you mean `tls`?",
            ),
            (
                "resp",
                "Redis is not supported yet",
                "did you mean `redis`?",
            ),
            (
                "mariadb",
                "did you mean `mysql_query`?",
                "did you mean `mysql_query`?",
            ),
        ] {
            for (schemas, expected) in [(some.as_slice(), without), (more.as_slice(), with)] {
                let hint = hint(word, schemas).unwrap_or_default();
                assert!(hint.contains(expected), "{word}: {hint}");
            }
        }
        assert_eq!(hint("htp_get", &some), None);
    }
}

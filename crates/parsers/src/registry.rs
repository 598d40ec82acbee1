//! Registry of all parsers by name.

use std::sync::Arc;

use tuple::Schema;

use crate::flow_level::{flow_record, tcp_conn_time};
use crate::packet_level::{PacketParser, packet, tcp_flow_key, tcp_pkt_size};
use crate::{
    ProtocolDefinition, cassandra, dns, encrypted, http, http2, interface_counters, kafka,
    memcached, mongodb, mysql, nfs, postgresql, quic, redis, tls,
};

/// Input of a parser.
#[derive(Clone, Copy)]
pub enum ParserInput {
    /// The first packet of every TCP flow.
    FirstPackets(PacketParser),
    /// Every packet.
    Packets(PacketParser),
    /// Starts and ends of connections, for [`tcp_conn_time`].
    Connections,
    /// Flow records, for [`flow_record`].
    Flows,
    /// Counters of interfaces, for [`interface_counters`].
    Interfaces,
    /// Byte streams or datagrams of a protocol; the number is the parser's variant.
    Messages(&'static ProtocolDefinition, u8),
}

/// A parser by name.
pub struct ParserRegistration {
    /// Schema of the tuples, whose name is the parser's name.
    pub schema: fn() -> Schema,
    /// Input of the parser.
    pub reads: ParserInput,
}

/// Every parser.
pub const PARSERS: &[ParserRegistration] = &[
    ParserRegistration {
        schema: tcp_flow_key::schema,
        reads: ParserInput::FirstPackets(tcp_flow_key::on_first_packet),
    },
    ParserRegistration {
        schema: tcp_conn_time::schema,
        reads: ParserInput::Connections,
    },
    ParserRegistration {
        schema: tcp_pkt_size::schema,
        reads: ParserInput::Packets(tcp_pkt_size::on_packet),
    },
    ParserRegistration {
        schema: packet::schema,
        reads: ParserInput::Packets(packet::on_packet),
    },
    ParserRegistration {
        schema: flow_record::schema,
        reads: ParserInput::Flows,
    },
    ParserRegistration {
        schema: interface_counters::schema,
        reads: ParserInput::Interfaces,
    },
    ParserRegistration {
        schema: http::schema,
        reads: ParserInput::Messages(&http::PROTOCOL, http::ALL),
    },
    ParserRegistration {
        schema: http::schema_get,
        reads: ParserInput::Messages(&http::PROTOCOL, http::GET_ONLY),
    },
    ParserRegistration {
        schema: http2::schema,
        reads: ParserInput::Messages(&http2::PROTOCOL, http2::HTTP2),
    },
    ParserRegistration {
        schema: http2::schema_grpc,
        reads: ParserInput::Messages(&http2::PROTOCOL, http2::GRPC),
    },
    ParserRegistration {
        schema: mysql::schema,
        reads: ParserInput::Messages(&mysql::PROTOCOL, mysql::ALL),
    },
    ParserRegistration {
        schema: postgresql::schema,
        reads: ParserInput::Messages(&postgresql::PROTOCOL, postgresql::ALL),
    },
    ParserRegistration {
        schema: kafka::schema,
        reads: ParserInput::Messages(&kafka::PROTOCOL, kafka::ALL),
    },
    ParserRegistration {
        schema: cassandra::schema,
        reads: ParserInput::Messages(&cassandra::PROTOCOL, cassandra::ALL),
    },
    ParserRegistration {
        schema: mongodb::schema,
        reads: ParserInput::Messages(&mongodb::PROTOCOL, mongodb::ALL),
    },
    ParserRegistration {
        schema: memcached::schema,
        reads: ParserInput::Messages(&memcached::PROTOCOL, memcached::ALL),
    },
    ParserRegistration {
        schema: memcached::schema_get,
        reads: ParserInput::Messages(&memcached::PROTOCOL, memcached::GET_ONLY),
    },
    ParserRegistration {
        schema: redis::schema,
        reads: ParserInput::Messages(&redis::PROTOCOL, redis::ALL),
    },
    ParserRegistration {
        schema: nfs::schema,
        reads: ParserInput::Messages(&nfs::PROTOCOL, nfs::NFS_ONLY),
    },
    ParserRegistration {
        schema: nfs::schema_rpc,
        reads: ParserInput::Messages(&nfs::PROTOCOL, nfs::ALL),
    },
    ParserRegistration {
        schema: dns::schema,
        reads: ParserInput::Messages(&dns::PROTOCOL, dns::ALL),
    },
    ParserRegistration {
        schema: tls::schema,
        reads: ParserInput::Messages(&encrypted::PROTOCOL, tls::ALL),
    },
    ParserRegistration {
        schema: encrypted::schema,
        reads: ParserInput::Messages(&encrypted::PROTOCOL, encrypted::TURNS),
    },
    ParserRegistration {
        schema: quic::schema,
        reads: ParserInput::Messages(&quic::PROTOCOL, quic::ALL),
    },
];

/// Protocols whose tuples are those of the same parsers: `http` also has the requests of HTTP/2, and `http2` those of connections that
/// began with HTTP/1.
#[must_use]
pub fn of_same_parsers(protocol: &'static ProtocolDefinition) -> Vec<&'static ProtocolDefinition> {
    const HTTP: [&ProtocolDefinition; 2] = [&http::PROTOCOL, &http2::PROTOCOL];
    if HTTP.iter().any(|of_http| std::ptr::eq(*of_http, protocol)) {
        HTTP.to_vec()
    } else {
        vec![protocol]
    }
}

/// The schemas of all parsers, in the order of the list.
#[must_use]
pub fn schemas() -> Vec<Arc<Schema>> {
    PARSERS.iter().map(|p| Arc::new((p.schema)())).collect()
}

/// The schema of the parser named `name`.
#[must_use]
pub fn schema(name: &str) -> Option<Arc<Schema>> {
    find(name).map(|parser| Arc::new((parser.schema)()))
}

/// The parser named `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static ParserRegistration> {
    PARSERS.iter().find(|p| (p.schema)().name == name)
}

//! Registry of all parsers by name.

use std::sync::Arc;

use tuple::Schema;

use crate::flow_level::{flow_record, tcp_conn_time};
use crate::packet_level::{PacketParser, packet, tcp_flow_key, tcp_pkt_size};
use crate::{Protocol, dns, http, memcached, mysql, nfs, redis, tls};

/// Input of a parser.
#[derive(Clone, Copy)]
pub enum Reads {
    /// The first packet of every TCP flow.
    FirstPackets(PacketParser),
    /// Every packet.
    Packets(PacketParser),
    /// Starts and ends of connections, for [`tcp_conn_time`].
    Connections,
    /// Flow records, for [`flow_record`].
    Flows,
    /// Byte streams or datagrams of a protocol; the number is the parser's variant.
    Messages(&'static Protocol, u8),
}

/// A parser by name.
pub struct Registration {
    /// Its schema, whose name is the parser's name.
    pub schema: fn() -> Schema,
    /// Its input.
    pub reads: Reads,
}

/// Every parser.
pub const PARSERS: &[Registration] = &[
    Registration { schema: tcp_flow_key::schema, reads: Reads::FirstPackets(tcp_flow_key::on_first_packet) },
    Registration { schema: tcp_conn_time::schema, reads: Reads::Connections },
    Registration { schema: tcp_pkt_size::schema, reads: Reads::Packets(tcp_pkt_size::on_packet) },
    Registration { schema: packet::schema, reads: Reads::Packets(packet::on_packet) },
    Registration { schema: flow_record::schema, reads: Reads::Flows },
    Registration { schema: http::schema, reads: Reads::Messages(&http::PROTOCOL, http::ALL) },
    Registration { schema: http::schema_get, reads: Reads::Messages(&http::PROTOCOL, http::GET_ONLY) },
    Registration { schema: mysql::schema, reads: Reads::Messages(&mysql::PROTOCOL, mysql::ALL) },
    Registration { schema: memcached::schema, reads: Reads::Messages(&memcached::PROTOCOL, memcached::ALL) },
    Registration {
        schema: memcached::schema_get,
        reads: Reads::Messages(&memcached::PROTOCOL, memcached::GET_ONLY),
    },
    Registration { schema: redis::schema, reads: Reads::Messages(&redis::PROTOCOL, redis::ALL) },
    Registration { schema: nfs::schema, reads: Reads::Messages(&nfs::PROTOCOL, nfs::NFS_ONLY) },
    Registration { schema: nfs::schema_rpc, reads: Reads::Messages(&nfs::PROTOCOL, nfs::ALL) },
    Registration { schema: dns::schema, reads: Reads::Messages(&dns::PROTOCOL, dns::ALL) },
    Registration { schema: tls::schema, reads: Reads::Messages(&tls::PROTOCOL, tls::ALL) },
];

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
pub fn find(name: &str) -> Option<&'static Registration> {
    PARSERS.iter().find(|p| (p.schema)().name == name)
}

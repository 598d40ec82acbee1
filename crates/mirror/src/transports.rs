//! The transport protocols that the parsers of a plan read.

use plan::MonitorSpec;

use crate::packets::field::{TCP, UDP};

/// Transport protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transports {
    /// TCP only.
    Tcp,
    /// TCP and UDP.
    TcpUdp,
    /// Any IP protocol.
    AnyIp,
}

impl Transports {
    /// Protocols of all parsers of a plan.
    #[must_use]
    pub fn of(spec: &MonitorSpec) -> Transports {
        let of = |name: &str| match name {
            "tcp_flow_key" | "tcp_conn_time" | "tcp_pkt_size" | "http" | "http_get" | "http2"
            | "grpc" | "mysql_query" | "postgresql" | "mongodb" | "cassandra" | "kafka"
            | "redis" | "tls" | "encrypted" => Transports::Tcp,
            "packet" => Transports::AnyIp,
            _ => Transports::TcpUdp,
        };
        spec.parsers
            .iter()
            .map(|parser| of(&parser.schema.name))
            .max()
            .unwrap_or(Transports::AnyIp)
    }

    /// IP protocol numbers; `None`: any.
    pub(crate) fn protocols(self, has_ports: bool) -> &'static [Option<u128>] {
        match (self, has_ports) {
            (Transports::Tcp, _) => &[Some(TCP)],
            (Transports::TcpUdp, _) | (Transports::AnyIp, true) => &[Some(TCP), Some(UDP)],
            (Transports::AnyIp, false) => &[None],
        }
    }
}

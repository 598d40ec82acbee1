//! The identity of an exporting process.

use std::fmt;
use std::net::IpAddr;

/// Protocol of export datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ExportProtocol {
    /// sFlow version 5.
    Sflow5,
    /// NetFlow version 5.
    Netflow5,
    /// NetFlow version 9.
    Netflow9,
    /// IPFIX, version 10.
    Ipfix,
}

impl ExportProtocol {
    /// The name in rows: `sflow`, `netflow5`, `netflow9`, `ipfix`.
    pub fn name(self) -> &'static str {
        match self {
            ExportProtocol::Sflow5 => "sflow",
            ExportProtocol::Netflow5 => "netflow5",
            ExportProtocol::Netflow9 => "netflow9",
            ExportProtocol::Ipfix => "ipfix",
        }
    }
}

impl ExportProtocol {
    pub(crate) fn from_name(name: &str) -> Option<ExportProtocol> {
        use ExportProtocol::{Ipfix, Netflow5, Netflow9, Sflow5};
        [Sflow5, Netflow5, Netflow9, Ipfix]
            .into_iter()
            .find(|protocol| protocol.name() == name)
    }
}

impl fmt::Display for ExportProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One observation domain in one transport session of an exporter: the scope of templates and sequence numbers
/// (RFC 7011 section 8). The processes of one router share an address and number their templates independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExportDomain {
    /// Sender of the datagrams; for sFlow, the agent's address in the datagram.
    pub exporter: IpAddr,
    /// Source port of the datagrams; 0 for sFlow, whose agents identify themselves.
    pub port: u16,
    /// Protocol; each has its own numbers of domains.
    pub protocol: ExportProtocol,
    /// IPFIX observation domain, NetFlow v9 source, NetFlow v5 engine type and engine (`type << 8 | engine`), or sFlow
    /// sub-agent.
    pub id: u32,
}

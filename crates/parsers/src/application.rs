//! Names of application protocols by the first bytes of either side, including protocols without a parser.
//! Used for the column `application` of flows and for the statistics of unread flows. One table line per
//! protocol.
//!
//! A signature checks for bytes that few other protocols have in the same position. A weaker signature also
//! requires the usual port or a matching length. No name is preferred to a wrong one.

mod bytes;
mod databases;
mod datagrams;
mod services;

use std::sync::Arc;

use self::bytes::{begins, either, on_usual_port};
use crate::registry::{PARSERS, ParserInput};
use crate::{ProbeContext, ProbeResult, ProtocolDefinition};

/// Recognition rule of a protocol.
#[derive(Clone, Copy)]
pub struct Signature {
    /// Name of the protocol.
    pub name: &'static str,
    /// Usual server ports.
    pub ports: &'static [u16],
    /// Transport.
    pub over: TransportSet,
    /// Probe function; see [`ProtocolDefinition::probe`].
    pub probe: fn(&[u8], ProbeContext) -> ProbeResult,
    /// Whether a parser exists.
    pub known: RecognitionLevel,
}

/// Level of support for a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecognitionLevel {
    /// A parser reads it; recognition waits for more bytes if they may begin one of its messages.
    Read,
    /// Recognized by name only.
    Named,
}

/// Transport protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportSet {
    /// TCP byte stream.
    Tcp,
    /// UDP datagrams.
    Udp,
    /// TCP or UDP.
    Both,
}

impl From<&ProtocolDefinition> for Signature {
    fn from(protocol: &ProtocolDefinition) -> Signature {
        let over = match (protocol.tcp, protocol.udp) {
            (true, true) => TransportSet::Both,
            (false, true) => TransportSet::Udp,
            _ => TransportSet::Tcp,
        };
        Signature {
            name: protocol.name,
            ports: protocol.ports,
            over,
            probe: protocol.probe,
            known: RecognitionLevel::Read,
        }
    }
}

/// All signatures except those of `read`, which are probed first: protocols with other parsers, then
/// protocols recognized by name only. The latter include some that also have a parser, if its probe needs
/// more bytes than a name does.
#[must_use]
pub fn signatures(read: &[&'static ProtocolDefinition]) -> Vec<Signature> {
    let mut protocols: Vec<&'static ProtocolDefinition> = Vec::new();
    for registration in PARSERS {
        if let ParserInput::Messages(protocol, _) = registration.reads
            && !protocols.iter().any(|known| std::ptr::eq(*known, protocol))
        {
            protocols.push(protocol);
        }
    }
    let others = protocols
        .iter()
        .filter(|p| !read.iter().any(|r| std::ptr::eq(*r, **p)));
    others
        .map(|protocol| Signature::from(*protocol))
        .chain(NAMED.iter().copied())
        .collect()
}

/// Server ports of all recognized protocols, ascending; without ephemeral ports.
#[must_use]
pub fn server_ports() -> Arc<[u16]> {
    const EPHEMERAL: u16 = 32768;
    let ports = signatures(&[])
        .into_iter()
        .flat_map(|signature| signature.ports)
        .copied();
    let mut ports: Vec<u16> = ports.filter(|port| *port < EPHEMERAL).collect();
    ports.sort_unstable();
    ports.dedup();
    ports.into()
}

/// Protocols recognized by name only.
pub const NAMED: &[Signature] = &[
    tcp(
        "tls",
        &[443, 465, 636, 853, 990, 993, 995, 8443],
        services::tls,
    ),
    tcp("http2", &[80, 8080, 50051], services::http2),
    tcp("ssh", &[22], |b, _| begins(b, &[b"SSH-2.", b"SSH-1."])),
    tcp("postgresql", &[5432, 5433, 6432], databases::postgresql),
    tcp("redis", &[6379, 6380, 26379], databases::redis),
    tcp("mongodb", &[27017, 27018, 27019], databases::mongodb),
    tcp("cassandra", &[9042, 9142], databases::cassandra),
    tcp("kafka", &[9092, 9093, 9094], databases::kafka),
    tcp("tds", &[1433], databases::tds),
    tcp("oracle", &[1521], databases::oracle),
    tcp("smtp", &[25, 465, 587, 2525], services::smtp),
    tcp("ftp", &[21, 2121], services::ftp),
    tcp("pop3", &[110], |b, c| {
        on_usual_port(c, begins(b, &[b"+OK"]))
    }),
    tcp("imap", &[143], |b, c| {
        either(
            begins(b, &[b"* OK IMAP", b"* OK [CAPABILITY IMAP"]),
            on_usual_port(c, begins(b, &[b"* OK"])),
        )
    }),
    tcp("amqp", &[5672], |b, _| {
        begins(b, &[b"AMQP\0", b"AMQP\x01", b"AMQP\x02", b"AMQP\x03"])
    }),
    tcp("mqtt", &[1883], services::mqtt),
    tcp("nats", &[4222], |b, _| {
        begins(b, &[b"INFO {\"", b"CONNECT {\""])
    }),
    tcp("smb", &[445, 139], services::smb),
    both("ldap", &[389, 3268], services::ldap),
    tcp("rdp", &[3389], services::rdp),
    tcp("vnc", &[5900, 5901], |b, _| {
        begins(b, &[b"RFB 003.", b"RFB 004."])
    }),
    tcp("bgp", &[179], services::bgp),
    tcp("dcerpc", &[135], services::dcerpc),
    tcp("bittorrent", &[6881], |b, _| {
        begins(b, &[b"\x13BitTorrent protocol"])
    }),
    tcp("xmpp", &[5222, 5269], |b, _| {
        begins(
            b,
            &[b"<stream:stream", b"<?xml version='1.0'?><stream:stream"],
        )
    }),
    tcp("telnet", &[23], |b, c| {
        on_usual_port(c, services::telnet(b))
    }),
    tcp("rsync", &[873], |b, _| begins(b, &[b"@RSYNCD:"])),
    tcp("iec104", &[2404], |b, c| {
        on_usual_port(c, services::iec104(b))
    }),
    tcp("dnp3", &[20000], |b, c| {
        on_usual_port(c, begins(b, &[b"\x05\x64"]))
    }),
    tcp("modbus", &[502], |b, c| {
        on_usual_port(c, services::modbus(b))
    }),
    both("netbios", &[137], datagrams::netbios),
    udp("netbios", &[138], |b, c| {
        on_usual_port(c, datagrams::netbios_datagram(b))
    }),
    both("dns", &[53, 5353, 5355], datagrams::dns),
    both("kerberos", &[88], |b, c| {
        on_usual_port(c, datagrams::kerberos(b, c.transport))
    }),
    both("sip", &[5060, 5061], services::sip),
    both("rtsp", &[554, 8554], services::rtsp),
    both("stun", &[3478], datagrams::stun),
    udp("quic", &[443], datagrams::quic),
    udp("dtls", &[], datagrams::dtls),
    udp("dhcp", &[67, 68], datagrams::dhcp),
    udp("dhcpv6", &[546, 547], |b, c| {
        on_usual_port(c, datagrams::dhcpv6(b))
    }),
    udp("ntp", &[123], |b, c| on_usual_port(c, datagrams::ntp(b))),
    udp("snmp", &[161, 162], datagrams::snmp),
    udp("ssdp", &[1900], |b, _| {
        begins(b, &[b"M-SEARCH * HTTP/1.1", b"NOTIFY * HTTP/1.1"])
    }),
    udp("syslog", &[514], |b, c| {
        on_usual_port(c, datagrams::syslog(b))
    }),
    udp("radius", &[1812, 1813], |b, c| {
        on_usual_port(c, datagrams::radius(b))
    }),
    udp("tftp", &[69], |b, c| on_usual_port(c, datagrams::tftp(b))),
    udp("coap", &[5683], |b, c| on_usual_port(c, datagrams::coap(b))),
    udp("wireguard", &[51820], datagrams::wireguard),
    udp("netflow", &[2055, 9995, 9996], datagrams::netflow),
    udp("ipfix", &[4739, 2055, 9995], datagrams::ipfix),
    udp("sflow", &[6343], |b, c| {
        on_usual_port(c, begins(b, &[b"\0\0\0\x05\0\0\0"]))
    }),
];

const fn tcp(
    name: &'static str,
    ports: &'static [u16],
    probe: fn(&[u8], ProbeContext) -> ProbeResult,
) -> Signature {
    Signature {
        name,
        ports,
        over: TransportSet::Tcp,
        probe,
        known: RecognitionLevel::Named,
    }
}

const fn udp(
    name: &'static str,
    ports: &'static [u16],
    probe: fn(&[u8], ProbeContext) -> ProbeResult,
) -> Signature {
    Signature {
        name,
        ports,
        over: TransportSet::Udp,
        probe,
        known: RecognitionLevel::Named,
    }
}

const fn both(
    name: &'static str,
    ports: &'static [u16],
    probe: fn(&[u8], ProbeContext) -> ProbeResult,
) -> Signature {
    Signature {
        name,
        ports,
        over: TransportSet::Both,
        probe,
        known: RecognitionLevel::Named,
    }
}

#[cfg(test)]
mod tests;

//! `flow` tuples of flow records of exporters (NetFlow, IPFIX), which are null where the record says nothing.

use tuple::{TupleWriter, common};
use wire::{Addr, Endpoint, IpProtocol, Timestamp, Tunnel};

use crate::FlowContext;
use crate::community_id::community_id;
use crate::flow_level::flow_record;
use crate::output::write_transport;

/// Exporter of a record or sample.
#[derive(Clone, Copy, Debug)]
pub struct ExportOrigin {
    /// Its address.
    pub exporter: Addr,
    /// Observation domain, source, or sub-agent.
    pub domain: u32,
    /// Origin of the sampling rate: `record`, `options`, or `assumed`.
    pub rate_from: &'static str,
    /// Interface that receives the packets.
    pub input: Option<u32>,
    /// Interface that sends the packets.
    pub output: Option<u32>,
}

/// One side of an exported flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportedEnd {
    /// Address.
    pub addr: Option<Addr>,
    /// Port.
    pub port: Option<u16>,
    /// Packets that this side sent, estimated.
    pub packets: Option<u64>,
    /// Bytes of these packets, estimated.
    pub bytes: Option<u64>,
    /// Autonomous system.
    pub autonomous_system: Option<u32>,
    /// Ethernet address.
    pub mac: Option<[u8; 6]>,
}

/// A flow record of an exporter.
#[derive(Clone, Copy, Debug)]
pub struct ExportedRecord {
    /// Identifier of the flow.
    pub id: u64,
    /// The exporter.
    pub origin: ExportOrigin,
    /// The client, or the sender if no side is known as the server.
    pub client: ExportedEnd,
    /// The server.
    pub server: ExportedEnd,
    /// Whether the client is a guess by ports.
    pub client_guessed: bool,
    /// IP protocol.
    pub protocol: Option<IpProtocol>,
    /// VLAN identifier.
    pub vlan: Option<u16>,
    /// Time of the first packet; that of the export if the record has none.
    pub first_ts: Timestamp,
    /// Time from the first to the last packet.
    pub duration_ns: Option<i64>,
    /// Time of reception.
    pub now: Timestamp,
    /// Share of packets that the counters are estimated from, 0 < rate ≤ 1.
    pub packet_rate: f64,
    /// Flags of all packets.
    pub tcp_flags: Option<u16>,
    /// Reason for the record, as in the column `reason`.
    pub reason: Option<&'static str>,
    /// Mean, smallest, and largest one-way delay (RFC 9951).
    pub path_delay_ns: [Option<u64>; 3],
}

/// Writes the `flow` tuple of a record. The caller has written columns of private elements before.
pub fn write_record(w: &mut TupleWriter, record: &ExportedRecord) {
    let origin = &record.origin;
    w.u64(common::ID, record.id);
    w.i64(common::TS, record.first_ts.0);
    w.i64(common::TS_END, record.now.0);
    w.f64(common::SAMPLE_RATE, 1.0);
    w.bool(common::CLIENT_GUESSED, record.client_guessed);
    for (id, end) in [
        (common::CLIENT_IP, &record.client),
        (common::SERVER_IP, &record.server),
    ] {
        if let Some(addr) = &end.addr {
            w.ip(id, &addr.0);
        }
    }
    if let Some(protocol) = record.protocol {
        write_transport(w, protocol);
        if w.wants(common::COMMUNITY_ID)
            && let Some(flow) = context(record, protocol)
        {
            w.text(common::COMMUNITY_ID, community_id(&flow).as_bytes());
        }
    }
    w.ip(flow_record::EXPORTER, &origin.exporter.0);
    w.text(flow_record::RATE_FROM, origin.rate_from.as_bytes());
    w.f64(flow_record::PACKET_RATE, record.packet_rate);
    let (client, server) = (&record.client, &record.server);
    for (id, value) in [
        (common::CLIENT_PORT, client.port.map(u64::from)),
        (common::SERVER_PORT, server.port.map(u64::from)),
        (common::VLAN_ID, record.vlan.map(u64::from)),
        (flow_record::CLIENT_PACKETS, client.packets),
        (flow_record::SERVER_PACKETS, server.packets),
        (flow_record::CLIENT_BYTES, client.bytes),
        (flow_record::SERVER_BYTES, server.bytes),
        (
            flow_record::OBSERVATION_DOMAIN,
            Some(u64::from(origin.domain)),
        ),
        (flow_record::INPUT_INTERFACE, origin.input.map(u64::from)),
        (flow_record::OUTPUT_INTERFACE, origin.output.map(u64::from)),
        (flow_record::TCP_FLAGS, record.tcp_flags.map(u64::from)),
        (
            flow_record::CLIENT_AS,
            client.autonomous_system.map(u64::from),
        ),
        (
            flow_record::SERVER_AS,
            server.autonomous_system.map(u64::from),
        ),
    ] {
        if let Some(value) = value {
            w.u64(id, value);
        }
    }
    let delays = [
        flow_record::PATH_DELAY_NS,
        flow_record::PATH_DELAY_MIN_NS,
        flow_record::PATH_DELAY_MAX_NS,
    ]
    .into_iter()
    .zip(record.path_delay_ns)
    .map(|(id, ns)| (id, ns.and_then(|ns| i64::try_from(ns).ok())));
    for (id, value) in [(flow_record::DURATION_NS, record.duration_ns)]
        .into_iter()
        .chain(delays)
    {
        if let Some(value) = value {
            w.i64(id, value);
        }
    }
    for (id, mac) in [
        (flow_record::CLIENT_MAC, client.mac),
        (flow_record::SERVER_MAC, server.mac),
    ] {
        if let Some(mac) = mac.filter(|_| w.wants(id)) {
            w.text(id, mac_text(mac).as_bytes());
        }
    }
    if let Some(reason) = record.reason {
        w.text(flow_record::REASON, reason.as_bytes());
    }
    w.end_row();
}

/// The flow of a record that names its ends.
fn context(record: &ExportedRecord, protocol: IpProtocol) -> Option<FlowContext> {
    let end = |end: &ExportedEnd| {
        Some(Endpoint {
            addr: end.addr?,
            port: end.port?,
        })
    };
    Some(FlowContext {
        id: record.id,
        client: end(&record.client)?,
        server: end(&record.server)?,
        protocol,
        client_guessed: record.client_guessed,
        midstream: false,
        sample_rate: 1.0,
        tunnel: Tunnel::default(),
        vlan: record.vlan,
        proxied: None,
    })
}

/// An Ethernet address in lowercase hexadecimal, with colons.
fn mac_text(mac: [u8; 6]) -> String {
    let [a, b, c, d, e, f] = mac;
    format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
}

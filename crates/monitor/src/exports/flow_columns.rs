//! `flow` tuples of flow records of exporters (NetFlow, IPFIX), with null for columns that the record lacks. Only
//! columns that the query reads are computed.

use std::net::IpAddr;

use flow::flow_id;
use parsers::FlowContext;
use parsers::community_id::community_id;
use parsers::flow_level::flow_record;
use parsers::output::write_transport;
use telemetry::{ExportedFlow, SamplingRate};
use tuple::{FieldId, TupleWriter, common};
use wire::{Addr, Endpoint, FiveTuple, IpProtocol, Timestamp, Tunnel};

/// Bits of TCP flags.
const FIN: u16 = 1;
const RST: u16 = 4;

/// A flow record with client and server.
#[derive(Clone, Copy)]
pub(super) struct FlowRow<'a> {
    pub flow: &'a ExportedFlow<'a>,
    /// Whether the sender is the client.
    pub is_from_client: bool,
    /// Time of the first packet by the receiver's clock; that of the export if the record has none.
    pub first_ts: Timestamp,
    /// Time of reception.
    pub now: Timestamp,
}

/// Writes one column.
type WriteColumn = fn(&mut TupleWriter, FieldId, &FlowRow<'_>);

/// Columns of a writer that flow records fill.
pub(super) struct FlowColumns(Vec<(FieldId, WriteColumn)>);

const COLUMNS: &[(FieldId, WriteColumn)] = &[
    (common::ID, |w, id, row| w.u64(id, row.id())),
    (common::TS, |w, id, row| w.i64(id, row.first_ts.0)),
    (common::TS_END, |w, id, row| w.i64(id, row.now.0)),
    (common::SAMPLE_RATE, |w, id, _| w.f64(id, 1.0)),
    (common::CLIENT_GUESSED, |w, id, row| {
        w.bool(id, !row.is_biflow());
    }),
    (common::CLIENT_IP, |w, id, row| {
        address(w, id, row.client(row.addresses()));
    }),
    (common::SERVER_IP, |w, id, row| {
        address(w, id, row.server(row.addresses()));
    }),
    (common::CLIENT_PORT, |w, id, row| {
        number(w, id, row.client(row.ports()));
    }),
    (common::SERVER_PORT, |w, id, row| {
        number(w, id, row.server(row.ports()));
    }),
    (common::TRANSPORT, |w, _, row| {
        if let Some(protocol) = row.flow.protocol {
            write_transport(w, IpProtocol(protocol));
        }
    }),
    (common::COMMUNITY_ID, |w, id, row| {
        if let Some(flow) = row.context() {
            let text = community_id(flow.protocol, [flow.client, flow.server]);
            w.text(id, text.as_bytes());
        }
    }),
    (common::VLAN_ID, |w, id, row| number(w, id, row.flow.vlan)),
    (flow_record::EXPORTER, |w, id, row| {
        address(w, id, Some(row.flow.domain.exporter));
    }),
    (flow_record::OBSERVATION_DOMAIN, |w, id, row| {
        w.u64(id, row.flow.domain.id.into());
    }),
    (flow_record::RATE_FROM, |w, id, row| {
        w.text(id, rate_from(row.flow).as_bytes());
    }),
    (flow_record::PACKET_RATE, |w, id, row| {
        w.f64(id, 1.0 / rate(row.flow).max(1.0));
    }),
    (flow_record::CLIENT_PACKETS, |w, id, row| {
        number(w, id, row.scaled(row.client(row.packets())));
    }),
    (flow_record::SERVER_PACKETS, |w, id, row| {
        number(w, id, row.scaled(row.server(row.packets())));
    }),
    (flow_record::CLIENT_BYTES, |w, id, row| {
        number(w, id, row.scaled(row.client(row.bytes())));
    }),
    (flow_record::SERVER_BYTES, |w, id, row| {
        number(w, id, row.scaled(row.server(row.bytes())));
    }),
    (flow_record::INPUT_INTERFACE, |w, id, row| {
        number(w, id, row.client([row.flow.input, row.flow.output]));
    }),
    (flow_record::OUTPUT_INTERFACE, |w, id, row| {
        number(w, id, row.server([row.flow.input, row.flow.output]));
    }),
    (flow_record::TCP_FLAGS, |w, id, row| {
        number(w, id, row.flow.tcp_flags);
    }),
    (flow_record::CLIENT_AS, |w, id, row| {
        number(w, id, row.client(row.systems()));
    }),
    (flow_record::SERVER_AS, |w, id, row| {
        number(w, id, row.server(row.systems()));
    }),
    (flow_record::CLIENT_MAC, |w, id, row| {
        mac(w, id, row.client(row.macs()));
    }),
    (flow_record::SERVER_MAC, |w, id, row| {
        mac(w, id, row.server(row.macs()));
    }),
    (flow_record::DURATION_NS, |w, id, row| {
        if let Some((start, end)) = row.flow.start.zip(row.flow.end)
            && end >= start
        {
            w.i64(id, end.since(start));
        }
    }),
    (flow_record::PATH_DELAY_NS, |w, id, row| {
        delay(w, id, row.flow.path_delay_mean_ns);
    }),
    (flow_record::PATH_DELAY_MIN_NS, |w, id, row| {
        delay(w, id, row.flow.path_delay_min_ns);
    }),
    (flow_record::PATH_DELAY_MAX_NS, |w, id, row| {
        delay(w, id, row.flow.path_delay_max_ns);
    }),
    (flow_record::REASON, |w, id, row| {
        if let Some(reason) = reason(row.flow) {
            w.text(id, reason.as_bytes());
        }
    }),
];

impl FlowColumns {
    pub fn of(w: &TupleWriter) -> FlowColumns {
        let wanted = COLUMNS.iter().filter(|(id, _)| w.wants(*id));
        FlowColumns(wanted.copied().collect())
    }

    /// Writes the tuple of a record. The caller has written columns of private elements before.
    pub fn write(&self, w: &mut TupleWriter, row: &FlowRow<'_>) {
        for (id, write) in &self.0 {
            write(w, *id, row);
        }
        w.end_row();
    }
}

impl FlowRow<'_> {
    /// The value of the client, of those of sender and receiver.
    fn client<T>(&self, [sender, receiver]: [T; 2]) -> T {
        if self.is_from_client {
            sender
        } else {
            receiver
        }
    }

    fn server<T>(&self, [sender, receiver]: [T; 2]) -> T {
        self.client([receiver, sender])
    }

    fn is_biflow(&self) -> bool {
        is_biflow(self.flow)
    }

    fn addresses(&self) -> [Option<IpAddr>; 2] {
        [self.flow.source, self.flow.destination]
    }

    fn ports(&self) -> [Option<u16>; 2] {
        [self.flow.source_port, self.flow.destination_port]
    }

    fn systems(&self) -> [Option<u32>; 2] {
        [self.flow.source_as, self.flow.destination_as]
    }

    fn macs(&self) -> [Option<[u8; 6]>; 2] {
        [self.flow.source_mac, self.flow.destination_mac]
    }

    /// Packets of each side that were counted.
    fn packets(&self) -> [Option<u64>; 2] {
        [self.flow.packets, self.flow.reverse_packets]
    }

    /// Bytes of these packets.
    fn bytes(&self) -> [Option<u64>; 2] {
        let sent = self.flow.bytes.or(self.flow.layer2_bytes);
        [sent, self.flow.reverse_bytes]
    }

    /// A count times the sampling rate, rounded.
    fn scaled(&self, count: Option<u64>) -> Option<u64> {
        let rate = rate(self.flow);
        if rate == 1.0 {
            count
        } else {
            count.map(|count| (count as f64 * rate).round() as u64)
        }
    }

    /// Endpoints of client and server; unknown addresses and ports are zero.
    pub fn ends(&self) -> [Endpoint; 2] {
        let ends = ends(self.flow);
        [self.client(ends), self.server(ends)]
    }

    fn id(&self) -> u64 {
        let [src, dst] = ends(self.flow);
        let key = FiveTuple {
            src,
            dst,
            protocol: IpProtocol(self.flow.protocol.unwrap_or(0)),
        };
        flow_id(&key.flow_key().0, self.first_ts)
    }

    /// The flow, if the record names its ends.
    fn context(&self) -> Option<FlowContext> {
        let [source, destination] = self.addresses();
        let [from, to] = self.ports();
        source.and(destination).and(from).and(to)?;
        let [client, server] = self.ends();
        Some(FlowContext {
            id: 0,
            client,
            server,
            protocol: IpProtocol(self.flow.protocol?),
            client_guessed: true,
            midstream: false,
            sample_rate: 1.0,
            tunnel: Tunnel::default(),
            vlan: None,
            proxied: None,
            decrypted: None,
        })
    }
}

/// Whether the record has counters of both directions; the sender is then the client.
pub(super) fn is_biflow(flow: &ExportedFlow<'_>) -> bool {
    flow.reverse_packets.or(flow.reverse_bytes).is_some()
}

/// The column `rate_from`.
pub(super) fn rate_from(flow: &ExportedFlow<'_>) -> &'static str {
    flow.rate
        .map_or("assumed", |rate: SamplingRate| rate.source.name())
}

/// One of how many packets is counted.
fn rate(flow: &ExportedFlow<'_>) -> f64 {
    flow.rate.map_or(1.0, |rate| rate.packets)
}

/// Sender and receiver; unknown addresses and ports are zero.
fn ends(flow: &ExportedFlow<'_>) -> [Endpoint; 2] {
    let end = |ip: Option<IpAddr>, port: Option<u16>| Endpoint {
        addr: ip.map(Addr::from).unwrap_or_default(),
        port: port.unwrap_or(0),
    };
    [
        end(flow.source, flow.source_port),
        end(flow.destination, flow.destination_port),
    ]
}

fn number<T: Into<u64>>(w: &mut TupleWriter, id: FieldId, value: Option<T>) {
    if let Some(value) = value {
        w.u64(id, value.into());
    }
}

fn delay(w: &mut TupleWriter, id: FieldId, ns: Option<u64>) {
    if let Some(ns) = ns.and_then(|ns| i64::try_from(ns).ok()) {
        w.i64(id, ns);
    }
}

fn address(w: &mut TupleWriter, id: FieldId, ip: Option<IpAddr>) {
    if let Some(ip) = ip {
        w.ip(id, &Addr::from(ip).0);
    }
}

/// An Ethernet address in lowercase hexadecimal, with colons.
fn mac(w: &mut TupleWriter, id: FieldId, mac: Option<[u8; 6]>) {
    if let Some([a, b, c, d, e, f]) = mac {
        let text = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        w.text(id, text.as_bytes());
    }
}

/// The reason of a record (element 136), in the words of the column `reason`.
fn reason(flow: &ExportedFlow<'_>) -> Option<&'static str> {
    match (flow.end_reason?, flow.tcp_flags.unwrap_or(0)) {
        (1, _) => Some("idle"),
        (2, _) => Some("active_timeout"),
        (3, flags) if flags & RST != 0 => Some("rst"),
        (3, flags) if flags & FIN != 0 => Some("fin"),
        (4, _) => Some("end_of_input"),
        (5, _) => Some("evicted"),
        _ => None,
    }
}

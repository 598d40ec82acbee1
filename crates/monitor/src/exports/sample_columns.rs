//! Columns of `packet` that an exporter adds to a sampled packet. Only those that the query reads are computed.

use std::net::IpAddr;

use parsers::packet_level::packet;
use telemetry::{SampleContext, SampleInterface, SampleTunnel};
use tuple::{FieldId, TupleWriter};
use wire::Addr;

/// Exporter of a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct ExportOrigin {
    /// Address of the exporter.
    pub exporter: Addr,
    /// Observation domain, source, or sub-agent.
    pub domain: u32,
    /// Origin of the sampling rate: `record`, `options`, `query`, or `assumed`.
    pub rate_from: &'static str,
    /// Interface that receives the packets.
    pub input: Option<u32>,
    /// Interface that sends the packets.
    pub output: Option<u32>,
}

/// A sample without its packet.
#[derive(Clone, Copy)]
pub(super) struct SampleRow<'a> {
    /// The exporter.
    pub origin: ExportOrigin,
    /// Reason of a discard.
    pub discard_reason: Option<u32>,
    /// Data of an sFlow agent.
    pub context: Option<&'a SampleContext<'a>>,
}

/// Writes one column.
type WriteColumn = fn(&mut TupleWriter, FieldId, &SampleRow<'_>);

/// Columns of a writer that samples fill.
pub(super) struct SampleColumns(Vec<(FieldId, WriteColumn)>);

const COLUMNS: &[(FieldId, WriteColumn)] = &[
    (packet::EXPORTER, |w, id, row| {
        w.ip(id, &row.origin.exporter.0);
    }),
    (packet::OBSERVATION_DOMAIN, |w, id, row| {
        w.u64(id, row.origin.domain.into());
    }),
    (packet::RATE_FROM, |w, id, row| {
        w.text(id, row.origin.rate_from.as_bytes());
    }),
    (packet::INPUT_INTERFACE, |w, id, row| {
        number(w, id, row.origin.input);
    }),
    (packet::OUTPUT_INTERFACE, |w, id, row| {
        number(w, id, row.origin.output);
    }),
    (packet::DISCARD_REASON, |w, id, row| {
        number(w, id, row.discard_reason);
    }),
    (packet::QUEUE_BYTES, |w, id, row| {
        number(w, id, row.of(|of| of.queue_bytes));
    }),
    (packet::INPUT_VLAN, |w, id, row| {
        number(w, id, row.of(|of| vlan(of.input_vlan)));
    }),
    (packet::OUTPUT_VLAN, |w, id, row| {
        number(w, id, row.of(|of| vlan(of.output_vlan)));
    }),
    (packet::INPUT_VNI, |w, id, row| {
        number(w, id, row.of(|of| of.input_tunnel.vni));
    }),
    (packet::OUTPUT_VNI, |w, id, row| {
        number(w, id, row.of(|of| of.output_tunnel.vni));
    }),
    (packet::TRANSIT_DELAY_NS, |w, id, row| {
        if let Some(ns) = row.of(|of| of.transit_delay_ns) {
            w.i64(id, ns.into());
        }
    }),
    (packet::VLAN_STACK, |w, id, row| {
        text(w, id, row.of(|of| of.vlan_stack));
    }),
    (packet::INPUT_TUNNEL_SRC_IP, |w, id, row| {
        address(w, id, row.of(|of| end(&of.input_tunnel, 0)));
    }),
    (packet::INPUT_TUNNEL_DST_IP, |w, id, row| {
        address(w, id, row.of(|of| end(&of.input_tunnel, 1)));
    }),
    (packet::OUTPUT_TUNNEL_SRC_IP, |w, id, row| {
        address(w, id, row.of(|of| end(&of.output_tunnel, 0)));
    }),
    (packet::OUTPUT_TUNNEL_DST_IP, |w, id, row| {
        address(w, id, row.of(|of| end(&of.output_tunnel, 1)));
    }),
    (packet::NEXT_HOP, |w, id, row| {
        address(w, id, row.of(|of| of.route?.next_hop));
    }),
    (packet::SRC_PREFIX_LENGTH, |w, id, row| {
        number(w, id, row.of(|of| Some(of.route?.source_prefix_len)));
    }),
    (packet::DST_PREFIX_LENGTH, |w, id, row| {
        number(w, id, row.of(|of| Some(of.route?.destination_prefix_len)));
    }),
    (packet::BGP_NEXT_HOP, |w, id, row| {
        address(w, id, row.of(|of| of.gateway?.next_hop));
    }),
    (packet::SRC_AS, |w, id, row| {
        number(w, id, row.of(|of| Some(of.gateway?.source_as)));
    }),
    (packet::SRC_PEER_AS, |w, id, row| {
        number(w, id, row.of(|of| Some(of.gateway?.source_peer_as)));
    }),
    (packet::DST_AS, |w, id, row| {
        number(w, id, row.of(|of| of.gateway?.path.last));
    }),
    (packet::DST_PEER_AS, |w, id, row| {
        number(w, id, row.of(|of| of.gateway?.path.first));
    }),
    (packet::AS_PATH, |w, id, row| {
        text(w, id, row.of(|of| Some(of.gateway?.path)));
    }),
];

impl<'a> SampleRow<'a> {
    /// An sFlow sample.
    pub fn of_sflow(
        context: &'a SampleContext<'a>,
        rate_from: &'static str,
        discard_reason: Option<u32>,
    ) -> SampleRow<'a> {
        let discarded = match context.output {
            SampleInterface::Discarded(reason) => Some(reason),
            _ => None,
        };
        SampleRow {
            origin: ExportOrigin {
                exporter: context.domain.exporter.into(),
                domain: context.domain.id,
                rate_from,
                input: interface(context.input),
                output: interface(context.output),
            },
            discard_reason: discard_reason.or(discarded),
            context: Some(context),
        }
    }

    /// The value of a part of the agent's data.
    fn of<T>(&self, part: impl Fn(&SampleContext<'a>) -> Option<T>) -> Option<T> {
        self.context.and_then(part)
    }
}

impl SampleColumns {
    pub fn of(w: &TupleWriter) -> SampleColumns {
        let is_packet = w.schema().name == "packet";
        let wanted = COLUMNS.iter().filter(|(id, _)| is_packet && w.wants(*id));
        SampleColumns(wanted.copied().collect())
    }

    /// Writes the columns; the caller ends the row.
    pub fn write(&self, w: &mut TupleWriter, sample: &SampleRow<'_>) {
        for (id, write) in &self.0 {
            write(w, *id, sample);
        }
    }
}

/// A VLAN identifier; some agents report an unknown one as -1.
fn vlan(id: Option<u32>) -> Option<u32> {
    id.filter(|id| *id < 4096)
}

fn end(tunnel: &SampleTunnel, place: usize) -> Option<IpAddr> {
    tunnel.ends.map(|ends| ends[place])
}

fn number(w: &mut TupleWriter, id: FieldId, value: Option<u32>) {
    if let Some(value) = value {
        w.u64(id, value.into());
    }
}

fn address(w: &mut TupleWriter, id: FieldId, ip: Option<IpAddr>) {
    if let Some(ip) = ip {
        w.ip(id, &Addr::from(ip).0);
    }
}

fn text(w: &mut TupleWriter, id: FieldId, value: Option<impl ToString>) {
    if let Some(value) = value {
        w.text(id, value.to_string().as_bytes());
    }
}

/// The number of an interface.
fn interface(of: SampleInterface) -> Option<u32> {
    match of {
        SampleInterface::Index(index) => Some(index),
        _ => None,
    }
}

//! Columns of `packet` that an exporter adds to a sampled packet.

use parsers::exported::ExportOrigin;
use parsers::packet_level::packet;
use telemetry::{SampleContext, SampleInterface, SampleTunnel};
use tuple::{FieldId, TupleWriter};
use wire::Addr;

/// A sample without its packet.
#[derive(Clone, Copy)]
pub(super) struct SampleColumns<'a> {
    /// The exporter.
    pub origin: ExportOrigin,
    /// Reason of a discard.
    pub discard_reason: Option<u32>,
    /// Data of an sFlow agent.
    pub context: Option<&'a SampleContext<'a>>,
}

impl<'a> SampleColumns<'a> {
    /// The columns of an sFlow sample.
    pub fn of_sflow(
        context: &'a SampleContext<'a>,
        rate_from: &'static str,
        discard_reason: Option<u32>,
    ) -> SampleColumns<'a> {
        let discarded = match context.output {
            SampleInterface::Discarded(reason) => Some(reason),
            _ => None,
        };
        SampleColumns {
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

    /// Writes the columns; the caller ends the row.
    pub fn write(&self, w: &mut TupleWriter) {
        let origin = &self.origin;
        w.ip(packet::EXPORTER, &origin.exporter.0);
        w.u64(packet::OBSERVATION_DOMAIN, origin.domain.into());
        w.text(packet::RATE_FROM, origin.rate_from.as_bytes());
        numbers(
            w,
            &[
                (packet::INPUT_INTERFACE, origin.input),
                (packet::OUTPUT_INTERFACE, origin.output),
                (packet::DISCARD_REASON, self.discard_reason),
            ],
        );
        if let Some(context) = self.context {
            write_context(w, context);
        }
    }
}

fn write_context(w: &mut TupleWriter, context: &SampleContext<'_>) {
    let (input, output) = (&context.input_tunnel, &context.output_tunnel);
    // Some agents report an unknown VLAN as -1.
    let vlan = |of: Option<u32>| of.filter(|id| *id < 4096);
    numbers(
        w,
        &[
            (packet::QUEUE_BYTES, context.queue_bytes),
            (packet::INPUT_VLAN, vlan(context.input_vlan)),
            (packet::OUTPUT_VLAN, vlan(context.output_vlan)),
            (packet::INPUT_VNI, input.vni),
            (packet::OUTPUT_VNI, output.vni),
        ],
    );
    if let Some(delay_ns) = context.transit_delay_ns {
        w.i64(packet::TRANSIT_DELAY_NS, delay_ns.into());
    }
    if let Some(stack) = context.vlan_stack.filter(|_| w.wants(packet::VLAN_STACK)) {
        w.text(packet::VLAN_STACK, stack.to_string().as_bytes());
    }
    tunnel(
        w,
        input,
        [packet::INPUT_TUNNEL_SRC_IP, packet::INPUT_TUNNEL_DST_IP],
    );
    tunnel(
        w,
        output,
        [packet::OUTPUT_TUNNEL_SRC_IP, packet::OUTPUT_TUNNEL_DST_IP],
    );
    if let Some(route) = context.route {
        address(w, packet::NEXT_HOP, route.next_hop.map(Addr::from));
        w.u64(packet::SRC_PREFIX_LENGTH, route.source_prefix_len.into());
        w.u64(
            packet::DST_PREFIX_LENGTH,
            route.destination_prefix_len.into(),
        );
    }
    if let Some(gateway) = context.gateway {
        address(w, packet::BGP_NEXT_HOP, gateway.next_hop.map(Addr::from));
        numbers(
            w,
            &[
                (packet::SRC_AS, Some(gateway.source_as)),
                (packet::SRC_PEER_AS, Some(gateway.source_peer_as)),
                (packet::DST_AS, gateway.path.last),
                (packet::DST_PEER_AS, gateway.path.first),
            ],
        );
        if w.wants(packet::AS_PATH) {
            w.text(packet::AS_PATH, gateway.path.to_string().as_bytes());
        }
    }
}

fn tunnel(w: &mut TupleWriter, tunnel: &SampleTunnel, ids: [FieldId; 2]) {
    for (id, end) in ids.into_iter().zip(tunnel.ends.into_iter().flatten()) {
        address(w, id, Some(end.into()));
    }
}

fn address(w: &mut TupleWriter, id: FieldId, value: Option<Addr>) {
    if let Some(value) = value {
        w.ip(id, &value.0);
    }
}

fn numbers(w: &mut TupleWriter, values: &[(FieldId, Option<u32>)]) {
    for (id, value) in values {
        if let Some(value) = value {
            w.u64(*id, (*value).into());
        }
    }
}

/// The number of an interface.
fn interface(of: SampleInterface) -> Option<u32> {
    match of {
        SampleInterface::Index(index) => Some(index),
        _ => None,
    }
}

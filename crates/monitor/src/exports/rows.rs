//! Tuples of samples and flow records.

use flow::flow_id;
use parsers::FlowContext;
use telemetry::{
    DiscardedPacket, ExportDomain, ExportedFlow, HeaderProtocol, InterfaceCounters, PacketSample,
    SampleContext, SectionStart, TemplateRecord,
};
use wire::{CapturedPacket, FiveTuple, IpProtocol, LinkType, Packet, Timestamp};

use super::accounting::ExportAccounting;
use super::configured::ExportFilter;
use super::directions::ObservedDirections;
use super::exporters::ExporterClocks;
use super::flow_columns::{FlowColumns, FlowRow, is_biflow, rate_from};
use super::interfaces::InterfaceReports;
use super::port_set::PortSet;
use super::private_elements::{self, ElementColumn};
use super::sample_columns::{ExportOrigin, SampleColumns, SampleRow};
use crate::tuple_outputs::TupleOutputs;

/// State for tuples of export messages.
pub(super) struct ExportRows {
    pub filter: ExportFilter,
    pub server_ports: PortSet,
    pub reads_packets: bool,
    pub reads_flows: bool,
    /// Columns by output of flow records, and those of information elements.
    pub columns: Vec<(FlowColumns, Vec<ElementColumn>)>,
    /// Columns by output of packets.
    pub sample_columns: Vec<SampleColumns>,
    pub directions: ObservedDirections,
    pub interfaces: InterfaceReports,
    pub clocks: ExporterClocks,
    pub counts: ExportAccounting,
}

/// A sampled packet as it was sent.
struct SampledHeader<'a> {
    link_type: LinkType,
    bytes: &'a [u8],
    /// Length on the network, in bytes.
    len: u32,
    /// Distinguishes the samples of an exporter.
    number: u64,
}

impl ExportRows {
    /// Takes an sFlow sample.
    pub fn on_sample(
        &mut self,
        sample: &PacketSample<'_>,
        now: Timestamp,
        outputs: &mut TupleOutputs,
    ) {
        if !self.reads_packets {
            self.counts.unread += 1;
            return;
        }
        if self.directions.repeats_sample(&sample.context) {
            self.counts.repeated += 1;
            return;
        }
        let rate = (sample.rate > 0).then_some(f64::from(sample.rate));
        let rate_from = if rate.is_some() { "record" } else { "assumed" };
        let sampled = SampleRow::of_sflow(&sample.context, rate_from, None);
        let header = SampledHeader {
            link_type: link_type(sample.protocol),
            bytes: sample.header,
            len: sample.frame_len.saturating_sub(sample.stripped),
            number: number(&sample.context, sample.sequence),
        };
        self.write_packet(
            &sample.context.domain,
            &header,
            &sampled,
            rate,
            now,
            outputs,
        );
    }

    /// Takes the notice of a discarded packet: every one is reported.
    pub fn on_discarded(
        &mut self,
        discarded: &DiscardedPacket<'_>,
        now: Timestamp,
        outputs: &mut TupleOutputs,
    ) {
        if !self.reads_packets {
            self.counts.unread += 1;
            return;
        }
        let sampled = SampleRow::of_sflow(&discarded.context, "record", Some(discarded.reason));
        let header = SampledHeader {
            link_type: link_type(discarded.protocol),
            bytes: discarded.header,
            len: discarded.frame_len,
            number: number(&discarded.context, discarded.sequence),
        };
        self.write_packet(
            &discarded.context.domain,
            &header,
            &sampled,
            Some(1.0),
            now,
            outputs,
        );
    }

    /// Takes a report of an interface's counters.
    pub fn on_counters(&mut self, counters: &InterfaceCounters, outputs: &mut TupleOutputs) {
        if outputs.reads_interfaces()
            && let Some(counts) = self.interfaces.counted(counters)
        {
            self.counts.interfaces_read += 1;
            outputs.on_interface(&counts);
        }
    }

    /// Takes a flow record.
    pub fn on_flow(
        &mut self,
        flow: &ExportedFlow<'_>,
        fields: Option<TemplateRecord<'_>>,
        now: Timestamp,
        outputs: &mut TupleOutputs,
    ) {
        let correction_ns = self.clocks.correction_ns(flow.domain, flow.exported, now);
        if let Some(section) = flow.section
            && self.reads_packets
        {
            let rate = flow.rate.map(|rate| rate.packets);
            let sampled = SampleRow {
                origin: origin(flow),
                discard_reason: None,
                context: None,
            };
            let header = SampledHeader {
                link_type: match section.start {
                    SectionStart::DataLink => LinkType::Ethernet,
                    SectionStart::Network => LinkType::Raw,
                },
                bytes: section.bytes,
                len: flow
                    .layer2_bytes
                    .or(flow.bytes)
                    .and_then(|bytes| u32::try_from(bytes).ok())
                    .unwrap_or(section.bytes.len() as u32),
                number: self.counts.samples_read,
            };
            self.write_packet(&flow.domain, &header, &sampled, rate, now, outputs);
            return;
        }
        if !self.reads_flows || flow.section.is_some() {
            self.counts.unread += 1;
            return;
        }
        if self.directions.repeats_flow(flow) {
            self.counts.repeated += 1;
            return;
        }
        let configured = self.filter.exporters.as_ref();
        let unscaled = configured.map(|exporters| exporters.unscaled(flow));
        let flow = unscaled.as_ref().unwrap_or(flow);
        let protocol = IpProtocol(flow.protocol.unwrap_or(0));
        let ports = (flow.source_port, flow.destination_port);
        let exported = flow.start.or(flow.end).unwrap_or(flow.exported);
        let row = FlowRow {
            flow,
            is_from_client: is_biflow(flow) || self.is_client(ports.0, ports.1, protocol),
            first_ts: exported.plus(correction_ns),
            now,
        };
        if !self.filter.passes_all() {
            let [client, server] = row.ends();
            if !self.filter.matches(&flow.domain, client, server) {
                self.counts.filtered += 1;
                return;
            }
        }
        self.counts.assumed_rates += u64::from(flow.rate.is_none());
        self.counts.without_counters += u64::from(
            flow.packets
                .or(flow.bytes)
                .or(flow.reverse_packets)
                .is_none(),
        );
        self.counts.flows_read += 1;
        for ((columns, elements), w) in self.columns.iter().zip(outputs.flow_writers_mut()) {
            if let Some(fields) = &fields {
                private_elements::write(w, elements, fields);
            }
            columns.write(w, &row);
        }
    }

    fn write_packet(
        &mut self,
        domain: &ExportDomain,
        header: &SampledHeader<'_>,
        sampled: &SampleRow<'_>,
        rate: Option<f64>,
        now: Timestamp,
        outputs: &mut TupleOutputs,
    ) {
        let captured = CapturedPacket {
            ts: now,
            link_type: header.link_type,
            original_len: header.len.max(header.bytes.len() as u32),
            bytes: header.bytes,
        };
        let Ok(packet) = Packet::decode(&captured) else {
            self.counts.undecodable += 1;
            return;
        };
        let FiveTuple { src, dst, protocol } = packet.five_tuple;
        let is_from_client = self.is_client(Some(src.port), Some(dst.port), protocol);
        let (client, server) = if is_from_client {
            (src, dst)
        } else {
            (dst, src)
        };
        if !self.filter.matches(domain, client, server) {
            self.counts.filtered += 1;
            return;
        }
        self.counts.assumed_rates += u64::from(rate.is_none());
        self.counts.samples_read += 1;
        let context = FlowContext {
            // Samples are independent of each other, also within a flow.
            id: flow_id(
                &packet.five_tuple.flow_key().0,
                Timestamp(header.number as i64),
            ),
            client,
            server,
            protocol,
            client_guessed: true,
            midstream: false,
            sample_rate: rate.map_or(1.0, |rate| 1.0 / rate.max(1.0)),
            tunnel: packet.tunnel,
            vlan: packet.vlan,
            proxied: None,
            decrypted: None,
        };
        outputs.on_sampled_packet(&packet, &context, |output, w| {
            self.sample_columns[output].write(w, sampled);
        });
    }

    /// Whether the sender is the client: the other side has the port of a known server, or for TCP the lower port.
    fn is_client(&self, from: Option<u16>, to: Option<u16>, protocol: IpProtocol) -> bool {
        let is_server =
            |port: Option<u16>| port.is_some_and(|port| self.server_ports.contains(port));
        match (is_server(from), is_server(to)) {
            (true, false) => false,
            (false, true) => true,
            _ if protocol != IpProtocol::TCP => true,
            _ => from >= to,
        }
    }
}

fn origin(flow: &ExportedFlow<'_>) -> ExportOrigin {
    ExportOrigin {
        exporter: flow.domain.exporter.into(),
        domain: flow.domain.id,
        rate_from: rate_from(flow),
        input: flow.input,
        output: flow.output,
    }
}

/// Distinguishes the samples of an agent.
fn number(context: &SampleContext<'_>, sequence: u32) -> u64 {
    u64::from(context.source_index) << 32 | u64::from(sequence)
}

fn link_type(protocol: HeaderProtocol) -> LinkType {
    match protocol {
        HeaderProtocol::Ethernet => LinkType::Ethernet,
        HeaderProtocol::Ipv4 | HeaderProtocol::Ipv6 => LinkType::Raw,
        HeaderProtocol::Mpls => LinkType::MPLS,
        HeaderProtocol::Other(_) => LinkType::Other(u16::MAX),
    }
}

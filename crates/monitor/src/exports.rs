//! Export messages of switches and routers (sFlow, NetFlow, IPFIX) as input: a datagram becomes `packet` tuples of its
//! samples and `flow` tuples of its records. The messages are the payload of ordinary packets, captured, read from a
//! file, or received by a socket.
//!
//! A sampled packet is one tuple with the sampling rate as its weight. The counters of a flow record are multiplied by
//! the rate; the record itself counts once. The time of a tuple (`ts_end`) is the time of reception, so that no tuple
//! is late; `ts` follows the exporter's clock, corrected if it differs by more than two seconds.

mod accounting;
mod configured;
mod directions;
mod exporters;
mod flow_columns;
mod interfaces;
mod port_set;
mod private_elements;
mod rows;
mod sample_columns;
mod streams;
mod template_file;

use std::net::SocketAddr;
use std::sync::Arc;

use flow::CaptureLoss;
use plan::MonitorSpec;
pub use telemetry::ElementDefinitions;
use telemetry::{ExportDecoder, ExportEvent, ExportLimits};
use tuple::TupleWriter;
use wire::{FiveTuple, Packet, Timestamp, TransportHeader};

pub use accounting::{ExportAccounting, ExporterState};
pub use configured::{ConfiguredExporter, ConfiguredExporters, ExporterIdentity};
pub use private_elements::undefined_column;
pub use template_file::TemplateFile;

use crate::tuple_outputs::TupleOutputs;
use configured::ExportFilter;
use directions::ObservedDirections;
use exporters::ExporterClocks;
use flow_columns::FlowColumns;
use interfaces::InterfaceReports;
use port_set::PortSet;
use rows::ExportRows;
use sample_columns::SampleColumns;
use streams::{MessageStreams, SegmentOutcome};

/// Interval in event time at which the states of exporters are collected.
const REPORT_EVERY_NS: i64 = 1_000_000_000;
/// Interval in event time at which templates are stored.
const STORE_EVERY_NS: i64 = 60_000_000_000;

/// Inputs of a reader besides messages; the default has none.
#[derive(Clone, Debug, Default)]
pub struct ExportConfig {
    /// Storage of the templates of exporters.
    pub templates: Option<TemplateFile>,
    /// The exporters of the query, if it has configured them; messages of others are excluded.
    pub exporters: Option<ConfiguredExporters>,
    /// Names of information elements.
    pub elements: Arc<ElementDefinitions>,
}

/// Decodes export messages to tuples.
pub struct ExportReader {
    decoder: ExportDecoder,
    streams: MessageStreams,
    rows: ExportRows,
    /// Latest states of the exporters, with their time.
    reported: (Timestamp, ExportAccounting),
    /// Storage of the templates, with the time of the last copy.
    templates: Option<(TemplateFile, Timestamp)>,
}

impl ExportReader {
    /// A reader for the parsers of a plan. `server_ports`: ports at which a side is the server.
    #[must_use]
    pub fn new(
        spec: &MonitorSpec,
        outputs: &TupleOutputs,
        server_ports: &[u16],
        config: ExportConfig,
    ) -> ExportReader {
        let mut decoder = ExportDecoder::new(ExportLimits::default());
        let is_restored = config
            .templates
            .as_ref()
            .is_none_or(|file| file.restore(&mut decoder));
        let columns = |writer: &TupleWriter| {
            let elements = private_elements::columns(writer, &config.elements);
            (FlowColumns::of(writer), elements)
        };
        ExportReader {
            decoder,
            templates: config.templates.map(|file| (file, Timestamp::MIN)),
            streams: MessageStreams::default(),
            rows: ExportRows {
                filter: ExportFilter::new(spec, config.exporters),
                server_ports: PortSet::new(server_ports),
                reads_packets: outputs.reads_packets(),
                reads_flows: outputs.reads_flows(),
                columns: outputs.flow_writers().map(columns).collect(),
                sample_columns: outputs.packet_writers().map(SampleColumns::of).collect(),
                directions: ObservedDirections::default(),
                interfaces: InterfaceReports::default(),
                clocks: ExporterClocks::default(),
                counts: ExportAccounting {
                    template_file_errors: u64::from(!is_restored),
                    ..ExportAccounting::default()
                },
            },
            reported: (Timestamp::MIN, ExportAccounting::default()),
        }
    }

    /// Decodes the payload of a packet: datagrams, and streams of IPFIX. `now` is the time of the tuples.
    pub fn on_packet(&mut self, packet: &Packet<'_>, now: Timestamp, outputs: &mut TupleOutputs) {
        let FiveTuple { src, dst, .. } = packet.five_tuple;
        let exporter = SocketAddr::new(src.addr.to_ip(), src.port);
        let decoder = &mut self.decoder;
        let rows = &mut self.rows;
        let mut decode = |message: &[u8]| {
            decoder.decode(exporter, now, message, |event| match event {
                ExportEvent::Flow(record, fields) => rows.on_flow(record, fields, now, outputs),
                ExportEvent::Sample(sample) => rows.on_sample(sample, now, outputs),
                ExportEvent::Discarded(discarded) => rows.on_discarded(discarded, now, outputs),
                ExportEvent::Counters(counters) => rows.on_counters(counters, outputs),
                _ => {}
            });
        };
        match &packet.transport {
            TransportHeader::Udp => decode(packet.payload),
            TransportHeader::Tcp(tcp) => {
                let outcome = self
                    .streams
                    .on_segment((src, dst), tcp, packet.payload, &mut decode);
                rows.counts.stream_gaps += u64::from(outcome == SegmentOutcome::Gap);
                rows.counts.not_export += u64::from(outcome == SegmentOutcome::NotExport);
            }
            _ => rows.counts.not_export += 1,
        }
    }

    /// Collects the states of the exporters, at most once per second of event time, and at the end.
    pub fn report(&mut self, now: Timestamp, is_end: bool) {
        if let Some((file, stored)) = &mut self.templates
            && (is_end || now.0.saturating_sub(stored.0) >= STORE_EVERY_NS)
        {
            self.rows.counts.template_file_errors += u64::from(!file.store(&self.decoder));
            *stored = now;
        }
        if is_end || now < self.reported.0 || now.since(self.reported.0) >= REPORT_EVERY_NS {
            let mut report = self.rows.counts.clone();
            report.decoded = self.decoder.counters();
            report.add_exporters(self.decoder.losses(), &self.rows.clocks);
            self.reported = (now, report);
        }
    }

    /// The latest report.
    #[must_use]
    pub fn accounting(&self) -> &ExportAccounting {
        &self.reported.1
    }

    /// Records and samples received, and those lost on the way, estimated from the numbers of messages.
    #[must_use]
    pub fn loss(&self) -> CaptureLoss {
        self.reported.1.loss
    }
}

//! Exporters that a query has configured itself: the flows that each of them counts, and their sampling rate. A switch
//! samples all its traffic; a packet that passes several switches counts at the one that covers its flow.

use std::net::IpAddr;
use std::sync::Arc;

use plan::MonitorSpec;
use telemetry::{ExportDomain, ExportProtocol, ExportedFlow, RateSource, SamplingRate};
use wire::Endpoint;

use crate::address_filter::AddressFilter;

/// Identity of an exporter in its messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExporterIdentity {
    /// Agent address of sFlow.
    Agent(IpAddr),
    /// Observation domain of IPFIX.
    Domain(u32),
}

/// An exporter, with its flows.
#[derive(Clone, Debug)]
pub struct ConfiguredExporter {
    /// Identity of the exporter.
    pub identity: ExporterIdentity,
    /// FROM and TO, restricted to the flows that it counts.
    pub flows: AddressFilter,
    /// Flow records: one of this many packets is metered, and the exporter has already multiplied the counters.
    /// Samples have a rate of their own.
    pub scaled_by: Option<f64>,
}

/// Exporters whose messages count. Messages of others are excluded.
#[derive(Clone, Debug)]
pub struct ConfiguredExporters(pub Arc<[ConfiguredExporter]>);

impl ConfiguredExporters {
    fn of(&self, domain: &ExportDomain) -> Option<&ConfiguredExporter> {
        let identity = match domain.protocol {
            ExportProtocol::Sflow5 => ExporterIdentity::Agent(domain.exporter),
            _ => ExporterIdentity::Domain(domain.id),
        };
        self.0.iter().find(|exporter| exporter.identity == identity)
    }

    /// The record with the counters that the exporter measured, and its rate.
    pub(super) fn unscaled<'a>(&self, flow: &ExportedFlow<'a>) -> ExportedFlow<'a> {
        let mut flow = *flow;
        let Some(packets) = self.of(&flow.domain).and_then(|of| of.scaled_by) else {
            return flow;
        };
        for count in [&mut flow.packets, &mut flow.bytes, &mut flow.layer2_bytes] {
            *count = count.map(|count| (count as f64 / packets).round() as u64);
        }
        let source = RateSource::Query;
        flow.rate = Some(SamplingRate { packets, source });
        flow
    }
}

/// FROM and TO for messages of exporters.
pub(super) struct ExportFilter {
    query: AddressFilter,
    pub exporters: Option<ConfiguredExporters>,
}

impl ExportFilter {
    pub fn new(spec: &MonitorSpec, exporters: Option<ConfiguredExporters>) -> ExportFilter {
        ExportFilter {
            query: AddressFilter::new(spec),
            exporters,
        }
    }

    /// Whether every flow counts at every exporter.
    pub fn passes_all(&self) -> bool {
        self.exporters.is_none() && self.query.passes_all()
    }

    /// Whether a flow counts at an exporter.
    pub fn matches(&self, domain: &ExportDomain, client: Endpoint, server: Endpoint) -> bool {
        match &self.exporters {
            None => self.query.matches(client, server),
            Some(exporters) => exporters
                .of(domain)
                .is_some_and(|exporter| exporter.flows.matches(client, server)),
        }
    }
}

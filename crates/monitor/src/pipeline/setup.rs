//! Initial state of a monitor: its limits and the requirements of its plan.

use std::sync::Arc;

use flow::{FlowEvents, FlowTable};
use parsers::flow_level::flow_record;
use parsers::tls_decrypt::TlsKeyStore;
use plan::{MonitorSpec, SampleMode};
use tuple::AgentOrigin;
use wire::Timestamp;

use super::{Monitor, MonitorNeeds};
use crate::PacketAccounting;
use crate::address_filter::AddressFilter;
use crate::exports::{ExportConfig, ExportReader};
use crate::gate::Gate;
use crate::limiter::Limiter;
use crate::sample::AdaptiveSampler;
use crate::silences::SilenceQueue;
use crate::slice::SharedSlice;
use crate::taps::{SharedTaps, TapFilter};
use crate::tuple_outputs::{FLOW_FIELDS, TupleOutputs};
use crate::virtual_networks::VirtualNetworks;

/// Limits of a monitor.
#[derive(Clone, Debug)]
pub struct MonitorConfig {
    /// Limits of the flow table; `detail` is set by the plan.
    pub flow: flow::FlowTableConfig,
    /// Maximum bytes of held IP fragments.
    pub fragment_bytes_max: usize,
    /// Limits of parsers per flow.
    pub parsers: parsers::ParserLimits,
    /// Memory for pending requests beyond 1,024 per connection; clones share it.
    pub outstanding: parsers::pairing::OutstandingBudget,
    /// Addresses of other taps that capture the same flows; `None` if this is the only tap.
    pub taps: Option<SharedTaps>,
    /// Slice of the flows that switches copy under SAMPLE auto; `None` if they always copy all.
    pub slice: Option<SharedSlice>,
    /// Reading of export messages.
    pub exports: ExportConfig,
    /// Keys of TLS connections to decrypt.
    pub keys: Option<Arc<TlsKeyStore>>,
    /// Origin columns of the tuples.
    pub origin: Arc<AgentOrigin>,
}

impl Default for MonitorConfig {
    fn default() -> MonitorConfig {
        let flow = flow::FlowTableConfig {
            server_ports: parsers::application::server_ports(),
            ..Default::default()
        };
        let parsers = parsers::ParserLimits::default();
        MonitorConfig {
            flow,
            fragment_bytes_max: 4 << 20,
            parsers,
            outstanding: parsers::pairing::OutstandingBudget::of_bytes(128 << 20),
            taps: None,
            slice: None,
            exports: ExportConfig::default(),
            keys: None,
            origin: Arc::default(),
        }
    }
}

impl MonitorConfig {
    /// Returns the limits for each of `workers` workers.
    #[must_use]
    pub fn share(&self, workers: usize) -> MonitorConfig {
        let workers = workers.max(1);
        MonitorConfig {
            flow: flow::FlowTableConfig {
                held_bytes_max: self.flow.held_bytes_max.div_ceil(workers),
                ..self.flow.clone()
            },
            fragment_bytes_max: self.fragment_bytes_max.div_ceil(workers),
            parsers: self.parsers,
            outstanding: self.outstanding.clone(),
            taps: self.taps.clone(),
            slice: self.slice.clone(),
            exports: self.exports.clone(),
            keys: self.keys.clone(),
            origin: self.origin.clone(),
        }
    }
}

impl Monitor {
    /// Creates a monitor with its own gate.
    #[must_use]
    pub fn new(spec: &MonitorSpec, config: MonitorConfig) -> Monitor {
        let gate = Gate::new(spec, Limiter::of(spec), config.fragment_bytes_max);
        Monitor::behind(gate, spec, config)
    }

    /// Creates a monitor that uses `gate`.
    #[must_use]
    pub fn behind(gate: Gate, spec: &MonitorSpec, config: MonitorConfig) -> Monitor {
        let mut outputs = TupleOutputs::new(spec, &config.origin);
        let reports_again = config.flow.active_timeout_ns.is_some();
        let flow = flow::FlowTableConfig {
            detail: outputs.detail(),
            ..config.flow
        };
        let addresses = AddressFilter::new(spec);
        let exports = (spec.sample == SampleMode::Exported)
            .then(|| ExportReader::new(spec, &outputs, &flow.server_ports, config.exports))
            .map(Box::new);
        let taps = config.taps.map(|shared| TapFilter::new(spec.taps, &shared));
        let every_flow = addresses.passes_all() && taps.as_ref().is_none_or(TapFilter::tells_all);
        let adapts = spec.sample == SampleMode::Auto;
        let asks = MonitorNeeds {
            packets_only: every_flow && taps.is_none() && !adapts && outputs.reads_packets_only(),
            packets: outputs.reads_packets(),
            connections: outputs.reads_connections(),
            payload: outputs.reads_payload(),
            every_flow,
            identity: outputs.wants_any(&FLOW_FIELDS),
            counts: outputs.records_want(&flow_record::COUNTS),
            life: outputs.records_want(&[flow_record::CONN_STATE, flow_record::HISTORY]),
            path: outputs.wants_path(),
            proxied: outputs.wants_proxied(),
            decrypted: outputs.wants_decrypted(),
            adapts,
            rate: if let SampleMode::Fraction(p) = spec.sample {
                p
            } else {
                1.0
            },
        };
        Monitor {
            gate,
            addresses,
            taps,
            asks,
            exports,
            adaptive: AdaptiveSampler::new(flow.tcp_idle_ns, flow.udp_idle_ns),
            slice: config.slice.filter(|_| adapts),
            keys: config.keys,
            is_inside_tls: false,
            table: FlowTable::new(flow),
            outputs,
            limits: config.parsers,
            outstanding: config.outstanding,
            names: parsers::SharedNames::default(),
            networks: VirtualNetworks::default(),
            events: FlowEvents::default(),
            awaited_bytes: 0,
            silences: SilenceQueue::default(),
            accounting: PacketAccounting::default(),
            clock: Timestamp::MIN,
            now: Timestamp::MIN,
            latest: Timestamp::MIN,
            watermark: Timestamp::MIN,
            open_from: Timestamp::MIN,
            last_packet_before: None,
            lateness_ns: 0,
            reports_again,
            stop: Arc::default(),
        }
    }
}

//! A monitor as it is before the first packet: its limits, and what its plan asks of it.

use std::sync::Arc;

use flow::{Events, Table};
use parsers::flow_level::flow_record;
use plan::{MonitorSpec, Sample};
use tuple::Origin;
use wire::Timestamp;

use super::Monitor;
use crate::Accounting;
use crate::address_filter::AddressFilter;
use crate::gate::Gate;
use crate::limiter::Limiter;
use crate::networks::Networks;
use crate::outputs::{FLOW_FIELDS, Outputs};
use crate::sample::Adaptive;
use crate::slice::SharedSlice;
use crate::taps::{SharedTaps, TapFilter};

/// Limits of a monitor.
#[derive(Clone, Debug)]
pub struct Config {
    /// The flow table's; `detail` is decided by the plan.
    pub flow: flow::Config,
    /// Bytes of IP fragments that may wait for others.
    pub fragment_bytes_max: usize,
    /// What parsers may keep of each flow.
    pub parsers: parsers::Limits,
    /// Memory for requests that wait, beyond 1,024 for each connection; clones share it.
    pub outstanding: parsers::pairing::Room,
    /// Whose addresses are whose, where other taps see the same flows.
    /// None: there are no other taps, and never will be.
    pub taps: Option<SharedTaps>,
    /// Which slice of the flows switches copy to us, under SAMPLE auto. None: all of them, always.
    pub slice: Option<SharedSlice>,
    /// What the tuples say of where they come from.
    pub origin: Arc<Origin>,
}

impl Default for Config {
    fn default() -> Config {
        let flow = flow::Config { server_ports: parsers::application::server_ports(), ..Default::default() };
        let parsers = parsers::Limits::default();
        Config {
            flow,
            fragment_bytes_max: 4 << 20,
            parsers,
            outstanding: parsers::pairing::Room::of_bytes(128 << 20),
            taps: None,
            slice: None,
            origin: Arc::default(),
        }
    }
}

impl Config {
    /// What each of `workers` workers may use of it.
    #[must_use]
    pub fn share(&self, workers: usize) -> Config {
        let workers = workers.max(1);
        Config {
            flow: flow::Config {
                held_bytes_max: self.flow.held_bytes_max.div_ceil(workers),
                ..self.flow.clone()
            },
            fragment_bytes_max: self.fragment_bytes_max.div_ceil(workers),
            parsers: self.parsers,
            outstanding: self.outstanding.clone(),
            taps: self.taps.clone(),
            slice: self.slice.clone(),
            origin: self.origin.clone(),
        }
    }
}

/// What a plan asks of every packet, settled once.
#[derive(Clone, Copy)]
pub(super) struct Asks {
    /// Nothing but the packets themselves: there is no need to know their flows.
    pub packets_only: bool,
    pub packets: bool,
    pub connections: bool,
    pub payload: bool,
    /// FROM and TO leave nothing out, nor is another tap the one that tells.
    pub every_flow: bool,
    /// Who a flow is, in what is written without a protocol's parser.
    pub identity: bool,
    /// What flow records count.
    pub counts: bool,
    /// What flow records say of a connection's life.
    pub life: bool,
    /// What flows' packets came through.
    pub path: bool,
    /// What a PROXY protocol header said.
    pub proxied: bool,
    /// SAMPLE auto: the rate may change.
    pub adapts: bool,
    /// The rate at which flows are in where that does not change.
    pub rate: f64,
}

impl Monitor {
    /// A monitor with nothing seen yet, behind a gate of its own.
    #[must_use]
    pub fn new(spec: &MonitorSpec, config: Config) -> Monitor {
        let gate = Gate::new(spec, Limiter::of(spec), config.fragment_bytes_max);
        Monitor::behind(gate, spec, config)
    }

    /// A monitor behind `gate`.
    #[must_use]
    pub fn behind(gate: Gate, spec: &MonitorSpec, config: Config) -> Monitor {
        let mut outputs = Outputs::new(spec, &config.origin);
        let reports_again = config.flow.active_timeout_ns.is_some();
        let flow = flow::Config { detail: outputs.detail(), ..config.flow };
        let addresses = AddressFilter::new(spec);
        let taps = config.taps.map(|shared| TapFilter::new(spec.taps, &shared));
        let every_flow = addresses.passes_all() && taps.as_ref().is_none_or(TapFilter::tells_all);
        let adapts = spec.sample == Sample::Auto;
        let asks = Asks {
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
            adapts,
            rate: if let Sample::Fraction(p) = spec.sample { p } else { 1.0 },
        };
        Monitor {
            gate,
            addresses,
            taps,
            asks,
            adaptive: Adaptive::new(flow.tcp_idle_ns, flow.udp_idle_ns),
            slice: config.slice.filter(|_| adapts),
            table: Table::new(flow),
            outputs,
            limits: config.parsers,
            outstanding: config.outstanding,
            networks: Networks::default(),
            events: Events::default(),
            awaited_bytes: 0,
            accounting: Accounting::default(),
            clock: Timestamp::MIN,
            now: Timestamp::MIN,
            latest: Timestamp::MIN,
            watermark: Timestamp::MIN,
            promised: Timestamp::MIN,
            last_packet_before: None,
            lateness_ns: 0,
            reports_again,
            stop: Arc::default(),
        }
    }
}

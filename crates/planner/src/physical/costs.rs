//! What each way of copying packets costs, by which modes are chosen: measured on a machine and kept in a file (TOML), or the defaults
//! here. They are of one core of a server of 2020 or so.

use std::collections::BTreeMap;

use mirror::Part;
use plan::Plan;
use serde::{Deserialize, Serialize};

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Costs {
    /// Where they come from.
    pub origin: String,
    /// So many Mb/s on a link, each class by its weight (1, 2, 4), count as much as a core.
    pub link_mbps_per_core: f64,
    /// Minimum number of cores that a way with an incomplete answer must save.
    pub exact_worth_cores: f64,
    /// What monitors take.
    pub monitor: MonitorCosts,
    /// What switches take.
    pub switch: SwitchCosts,
    /// What is supposed of traffic.
    pub traffic: TrafficShape,
}

/// What a monitor takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonitorCosts {
    /// A packet on its way from the network into the monitor.
    pub receive_ns: f64,
    /// A byte of it.
    pub receive_byte_ns: f64,
    /// Cores of a monitor to which no packet comes: its epochs end all the same.
    pub idle_cores: f64,
    /// A packet that is not asked for.
    pub refuse_ns: f64,
    /// Memory.
    pub memory_gb: f64,
    /// A packet in a parser, by its name; of parsers that are not here an estimate is taken.
    pub parse_ns: BTreeMap<String, f64>,
}

/// What a switch takes for a packet that it copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchCosts {
    /// The whole packet, to a port of its own.
    pub copy_ns: f64,
    /// By a mirror of ports.
    pub mirror_ns: f64,
    /// Into a tunnel.
    pub tunnel_ns: f64,
    /// Its first bytes. Not known unless it was measured, and then cut copies are not chosen: they take some switches fifty times as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_ns: Option<f64>,
}

/// What is supposed of traffic of which only the rate is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficShape {
    /// Bytes of a packet.
    pub packet_bytes: f64,
    /// Packets of a connection.
    pub connection_packets: f64,
    /// Packets of a request with its response and their acknowledgments.
    pub exchange_packets: f64,
    /// The share of a host's link that its traffic takes, where nothing is expected of it.
    pub link_share: f64,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            origin: "defaults".to_owned(),
            link_mbps_per_core: 1000.0,
            exact_worth_cores: 0.05,
            monitor: MonitorCosts::default(),
            switch: SwitchCosts::default(),
            traffic: TrafficShape::default(),
        }
    }
}

impl Default for MonitorCosts {
    fn default() -> MonitorCosts {
        MonitorCosts {
            receive_ns: 400.0,
            receive_byte_ns: 0.1,
            idle_cores: 0.005,
            refuse_ns: 60.0,
            memory_gb: 0.25,
            parse_ns: BTreeMap::new(),
        }
    }
}

impl Default for SwitchCosts {
    fn default() -> SwitchCosts {
        SwitchCosts { copy_ns: 600.0, mirror_ns: 600.0, tunnel_ns: 1200.0, cut_ns: None }
    }
}

impl Default for TrafficShape {
    fn default() -> TrafficShape {
        TrafficShape {
            packet_bytes: 600.0,
            connection_packets: 20.0,
            exchange_packets: 8.0,
            link_share: 0.01,
        }
    }
}

impl Costs {
    /// Of a file's text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Costs, String> {
        let costs: Costs = toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            format!("line {line}: {}", e.message())
        })?;
        let (monitor, switch, traffic) = (&costs.monitor, &costs.switch, &costs.traffic);
        let times = [
            ("exact_worth_cores", costs.exact_worth_cores),
            ("monitor.receive_ns", monitor.receive_ns),
            ("monitor.receive_byte_ns", monitor.receive_byte_ns),
            ("monitor.idle_cores", monitor.idle_cores),
            ("monitor.refuse_ns", monitor.refuse_ns),
            ("switch.copy_ns", switch.copy_ns),
            ("switch.mirror_ns", switch.mirror_ns),
            ("switch.tunnel_ns", switch.tunnel_ns),
            ("switch.cut_ns", switch.cut_ns.unwrap_or(0.0)),
        ];
        let amounts = [
            ("link_mbps_per_core", costs.link_mbps_per_core),
            ("monitor.memory_gb", monitor.memory_gb),
            ("traffic.packet_bytes", traffic.packet_bytes),
            ("traffic.connection_packets", traffic.connection_packets),
            ("traffic.exchange_packets", traffic.exchange_packets),
            ("traffic.link_share", traffic.link_share),
        ];
        let parsers = monitor.parse_ns.iter().map(|(name, ns)| (name.as_str(), *ns));
        for (name, value) in times.into_iter().chain(parsers) {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!("{name} is a number from 0 on, not {value}"));
            }
        }
        for (name, value) in amounts {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{name} is a number above 0, not {value}"));
            }
        }
        Ok(costs)
    }

    /// Time of a monitor for a packet that is asked for, without its way into the monitor.
    #[must_use]
    pub(super) fn parse_ns(&self, plan: &Plan) -> f64 {
        let measured: Option<Vec<f64>> = plan
            .monitor
            .parsers
            .iter()
            .map(|parser| self.monitor.parse_ns.get(&*parser.schema.name).copied())
            .collect();
        match measured {
            Some(measured) if !measured.is_empty() => measured.iter().sum(),
            _ => crate::cost(plan).cpu_ns_per_packet as f64,
        }
    }

    /// Time of a switch for a packet that it copies; `None`: that is not known.
    #[must_use]
    pub(super) fn copy_ns(&self, part: Part) -> Option<f64> {
        match part {
            Part::Whole => Some(self.switch.copy_ns),
            Part::First(_) => self.switch.cut_ns,
        }
    }
}

//! Cost model of the ways of copying packets, used to select modes: measured on a machine and stored in a TOML file,
//! or the defaults here, which are for one core of a server of about 2020.

use std::collections::BTreeMap;

use mirror::PacketPart;
use plan::Plan;
use serde::{Deserialize, Serialize};

/// Cost model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanCosts {
    /// Source of the numbers.
    pub origin: String,
    /// Link load in Mb/s, weighted by link class (1, 2, 4), equivalent to one core.
    pub link_mbps_per_core: f64,
    /// Minimum number of cores that a way with incomplete results must save.
    pub exact_worth_cores: f64,
    /// Costs of monitors.
    pub monitor: MonitorCosts,
    /// Costs of switches.
    pub switch: SwitchCosts,
    /// Costs of exports.
    pub export: ExportCosts,
    /// Assumptions about traffic.
    pub traffic: TrafficShape,
}

/// Costs of a monitor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonitorCosts {
    /// Receiving a packet.
    pub receive_ns: f64,
    /// Receiving a byte.
    pub receive_byte_ns: f64,
    /// Cores of a monitor without traffic, for the ends of epochs.
    pub idle_cores: f64,
    /// Rejecting a packet.
    pub refuse_ns: f64,
    /// Memory.
    pub memory_gb: f64,
    /// Parsing a packet, by parser name; other parsers are estimated.
    pub parse_ns: BTreeMap<String, f64>,
}

/// Costs per packet copied by a switch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchCosts {
    /// Copying the whole packet to a port.
    pub copy_ns: f64,
    /// Copying with a port mirror.
    pub mirror_ns: f64,
    /// Copying to a tunnel.
    pub tunnel_ns: f64,
    /// Copying the first bytes. `None` unless measured; truncated copies are then not selected, because they take
    /// some switches fifty times as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut_ns: Option<f64>,
}

/// Costs of sFlow and IPFIX.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExportCosts {
    /// A switch's time for a packet that sFlow samples.
    pub sflow_sample_ns: f64,
    /// A switch's time for a packet that IPFIX samples, without a cache.
    pub ipfix_sample_ns: f64,
    /// Receiving and decoding a sample or record.
    pub receive_ns: f64,
}

/// Assumptions about traffic with only a known rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrafficShape {
    /// Bytes per packet.
    pub packet_bytes: f64,
    /// Packets per connection.
    pub connection_packets: f64,
    /// Packets per exchange of request and response, with acknowledgments.
    pub exchange_packets: f64,
    /// Assumed share of a host's link used by its traffic, if no expectation is given.
    pub link_share: f64,
}

impl Default for PlanCosts {
    fn default() -> PlanCosts {
        PlanCosts {
            origin: "defaults".to_owned(),
            link_mbps_per_core: 1000.0,
            exact_worth_cores: 0.05,
            monitor: MonitorCosts::default(),
            switch: SwitchCosts::default(),
            export: ExportCosts::default(),
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

/// Times of the same switch as those of [`ExportCosts`], so that copies and exports compare: 2,173 ± 448 ns for a packet
/// of a port mirror. A rule copies by the same action of the datapath; a tunnel is estimated at twice that.
impl Default for SwitchCosts {
    fn default() -> SwitchCosts {
        SwitchCosts {
            copy_ns: 2200.0,
            mirror_ns: 2200.0,
            tunnel_ns: 4400.0,
            cut_ns: None,
        }
    }
}

/// Times of an Open vSwitch 3.1 with a user-space datapath, as `bench/cost_of_measuring.py` measures them
/// (`bench/runs/2026-11-28-measuring`): 1,486 ± 1,607 ns for a packet that sFlow samples; 5,249 ± 409 ns for an IPFIX
/// record, of which a packet has two, at the port of entry and that of exit.
impl Default for ExportCosts {
    fn default() -> ExportCosts {
        ExportCosts {
            sflow_sample_ns: 1500.0,
            ipfix_sample_ns: 10_500.0,
            receive_ns: 1000.0,
        }
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

impl PlanCosts {
    /// Parses a cost file.
    ///
    /// # Errors
    /// The first error of the text.
    pub fn parse(text: &str) -> Result<PlanCosts, String> {
        let costs: PlanCosts = toml::from_str(text).map_err(|e| {
            let line = e
                .span()
                .map_or(1, |span| text[..span.start].matches('\n').count() + 1);
            format!("line {line}: {}", e.message())
        })?;
        let monitor = &costs.monitor;
        let switch = &costs.switch;
        let traffic = &costs.traffic;
        let export = &costs.export;
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
            ("export.sflow_sample_ns", export.sflow_sample_ns),
            ("export.ipfix_sample_ns", export.ipfix_sample_ns),
            ("export.receive_ns", export.receive_ns),
        ];
        let amounts = [
            ("link_mbps_per_core", costs.link_mbps_per_core),
            ("monitor.memory_gb", monitor.memory_gb),
            ("traffic.packet_bytes", traffic.packet_bytes),
            ("traffic.connection_packets", traffic.connection_packets),
            ("traffic.exchange_packets", traffic.exchange_packets),
            ("traffic.link_share", traffic.link_share),
        ];
        let parsers = monitor
            .parse_ns
            .iter()
            .map(|(name, ns)| (name.as_str(), *ns));
        for (name, value) in times.into_iter().chain(parsers) {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!(
                    "{name} must be a number of at least 0, not {value}"
                ));
            }
        }
        for (name, value) in amounts {
            if !(value.is_finite() && value > 0.0) {
                return Err(format!("{name} must be a number above 0, not {value}"));
            }
        }
        Ok(costs)
    }

    /// Time of a monitor per matching packet, without reception.
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

    /// Time of a switch per copied packet; `None` if unknown.
    #[must_use]
    pub(super) fn copy_ns(&self, part: PacketPart) -> Option<f64> {
        match part {
            PacketPart::Whole => Some(self.switch.copy_ns),
            PacketPart::First(_) => self.switch.cut_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Defaults are what the study has measured, to two digits.
    #[test]
    fn defaults_of_switches_are_measured() {
        let study = include_str!("../../../../bench/runs/2026-11-28-measuring/costs.toml");
        let PlanCosts { switch, export, .. } = PlanCosts::parse(study).expect("costs");
        let copies = SwitchCosts::default();
        let exports = ExportCosts::default();
        for (default, measured) in [
            (copies.mirror_ns, switch.mirror_ns),
            (copies.copy_ns, switch.mirror_ns),
            (exports.sflow_sample_ns, export.sflow_sample_ns),
            (exports.ipfix_sample_ns, export.ipfix_sample_ns),
        ] {
            assert!(
                (default / measured - 1.0).abs() < 0.05,
                "{default} {measured}"
            );
        }
    }
}

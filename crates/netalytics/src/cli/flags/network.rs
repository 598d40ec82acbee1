//! Flags of plans for a network.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use mirror::exporter::ExporterSlot;
use planner::physical;
use planner::topology::ExpectedTraffic;

/// Flags of plans in a network.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "In a network")]
pub struct NetworkFlags {
    /// Description of the network (TOML): switches, hosts, links, possible places of monitors
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub network: Option<PathBuf>,

    /// Expected traffic, as in 10.0.1.2:80=20Mbps; repeatable
    #[arg(long, value_name = "WHERE=RATE", value_parser = ExpectedTraffic::parse, requires = "network")]
    pub expect: Vec<ExpectedTraffic>,

    /// Costs of copying and sampling packets, measured by netalytics calibrate [default: built-in estimates]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub costs: Option<PathBuf>,

    /// Reject placements with which the result would lack packets
    #[arg(long, requires = "network")]
    pub exact: bool,

    /// How packets reach the query. With sflow and ipfix, a switch exports samples or flow records, and counts and
    /// sums are estimates
    #[arg(
        long,
        value_name = "MODE",
        value_enum,
        default_value_t,
        requires = "network"
    )]
    pub mode: PacketWay,

    /// sFlow and IPFIX: one of N packets is sampled [default: from the expected traffic, for an error of 5 %]
    #[arg(long, value_name = "N", requires = "network")]
    pub sampling: Option<NonZeroU32>,

    /// sFlow and IPFIX: address of this machine that the switches send to [default: loopback, for switches of this
    /// machine, and a free port]
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = receiver, requires = "network")]
    pub receive: Option<SocketAddr>,

    /// Merge tuples of the monitors of a pod before they are sent on; auto: if this reduces the load of links above
    /// the pod
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t,
        requires = "network"
    )]
    pub aggregate: AggregatorPolicy,

    /// Random seed for the choice among equally good placements
    #[arg(long, value_name = "N", default_value_t = 1, requires = "network")]
    pub seed: u64,
}

/// Address of a receiver; without a port, any free one.
fn receiver(text: &str) -> Result<SocketAddr, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = match bare.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, 0),
        Err(_) => text.parse().map_err(|_| {
            format!("{text:?} is not an address, such as 10.0.0.1 or 10.0.0.1:6343")
        })?,
    };
    if address.ip().is_unspecified() {
        return Err("switches need an address of this machine to send to".to_owned());
    }
    Ok(address)
}

/// Way of packets to a query in a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PacketWay {
    /// The cheapest way of packets; an export if all of them exceed BUDGET
    #[default]
    Auto,
    /// Copies of packets, or monitors at switch ports
    Packets,
    /// sFlow samples
    Sflow,
    /// IPFIX flow records
    Ipfix,
}

impl From<PacketWay> for physical::NetworkMode {
    fn from(way: PacketWay) -> physical::NetworkMode {
        match way {
            PacketWay::Auto => physical::NetworkMode::Auto,
            PacketWay::Packets => physical::NetworkMode::Packets,
            PacketWay::Sflow => physical::NetworkMode::Export(ExporterSlot::Sflow),
            PacketWay::Ipfix => physical::NetworkMode::Export(ExporterSlot::Ipfix),
        }
    }
}

/// Condition for an aggregator in a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum AggregatorPolicy {
    /// Never
    Never,
    /// In pods with at least two monitors, if it reduces the load of links above the pod
    #[default]
    Auto,
    /// In pods with at least two monitors
    Always,
}

impl From<AggregatorPolicy> for physical::AggregatorMode {
    fn from(when: AggregatorPolicy) -> physical::AggregatorMode {
        match when {
            AggregatorPolicy::Never => physical::AggregatorMode::Never,
            AggregatorPolicy::Auto => physical::AggregatorMode::Auto,
            AggregatorPolicy::Always => physical::AggregatorMode::Always,
        }
    }
}

/// Output format of a plan for a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// Text for people
    #[default]
    Text,
    /// JSON
    Json,
    /// Picture
    Svg,
}

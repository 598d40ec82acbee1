//! Flags of plans for a network.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
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

    /// Costs of copying packets, measured by netalytics calibrate [default: built-in estimates]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "network")]
    pub costs: Option<PathBuf>,

    /// Reject placements with which the result would lack packets
    #[arg(long, requires = "network")]
    pub exact: bool,

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

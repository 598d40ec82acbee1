//! Flags of plans for a network.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use planner::physical;
use planner::topology::Expected;

/// Flags of plans in a network.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "In a network")]
pub struct NetworkFlags {
    /// Description of the network (TOML): switches, hosts, links, possible places of monitors
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub network: Option<PathBuf>,

    /// Expected traffic, as in 10.0.1.2:80=20Mbps; repeatable
    #[arg(long, value_name = "WHERE=RATE", value_parser = Expected::parse, requires = "network")]
    pub expect: Vec<Expected>,

    /// Costs of copying packets, measured by netalytics calibrate [default: built-in estimates]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "network")]
    pub costs: Option<PathBuf>,

    /// Reject placements with which the result would lack packets
    #[arg(long, requires = "network")]
    pub exact: bool,

    /// Merge tuples of the monitors of a pod before they are sent on; auto: if this reduces the load of links above
    /// the pod
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, requires = "network")]
    pub aggregate: Aggregate,

    /// Random seed for the choice among equally good placements
    #[arg(long, value_name = "N", default_value_t = 1, requires = "network")]
    pub seed: u64,
}

/// When a pod has an aggregator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Aggregate {
    /// Never
    Never,
    /// In pods with at least two monitors, if it reduces the load of links above the pod
    #[default]
    Auto,
    /// In pods with at least two monitors
    Always,
}

impl From<Aggregate> for physical::Aggregate {
    fn from(when: Aggregate) -> physical::Aggregate {
        match when {
            Aggregate::Never => physical::Aggregate::Never,
            Aggregate::Auto => physical::Aggregate::Auto,
            Aggregate::Always => physical::Aggregate::Always,
        }
    }
}

/// Output format of a plan for a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Shown {
    /// Text for people
    #[default]
    Text,
    /// JSON
    Json,
    /// Picture
    Svg,
}

//! Flags of plans for a network.

use std::path::PathBuf;

use clap::builder::ValueHint;
use clap::{Args, ValueEnum};
use planner::physical;
use planner::topology::Expected;

/// The network for which is planned, and what is known of it.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "In a network")]
pub struct NetworkFlags {
    /// The network (TOML): switches, hosts and links, where monitors may run; docs/network.md describes the format
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub network: Option<PathBuf>,

    /// Traffic that is expected, as 10.0.1.2:80=20Mbps; may be given several times
    #[arg(long, value_name = "WHERE=RATE", value_parser = Expected::parse, requires = "network")]
    pub expect: Vec<Expected>,

    /// What copying packets costs, measured by calibrate [default: supposed]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "network")]
    pub costs: Option<PathBuf>,

    /// Only ways in which the answer lacks nothing
    #[arg(long, requires = "network")]
    pub exact: bool,

    /// Whether monitors of a pod send what they find to an aggregator, which merges it and hands it on: auto is where links above pods carry less by it
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, requires = "network")]
    pub aggregate: Aggregate,

    /// Which of several placements that are as good is taken
    #[arg(long, value_name = "N", default_value_t = 1, requires = "network")]
    pub seed: u64,
}

/// When a pod has an aggregator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Aggregate {
    /// Never
    Never,
    /// Where two monitors or more are in a pod, and links above it carry less by that
    #[default]
    Auto,
    /// Where two monitors or more are in a pod
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

/// How a plan for a network is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Shown {
    /// Lines for people
    #[default]
    Text,
    /// For programs
    Json,
    /// A picture
    Svg,
}

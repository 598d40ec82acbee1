//! The planning request, and the position of its flows in the network: the common input of all parts of a plan.

use std::collections::BTreeMap;

use plan::{Budget, Plan};

use super::costs::Costs;
use super::flows::Part;
use super::value::Rates;
use crate::topology::{Expected, Network, Site};

/// A planning request.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The query's plan.
    pub plan: &'a Plan,
    /// The network.
    pub site: &'a Site,
    /// Expected traffic in addition to that of the site.
    pub expected: &'a [Expected],
    /// The cost model.
    pub costs: &'a Costs,
    /// Accept only modes with complete results.
    pub exact: bool,
    /// When to use aggregators.
    pub aggregate: Aggregate,
    /// Resource limits.
    pub budget: Budget,
    /// Seed of the placement.
    pub seed: u64,
}

/// When to use an aggregator in a pod with at least two monitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// Never.
    Never,
    /// If the network has links above the pod.
    #[default]
    Auto,
    /// Always.
    Always,
}

/// A planning request for this network.
pub(super) struct Asked<'a> {
    pub(super) ask: &'a Ask<'a>,
    pub(super) network: Network,
    /// Flows by switch.
    pub(super) at: BTreeMap<usize, (Vec<Part>, Rates)>,
}

//! The planning request, and the position of its flows in the network: the common input of all parts of a plan.

use std::collections::BTreeMap;

use mirror::exporter::ExporterSlot;
use plan::{NetworkBudget, Plan};

use super::costs::PlanCosts;
use super::flows::SwitchFlows;
use super::physical_plan::TrafficRates;
use crate::topology::{ExpectedTraffic, NetworkSite, TreeNetwork};

/// A planning request.
#[derive(Clone, Debug)]
pub struct PlanRequest<'a> {
    /// The query's plan.
    pub plan: &'a Plan,
    /// The network.
    pub site: &'a NetworkSite,
    /// Expected traffic in addition to that of the site.
    pub expected: &'a [ExpectedTraffic],
    /// The cost model.
    pub costs: &'a PlanCosts,
    /// Accept only modes with complete results.
    pub exact: bool,
    /// Way of packets.
    pub mode: NetworkMode,
    /// An export samples one of this many packets; `None`: by its expected error.
    pub sampling: Option<u32>,
    /// Exporters that bridges already have.
    pub occupied: &'a [OccupiedSlot],
    /// Use of aggregators.
    pub aggregate: AggregatorMode,
    /// Resource limits.
    pub budget: NetworkBudget,
    /// Seed of the placement.
    pub seed: u64,
}

/// Requested way of packets to a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NetworkMode {
    /// The cheapest way of packets; an export if all of them exceed BUDGET.
    #[default]
    Auto,
    /// Packets: copies, or monitors at ports.
    Packets,
    /// An export in this place of a bridge.
    Export(ExporterSlot),
}

/// An exporter in a place that a plan would use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OccupiedSlot {
    /// Index of the switch.
    pub switch: usize,
    /// The place.
    pub slot: ExporterSlot,
    /// Description of the exporter.
    pub exporter: String,
}

/// Condition for an aggregator in a pod with at least two monitors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AggregatorMode {
    /// Never.
    Never,
    /// If the network has links above the pod.
    #[default]
    Auto,
    /// Always.
    Always,
}

/// A planning request for this network.
pub(super) struct PlanningProblem<'a> {
    pub(super) ask: &'a PlanRequest<'a>,
    pub(super) network: TreeNetwork,
    /// Flows by switch.
    pub(super) at: BTreeMap<usize, (Vec<SwitchFlows>, TrafficRates)>,
}

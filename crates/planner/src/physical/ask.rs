//! What is to be planned, and where in the network its flows are: what all parts of a plan are made of.

use std::collections::BTreeMap;

use plan::{Budget, Plan};

use super::costs::Costs;
use super::flows::Part;
use super::value::Rates;
use crate::topology::{Expected, Network, Site};

/// What is to be planned.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The query's plan.
    pub plan: &'a Plan,
    /// The network.
    pub site: &'a Site,
    /// Traffic that is expected besides what the site says.
    pub expected: &'a [Expected],
    /// What things cost.
    pub costs: &'a Costs,
    /// Only modes that lack nothing.
    pub exact: bool,
    /// When a pod has an aggregator.
    pub aggregate: Aggregate,
    /// What may be taken.
    pub budget: Budget,
    /// Of placement.
    pub seed: u64,
}

/// When a pod with two monitors or more has an aggregator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aggregate {
    /// Never.
    Never,
    /// Where the network has links above the pod.
    #[default]
    Auto,
    /// Always.
    Always,
}

/// What is asked, of this network.
pub(super) struct Asked<'a> {
    pub(super) ask: &'a Ask<'a>,
    pub(super) network: Network,
    /// Flows by their switches.
    pub(super) at: BTreeMap<usize, (Vec<Part>, Rates)>,
}

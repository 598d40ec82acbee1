//! What a query does to a network: which flows are covered at which switch, in which mode packets are copied, by which rules, to which
//! monitors on which hosts, and what all of that costs. [`physical`] chooses; a [`PhysicalPlan`] is a value, after which nothing is chosen.
//!
//! A flow is covered once: at the switch of its server, or of its client where the network has no such server. Rules come from `mirror`
//! and are proved on a model of the network, in which packets go as the network's file says that they do; what switches really have is
//! asked, and proved again, by whoever installs them.

mod aggregators;
mod ask;
mod budget;
mod choose;
mod costs;
mod flows;
mod json;
mod model;
mod parts;
mod picture;
mod proof;
mod rates;
#[cfg(test)]
mod tests;
mod text;
mod tunnels;
mod value;

pub use ask::{Aggregate, Ask};
pub use budget::Exceeded;
pub use choose::{Unplanned, physical};
pub use costs::{Costs, MonitorCosts, SwitchCosts, TrafficShape};
pub use json::{ends, to_json};
pub use picture::to_svg;
pub use text::{difference, mode, to_text};
pub use value::{
    AggregatorPart, Choice, Covering, LEASE, Landing, MonitorPart, PassedOver, PhysicalPlan, Place, Proof,
    Rates, SwitchPart, Taken, Way,
};

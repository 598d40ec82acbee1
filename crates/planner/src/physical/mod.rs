//! The plan of a query in a network: the flows covered at each switch, the copy mode, the rules, the monitors and
//! their hosts, and the cost. [`physical`] selects the plan; a [`PhysicalPlan`] is an immutable value.
//!
//! A flow is covered once: at the switch of its server, or of its client if the network does not contain the server.
//! Rules come from `mirror` and are proved on a model of the network that forwards as the network file describes. The
//! rules of the actual switches are read and proved again at installation.

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

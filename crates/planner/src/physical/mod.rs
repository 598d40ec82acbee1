//! The plan of a query in a network: the flows covered at each switch, the copy mode, the rules, the monitors and
//! their hosts, and the cost. Where counters suffice, an export of sFlow or IPFIX may take the place of copies. [`physical`] selects the plan; a [`PhysicalPlan`] is an immutable value.
//!
//! A flow is covered once: at the switch of its server, or of its client if the network does not contain the server.
//! Rules come from `mirror` and are proved on a model of the network that forwards as the network file describes. The
//! rules of the actual switches are read and proved again at installation.

mod aggregators;
mod budget;
mod costs;
mod export;
mod export_part;
mod flows;
mod json;
mod mode_choice;
mod model;
mod parts;
mod physical_plan;
mod picture;
mod proof;
mod rates;
mod request;
#[cfg(test)]
mod tests;
mod text;
mod tunnels;

pub use budget::BudgetExceeded;
pub use costs::{ExportCosts, MonitorCosts, PlanCosts, SwitchCosts, TrafficShape};
pub use export::export_slots;
pub use export_part::{ExportPart, ExportSwitch};
pub use json::{ends, to_json};
pub use mode_choice::{PlanningError, physical};
pub use physical_plan::{
    AggregatorPart, CopyProof, CoveredFlows, LEASE, ModeChoice, MonitorPart, MonitorPlace,
    PacketPath, PhysicalPlan, PlanResources, RejectedMode, SwitchPart, TrafficRates,
    TunnelEndpoint,
};
pub use picture::to_svg;
pub use request::{AggregatorMode, NetworkMode, OccupiedSlot, PlanRequest};
pub use text::{difference, mode, to_text};

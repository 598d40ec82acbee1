//! Placement of monitors, and of aggregators and processors for their output. [`place`] is the single entry point for
//! simulations and plans, which differ only in their [`PlacementDemand`]; [`aggregators`] is for plans with placed monitors.
//! The same seed yields the same placement.
//!
//! One file per algorithm. From NetAlytics (section 4.1): `algorithm_1` with two ways of picking a switch,
//! `algorithm_2`, `local_random`, `first_fit`. New: `packed_monitors`, `packed_engines`.

mod algorithm_1;
mod algorithm_2;
mod assignment;
mod by_rack;
mod cost;
mod demand;
mod first_fit;
mod local_random;
mod packed_engines;
mod packed_monitors;
mod place;
mod result;
mod stage;
mod strategy;
#[cfg(test)]
mod tests;

pub use cost::{PlacementCost, cost};
pub use demand::{PlacementDemand, PlacementFlow, ProcessDemand};
pub use place::{aggregators, place};
pub use result::{
    AssignedIndex, EngineLayer, EngineStream, NOBODY, PlacedEngine, PlacedMonitor, Placement,
    UncoveredFlows,
};
pub use strategy::{NearbyScope, PlacementStrategy, STRATEGIES};

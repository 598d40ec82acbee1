//! Which monitor on which host, and where what monitors extract is put together: aggregators, and behind them processors.
//! [`place`] is the one entry, of simulations and of real plans, which differ in their [`Demand`] only;
//! [`aggregators`] is for plans whose monitors stand. The same seed gives
//! the same placement.
//!
//! An algorithm a file. NetAlytics' (section 4.1): `algorithm_1` with its two choices of a switch, `algorithm_2`,
//! `local_random`, `first_fit`. Ours: `packed_monitors`, `packed_engines`.

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
mod placed;
mod stage;
mod strategy;
#[cfg(test)]
mod tests;

pub use cost::{Cost, cost};
pub use demand::{Demand, Flow, Process};
pub use place::{aggregators, place};
pub use placed::{Engine, Layer, Monitor, NOBODY, Placement, Stream, Uncovered, Who};
pub use strategy::{Nearby, STRATEGIES, Strategy};

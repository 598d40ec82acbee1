//! The engine as others see it: against a slow obvious one, at its bounds, sampled, and with its work divided.

mod bounds;
mod cells;
mod join;
mod partial;
mod profile;
mod reference;
mod sampling;
#[path = "../tuples/mod.rs"]
mod tuples;
mod workers;

//! Tests of the engine through its public API: compared with a simple, slow engine, at limits, with sampling, and with
//! workers.

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

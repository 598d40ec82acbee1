//! Alert rules and actions: each evaluates the closed windows of a result, and its changes are committed with the rows.

pub(crate) mod actions;
pub(crate) mod alerts;
pub(crate) mod evaluation;
mod windowed_result;

//! A map of services with their clients, combined from the results of `service-map` for flows and for each parsed
//! protocol.

pub mod dot;
pub mod edges;
pub mod json;
pub mod screen;

//! A map of services: who asks whom, put together of the results of `service-map` for flows and for each protocol that is read.

pub mod dot;
pub mod edges;
pub mod json;
pub mod screen;

//! Summaries of traffic, without I/O: reasons for an empty result, the overview, the service map.

pub mod no_rows;
pub mod overview;
pub mod service_map;

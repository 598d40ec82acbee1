//! NetAlytics' placement study (section 6.2): a fat tree with random hosts, a random workload, and for each strategy
//! the cost of monitoring some of its flows. Pure: the same [`PlacementStudy`] and seed yield the same numbers.

mod sizes;
mod study;
mod summary;
#[cfg(test)]
mod tests;
mod workload;

pub use sizes::{FlowSizeDistribution, SIZES};
pub use study::{HostRanges, PlacementStudy, StudyRun};
pub use summary::{MeanDeviation, StudyPoint, summarize};
pub use workload::{SimulatedWorkload, TrafficLocality, workload};

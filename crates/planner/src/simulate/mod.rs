//! NetAlytics' placement study (section 6.2): a fat tree with random hosts, a random workload, and for each strategy
//! the cost of monitoring some of its flows. Pure: the same [`Study`] and seed yield the same numbers.

mod sizes;
mod study;
mod summary;
#[cfg(test)]
mod tests;
mod workload;

pub use sizes::{SIZES, Sizes};
pub use study::{Hosts, Run, Study};
pub use summary::{Figure, Point, summarize};
pub use workload::{Locality, Workload, workload};

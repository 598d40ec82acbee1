//! What topics are called.

use plan::{Dataflow, MonitorSpec};
use stream::Config;
use tuple::Schema;

/// Where results are told, as JSON lines, by whoever has finished them.
pub const RESULTS: &str = "netalytics.results";
/// Who publishes what where.
pub const LANES: &str = "netalytics.lanes";

/// A parser's tuples.
#[must_use]
pub fn tuples(schema: &Schema) -> String {
    format!("netalytics.{}.v{}", schema.name, schema.version)
}

/// Cells of a pipeline of a query: of all queries that count the same of the same packets.
#[must_use]
pub fn cells(monitor: &MonitorSpec, dataflow: &Dataflow, pipeline: usize, config: &Config) -> String {
    let beside = format!("{:?} {:?} {:?}", monitor.clients, monitor.servers, monitor.sample);
    format!("netalytics.cells.v1.{}", stream::cells::fingerprint(dataflow, pipeline, config, beside.as_bytes()))
}

/// What Flink has merged for a job.
#[must_use]
pub fn merged(job: &str) -> String {
    format!("netalytics.merged.v1.{job}")
}

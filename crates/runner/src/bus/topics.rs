//! Names of topics.

use plan::{Dataflow, MonitorSpec, SampleMode};
use stream::EngineConfig;

use tuple::Schema;

/// Seed that assigns sampled flows to replicates, which readers and publishers of tuples must share.
pub const SAMPLE_SEED: u64 = 0;

/// Engine configuration for published data, so that publishers and readers assign flows to replicates alike.
#[must_use]
pub fn configured(config: &EngineConfig, monitor: &MonitorSpec) -> EngineConfig {
    let sample = match monitor.sample {
        SampleMode::Fraction(share) => share,
        SampleMode::All | SampleMode::Auto => 1.0,
    };
    EngineConfig { sample, sample_seed: SAMPLE_SEED, ..config.clone() }
}

/// Settings of created topics: a pane in one record may exceed the brokers' default limit.
#[must_use]
pub fn settings() -> Vec<(&'static str, String)> {
    vec![("max.message.bytes", ::bus::RECORD_BYTES_MAX.to_string())]
}

/// Topic of a parser's tuples.
#[must_use]
pub fn tuples(schema: &Schema) -> String {
    format!("netalytics.{}.v{}", schema.name, schema.version)
}

/// Topic of a pipeline's cells; shared by all queries with the same measures of the same packets.
#[must_use]
pub fn cells(monitor: &MonitorSpec, dataflow: &Dataflow, pipeline: usize) -> String {
    let config = &configured(&EngineConfig::default(), monitor);
    let beside = format!("{:?} {:?} {:?}", monitor.clients, monitor.servers, monitor.sample);
    format!(
        "netalytics.cells.v1.{}",
        stream::cells::fingerprint(dataflow, pipeline, config, beside.as_bytes())
    )
}

/// Topic of a server's job; `job`: its name on the bus.
#[must_use]
pub fn of_job(job: &str, pipeline: usize) -> String {
    format!("netalytics.job.{job}.{pipeline}")
}

/// Topic of Flink's output for a job.
#[must_use]
pub fn merged(job: &str) -> String {
    format!("netalytics.merged.v1.{job}")
}

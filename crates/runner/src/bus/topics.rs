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
        SampleMode::All | SampleMode::Auto | SampleMode::Exported => 1.0,
    };
    EngineConfig {
        sample,
        sample_seed: SAMPLE_SEED,
        ..config.clone()
    }
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
    let beside = format!(
        "{:?} {:?} {:?}",
        monitor.clients, monitor.servers, monitor.sample
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(query: &str) -> plan::Plan {
        let checked = query::check(query, &parsers::registry::schemas(), &());
        planner::lower(&checked.expect("a query"))
    }

    /// Topic of the first pipeline's cells.
    fn of(query: &str) -> String {
        let plan = plan(query);
        cells(&plan.monitor, &plan.dataflow, 0)
    }

    const COUNT: &str = "PARSE http PROCESS (group-count: group=path, w=1s)";

    #[test]
    fn equal_queries_share_a_topic() {
        assert!(of(COUNT).starts_with("netalytics.cells.v1."));
        assert_eq!(of(COUNT), of(COUNT));
    }

    #[test]
    fn other_packets_and_measures_have_another_topic() {
        let mut topics: Vec<String> = [
            COUNT,
            "PARSE http TO *:80 PROCESS (group-count: group=path, w=1s)",
            "PARSE http FROM 10.0.0.0/8 PROCESS (group-count: group=path, w=1s)",
            "PARSE http SAMPLE 0.5 PROCESS (group-count: group=path, w=1s)",
            "PARSE http WHERE status = 200 PROCESS (group-count: group=path, w=1s)",
            "PARSE http PROCESS (group-count: group=host, w=1s)",
        ]
        .map(of)
        .into();
        topics.sort();
        topics.dedup();
        assert_eq!(topics.len(), 6);
    }

    #[test]
    fn readers_and_publishers_sample_the_same_flows() {
        let config = EngineConfig {
            sample: 0.1,
            sample_seed: 99,
            ..EngineConfig::default()
        };
        for (sample, expected) in [
            (SampleMode::All, 1.0),
            (SampleMode::Auto, 1.0),
            (SampleMode::Fraction(0.25), 0.25),
        ] {
            let monitor = MonitorSpec {
                sample,
                ..MonitorSpec::default()
            };
            let configured = configured(&config, &monitor);
            assert_eq!(
                (configured.sample, configured.sample_seed),
                (expected, SAMPLE_SEED)
            );
        }
    }

    #[test]
    fn names_are_those_of_the_documentation() {
        let http = parsers::registry::schema("http").expect("a parser");
        assert_eq!(tuples(&http), format!("netalytics.http.v{}", http.version));
        assert_eq!(of_job("7", 2), "netalytics.job.7.2");
        assert_eq!(merged("7"), "netalytics.merged.v1.7");
    }
}

//! Flink SQL of a query: its statements, and its sources and sinks.

use bus::tuples;
use plan::{Plan, TimeBounds};
use runner::bus::{AwakeTopic, SILENCE, TopicReach, merged};
use stream::cells::CellOrigin;
use stream::flink_sql::{
    self, FlinkJobInput, FlinkSqlJob, FlinkStartOffset, FlinkStopMode, FlinkTopic, UnprintablePart,
};
use stream::{Engine, EngineConfig, LimitedStretch};

use crate::cli::flags::bus::FlinkFlags;
use crate::process::failure::wrong_flags;

/// Timeout of transactions; the brokers' default limit is 15 minutes.
const TRANSACTION_MS: u64 = 600_000;
/// Maximum difference in event time between joined tuples of a flow.
const JOIN_SPAN_MS: i64 = 300_000;

/// Parameters of a merge.
pub struct FlinkMergeRequest<'a> {
    /// The query's plan over the published data.
    pub plan: &'a Plan,
    /// The engine's configuration.
    pub config: &'a EngineConfig,
    /// Topics to read.
    pub from: FlinkJobInput,
    /// Start of reading, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Period of panes: only cells of panes that start in it are read.
    pub bounds: TimeBounds,
    /// End of reading.
    pub reach: TopicReach,
    /// The next query with this name deletes the output of this one; empty: no name.
    pub name: &'a str,
    /// Share of traffic missing in the captures.
    pub lost: f64,
    /// The time before the start of reading, whose windows are partial.
    pub partial: Option<LimitedStretch>,
}

/// Generates the job's statements.
///
/// # Errors
/// All parts of the query that have no Flink SQL.
pub fn statements(
    plan: &Plan,
    config: &EngineConfig,
    job: &FlinkSqlJob,
) -> anyhow::Result<Vec<String>> {
    flink_sql::print(&plan.dataflow, config, job).map_err(|refused| {
        let reason = |UnprintablePart { what, why }: &UnprintablePart| format!("{what}: {why}");
        let reasons: Vec<String> = refused.iter().map(reason).collect();
        let reasons = reasons.join("; ");
        wrong_flags(format!(
            "Flink cannot merge this query with the results of the embedded engine: {reasons}"
        ))
    })
}

/// Parameters of the job besides the dataflow.
pub fn job(
    wanted: &FlinkMergeRequest<'_>,
    flags: &FlinkFlags,
    brokers: &str,
    name: &str,
) -> FlinkSqlJob {
    let FlinkMergeRequest {
        plan,
        from,
        since_ms,
        reach,
        ..
    } = wanted;
    let topics = plan.dataflow.pipelines.len().max(1);
    FlinkSqlJob {
        name: name.to_owned(),
        from: from.clone(),
        merged: (0..topics)
            .map(|place| merged(&format!("{}.{place}", short(name))))
            .collect(),
        brokers: flags
            .flink_kafka
            .clone()
            .unwrap_or_else(|| brokers.to_owned()),
        properties: flags.flink_properties.clone(),
        group: format!("netalytics-{}", short(name)),
        start: since_ms.map_or(FlinkStartOffset::Latest, FlinkStartOffset::At),
        end: if *reach == TopicReach::Past {
            FlinkStopMode::Bounded
        } else {
            FlinkStopMode::Never
        },
        transactions: format!("netalytics-{}", short(name)),
        transaction_ms: TRANSACTION_MS,
        checkpoint_ms: flags.checkpoints.unsigned_abs() / 1_000_000,
        parallelism: flags.parallelism,
        idle_ms: SILENCE.as_millis() as u64,
        join_span_ms: JOIN_SPAN_MS,
    }
}

/// Last part of a job's name.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Definition of a topic with tuples or cells as a Flink source.
pub fn source(topic: &str, lateness_ns: i64) -> FlinkTopic {
    FlinkTopic {
        topic: topic.to_owned(),
        lateness_ms: lateness_ns.div_euclid(1_000_000),
    }
}

/// Topics that a job reads.
pub fn sources(wanted: &FlinkMergeRequest<'_>, engine: &Engine) -> Vec<AwakeTopic> {
    let read = |source: &FlinkTopic, schema, millisecond| AwakeTopic {
        topic: source.topic.clone(),
        schema,
        millisecond,
    };
    match &wanted.from {
        FlinkJobInput::Cells(all) => {
            let schema = |pipeline| engine.cell_table(pipeline).arrow(CellOrigin::Sent);
            all.iter()
                .enumerate()
                .map(|(pipeline, of)| read(of, schema(pipeline), 1))
                .collect()
        }
        FlinkJobInput::Tuples(all) => {
            let both = all.iter().zip(&wanted.plan.dataflow.inputs);
            both.map(|(of, input)| read(of, tuples::record_schema(&input.schema), 1_000_000))
                .collect()
        }
    }
}

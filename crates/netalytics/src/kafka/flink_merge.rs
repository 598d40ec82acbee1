//! Merges published data with Flink: runs a job of its SQL Gateway and supervises it until its end. The job ends with
//! this process, and jobs left by a crash are ended at the next start.

mod checkpoints;
mod cleanup;
mod job;
mod job_watch;
mod managed_memory;
mod restarts;
mod statements;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bus::progress::{GroupProgressReporter, ProgressReporter};
use bus::{ConsumerGroup, Kafka, NewTopic, TopicAdmin};
use flink::{FlinkAuthorization, GatewayOptions, JobName, LocalMachine, SqlGateway};
use runner::bus::{
    LimitMarks, MergeInput, MergeScope, MergedFeed, SILENCE, TopicReach, merged, settings,
};
use stream::Engine;
use stream::cells::CellOrigin;
use stream::flink_sql::{FlinkJobInput, FlinkStartOffset};

use crate::cli::flags::bus::FlinkFlags;
use crate::kafka::connection;
use checkpoints::CheckpointWatch;
use job::FlinkMerge;
use job_watch::TopicReadScope;
pub use statements::{FlinkMergeRequest, job, source, statements};

/// Environment variable with the Authorization header for Flink or its proxy; secrets are not passed in flags.
const AUTHORIZATION: &str = "NETALYTICS_FLINK_AUTHORIZATION";
/// Retention of merged results that are not deleted.
const KEPT: Duration = Duration::from_secs(3600);

/// Starts the job; returns the input that completes its results. `waiting_max`: maximum bytes waiting for the rest of
/// their panes.
pub fn start(
    wanted: &FlinkMergeRequest<'_>,
    flags: &FlinkFlags,
    kafka: &Kafka,
    (progress, marks): (Option<ProgressReporter>, LimitMarks),
    waiting_max: usize,
) -> anyhow::Result<MergedFeed> {
    let machine = LocalMachine::this().context("cannot read /proc")?;
    let run = format!("{:016x}", RandomState::new().hash_one(0));
    let own = if wanted.name.is_empty() {
        run
    } else {
        format!("{}.{run}", wanted.name)
    };
    let name = JobName::new(machine.owner(), own);
    // Unsupported queries are reported before anything starts.
    let mut job = job(wanted, flags, kafka.servers(), &name.to_string());
    statements(wanted.plan, wanted.config, &job)?;
    let there = Arc::new(TopicAdmin::connect(kafka, connection::PATIENCE)?);
    let what = if job.start == FlinkStartOffset::Latest {
        TopicReadScope::New
    } else {
        TopicReadScope::All
    };
    if job.start == FlinkStartOffset::Latest {
        // Flink takes seconds to start; the start offsets include records written in the meantime.
        job.start = FlinkStartOffset::Offsets(ends(&there, &wanted.from.topics())?);
    }
    let statements = statements(wanted.plan, wanted.config, &job)?;
    let gateway = gateway(flags)?;
    managed_memory::check(&gateway, wanted.plan)?;
    cleanup::end(&gateway, &machine, &there)?;
    if !wanted.name.is_empty() {
        // A process killed before its job started has left topics that no job names.
        cleanup::delete_all(&there, &[merged(&format!("{}.", wanted.name))])?;
    }
    let tell = |teller| {
        GroupProgressReporter::start(
            kafka,
            &job.group,
            wanted.from.topics(),
            teller,
            connection::PATIENCE,
        )
    };
    let progress = progress.map(tell).transpose()?;
    let group = ConsumerGroup::new(kafka, &job.group, connection::PATIENCE)?;
    let mut engine = Engine::new(&wanted.plan.dataflow, wanted.config.clone());
    engine.set_capture_loss(wanted.lost);
    wanted
        .partial
        .iter()
        .for_each(|partial| engine.add_limited(*partial));
    let new = NewTopic {
        partitions: 1,
        replication: None,
        retention: Some(KEPT),
        settings: settings(),
    };
    for topic in &job.merged {
        there.create(topic, &new)?;
    }
    let (insert, before) = statements.split_last().expect("a job has an INSERT");
    let started = before
        .iter()
        .try_for_each(|statement| gateway.prepare(statement).map(|_| ()));
    let started = started.and_then(|()| flink::FlinkJob::start(&gateway, &name, insert));
    let started = started.inspect_err(|_| cleanup::delete(&there, &job.merged))?;
    let topics = (job.merged.clone(), statements::sources(wanted, &engine));
    let checkpoints = CheckpointWatch::new(Duration::from_millis(job.checkpoint_ms));
    let watched = (group, what, checkpoints);
    let merge = FlinkMerge::new(started, kafka, there, topics, watched, progress)
        .context("no more threads")?;
    // In live mode, event time is about the current time.
    let time = match (wanted.reach, wanted.plan.monitor.limit.nanos) {
        (TopicReach::Live(_), Some(ns)) => {
            Some(Instant::now() + Duration::from_nanos(ns.unsigned_abs()) + SILENCE)
        }
        _ => None,
    };
    let origin = match wanted.from {
        FlinkJobInput::Tuples(_) => CellOrigin::OfTuples,
        FlinkJobInput::Cells(_) => CellOrigin::Merged,
    };
    Ok(MergedFeed::new(
        &wanted.plan.dataflow,
        engine,
        kafka,
        MergeInput {
            origin,
            topics: &job.merged,
        },
        Box::new(merge),
        (
            MergeScope {
                reach: wanted.reach,
                bounds: wanted.bounds,
                time,
            },
            marks,
        ),
        waiting_max,
    )?)
}

/// Current end offsets of the topics' partitions.
fn ends(there: &TopicAdmin, topics: &[String]) -> anyhow::Result<BTreeMap<String, Vec<i64>>> {
    let of = |topic: &String| {
        let ranges = there.offsets(topic)?;
        Ok((
            topic.clone(),
            ranges.iter().map(|range| range.end).collect(),
        ))
    };
    topics.iter().map(of).collect()
}

fn gateway(flags: &FlinkFlags) -> anyhow::Result<Arc<SqlGateway>> {
    let authorization = std::env::var(AUTHORIZATION)
        .ok()
        .map(FlinkAuthorization::raw);
    let options = GatewayOptions {
        cluster: flags.flink.clone(),
        authorization,
        authorities: flags.flink_ca.clone(),
        ..GatewayOptions::default()
    };
    Ok(Arc::new(SqlGateway::open(
        flags.flink_gateway.as_deref().unwrap_or_default(),
        options,
    )?))
}

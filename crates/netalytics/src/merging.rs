//! Merges published data with Flink: runs a job of its SQL Gateway and supervises it until its end. The job ends with
//! this process, and jobs left by a crash are ended at the next start.

mod checkpoints;
mod job;
mod left_over;
mod memory;
mod restarts;
mod told;
mod watch;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bus::progress::{GroupTeller, Teller};
use bus::{Group, Kafka, NewTopic, Topics};
use flink::{Authorization, Gateway, JobName, Machine, Options};
use runner::bus::{Marks, MergedFeed, Merges, Reach, SILENCE, Until, merged, settings};
use stream::Engine;
use stream::cells::Origin;
use stream::flink_sql::{From, Start};

use crate::flags::bus::FlinkFlags;
use crate::kafka;
use checkpoints::Checkpoints;
use job::Merge;
pub use told::{Wanted, job, source, statements};
use watch::Records;

/// Environment variable with the Authorization header for Flink or its proxy; secrets are not passed in flags.
const AUTHORIZATION: &str = "NETALYTICS_FLINK_AUTHORIZATION";
/// Retention of merged results that are not deleted.
const KEPT: Duration = Duration::from_secs(3600);

/// Starts the job; returns the input that completes its results. `waiting_max`: maximum bytes waiting for the rest of
/// their panes.
pub fn start(
    wanted: &Wanted<'_>,
    flags: &FlinkFlags,
    kafka: &Kafka,
    (progress, marks): (Option<Teller>, Marks),
    waiting_max: usize,
) -> anyhow::Result<MergedFeed> {
    let machine = Machine::this().context("cannot read /proc")?;
    let run = format!("{:016x}", RandomState::new().hash_one(0));
    let own = if wanted.name.is_empty() { run } else { format!("{}.{run}", wanted.name) };
    let name = JobName::new(machine.owner(), own);
    // Unsupported queries are reported before anything starts.
    let mut job = job(wanted, flags, kafka.servers(), &name.to_string());
    statements(wanted.plan, wanted.config, &job)?;
    let there = Arc::new(Topics::connect(kafka, kafka::PATIENCE)?);
    let what = if job.start == Start::Latest { Records::New } else { Records::All };
    if job.start == Start::Latest {
        // Flink takes seconds to start; the start offsets include records written in the meantime.
        job.start = Start::Offsets(ends(&there, &wanted.from.topics())?);
    }
    let statements = statements(wanted.plan, wanted.config, &job)?;
    let gateway = gateway(flags)?;
    memory::check(&gateway, wanted.plan)?;
    left_over::end(&gateway, &machine, &there)?;
    if !wanted.name.is_empty() {
        // A process killed before its job started has left topics that no job names.
        left_over::delete_all(&there, &[merged(&format!("{}.", wanted.name))])?;
    }
    let tell = |teller| GroupTeller::start(kafka, &job.group, wanted.from.topics(), teller, kafka::PATIENCE);
    let progress = progress.map(tell).transpose()?;
    let group = Group::new(kafka, &job.group, kafka::PATIENCE)?;
    let mut engine = Engine::new(&wanted.plan.dataflow, wanted.config.clone());
    engine.set_capture_loss(wanted.lost);
    wanted.partial.iter().for_each(|partial| engine.add_limited(*partial));
    let new = NewTopic { partitions: 1, replication: None, retention: Some(KEPT), settings: settings() };
    for topic in &job.merged {
        there.create(topic, &new)?;
    }
    let (insert, before) = statements.split_last().expect("a job has an INSERT");
    let started = before.iter().try_for_each(|statement| gateway.prepare(statement).map(|_| ()));
    let started = started.and_then(|()| flink::Job::start(&gateway, &name, insert));
    let started = started.inspect_err(|_| left_over::delete(&there, &job.merged))?;
    let topics = (job.merged.clone(), told::sources(wanted, &engine));
    let checkpoints = Checkpoints::new(Duration::from_millis(job.checkpoint_ms));
    let watched = (group, what, checkpoints);
    let merge = Merge::new(started, kafka, there, topics, watched, progress).context("no more threads")?;
    // In live mode, event time is about the current time.
    let time = match (wanted.reach, wanted.plan.monitor.limit.nanos) {
        (Reach::Live(_), Some(ns)) => {
            Some(Instant::now() + Duration::from_nanos(ns.unsigned_abs()) + SILENCE)
        }
        _ => None,
    };
    let origin = match wanted.from {
        From::Tuples(_) => Origin::OfTuples,
        From::Cells(_) => Origin::Merged,
    };
    Ok(MergedFeed::new(
        &wanted.plan.dataflow,
        engine,
        kafka,
        Merges { origin, topics: &job.merged },
        Box::new(merge),
        (Until { reach: wanted.reach, bounds: wanted.bounds, time }, marks),
        waiting_max,
    )?)
}

/// Current end offsets of the topics' partitions.
fn ends(there: &Topics, topics: &[String]) -> anyhow::Result<BTreeMap<String, Vec<i64>>> {
    let of = |topic: &String| {
        let ranges = there.offsets(topic)?;
        Ok((topic.clone(), ranges.iter().map(|range| range.end).collect()))
    };
    topics.iter().map(of).collect()
}

fn gateway(flags: &FlinkFlags) -> anyhow::Result<Arc<Gateway>> {
    let authorization = std::env::var(AUTHORIZATION).ok().map(Authorization::raw);
    let options = Options {
        cluster: flags.flink.clone(),
        authorization,
        authorities: flags.flink_ca.clone(),
        ..Options::default()
    };
    Ok(Arc::new(Gateway::open(flags.flink_gateway.as_deref().unwrap_or_default(), options)?))
}

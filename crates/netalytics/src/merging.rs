//! Flink merges what was published: a job of its SQL Gateway, looked after from here until it has ended. Nothing of it is left behind: it is
//! ended with us, and what a crash of ours left is ended by the next start.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bus::progress::{GroupTeller, Teller};
use bus::{Group, Kafka, NewTopic, Topics};
use flink::{Authorization, Gateway, JobName, Machine, Options, State};
use plan::{Bounds, Plan};
use runner::bus::{MergedFeed, Merges, Merging, Reach, SILENCE, Until, Work, merged};
use stream::cells::Origin;
use stream::flink_sql::{self, End, From, Job, Source, Start, Unprintable};
use stream::{Config, Engine};

use crate::failure::wrong_flags;
use crate::flags::bus::FlinkFlags;
use crate::{kafka, output};

/// Where the header is that Flink, or who stands before it, lets us in by: a password has no place among flags.
const AUTHORIZATION: &str = "NETALYTICS_FLINK_AUTHORIZATION";
/// So often a job is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(300);
/// So often in a row a job may start again for one reason before it is given up.
const AGAIN_MAX: usize = 5;
/// How long what was merged is kept, should nobody delete it.
const KEPT: Duration = Duration::from_secs(3600);
/// How long transactions may be open that nobody ends; brokers allow 15 minutes unless they are told otherwise.
const TRANSACTION_MS: u64 = 600_000;
/// How far apart in event time tuples of one flow may be that are joined.
const JOIN_SPAN_MS: i64 = 300_000;

/// What is to be merged.
pub struct Wanted<'a> {
    /// The query's plan over what was published.
    pub plan: &'a Plan,
    /// The engine's configuration.
    pub config: &'a Config,
    /// What is read.
    pub from: From,
    /// From where on, in milliseconds since 1970.
    pub since_ms: Option<i64>,
    /// Cells of panes that begin within them are taken.
    pub bounds: Bounds,
    /// How far.
    pub reach: Reach,
}

/// A job on the cluster that is ours.
struct Merge {
    /// Tells publishers how far Flink has come.
    _progress: Option<GroupTeller>,
    gateway: Arc<Gateway>,
    job: flink::Job,
    there: Topics,
    topics: Vec<String>,
    /// What it reads, and the group by which it tells how far.
    read: Vec<String>,
    group: Group,
    looked: Option<Instant>,
    /// When it was asked last how far it has read.
    asked: Option<Instant>,
    work: Work,
    /// Why it started again, and how often for that reason.
    again: (String, usize),
}

/// Prints the job's statements.
///
/// # Errors
/// What cannot be said in Flink SQL, all of it.
pub fn statements(plan: &Plan, config: &Config, job: &Job) -> anyhow::Result<Vec<String>> {
    flink_sql::print(&plan.dataflow, config, job).map_err(|refused| {
        let line = |Unprintable { what, why }: &Unprintable| format!("\n  {what}: {why}");
        let lines: String = refused.iter().map(line).collect();
        wrong_flags(format!("Flink cannot merge this query as the embedded engine answers it:{lines}"))
    })
}

/// What the job is told beside the dataflow.
pub fn job(wanted: &Wanted<'_>, flags: &FlinkFlags, brokers: &str, name: &str) -> Job {
    let Wanted { plan, from, since_ms, reach, .. } = wanted;
    let topics = plan.dataflow.pipelines.len().max(1);
    Job {
        name: name.to_owned(),
        from: from.clone(),
        merged: (0..topics).map(|place| merged(&format!("{}.{place}", short(name)))).collect(),
        brokers: flags.flink_kafka.clone().unwrap_or_else(|| brokers.to_owned()),
        properties: flags.flink_properties.clone(),
        group: format!("netalytics-{}", short(name)),
        start: since_ms.map_or(Start::Latest, Start::At),
        end: if *reach == Reach::Past { End::Bounded } else { End::Never },
        transactions: format!("netalytics-{}", short(name)),
        transaction_ms: TRANSACTION_MS,
        checkpoint_ms: flags.checkpoints.unsigned_abs() / 1_000_000,
        parallelism: flags.parallelism,
        idle_ms: SILENCE.as_millis() as u64,
        join_span_ms: JOIN_SPAN_MS,
    }
}

/// The last part of a job's name.
fn short(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Starts the job, and gives what finishes its results.
pub fn start(
    wanted: &Wanted<'_>,
    flags: &FlinkFlags,
    kafka: &Kafka,
    brokers: &str,
    progress: Option<Teller>,
) -> anyhow::Result<MergedFeed> {
    let url = flags.flink_gateway.as_deref().unwrap_or_default();
    let machine = Machine::this().context("cannot read /proc")?;
    let name = JobName::new(machine.owner(), format!("{:016x}", RandomState::new().hash_one(0)));
    // What cannot be printed is told before anything starts.
    let job = job(wanted, flags, brokers, &name.to_string());
    let statements = statements(wanted.plan, wanted.config, &job)?;
    let authorization = std::env::var(AUTHORIZATION).ok().map(Authorization::raw);
    let options = Options {
        cluster: flags.flink.clone(),
        authorization,
        authorities: flags.flink_ca.clone(),
        ..Options::default()
    };
    let gateway = Arc::new(Gateway::open(url, options)?);
    let there = Topics::connect(kafka, kafka::PATIENCE)?;
    end_left_over(&gateway, &machine, &there)?;
    let tell = |teller| GroupTeller::start(kafka, &job.group, wanted.from.topics(), teller, kafka::PATIENCE);
    let progress = progress.map(tell).transpose()?;
    let new = NewTopic { partitions: 1, replication: None, retention: Some(KEPT), settings: Vec::new() };
    for topic in &job.merged {
        there.create(topic, &new)?;
    }
    let (insert, before) = statements.split_last().expect("a job has an INSERT");
    let started = before.iter().try_for_each(|statement| gateway.prepare(statement).map(|_| ()));
    let started = started.and_then(|()| flink::Job::start(&gateway, &name, insert));
    let started = started.inspect_err(|_| delete(&there, &job.merged))?;
    let topics = job.merged.clone();
    let (From::Tuples(read) | From::Cells(read)) = &wanted.from;
    let read = read.iter().map(|source| source.topic.clone()).collect();
    let group = Group::new(kafka, &job.group, kafka::PATIENCE)?;
    let merge = Merge {
        _progress: progress,
        gateway,
        job: started,
        there,
        topics,
        read,
        group,
        looked: None,
        asked: None,
        work: Work::Going,
        again: (String::new(), 0),
    };
    let engine = Engine::new(&wanted.plan.dataflow, wanted.config.clone());
    // What is live has the time of this clock, about.
    let time = match (wanted.reach, wanted.plan.monitor.limit.nanos) {
        (Reach::Live(_), Some(ns)) => {
            Some(Instant::now() + Duration::from_nanos(ns.unsigned_abs()) + SILENCE)
        }
        _ => None,
    };
    let until = Until { reach: wanted.reach, bounds: wanted.bounds, time };
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
        until,
        wanted.config.window_bytes_max,
    )?)
}

/// The topic of a parser or of cells, as Flink reads it.
pub fn source(topic: &str, lateness_ns: i64) -> Source {
    Source { topic: topic.to_owned(), lateness_ms: lateness_ns.div_euclid(1_000_000) }
}

/// Ends the jobs that a crash of ours has left, and deletes what they merged.
fn end_left_over(gateway: &Arc<Gateway>, machine: &Machine, there: &Topics) -> anyhow::Result<()> {
    let found = gateway.end_left_over(machine)?;
    for ended in &found.ended {
        output::complain(&format!(
            "note: ended Flink's job {}, which a netalytics that is gone had left",
            ended.name
        ));
        let topics: Vec<String> = there.list()?.into_keys().collect();
        let prefix = merged(&ended.name.job);
        delete(there, topics.iter().filter(|topic| topic.starts_with(&prefix)));
    }
    Ok(())
}

fn delete<'t>(there: &Topics, topics: impl IntoIterator<Item = &'t String>) {
    for topic in topics {
        if let Err(why) = there.delete(topic) {
            output::complain(&format!("note: topic {topic} is left: {why}"));
        }
    }
}

impl Merging for Merge {
    fn look(&mut self) -> Work {
        if self.work != Work::Going || self.looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return self.work.clone();
        }
        self.looked = Some(Instant::now());
        self.work = match self.job.state() {
            Ok(State::Finished) => Work::Done,
            Ok(State::Failed { why }) => {
                Work::Failed(why.map_or_else(|| "the job has failed".into(), |why| why.to_string()))
            }
            Ok(State::Cancelled) => Work::Failed("somebody has cancelled the job".into()),
            Ok(State::Gone) => Work::Failed("the cluster knows the job no more".into()),
            Ok(State::Restarting { why }) => {
                self.begins_again(why.map(|why| why.to_string()).unwrap_or_default())
            }
            // While the gateway is away the job goes on.
            Ok(State::Starting { .. } | State::Running | State::Ending) | Err(_) => Work::Going,
        };
        self.work.clone()
    }

    fn has_read_all(&mut self) -> bool {
        if self.asked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return false;
        }
        self.asked = Some(Instant::now());
        self.read.iter().all(|topic| self.has_read(topic).unwrap_or(false))
    }

    fn drain(&mut self) {
        if self.work != Work::Going {
            return;
        }
        self.work = match self.job.stop_with_drain() {
            Ok(_) => Work::Done,
            Err(why) => Work::Failed(why.to_string()),
        };
    }
}

impl Merge {
    fn has_read(&self, topic: &str) -> Result<bool, bus::Error> {
        let ranges = self.there.offsets(topic)?;
        let told = self.group.committed(topic, ranges.len() as i32)?;
        let is_read = |(range, told): (&Range<i64>, Option<i64>)| range.is_empty() || told >= Some(range.end);
        Ok(ranges.iter().zip(told).all(is_read))
    }

    /// It fails and starts again by itself: told once, and given up where the reason stays.
    fn begins_again(&mut self, why: String) -> Work {
        if self.again.0 != why {
            output::complain(&format!("note: Flink starts the job again: {why}"));
            if why.contains("minBucketMemorySize") {
                output::complain(
                    "note: a slot of Flink has too little managed memory for this query: taskmanager.memory.managed.size gives more, \
                     taskmanager.numberOfTaskSlots makes fewer of them",
                );
            }
            self.again = (why, 0);
        }
        self.again.1 += 1;
        match self.again.1 {
            AGAIN_MAX.. => Work::Failed(self.again.0.clone()),
            _ => Work::Going,
        }
    }
}

impl Drop for Merge {
    fn drop(&mut self) {
        if self.work != Work::Done
            && let Err(why) = self.job.cancel()
        {
            output::complain(&format!("note: Flink's job {} may still run: {why}", self.job.id()));
        }
        delete(&self.there, &self.topics);
        let _ = &self.gateway;
    }
}

//! Flink merges what was published: a job of its SQL Gateway, looked after from here until it has ended. Nothing of it is left behind: it is
//! ended with us, and what a crash of ours left is ended by the next start.

mod restarts;
mod watch;

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bus::progress::{GroupTeller, Teller};
use bus::{Error, Group, Kafka, NewTopic, Topics, tuples};
use flink::{Authorization, Gateway, JobName, Machine, Options, State};
use plan::{Bounds, Plan};
use runner::bus::{MergedFeed, Merges, Merging, Reach, Read, SILENCE, Until, Waking, Work, merged, settings};
use stream::cells::Origin;
use stream::flink_sql::{self, End, From, Job, Source, Start, Unprintable};
use stream::{Config, Engine};

use crate::failure::wrong_flags;
use crate::flags::bus::FlinkFlags;
use crate::{kafka, output};
use restarts::{Restarts, Verdict};
use watch::{Seen, Watch};

/// Where the header is that Flink, or who stands before it, lets us in by: a password has no place among flags.
const AUTHORIZATION: &str = "NETALYTICS_FLINK_AUTHORIZATION";
/// So long nobody may tell how the job does before that is said.
const UNHEARD: Duration = Duration::from_secs(10);
/// So often it is asked how far a job has read.
const ASK_EVERY: Duration = Duration::from_millis(300);
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
    /// Whoever asks by this name again deletes what was merged for it before; empty: nobody does.
    pub name: &'a str,
    /// The share of their traffic that the captures lack.
    pub lost: f64,
}

/// A job on the cluster that is ours.
struct Merge {
    /// Tells publishers how far Flink has come.
    _progress: Option<GroupTeller>,
    kafka: Kafka,
    job: flink::Job,
    there: Arc<Topics>,
    /// What it merges to.
    topics: Vec<String>,
    /// What it reads, and the group by which it tells how far.
    sources: Vec<Read>,
    group: Group,
    /// When it was asked last how far it has read.
    asked: Option<Instant>,
    work: Work,
    watch: Watch,
    restarts: Restarts,
    late: u64,
    heard: Instant,
    hearing: Hearing,
    notes: Vec<String>,
}

/// Whether somebody tells how the job does.
#[derive(Clone, PartialEq, Eq)]
enum Hearing {
    Told,
    /// Nobody did when we looked last; why.
    Missed(String),
    /// That was told.
    Untold,
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
    let run = format!("{:016x}", RandomState::new().hash_one(0));
    let own = if wanted.name.is_empty() { run } else { format!("{}.{run}", wanted.name) };
    let name = JobName::new(machine.owner(), own);
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
    let there = Arc::new(Topics::connect(kafka, kafka::PATIENCE)?);
    end_left_over(&gateway, &machine, &there)?;
    if !wanted.name.is_empty() {
        // One that was killed before its job began has left topics that no job names.
        let left: Vec<String> = there.list()?.into_keys().collect();
        let prefix = merged(&format!("{}.", wanted.name));
        delete(&there, left.iter().filter(|topic| topic.starts_with(&prefix)));
    }
    let tell = |teller| GroupTeller::start(kafka, &job.group, wanted.from.topics(), teller, kafka::PATIENCE);
    let progress = progress.map(tell).transpose()?;
    let new = NewTopic { partitions: 1, replication: None, retention: Some(KEPT), settings: settings() };
    for topic in &job.merged {
        there.create(topic, &new)?;
    }
    let (insert, before) = statements.split_last().expect("a job has an INSERT");
    let started = before.iter().try_for_each(|statement| gateway.prepare(statement).map(|_| ()));
    let started = started.and_then(|()| flink::Job::start(&gateway, &name, insert));
    let started = started.inspect_err(|_| delete(&there, &job.merged))?;
    let topics = job.merged.clone();
    let group = Group::new(kafka, &job.group, kafka::PATIENCE)?;
    let mut engine = Engine::new(&wanted.plan.dataflow, wanted.config.clone());
    engine.set_capture_loss(wanted.lost);
    let sources = sources(wanted, &engine);
    let read = sources.iter().map(|source| source.topic.clone()).collect();
    let watch = Watch::start(&started, &there, read).context("no more threads")?;
    let merge = Merge {
        _progress: progress,
        kafka: kafka.clone(),
        job: started,
        there,
        topics,
        sources,
        group,
        asked: None,
        work: Work::Going,
        watch,
        restarts: Restarts::default(),
        late: 0,
        heard: Instant::now(),
        hearing: Hearing::Told,
        notes: Vec::new(),
    };
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

/// The topics that a job reads.
fn sources(wanted: &Wanted<'_>, engine: &Engine) -> Vec<Read> {
    let read =
        |source: &Source, schema, millisecond| Read { topic: source.topic.clone(), schema, millisecond };
    match &wanted.from {
        From::Cells(all) => {
            let schema = |pipeline| engine.cell_table(pipeline).arrow(Origin::Sent);
            all.iter().enumerate().map(|(pipeline, of)| read(of, schema(pipeline), 1)).collect()
        }
        From::Tuples(all) => {
            let both = all.iter().zip(&wanted.plan.dataflow.inputs);
            both.map(|(of, input)| read(of, tuples::record_schema(&input.schema), 1_000_000)).collect()
        }
    }
}

/// Ends the jobs that a crash of ours has left, and deletes what they merged.
fn end_left_over(gateway: &Arc<Gateway>, machine: &Machine, there: &Topics) -> anyhow::Result<()> {
    let found = gateway.end_left_over(machine)?;
    for ended in &found.ended {
        output::complain(&format!(
            "note: ended Flink's job {}, which a netalytics that is gone had left",
            ended.name
        ));
    }
    // A job may have ended by itself behind whom it was for.
    let gone = found.ended.iter().map(|ended| &ended.name).chain(&found.over);
    let prefixes: Vec<String> = gone.map(|name| merged(&name.job)).collect();
    if !prefixes.is_empty() {
        let topics = there.list()?.into_keys();
        let left: Vec<String> =
            topics.filter(|topic| prefixes.iter().any(|prefix| topic.starts_with(prefix))).collect();
        delete(there, &left);
    }
    Ok(())
}

fn delete<'t>(there: &Topics, topics: impl IntoIterator<Item = &'t String>) {
    for topic in topics {
        let Err(why) = there.delete(topic) else { continue };
        output::complain(&format!("note: topic {topic} is left: {why}"));
        if matches!(why, Error::Unreachable { .. }) {
            // The others, too.
            return;
        }
    }
}

impl Merging for Merge {
    fn look(&mut self) -> Work {
        while self.work == Work::Going
            && let Some(seen) = self.watch.next()
        {
            self.see(seen);
        }
        if let Hearing::Missed(why) = &self.hearing
            && self.heard.elapsed() > UNHEARD
        {
            self.notes
                .push(format!("nobody tells how Flink's job does ({why}); what it merges is still taken"));
            self.hearing = Hearing::Untold;
        }
        self.work.clone()
    }

    fn has_read_all(&mut self) -> bool {
        if self.asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
            return false;
        }
        self.asked = Some(Instant::now());
        self.sources.iter().all(|of| self.has_read(&of.topic).unwrap_or(false))
    }

    fn drain(&mut self) {
        if self.work != Work::Going {
            return;
        }
        // Figures are not to be had of a job that is over.
        let late = self.job.progress().ok().and_then(|progress| progress.rows_late);
        self.late = self.late.max(late.unwrap_or(0));
        let awake = Waking::start(&self.kafka, &self.there, &self.sources);
        if let Err(why @ (Error::Unreachable { .. } | Error::NotFlushed { .. })) = &awake {
            // Without brokers Flink has nobody to give it to.
            self.work = Work::Failed(format!("the last windows are missing: {why}"));
            return;
        }
        if let Err(why) = &awake {
            self.notes.push(format!(
                "where publishers have been silent for {} s the last windows are missing: {why}",
                SILENCE.as_secs()
            ));
        }
        self.work = match self.job.stop_with_drain().map(|drained| drained.state) {
            Ok(State::Finished) => Work::Done,
            Ok(state) => over(state).unwrap_or(Work::Done),
            Err(why) => Work::Failed(why.to_string()),
        };
    }

    fn late(&self) -> u64 {
        self.late
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// What is to be said of a job that is over; `None`: it is not.
fn over(state: State) -> Option<Work> {
    Some(match state {
        State::Finished => Work::Done,
        State::Failed { why } => {
            Work::Failed(why.map_or_else(|| "the job has failed".into(), |why| why.to_string()))
        }
        State::Cancelled => Work::Failed("somebody has cancelled the job".into()),
        State::Gone => Work::Failed("the cluster knows the job no more".into()),
        _ => return None,
    })
}

impl Merge {
    fn has_read(&self, topic: &str) -> Result<bool, Error> {
        let ranges = self.there.offsets(topic)?;
        let told = self.group.committed(topic, ranges.len() as i32)?;
        let is_read = |(range, told): (&Range<i64>, Option<i64>)| range.is_empty() || told >= Some(range.end);
        Ok(ranges.iter().zip(told).all(is_read))
    }

    fn see(&mut self, seen: Seen) {
        let state = match seen {
            Seen::State(state) => state,
            Seen::Late(late) => {
                self.late = self.late.max(late);
                return;
            }
            Seen::Deleted(topic) => {
                self.work = Work::Failed(Error::NoTopic(topic).to_string());
                return;
            }
            // While nobody can be asked the job goes on.
            Seen::Nobody(why) => {
                if self.hearing != Hearing::Untold {
                    self.hearing = Hearing::Missed(why.to_string());
                }
                return;
            }
        };
        self.heard = Instant::now();
        if std::mem::replace(&mut self.hearing, Hearing::Told) == Hearing::Untold {
            self.notes.push("Flink tells again how its job does".into());
        }
        let verdict = match state {
            State::Restarting { why, since_ms } => {
                let why = why.map(|why| why.to_string()).unwrap_or_default();
                self.restarts.down(why, since_ms, Instant::now())
            }
            State::Running => self.restarts.up(Instant::now()),
            State::Starting { .. } | State::Ending => Verdict::Nothing,
            state => {
                self.work = over(state).unwrap_or(Work::Going);
                Verdict::Nothing
            }
        };
        match verdict {
            Verdict::Nothing => {}
            Verdict::Tell(note) => {
                let lacks_memory = note.contains("minBucketMemorySize");
                self.notes.push(note);
                self.notes.extend(lacks_memory.then(|| {
                    "a slot of Flink has too little managed memory for this query: taskmanager.memory.managed.size gives more, \
                     taskmanager.numberOfTaskSlots makes fewer of them"
                        .into()
                }));
            }
            Verdict::GiveUp(why) => self.work = Work::Failed(why),
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
    }
}

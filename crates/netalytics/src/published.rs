//! A query asked of what others have published to Kafka: which topics answer it, from where on, and who merges.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bus::lanes::Lanes;
use bus::lanes::log::{Capture, Log, Standing};
use bus::progress::{TOLD_EVERY, Teller};
use bus::{Kafka, Part, Reader, Topics, Until, tuples};
use monitor::Step;
use plan::{Bounds, Plan, Sample};
use query::checked;
use runner::bus::{self as crossing, BusFeed, PREFETCH_BYTES, Reach, Records};
use runner::{Fed, Feed, InputError};
use stream::cells::Origin;
use stream::flink_sql::From;
use stream::{Engine, TakeOutput};

use crate::commands::work::Telling;
use crate::failure::wrong_flags;
use crate::flags::WorkFlags;
use crate::flags::bus::{BusFlags, FlinkFlags, Merging, Published};
use crate::merging::{self, Wanted};
use crate::{kafka, output, period};

/// So often it is looked whether topics have more partitions, and a broker may take so long to answer.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_secs(1);

/// Where the answer is.
pub struct Answering {
    kafka: Kafka,
    there: Topics,
    topics: Vec<Topic>,
    /// Where reading begins, in milliseconds since 1970 as brokers count them.
    since_ms: Option<i64>,
    /// Cells of panes that begin within them are taken; tuples the plan chooses.
    bounds: Bounds,
    /// How far it goes.
    pub reach: Reach,
    /// The share of their traffic that the captures lack of those who have published it and are done.
    lost: f64,
    /// Of a server's job what it goes by there; else empty.
    name: String,
}

/// A topic, and what the query has of it.
struct Topic {
    name: String,
    holds: Holds,
    /// Partitions to which somebody publishes.
    live: Vec<i32>,
}

/// By their numbers in the dataflow.
#[derive(Clone, Copy)]
enum Holds {
    /// Tuples of an input.
    Tuples(usize),
    /// Cells of a pipeline.
    Cells(usize),
}

/// Finds what answers the query, and plans it over that.
pub fn open(
    mut query: checked::Query,
    flags: &WorkFlags,
    brokers: &str,
    bounds: Bounds,
    telling: Telling,
) -> anyhow::Result<(Plan, Answering)> {
    if query.limit.packets.is_some() || flags.count.is_some() {
        return Err(wrong_flags(
            "what is published has no packets to count: limit the time, as in LIMIT 90s",
        ));
    }
    let kafka = kafka::of(brokers, &flags.bus.client)?;
    let there = Topics::connect(&kafka, kafka::PATIENCE)?;
    let mut lanes = Lanes::open(&kafka, kafka::PATIENCE)?;
    let now_ms = now_ns().div_euclid(1_000_000);
    let log = lanes.read(kafka::PATIENCE)?;
    let plan = planner::lower(&query);
    let topics = match flags.bus.published {
        Some(Published::Tuples) => None,
        asked => cells(&plan, &there, asked)?,
    };
    let is_tuples = topics.is_none();
    let mut topics = match topics {
        Some(topics) => topics,
        None => of_tuples(&plan, &there)?,
    };
    find_live(&mut topics, log, now_ms);
    let since_ms = bounds.since_ns.map(|ns| ns.div_euclid(1_000_000));
    let lost = since_ms.map_or(0.0, |since_ms| lost(log, &topics, since_ms));
    let plan = if is_tuples {
        query.sample = sample(&query.sample, log, &topics)?;
        over_tuples(&query, bounds)
    } else {
        plan
    };
    let is_past = bounds.since_ns.is_some() && !flags.bus.follow;
    let until_ns =
        plan.monitor.limit.nanos.map(|nanos| bounds.since_ns.unwrap_or_else(now_ns).saturating_add(nanos));
    let reach = if is_past { Reach::Past } else { Reach::Live(until_ns) };
    if telling != Telling::Errors {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let how = if is_past { "" } else { "; Ctrl-C ends it" };
        output::complain(&format!("reading {}{how}", names.join(", ")));
    }
    let bounds = if is_tuples { Bounds::default() } else { bounds };
    Ok((plan, Answering { kafka, there, topics, since_ms, bounds, reach, lost, name: String::new() }))
}

/// What the captures lack of the lanes that have ended since: who still publishes has not said it yet.
fn lost(log: &Log, topics: &[Topic], since_ms: i64) -> f64 {
    let lanes = topics.iter().flat_map(|topic| log.of_topic(&topic.name, log.last_ms()));
    let captures: BTreeMap<&str, Capture> = lanes
        .filter(|(known, _)| known.at_ms >= since_ms)
        .filter_map(|(known, _)| Some((known.entry.lane.as_str(), known.entry.capture?)))
        .collect();
    let unseen: u64 = captures.values().map(|capture| capture.unseen_bytes).sum();
    let seen: u64 = captures.values().map(|capture| capture.seen_bytes).sum();
    if unseen == 0 { 0.0 } else { unseen as f64 / (seen + unseen) as f64 }
}

/// The plan of a query of tuples that were published.
fn over_tuples(query: &checked::Query, bounds: Bounds) -> Plan {
    let plan = planner::within(planner::lower(query), bounds);
    planner::recorded(&plan, Some(bounds.since_ns.unwrap_or_else(now_ns)))
}

/// What Flink would be told of a query, were there topics of the names that publishers give them. Nobody is asked.
pub fn statements(query: &checked::Query, flags: &BusFlags) -> anyhow::Result<Vec<String>> {
    let bounds = period::published(query)?.only()?;
    let plan = planner::lower(query);
    let pipelines = plan.dataflow.pipelines.len();
    let is_cells = pipelines > 0 && flags.published != Some(Published::Tuples);
    let (plan, topics): (Plan, Vec<(String, Holds)>) = if is_cells {
        let name = |place| (crossing::cells(&plan.monitor, &plan.dataflow, place), Holds::Cells(place));
        let topics = (0..pipelines).map(name).collect();
        (plan, topics)
    } else {
        let plan = over_tuples(query, bounds);
        let inputs = plan.dataflow.inputs.iter().enumerate();
        let topics = inputs.map(|(place, of)| (crossing::tuples(&of.schema), Holds::Tuples(place))).collect();
        (plan, topics)
    };
    let names: Vec<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
    let from = from(&plan, &names, topics.first().map(|(_, holds)| *holds));
    let config = &crossing::configured(&stream::Config::default(), &plan.monitor);
    let is_past = bounds.since_ns.is_some();
    let reach = if is_past { Reach::Past } else { Reach::Live(None) };
    let since_ms = bounds.since_ns.map(|ns| ns.div_euclid(1_000_000));
    let wanted = Wanted { plan: &plan, config, from, since_ms, bounds, reach, lost: 0.0, name: "" };
    let job = merging::job(&wanted, &flags.flink, flags.kafka.as_deref().unwrap_or_default(), "JOB");
    merging::statements(&plan, config, &job)
}

/// What Flink reads.
fn from(plan: &Plan, topics: &[&str], hold: Option<Holds>) -> From {
    let lateness = plan.dataflow.pipelines.iter().filter_map(|of| of.window).map(|window| window.lateness_ns);
    let lateness_ns = lateness.max().unwrap_or(0);
    let source = |late_ns: i64| topics.iter().map(move |topic| merging::source(topic, late_ns)).collect();
    match hold {
        // Who makes cells waits for what is late.
        Some(Holds::Cells(_)) => From::Cells(source(0)),
        _ => From::Tuples(source(lateness_ns)),
    }
}

impl Answering {
    /// What agents publish for a job of a server: cells, in topics of its own, from its beginning on or of panes within `bounds`.
    pub fn of_job(
        kafka: &Kafka,
        there: Topics,
        (name, topics): (&str, &[String]),
        bounds: Bounds,
    ) -> anyhow::Result<Answering> {
        let of = |(pipeline, name): (usize, &String)| {
            let holds = Holds::Cells(pipeline);
            Topic { name: name.clone(), holds, live: Vec::new() }
        };
        let mut topics: Vec<Topic> = topics.iter().enumerate().map(of).collect();
        let now_ms = now_ns().div_euclid(1_000_000);
        find_live(&mut topics, Lanes::open(kafka, kafka::PATIENCE)?.read(kafka::PATIENCE)?, now_ms);
        let since_ms = Some(bounds.since_ns.map_or(0, |ns| ns.div_euclid(1_000_000)));
        Ok(Answering {
            kafka: kafka.clone(),
            there,
            topics,
            since_ms,
            bounds,
            reach: Reach::Live(None),
            lost: 0.0,
            name: name.to_owned(),
        })
    }

    /// What feeds an engine with it.
    pub fn feed(
        self,
        plan: &Plan,
        config: &stream::Config,
        (engine, flink): (Merging, &FlinkFlags),
    ) -> anyhow::Result<Box<dyn Feed>> {
        Ok(match engine {
            Merging::Embedded if self.reach == Reach::Past => Box::new(self.embedded(plan, config)?.0),
            Merging::Embedded => {
                let looking = Topics::connect(&self.kafka, LOOK)?;
                let (feed, read) = self.embedded(plan, config)?;
                Box::new(Growing { feed, plan: plan.clone(), read, looking, looked: Instant::now() })
            }
            Merging::Flink => {
                let config = &crossing::configured(config, &plan.monitor);
                let (from, progress) =
                    (self.from(plan), self.progress(Duration::from_nanos(flink.checkpoints.unsigned_abs())));
                let Answering { since_ms, bounds, reach, lost, .. } = self;
                let name = &self.name;
                let wanted = Wanted { plan, config, from, since_ms, bounds, reach, lost, name };
                Box::new(merging::start(&wanted, flink, &self.kafka, self.kafka.servers(), progress)?)
            }
        })
    }

    /// What Flink reads.
    fn from(&self, plan: &Plan) -> From {
        let names: Vec<&str> = self.topics.iter().map(|topic| topic.name.as_str()).collect();
        from(plan, &names, self.topics.first().map(|topic| topic.holds))
    }

    /// Also which topics are read.
    fn embedded(&self, plan: &Plan, config: &stream::Config) -> anyhow::Result<(BusFeed, Vec<Read>)> {
        let mut engine = Engine::new(&plan.dataflow, crossing::configured(config, &plan.monitor));
        engine.set_capture_loss(self.lost);
        let mut feed =
            BusFeed::new(engine, Reader::new(&self.kafka, PREFETCH_BYTES)?, self.reach, self.bounds);
        let mut read = Vec::new();
        for (place, Topic { name, holds, live }) in self.topics.iter().enumerate() {
            // Processors that count the same share their cells.
            if self.topics[..place].iter().any(|before| before.name == *name) {
                continue;
            }
            let sharing: Vec<Holds> =
                self.topics.iter().filter(|of| of.name == *name).map(|of| of.holds).collect();
            let ranges = self.there.offsets(name)?;
            let froms = match self.since_ms {
                Some(since_ms) => self.there.offsets_at(name, since_ms)?,
                None => ranges.iter().map(|range| range.end).collect(),
            };
            for ((partition, from), range) in (0..).zip(froms).zip(ranges) {
                let until = match self.reach {
                    Reach::Past => Until::Offset(range.end),
                    Reach::Live(_) => Until::Forever,
                };
                let records = records(plan, feed.engine(), *holds, &sharing)?;
                let part = Part { topic: name.clone(), partition, from: from.max(range.start), until };
                feed.add(part, records, live.contains(&partition))?;
            }
            let partitions = self.there.partitions(name)?.unwrap_or(0);
            read.push(Read { name: name.clone(), holds: *holds, sharing, partitions });
        }
        if let Some(progress) = self.progress(TOLD_EVERY) {
            feed.tell(progress);
        }
        Ok((feed, read))
    }

    /// What tells publishers how far a live query of tuples has come, in steps as long as this. Without it they do not heed the query.
    fn progress(&self, every: Duration) -> Option<Teller> {
        let is_of_tuples = self.topics.iter().any(|topic| matches!(topic.holds, Holds::Tuples(_)));
        if self.reach == Reach::Past || !is_of_tuples {
            return None;
        }
        let teller = Teller::open(&self.kafka, &kafka::name_of_run(), every, kafka::PATIENCE);
        let complain = |why: &bus::Error| {
            output::complain(&format!("note: publishers do not hear how far this query has come: {why}"));
        };
        teller.inspect_err(complain).ok()
    }
}

/// What is live, of topics that may get more partitions.
struct Growing {
    feed: BusFeed,
    plan: Plan,
    read: Vec<Read>,
    looking: Topics,
    looked: Instant,
}

/// A topic that is read.
struct Read {
    name: String,
    holds: Holds,
    sharing: Vec<Holds>,
    /// How many of its partitions are.
    partitions: i32,
}

impl Growing {
    fn look(&mut self) -> anyhow::Result<()> {
        for Read { name, holds, sharing, partitions } in &mut self.read {
            let there = self.looking.partitions(name)?.unwrap_or(0);
            for partition in *partitions..there {
                let records = records(&self.plan, self.feed.engine(), *holds, sharing)?;
                let part = Part { topic: name.clone(), partition, from: 0, until: Until::Forever };
                self.feed.add(part, records, true)?;
                *partitions = partition + 1;
            }
        }
        Ok(())
    }
}

impl Feed for Growing {
    fn next(&mut self, out: &mut dyn TakeOutput) -> Step {
        if self.feed.is_endless() && self.looked.elapsed() >= LOOK_EVERY {
            // While no broker answers there is nothing to be read, either.
            let _ = self.look();
            self.looked = Instant::now();
        }
        self.feed.next(out)
    }

    fn finish(&mut self, out: &mut dyn TakeOutput) {
        self.feed.finish(out);
    }

    fn begin_at(&mut self, watermark_ns: i64, latest_ns: &[Option<i64>]) {
        self.feed.begin_at(watermark_ns, latest_ns);
    }

    fn come_to_the_end(&mut self) {
        let _ = self.look();
        self.feed.come_to_the_end();
    }

    fn is_endless(&self) -> bool {
        self.feed.is_endless()
    }

    fn engine(&self) -> &Engine {
        self.feed.engine()
    }

    fn fed(&self) -> Fed {
        self.feed.fed()
    }

    fn notes(&mut self) -> Vec<String> {
        self.feed.notes()
    }

    fn problems(&self) -> Vec<InputError> {
        self.feed.problems()
    }
}

/// To which partitions somebody publishes.
fn find_live(topics: &mut [Topic], log: &Log, now_ms: i64) {
    for topic in topics {
        let lanes = log.of_topic(&topic.name, now_ms).filter(|(_, standing)| *standing == Standing::Live);
        topic.live = lanes.map(|(known, _)| known.entry.partition).collect();
    }
}

/// Whether Flink can merge the cells in these topics.
///
/// # Errors
/// What cannot be said in Flink SQL, all of it.
pub fn printable(
    plan: &Plan,
    config: &stream::Config,
    topics: &[String],
    flink: &FlinkFlags,
) -> anyhow::Result<()> {
    let from = From::Cells(topics.iter().map(|topic| merging::source(topic, 0)).collect());
    let (bounds, reach) = (Bounds::default(), Reach::Live(None));
    let wanted = Wanted { plan, config, from, since_ms: None, bounds, reach, lost: 0.0, name: "" };
    merging::statements(plan, config, &merging::job(&wanted, flink, "", "job")).map(drop)
}

/// What reads the records of a topic, which all of `sharing` are of.
fn records(plan: &Plan, engine: &Engine, holds: Holds, sharing: &[Holds]) -> anyhow::Result<Records> {
    Ok(match holds {
        Holds::Tuples(input) => {
            let of = &plan.dataflow.inputs[input];
            let decoder = tuples::Decoder::new(&of.schema, |id| of.columns.contains(&id));
            Records::Tuples(input, Box::new(decoder))
        }
        Holds::Cells(pipeline) => {
            let schema = engine.cell_table(pipeline).arrow(Origin::Sent);
            let pipelines = sharing.iter().filter_map(|of| match of {
                Holds::Cells(pipeline) => Some(*pipeline),
                Holds::Tuples(_) => None,
            });
            Records::Cells(pipelines.collect(), Box::new(avro::Decoder::new(&schema, |_| true)?))
        }
    })
}

/// The topics with the cells of all of the query's pipelines, where there are such.
fn cells(plan: &Plan, there: &Topics, asked: Option<Published>) -> anyhow::Result<Option<Vec<Topic>>> {
    let mut topics = Vec::new();
    for pipeline in 0..plan.dataflow.pipelines.len() {
        let name = crossing::cells(&plan.monitor, &plan.dataflow, pipeline);
        match there.partitions(&name)? {
            Some(_) => topics.push(Topic { name, holds: Holds::Cells(pipeline), live: Vec::new() }),
            None if asked.is_some() => {
                return Err(wrong_flags(format!(
                    "nobody has published cells of this query: there is no topic {name}; netalytics publish with the same query \
                     makes it"
                )));
            }
            None => return Ok(None),
        }
    }
    Ok(Some(topics).filter(|topics| !topics.is_empty()))
}

/// The topics with the tuples of the query's parsers.
fn of_tuples(plan: &Plan, there: &Topics) -> anyhow::Result<Vec<Topic>> {
    let all = there.list()?;
    let mut topics = Vec::new();
    for (input, of) in plan.dataflow.inputs.iter().enumerate() {
        let (name, parser) = (crossing::tuples(&of.schema), &of.schema.name);
        if !all.contains_key(&name) {
            let others = all.keys().filter(|topic| topic.starts_with(&format!("netalytics.{parser}.v")));
            let others: Vec<&str> = others.map(String::as_str).collect();
            return Err(wrong_flags(match others.is_empty() {
                true => format!(
                    "nobody has published {parser} here: there is no topic {name}; netalytics publish 'PARSE {parser}' makes it"
                ),
                false => format!(
                    "there is no topic {name}; {} comes from another version of netalytics, which can read it",
                    others.join(", ")
                ),
            }));
        }
        if let Some((_, family, key)) = of.schema.members().find(|(id, ..)| of.columns.contains(id)) {
            return Err(wrong_flags(format!(
                "published tuples of {parser} have no {family}.{key}: publish the cells of this query (netalytics publish with the same query)"
            )));
        }
        topics.push(Topic { name, holds: Holds::Tuples(input), live: Vec::new() });
    }
    Ok(topics)
}

/// The sampling of what was published: each tuple says at what rate its flow was sampled.
fn sample(asked: &Sample, log: &Log, topics: &[Topic]) -> anyhow::Result<Sample> {
    let now_ms = log.last_ms();
    let lanes = topics.iter().flat_map(|topic| log.of_topic(&topic.name, now_ms));
    let is_sampled =
        lanes.filter_map(|(known, _)| known.entry.about.get("sample")).any(|sample| sample != "all");
    match (asked, is_sampled) {
        (Sample::All, false) => Ok(Sample::All),
        (Sample::All | Sample::Auto, true) => Ok(Sample::Auto),
        _ => Err(wrong_flags(
            "SAMPLE chooses flows by their packets: published tuples have the sampling that they were published with, and \
             results are scaled by that",
        )),
    }
}

fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

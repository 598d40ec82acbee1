//! Queries over data published to Kafka: selects the topics, the start position, and the engine that merges.

mod topics;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bus::lanes::LaneLogReader;
use bus::progress::{ProgressReporter, TOLD_EVERY};
use bus::{Kafka, PartitionEnd, PartitionRange, PartitionReader, TopicAdmin};
use monitor::job::JobConfig;
use plan::{Plan, SampleMode, TimeBounds};
use planner::{PlanInput, PlanOptions};
use query::checked_query;
use runner::TupleFeed;
use runner::bus::{self as crossing, BusFeed, GrowingTopics, LimitMarks, MergedFeed, TopicReach};
use stream::flink_sql::FlinkJobInput;
use stream::{Engine, LimitedStretch};

use crate::cli::flags::WorkFlags;
use crate::cli::flags::bus::{BusFlags, FlinkFlags, MergeEngineFlag, PublishContentFlag};
use crate::cli::verbosity::Verbosity;
use crate::kafka::connection;
use crate::kafka::flink_merge::{self, FlinkMergeRequest};
use crate::process::failure::wrong_flags;
use crate::process::output;
use crate::source::period;
use topics::{PublishedTopic, TopicContent};

/// Bytes prefetched per partition.
const PREFETCH_BYTES: usize = 4 << 20;
/// Timeout for brokers to report new partitions; reading pauses meanwhile.
const LOOK: Duration = Duration::from_secs(1);

/// Source of the answer.
pub struct KafkaSource {
    kafka: Kafka,
    there: TopicAdmin,
    topics: Vec<PublishedTopic>,
    /// Start of reading, in milliseconds since 1970 by the brokers' clock.
    since_ms: Option<i64>,
    /// Period of panes: only cells of panes that start in it are used; tuples are selected by the plan.
    bounds: TimeBounds,
    /// End of reading.
    pub reach: TopicReach,
    /// Share of traffic missing in the captures of publishers that have ended.
    lost: f64,
    /// Limits of the publishers.
    marks: LimitMarks,
    /// The time before the start of reading, whose windows are partial.
    partial: Option<LimitedStretch>,
    /// Name of a server's job; otherwise empty.
    name: String,
    /// Message printed once the start offsets are known: records published after it are read.
    notice: Option<String>,
}

/// Finds the topics for a query, and plans the query over them.
pub fn open(
    mut query: checked_query::CheckedQuery,
    flags: &WorkFlags,
    brokers: &str,
    options: &PlanOptions,
    telling: Verbosity,
) -> anyhow::Result<(Plan, KafkaSource)> {
    let bounds = options.bounds;
    check(&query, flags.count.is_some(), flags.bus.published)?;
    let kafka = connection::of(brokers, &flags.bus.client)?;
    let there = TopicAdmin::connect(&kafka, connection::PATIENCE)?;
    let mut lanes = LaneLogReader::open(&kafka, connection::PATIENCE)?;
    let now_ms = now_ns().div_euclid(1_000_000);
    let log = lanes.read(connection::PATIENCE)?;
    // Topics are those of the query without the options of this run.
    let published = planner::lower(&query);
    let topics = match flags.bus.published {
        Some(PublishContentFlag::Tuples) => None,
        asked => topics::of_cells(&published, &there, asked)?,
    };
    let is_tuples = topics.is_none();
    let mut topics = match topics {
        Some(topics) => topics,
        None => topics::of_tuples(&published, &there)?,
    };
    topics::find_live(&mut topics, log, now_ms);
    let since_ms = bounds.since_ns.map(|ns| ns.div_euclid(1_000_000));
    let lost = since_ms.map_or(0.0, |since_ms| topics::lost(log, &topics, since_ms));
    let plan = if is_tuples {
        query.sample = topics::sample(&query.sample, log, &topics)?;
        over_tuples(&query, options)
    } else {
        planner::lower_with(
            &query,
            &PlanOptions {
                bounds: TimeBounds::default(),
                ..options.clone()
            },
        )
    };
    let marks = marks(lanes, &topics, bounds);
    let marks = if bounds.since_ns.is_some() {
        marks
    } else {
        marks.from_now()
    };
    let partial = partial(&plan, bounds);
    let is_past = bounds.since_ns.is_some() && !flags.bus.follow;
    let until_ns = plan
        .monitor
        .limit
        .nanos
        .map(|nanos| bounds.since_ns.unwrap_or_else(now_ns).saturating_add(nanos));
    let reach = if is_past {
        TopicReach::Past
    } else {
        TopicReach::Live(until_ns)
    };
    let notice = (telling != Verbosity::Errors).then(|| {
        let names: Vec<&str> = topics.iter().map(|topic| topic.name.as_str()).collect();
        let how = if is_past { "" } else { "; Ctrl-C ends it" };
        format!("reading {}{how}", names.join(", "))
    });
    let bounds = if is_tuples {
        TimeBounds::default()
    } else {
        bounds
    };
    let name = String::new();
    Ok((
        plan,
        KafkaSource {
            kafka,
            there,
            topics,
            since_ms,
            bounds,
            reach,
            lost,
            marks,
            partial,
            name,
            notice,
        },
    ))
}

/// Rejects queries that published data cannot answer.
fn check(
    query: &checked_query::CheckedQuery,
    is_counted: bool,
    asked: Option<PublishContentFlag>,
) -> anyhow::Result<()> {
    if query.limit.packets.is_some() || is_counted {
        return Err(wrong_flags(
            "LIMIT in packets is not supported with Kafka: limit the time, as in LIMIT 90s",
        ));
    }
    if asked == Some(PublishContentFlag::Cells) && query.processors.is_empty() {
        return Err(wrong_flags("--published cells requires PROCESS"));
    }
    Ok(())
}

/// Limits of the publishers to these topics.
fn marks(lanes: LaneLogReader, topics: &[PublishedTopic], bounds: TimeBounds) -> LimitMarks {
    LimitMarks::new(
        lanes,
        topics.iter().map(|topic| topic.name.clone()).collect(),
        bounds,
    )
}

/// The time before the start of a query that reads from now on; its windows are partial.
fn partial(plan: &Plan, bounds: TimeBounds) -> Option<LimitedStretch> {
    let has_windows = plan
        .dataflow
        .pipelines
        .iter()
        .all(|pipeline| pipeline.window.is_some());
    let before_ns = now_ns() - 1;
    (bounds.since_ns.is_none() && has_windows).then_some(LimitedStretch {
        from_ns: before_ns,
        to_ns: before_ns,
        times: 1,
    })
}

/// Plan of a query over published tuples.
fn over_tuples(query: &checked_query::CheckedQuery, options: &PlanOptions) -> Plan {
    let input = PlanInput::Tuples {
        first_ts: Some(options.bounds.since_ns.unwrap_or_else(now_ns)),
    };
    planner::lower_with(
        query,
        &PlanOptions {
            input,
            ..options.clone()
        },
    )
}

/// Flink SQL of a query, for topics with the default names. Nothing is contacted.
pub fn statements(
    query: &checked_query::CheckedQuery,
    flags: &BusFlags,
) -> anyhow::Result<Vec<String>> {
    let bounds = period::published(query)?.only()?;
    check(query, false, flags.published)?;
    let plan = planner::lower(query);
    let pipelines = plan.dataflow.pipelines.len();
    let is_cells = pipelines > 0 && flags.published != Some(PublishContentFlag::Tuples);
    let (plan, topics): (Plan, Vec<(String, TopicContent)>) = if is_cells {
        let name = |place| {
            (
                crossing::cells(&plan.monitor, &plan.dataflow, place),
                TopicContent::Cells(place),
            )
        };
        let topics = (0..pipelines).map(name).collect();
        (plan, topics)
    } else {
        topics::sampled(&query.sample, query.sample != SampleMode::All)?;
        let plan = over_tuples(
            query,
            &PlanOptions {
                bounds,
                ..PlanOptions::default()
            },
        );
        let inputs = plan.dataflow.inputs.iter().enumerate();
        let topics = inputs
            .map(|(place, of)| (crossing::tuples(&of.schema), TopicContent::Tuples(place)))
            .collect();
        (plan, topics)
    };
    let names: Vec<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
    let from = from(&plan, &names, topics.first().map(|(_, holds)| *holds));
    let config = &crossing::configured(&stream::EngineConfig::default(), &plan.monitor);
    let is_past = bounds.since_ns.is_some();
    let reach = if is_past {
        TopicReach::Past
    } else {
        TopicReach::Live(None)
    };
    let since_ms = bounds.since_ns.map(|ns| ns.div_euclid(1_000_000));
    let wanted = FlinkMergeRequest {
        plan: &plan,
        config,
        from,
        since_ms,
        bounds,
        reach,
        lost: 0.0,
        partial: None,
        name: "",
    };
    let job = flink_merge::job(
        &wanted,
        &flags.flink,
        flags.kafka.as_deref().unwrap_or_default(),
        "JOB",
    );
    flink_merge::statements(&plan, config, &job)
}

/// Source of the Flink job.
fn from(plan: &Plan, topics: &[&str], hold: Option<TopicContent>) -> FlinkJobInput {
    let lateness = plan
        .dataflow
        .pipelines
        .iter()
        .filter_map(|of| of.window)
        .map(|window| window.lateness_ns);
    let lateness_ns = lateness.max().unwrap_or(0);
    let source = |late_ns: i64| {
        topics
            .iter()
            .map(move |topic| flink_merge::source(topic, late_ns))
            .collect()
    };
    match hold {
        // Publishers of cells wait for late tuples.
        Some(TopicContent::Cells(_)) => FlinkJobInput::Cells(source(0)),
        _ => FlinkJobInput::Tuples(source(lateness_ns)),
    }
}

impl KafkaSource {
    /// Cells published by agents for a job of a server, in its own topics; from its start, or of panes within `bounds`.
    pub fn of_job(
        kafka: &Kafka,
        there: TopicAdmin,
        (name, topics): (&str, &[String]),
        bounds: TimeBounds,
    ) -> anyhow::Result<KafkaSource> {
        let of = |(pipeline, name): (usize, &String)| {
            let holds = TopicContent::Cells(pipeline);
            PublishedTopic {
                name: name.clone(),
                holds,
                live: Vec::new(),
            }
        };
        let mut topics: Vec<PublishedTopic> = topics.iter().enumerate().map(of).collect();
        let now_ms = now_ns().div_euclid(1_000_000);
        let mut lanes = LaneLogReader::open(kafka, connection::PATIENCE)?;
        topics::find_live(&mut topics, lanes.read(connection::PATIENCE)?, now_ms);
        let since_ms = Some(bounds.since_ns.map_or(0, |ns| ns.div_euclid(1_000_000)));
        let marks = marks(lanes, &topics, bounds);
        Ok(KafkaSource {
            kafka: kafka.clone(),
            there,
            topics,
            since_ms,
            bounds,
            reach: TopicReach::Live(None),
            lost: 0.0,
            marks,
            partial: None,
            name: name.to_owned(),
            notice: None,
        })
    }

    /// Creates the engine's input, and prints that reading starts.
    pub fn feed(
        mut self,
        plan: &Plan,
        config: &JobConfig,
        (engine, flink): (MergeEngineFlag, &FlinkFlags),
    ) -> anyhow::Result<Box<dyn TupleFeed>> {
        let notice = self.notice.take();
        let feed: Box<dyn TupleFeed> = match engine {
            MergeEngineFlag::Embedded => Box::new(self.embedded(plan, config)?),
            MergeEngineFlag::Flink => Box::new(self.flink(plan, config, flink)?),
        };
        notice.iter().for_each(|notice| output::complain(notice));
        Ok(feed)
    }

    /// Starts a Flink job that reads the topics.
    fn flink(
        self,
        plan: &Plan,
        config: &JobConfig,
        flink: &FlinkFlags,
    ) -> anyhow::Result<MergedFeed> {
        let waiting_max = if plan.dataflow.pipelines.is_empty() {
            config.results_bytes_max
        } else {
            config.stream.window_bytes_max
        };
        let config = &crossing::configured(&config.stream, &plan.monitor);
        let from = self.from(plan);
        let progress = self.progress(Duration::from_nanos(flink.checkpoints.unsigned_abs()));
        let KafkaSource {
            since_ms,
            bounds,
            reach,
            lost,
            partial,
            marks,
            ..
        } = self;
        let name = &self.name;
        let wanted = FlinkMergeRequest {
            plan,
            config,
            from,
            since_ms,
            bounds,
            reach,
            lost,
            partial,
            name,
        };
        flink_merge::start(&wanted, flink, &self.kafka, (progress, marks), waiting_max)
    }

    /// Source of the Flink job.
    fn from(&self, plan: &Plan) -> FlinkJobInput {
        let names: Vec<&str> = self
            .topics
            .iter()
            .map(|topic| topic.name.as_str())
            .collect();
        from(plan, &names, self.topics.first().map(|topic| topic.holds))
    }

    /// Reads the topics in this process.
    fn embedded(self, plan: &Plan, config: &JobConfig) -> anyhow::Result<BusFeed> {
        let mut engine = Engine::new(
            &plan.dataflow,
            crossing::configured(&config.stream, &plan.monitor),
        );
        engine.set_capture_loss(self.lost);
        self.partial
            .iter()
            .for_each(|partial| engine.add_limited(*partial));
        let reader = PartitionReader::new(&self.kafka, PREFETCH_BYTES)?;
        let mut feed = BusFeed::new(
            engine,
            reader,
            self.reach,
            self.bounds,
            config.results_bytes_max,
        );
        if let Some(progress) = self.progress(TOLD_EVERY) {
            feed.tell(progress);
        }
        let KafkaSource {
            kafka,
            there,
            topics,
            since_ms,
            reach,
            marks,
            ..
        } = self;
        feed.mark(marks);
        // Processors with the same measures share their cells.
        let is_first = |place: usize| {
            topics[..place]
                .iter()
                .all(|before| before.name != topics[place].name)
        };
        let first: Vec<usize> = (0..topics.len()).filter(|place| is_first(*place)).collect();
        let mut read = Vec::new();
        for PublishedTopic { name, live, .. } in first.into_iter().map(|place| &topics[place]) {
            let ranges = there.offsets(name)?;
            let froms = match since_ms {
                Some(since_ms) => there.offsets_at(name, since_ms)?,
                None => ranges.iter().map(|range| range.end).collect(),
            };
            for ((partition, from), range) in (0..).zip(froms).zip(&ranges) {
                let until = match reach {
                    TopicReach::Past => PartitionEnd::Offset(range.end),
                    TopicReach::Live(_) => PartitionEnd::Forever,
                };
                let records = topics::records(&topics, plan, name, feed.engine());
                let part = PartitionRange {
                    topic: name.clone(),
                    partition,
                    from: from.max(range.start),
                    until,
                };
                feed.add(part, records, live.contains(&partition))?;
            }
            read.push((name.clone(), ranges.len() as i32));
        }
        if reach != TopicReach::Past {
            let plan = plan.clone();
            let records =
                move |name: &str, engine: &Engine| topics::records(&topics, &plan, name, engine);
            feed.grow(GrowingTopics::new(
                TopicAdmin::connect(&kafka, LOOK)?,
                read,
                Box::new(records),
            ));
        }
        Ok(feed)
    }

    /// Reports the progress of a live query of tuples to publishers, in steps of `every`. Without reports, publishers
    /// ignore the query.
    fn progress(&self, every: Duration) -> Option<ProgressReporter> {
        let is_of_tuples = self
            .topics
            .iter()
            .any(|topic| matches!(topic.holds, TopicContent::Tuples(_)));
        if self.reach == TopicReach::Past || !is_of_tuples {
            return None;
        }
        let teller = ProgressReporter::open(
            &self.kafka,
            &connection::name_of_run(),
            every,
            connection::PATIENCE,
        );
        let complain = |why: &bus::BusError| {
            output::complain(&format!(
                "note: the progress of this query cannot be sent to publishers: {why}"
            ));
        };
        teller.inspect_err(complain).ok()
    }
}

/// Checks whether Flink can merge the cells in these topics.
///
/// # Errors
/// All parts of the query that have no Flink SQL.
pub fn printable(
    plan: &Plan,
    config: &stream::EngineConfig,
    topics: &[String],
    flink: &FlinkFlags,
) -> anyhow::Result<()> {
    let from = FlinkJobInput::Cells(
        topics
            .iter()
            .map(|topic| flink_merge::source(topic, 0))
            .collect(),
    );
    let bounds = TimeBounds::default();
    let reach = TopicReach::Live(None);
    let wanted = FlinkMergeRequest {
        plan,
        config,
        from,
        since_ms: None,
        bounds,
        reach,
        lost: 0.0,
        partial: None,
        name: "",
    };
    flink_merge::statements(plan, config, &flink_merge::job(&wanted, flink, "", "job")).map(drop)
}

fn now_ns() -> i64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

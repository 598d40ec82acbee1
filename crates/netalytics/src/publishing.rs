//! A publisher's side of Kafka: topics that are missing are made, a partition of them is claimed, and records go there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bus::lanes::{Lane, Lanes};
use bus::progress::Watch;
use bus::{Counters, Kafka, NewTopic, Producer, ProducerConfig, Topics};
use capture::Block;
use capture::live::Stop;
use plan::{Dataflow, Plan, Sample};
use runner::bus::{Continuing, Feedback, What};

use crate::{away_notice, kafka, output};

/// Between two tries to find a broker.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the last records may take to be acknowledged, unless a signal has asked for the end.
pub const LAST: Duration = Duration::from_secs(30);
/// Default retention of topics.
pub const KEPT: Duration = Duration::from_secs(86_400);
/// So far packets may be out of order at a run's beginning.
const OUT_OF_ORDER_NS: i64 = 1_000_000_000;
/// Default partitions of new topics.
pub const PARTITIONS: u32 = 8;
/// Default memory for unacknowledged records.
pub const UNACKNOWLEDGED_BYTES: u64 = 64 << 20;

/// Where what is found goes.
pub struct Publisher {
    /// Takes records.
    pub producer: Arc<Producer>,
    /// A partition for us alone.
    pub lane: Lane,
    /// What goes to which place.
    pub what: What,
    /// Nothing in the run ends before this time, where that is known.
    pub begins_ns: Option<i64>,
    /// Feedback for SAMPLE auto of tuples.
    pub feedback: Option<Feedback>,
}

/// What is published to which topics, and how.
pub struct Publication<'a> {
    /// What is looked for.
    pub plan: &'a Plan,
    /// The plan's dataflow, or of tuples one for each of its inputs.
    pub dataflows: &'a [Dataflow],
    /// Captures that are read; empty where packets are captured live.
    pub read: &'a [PathBuf],
    /// A topic for the cells of each pipeline, or for the tuples of each input of a plan without any.
    pub topics: &'a [String],
    /// Those that are missing.
    pub new: NewTopic,
    /// How records are handed over.
    pub config: ProducerConfig,
    /// Description of this publisher besides the plan.
    pub about: Vec<(&'static str, String)>,
    /// Whether packets are lost that are not looked at in time.
    pub capturing: bool,
    /// Whether notices about unreachable brokers are suppressed.
    pub quiet: bool,
}

impl Publication<'_> {
    /// Opens it; when `stop` is asked for records wait for room only a little longer.
    pub fn open(&self, kafka: &Kafka, stop: &Stop) -> anyhow::Result<Publisher> {
        let there = Topics::connect(kafka, kafka::PATIENCE)?;
        for topic in self.topics {
            there.create(topic, &self.new)?;
        }
        let giving_up = Arc::new(AtomicBool::new(false));
        let mut producer = Producer::new(kafka, self.config.clone(), giving_up.clone())?;
        let begins_ns = beginning(self.read);
        let lane = self.claim(kafka, begins_ns)?;
        let mut target = |topic: &String| producer.target(topic, lane.partition());
        let what = if self.plan.dataflow.pipelines.is_empty() {
            What::Tuples(self.topics.iter().map(target).collect())
        } else {
            // Processors that count the same, as a table of groups and its ranking do, share their cells.
            let is_new = |(place, topic): &(usize, &String)| !self.topics[..*place].contains(*topic);
            let each = self.topics.iter().enumerate();
            What::Cells(each.map(|of| is_new(&of).then(|| target(of.1))).collect())
        };
        let feedback = match &what {
            What::Tuples(targets) if self.capturing && self.plan.monitor.sample == Sample::Auto => {
                let watch = Watch::open(kafka, kafka::PATIENCE)?;
                Some(Feedback::new(kafka, watch, targets, self.topics, lane.partition()))
            }
            _ => None,
        };
        let producer = Arc::new(producer);
        away_notice::attend(&producer, self.config.away, stop, &giving_up, self.quiet)?;
        Ok(Publisher { producer, lane, what, begins_ns, feedback })
    }

    /// The same; while no broker answers it is tried again, until `stop` is asked for.
    pub fn open_patiently(&self, kafka: &Kafka, stop: &Stop) -> anyhow::Result<Publisher> {
        loop {
            match self.open(kafka, stop) {
                Err(error) if is_away(&error) && !stop.is_asked() => {
                    output::complain(&format!("{error}: it is tried again"));
                    std::thread::sleep(AGAIN);
                }
                opened => return opened,
            }
        }
    }

    /// A partition of the topics for us alone, and what others may want to know of us.
    fn claim(&self, kafka: &Kafka, begins_ns: Option<i64>) -> anyhow::Result<Lane> {
        let sample = match self.plan.monitor.sample {
            Sample::All => "all".to_owned(),
            Sample::Auto => "auto".to_owned(),
            Sample::Fraction(share) => share.to_string(),
        };
        let what = if self.plan.dataflow.pipelines.is_empty() { "tuples" } else { "cells" };
        let about = [
            ("sample", sample),
            ("what", what.to_owned()),
            ("host", kafka::host_name()),
            ("query", self.plan.query.clone()),
        ];
        let about: BTreeMap<String, String> = about
            .into_iter()
            .chain(self.about.iter().cloned())
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let run = Continuing::new(kafka, (self.plan, self.dataflows), self.topics, begins_ns);
        let unfit = Box::new(move |there: &Topics, only| run.unfit(there, only));
        Ok(Lanes::open(kafka, kafka::PATIENCE)?.without(unfit).claim(
            &kafka::name_of_run(),
            self.topics,
            about,
            kafka::PATIENCE,
        )?)
    }
}

/// The time before which nothing in a run ends: of files that of their first packet, live that of the clock, with some room for packets out of
/// order. `None`: it cannot be known, as of a pipe.
fn beginning(read: &[PathBuf]) -> Option<i64> {
    if read.is_empty() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        return i64::try_from(now.as_nanos()).ok().map(|now| now - OUT_OF_ORDER_NS);
    }
    let is_file = |path: &PathBuf| Path::new(path).is_file();
    let mut block = Block::default();
    let has_packets = read.iter().all(is_file) && capture::open(read).next_block(&mut block);
    let first = block.records().iter().map(|record| record.ts.0).min().filter(|_| has_packets)?;
    Some(first.saturating_sub(OUT_OF_ORDER_NS))
}

fn is_away(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(bus::Error::Unreachable { .. }))
}

/// Records that were dropped, a sentence for each cause.
pub fn dropped(sent: &Counters, trouble: &str) -> Vec<String> {
    let refusal = sent.refusal.as_deref().unwrap_or(trouble);
    let causes = [
        (
            sent.dropped_full,
            "there was no room for them (--unacknowledged-max) while no broker took any".to_owned(),
        ),
        (sent.dropped_too_large, "they are larger than Kafka's property message.max.bytes".to_owned()),
        (sent.dropped_refused, format!("brokers refused them ({refusal})")),
    ];
    let some = causes.into_iter().filter(|(n, _)| *n > 0);
    some.map(|(n, why)| format!("{n} records were dropped, as {why}; what was published is incomplete"))
        .collect()
}

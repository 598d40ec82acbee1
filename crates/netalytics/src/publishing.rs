//! A publisher's side of Kafka: topics that are missing are made, a partition of them is claimed, and records go there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bus::lanes::{Lane, Lanes};
use bus::progress::Watch;
use bus::{Counters, Kafka, NewTopic, Producer, ProducerConfig, Topics};
use capture::live::Stop;
use plan::{Plan, Sample};
use runner::bus::{Feedback, What};

use crate::{away_notice, kafka, output};

/// Between two tries to find a broker.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the last records may take to be acknowledged, unless a signal has asked for the end.
pub const LAST: Duration = Duration::from_secs(30);
/// How long topics keep what they have, unless somebody says so.
pub const KEPT: Duration = Duration::from_secs(86_400);
/// Partitions of new topics, unless somebody says so.
pub const PARTITIONS: u32 = 8;
/// Memory for records that are not acknowledged, unless somebody says so.
pub const UNACKNOWLEDGED_BYTES: u64 = 64 << 20;

/// Where what is found goes.
pub struct Publisher {
    /// Takes records.
    pub producer: Arc<Producer>,
    /// A partition for us alone.
    pub lane: Lane,
    /// What goes to which place.
    pub what: What,
    /// What SAMPLE auto of tuples heeds.
    pub feedback: Option<Feedback>,
}

/// What is published to which topics, and how.
pub struct Publication<'a> {
    /// What is looked for.
    pub plan: &'a Plan,
    /// A topic for the cells of each pipeline, or for the tuples of each input of a plan without any.
    pub topics: &'a [String],
    /// Those that are missing.
    pub new: NewTopic,
    /// How records are handed over.
    pub config: ProducerConfig,
    /// What others may want to know of us, beside what the plan says.
    pub about: Vec<(&'static str, String)>,
    /// Whether packets are lost that are not looked at in time.
    pub capturing: bool,
    /// Whether nothing is said while brokers are away.
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
        let lane = self.claim(kafka)?;
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
        Ok(Publisher { producer, lane, what, feedback })
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
    fn claim(&self, kafka: &Kafka) -> anyhow::Result<Lane> {
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
        Ok(Lanes::open(kafka, kafka::PATIENCE)?.claim(
            &kafka::name_of_run(),
            self.topics,
            about,
            kafka::PATIENCE,
        )?)
    }
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

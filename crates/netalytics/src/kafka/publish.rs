//! Publisher side of Kafka: creates missing topics, claims a partition, and sends records to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bus::lanes::{ClaimedLane, LaneLogReader};
use bus::progress::ProgressWatch;
use bus::{Kafka, NewTopic, Producer, ProducerConfig, ProducerCounters, TopicAdmin};
use capture::PacketBlock;
use capture::live::StopSignal;
use connect::RetryPolicy;
use plan::{Dataflow, Plan, SampleMode};
use runner::bus::{PublishFeedback, PublishedContent, RunContinuation};

use crate::kafka::{broker_notice, connection};
use crate::process::output;

/// Maximum wait for the acknowledgment of the last records, without a signal.
pub const LAST: Duration = Duration::from_secs(30);
/// Default retention of topics.
pub const KEPT: Duration = Duration::from_secs(86_400);
/// Maximum reordering of packets at the start of a run, in ns.
const OUT_OF_ORDER_NS: i64 = 1_000_000_000;
/// Default partitions of new topics.
pub const PARTITIONS: u32 = 8;
/// Default memory for unacknowledged records.
pub const UNACKNOWLEDGED_BYTES: u64 = 64 << 20;

/// Destination of results.
pub struct KafkaPublisher {
    /// Producer of records.
    pub producer: Arc<Producer>,
    /// Exclusively claimed partition.
    pub lane: ClaimedLane,
    /// Records and their topics.
    pub what: PublishedContent,
    /// Lower bound of the event time of the run, if known.
    pub begins_ns: Option<i64>,
    /// Feedback for SAMPLE auto of tuples.
    pub feedback: Option<PublishFeedback>,
}

/// Results to publish, their topics, and settings.
pub struct TopicPublication<'a> {
    /// Plan of the query.
    pub plan: &'a Plan,
    /// Dataflow of the plan, or for tuples one per input.
    pub dataflows: &'a [Dataflow],
    /// Captures read; empty for live capture.
    pub read: &'a [PathBuf],
    /// A topic per pipeline for cells, or per input for tuples of a plan without pipelines.
    pub topics: &'a [String],
    /// Settings of new topics.
    pub new: NewTopic,
    /// Settings of the producer.
    pub config: ProducerConfig,
    /// Description of this publisher besides the plan.
    pub about: Vec<(&'static str, String)>,
    /// Whether packets that are not processed in time are lost.
    pub capturing: bool,
    /// Whether notices about unreachable brokers are suppressed.
    pub quiet: bool,
}

impl TopicPublication<'_> {
    /// Connects to the brokers. After `stop` is set, records wait for space only a little longer.
    pub fn open(&self, kafka: &Kafka, stop: &StopSignal) -> anyhow::Result<KafkaPublisher> {
        let there = TopicAdmin::connect(kafka, connection::PATIENCE)?;
        for topic in self.topics {
            there.create(topic, &self.new)?;
        }
        let giving_up = Arc::new(AtomicBool::new(false));
        let mut producer = Producer::new(kafka, self.config.clone(), giving_up.clone())?;
        let begins_ns = beginning(self.read);
        let lane = self.claim(kafka, begins_ns)?;
        let mut target = |topic: &String| producer.target(topic, lane.partition());
        let what = if self.plan.dataflow.pipelines.is_empty() {
            PublishedContent::Tuples(self.topics.iter().map(target).collect())
        } else {
            // Processors with the same measures, such as a table of groups and its ranking, share their cells.
            let is_new =
                |(place, topic): &(usize, &String)| !self.topics[..*place].contains(*topic);
            let each = self.topics.iter().enumerate();
            PublishedContent::Cells(each.map(|of| is_new(&of).then(|| target(of.1))).collect())
        };
        let feedback = match &what {
            PublishedContent::Tuples(targets)
                if self.capturing && self.plan.monitor.sample == SampleMode::Auto =>
            {
                let watch = ProgressWatch::open(kafka, connection::PATIENCE)?;
                Some(PublishFeedback::new(
                    kafka,
                    watch,
                    targets,
                    self.topics,
                    lane.partition(),
                ))
            }
            _ => None,
        };
        let producer = Arc::new(producer);
        broker_notice::attend(&producer, self.config.away, stop, &giving_up, self.quiet)?;
        Ok(KafkaPublisher {
            producer,
            lane,
            what,
            begins_ns,
            feedback,
        })
    }

    /// Like [`TopicPublication::open`], with retries while no broker responds, until `stop` is set.
    pub fn open_patiently(
        &self,
        kafka: &Kafka,
        stop: &StopSignal,
    ) -> anyhow::Result<KafkaPublisher> {
        let mut delays = RetryPolicy::BROKER.delays(u64::from(std::process::id()));
        loop {
            match self.open(kafka, stop) {
                Err(error) if is_away(&error) && !stop.is_asked() => {
                    output::complain(&format!("{error}: retrying"));
                    std::thread::sleep(delays.next_delay());
                }
                opened => return opened,
            }
        }
    }

    /// Claims a partition of the topics, and publishes the properties of this publisher.
    fn claim(&self, kafka: &Kafka, begins_ns: Option<i64>) -> anyhow::Result<ClaimedLane> {
        let sample = match self.plan.monitor.sample {
            SampleMode::All => "all".to_owned(),
            SampleMode::Auto => "auto".to_owned(),
            SampleMode::Exported => "exported".to_owned(),
            SampleMode::Fraction(share) => share.to_string(),
        };
        let what = if self.plan.dataflow.pipelines.is_empty() {
            "tuples"
        } else {
            "cells"
        };
        let about = [
            ("sample", sample),
            ("what", what.to_owned()),
            ("host", connection::host_name()),
            ("query", self.plan.query.clone()),
        ];
        let about: BTreeMap<String, String> = about
            .into_iter()
            .chain(self.about.iter().cloned())
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let run = RunContinuation::new(kafka, (self.plan, self.dataflows), self.topics, begins_ns);
        let unfit = Box::new(move |there: &TopicAdmin, only| run.unfit(there, only));
        Ok(LaneLogReader::open(kafka, connection::PATIENCE)?
            .without(unfit)
            .claim(
                &connection::name_of_run(),
                self.topics,
                about,
                connection::PATIENCE,
            )?)
    }
}

/// Lower bound of the event time of a run: for files the time of the first packet, live the current time, minus an
/// allowance for reordering. `None`: unknown, as for a pipe.
fn beginning(read: &[PathBuf]) -> Option<i64> {
    if read.is_empty() {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        return i64::try_from(now.as_nanos())
            .ok()
            .map(|now| now - OUT_OF_ORDER_NS);
    }
    let is_file = |path: &PathBuf| Path::new(path).is_file();
    let mut block = PacketBlock::default();
    let has_packets = read.iter().all(is_file) && capture::open(read).next_block(&mut block);
    let first = block
        .records()
        .iter()
        .map(|record| record.ts.0)
        .min()
        .filter(|_| has_packets)?;
    Some(first.saturating_sub(OUT_OF_ORDER_NS))
}

fn is_away(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(bus::BusError::Unreachable { .. })
    )
}

/// Messages about dropped records, one per cause.
pub fn dropped(sent: &ProducerCounters, trouble: &str) -> Vec<String> {
    let refusal = sent.refusal.as_deref().unwrap_or(trouble);
    let causes = [
        (
            sent.dropped_full,
            "the buffer was full (--unacknowledged-max) while no broker accepted records"
                .to_owned(),
        ),
        (
            sent.dropped_too_large,
            "they are larger than Kafka's property message.max.bytes".to_owned(),
        ),
        (
            sent.dropped_refused,
            format!("brokers refused them ({refusal})"),
        ),
    ];
    let some = causes.into_iter().filter(|(n, _)| *n > 0);
    some.map(|(n, why)| {
        format!("{n} records were dropped: {why}; the published data is incomplete")
    })
    .collect()
}

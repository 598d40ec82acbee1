//! Jobs of a server whose agents publish to Kafka: their results are merged in the server or by Flink, and become the
//! job's rows.

use bus::{Kafka, NewTopic, TopicAdmin};
use monitor::MonitorProgress;
use monitor::job::JobConfig;
use plan::{MonitorSpec, Plan, QueryLimit, TimeBounds};
use runner::bus as crossing;
use runner::{FedInput, TupleFeed};
use server::{MergeEngine, MergeRequest, MergeStatus, ResultMerge};
use stream::EngineOutput;

use crate::cli::flags::bus::{FlinkFlags, KafkaClientFlags, MergeEngineFlag};
use crate::kafka;
use crate::kafka::connection;
use crate::kafka::publish::KEPT;
use crate::kafka::read::KafkaSource;

/// Partitions of a job's topics: each agent uses its own; more are added if none is free.
const PARTITIONS: i32 = 32;

/// See the module documentation.
pub struct JobBus {
    kafka: Kafka,
    flink: FlinkFlags,
}

impl JobBus {
    /// Jobs with these brokers and this Flink cluster.
    pub fn new(
        brokers: &str,
        client: &KafkaClientFlags,
        flink: &FlinkFlags,
    ) -> anyhow::Result<JobBus> {
        Ok(JobBus {
            kafka: connection::of(brokers, client)?,
            flink: flink.clone(),
        })
    }

    fn begin(&self, wanted: &MergeRequest) -> anyhow::Result<Box<dyn ResultMerge>> {
        let there = TopicAdmin::connect(&self.kafka, connection::PATIENCE)?;
        let new = NewTopic {
            partitions: PARTITIONS,
            replication: None,
            retention: Some(KEPT),
            settings: crossing::settings(),
        };
        for topic in &wanted.topics {
            there.create(topic, &new)?;
        }
        let config = config(wanted);
        let since_ns = wanted.from.as_ref().map(|(watermark_ns, _)| {
            let reach_ns = stream::Engine::new(&wanted.plan.dataflow, config.clone()).reach_ns();
            watermark_ns.saturating_sub(reach_ns)
        });
        let bounds = TimeBounds {
            since_ns,
            ..TimeBounds::default()
        };
        let answering =
            KafkaSource::of_job(&self.kafka, there, (&wanted.name, &wanted.topics), bounds)?;
        let engine = match wanted.by {
            MergeEngine::Embedded => MergeEngineFlag::Embedded,
            MergeEngine::Flink => MergeEngineFlag::Flink,
        };
        // Agents apply the limit before they report the end.
        let Plan {
            query,
            monitor,
            dataflow,
        } = (*wanted.plan).clone();
        let monitor = MonitorSpec {
            limit: QueryLimit::default(),
            ..monitor
        };
        let plan = Plan {
            query,
            monitor,
            dataflow,
        };
        let config = JobConfig {
            stream: config,
            ..JobConfig::default()
        };
        let mut feed = answering.feed(&plan, &config, (engine, &self.flink))?;
        if let Some((watermark_ns, latest_ns)) = &wanted.from {
            feed.begin_at(*watermark_ns, latest_ns);
        }
        Ok(Box::new(BusMerge {
            feed,
            course: MergeExtent::Whole,
        }))
    }
}

impl server::MergeBackend for JobBus {
    fn topics(&self, plan: &Plan, job: &str) -> Vec<String> {
        match plan.dataflow.pipelines.len() {
            0 => plan
                .dataflow
                .inputs
                .iter()
                .map(|input| crossing::tuples(&input.schema))
                .collect(),
            pipelines => (0..pipelines)
                .map(|pipeline| crossing::of_job(job, pipeline))
                .collect(),
        }
    }

    fn check(&self, wanted: &MergeRequest) -> Result<(), String> {
        if wanted.by == MergeEngine::Embedded || wanted.plan.dataflow.pipelines.is_empty() {
            return Ok(());
        }
        if self.flink.flink_gateway.is_none() {
            return Err("this server has no Flink: serve --flink-gateway URL names one".into());
        }
        kafka::read::printable(&wanted.plan, &config(wanted), &wanted.topics, &self.flink)
            .map_err(|why| format!("{why:#}"))
    }

    fn merge(&self, wanted: &MergeRequest) -> Result<Box<dyn ResultMerge>, String> {
        self.begin(wanted).map_err(|why| format!("{why:#}"))
    }

    fn forget(&self, topics: &[String]) -> Result<(), String> {
        let there = TopicAdmin::connect(&self.kafka, connection::PATIENCE)
            .map_err(|why| why.to_string())?;
        let deleted: Result<Vec<bool>, bus::BusError> =
            topics.iter().map(|topic| there.delete(topic)).collect();
        deleted.map(drop).map_err(|why| why.to_string())
    }
}

/// Engine configuration of a job, equal to that of its publishers.
fn config(wanted: &MergeRequest) -> stream::EngineConfig {
    let config = stream::EngineConfig {
        window_bytes_max: wanted.window_bytes_max,
        ..stream::EngineConfig::default()
    };
    crossing::configured(&config, &wanted.plan.monitor)
}

/// A running merge.
struct BusMerge {
    feed: Box<dyn TupleFeed>,
    course: MergeExtent,
}

/// Range of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MergeExtent {
    /// Until stopped.
    Whole,
    /// To the current end of the topics.
    ToTheEnd,
}

impl ResultMerge for BusMerge {
    fn next(&mut self, out: &mut Vec<EngineOutput>) -> MergeStatus {
        match (self.feed.next(out), self.feed.cut_short(), self.course) {
            (MonitorProgress::Going, ..) => MergeStatus::Going,
            (MonitorProgress::Done, Some(why), _) => MergeStatus::Failed(why),
            (MonitorProgress::Done, None, MergeExtent::ToTheEnd) => MergeStatus::Over,
            (MonitorProgress::Done, None, MergeExtent::Whole) => {
                MergeStatus::Failed("merging ended unexpectedly".into())
            }
        }
    }

    fn note(&mut self) -> Option<String> {
        let notes = self.feed.notes();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    fn left_out(&self) -> Option<String> {
        let FedInput::Published(counts) = self.feed.fed() else {
            return None;
        };
        let late = (counts.late > 0)
            .then(|| format!("{} parts of groups arrived too late for Flink", counts.late));
        let malformed =
            (counts.malformed > 0).then(|| format!("{} records cannot be read", counts.malformed));
        late.into_iter()
            .chain(malformed)
            .reduce(|one, other| format!("{one}; {other}"))
    }

    fn come_to_the_end(&mut self) -> Result<(), String> {
        self.feed.come_to_the_end()?;
        self.course = MergeExtent::ToTheEnd;
        Ok(())
    }
}

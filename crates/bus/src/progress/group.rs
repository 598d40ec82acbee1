//! Reports the progress of a consumer group from its committed offsets; Flink commits with each checkpoint.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::ProgressReporter;
use crate::{BusError, ConsumerGroup, Kafka, TopicAdmin};

/// Interval at which brokers are queried; changes are reported immediately.
const ASKED_EVERY: Duration = Duration::from_millis(250);

/// Reports until dropped.
pub struct GroupProgressReporter {
    end: Option<Sender<()>>,
    telling: Option<JoinHandle<()>>,
}

impl GroupProgressReporter {
    /// Reports the group's progress in the topics through `teller`.
    ///
    /// # Errors
    /// If the client cannot be created, or the brokers do not answer in time.
    pub fn start(
        kafka: &Kafka,
        group: &str,
        topics: Vec<String>,
        teller: ProgressReporter,
        timeout: Duration,
    ) -> Result<GroupProgressReporter, BusError> {
        let there = TopicAdmin::connect(kafka, timeout)?;
        let telling = ReporterThread {
            there,
            topics,
            group: ConsumerGroup::new(kafka, group, timeout)?,
            teller,
        };
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("progress".into());
        let telling = thread
            .spawn(move || telling.go(&ended))
            .map_err(|e| BusError::Refused {
                doing: format!("progress of `{group}`"),
                reason: e.to_string(),
            })?;
        Ok(GroupProgressReporter {
            end: Some(end),
            telling: Some(telling),
        })
    }
}

impl Drop for GroupProgressReporter {
    fn drop(&mut self) {
        self.end = None;
        self.telling.take().map(JoinHandle::join);
    }
}

struct ReporterThread {
    there: TopicAdmin,
    topics: Vec<String>,
    group: ConsumerGroup,
    teller: ProgressReporter,
}

impl ReporterThread {
    fn go(mut self, ended: &Receiver<()>) {
        let mut last = vec![Vec::new(); self.topics.len()];
        while ended.recv_timeout(ASKED_EVERY) == Err(RecvTimeoutError::Timeout) {
            let is_due = self.teller.is_due();
            for (topic, last) in self.topics.iter().zip(&mut last) {
                // Unreachable brokers may return; until then the progress is unknown.
                let Ok(at) = self.committed(topic) else {
                    continue;
                };
                if is_due || at != *last {
                    self.teller.tell(topic, at.clone());
                    *last = at;
                }
            }
        }
    }

    /// Topics may grow.
    fn committed(&self, topic: &str) -> Result<Vec<Option<i64>>, BusError> {
        let partitions = self
            .there
            .partitions(topic)?
            .ok_or_else(|| BusError::NoTopic(topic.to_owned()))?;
        self.group.committed(topic, partitions)
    }
}

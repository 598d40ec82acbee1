//! Reports the progress of a consumer group from its committed offsets; Flink commits with each checkpoint.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Teller;
use crate::{Error, Group, Kafka, Topics};

/// Interval at which brokers are queried; changes are reported immediately.
const ASKED_EVERY: Duration = Duration::from_millis(250);

/// Reports until dropped.
pub struct GroupTeller {
    end: Option<Sender<()>>,
    telling: Option<JoinHandle<()>>,
}

impl GroupTeller {
    /// Reports the group's progress in the topics through `teller`.
    ///
    /// # Errors
    /// If the client cannot be created, or the brokers do not answer in time.
    pub fn start(
        kafka: &Kafka,
        group: &str,
        topics: Vec<String>,
        teller: Teller,
        timeout: Duration,
    ) -> Result<GroupTeller, Error> {
        let there = Topics::connect(kafka, timeout)?;
        let telling = Telling { there, topics, group: Group::new(kafka, group, timeout)?, teller };
        let (end, ended) = channel();
        let thread = std::thread::Builder::new().name("progress".into());
        let telling = thread
            .spawn(move || telling.go(&ended))
            .map_err(|e| Error::Refused { doing: format!("progress of `{group}`"), reason: e.to_string() })?;
        Ok(GroupTeller { end: Some(end), telling: Some(telling) })
    }
}

impl Drop for GroupTeller {
    fn drop(&mut self) {
        self.end = None;
        self.telling.take().map(JoinHandle::join);
    }
}

struct Telling {
    there: Topics,
    topics: Vec<String>,
    group: Group,
    teller: Teller,
}

impl Telling {
    fn go(mut self, ended: &Receiver<()>) {
        let mut last = vec![Vec::new(); self.topics.len()];
        while ended.recv_timeout(ASKED_EVERY) == Err(RecvTimeoutError::Timeout) {
            let is_due = self.teller.is_due();
            for (topic, last) in self.topics.iter().zip(&mut last) {
                // Unreachable brokers may return; until then the progress is unknown.
                let Ok(at) = self.committed(topic) else { continue };
                if is_due || at != *last {
                    self.teller.tell(topic, at.clone());
                    *last = at;
                }
            }
        }
    }

    /// Topics may grow.
    fn committed(&self, topic: &str) -> Result<Vec<Option<i64>>, Error> {
        let partitions = self.there.partitions(topic)?.ok_or_else(|| Error::NoTopic(topic.to_owned()))?;
        self.group.committed(topic, partitions)
    }
}

//! Topics with partitions added during reading: a publisher that finds no free partition adds one.

use std::time::{Duration, Instant};

use ::bus::{BusError, PartitionEnd, PartitionRange, TopicAdmin};
use stream::Engine;

use super::lane::TopicRecords;

/// Interval of the check.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Creates the decoder of a topic's records.
pub type Recognize = Box<dyn Fn(&str, &Engine) -> TopicRecords>;

/// See the module documentation.
pub struct GrowingTopics {
    there: TopicAdmin,
    /// Topics with the number of partitions being read.
    read: Vec<(String, i32)>,
    records: Recognize,
    looked: Instant,
}

impl GrowingTopics {
    /// Watches topics whose partitions in `read` are already read. `there` is queried every few seconds, synchronously.
    #[must_use]
    pub fn new(there: TopicAdmin, read: Vec<(String, i32)>, records: Recognize) -> GrowingTopics {
        GrowingTopics {
            there,
            read,
            records,
            looked: Instant::now(),
        }
    }

    /// Whether a check is due.
    pub fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// New partitions.
    ///
    /// # Errors
    /// `BusError` if no broker answers; the call may be repeated.
    pub fn more(
        &mut self,
        engine: &Engine,
    ) -> Result<Vec<(PartitionRange, TopicRecords)>, BusError> {
        self.looked = Instant::now();
        let mut more = Vec::new();
        for (topic, known) in &self.read {
            for partition in *known..self.there.partitions(topic)?.unwrap_or(*known) {
                let part = PartitionRange {
                    topic: topic.clone(),
                    partition,
                    from: 0,
                    until: PartitionEnd::Forever,
                };
                more.push((part, (self.records)(topic, engine)));
            }
        }
        for (part, _) in &more {
            let known = self.read.iter_mut().find(|(topic, _)| *topic == part.topic);
            known
                .into_iter()
                .for_each(|(_, known)| *known = part.partition + 1);
        }
        Ok(more)
    }
}

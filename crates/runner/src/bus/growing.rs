//! Topics that get more partitions while they are read: who begins to publish, and finds none that is free, adds one.

use std::time::{Duration, Instant};

use ::bus::{Error, Part, Topics, Until};
use stream::Engine;

use super::lane::Records;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What the records of a topic are.
pub type Recognise = Box<dyn Fn(&str, &Engine) -> Records>;

/// See the module's text.
pub struct Growing {
    there: Topics,
    /// The topics, and how many of their partitions are read.
    read: Vec<(String, i32)>,
    records: Recognise,
    looked: Instant,
}

impl Growing {
    /// Watches topics whose partitions in `read` are already read. `there` is queried every few seconds, synchronously.
    #[must_use]
    pub fn new(there: Topics, read: Vec<(String, i32)>, records: Recognise) -> Growing {
        Growing { there, read, records, looked: Instant::now() }
    }

    /// Whether it is time to look.
    pub fn is_due(&self) -> bool {
        self.looked.elapsed() >= LOOK_EVERY
    }

    /// Partitions that are new.
    ///
    /// # Errors
    /// When no broker answers; it may be asked again.
    pub fn more(&mut self, engine: &Engine) -> Result<Vec<(Part, Records)>, Error> {
        self.looked = Instant::now();
        let mut more = Vec::new();
        for (topic, known) in &self.read {
            for partition in *known..self.there.partitions(topic)?.unwrap_or(*known) {
                let part = Part { topic: topic.clone(), partition, from: 0, until: Until::Forever };
                more.push((part, (self.records)(topic, engine)));
            }
        }
        for (part, _) in &more {
            let known = self.read.iter_mut().find(|(topic, _)| *topic == part.topic);
            known.into_iter().for_each(|(_, known)| *known = part.partition + 1);
        }
        Ok(more)
    }
}

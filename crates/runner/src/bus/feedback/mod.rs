//! Feedback for SAMPLE auto: consumers of published data limit the sampling rate. They are the brokers, by
//! unacknowledged records, and the readers, by their reports in [`bus::progress`], since brokers acknowledge regardless
//! of the readers' lag.

mod control;
mod taker;
#[cfg(test)]
mod tests;
mod trail;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use ::bus::progress::{ProgressNote, ProgressWatch, ReaderStatement};
use ::bus::{Kafka, Producer, ProducerTarget};
use monitor::sampling_control::RateCeiling;

use control::RateControl;
use taker::{TakerPace, TakerSample};
use trail::OffsetTrail;

/// Interval of the check.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Silence after which a reader counts as gone.
const GONE: Duration = Duration::from_secs(10);
/// Maximum readers considered.
const READERS_MAX: usize = 256;
/// Interval at which a lost progress topic is looked up again, and the timeout of the lookup.
const AGAIN: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(2));

/// A consumer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeedbackSource {
    /// The brokers.
    Brokers,
    /// A reader by name, and the index of the topic.
    Reader(String, usize),
}

/// A change of the ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct CeilingChange {
    /// New highest rate.
    pub ceiling: f64,
    /// Consumer that caused it.
    pub who: FeedbackSource,
}

/// See the module documentation.
pub struct PublishFeedback {
    kafka: Kafka,
    watch: Result<ProgressWatch, Duration>,
    places: Vec<FeedbackPartition>,
    /// Readers by name and index of the topic.
    readers: BTreeMap<(String, usize), ReaderProgress>,
    control: RateControl<FeedbackSource>,
    ceiling: RateCeiling,
    begun: Instant,
    looked: Option<Duration>,
}

/// A partition that is written to.
struct FeedbackPartition {
    target: ProducerTarget,
    topic: String,
    partition: usize,
    trail: OffsetTrail,
}

/// Reports of a reader.
#[derive(Clone, Copy, Debug)]
struct ReaderProgress {
    /// End of the partition at the reader's first report. Until it has reached this, it reads older records.
    from: u64,
    at: Option<u64>,
    every: Duration,
    heard: Duration,
}

impl PublishFeedback {
    /// Feedback of the consumers of these targets, each being this partition of its topic.
    #[must_use]
    pub fn new(
        kafka: &Kafka,
        watch: ProgressWatch,
        targets: &[ProducerTarget],
        topics: &[String],
        partition: i32,
    ) -> PublishFeedback {
        let partition = usize::try_from(partition).unwrap_or(usize::MAX);
        let place = |(target, topic): (&ProducerTarget, &String)| {
            let target = *target;
            let topic = topic.clone();
            let trail = OffsetTrail::default();
            FeedbackPartition {
                target,
                topic,
                partition,
                trail,
            }
        };
        PublishFeedback {
            kafka: kafka.clone(),
            watch: Ok(watch),
            places: targets.iter().zip(topics).map(place).collect(),
            readers: BTreeMap::new(),
            control: RateControl::new(Duration::ZERO),
            ceiling: RateCeiling::default(),
            begun: Instant::now(),
            looked: None,
        }
    }

    /// Ceiling of the sampling rate.
    #[must_use]
    pub fn ceiling(&self) -> RateCeiling {
        self.ceiling.clone()
    }

    /// Evaluates all consumers if due; `rate`: the current rate.
    pub fn look(
        &mut self,
        producer: &Producer,
        rate: impl FnOnce() -> f64,
    ) -> Option<CeilingChange> {
        let now = self.begun.elapsed();
        if self.looked.is_some_and(|looked| now < looked + LOOK_EVERY) {
            return None;
        }
        self.looked = Some(now);
        for place in &mut self.places {
            if let Some(end) = producer.end(place.target) {
                place.trail.note(now, end.cast_unsigned());
            }
        }
        self.hear(now);
        let mut all = vec![(
            FeedbackSource::Brokers,
            TakerPace::Brokers,
            brokers(producer, now),
        )];
        all.extend(self.readers.iter().filter_map(|((name, place), reading)| {
            let taken = reading.at.filter(|at| *at >= reading.from)?;
            let trail = &self.places[*place].trail;
            let given = trail.end()?;
            let age = trail.age(now, taken);
            let seen = TakerSample {
                now,
                given,
                taken: taken.min(given),
                age,
                fill: 0.0,
            };
            Some((
                FeedbackSource::Reader(name.clone(), *place),
                TakerPace::Reader(reading.every),
                seen,
            ))
        }));
        let who = self.control.look(now, rate(), &all)?;
        let ceiling = self.control.ceiling();
        self.ceiling.set(ceiling);
        Some(CeilingChange { ceiling, who })
    }

    /// Reads the reports of readers.
    fn hear(&mut self, now: Duration) {
        if self
            .watch
            .as_ref()
            .is_err_and(|lost| now >= *lost + AGAIN.0)
        {
            self.watch = ProgressWatch::open(&self.kafka, AGAIN.1).map_err(|_| now);
        }
        while let Ok(watch) = &mut self.watch {
            match watch.take() {
                Ok(Some(note)) => self.note(now, &note),
                Ok(None) => break,
                Err(_) => self.watch = Err(now),
            }
        }
        self.readers.retain(|_, reading| now < reading.heard + GONE);
    }

    fn note(&mut self, now: Duration, note: &ProgressNote) {
        let Some(number) = self
            .places
            .iter()
            .position(|place| place.topic == note.topic)
        else {
            return;
        };
        let place = &self.places[number];
        let key = (note.reader.clone(), number);
        if note.says == ReaderStatement::Ended {
            self.readers.remove(&key);
            return;
        }
        if !self.readers.contains_key(&key) && self.readers.len() == READERS_MAX {
            return;
        }
        let at = note
            .at
            .get(place.partition)
            .copied()
            .flatten()
            .and_then(|at| u64::try_from(at).ok());
        let every = Duration::from_millis(note.every_ms);
        let from = place.trail.end().unwrap_or(0);
        let new = ReaderProgress {
            from,
            at,
            every,
            heard: now,
        };
        let reading = self.readers.entry(key).or_insert(new);
        *reading = ReaderProgress {
            from: reading.from,
            ..new
        };
    }
}

/// Records acknowledged by the brokers.
fn brokers(producer: &Producer, now: Duration) -> TakerSample {
    let counters = producer.counters();
    TakerSample {
        now,
        given: counters.records,
        taken: counters.records.saturating_sub(counters.in_flight),
        age: counters.oldest.unwrap_or_default(),
        fill: counters.in_flight_bytes as f64 / producer.bytes_max().max(1) as f64,
    }
}

impl fmt::Display for FeedbackSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeedbackSource::Brokers => f.write_str("Kafka"),
            FeedbackSource::Reader(name, _) => write!(f, "the query of {name}"),
        }
    }
}

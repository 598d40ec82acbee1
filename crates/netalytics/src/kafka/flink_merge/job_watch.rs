//! Queries the state of a job on a separate thread, because an answer may take a minute.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use bus::{ConsumerGroup, TopicAdmin};
use flink::{FlinkError, FlinkJob, FlinkJobState};

/// Polling interval.
const EVERY: Duration = Duration::from_millis(300);
/// Interval at which dropped records are queried; Flink updates such figures every ten seconds.
const FIGURES_EVERY: Duration = Duration::from_secs(2);

/// See the module documentation.
pub struct FlinkJobWatch {
    seen: Receiver<FlinkJobUpdate>,
}

/// Result of a query.
pub enum FlinkJobUpdate {
    /// State of the job.
    State(FlinkJobState),
    /// Number of late rows dropped so far.
    Late(u64),
    /// Neither gateway nor cluster could be reached.
    Nobody(FlinkError),
    /// Whether a checkpoint was completed; `None`: no data.
    Checkpoint(Option<bool>),
    /// A topic that the job reads was deleted, which Flink does not detect.
    Deleted(String),
}

/// Range of records that a job reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopicReadScope {
    /// Including existing records.
    All,
    /// Only new records.
    New,
}

impl FlinkJobWatch {
    /// Starts polling until dropped. `group`: consumer group of the job's progress.
    pub fn start(
        job: &FlinkJob,
        (there, group): (&Arc<TopicAdmin>, &Arc<ConsumerGroup>),
        topics: Vec<String>,
        records: TopicReadScope,
    ) -> std::io::Result<FlinkJobWatch> {
        let (tell, seen) = channel();
        let job = job.clone();
        let there = there.clone();
        let mut ends = BTreeMap::new();
        let mut commits = OffsetCommits {
            group: group.clone(),
            records,
            begun: BTreeMap::new(),
        };
        let mut is_completed = None;
        let mut figures = Instant::now();
        let watch = move || {
            loop {
                if figures.elapsed() >= FIGURES_EVERY {
                    figures = Instant::now();
                    let late = job.progress().ok().and_then(|progress| progress.rows_late);
                    let gone = topics
                        .iter()
                        .find(|topic| is_gone(&there, topic, &mut ends));
                    if is_completed != Some(true) {
                        is_completed = commits.look(&ends);
                    }
                    let seen = [
                        late.map(FlinkJobUpdate::Late),
                        gone.cloned().map(FlinkJobUpdate::Deleted),
                    ]
                    .into_iter()
                    .flatten();
                    let seen = seen.chain([FlinkJobUpdate::Checkpoint(is_completed)]);
                    if seen.map(|seen| tell.send(seen)).any(|sent| sent.is_err()) {
                        return;
                    }
                }
                let seen = job
                    .state()
                    .map_or_else(FlinkJobUpdate::Nobody, FlinkJobUpdate::State);
                if tell.send(seen).is_err() {
                    return;
                }
                std::thread::sleep(EVERY);
            }
        };
        std::thread::Builder::new()
            .name("job".into())
            .spawn(watch)?;
        Ok(FlinkJobWatch { seen })
    }

    /// The oldest unread result.
    pub fn next(&self) -> Option<FlinkJobUpdate> {
        self.seen.try_recv().ok()
    }
}

/// Observes the offsets that a job commits with its checkpoints.
struct OffsetCommits {
    group: Arc<ConsumerGroup>,
    records: TopicReadScope,
    /// End offsets of partitions at the first observation.
    begun: BTreeMap<String, Vec<i64>>,
}

impl OffsetCommits {
    /// Whether there was a checkpoint; `None`: no data. `ends`: current end offsets.
    fn look(&mut self, ends: &BTreeMap<String, Vec<i64>>) -> Option<bool> {
        let mut is_awaited = false;
        for (topic, ends) in ends {
            let begun = self
                .begun
                .entry(topic.clone())
                .or_insert_with(|| match self.records {
                    TopicReadScope::All => Vec::new(),
                    TopicReadScope::New => ends.clone(),
                });
            is_awaited |= ends
                .iter()
                .enumerate()
                .any(|(place, end)| *end > begun.get(place).copied().unwrap_or(0));
            // Unknown while no broker responds.
            let told = self.group.committed(topic, ends.len() as i32).ok()?;
            if told.iter().any(Option::is_some) {
                return Some(true);
            }
        }
        is_awaited.then_some(false)
    }
}

/// Whether a topic was deleted since the last call. A topic automatically recreated by brokers is shorter than before.
fn is_gone(there: &TopicAdmin, topic: &str, ends: &mut BTreeMap<String, Vec<i64>>) -> bool {
    match there.offsets(topic) {
        Ok(ranges) => {
            let now: Vec<i64> = ranges.iter().map(|range| range.end).collect();
            let before = ends
                .insert(topic.to_owned(), now.clone())
                .unwrap_or_default();
            before.len() > now.len() || before.iter().zip(&now).any(|(before, now)| before > now)
        }
        Err(error) => matches!(error, bus::BusError::NoTopic(_)),
    }
}

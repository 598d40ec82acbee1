//! A Flink job that merges our data: its state, its notices, and its end.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::progress::GroupProgressReporter;
use bus::{BusError, ConsumerGroup, Kafka, TopicAdmin};
use flink::FlinkJobState;
use runner::bus::{AwakeTopic, ExternalMerge, MergeJobStatus, SILENCE, TopicKeepAlive};

use super::checkpoints::CheckpointWatch;
use super::cleanup;
use super::job_watch::{FlinkJobUpdate, FlinkJobWatch, TopicReadScope};
use super::restarts::{RestartTracker, RestartVerdict};
use crate::process::output;

/// Time without information about the job after which a notice is printed.
const UNHEARD: Duration = Duration::from_secs(10);
/// Interval at which a job's progress is queried.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// A running Flink job.
pub struct FlinkMerge {
    /// Reports Flink's progress to publishers.
    _progress: Option<GroupProgressReporter>,
    kafka: Kafka,
    job: flink::FlinkJob,
    there: Arc<TopicAdmin>,
    /// Topics to which the job writes.
    topics: Vec<String>,
    /// Topics that the job reads, with the consumer group of its progress.
    sources: Vec<AwakeTopic>,
    group: Arc<ConsumerGroup>,
    /// Time of the last query of its progress.
    asked: Option<Instant>,
    work: MergeJobStatus,
    watch: FlinkJobWatch,
    restarts: RestartTracker,
    checkpoints: CheckpointWatch,
    /// Running and total tasks, if not all are running.
    tasks: Option<(u64, u64)>,
    late: u64,
    heard: Instant,
    hearing: FlinkReachability,
    notes: Vec<String>,
}

/// Whether information about the job is available.
#[derive(Clone, PartialEq, Eq)]
enum FlinkReachability {
    Told,
    /// The last query failed, with the reason.
    Missed(String),
    /// The failure was reported.
    Untold,
}

impl FlinkMerge {
    /// Supervises a started job.
    pub fn new(
        job: flink::FlinkJob,
        kafka: &Kafka,
        there: Arc<TopicAdmin>,
        (topics, sources): (Vec<String>, Vec<AwakeTopic>),
        (group, records, checkpoints): (ConsumerGroup, TopicReadScope, CheckpointWatch),
        progress: Option<GroupProgressReporter>,
    ) -> std::io::Result<FlinkMerge> {
        let read = sources.iter().map(|source| source.topic.clone()).collect();
        let group = Arc::new(group);
        let watch = FlinkJobWatch::start(&job, (&there, &group), read, records)?;
        Ok(FlinkMerge {
            _progress: progress,
            kafka: kafka.clone(),
            job,
            there,
            topics,
            sources,
            group,
            asked: None,
            work: MergeJobStatus::Going,
            watch,
            restarts: RestartTracker::default(),
            checkpoints,
            tasks: None,
            late: 0,
            heard: Instant::now(),
            hearing: FlinkReachability::Told,
            notes: Vec::new(),
        })
    }
}

impl ExternalMerge for FlinkMerge {
    fn look(&mut self) -> MergeJobStatus {
        while self.work == MergeJobStatus::Going
            && let Some(seen) = self.watch.next()
        {
            self.see(seen);
        }
        if let FlinkReachability::Missed(why) = &self.hearing
            && self.heard.elapsed() > UNHEARD
        {
            self.notes.push(format!(
                "the state of Flink's job is unknown ({why}); its results are still read"
            ));
            self.hearing = FlinkReachability::Untold;
        }
        self.work.clone()
    }

    fn has_read_all(&mut self) -> bool {
        if self.asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
            return false;
        }
        self.asked = Some(Instant::now());
        self.sources
            .iter()
            .all(|of| self.has_read(&of.topic).unwrap_or(false))
    }

    fn drain(&mut self) {
        if self.work != MergeJobStatus::Going {
            return;
        }
        if let (Some((at_work, all)), true) = (self.tasks, self.checkpoints.is_overdue()) {
            let why = format!("nothing was merged: {at_work} of the job's {all} tasks are running");
            self.work = MergeJobStatus::Failed(why);
            return;
        }
        // Metrics of an ended job are not available.
        let late = self
            .job
            .progress()
            .ok()
            .and_then(|progress| progress.rows_late);
        self.late = self.late.max(late.unwrap_or(0));
        let awake = TopicKeepAlive::start(&self.kafka, &self.there, &self.sources);
        if let Err(why @ (BusError::Unreachable { .. } | BusError::NotFlushed { .. })) = &awake {
            // Without brokers Flink cannot deliver the result.
            self.work = MergeJobStatus::Failed(format!("the last windows are missing: {why}"));
            return;
        }
        if let Err(why) = &awake {
            self.notes.push(format!(
                "for publishers silent for {} s, the last windows are missing: {why}",
                SILENCE.as_secs()
            ));
        }
        self.work = match self.job.stop_with_drain().map(|drained| drained.state) {
            Ok(FlinkJobState::Finished) => MergeJobStatus::Done,
            Ok(state) => over(state).unwrap_or(MergeJobStatus::Done),
            Err(why) => MergeJobStatus::Failed(why.to_string()),
        };
    }

    fn late(&self) -> u64 {
        self.late
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// Result of an ended job; `None`: the job has not ended.
fn over(state: FlinkJobState) -> Option<MergeJobStatus> {
    Some(match state {
        FlinkJobState::Finished => MergeJobStatus::Done,
        FlinkJobState::Failed { why } => MergeJobStatus::Failed(
            why.map_or_else(|| "the job has failed".into(), |why| why.to_string()),
        ),
        FlinkJobState::Canceled => MergeJobStatus::Failed("the job was canceled".into()),
        FlinkJobState::Gone => MergeJobStatus::Failed("the cluster no longer has the job".into()),
        _ => return None,
    })
}

impl FlinkMerge {
    fn has_read(&self, topic: &str) -> Result<bool, BusError> {
        let ranges = self.there.offsets(topic)?;
        let told = self.group.committed(topic, ranges.len() as i32)?;
        let is_read =
            |(range, told): (&Range<i64>, Option<i64>)| range.is_empty() || told >= Some(range.end);
        Ok(ranges.iter().zip(told).all(is_read))
    }

    fn see(&mut self, seen: FlinkJobUpdate) {
        let state = match seen {
            FlinkJobUpdate::State(state) => state,
            FlinkJobUpdate::Late(late) => {
                self.late = self.late.max(late);
                return;
            }
            FlinkJobUpdate::Deleted(topic) => {
                self.work = MergeJobStatus::Failed(BusError::NoTopic(topic).to_string());
                return;
            }
            FlinkJobUpdate::Checkpoint(is_completed) => {
                let note = self
                    .checkpoints
                    .look(is_completed, self.tasks, Instant::now());
                self.notes.extend(note);
                return;
            }
            // The job continues while Flink cannot be queried.
            FlinkJobUpdate::Nobody(why) => {
                if self.hearing != FlinkReachability::Untold {
                    self.hearing = FlinkReachability::Missed(why.to_string());
                }
                return;
            }
        };
        self.heard = Instant::now();
        self.tasks = match state {
            FlinkJobState::Starting { at_work, tasks } if tasks > 0 => Some((at_work, tasks)),
            _ => None,
        };
        if std::mem::replace(&mut self.hearing, FlinkReachability::Told)
            == FlinkReachability::Untold
        {
            self.notes
                .push("Flink reports the state of the job again".into());
        }
        let verdict = match state {
            FlinkJobState::Restarting { why, since_ms } => {
                let why = why.map(|why| why.to_string()).unwrap_or_default();
                self.restarts.down(why, since_ms, Instant::now())
            }
            FlinkJobState::Running => self.restarts.up(Instant::now()),
            FlinkJobState::Starting { .. } | FlinkJobState::Ending => RestartVerdict::Nothing,
            state => {
                self.work = over(state).unwrap_or(MergeJobStatus::Going);
                RestartVerdict::Nothing
            }
        };
        match verdict {
            RestartVerdict::Nothing => {}
            RestartVerdict::Tell(note) => {
                let lacks_memory = note.contains("minBucketMemorySize");
                self.notes.push(note);
                self.notes.extend(lacks_memory.then(|| {
                    "a slot of Flink has too little managed memory for this query: increase taskmanager.memory.managed.size, or \
                     reduce taskmanager.numberOfTaskSlots"
                        .into()
                }));
            }
            RestartVerdict::GiveUp(why) => self.work = MergeJobStatus::Failed(why),
        }
    }
}

impl Drop for FlinkMerge {
    fn drop(&mut self) {
        if self.work != MergeJobStatus::Done
            && let Err(why) = self.job.cancel()
        {
            output::complain(&format!(
                "note: Flink's job {} may still run: {why}",
                self.job.id()
            ));
        }
        cleanup::delete(&self.there, &self.topics);
    }
}

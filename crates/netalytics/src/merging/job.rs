//! A Flink job that merges our data: its state, its notices, and its end.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::progress::GroupTeller;
use bus::{Error, Group, Kafka, Topics};
use flink::State;
use runner::bus::{Merging, Read, SILENCE, Waking, Work};

use super::checkpoints::Checkpoints;
use super::left_over;
use super::restarts::{Restarts, Verdict};
use super::watch::{Records, Seen, Watch};
use crate::output;

/// Time without information about the job after which a notice is printed.
const UNHEARD: Duration = Duration::from_secs(10);
/// Interval at which a job's progress is queried.
const ASK_EVERY: Duration = Duration::from_millis(300);

/// A running Flink job.
pub struct Merge {
    /// Reports Flink's progress to publishers.
    _progress: Option<GroupTeller>,
    kafka: Kafka,
    job: flink::Job,
    there: Arc<Topics>,
    /// Topics to which it writes.
    topics: Vec<String>,
    /// Topics it reads, with the consumer group of its progress.
    sources: Vec<Read>,
    group: Arc<Group>,
    /// Time of the last query of its progress.
    asked: Option<Instant>,
    work: Work,
    watch: Watch,
    restarts: Restarts,
    checkpoints: Checkpoints,
    /// Running and total tasks, if not all are running.
    tasks: Option<(u64, u64)>,
    late: u64,
    heard: Instant,
    hearing: Hearing,
    notes: Vec<String>,
}

/// Whether information about the job is available.
#[derive(Clone, PartialEq, Eq)]
enum Hearing {
    Told,
    /// The last query failed, with the reason.
    Missed(String),
    /// The failure was reported.
    Untold,
}

impl Merge {
    /// Supervises a started job.
    pub fn new(
        job: flink::Job,
        kafka: &Kafka,
        there: Arc<Topics>,
        (topics, sources): (Vec<String>, Vec<Read>),
        (group, records, checkpoints): (Group, Records, Checkpoints),
        progress: Option<GroupTeller>,
    ) -> std::io::Result<Merge> {
        let read = sources.iter().map(|source| source.topic.clone()).collect();
        let group = Arc::new(group);
        let watch = Watch::start(&job, (&there, &group), read, records)?;
        Ok(Merge {
            _progress: progress,
            kafka: kafka.clone(),
            job,
            there,
            topics,
            sources,
            group,
            asked: None,
            work: Work::Going,
            watch,
            restarts: Restarts::default(),
            checkpoints,
            tasks: None,
            late: 0,
            heard: Instant::now(),
            hearing: Hearing::Told,
            notes: Vec::new(),
        })
    }
}

impl Merging for Merge {
    fn look(&mut self) -> Work {
        while self.work == Work::Going
            && let Some(seen) = self.watch.next()
        {
            self.see(seen);
        }
        if let Hearing::Missed(why) = &self.hearing
            && self.heard.elapsed() > UNHEARD
        {
            self.notes
                .push(format!("the state of Flink's job is unknown ({why}); its results are still read"));
            self.hearing = Hearing::Untold;
        }
        self.work.clone()
    }

    fn has_read_all(&mut self) -> bool {
        if self.asked.is_some_and(|at| at.elapsed() < ASK_EVERY) {
            return false;
        }
        self.asked = Some(Instant::now());
        self.sources.iter().all(|of| self.has_read(&of.topic).unwrap_or(false))
    }

    fn drain(&mut self) {
        if self.work != Work::Going {
            return;
        }
        if let (Some((at_work, all)), true) = (self.tasks, self.checkpoints.is_overdue()) {
            let why = format!("nothing was merged: {at_work} of the job's {all} tasks are at work");
            self.work = Work::Failed(why);
            return;
        }
        // Metrics of an ended job are not available.
        let late = self.job.progress().ok().and_then(|progress| progress.rows_late);
        self.late = self.late.max(late.unwrap_or(0));
        let awake = Waking::start(&self.kafka, &self.there, &self.sources);
        if let Err(why @ (Error::Unreachable { .. } | Error::NotFlushed { .. })) = &awake {
            // Without brokers Flink cannot deliver it.
            self.work = Work::Failed(format!("the last windows are missing: {why}"));
            return;
        }
        if let Err(why) = &awake {
            self.notes.push(format!(
                "where publishers have been silent for {} s the last windows are missing: {why}",
                SILENCE.as_secs()
            ));
        }
        self.work = match self.job.stop_with_drain().map(|drained| drained.state) {
            Ok(State::Finished) => Work::Done,
            Ok(state) => over(state).unwrap_or(Work::Done),
            Err(why) => Work::Failed(why.to_string()),
        };
    }

    fn late(&self) -> u64 {
        self.late
    }

    fn notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }
}

/// Result of an ended job; `None`: it has not ended.
fn over(state: State) -> Option<Work> {
    Some(match state {
        State::Finished => Work::Done,
        State::Failed { why } => {
            Work::Failed(why.map_or_else(|| "the job has failed".into(), |why| why.to_string()))
        }
        State::Cancelled => Work::Failed("the job was cancelled".into()),
        State::Gone => Work::Failed("the cluster no longer has the job".into()),
        _ => return None,
    })
}

impl Merge {
    fn has_read(&self, topic: &str) -> Result<bool, Error> {
        let ranges = self.there.offsets(topic)?;
        let told = self.group.committed(topic, ranges.len() as i32)?;
        let is_read = |(range, told): (&Range<i64>, Option<i64>)| range.is_empty() || told >= Some(range.end);
        Ok(ranges.iter().zip(told).all(is_read))
    }

    fn see(&mut self, seen: Seen) {
        let state = match seen {
            Seen::State(state) => state,
            Seen::Late(late) => {
                self.late = self.late.max(late);
                return;
            }
            Seen::Deleted(topic) => {
                self.work = Work::Failed(Error::NoTopic(topic).to_string());
                return;
            }
            Seen::Checkpoint(is_completed) => {
                let note = self.checkpoints.look(is_completed, self.tasks, Instant::now());
                self.notes.extend(note);
                return;
            }
            // The job continues while it cannot be queried.
            Seen::Nobody(why) => {
                if self.hearing != Hearing::Untold {
                    self.hearing = Hearing::Missed(why.to_string());
                }
                return;
            }
        };
        self.heard = Instant::now();
        self.tasks = match state {
            State::Starting { at_work, tasks } if tasks > 0 => Some((at_work, tasks)),
            _ => None,
        };
        if std::mem::replace(&mut self.hearing, Hearing::Told) == Hearing::Untold {
            self.notes.push("Flink reports the state of the job again".into());
        }
        let verdict = match state {
            State::Restarting { why, since_ms } => {
                let why = why.map(|why| why.to_string()).unwrap_or_default();
                self.restarts.down(why, since_ms, Instant::now())
            }
            State::Running => self.restarts.up(Instant::now()),
            State::Starting { .. } | State::Ending => Verdict::Nothing,
            state => {
                self.work = over(state).unwrap_or(Work::Going);
                Verdict::Nothing
            }
        };
        match verdict {
            Verdict::Nothing => {}
            Verdict::Tell(note) => {
                let lacks_memory = note.contains("minBucketMemorySize");
                self.notes.push(note);
                self.notes.extend(lacks_memory.then(|| {
                    "a slot of Flink has too little managed memory for this query: taskmanager.memory.managed.size gives more, \
                     taskmanager.numberOfTaskSlots makes fewer of them"
                        .into()
                }));
            }
            Verdict::GiveUp(why) => self.work = Work::Failed(why),
        }
    }
}

impl Drop for Merge {
    fn drop(&mut self) {
        if self.work != Work::Done
            && let Err(why) = self.job.cancel()
        {
            output::complain(&format!("note: Flink's job {} may still run: {why}", self.job.id()));
        }
        left_over::delete(&self.there, &self.topics);
    }
}

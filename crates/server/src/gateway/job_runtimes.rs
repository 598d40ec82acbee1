//! Runtimes of all jobs.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use link::{LaneResume, ObservedJobs, ObservedState, RecordLane};

use super::commit_queue::PendingRecord;
use super::job_runtime::JobRuntime;
use super::lanes::{LaneEnd, LaneFacts, LaneKey};
use super::mirror_worker::MirrorWorker;
use super::sessions::GatewaySession;
use crate::job::JobId;
use crate::job::counters::ServiceMetrics;

/// Positions of lanes after the commit of pending records.
pub type Marks = BTreeMap<(JobId, LaneKey), (u64, LaneFacts)>;

/// The runtimes, by job.
#[derive(Default)]
pub struct JobRuntimes(BTreeMap<JobId, JobRuntime>);

impl Deref for JobRuntimes {
    type Target = BTreeMap<JobId, JobRuntime>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for JobRuntimes {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl JobRuntimes {
    /// Mirroring for a job in a network.
    pub fn mirror(&mut self, job: JobId) -> Option<&mut MirrorWorker> {
        self.get_mut(&job)?.mirror.as_mut()
    }

    /// Positions of lanes after the commit of `entries`. `each`: called with the state of the lane before each.
    pub fn marks(
        &self,
        entries: &[PendingRecord],
        each: &mut dyn FnMut(&PendingRecord, &JobRuntime, &LaneFacts),
    ) -> Marks {
        let mut marks = Marks::new();
        for entry in entries {
            let Some(work) = self.get(&entry.job) else {
                continue;
            };
            let mark = marks
                .entry((entry.job, entry.key.clone()))
                .or_insert_with(|| work.lanes.mark(&entry.key));
            each(entry, work, &mark.1);
            mark.0 = entry.record.seq();
            mark.1.take(
                &entry.record,
                entry
                    .report
                    .as_ref()
                    .map(|report| (report.watermark.0, report.loss)),
            );
        }
        marks
    }

    /// Notes the jobs that an agent reports it cannot run; removes them when they run.
    pub fn note_troubles(&mut self, agent: &str, observed: &ObservedJobs) {
        for of_job in &observed.jobs {
            let Some(work) = self.get_mut(&JobId(of_job.job)) else {
                continue;
            };
            match (of_job.state(), of_job.reason.as_str()) {
                (ObservedState::Gone, _) => {}
                (_, "") => drop(work.troubles.remove(agent)),
                (_, why) => drop(work.troubles.insert(agent.to_owned(), why.to_owned())),
            }
        }
    }

    /// Committed positions of the lanes of a session's agent.
    pub fn resume_points(
        &self,
        session: &GatewaySession,
        meters: &ServiceMetrics,
    ) -> Vec<LaneResume> {
        let agent = &session.agent;
        let ranges = session.greeting.iter().flat_map(|greeting| &greeting.lanes);
        let mut lanes = Vec::new();
        for range in ranges {
            match self.get(&JobId(range.lane.job)) {
                Some(work) => {
                    let (durable, facts) = work.lanes.mark(&LaneKey::of(agent, range.lane));
                    let (watermark_ns, is_closed) =
                        (facts.watermark_ns, facts.end != LaneEnd::Open);
                    lanes.push(LaneResume {
                        lane: range.lane,
                        durable,
                        watermark_ns,
                        is_closed,
                    });
                }
                None => {
                    // The job has been removed, so the agent may drop its records.
                    let records = range.newest.saturating_sub(range.oldest).saturating_add(1);
                    meters.records_unclaimed.add(records);
                    let durable = range.newest;
                    let watermark_ns = i64::MIN;
                    lanes.push(LaneResume {
                        lane: range.lane,
                        durable,
                        watermark_ns,
                        is_closed: false,
                    });
                }
            }
        }
        for work in self.values() {
            for (key, known) in work.lanes.open_of(agent) {
                let lane = RecordLane {
                    boot: key.boot,
                    job: work.id.0,
                    attempt: key.attempt,
                };
                if lanes.iter().all(|resume| resume.lane != lane) {
                    let durable = known.seq;
                    let watermark_ns = known.facts.watermark_ns;
                    lanes.push(LaneResume {
                        lane,
                        durable,
                        watermark_ns,
                        is_closed: false,
                    });
                }
            }
        }
        lanes
    }
}

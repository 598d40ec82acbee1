//! Schedules the mirroring of switches for jobs in a network: from the time when all monitors of a job capture until
//! its end. If a user stops a job, its monitors are stopped after the mirroring; if it ends by its limits or fails, at
//! the same time. It has ended when both are done.
//!
//! If switches do not mirror, or stop mirroring, the job ends with the reason. After a restart, the server plans again:
//! if the plan equals the agents' orders, they continue, and its rules replace the previous ones; otherwise the job
//! ends.

use super::EventLoop;
use crate::gateway::agent_orders::is_of;
use crate::gateway::mirror_worker::{MirrorCommand, MirrorEvent, MirrorStage, MirrorWorker};
use crate::gateway::network::{AgentShare, PlannedJob};
use crate::job::{JobEnding as JobEnd, JobId, JobOutcome};
use control::{EndReason, ServerEvent};

impl EventLoop {
    /// Starts mirroring for jobs with all monitors capturing.
    pub fn look_at_copies(&mut self) {
        let waiting = self.works.iter().filter(|(_, work)| {
            work.copying
                .as_ref()
                .is_some_and(|copying| copying.stage == MirrorStage::Waiting)
        });
        let ready: Vec<JobId> = waiting
            .map(|(job, _)| *job)
            .filter(|job| self.driver.all_run(*job))
            .collect();
        for job in ready {
            if let Some(copying) = self.works.copying(job) {
                copying.ask(MirrorCommand::Begin, MirrorStage::Beginning);
            }
        }
    }

    /// Resumes a job of the previous server process with its new plan.
    pub fn copy_again(&self, job: JobId, planned: Result<PlannedJob, String>) -> MirrorWorker {
        let saved = self.driver.job(job);
        let told = |agent: &str| saved.and_then(|job| job.request.parts.get(agent));
        let is_same = |parts: &[AgentShare]| {
            saved.is_some_and(|job| job.request.parts.len() == parts.len())
                && parts
                    .iter()
                    .all(|part| told(&part.agent).is_some_and(|body| is_of(part, body)))
        };
        match planned {
            Ok(planned) if is_same(&planned.parts) => MirrorWorker::new(job, planned, self.events.clone()),
            Ok(_) => MirrorWorker::impossible(
                "after the restart of the server, the network file places its monitors elsewhere: start the job again"
                    .to_owned(),
            ),
            Err(why) => MirrorWorker::impossible(format!("after the restart of the server, {why}")),
        }
    }

    /// Ends a job; mirroring ends first.
    pub fn stop_job(&mut self, job: JobId, why: EndReason) {
        match self
            .works
            .copying(job)
            .filter(|copying| copying.stage != MirrorStage::Gone)
        {
            Some(copying) => {
                copying.then.get_or_insert(why);
                copying.end();
                self.show_state(job);
            }
            None => self.decide(ServerEvent::Stop { job: job.0, why }),
        }
    }

    /// Ends a job after a failure in the network.
    pub fn fail_in_network(&mut self, job: JobId) {
        self.decide(ServerEvent::Stop {
            job: job.0,
            why: EndReason::Stopped { by: String::new() },
        });
    }

    /// Handles a message of the thread that controls switches.
    pub fn hear_copies(&mut self, job: JobId, said: MirrorEvent) {
        let Some(copying) = self.works.copying(job) else {
            return;
        };
        match said {
            MirrorEvent::Begun(Ok(())) => {
                if copying.stage == MirrorStage::Beginning {
                    copying.stage = MirrorStage::Copying;
                }
                self.show_state(job);
            }
            MirrorEvent::Begun(Err(why)) | MirrorEvent::Lost(why) => {
                copying.failed.get_or_insert(why);
                self.fail_in_network(job);
            }
            MirrorEvent::Gone(ended) => {
                copying.stage = MirrorStage::Gone;
                copying.left = ended.err();
                // The thread has finished; its handle is dropped without join.
                copying.thread = None;
                if let Some(why) = copying.then.take() {
                    self.decide(ServerEvent::Stop { job: job.0, why });
                }
                self.end_jobs();
            }
        }
    }

    /// Whether mirroring for an ending job has stopped. `end`: collects its errors.
    pub fn is_copied_no_more(&mut self, job: JobId, end: &mut JobEnd) -> bool {
        let Some(copying) = self.works.copying(job) else {
            return true;
        };
        copying.end();
        if let Some(why) = &copying.failed {
            *end = JobEnd::new(JobOutcome::Failed, why.clone());
        }
        if let Some(left) = &copying.left {
            end.why = format!(
                "{}; its rules on switches expire with its lease: {left}",
                end.why
            );
        }
        if end.outcome != JobOutcome::Failed {
            let why = [std::mem::take(&mut end.why)]
                .into_iter()
                .chain(copying.lacking());
            end.why = why.collect::<Vec<_>>().join("; ");
        }
        copying.stage == MirrorStage::Gone
    }
}

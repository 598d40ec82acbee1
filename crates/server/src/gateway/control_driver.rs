//! Control of jobs: passes events to [`control`], saves the jobs that its decisions change, and keeps them as saved.
//! The event loop executes the decisions.

use std::collections::BTreeMap;

use bytes::Bytes;
use control::{
    AgentPresence, ControlledJob, RestoredControl, ServerAction, ServerControl, ServerEvent,
    ServerSettings,
};
use link::{ObservedState, SessionTime};

use super::agents::AgentDirectory;
use super::fleet::AgentView;
use super::job_codec;
use crate::job::JobId;
use crate::store::sqlite::{JobStore, ServerStore, StoreError, now_ns};

/// See the module documentation.
pub struct ControlDriver {
    settings: ServerSettings,
    control: ServerControl,
    /// Jobs as last saved.
    saved: BTreeMap<JobId, ControlledJob>,
    /// Stored positions of jobs that were not resubmitted yet.
    progress: BTreeMap<JobId, Option<String>>,
    store: JobStore,
}

impl ControlDriver {
    /// Loads the jobs from the store.
    pub fn load(
        store: &ServerStore,
        settings: ServerSettings,
        agents: &AgentDirectory,
        now: SessionTime,
    ) -> Result<ControlDriver, StoreError> {
        let mut saved = BTreeMap::new();
        let mut progress = BTreeMap::new();
        for known in store.jobs.unfinished_controls()? {
            let id = known.job;
            if let Some(job) = job_codec::read(id.0, &known.saved, Bytes::from(known.body)) {
                saved.insert(id, job);
                progress.insert(id, known.progress);
            }
        }
        let control = ServerControl::new(settings, restored(&store.jobs, agents, &saved)?, now);
        Ok(ControlDriver {
            settings,
            control,
            saved,
            progress,
            store: store.jobs.clone(),
        })
    }

    /// Restarts from the stored state; agents reconnect and report what they run.
    pub fn restart(&mut self, agents: &AgentDirectory, now: SessionTime) {
        match restored(&self.store, agents, &self.saved) {
            Ok(restored) => self.control = ServerControl::new(self.settings, restored, now),
            Err(error) => tracing::error!("{error}"),
        }
    }

    /// The state that decisions are based on.
    pub fn control(&self) -> &ServerControl {
        &self.control
    }

    /// Decides on an event, and saves the jobs that the decisions change.
    ///
    /// # Errors
    /// `JobSaveError` when a job cannot be stored: no decision may be executed.
    pub fn decide(
        &mut self,
        event: ServerEvent,
        now: SessionTime,
    ) -> Result<Vec<ServerAction>, JobSaveError> {
        let actions = self.control.handle(event, now);
        for action in &actions {
            let ServerAction::Save(job) = action else {
                continue;
            };
            let id = JobId(job.id);
            let state = job_codec::write(job);
            let body = job_codec::write_body(&job.request);
            if let Err(error) = self.store.save_control(id, &state, &body) {
                tracing::error!("cannot store job {id}: {error}");
                return Err(JobSaveError(error));
            }
            self.saved.insert(id, (**job).clone());
        }
        Ok(actions)
    }

    /// Sets the number of the job that is submitted next.
    pub fn set_next_job(&mut self, id: JobId) {
        self.control.number_next(id.0);
    }

    /// Removes and returns the stored position of a job of an earlier process; `None`: a new job.
    pub fn take_progress(&mut self, id: JobId) -> Option<Option<String>> {
        self.progress.remove(&id)
    }

    /// Jobs under control, ended ones included.
    pub fn jobs(&self) -> impl Iterator<Item = &ControlledJob> {
        self.control.jobs()
    }

    /// The job as last saved.
    pub fn job(&self, id: JobId) -> Option<&ControlledJob> {
        self.saved.get(&id)
    }

    /// Removes an ended job.
    pub fn forget(&mut self, job: JobId) {
        if let Err(error) = self.store.forget_control(job) {
            tracing::warn!("cannot delete obsolete data of job {job} from the store: {error}");
        }
        self.saved.remove(&job);
    }

    /// State of a job on an agent, as reported.
    pub fn state_on(&self, job: JobId, agent: &str) -> Option<ObservedState> {
        let observed = self
            .control
            .observed(agent)
            .find(|observed| observed.job == job.0);
        observed.map(link::ObservedJob::state)
    }

    /// Whether an active job runs on all of its agents.
    pub fn all_run(&self, job: JobId) -> bool {
        let Some(saved) = self.job(job).filter(|job| job.state.is_active()) else {
            return false;
        };
        saved
            .agents
            .keys()
            .all(|agent| self.state_on(job, agent) == Some(ObservedState::Running))
    }

    /// API views of all agents.
    pub fn agent_views(&self, agents: &AgentDirectory) -> Vec<AgentView> {
        let known: BTreeMap<&str, _> = self
            .control
            .agents()
            .map(|(name, presence, offset)| (name, (presence, offset)))
            .collect();
        agents.told(|agent| {
            let Some((presence, offset)) = known.get(agent.name.as_str()) else {
                return;
            };
            agent.connected = matches!(presence, AgentPresence::Here { .. });
            agent.clock_offset_ns = offset.map(|offset| offset.ns);
            if agent.connected {
                agent.packets_per_second = self.control.packets_per_second(&agent.name);
                agent.last_seen_ns = Some(now_ns());
            }
            agent.jobs = self
                .control
                .observed(&agent.name)
                .map(|job| JobId(job.job))
                .collect();
        })
    }

    /// Agents for which windows no longer wait.
    pub fn absent_agents(&self) -> Vec<String> {
        let is_absent = |presence| matches!(presence, AgentPresence::Absent { .. });
        let agents = self
            .control
            .agents()
            .filter(|(_, presence, _)| is_absent(*presence));
        agents.map(|(agent, ..)| agent.to_owned()).collect()
    }
}

/// A job could not be stored.
#[derive(Debug)]
pub struct JobSaveError(pub StoreError);

fn restored(
    store: &JobStore,
    agents: &AgentDirectory,
    jobs: &BTreeMap<JobId, ControlledJob>,
) -> Result<RestoredControl, StoreError> {
    let is_over = |job: &&ControlledJob| matches!(job.state, control::JobState::Ended(_));
    Ok(RestoredControl {
        jobs: jobs.values().filter(|job| !is_over(job)).cloned().collect(),
        last_job: store.last()?.0,
        keys: Vec::new(),
        hosts: agents.hosts(),
    })
}

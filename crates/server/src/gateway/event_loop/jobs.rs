//! Starts, resumes, checks, and ends jobs.

use std::sync::Arc;

use control::{EndReason, ServerAction, ServerEvent};
use link::SessionTime;
use plan::Plan;
use planner::BothTaps;

use super::super::control_driver::JobSaveError;
use super::EventLoop;
use crate::gateway::agent_orders::OrderBuilder;
use crate::gateway::fleet::FleetOrder;
use crate::gateway::job_runtime::{JobProgress, JobRuntime};
use crate::gateway::job_status::JobStatus;
use crate::gateway::merge_reader::MergeEvent;
use crate::gateway::mirror_worker::{MirrorChange, MirrorEvent, MirrorWorker};
use crate::gateway::network::PlannedJob;
use crate::gateway::user_messages;
use crate::job::fleet_refusal::FleetRefusal;
use crate::job::{JobId, JobState};
use crate::store::persist_error::WriteObstacle;

/// Plan of a job in a network, or the reason why there is none.
type Planning = Result<PlannedJob, String>;

impl EventLoop {
    /// Starts a new job, or resumes one of an earlier process.
    pub fn start(
        &mut self,
        order: &FleetOrder,
        planned: Option<Planning>,
    ) -> Result<(), FleetRefusal> {
        if self.jobs.contains_key(&order.id) {
            return Ok(());
        }
        if let Some(progress) = self.driver.take_progress(order.id) {
            return self.resume_job(order, planned, progress.as_deref());
        }
        let planned = planned.transpose().map_err(FleetRefusal::Unable)?;
        if let Some(obstacle) = &self.obstacle {
            return Err(user_messages::not_stored(obstacle));
        }
        let both = over_both_taps(order)?;
        if planned.is_some() && both.is_some() {
            return Err(FleetRefusal::Unable(
                "in a network each flow is captured once: tap.… needs agents at both ends, without the network"
                    .into(),
            ));
        }
        let request = self.bus.request(order, None)?;
        let topics = request.as_ref().map_or(&[][..], |request| &request.topics);
        let agents = both.as_ref().map_or(&order.plan, |both| &both.agents);
        let is_mirrored = planned.as_ref().is_some_and(|planned| planned.is_mirrored);
        let agents = &limited_by_agents(agents, is_mirrored);
        let now = self.now();
        let orders =
            OrderBuilder::new(order, topics, now.wall_ns).keyed_as(self.driver.jobs(), agents);
        let parts = planned.as_ref().map(|planned| &planned.parts[..]);
        let spec = orders.control_spec(agents, parts);
        self.driver.set_next_job(order.id);
        let event = ServerEvent::Submit(Box::new(spec));
        let actions = match self.driver.decide(event, now) {
            Ok(actions) => actions,
            Err(JobSaveError(error)) => {
                let obstacle = WriteObstacle::from(&error);
                self.set_obstacle(Some(obstacle.clone()));
                return Err(user_messages::not_stored(&obstacle));
            }
        };
        if let Some(refusal) = actions.iter().find_map(refusal) {
            return Err(refusal);
        }
        let mut runtime = JobRuntime::of_order(order, both.as_ref(), 0, &self.settings);
        runtime.lacks_mirrors = is_mirrored;
        runtime.mirror =
            planned.map(|planned| MirrorWorker::new(order.id, planned, self.events.clone()));
        if let Err(error) = self.hub.open(order.id, &runtime.tables()) {
            self.driver.forget(order.id);
            self.restart();
            return Err(FleetRefusal::Busy(error.to_string()));
        }
        self.bus.begin_reading(&mut runtime, request);
        self.jobs.insert(order.id, runtime);
        self.apply(actions);
        self.account(order.id);
        Ok(())
    }

    /// Resumes a job of an earlier process.
    fn resume_job(
        &mut self,
        order: &FleetOrder,
        planned: Option<Planning>,
        progress: Option<&str>,
    ) -> Result<(), FleetRefusal> {
        let busy = |error: &dyn std::fmt::Display| FleetRefusal::Busy(error.to_string());
        let kept = self
            .hub
            .rows_kept(order.id, 0)
            .map_err(|error| busy(&error))?;
        let both = over_both_taps(order)?;
        let is_known = |of: &JobProgress| of.watermark_ns > i64::MIN;
        let known = progress
            .and_then(|text| serde_json::from_str::<JobProgress>(text).ok())
            .filter(is_known);
        let from = known.map(|of| (of.watermark_ns, of.latest_ns));
        let request = self.bus.request(order, from)?;
        let mut runtime = JobRuntime::of_order(order, both.as_ref(), kept, &self.settings);
        // Rules may have expired since the end of the previous process.
        runtime.lacks_mirrors = matches!(&planned, Some(Ok(planned)) if planned.is_mirrored);
        self.hub
            .open(order.id, &runtime.tables())
            .map_err(|error| busy(&error))?;
        let saved = self.driver.job(order.id);
        let until_ns = self
            .now()
            .monotonic_ns
            .saturating_add(self.settings.first_report_ns);
        let agents = saved.iter().flat_map(|job| job.agents.keys());
        runtime
            .go_on(self.committer.frames(), progress, agents, until_ns)
            .map_err(|error| busy(&error))?;
        if let Some(control::JobState::Ended(why)) = saved.map(|job| &job.state) {
            runtime.ending = Some(user_messages::ended(why, &[], order.network.is_some()));
        }
        // Mirroring for an ending job is not resumed: rules of the previous process expire with their leases.
        let is_active = saved.is_some_and(|job| job.state.is_active());
        runtime.mirror = planned
            .filter(|_| is_active)
            .map(|planned| MirrorWorker::resume(order.id, saved, planned, self.events.clone()));
        let has_failed = runtime
            .mirror
            .as_ref()
            .is_some_and(MirrorWorker::has_failed);
        self.jobs.insert(order.id, runtime);
        if has_failed {
            self.decide_stop(order.id, EndReason::Stopped { by: String::new() });
        }
        if let Some(runtime) = self.jobs.get_mut(&order.id) {
            self.bus.begin_reading(runtime, request);
        }
        self.publish(order.id);
        self.show_state(order.id);
        self.end_jobs();
        Ok(())
    }

    /// Ends a job; mirroring ends first.
    pub fn stop_job(&mut self, job: JobId, why: EndReason) {
        match self
            .jobs
            .mirror(job)
            .map_or(Err(why.clone()), |mirror| mirror.stop(why))
        {
            Ok(()) => self.show_state(job),
            Err(why) => self.decide_stop(job, why),
        }
    }

    /// Starts mirroring for jobs with all monitors capturing.
    pub fn begin_mirrors(&mut self) {
        for (job, runtime) in self.jobs.iter_mut() {
            if let Some(mirror) = &mut runtime.mirror
                && mirror.is_waiting()
                && self.driver.all_run(*job)
            {
                mirror.begin();
            }
        }
    }

    /// Handles a message of the thread that controls switches.
    pub fn handle_mirror(&mut self, job: JobId, event: MirrorEvent) {
        let Some(mirror) = self.jobs.mirror(job) else {
            return;
        };
        match mirror.handle(event) {
            MirrorChange::Begun => {
                self.begin_mirrored(job);
                self.show_state(job);
            }
            MirrorChange::Failed => {
                self.decide_stop(job, EndReason::Stopped { by: String::new() });
            }
            MirrorChange::Gone(why) => {
                if let Some(why) = why {
                    self.decide_stop(job, why);
                }
                self.end_jobs();
            }
        }
    }

    /// Switches mirror for a job: its time limit begins, and complete windows.
    fn begin_mirrored(&mut self, job: JobId) {
        let now_ns = self.now().wall_ns;
        let Some(runtime) = self.jobs.get_mut(&job) else {
            return;
        };
        let agents = self.driver.control().agents();
        let ahead_ns = agents.filter_map(|(_, _, offset)| Some(offset?.ns)).max();
        runtime.begin_mirrored(now_ns.saturating_add(ahead_ns.unwrap_or(0).max(0)));
        if let Some(nanos) = runtime.plan.monitor.limit.nanos {
            self.decide(ServerEvent::LimitBegins {
                job: job.0,
                ends_at_ns: now_ns.saturating_add(nanos),
            });
        }
    }

    /// Handles a message of the thread that reads a job's published results.
    pub fn handle_merge(&mut self, job: JobId, event: MergeEvent) {
        let Some(reading) = self
            .jobs
            .get_mut(&job)
            .and_then(|runtime| runtime.input.reader_mut())
        else {
            return;
        };
        match event {
            MergeEvent::Rows(handed) => {
                reading.handed = Some(handed);
                self.settle_merged(job);
            }
            MergeEvent::Trouble(why) => {
                reading.trouble = why;
                self.show_state(job);
            }
            MergeEvent::Over => {
                reading.is_over = true;
                self.end_jobs();
            }
        }
    }

    /// Housekeeping of all jobs, about once a second.
    pub fn housekeep(&mut self, now: SessionTime) {
        if self.obstacle.is_some() {
            // Retries pending records; otherwise tests whether the disk has space.
            match self.committer.since() {
                Some(_) => self.commit(),
                None if self.committer.frames().append(&[], &[]).is_ok()
                    && self.database.probe().is_ok() =>
                {
                    self.store_works()
                }
                None => {}
            }
        }
        let abandoned = self.driver.control().jobs().map(|job| job.id);
        let is_unknown = |job: &u64| !self.jobs.contains_key(&JobId(*job));
        let abandoned: Vec<u64> = abandoned.filter(is_unknown).collect();
        if self.sessions.len() > 0 {
            // Abandoned jobs were not resubmitted because this version cannot parse their queries.
            for job in abandoned {
                self.decide_stop(JobId(job), EndReason::Stopped { by: String::new() });
            }
        }
        let takes = self.obstacle.is_none();
        let absent: Vec<String> = self.driver.absent_agents();
        for job in self.jobs.keys().copied().collect::<Vec<_>>() {
            let driver = &self.driver;
            let state_on = |agent: &str| driver.state_on(job, agent);
            if let Some(runtime) = self.jobs.get_mut(&job) {
                runtime.give_up(now.monotonic_ns, &state_on);
                runtime.keep_pace(&|agent| !absent.iter().any(|of| of == agent), takes, now);
            }
            self.commit_joined(job, Vec::new());
            self.settle_merged(job);
            self.publish(job);
            if let Some(runtime) = self.jobs.get_mut(&job) {
                self.committer.show_open(runtime);
            }
            self.account(job);
            self.show_state(job);
        }
        self.begin_mirrors();
        self.end_jobs();
    }

    /// Publishes the last rows of ended jobs, and their end.
    pub fn end_jobs(&mut self) {
        let ending = self
            .jobs
            .values()
            .filter_map(|runtime| Some((runtime.id, runtime.ending.clone()?)));
        for (job, mut end) in ending.collect::<Vec<_>>() {
            let Some(runtime) = self.jobs.get_mut(&job) else {
                continue;
            };
            let mirror = runtime.mirror.as_mut();
            let is_mirror_gone = mirror.is_none_or(|mirror| mirror.finish(&mut end));
            if !is_mirror_gone {
                continue;
            }
            let reader = runtime.input.reader();
            if !reader.is_none_or(|reader| reader.finish(&mut end)) {
                continue;
            }
            runtime.end();
            if !self.publish(job) {
                continue;
            }
            self.account(job);
            if let Err(error) = self.hub.turn(job, JobState::Ended(end), None) {
                self.persist_failed(job, &error);
                continue;
            }
            self.jobs.remove(&job);
            self.driver.forget(job);
        }
    }

    /// Publishes the state of a job and its problems, if changed.
    pub fn show_state(&mut self, job: JobId) {
        let status = JobStatus {
            driver: &self.driver,
            hub: &self.hub,
        };
        if let Some(runtime) = self.jobs.get_mut(&job) {
            status.show(runtime);
        }
    }

    /// Publishes the counters of a job, if changed.
    fn account(&mut self, job: JobId) {
        let status = JobStatus {
            driver: &self.driver,
            hub: &self.hub,
        };
        if let Some(runtime) = self.jobs.get_mut(&job) {
            status.account(runtime);
        }
    }
}

/// The agents' part of a plan. The server applies the time limit of a mirrored job, from the start of the mirroring.
fn limited_by_agents(agents: &Arc<Plan>, is_mirrored: bool) -> Arc<Plan> {
    let mut agents = agents.clone();
    if is_mirrored && agents.monitor.limit.nanos.is_some() {
        Arc::make_mut(&mut agents).monitor.limit.nanos = None;
    }
    agents
}

/// Join settings of a job over both taps, if it is one.
fn over_both_taps(order: &FleetOrder) -> Result<Option<BothTaps>, FleetRefusal> {
    let both = planner::both_taps(&order.plan).map_err(|why| FleetRefusal::Unable(why.into()))?;
    if order.spec.is_redacted()
        && let Some(name) = both
            .as_ref()
            .and_then(|both| planner::compared_folded(&both.joined.dataflow))
    {
        let why = format!(
            "a condition with tap.… is evaluated at the server, where {name} is redacted: request \
             unredacted texts, or divide the condition by AND"
        );
        return Err(FleetRefusal::Unable(why));
    }
    Ok(both)
}

fn refusal(action: &ServerAction) -> Option<FleetRefusal> {
    match action {
        ServerAction::Submitted(Err(refusal)) => Some(user_messages::refused(refusal)),
        _ => None,
    }
}

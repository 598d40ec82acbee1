//! Starts and resumes jobs, and executes the decisions of [`control`] in order.

use control::{EndReason, ServerAction, ServerEvent};
use link::{Hello, SessionTime};
use planner::BothTaps;

use super::{EventLoop, StoreCapacity};
use crate::gateway::agent_orders::OrderBuilder;
use crate::gateway::fleet::FleetOrder;
use crate::gateway::job_runtime::{JobProgress, JobRuntime};
use crate::gateway::mirror_worker::MirrorWorker;
use crate::gateway::network::PlannedJob;
use crate::gateway::sessions::ConnectionStatus;
use crate::gateway::user_messages;
use crate::job::fleet_refusal::FleetRefusal;
use crate::job::{JobId, JobState};

/// Plan of a job in a network, or the reason why there is none.
type Planning = Result<PlannedJob, String>;

impl EventLoop {
    /// Starts a new job, or resumes one of an earlier process.
    pub fn start(
        &mut self,
        order: &FleetOrder,
        planned: Option<Planning>,
    ) -> Result<(), FleetRefusal> {
        if self.works.contains_key(&order.id) {
            return Ok(());
        }
        if let Some(progress) = self.driver.take_progress(order.id) {
            return self.resume_job(order, planned, progress.as_deref());
        }
        let planned = planned.transpose().map_err(FleetRefusal::Unable)?;
        if self.room == StoreCapacity::Full {
            return Err(user_messages::refused(
                &control::AdmissionError::StoreIsFull,
            ));
        }
        let both = over_both_taps(order)?;
        if planned.is_some() && both.is_some() {
            return Err(FleetRefusal::Unable(
                "in a network each flow is captured once: tap.… needs agents at both ends, without the network"
                    .into(),
            ));
        }
        let wanted = self.wanted(order, None)?;
        let topics = wanted.as_ref().map_or(&[][..], |wanted| &wanted.topics);
        let agents = both.as_ref().map_or(&order.plan, |both| &both.agents);
        let now = self.now();
        let orders =
            OrderBuilder::new(order, topics, now.wall_ns).keyed_as(self.driver.jobs(), agents);
        let spec = orders.control_spec(agents, planned.as_ref().map(|planned| &planned.parts[..]));
        let actions = self.driver.submit(order.id, spec, now)?;
        let mut work = JobRuntime::of_order(order, both.as_ref(), 0, &self.settings);
        work.copying =
            planned.map(|planned| MirrorWorker::new(order.id, planned, self.events.clone()));
        if let Err(error) = self.hub.open(order.id, &work.tables()) {
            self.begin_again();
            return Err(FleetRefusal::Busy(error.to_string()));
        }
        self.works.insert(order.id, work);
        match self.apply(actions) {
            Ok(()) => {
                self.begin_reading(order.id, wanted);
                self.account(order.id);
                Ok(())
            }
            Err(JobSaveError) => {
                self.works.remove(&order.id);
                Err(user_messages::refused(
                    &control::AdmissionError::StoreIsFull,
                ))
            }
        }
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
        let wanted = self.wanted(order, known.map(|of| (of.watermark_ns, of.latest_ns)))?;
        let mut work = JobRuntime::of_order(order, both.as_ref(), kept, &self.settings);
        self.hub
            .open(order.id, &work.tables())
            .map_err(|error| busy(&error))?;
        let saved = self.driver.job(order.id);
        let until_ns = self
            .now()
            .monotonic_ns
            .saturating_add(self.settings.first_report_ns);
        let agents = saved.iter().flat_map(|job| job.agents.keys());
        work.go_on(&self.frames, progress, agents, until_ns)
            .map_err(|error| busy(&error))?;
        if let Some(control::JobState::Ended(why)) = saved.map(|job| &job.state) {
            work.ending = Some(user_messages::ended(why, &[], order.network.is_some()));
        }
        // Mirroring for an ending job is not resumed: rules of the previous process expire with their leases.
        let is_active = saved.is_some_and(|job| job.state.is_active());
        work.copying = planned
            .filter(|_| is_active)
            .map(|planned| self.copy_again(order.id, planned));
        let has_failed = work.copying.as_ref().is_some_and(MirrorWorker::has_failed);
        self.works.insert(order.id, work);
        if has_failed {
            self.fail_in_network(order.id);
        }
        self.begin_reading(order.id, wanted);
        self.publish(order.id);
        self.show_state(order.id);
        self.end_jobs();
        Ok(())
    }

    /// Passes an event to the control logic and executes its decisions.
    pub fn decide(&mut self, event: ServerEvent) {
        let actions = self.driver.handle(event, self.now());
        if self.apply(actions) == Err(JobSaveError) {
            self.begin_again();
        }
    }

    fn apply(&mut self, actions: Vec<ServerAction>) -> Result<(), JobSaveError> {
        let mut ended = false;
        for action in actions {
            match action {
                ServerAction::Save(job) => {
                    let id = JobId(job.id);
                    if let Err(error) = self.driver.save(*job) {
                        self.set_room(StoreCapacity::Full);
                        tracing::error!("cannot store job {id}: {error}");
                        return Err(JobSaveError);
                    }
                    self.job_saved(id);
                }
                // The submission returns these.
                ServerAction::Submitted(_) | ServerAction::Stopped { .. } => {}
                ServerAction::Cut { session } => drop(self.sessions.remove(session)),
                ServerAction::Welcome { session, desired } => {
                    let lanes = match self.sessions.get(session) {
                        Some(known) => self.works.resume_points(known, &self.hub.meters),
                        None => Vec::new(),
                    };
                    if let Some(known) = self.sessions.get(session) {
                        let version_max = known
                            .greeting
                            .take()
                            .map_or(0, |greeting| greeting.version_max);
                        known.link.welcome(version_max, desired, lanes);
                    }
                    self.pump(session);
                }
                ServerAction::Desire { session, desired } => {
                    self.send(session, |link| link.desire(desired))
                }
                ServerAction::ObserveAll { session } => {
                    self.send(session, link::ServerSession::observe_all)
                }
                ServerAction::Grant { session, granted } => {
                    self.send(session, |link| link.grant(granted))
                }
                ServerAction::Idle { agent } => self.set_idle(&agent, true),
                ServerAction::Back { agent } => self.set_idle(&agent, false),
                ServerAction::Ended { job, why } => {
                    let job = JobId(job);
                    let troubles = self.works.troubles(job);
                    if let Some(work) = self.works.get_mut(&job) {
                        let has_parts = work.copying.is_some();
                        work.ending = Some(user_messages::ended(&why, &troubles, has_parts));
                    }
                    ended = true;
                }
            }
        }
        if ended {
            self.end_jobs();
        }
        Ok(())
    }

    /// Sends a message in a session.
    pub fn send(&mut self, session: u64, message: impl FnOnce(&mut link::ServerSession)) {
        if self.sessions.send(session, message) == ConnectionStatus::Broken {
            self.close(session);
        }
    }

    /// Handles a change of a job, after it was saved.
    fn job_saved(&mut self, id: JobId) {
        let until_ns = self
            .now()
            .monotonic_ns
            .saturating_add(self.settings.first_report_ns);
        if let (Some(job), Some(work)) = (self.driver.job(id), self.works.get_mut(&id)) {
            match job.state.is_active() {
                true => job
                    .agents
                    .keys()
                    .for_each(|agent| work.expect(agent, until_ns)),
                false => work.copying.iter_mut().for_each(MirrorWorker::end),
            }
        }
        self.show_state(id);
    }

    fn set_idle(&mut self, agent: &str, is_idle: bool) {
        let jobs: Vec<JobId> = self.works.keys().copied().collect();
        let now = self.now();
        for job in jobs {
            if let Some(work) = self.works.get_mut(&job) {
                work.set_idle(agent, is_idle, now);
            }
            self.show_state(job);
            self.publish(job);
        }
    }

    /// Handles the hello of an agent: records of its earlier sessions are no longer committed.
    pub fn greet(&mut self, hello: &Hello) {
        self.commit();
        self.pending.forget(&hello.agent);
        self.agents.greet(hello);
    }

    /// Housekeeping of all jobs, about once a second.
    pub fn look_at_jobs(&mut self, now: SessionTime) {
        if self.room == StoreCapacity::Full {
            // Retries pending records; otherwise tests whether the disk has space.
            match self.pending.since() {
                Some(_) => self.commit(),
                None if self.frames.append(&[], &[]).is_ok() && self.store_has_room() => {
                    self.store_works()
                }
                None => {}
            }
        }
        let abandoned = self.driver.control().jobs().map(|job| job.id);
        let is_unknown = |job: &u64| !self.works.contains_key(&JobId(*job));
        let abandoned: Vec<u64> = abandoned.filter(is_unknown).collect();
        if !self.sessions.ids().is_empty() {
            // They were not resubmitted because this version cannot parse their queries.
            abandoned.into_iter().for_each(|job| {
                self.decide(ServerEvent::Stop {
                    job,
                    why: EndReason::Stopped { by: String::new() },
                })
            });
        }
        let takes = self.room == StoreCapacity::Free;
        let absent: Vec<String> = self.driver.absent_agents();
        for job in self.works.keys().copied().collect::<Vec<_>>() {
            let driver = &self.driver;
            let state_on = |agent: &str| driver.state_on(job, agent);
            if let Some(work) = self.works.get_mut(&job) {
                work.give_up(now.monotonic_ns, &state_on);
                work.keep_pace(&|agent| !absent.iter().any(|of| of == agent), takes, now);
            }
            self.commit_joined(job, Vec::new());
            self.settle_merged(job);
            self.publish(job);
            self.show_open(job);
            self.account(job);
            self.show_state(job);
        }
        self.look_at_copies();
        self.end_jobs();
    }

    /// Whether the store accepts writes.
    fn store_has_room(&self) -> bool {
        self.database.probe().is_ok()
    }

    /// Publishes the state of a job and its problems, if changed.
    pub fn show_state(&mut self, id: JobId) {
        let Some(known) = self.driver.job(id) else {
            return;
        };
        let state = JobState::from(&known.state);
        if state.has_ended() {
            // Reported with its last rows.
            return;
        }
        let mut said: Vec<String> =
            user_messages::degraded(&self.driver.control().degraded(known)).collect();
        said.extend(self.works.troubles(id));
        let Some(work) = self.works.get_mut(&id) else {
            return;
        };
        let state = work
            .copying
            .as_ref()
            .map_or(state.clone(), |copying| copying.shown(state));
        said.extend(work.copying.iter().flat_map(MirrorWorker::lacking));
        said.extend(user_messages::lacks(work));
        said.extend(
            work.input
                .reader()
                .and_then(|reading| reading.trouble.clone()),
        );
        let lateness = |pipeline: &plan::Pipeline| pipeline.window.map(|window| window.lateness_ns);
        let lateness = work
            .plan
            .dataflow
            .pipelines
            .iter()
            .filter_map(lateness)
            .min()
            .unwrap_or(0);
        let allowed = (lateness / 2).max(100_000_000).unsigned_abs();
        for (agent, _, ahead) in self
            .driver
            .control()
            .agents()
            .filter(|(agent, ..)| known.agents.contains_key(*agent))
        {
            let off = ahead
                .map(|ahead| ahead.ns)
                .filter(|ns| ns.unsigned_abs() > allowed);
            said.extend(off.map(|ns| user_messages::clock(agent, ns)));
        }
        said.sort();
        said.dedup();
        // A job that waits for agents has no agents to report about.
        let reason = (state != JobState::Planned && !said.is_empty()).then(|| said.join("; "));
        let told = Some((state.clone(), reason.clone()));
        if work.told != told {
            match self.hub.turn(id, state, reason.as_deref()) {
                Ok(()) => work.told = told,
                Err(error) => tracing::warn!("cannot store the state of job {id}: {error}"),
            }
        }
    }
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

/// A job could not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JobSaveError;

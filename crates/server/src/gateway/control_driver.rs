//! Executes the decisions of [`control`] in order.

use bytes::Bytes;
use control::{AgentPresence, EndReason, JobLimit, ServerAction, ServerEvent, TapAssignment};
use link::{Hello, LaneResume, RecordLane, SessionTime};
use planner::BothTaps;

use super::agent_orders::OrderBuilder;
use super::event_loop::{EventLoop, StoreCapacity};
use super::job_codec;
use super::job_joiner::{JobJoiner, JoinLimits};
use super::job_runtime::{JobProgress, JobRuntime};
use super::lanes::{LaneEnd, LaneKey};
use super::mirror_worker::MirrorWorker;
use super::user_messages;
use crate::gateway::fleet::FleetOrder;
use crate::gateway::network::PlannedJob;
use crate::job::fleet_refusal::FleetRefusal;
use crate::job::{JobId, JobState};

/// Monitors end by themselves at their time limit; those that do not are stopped after this time.
const GRACE_NS: i64 = 2_000_000_000;

/// Plan of a job in a network, or the reason why there is none.
type Planning = Result<PlannedJob, String>;

impl EventLoop {
    /// Starts a new job, or resumes one of an earlier process.
    pub fn start(&mut self, order: &FleetOrder, planned: Option<Planning>) -> Result<(), FleetRefusal> {
        if self.works.contains_key(&order.id) {
            return Ok(());
        }
        match self.progress.remove(&order.id) {
            Some(progress) => self.go_on(order, planned, progress.as_deref()),
            None => self.begin(order, planned.transpose().map_err(FleetRefusal::Unable)?),
        }
    }

    fn begin(&mut self, order: &FleetOrder, planned: Option<PlannedJob>) -> Result<(), FleetRefusal> {
        if self.room == StoreCapacity::Full {
            return Err(user_messages::refused(&control::AdmissionError::StoreIsFull));
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
        let limit = &order.plan.monitor.limit;
        let orders = OrderBuilder::new(order, topics, now.wall_ns);
        let parts = planned.iter().flat_map(|planned| &planned.parts);
        let request = control::JobSpec {
            key: String::new(),
            owner: String::new(),
            name: String::new(),
            labels: Default::default(),
            kind: job_codec::kind(order.spec.kind),
            on: order.spec.on.clone(),
            limit: JobLimit {
                packets: limit.packets,
                ends_at_ns: limit
                    .nanos
                    .map(|nanos| now.wall_ns.saturating_add(nanos).saturating_add(GRACE_NS)),
            },
            cost: planner::cost(agents),
            // In a network, the parts determine which tap reports a flow.
            taps: if planned.is_some() {
                TapAssignment::All
            } else {
                job_codec::taps(order.plan.monitor.taps)
            },
            interfaces: order.spec.capture.interfaces.clone(),
            body: if planned.is_some() { Bytes::new() } else { orders.of_all(agents) },
            parts: parts.map(|part| (part.agent.clone(), orders.of(part, agents))).collect(),
        };
        self.control.count_from(order.id.0.saturating_sub(1));
        self.submitted = None;
        let actions = self.control.handle(ServerEvent::Submit(Box::new(request)), now);
        if let Some(refusal) = actions.iter().find_map(|action| match action {
            ServerAction::Submitted(Err(refusal)) => Some(refusal),
            _ => None,
        }) {
            return Err(user_messages::refused(refusal));
        }
        let mut work = self.work(order, both.as_ref(), 0);
        work.copying = planned.map(|planned| MirrorWorker::new(order.id, planned, self.events.clone()));
        if let Err(error) = self.hub.open(order.id, &work.tables()) {
            self.begin_again();
            return Err(FleetRefusal::Busy(error.to_string()));
        }
        self.works.insert(order.id, work);
        match self.carry_out(actions) {
            Ok(()) => {
                self.begin_reading(order.id, wanted);
                self.account(order.id);
                Ok(())
            }
            Err(JobSaveError) => {
                self.works.remove(&order.id);
                Err(user_messages::refused(&control::AdmissionError::StoreIsFull))
            }
        }
    }

    fn work(&self, order: &FleetOrder, both: Option<&BothTaps>, kept: u64) -> JobRuntime {
        let bounds = (self.settings.window_bytes_max, self.settings.frames_bytes);
        let pace = self.settings.pace;
        let Some(both) = both else {
            return JobRuntime::new(order.id, &order.plan, kept, bounds).paced(pace);
        };
        let patience_ns = i64::try_from(self.settings.join_patience.as_nanos()).unwrap_or(i64::MAX);
        let limits = JoinLimits { patience_ns, bytes_max: self.settings.join_bytes_max };
        let joining = JobJoiner::new(order.id, both, limits, self.settings.window_bytes_max);
        JobRuntime::new(order.id, &both.joined, kept, bounds).paced(pace).joining(joining)
    }

    /// Resumes a job of an earlier process.
    fn go_on(
        &mut self,
        order: &FleetOrder,
        planned: Option<Planning>,
        progress: Option<&str>,
    ) -> Result<(), FleetRefusal> {
        let busy = |error: &dyn std::fmt::Display| FleetRefusal::Busy(error.to_string());
        let kept = self.hub.rows_kept(order.id, 0).map_err(|error| busy(&error))?;
        let both = over_both_taps(order)?;
        let is_known = |of: &JobProgress| of.watermark_ns > i64::MIN;
        let known = progress.and_then(|text| serde_json::from_str::<JobProgress>(text).ok()).filter(is_known);
        let wanted = self.wanted(order, known.map(|of| (of.watermark_ns, of.latest_ns)))?;
        let mut work = self.work(order, both.as_ref(), kept);
        self.hub.open(order.id, &work.tables()).map_err(|error| busy(&error))?;
        let saved = self.saved.get(&order.id);
        let until_ns = self.now().monotonic_ns.saturating_add(self.settings.first_report_ns);
        let agents = saved.iter().flat_map(|job| job.agents.keys());
        work.go_on(&self.frames, progress, agents, until_ns).map_err(|error| busy(&error))?;
        if let Some(control::JobState::Ended(why)) = saved.map(|job| &job.state) {
            work.ending = Some(user_messages::ended(why, &[], order.network.is_some()));
        }
        // Mirroring for an ending job is not resumed: rules of the previous process expire with their leases.
        let is_active = saved.is_some_and(|job| job.state.is_active());
        work.copying = planned.filter(|_| is_active).map(|planned| self.copy_again(order.id, planned));
        let has_failed = work.copying.as_ref().is_some_and(MirrorWorker::has_failed);
        self.works.insert(order.id, work);
        if has_failed {
            self.fail_in_network(order.id);
        }
        self.begin_reading(order.id, wanted);
        self.publish(order.id);
        self.tell(order.id);
        self.end_jobs();
        Ok(())
    }

    /// Passes an event to the control logic and executes its decisions.
    pub fn decide(&mut self, event: ServerEvent) {
        let actions = self.control.handle(event, self.now());
        if self.carry_out(actions) == Err(JobSaveError) {
            self.begin_again();
        }
    }

    fn carry_out(&mut self, actions: Vec<ServerAction>) -> Result<(), JobSaveError> {
        let mut ended = false;
        for action in actions {
            match action {
                ServerAction::Save(job) => self.save(*job)?,
                ServerAction::Submitted(result) => self.submitted = Some(result),
                ServerAction::Stopped { .. } => {}
                ServerAction::Cut { session } => drop(self.sessions.remove(session)),
                ServerAction::Welcome { session, desired } => {
                    let lanes = self.resume(session);
                    if let Some(known) = self.sessions.get(session) {
                        let version_max = known.greeting.take().map_or(0, |greeting| greeting.version_max);
                        known.link.welcome(version_max, desired, lanes);
                    }
                    self.pump(session);
                }
                ServerAction::Desire { session, desired } => self.say(session, |link| link.desire(desired)),
                ServerAction::ObserveAll { session } => self.say(session, link::ServerSession::observe_all),
                ServerAction::Grant { session, granted } => self.say(session, |link| link.grant(granted)),
                ServerAction::Idle { agent } => self.set_idle(&agent, true),
                ServerAction::Back { agent } => self.set_idle(&agent, false),
                ServerAction::Ended { job, why } => {
                    let job = JobId(job);
                    let troubles = self.troubles(job);
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
    pub fn say(&mut self, session: u64, say: impl FnOnce(&mut link::ServerSession)) {
        if let Some(known) = self.sessions.get(session) {
            say(&mut known.link);
        }
        self.pump(session);
    }

    fn save(&mut self, job: control::ControlledJob) -> Result<(), JobSaveError> {
        let id = JobId(job.id);
        if let Err(error) =
            self.controls.save_job(id, &job_codec::write(&job), &job_codec::write_body(&job.request))
        {
            self.set_room(StoreCapacity::Full);
            tracing::error!("cannot store job {id}: {error}");
            return Err(JobSaveError);
        }
        let until_ns = self.now().monotonic_ns.saturating_add(self.settings.first_report_ns);
        if let Some(work) = self.works.get_mut(&id) {
            match job.state.is_active() {
                true => job.agents.keys().for_each(|agent| work.expect(agent, until_ns)),
                false => work.copying.iter_mut().for_each(MirrorWorker::end),
            }
        }
        self.saved.insert(id, job);
        self.tell(id);
        Ok(())
    }

    fn set_idle(&mut self, agent: &str, is_idle: bool) {
        let jobs: Vec<JobId> = self.works.keys().copied().collect();
        let now = self.now();
        for job in jobs {
            if let Some(work) = self.works.get_mut(&job) {
                work.set_idle(agent, is_idle, now);
            }
            self.tell(job);
            self.publish(job);
        }
    }

    /// Handles the hello of an agent: records of its earlier sessions are no longer committed.
    pub fn greet(&mut self, hello: &Hello) {
        self.commit();
        self.pending.forget(&hello.agent);
        self.agents.greet(hello);
    }

    /// Committed positions of an agent's lanes.
    fn resume(&mut self, session: u64) -> Vec<LaneResume> {
        let Some(known) = self.sessions.get(session) else { return Vec::new() };
        let agent = known.agent.clone();
        let ranges = known.greeting.as_ref().map(|greeting| greeting.lanes.clone()).unwrap_or_default();
        let mut lanes = Vec::new();
        for range in ranges {
            let work = self.works.get(&JobId(range.lane.job));
            match work {
                Some(work) => {
                    let (durable, facts) = work.lanes.mark(&LaneKey::of(&agent, range.lane));
                    let (watermark_ns, is_closed) = (facts.watermark_ns, facts.end != LaneEnd::Open);
                    lanes.push(LaneResume { lane: range.lane, durable, watermark_ns, is_closed });
                }
                None => {
                    // The job has been removed, so the agent may drop its records.
                    let records = range.newest.saturating_sub(range.oldest).saturating_add(1);
                    self.hub.meters.records_unclaimed.add(records);
                    let (durable, watermark_ns) = (range.newest, i64::MIN);
                    lanes.push(LaneResume { lane: range.lane, durable, watermark_ns, is_closed: false });
                }
            }
        }
        for work in self.works.values() {
            for (key, known) in work.lanes.open_of(&agent) {
                let job = work.id.0;
                let lane = RecordLane { boot: key.boot, job, attempt: key.attempt };
                if lanes.iter().all(|resume| resume.lane != lane) {
                    let (durable, watermark_ns) = (known.seq, known.facts.watermark_ns);
                    lanes.push(LaneResume { lane, durable, watermark_ns, is_closed: false });
                }
            }
        }
        lanes
    }

    /// Reasons of agents that cannot run a job.
    fn troubles(&self, job: JobId) -> Vec<String> {
        let work = self.works.get(&job);
        let troubles = work.into_iter().flat_map(|work| &work.troubles);
        troubles.map(|(agent, why)| format!("{agent}: {why}")).collect()
    }

    /// Housekeeping of all jobs, about once a second.
    pub fn look_at_jobs(&mut self, now: SessionTime) {
        if self.room == StoreCapacity::Full {
            // Retries pending records; otherwise tests whether the disk has space.
            match self.pending.since() {
                Some(_) => self.commit(),
                None if self.frames.append(&[], &[]).is_ok() && self.store_has_room() => self.store_works(),
                None => {}
            }
        }
        let abandoned = self.control.jobs().map(|job| job.id);
        let is_unknown = |job: &u64| !self.works.contains_key(&JobId(*job));
        let abandoned: Vec<u64> = abandoned.filter(is_unknown).collect();
        if !self.sessions.ids().is_empty() {
            // They were not resubmitted because this version cannot parse their queries.
            abandoned.into_iter().for_each(|job| {
                self.decide(ServerEvent::Stop { job, why: EndReason::Stopped { by: String::new() } })
            });
        }
        let takes = self.room == StoreCapacity::Free;
        let absent: Vec<String> = self.absent_agents();
        for job in self.works.keys().copied().collect::<Vec<_>>() {
            let control = &self.control;
            let state_on = |agent: &str| {
                let of_job = control.observed(agent).find(|observed| observed.job == job.0);
                of_job.map(link::ObservedJob::state)
            };
            if let Some(work) = self.works.get_mut(&job) {
                work.give_up(now.monotonic_ns, &state_on);
                work.keep_pace(&|agent| !absent.iter().any(|of| of == agent), takes, now);
            }
            self.commit_joined(job, Vec::new());
            self.settle_merged(job);
            self.publish(job);
            self.show_open(job);
            self.account(job);
            self.tell(job);
        }
        self.look_at_copies();
        self.end_jobs();
    }

    /// Agents for which windows no longer wait.
    fn absent_agents(&self) -> Vec<String> {
        let is_absent = |presence| matches!(presence, AgentPresence::Absent { .. });
        let agents = self.control.agents().filter(|(_, presence, _)| is_absent(*presence));
        agents.map(|(agent, ..)| agent.to_owned()).collect()
    }

    /// Whether the store accepts writes.
    fn store_has_room(&self) -> bool {
        self.database.probe().is_ok()
    }

    /// Publishes the state of a job and its problems, if changed.
    pub fn tell(&mut self, id: JobId) {
        let Some(known) = self.saved.get(&id) else { return };
        let state = JobState::from(&known.state);
        if state.has_ended() {
            // Reported with its last rows.
            return;
        }
        let mut said: Vec<String> = user_messages::degraded(&self.control.degraded(known)).collect();
        said.extend(self.troubles(id));
        let Some(work) = self.works.get_mut(&id) else { return };
        let state = work.copying.as_ref().map_or(state.clone(), |copying| copying.shown(state));
        said.extend(work.copying.iter().flat_map(MirrorWorker::lacking));
        said.extend(user_messages::lacks(work));
        said.extend(work.input.reader().and_then(|reading| reading.trouble.clone()));
        let lateness = |pipeline: &plan::Pipeline| pipeline.window.map(|window| window.lateness_ns);
        let lateness = work.plan.dataflow.pipelines.iter().filter_map(lateness).min().unwrap_or(0);
        let allowed = (lateness / 2).max(100_000_000).unsigned_abs();
        for (agent, _, ahead) in self.control.agents().filter(|(agent, ..)| known.agents.contains_key(*agent))
        {
            let off = ahead.map(|ahead| ahead.ns).filter(|ns| ns.unsigned_abs() > allowed);
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
        && let Some(name) = both.as_ref().and_then(|both| planner::compared_folded(&both.joined.dataflow))
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

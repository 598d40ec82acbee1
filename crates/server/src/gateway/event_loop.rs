//! Event loop of the gateway: receives events, runs timers, and executes the decisions of [`control`] in order.

mod commit;
mod jobs;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use control::{EndReason, ServerAction, ServerEvent};
use link::{Hello, PeerMisbehaved, ServerSession, ServerSessionEvent, SessionTime};

use super::agents::AgentDirectory;
use super::control_driver::{ControlDriver, JobSaveError};
use super::job_runtimes::JobRuntimes;
use super::job_status::JobStatus;
use super::mirror_worker::MirrorWorker;
use super::packet_requests::PacketRequests;
use super::record_committer::RecordCommitter;
use super::result_bus::ResultBus;
use super::sessions::{GatewaySession, GatewaySessions, PendingGreeting};
use super::{GatewayEvent, GatewaySettings, user_messages};
use crate::gateway::agent_listener::AgentConnectionEvent;
use crate::gateway::fleet::{AgentHealth, FleetHealth, StopCause};
use crate::gateway::merge_backend::MergeBackend;
use crate::job::JobId;
use crate::results::hub::ResultHub;
use crate::store::persist_error::{PersistError, WriteObstacle};
use crate::store::sqlite::{Database, ServerStore, StoreError, now_ns};

/// Maximum sleep.
const NAP: Duration = Duration::from_secs(1);
/// Maximum consecutive events before timers are checked.
const EVENTS: usize = 256;
/// Interval of the housekeeping of jobs, in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// See the module documentation.
pub struct EventLoop {
    driver: ControlDriver,
    sessions: GatewaySessions,
    agents: AgentDirectory,
    jobs: JobRuntimes,
    committer: RecordCommitter,
    bus: ResultBus,
    packets: PacketRequests,
    database: Database,
    hub: Arc<ResultHub>,
    settings: GatewaySettings,
    /// Reason why the store rejects writes. Meanwhile agents must not send, and jobs are rejected.
    obstacle: Option<WriteObstacle>,
    /// Sender for the threads of jobs.
    events: Sender<GatewayEvent>,
    started: Instant,
    second_ns: u64,
}

impl EventLoop {
    /// Loads the state from the store.
    pub fn new(
        store: &ServerStore,
        hub: Arc<ResultHub>,
        settings: GatewaySettings,
        bus: Option<Arc<dyn MergeBackend>>,
        events: Sender<GatewayEvent>,
    ) -> Result<EventLoop, StoreError> {
        let started = Instant::now();
        let now = SessionTime {
            monotonic_ns: 0,
            wall_ns: now_ns(),
        };
        let agents = AgentDirectory::load(store.agents.clone())?;
        let identity = store.database.identity()?;
        Ok(EventLoop {
            driver: ControlDriver::load(store, settings.control, &agents, now)?,
            sessions: GatewaySessions::of(identity),
            agents,
            jobs: JobRuntimes::default(),
            committer: RecordCommitter::new(
                store.frames.clone(),
                hub.clone(),
                settings.frames_bytes,
            ),
            bus: ResultBus {
                bus,
                server: identity,
                window_bytes_max: settings.window_bytes_max,
                events: events.clone(),
            },
            packets: PacketRequests::default(),
            database: store.database.clone(),
            hub,
            settings,
            obstacle: None,
            events,
            started,
            second_ns: 0,
        })
    }

    /// Current time.
    pub fn now(&self) -> SessionTime {
        let monotonic_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        SessionTime {
            monotonic_ns,
            wall_ns: now_ns(),
        }
    }

    /// Runs until the gateway ends.
    pub fn run(mut self, incoming: &Receiver<GatewayEvent>) {
        loop {
            let first = match incoming.recv_timeout(self.patience()) {
                Ok(event) => Some(event),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for event in first.into_iter().chain(incoming.try_iter().take(EVENTS)) {
                if matches!(event, GatewayEvent::End) {
                    return;
                }
                self.handle(event);
                self.close_broken();
            }
            self.run_timers();
            self.close_broken();
        }
    }

    /// Time until the next timer.
    fn patience(&self) -> Duration {
        let now = self.now();
        let timers = [
            self.sessions.timeout(),
            self.driver.control().timeout(now),
            Some(self.second_ns),
        ];
        let due = timers.into_iter().flatten().min().unwrap_or(u64::MAX);
        let timers = Duration::from_nanos(due.saturating_sub(now.monotonic_ns));
        let commit = self.committer.since().filter(|_| self.obstacle.is_none());
        let commit = commit.map_or(NAP, |since| {
            self.settings.commit_every.saturating_sub(since.elapsed())
        });
        timers.min(commit).min(NAP)
    }

    fn handle(&mut self, event: GatewayEvent) {
        match event {
            GatewayEvent::Arrival(AgentConnectionEvent::Connected {
                session,
                agent,
                out,
            }) => {
                let mut limits = self.settings.link;
                let now = self.now();
                if self.obstacle.is_some() {
                    limits.window_bytes = 0;
                }
                self.sessions.add(session, agent, out, limits, now);
            }
            GatewayEvent::Arrival(AgentConnectionEvent::Bytes {
                session,
                bytes,
                room,
            }) => {
                self.advance(session, |link, now| link.handle_bytes(now, &bytes));
                drop(room);
            }
            GatewayEvent::Arrival(AgentConnectionEvent::Written { session }) => {
                self.sessions.pump(session)
            }
            GatewayEvent::Arrival(AgentConnectionEvent::Closed { session }) => self.close(session),
            GatewayEvent::Start {
                order,
                planned,
                answer,
            } => {
                let result = self.start(&order, planned);
                // The requester may have disconnected.
                let _ = answer.send(result);
            }
            GatewayEvent::Stop { job, why } => {
                let why = match why {
                    StopCause::Asked => EndReason::Stopped { by: String::new() },
                    StopCause::Abandoned => EndReason::Abandoned,
                };
                self.stop_job(job, why);
            }
            GatewayEvent::Agents { answer } => {
                let _ = answer.send(self.driver.agent_views(&self.agents));
            }
            GatewayEvent::Health { answer } => {
                let _ = answer.send(self.health());
            }
            GatewayEvent::Packets {
                agent,
                request,
                answer,
            } => {
                // Without a session, the requester notices the closed channel.
                if let Some(session) = self.sessions.of_agent(&agent) {
                    self.packets.add(session, request.request, answer);
                    self.sessions
                        .send(session, |link| link.request_packets(request));
                }
            }
            GatewayEvent::Preserve { job, rule } => self.preserve_packets(job, &rule),
            GatewayEvent::Merged(job, event) => self.handle_merge(job, event),
            GatewayEvent::Copies(job, event) => self.handle_mirror(job, event),
            GatewayEvent::End => {}
        }
    }

    /// Advances a session by received bytes or time, and handles its events.
    fn advance(
        &mut self,
        session: u64,
        step: impl FnOnce(&mut ServerSession, SessionTime) -> Result<(), PeerMisbehaved>,
    ) {
        let now = self.now();
        let Some(known) = self.sessions.get(session) else {
            return;
        };
        if let Err(why) = step(&mut known.link, now) {
            tracing::warn!("agent {} violates the protocol: {why}", known.agent);
            self.hub.meters.links_broken.add(1);
            return self.close(session);
        }
        while let Some(event) = self.sessions.get(session).and_then(GatewaySession::next) {
            match event {
                ServerSessionEvent::Hello(hello) => self.handle_hello(session, hello),
                ServerSessionEvent::Observed(observed) => {
                    if let Some(known) = self.sessions.get(session) {
                        self.jobs.note_troubles(&known.agent, &observed);
                    }
                    self.decide(ServerEvent::Observed { session, observed });
                    self.begin_mirrors();
                }
                ServerSessionEvent::Renew(mut renew) => {
                    if let Some(known) = self.sessions.get(session) {
                        let counts = std::mem::take(&mut renew.health);
                        self.agents.take_health(&known.agent, counts);
                    }
                    self.decide(ServerEvent::Renew { session, renew });
                }
                ServerSessionEvent::Offset(ahead) => {
                    self.decide(ServerEvent::Offset { session, ahead })
                }
                ServerSessionEvent::Record(record) => {
                    self.committer
                        .receive(session, record, &mut self.sessions, &self.jobs);
                    if self.committer.bytes() >= self.settings.commit_bytes {
                        self.commit();
                    }
                }
                ServerSessionEvent::Packets(reply) => self.packets.answer(session, reply),
                ServerSessionEvent::Closed(_) => return self.close(session),
            }
        }
        self.sessions.pump(session);
    }

    /// Handles the first message of an agent.
    fn handle_hello(&mut self, session: u64, hello: Box<Hello>) {
        let Some(known) = self.sessions.get(session) else {
            return;
        };
        if hello.agent != known.agent {
            let name = known.agent.clone();
            known.link.refuse(&format!(
                "the server knows this agent as {name}, and it calls itself {}",
                hello.agent
            ));
            return;
        }
        if self.sessions.has_another(&hello.agent, hello.boot) {
            let why = format!(
                "another agent {} is connected; if it is dead, its connection closes within a few seconds",
                hello.agent
            );
            return self.sessions.send(session, |link| link.refuse(&why));
        }
        let Some(known) = self.sessions.get(session) else {
            return;
        };
        known.boot = Some(hello.boot);
        known.greeting = Some(PendingGreeting::of(&hello));
        // Records of its earlier sessions are no longer committed.
        self.commit();
        self.committer.queue().forget(&hello.agent);
        self.agents.greet(&hello);
        self.jobs.note_troubles(&hello.agent, &hello.observed);
        self.decide(ServerEvent::Connected { session, hello });
    }

    /// Closes the sessions whose connection no longer reads.
    fn close_broken(&mut self) {
        while let Some(session) = self.sessions.next_broken() {
            self.close(session);
        }
    }

    fn close(&mut self, session: u64) {
        let Some(known) = self.sessions.remove(session) else {
            return;
        };
        self.agents.leave(&known.agent);
        self.packets.close(session);
        self.decide(ServerEvent::Disconnected { session });
    }

    /// Tells the agents of a job that keep packets that an alert fires.
    fn preserve_packets(&mut self, job: JobId, rule: &str) {
        let agents = self.driver.job(job).map(|job| &job.agents);
        for agent in agents.into_iter().flat_map(|agents| agents.keys()) {
            if !self.agents.can(agent, link::KEEPS_PACKETS) {
                continue;
            }
            if let Some(session) = self.sessions.of_agent(agent) {
                let rule = rule.to_owned();
                self.sessions.send(session, |link| {
                    link.preserve_packets(link::PreservePackets { rule });
                });
            }
        }
    }

    /// Runs timers.
    fn run_timers(&mut self) {
        let now = self.now();
        for session in self.sessions.due(now.monotonic_ns) {
            self.advance(session, |link, now| {
                link.handle_timeout(now);
                Ok(())
            });
        }
        if self
            .driver
            .control()
            .timeout(now)
            .is_some_and(|at| at <= now.monotonic_ns)
        {
            self.decide(ServerEvent::Tick);
        }
        let is_due = self
            .committer
            .since()
            .is_some_and(|since| since.elapsed() >= self.settings.commit_every);
        if is_due && self.obstacle.is_none() {
            self.commit();
        }
        if self.second_ns <= now.monotonic_ns {
            self.second_ns = now.monotonic_ns.saturating_add(SECOND_NS);
            // Without traffic from other agents, only the timer triggers these.
            self.decide(ServerEvent::Tick);
            self.packets.expire();
            self.housekeep(now);
        }
    }

    /// Passes an event to the control logic and executes its decisions.
    pub fn decide(&mut self, event: ServerEvent) {
        match self.driver.decide(event, self.now()) {
            Ok(actions) => self.apply(actions),
            Err(JobSaveError(error)) => {
                self.set_obstacle(Some((&error).into()));
                self.restart();
            }
        }
    }

    /// Ends a job, on agents first.
    pub fn decide_stop(&mut self, job: JobId, why: EndReason) {
        self.decide(ServerEvent::Stop { job: job.0, why });
    }

    /// Executes decisions in order.
    pub fn apply(&mut self, actions: Vec<ServerAction>) {
        let mut ended = false;
        for action in actions {
            match action {
                ServerAction::Save(job) => self.job_saved(JobId(job.id)),
                // The submission returns these.
                ServerAction::Submitted(_) | ServerAction::Stopped { .. } => {}
                ServerAction::Cut { session } => drop(self.sessions.remove(session)),
                ServerAction::Welcome { session, desired } => {
                    let lanes = match self.sessions.get(session) {
                        Some(known) => self.jobs.resume_points(known, &self.hub.meters),
                        None => Vec::new(),
                    };
                    if let Some(known) = self.sessions.get(session) {
                        let version_max = known
                            .greeting
                            .take()
                            .map_or(0, |greeting| greeting.version_max);
                        known.link.welcome(version_max, desired, lanes);
                    }
                    self.sessions.pump(session);
                }
                ServerAction::Desire { session, desired } => {
                    self.sessions.send(session, |link| link.desire(desired))
                }
                ServerAction::ObserveAll { session } => self
                    .sessions
                    .send(session, link::ServerSession::observe_all),
                ServerAction::Grant { session, granted } => {
                    self.sessions.send(session, |link| link.grant(granted))
                }
                ServerAction::Idle { agent } => self.set_idle(&agent, true),
                ServerAction::Back { agent } => self.set_idle(&agent, false),
                ServerAction::Ended { job, why } => {
                    let job = JobId(job);
                    if let Some(runtime) = self.jobs.get_mut(&job) {
                        let troubles: Vec<String> = runtime.agent_troubles().collect();
                        let has_parts = runtime.mirror.is_some();
                        runtime.ending = Some(user_messages::ended(&why, &troubles, has_parts));
                    }
                    ended = true;
                }
            }
        }
        if ended {
            self.end_jobs();
        }
    }

    /// Handles a change of a job, after it was saved.
    fn job_saved(&mut self, id: JobId) {
        let until_ns = self
            .now()
            .monotonic_ns
            .saturating_add(self.settings.first_report_ns);
        if let (Some(job), Some(runtime)) = (self.driver.job(id), self.jobs.get_mut(&id)) {
            if job.state.is_active() {
                job.agents
                    .keys()
                    .for_each(|agent| runtime.expect(agent, until_ns))
            } else {
                runtime.mirror.iter_mut().for_each(MirrorWorker::end)
            }
        }
        self.show_state(id);
    }

    fn set_idle(&mut self, agent: &str, is_idle: bool) {
        let jobs: Vec<JobId> = self.jobs.keys().copied().collect();
        let now = self.now();
        for job in jobs {
            if let Some(runtime) = self.jobs.get_mut(&job) {
                runtime.set_idle(agent, is_idle, now);
            }
            self.show_state(job);
            self.publish(job);
        }
    }

    /// Restarts from the stored state; agents reconnect and report what they run.
    fn restart(&mut self) {
        self.sessions.clear();
        self.driver.restart(&self.agents, self.now());
    }

    /// Sets the reason why the store rejects writes, and notifies users.
    pub fn set_obstacle(&mut self, obstacle: Option<WriteObstacle>) {
        self.obstacle.clone_from(&obstacle);
        self.hub.set_obstacle(obstacle);
    }

    /// Handles a failed write to the store: agents must not send until it works again.
    pub fn store_failed(&mut self, error: &PersistError) {
        let before = self.obstacle.clone();
        let obstacle = Some(error.into());
        if before != obstacle {
            tracing::error!("cannot store results, and agents wait: {error}");
            self.set_obstacle(obstacle);
        }
        if before.is_some() {
            return;
        }
        self.sessions.set_window(0);
        self.decide(ServerEvent::StoreIsFull(true));
    }

    /// The store accepts writes again.
    pub fn store_works(&mut self) {
        if self.obstacle.is_some() {
            tracing::info!("results are stored again");
            self.set_obstacle(None);
            self.sessions.set_window(self.settings.link.window_bytes);
            self.decide(ServerEvent::StoreIsFull(false));
        }
    }

    /// State of the gateway, its agents and its jobs, for metrics.
    fn health(&self) -> FleetHealth {
        let agents = self.driver.agent_views(&self.agents).into_iter();
        let agents = agents.map(|agent| AgentHealth {
            counts: self.agents.health(&agent.name),
            name: agent.name,
            connected: agent.connected,
            clock_offset_ns: agent.clock_offset_ns,
        });
        let status = self.status();
        FleetHealth {
            sessions: self.sessions.len(),
            waiting_bytes: self.committer.bytes(),
            rejects_writes: self.obstacle.is_some(),
            agents: agents.collect(),
            jobs: self.jobs.values().map(|job| status.health(job)).collect(),
        }
    }

    fn status(&self) -> JobStatus<'_> {
        JobStatus {
            driver: &self.driver,
            hub: &self.hub,
        }
    }
}

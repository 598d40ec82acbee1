//! Event loop of the gateway: receives events and runs timers.

mod accounts;
mod commit;
mod commit_joined;
mod decisions;
mod health;
mod merged_rows;
mod mirror_schedule;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use control::ServerEvent as Happens;
use link::{Hello, PeerMisbehaved, ServerSession, ServerSessionEvent, SessionTime};

use super::agents::AgentDirectory;
use super::commit_queue::CommitQueue;
use super::control_driver::ControlDriver;
use super::job_runtimes::JobRuntimes;
use super::sessions::{ConnectionStatus, GatewaySession, GatewaySessions, PendingGreeting};
use super::{GatewayEvent, GatewaySettings};
use crate::gateway::agent_listener::AgentConnectionEvent;
use crate::gateway::fleet::{AgentView, StopCause};
use crate::gateway::merge_backend::MergeBackend;
use crate::job::JobId;
use crate::results::hub::ResultHub;
use crate::store::sqlite::{Database, FrameStore, ServerStore, StoreError, now_ns};

/// Maximum sleep.
const NAP: Duration = Duration::from_secs(1);
/// Maximum consecutive events before timers are checked.
const EVENTS: usize = 256;
/// Interval of the housekeeping of jobs, in nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;

/// Whether the store accepts writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreCapacity {
    /// Yes.
    Free,
    /// No: agents must not send, and jobs are rejected.
    Full,
}

/// See the module documentation.
pub struct EventLoop {
    driver: ControlDriver,
    sessions: GatewaySessions,
    agents: AgentDirectory,
    works: JobRuntimes,
    pending: CommitQueue,
    frames: FrameStore,
    database: Database,
    hub: Arc<ResultHub>,
    settings: GatewaySettings,
    room: StoreCapacity,
    /// Bus to which agents of some jobs publish.
    bus: Option<Arc<dyn MergeBackend>>,
    /// Sender for the threads of jobs.
    events: Sender<GatewayEvent>,
    /// Identity of the data directory.
    identity: u64,
    started: Instant,
    second_ns: u64,
}

impl EventLoop {
    /// Loads the state from the store.
    pub fn new(
        store: &ServerStore,
        hub: Arc<ResultHub>,
        settings: GatewaySettings,
        (bus, events): (Option<Arc<dyn MergeBackend>>, Sender<GatewayEvent>),
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
            works: JobRuntimes::default(),
            pending: CommitQueue::default(),
            frames: store.frames.clone(),
            database: store.database.clone(),
            hub,
            settings,
            room: StoreCapacity::Free,
            bus,
            events,
            identity,
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
            }
            self.look();
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
        let commit = self
            .pending
            .since()
            .filter(|_| self.room == StoreCapacity::Free);
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
                let (mut limits, now) = (self.settings.link, self.now());
                if self.room == StoreCapacity::Full {
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
            GatewayEvent::Arrival(AgentConnectionEvent::Written { session }) => self.pump(session),
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
                    StopCause::Asked => control::EndReason::Stopped { by: String::new() },
                    StopCause::Abandoned => control::EndReason::Abandoned,
                };
                self.stop_job(job, why);
            }
            GatewayEvent::Agents { answer } => {
                let _ = answer.send(self.told_agents());
            }
            GatewayEvent::Health { answer } => {
                let _ = answer.send(self.health());
            }
            GatewayEvent::Merged(job, said) => self.hear_merged(job, said),
            GatewayEvent::Copies(job, said) => self.hear_copies(job, said),
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
                        let agent = known.agent.clone();
                        self.works.note_troubles(&agent, &observed);
                    }
                    self.decide(Happens::Observed { session, observed });
                    self.look_at_copies();
                }
                ServerSessionEvent::Renew(mut renew) => {
                    self.hear_health(session, std::mem::take(&mut renew.health));
                    self.decide(Happens::Renew { session, renew });
                }
                ServerSessionEvent::Offset(ahead) => {
                    self.decide(Happens::Offset { session, ahead })
                }
                ServerSessionEvent::Record(record) => self.receive_record(session, record),
                ServerSessionEvent::Closed(_) => return self.close(session),
            }
        }
        self.pump(session);
    }

    /// Handles the first message of an agent.
    fn handle_hello(&mut self, session: u64, hello: Box<Hello>) {
        let Some(known) = self.sessions.get(session) else {
            return;
        };
        if hello.agent != known.agent {
            let name = known.agent.clone();
            known.link.refuse(&format!(
                "this agent is {name} here, and calls itself {}",
                hello.agent
            ));
            return;
        }
        if self.sessions.has_another(&hello.agent, hello.boot) {
            let why = format!(
                "another agent {} is connected; if it is dead, its connection closes within a few seconds",
                hello.agent
            );
            return self.send(session, |link| link.refuse(&why));
        }
        let Some(known) = self.sessions.get(session) else {
            return;
        };
        known.boot = Some(hello.boot);
        known.greeting = Some(PendingGreeting::of(&hello));
        self.greet(&hello);
        self.works.note_troubles(&hello.agent, &hello.observed);
        self.decide(Happens::Connected { session, hello });
    }

    /// Passes outgoing data to the connection.
    pub fn pump(&mut self, session: u64) {
        if self
            .sessions
            .get(session)
            .is_some_and(|known| known.pump() == ConnectionStatus::Broken)
        {
            self.close(session);
        }
    }

    fn close(&mut self, session: u64) {
        let Some(known) = self.sessions.remove(session) else {
            return;
        };
        self.agents.leave(&known.agent);
        self.decide(Happens::Disconnected { session });
    }

    /// Runs timers.
    fn look(&mut self) {
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
            self.decide(Happens::Tick);
        }
        let is_due = self
            .pending
            .since()
            .is_some_and(|since| since.elapsed() >= self.settings.commit_every);
        if is_due && self.room == StoreCapacity::Free {
            self.commit();
        }
        if self.second_ns <= now.monotonic_ns {
            self.second_ns = now.monotonic_ns.saturating_add(SECOND_NS);
            // Without traffic from other agents, only the timer triggers these.
            self.decide(Happens::Tick);
            self.look_at_jobs(now);
        }
    }

    /// Restarts from the stored state; agents reconnect and report what they run.
    fn begin_again(&mut self) {
        self.sessions
            .ids()
            .into_iter()
            .for_each(|session| drop(self.sessions.remove(session)));
        self.driver.restart(&self.agents, self.now());
    }

    /// Sets the state of the store and notifies users.
    pub fn set_room(&mut self, room: StoreCapacity) {
        self.room = room;
        self.hub.set_full(room == StoreCapacity::Full);
    }

    /// Handles a failed write to the store: agents must not send until it works again.
    pub fn store_failed(&mut self, error: &StoreError) {
        if self.room == StoreCapacity::Full {
            return;
        }
        tracing::error!("results cannot be stored, and agents wait: {error}");
        self.set_room(StoreCapacity::Full);
        self.sessions.set_window(0);
        self.decide(Happens::StoreIsFull(true));
    }

    /// The store accepts writes again.
    pub fn store_works(&mut self) {
        if self.room == StoreCapacity::Full {
            tracing::info!("results are stored again");
            self.set_room(StoreCapacity::Free);
            self.sessions.set_window(self.settings.link.window_bytes);
            self.decide(Happens::StoreIsFull(false));
        }
    }

    pub fn told_agents(&self) -> Vec<AgentView> {
        let known: BTreeMap<&str, _> = self
            .driver
            .control()
            .agents()
            .map(|(name, presence, ahead)| (name, (presence, ahead)))
            .collect();
        self.agents.told(|agent| {
            let Some((presence, ahead)) = known.get(agent.name.as_str()) else {
                return;
            };
            agent.connected = matches!(presence, control::AgentPresence::Here { .. });
            agent.clock_offset_ns = ahead.map(|ahead| ahead.ns);
            if agent.connected {
                agent.packets_per_second = self.driver.control().packets_per_second(&agent.name);
                agent.last_seen_ns = Some(now_ns());
            }
            agent.jobs = self
                .driver
                .control()
                .observed(&agent.name)
                .map(|job| JobId(job.job))
                .collect();
        })
    }
}

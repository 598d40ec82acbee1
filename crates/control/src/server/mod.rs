//! Server side: accepts jobs, sends agents their desired sets, and tracks the progress of jobs from the agents'
//! reports. Restarts from its saved jobs and adopts running monitors.

mod admission;
mod budget;
mod peer;
mod reconcile;
mod tap_tables;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use link::{
    AgentOrder, BudgetRequest, ClockOffset, DesiredJobs, GrantedLease, Hello, HostCapacity,
    ObservedJobs, ObservedState, RecordLane, Renew, SessionTime,
};

use crate::job::{ControlledJob, Degradation, EndReason, JobSpec, JobState};
use crate::taps::Owners;
pub use admission::{AdmissionError, SubmittedJob};
use budget::AgentDemand;
pub use peer::AgentPresence;
use peer::{AgentPeer, GrantedShare};

/// Limits and timeouts of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerSettings {
    /// Duration of an agent's lease. Its monitors are known to have ended only after that time.
    pub lease_ttl_ns: u64,
    /// Time for which results wait for a disconnected agent.
    pub absent_after_ns: u64,
    /// Time for which an ending job waits for a connected agent that sends no further record of it and does not report
    /// completion.
    pub drain_patience_ns: u64,
    /// Maximum unfinished jobs per owner.
    pub jobs_per_owner_max: usize,
    /// Maximum unfinished jobs.
    pub jobs_max: usize,
    /// Maximum remembered idempotency keys.
    pub keys_max: usize,
    /// Interval at which hosts without capacity for standing jobs are checked again.
    pub room_every_ns: u64,
}

/// Interval at which ending jobs are checked.
const DRAIN_LOOK_NS: u64 = 1_000_000_000;

impl Default for ServerSettings {
    fn default() -> Self {
        let second = 1_000_000_000;
        Self {
            lease_ttl_ns: 10 * second,
            absent_after_ns: 5 * second,
            drain_patience_ns: 30 * second,
            jobs_per_owner_max: 100,
            jobs_max: 1000,
            keys_max: 100_000,
            room_every_ns: 10 * second,
        }
    }
}

/// Event for a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// A user submits a job.
    Submit(Box<JobSpec>),
    /// A user stops a job.
    Stop {
        /// Number of the job.
        job: u64,
        /// Reason.
        why: EndReason,
    },
    /// The time limit of a submitted job begins. Ignored if the job has an end already.
    LimitBegins {
        /// Number of the job.
        job: u64,
        /// End, in nanoseconds since the epoch.
        ends_at_ns: i64,
    },
    /// An agent has sent its Hello; the session waits for the Welcome. The agent's name is that of its certificate.
    Connected {
        /// Number of the session; never reused.
        session: u64,
        /// Hello message of the agent.
        hello: Box<Hello>,
    },
    /// A session has ended.
    Disconnected {
        /// Number of the session.
        session: u64,
    },
    /// An agent reports the states of its jobs.
    Observed {
        /// Number of the session.
        session: u64,
        /// The report.
        observed: ObservedJobs,
    },
    /// An agent requests leases.
    Renew {
        /// Number of the session.
        session: u64,
        /// The request.
        renew: Renew,
    },
    /// An agent's clock offset was measured.
    Offset {
        /// Number of the session.
        session: u64,
        /// The offset.
        ahead: ClockOffset,
    },
    /// A record of a lane is committed.
    Committed {
        /// The lane.
        lane: RecordLane,
    },
    /// Whether the disk lacks the space to save jobs and results.
    StoreIsFull(bool),
    /// A timer expired.
    Tick,
}

/// Action of a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerAction {
    /// Save a job durably before any later action.
    Save(Box<ControlledJob>),
    /// Reply to the submission of a job.
    Submitted(Result<SubmittedJob, AdmissionError>),
    /// Reply to the request to stop a job.
    Stopped {
        /// Number of the job.
        job: u64,
        /// Whether the job exists and had not ended.
        is_known: bool,
    },
    /// End a session. Its uncommitted records are dropped before any later action.
    Cut {
        /// Number of the session.
        session: u64,
    },
    /// Welcome an agent; the caller adds the committed positions of its lanes. Uncommitted records of the agent's
    /// earlier sessions are dropped before, because the agent sends them again.
    Welcome {
        /// Number of the session.
        session: u64,
        /// Desired set.
        desired: DesiredJobs,
    },
    /// Send an agent its desired set.
    Desire {
        /// Number of the session.
        session: u64,
        /// Desired set.
        desired: DesiredJobs,
    },
    /// Request a complete report from an agent.
    ObserveAll {
        /// Number of the session.
        session: u64,
    },
    /// Reply to an agent's lease request.
    Grant {
        /// Number of the session.
        session: u64,
        /// The leases.
        granted: GrantedLease,
    },
    /// Results no longer wait for an agent's lanes.
    Idle {
        /// Name of the agent.
        agent: String,
    },
    /// Results wait for an agent's lanes again.
    Back {
        /// Name of the agent.
        agent: String,
    },
    /// A job has ended.
    Ended {
        /// Number of the job.
        job: u64,
        /// Reason.
        why: EndReason,
    },
}

/// Saved state of a server.
#[derive(Debug, Clone, Default)]
pub struct RestoredControl {
    /// Unfinished jobs.
    pub jobs: Vec<ControlledJob>,
    /// Highest job number, including ended jobs.
    pub last_job: u64,
    /// Idempotency keys, including those of ended jobs: owner, key, job.
    pub keys: Vec<(String, String, u64)>,
    /// Last known addresses of agents' hosts.
    pub hosts: BTreeMap<String, HostCapacity>,
}

/// State machine of a server.
#[derive(Debug)]
pub struct ServerControl {
    settings: ServerSettings,
    jobs: BTreeMap<u64, ControlledJob>,
    last_job: u64,
    keys: BTreeMap<(String, String), u64>,
    peers: BTreeMap<String, AgentPeer>,
    /// Connected agents by session.
    sessions: BTreeMap<u64, String>,
    store_is_full: bool,
    /// Last time at which an agent had used its whole allowance, by job.
    hungry_ns: BTreeMap<u64, u64>,
    unsaved: BTreeSet<u64>,
    /// Time of the last committed record, or of the start of draining; by ending job and agent.
    drains: BTreeMap<(u64, String), u64>,
    /// Monotonic time of the last event.
    handled_ns: u64,
    /// Monotonic time of the next capacity check.
    room_at_ns: u64,
    /// Owners of addresses, by job.
    owners: BTreeMap<u64, Owners>,
    actions: Vec<ServerAction>,
}

impl ServerControl {
    /// Starts from the saved state. Agents of jobs count as just disconnected.
    pub fn new(settings: ServerSettings, loaded: RestoredControl, now: SessionTime) -> Self {
        let mut peers = BTreeMap::new();
        for (agent, &boot) in loaded.jobs.iter().flat_map(|job| &job.agents) {
            let peer = peers
                .entry(agent.clone())
                .or_insert_with(|| AgentPeer::absent(now.monotonic_ns, boot));
            // Retained until the agent reports the job again; otherwise other agents would report its flows.
            peer.capacity = loaded.hosts.get(agent).cloned().unwrap_or_default();
        }
        Self {
            settings,
            jobs: loaded.jobs.into_iter().map(|job| (job.id, job)).collect(),
            last_job: loaded.last_job,
            keys: loaded
                .keys
                .into_iter()
                .map(|(owner, key, job)| ((owner, key), job))
                .collect(),
            peers,
            sessions: BTreeMap::new(),
            store_is_full: false,
            hungry_ns: BTreeMap::new(),
            unsaved: BTreeSet::new(),
            drains: BTreeMap::new(),
            handled_ns: now.monotonic_ns,
            room_at_ns: now.monotonic_ns.saturating_add(settings.room_every_ns),
            owners: BTreeMap::new(),
            actions: Vec::new(),
        }
    }

    /// Sets the number of the next job, which no other job has. It may be lower than others: a job that was stored without
    /// a decision, because the server was killed, is submitted again after a restart.
    pub fn number_next(&mut self, job: u64) {
        self.last_job = job.saturating_sub(1);
    }

    /// Handles an event. The actions must be executed in order; after a failure, the rest must be dropped, and the
    /// server restarts from its saved state.
    pub fn handle(&mut self, event: ServerEvent, now: SessionTime) -> Vec<ServerAction> {
        let now_ns = now.monotonic_ns;
        let mut answer = None;
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.handled_ns, now_ns));
        if self.store_is_full || elapsed_ns > 2 * DRAIN_LOOK_NS {
            // The server itself accepted nothing.
            self.drains
                .values_mut()
                .for_each(|since_ns| *since_ns = now_ns);
        }
        // Committed records and renewals are frequent and do not affect tap tables.
        let is_watch_due = !matches!(
            event,
            ServerEvent::Committed { .. } | ServerEvent::Renew { .. } | ServerEvent::Offset { .. }
        );
        match event {
            ServerEvent::Submit(request) => {
                answer = Some(ServerAction::Submitted(self.submit(*request, now)));
            }
            ServerEvent::Stop { job, why } => {
                let is_known = self.jobs.contains_key(&job);
                self.drain(job, why);
                answer = Some(ServerAction::Stopped { job, is_known });
            }
            ServerEvent::LimitBegins { job, ends_at_ns } => self.begin_limit(job, ends_at_ns),
            ServerEvent::Connected { session, hello } => {
                answer = self.connected(session, *hello, now)
            }
            ServerEvent::Disconnected { session } => self.disconnected(session, now_ns),
            ServerEvent::Observed { session, observed } => {
                if self
                    .peer(session)
                    .is_some_and(|peer| peer.observe(observed))
                {
                    self.actions.push(ServerAction::ObserveAll { session });
                }
            }
            ServerEvent::Renew { session, renew } => {
                if let Some(peer) = self.peer(session).filter(|_| renew.packets_per_second > 0) {
                    peer.capacity.packets_per_second = renew.packets_per_second;
                }
                answer = self.grant(session, &renew, now_ns);
            }
            ServerEvent::Offset { session, ahead } => {
                if let Some(peer) = self.peer(session) {
                    peer.ahead = Some(ahead);
                }
            }
            ServerEvent::Committed { lane } => self.committed(lane, now_ns),
            ServerEvent::StoreIsFull(is_full) => self.store_is_full = is_full,
            ServerEvent::Tick => {}
        }
        self.reconcile(now);
        self.look_for_room(now_ns);
        if is_watch_due {
            self.update_tap_tables(now_ns);
        }
        self.finish(answer)
    }

    /// Orders the actions: saves first, because only saved state may be sent, then the reply, then messages to others.
    fn finish(&mut self, answer: Option<ServerAction>) -> Vec<ServerAction> {
        let unsaved = std::mem::take(&mut self.unsaved);
        let saves = unsaved
            .iter()
            .filter_map(|job| self.jobs.get(job))
            .cloned()
            .map(Box::new);
        let mut actions: Vec<ServerAction> = saves.map(ServerAction::Save).collect();
        actions.append(&mut self.actions);
        // A welcome follows the cut of the previous session.
        actions.extend(answer);
        self.tell(&mut actions);
        self.jobs
            .retain(|_, job| !matches!(job.state, JobState::Ended(_)));
        self.hungry_ns.retain(|job, _| self.jobs.contains_key(job));
        actions
    }

    /// Unfinished jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &ControlledJob> {
        self.jobs.values()
    }

    /// Current problems of a job.
    pub fn degraded(&self, job: &ControlledJob) -> BTreeSet<Degradation> {
        let mut degraded = job.degraded.clone();
        for agent in job.agents.keys() {
            let Some(peer) = self.peers.get(agent) else {
                continue;
            };
            if matches!(peer.presence, AgentPresence::Absent { .. }) {
                degraded.insert(Degradation::Absent {
                    agent: agent.clone(),
                });
            }
            match peer.observed.get(&job.id).map(link::ObservedJob::state) {
                Some(ObservedState::Poisoned) => {
                    degraded.insert(Degradation::Poisoned {
                        agent: agent.clone(),
                    });
                }
                Some(ObservedState::Refused) => {
                    degraded.insert(Degradation::Refused {
                        agent: agent.clone(),
                    });
                }
                _ => {}
            }
        }
        degraded
    }

    /// Known agents with their presence and clock offset.
    pub fn agents(&self) -> impl Iterator<Item = (&str, AgentPresence, Option<ClockOffset>)> {
        self.peers
            .iter()
            .map(|(name, peer)| (&**name, peer.presence, peer.ahead))
    }

    /// Recent packets per second of an agent's host; `None`: unknown agent.
    pub fn packets_per_second(&self, agent: &str) -> Option<u64> {
        self.peers
            .get(agent)
            .map(|peer| peer.capacity.packets_per_second)
    }

    /// States of jobs on an agent.
    pub fn observed(&self, agent: &str) -> impl Iterator<Item = &link::ObservedJob> {
        self.peers
            .get(agent)
            .into_iter()
            .flat_map(|peer| peer.observed.values())
    }

    /// Monotonic time at which [`ServerEvent::Tick`] is due at the latest.
    pub fn timeout(&self, now: SessionTime) -> Option<u64> {
        let settings = &self.settings;
        let patience = [settings.absent_after_ns, self.written_off_after_ns()];
        let away = self
            .peers
            .values()
            .filter_map(|peer| peer.away_ns(now.monotonic_ns))
            .flat_map(|away| {
                patience.map(|after| now.monotonic_ns.saturating_add(after.saturating_sub(away)))
            });
        let later = away.filter(|at| *at > now.monotonic_ns);
        let limits = self.jobs.values().filter(|job| job.state.is_active());
        let limits = limits
            .filter_map(|job| job.request.limit.ends_at_ns)
            .map(|at| {
                let left = at.saturating_sub(now.wall_ns).max(0).unsigned_abs();
                now.monotonic_ns.saturating_add(left)
            });
        let room = (!self.crowded().is_empty()).then_some(self.room_at_ns);
        let drains =
            (!self.drains.is_empty()).then(|| now.monotonic_ns.saturating_add(DRAIN_LOOK_NS));
        later.chain(limits).chain(room).chain(drains).min()
    }

    /// Absence after which no monitor of an agent runs anymore.
    fn written_off_after_ns(&self) -> u64 {
        self.settings
            .lease_ttl_ns
            .max(self.settings.absent_after_ns)
    }

    fn peer(&mut self, session: u64) -> Option<&mut AgentPeer> {
        self.sessions
            .get(&session)
            .and_then(|agent| self.peers.get_mut(agent))
    }

    fn connected(&mut self, session: u64, hello: Hello, now: SessionTime) -> Option<ServerAction> {
        let agent = hello.agent.clone();
        let boot = hello.boot;
        let ended = hello.boot_ended;
        let peer = self
            .peers
            .entry(agent.clone())
            .or_insert_with(|| AgentPeer::absent(now.monotonic_ns, boot));
        match peer.presence {
            AgentPresence::Here { session: old } => {
                self.sessions.remove(&old);
                self.actions.push(ServerAction::Cut { session: old });
            }
            AgentPresence::Absent { .. } => self.actions.push(ServerAction::Back {
                agent: agent.clone(),
            }),
            AgentPresence::Away { .. } => {}
        }
        peer.greet(session, hello);
        self.sessions.insert(session, agent.clone());
        self.note_restart(&agent, (boot, ended), now.wall_ns);
        self.take_in(&agent);
        let desired = self.desired(&agent);
        Some(ServerAction::Welcome { session, desired })
    }

    /// Notes the loss of jobs that an earlier incarnation of an agent ran, unless it ended in order.
    fn note_restart(&mut self, agent: &str, (boot, ended): (u64, u64), at_ns: i64) {
        for (&id, job) in &mut self.jobs {
            let Some(told) = job.agents.get_mut(agent).filter(|told| **told != boot) else {
                continue;
            };
            let lost = Degradation::Restarted {
                agent: agent.into(),
                boot: *told,
                at_ns,
            };
            let was_in_order = *told == ended;
            *told = boot;
            job.shares.remove(agent);
            if !was_in_order {
                job.note(lost);
            }
            self.unsaved.insert(id);
        }
    }

    fn disconnected(&mut self, session: u64, now_ns: u64) {
        if let Some(agent) = self.sessions.remove(&session)
            && let Some(peer) = self.peers.get_mut(&agent)
        {
            peer.presence = AgentPresence::Away { since_ns: now_ns };
        }
    }

    /// A job counts as running from its first report, not from the receipt of the order.
    fn committed(&mut self, lane: RecordLane, now_ns: u64) {
        for ((job, agent), since_ns) in &mut self.drains {
            let of_agent = self
                .peers
                .get(agent)
                .is_some_and(|peer| peer.boot == lane.boot);
            if *job == lane.job && of_agent {
                *since_ns = now_ns;
            }
        }
        if let Some(job) = self.jobs.get_mut(&lane.job)
            && matches!(job.state, JobState::Planned | JobState::Arming)
        {
            job.state = JobState::Running;
            self.unsaved.insert(lane.job);
        }
    }

    fn drain(&mut self, job: u64, why: EndReason) {
        let Some(known) = self.jobs.get_mut(&job).filter(|job| job.state.is_active()) else {
            return;
        };
        known.state = JobState::Draining(why);
        self.unsaved.insert(job);
        for agent in known.agents.keys() {
            if let Some(peer) = self.peers.get_mut(agent) {
                peer.is_outdated = true;
            }
        }
    }

    fn desired(&self, agent: &str) -> DesiredJobs {
        let jobs = self
            .jobs
            .values()
            .filter(|job| job.state.is_active() && job.agents.contains_key(agent));
        let mut taps = Vec::new();
        let order = |job: &ControlledJob| {
            Some(AgentOrder {
                job: job.id,
                body: job.request.order_of(agent)?.clone(),
                packets_max: job.request.limit.packets.unwrap_or_default(),
                taps: self
                    .table(job.id, agent)
                    .map_or(0, |table| number(&mut taps, table)),
                is_retried: job.request.is_retried(),
            })
        };
        let jobs = jobs.filter_map(order).collect();
        let generation = self.peers.get(agent).map_or(0, |peer| peer.generation);
        DesiredJobs {
            generation,
            jobs,
            taps,
        }
    }

    /// Sends changed desired sets to agents.
    fn tell(&mut self, actions: &mut Vec<ServerAction>) {
        let outdated = self.peers.iter_mut().filter(|(_, peer)| peer.is_outdated);
        let mut told = Vec::new();
        for (agent, peer) in outdated {
            peer.is_outdated = false;
            peer.generation = peer.generation.saturating_add(1);
            told.extend(peer.session().map(|session| (session, agent.clone())));
        }
        for (session, agent) in told {
            actions.push(ServerAction::Desire {
                session,
                desired: self.desired(&agent),
            });
        }
    }

    fn grant(&mut self, session: u64, renew: &Renew, now_ns: u64) -> Option<ServerAction> {
        let agent = self.sessions.get(&session)?.clone();
        let asks: BTreeMap<u64, &BudgetRequest> =
            renew.budgets.iter().map(|ask| (ask.job, ask)).collect();
        let jobs: Vec<u64> = self
            .desired(&agent)
            .jobs
            .iter()
            .map(|order| order.job)
            .collect();
        let asks = jobs.iter().filter_map(|job| asks.get(job).copied());
        let budgets = asks
            .filter_map(|ask| self.deal(&agent, ask, now_ns))
            .collect();
        let ttl_ns = self.settings.lease_ttl_ns;
        Some(ServerAction::Grant {
            session,
            granted: GrantedLease {
                asked_ns: renew.asked_ns,
                ttl_ns,
                jobs,
                budgets,
            },
        })
    }

    fn deal(
        &mut self,
        agent: &str,
        ask: &BudgetRequest,
        now_ns: u64,
    ) -> Option<link::PacketBudget> {
        let job = self.jobs.get_mut(&ask.job)?;
        let share = self
            .peers
            .get_mut(agent)?
            .shares
            .entry(ask.job)
            .or_insert_with(|| {
                // The agent was allowed packets before it restarted: at most the saved number counts.
                let allowed = ask.allowed.min(job.shares.get(agent).copied().unwrap_or(0));
                GrantedShare {
                    allowed,
                    used: ask.used.min(allowed),
                    grant: ask.grant,
                    gave_back: false,
                }
            });
        let hungry = self.hungry_ns.get(&ask.job);
        let is_hungry =
            hungry.is_some_and(|at| now_ns.saturating_sub(*at) < self.settings.lease_ttl_ns);
        let crowd = AgentDemand {
            agents: job.agents.len() as u64,
            is_hungry,
            may_save: !self.store_is_full,
        };
        let dealt = budget::deal(job, share, ask, crowd);
        if dealt.is_changed {
            job.shares.insert(agent.to_owned(), dealt.budget.allowed);
            self.unsaved.insert(ask.job);
        }
        if dealt.is_hungry {
            self.hungry_ns.insert(ask.job, now_ns);
        }
        Some(dealt.budget)
    }
}

/// Number of a table, from 1; jobs on the same agents share one.
fn number(tables: &mut Vec<link::TapTableMessage>, table: link::TapTableMessage) -> u32 {
    let place = tables
        .iter()
        .position(|known| *known == table)
        .unwrap_or_else(|| {
            tables.push(table);
            tables.len() - 1
        });
    place as u32 + 1
}

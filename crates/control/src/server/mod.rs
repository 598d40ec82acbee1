//! The server's half: takes jobs, tells agents what to run, and knows from what they tell how far jobs are. Begins again
//! from its saved jobs, and adopts what runs.

mod admission;
mod budget;
mod peer;
mod reconcile;
#[cfg(test)]
mod tests;
mod watching;

use std::collections::{BTreeMap, BTreeSet};

use link::{
    Ahead, BudgetAsk, Capacity, Desired, Granted, Hello, Lane, Now, Observed, ObservedState, Order, Renew,
};

use crate::job::{Degraded, Job, JobState, Request, Why};
use crate::taps::Owners;
pub use admission::{Refusal, Submitted};
use budget::Crowd;
pub use peer::Presence;
use peer::{Peer, Share};

/// Limits and times of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerSettings {
    /// How long an agent's lease lasts. Ended monitors are counted on after that, and not before.
    pub lease_ttl_ns: u64,
    /// How long results wait for an agent that is gone.
    pub absent_after_ns: u64,
    /// How long a job that ends waits for an agent that is connected and sends nothing more of it, and does not report that it has
    /// nothing.
    pub drain_patience_ns: u64,
    /// Jobs that are not over, of one owner.
    pub jobs_per_owner_max: usize,
    /// Jobs that are not over.
    pub jobs_max: usize,
    /// Keys of requests that are remembered.
    pub keys_max: usize,
    /// Interval at which hosts without capacity for standing jobs are checked again.
    pub room_every_ns: u64,
}

/// How often jobs that end are looked at.
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

/// What happens to a server.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerEvent {
    /// A user submits a job.
    Submit(Box<Request>),
    /// A user stops a job.
    Stop {
        /// The job.
        job: u64,
        /// Why.
        why: Why,
    },
    /// An agent has said hello; the session waits for its welcome. The agent's name is that of its certificate.
    Connected {
        /// The session, by a number that is never used again.
        session: u64,
        /// The agent.
        hello: Box<Hello>,
    },
    /// A session has ended.
    Disconnected {
        /// The session.
        session: u64,
    },
    /// How jobs do on an agent.
    Observed {
        /// Its session.
        session: u64,
        /// How.
        observed: Observed,
    },
    /// An agent asks for its leases.
    Renew {
        /// Its session.
        session: u64,
        /// What it asks.
        renew: Renew,
    },
    /// How far an agent's clock is ahead.
    Offset {
        /// Its session.
        session: u64,
        /// So far.
        ahead: Ahead,
    },
    /// A lane's record is committed.
    Committed {
        /// Its lane.
        lane: Lane,
    },
    /// Whether there is room to save jobs and results.
    StoreIsFull(bool),
    /// Time has passed.
    Tick,
}

/// What a server is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerAction {
    /// Save a job, so that it outlives a crash, before anything that follows.
    Save(Box<Job>),
    /// Answer who asked for a job.
    Submitted(Result<Submitted, Refusal>),
    /// Answer who wanted a job to end: whether there is one.
    Stopped {
        /// The job.
        job: u64,
        /// Whether there is one that is not over.
        is_known: bool,
    },
    /// End a session. What came by it and is not committed is thrown away before anything that follows.
    Cut {
        /// The session.
        session: u64,
    },
    /// Take an agent in; the shell adds how far its lanes are committed. What an earlier session of the agent left that is
    /// not committed is thrown away before, for the agent sends it again.
    Welcome {
        /// Its session.
        session: u64,
        /// What it is to run.
        desired: Desired,
    },
    /// Tell an agent what to run.
    Desire {
        /// Its session.
        session: u64,
        /// What.
        desired: Desired,
    },
    /// Ask an agent for everything it runs.
    ObserveAll {
        /// Its session.
        session: u64,
    },
    /// Answer an agent's question for leases.
    Grant {
        /// Its session.
        session: u64,
        /// What it may.
        granted: Granted,
    },
    /// Results wait no longer for an agent's lanes.
    Idle {
        /// Which agent.
        agent: String,
    },
    /// An agent is back: results wait for its lanes again.
    Back {
        /// Which agent.
        agent: String,
    },
    /// A job has ended.
    Ended {
        /// The job.
        job: u64,
        /// Why.
        why: Why,
    },
}

/// What a server begins with: what it saved before.
#[derive(Debug, Clone, Default)]
pub struct Loaded {
    /// Jobs that are not over.
    pub jobs: Vec<Job>,
    /// The highest number of a job, also of those that are over.
    pub last_job: u64,
    /// Keys of jobs, also of those that are over: owner, key, job.
    pub keys: Vec<(String, String, u64)>,
    /// What agents said of their hosts, as far as addresses go.
    pub hosts: BTreeMap<String, Capacity>,
}

/// The server's half.
#[derive(Debug)]
pub struct Server {
    settings: ServerSettings,
    jobs: BTreeMap<u64, Job>,
    last_job: u64,
    keys: BTreeMap<(String, String), u64>,
    peers: BTreeMap<String, Peer>,
    /// The agents that are here, by their sessions.
    sessions: BTreeMap<u64, String>,
    store_is_full: bool,
    /// When some agent had last used all it was allowed, by job.
    hungry_ns: BTreeMap<u64, u64>,
    unsaved: BTreeSet<u64>,
    /// By job that ends, and agent: when the last record of it was committed, or the job began to end.
    drains: BTreeMap<(u64, String), u64>,
    /// The last event, by the monotonic clock.
    handled_ns: u64,
    /// Time of the next capacity check, by the monotonic clock.
    room_at_ns: u64,
    /// Whose addresses are whose, by job.
    owners: BTreeMap<u64, Owners>,
    actions: Vec<ServerAction>,
}

impl Server {
    /// Begins with what was saved before. Agents that jobs name are waited for, as if they had just left.
    pub fn new(settings: ServerSettings, loaded: Loaded, now: Now) -> Self {
        let mut peers = BTreeMap::new();
        for (agent, &boot) in loaded.jobs.iter().flat_map(|job| &job.agents) {
            let peer = peers.entry(agent.clone()).or_insert_with(|| Peer::absent(now.monotonic_ns, boot));
            // Until it says so again: else others would tell what it tells.
            peer.capacity = loaded.hosts.get(agent).cloned().unwrap_or_default();
        }
        Self {
            settings,
            jobs: loaded.jobs.into_iter().map(|job| (job.id, job)).collect(),
            last_job: loaded.last_job,
            keys: loaded.keys.into_iter().map(|(owner, key, job)| ((owner, key), job)).collect(),
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

    /// Sets the last job number in use: the next job gets a higher one.
    pub fn count_from(&mut self, last_job: u64) {
        self.last_job = self.last_job.max(last_job);
    }

    /// Takes in an event. The actions are to be carried out in their order; where one fails, none of those behind it, and
    /// the server begins again from what was saved.
    pub fn handle(&mut self, event: ServerEvent, now: Now) -> Vec<ServerAction> {
        let now_ns = now.monotonic_ns;
        let mut answer = None;
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.handled_ns, now_ns));
        if self.store_is_full || elapsed_ns > 2 * DRAIN_LOOK_NS {
            // The server itself took nothing.
            self.drains.values_mut().for_each(|since_ns| *since_ns = now_ns);
        }
        // Records and renewals, of which there are many, change nothing of who watches.
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
            ServerEvent::Connected { session, hello } => answer = self.connected(session, *hello, now),
            ServerEvent::Disconnected { session } => self.disconnected(session, now_ns),
            ServerEvent::Observed { session, observed } => {
                if self.peer(session).is_some_and(|peer| peer.observe(observed)) {
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
            self.look_who_watches(now_ns);
        }
        self.finish(answer)
    }

    /// Orders the actions: saves first, because only saved state may be sent, then the reply, then messages to others.
    fn finish(&mut self, answer: Option<ServerAction>) -> Vec<ServerAction> {
        let unsaved = std::mem::take(&mut self.unsaved);
        let saves = unsaved.iter().filter_map(|job| self.jobs.get(job)).cloned().map(Box::new);
        let mut actions: Vec<ServerAction> = saves.map(ServerAction::Save).collect();
        actions.append(&mut self.actions);
        // A welcome comes behind the cut of the session before.
        actions.extend(answer);
        self.tell(&mut actions);
        self.jobs.retain(|_, job| !matches!(job.state, JobState::Ended(_)));
        self.hungry_ns.retain(|job, _| self.jobs.contains_key(job));
        actions
    }

    /// The jobs that are not over.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    /// What is not as it should be with a job, now.
    pub fn degraded(&self, job: &Job) -> BTreeSet<Degraded> {
        let mut degraded = job.degraded.clone();
        for agent in job.agents.keys() {
            let Some(peer) = self.peers.get(agent) else { continue };
            if matches!(peer.presence, Presence::Absent { .. }) {
                degraded.insert(Degraded::Absent { agent: agent.clone() });
            }
            match peer.observed.get(&job.id).map(link::ObservedJob::state) {
                Some(ObservedState::Poisoned) => {
                    degraded.insert(Degraded::Poisoned { agent: agent.clone() });
                }
                Some(ObservedState::Refused) => {
                    degraded.insert(Degraded::Refused { agent: agent.clone() });
                }
                _ => {}
            }
        }
        degraded
    }

    /// The agents that are known: whether they are here, and how far their clocks are ahead.
    pub fn agents(&self) -> impl Iterator<Item = (&str, Presence, Option<Ahead>)> {
        self.peers.iter().map(|(name, peer)| (&**name, peer.presence, peer.ahead))
    }

    /// Packets a second that an agent's host has seen of late; `None`: there is no such agent.
    pub fn packets_per_second(&self, agent: &str) -> Option<u64> {
        self.peers.get(agent).map(|peer| peer.capacity.packets_per_second)
    }

    /// How jobs do on an agent.
    pub fn observed(&self, agent: &str) -> impl Iterator<Item = &link::ObservedJob> {
        self.peers.get(agent).into_iter().flat_map(|peer| peer.observed.values())
    }

    /// When [`ServerEvent::Tick`] is due at the latest, by the monotonic clock.
    pub fn timeout(&self, now: Now) -> Option<u64> {
        let settings = &self.settings;
        let patience = [settings.absent_after_ns, self.written_off_after_ns()];
        let away = self.peers.values().filter_map(|peer| peer.away_ns(now.monotonic_ns)).flat_map(|away| {
            patience.map(|after| now.monotonic_ns.saturating_add(after.saturating_sub(away)))
        });
        let later = away.filter(|at| *at > now.monotonic_ns);
        let limits = self.jobs.values().filter(|job| job.state.is_active());
        let limits = limits.filter_map(|job| job.request.limit.ends_at_ns).map(|at| {
            let left = at.saturating_sub(now.wall_ns).max(0).unsigned_abs();
            now.monotonic_ns.saturating_add(left)
        });
        let room = (!self.crowded().is_empty()).then_some(self.room_at_ns);
        let drains = (!self.drains.is_empty()).then(|| now.monotonic_ns.saturating_add(DRAIN_LOOK_NS));
        later.chain(limits).chain(room).chain(drains).min()
    }

    /// Absence after which no monitor of an agent runs anymore.
    fn written_off_after_ns(&self) -> u64 {
        self.settings.lease_ttl_ns.max(self.settings.absent_after_ns)
    }

    fn peer(&mut self, session: u64) -> Option<&mut Peer> {
        self.sessions.get(&session).and_then(|agent| self.peers.get_mut(agent))
    }

    fn connected(&mut self, session: u64, hello: Hello, now: Now) -> Option<ServerAction> {
        let agent = hello.agent.clone();
        let (boot, ended) = (hello.boot, hello.boot_ended);
        let peer = self.peers.entry(agent.clone()).or_insert_with(|| Peer::absent(now.monotonic_ns, boot));
        match peer.presence {
            Presence::Here { session: old } => {
                self.sessions.remove(&old);
                self.actions.push(ServerAction::Cut { session: old });
            }
            Presence::Absent { .. } => self.actions.push(ServerAction::Back { agent: agent.clone() }),
            Presence::Away { .. } => {}
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
            let Some(told) = job.agents.get_mut(agent).filter(|told| **told != boot) else { continue };
            let lost = Degraded::Restarted { agent: agent.into(), boot: *told, at_ns };
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
            peer.presence = Presence::Away { since_ns: now_ns };
        }
    }

    /// The first report says that a job runs; that an order was received does not.
    fn committed(&mut self, lane: Lane, now_ns: u64) {
        for ((job, agent), since_ns) in &mut self.drains {
            let of_agent = self.peers.get(agent).is_some_and(|peer| peer.boot == lane.boot);
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

    fn drain(&mut self, job: u64, why: Why) {
        let Some(known) = self.jobs.get_mut(&job).filter(|job| job.state.is_active()) else { return };
        known.state = JobState::Draining(why);
        self.unsaved.insert(job);
        for agent in known.agents.keys() {
            if let Some(peer) = self.peers.get_mut(agent) {
                peer.is_outdated = true;
            }
        }
    }

    fn desired(&self, agent: &str) -> Desired {
        let jobs = self.jobs.values().filter(|job| job.state.is_active() && job.agents.contains_key(agent));
        let mut taps = Vec::new();
        let order = |job: &Job| {
            Some(Order {
                job: job.id,
                body: job.request.order_of(agent)?.clone(),
                packets_max: job.request.limit.packets.unwrap_or_default(),
                taps: self.table(job.id, agent).map_or(0, |table| number(&mut taps, table)),
                is_retried: job.request.is_retried(),
            })
        };
        let jobs = jobs.filter_map(order).collect();
        let generation = self.peers.get(agent).map_or(0, |peer| peer.generation);
        Desired { generation, jobs, taps }
    }

    /// Tells agents what to run, where that has changed.
    fn tell(&mut self, actions: &mut Vec<ServerAction>) {
        let outdated = self.peers.iter_mut().filter(|(_, peer)| peer.is_outdated);
        let mut told = Vec::new();
        for (agent, peer) in outdated {
            peer.is_outdated = false;
            peer.generation = peer.generation.saturating_add(1);
            told.extend(peer.session().map(|session| (session, agent.clone())));
        }
        for (session, agent) in told {
            actions.push(ServerAction::Desire { session, desired: self.desired(&agent) });
        }
    }

    fn grant(&mut self, session: u64, renew: &Renew, now_ns: u64) -> Option<ServerAction> {
        let agent = self.sessions.get(&session)?.clone();
        let asks: BTreeMap<u64, &BudgetAsk> = renew.budgets.iter().map(|ask| (ask.job, ask)).collect();
        let jobs: Vec<u64> = self.desired(&agent).jobs.iter().map(|order| order.job).collect();
        let asks = jobs.iter().filter_map(|job| asks.get(job).copied());
        let budgets = asks.filter_map(|ask| self.deal(&agent, ask, now_ns)).collect();
        let ttl_ns = self.settings.lease_ttl_ns;
        Some(ServerAction::Grant {
            session,
            granted: Granted { asked_ns: renew.asked_ns, ttl_ns, jobs, budgets },
        })
    }

    fn deal(&mut self, agent: &str, ask: &BudgetAsk, now_ns: u64) -> Option<link::Budget> {
        let job = self.jobs.get_mut(&ask.job)?;
        let share = self.peers.get_mut(agent)?.shares.entry(ask.job).or_insert_with(|| {
            // It was allowed by this server before it began again, at most what was saved of it.
            let allowed = ask.allowed.min(job.shares.get(agent).copied().unwrap_or(0));
            Share { allowed, used: ask.used.min(allowed), grant: ask.grant, gave_back: false }
        });
        let hungry = self.hungry_ns.get(&ask.job);
        let is_hungry = hungry.is_some_and(|at| now_ns.saturating_sub(*at) < self.settings.lease_ttl_ns);
        let crowd = Crowd { agents: job.agents.len() as u64, is_hungry, may_save: !self.store_is_full };
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

/// The number of a table, from 1; jobs on the same agents share one.
fn number(tables: &mut Vec<link::TapTable>, table: link::TapTable) -> u32 {
    let place = tables.iter().position(|known| *known == table).unwrap_or_else(|| {
        tables.push(table);
        tables.len() - 1
    });
    place as u32 + 1
}

//! The whole system in one thread and virtual time, from one seed: first with faults, which must be recoverable; then
//! without faults, until everything has recovered; then all jobs are stopped, and all tuples are accounted for.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use control::{
    AgentEvent, EndReason, JobLifetime, JobLimit, JobSpec, JobState, ServerEvent, TapAssignment,
};
use link::RecordLane;

use crate::agent::{Host, name};
use crate::disk::AgentDisk;
use crate::network::Network;
use crate::random::Random;
use crate::server::{SETTINGS, ServerHost};

pub const MS: u64 = 1_000_000;
pub const STEP_NS: u64 = 50 * MS;

/// Parameters of a run. Probabilities are per million, per step and process.
#[derive(Debug, Clone)]
pub struct Options {
    pub agents: usize,
    pub steps: u64,
    pub delay_max_ms: u64,
    pub tuples_max: u64,
    pub break_connection: u64,
    pub partition: u64,
    pub forget_session: u64,
    pub crash_agent: u64,
    pub crash_server: u64,
    /// The server is replaced by one with another data directory.
    pub replace_server: u64,
    pub crash_monitor: u64,
    /// A crash between two actions.
    pub crash_between: u64,
    pub agent_disk_full: u64,
    pub server_disk_full: u64,
    pub submit: u64,
    pub stop: u64,
    /// A process is suspended, and continues later.
    pub freeze_agent: u64,
    pub freeze_monitor: u64,
    pub freeze_server: u64,
    /// An agent is hostile.
    pub hostile: u64,
}

impl Options {
    /// Some faults often, some never, different in every run: all faults together may hide failures that a few of them
    /// show.
    pub fn random(random: &mut Random) -> Self {
        let freeze = |random: &mut Random, max| {
            if random.chance(500_000) {
                0
            } else {
                random.next() % max
            }
        };
        let mut chance = |max: u64| freeze(random, max);
        Self {
            break_connection: chance(20_000),
            partition: chance(10_000),
            forget_session: chance(10_000),
            crash_agent: chance(8_000),
            crash_server: chance(15_000),
            replace_server: chance(2_000),
            crash_monitor: chance(15_000),
            crash_between: chance(5_000),
            agent_disk_full: chance(10_000),
            server_disk_full: chance(10_000),
            submit: 20_000 + chance(60_000),
            stop: chance(15_000),
            tuples_max: 1 + chance(5),
            delay_max_ms: chance(300),
            agents: if random.chance(5_000) {
                random.between(20, 100)
            } else {
                random.between(1, 6)
            } as usize,
            steps: random.between(100, 350),
            freeze_agent: freeze(random, 5000),
            freeze_monitor: freeze(random, 10_000),
            freeze_server: freeze(random, 3000),
            hostile: freeze(random, 400_000),
        }
    }
}

/// A tuple made by a monitor.
#[derive(Debug)]
pub struct Tuple {
    pub agent: usize,
    pub lane: RecordLane,
    pub at_ns: i64,
    /// Sequence number of its record.
    pub seq: Option<u64>,
    pub is_committed: bool,
    /// Identity of the server.
    pub server: u64,
}

pub struct World {
    pub seed: u64,
    /// Current parameters: no faults at the end.
    pub options: Options,
    pub began_with: Options,
    pub random: Random,
    pub now_ns: u64,
    pub network: Network,
    pub hosts: Vec<Host>,
    pub server: ServerHost,
    pub server_starts: u64,
    pub tuples: Vec<Tuple>,
    /// Next responses of monitors.
    pub answers: Vec<(usize, AgentEvent)>,
    /// Requests of users to the server.
    pub requests: Vec<ServerEvent>,
    /// Jobs whose acceptance was reported to a user.
    pub promised: BTreeSet<u64>,
    /// Time at which stopped jobs were saved as such.
    pub stopped_ns: BTreeMap<u64, u64>,
    keys: u64,
}

impl World {
    pub fn new(seed: u64, options: Options) -> Self {
        let mut random = Random::new(seed ^ 0x5eed);
        let host = |agent: usize| Host {
            disk: AgentDisk::default(),
            boots: 0,
            skew_ns: random.between(0, 20_000) as i64 * MS as i64 - 10_000 * MS as i64,
            starts_at_ns: random.between(0, 2000) * MS,
            process: None,
            server: 0,
            role: if agent.is_multiple_of(3) { "db" } else { "web" },
            frozen_until_ns: 0,
            is_hostile: random.chance(options.hostile),
            was_hostile: false,
        };
        let hosts = (0..options.agents).map(host).collect();
        let network = Network::new(options.delay_max_ms * MS);
        Self {
            seed,
            began_with: options.clone(),
            options,
            random,
            now_ns: 100_000 * MS,
            network,
            hosts,
            server: ServerHost::new(1),
            server_starts: 0,
            tuples: Vec::new(),
            answers: Vec::new(),
            requests: Vec::new(),
            promised: BTreeSet::new(),
            stopped_ns: BTreeMap::new(),
            keys: 0,
        }
    }

    pub fn check(&self, is_so: bool, what: impl FnOnce() -> String) {
        let at_ms = self.now_ns / MS;
        assert!(
            is_so,
            "seed {}, at {at_ms} ms: {}\n{:#?}",
            self.seed,
            what(),
            self.began_with
        );
    }

    pub fn run(&mut self) {
        for _ in 0..self.options.steps {
            self.break_something();
            self.ask_something();
            self.step();
        }
        self.repair();
        // A lease and the longest backoff after the last fault.
        self.steps(12_000);
        self.check_alive();
        self.stop_everything();
        self.steps(8_000);
        self.check_over();
    }

    fn steps(&mut self, ms: u64) {
        for _ in 0..ms * MS / STEP_NS {
            self.step();
        }
    }

    fn step(&mut self) {
        self.now_ns += STEP_NS;
        // The order of processes must not matter.
        let mut order: Vec<usize> = (0..=self.hosts.len()).collect();
        self.random.shuffle(&mut order);
        for who in order {
            if who == self.hosts.len() {
                self.server_tick();
            } else {
                self.agent_tick(who);
            }
        }
    }

    fn break_something(&mut self) {
        for agent in 0..self.hosts.len() {
            if self.random.chance(self.options.crash_agent) {
                self.crash_agent(agent);
            }
            if self.random.chance(self.options.partition) {
                let until = self.now_ns + self.random.between(100, 6000) * MS;
                self.network.partitioned.insert(agent, until);
            }
            if self.random.chance(self.options.agent_disk_full) {
                let is_full = self.random.chance(500_000);
                self.hosts[agent].disk.set_full(is_full);
            }
        }
        for agent in 0..self.hosts.len() {
            if self.random.chance(self.options.freeze_agent) {
                self.hosts[agent].frozen_until_ns =
                    self.now_ns + self.random.between(50, 8000) * MS;
            }
        }
        if self.random.chance(self.options.freeze_server) {
            self.server.frozen_until_ns = self.now_ns + self.random.between(50, 8000) * MS;
        }
        for id in self.network.ids() {
            if self.random.chance(self.options.break_connection) {
                self.network.break_off(id, self.now_ns, &mut self.random);
            }
        }
        if self.random.chance(self.options.crash_server) {
            self.crash_server();
        }
        if self.random.chance(self.options.replace_server) {
            self.replace_server();
        }
        if self.random.chance(self.options.server_disk_full) {
            self.server.is_full = !self.server.is_full;
        }
    }

    fn repair(&mut self) {
        self.network.partitioned.clear();
        self.server.is_full = false;
        self.server.frozen_until_ns = 0;
        for host in &mut self.hosts {
            host.frozen_until_ns = 0;
            host.was_hostile = std::mem::take(&mut host.is_hostile);
        }
        self.thaw_monitors();
        self.hosts.iter().for_each(|host| host.disk.set_full(false));
        self.options = Options {
            break_connection: 0,
            partition: 0,
            forget_session: 0,
            crash_agent: 0,
            crash_server: 0,
            replace_server: 0,
            crash_monitor: 0,
            crash_between: 0,
            agent_disk_full: 0,
            server_disk_full: 0,
            submit: 0,
            stop: 0,
            freeze_agent: 0,
            freeze_monitor: 0,
            freeze_server: 0,
            ..self.options.clone()
        };
    }

    fn ask_something(&mut self) {
        if self.random.chance(self.options.submit) && self.server.jobs.len() < 12 {
            // A client that received no response repeats its request with the same key.
            if !self.random.chance(200_000) {
                self.keys += 1;
            }
            let mut request = self.request();
            if self.random.chance(200_000) {
                request = self.in_parts(request);
            }
            self.requests.push(ServerEvent::Submit(Box::new(request)));
        }
        if self.random.chance(self.options.stop) && !self.server.jobs.is_empty() {
            let job = self.random.between(1, self.server.jobs.len() as u64 + 1);
            self.requests.push(ServerEvent::Stop {
                job,
                why: EndReason::Stopped {
                    by: "someone".into(),
                },
            });
        }
    }

    fn request(&mut self) -> JobSpec {
        let random = &mut self.random;
        let kind = if random.chance(500_000) {
            JobLifetime::Standing
        } else {
            JobLifetime::OneOff
        };
        let packets = random.chance(300_000).then(|| random.between(1, 400));
        let ends_at_ns = random
            .chance(200_000)
            .then(|| (self.now_ns + random.between(500, 9000) * MS) as i64);
        let is_poison = random.chance(50_000);
        let reports = if kind == JobLifetime::OneOff {
            random.between(1, 20)
        } else {
            0
        };
        let on = random
            .chance(300_000)
            .then(|| ("role".to_owned(), "web".to_owned()));
        JobSpec {
            key: format!("key-{}", self.keys),
            owner: "owner".into(),
            name: String::new(),
            labels: BTreeMap::new(),
            kind,
            on: on.into_iter().collect(),
            capability: None,
            limit: JobLimit {
                packets,
                ends_at_ns,
            },
            cost: Default::default(),
            taps: TapAssignment::One,
            interfaces: vec![],
            body: Bytes::from(vec![
                random.between(0, 2) as u8,
                u8::from(is_poison),
                reports as u8,
            ]),
            parts: BTreeMap::new(),
        }
    }

    /// The request with separate orders for some agents.
    fn in_parts(&mut self, request: JobSpec) -> JobSpec {
        let mut parts = BTreeMap::new();
        for agent in 0..self.hosts.len() {
            if self.random.chance(500_000) {
                let mut body = request.body.to_vec();
                body.push(agent as u8);
                parts.insert(self.agent_name(agent), body.into());
            }
        }
        let taps = if parts.is_empty() {
            TapAssignment::One
        } else {
            TapAssignment::All
        };
        JobSpec {
            parts,
            taps,
            ..request
        }
    }

    fn stop_everything(&mut self) {
        let jobs: Vec<u64> = self.server.jobs.keys().copied().collect();
        let stop = |job| ServerEvent::Stop {
            job,
            why: EndReason::Stopped { by: "all".into() },
        };
        self.requests.extend(jobs.into_iter().map(stop));
    }

    /// Whether an agent with the order for a job should run it once all faults have ended.
    pub fn wants(&self, agent: usize, job: &control::ControlledJob) -> bool {
        let role = self.hosts[agent].role;
        let fits = job
            .request
            .on
            .get("role")
            .is_none_or(|wanted| wanted == role);
        let is_poison = job.request.body[1] == 1;
        let fits = if job.request.parts.is_empty() {
            fits
        } else {
            job.request.parts.contains_key(&self.agent_name(agent))
        };
        job.state.is_active() && job.request.kind == JobLifetime::Standing && fits && !is_poison
    }

    /// Whether a job was stopped before the time after which no part of it may remain.
    pub fn is_long_stopped(&self, job: u64) -> bool {
        self.stopped_ns
            .get(&job)
            .is_some_and(|at| at + 2 * SETTINGS.lease_ttl_ns < self.now_ns)
    }

    /// Whether random start failures may have exceeded the limit of consecutive crashes.
    pub fn may_be_poisoned(&self) -> bool {
        let Options {
            crash_monitor,
            crash_agent,
            crash_between,
            ..
        } = self.began_with;
        crash_monitor + crash_agent + crash_between > 0
    }

    /// A stopped job may run for at most a lease.
    pub fn check_may_run(&self, job: u64) {
        let stopped = self.stopped_ns.get(&job);
        let lease_ns = SETTINGS.lease_ttl_ns + STEP_NS;
        let may = stopped.is_none_or(|at| self.now_ns <= at + lease_ns);
        self.check(may, || {
            format!("job {job} was stopped and its lease is over, and it still runs")
        });
    }

    pub fn submitted(&mut self, job: u64) {
        self.promised.insert(job);
        let saved = self.server.jobs.contains_key(&job);
        self.check(saved, || format!("job {job} is promised and not saved"));
    }

    /// Whether an agent is honest in the whole run.
    pub fn is_honest(&self, agent: usize) -> bool {
        !self.hosts[agent].is_hostile && !self.hosts[agent].was_hostile
    }

    /// Like `is_honest`, by name.
    pub fn is_honest_name(&self, agent: &str) -> bool {
        let number = agent
            .strip_prefix("agent-")
            .and_then(|number| number.parse().ok());
        number.is_some_and(|agent: usize| agent < self.hosts.len() && self.is_honest(agent))
    }

    /// Tuples of honest agents' monitors for the current server.
    pub fn tuples_of_now(&self) -> impl Iterator<Item = &Tuple> {
        let is_of_now =
            |tuple: &&Tuple| tuple.server == self.server.identity && self.is_honest(tuple.agent);
        self.tuples.iter().filter(is_of_now)
    }

    pub fn is_ended(&self, job: u64) -> bool {
        self.server
            .jobs
            .get(&job)
            .is_some_and(|job| matches!(job.state, JobState::Ended(_)))
    }

    pub fn agent_name(&self, agent: usize) -> String {
        name(agent)
    }
}

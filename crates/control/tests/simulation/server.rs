//! The server's process in the simulation: the caller of `control::ServerControl`, its sessions, and a store that commits in
//! batches and can be full.

use std::collections::{BTreeMap, BTreeSet};

use control::{
    ControlledJob, JobState, RestoredControl, ServerAction, ServerControl, ServerEvent,
    ServerSettings,
};
use link::{
    Frame, HostCapacity, LaneRecord, LaneResume, LostRecords, RecordLane, ServerSession,
    ServerSessionEvent as LinkEvent, SessionLimits, SessionTime,
};

use crate::agent::name;
use crate::network::Side;
use crate::paces::Paces;
use crate::world::{MS, World};

pub const SETTINGS: ServerSettings = ServerSettings {
    lease_ttl_ns: 2000 * MS,
    absent_after_ns: 1000 * MS,
    drain_patience_ns: 3000 * MS,
    jobs_per_owner_max: 100,
    jobs_max: 1000,
    keys_max: 1000,
    room_every_ns: 1000 * MS,
};

const SESSIONS: SessionLimits = SessionLimits {
    window_bytes: 1500,
    lanes_max: 1000,
    ping_every_ns: 500 * MS,
    silence_max_ns: 1500 * MS,
};

/// Committed position of a lane.
#[derive(Default)]
pub struct LaneRow {
    pub durable: u64,
    pub watermark_ns: i64,
    pub is_begun: bool,
    pub is_closed: bool,
    pub lost: Vec<LostRecords>,
}

/// State that survives a crash of the process.
pub struct ServerHost {
    /// Identity of its data directory.
    pub identity: u64,
    pub jobs: BTreeMap<u64, ControlledJob>,
    pub lanes: BTreeMap<(String, RecordLane), LaneRow>,
    /// Last known properties of agents' hosts.
    hosts: BTreeMap<String, HostCapacity>,
    pub is_full: bool,
    pub starts_at_ns: u64,
    /// Time until which its process is suspended.
    pub frozen_until_ns: u64,
    pub process: Option<ServerProcess>,
}

impl ServerHost {
    pub fn new(identity: u64) -> Self {
        Self {
            identity,
            jobs: BTreeMap::new(),
            lanes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            is_full: false,
            starts_at_ns: 0,
            frozen_until_ns: 0,
            process: None,
        }
    }
}

struct Session {
    session: ServerSession,
    agent: Option<String>,
    /// Lanes in the agent's Hello.
    named: Vec<RecordLane>,
}

/// A server process.
pub struct ServerProcess {
    pub control: ServerControl,
    sessions: BTreeMap<u64, Session>,
    /// Received, uncommitted records.
    pending: Vec<(u64, String, LaneRecord)>,
    commits_at_ns: u64,
    was_full: bool,
    pub paces: Paces,
}

impl World {
    pub fn server_now(&self) -> SessionTime {
        SessionTime {
            monotonic_ns: self.now_ns + self.server_starts,
            wall_ns: self.now_ns as i64,
        }
    }

    pub fn start_server(&mut self) {
        // The monotonic clock has another value after every start.
        self.server_starts = self.random.between(0, 1 << 40);
        let now = self.server_now();
        let all = self.server.jobs.values();
        let loaded = RestoredControl {
            jobs: all
                .clone()
                .filter(|job| !matches!(job.state, JobState::Ended(_)))
                .cloned()
                .collect(),
            last_job: all.clone().map(|job| job.id).max().unwrap_or_default(),
            keys: all
                .map(|job| (job.request.owner.clone(), job.request.key.clone(), job.id))
                .collect(),
            hosts: self.server.hosts.clone(),
        };
        self.server.process = Some(ServerProcess {
            control: ServerControl::new(SETTINGS, loaded, now),
            sessions: BTreeMap::new(),
            pending: Vec::new(),
            commits_at_ns: self.now_ns,
            was_full: false,
            paces: Paces::new(self.now_ns),
        });
    }

    pub fn crash_server(&mut self) {
        let Some(process) = self.server.process.take() else {
            return;
        };
        self.server.starts_at_ns = self.now_ns + self.random.between(0, 2500) * MS;
        for id in process.sessions.into_keys() {
            self.network.close(id, Side::Server, self.now_ns);
        }
    }

    /// All state is lost, and job numbers restart.
    pub fn replace_server(&mut self) {
        self.crash_server();
        let ServerHost {
            identity,
            is_full,
            starts_at_ns,
            ..
        } = self.server;
        self.server = ServerHost {
            is_full,
            starts_at_ns,
            ..ServerHost::new(identity + 1)
        };
        self.promised.clear();
        self.stopped_ns.clear();
    }

    pub fn accept(&mut self, connection: u64) {
        let now = self.server_now();
        if let Some(process) = &mut self.server.process {
            let session = ServerSession::new(SESSIONS, self.server.identity, now);
            process.sessions.insert(
                connection,
                Session {
                    session,
                    agent: None,
                    named: Vec::new(),
                },
            );
        }
    }

    pub fn server_tick(&mut self) {
        if self.server.process.is_none() && self.server.starts_at_ns <= self.now_ns {
            self.start_server();
        }
        if self.server.frozen_until_ns > self.now_ns {
            return;
        }
        let Some(mut process) = self.server.process.take() else {
            return;
        };
        let lived = self.serve(&mut process);
        self.server.process = Some(process);
        if !lived {
            self.crash_server();
        }
    }

    /// Returns false after a crash in between.
    fn serve(&mut self, process: &mut ServerProcess) -> bool {
        let mut events = Vec::new();
        if process.was_full != self.server.is_full {
            process.was_full = self.server.is_full;
            events.push(ServerEvent::StoreIsFull(self.server.is_full));
        }
        events.append(&mut self.requests);
        for event in events {
            if !self.decide(process, event) {
                return false;
            }
        }
        for id in process.sessions.keys().copied().collect::<Vec<_>>() {
            if !self.hear_agent(process, id) {
                return false;
            }
        }
        if !self.commit(process) || !self.decide(process, ServerEvent::Tick) {
            return false;
        }
        self.look_at_paces(process);
        let ids: Vec<u64> = process.sessions.keys().copied().collect();
        for id in ids {
            let Some(session) = process.sessions.get_mut(&id) else {
                continue;
            };
            let agent = session.agent.clone();
            while let Some(bytes) = session.session.poll_transmit() {
                let said =
                    self.network
                        .send(id, Side::Server, bytes, self.now_ns, &mut self.random);
                said.iter()
                    .for_each(|frame| self.check_said(agent.as_deref(), frame));
            }
        }
        true
    }

    fn hear_agent(&mut self, process: &mut ServerProcess, id: u64) -> bool {
        let now = self.server_now();
        loop {
            let Some(session) = process.sessions.get_mut(&id) else {
                return true;
            };
            let Some(bytes) = self.network.receive(id, Side::Server, self.now_ns) else {
                break;
            };
            if session.session.handle_bytes(now, &bytes).is_err() {
                let is_honest = self.is_honest(self.network.agent(id));
                self.check(!is_honest, || "an honest agent breaks the rules".into());
                return self.end_session(process, id);
            }
            if !self.take_events(process, id) {
                return false;
            }
        }
        if let Some(session) = process.sessions.get_mut(&id) {
            session.session.handle_timeout(now);
        }
        if !self.take_events(process, id) {
            return false;
        }
        let is_over = self.network.is_closed(id, Side::Server, self.now_ns);
        !(is_over && process.sessions.contains_key(&id)) || self.end_session(process, id)
    }

    fn end_session(&mut self, process: &mut ServerProcess, id: u64) -> bool {
        process.sessions.remove(&id);
        self.network.close(id, Side::Server, self.now_ns);
        self.decide(process, ServerEvent::Disconnected { session: id })
    }

    fn take_events(&mut self, process: &mut ServerProcess, id: u64) -> bool {
        while let Some(session) = process.sessions.get_mut(&id) {
            let Some(event) = session.session.poll_event() else {
                break;
            };
            let event = match event {
                // Names come from certificates.
                LinkEvent::Hello(hello) if hello.agent != name(self.network.agent(id)) => {
                    return self.end_session(process, id);
                }
                LinkEvent::Hello(hello) => {
                    session.agent = Some(hello.agent.clone());
                    self.server
                        .hosts
                        .insert(hello.agent.clone(), hello.capacity.clone());
                    session.named = hello.lanes.iter().map(|range| range.lane).collect();
                    // Records of its earlier sessions are no longer committed.
                    process
                        .pending
                        .retain(|(_, agent, _)| *agent != hello.agent);
                    ServerEvent::Connected { session: id, hello }
                }
                LinkEvent::Observed(observed) => ServerEvent::Observed {
                    session: id,
                    observed,
                },
                LinkEvent::Renew(renew) => ServerEvent::Renew { session: id, renew },
                LinkEvent::Offset(ahead) => ServerEvent::Offset { session: id, ahead },
                LinkEvent::Record(record) => {
                    let agent = session.agent.clone().expect("it said hello");
                    process.pending.push((id, agent, record));
                    continue;
                }
                LinkEvent::Packets(_) => continue,
                LinkEvent::Closed(_) => {
                    return self.end_session(process, id);
                }
            };
            if !self.decide(process, event) {
                return false;
            }
        }
        true
    }

    fn decide(&mut self, process: &mut ServerProcess, event: ServerEvent) -> bool {
        let now = self.server_now();
        for action in process.control.handle(event, now) {
            if self.random.chance(self.options.crash_between) {
                return false;
            }
            self.do_for_server(process, action);
        }
        true
    }

    fn do_for_server(&mut self, process: &mut ServerProcess, action: ServerAction) {
        match action {
            ServerAction::Save(job) => self.save(*job),
            ServerAction::Submitted(Ok(submitted)) => self.submitted(submitted.job),
            ServerAction::Submitted(Err(_)) | ServerAction::Stopped { .. } => {}
            ServerAction::Cut { session } => {
                process.pending.retain(|(from, ..)| *from != session);
                process.sessions.remove(&session);
                self.network.close(session, Side::Server, self.now_ns);
            }
            ServerAction::Welcome {
                session: id,
                desired,
            } => {
                let Some(session) = process.sessions.get_mut(&id) else {
                    return;
                };
                let agent = session.agent.clone().expect("it said hello");
                let lanes = &self.server.lanes;
                let open = lanes
                    .iter()
                    .filter(|((of, _), row)| *of == agent && !row.is_closed)
                    .map(|((_, lane), _)| *lane);
                let all: BTreeSet<RecordLane> = session.named.iter().copied().chain(open).collect();
                let resume = |lane: RecordLane| {
                    let row = lanes.get(&(agent.clone(), lane));
                    row.map_or(
                        LaneResume {
                            lane,
                            ..LaneResume::default()
                        },
                        |row| LaneResume {
                            lane,
                            durable: row.durable,
                            watermark_ns: row.watermark_ns,
                            is_closed: row.is_closed,
                        },
                    )
                };
                session
                    .session
                    .welcome(1, desired, all.into_iter().map(resume).collect());
            }
            ServerAction::Desire { session, desired } => {
                if let Some(session) = process.sessions.get_mut(&session) {
                    session.session.desire(desired);
                }
            }
            ServerAction::ObserveAll { session } => {
                if let Some(session) = process.sessions.get_mut(&session) {
                    session.session.observe_all();
                }
            }
            ServerAction::Grant { session, granted } => {
                if let Some(session) = process.sessions.get_mut(&session) {
                    session.session.grant(granted);
                }
            }
            ServerAction::Ended { job, .. } => self.check_ended(job),
            ServerAction::Idle { .. } | ServerAction::Back { .. } => {}
        }
    }

    fn save(&mut self, job: ControlledJob) {
        if !job.state.is_active() {
            self.stopped_ns.entry(job.id).or_insert(self.now_ns);
        }
        self.server.jobs.insert(job.id, job);
    }

    /// One transaction for all pending records, or none while the disk is full.
    fn commit(&mut self, process: &mut ServerProcess) -> bool {
        if self.server.is_full || process.commits_at_ns > self.now_ns {
            return true;
        }
        process.commits_at_ns = self.now_ns + self.random.between(0, 200) * MS;
        let batch = std::mem::take(&mut process.pending);
        for (_, agent, record) in &batch {
            self.commit_record(agent, record);
        }
        if self.random.chance(self.options.crash_between) {
            return false;
        }
        for (id, _, record) in batch {
            if let Some(session) = process.sessions.get_mut(&id) {
                session.session.committed(record.lane(), record.seq());
            }
            if !self.decide(
                process,
                ServerEvent::Committed {
                    lane: record.lane(),
                },
            ) {
                return false;
            }
        }
        true
    }

    fn commit_record(&mut self, agent: &str, record: &LaneRecord) {
        let row = self
            .server
            .lanes
            .entry((agent.into(), record.lane()))
            .or_default();
        let (first, last) = record.seqs();
        let durable = row.durable;
        let was_closed = row.is_closed;
        row.durable = last;
        row.is_closed |= record.is_last();
        let tuples: Vec<u64> = match record {
            LaneRecord::Lost(lost) => {
                row.lost.push(*lost);
                Vec::new()
            }
            LaneRecord::Data(data) => {
                row.is_begun = true;
                row.watermark_ns = row.watermark_ns.max(data.watermark_ns);
                let ids = data
                    .payload
                    .chunks_exact(8)
                    .map(|id| u64::from_be_bytes(id.try_into().expect("eight")));
                ids.collect()
            }
        };
        let is_honest = self.is_honest_name(agent);
        self.check(!is_honest || first == durable + 1 && !was_closed, || {
            format!("{record:?} is committed behind {durable}")
        });
        let tuples = if self.is_honest_name(agent) {
            tuples
        } else {
            Vec::new()
        };
        for tuple in tuples {
            let twice = std::mem::replace(&mut self.tuples[tuple as usize].is_committed, true);
            self.check(!twice, || format!("tuple {tuple} is committed twice"));
            let is_ours = self.tuples[tuple as usize].server == self.server.identity;
            self.check(is_ours, || format!("tuple {tuple} is another server's"));
        }
    }

    /// Acknowledged records must be on the server's disk.
    fn check_said(&mut self, agent: Option<&str>, frame: &Frame) {
        let Some(agent) = agent else { return };
        let durable = |lane| {
            self.server
                .lanes
                .get(&(agent.to_owned(), lane))
                .map_or(0, |row| row.durable)
        };
        if let Frame::Ack(ack) = frame {
            let is_true = ack.seq <= durable(ack.lane);
            self.check(is_true, || {
                format!("{ack:?} is said before it is committed")
            });
        }
    }
}

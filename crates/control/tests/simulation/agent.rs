//! An agent's process in the simulation: the caller of `control::AgentControl`, the spool, a session, and monitors that make
//! numbered tuples.

use std::collections::BTreeMap;

use bytes::Bytes;
use control::{AgentAction, AgentControl, AgentEvent, AgentSettings, MonitorEnd};
use link::{
    AgentOrder, AgentSession, AgentSessionEvent as LinkEvent, DataRecord, Hello, HostCapacity,
    PayloadFormat, RecordLane, SessionTime, Spool, SpoolLimits, TapTableMessage, VERSIONS,
};

use crate::disk::AgentDisk;
use crate::network::Side;
use crate::world::{MS, STEP_NS, Tuple, World};

pub const SETTINGS: AgentSettings = AgentSettings {
    renew_every_ns: 600 * MS,
    grace_ns: 300 * MS,
    healthy_after_ns: 200 * MS,
    crashes_max: 3,
    pause_ns: 100 * MS,
    pause_max_ns: 1600 * MS,
    crowded_pause_ns: 1000 * MS,
};

const SPOOL: SpoolLimits = SpoolLimits {
    memory_bytes_max: 1500,
    bytes_max: 9000,
    segment_bytes: 1200,
};
const REPORT_EVERY_NS: u64 = 250 * MS;

/// State that survives a crash of the process.
pub struct Host {
    pub disk: AgentDisk,
    pub boots: u64,
    /// Offset of its clocks.
    pub skew_ns: i64,
    pub starts_at_ns: u64,
    pub process: Option<Process>,
    /// Identity of the server whose state is on the disk; 0: unknown.
    pub server: u64,
    /// Label of the agent.
    pub role: &'static str,
    /// Time until which its process is suspended.
    pub frozen_until_ns: u64,
    /// Whether the agent flips bytes, sends wrong data and stalls.
    pub is_hostile: bool,
    /// Whether the agent was hostile before.
    pub was_hostile: bool,
}

/// An incarnation of the agent's process.
pub struct Process {
    pub boot: u64,
    control: AgentControl,
    pub spool: Spool,
    session: Option<(u64, AgentSession)>,
    dials_at_ns: u64,
    pub monitors: BTreeMap<RecordLane, Monitor>,
}

/// A child process.
pub struct Monitor {
    pub order: AgentOrder,
    /// Last tap table received.
    pub taps: TapTableMessage,
    deadline_ns: u64,
    /// False for a stuck monitor, which the agent must kill.
    minds_deadline: bool,
    allowed: Option<u64>,
    pub taken: u64,
    /// Unreported tuples.
    open: Vec<u64>,
    reports_at_ns: u64,
    reports: u64,
    /// Time at which the monitor ends after a stop request; `u64::MAX`: the monitor hangs.
    ends_at_ns: Option<u64>,
    /// Time until which its process is suspended.
    frozen_until_ns: u64,
}

pub fn name(agent: usize) -> String {
    format!("agent-{agent}")
}

/// A unique address, and one shared by all agents.
pub fn addresses(agent: usize) -> [Bytes; 2] {
    [[10, 0, (agent >> 8) as u8, agent as u8], [172, 17, 0, 1]]
        .map(|ip| Bytes::copy_from_slice(&ip))
}

impl World {
    fn agent_now(&self, agent: usize) -> SessionTime {
        let skew_ns = self.hosts[agent].skew_ns;
        // Monotonic clocks of two machines are unrelated.
        let monotonic_ns = self.now_ns + skew_ns.unsigned_abs();
        SessionTime {
            monotonic_ns,
            wall_ns: self.now_ns as i64 + skew_ns,
        }
    }

    pub fn start_agent(&mut self, agent: usize) {
        let host = &mut self.hosts[agent];
        host.boots += 1;
        let boot = (agent as u64) << 32 | host.boots;
        let notes = host.disk.notes();
        host.process = Some(Process {
            boot,
            control: AgentControl::new(boot, SETTINGS, &notes),
            spool: Spool::open(Box::new(host.disk.clone()), SPOOL, boot),
            session: None,
            dials_at_ns: self.now_ns,
            monitors: BTreeMap::new(),
        });
    }

    /// Kill −9: monitors die with it.
    pub fn crash_agent(&mut self, agent: usize) {
        let Some(process) = self.hosts[agent].process.take() else {
            return;
        };
        self.hosts[agent].disk.crash(&mut self.random);
        self.hosts[agent].starts_at_ns = self.now_ns + self.random.between(0, 3000) * MS;
        if let Some((connection, _)) = process.session {
            self.network.close(connection, Side::Agent, self.now_ns);
        }
    }

    pub fn agent_tick(&mut self, agent: usize) {
        if self.hosts[agent].process.is_none() && self.hosts[agent].starts_at_ns <= self.now_ns {
            self.start_agent(agent);
        }
        if self.hosts[agent].frozen_until_ns > self.now_ns {
            return;
        }
        let Some(mut process) = self.hosts[agent].process.take() else {
            return;
        };
        let lived = self.live(agent, &mut process);
        self.hosts[agent].process = Some(process);
        if !lived {
            self.crash_agent(agent);
        }
    }

    pub fn thaw_monitors(&mut self) {
        let monitors = self
            .hosts
            .iter_mut()
            .filter_map(|host| host.process.as_mut());
        monitors
            .flat_map(|process| process.monitors.values_mut())
            .for_each(|of| of.frozen_until_ns = 0);
    }

    /// Returns false after a crash in between.
    fn live(&mut self, agent: usize, process: &mut Process) -> bool {
        self.dial(agent, process);
        let events = self
            .hear(agent, process)
            .into_iter()
            .chain(self.run_monitors(agent, process));
        let events = events.chain([AgentEvent::Tick]).collect::<Vec<_>>();
        for event in events {
            let actions = process.control.handle(event, self.agent_now(agent));
            for action in actions {
                if self.random.chance(self.options.crash_between) {
                    return false;
                }
                self.carry_out(agent, process, action);
            }
        }
        self.talk(agent, process);
        true
    }

    fn dial(&mut self, agent: usize, process: &mut Process) {
        if process.session.is_some() || process.dials_at_ns > self.now_ns {
            return;
        }
        process.dials_at_ns = self.now_ns + self.random.between(100, 400) * MS;
        let is_cut_off = self
            .network
            .partitioned
            .get(&agent)
            .is_some_and(|until| *until > self.now_ns);
        if self.server.process.is_none() || is_cut_off {
            return;
        }
        let hello = Hello {
            version_min: *VERSIONS.start(),
            version_max: *VERSIONS.end(),
            agent: name(agent),
            boot: process.boot,
            labels: BTreeMap::from([("role".into(), self.hosts[agent].role.into())]),
            capacity: HostCapacity {
                addresses: addresses(agent).to_vec(),
                ..HostCapacity::default()
            },
            observed: process.control.hello(),
            lanes: process.spool.lanes(),
            server: self.hosts[agent].server,
            ..Hello::default()
        };
        let connection = self.network.dial(agent);
        let session = AgentSession::new(hello, 1500 * MS, self.agent_now(agent));
        process.session = Some((connection, session));
        self.accept(connection);
    }

    /// Events of the session.
    fn hear(&mut self, agent: usize, process: &mut Process) -> Vec<AgentEvent> {
        let now = self.agent_now(agent);
        let Some((connection, session)) = &mut process.session else {
            return Vec::new();
        };
        let connection = *connection;
        let mut is_misled = false;
        while let Some(bytes) = self.network.receive(connection, Side::Agent, self.now_ns) {
            let heard = session.handle_bytes(now, &bytes, &mut process.spool);
            is_misled |= heard.is_err();
        }
        let is_honest = self.is_honest(agent);
        self.check(!is_misled || !is_honest, || {
            "the server breaks the rules".into()
        });
        let Some((_, session)) = &mut process.session else {
            return Vec::new();
        };
        session.handle_timeout(now);
        let mut events = Vec::new();
        let mut is_over = is_misled || self.network.is_closed(connection, Side::Agent, self.now_ns);
        let mut other_server = None;
        while let Some(event) = session.poll_event() {
            events.extend(match event {
                LinkEvent::Welcomed { server, .. } => {
                    self.hosts[agent].server = server;
                    Some(AgentEvent::Connected)
                }
                LinkEvent::Desired(desired) => Some(AgentEvent::Desired(desired)),
                LinkEvent::Granted(granted) => Some(AgentEvent::Granted(granted)),
                LinkEvent::ObserveAll => Some(AgentEvent::ObserveAll),
                LinkEvent::Drained(lane) => Some(AgentEvent::Drained(lane)),
                LinkEvent::PacketsAsked(_) | LinkEvent::Preserve(_) => None,
                LinkEvent::Refused(refuse) => {
                    is_over = true;
                    other_server = Some(refuse.server);
                    None
                }
                LinkEvent::Closed(_) => {
                    is_over = true;
                    None
                }
            });
        }
        // Sometimes the agent disconnects silently: the server then has two sessions of the agent for a while.
        if is_over || self.random.chance(self.options.forget_session) {
            if is_over {
                self.network.close(connection, Side::Agent, self.now_ns);
            }
            process.session = None;
            process.dials_at_ns = self.now_ns + self.random.between(0, 300) * MS;
            events.push(AgentEvent::Disconnected);
        }
        if let Some(server) = other_server {
            self.begin_again(agent, process, server);
        }
        events
    }

    /// Another server is connected: data for the previous one is invalid.
    fn begin_again(&mut self, agent: usize, process: &mut Process, server: u64) {
        let host = &mut self.hosts[agent];
        host.boots += 1;
        process.boot = (agent as u64) << 32 | host.boots;
        process.monitors.clear();
        process.spool.begin_again(process.boot);
        host.disk
            .notes()
            .iter()
            .for_each(|note| host.disk.forget(note.job));
        process.control = AgentControl::new(process.boot, SETTINGS, &[]);
        host.server = server;
    }

    fn talk(&mut self, agent: usize, process: &mut Process) {
        let Some((connection, session)) = &mut process.session else {
            return;
        };
        while let Some(mut bytes) = session.poll_transmit(&mut process.spool) {
            if self.hosts[agent].is_hostile && !bytes.is_empty() && self.random.chance(50_000) {
                let mut flipped = bytes.to_vec();
                let at = self.random.between(0, flipped.len() as u64) as usize;
                flipped[at] ^= 1 << self.random.between(0, 8);
                bytes = flipped.into();
            }
            self.network.send(
                *connection,
                Side::Agent,
                bytes,
                self.now_ns,
                &mut self.random,
            );
        }
    }

    fn carry_out(&mut self, agent: usize, process: &mut Process, action: AgentAction) {
        let now = self.agent_now(agent);
        match action {
            AgentAction::Note(note) => self.hosts[agent].disk.note(note),
            AgentAction::Forget { job } => self.hosts[agent].disk.forget(job),
            AgentAction::Start {
                lane,
                order,
                taps,
                deadline_ns,
                allowed,
            } => {
                let alone = process.monitors.keys().all(|other| other.job != lane.job);
                self.check(alone, || {
                    format!("{lane:?} is started beside another monitor of its job")
                });
                let reports_at_ns = self.now_ns + self.random.between(0, 250) * MS;
                process.monitors.insert(
                    lane,
                    Monitor {
                        order,
                        taps,
                        deadline_ns,
                        minds_deadline: self.random.chance(700_000),
                        allowed,
                        taken: 0,
                        open: Vec::new(),
                        reports_at_ns,
                        reports: 0,
                        ends_at_ns: None,
                        frozen_until_ns: 0,
                    },
                );
            }
            AgentAction::Extend {
                lane,
                deadline_ns,
                allowed,
            } => {
                if let Some(monitor) = process.monitors.get_mut(&lane) {
                    monitor.deadline_ns = deadline_ns;
                    monitor.allowed = allowed;
                }
            }
            AgentAction::Retap { lane, taps } => {
                if let Some(monitor) = process.monitors.get_mut(&lane) {
                    monitor.taps = taps;
                }
            }
            AgentAction::TakeBack { lane, grant } => {
                if let Some(monitor) = process.monitors.get_mut(&lane) {
                    monitor.allowed = Some(monitor.taken);
                    self.answers.push((
                        agent,
                        AgentEvent::TookBack {
                            lane,
                            allowed: monitor.taken,
                            grant,
                        },
                    ));
                }
            }
            AgentAction::Stop { lane } => {
                let hangs = self.random.chance(50_000);
                let at = self.now_ns + self.random.between(0, 400) * MS;
                if let Some(monitor) = process.monitors.get_mut(&lane) {
                    monitor.ends_at_ns = Some(if hangs { u64::MAX } else { at });
                }
            }
            AgentAction::Kill { lane } => {
                if process.monitors.remove(&lane).is_some() {
                    let end = MonitorEnd::Crashed("killed".into());
                    self.answers.push((agent, AgentEvent::Exited { lane, end }));
                }
            }
            AgentAction::Close { lane } => {
                process.spool.push_lost(lane, now.wall_ns, None, true);
            }
            AgentAction::Observe(observed) => {
                if let Some((_, session)) = &mut process.session {
                    session.observe(observed);
                }
            }
            AgentAction::Renew(renew) => {
                if let Some((_, session)) = &mut process.session {
                    session.renew(renew);
                }
            }
        }
    }

    /// Monitors make tuples, report, end and crash.
    fn run_monitors(&mut self, agent: usize, process: &mut Process) -> Vec<AgentEvent> {
        let now = self.agent_now(agent);
        let (mine, others) = std::mem::take(&mut self.answers)
            .into_iter()
            .partition(|(a, _)| *a == agent);
        self.answers = others;
        let mine: Vec<(usize, AgentEvent)> = mine;
        let mut events: Vec<AgentEvent> = mine.into_iter().map(|(_, event)| event).collect();
        let lanes: Vec<RecordLane> = process.monitors.keys().copied().collect();
        for lane in lanes {
            let Some(mut monitor) = process.monitors.remove(&lane) else {
                continue;
            };
            if self.random.chance(self.options.freeze_monitor) {
                monitor.frozen_until_ns = self.now_ns + self.random.between(50, 8000) * MS;
            }
            if monitor.frozen_until_ns > self.now_ns {
                process.monitors.insert(lane, monitor);
                continue;
            }
            if std::mem::take(&mut monitor.frozen_until_ns) > 0 && self.random.chance(300_000) {
                // The monitor noticed the expiration of its lease before the renewal.
                self.report(&mut process.spool, lane, &mut monitor, now, false);
                process.spool.push_lost(lane, now.wall_ns, Some(0), true);
                events.push(AgentEvent::Used {
                    lane,
                    used: monitor.taken,
                    waits: false,
                });
                events.push(AgentEvent::Exited {
                    lane,
                    end: MonitorEnd::Early("it was stopped".into()),
                });
                continue;
            }
            let is_poison = monitor.order.body[1] == 1;
            let crashes = is_poison && self.random.chance(400_000)
                || self.random.chance(self.options.crash_monitor);
            if crashes || monitor.minds_deadline && monitor.deadline_ns <= now.monotonic_ns {
                // The lease has ended, or the monitor crashed: unreported results are lost.
                events.push(AgentEvent::Exited {
                    lane,
                    end: MonitorEnd::Crashed("it died".into()),
                });
                continue;
            }
            self.make_tuples(agent, lane, &mut monitor, now);
            let is_through =
                monitor.order.body[2] > 0 && monitor.reports >= u64::from(monitor.order.body[2]);
            let ends = is_through || monitor.ends_at_ns.is_some_and(|at| at <= self.now_ns);
            if ends || monitor.reports_at_ns <= self.now_ns {
                self.report(&mut process.spool, lane, &mut monitor, now, ends);
                events.push(AgentEvent::Reported(lane));
                let waits = monitor
                    .allowed
                    .is_some_and(|allowed| allowed <= monitor.taken);
                events.push(AgentEvent::Used {
                    lane,
                    used: monitor.taken,
                    waits,
                });
            }
            if ends {
                events.push(AgentEvent::Exited {
                    lane,
                    end: MonitorEnd::Clean,
                });
            } else {
                process.monitors.insert(lane, monitor);
            }
        }
        events
    }

    fn make_tuples(
        &mut self,
        agent: usize,
        lane: RecordLane,
        monitor: &mut Monitor,
        now: SessionTime,
    ) {
        if monitor.deadline_ns + STEP_NS < now.monotonic_ns {
            // The agent was suspended, and now ends the monitor.
            return;
        }
        let wanted = self.random.between(0, self.options.tuples_max + 1);
        let room = monitor
            .allowed
            .map_or(u64::MAX, |allowed| allowed.saturating_sub(monitor.taken));
        for _ in 0..wanted.min(room) {
            monitor.taken += 1;
            let server = self.hosts[agent].server;
            if server == self.server.identity {
                self.check_may_run(lane.job);
            }
            monitor.open.push(self.tuples.len() as u64);
            self.tuples.push(Tuple {
                agent,
                lane,
                at_ns: now.wall_ns,
                seq: None,
                is_committed: false,
                server,
            });
        }
    }

    fn report(
        &mut self,
        spool: &mut Spool,
        lane: RecordLane,
        monitor: &mut Monitor,
        now: SessionTime,
        is_last: bool,
    ) {
        let watermark_ns = self.watermark(lane, now);
        monitor.reports += 1;
        monitor.reports_at_ns = self.now_ns + REPORT_EVERY_NS;
        let tuples = std::mem::take(&mut monitor.open);
        let from_ns = tuples
            .first()
            .map_or(now.wall_ns, |&tuple| self.tuples[tuple as usize].at_ns);
        let form = if monitor.order.body[0] == 1 {
            PayloadFormat::Partial
        } else {
            PayloadFormat::Tuples
        };
        let payload: Vec<u8> = tuples
            .iter()
            .flat_map(|tuple| tuple.to_be_bytes())
            .collect();
        let seq = spool.push(DataRecord {
            lane,
            watermark_ns,
            from_ns,
            tuples: tuples.len() as u64,
            form: form.into(),
            is_last,
            payload: payload.into(),
            ..DataRecord::default()
        });
        for tuple in tuples {
            self.tuples[tuple as usize].seq = Some(seq);
        }
    }

    /// A hostile agent sends a constant or extreme time.
    fn watermark(&mut self, lane: RecordLane, now: SessionTime) -> i64 {
        let agent = (lane.boot >> 32) as usize;
        if !self.hosts[agent].is_hostile {
            return now.wall_ns;
        }
        match self.random.between(0, 4) {
            0 => now.wall_ns,
            1 => i64::MIN,
            2 => now
                .wall_ns
                .saturating_add(self.random.between(0, 3_600_000) as i64 * MS as i64),
            _ => now
                .wall_ns
                .saturating_sub(self.random.between(0, 60_000) as i64 * MS as i64),
        }
    }
}

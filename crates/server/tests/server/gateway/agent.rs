//! An agent: the real session and control logic over a real connection; its monitors are replaced by a list of reports.

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use control::{AgentAction, AgentControl, AgentEvent as Happens, AgentSettings, MonitorEnd};
use link::{
    AgentSession, AgentSessionEvent, DataRecord, Hello, HostCapacity, NoDisk, PayloadFormat,
    RecordLane, SessionTime, Spool, SpoolLimits,
};
use plan::TapTable;
use plan::message::JobOrder;

use super::feed::{Said, reports, tuples};

/// Behavior of an agent.
#[derive(Clone)]
pub struct Ways {
    pub name: String,
    pub token: String,
    pub boot: u64,
    pub form: PayloadFormat,
    /// Reports of each job.
    pub said: Arc<Vec<Said>>,
    /// Number of reports it sends until this is raised.
    pub up_to: Arc<AtomicUsize>,
    /// Address of the server, which may change.
    pub server: Arc<Mutex<SocketAddr>>,
    /// Offset of its clock.
    pub ahead_ns: i64,
    /// Delay of messages to it; its own messages have none.
    pub way: Duration,
    /// Capture of its own host, if any. Its reports are then those of a monitor with its order over that capture.
    pub host: Option<Host>,
}

/// A host with a capture.
#[derive(Clone)]
pub struct Host {
    pub addresses: Vec<IpAddr>,
    pub capture: PathBuf,
    /// Event time per report.
    pub step_ns: i64,
}

/// A running agent.
pub struct FakeAgent {
    end: Arc<AtomicBool>,
    /// Number of connections.
    pub connections: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

impl FakeAgent {
    pub fn start(ways: Ways) -> FakeAgent {
        let end = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let is_over = end.clone();
        let connected = connections.clone();
        let thread = std::thread::spawn(move || {
            let life = Life {
                spool: Spool::open(Box::new(NoDisk), SpoolLimits::default(), ways.boot),
                agent: AgentControl::new(ways.boot, AgentSettings::default(), &[]),
                monitors: BTreeMap::new(),
                started: Instant::now(),
                end: is_over,
                connections: connected,
                ways,
            };
            life.live();
        });
        FakeAgent {
            end,
            connections,
            thread: Some(thread),
        }
    }

    /// Simulates a kill of its process.
    pub fn kill(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.thread
            .take()
            .map(JoinHandle::join)
            .transpose()
            .expect("it does not panic");
    }
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Life {
    ways: Ways,
    spool: Spool,
    agent: AgentControl,
    /// Number of reports sent, by monitor.
    monitors: BTreeMap<RecordLane, usize>,
    started: Instant,
    end: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
}

impl Life {
    fn now(&self) -> SessionTime {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("a clock");
        SessionTime {
            monotonic_ns: self.started.elapsed().as_nanos() as u64,
            wall_ns: since.as_nanos() as i64 + self.ways.ahead_ns,
        }
    }

    fn live(mut self) {
        while !self.end.load(Ordering::Relaxed) {
            if self.connect().is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Runs a connection until it breaks.
    fn connect(&mut self) -> Option<()> {
        let address = *self.ways.server.lock().expect("an address");
        let mut stream = TcpStream::connect(address).ok()?;
        stream.set_nodelay(true).ok()?;
        stream
            .set_read_timeout(Some(Duration::from_millis(5)))
            .ok()?;
        let token = &self.ways.token;
        write!(
            stream,
            "GET /api/v1/agent HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Connection: Upgrade\r\nUpgrade: netalytics/1\r\n\r\n"
        )
        .ok()?;
        let rest = self.answered(&mut stream)?;
        self.connections.fetch_add(1, Ordering::Relaxed);
        let hello = Hello {
            boot_ended: 0,
            version_min: 1,
            version_max: 1,
            agent: self.ways.name.clone(),
            boot: self.ways.boot,
            labels: [("name".to_owned(), self.ways.name.clone())].into(),
            capabilities: vec!["af_packet".into()],
            capacity: HostCapacity {
                cores: 2,
                memory_bytes: 1 << 30,
                interfaces: vec!["lo".into()],
                addresses: self.addresses(),
                ..HostCapacity::default()
            },
            observed: self.agent.hello(),
            lanes: self.spool.lanes(),
            program: "0.1.0".into(),
            server: 0,
        };
        let mut session = AgentSession::new(hello, 5_000_000_000, self.now());
        session
            .handle_bytes(self.now(), &rest, &mut self.spool)
            .ok()?;
        let talked = self.talk(&mut stream, &mut session);
        let actions = self.agent.handle(Happens::Disconnected, self.now());
        self.carry_out(actions, None);
        talked
    }

    /// Reads the head of the response; the rest belongs to the session.
    fn answered(&self, stream: &mut TcpStream) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 1024];
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(10) && !self.end.load(Ordering::Relaxed) {
            match stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => bytes.extend(&buffer[..n]),
                Err(error) if is_patience(&error) => {}
                Err(_) => return None,
            }
            if let Some(at) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
                return bytes
                    .starts_with(b"HTTP/1.1 101")
                    .then(|| bytes[at + 4..].to_vec());
            }
        }
        None
    }

    fn talk(&mut self, stream: &mut TcpStream, session: &mut AgentSession) -> Option<()> {
        let mut buffer = vec![0; 1 << 16];
        // A slow way to the agent does not delay what it sends.
        let mut on_the_way: VecDeque<(Instant, Vec<u8>)> = VecDeque::new();
        while !self.end.load(Ordering::Relaxed) {
            while let Some(bytes) = session.poll_transmit(&mut self.spool) {
                stream.write_all(&bytes).ok()?;
            }
            match stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(n) => {
                    on_the_way.push_back((Instant::now() + self.ways.way, buffer[..n].to_vec()))
                }
                Err(error) if is_patience(&error) => {}
                Err(_) => return None,
            }
            while let Some((_, bytes)) =
                on_the_way.pop_front_if(|(arrival, _)| *arrival <= Instant::now())
            {
                session
                    .handle_bytes(self.now(), &bytes, &mut self.spool)
                    .ok()?;
            }
            session.handle_timeout(self.now());
            while let Some(event) = session.poll_event() {
                let happens = match event {
                    AgentSessionEvent::Welcomed { .. } => Happens::Connected,
                    AgentSessionEvent::Desired(desired) => Happens::Desired(desired),
                    AgentSessionEvent::Granted(granted) => Happens::Granted(granted),
                    AgentSessionEvent::ObserveAll => Happens::ObserveAll,
                    AgentSessionEvent::Drained(lane) => Happens::Drained(lane),
                    AgentSessionEvent::PacketsAsked(_) | AgentSessionEvent::Preserve(_) => continue,
                    AgentSessionEvent::Refused(_) | AgentSessionEvent::Closed(_) => return None,
                };
                self.happens(happens, session);
            }
            if self
                .agent
                .timeout()
                .is_some_and(|at| at <= self.now().monotonic_ns)
            {
                self.happens(Happens::Tick, session);
            }
            self.say(session);
        }
        Some(())
    }

    fn happens(&mut self, event: Happens, session: &mut AgentSession) {
        let actions = self.agent.handle(event, self.now());
        self.carry_out(actions, Some(session));
    }

    fn carry_out(&mut self, actions: Vec<AgentAction>, mut session: Option<&mut AgentSession>) {
        let mut ended = Vec::new();
        for action in actions {
            match action {
                AgentAction::Start {
                    lane, order, taps, ..
                } => {
                    let schemas = parsers::registry::schemas();
                    let schema =
                        |name: &str| schemas.iter().find(|schema| schema.name == name).cloned();
                    let told = JobOrder::decode(&order.body, &schema)
                        .expect("orders that a monitor reads");
                    assert_eq!((told.job, told.redaction), (lane.job, None));
                    if let Some(host) = &self.ways.host {
                        let all = |list: &[Bytes]| {
                            list.iter()
                                .filter_map(|ip| control::taps::read(ip))
                                .collect()
                        };
                        let table = TapTable {
                            own: all(&taps.own),
                            others: all(&taps.others),
                        };
                        let found = tuples(&told.plan, &host.capture, Some(table));
                        self.ways.said =
                            Arc::new(reports(&told.plan, &found, (0, 1), host.step_ns));
                    }
                    self.monitors.insert(lane, 0);
                }
                AgentAction::Stop { lane } | AgentAction::Kill { lane } => {
                    if let Some(said) = self.monitors.remove(&lane) {
                        self.push(lane, said.max(1) - 1, true);
                        ended.push(lane);
                    }
                }
                AgentAction::Observe(observed) => {
                    session.iter_mut().for_each(|s| s.observe(observed.clone()))
                }
                AgentAction::Renew(renew) => {
                    session.iter_mut().for_each(|s| s.renew(renew.clone()))
                }
                _ => {}
            }
        }
        for lane in ended {
            let actions = self.agent.handle(
                Happens::Exited {
                    lane,
                    end: MonitorEnd::Clean,
                },
                self.now(),
            );
            self.carry_out(actions, session.as_deref_mut());
        }
    }

    fn addresses(&self) -> Vec<Bytes> {
        let host = self.ways.host.iter();
        host.flat_map(|host| &host.addresses)
            .map(|ip| control::taps::write(*ip))
            .collect()
    }

    /// Each monitor sends its next report.
    fn say(&mut self, session: &mut AgentSession) {
        let up_to = self
            .ways
            .up_to
            .load(Ordering::Relaxed)
            .min(self.ways.said.len());
        for (lane, said) in self.monitors.clone() {
            if said >= up_to {
                continue;
            }
            let is_last = said + 1 == self.ways.said.len();
            self.push(lane, said, is_last);
            self.monitors.insert(lane, said + 1);
            if said == 0 {
                self.happens(Happens::Reported(lane), session);
            }
            if is_last {
                self.monitors.remove(&lane);
                self.happens(
                    Happens::Exited {
                        lane,
                        end: MonitorEnd::Clean,
                    },
                    session,
                );
            }
        }
    }

    /// Adds a report to the spool; the last one is empty.
    fn push(&mut self, lane: RecordLane, n: usize, is_last: bool) {
        let is_again = is_last && n + 1 != self.ways.said.len();
        let (watermark_ns, payload) = self.ways.said[n].clone();
        let payload = if is_again {
            empty(watermark_ns)
        } else {
            payload
        };
        self.spool.push(DataRecord {
            lane,
            watermark_ns,
            from_ns: watermark_ns,
            form: self.ways.form.into(),
            is_last,
            counters: [("packets".to_owned(), n as u64 + 1)].into(),
            payload: payload.into(),
            ..DataRecord::default()
        });
        self.spool.flush();
    }
}

fn empty(watermark_ns: i64) -> Vec<u8> {
    let report = collect::WorkerReport {
        epoch: 0,
        watermark: wire::Timestamp(watermark_ns),
        part: collect::ReportPart::default(),
        loss: stream::LossCount::default(),
        lost: None,
        limited: None,
        open: None,
    };
    report.encode()
}

fn is_patience(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

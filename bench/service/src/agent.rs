//! An agent without monitors: the agent's half of the link over a real connection, and prepared reports in place of
//! monitors' results.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::dial::ServerEndpoint;
use control::{AgentAction, AgentControl, AgentEvent as Happens, AgentSettings, MonitorEnd};
use link::{
    AgentSession, AgentSessionEvent, DataRecord, Hello, HostCapacity, NoDisk, PayloadFormat,
    RecordLane, SessionTime, Spool, SpoolLimits,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{mpsc, watch};

use crate::said::Said;

const TICK: Duration = Duration::from_millis(50);

/// An agent, its reports, and its limits.
pub struct Life {
    name: String,
    said: Arc<Vec<Said>>,
    allowed: watch::Receiver<usize>,
    spool: Spool,
    control: AgentControl,
    /// Number of reports sent per job.
    lanes: BTreeMap<RecordLane, usize>,
    started: Instant,
}

impl Life {
    pub fn new(
        name: String,
        boot: u64,
        said: Arc<Vec<Said>>,
        allowed: watch::Receiver<usize>,
    ) -> Life {
        Life {
            name,
            said,
            allowed,
            spool: Spool::open(Box::new(NoDisk), SpoolLimits::default(), boot),
            control: AgentControl::new(boot, AgentSettings::default(), &[]),
            lanes: BTreeMap::new(),
            started: Instant::now(),
        }
    }

    fn now(&self) -> SessionTime {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("a clock");
        SessionTime {
            monotonic_ns: self.started.elapsed().as_nanos() as u64,
            wall_ns: since.as_nanos() as i64,
        }
    }

    /// Serves until the connection ends; the caller waits for that. Each of the expected jobs is a step; the last step is
    /// the acknowledgment of all reports.
    pub async fn live(
        mut self,
        server: ServerEndpoint,
        (boot, jobs): (u64, usize),
        steps: mpsc::Sender<()>,
    ) {
        let mut stream = server.dial().await.expect("the server accepts agents");
        let hello = Hello {
            version_min: 1,
            version_max: 1,
            agent: self.name.clone(),
            boot,
            capabilities: vec!["af_packet".into()],
            capacity: HostCapacity {
                cores: 2,
                memory_bytes: 1 << 30,
                interfaces: vec!["lo".into()],
                ..HostCapacity::default()
            },
            observed: self.control.hello(),
            lanes: self.spool.lanes(),
            program: env!("CARGO_PKG_VERSION").into(),
            ..Hello::default()
        };
        let mut session = AgentSession::new(hello, 5_000_000_000, self.now());
        let mut buffer = vec![0; 1 << 16];
        let mut told = false;
        let mut tick = tokio::time::interval(TICK);
        loop {
            while let Some(bytes) = session.poll_transmit(&mut self.spool) {
                stream
                    .write_all(&bytes)
                    .await
                    .expect("the connection holds");
                stream.flush().await.expect("the connection holds");
            }
            tokio::select! {
                read = stream.read(&mut buffer) => {
                    let n = read.expect("the connection holds");
                    assert!(n > 0, "the server ends the connection");
                    session.handle_bytes(self.now(), &buffer[..n], &mut self.spool).expect("the server keeps the rules");
                }
                _ = tick.tick() => {}
                changed = self.allowed.changed() => changed.expect("the pacing thread exists"),
            }
            session.handle_timeout(self.now());
            let known = self.lanes.len();
            while let Some(event) = session.poll_event() {
                let happens = match event {
                    AgentSessionEvent::Welcomed { .. } => Happens::Connected,
                    AgentSessionEvent::Desired(desired) => Happens::Desired(desired),
                    AgentSessionEvent::Granted(granted) => Happens::Granted(granted),
                    AgentSessionEvent::ObserveAll => Happens::ObserveAll,
                    AgentSessionEvent::Drained(lane) => Happens::Drained(lane),
                    AgentSessionEvent::PacketsAsked(_) | AgentSessionEvent::Preserve(_) => continue,
                    AgentSessionEvent::Refused(why) => panic!("the server refuses: {why:?}"),
                    AgentSessionEvent::Closed(why) => panic!("the session has ended: {why:?}"),
                };
                self.happens(happens, &mut session);
            }
            if self
                .control
                .timeout()
                .is_some_and(|at| at <= self.now().monotonic_ns)
            {
                self.happens(Happens::Tick, &mut session);
            }
            for _ in known..self.lanes.len() {
                steps.send(()).await.expect("somebody counts");
            }
            self.say(&mut session);
            let is_said = |(lane, said): (&RecordLane, &usize)| {
                *said == self.said.len() && self.spool.is_drained(*lane)
            };
            let is_through = self.lanes.len() == jobs && self.lanes.iter().all(is_said);
            if is_through && !told {
                told = true;
                steps.send(()).await.expect("somebody counts");
            }
        }
    }

    fn happens(&mut self, event: Happens, session: &mut AgentSession) {
        let now = self.now();
        for action in self.control.handle(event, now) {
            match action {
                AgentAction::Start { lane, .. } => {
                    self.lanes.insert(lane, 0);
                }
                AgentAction::Observe(observed) => session.observe(observed),
                AgentAction::Renew(renew) => session.renew(renew),
                _ => {}
            }
        }
    }

    /// Sends the reports that are due.
    fn say(&mut self, session: &mut AgentSession) {
        let allowed = (*self.allowed.borrow()).min(self.said.len());
        for (lane, said) in self.lanes.clone() {
            for n in said..allowed {
                self.say_one(lane, n, session);
            }
        }
    }

    fn say_one(&mut self, lane: RecordLane, n: usize, session: &mut AgentSession) {
        let is_last = n + 1 == self.said.len();
        let (watermark_ns, payload) = &self.said[n];
        self.spool.push(DataRecord {
            lane,
            watermark_ns: *watermark_ns,
            from_ns: *watermark_ns,
            form: PayloadFormat::Partial.into(),
            is_last,
            counters: [("packets".to_owned(), n as u64 + 1)].into(),
            payload: payload.clone().into(),
            ..DataRecord::default()
        });
        self.lanes.insert(lane, n + 1);
        if n == 0 {
            self.happens(Happens::Reported(lane), session);
        }
        if is_last {
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

//! The agent at work: one loop that hears the server, its monitors and the clock, asks [`control::Agent`] what is to be done, and does
//! it. Without a server it goes on looking for one; its monitors go on until their leases end.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use collect::{Brings, Frame, Part, Report, TAKEN, WAITING};
use control::{Agent, AgentAction, AgentEvent, AgentSettings, End};
use link::{AgentSession, Capacity, Data, Form, Hello, Lane, Now, Spool, SpoolLimits, VERSIONS};
use plan::TapTable;
use plan::message::JobOrder;
use plan::{Burden, Cost};
use stream::Loss;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;
use tuple::Origin;
use wire::Timestamp;

use crate::bounds::{Bounds, Groups};
use crate::credentials::Credentials;
use crate::dial::{DialError, Server, Stream};
use crate::enrol::keep_renewed;
use crate::health::health;
use crate::host::Host;
use crate::notes::Notes;
use crate::orders::{Asked, Borne, Demo, asked};
use crate::policy::Policy;
use crate::process::{Monitor, News, Start};
use crate::spool_files::SpoolFiles;
use crate::traffic::Traffic;

/// What an agent is started with.
pub struct Config {
    /// Whom it serves.
    pub server: Server,
    /// What it is called.
    pub name: String,
    /// What the host's owner allows.
    pub policy: Policy,
    /// Its own folder.
    pub folder: PathBuf,
    /// This program.
    pub program: PathBuf,
    /// Its version, for people.
    pub version: String,
    /// What may wait for the server.
    pub spool: SpoolLimits,
    /// What is played in place of interfaces, in a demonstration.
    pub demo: Option<Demo>,
    /// Its certificate, which it renews; without one it has a token.
    pub credentials: Option<Credentials>,
}

/// Between two tries to find the server; the longer the more have failed.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A server of which nothing is heard for so long is gone.
const SILENCE_NS: u64 = 15_000_000_000;
/// News of monitors that wait.
const NEWS_MAX: usize = 64;
/// Monitors' memory is looked at this often.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// And the host's addresses.
const ADDRESSES_EVERY: Duration = Duration::from_secs(5);
/// How long monitors have to say what they have when the agent ends.
const GRACE: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 64 << 10;
/// A monitor ends so when what it is asked for cannot be.
const WRONG_USE: i32 = 2;

type Dialing = JoinHandle<Result<Box<dyn Stream>, DialError>>;

/// How it stands with the server.
enum Connection {
    /// Nobody is called before then.
    Waiting { until: Instant },
    /// It is being called.
    Dialing(Dialing),
    /// It is there.
    Open {
        session: Box<AgentSession>,
        reading: ReadHalf<Box<dyn Stream>>,
        writing: WriteHalf<Box<dyn Stream>>,
    },
}

/// A monitor, and what is known of it.
struct Running {
    monitor: Monitor,
    counters: BTreeMap<String, u64>,
    tuples: u64,
    watermark_ns: i64,
    loss: Loss,
    /// Whether it said that it had said everything.
    closing: Option<Option<String>>,
    /// Why we have ended it.
    ended: Option<String>,
    /// What it takes, as estimated.
    cost: Cost,
    /// Whether it was told to end although the server wants it to go on: its lease was over, or the agent ends.
    course: Course,
}

/// See [`Running::course`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Whole,
    Cut,
}

struct Loop {
    config: Config,
    host: Host,
    boot: u64,
    began: Instant,
    agent: Agent,
    spool: Spool,
    notes: Notes,
    groups: Option<Groups>,
    monitors: BTreeMap<Lane, Running>,
    news: Sender<News>,
    failures: u32,
    traffic: Traffic,
}

/// Serves until `stop` is ready; then its monitors say what they have, as far as there is time.
///
/// # Errors
/// When the agent's folder cannot be used.
pub async fn run(config: Config, stop: impl Future<Output = ()>) -> io::Result<()> {
    let (news, heard) = channel(NEWS_MAX);
    let renewing =
        config.credentials.clone().map(|own| tokio::spawn(keep_renewed(config.server.clone(), own)));
    let mut work = Loop::new(config, news)?;
    work.serve(heard, stop).await;
    renewing.inspect(JoinHandle::abort);
    Ok(())
}

impl Loop {
    fn new(config: Config, news: Sender<News>) -> io::Result<Loop> {
        let boot = random()?;
        let files = SpoolFiles::in_folder(&config.folder.join("spool"))?;
        let notes = Notes::read(&config.folder);
        let groups = Groups::of_this_process()
            .inspect_err(|why| tracing::info!("no control groups, so memory is looked at instead: {why}"))
            .ok();
        Ok(Loop {
            host: match config.demo {
                Some(_) => Host { interfaces: vec![Demo::INTERFACE.into()], ..Host::look() },
                None => Host::look(),
            },
            boot,
            began: Instant::now(),
            agent: Agent::new(boot, AgentSettings::default(), &notes.all()),
            spool: Spool::open(Box::new(files), config.spool, boot),
            notes,
            groups,
            monitors: BTreeMap::new(),
            news,
            failures: 0,
            traffic: Traffic::begin(&config.policy),
            config,
        })
    }

    async fn serve(&mut self, mut heard: Receiver<News>, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut connection = Connection::Waiting { until: Instant::now() };
        let mut looked = tokio::time::interval(LOOK_EVERY);
        let mut addresses = tokio::time::interval(ADDRESSES_EVERY);
        let mut buffer = vec![0; READ_BYTES];
        let mut outgoing = Bytes::new();
        loop {
            self.hear_session(&mut connection);
            if outgoing.is_empty()
                && let Connection::Open { session, .. } = &mut connection
            {
                outgoing = session.poll_transmit(&mut self.spool).unwrap_or_default();
            }
            let timer = self.timer(&connection);
            tokio::select! {
                () = &mut stop => break,
                happened = step(&mut connection, &mut buffer, &mut outgoing) => {
                    self.on_step(&mut connection, happened, &buffer);
                    if !matches!(connection, Connection::Open { .. }) {
                        outgoing = Bytes::new();
                    }
                }
                Some(news) = heard.recv() => self.on_news(news, &mut connection),
                _ = looked.tick() => {
                    self.look_after_memory();
                    self.traffic.look(&self.config.policy);
                }
                _ = addresses.tick() => self.look_at_addresses(&mut connection),
                () = tokio::time::sleep_until(timer.into()) => {
                    if let Connection::Open { session, .. } = &mut connection {
                        session.handle_timeout(self.now());
                    }
                    self.happened(AgentEvent::Tick, &mut connection);
                }
            }
        }
        self.end(heard, connection, outgoing).await;
    }

    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            monotonic_ns: self.began.elapsed().as_nanos() as u64,
            wall_ns: i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX),
        }
    }

    fn timer(&self, connection: &Connection) -> Instant {
        let session = match connection {
            Connection::Open { session, .. } => session.poll_timeout(),
            _ => None,
        };
        let at = self.agent.timeout().into_iter().chain(session).min();
        let far = Instant::now() + Duration::from_secs(3600);
        at.map_or(far, |ns| self.began + Duration::from_nanos(ns)).min(far)
    }

    fn hear_session(&mut self, connection: &mut Connection) {
        while let Connection::Open { session, .. } = connection {
            let Some(event) = session.poll_event() else { return };
            use link::AgentEvent as Told;
            match event {
                Told::Welcomed { .. } => {
                    let url = self.config.server.url();
                    match std::mem::take(&mut self.failures) {
                        0 => tracing::info!("{url} has taken this agent"),
                        // Who was told of the failures is told of their end.
                        _ => tracing::warn!("{url} has taken this agent: all is well again"),
                    }
                    self.happened(AgentEvent::Connected, connection);
                }
                Told::Desired(desired) => self.happened(AgentEvent::Desired(desired), connection),
                Told::Granted(granted) => self.happened(AgentEvent::Granted(granted), connection),
                Told::ObserveAll => self.happened(AgentEvent::ObserveAll, connection),
                Told::Drained(lane) => self.happened(AgentEvent::Drained(lane), connection),
                Told::Refused(refuse) => self.disconnect(
                    connection,
                    &format!("{} refuses: {}", self.config.server.url(), refuse.reason),
                ),
                Told::Closed(why) => {
                    let why = format!("{} is gone: {why}", self.config.server.url());
                    self.disconnect(connection, &why);
                }
            }
        }
    }

    fn disconnect(&mut self, connection: &mut Connection, why: &str) {
        tracing::warn!("{why}");
        *connection = Connection::Waiting { until: Instant::now() + self.pause() };
        self.happened(AgentEvent::Disconnected, connection);
    }

    /// Longer with every failure, and not the same for all agents of a server that comes back.
    fn pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        let whole = PAUSE.saturating_mul(1 << self.failures.min(6)).min(PAUSE_MAX);
        whole.mul_f64(0.5 + (self.boot.rotate_left(self.failures) % 1024) as f64 / 2048.0)
    }

    fn on_step(&mut self, connection: &mut Connection, happened: Happened, buffer: &[u8]) {
        match happened {
            Happened::Due => {
                let server = self.config.server.clone();
                *connection = Connection::Dialing(tokio::spawn(async move { server.dial().await }));
            }
            Happened::Dialed(Ok(stream)) => {
                let session = AgentSession::new(self.hello(), SILENCE_NS, self.now());
                let (reading, writing) = split(stream);
                *connection = Connection::Open { session: Box::new(session), reading, writing };
            }
            Happened::Dialed(Err(why)) => self.disconnect(connection, &why),
            Happened::Read(Ok(0)) => {
                let why = format!("{} has closed the connection", self.config.server.url());
                self.disconnect(connection, &why);
            }
            Happened::Read(Ok(n)) => {
                let now = self.now();
                if let Connection::Open { session, .. } = connection
                    && let Err(why) = session.handle_bytes(now, &buffer[..n], &mut self.spool)
                {
                    self.disconnect(connection, &format!("{}: {why}", self.config.server.url()));
                }
            }
            Happened::Written(Ok(())) => {}
            Happened::Read(Err(why)) | Happened::Written(Err(why)) => {
                self.disconnect(connection, &format!("{}: {why}", self.config.server.url()))
            }
        }
    }

    fn hello(&mut self) -> Hello {
        let allowed = |name: &&String| self.config.policy.allows_interface(name);
        let interfaces = self.host.interfaces.iter().filter(allowed).cloned().collect();
        let ceiling = self.config.policy.ceiling(&self.host);
        Hello {
            version_min: *VERSIONS.start(),
            version_max: *VERSIONS.end(),
            agent: self.config.name.clone(),
            boot: self.boot,
            labels: self.config.policy.labels.clone(),
            capabilities: self.host.capabilities.iter().map(|what| what.name().to_owned()).collect(),
            capacity: Capacity {
                cores: self.host.cores,
                memory_bytes: self.host.memory_bytes,
                interfaces,
                addresses: self.addresses(),
                packets_per_second: self.packets_per_second(),
                jobs_cpu_millis_max: ceiling.cpu_millis,
                jobs_memory_bytes_max: ceiling.memory_bytes,
            },
            observed: self.agent.hello(),
            lanes: self.spool.lanes(),
            program: self.config.version.clone(),
        }
    }

    /// Addresses of the interfaces that may be captured from: elsewhere nothing of theirs is seen.
    fn addresses(&self) -> Vec<Bytes> {
        let allowed = |(name, _): &&(String, IpAddr)| self.config.policy.allows_interface(name);
        self.host.addresses.iter().filter(allowed).map(|(_, ip)| control::taps::write(*ip)).collect()
    }

    /// Where the host's addresses are others than were said, it says hello again.
    fn look_at_addresses(&mut self, connection: &mut Connection) {
        let before = self.addresses();
        self.host.addresses = Host::look().addresses;
        if self.addresses() != before && matches!(connection, Connection::Open { .. }) {
            self.disconnect(connection, "this host's addresses have changed");
        }
    }

    fn happened(&mut self, event: AgentEvent, connection: &mut Connection) {
        let now = self.now();
        for action in self.agent.handle(event, now) {
            self.carry_out(action, now, connection);
        }
    }

    fn carry_out(&mut self, action: AgentAction, now: Now, connection: &mut Connection) {
        match action {
            AgentAction::Note(note) => self.notes.add(note),
            AgentAction::Forget { job } => self.notes.forget(job),
            AgentAction::Start { lane, order, taps, deadline_ns, allowed } => {
                let lasts = Duration::from_nanos(deadline_ns.saturating_sub(now.monotonic_ns));
                if let Err(end) = self.start(lane, (&order.body, table(&taps)), lasts, allowed) {
                    log_end(lane, &end);
                    self.happened(AgentEvent::Exited { lane, end }, connection);
                }
            }
            AgentAction::Extend { lane, deadline_ns, allowed } => {
                let lasts = Duration::from_nanos(deadline_ns.saturating_sub(now.monotonic_ns));
                self.with(lane, |running| {
                    running.monitor.renew(lasts);
                    allowed.into_iter().for_each(|packets| running.monitor.allow(packets));
                });
            }
            AgentAction::TakeBack { lane, grant } => {
                self.with(lane, |running| running.monitor.take_back(grant));
            }
            AgentAction::Retap { lane, taps } => {
                self.with(lane, |running| running.monitor.retap(&table(&taps)));
            }
            AgentAction::Stop { lane } => self.stop(lane),
            AgentAction::Kill { lane } => self.with(lane, |running| {
                running.ended.get_or_insert_with(|| "it did not end when its lease did".into());
                running.monitor.kill();
            }),
            AgentAction::Close { lane } => {
                self.spool.push_lost(lane, now.wall_ns, None, true);
            }
            AgentAction::Observe(observed) => {
                if let Connection::Open { session, .. } = connection {
                    session.observe(observed);
                }
            }
            AgentAction::Renew(mut renew) => {
                renew.packets_per_second = self.packets_per_second();
                renew.health = health(&self.spool, self.monitors.len());
                if let Connection::Open { session, .. } = connection {
                    session.renew(renew);
                }
            }
        }
    }

    fn stop(&mut self, lane: Lane) {
        let course = if self.agent.wants(lane.job) { Course::Cut } else { Course::Whole };
        self.with(lane, |running| {
            running.course = course;
            running.monitor.stop();
        });
    }

    fn with(&mut self, lane: Lane, change: impl FnOnce(&mut Running)) {
        if let Some(running) = self.monitors.get_mut(&lane) {
            change(running);
        }
    }

    /// What the host bears already.
    fn borne(&self) -> Borne {
        let packets_per_second = self.packets_per_second();
        let takes = self.monitors.values().map(|running| running.cost.at(packets_per_second));
        let burden = takes.fold(Burden::default(), Burden::and);
        Borne { jobs: self.monitors.len(), burden, packets_per_second }
    }

    /// What jobs read here; a demonstration has few packets.
    fn packets_per_second(&self) -> u64 {
        if self.config.demo.is_some() { 0 } else { self.traffic.packets_per_second }
    }

    /// What tuples found here say of where they come from.
    fn origin(&self) -> Origin {
        Origin { agent: Some(self.config.name.clone()), labels: self.config.policy.labels.clone() }
    }

    /// Starts a monitor, if the host's owner allows what it is to do.
    fn start(
        &mut self,
        lane: Lane,
        (body, taps): (&[u8], TapTable),
        lasts: Duration,
        allowed: Option<u64>,
    ) -> Result<(), End> {
        let (policy, demo) = (&self.config.policy, self.config.demo.as_ref());
        let asked = asked(body, policy, &self.host, demo, self.borne());
        let Asked { order, arguments, cost } = asked.map_err(End::Refused)?;
        let packets_max = allowed.or(order.packets_max);
        let order = JobOrder { attempt: lane.attempt, packets_max, origin: self.origin(), taps, ..order };
        let bounds = Bounds { memory_max: order.memory_max, cores: order.workers.max(1) };
        let mut arguments = arguments;
        arguments.extend(["--lease".to_owned(), format!("{}ms", lasts.as_millis())]);
        let start =
            Start { program: &self.config.program, arguments: &arguments, order: &order.encode(), bounds };
        let monitor = Monitor::start(lane, &start, self.groups.as_ref(), self.news.clone())
            .map_err(|why| End::Crashed(format!("the monitor cannot be started: {why}")))?;
        tracing::info!("job {}: started", lane.job);
        let running = Running {
            monitor,
            counters: BTreeMap::new(),
            tuples: 0,
            watermark_ns: i64::MIN,
            loss: Loss::default(),
            closing: None,
            ended: None,
            course: Course::Whole,
            cost,
        };
        self.monitors.insert(lane, running);
        Ok(())
    }

    /// What a monitor says goes into the spool.
    fn on_news(&mut self, news: News, connection: &mut Connection) {
        let event = match news {
            News::Said(lane, frame) => self.on_frame(lane, frame),
            News::Gone(lane, status, complaint) => Some(self.on_gone(lane, status, &complaint)),
        };
        if let Some(event) = event {
            self.happened(event, connection);
        }
    }

    fn on_frame(&mut self, lane: Lane, frame: Frame) -> Option<AgentEvent> {
        let running = self.monitors.get_mut(&lane)?;
        match frame {
            Frame::Started => None,
            Frame::Report(payload) => {
                let head = collect::head(&payload)
                    .inspect_err(|why| tracing::warn!("job {}: {why}", lane.job))
                    .ok()?;
                let watermark_ns = head.watermark.0;
                // Of windows it is known by the monitor's last account only.
                let counted = running.counters.get("tuples").copied().unwrap_or(0);
                let tuples = match head.brings {
                    Brings::Rows(n) => n,
                    Brings::Windows => counted.saturating_sub(running.tuples),
                };
                let data = Data {
                    lane,
                    watermark_ns,
                    from_ns: running.watermark_ns.min(watermark_ns),
                    tuples,
                    form: form(head.brings).into(),
                    counters: running.counters.clone(),
                    payload: payload.into(),
                    ..Data::default()
                };
                (running.tuples, running.watermark_ns, running.loss) = (counted, watermark_ns, head.loss);
                self.spool.push(data);
                Some(AgentEvent::Reported(lane))
            }
            Frame::Account(counts) => {
                running.counters = counts.into_iter().collect();
                let used = running.counters.get(TAKEN).copied()?;
                let waits = running.counters.get(WAITING).is_some_and(|waiting| *waiting > 0);
                Some(AgentEvent::Used { lane, used, waits })
            }
            Frame::TookBack { grant, taken } => Some(AgentEvent::TookBack { lane, allowed: taken, grant }),
            Frame::Closing { cut_short, .. } => {
                running.closing = Some(cut_short);
                None
            }
        }
    }
}

impl Loop {
    fn on_gone(
        &mut self,
        lane: Lane,
        status: io::Result<std::process::ExitStatus>,
        complaint: &str,
    ) -> AgentEvent {
        let running = self.monitors.remove(&lane);
        let end = match running {
            None => End::Crashed("it was not known".into()),
            Some(running) => {
                let end = ending(&running, &status, complaint);
                if end == End::Clean {
                    let Running { counters, watermark_ns, loss, course, .. } = running;
                    let report = Report {
                        epoch: 0,
                        watermark: Timestamp(watermark_ns),
                        part: Part::default(),
                        loss,
                        lost: None,
                        open: None,
                    };
                    self.spool.push(Data {
                        lane,
                        watermark_ns,
                        from_ns: watermark_ns,
                        form: Form::Partial.into(),
                        is_last: course == Course::Whole,
                        counters,
                        payload: report.encode().into(),
                        ..Data::default()
                    });
                    if course == Course::Cut {
                        // What goes by until the next one begins is seen by nobody.
                        self.spool.push_lost(lane, self.now().wall_ns, None, true);
                    }
                }
                end
            }
        };
        log_end(lane, &end);
        AgentEvent::Exited { lane, end }
    }

    /// Ends monitors that take more than they were given.
    fn look_after_memory(&mut self) {
        for (lane, running) in &mut self.monitors {
            if running.ended.is_some() {
                continue;
            }
            if let Some(excess) = running.monitor.excess() {
                let why = format!("it took {excess} bytes of memory more than it may, and was ended");
                tracing::warn!("job {}: {why}", lane.job);
                running.ended = Some(why);
                running.monitor.kill();
            }
        }
    }

    /// Monitors say what they have, the spool keeps what the server has not taken.
    async fn end(&mut self, mut heard: Receiver<News>, mut connection: Connection, mut outgoing: Bytes) {
        let all: Vec<Lane> = self.monitors.keys().copied().collect();
        all.into_iter().for_each(|lane| self.stop(lane));
        let until = tokio::time::Instant::now() + GRACE;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let is_sent = outgoing.is_empty() && self.spool.lanes().is_empty();
            let is_open = matches!(connection, Connection::Open { .. });
            if self.monitors.is_empty() && (is_sent || !is_open) {
                break;
            }
            if outgoing.is_empty()
                && let Connection::Open { session, .. } = &mut connection
            {
                outgoing = session.poll_transmit(&mut self.spool).unwrap_or_default();
            }
            tokio::select! {
                Some(news) = heard.recv() => self.on_news(news, &mut connection),
                happened = step(&mut connection, &mut buffer, &mut outgoing), if is_open => {
                    self.on_step(&mut connection, happened, &buffer);
                    self.hear_session(&mut connection);
                }
                () = tokio::time::sleep_until(until) => break,
            }
        }
        self.spool.flush();
        if let Connection::Open { session, mut writing, .. } = connection {
            session_bye(session, &mut self.spool, &mut writing).await;
        }
    }
}

async fn session_bye(
    mut session: Box<AgentSession>,
    spool: &mut Spool,
    writing: &mut WriteHalf<Box<dyn Stream>>,
) {
    session.bye("this agent ends");
    if let Some(bytes) = session.poll_transmit(spool) {
        // A server that is gone need not be told.
        let _ = writing.write_all(&bytes).await;
    }
}

/// What has happened to the connection.
enum Happened {
    Due,
    Dialed(Result<Box<dyn Stream>, String>),
    Read(io::Result<usize>),
    Written(io::Result<()>),
}

/// The next thing that happens to the connection. Nothing is lost where it is given up in the middle.
async fn step(connection: &mut Connection, buffer: &mut [u8], outgoing: &mut Bytes) -> Happened {
    match connection {
        Connection::Waiting { until } => {
            tokio::time::sleep_until((*until).into()).await;
            Happened::Due
        }
        Connection::Dialing(dialing) => Happened::Dialed(match dialing.await {
            Ok(dialed) => dialed.map_err(|why| why.to_string()),
            Err(why) => Err(why.to_string()),
        }),
        Connection::Open { reading, writing, .. } => tokio::select! {
            read = reading.read(buffer) => Happened::Read(read),
            written = writing.write_buf(outgoing), if !outgoing.is_empty() => Happened::Written(written.map(drop)),
        },
    }
}

fn log_end(lane: Lane, end: &End) {
    match end {
        End::Clean => tracing::info!("job {}: ended", lane.job),
        End::Crashed(why) | End::Refused(why) => tracing::warn!("job {}: {why}", lane.job),
    }
}

/// How a monitor that is gone has ended.
fn ending(running: &Running, status: &io::Result<std::process::ExitStatus>, complaint: &str) -> End {
    let why = match (&running.ended, &running.closing, status) {
        (Some(why), _, _) => why.clone(),
        _ if running.monitor.was_killed_for_memory() => "the kernel ended it for want of memory".to_owned(),
        (None, Some(None), Ok(_)) => return End::Clean,
        // It has said everything that it had, and why there is no more.
        (None, Some(Some(why)), Ok(_)) => {
            tracing::warn!("{why}");
            return End::Clean;
        }
        // What is asked for cannot be: it would say so again.
        (None, None, Ok(status)) if status.code() == Some(WRONG_USE) => {
            return End::Refused(complaint.strip_prefix("error: ").unwrap_or(complaint).to_owned());
        }
        (None, None, Ok(status)) if complaint.is_empty() => format!("its process ended: {status}"),
        (None, None, Ok(status)) => format!("its process ended ({status}): {complaint}"),
        (None, _, Err(why)) => format!("its process cannot be waited for: {why}"),
    };
    End::Crashed(why)
}

/// Whose addresses are whose, as the server has said.
fn table(taps: &link::TapTable) -> TapTable {
    let all = |list: &[Bytes]| list.iter().filter_map(|ip| control::taps::read(ip)).collect();
    TapTable { own: all(&taps.own), others: all(&taps.others) }
}

fn form(brings: Brings) -> Form {
    match brings {
        Brings::Rows(_) => Form::Tuples,
        Brings::Windows => Form::Partial,
    }
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

/// A folder's default place: the system's for root, the user's own for others.
#[must_use]
pub fn usual_folder(is_root: bool, home: Option<&Path>) -> PathBuf {
    match home.filter(|_| !is_root) {
        Some(home) => home.join(".local/state/netalytics/agent"),
        None => PathBuf::from("/var/lib/netalytics/agent"),
    }
}

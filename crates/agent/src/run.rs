//! The running agent: one event loop over the server, its monitors, and the clock, which passes events to
//! [`control::AgentControl`] and executes its actions. Without a server it reconnects; its monitors continue until their
//! leases end.

mod connection;
mod monitor_lane;
mod monitors;
mod running_monitor;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use capture::packet_relay::PacketRelay;
use connect::RetryPolicy;
use connection::{ServerConnection, ServerConnectionEvent};
use control::{AgentAction, AgentControl, AgentEvent, AgentSettings};
use link::{
    AgentSession, Hello, HostCapacity, InterfaceAddresses, RecordLane, SessionTime, Spool,
    SpoolLimits, VERSIONS,
};
use plan::TapTable;
use running_monitor::RunningMonitor;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinHandle;

use crate::cgroups::CgroupRoot;
use crate::crash_notes::CrashNotes;
use crate::credentials::AgentCredentials;
use crate::dial::ServerEndpoint;
use crate::enroll::keep_renewed;
use crate::health::health;
use crate::host::{AgentHost, HostCapability};
use crate::last_boot;
use crate::orders::DemoCapture;
use crate::packets::{KeptPackets, refusal};
use crate::policy::HostPolicy;
use crate::process::ProcessEvent;
use crate::served_server::ServedServer;
use crate::spool_files::SpoolFiles;
use crate::traffic::{TrafficMeter, packets_now};

/// Configuration of an agent.
pub struct AgentConfig {
    /// The server.
    pub server: ServerEndpoint,
    /// Name.
    pub name: String,
    /// Policy of the host's owner.
    pub policy: HostPolicy,
    /// Data folder.
    pub folder: PathBuf,
    /// Path of this program.
    pub program: PathBuf,
    /// Version, for humans.
    pub version: String,
    /// Limits of the spool.
    pub spool: SpoolLimits,
    /// Demo capture in place of interfaces.
    pub demo: Option<DemoCapture>,
    /// Receiver of export messages, if the policy has addresses for it.
    pub exports: Option<PacketRelay>,
    /// Certificate, which the agent renews; `None`: the agent uses a token.
    pub credentials: Option<AgentCredentials>,
}

/// Silence after which the server counts as disconnected.
const SILENCE_NS: u64 = 15_000_000_000;
/// Maximum unprocessed messages of monitors.
const NEWS_MAX: usize = 64;
/// Interval at which monitors' memory is checked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the host's addresses are checked.
const ADDRESSES_EVERY: Duration = Duration::from_secs(5);
/// Time limit for monitors to deliver their results when the agent ends.
const GRACE: Duration = Duration::from_secs(5);
const READ_BYTES: usize = 64 << 10;

struct AgentLoop {
    config: AgentConfig,
    host: AgentHost,
    boot: u64,
    began: Instant,
    agent: AgentControl,
    spool: Spool,
    notes: CrashNotes,
    serves: ServedServer,
    groups: Option<CgroupRoot>,
    monitors: BTreeMap<RecordLane, RunningMonitor>,
    news: Sender<ProcessEvent>,
    failures: u32,
    traffic: TrafficMeter,
    /// Kept packets, if the policy permits them.
    packets: Option<KeptPackets>,
    /// Previous incarnation, if that ended in order.
    boot_ended: u64,
    /// Set when the agent ends.
    ending: Option<AgentEnding>,
}

/// Completeness of the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentEnding {
    /// All results that the monitors have produced so far were received.
    InOrder,
    /// Results of a monitor were lost.
    Lossy,
}

/// Runs until `stop` resolves, then collects the monitors' last results within a time limit.
///
/// # Errors
/// `io::Error` if the agent's folder cannot be used.
pub async fn run(config: AgentConfig, stop: impl Future<Output = ()>) -> io::Result<()> {
    let (news, heard) = channel(NEWS_MAX);
    let renewing = config
        .credentials
        .clone()
        .map(|own| tokio::spawn(keep_renewed(config.server.clone(), own)));
    let mut work = AgentLoop::new(config, news)?;
    work.serve(heard, stop).await;
    renewing.inspect(JoinHandle::abort);
    Ok(())
}

/// Properties of this host.
fn host(config: &AgentConfig) -> AgentHost {
    let mut host = AgentHost::look();
    if config.demo.is_some() {
        host.interfaces = vec![DemoCapture::INTERFACE.into()];
    }
    let exports = config.exports.as_ref().map(|_| HostCapability::Exports);
    let packets = config.policy.packets.map(|_| HostCapability::Packets);
    host.capabilities.extend(exports.into_iter().chain(packets));
    host
}

/// Packets that this host keeps, if the policy permits it.
fn packets(
    config: &AgentConfig,
    host: &AgentHost,
    news: &Sender<ProcessEvent>,
) -> io::Result<Option<KeptPackets>> {
    let Some(limits) = config.policy.packets else {
        return Ok(None);
    };
    let interfaces = permitted(config, host);
    let policy = (&config.policy, limits);
    let news = news.clone();
    KeptPackets::new(&config.folder, &config.program, policy, &interfaces, news).map(Some)
}

/// Interfaces from which the policy permits capturing.
fn permitted(config: &AgentConfig, host: &AgentHost) -> Vec<String> {
    let allowed = |name: &&String| config.policy.allows_interface(name);
    host.interfaces.iter().filter(allowed).cloned().collect()
}

impl AgentLoop {
    fn new(config: AgentConfig, news: Sender<ProcessEvent>) -> io::Result<AgentLoop> {
        let boot = random()?;
        let files = SpoolFiles::in_folder(&config.folder.join("spool"))?;
        let notes = CrashNotes::read(&config.folder);
        let serves = ServedServer::read(&config.folder);
        let boot_ended = last_boot::take(&config.folder);
        let groups = CgroupRoot::of_this_process()
            .inspect_err(|why| {
                tracing::info!("no control groups; memory is checked periodically instead: {why}")
            })
            .ok();
        let host = host(&config);
        let packets = packets(&config, &host, &news)?;
        Ok(AgentLoop {
            host,
            packets,
            boot,
            began: Instant::now(),
            agent: AgentControl::new(boot, AgentSettings::default(), &notes.all()),
            spool: Spool::open(Box::new(files), config.spool, boot).after(boot_ended),
            notes,
            serves,
            groups,
            monitors: BTreeMap::new(),
            news,
            failures: 0,
            boot_ended,
            ending: None,
            traffic: TrafficMeter::begin(if config.demo.is_some() {
                0
            } else {
                packets_now(&config.policy)
            }),
            config,
        })
    }

    async fn serve(&mut self, mut heard: Receiver<ProcessEvent>, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut connection = ServerConnection::Waiting {
            until: Instant::now(),
        };
        let mut looked = tokio::time::interval(LOOK_EVERY);
        let mut addresses = tokio::time::interval(ADDRESSES_EVERY);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.hear_session(&mut connection);
            connection.fill(&mut self.spool);
            let timer = self.timer(&connection);
            tokio::select! {
                () = &mut stop => break,
                happened = connection.step(&mut buffer) => self.on_step(&mut connection, happened, &buffer),
                Some(news) = heard.recv() => self.on_news(news, &mut connection),
                _ = looked.tick() => {
                    self.look_after_memory();
                    self.packets.iter_mut().for_each(KeptPackets::tend);
                    let packets = self.packets();
                    self.traffic.look(packets);
                }
                _ = addresses.tick() => self.look_at_addresses(&mut connection),
                () = tokio::time::sleep_until(timer.into()) => {
                    let now = self.now();
                    if let Some(session) = connection.session_mut() {
                        session.handle_timeout(now);
                    }
                    self.happened(AgentEvent::Tick, &mut connection);
                }
            }
        }
        self.end(heard, connection).await;
    }

    fn now(&self) -> SessionTime {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        SessionTime {
            monotonic_ns: self.began.elapsed().as_nanos() as u64,
            wall_ns: i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX),
        }
    }

    fn timer(&self, connection: &ServerConnection) -> Instant {
        let session = connection
            .session()
            .and_then(|session| session.poll_timeout());
        let at = self.agent.timeout().into_iter().chain(session).min();
        let far = Instant::now() + Duration::from_secs(3600);
        at.map_or(far, |ns| self.began + Duration::from_nanos(ns))
            .min(far)
    }

    fn hear_session(&mut self, connection: &mut ServerConnection) {
        while let Some(event) = connection.session_mut().and_then(AgentSession::poll_event) {
            use link::AgentSessionEvent as Told;
            match event {
                Told::Welcomed { server, .. } => {
                    self.serves.learn(server);
                    let url = self.config.server.url();
                    match std::mem::take(&mut self.failures) {
                        0 => tracing::info!("{url} has accepted this agent"),
                        // Failures were logged, so their end is logged, too.
                        _ => tracing::warn!("{url} has accepted this agent again"),
                    }
                    self.happened(AgentEvent::Connected, connection);
                }
                Told::Desired(desired) => self.happened(AgentEvent::Desired(desired), connection),
                Told::Granted(granted) => self.happened(AgentEvent::Granted(granted), connection),
                Told::ObserveAll => self.happened(AgentEvent::ObserveAll, connection),
                Told::PacketsAsked(request) => {
                    let reply = match &mut self.packets {
                        Some(packets) => packets.ask(&request),
                        None => Some(refusal(request.request, "this host keeps no packets")),
                    };
                    if let (Some(reply), Some(session)) = (reply, connection.session_mut()) {
                        session.reply_packets(reply);
                    }
                }
                Told::Preserve(alert) => {
                    if let Some(packets) = &mut self.packets {
                        packets.preserve(&alert.rule);
                    }
                }
                Told::Drained(lane) => self.happened(AgentEvent::Drained(lane), connection),
                Told::Refused(refuse) if refuse.server != 0 => {
                    self.begin_again(refuse.server);
                    *connection = ServerConnection::Waiting {
                        until: Instant::now() + self.pause(),
                    };
                }
                Told::Refused(refuse) => self.disconnect(
                    connection,
                    &format!(
                        "{} rejects this agent: {}",
                        self.config.server.url(),
                        refuse.reason
                    ),
                ),
                Told::Closed(why) => {
                    let why = format!("{} is disconnected: {why}", self.config.server.url());
                    self.disconnect(connection, &why);
                }
            }
        }
    }

    /// Another server answers at the same address: the results for the previous one are discarded, because job numbers
    /// now mean other jobs. The agent starts a new incarnation for this server.
    fn begin_again(&mut self, server: u64) {
        let Ok(boot) = random() else { return };
        let monitors = std::mem::take(&mut self.monitors);
        monitors.values().for_each(|running| running.monitor.kill());
        let (records, tuples) = self.spool.begin_again(boot);
        tracing::warn!(
            "{} is a different server with its own jobs: data for the previous server is discarded ({} \
             monitors, {records} records with {tuples} tuples)",
            self.config.server.url(),
            monitors.len(),
        );
        self.notes.forget_all();
        self.boot = boot;
        self.agent = AgentControl::new(boot, AgentSettings::default(), &[]);
        // Last step: an agent that dies earlier repeats it.
        self.serves.learn(server);
    }

    fn disconnect(&mut self, connection: &mut ServerConnection, why: &str) {
        tracing::warn!("{why}");
        *connection = ServerConnection::Waiting {
            until: Instant::now() + self.pause(),
        };
        self.happened(AgentEvent::Disconnected, connection);
    }

    /// Grows with every failure, with jitter, so that agents do not reconnect simultaneously.
    fn pause(&mut self) -> Duration {
        let policy = if self.monitors.is_empty() {
            RetryPolicy::AGENT
        } else {
            RetryPolicy::AGENT_WITH_LEASES
        };
        let delay = policy.delay(self.failures, self.boot);
        self.failures = self.failures.saturating_add(1);
        delay
    }

    fn on_step(
        &mut self,
        connection: &mut ServerConnection,
        happened: ServerConnectionEvent,
        buffer: &[u8],
    ) {
        match happened {
            ServerConnectionEvent::Due => {
                *connection = ServerConnection::dial(self.config.server.clone())
            }
            ServerConnectionEvent::Dialed(Ok(stream)) => {
                let session = AgentSession::new(self.hello(), SILENCE_NS, self.now());
                *connection = ServerConnection::open(session, stream);
            }
            ServerConnectionEvent::Dialed(Err(why)) => self.disconnect(connection, &why),
            ServerConnectionEvent::Read(Ok(0)) => {
                let why = format!("{} has closed the connection", self.config.server.url());
                self.disconnect(connection, &why);
            }
            ServerConnectionEvent::Read(Ok(n)) => {
                let now = self.now();
                if let Some(session) = connection.session_mut()
                    && let Err(why) = session.handle_bytes(now, &buffer[..n], &mut self.spool)
                {
                    self.disconnect(connection, &format!("{}: {why}", self.config.server.url()));
                }
            }
            ServerConnectionEvent::Written(Ok(())) => {}
            ServerConnectionEvent::Read(Err(why)) | ServerConnectionEvent::Written(Err(why)) => {
                self.disconnect(connection, &format!("{}: {why}", self.config.server.url()))
            }
        }
    }

    fn hello(&mut self) -> Hello {
        let interfaces = permitted(&self.config, &self.host);
        let ceiling = self.config.policy.ceiling(&self.host);
        Hello {
            version_min: *VERSIONS.start(),
            version_max: *VERSIONS.end(),
            agent: self.config.name.clone(),
            boot: self.boot,
            labels: self.config.policy.labels.clone(),
            capabilities: self
                .host
                .capabilities
                .iter()
                .map(|what| what.name().to_owned())
                .collect(),
            capacity: HostCapacity {
                cores: self.host.cores,
                memory_bytes: self.host.memory_bytes,
                addresses: ips(&self.addresses()),
                passing: self.passing(&interfaces),
                interfaces,
                packets_per_second: self.traffic.packets_per_second,
                jobs_cpu_millis_max: ceiling.cpu_millis,
                jobs_memory_bytes_max: ceiling.memory_bytes,
            },
            observed: self.agent.hello(),
            lanes: self.spool.lanes(),
            program: self.config.version.clone(),
            server: self.serves.server(),
            boot_ended: self.boot_ended,
        }
    }

    /// Addresses whose traffic passes permitted interfaces; traffic elsewhere is not captured.
    fn addresses(&self) -> Vec<(String, IpAddr)> {
        self.host
            .addresses_on(|name| self.config.policy.allows_interface(name))
    }

    fn passing(&self, interfaces: &[String]) -> Vec<InterfaceAddresses> {
        let of = |interface: &String| InterfaceAddresses {
            interface: interface.clone(),
            addresses: ips(&self.host.addresses_on(|name| name == interface)),
        };
        interfaces
            .iter()
            .map(of)
            .filter(|passing| !passing.addresses.is_empty())
            .collect()
    }

    /// Sends a new Hello if the host's addresses have changed.
    fn look_at_addresses(&mut self, connection: &mut ServerConnection) {
        let before = self.addresses();
        let AgentHost {
            addresses, below, ..
        } = AgentHost::look();
        self.host.addresses = addresses;
        self.host.below = below;
        if self.addresses() != before && connection.is_open() {
            self.disconnect(connection, "this host's addresses have changed");
        }
    }

    fn happened(&mut self, event: AgentEvent, connection: &mut ServerConnection) {
        let now = self.now();
        for action in self.agent.handle(event, now) {
            self.carry_out(action, now, connection);
        }
        self.settle();
    }

    fn carry_out(
        &mut self,
        action: AgentAction,
        now: SessionTime,
        connection: &mut ServerConnection,
    ) {
        match action {
            AgentAction::Note(note) => self.notes.add(note),
            AgentAction::Forget { job } => self.notes.forget(job),
            AgentAction::Start { .. } if self.ending.is_some() => {}
            AgentAction::Start {
                lane,
                order,
                taps,
                deadline_ns,
                allowed,
            } => {
                let lasts = Duration::from_nanos(deadline_ns.saturating_sub(now.monotonic_ns));
                if let Err(end) = self.start(lane, (&order.body, table(&taps)), lasts, allowed) {
                    monitors::log_end(lane, &end);
                    self.happened(AgentEvent::Exited { lane, end }, connection);
                }
            }
            AgentAction::Extend {
                lane,
                deadline_ns,
                allowed,
            } => {
                let lasts = Duration::from_nanos(deadline_ns.saturating_sub(now.monotonic_ns));
                self.with(lane, |monitor, of_lane| {
                    of_lane.until = Instant::now() + lasts;
                    allowed
                        .into_iter()
                        .for_each(|packets| monitor.allow(packets));
                });
            }
            AgentAction::TakeBack { lane, grant } => {
                self.with(lane, |monitor, _| monitor.take_back(grant));
            }
            AgentAction::Retap { lane, taps } => {
                self.with(lane, |_, of_lane| of_lane.taps = table(&taps));
            }
            AgentAction::Stop { lane } => self.stop(lane),
            AgentAction::Kill { lane } => {
                if let Some(event) = self.kill_overdue(lane) {
                    self.happened(event, connection);
                }
            }
            AgentAction::Close { lane } => {
                self.spool.push_lost(lane, now.wall_ns, None, true);
            }
            AgentAction::Observe(observed) => {
                if let Some(session) = connection.session_mut() {
                    session.observe(observed);
                }
            }
            AgentAction::Renew(mut renew) => {
                renew.packets_per_second = self.traffic.packets_per_second;
                renew.health = health(&self.spool, self.monitors.len());
                if let Some(session) = connection.session_mut() {
                    session.renew(renew);
                }
            }
        }
    }

    /// Packet counter: of the interfaces, or in a demonstration of the monitor that has read most.
    fn packets(&self) -> u64 {
        match self.config.demo {
            Some(_) => self
                .monitors
                .values()
                .map(RunningMonitor::packets)
                .max()
                .unwrap_or(0),
            None => packets_now(&self.config.policy),
        }
    }

    /// Collects the monitors' last results; the spool keeps what the server has not acknowledged.
    async fn end(&mut self, mut heard: Receiver<ProcessEvent>, mut connection: ServerConnection) {
        self.ending = Some(AgentEnding::InOrder);
        let lanes = self.monitors.values().flat_map(|running| &running.lanes);
        let all: Vec<RecordLane> = lanes.map(|lane| lane.lane).collect();
        all.into_iter().for_each(|lane| self.stop(lane));
        self.settle();
        let until = tokio::time::Instant::now() + GRACE;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let is_open = connection.is_open();
            let is_said = !is_open || (connection.is_sent() && self.spool.lanes().is_empty());
            if self.monitors.is_empty() && is_said {
                break;
            }
            connection.fill(&mut self.spool);
            tokio::select! {
                Some(news) = heard.recv() => self.on_news(news, &mut connection),
                happened = connection.step(&mut buffer), if is_open => {
                    self.on_step(&mut connection, happened, &buffer);
                    self.hear_session(&mut connection);
                }
                () = tokio::time::sleep_until(until) => break,
            }
        }
        if self.spool.flush()
            && self.monitors.is_empty()
            && self.ending == Some(AgentEnding::InOrder)
        {
            self.notes.forget_all();
            last_boot::write(&self.config.folder, self.boot);
        }
        connection.bye(&mut self.spool).await;
    }
}

/// Converts the server's tap table.
fn table(taps: &link::TapTableMessage) -> TapTable {
    let all = |list: &[Bytes]| {
        list.iter()
            .filter_map(|ip| control::taps::read(ip))
            .collect()
    };
    TapTable {
        own: all(&taps.own),
        others: all(&taps.others),
    }
}

fn ips(addresses: &[(String, IpAddr)]) -> Vec<Bytes> {
    addresses
        .iter()
        .map(|(_, ip)| control::taps::write(*ip))
        .collect()
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Default folder: the system's for root, the user's own for others.
#[must_use]
pub fn usual_folder(is_root: bool, home: Option<&Path>) -> PathBuf {
    match home.filter(|_| !is_root) {
        Some(home) => home.join(".local/state/netalytics/agent"),
        None => PathBuf::from("/var/lib/netalytics/agent"),
    }
}

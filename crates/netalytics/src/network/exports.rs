//! A query that receives the exports of its switches. The receiver opens first; the exporters are configured then, and
//! removed before it closes, on every way of ending. A switch holds samples and records back; they are awaited at the end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use capture::live::StopSignal;
use capture::{PacketBlock, PacketSource, SourceCounters, SourceError, mirror_source};
use mirror::exporter::ExporterSlot;
use monitor::JobInput;
use monitor::exports::ExportConfig;
use monitor::job::JobConfig;
use plan::Plan;
use planner::physical::ExportPart;
use runner::{QueryRun, RateActuator};
use steer::{ExporterError, ExporterSite, RunningExporters};
use stream::rate_control::PermittedRates;

use super::exporters;
use crate::cli::flags::WorkFlags;
use crate::cli::verbosity::Verbosity;
use crate::network::plan::NetworkPlan;
use crate::process::failure::wrong_flags;
use crate::process::output;

/// Time in which an sFlow agent sends the samples that it holds: it does so once a second.
const HELD: Duration = Duration::from_millis(1500);
/// Time without a datagram after which all have arrived; an IPFIX exporter sends its cache when it is removed.
const QUIET: Duration = Duration::from_millis(300);
/// Maximum wait for the last datagrams.
const LAST_MAX: Duration = Duration::from_secs(5);

/// Maximum packets per sample that a goal of the rate sets.
const SAMPLING_MAX: u32 = 65_536;

/// The sampling rate of running exporters, which their source applies: one of this many packets; 0 until it is set.
#[derive(Clone, Default)]
pub struct ExporterRate(Arc<AtomicU32>);

impl RateActuator for ExporterRate {
    fn permitted(&self) -> PermittedRates {
        PermittedRates::OneIn { max: SAMPLING_MAX }
    }

    fn set_rate(&mut self, rate: f64) -> Result<(), String> {
        let sampling = (1.0 / rate).round().clamp(1.0, f64::from(SAMPLING_MAX));
        self.0.store(sampling as u32, Ordering::Relaxed);
        Ok(())
    }
}

/// An open receiver, and the exporters to configure.
pub struct ExportReceiver {
    part: ExportPart,
    sites: Vec<ExporterSite>,
    exports: ExportConfig,
    source: Box<dyn PacketSource>,
    address: SocketAddr,
    /// Ends the source.
    close: StopSignal,
    rate: ExporterRate,
}

impl ExportReceiver {
    /// Opens the receiver for the export of a plan. `exports`: reading of the messages.
    pub fn open(
        planned: &NetworkPlan,
        part: &ExportPart,
        flags: &WorkFlags,
        exports: ExportConfig,
    ) -> anyhow::Result<ExportReceiver> {
        let switches = exporters::switches(planned, part)?;
        let at = exporters::receiver(part, &switches, flags.network.receive)?;
        let close = StopSignal::default();
        let (source, address) =
            mirror_source::open_for_exporters(at, flags.live.buffer_size, &close)
                .map_err(|why| wrong_flags(why.to_string()))?;
        Ok(ExportReceiver {
            part: part.clone(),
            sites: exporters::sites(planned, part, switches, address),
            exports: ExportConfig {
                exporters: Some(exporters::identities(planned, part)),
                ..exports
            },
            source,
            address,
            close,
            rate: ExporterRate::default(),
        })
    }

    /// Control of the sampling rate.
    pub fn rate(&self) -> ExporterRate {
        self.rate.clone()
    }

    /// Configures the exporters, and starts the query. `stop` ends it.
    pub fn start(
        self,
        plan: &Plan,
        config: &JobConfig,
        telling: Verbosity,
        stop: &StopSignal,
    ) -> anyhow::Result<QueryRun> {
        let exporters = RunningExporters::start(self.sites).context("cannot configure exports")?;
        let part = &self.part;
        let is_told = telling != Verbosity::Errors;
        if is_told {
            let repaired = exporters.repaired().iter();
            repaired.for_each(|note| output::complain(&format!("note: {note}")));
            output::complain(&format!(
                "capturing from {}: {part}, sent to {}; Ctrl-C ends it",
                part.names(),
                self.address
            ));
        }
        let mut config = config.clone();
        config.monitor.exports = self.exports;
        let mut plan = plan.clone();
        // The time of LIMIT is that of the exporters; their last datagrams arrive later.
        let limit = std::mem::take(&mut plan.monitor.limit);
        let limited = StopSignal::default();
        let source = SteeredSource {
            is_sflow: part.slot == ExporterSlot::Sflow,
            phase: ExportPhase::Running(exporters),
            source: self.source,
            rate: self.rate,
            close: self.close,
            stop: stop.clone(),
            ends: limit
                .nanos
                .and_then(|ns| Some(Instant::now() + Duration::from_nanos(ns.try_into().ok()?))),
            limited: limited.clone(),
            own_errors: Vec::new(),
            errors: Vec::new(),
            heard: Instant::now(),
        };
        let input = JobInput::Each(vec![Box::new(source)]);
        let mut run = QueryRun::start(&plan, &config, input).context("cannot start the workers")?;
        run.limited = Some(limited);
        Ok(run)
    }
}

/// State of the exporters.
enum ExportPhase {
    /// The exporters run.
    Running(RunningExporters),
    /// The exporters run until the samples held at this time have arrived.
    Held(RunningExporters, Instant),
    /// The exporters are being removed.
    Removing(JoinHandle<Result<(), ExporterError>>),
    /// The exporters were removed at this time; their last datagrams may still arrive.
    Removed(Instant),
}

/// Datagrams of exporters that exist as long as it is read.
struct SteeredSource {
    is_sflow: bool,
    // Dropped before the receiver.
    phase: ExportPhase,
    source: Box<dyn PacketSource>,
    rate: ExporterRate,
    /// Ends the receiver.
    close: StopSignal,
    /// Requests the end.
    stop: StopSignal,
    /// Time of LIMIT.
    ends: Option<Instant>,
    /// Set when LIMIT ends the query.
    limited: StopSignal,
    own_errors: Vec<SourceError>,
    /// Errors of the receiver, and of this source.
    errors: Vec<SourceError>,
    /// Last datagram.
    heard: Instant,
}

impl SteeredSource {
    fn problem(&mut self, message: String) {
        self.own_errors.push(SourceError {
            path: "exports".into(),
            offset: None,
            message,
            after_packets: self.source.counters().packets,
        });
    }

    /// Whether the exporters are to end.
    fn is_over(&mut self, exporters: &RunningExporters) -> bool {
        if let Some(why) = exporters.lost() {
            self.problem(why);
            return true;
        }
        if self.ends.is_some_and(|ends| Instant::now() >= ends) {
            self.limited.stop();
            return true;
        }
        self.stop.is_asked()
    }

    /// The next phase.
    fn advance(&mut self, phase: ExportPhase) -> ExportPhase {
        let now = Instant::now();
        match phase {
            ExportPhase::Running(exporters) if self.is_over(&exporters) => {
                let held = if self.is_sflow { HELD } else { Duration::ZERO };
                ExportPhase::Held(exporters, now + held)
            }
            ExportPhase::Running(exporters) => {
                let sampling = self.rate.0.load(Ordering::Relaxed);
                if sampling != 0 {
                    exporters.set_sampling(sampling);
                }
                ExportPhase::Running(exporters)
            }
            ExportPhase::Held(exporters, until) if now >= until => {
                ExportPhase::Removing(thread::spawn(|| exporters.stop()))
            }
            ExportPhase::Removing(removing) if removing.is_finished() => {
                if let Some(why) = removed(removing) {
                    self.problem(why);
                }
                ExportPhase::Removed(now)
            }
            ExportPhase::Removed(at) => {
                let last = at.max(self.heard);
                if now.duration_since(last) >= QUIET || now.duration_since(at) >= LAST_MAX {
                    self.close.stop();
                }
                ExportPhase::Removed(at)
            }
            phase => phase,
        }
    }
}

/// Waits for the removal; returns the reason of a failure.
fn removed(removing: JoinHandle<Result<(), ExporterError>>) -> Option<String> {
    let why = match removing.join() {
        Ok(result) => result.err()?.to_string(),
        Err(_) => "the removal has failed".to_owned(),
    };
    Some(format!("exporters may remain: {why}"))
}

impl PacketSource for SteeredSource {
    fn next_block(&mut self, block: &mut PacketBlock) -> bool {
        let phase = std::mem::replace(&mut self.phase, ExportPhase::Removed(Instant::now()));
        self.phase = self.advance(phase);
        let goes_on = self.source.next_block(block);
        if !block.is_empty() {
            self.heard = Instant::now();
        }
        let known = self.source.errors().len() + self.own_errors.len();
        if known > self.errors.len() {
            self.errors = [self.source.errors(), &self.own_errors].concat();
        }
        goes_on
    }

    fn errors(&self) -> &[SourceError] {
        &self.errors
    }

    fn counters(&self) -> SourceCounters {
        self.source.counters()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        self.source.progress()
    }
}

impl Drop for SteeredSource {
    /// Removes the exporters of a query that ends otherwise, such as with an error of its output.
    fn drop(&mut self) {
        let phase = std::mem::replace(&mut self.phase, ExportPhase::Removed(Instant::now()));
        if let ExportPhase::Removing(removing) = phase {
            let _ = removing.join();
        }
    }
}

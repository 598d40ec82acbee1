//! The source of a run on this host: packets, a recording, Kafka, or monitors in a network. An enum, because each source
//! is opened from flags of its own and in two phases; a started source is a [`runner::TupleFeed`], or the workers of a
//! [`QueryRun`]. Rows of a server are not a source: the server plans and runs the query (`client/`).

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use capture::live::StopSignal;
use monitor::JobInput;
use monitor::exports::ExportConfig;
use monitor::job::JobConfig;
use parsers::tls_decrypt::TlsKeyStore;
use plan::{MonitorSpec, Plan, SampleMode};
use planner::{PlanOptions, exported_query};
use query::CheckedQuery;
use runner::bus::TopicReach;
use runner::replay::ReplayRun;
use runner::{QueryRun, RateActuator, RateRegulator, SamplingCost};
use stream::PrecisionLog;
use tracing::info;

use crate::cli::flags::{WorkFlags, WorkerCount};
use crate::cli::verbosity::Verbosity;
use crate::diagnose::no_rows;
use crate::kafka::{self, read::KafkaSource};
use crate::network::{self, exports::ExportReceiver, plan::NetworkPlan};
use crate::process::failure::wrong_flags;
use crate::process::output;
use crate::run::packet_writer;
use crate::source::tls_keys::{self, KeyArrival};
use crate::source::{packet_input, recording_replay};

/// An open source.
pub enum QuerySource {
    /// Packets, the files for reading them as export messages, and keys of TLS connections.
    Packets(JobInput, ExportConfig, Option<Arc<TlsKeyStore>>),
    /// A recording.
    Recording(Box<ReplayRun>),
    /// Published results on Kafka.
    Kafka(Box<KafkaSource>),
    /// A network, in which monitors will be started.
    Network(Box<NetworkPlan>),
    /// A network, in which exporters will be configured. The signal ends them.
    Exports(Box<ExportReceiver>, StopSignal),
}

impl QuerySource {
    /// Plans the query for the source of the flags, and opens the source.
    pub fn open(
        mut query: CheckedQuery,
        flags: &WorkFlags,
        options: &PlanOptions,
        telling: Verbosity,
        stop: &StopSignal,
    ) -> anyhow::Result<(Plan, QuerySource)> {
        let is_exported = flags.live.reads_exports()?;
        if is_exported {
            query = exported_query::of(query, options).map_err(wrong_flags)?;
        }
        check_goal(&query, flags)?;
        check_keys(flags)?;
        let budget = query.budget;
        let is_filtered = query.filter.is_some();
        if let Some(brokers) = &flags.bus.kafka {
            let (plan, source) = kafka::read::open(query, flags, brokers, options, telling)?;
            mention(&plan, telling);
            return Ok((plan, QuerySource::Kafka(Box::new(source))));
        }
        if recording_replay::asked(&flags.read)? {
            let (plan, source) = recording_replay::open(query, flags, options, telling)?;
            mention(&plan, telling);
            return Ok((plan, QuerySource::Recording(Box::new(source))));
        }
        if !is_exported {
            exported_query::check_captured(&query).map_err(wrong_flags)?;
        }
        let mut plan = planner::lower_with(&query, options);
        mention(&plan, telling);
        let source = match &flags.network.network {
            Some(path) => {
                let planned = network::plan::plan(&flags.network, path, &plan, budget)?;
                match &planned.plan.export {
                    Some(part) => {
                        query = exported_query::of(query, options).map_err(wrong_flags)?;
                        plan = planner::lower_with(&query, options);
                        let exports = packet_input::export_config(&flags.live, &plan.monitor)?;
                        let receiver = ExportReceiver::open(&planned, part, flags, exports)?;
                        QuerySource::Exports(Box::new(receiver), stop.clone())
                    }
                    None => {
                        let place =
                            "for monitors in a network; --mode sflow sets the rate of exporters";
                        query.without_goal(place).map_err(wrong_flags)?;
                        QuerySource::Network(Box::new(planned))
                    }
                }
            }
            None => {
                let workers = workers(flags, is_filtered);
                let input =
                    packet_input::open(&flags.read, &flags.live, workers, &plan.monitor, stop)?;
                let exports = export_config(flags, &plan.monitor)?;
                QuerySource::Packets(input, exports, tls_keys(flags)?)
            }
        };
        Ok((plan, source))
    }

    /// Whether new data arrives while the run reads.
    pub fn is_live(&self, flags: &WorkFlags) -> bool {
        match self {
            QuerySource::Packets(..) | QuerySource::Recording(_) => flags.live.is_live(),
            QuerySource::Kafka(source) => source.reach != TopicReach::Past,
            QuerySource::Network(_) | QuerySource::Exports(..) => true,
        }
    }

    /// Whether packets arrive at this machine, and the source ends by itself when stopped.
    pub fn is_capture(&self, flags: &WorkFlags) -> bool {
        flags.live.is_live() || matches!(self, QuerySource::Exports(..))
    }

    /// Whether the source reads packets of files.
    pub fn is_capture_file(&self, flags: &WorkFlags) -> bool {
        matches!(self, QuerySource::Packets(..)) && !flags.read.is_empty()
    }

    /// Starts the threads or processes of the run.
    pub fn start(
        self,
        plan: &Plan,
        config: &JobConfig,
        flags: &WorkFlags,
        telling: Verbosity,
    ) -> anyhow::Result<QueryRun> {
        let bytes_max = config.stream.window_bytes_max;
        Ok(match self {
            QuerySource::Packets(input, exports, keys) => {
                let mut config = config.clone();
                config.monitor.exports = exports;
                config.monitor.keys = keys;
                QueryRun::start(plan, &config, input).context("cannot start the workers")?
            }
            QuerySource::Recording(replay) => {
                QueryRun::replay(plan, config.stream.clone(), *replay)
            }
            QuerySource::Kafka(source) => {
                let feed = source.feed(plan, config, (flags.bus.engine, &flags.bus.flink))?;
                QueryRun::fed(plan, bytes_max, feed)
            }
            QuerySource::Network(planned) => {
                let program = flags.monitor_program.as_deref();
                let running = network::run::start(plan, &planned, &config.stream, program)?;
                if telling != Verbosity::Errors {
                    output::complain(&format!(
                        "capturing from {}; Ctrl-C ends it",
                        running.words()
                    ));
                }
                QueryRun::fed(plan, bytes_max, Box::new(running))
            }
            QuerySource::Exports(receiver, stop) => receiver.start(plan, config, telling, &stop)?,
        })
    }
}

/// Keys are for packets that this process reads.
fn check_keys(flags: &WorkFlags) -> anyhow::Result<()> {
    let reads_packets = flags.bus.kafka.is_none()
        && flags.network.network.is_none()
        && !recording_replay::asked(&flags.read)?
        && !flags.live.reads_exports()?;
    if !flags.keys.is_empty() && !reads_packets {
        return Err(wrong_flags(
            "--keys is for packets that this process reads; monitors in a network, agents, and recordings take no keys",
        ));
    }
    Ok(())
}

/// Opens the keys of TLS connections, if there are any.
fn tls_keys(flags: &WorkFlags) -> anyhow::Result<Option<Arc<TlsKeyStore>>> {
    if flags.keys.is_empty() {
        let has_files = !flags.read.is_empty();
        return Ok(has_files.then(|| tls_keys::of_captures(&flags.read)));
    }
    let is_growing = flags.live.is_live() || flags.read.iter().any(|path| path == Path::new("-"));
    let arrival = if is_growing {
        KeyArrival::Growing(u64::try_from(flags.key_wait).unwrap_or(0))
    } else {
        KeyArrival::Complete
    };
    tls_keys::open(&flags.keys, &flags.read, arrival).map(Some)
}

/// Opens the files for reading export messages.
fn export_config(flags: &WorkFlags, wanted: &MonitorSpec) -> anyhow::Result<ExportConfig> {
    let live = &flags.live;
    let has_files = live.templates.is_some() || live.elements.is_some();
    if has_files && !live.reads_exports()? {
        return Err(wrong_flags(
            "--templates and --elements are for exporters, which packets do not have: add --exports, or --listen netflow://ADDR",
        ));
    }
    packet_input::export_config(live, wanted)
}

/// Prints reasons why there can be no rows, and with `-v` the parsed query.
fn mention(plan: &Plan, telling: Verbosity) {
    info!("query: {}", plan.query);
    if plan.monitor.sample == SampleMode::Auto && !plan.monitor.goal.is_set() {
        info!("SAMPLE auto applies to live input only: all flows of the files are read");
    }
    if telling != Verbosity::Errors {
        no_rows::never(plan)
            .iter()
            .for_each(|reason| output::complain(&format!("note: {reason}")));
    }
}

/// Rejects goals of the sampling rate for sources without control of the rate.
fn check_goal(query: &CheckedQuery, flags: &WorkFlags) -> anyhow::Result<()> {
    let is_exported = query.sample == SampleMode::Exported;
    let is_exporters_budget = is_exported && query.goal.cpu.is_some();
    if flags.network.costs.is_some() && flags.network.network.is_none() && !is_exporters_budget {
        return Err(wrong_flags(
            "--costs requires --network, or SAMPLE auto BUDGET over export messages",
        ));
    }
    let place = if flags.bus.kafka.is_some() {
        "over published data"
    } else if recording_replay::asked(&flags.read)? {
        "over recordings"
    } else if flags.network.network.is_some() {
        // Depends on the plan.
        return Ok(());
    } else {
        let reads_files = !is_exported && !flags.live.is_live();
        return match query.goal.cpu.filter(|_| reads_files) {
            Some(_) => Err(wrong_flags(
                "BUDGET limits the CPU time of a live capture; files are read as fast as possible: use SAMPLE auto ERROR 5%",
            )),
            None => Ok(()),
        };
    };
    query.without_goal(place).map_err(wrong_flags)
}

/// The regulator of a sampling rate with a goal. Its log and its ceiling are set in `config`.
pub fn regulator(
    plan: &Plan,
    source: &QuerySource,
    flags: &WorkFlags,
    config: &mut JobConfig,
) -> anyhow::Result<Option<RateRegulator>> {
    let goal = plan.monitor.goal;
    if !goal.is_set() {
        return Ok(None);
    }
    let log = PrecisionLog::new(goal.error);
    config.stream.precision = Some(log.clone());
    let is_exported = plan.monitor.sample == SampleMode::Exported;
    let actuator: Option<Box<dyn RateActuator>> = match source {
        QuerySource::Exports(receiver, _) => Some(Box::new(receiver.rate())),
        _ if is_exported => None,
        _ => Some(Box::new(config.ceiling.clone())),
    };
    let cost = if is_exported {
        let costs = network::plan::costs(flags.network.costs.as_deref())?;
        SamplingCost::Samples(costs.export.sflow_sample_ns)
    } else {
        SamplingCost::Process
    };
    Ok(Some(RateRegulator::new(goal, log, actuator, cost)))
}

/// Number of workers. With look-back for matching flows, no separate reader thread is used: it would be far ahead of
/// the decisions on its packets.
fn workers(flags: &WorkFlags, is_filtered: bool) -> WorkerCount {
    if !flags.live.is_live() && packet_writer::looks_back(flags, is_filtered) {
        WorkerCount(Some(1))
    } else {
        flags.workers
    }
}

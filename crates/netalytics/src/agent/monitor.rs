//! `netalytics monitor -i IFACE` or `-r FILE…`: started by an agent for a job. It reads an order from standard input (a
//! length of four bytes, little endian, and a [`plan::message::JobOrder`]), computes its results, and writes them as
//! frames to standard output, or publishes them to the topics of the order and reports only its progress. The plan
//! defines the query; the flags define the permitted input and resources.

use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bus::lanes::log::CaptureBytes;
use bus::{NewTopic, ProducerConfig};
use capture::live::StopSignal;
use capture::packet_relay;
use capture::seccomp::{FileAccess, NetworkAccess};
use monitor::allowance::PacketAllowance;
use monitor::flush::FlushRequests;
use monitor::job::JobConfig;
use monitor::{JobInput, SharedSlice, SharedTaps};
use plan::{Dataflow, Plan};
use runner::bus::PublishRun;
use runner::{FrameWriter, MemoryDivision, RelayRun, RowWriting, RunSummary};
use tuple::{AgentOrigin, RedactionSecret, Redactor};

use crate::agent::lease::{LeaseEnd, MonitorLease};
use crate::cli::flags::MonitorFlags;
use crate::cli::flags::live::LiveFlags;
use crate::kafka::connection;
use crate::kafka::publish::{
    KEPT, KafkaPublisher, LAST, PARTITIONS, TopicPublication, UNACKNOWLEDGED_BYTES, dropped,
};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::order_input::{block, order};
use crate::process::output;
use crate::run::privileges;
use crate::source::{live_capture, packet_input};

/// Runs the order.
pub fn monitor(flags: &MonitorFlags) -> anyhow::Result<CommandOutcome> {
    let order = order(&block(&mut io::stdin().lock())?)?;
    let dataflow = order.plan.dataflow.with_groups_max(flags.limits.groups_max);
    let plan = Plan {
        dataflow,
        ..order.plan
    };
    let (plan, dataflows) = if order.topics.is_empty() || !plan.dataflow.pipelines.is_empty() {
        (plan.clone(), vec![plan.dataflow])
    } else {
        planner::published_tuples(&plan)
    };
    let capturing = flags.live.is_live();
    let stop = StopSignal::default();
    let input = match (&flags.demo, &flags.exports_from) {
        (_, Some(socket)) => {
            let source = packet_relay::connect(socket, &stop).with_context(|| {
                format!("cannot read export messages from {}", socket.display())
            })?;
            JobInput::Each(vec![live_capture::filter(source, &filtered(&flags.live))?])
        }
        (Some(capture), None) => {
            let pause = Duration::from_nanos(flags.demo_pause.unsigned_abs());
            let source = capture::LoopedReplay::new(capture, pause, &stop);
            let source = Box::new(if flags.demo_in_step {
                source.in_step()
            } else {
                source
            });
            JobInput::Each(vec![live_capture::filter(source, &filtered(&flags.live))?])
        }
        // The parent process receives the problem and decides whether to wait.
        (None, None) => packet_input::open(
            &flags.read,
            &LiveFlags {
                no_wait: true,
                ..flags.live.clone()
            },
            flags.workers,
            &plan.monitor,
            &stop,
        )?,
    };
    let exports = packet_input::export_config(&flags.live, &plan.monitor)?;
    let taps = SharedTaps::new(order.taps.clone());
    let slice = SharedSlice::default();
    let lasts = flags
        .lease
        .map(|ns| Duration::from_nanos(ns.unsigned_abs()));
    let allowance = order
        .packets_max
        .map(|packets| PacketAllowance::new(packets, &stop));
    let flush = FlushRequests::default();
    let keep = || {
        let told = (
            taps.clone(),
            slice.clone(),
            allowance.clone(),
            flush.clone(),
        );
        MonitorLease::keep(lasts, &stop, told).context("cannot keep the lease")
    };
    let mut publisher = None;
    let mut kept = None;
    if !order.topics.is_empty() {
        // The publisher may wait for brokers and must end on request in the meantime.
        kept = Some(keep()?);
        publisher = Some(open_publisher(
            flags,
            (&plan, &dataflows),
            (&order.topics, order.job, &order.origin),
            &stop,
        )?);
    }
    let network = if publisher.is_some() {
        NetworkAccess::Internet
    } else {
        NetworkAccess::Closed
    };
    let signals =
        privileges::drop_all(&flags.live, &stop, FileAccess::ReadOnly, network, || Ok(()))?;
    let lease = kept.map_or_else(keep, Ok)?;
    let limits = flags.limits.of_run();
    let mut config = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce).config(&limits);
    config.allowance = allowance;
    config.flush = flush;
    // Readers of topics mark the windows in which they begin.
    config.marks_begin = (capturing || flags.demo.is_some()) && publisher.is_none();
    config.monitor.taps = Some(taps);
    config.monitor.slice = Some(slice);
    config.monitor.exports = exports;
    config.monitor.origin = Arc::new(order.origin);
    // Output leaves the machine, so it is redacted.
    config.stream.redactor = order
        .redaction
        .map(|key| Redactor::new(RedactionSecret::new(&key.0)));
    let mut out = BufWriter::new(io::stdout().lock());
    // Live sources observe the stop signal themselves: packets that have arrived are still processed.
    let heeded = (!capturing && flags.demo.is_none()).then_some(&stop);
    let why = || {
        let why = lease
            .ended()
            .and_then(LeaseEnd::why)
            .or(signals.name())
            .map(str::to_owned);
        why.filter(|_| stop.is_asked())
    };
    let summary = match publisher {
        None => {
            let relay = RelayRun::start(&plan, &config, input, &mut out);
            let mut relay = relay.context("cannot start the workers")?;
            relay.go(heeded);
            let summary = relay.end(&plan, why()).context("nobody listens")?;
            summary
                .complaints()
                .for_each(|text| output::complain(&format!("error: {text}")));
            summary
        }
        Some(publisher) => {
            let input = (input, heeded);
            publish(
                publisher,
                (&plan, &dataflows),
                &config,
                input,
                why,
                &mut out,
            )?
        }
    };
    Ok(if summary.is_complete() {
        CommandOutcome::Done
    } else {
        CommandOutcome::Incomplete
    })
}

/// The flags with the capture filter, for sources that are not opened by flags.
fn filtered(live: &LiveFlags) -> LiveFlags {
    LiveFlags {
        filter: live.capture_filter.clone().unwrap_or_default(),
        ..live.clone()
    }
}

/// Publishes results, and reports progress.
fn publish(
    KafkaPublisher {
        producer,
        lane,
        what,
        begins_ns,
        feedback,
    }: KafkaPublisher,
    (plan, dataflows): (&Plan, &[Dataflow]),
    config: &JobConfig,
    (input, heeded): (JobInput, Option<&StopSignal>),
    why: impl Fn() -> Option<String>,
    out: &mut dyn Write,
) -> anyhow::Result<RunSummary> {
    let to = (producer.clone(), what, begins_ns);
    let mut publishing = PublishRun::start((plan, dataflows), config, input, to, feedback)
        .context("cannot start the workers")?;
    let mut frames = FrameWriter::new(out, config.allowance.clone());
    let went = publishing.go(&lane, heeded, &mut |_| {}, &mut |_| {}, Some(&mut frames));
    let loss = publishing.capture_loss();
    let (mut summary, flushed) = publishing.end(plan, LAST, why());
    lane.end(
        Some(CaptureBytes {
            seen_bytes: loss.seen,
            unseen_bytes: loss.lost,
        }),
        connection::PATIENCE,
    );
    // Undelivered records are lost at the end of this process and must be reported.
    went.and(flushed)?;
    summary.output_errors.extend(
        summary
            .sent
            .iter()
            .flat_map(|sent| dropped(sent, &producer.trouble())),
    );
    summary
        .complaints()
        .for_each(|text| output::complain(&format!("error: {text}")));
    frames.close(&summary).context("nobody listens")?;
    Ok(summary)
}

/// Connects to the brokers if results are published.
fn open_publisher(
    flags: &MonitorFlags,
    (plan, dataflows): (&Plan, &[Dataflow]),
    (topics, job, origin): (&[String], u64, &AgentOrigin),
    stop: &StopSignal,
) -> anyhow::Result<KafkaPublisher> {
    let brokers = flags
        .kafka
        .as_deref()
        .ok_or_else(|| wrong_flags("the order needs --kafka"))?;
    let kafka = connection::of(brokers, &flags.client)?;
    let agent = origin.agent.clone().unwrap_or_default();
    let publication = TopicPublication {
        plan,
        dataflows,
        read: &flags.read,
        topics,
        new: NewTopic {
            partitions: PARTITIONS.cast_signed(),
            replication: None,
            retention: Some(KEPT),
            settings: runner::bus::settings(),
        },
        config: ProducerConfig {
            bytes_max: UNACKNOWLEDGED_BYTES,
            ..ProducerConfig::default()
        },
        about: vec![("job", job.to_string()), ("agent", agent)],
        capturing: flags.read.is_empty(),
        quiet: false,
    };
    publication.open_patiently(&kafka, stop)
}

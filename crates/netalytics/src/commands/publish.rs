//! `netalytics publish 'QUERY' -i IFACE --kafka HOST:PORT`: a monitor without an engine. Sends tuples of a query, or
//! cells of its groups, to Kafka for `query --kafka` and Flink.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bus::lanes::log::CaptureBytes;
use bus::{BusError, NewTopic, ProducerConfig};
use capture::live::StopSignal;
use capture::seccomp::{FileAccess, NetworkAccess};
use monitor::MonitorJob;
use plan::{Dataflow, Plan};
use planner::PlanOptions;
use runner::bus::{self as crossing, CeilingChange, PublishRun};
use runner::{MemoryDivision, RowWriting};
use tuple::{AgentOrigin, Redactor};

use crate::cli::flags::ProgressMode as When;
use crate::cli::flags::bus::{
    BrokerOutagePolicy, PublishContentFlag, PublishFlags, RecordCompression,
};
use crate::cli::query_text::CommandQuery;
use crate::diagnose::no_rows;
use crate::kafka::broker_notice::ROOM;
use crate::kafka::connection;
use crate::kafka::publish::{KafkaPublisher, LAST, TopicPublication, dropped};
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::output;
use crate::render::hosts;
use crate::render::summary_file::SummaryFile;
use crate::run::privileges;
use crate::run::progress::ReadProgress;
use crate::run::redaction::secret;
use crate::run::stats::WorkerStats;
use crate::source::packet_input;

/// Remaining wait after other records were not acknowledged in time.
const NO_MORE: Duration = Duration::from_secs(1);

/// Publishes until the input ends.
pub fn publish(flags: &PublishFlags, quiet: bool) -> anyhow::Result<CommandOutcome> {
    let create = |path| SummaryFile::create(path, flags.live.file_owner());
    let mut summary_file = flags.summary_json.as_deref().map(create).transpose()?;
    let (plan, dataflows) = plan(flags)?;
    if !quiet {
        no_rows::never(&plan)
            .iter()
            .for_each(|reason| output::complain(&format!("note: {reason}")));
    }
    let capturing = flags.live.is_live();
    let kafka = connection::of(&flags.kafka.kafka, &flags.kafka.client)?;
    let limits = flags.limits.of_run();
    let memory = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce);
    let mut config = memory.config(&limits);
    config.monitor.origin = Arc::new(AgentOrigin {
        agent: None,
        labels: flags.labels.iter().cloned().collect(),
    });
    // Output leaves the machine, so it is redacted.
    if !flags.no_redact {
        config.stream.redactor = Some(Redactor::new(secret(flags.redact_key.as_deref())?));
    }
    let topics = topics(&plan);

    let stop = StopSignal::default();
    let input = packet_input::open(
        &flags.read,
        &flags.live,
        flags.workers,
        &plan.monitor,
        &stop,
    )?;
    let publication = TopicPublication {
        plan: &plan,
        dataflows: &dataflows,
        read: &flags.read,
        topics: &topics,
        new: NewTopic {
            partitions: flags.partitions.cast_signed(),
            replication: flags.replication.map(i32::from),
            retention: Some(Duration::from_nanos(flags.retention.unsigned_abs())),
            settings: crossing::settings(),
        },
        config: producing(flags),
        about: Vec::new(),
        capturing,
        quiet,
    };
    let KafkaPublisher {
        producer,
        lane,
        what,
        begins_ns,
        feedback,
    } = publication.open(&kafka, &stop)?;
    let signals = privileges::drop_all(
        &flags.live,
        &stop,
        FileAccess::ReadOnly,
        NetworkAccess::Internet,
        || Ok(()),
    )?;
    if !quiet {
        output::complain(&format!(
            "publishing to partition {} of {}; Ctrl-C ends it",
            lane.partition(),
            topics.join(", ")
        ));
    }
    let mut publishing = PublishRun::start(
        (&plan, &dataflows),
        &config,
        input,
        (producer.clone(), what, begins_ns),
        feedback,
    )
    .context("cannot start the workers")?;
    // Live sources observe the stop signal themselves: packets that have arrived are still processed.
    let heeded = (!capturing).then_some(&stop);
    let mut stats = WorkerStats::new(None, signals.stats());
    let progress = ReadProgress::new(When::Never);
    let mut look = |job: &MonitorJob| stats.tick(|| job.readings(), &progress);
    let went = publishing.go(&lane, heeded, &mut notes(quiet), &mut look, None);
    let cut_short = signals.name().filter(|_| !capturing).map(|signal| {
        format!(
            "{signal} ended the run before the end of the input; the published data is incomplete"
        )
    });
    let loss = publishing.capture_loss();
    let patience = match &went {
        // The producer has already waited.
        Err(BusError::Stopped(_)) => NO_MORE,
        _ if signals.name().is_some() => ROOM,
        _ => LAST,
    };
    let (mut summary, flushed) = publishing.end(&plan, patience, cut_short);
    let patience = if flushed.is_ok() {
        connection::PATIENCE
    } else {
        NO_MORE
    };
    lane.end(
        Some(CaptureBytes {
            seen_bytes: loss.seen,
            unseen_bytes: loss.lost,
        }),
        patience,
    );
    summary.memory = Some(memory);
    let mut wrong: Vec<String> = [went.err(), flushed.err()]
        .into_iter()
        .flatten()
        .map(|error| error.to_string())
        .collect();
    wrong.dedup();
    wrong.extend(
        summary
            .sent
            .iter()
            .flat_map(|sent| dropped(sent, &producer.trouble())),
    );
    summary.output_errors.append(&mut wrong);
    summary
        .complaints()
        .for_each(|text| output::complain(&format!("error: {text}")));
    if !quiet {
        output::complain_lines(summary.text().trim_end());
    }
    summary_file
        .as_mut()
        .map_or(Ok(()), |file| file.write(&summary.json()))?;
    Ok(if summary.is_complete() {
        CommandOutcome::Done
    } else {
        CommandOutcome::Incomplete
    })
}

/// Prints the start and end of reduced sampling.
fn notes(quiet: bool) -> impl FnMut(CeilingChange) {
    let mut lowest = 1.0;
    move |CeilingChange { ceiling, who }| {
        let text = match (lowest < 1.0, ceiling < 1.0) {
            (false, true) => format!(
                "note: {who} is behind: SAMPLE auto reduces the rate to {:.3} % of the flows, and raises it later",
                ceiling * 100.0
            ),
            (true, false) => format!(
                "note: SAMPLE auto processes all flows again, after a minimum of {:.3} %",
                lowest * 100.0
            ),
            _ => String::new(),
        };
        lowest = if ceiling < 1.0 {
            ceiling.min(lowest)
        } else {
            1.0
        };
        if !quiet && !text.is_empty() {
            output::complain(&text);
        }
    }
}

/// The plan, and the dataflows to publish.
fn plan(flags: &PublishFlags) -> anyhow::Result<(Plan, Vec<Dataflow>)> {
    let mut names = hosts::read(flags.text.hosts.as_deref())?;
    let query = CommandQuery::read(&flags.text)?.check(&mut names, &flags.read)?;
    query.without_goal("by publish").map_err(wrong_flags)?;
    let options = PlanOptions {
        groups_max: flags.limits.groups_max,
        ..PlanOptions::default()
    };
    let plan = planner::lower_with(&query, &options);
    let has_processors = !plan.dataflow.pipelines.is_empty();
    let published = match (flags.publish, has_processors) {
        (None, true) | (Some(PublishContentFlag::Cells), true) => PublishContentFlag::Cells,
        (None, false) | (Some(PublishContentFlag::Tuples), _) => PublishContentFlag::Tuples,
        (Some(PublishContentFlag::Cells), false) => {
            return Err(wrong_flags("--publish cells requires PROCESS"));
        }
    };
    Ok(match published {
        PublishContentFlag::Tuples => planner::published_tuples(&plan),
        PublishContentFlag::Cells => (plan.clone(), vec![plan.dataflow]),
    })
}

fn topics(plan: &Plan) -> Vec<String> {
    let dataflow = &plan.dataflow;
    match dataflow.pipelines.len() {
        0 => dataflow
            .inputs
            .iter()
            .map(|input| runner::bus::tuples(&input.schema))
            .collect(),
        pipelines => (0..pipelines)
            .map(|pipeline| runner::bus::cells(&plan.monitor, dataflow, pipeline))
            .collect(),
    }
}

/// Limits for files, which can wait for brokers: the client busy-waits for acknowledgments while queued records are
/// older than its linger time, so only as much is queued as it sends in that time.
const OF_FILES: (u64, Duration) = (8 << 20, Duration::from_millis(100));

fn producing(flags: &PublishFlags) -> ProducerConfig {
    let given = ProducerConfig {
        bytes_max: flags.unacknowledged_max as u64,
        ..ProducerConfig::default()
    };
    let (bytes_max, linger) = match flags.away {
        BrokerOutagePolicy::Block if !flags.live.is_live() => {
            (given.bytes_max.min(OF_FILES.0), OF_FILES.1)
        }
        _ => (given.bytes_max, given.linger),
    };
    ProducerConfig {
        bytes_max,
        linger,
        away: match flags.away {
            BrokerOutagePolicy::Block => bus::OverflowPolicy::Block,
            BrokerOutagePolicy::Drop => bus::OverflowPolicy::Drop,
        },
        compression: match flags.compression {
            RecordCompression::Lz4 => bus::BatchCompression::Lz4,
            RecordCompression::Zstd => bus::BatchCompression::Zstd,
        },
    }
}

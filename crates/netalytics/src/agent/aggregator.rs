//! `netalytics aggregator`: started by a query in a network on a host of each pod. It reads the monitors to start from
//! standard input ([`AggregatorOrders`]), merges their results, and writes frames to standard output as a monitor does: one
//! partial result per window. It ends on `end` or at the end of standard input, as do its monitors.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::time::{Duration, Instant};

use anyhow::Context;
use capture::live::StopSignal;
use collect::{Collector, CollectorLanes, MonitorFrame, ReportPart, TakeRows, WorkerReport};
use plan::Plan;
use runner::{MemoryDivision, OPEN_EVERY_NS, RowWriting};
use stream::{EngineOutput, EngineSet, PartialResultSet};
use wire::Timestamp;

use crate::agent::lease::{LeaseEnd, LeaseReceivers, MonitorLease};
use crate::cli::flags::AggregatorFlags;
use crate::network::run::aggregator_orders::AggregatorOrders;
use crate::network::run::process_group::{ProcessGroup, ProcessReport};
use crate::process::failure::CommandOutcome;
use crate::process::order_input::order;
use crate::process::signals::SignalHandlers;

/// Interval at which the aggregator checks whether to stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Start timeout, shorter than that of the query.
const START_MAX: Duration = Duration::from_secs(15);
const END_MAX: Duration = Duration::from_secs(8);
/// Interval at which event time is reported without other messages.
const TIME_EVERY: Duration = Duration::from_millis(500);
/// Interval at which counters are reported.
const ACCOUNT_EVERY: Duration = Duration::from_secs(1);

/// Runs the orders.
pub fn aggregate(flags: &AggregatorFlags) -> anyhow::Result<CommandOutcome> {
    let AggregatorOrders { program, members } = AggregatorOrders::read(&mut io::stdin().lock())?;
    // All orders have the same query.
    let plan = order(&members[0].order)?.plan;
    let dataflow = plan.dataflow.with_groups_max(flags.limits.groups_max);
    let plan = Plan { dataflow, ..plan };
    let stop = StopSignal::default();
    let signals = SignalHandlers::end(&stop).context("cannot handle signals")?;
    let lease = MonitorLease::keep(None, &stop, LeaseReceivers::default())
        .context("cannot keep the lease")?;
    let limits = flags.limits.of_run();
    let config = MemoryDivision::divide(&limits, &plan, RowWriting::AtOnce)
        .config(&limits)
        .stream;
    let engines = EngineSet::worker(std::slice::from_ref(&plan.dataflow), &config);
    let mut team = ProcessGroup::new(Collector::relay_of_lanes(
        engines,
        config.window_bytes_max,
        OPEN_EVERY_NS,
    ));
    for member in &members {
        team.start(&member.starting(&program, &member.input()))?;
    }
    team.wait_for_start(START_MAX)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut out = AggregatorOutput::new(&mut out);
    while !stop.is_asked() && !team.is_over() && !out.is_unheard() {
        if let Some(heard) = team.hear(PATIENCE, &mut out.part) {
            out.heed(heard);
        }
        out.report(&mut team, false);
    }
    let mut last = Vec::new();
    team.end(END_MAX, &mut out.part, &mut |heard| last.push(heard));
    last.into_iter().for_each(|heard| out.heed(heard));
    out.report(&mut team, true);
    let why = lease
        .ended()
        .and_then(LeaseEnd::why)
        .or(signals.name())
        .filter(|_| stop.is_asked());
    out.close(why)?;
    Ok(if out.told == 0 {
        CommandOutcome::Done
    } else {
        CommandOutcome::Incomplete
    })
}

/// Pending output and its destination.
struct AggregatorOutput<'w> {
    out: &'w mut dyn Write,
    part: MergedResults,
    /// Last reported watermark, and the time of the report.
    watermark: Timestamp,
    reported: Instant,
    /// Counters by monitor.
    counts: BTreeMap<usize, Vec<(String, u64)>>,
    counted: Instant,
    /// Number of problems reported.
    told: usize,
    /// Error of `out`; nothing more is written then.
    failed: Option<io::Error>,
}

/// Merged results, until they are sent.
#[derive(Default)]
struct MergedResults(ReportPart);

impl TakeRows for MergedResults {
    fn take(&mut self, output: EngineOutput, _: &CollectorLanes) {
        self.0.add_rows(output.batch);
    }

    fn hand_on(&mut self, windows: PartialResultSet) {
        self.0.add_windows(windows);
    }
}

impl<'w> AggregatorOutput<'w> {
    /// Writes the start message.
    fn new(out: &'w mut dyn Write) -> AggregatorOutput<'w> {
        let now = Instant::now();
        let mut outgoing = AggregatorOutput {
            out,
            part: MergedResults::default(),
            watermark: Timestamp::MIN,
            reported: now,
            counts: BTreeMap::new(),
            counted: now,
            told: 0,
            failed: None,
        };
        outgoing.say(&MonitorFrame::Started);
        outgoing.flush();
        outgoing
    }

    fn is_unheard(&self) -> bool {
        self.failed.is_some()
    }

    fn heed(&mut self, heard: ProcessReport) {
        if let ProcessReport::Counted(at, counted) = heard {
            self.counts.insert(at, counted);
        }
    }

    /// Writes merged results immediately, and periodically the watermark and counters.
    fn report(&mut self, team: &mut ProcessGroup, is_last: bool) {
        let watermark = team.collector.watermark();
        let is_time = watermark > self.watermark && self.reported.elapsed() >= TIME_EVERY;
        if is_last || is_time || !self.part.0.is_empty() {
            self.watermark = watermark;
            self.reported = Instant::now();
            let part = std::mem::take(&mut self.part.0);
            let loss = team.collector.capture_loss();
            // Losses are reported before the end of their windows.
            let lost = team.collector.take_lost();
            let limited = team.collector.take_limited();
            let report = WorkerReport {
                epoch: 0,
                watermark,
                part,
                loss,
                lost,
                limited,
                open: None,
            };
            self.say(&MonitorFrame::Report(report.encode()));
            self.flush();
        }
        if is_last || self.counted.elapsed() >= ACCOUNT_EVERY {
            self.counted = Instant::now();
            self.say(&MonitorFrame::Account(together(&self.counts)));
            self.flush();
        }
        for text in team.problems.take() {
            self.told += 1;
            self.say(&MonitorFrame::Problem(text));
            self.flush();
        }
    }

    /// Writes the end message.
    fn close(&mut self, why: Option<&str>) -> anyhow::Result<()> {
        self.say(&MonitorFrame::Closing {
            cut_short: why.map(str::to_owned),
            summary: String::new(),
        });
        self.flush();
        self.failed
            .take()
            .map_or(Ok(()), Err)
            .context("nobody listens")
    }

    fn say(&mut self, frame: &MonitorFrame) {
        if self.failed.is_none() {
            self.failed = frame.write(self.out).err();
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
    }
}

/// Counters of all monitors: sums, but the minimum of rates.
fn together(counts: &BTreeMap<usize, Vec<(String, u64)>>) -> Vec<(String, u64)> {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in counts.values().flatten() {
        let so_far = all.get(name.as_str()).copied();
        let n = match (name.as_str(), so_far) {
            (_, None) => *n,
            ("sample_ppm" | "slice_level", Some(other)) => other.min(*n),
            (_, Some(other)) => other.saturating_add(*n),
        };
        all.insert(name, n);
    }
    all.into_iter()
        .map(|(name, n)| (name.to_owned(), n))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_the_lowest_rate_is_reported() {
        let counted = |packets, ppm| {
            vec![
                ("packets".to_owned(), packets),
                ("sample_ppm".to_owned(), ppm),
            ]
        };
        let all = BTreeMap::from([(0, counted(3, 500)), (1, counted(4, 1_000_000))]);
        assert_eq!(together(&all), counted(7, 500));
        assert_eq!(together(&BTreeMap::new()), Vec::new());
    }
}

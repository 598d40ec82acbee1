//! Results of processors: a window is closed when all lanes have passed its end. Committed, unpublished data is in the
//! store as records, or, if large, as the partial result of many records.

use collect::{
    Collector, CollectorLanes, LaneActivity, LaneId, ReportPart, TakeRows, WorkerReport,
};
use plan::Plan;
use stream::{EngineOutput, EngineSet, LimitedStretch, LimitedStretches, LossCount, LossStretch};
use wire::Timestamp;

use crate::job::engine_config::engine_config;

/// Lane of the partial result of many records.
pub const ALL_LANES: LaneId = LaneId(u64::MAX);
/// Maximum remembered periods with lost packets.
const STRETCHES_MAX: usize = 4096;

/// Rows of a result as they come from the collector, with the lanes that they lack.
#[derive(Default)]
pub struct ReleasedRows(pub Vec<(EngineOutput, Vec<LaneId>)>);

impl TakeRows for ReleasedRows {
    fn take(&mut self, output: EngineOutput, lanes: &CollectorLanes) {
        lanes.cover(&output, &mut |output, coverage| {
            self.0.push((output, coverage.missing))
        });
    }
}

fn has_windows(plan: &Plan) -> bool {
    let mut pipelines = plan.dataflow.pipelines.iter();
    pipelines.all(|pipeline| pipeline.window.is_some())
}

/// See the module documentation.
pub struct WindowResults {
    /// Merge of the lanes.
    pub collector: Collector,
    /// Periods with lost packets that may overlap open windows.
    stretches: Vec<LossStretch>,
    /// Periods in which limits took effect, likewise.
    limited: LimitedStretches,
    /// Whether all results have windows; others cover the run only, from its begin.
    has_windows: bool,
    window_bytes_max: usize,
}

impl WindowResults {
    /// Creates an empty state.
    pub fn new(plan: &Plan, window_bytes_max: usize) -> WindowResults {
        let engines = EngineSet::new(
            std::slice::from_ref(&plan.dataflow),
            &engine_config(plan, window_bytes_max),
        );
        WindowResults {
            collector: Collector::of_lanes(engines, window_bytes_max),
            stretches: Vec::new(),
            limited: LimitedStretches::default(),
            has_windows: has_windows(plan),
            window_bytes_max,
        }
    }

    /// Watermark at which a report is no longer needed. `before`: loss in its lane's byte streams before it.
    pub fn over_at(&self, report: &WorkerReport, before: LossCount) -> i64 {
        let reach = self.collector.engine().reach_ns();
        let is_news = report.loss.lost != before.lost;
        let loss = is_news.then(|| report.watermark.0.saturating_add(reach));
        self.collector
            .over_at(report)
            .into_iter()
            .chain(loss)
            .max()
            .unwrap_or(i64::MIN)
    }

    /// Adds a report of a lane.
    pub fn merge(&mut self, lane: LaneId, report: WorkerReport, out: &mut ReleasedRows) {
        let (Timestamp(from_ns), before) = self.collector.lanes().told(lane);
        self.stretches.extend(report.lost);
        report
            .limited
            .into_iter()
            .for_each(|limited| self.limited.add(limited));
        if report.loss.lost > before.lost {
            let seen = report.loss.seen.saturating_sub(before.seen);
            let bytes = LossCount {
                seen,
                lost: report.loss.lost - before.lost,
            };
            let to_ns = report.watermark.0;
            self.stretches.push(LossStretch {
                from_ns,
                to_ns,
                packets: LossCount::default(),
                bytes,
            });
        }
        self.collector.take(lane, report, out);
        let open = self
            .collector
            .watermark()
            .0
            .saturating_sub(self.collector.engine().reach_ns());
        self.limited.forget_before(open);
        if self.stretches.len() > STRETCHES_MAX {
            self.stretches.retain(|stretch| stretch.to_ns >= open);
            self.stretches
                .drain(..self.stretches.len().saturating_sub(STRETCHES_MAX / 2));
        }
    }

    /// Marks the windows between the watermark and this time as approximate.
    pub fn mark_until(&mut self, until_ns: i64) {
        if !self.has_windows {
            return;
        }
        let from_ns = self.collector.watermark().0;
        let limited = LimitedStretch {
            from_ns,
            to_ns: until_ns.max(from_ns),
            times: 1,
        };
        self.limited.add(limited);
        self.collector.limit(limited);
    }

    /// Content of all open windows, encoded as records that replace all previous ones; each with the watermark at which
    /// it is no longer needed. `None`: it would not be smaller.
    pub fn in_short(&self, bytes_max: u64) -> Option<Vec<(i64, Vec<u8>)>> {
        let all = self.collector.peek(self.window_bytes_max)?;
        let nothing = || WorkerReport {
            epoch: 0,
            watermark: Timestamp::MIN,
            part: ReportPart::default(),
            loss: LossCount::default(),
            lost: None,
            limited: None,
            open: None,
        };
        let mut report = nothing();
        report.part.add_windows(all);
        let losses = self.stretches.iter().map(|stretch| WorkerReport {
            lost: Some(*stretch),
            ..nothing()
        });
        let limits = self.limited.iter().map(|limited| WorkerReport {
            limited: Some(*limited),
            ..nothing()
        });
        let records = std::iter::once(report).chain(losses).chain(limits);
        let over = |report: &WorkerReport| self.collector.over_at(report).unwrap_or(i64::MIN);
        let records: Vec<_> = records
            .map(|report| (over(&report), report.encode()))
            .collect();
        let bytes: usize = records.iter().map(|(_, record)| record.len()).sum();
        let largest = records
            .iter()
            .map(|(_, record)| record.len())
            .max()
            .unwrap_or(0);
        (bytes as u64 <= bytes_max && largest <= collect::REPORT_BYTES_MAX / 2).then_some(records)
    }

    /// Number of late tuples.
    pub fn late(&self) -> u64 {
        self.collector.counters().tuples_late
    }

    /// Resumes after the results published by an earlier collector.
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: &[Option<i64>]) {
        self.collector.begin_at(Timestamp(watermark_ns), latest_ns);
        self.collector.adopt(
            ALL_LANES,
            LaneActivity::Finished,
            Timestamp::MIN,
            LossCount::default(),
        );
    }
}

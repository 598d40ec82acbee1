//! A job that a monitor serves: its lease, and its part of the results. A job that joins a monitor that captures already
//! gets the results after a flush, and the counters and capture losses since then.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::Bytes;
use collect::ExporterCounts;
use control::MonitorEnd;
use link::RecordLane;
use plan::TapTable;
use stream::LossCount;

/// Counters that are current values, not totals since the start of a monitor.
const CURRENT: [&str; 4] = ["flows", "monitor_jobs", "sample_ppm", "slice_level"];

/// A job that a monitor serves.
#[derive(Debug)]
pub struct MonitorLane {
    pub lane: RecordLane,
    pub course: StopMode,
    /// Tap table of the job.
    pub taps: TapTable,
    /// End of its lease.
    pub until: Instant,
    /// Reason to leave before the end of the job.
    pub early: Option<String>,
    /// Flush after which the job leaves the monitor.
    pub leaving: Option<u64>,
    /// The job's part of the monitor's results.
    pub results: LaneResults,
}

/// Part of a monitor's results.
#[derive(Debug)]
pub enum LaneResults {
    /// All.
    All,
    /// No results before this flush is carried out.
    AfterFlush(u64),
    /// Results since a flush; contains the monitor's counts at that flush.
    Since(Box<MonitorCounts>),
}

/// Totals since the start of a monitor.
#[derive(Clone, Debug, Default)]
pub struct MonitorCounts {
    pub counters: BTreeMap<String, u64>,
    pub loss: LossCount,
}

/// Whether a monitor has been asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopMode {
    /// No.
    Going,
    /// Yes, with its job.
    Whole,
    /// Yes, although the server wants the job to continue: the lease has expired, or the agent ends.
    Cut,
}

impl MonitorLane {
    pub fn new(lane: RecordLane, taps: TapTable, until: Instant) -> MonitorLane {
        MonitorLane {
            lane,
            course: StopMode::Going,
            taps,
            until,
            early: None,
            leaving: None,
            results: LaneResults::All,
        }
    }

    /// Whether neither the job nor another reason ends the lane.
    pub fn stays(&self) -> bool {
        self.course == StopMode::Going && self.early.is_none()
    }

    /// Whether the job gets the monitor's next results.
    pub fn gets_results(&self) -> bool {
        !matches!(self.results, LaneResults::AfterFlush(_))
    }

    /// The job's part of the monitor's counters.
    pub fn counters(&self, of_monitor: &MonitorCounts) -> BTreeMap<String, u64> {
        let mut counters = of_monitor.counters.clone();
        if let Some(before) = self.before(of_monitor) {
            for (name, n) in &mut counters {
                if !CURRENT.contains(&name.as_str()) && !ExporterCounts::is_current(name) {
                    *n = n.saturating_sub(before.counters.get(name).copied().unwrap_or(0));
                }
            }
        }
        counters
    }

    /// The job's part of the monitor's capture loss.
    pub fn loss(&self, of_monitor: &MonitorCounts) -> LossCount {
        let LossCount { seen, lost } = of_monitor.loss;
        let before = self.before(of_monitor).map(|before| before.loss);
        let before = before.unwrap_or_default();
        LossCount {
            seen: seen.saturating_sub(before.seen),
            lost: lost.saturating_sub(before.lost),
        }
    }

    /// The monitor's totals when the job joined; `None`: the job has all results.
    fn before<'a>(&'a self, of_monitor: &'a MonitorCounts) -> Option<&'a MonitorCounts> {
        match &self.results {
            LaneResults::All => None,
            LaneResults::AfterFlush(_) => Some(of_monitor),
            LaneResults::Since(before) => Some(before),
        }
    }

    /// A report with its part of the capture loss.
    pub fn report(&self, payload: &Bytes) -> Bytes {
        match &self.results {
            LaneResults::Since(before) if before.loss != LossCount::default() => {
                collect::since(payload, before.loss).map_or_else(|_| payload.clone(), Bytes::from)
            }
            _ => payload.clone(),
        }
    }

    /// The end of a monitor as that of this lane, which may leave before the end of its job.
    pub fn ended(&self, end: MonitorEnd) -> MonitorEnd {
        match &self.early {
            Some(why) if end == MonitorEnd::Clean && self.course == StopMode::Going => {
                MonitorEnd::Early(why.clone())
            }
            _ => end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_has_the_counters_since_it_began() {
        let counts = |packets, flows, lost| MonitorCounts {
            counters: [("packets", packets), ("flows", flows)]
                .map(|(name, n)| (name.to_owned(), n))
                .into(),
            loss: LossCount { seen: 10, lost },
        };
        let lane = RecordLane::default();
        let until = Instant::now();
        let before = counts(5, 3, 1);
        let now = counts(12, 2, 4);
        for (results, packets, lost) in [
            (LaneResults::All, 12, 4),
            (LaneResults::AfterFlush(1), 0, 0),
            (LaneResults::Since(Box::new(before)), 7, 3),
        ] {
            let of = MonitorLane {
                results,
                ..MonitorLane::new(lane, TapTable::default(), until)
            };
            let counters = of.counters(&now);
            assert_eq!(
                (counters["packets"], counters["flows"]),
                (packets, 2),
                "{of:?}"
            );
            assert_eq!(of.loss(&now).lost, lost, "{of:?}");
        }
    }
}

//! Merges the results of workers. Reports may arrive in any order of workers; the order of rows does not depend on the
//! number of workers: raw tuples by their time of completion, windows when every worker has passed their end.
//!
//! Workers of one process end the same epochs, and rows are released epoch by epoch ([`Collector::new`]). Workers of
//! different processes share only event time: rows are released up to the slowest active lane, and lanes may join and
//! leave ([`Collector::of_lanes`]). Results behind the watermark do not reopen windows; they are counted as late tuples
//! of the engines, or as late rows, which are still output.
//!
//! If another collector uses the results, windows are merged and passed on ([`Collector::relay`],
//! [`Collector::relay_of_lanes`]), so that a process, or all processes that it collects from, sends one report.
//!
//! Rows name missing lanes ([`CollectorLanes::cover`]). The data of a missing lane are unknown, so intervals, which include
//! known capture losses, do not include it.
//!
//! Waiting data are limited in bytes. Beyond the limit, waiting rows are released early: no row is lost, but the order
//! then depends on the workers.

use stream::{
    Engine, EngineOutput, EngineSet, LimitedStretch, LossCount, LossStretch, OutputConsumer,
    PartialResultSet,
};
use wire::Timestamp;

use crate::lanes::{CollectorLanes, LaneActivity, LaneId};
use crate::message::ReportError;
use crate::report::{ReportPart, WorkerReport};
use crate::rows::WaitingRows;

/// Receiver of rows.
pub trait TakeRows {
    /// Receives rows; `lanes` computes their coverage.
    fn take(&mut self, output: EngineOutput, lanes: &CollectorLanes);

    /// Receives the content of windows from a relaying collector ([`Collector::relay`], [`Collector::relay_of_lanes`]).
    fn hand_on(&mut self, _windows: PartialResultSet) {}
}

/// Passes rows on and ignores their coverage.
pub struct IgnoreCoverage<'o>(pub &'o mut dyn OutputConsumer);

impl TakeRows for IgnoreCoverage<'_> {
    fn take(&mut self, output: EngineOutput, _: &CollectorLanes) {
        self.0.take(output);
    }
}

/// See the module documentation.
pub struct Collector {
    engines: EngineSet,
    lanes: CollectorLanes,
    release: ReleaseRule,
    then: WindowOutput,
    watermark: Timestamp,
    /// The last released epoch.
    released: Option<u64>,
    /// Capture loss of all packets released so far.
    loss: LossCount,
    /// Whether lanes receive only parts of their flows, so that bytes known only from acknowledgments are not lost.
    lanes_are_partial: bool,
    /// Packets reported as lost by sources.
    lost: u64,
    /// Period of the losses not passed on yet.
    lost_when: Option<LossStretch>,
    /// Period in which limits took effect in the lanes: not passed on yet, and in total.
    limited_when: Option<LimitedStretch>,
    limited_ever: Option<LimitedStretch>,
    /// Waiting rows of lanes without common epochs.
    rows: WaitingRows,
    rows_late: u64,
    /// Memory of all waiting data, in bytes.
    waiting_bytes: usize,
    waiting_bytes_max: usize,
    epochs_cut: u64,
    /// Interval in event time at which open windows are passed on, for lanes without epochs.
    open_every_ns: i64,
    /// Time of the last pass.
    opened: Timestamp,
}

/// Unit of release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReleaseRule {
    /// An epoch that all lanes have ended.
    ByEpoch,
    /// Event time that all lanes have passed.
    ByTime,
}

/// Output of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowOutput {
    /// Closes them and emits their rows.
    Close,
    /// Passes their content on.
    HandOn,
}

impl Collector {
    /// Collects the reports of `workers` workers with common epochs into `engines`; `waiting_bytes_max`: approximate
    /// limit of waiting data.
    #[must_use]
    pub fn new(engines: EngineSet, workers: usize, waiting_bytes_max: usize) -> Collector {
        Collector::build(
            engines,
            CollectorLanes::of_workers(workers),
            ReleaseRule::ByEpoch,
            waiting_bytes_max,
        )
    }

    /// Like [`Collector::new`], but windows are passed on at the end of every epoch; `engines` are those of a worker.
    #[must_use]
    pub fn relay(engines: EngineSet, workers: usize, waiting_bytes_max: usize) -> Collector {
        Collector {
            then: WindowOutput::HandOn,
            ..Collector::new(engines, workers, waiting_bytes_max)
        }
    }

    /// Like [`Collector::new`], for lanes that join and leave and share only event time.
    #[must_use]
    pub fn of_lanes(engines: EngineSet, waiting_bytes_max: usize) -> Collector {
        Collector::build(
            engines,
            CollectorLanes::default(),
            ReleaseRule::ByTime,
            waiting_bytes_max,
        )
    }

    /// Like [`Collector::of_lanes`], but windows completed by all active lanes are passed on, and periodically in event
    /// time the content of open ones; `engines` are those of a worker. Raw rows are emitted unchanged.
    #[must_use]
    pub fn relay_of_lanes(
        engines: EngineSet,
        waiting_bytes_max: usize,
        open_every_ns: i64,
    ) -> Collector {
        let collector = Collector::of_lanes(engines, waiting_bytes_max);
        Collector {
            then: WindowOutput::HandOn,
            open_every_ns,
            ..collector
        }
    }

    /// Lanes receive only parts of their flows, as defined by their orders: bytes known only from acknowledgments are
    /// not lost.
    pub fn expect_partial_flows(&mut self) {
        self.lanes_are_partial = true;
    }

    fn build(
        engines: EngineSet,
        lanes: CollectorLanes,
        release: ReleaseRule,
        waiting_bytes_max: usize,
    ) -> Collector {
        let lanes = lanes.with_lateness(engines.first().lateness_ns().to_vec());
        Collector {
            engines,
            lanes,
            release,
            then: WindowOutput::Close,
            watermark: Timestamp::MIN,
            released: None,
            loss: LossCount::default(),
            lanes_are_partial: false,
            lost: 0,
            lost_when: None,
            limited_when: None,
            limited_ever: None,
            rows: WaitingRows::default(),
            rows_late: 0,
            waiting_bytes: 0,
            waiting_bytes_max,
            epochs_cut: 0,
            open_every_ns: i64::MAX,
            opened: Timestamp::MIN,
        }
    }

    /// Continues a previous collector of lanes, before any report; `latest_ns` as in [`Engine::begin_at`].
    pub fn begin_at(&mut self, watermark: Timestamp, latest_ns: &[Option<i64>]) {
        self.watermark = watermark;
        self.engines.begin_at(watermark.0, latest_ns);
    }

    /// Restores a lane from saved state: its state, its watermark, and its losses.
    pub fn adopt(
        &mut self,
        lane: LaneId,
        state: LaneActivity,
        watermark: Timestamp,
        loss: LossCount,
    ) {
        let lane = self.lanes.get(lane);
        lane.state = state;
        lane.watermark = watermark;
        lane.loss = loss;
    }

    /// Watermark at which all windows of a report are complete. `None`: it contains no windows.
    #[must_use]
    pub fn over_at(&self, report: &WorkerReport) -> Option<i64> {
        let lost = report
            .lost
            .map(|stretch| stretch.to_ns.saturating_add(self.engine().reach_ns()));
        let limited = report
            .limited
            .map(|limited| limited.to_ns.saturating_add(self.engine().reach_ns()));
        let windows = report
            .part
            .windows
            .iter()
            .filter_map(|windows| self.engines.over_at(windows));
        windows.chain(lost).chain(limited).max()
    }

    /// A copy of open windows with which a later collector can continue; `None` if it exceeds `bytes_max`.
    #[must_use]
    pub fn peek(&self, bytes_max: usize) -> Option<PartialResultSet> {
        self.engines.peek(bytes_max)
    }

    /// Announces a lane. Nothing waits for it, but released rows lack it.
    pub fn expect(&mut self, lane: LaneId) {
        self.lanes.set(lane, LaneActivity::Expected);
    }

    /// Activates a lane, for the first time or again: rows wait until it has reached their time. A lane with a backlog
    /// may report while idle, and resume afterward.
    pub fn join(&mut self, lane: LaneId) {
        self.lanes.set(lane, LaneActivity::Active);
    }

    /// As [`Collector::join`].
    pub fn resume(&mut self, lane: LaneId) {
        self.join(lane);
    }

    /// Marks a lane as silent but not ended: nothing waits for it.
    pub fn idle(&mut self, lane: LaneId, out: &mut dyn TakeRows) {
        self.change(lane, LaneActivity::Idle, out);
    }

    /// Marks a lane as complete.
    pub fn finish(&mut self, lane: LaneId, out: &mut dyn TakeRows) {
        self.change(lane, LaneActivity::Finished, out);
    }

    /// Marks a lane as ended with data lost.
    pub fn lost(&mut self, lane: LaneId, out: &mut dyn TakeRows) {
        self.change(lane, LaneActivity::Lost, out);
    }

    /// Sets the state of a lane.
    pub fn turn(&mut self, lane: LaneId, state: LaneActivity, out: &mut dyn TakeRows) {
        match state {
            // These states release no rows.
            LaneActivity::Expected | LaneActivity::Active => self.lanes.set(lane, state),
            LaneActivity::Idle | LaneActivity::Finished | LaneActivity::Lost => {
                self.change(lane, state, out)
            }
        }
    }

    fn change(&mut self, lane: LaneId, state: LaneActivity, out: &mut dyn TakeRows) {
        self.lanes.set(lane, state);
        self.release(out);
    }

    /// Adds a part of a lane's next report.
    pub fn take_part(&mut self, lane: LaneId, part: ReportPart, out: &mut dyn TakeRows) {
        match self.release {
            ReleaseRule::ByEpoch => {
                self.waiting_bytes += part.bytes;
                self.lanes.get(lane).part.append(part);
            }
            ReleaseRule::ByTime => self.take_in(lane, part, out),
        }
        self.relieve(out);
    }

    /// Adds a lane's report; completed rows go to `out`.
    pub fn take(&mut self, lane: LaneId, mut report: WorkerReport, out: &mut dyn TakeRows) {
        self.lost += report.lost.map_or(0, |stretch| stretch.packets.lost);
        match self.release {
            ReleaseRule::ByEpoch => {
                self.waiting_bytes += report.part.bytes;
                let lane = self.lanes.get(lane);
                let last = std::mem::replace(&mut report.part, std::mem::take(&mut lane.part));
                report.part.append(last);
                lane.latest = Some(report.epoch);
                lane.waiting.push_back(report);
            }
            ReleaseRule::ByTime => {
                report
                    .lost
                    .into_iter()
                    .for_each(|stretch| self.lose(stretch));
                report
                    .limited
                    .into_iter()
                    .for_each(|limited| self.limit(limited));
                self.take_in(lane, std::mem::take(&mut report.part), out);
                self.come_to(lane, report);
            }
        }
        self.release(out);
        self.relieve(out);
    }

    /// Decodes a report from another process, as [`WorkerReport::decode`].
    ///
    /// # Errors
    /// See [`ReportError`].
    pub fn decode(&self, bytes: &[u8]) -> Result<WorkerReport, ReportError> {
        WorkerReport::decode(bytes, &self.engines)
    }

    /// No more reports will arrive.
    pub fn end(&mut self, out: &mut dyn TakeRows) {
        self.lanes.since = self.watermark;
        let lanes = &self.lanes;
        let watermark_ns = Timestamp::MAX.0;
        self.rows.give_all(&mut |batch| {
            out.take(
                EngineOutput {
                    pipeline: None,
                    batch,
                    watermark_ns,
                },
                lanes,
            )
        });
        match self.then {
            WindowOutput::Close => {
                if self.watermark > Timestamp::MIN {
                    self.advance(out);
                }
                self.engines.finish(&mut CoverageOutput {
                    lanes: &self.lanes,
                    out,
                });
            }
            WindowOutput::HandOn => out.hand_on(self.engines.detach_all()),
        }
    }

    /// Losses with their period since the last call, for a relaying collector.
    pub fn take_lost(&mut self) -> Option<LossStretch> {
        self.lost_when.take()
    }

    /// Period in which limits took effect since the last call, for a relaying collector.
    pub fn take_limited(&mut self) -> Option<LimitedStretch> {
        match self.then {
            WindowOutput::Close => None,
            // The collector's own engines may have evicted windows, too.
            WindowOutput::HandOn => {
                LimitedStretch::union(self.limited_when.take(), self.engines.take_limited())
            }
        }
    }

    /// The time of all limits that took effect in the lanes so far.
    #[must_use]
    pub fn limited(&self) -> Option<LimitedStretch> {
        self.limited_ever
    }

    /// Capture loss of all packets.
    #[must_use]
    pub fn capture_loss(&self) -> LossCount {
        let mut loss = LossCount::default();
        self.lanes.iter().for_each(|lane| loss.add(lane.loss));
        loss
    }

    /// Packets reported as lost by sources.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        self.lost
    }

    /// Event time reached by all lanes that are waited for.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// The last epoch released; `None` without epochs.
    #[must_use]
    pub fn released_epoch(&self) -> Option<u64> {
        self.released
    }

    /// Epochs with rows released before their end; without epochs, number of early releases.
    #[must_use]
    pub fn epochs_cut(&self) -> u64 {
        self.epochs_cut
    }

    /// Raw rows from lanes behind, released after later rows.
    #[must_use]
    pub fn rows_late(&self) -> u64 {
        self.rows_late
    }

    /// The lanes.
    #[must_use]
    pub fn lanes(&self) -> &CollectorLanes {
        &self.lanes
    }

    /// Emits the content of open windows, as far as released. Returns false, without rows, if a worker has not reported
    /// its open windows; lanes of other processes report them as parts.
    pub fn open_rows(&mut self, out: &mut dyn TakeRows) -> bool {
        let told = self.lanes.iter().map(|lane| lane.open.as_ref());
        let peeks: Option<Vec<&PartialResultSet>> = match self.release {
            ReleaseRule::ByEpoch => told.collect(),
            ReleaseRule::ByTime => Some(told.flatten().collect()),
        };
        if let Some(peeks) = &peeks {
            self.engines.open_rows(
                peeks,
                &mut CoverageOutput {
                    lanes: &self.lanes,
                    out,
                },
            );
        }
        peeks.is_some()
    }

    /// Engine for the results of the first dataflow.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.engines.first()
    }

    /// Counters of tuples in all engines.
    #[must_use]
    pub fn counters(&self) -> stream::EngineCounters {
        self.engines.counters()
    }

    /// As [`EngineSet::silences`].
    #[must_use]
    pub fn silences(&self) -> Vec<stream::EmptyWindows> {
        self.engines.silences()
    }
}

/// Passes rows on with the lanes.
struct CoverageOutput<'c> {
    lanes: &'c CollectorLanes,
    out: &'c mut dyn TakeRows,
}

impl OutputConsumer for CoverageOutput<'_> {
    fn take(&mut self, output: EngineOutput) {
        self.out.take(output, self.lanes);
    }
}

mod completion;
#[cfg(test)]
mod tests;

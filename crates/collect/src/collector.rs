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
//! Rows name missing lanes ([`Lanes::cover`]). The data of a missing lane are unknown, so intervals, which include
//! known capture losses, do not include it.
//!
//! Waiting data are limited in bytes. Beyond the limit, waiting rows are released early: no row is lost, but the order
//! then depends on the workers.

use stream::{Engine, Engines, Limited, Loss, Output, Partials, Stretch, TakeOutput};
use wire::Timestamp;

use crate::lanes::{LaneId, Lanes, State};
use crate::message::Malformed;
use crate::report::{Part, Report};
use crate::rows::WaitingRows;

/// Receiver of rows.
pub trait TakeRows {
    /// Receives rows; `lanes` computes their coverage.
    fn take(&mut self, output: Output, lanes: &Lanes);

    /// Receives the content of windows from a relaying collector ([`Collector::relay`], [`Collector::relay_of_lanes`]).
    fn hand_on(&mut self, _windows: Partials) {}
}

/// Passes rows on and ignores their coverage.
pub struct Whatever<'o>(pub &'o mut dyn TakeOutput);

impl TakeRows for Whatever<'_> {
    fn take(&mut self, output: Output, _: &Lanes) {
        self.0.take(output);
    }
}

/// See the module documentation.
pub struct Collector {
    engines: Engines,
    lanes: Lanes,
    release: Release,
    then: Then,
    watermark: Timestamp,
    /// Capture loss of all packets released so far.
    loss: Loss,
    /// Whether lanes receive only parts of their flows, so that bytes known only from acknowledgments are not lost.
    lanes_are_partial: bool,
    /// Packets reported as lost by sources.
    lost: u64,
    /// Period of the losses not passed on yet.
    lost_when: Option<Stretch>,
    /// Period in which limits took effect in the lanes: not passed on yet, and in total.
    limited_when: Option<Limited>,
    limited_ever: Option<Limited>,
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
enum Release {
    /// An epoch that all lanes have ended.
    ByEpoch,
    /// Event time that all lanes have passed.
    ByTime,
}

/// Output of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Closes them and emits their rows.
    Close,
    /// Passes their content on.
    HandOn,
}

impl Collector {
    /// Collects the reports of `workers` workers with common epochs into `engines`; `waiting_bytes_max`: approximate
    /// limit of waiting data.
    #[must_use]
    pub fn new(engines: Engines, workers: usize, waiting_bytes_max: usize) -> Collector {
        Collector::build(engines, Lanes::of_workers(workers), Release::ByEpoch, waiting_bytes_max)
    }

    /// Like [`Collector::new`], but windows are passed on at the end of every epoch; `engines` are those of a worker.
    #[must_use]
    pub fn relay(engines: Engines, workers: usize, waiting_bytes_max: usize) -> Collector {
        Collector { then: Then::HandOn, ..Collector::new(engines, workers, waiting_bytes_max) }
    }

    /// Like [`Collector::new`], for lanes that join and leave and share only event time.
    #[must_use]
    pub fn of_lanes(engines: Engines, waiting_bytes_max: usize) -> Collector {
        Collector::build(engines, Lanes::default(), Release::ByTime, waiting_bytes_max)
    }

    /// Like [`Collector::of_lanes`], but windows completed by all active lanes are passed on, and periodically in event
    /// time the content of open ones; `engines` are those of a worker. Raw rows are emitted unchanged.
    #[must_use]
    pub fn relay_of_lanes(engines: Engines, waiting_bytes_max: usize, open_every_ns: i64) -> Collector {
        let collector = Collector::of_lanes(engines, waiting_bytes_max);
        Collector { then: Then::HandOn, open_every_ns, ..collector }
    }

    /// Lanes receive only parts of their flows, as defined by their orders: bytes known only from acknowledgments are
    /// not lost.
    pub fn expect_partial_flows(&mut self) {
        self.lanes_are_partial = true;
    }

    fn build(engines: Engines, lanes: Lanes, release: Release, waiting_bytes_max: usize) -> Collector {
        let lanes = lanes.with_lateness(engines.first().lateness_ns().to_vec());
        Collector {
            engines,
            lanes,
            release,
            then: Then::Close,
            watermark: Timestamp::MIN,
            loss: Loss::default(),
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
    pub fn adopt(&mut self, lane: LaneId, state: State, watermark: Timestamp, loss: Loss) {
        let lane = self.lanes.get(lane);
        (lane.state, lane.watermark, lane.loss) = (state, watermark, loss);
    }

    /// Watermark at which all windows of a report are complete. `None`: it contains no windows.
    #[must_use]
    pub fn over_at(&self, report: &Report) -> Option<i64> {
        let lost = report.lost.map(|stretch| stretch.to_ns.saturating_add(self.engine().reach_ns()));
        let limited = report.limited.map(|limited| limited.to_ns.saturating_add(self.engine().reach_ns()));
        let windows = report.part.windows.iter().filter_map(|windows| self.engines.over_at(windows));
        windows.chain(lost).chain(limited).max()
    }

    /// A copy of open windows with which a later collector can continue; `None` if it exceeds `bytes_max`.
    #[must_use]
    pub fn peek(&self, bytes_max: usize) -> Option<Partials> {
        self.engines.peek(bytes_max)
    }

    /// Announces a lane. Nothing waits for it, but released rows lack it.
    pub fn expect(&mut self, lane: LaneId) {
        self.lanes.set(lane, State::Expected);
    }

    /// Activates a lane, for the first time or again: rows wait until it has reached their time. A lane with a backlog
    /// may report while idle, and resume afterwards.
    pub fn join(&mut self, lane: LaneId) {
        self.lanes.set(lane, State::Active);
    }

    /// As [`Collector::join`].
    pub fn resume(&mut self, lane: LaneId) {
        self.join(lane);
    }

    /// Marks a lane as silent but not ended: nothing waits for it.
    pub fn idle(&mut self, lane: LaneId, out: &mut dyn TakeRows) {
        self.change(lane, State::Idle, out);
    }

    /// Marks a lane as complete.
    pub fn finish(&mut self, lane: LaneId, out: &mut dyn TakeRows) {
        self.change(lane, State::Finished, out);
    }

    /// Marks a lane as ended with data lost.
    pub fn lost(&mut self, lane: LaneId, out: &mut dyn TakeRows) {
        self.change(lane, State::Lost, out);
    }

    /// Sets the state of a lane.
    pub fn turn(&mut self, lane: LaneId, state: State, out: &mut dyn TakeRows) {
        match state {
            // These release nothing.
            State::Expected | State::Active => self.lanes.set(lane, state),
            State::Idle | State::Finished | State::Lost => self.change(lane, state, out),
        }
    }

    fn change(&mut self, lane: LaneId, state: State, out: &mut dyn TakeRows) {
        self.lanes.set(lane, state);
        self.release(out);
    }

    /// Adds a part of a lane's next report.
    pub fn take_part(&mut self, lane: LaneId, part: Part, out: &mut dyn TakeRows) {
        match self.release {
            Release::ByEpoch => {
                self.waiting_bytes += part.bytes;
                self.lanes.get(lane).part.append(part);
            }
            Release::ByTime => self.take_in(lane, part, out),
        }
        self.relieve(out);
    }

    /// Adds a lane's report; completed rows go to `out`.
    pub fn take(&mut self, lane: LaneId, mut report: Report, out: &mut dyn TakeRows) {
        self.lost += report.lost.map_or(0, |stretch| stretch.packets.lost);
        match self.release {
            Release::ByEpoch => {
                self.waiting_bytes += report.part.bytes;
                let lane = self.lanes.get(lane);
                let last = std::mem::replace(&mut report.part, std::mem::take(&mut lane.part));
                report.part.append(last);
                lane.latest = Some(report.epoch);
                lane.waiting.push_back(report);
            }
            Release::ByTime => {
                report.lost.into_iter().for_each(|stretch| self.lose(stretch));
                report.limited.into_iter().for_each(|limited| self.limit(limited));
                self.take_in(lane, std::mem::take(&mut report.part), out);
                self.come_to(lane, report);
            }
        }
        self.release(out);
        self.relieve(out);
    }

    /// Decodes a report from another process, as [`Report::decode`].
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn decode(&self, bytes: &[u8]) -> Result<Report, Malformed> {
        Report::decode(bytes, &self.engines)
    }

    /// No more reports will arrive.
    pub fn end(&mut self, out: &mut dyn TakeRows) {
        self.lanes.since = self.watermark;
        let (lanes, watermark_ns) = (&self.lanes, Timestamp::MAX.0);
        self.rows.give_all(&mut |batch| out.take(Output { pipeline: None, batch, watermark_ns }, lanes));
        match self.then {
            Then::Close => {
                if self.watermark > Timestamp::MIN {
                    self.advance(out);
                }
                self.engines.finish(&mut With { lanes: &self.lanes, out });
            }
            Then::HandOn => out.hand_on(self.engines.detach_all()),
        }
    }

    /// Losses with their period since the last call, for a relaying collector.
    pub fn take_lost(&mut self) -> Option<Stretch> {
        self.lost_when.take()
    }

    /// Period in which limits took effect since the last call, for a relaying collector.
    pub fn take_limited(&mut self) -> Option<Limited> {
        match self.then {
            Then::Close => None,
            // Its own engines may have evicted windows, too.
            Then::HandOn => Limited::union(self.limited_when.take(), self.engines.take_limited()),
        }
    }

    /// The time of all limits that took effect in the lanes so far.
    #[must_use]
    pub fn limited(&self) -> Option<Limited> {
        self.limited_ever
    }

    /// Capture loss of all packets.
    #[must_use]
    pub fn capture_loss(&self) -> Loss {
        let mut loss = Loss::default();
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
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Emits the content of open windows, as far as released. Returns false, without rows, if a worker has not reported
    /// its open windows; lanes of other processes report them as parts.
    pub fn open_rows(&mut self, out: &mut dyn TakeRows) -> bool {
        let told = self.lanes.iter().map(|lane| lane.open.as_ref());
        let peeks: Option<Vec<&Partials>> = match self.release {
            Release::ByEpoch => told.collect(),
            Release::ByTime => Some(told.flatten().collect()),
        };
        if let Some(peeks) = &peeks {
            self.engines.open_rows(peeks, &mut With { lanes: &self.lanes, out });
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
    pub fn counters(&self) -> stream::Counters {
        self.engines.counters()
    }

    /// As [`Engines::silences`].
    #[must_use]
    pub fn silences(&self) -> Vec<stream::Silence> {
        self.engines.silences()
    }
}

/// Passes rows on with the lanes.
struct With<'c> {
    lanes: &'c Lanes,
    out: &'c mut dyn TakeRows,
}

impl TakeOutput for With<'_> {
    fn take(&mut self, output: Output) {
        self.out.take(output, self.lanes);
    }
}

mod release;
#[cfg(test)]
mod tests;

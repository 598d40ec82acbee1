//! Where the workers' results meet. Takes their reports in any order of workers and returns rows in an order that
//! does not depend on how many workers there were: raw tuples by the time at which they were complete, windows when
//! every worker has passed their end.

use std::collections::VecDeque;

use flow::CaptureLoss;
use stream::{Engine, Loss, Output, Stretch};
use wire::Timestamp;

use crate::worker::Report;

/// See the module's text.
pub struct Collector {
    engine: Engine,
    lanes: Vec<Lane>,
    watermark: Timestamp,
    /// What all packets released so far seem to lack.
    loss: CaptureLoss,
    /// Packets that the sources have lost, as far as they have said so.
    lost: u64,
}

/// One worker's reports.
struct Lane {
    waiting: VecDeque<Report>,
    /// The epoch of its latest report.
    latest: Option<u64>,
    /// Event time of its last report that was released.
    watermark: Timestamp,
    /// What its packets seemed to lack by then.
    loss: CaptureLoss,
}

impl Collector {
    /// Collects the reports of `workers` workers into `engine`.
    #[must_use]
    pub fn new(engine: Engine, workers: usize) -> Collector {
        let lane = |_| Lane {
            waiting: VecDeque::new(),
            latest: None,
            watermark: Timestamp::MIN,
            loss: CaptureLoss::default(),
        };
        let (watermark, loss) = (Timestamp::MIN, CaptureLoss::default());
        Collector { engine, lanes: (0..workers).map(lane).collect(), watermark, loss, lost: 0 }
    }

    /// Takes a worker's report; what is complete by that goes to `out`.
    pub fn take(&mut self, worker: usize, report: Report, out: &mut Vec<Output>) {
        self.lost += report.lost.map_or(0, |stretch| stretch.packets.lost);
        self.lanes[worker].latest = Some(report.epoch);
        self.lanes[worker].waiting.push_back(report);
        self.release(out);
    }

    /// A worker will not report any more, though it had more to say.
    pub fn give_up(&mut self, worker: usize, out: &mut Vec<Output>) {
        self.lanes[worker].latest = Some(u64::MAX);
        self.lanes[worker].watermark = Timestamp::MAX;
        self.release(out);
    }

    /// All workers have ended.
    pub fn finish(&mut self, out: &mut Vec<Output>) {
        self.engine.finish(out);
    }

    /// What all packets seem to lack.
    #[must_use]
    pub fn capture_loss(&self) -> CaptureLoss {
        let mut loss = CaptureLoss::default();
        self.lanes.iter().for_each(|lane| loss.add(lane.loss));
        loss
    }

    /// Packets that the sources have lost, as far as they have said so.
    #[must_use]
    pub fn lost_packets(&self) -> u64 {
        self.lost
    }

    /// How far event time has come in all workers.
    #[must_use]
    pub fn watermark(&self) -> Timestamp {
        self.watermark
    }

    /// The engine in which results meet.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Releases the epochs that every worker has ended, one after the other.
    fn release(&mut self, out: &mut Vec<Output>) {
        let Some(ready) = self.lanes.iter().map(|lane| lane.latest).min().flatten() else { return };
        let next =
            |lane: &Lane| lane.waiting.front().map(|report| report.epoch).filter(|epoch| *epoch <= ready);
        while let Some(epoch) = self.lanes.iter().filter_map(next).min() {
            self.release_epoch(epoch, out);
        }
    }

    fn release_epoch(&mut self, epoch: u64, out: &mut Vec<Output>) {
        let mut rows = Vec::new();
        for lane in &mut self.lanes {
            while let Some(report) = lane.waiting.pop_front_if(|report| report.epoch == epoch) {
                (lane.watermark, lane.loss) = (report.watermark, report.loss);
                rows.extend(report.rows.into_iter().map(|output| output.batch));
                report.lost.into_iter().for_each(|stretch| self.engine.add_loss(stretch));
                if let Some(partial) = report.partial {
                    self.engine.attach(partial);
                }
            }
        }
        let watermark = self.lanes.iter().map(|lane| lane.watermark).min().unwrap_or(Timestamp::MIN);
        self.add_capture_loss(watermark);
        let has_risen = watermark > self.watermark;
        self.watermark = watermark.max(self.watermark);
        let (rows, watermark_ns) = (stream::in_time_order(rows), self.watermark.0);
        out.extend(rows.into_iter().map(|batch| Output { pipeline: None, batch, watermark_ns }));
        if has_risen && epoch != u64::MAX {
            self.engine.advance(watermark_ns, out);
        }
    }

    /// What the packets seem to lack that came since the last epoch.
    fn add_capture_loss(&mut self, now: Timestamp) {
        let (all, before) = (self.capture_loss(), self.loss);
        self.loss = all;
        let bytes = Loss {
            seen: all.seen.saturating_sub(before.seen),
            lost: all.unseen.saturating_sub(before.unseen),
        };
        let (from_ns, to_ns, packets) = (self.watermark.0, now.0, Loss::default());
        self.engine.add_loss(Stretch { from_ns, to_ns, packets, bytes });
    }
}

//! Where the workers' results meet. Takes their reports in any order of workers and returns rows in an order that
//! does not depend on how many workers there were: raw tuples by the time at which they were complete, windows when
//! every worker has passed their end.
//!
//! What waits is bounded in bytes. Where an epoch has more rows than that, those that are there are released before it ends: no
//! row is lost, but the order within that epoch then depends on the workers.

use std::collections::VecDeque;

use stream::{Engine, Engines, Loss, Output, Partials, Stretch, TakeOutput};
use tuple::Batch;
use wire::Timestamp;

use crate::report::{Part, Report};

/// See the module's text.
pub struct Collector {
    engines: Engines,
    lanes: Vec<Lane>,
    watermark: Timestamp,
    /// What all packets released so far seem to lack.
    loss: Loss,
    /// Packets that the sources have lost, as far as they have said so.
    lost: u64,
    /// Memory of all that waits in the lanes.
    waiting_bytes: usize,
    waiting_bytes_max: usize,
    epochs_cut: u64,
}

/// One worker's reports.
struct Lane {
    /// Of the epoch that it is in.
    part: Part,
    waiting: VecDeque<Report>,
    /// The epoch of its latest report.
    latest: Option<u64>,
    /// Event time of its last report that was released.
    watermark: Timestamp,
    /// What its packets seemed to lack by then.
    loss: Loss,
    /// What it had of open windows by then.
    open: Option<Partials>,
}

impl Collector {
    /// Collects the reports of `workers` workers into `engines`; about so many bytes may wait.
    #[must_use]
    pub fn new(engines: Engines, workers: usize, waiting_bytes_max: usize) -> Collector {
        let lane = |_| Lane {
            part: Part::default(),
            waiting: VecDeque::new(),
            latest: None,
            watermark: Timestamp::MIN,
            loss: Loss::default(),
            open: None,
        };
        Collector {
            engines,
            lanes: (0..workers).map(lane).collect(),
            watermark: Timestamp::MIN,
            loss: Loss::default(),
            lost: 0,
            waiting_bytes: 0,
            waiting_bytes_max,
            epochs_cut: 0,
        }
    }

    /// Takes a part of the epoch that a worker is in.
    pub fn take_part(&mut self, worker: usize, part: Part, out: &mut dyn TakeOutput) {
        self.waiting_bytes += part.bytes;
        self.lanes[worker].part.append(part);
        self.relieve(out);
    }

    /// Takes a worker's report; what is complete by that goes to `out`.
    pub fn take(&mut self, worker: usize, mut report: Report, out: &mut dyn TakeOutput) {
        self.lost += report.lost.map_or(0, |stretch| stretch.packets.lost);
        self.waiting_bytes += report.part.bytes;
        let lane = &mut self.lanes[worker];
        let last = std::mem::replace(&mut report.part, std::mem::take(&mut lane.part));
        report.part.append(last);
        lane.latest = Some(report.epoch);
        lane.waiting.push_back(report);
        self.release(out);
        self.relieve(out);
    }

    /// A worker will not report any more, though it had more to say.
    pub fn give_up(&mut self, worker: usize, out: &mut dyn TakeOutput) {
        self.lanes[worker].latest = Some(u64::MAX);
        self.lanes[worker].watermark = Timestamp::MAX;
        self.release(out);
    }

    /// All workers have ended.
    pub fn finish(&mut self, out: &mut dyn TakeOutput) {
        self.engines.finish(out);
    }

    /// What all packets seem to lack.
    #[must_use]
    pub fn capture_loss(&self) -> Loss {
        let mut loss = Loss::default();
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

    /// Epochs of which rows were released before their end.
    #[must_use]
    pub fn epochs_cut(&self) -> u64 {
        self.epochs_cut
    }

    /// What windows that are still open hold so far, as far as it has been released. False, and nothing, where a worker has not
    /// said what it has of them.
    pub fn open_rows(&mut self, out: &mut dyn TakeOutput) -> bool {
        let peeks: Option<Vec<&Partials>> = self.lanes.iter().map(|lane| lane.open.as_ref()).collect();
        if let Some(peeks) = &peeks {
            self.engines.open_rows(peeks, out);
        }
        peeks.is_some()
    }

    /// The engine in which the results of the first dataflow meet.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.engines.first()
    }

    /// What became of the tuples, in all engines.
    #[must_use]
    pub fn counters(&self) -> stream::Counters {
        self.engines.counters()
    }

    /// Releases the epochs that every worker has ended, one after the other.
    fn release(&mut self, out: &mut dyn TakeOutput) {
        let Some(ready) = self.lanes.iter().map(|lane| lane.latest).min().flatten() else { return };
        let next =
            |lane: &Lane| lane.waiting.front().map(|report| report.epoch).filter(|epoch| *epoch <= ready);
        while let Some(epoch) = self.lanes.iter().filter_map(next).min() {
            self.release_epoch(epoch, out);
        }
    }

    fn release_epoch(&mut self, epoch: u64, out: &mut dyn TakeOutput) {
        let mut parts = Vec::new();
        for lane in &mut self.lanes {
            while let Some(report) = lane.waiting.pop_front_if(|report| report.epoch == epoch) {
                (lane.watermark, lane.loss) = (report.watermark, report.loss);
                report.lost.into_iter().for_each(|stretch| self.engines.add_loss(stretch));
                lane.open = report.open;
                parts.push(report.part);
            }
        }
        let rows = self.unpack(parts, out);
        let watermark = self.lanes.iter().map(|lane| lane.watermark).min().unwrap_or(Timestamp::MIN);
        self.add_capture_loss(watermark);
        let has_risen = watermark > self.watermark;
        self.watermark = watermark.max(self.watermark);
        self.give(rows, out);
        if has_risen && epoch != u64::MAX {
            self.engines.advance(self.watermark.0, out);
        }
    }

    /// What the packets seem to lack that came since the last epoch.
    fn add_capture_loss(&mut self, now: Timestamp) {
        let (all, before) = (self.capture_loss(), self.loss);
        self.loss = all;
        let bytes =
            Loss { seen: all.seen.saturating_sub(before.seen), lost: all.lost.saturating_sub(before.lost) };
        let (from_ns, to_ns, packets) = (self.watermark.0, now.0, Loss::default());
        self.engines.add_loss(Stretch { from_ns, to_ns, packets, bytes });
    }

    /// Where too much waits: releases all rows that are there, and has the engine take what is there of windows.
    fn relieve(&mut self, out: &mut dyn TakeOutput) {
        if self.waiting_bytes <= self.waiting_bytes_max {
            return;
        }
        let mut parts = Vec::new();
        for lane in &mut self.lanes {
            parts.extend(lane.waiting.iter_mut().map(|report| std::mem::take(&mut report.part)));
            parts.push(std::mem::take(&mut lane.part));
        }
        let rows = self.unpack(parts, out);
        self.epochs_cut += u64::from(!rows.is_empty());
        self.give(rows, out);
    }

    /// Has the engine take what is there of windows; returns the rows.
    fn unpack(&mut self, parts: Vec<Part>, out: &mut dyn TakeOutput) -> Vec<Batch> {
        let mut rows = Vec::new();
        for mut part in parts {
            self.waiting_bytes -= part.bytes;
            rows.append(&mut part.rows);
            for windows in part.windows {
                self.engines.attach(windows);
                self.engines.make_room(out);
            }
        }
        rows
    }

    /// Gives rows away, in the order of time.
    fn give(&self, rows: Vec<Batch>, out: &mut dyn TakeOutput) {
        let watermark_ns = self.watermark.0;
        stream::in_time_order(rows, &mut |batch| {
            out.take(Output { pipeline: None, batch, watermark_ns });
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plan::{Dataflow, Input};
    use tuple::{FieldId, Schema, TupleWriter, common};

    use super::*;

    const COLUMNS: [FieldId; 3] = [common::ID, common::TS, common::TS_END];

    /// Rows of which each is said to take ten bytes.
    fn rows(schema: &Arc<Schema>, times: &[i64]) -> Part {
        let mut writer = TupleWriter::new(schema.clone(), &COLUMNS);
        for ts in times {
            writer.u64(common::ID, 7);
            writer.i64(common::TS, 0);
            writer.i64(common::TS_END, *ts);
            writer.end_row();
        }
        Part { bytes: 10 * times.len(), rows: vec![writer.finish()], windows: Vec::new() }
    }

    fn times(out: &mut Vec<Output>) -> Vec<i64> {
        out.drain(..).flat_map(|o| o.batch.i64(common::TS_END).values().to_vec()).collect()
    }

    /// Two workers, of which one is in its second epoch already: what comes out of the first epoch's rows at once, what when
    /// the other has ended it, too, and how many epochs were cut.
    fn check(waiting_bytes_max: usize, expected: (&[i64], &[i64], u64)) {
        let schema = Arc::new(Schema::of_parser("test", 1, "tests", &[], None, None));
        let input = Input { schema: schema.clone(), columns: COLUMNS.to_vec(), filter: None };
        let dataflow =
            Dataflow { inputs: vec![input], filter: None, pipelines: Vec::new(), ..Dataflow::default() };
        let engine = Engine::new(&dataflow, stream::Config::default());
        let (mut collector, mut out) = (Collector::new(engine.into(), 2, waiting_bytes_max), Vec::new());
        let report = |part| Report {
            epoch: 0,
            watermark: Timestamp(9),
            part,
            loss: Loss::default(),
            lost: None,
            open: None,
        };
        collector.take(0, report(rows(&schema, &[4, 2])), &mut out);
        collector.take_part(0, rows(&schema, &[6]), &mut out);
        collector.take_part(1, rows(&schema, &[5, 3]), &mut out);
        assert_eq!(times(&mut out), expected.0);
        collector.take(1, report(rows(&schema, &[1])), &mut out);
        assert_eq!((times(&mut out).as_slice(), collector.epochs_cut()), (expected.1, expected.2));
    }

    #[test]
    fn rows_wait_for_all_workers_while_there_is_room() {
        check(50, (&[], &[1, 2, 3, 4, 5], 0));
        // With the third row too many wait: those that are there go.
        check(25, (&[2, 4, 6], &[1, 3, 5], 1));
        check(5, (&[2, 4, 6, 3, 5], &[1], 3));
    }
}

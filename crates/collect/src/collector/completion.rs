//! Release of complete data.

use stream::{EngineOutput, LimitedStretch, LossCount, LossStretch, in_time_order};
use tuple::Batch;
use wire::Timestamp;

use super::{Collector, CoverageOutput, ReleaseRule, TakeRows, WindowOutput};
use crate::lanes::{CollectorLane, LaneId};
use crate::report::{ReportPart, WorkerReport};
use crate::rows::rows_before;

impl Collector {
    /// Releases complete data.
    pub(super) fn release(&mut self, out: &mut dyn TakeRows) {
        match self.release {
            ReleaseRule::ByEpoch => self.release_epochs(out),
            ReleaseRule::ByTime => self.release_time(out),
        }
    }

    /// Releases epochs ended by all workers, in order.
    fn release_epochs(&mut self, out: &mut dyn TakeRows) {
        let ended = self.lanes.active().map(|lane| lane.latest).min();
        let Some(ready) = ended.unwrap_or(Some(u64::MAX)) else {
            return;
        };
        let next = |lane: &CollectorLane| {
            lane.waiting
                .front()
                .map(|report| report.epoch)
                .filter(|epoch| *epoch <= ready)
        };
        while let Some(epoch) = self.lanes.iter().filter_map(next).min() {
            self.release_epoch(epoch, out);
        }
    }

    fn release_epoch(&mut self, epoch: u64, out: &mut dyn TakeRows) {
        let mut parts = Vec::new();
        let mut lost = Vec::new();
        let mut limited = None;
        for lane in self.lanes.iter_mut() {
            while let Some(report) = lane.waiting.pop_front_if(|report| report.epoch == epoch) {
                lane.watermark = report.watermark;
                lane.loss = report.loss;
                lost.extend(report.lost);
                limited = LimitedStretch::union(limited, report.limited);
                lane.open = report.open;
                parts.push(report.part);
            }
        }
        lost.into_iter().for_each(|stretch| self.lose(stretch));
        limited.into_iter().for_each(|limited| self.limit(limited));
        let rows = self.unpack(parts, out);
        let watermark = self
            .lanes
            .active()
            .map(|lane| lane.watermark)
            .min()
            .unwrap_or(Timestamp::MAX);
        let before = self.loss;
        let after = self.capture_loss();
        self.loss = after;
        self.add_capture_loss((self.watermark, watermark), (before, after));
        let has_risen = watermark > self.watermark;
        if has_risen {
            // The first epoch ends with the first packet, whatever the number of workers.
            self.engines.begin_run(watermark.0);
        }
        self.lanes.since = self.watermark;
        self.watermark = watermark.max(self.watermark);
        self.released = Some(epoch);
        self.give(rows, out);
        match self.then {
            WindowOutput::Close if epoch == u64::MAX || !has_risen => {}
            WindowOutput::Close => self.advance(out),
            WindowOutput::HandOn => {
                // Complete windows, also after the last epoch: a receiver of this watermark closes them. Then the
                // workers' parts of open ones.
                let over = self.engines.detach(self.watermark.0);
                over.into_iter()
                    .chain(self.engines.detach_open())
                    .for_each(|windows| out.hand_on(windows));
            }
        }
    }

    /// Closes complete windows, including empty ones.
    pub(super) fn advance(&mut self, out: &mut dyn TakeRows) {
        let now_ns = self.watermark.0;
        let out = &mut CoverageOutput {
            lanes: &self.lanes,
            out,
        };
        self.engines.advance(now_ns, out);
        self.engines.pass(now_ns, out);
    }

    /// Notes a loss of packets: marks rows, or passes it on with the windows.
    pub(super) fn lose(&mut self, stretch: LossStretch) {
        match (self.then, &mut self.lost_when) {
            (WindowOutput::Close, _) => self.engines.add_loss(stretch),
            (WindowOutput::HandOn, Some(before)) => before.add(&stretch),
            (WindowOutput::HandOn, none) => *none = Some(stretch),
        }
    }

    /// A limit took effect in a lane: rows are marked, or the mark is passed on with the windows.
    pub fn limit(&mut self, limited: LimitedStretch) {
        self.limited_ever = LimitedStretch::union(self.limited_ever, Some(limited));
        match self.then {
            WindowOutput::Close => self.engines.add_limited(limited),
            WindowOutput::HandOn => {
                self.limited_when = LimitedStretch::union(self.limited_when, Some(limited))
            }
        }
    }

    /// Notes the capture loss of the packets in between.
    fn add_capture_loss(
        &mut self,
        (from, to): (Timestamp, Timestamp),
        (before, after): (LossCount, LossCount),
    ) {
        if self.lanes_are_partial {
            return;
        }
        let bytes = LossCount {
            seen: after.seen.saturating_sub(before.seen),
            lost: after.lost.saturating_sub(before.lost),
        };
        self.engines.add_loss(LossStretch {
            from_ns: from.0,
            to_ns: to.0,
            packets: LossCount::default(),
            bytes,
        });
    }

    /// Adds a lane's windows to the engine, and holds rows until all lanes have passed them.
    pub(super) fn take_in(&mut self, lane: LaneId, part: ReportPart, out: &mut dyn TakeRows) {
        let is_behind = self.lanes.get(lane).watermark < self.watermark;
        self.waiting_bytes += part.bytes;
        for rows in self.unpack(vec![part], out) {
            self.rows_late += if is_behind {
                rows_before(&rows, self.watermark)
            } else {
                0
            };
            self.rows.add(rows);
        }
    }

    /// Advances a lane to the watermark of its report.
    pub(super) fn come_to(&mut self, lane: LaneId, report: WorkerReport) {
        let lane = self.lanes.get(lane);
        let from = lane.watermark;
        let before = lane.loss;
        lane.watermark = report.watermark.max(from);
        lane.loss = report.loss;
        lane.open = report.open;
        let to = lane.watermark;
        if before != report.loss && self.then == WindowOutput::Close {
            self.add_capture_loss((from, to), (before, report.loss));
        }
    }

    /// Releases data that was complete before the watermark.
    fn release_time(&mut self, out: &mut dyn TakeRows) {
        let watermark = self.lanes.watermark().max(self.watermark);
        let has_risen = watermark > self.watermark;
        self.lanes.since = self.watermark;
        self.watermark = watermark;
        let lanes = &self.lanes;
        let watermark_ns = watermark.0;
        let give = &mut |batch| {
            out.take(
                EngineOutput {
                    pipeline: None,
                    batch,
                    watermark_ns,
                },
                lanes,
            )
        };
        self.rows.give_before(watermark, give);
        match self.then {
            _ if !has_risen => {}
            WindowOutput::Close => self.advance(out),
            WindowOutput::HandOn => self.hand_on(out),
        }
    }

    /// Passes on finished windows, and open ones if it is time.
    fn hand_on(&mut self, out: &mut dyn TakeRows) {
        let over = self.engines.detach(self.watermark.0);
        if self.opened == Timestamp::MIN {
            self.opened = self.watermark;
        }
        let is_time = self.watermark.0 >= self.opened.0.saturating_add(self.open_every_ns);
        let open = is_time.then(|| self.engines.detach_open()).flatten();
        if is_time {
            self.opened = self.watermark;
        }
        over.into_iter()
            .chain(open)
            .for_each(|windows| out.hand_on(windows));
    }

    /// Above the memory limit: releases all waiting rows, and merges waiting windows into the engine.
    pub(super) fn relieve(&mut self, out: &mut dyn TakeRows) {
        if self.waiting_bytes + self.rows.bytes <= self.waiting_bytes_max {
            return;
        }
        let mut parts = Vec::new();
        for lane in self.lanes.iter_mut() {
            parts.extend(
                lane.waiting
                    .iter_mut()
                    .map(|report| std::mem::take(&mut report.part)),
            );
            parts.push(std::mem::take(&mut lane.part));
        }
        let mut rows = self.unpack(parts, out);
        self.rows.give_all(&mut |batch| rows.push(batch));
        self.epochs_cut += u64::from(!rows.is_empty());
        self.give(rows, out);
    }

    /// Merges windows into the engine; returns the rows.
    fn unpack(&mut self, parts: Vec<ReportPart>, out: &mut dyn TakeRows) -> Vec<Batch> {
        let mut rows = Vec::new();
        for mut part in parts {
            self.waiting_bytes -= part.bytes;
            rows.append(&mut part.rows);
            for windows in part.windows {
                self.engines.attach(windows);
                self.engines.make_room(&mut CoverageOutput {
                    lanes: &self.lanes,
                    out,
                });
            }
        }
        rows
    }

    /// Emits rows in order of time.
    fn give(&self, rows: Vec<Batch>, out: &mut dyn TakeRows) {
        let watermark_ns = self.watermark.0;
        in_time_order(rows, &mut |batch| {
            out.take(
                EngineOutput {
                    pipeline: None,
                    batch,
                    watermark_ns,
                },
                &self.lanes,
            );
        });
    }
}

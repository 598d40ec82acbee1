//! One worker: its share of the packets, run to completion into partial results. It shares nothing with the others;
//! what it has to say leaves in [`Report`]s, one at the end of every epoch. Where one input is dealt to several workers
//! the epochs are the same for all, so that results do not depend on how many there are.

use capture::SourceError;
use flow::CaptureLoss;
use plan::{Dataflow, MonitorSpec};
use stream::{Engine, Output, Partial, Stretch};
use wire::{Captured, Timestamp};

use crate::gate::Gate;
use crate::outputs::Batches;
use crate::{Accounting, Monitor, Progress, pipeline};

/// See the module's text.
pub struct Worker {
    monitor: Monitor,
    engine: Engine,
    tuples: Batches,
    /// Raw tuples that passed, of a query without processors.
    rows: Vec<Output>,
}

/// What a worker has to say of an epoch.
pub struct Report {
    /// Which epoch; never less than the one before.
    pub epoch: u64,
    /// Event time: nothing from before it will follow.
    pub watermark: Timestamp,
    /// What there is of windows that are over.
    pub partial: Option<Partial>,
    /// Raw tuples, of a query without processors.
    pub rows: Vec<Output>,
    /// What its packets seem to lack so far.
    pub loss: CaptureLoss,
    /// What its source has lost since it last said so.
    pub lost: Option<Stretch>,
}

/// What is said of a worker or a reader once, at its end.
#[derive(Default)]
pub struct Closing {
    /// Where the packets went.
    pub accounting: Accounting,
    /// What its source delivered, if it had one.
    pub source: Option<capture::Counters>,
    /// What went wrong with its source.
    pub errors: Vec<SourceError>,
    /// Time of the first packet, and how late it was at the end.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Whether LIMIT ended it.
    pub limit_reached: bool,
}

impl Worker {
    /// A worker with nothing seen yet.
    #[must_use]
    pub fn new(
        gate: Gate,
        plan: (&MonitorSpec, &Dataflow),
        config: (pipeline::Config, stream::Config),
    ) -> Worker {
        Worker {
            monitor: Monitor::behind(gate, plan.0, config.0),
            engine: Engine::worker(plan.1, config.1),
            tuples: Batches::new(),
            rows: Vec::new(),
        }
    }

    /// Works on packets of an epoch, or on a share of them.
    pub fn on_packets<'a>(&mut self, packets: impl Iterator<Item = Captured<'a>>) -> Progress {
        let progress = self.monitor.take(packets, &mut self.tuples);
        self.analyse();
        progress
    }

    /// Ends an epoch, at this time; `lost`: by its source, until then.
    pub fn end_epoch(&mut self, epoch: u64, clock: Timestamp, lost: Option<Stretch>) -> Report {
        self.monitor.advance(Some(clock), &mut self.tuples);
        self.monitor.end_epoch(&mut self.tuples);
        self.analyse();
        let watermark = self.monitor.clock();
        let partial = self.engine.detach(watermark.0);
        self.say(epoch, watermark, partial, lost)
    }

    /// Ends everything; the input's last time is `clock`, or that of the latest packet.
    pub fn finish(&mut self, clock: Option<Timestamp>, lost: Option<Stretch>) -> Report {
        if clock.is_some() {
            self.monitor.advance(clock, &mut self.tuples);
        }
        self.monitor.finish(&mut self.tuples);
        self.analyse();
        let (watermark, partial) = (self.monitor.clock(), Some(self.engine.detach_all()));
        self.say(u64::MAX, watermark, partial, lost)
    }

    fn say(
        &mut self,
        epoch: u64,
        watermark: Timestamp,
        partial: Option<Partial>,
        lost: Option<Stretch>,
    ) -> Report {
        let rows = std::mem::take(&mut self.rows);
        Report { epoch, watermark, partial, rows, loss: self.monitor.capture_loss(), lost }
    }

    /// From now on so large a share of new flows is looked at, as [`Monitor::set_sample_rate`] has it.
    pub fn set_sample_rate(&mut self, rate: f64) {
        self.monitor.set_sample_rate(rate);
    }

    /// The packets' part of it.
    #[must_use]
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    fn analyse(&mut self) {
        for (input, tuples) in self.tuples.drain(..) {
            self.engine.push(input, &tuples, &mut self.rows);
        }
    }
}

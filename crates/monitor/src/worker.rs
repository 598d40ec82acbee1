//! One worker: processes its share of the packets to partial results. It shares no state with other workers
//! and sends a [`WorkerReport`] at the end of every epoch. Workers that share an input have the same epochs, so
//! results do not depend on their number.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capture::SourceError;
use collect::{ReportPart, WorkerReport};
use plan::{Dataflow, MonitorSpec};
use stream::{
    EngineOutput, EngineSet, LimitedStretch, LossCount, OutputConsumer, PartialResultSet,
};
use tuple::Batch;
use wire::{CapturedPacket, Timestamp};

use crate::flush::FlushRequests;
use crate::gate::Gate;
use crate::limit_meter::{LimitMeter, reached};
use crate::pipeline::PreparedPacket;
use crate::tuple_outputs::TupleConsumer;
use crate::{BatchProgress, Monitor, PacketAccounting, pipeline};

/// A monitor with its stream operators.
pub struct MonitorWorker {
    monitor: Monitor,
    analysis: TupleAnalysis,
    limits: LimitMeter,
    /// Windows that are partial, until they are reported.
    partial: Option<LimitedStretch>,
}

/// Processing of a worker's tuples.
struct TupleAnalysis {
    engines: EngineSet,
    part: ReportPart,
    /// Size at which a part is sent before its epoch ends.
    part_bytes_max: usize,
    /// Reports contain open windows if these take at most this many bytes.
    peek_bytes_max: Option<usize>,
    /// Interval in event time at which open windows are sent, and the time of the last.
    deltas: Option<(i64, Timestamp)>,
    /// Requests to send open windows before that, and the last one carried out.
    flush: (FlushRequests, u64),
}

/// Final report of a worker or reader.
#[derive(Default)]
pub struct WorkerFinalReport {
    /// Packet counts.
    pub accounting: PacketAccounting,
    /// Counters of its source, if it had one.
    pub source: Option<capture::SourceCounters>,
    /// Errors of its source.
    pub errors: Vec<SourceError>,
    /// Timestamp of the first packet, and the time at the end.
    pub seen: Option<(Timestamp, Timestamp)>,
    /// Whether LIMIT ended the input.
    pub limit_reached: bool,
}

/// The default lateness of windows, which later queries over recorded or published tuples probably have. The maximum, so that such
/// queries have the same results as queries over the packets.
const LATENESS_NS: i64 = 1_000_000_000;

impl MonitorWorker {
    /// Creates a worker.
    #[must_use]
    pub fn new(
        gate: Gate,
        spec: &MonitorSpec,
        dataflows: &[Dataflow],
        monitor: pipeline::MonitorConfig,
        engine: &stream::EngineConfig,
        part_bytes_max: usize,
    ) -> MonitorWorker {
        let engines = EngineSet::worker(dataflows, engine);
        let windows = dataflows
            .iter()
            .flat_map(|dataflow| &dataflow.pipelines)
            .filter_map(|pipeline| pipeline.window);
        let limits = LimitMeter::new(&monitor.flow);
        let mut monitor = Monitor::behind(gate, spec, monitor);
        let lateness_ns = windows.map(|window| window.lateness_ns.max(0)).min();
        monitor.set_lateness(lateness_ns.map_or(LATENESS_NS, |ns| ns.min(LATENESS_NS)));
        MonitorWorker {
            limits,
            partial: None,
            monitor,
            analysis: TupleAnalysis {
                engines,
                part: ReportPart::default(),
                part_bytes_max,
                peek_bytes_max: None,
                deltas: None,
                flush: (FlushRequests::default(), 0),
            },
        }
    }

    /// Includes open windows in reports if they take at most this many bytes.
    #[must_use]
    pub fn peeking(mut self, peek_bytes_max: Option<usize>) -> MonitorWorker {
        self.analysis.peek_bytes_max = peek_bytes_max;
        self
    }

    /// Sets the flag that stops processing early.
    #[must_use]
    pub fn heeding(mut self, stop: Arc<AtomicBool>) -> MonitorWorker {
        self.monitor.heed(stop);
        self
    }

    /// Sends open windows at this interval and clears them.
    #[must_use]
    pub fn telling_open(mut self, every_ns: Option<i64>) -> MonitorWorker {
        self.analysis.deltas = every_ns.map(|every_ns| (every_ns, Timestamp::MIN));
        self
    }

    /// Sends open windows also on request.
    #[must_use]
    pub fn flushing(mut self, requests: FlushRequests) -> MonitorWorker {
        self.analysis.flush.0 = requests;
        self
    }

    /// The last request carried out.
    #[must_use]
    pub fn flushed(&self) -> u64 {
        self.analysis.flush.1
    }

    /// Processes packets of an epoch, or a share of them. Large results are passed to `early` in parts.
    pub fn on_packets<'a>(
        &mut self,
        packets: impl Iterator<Item = CapturedPacket<'a>>,
        early: &mut dyn FnMut(ReportPart),
    ) -> BatchProgress {
        self.monitor.take(
            packets,
            &mut TupleAnalyzer {
                analysis: &mut self.analysis,
                early,
            },
        )
    }

    /// Like [`MonitorWorker::on_packets`], for packets that other threads have admitted and prepared.
    pub(crate) fn on_prepared<'a>(
        &mut self,
        packets: impl Iterator<Item = (CapturedPacket<'a>, PreparedPacket)>,
        early: &mut dyn FnMut(ReportPart),
    ) {
        self.monitor.take_prepared(
            packets,
            &mut TupleAnalyzer {
                analysis: &mut self.analysis,
                early,
            },
        );
    }

    /// Ends an epoch at `clock`; `early` as in [`MonitorWorker::on_packets`].
    pub fn end_epoch(
        &mut self,
        epoch: u64,
        clock: Timestamp,
        early: &mut dyn FnMut(ReportPart),
    ) -> WorkerReport {
        let mut analyze = TupleAnalyzer {
            analysis: &mut self.analysis,
            early,
        };
        self.monitor.advance(Some(clock), &mut analyze);
        self.monitor.end_epoch(&mut analyze);
        let watermark = self.monitor.clock();
        let partial = self.analysis.engines.detach(watermark.0);
        self.analysis.tell_open(watermark);
        let open = self
            .analysis
            .peek_bytes_max
            .and_then(|max| self.analysis.engines.peek(max));
        WorkerReport {
            open,
            ..self.say(epoch, watermark, partial)
        }
    }

    /// Ends the input at `clock`, or at the latest packet if `None`; `early` as in [`MonitorWorker::on_packets`].
    pub fn finish(
        &mut self,
        clock: Option<Timestamp>,
        early: &mut dyn FnMut(ReportPart),
    ) -> WorkerReport {
        let mut analyze = TupleAnalyzer {
            analysis: &mut self.analysis,
            early,
        };
        if clock.is_some() {
            self.monitor.advance(clock, &mut analyze);
        }
        self.monitor.finish(&mut analyze);
        let watermark = self.monitor.clock();
        let partial = Some(self.analysis.engines.detach_all());
        self.say(u64::MAX, watermark, partial)
    }

    fn say(
        &mut self,
        epoch: u64,
        watermark: Timestamp,
        partial: Option<PartialResultSet>,
    ) -> WorkerReport {
        let mut part = std::mem::take(&mut self.analysis.part);
        partial
            .into_iter()
            .for_each(|windows| part.add_windows(windows));
        let loss = self.monitor.capture_loss();
        let loss = LossCount {
            seen: loss.seen,
            lost: loss.unseen,
        };
        let of_packets = self
            .limits
            .look(watermark, reached(&self.monitor.accounting()));
        let limited = LimitedStretch::union(of_packets, self.analysis.engines.take_limited());
        let limited = LimitedStretch::union(limited, self.partial.take());
        WorkerReport {
            epoch,
            watermark,
            part,
            loss,
            lost: None,
            limited,
            open: None,
        }
    }

    /// Marks windows as partial.
    pub fn mark_partial(&mut self, stretch: LimitedStretch) {
        self.partial = LimitedStretch::union(self.partial, Some(stretch));
    }

    /// Sets the sampling rate of new flows; see [`Monitor::set_sample_rate`].
    pub fn set_sample_rate(&mut self, rate: f64) {
        self.monitor.set_sample_rate(rate);
    }

    /// The worker's monitor.
    #[must_use]
    pub fn monitor(&self) -> &Monitor {
        &self.monitor
    }
}

impl TupleAnalysis {
    fn tell_open(&mut self, now: Timestamp) {
        let Some((every_ns, told)) = &mut self.deltas else {
            return;
        };
        let (requests, carried_out) = &mut self.flush;
        let requested = requests.last();
        if requested > *carried_out || now < *told || now.0.saturating_sub(told.0) >= *every_ns {
            *carried_out = requested;
            *told = now;
            self.engines
                .detach_open()
                .into_iter()
                .for_each(|windows| self.part.add_windows(windows));
        }
    }
}

/// Passes tuples to the stream operators.
struct TupleAnalyzer<'w> {
    analysis: &'w mut TupleAnalysis,
    early: &'w mut dyn FnMut(ReportPart),
}

impl TupleConsumer for TupleAnalyzer<'_> {
    fn take(&mut self, input: usize, tuples: Batch) {
        let TupleAnalysis {
            engines,
            part,
            part_bytes_max,
            ..
        } = self.analysis;
        engines.push(
            input,
            &tuples,
            &mut RowCollector {
                part,
                part_bytes_max: *part_bytes_max,
                early: self.early,
            },
        );
        if let Some(windows) = engines.detach_early(*part_bytes_max) {
            part.add_windows(windows);
            (self.early)(std::mem::take(part));
        }
    }
}

/// Collects rows in `WorkerReport`.
struct RowCollector<'w> {
    part: &'w mut ReportPart,
    part_bytes_max: usize,
    early: &'w mut dyn FnMut(ReportPart),
}

impl OutputConsumer for RowCollector<'_> {
    fn take(&mut self, output: EngineOutput) {
        self.part.add_rows(output.batch);
        if self.part.bytes >= self.part_bytes_max {
            (self.early)(std::mem::take(self.part));
        }
    }
}

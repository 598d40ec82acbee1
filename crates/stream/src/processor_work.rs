//! A running processor: a pipeline of groups and aggregates, or a profile of the workload.

mod cells;

use std::sync::Arc;

use plan::{Column, Pipeline, SampledUnit};
use tuple::{Batch, FieldId, Schema};

use crate::config::{EngineConfig, EngineCounters};
use crate::empty_windows::EmptyWindows;
use crate::loss_history::SharedLosses;
use crate::partial::bytes::{MalformedPartial, PartialReader};
use crate::pipeline::{self, PipelineState};
use crate::profile::{self, ProfileState};
use crate::result_redaction::RedactedTuples;
use crate::rows::RowSet;

/// First byte of an encoded share of groups.
const GROUPS: u8 = 0;
/// First byte of an encoded share of a profile.
const PROFILE: u8 = 1;

/// A running processor.
pub enum ProcessorWork {
    /// Groups and aggregates.
    Groups(Box<PipelineState>),
    /// A profile.
    Profile(Box<ProfileState>),
}

/// A partial result passed from a worker to the collector.
#[derive(Debug)]
pub enum WorkShare {
    /// Panes.
    Groups(pipeline::PipelineShare),
    /// Parts of a profile.
    Profile(profile::ProfileShare),
}

impl WorkShare {
    /// Approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            WorkShare::Groups(panes) => panes.iter().map(|(_, pane)| pane.bytes()).sum(),
            WorkShare::Profile(parts) => parts.iter().map(|(_, part)| part.bytes()).sum(),
        }
    }

    /// Appends the encoding; see `partial`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            WorkShare::Groups(panes) => {
                out.push(GROUPS);
                pipeline::encode(panes, out);
            }
            WorkShare::Profile(parts) => {
                out.push(PROFILE);
                profile::encode(parts, out);
            }
        }
    }

    /// Whether it contains no parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            WorkShare::Groups(panes) => panes.is_empty(),
            WorkShare::Profile(parts) => parts.is_empty(),
        }
    }
}

impl ProcessorWork {
    /// See [`PipelineState::new`].
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
        config: &EngineConfig,
        rates: Option<(FieldId, SampledUnit)>,
        is_worker: bool,
    ) -> ProcessorWork {
        match pipeline.profile {
            Some(_) => ProcessorWork::Profile(Box::new(ProfileState::new(
                pipeline,
                schema,
                place,
                config,
                rates.map(|(field, _)| field),
                is_worker,
            ))),
            None => ProcessorWork::Groups(Box::new(PipelineState::new(
                pipeline, schema, place, config, rates, is_worker,
            ))),
        }
    }

    /// The schema of the results.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        match self {
            ProcessorWork::Groups(running) => running.schema(),
            ProcessorWork::Profile(profiling) => profiling.schema(),
        }
    }

    /// Number of sums clamped to their type.
    #[must_use]
    pub fn sums_saturated(&self) -> u64 {
        match self {
            ProcessorWork::Groups(running) => running.sums_saturated(),
            ProcessorWork::Profile(_) => 0,
        }
    }

    /// See [`PipelineState::empty_windows_skipped`]; profiles have no rows for empty windows.
    #[must_use]
    pub fn empty_windows_skipped(&self) -> u64 {
        match self {
            ProcessorWork::Groups(running) => running.empty_windows_skipped(),
            ProcessorWork::Profile(_) => 0,
        }
    }

    /// See [`PipelineState::silence`].
    #[must_use]
    pub fn silence(&self) -> Option<&EmptyWindows> {
        match self {
            ProcessorWork::Groups(running) => Some(running.silence()),
            ProcessorWork::Profile(_) => None,
        }
    }

    /// Rows rejected by HAVING, and rows beyond LIMIT … ROWS.
    #[must_use]
    pub fn rows_left_out(&self) -> (u64, u64) {
        match self {
            ProcessorWork::Groups(running) => running.rows_left_out(),
            ProcessorWork::Profile(_) => (0, 0),
        }
    }

    /// Sets the losses and limits reported in result rows; rows of a profile report only limits.
    pub fn heed(&mut self, losses: &SharedLosses) {
        match self {
            ProcessorWork::Groups(running) => running.heed(losses),
            ProcessorWork::Profile(profiling) => profiling.heed(losses),
        }
    }

    /// Whether it reads `ts_end`.
    #[must_use]
    pub fn needs_time(&self) -> bool {
        match self {
            ProcessorWork::Groups(running) => running.needs_time(),
            ProcessorWork::Profile(_) => true,
        }
    }

    /// Processes `rows` of a batch.
    pub fn push(
        &mut self,
        tuples: RedactedTuples<'_>,
        rows: RowSet<'_>,
        counters: &mut EngineCounters,
        out: &mut dyn FnMut(Batch),
    ) {
        match self {
            ProcessorWork::Groups(running) => running.push(tuples, rows, counters, out),
            ProcessorWork::Profile(profiling) => profiling.push(tuples, rows, counters, out),
        }
    }

    /// Emits the windows closed by the watermark.
    pub fn advance(
        &mut self,
        watermark_ns: i64,
        counters: &mut EngineCounters,
        out: &mut dyn FnMut(Batch),
    ) {
        match self {
            ProcessorWork::Groups(running) => running.advance(watermark_ns, counters, out),
            ProcessorWork::Profile(profiling) => profiling.advance(watermark_ns, out),
        }
    }

    /// See [`PipelineState::pass`]; profiles have no rows for empty windows.
    pub fn pass(&mut self, from_ns: Option<i64>, now_ns: i64, out: &mut dyn FnMut(Batch)) {
        if let ProcessorWork::Groups(running) = self {
            running.pass(from_ns, now_ns, out);
        }
    }

    /// Emits the oldest windows early if limits are exceeded.
    pub fn make_room(&mut self, counters: &mut EngineCounters, out: &mut dyn FnMut(Batch)) {
        match self {
            ProcessorWork::Groups(running) => running.make_room(counters, out),
            ProcessorWork::Profile(profiling) => profiling.make_room(counters, out),
        }
    }

    /// Emits all windows.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        match self {
            ProcessorWork::Groups(running) => running.finish(out),
            ProcessorWork::Profile(profiling) => profiling.finish(out),
        }
    }

    /// Memory of parts waiting to be detached.
    #[must_use]
    pub fn over_bytes(&self) -> usize {
        match self {
            ProcessorWork::Groups(running) => running.over_bytes(),
            ProcessorWork::Profile(profiling) => profiling.over_bytes(),
        }
    }

    /// Takes the parts waiting to be detached.
    pub fn give(&mut self) -> WorkShare {
        match self {
            ProcessorWork::Groups(running) => WorkShare::Groups(running.give()),
            ProcessorWork::Profile(profiling) => WorkShare::Profile(profiling.give()),
        }
    }

    /// Takes a worker's share of windows closed by the watermark.
    pub fn detach(&mut self, watermark_ns: i64) -> WorkShare {
        match self {
            ProcessorWork::Groups(running) => WorkShare::Groups(running.detach(watermark_ns)),
            ProcessorWork::Profile(profiling) => WorkShare::Profile(profiling.detach(watermark_ns)),
        }
    }

    /// Takes a worker's content of open windows, except parts with errors that would add up.
    pub fn detach_open(&mut self) -> WorkShare {
        match self {
            ProcessorWork::Groups(running) => WorkShare::Groups(running.detach_open()),
            ProcessorWork::Profile(profiling) => WorkShare::Profile(profiling.detach_open()),
        }
    }

    /// Takes all parts of a worker.
    pub fn detach_all(&mut self) -> WorkShare {
        match self {
            ProcessorWork::Groups(running) => WorkShare::Groups(running.detach_all()),
            ProcessorWork::Profile(profiling) => WorkShare::Profile(profiling.detach_all()),
        }
    }

    /// See [`PipelineState::begin_at`].
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: Option<i64>) {
        match self {
            ProcessorWork::Groups(running) => running.begin_at(watermark_ns, latest_ns),
            ProcessorWork::Profile(profiling) => profiling.begin_at(watermark_ns, latest_ns),
        }
    }

    /// See [`PipelineState::over_at`].
    #[must_use]
    pub fn over_at(&self, share: &WorkShare) -> Option<i64> {
        match (self, share) {
            (ProcessorWork::Groups(running), WorkShare::Groups(panes)) => running.over_at(panes),
            (ProcessorWork::Profile(profiling), WorkShare::Profile(parts)) => {
                profiling.over_at(parts)
            }
            _ => None,
        }
    }

    /// Copies the open windows.
    #[must_use]
    pub fn peek(&self) -> WorkShare {
        match self {
            ProcessorWork::Groups(running) => WorkShare::Groups(running.peek()),
            ProcessorWork::Profile(profiling) => WorkShare::Profile(profiling.peek()),
        }
    }

    /// Approximate memory of a copy by [`ProcessorWork::peek`].
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        match self {
            ProcessorWork::Groups(running) => running.open_bytes(),
            ProcessorWork::Profile(profiling) => profiling.open_bytes(),
        }
    }

    /// Emits the rows of open windows, merged with the copies of workers.
    pub fn open_rows<'a>(
        &mut self,
        peeks: impl Iterator<Item = &'a WorkShare>,
        out: &mut dyn FnMut(Batch),
    ) {
        let of_groups = |share: &'a WorkShare| match share {
            WorkShare::Groups(panes) => Some(panes),
            WorkShare::Profile(_) => None,
        };
        if let ProcessorWork::Groups(running) = self {
            running.open_rows(peeks.filter_map(of_groups), out);
        }
    }

    /// Merges the detached parts of a worker with the same processor.
    pub fn attach(&mut self, share: WorkShare, counters: &mut EngineCounters) {
        match (self, share) {
            (ProcessorWork::Groups(running), WorkShare::Groups(panes)) => {
                running.attach(panes, counters)
            }
            (ProcessorWork::Profile(profiling), WorkShare::Profile(parts)) => {
                profiling.attach(parts, counters)
            }
            _ => unreachable!("workers run the same dataflow"),
        }
    }

    /// Decodes the share of a worker with the same processor.
    pub fn decode(&self, from: &mut PartialReader<'_>) -> Result<WorkShare, MalformedPartial> {
        match (self, from.byte()?) {
            (ProcessorWork::Groups(running), GROUPS) => running.decode(from).map(WorkShare::Groups),
            (ProcessorWork::Profile(profiling), PROFILE) => {
                profiling.decode(from).map(WorkShare::Profile)
            }
            _ => Err(MalformedPartial::OtherDataflow("the kind of a pipeline")),
        }
    }
}

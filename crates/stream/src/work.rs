//! A running processor: a pipeline of groups and aggregates, or a profile of the workload.

mod cells;

use std::sync::Arc;

use plan::{Column, Pipeline};
use tuple::{Batch, FieldId, Schema};

use crate::config::{Config, Counters};
use crate::folding::Tuples;
use crate::losses::SharedLosses;
use crate::partial::bytes::{Malformed, Reader};
use crate::pipeline::{self, Running};
use crate::profile::{self, Profiling};
use crate::rows::Rows;
use crate::silence::Silence;

/// First byte of an encoded share of groups.
const GROUPS: u8 = 0;
/// First byte of an encoded share of a profile.
const PROFILE: u8 = 1;

/// A running processor.
pub enum Work {
    /// Groups and aggregates.
    Groups(Box<Running>),
    /// A profile.
    Profile(Box<Profiling>),
}

/// A partial result passed from a worker to the collector.
#[derive(Debug)]
pub enum Share {
    /// Panes.
    Groups(pipeline::Share),
    /// Parts of a profile.
    Profile(profile::Share),
}

impl Share {
    /// Approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Share::Groups(panes) => panes.iter().map(|(_, pane)| pane.bytes()).sum(),
            Share::Profile(parts) => parts.iter().map(|(_, part)| part.bytes()).sum(),
        }
    }

    /// Appends the encoding; see `partial`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Share::Groups(panes) => {
                out.push(GROUPS);
                pipeline::encode(panes, out);
            }
            Share::Profile(parts) => {
                out.push(PROFILE);
                profile::encode(parts, out);
            }
        }
    }

    /// Whether it contains no parts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self {
            Share::Groups(panes) => panes.is_empty(),
            Share::Profile(parts) => parts.is_empty(),
        }
    }
}

impl Work {
    /// See [`Running::new`].
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
        config: &Config,
        rates: Option<FieldId>,
        is_worker: bool,
    ) -> Work {
        match pipeline.profile {
            Some(_) => {
                Work::Profile(Box::new(Profiling::new(pipeline, schema, place, config, rates, is_worker)))
            }
            None => Work::Groups(Box::new(Running::new(pipeline, schema, place, config, rates, is_worker))),
        }
    }

    /// The schema of the results.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        match self {
            Work::Groups(running) => running.schema(),
            Work::Profile(profiling) => profiling.schema(),
        }
    }

    /// Number of sums clamped to their type.
    #[must_use]
    pub fn sums_saturated(&self) -> u64 {
        match self {
            Work::Groups(running) => running.sums_saturated(),
            Work::Profile(_) => 0,
        }
    }

    /// See [`Running::empty_windows_skipped`]; profiles have no rows for empty windows.
    #[must_use]
    pub fn empty_windows_skipped(&self) -> u64 {
        match self {
            Work::Groups(running) => running.empty_windows_skipped(),
            Work::Profile(_) => 0,
        }
    }

    /// See [`Running::silence`].
    #[must_use]
    pub fn silence(&self) -> Option<&Silence> {
        match self {
            Work::Groups(running) => Some(running.silence()),
            Work::Profile(_) => None,
        }
    }

    /// Rows rejected by HAVING, and rows beyond LIMIT … ROWS.
    #[must_use]
    pub fn rows_left_out(&self) -> (u64, u64) {
        match self {
            Work::Groups(running) => running.rows_left_out(),
            Work::Profile(_) => (0, 0),
        }
    }

    /// Sets the losses and limits reported in result rows; rows of a profile report only limits.
    pub fn heed(&mut self, losses: &SharedLosses) {
        match self {
            Work::Groups(running) => running.heed(losses),
            Work::Profile(profiling) => profiling.heed(losses),
        }
    }

    /// Whether it reads `ts_end`.
    #[must_use]
    pub fn needs_time(&self) -> bool {
        match self {
            Work::Groups(running) => running.needs_time(),
            Work::Profile(_) => true,
        }
    }

    /// Processes `rows` of a batch.
    pub fn push(
        &mut self,
        tuples: Tuples<'_>,
        rows: Rows<'_>,
        counters: &mut Counters,
        out: &mut dyn FnMut(Batch),
    ) {
        match self {
            Work::Groups(running) => running.push(tuples, rows, counters, out),
            Work::Profile(profiling) => profiling.push(tuples, rows, counters, out),
        }
    }

    /// Emits the windows closed by the watermark.
    pub fn advance(&mut self, watermark_ns: i64, counters: &mut Counters, out: &mut dyn FnMut(Batch)) {
        match self {
            Work::Groups(running) => running.advance(watermark_ns, counters, out),
            Work::Profile(profiling) => profiling.advance(watermark_ns, out),
        }
    }

    /// See [`Running::pass`]; profiles have no rows for empty windows.
    pub fn pass(&mut self, from_ns: Option<i64>, now_ns: i64, out: &mut dyn FnMut(Batch)) {
        if let Work::Groups(running) = self {
            running.pass(from_ns, now_ns, out);
        }
    }

    /// Emits the oldest windows early if limits are exceeded.
    pub fn make_room(&mut self, counters: &mut Counters, out: &mut dyn FnMut(Batch)) {
        match self {
            Work::Groups(running) => running.make_room(counters, out),
            Work::Profile(profiling) => profiling.make_room(counters, out),
        }
    }

    /// Emits all windows.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        match self {
            Work::Groups(running) => running.finish(out),
            Work::Profile(profiling) => profiling.finish(out),
        }
    }

    /// Memory of parts waiting to be detached.
    #[must_use]
    pub fn over_bytes(&self) -> usize {
        match self {
            Work::Groups(running) => running.over_bytes(),
            Work::Profile(profiling) => profiling.over_bytes(),
        }
    }

    /// Takes the parts waiting to be detached.
    pub fn give(&mut self) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.give()),
            Work::Profile(profiling) => Share::Profile(profiling.give()),
        }
    }

    /// Takes a worker's share of windows closed by the watermark.
    pub fn detach(&mut self, watermark_ns: i64) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.detach(watermark_ns)),
            Work::Profile(profiling) => Share::Profile(profiling.detach(watermark_ns)),
        }
    }

    /// Takes a worker's content of open windows, except parts with errors that would add up.
    pub fn detach_open(&mut self) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.detach_open()),
            Work::Profile(profiling) => Share::Profile(profiling.detach_open()),
        }
    }

    /// Takes all parts of a worker.
    pub fn detach_all(&mut self) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.detach_all()),
            Work::Profile(profiling) => Share::Profile(profiling.detach_all()),
        }
    }

    /// See [`Running::begin_at`].
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: Option<i64>) {
        match self {
            Work::Groups(running) => running.begin_at(watermark_ns, latest_ns),
            Work::Profile(profiling) => profiling.begin_at(watermark_ns, latest_ns),
        }
    }

    /// See [`Running::over_at`].
    #[must_use]
    pub fn over_at(&self, share: &Share) -> Option<i64> {
        match (self, share) {
            (Work::Groups(running), Share::Groups(panes)) => running.over_at(panes),
            (Work::Profile(profiling), Share::Profile(parts)) => profiling.over_at(parts),
            _ => None,
        }
    }

    /// Copies the open windows.
    #[must_use]
    pub fn peek(&self) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.peek()),
            Work::Profile(profiling) => Share::Profile(profiling.peek()),
        }
    }

    /// Approximate memory of a copy by [`Work::peek`].
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        match self {
            Work::Groups(running) => running.open_bytes(),
            Work::Profile(profiling) => profiling.open_bytes(),
        }
    }

    /// Emits the rows of open windows, merged with the copies of workers.
    pub fn open_rows<'a>(&mut self, peeks: impl Iterator<Item = &'a Share>, out: &mut dyn FnMut(Batch)) {
        let of_groups = |share: &'a Share| match share {
            Share::Groups(panes) => Some(panes),
            Share::Profile(_) => None,
        };
        if let Work::Groups(running) = self {
            running.open_rows(peeks.filter_map(of_groups), out);
        }
    }

    /// Merges the detached parts of a worker with the same processor.
    pub fn attach(&mut self, share: Share, counters: &mut Counters) {
        match (self, share) {
            (Work::Groups(running), Share::Groups(panes)) => running.attach(panes, counters),
            (Work::Profile(profiling), Share::Profile(parts)) => profiling.attach(parts, counters),
            _ => unreachable!("workers run the same dataflow"),
        }
    }

    /// Decodes the share of a worker with the same processor.
    pub fn decode(&self, from: &mut Reader<'_>) -> Result<Share, Malformed> {
        match (self, from.byte()?) {
            (Work::Groups(running), GROUPS) => running.decode(from).map(Share::Groups),
            (Work::Profile(profiling), PROFILE) => profiling.decode(from).map(Share::Profile),
            _ => Err(Malformed::OtherDataflow("the kind of a pipeline")),
        }
    }
}

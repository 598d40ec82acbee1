//! One processor at work: a pipeline of groups and aggregates, or a profile of the workload.

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

/// What an encoded share begins with.
const GROUPS: u8 = 0;
/// The other.
const PROFILE: u8 = 1;

/// Either of them.
pub enum Work {
    /// Groups and aggregates.
    Groups(Box<Running>),
    /// A profile.
    Profile(Box<Profiling>),
}

/// What leaves a worker for the engine that collects.
#[derive(Debug)]
pub enum Share {
    /// Panes.
    Groups(pipeline::Share),
    /// Parts of a profile.
    Profile(profile::Share),
}

impl Share {
    /// Memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Share::Groups(panes) => panes.iter().map(|(_, pane)| pane.bytes()).sum(),
            Share::Profile(parts) => parts.iter().map(|(_, part)| part.bytes()).sum(),
        }
    }

    /// See `partial`.
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

    /// Whether there is nothing in it.
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

    /// Sums so far that left their type.
    #[must_use]
    pub fn sums_saturated(&self) -> u64 {
        match self {
            Work::Groups(running) => running.sums_saturated(),
            Work::Profile(_) => 0,
        }
    }

    /// See [`Running::empty_windows_skipped`]; profiles have rows for what was seen only.
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

    /// Rows that HAVING left out, and those beyond LIMIT … ROWS.
    #[must_use]
    pub fn rows_left_out(&self) -> (u64, u64) {
        match self {
            Work::Groups(running) => running.rows_left_out(),
            Work::Profile(_) => (0, 0),
        }
    }

    /// Its rows say what is lost, which those of a profile do not, and which limits took effect.
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

    /// Takes `rows` of a batch.
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

    /// Emits the windows that the watermark has passed.
    pub fn advance(&mut self, watermark_ns: i64, counters: &mut Counters, out: &mut dyn FnMut(Batch)) {
        match self {
            Work::Groups(running) => running.advance(watermark_ns, counters, out),
            Work::Profile(profiling) => profiling.advance(watermark_ns, out),
        }
    }

    /// See [`Running::pass`]; profiles have rows for what was seen only.
    pub fn pass(&mut self, from_ns: Option<i64>, now_ns: i64, out: &mut dyn FnMut(Batch)) {
        if let Work::Groups(running) = self {
            running.pass(from_ns, now_ns, out);
        }
    }

    /// Emits the oldest windows early where there are too many.
    pub fn make_room(&mut self, counters: &mut Counters, out: &mut dyn FnMut(Batch)) {
        match self {
            Work::Groups(running) => running.make_room(counters, out),
            Work::Profile(profiling) => profiling.make_room(counters, out),
        }
    }

    /// Emits everything.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        match self {
            Work::Groups(running) => running.finish(out),
            Work::Profile(profiling) => profiling.finish(out),
        }
    }

    /// Memory of what waits to be detached.
    #[must_use]
    pub fn over_bytes(&self) -> usize {
        match self {
            Work::Groups(running) => running.over_bytes(),
            Work::Profile(profiling) => profiling.over_bytes(),
        }
    }

    /// What waits to be detached.
    pub fn give(&mut self) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.give()),
            Work::Profile(profiling) => Share::Profile(profiling.give()),
        }
    }

    /// What a worker has of windows that are over at the watermark.
    pub fn detach(&mut self, watermark_ns: i64) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.detach(watermark_ns)),
            Work::Profile(profiling) => Share::Profile(profiling.detach(watermark_ns)),
        }
    }

    /// What a worker has of windows that are open, where that adds up without errors.
    pub fn detach_open(&mut self) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.detach_open()),
            Work::Profile(profiling) => Share::Profile(profiling.detach_open()),
        }
    }

    /// All that a worker has.
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

    /// A copy of what is open.
    #[must_use]
    pub fn peek(&self) -> Share {
        match self {
            Work::Groups(running) => Share::Groups(running.peek()),
            Work::Profile(profiling) => Share::Profile(profiling.peek()),
        }
    }

    /// Memory of what [`Work::peek`] would copy, about.
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        match self {
            Work::Groups(running) => running.open_bytes(),
            Work::Profile(profiling) => profiling.open_bytes(),
        }
    }

    /// The rows of open windows, together with what workers have of them.
    pub fn open_rows<'a>(&mut self, peeks: impl Iterator<Item = &'a Share>, out: &mut dyn FnMut(Batch)) {
        let of_groups = |share: &'a Share| match share {
            Share::Groups(panes) => Some(panes),
            Share::Profile(_) => None,
        };
        if let Work::Groups(running) = self {
            running.open_rows(peeks.filter_map(of_groups), out);
        }
    }

    /// Takes over what a worker of the same processor detached.
    pub fn attach(&mut self, share: Share, counters: &mut Counters) {
        match (self, share) {
            (Work::Groups(running), Share::Groups(panes)) => running.attach(panes, counters),
            (Work::Profile(profiling), Share::Profile(parts)) => profiling.attach(parts, counters),
            _ => unreachable!("workers run the same dataflow"),
        }
    }

    /// What a worker of the same processor encoded.
    pub fn decode(&self, from: &mut Reader<'_>) -> Result<Share, Malformed> {
        match (self, from.byte()?) {
            (Work::Groups(running), GROUPS) => running.decode(from).map(Share::Groups),
            (Work::Profile(profiling), PROFILE) => profiling.decode(from).map(Share::Profile),
            _ => Err(Malformed::OtherDataflow("the kind of a pipeline")),
        }
    }
}

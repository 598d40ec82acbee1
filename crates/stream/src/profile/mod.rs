//! A profile of a workload: the kinds of operations, their sizes, durations, and order, and their objects and
//! clients. Tuples are assigned to windows as in a pipeline. A window is one [`ProfilePart`] of bounded size and is emitted
//! as rows of sections ([`report`]).
//!
//! An operation is compared with the previous one on the same file *over the same connection*. The result therefore
//! does not depend on the number of workers, since all tuples of a connection go to the same worker.

mod encoding;
mod heavy_hitters;
mod part;
mod positions;
mod report;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use plan::{Column, Pipeline};
use tuple::{Batch, DataType, FieldId, Schema, common};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::cells::CellTimes;
use crate::column::{ColumnValues, ColumnView, mix};
use crate::config::{EngineConfig, EngineCounters};
use crate::limited_stretches::LimitedStretch;
use crate::loss_history::SharedLosses;
use crate::ops::filter::{TruthMask, TupleFilter};
use crate::pane::WEIGHT_UNIT;
use crate::result_redaction::RedactedTuples;
use crate::rows::RowSet;
use crate::scalar::Scalar;
use crate::seed::RESULT_SEED;
use crate::window::WindowLayout;
use heavy_hitters::{NAME_BYTES, name_of};
use part::{AccessPattern, FailedOperation, OperationKind, ProfilePart, ProfiledOperation};
use positions::FilePositions;
use report::ProfileReport;

/// Maximum open windows, unless the lateness needs more: a window may use some megabytes.
const OPEN_MAX: usize = 64;
/// Approximate maximum memory of a key in all lists of objects and clients.
const KEY_BYTES: usize = 2048;
/// Displayed for a null operation, status, or key.
const UNKNOWN: &str = "(unknown)";

pub use encoding::encode;

/// Parts passed from a worker's profile to the collector, with their window numbers.
pub type ProfileShare = Vec<(i64, ProfilePart)>;

/// A running profile.
pub struct ProfileState {
    columns: ProfileColumns,
    windows: Option<WindowLayout>,
    lateness_ns: i64,
    near: u64,
    /// Types of the ranked columns.
    object_type: DataType,
    client_type: DataType,
    keys_max: usize,
    open_max: usize,
    config: EngineConfig,
    positions: FilePositions,
    parts: BTreeMap<i64, ProfilePart>,
    /// The first window not yet emitted, once set by the watermark.
    next: i128,
    is_worker: bool,
    /// Approximate memory of all parts, and the limit.
    bytes: usize,
    bytes_max: usize,
    /// Parts waiting for [`ProfileState::detach`], and their memory.
    over: ProfileShare,
    over_bytes: usize,
    report: ProfileReport,
}

/// Positions of the columns read.
struct ProfileColumns {
    operation: FieldId,
    reads: TupleFilter,
    writes: TupleFilter,
    success: Option<TupleFilter>,
    status: Option<FieldId>,
    time: Option<FieldId>,
    /// Bytes of reads and of writes.
    bytes: [Option<FieldId>; 2],
    size: Option<FieldId>,
    offset: Option<FieldId>,
    file: Option<FieldId>,
    aligned: Option<FieldId>,
    checksums: Option<FieldId>,
    object: Option<FieldId>,
    client: FieldId,
    rates: Option<FieldId>,
}

/// The columns of one batch.
struct ProfileBatch<'a> {
    operation: ColumnView<'a>,
    operations: Vec<u64>,
    reads: TruthMask,
    writes: TruthMask,
    success: Option<TruthMask>,
    status: Option<ColumnView<'a>>,
    time: Option<ColumnView<'a>>,
    bytes: [Option<ColumnView<'a>>; 2],
    size: Option<ColumnView<'a>>,
    offset: Option<ColumnView<'a>>,
    file: Option<(ColumnView<'a>, Vec<u64>)>,
    aligned: Option<ColumnView<'a>>,
    checksums: Option<ColumnView<'a>>,
    object: Option<(ColumnView<'a>, Vec<u64>)>,
    client: (ColumnView<'a>, Vec<u64>),
    rates: Option<ColumnView<'a>>,
    /// Seed of the key hashes.
    seed: u64,
}

impl ProfileState {
    /// Creates the profile of a pipeline over tuples of `schema`; `place` maps columns of the dataflow.
    ///
    /// # Panics
    /// If the pipeline is invalid; the planner rejects these.
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
        config: &EngineConfig,
        rates: Option<FieldId>,
        is_worker: bool,
    ) -> ProfileState {
        let profile = pipeline
            .profile
            .as_ref()
            .expect("the pipeline is a profile");
        let filter = |predicate| TupleFilter::new(predicate, schema, place);
        let at = |column: Option<Column>| column.map(place);
        let columns = ProfileColumns {
            operation: place(profile.operation),
            reads: filter(&profile.reads),
            writes: filter(&profile.writes),
            success: profile.success.as_ref().map(filter),
            status: at(profile.status),
            time: at(profile.response_time),
            bytes: [at(profile.read_bytes), at(profile.write_bytes)],
            size: at(profile.size),
            offset: at(profile.offset),
            file: at(profile.file),
            aligned: at(profile.aligned),
            checksums: at(profile.checksums),
            object: at(profile.object),
            client: place(profile.client),
            rates,
        };
        let windows = pipeline.window.as_ref().map(WindowLayout::new);
        let lateness_ns = pipeline.window.map_or(0, |w| w.lateness_ns.max(0));
        let needed = windows.map_or(1, |w| w.panes_open(lateness_ns));
        ProfileState {
            report: ProfileReport::new(pipeline, profile, schema, place),
            columns,
            windows,
            lateness_ns,
            near: profile.near,
            object_type: profile
                .object
                .map_or(DataType::Text, |c| schema.field(place(c)).data_type),
            client_type: schema.field(place(profile.client)).data_type,
            keys_max: pipeline
                .groups_max
                .min((config.window_bytes_max / 4 / KEY_BYTES).max(64)),
            open_max: config.panes_max.min(OPEN_MAX).max(needed),
            positions: FilePositions::new(config.positions_max),
            config: config.clone(),
            parts: BTreeMap::new(),
            next: i128::MIN,
            is_worker,
            bytes: 0,
            bytes_max: config.window_bytes_max,
            over: ProfileShare::new(),
            over_bytes: 0,
        }
    }

    /// The schema of the results.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.report.schema()
    }

    /// Sets the limits reported in result rows.
    pub fn heed(&mut self, losses: &SharedLosses) {
        self.report.losses = losses.clone();
    }

    /// Records that a limit may have affected the windows within these bounds.
    fn limit(&self, (from_ns, end_ns): (i64, i64), times: u64) {
        let limited = LimitedStretch {
            from_ns,
            to_ns: end_ns.saturating_sub(1),
            times,
        };
        self.report
            .losses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .limit(limited);
    }

    fn bounds(&self, window: i64) -> (i64, i64) {
        self.windows.map_or((i64::MIN, i64::MAX), |windows| {
            windows.bounds(window.into())
        })
    }

    /// Processes `rows` of a batch.
    pub fn push(
        &mut self,
        tuples: RedactedTuples<'_>,
        rows: RowSet<'_>,
        counters: &mut EngineCounters,
        out: &mut dyn FnMut(Batch),
    ) {
        let frame = self.columns.frame(tuples, rows, self.key_seed());
        let batch = tuples.seen;
        let times = ColumnView::of(batch, common::TS_END);
        let (ColumnValues::I64(ns), ColumnValues::U64(ids)) =
            (times.values, ColumnView::of(batch, common::ID).values)
        else {
            unreachable!("times are signed integers, ids unsigned ones")
        };
        let mut known = None;
        let forgotten = self.positions.forgotten;
        let skipped = counters.blocks_skipped;
        let mut touched = (i64::MAX, i64::MIN);
        rows.each(|at, row| {
            let mut one = self.columns.one(&frame, at, row, self.config.sample);
            one.pattern = self.follow(ids[row], &one);
            one.is_doubtful =
                one.pattern == Some(AccessPattern::First) && self.positions.forgotten > 0;
            let window = match (times.is_valid(row), &self.windows) {
                (false, _) => None,
                (true, None) => Some(0),
                (true, Some(windows)) => Some(windows.pane_near(ns[row], &mut known)),
            };
            let on_time = |window: &i64| self.windows.is_none() || i128::from(*window) >= self.next;
            let Some(window) = window.filter(on_time) else {
                counters.tuples_late += 1;
                return;
            };
            let keys_max = self.keys_max;
            let config = &self.config;
            let part = self
                .parts
                .entry(window)
                .or_insert_with(|| ProfilePart::new(keys_max, config));
            touched = (touched.0.min(window), touched.1.max(window));
            frame.take(part, ns[row], at, row, &one, counters);
            if self.parts.len() > self.open_max {
                self.force_oldest(counters, out);
            }
        });
        counters.positions_forgotten += self.positions.forgotten - forgotten;
        if counters.blocks_skipped > skipped {
            let bounds = (self.bounds(touched.0).0, self.bounds(touched.1).1);
            self.limit(bounds, counters.blocks_skipped - skipped);
        }
        self.weigh(touched);
        self.make_room(counters, out);
    }

    /// Emits the oldest windows early if there are too many, or they use too much memory.
    pub fn make_room(&mut self, counters: &mut EngineCounters, out: &mut dyn FnMut(Batch)) {
        let has_more = |profiling: &ProfileState| {
            profiling.parts.len() > profiling.open_max
                || (profiling.parts.len() > 1 && profiling.bytes > profiling.bytes_max)
        };
        while has_more(self) {
            self.force_oldest(counters, out);
        }
    }

    /// Updates the counted memory of the parts of a range of windows.
    fn weigh(&mut self, (first, last): (i64, i64)) {
        if first > last {
            return;
        }
        for part in self.parts.range_mut(first..=last).map(|(_, part)| part) {
            let bytes = part.bytes();
            self.bytes = self.bytes + bytes - part.weighed;
            part.weighed = bytes;
        }
    }

    /// Emits the windows closed by the watermark.
    pub fn advance(&mut self, watermark_ns: i64, out: &mut dyn FnMut(Batch)) {
        if let Some(open) = self.first_open(watermark_ns) {
            self.emit_before(open, out);
            self.next = self.next.max(open);
        }
    }

    /// Emits all windows.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        self.emit_before(i128::MAX, out);
    }

    /// Returns the parts of windows closed by the watermark.
    pub fn detach(&mut self, watermark_ns: i64) -> ProfileShare {
        if let Some(open) = self.first_open(watermark_ns) {
            self.set_aside(open);
        }
        self.give()
    }

    /// Takes the content of open parts, except those with overflowed lists, because errors would add up.
    pub fn detach_open(&mut self) -> ProfileShare {
        let (stay, leave): (BTreeMap<i64, ProfilePart>, BTreeMap<i64, ProfilePart>) =
            std::mem::take(&mut self.parts)
                .into_iter()
                .partition(|(_, part)| part.is_overflowed());
        self.parts = stay;
        leave
            .into_iter()
            .for_each(|(window, part)| self.put_aside(window, part));
        self.give()
    }

    /// Takes all parts.
    pub fn detach_all(&mut self) -> ProfileShare {
        self.set_aside(i128::MAX);
        self.give()
    }

    /// A copy of open parts; empty for a worker, because open windows of a profile are not shown. A collecting process
    /// copies only to persist.
    #[must_use]
    pub fn peek(&self) -> ProfileShare {
        if self.is_worker {
            ProfileShare::new()
        } else {
            self.parts
                .iter()
                .map(|(window, part)| (*window, part.clone()))
                .collect()
        }
    }

    /// Approximate memory of a copy by [`ProfileState::peek`].
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        if self.is_worker { 0 } else { self.bytes }
    }

    /// Memory of parts waiting to be detached.
    #[must_use]
    pub fn over_bytes(&self) -> usize {
        self.over_bytes
    }

    /// Takes the parts waiting to be detached.
    pub fn give(&mut self) -> ProfileShare {
        self.over_bytes = 0;
        std::mem::take(&mut self.over)
    }

    /// Merges parts of the same profile from another engine.
    pub fn attach(&mut self, share: ProfileShare, counters: &mut EngineCounters) {
        for (window, theirs) in share {
            if self.windows.is_some() && i128::from(window) < self.next {
                counters.tuples_late += theirs.tuples;
                continue;
            }
            let keys_max = self.keys_max;
            let config = &self.config;
            let mine = self
                .parts
                .entry(window)
                .or_insert_with(|| ProfilePart::new(keys_max, config));
            counters.groups_overflowed += mine.merge(theirs) as u64;
            self.weigh((window, window));
        }
    }

    /// Keys are compared only by their hashes: a zero seed would make the hashes of addresses equal.
    fn key_seed(&self) -> u64 {
        mix(self.config.seed)
    }

    /// The position of an operation relative to the previous one on its file.
    fn follow(&mut self, flow: u64, one: &ProfiledOperation<'_>) -> Option<AccessPattern> {
        let (file, offset) = one.place?;
        let size = one.size?;
        let key = mix(mix(flow ^ self.config.seed)
            ^ file.rotate_left(u32::from(one.kind == OperationKind::Write)));
        let Some(end) = self
            .positions
            .replace(key, offset.saturating_add(one.bytes))
        else {
            return Some(AccessPattern::First);
        };
        let is_near = offset.abs_diff(end) <= size.saturating_mul(self.near);
        Some(if is_near {
            AccessPattern::Sequential
        } else {
            AccessPattern::Random
        })
    }

    /// See [`crate::pipeline::PipelineState::begin_at`].
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: Option<i64>) {
        let Some(open) = self.first_open(watermark_ns) else {
            return;
        };
        let Some(windows) = self.windows else { return };
        let latest = latest_ns.map(|start| windows.last_of(windows.pane(start)));
        self.next = latest.map_or(open, |latest| open.max(latest + 1));
    }

    /// See [`crate::pipeline::PipelineState::over_at`].
    #[must_use]
    pub fn over_at(&self, share: &ProfileShare) -> Option<i64> {
        let last = share.iter().map(|(window, _)| *window).max()?;
        let end = self.windows.map(|windows| windows.bounds(last.into()).1);
        Some(end.map_or(i64::MAX, |end| end.saturating_add(self.lateness_ns)))
    }

    /// The times of cells detached at a watermark.
    #[must_use]
    pub fn times(&self, watermark_ns: i64) -> CellTimes {
        CellTimes::new(self.windows, self.lateness_ns, watermark_ns)
    }

    /// Approximate memory limit.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn first_open(&self, watermark_ns: i64) -> Option<i128> {
        Some(
            self.windows?
                .first_open(watermark_ns.saturating_sub(self.lateness_ns)),
        )
    }

    fn force_oldest(&mut self, counters: &mut EngineCounters, out: &mut dyn FnMut(Batch)) {
        let Some((&oldest, _)) = self.parts.first_key_value() else {
            return;
        };
        counters.windows_forced += 1;
        self.limit(self.bounds(oldest), 1);
        let beyond = i128::from(oldest) + 1;
        if self.is_worker {
            self.set_aside(beyond)
        } else {
            self.emit_before(beyond, out)
        }
        self.next = self.next.max(beyond);
    }

    fn set_aside(&mut self, open: i128) {
        while let Some(entry) = self
            .parts
            .first_entry()
            .filter(|e| i128::from(*e.key()) < open)
        {
            let (window, part) = entry.remove_entry();
            self.put_aside(window, part);
        }
        self.next = self.next.max(open);
    }

    fn put_aside(&mut self, window: i64, part: ProfilePart) {
        self.bytes -= part.weighed;
        self.over_bytes += part.bytes();
        self.over.push((window, part));
    }

    fn emit_before(&mut self, end: i128, out: &mut dyn FnMut(Batch)) {
        while let Some(entry) = self
            .parts
            .first_entry()
            .filter(|e| i128::from(*e.key()) < end)
        {
            let (window, part) = entry.remove_entry();
            self.bytes -= part.weighed;
            let bounds = self.windows.map(|windows| windows.bounds(window.into()));
            out(self.report.write(&part, bounds));
        }
    }
}

impl ProfileColumns {
    fn frame<'a>(
        &self,
        tuples: RedactedTuples<'a>,
        rows: RowSet<'_>,
        seed: u64,
    ) -> ProfileBatch<'a> {
        let RedactedTuples { seen: batch, told } = tuples;
        let view = |field| ColumnView::of(told, field);
        let hashed = |field, seed| {
            let mut hashes = vec![seed; rows.len()];
            view(field).hash_into(rows, &mut hashes);
            (view(field), hashes)
        };
        let key = |field| {
            let (view, mut hashes) = hashed(field, seed);
            if let ColumnValues::Text(texts) = view.values {
                rows.each(|at, row| {
                    if texts.value_length(row) as usize > NAME_BYTES {
                        hashes[at] = name_hash(&name_of(text(view, row)), seed);
                    }
                });
            }
            (view, hashes)
        };
        let (operation, operations) = key(self.operation);
        ProfileBatch {
            operation,
            operations,
            reads: self.reads.evaluate(batch),
            writes: self.writes.evaluate(batch),
            success: self.success.as_ref().map(|f| f.evaluate(batch)),
            status: self.status.map(view),
            time: self.time.map(view),
            bytes: self.bytes.map(|field| field.map(view)),
            size: self.size.map(view),
            offset: self.offset.map(view),
            // The working set appears in results, so its hashes are the same in every run.
            file: self.file.map(|field| hashed(field, RESULT_SEED)),
            aligned: self.aligned.map(view),
            checksums: self.checksums.map(view),
            object: self.object.map(key),
            client: key(self.client),
            seed,
            rates: self.rates.map(view),
        }
    }

    /// The operation in a row, without its pattern.
    fn one<'a>(
        &self,
        frame: &'a ProfileBatch<'a>,
        at: usize,
        row: usize,
        sample: f64,
    ) -> ProfiledOperation<'a> {
        let kind = match (frame.reads.yes.value(row), frame.writes.yes.value(row)) {
            (true, _) => OperationKind::Read,
            (false, true) => OperationKind::Write,
            _ => OperationKind::Other,
        };
        let number = |view: Option<ColumnView<'_>>| match view?.scalar(row) {
            Scalar::U64(v) => Some(v),
            Scalar::I64(v) => u64::try_from(v).ok(),
            _ => None,
        };
        let rate = match frame.rates.map(|rates| rates.scalar(row)) {
            Some(Scalar::F64(rate)) if rate > 0.0 && rate <= 1.0 => rate,
            Some(_) => 1.0,
            None => sample,
        };
        let moved = if kind == OperationKind::Other {
            None
        } else {
            number(frame.bytes[kind as usize])
        };
        let size = if kind == OperationKind::Other {
            None
        } else {
            number(frame.size).or(moved)
        };
        let file = frame.file.as_ref().filter(|(file, _)| file.is_valid(row));
        let place = |(_, hashes): &(_, Vec<u64>)| Some((hashes[at], number(frame.offset)?));
        let operation = match frame.operation.scalar(row) {
            Scalar::Text(_) => text(frame.operation, row),
            _ => UNKNOWN,
        };
        ProfiledOperation {
            // The smallest rate is bounded so that sums cannot overflow.
            weight: (WEIGHT_UNIT / rate.max(1.0 / WEIGHT_UNIT)).round() as u128,
            operation: (frame.operations[at], operation),
            kind,
            bytes: moved.unwrap_or(0),
            size,
            time_ns: match frame.time.map(|time| time.scalar(row)) {
                Some(Scalar::I64(ns)) => Some(ns),
                _ => None,
            },
            failed: frame
                .success
                .as_ref()
                .is_some_and(|success| success.no.value(row)),
            pattern: None,
            is_doubtful: false,
            place: moved.and(file).and_then(place),
            aligned: match frame.aligned.map(|aligned| aligned.scalar(row)) {
                Some(Scalar::Bool(aligned)) => Some(aligned),
                _ => None,
            },
            checksums: match frame.checksums.map(|checksums| checksums.scalar(row)) {
                Some(Scalar::Hashes(list)) => list,
                _ => &[],
            },
        }
    }
}

impl ProfileBatch<'_> {
    /// Adds the operation in a row to a part.
    fn take(
        &self,
        part: &mut ProfilePart,
        time_ns: i64,
        at: usize,
        row: usize,
        one: &ProfiledOperation<'_>,
        counters: &mut EngineCounters,
    ) {
        let (skipped, took) = part.take(time_ns, one);
        counters.blocks_skipped += skipped;
        counters.groups_overflowed += u64::from(took);
        if one.failed {
            let status = self
                .status
                .map_or_else(|| UNKNOWN.into(), |status| shown(status, row));
            let name = name_of(&format!("{} {status}", one.operation.1));
            let (failed, took) = part
                .errors
                .add(name_hash(&name, self.seed), || name, one.weight);
            *failed = FailedOperation(one.operation.0);
            counters.groups_overflowed += u64::from(took);
        }
        if let Some((view, hashes)) = self.object.as_ref().filter(|(view, _)| view.is_valid(row)) {
            counters.groups_overflowed += part.objects.take(hashes[at], || shown(*view, row), one);
        }
        let (view, hashes) = &self.client;
        counters.groups_overflowed += part.clients.take(hashes[at], || shown(*view, row), one);
    }
}

/// Hash that identifies a text, from its displayed part.
fn name_hash(name: &str, seed: u64) -> u64 {
    xxh3_64_with_seed(name.as_bytes(), seed)
}

/// The text of a row; empty for null.
fn text(view: ColumnView<'_>, row: usize) -> &str {
    match view.values {
        ColumnValues::Text(texts) if view.is_valid(row) => texts.value(row),
        _ => "",
    }
}

/// A value as the displayed text of a key.
fn shown(view: ColumnView<'_>, row: usize) -> Box<str> {
    match view.scalar(row) {
        Scalar::Null => UNKNOWN.into(),
        Scalar::Bool(v) => v.to_string().into(),
        Scalar::U64(v) => v.to_string().into(),
        Scalar::I64(v) => v.to_string().into(),
        Scalar::F64(v) => v.to_string().into(),
        Scalar::Text(_) => name_of(text(view, row)),
        Scalar::Ip(v) => std::net::Ipv6Addr::from(*v)
            .to_canonical()
            .to_string()
            .into(),
        Scalar::Hashes(v) => tuple::hashes::to_text(v).into(),
    }
}

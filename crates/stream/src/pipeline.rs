//! Runs a pipeline: assigns tuples to panes, closes windows as event time advances, and emits their results.
//!
//! A window is emitted once, when the watermark has passed its end by the lateness. The number of empty windows
//! processed is bounded ([`empty`]): the cost of a clock jump depends on the open windows, not on the skipped time.

mod cells;
mod empty;
mod encoding;
mod open;

use std::borrow::Cow;
use std::collections::BTreeMap;

use plan::{Column, Pipeline, SampledUnit};
use tuple::{Batch, DataType, Field, FieldId, Schema, common};

use crate::column::{ColumnValues, ColumnView, mix};
use crate::config::{EngineConfig, EngineCounters};
use crate::empty_windows::EmptyWindows;
use crate::limited_stretches::LimitedStretch;
use crate::loss_history::SharedLosses;
use crate::ops::accumulator_spec::AccumulatorPlan;
use crate::ops::aggregate::{AccumulatorInputs, AggregateShape};
use crate::ops::distinct::ColumnHashes;
use crate::ops::group_by::KeyColumns;
use crate::pane::{
    GroupBudget, GroupOverflow, LEVEL_MAX, Pane, PaneBatch, PaneLayout, PaneScratch,
};
use crate::result_redaction::RedactedTuples;
use crate::results::{EmittedWindow, ResultWriter};
use crate::rows::RowSet;
use crate::sampling::{REPLICATES, replicate};
use crate::seed::RESULT_SEED;
use crate::sliding_merge::SlidingMerge;
use crate::window::WindowLayout;

/// Panes passed from a worker's pipeline to the collector, with their numbers.
pub type PipelineShare = Vec<(i64, Pane)>;

pub use encoding::encode;

/// The open panes, and results of incomplete batches.
pub struct PipelineState {
    layout: PaneLayout,
    windows: Option<WindowLayout>,
    lateness_ns: i64,
    group: Vec<FieldId>,
    /// Types of the group columns.
    key_types: Vec<DataType>,
    values: Vec<FieldId>,
    value_required: bool,
    /// The column with the sampling rate of flows, if any.
    rates: Option<FieldId>,
    needs_time: bool,
    panes: BTreeMap<i64, Pane>,
    panes_max: usize,
    sliding: SlidingMerge,
    /// The first window not yet emitted, once set by the watermark.
    next: Option<i128>,
    /// The last emitted window.
    latest: Option<i128>,
    /// Event time reached, if reported separately from the watermark.
    passed: Option<i64>,
    /// Maximum consecutive empty windows with rows; current number of consecutive empty windows; number of empty
    /// windows without rows.
    empty_max: u64,
    empty_run: u64,
    empty_skipped: u64,
    /// Empty windows of a pipeline with groups.
    silence: EmptyWindows,
    room: GroupBudget,
    results: ResultWriter,
    seed: u64,
    /// Seed of the flow sample.
    sample_seed: u64,
    /// Whether panes are returned by [`PipelineState::detach`] instead of emitting windows.
    is_worker: bool,
    /// Panes waiting for [`PipelineState::detach`], and their memory.
    over: PipelineShare,
    over_bytes: usize,
}

impl PipelineState {
    /// Creates a pipeline over tuples of `schema`. `place` maps columns of the dataflow; `rates` is the column with
    /// sampling rates.
    ///
    /// # Panics
    /// If the pipeline is invalid, for example a sum of text; the planner rejects these.
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
        config: &EngineConfig,
        rates: Option<(FieldId, SampledUnit)>,
        is_worker: bool,
    ) -> PipelineState {
        let input = |column: Column| -> Field { schema.field(place(column)).clone() };
        let values: Vec<FieldId> = pipeline.values.iter().map(|v| place(v.column)).collect();
        let is_sampled = config.sample < 1.0 || rates.is_some();
        let accumulation =
            AccumulatorPlan::new(pipeline, is_sampled, &|column| input(column).data_type);
        let overflow = GroupOverflow::of(pipeline, &accumulation);
        let shape = AggregateShape::new(accumulation, config.distinct_exact_max, schema, place);
        let k = pipeline.top_k.map_or(0, |t| t.k);
        // The other half is for merging sliding windows and for the window being written.
        let is_sliding = pipeline
            .window
            .is_some_and(|w| !WindowLayout::new(&w).is_tumbling());
        let bytes_max = if is_sliding {
            config.window_bytes_max / 2
        } else {
            config.window_bytes_max
        };
        PipelineState {
            layout: PaneLayout {
                sample: config.sample,
                rates: rates.map(|(_, unit)| unit),
                shape,
                replicates: if is_sampled { REPLICATES } else { 1 },
                overflow,
            },
            rates: rates.map(|(field, _)| field),
            windows: pipeline.window.as_ref().map(WindowLayout::new),
            lateness_ns: pipeline.window.map_or(0, |w| w.lateness_ns.max(0)),
            group: pipeline.group.iter().map(|g| place(g.column)).collect(),
            key_types: pipeline
                .group
                .iter()
                .map(|g| input(g.column).data_type)
                .collect(),
            values,
            value_required: pipeline.value_required,
            needs_time: pipeline.window.is_some()
                || pipeline
                    .aggregates
                    .iter()
                    .any(|c| c.aggregate.is_per_second()),
            panes: BTreeMap::new(),
            panes_max: pipeline.window.map_or(1, |w| {
                config
                    .panes_max
                    .max(WindowLayout::new(&w).panes_open(w.lateness_ns))
            }),
            sliding: SlidingMerge::new(bytes_max / 2),
            next: None,
            latest: None,
            passed: None,
            empty_max: config.empty_windows_max,
            empty_run: 0,
            empty_skipped: 0,
            silence: EmptyWindows::default(),
            room: GroupBudget {
                groups: 0,
                groups_max: pipeline.groups_max,
                groups_min: pipeline.groups_max.min(k.saturating_mul(4).max(64)),
                key_bytes: 0,
                key_bytes_max: config.key_bytes_max.min(bytes_max / 4).min(1 << 29),
                sketch_bytes: 0,
                sketch_bytes_max: config.sketch_bytes_max.min(bytes_max / 2),
                bytes: 0,
                bytes_max,
                level: 0,
                overflowed: 0,
                rates_merged: 0,
                scratch: PaneScratch::default(),
            },
            results: ResultWriter::new(pipeline, is_sampled, config.precision.as_ref(), &input),
            // A zero seed would make the hashes of addresses equal.
            seed: mix(config.seed),
            sample_seed: config.sample_seed,
            is_worker,
            over: PipelineShare::new(),
            over_bytes: 0,
        }
    }

    /// The schema of the results.
    #[must_use]
    pub fn schema(&self) -> &std::sync::Arc<Schema> {
        self.results.schema()
    }

    /// Number of sums clamped to their type.
    #[must_use]
    pub fn sums_saturated(&self) -> u64 {
        self.results.saturated
    }

    /// Empty windows without rows because there were too many.
    #[must_use]
    pub fn empty_windows_skipped(&self) -> u64 {
        self.empty_skipped
    }

    /// Empty windows of a pipeline with groups; a pipeline without groups emits rows for them.
    #[must_use]
    pub fn silence(&self) -> &EmptyWindows {
        &self.silence
    }

    /// Rows rejected by HAVING, and rows beyond LIMIT … ROWS.
    #[must_use]
    pub fn rows_left_out(&self) -> (u64, u64) {
        self.results.rows_left_out()
    }

    /// Sets the losses reported in result rows.
    pub fn heed(&mut self, losses: &SharedLosses) {
        self.results.losses = losses.clone();
    }

    /// Whether it reads `ts_end`.
    #[must_use]
    pub fn needs_time(&self) -> bool {
        self.needs_time
    }

    /// Processes `rows` of a batch.
    pub fn push(
        &mut self,
        tuples: RedactedTuples<'_>,
        rows: RowSet<'_>,
        counters: &mut EngineCounters,
        out: &mut dyn FnMut(Batch),
    ) {
        let batch = tuples.seen;
        let valid = self
            .values
            .first()
            .filter(|_| self.value_required)
            .and_then(|v| ColumnView::of(batch, *v).nulls);
        let before = rows.len();
        let mut with_value = Vec::new();
        let rows = match valid {
            Some(valid) => rows.filter(&mut with_value, |row| valid.is_valid(row)),
            None => rows,
        };
        counters.tuples_null_value += (before - rows.len()) as u64;
        if rows.is_empty() {
            return;
        }
        let frame = self.frame(tuples, rows);
        if self.needs_time {
            self.push_by_time(
                ColumnView::of(batch, common::TS_END),
                rows,
                &frame,
                counters,
                out,
            );
        } else {
            self.push_pane(0, rows, &frame);
        }
        counters.groups_overflowed += std::mem::take(&mut self.room.overflowed);
        counters.rates_merged += std::mem::take(&mut self.room.rates_merged);
        self.shrink_sketches(counters);
    }

    /// Emits the windows closed by the watermark.
    pub fn advance(
        &mut self,
        watermark_ns: i64,
        counters: &mut EngineCounters,
        out: &mut dyn FnMut(Batch),
    ) {
        let Some(open) = self.first_open(watermark_ns) else {
            return;
        };
        self.emit_before(open, out);
        self.force_oldest(counters, out);
        self.next = Some(self.next.map_or(open, |next| next.max(open)));
        self.drop_spent();
        if let Some(batch) = self.results.finish() {
            out(batch);
        }
    }

    /// Emits all windows.
    pub fn finish(&mut self, out: &mut dyn FnMut(Batch)) {
        match self.windows {
            Some(_) => {
                self.emit_before(i128::MAX, out);
                self.emit_last_empty(out);
            }
            None => self.emit_run(out),
        }
        if let Some(batch) = self.results.finish() {
            out(batch);
        }
    }

    /// Returns the panes of windows closed by the watermark. Later tuples of such a pane, for windows still open,
    /// follow in another part of it.
    pub fn detach(&mut self, watermark_ns: i64) -> PipelineShare {
        if let Some(open) = self.first_open(watermark_ns) {
            self.set_aside(open);
        }
        self.give()
    }

    /// Takes the content of open panes, except overflowed ones: each part of such a pane has its own error, and
    /// errors would add up.
    pub fn detach_open(&mut self) -> PipelineShare {
        let (stay, leave): (BTreeMap<i64, Pane>, BTreeMap<i64, Pane>) =
            std::mem::take(&mut self.panes)
                .into_iter()
                .partition(|(_, pane)| pane.is_overflowed());
        self.panes = stay;
        leave
            .into_iter()
            .for_each(|(at, pane)| self.put_aside(at, pane));
        self.give()
    }

    /// Takes all panes.
    pub fn detach_all(&mut self) -> PipelineShare {
        for (at, pane) in std::mem::take(&mut self.panes) {
            self.put_aside(at, pane);
        }
        self.give()
    }

    /// Memory of panes waiting to be detached.
    #[must_use]
    pub fn over_bytes(&self) -> usize {
        self.over_bytes
    }

    /// Takes the panes waiting to be detached.
    pub fn give(&mut self) -> PipelineShare {
        self.over_bytes = 0;
        std::mem::take(&mut self.over)
    }

    /// Emits the oldest windows early if limits are exceeded.
    pub fn make_room(&mut self, counters: &mut EngineCounters, out: &mut dyn FnMut(Batch)) {
        self.force_oldest(counters, out);
    }

    /// Merges panes of the same pipeline from another engine.
    pub fn attach(&mut self, share: PipelineShare, counters: &mut EngineCounters) {
        for (at, theirs) in share {
            if self.is_late(at) {
                counters.tuples_late += theirs.tuples;
                continue;
            }
            self.sliding.forget_from(at);
            let mine = self.panes.remove(&at);
            mine.iter().for_each(|pane| pane.leave(&mut self.room));
            let mut pane = Pane::joined(mine, theirs, &self.layout, self.room.level);
            let merged = pane.take_rates_merged();
            counters.rates_merged += merged;
            if merged > 0 {
                self.limit_windows_of(at, merged);
            }
            pane.enter(&mut self.room);
            let pane = pane.cut(&self.layout, &mut self.room);
            self.panes.insert(at, pane);
        }
        counters.groups_overflowed += std::mem::take(&mut self.room.overflowed);
        self.shrink_sketches(counters);
    }

    /// Continues from another engine of the same dataflow that had reached `watermark_ns` and last emitted the window
    /// starting at `latest_ns`.
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: Option<i64>) {
        let Some(open) = self.first_open(watermark_ns) else {
            return;
        };
        let Some(windows) = self.windows else { return };
        self.latest = latest_ns.map(|start| windows.last_of(windows.pane(start)));
        self.next = Some(self.latest.map_or(open, |latest| open.max(latest + 1)));
    }

    /// The watermark at which all windows with parts in `share` are closed.
    #[must_use]
    pub fn over_at(&self, share: &PipelineShare) -> Option<i64> {
        let last = share.iter().map(|(at, _)| *at).max()?;
        let end = self
            .windows
            .map(|windows| windows.bounds(windows.last_of(last)).1);
        Some(end.map_or(i64::MAX, |end| end.saturating_add(self.lateness_ns)))
    }

    fn first_open(&self, watermark_ns: i64) -> Option<i128> {
        Some(
            self.windows?
                .first_open(watermark_ns.saturating_sub(self.lateness_ns)),
        )
    }

    /// Sets aside the panes of windows before `open`; returns the maximum number of windows closed early.
    fn set_aside(&mut self, open: i128) -> i128 {
        let Some(windows) = self.windows else {
            return 0;
        };
        let next = self.next.unwrap_or(i128::MIN);
        let first = self
            .panes
            .first_key_value()
            .map_or(open, |(pane, _)| windows.first_of(*pane).max(next));
        while let Some(entry) = self
            .panes
            .first_entry()
            .filter(|e| windows.first_of(*e.key()) < open)
        {
            let (at, pane) = entry.remove_entry();
            self.put_aside(at, pane);
        }
        self.next = Some(open.max(next));
        (open - first).max(0)
    }

    fn put_aside(&mut self, at: i64, pane: Pane) {
        pane.leave(&mut self.room);
        self.over_bytes += pane.bytes();
        self.over.push((at, pane));
    }

    fn frame<'b>(&self, tuples: RedactedTuples<'b>, rows: RowSet<'_>) -> PaneBatch<'b> {
        let RedactedTuples { seen: batch, told } = tuples;
        let columns: Vec<ColumnView<'b>> = self
            .group
            .iter()
            .map(|f| ColumnView::of(told, *f))
            .collect();
        let distinct = self.layout.shape.distinct.iter().map(|field| {
            let column = ColumnView::of(told, *field);
            let mut hashes = vec![0; batch.rows()];
            let mut of_rows = vec![!RESULT_SEED; rows.len()];
            column.hash_into(rows, &mut of_rows);
            rows.each(|place, row| hashes[row] = of_rows[place]);
            ColumnHashes {
                hashes,
                nulls: column.nulls,
            }
        });
        let measures = AccumulatorInputs {
            values: self
                .layout
                .shape
                .values
                .iter()
                .map(|v| Some(ColumnView::of(batch, self.values[(*v)?])))
                .collect(),
            distinct: distinct.collect(),
            outcomes: self
                .layout
                .shape
                .outcomes
                .iter()
                .map(|f| f.evaluate(batch))
                .collect(),
        };
        let keys = KeyColumns::new(columns.clone());
        let replicates = self.replicates(batch, rows);
        let rates = self.rates.map(|f| rates_of(batch, f));
        PaneBatch {
            keys,
            columns,
            seed: self.seed,
            replicates,
            rates,
            measures,
        }
    }

    /// Replicates of flows. Without IDs all flows are in one replicate, and intervals are unbounded.
    fn replicates(&self, batch: &Batch, rows: RowSet<'_>) -> Vec<u8> {
        if self.layout.replicates == 1 {
            return Vec::new();
        }
        let mut replicates = vec![0; batch.rows()];
        if batch.column(common::ID).is_some()
            && let ColumnValues::U64(ids) = ColumnView::of(batch, common::ID).values
        {
            rows.each(|_, row| replicates[row] = replicate(ids[row], self.sample_seed));
        }
        replicates
    }

    /// Assigns rows to panes. Rows are nearly in time order, so mostly consecutive ranges are split off.
    fn push_by_time(
        &mut self,
        times: ColumnView<'_>,
        rows: RowSet<'_>,
        frame: &PaneBatch<'_>,
        counters: &mut EngineCounters,
        out: &mut dyn FnMut(Batch),
    ) {
        let ColumnValues::I64(ns) = times.values else {
            unreachable!("ts_end is a signed integer")
        };
        if let Some(pane) = self.only_pane(ns, times.nulls.is_some(), rows) {
            return self.push_at(pane, ns, rows, frame, counters, out);
        }
        let mut known = None;
        let mut pane_of = |row: usize| match (times.is_valid(row), &self.windows) {
            (false, _) => None,
            (true, Some(windows)) => Some(windows.pane_near(ns[row], &mut known)),
            (true, None) => Some(0),
        };
        let mut by_pane: Vec<(Option<i64>, u32)> =
            rows.iter().map(|row| (pane_of(row), row as u32)).collect();
        by_pane.sort_by_key(|(pane, _)| *pane);
        let rows: Vec<u32> = by_pane.iter().map(|(_, row)| *row).collect();
        let mut rest = &rows[..];
        for run in by_pane.chunk_by(|a, b| a.0 == b.0) {
            let (rows, after) = rest.split_at(run.len());
            rest = after;
            match run[0].0 {
                Some(pane) => self.push_at(pane, ns, RowSet::Some(rows), frame, counters, out),
                None => counters.tuples_late += rows.len() as u64,
            }
        }
    }

    /// The pane of all rows, if it is the same.
    fn only_pane(&self, ns: &[i64], has_nulls: bool, rows: RowSet<'_>) -> Option<i64> {
        if has_nulls {
            return None;
        }
        let Some(windows) = &self.windows else {
            return Some(0);
        };
        let mut least = i64::MAX;
        let mut largest = i64::MIN;
        rows.each(|_, row| {
            least = least.min(ns[row]);
            largest = largest.max(ns[row]);
        });
        let pane = windows.pane(least);
        (windows.pane(largest) == pane).then_some(pane)
    }

    fn push_at(
        &mut self,
        pane: i64,
        ns: &[i64],
        rows: RowSet<'_>,
        frame: &PaneBatch<'_>,
        counters: &mut EngineCounters,
        out: &mut dyn FnMut(Batch),
    ) {
        if self.is_late(pane) {
            counters.tuples_late += rows.len() as u64;
            return;
        }
        self.push_pane(pane, rows, frame);
        self.note_span(pane, ns, rows);
        self.force_oldest(counters, out);
    }

    fn is_late(&self, pane: i64) -> bool {
        match (&self.windows, self.next) {
            (Some(windows), Some(next)) => windows.last_of(pane) < next,
            _ => false,
        }
    }

    fn push_pane(&mut self, at: i64, rows: RowSet<'_>, frame: &PaneBatch<'_>) {
        self.sliding.forget_from(at);
        let layout = &self.layout;
        let room = &mut self.room;
        let pane = self.panes.entry(at).or_insert_with(|| {
            let mut pane = Pane::new(room.level);
            pane.enter(room);
            pane
        });
        pane.push(rows, frame, layout, room);
        let merged = pane.take_rates_merged();
        room.rates_merged += merged;
        if merged > 0 {
            self.limit_windows_of(at, merged);
        }
    }

    /// Records that a limit may have affected the windows of this pane.
    fn limit_windows_of(&self, at: i64, times: u64) {
        let (from_ns, end_ns) = self.windows.map_or((i64::MIN, i64::MAX), |windows| {
            (
                windows.bounds(windows.first_of(at)).0,
                windows.bounds(windows.last_of(at)).1,
            )
        });
        self.results.limit(LimitedStretch {
            from_ns,
            to_ns: end_ns.saturating_sub(1),
            times,
        });
    }

    fn note_span(&mut self, at: i64, ns: &[i64], rows: RowSet<'_>) {
        if self.windows.is_some() {
            return;
        }
        let Some(pane) = self.panes.get_mut(&at) else {
            return;
        };
        let (mut first, mut last) = pane.span_ns.unwrap_or((i64::MAX, i64::MIN));
        rows.each(|_, row| {
            first = first.min(ns[row]);
            last = last.max(ns[row]);
        });
        pane.span_ns = (!rows.is_empty()).then_some((first, last)).or(pane.span_ns);
    }

    /// Emits windows early when too many panes are open, or they use too much memory.
    fn force_oldest(&mut self, counters: &mut EngineCounters, out: &mut dyn FnMut(Batch)) {
        let Some(windows) = self.windows else { return };
        while self.panes.len() > self.panes_max
            || (self.panes.len() > 1 && self.room.bytes > self.room.bytes_max)
        {
            let Some((&oldest, _)) = self.panes.first_key_value() else {
                return;
            };
            let beyond = windows.last_of(oldest) + 1;
            self.limit_windows_of(oldest, 1);
            if self.is_worker {
                counters.windows_forced += self.set_aside(beyond) as u64;
                continue;
            }
            counters.windows_forced += self.emit_before(beyond, out);
            self.next = self.next.max(Some(beyond));
            self.drop_spent();
        }
    }

    fn shrink_sketches(&mut self, counters: &mut EngineCounters) {
        while self.room.sketch_bytes > self.room.sketch_bytes_max && self.room.level < LEVEL_MAX {
            self.room.level += 1;
            counters.sketches_coarsened += 1;
            self.sliding.forget();
            self.room.sketch_bytes = 0;
            for pane in self.panes.values_mut() {
                pane.coarsen(self.room.level);
                pane.weigh(&mut self.room);
                self.room.sketch_bytes += pane.sketch_bytes;
            }
        }
    }

    /// Emits the windows before `end` up to the last non-empty one; returns the number of non-empty windows.
    fn emit_before(&mut self, end: i128, out: &mut dyn FnMut(Batch)) -> u64 {
        let Some(windows) = self.windows else {
            return 0;
        };
        let mut emitted = 0;
        while let Some((first, _)) = self.panes.first_key_value() {
            let window = windows.first_of(*first).max(self.next.unwrap_or(i128::MIN));
            if window >= end {
                break;
            }
            self.emit_empty(&windows, window, out);
            self.emit_window(&windows, window, out);
            self.next = Some(window + 1);
            self.latest = self.latest.max(Some(window));
            self.empty_run = 0;
            self.drop_spent();
            emitted += 1;
        }
        emitted
    }

    fn emit_window(&mut self, windows: &WindowLayout, window: i128, out: &mut dyn FnMut(Batch)) {
        let (first, last) = windows.panes(window);
        let pane = match self.panes.get(&first) {
            Some(pane) if windows.is_tumbling() => Cow::Borrowed(pane),
            _ => self
                .sliding
                .window(&self.panes, (first, last), &self.layout, self.room.level),
        };
        let bounds = Some(windows.bounds(window));
        let emitted = EmittedWindow {
            pane: &pane,
            layout: &self.layout,
            bounds,
            seconds: windows.seconds(),
        };
        self.results.write(&emitted, out);
    }

    /// Emits the single window of a pipeline without windows; without groups it has a row even without tuples.
    fn emit_run(&mut self, out: &mut dyn FnMut(Batch)) {
        let mut pane = match self.panes.pop_first() {
            Some((_, pane)) => {
                pane.leave(&mut self.room);
                pane
            }
            None => Pane::new(self.room.level),
        };
        if self.group.is_empty() {
            pane.ensure_single_group(&self.layout);
        }
        let seconds = pane.seconds();
        self.results.write(
            &EmittedWindow {
                pane: &pane,
                layout: &self.layout,
                bounds: None,
                seconds,
            },
            out,
        );
    }

    /// Drops the panes no later window needs.
    fn drop_spent(&mut self) {
        let Some(windows) = &self.windows else { return };
        let Some(next) = self.next else { return };
        while let Some(entry) = self.panes.first_entry() {
            if windows.last_of(*entry.key()) >= next {
                return;
            }
            entry.remove().leave(&mut self.room);
        }
    }
}

/// The rate of every row; 1 for invalid rates.
fn rates_of(batch: &Batch, field: FieldId) -> Vec<f64> {
    let column = ColumnView::of(batch, field);
    let ColumnValues::F64(rates) = column.values else {
        unreachable!("rates are real numbers")
    };
    let is_rate = |row: usize| column.is_valid(row) && rates[row] > 0.0 && rates[row] <= 1.0;
    (0..batch.rows())
        .map(|row| if is_rate(row) { rates[row] } else { 1.0 })
        .collect()
}

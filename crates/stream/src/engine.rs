//! Runs a dataflow on tuples and emits results. Stages: filters, join, predicate, pipelines.
//!
//! Either one engine processes all tuples, or several workers each process a share of the flows ([`Engine::worker`];
//! all tuples of a flow go to the same worker) and one engine collects their results: [`Engine::detach`] in the
//! workers, [`Engine::attach`] and [`Engine::advance`] in the collector. Both setups yield the same rows.
//!
//! A worker may also attach the results of other workers and detach them at the minimum of their watermarks. The
//! threads of a process thus form one partial result, which [`PartialResult::encode`] serializes for another machine.
//!
//! The engine reads no clock: [`Engine::advance`] sets the event time. It does not depend on packets, formats, or
//! other engines.

mod cells;
mod period;

use std::sync::{Arc, MutexGuard, PoisonError};

use plan::{Column, Dataflow, Pipeline};
use tuple::{Batch, FieldId, Schema, common};

use crate::cells::CellTable;
use crate::config::{EngineConfig, EngineCounters};
use crate::empty_windows::EmptyWindows;
use crate::limited_stretches::LimitedStretch;
use crate::loss_history::{LossHistory, LossStretch, SharedLosses};
use crate::ops::expr::ColumnComputer;
use crate::ops::filter::TupleFilter;
use crate::ops::join::TupleJoin;
use crate::ops::take::take;
use crate::partial::{MalformedPartial, PartialResult};
use crate::processor_work::{ProcessorWork, WorkShare};
use crate::result_redaction::{RedactedTuples, ResultRedaction};
use crate::rows::RowSet;
use crate::selected_flows::{SelectedFlows, SelectionColumns};
use crate::server_tap::ServerTap;

/// A running dataflow.
pub struct Engine {
    /// Indexed by input.
    filters: Vec<Option<TupleFilter>>,
    join: Option<TupleJoin>,
    rest: PostJoinStage,
    /// Row selection of a filter, reused between batches.
    selected: Vec<u32>,
    /// Schema of the tuples emitted without pipelines, and the columns shown by default.
    tuples: (Arc<Schema>, Vec<FieldId>),
    /// Position of the first computed column.
    base: u16,
    /// Adds the request observations of another tap.
    server_tap: Option<ServerTap>,
    /// Tables for partial results as cells, by pipeline.
    cells: Vec<CellTable>,
}

/// Processing of joined tuples.
struct PostJoinStage {
    computing: Option<ComputeStage>,
    predicate: Option<TupleFilter>,
    pipelines: Vec<ProcessorWork>,
    is_worker: bool,
    /// Columns of raw tuples that are not printed because they repeat another column.
    hidden: Vec<FieldId>,
    counters: EngineCounters,
    selected: Vec<u32>,
    /// Destination and columns for recording the flows of tuples that passed.
    chosen: Option<(SelectedFlows, SelectionColumns)>,
    /// Redacts texts in results.
    folding: Option<ResultRedaction>,
    watermark_ns: i64,
    /// Capture losses, shared by all pipelines.
    losses: SharedLosses,
    /// Maximum distance between the watermark and the start of a window that is still open.
    reach_ns: i64,
    lateness_ns: Vec<i64>,
    /// First and last nanosecond of the dataflow's period.
    period: (i64, i64),
    /// Start of event time.
    began_ns: Option<i64>,
}

/// Computed columns, by time of evaluation.
struct ComputeStage {
    computer: ColumnComputer,
    /// Columns read by WHERE.
    before: Vec<usize>,
    /// Columns read only by later stages, computed for tuples that passed.
    after: Vec<usize>,
}

/// Rows of a result.
#[derive(Clone, Debug)]
pub struct EngineOutput {
    /// Index of the pipeline; `None` for tuples of a dataflow without pipelines.
    pub pipeline: Option<usize>,
    /// The rows. All batches of a pipeline have the same schema.
    pub batch: Batch,
    /// Event time of the output.
    pub watermark_ns: i64,
}

/// Consumer of rows as they are produced, so that no stage stores all rows.
pub trait OutputConsumer {
    /// Consumes rows.
    fn take(&mut self, output: EngineOutput);
}

impl OutputConsumer for Vec<EngineOutput> {
    fn take(&mut self, output: EngineOutput) {
        self.push(output);
    }
}

impl Engine {
    /// Creates an engine that emits results.
    ///
    /// # Panics
    /// If the dataflow is invalid (no input, a literal or value with a type other than its column's, a join without
    /// `id`, windows without `ts_end`) or the sampling rate is not in (0, 1].
    #[must_use]
    pub fn new(dataflow: &Dataflow, config: EngineConfig) -> Engine {
        Engine::build(dataflow, config, false)
    }

    /// Creates an engine for a share of the flows. It emits raw tuples; results are returned by [`Engine::detach`].
    /// Partial results of the same share can be added with [`Engine::attach`].
    ///
    /// # Panics
    /// As [`Engine::new`].
    #[must_use]
    pub fn worker(dataflow: &Dataflow, config: EngineConfig) -> Engine {
        Engine::build(dataflow, config, true)
    }

    fn build(dataflow: &Dataflow, config: EngineConfig, is_worker: bool) -> Engine {
        assert!(
            config.sample > 0.0 && config.sample <= 1.0,
            "sampling rate {}",
            config.sample
        );
        assert!(!dataflow.inputs.is_empty(), "a dataflow has an input");
        let filters = dataflow.inputs.iter().map(|input| {
            let predicate = input.filter.as_ref()?;
            Some(TupleFilter::new(
                predicate,
                &input.schema,
                &|column: Column| column.field,
            ))
        });
        let join = (dataflow.inputs.len() > 1).then(|| TupleJoin::new(&dataflow.inputs, &config));
        let of_inputs =
            |column: Column| -> FieldId { join.as_ref().map_or(column.field, |j| j.place(column)) };
        let schema = join
            .as_ref()
            .map_or(&dataflow.inputs[0].schema, TupleJoin::schema)
            .clone();
        let base = schema.fields.len() as u16;
        let computing = ComputeStage::new(dataflow, &schema, &of_inputs);
        let schema = &computing
            .as_ref()
            .map_or(schema, |c| c.computer.schema().clone());
        let place = |column: Column| match column.computed_place() {
            Some(computed) => FieldId(base + computed as u16),
            None => of_inputs(column),
        };
        // All tuples of a flow have the same sampling rate: that of the first input.
        let rates = dataflow
            .rates()
            .map(|(field, unit)| (place(Column { input: 0, field }), unit));
        let pipelines = 0..dataflow.pipelines.len();
        let cells = pipelines
            .map(|pipeline| CellTable::new(dataflow, pipeline, &config))
            .collect();
        let of_each = config.window_bytes_max / dataflow.pipelines.len().max(1);
        let config = EngineConfig {
            window_bytes_max: of_each,
            ..config
        };
        let running = |p| ProcessorWork::new(p, schema, &place, &config, rates, is_worker);
        let mut pipelines: Vec<ProcessorWork> = dataflow.pipelines.iter().map(running).collect();
        let losses = SharedLosses::default();
        pipelines
            .iter_mut()
            .for_each(|pipeline| pipeline.heed(&losses));
        let has_time = dataflow
            .inputs
            .iter()
            .all(|i| i.columns.contains(&common::TS_END));
        assert!(
            has_time || !pipelines.iter().any(ProcessorWork::needs_time),
            "windows and rates need ts_end"
        );
        let is_news = |id: &FieldId| id.0 >= base || join.as_ref().is_none_or(|j| j.is_news(*id));
        let chosen = config
            .chosen
            .as_ref()
            .map(|chosen| (chosen.clone(), chosen.places(&place)));
        let folding = |redactor| ResultRedaction::new(redactor, dataflow, (schema, base), &place);
        let rest = PostJoinStage {
            predicate: dataflow
                .filter
                .as_ref()
                .map(|p| TupleFilter::new(p, schema, &place)),
            pipelines,
            is_worker,
            computing,
            hidden: schema.ids().filter(|id| !is_news(id)).collect(),
            counters: EngineCounters::default(),
            selected: Vec::new(),
            chosen,
            folding: config.redactor.clone().map(folding),
            watermark_ns: i64::MIN,
            losses,
            reach_ns: dataflow.pipelines.iter().map(reach_ns).max().unwrap_or(0),
            lateness_ns: dataflow.pipelines.iter().map(lateness_ns).collect(),
            period: period::of(dataflow),
            began_ns: None,
        };
        let mut present = join
            .as_ref()
            .map_or(dataflow.inputs[0].columns.clone(), TupleJoin::present);
        present.retain(|id| !rest.hidden.contains(id));
        let tuples = (schema.clone(), present);
        let server_tap = config.server_tap.clone();
        Engine {
            filters: filters.collect(),
            rest,
            join,
            selected: Vec::new(),
            tuples,
            base,
            server_tap,
            cells,
        }
    }

    /// Processes tuples of one input, given by its index in the dataflow. Without pipelines, tuples that pass go to
    /// `out`.
    ///
    /// # Panics
    /// If the batch lacks a column declared by the dataflow, or the input does not exist.
    pub fn push(&mut self, input: usize, batch: &Batch, out: &mut dyn OutputConsumer) {
        let completed = self.server_tap.as_ref().and_then(|tap| tap.complete(batch));
        let batch = completed.as_ref().unwrap_or(batch);
        let rest = &mut self.rest;
        let all = RowSet::all(batch.rows());
        let mut list = std::mem::take(&mut self.selected);
        let rows = match &self.filters[input] {
            Some(filter) => filter.select(batch, all, &mut list),
            None => all,
        };
        rest.counters.tuples_in += batch.rows() as u64;
        rest.counters.tuples_filtered += (batch.rows() - rows.len()) as u64;
        match &mut self.join {
            None => rest.push(batch, rows, out),
            Some(join) => {
                join.push(input, batch, rows, &mut |joined| {
                    rest.push(joined, RowSet::all(joined.rows()), out);
                });
                join.take_limited()
                    .into_iter()
                    .for_each(|limited| rest.losses().limit(limited));
            }
        }
        self.selected = list;
    }

    /// Advances event time to `watermark_ns` and emits windows that ended more than their lateness earlier. A lower
    /// watermark than before has no effect. In a collector, the watermark is the minimum of the workers' watermarks,
    /// after all their partial results up to it are attached.
    ///
    /// # Panics
    /// If the engine is a worker.
    pub fn advance(&mut self, watermark_ns: i64, out: &mut dyn OutputConsumer) {
        assert!(!self.rest.is_worker, "a worker's results leave by detach");
        if let Some(join) = &mut self.join {
            join.advance(watermark_ns);
        }
        self.rest.watermark_ns = self.rest.watermark_ns.max(watermark_ns);
        let counters = &mut self.rest.counters;
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let emit = &mut emitter(i, watermark_ns, out);
            pipeline.advance(watermark_ns, counters, emit);
        }
    }

    /// Sets the start of the run. Empty windows between it and the first tuple have rows, as described at
    /// [`Engine::pass`].
    pub fn begin_run(&mut self, now_ns: i64) {
        self.rest.began_ns.get_or_insert(now_ns);
    }

    /// Advances the source's clock to `now_ns`, with or without tuples. Closed windows without tuples get rows, for
    /// pipelines without groups and within the dataflow's period. To be called after [`Engine::advance`]; otherwise
    /// only empty windows between non-empty ones get rows.
    pub fn pass(&mut self, now_ns: i64, out: &mut dyn OutputConsumer) {
        let (since_ns, last_ns) = self.rest.period;
        let from_ns = self.rest.began_ns.map(|began| began.max(since_ns));
        let now_ns = now_ns.min(last_ns);
        // The maximum time marks the end of input, not a clock reading.
        if now_ns < since_ns || now_ns == i64::MAX {
            return;
        }
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let emit = &mut emitter(i, watermark_ns, out);
            pipeline.pass(from_ns, now_ns, emit);
        }
    }

    /// Sets the share (0 to 1) of traffic missing from the capture at all times. Later rows report it, and the
    /// intervals of sampled totals extend to the possible missing amount.
    pub fn set_capture_loss(&mut self, share: f64) {
        self.rest.losses().set_whole(share);
    }

    /// Adds a capture loss for a period of time. To be reported before the watermark passes the windows of the
    /// period.
    pub fn add_loss(&mut self, stretch: LossStretch) {
        let forgotten = self.rest.watermark_ns.saturating_sub(self.rest.reach_ns);
        let mut losses = self.rest.losses();
        losses.forget_before(forgotten);
        losses.add(stretch);
    }

    /// Reports that a limit took effect at the source of the tuples. Rows of windows that overlap this time are
    /// marked `approximate`. To be reported before the watermark passes those windows.
    pub fn add_limited(&mut self, limited: LimitedStretch) {
        let forgotten = self.rest.watermark_ns.saturating_sub(self.rest.reach_ns);
        let mut losses = self.rest.losses();
        losses.forget_before(forgotten);
        losses.limit(limited);
    }

    /// The combined time of all limits that took effect in a worker since the last call, for [`Engine::add_limited`]
    /// of the collector.
    #[must_use]
    pub fn take_limited(&mut self) -> Option<LimitedStretch> {
        self.rest.losses().take_limited()
    }

    /// Emits the oldest windows early if attached partial results exceed the memory limit. A worker keeps them for
    /// [`Engine::detach`].
    pub fn make_room(&mut self, out: &mut dyn OutputConsumer) {
        let counters = &mut self.rest.counters;
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let emit = &mut emitter(i, watermark_ns, out);
            pipeline.make_room(counters, emit);
        }
    }

    /// Ends the input and emits all open windows.
    ///
    /// # Panics
    /// If the engine is a worker.
    pub fn finish(&mut self, out: &mut dyn OutputConsumer) {
        assert!(
            !self.rest.is_worker,
            "a worker's results leave by detach_all"
        );
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            pipeline.finish(&mut emitter(i, watermark_ns, out));
        }
    }

    /// Advances a worker's event time to `watermark_ns` and returns its share of windows that ended more than their
    /// lateness earlier; `None` if it is empty. Later tuples are late in the same cases as after [`Engine::advance`].
    /// Late tuples of a sliding window that is still open are returned with a later part.
    ///
    /// # Panics
    /// If the engine was not created by [`Engine::worker`].
    pub fn detach(&mut self, watermark_ns: i64) -> Option<PartialResult> {
        assert!(self.rest.is_worker, "only a worker detaches");
        if let Some(join) = &mut self.join {
            join.advance(watermark_ns);
        }
        let shares: Vec<WorkShare> = self
            .rest
            .pipelines
            .iter_mut()
            .map(|p| p.detach(watermark_ns))
            .collect();
        Some(PartialResult::of(shares)).filter(|partial| !partial.is_empty())
    }

    /// Returns a worker's share of windows that were closed early because of the memory limit, if it exceeds `bytes`.
    ///
    /// # Panics
    /// If the engine was not created by [`Engine::worker`].
    pub fn detach_early(&mut self, bytes: usize) -> Option<PartialResult> {
        assert!(self.rest.is_worker, "only a worker detaches");
        let waiting: usize = self
            .rest
            .pipelines
            .iter()
            .map(ProcessorWork::over_bytes)
            .sum();
        (waiting > bytes).then(|| {
            PartialResult::of(
                self.rest
                    .pipelines
                    .iter_mut()
                    .map(ProcessorWork::give)
                    .collect(),
            )
        })
    }

    /// Takes a worker's content of open windows as a delta, which limits the loss if the worker dies; `None` if it is
    /// empty. Several deltas of a window may be attached. A window with pooled groups is kept until it ends, because
    /// errors would add up.
    ///
    /// # Panics
    /// If the engine was not created by [`Engine::worker`].
    pub fn detach_open(&mut self) -> Option<PartialResult> {
        assert!(self.rest.is_worker, "only a worker detaches");
        let shares = self
            .rest
            .pipelines
            .iter_mut()
            .map(ProcessorWork::detach_open)
            .collect();
        Some(PartialResult::of(shares)).filter(|partial| !partial.is_empty())
    }

    /// Ends the input of a worker and returns all its windows and counters. Tuples waiting in a join are dropped.
    ///
    /// # Panics
    /// If the engine was not created by [`Engine::worker`].
    pub fn detach_all(&mut self) -> PartialResult {
        assert!(self.rest.is_worker, "only a worker detaches");
        let shares = self
            .rest
            .pipelines
            .iter_mut()
            .map(ProcessorWork::detach_all)
            .collect();
        let counters = self.counters();
        self.rest.counters = EngineCounters::default();
        self.join.iter_mut().for_each(TupleJoin::reset_counters);
        PartialResult { shares, counters }
    }

    /// Continues from an engine of the same dataflow that had reached `watermark_ns`; tuples for windows before it
    /// are late. To be called before the first tuple. `latest_ns`: the start of the last window emitted by each
    /// pipeline, if any.
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: &[Option<i64>]) {
        self.rest.watermark_ns = watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            pipeline.begin_at(watermark_ns, latest_ns.get(i).copied().flatten());
        }
    }

    /// The watermark at which all windows in `partial` are closed; `None` if it is empty.
    #[must_use]
    pub fn over_at(&self, partial: &PartialResult) -> Option<i64> {
        self.rest
            .pipelines
            .iter()
            .zip(&partial.shares)
            .filter_map(|(mine, share)| mine.over_at(share))
            .max()
    }

    /// Maximum distance between the watermark and the start of an open window: the window size plus the lateness.
    #[must_use]
    pub fn reach_ns(&self) -> i64 {
        self.rest.reach_ns
    }

    /// Lateness of the windows of each result.
    #[must_use]
    pub fn lateness_ns(&self) -> &[i64] {
        &self.rest.lateness_ns
    }

    /// Copies the open windows: in a worker for [`Engine::open_rows`], in a collector for its successor. `None` if
    /// the copy would exceed `bytes_max`.
    #[must_use]
    pub fn peek(&self, bytes_max: usize) -> Option<PartialResult> {
        let bytes: usize = self
            .rest
            .pipelines
            .iter()
            .map(ProcessorWork::open_bytes)
            .sum();
        (bytes <= bytes_max).then(|| {
            PartialResult::of(
                self.rest
                    .pipelines
                    .iter()
                    .map(ProcessorWork::peek)
                    .collect(),
            )
        })
    }

    /// Emits preliminary rows of open windows. `peeks` are the copies of the workers at their last detach. Final
    /// results are not affected.
    pub fn open_rows(&mut self, peeks: &[&PartialResult], out: &mut dyn OutputConsumer) {
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let shares = peeks.iter().filter_map(|peek| peek.shares.get(i));
            pipeline.open_rows(shares, &mut emitter(i, watermark_ns, out));
        }
    }

    /// Merges the partial result of a worker with the same dataflow and configuration, in any order of workers. A
    /// worker may also attach, and passes the merged result on; [`Engine::make_room`] sets the excess aside.
    pub fn attach(&mut self, partial: PartialResult) {
        let counters = &mut self.rest.counters;
        counters.add(&partial.counters);
        for (mine, share) in self.rest.pipelines.iter_mut().zip(partial.shares) {
            mine.attach(share, counters);
        }
    }

    /// Decodes the output of [`PartialResult::encode`] of an engine with the same dataflow and configuration, possibly with
    /// another seed. Safe for untrusted bytes: they decode to possibly false values or are rejected.
    ///
    /// # Errors
    /// Truncated bytes, another version or dataflow, impossible values, or values that exceed the memory limit.
    pub fn decode_partial(&self, bytes: &[u8]) -> Result<PartialResult, MalformedPartial> {
        PartialResult::decode(bytes, &self.rest.pipelines)
    }

    /// Tuple counters so far.
    #[must_use]
    pub fn counters(&self) -> EngineCounters {
        let mut counters = self.rest.counters;
        for pipeline in &self.rest.pipelines {
            counters.sums_saturated += pipeline.sums_saturated();
            counters.empty_windows_skipped += pipeline.empty_windows_skipped();
            let (filtered, beyond_limit) = pipeline.rows_left_out();
            counters.rows_filtered += filtered;
            counters.rows_beyond_limit += beyond_limit;
        }
        if let Some(join) = &self.join {
            counters.add(join.counters());
        }
        counters
    }

    /// The empty windows of each pipeline with groups.
    pub fn silences(&self) -> impl Iterator<Item = &EmptyWindows> {
        self.rest
            .pipelines
            .iter()
            .filter_map(ProcessorWork::silence)
    }

    /// Position of a dataflow column in the tuples emitted without pipelines.
    #[must_use]
    pub fn place(&self, column: Column) -> FieldId {
        match column.computed_place() {
            Some(computed) => FieldId(self.base + computed as u16),
            None => self.join.as_ref().map_or(column.field, |j| j.place(column)),
        }
    }

    /// The schema of tuples emitted without pipelines, and the columns shown by default.
    #[must_use]
    pub fn tuples(&self) -> (&Arc<Schema>, &[FieldId]) {
        (&self.tuples.0, &self.tuples.1)
    }

    /// Whether the dataflow has no pipelines and emits tuples.
    #[must_use]
    pub fn gives_tuples(&self) -> bool {
        self.rest.pipelines.is_empty()
    }

    /// The schema of a pipeline's results.
    #[must_use]
    pub fn result_schema(&self, pipeline: usize) -> &Arc<Schema> {
        self.rest.pipelines[pipeline].schema()
    }
}

/// Passes the rows of a pipeline on.
fn emitter(pipeline: usize, watermark_ns: i64, out: &mut dyn OutputConsumer) -> impl FnMut(Batch) {
    move |batch| {
        out.take(EngineOutput {
            pipeline: Some(pipeline),
            batch,
            watermark_ns,
        });
    }
}

/// Maximum distance between the watermark and the start of an open window of a pipeline.
fn reach_ns(pipeline: &Pipeline) -> i64 {
    pipeline
        .window
        .map_or(0, |w| w.size_ns.saturating_add(w.lateness_ns.max(0)))
}

fn lateness_ns(pipeline: &Pipeline) -> i64 {
    pipeline.window.map_or(0, |w| w.lateness_ns.max(0))
}

impl PostJoinStage {
    fn losses(&self) -> MutexGuard<'_, LossHistory> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&mut self, batch: &Batch, rows: RowSet<'_>, out: &mut dyn OutputConsumer) {
        let extended = self
            .computing
            .as_ref()
            .map(|c| c.computer.extend(batch, &c.before));
        let batch = extended.as_ref().unwrap_or(batch);
        let mut list = std::mem::take(&mut self.selected);
        let before = rows.len();
        let rows = match &self.predicate {
            Some(predicate) => predicate.select(batch, rows, &mut list),
            None => rows,
        };
        self.counters.tuples_filtered += (before - rows.len()) as u64;
        if !rows.is_empty() {
            self.push_selected(batch, rows, out);
        }
        self.selected = list;
    }

    fn push_selected(&mut self, batch: &Batch, rows: RowSet<'_>, out: &mut dyn OutputConsumer) {
        if let Some((chosen, places)) = &self.chosen {
            chosen.note(batch, rows, places);
        }
        let Some(computing) = self.computing.as_ref().filter(|c| !c.after.is_empty()) else {
            return self.push_computed(batch, rows, out);
        };
        // Computes only the selected rows if they are less than half of the batch.
        if rows.len() < batch.rows() / 2 {
            let some = computing
                .computer
                .extend(&take(batch, rows, |_| true), &computing.after);
            return self.push_computed(&some, RowSet::all(some.rows()), out);
        }
        let all = computing.computer.extend(batch, &computing.after);
        self.push_computed(&all, rows, out);
    }

    fn push_computed(&mut self, batch: &Batch, rows: RowSet<'_>, out: &mut dyn OutputConsumer) {
        let Some(folding) = &self.folding else {
            return self.hand_on(RedactedTuples::plain(batch), rows, out);
        };
        let seen = take(batch, rows, |_| true);
        let told = folding.fold(&seen);
        self.hand_on(
            RedactedTuples {
                seen: &seen,
                told: &told,
            },
            RowSet::all(seen.rows()),
            out,
        );
    }

    fn hand_on(
        &mut self,
        tuples: RedactedTuples<'_>,
        rows: RowSet<'_>,
        out: &mut dyn OutputConsumer,
    ) {
        let watermark_ns = self.watermark_ns;
        if self.pipelines.is_empty() {
            let batch = take(tuples.told, rows, |id| !self.hidden.contains(&id));
            out.take(EngineOutput {
                pipeline: None,
                batch,
                watermark_ns,
            });
        }
        for (i, pipeline) in self.pipelines.iter_mut().enumerate() {
            let emit = &mut emitter(i, watermark_ns, out);
            pipeline.push(tuples, rows, &mut self.counters, emit);
        }
    }
}

impl ComputeStage {
    fn new(
        dataflow: &Dataflow,
        schema: &Schema,
        place: &dyn Fn(Column) -> FieldId,
    ) -> Option<ComputeStage> {
        let all = &dataflow.computed;
        if all.is_empty() {
            return None;
        }
        let mut needed = vec![false; all.len()];
        let mut read = |column: Column| {
            column
                .computed_place()
                .into_iter()
                .for_each(|place| needed[place] = true)
        };
        dataflow
            .filter
            .iter()
            .for_each(|predicate| predicate.columns(&mut read));
        // A computed column reads only columns before it.
        for place in (0..all.len()).rev() {
            if needed[place] {
                let mut read = |column: Column| {
                    column
                        .computed_place()
                        .into_iter()
                        .for_each(|p| needed[p] = true)
                };
                all[place].expr.columns(&mut read);
            }
        }
        let places = |before: bool| {
            (0..all.len())
                .filter(|place| needed[*place] == before)
                .collect()
        };
        let before = places(true);
        let after = places(false);
        Some(ComputeStage {
            computer: ColumnComputer::new(all, schema, place),
            before,
            after,
        })
    }
}

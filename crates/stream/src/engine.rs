//! Runs a dataflow: tuples in, results out. Filters, join, predicate, pipelines, in this order.
//!
//! One engine does it all, or several workers do with a share of the flows each ([`Engine::worker`], all tuples of a
//! flow in one of them) and one engine collects: [`Engine::detach`] there, [`Engine::attach`] and [`Engine::advance`]
//! here. The rows are those that one engine gives.
//!
//! A worker may attach, too, and detach what it got at the least watermark of those it got it from: the threads of a process
//! make one partial result of it, which [`Partial::encode`] prepares for the way to another machine.
//!
//! The engine reads no clock: [`Engine::advance`] says how far event time has come. It knows nothing of packets,
//! formats or other engines.

mod cells;
mod period;

use std::sync::{Arc, MutexGuard, PoisonError};

use plan::{Column, Dataflow, Pipeline};
use tuple::{Batch, FieldId, Schema, common};

use crate::cells::CellTable;
use crate::chosen::{Chosen, Places};
use crate::config::{Config, Counters};
use crate::folding::{Folding, Tuples};
use crate::limited::Limited;
use crate::losses::{Losses, SharedLosses, Stretch};
use crate::ops::expr::Computer;
use crate::ops::filter::Filter;
use crate::ops::join::Join;
use crate::ops::take::take;
use crate::partial::{Malformed, Partial};
use crate::rows::Rows;
use crate::server_tap::ServerTap;
use crate::silence::Silence;
use crate::work::{Share, Work};

/// A dataflow at work.
pub struct Engine {
    /// By input.
    filters: Vec<Option<Filter>>,
    join: Option<Join>,
    rest: AfterJoin,
    /// Room for the rows that a filter leaves, from batch to batch.
    selected: Vec<u32>,
    /// What tuples are without pipelines, and the columns of them that are shown unless a query says otherwise.
    tuples: (Arc<Schema>, Vec<FieldId>),
    /// Where the computed columns begin.
    base: u16,
    /// Says what another tap has seen of requests.
    server_tap: Option<ServerTap>,
    /// By pipeline, how its partial results are rows.
    cells: Vec<CellTable>,
}

/// What happens to tuples once they are joined.
struct AfterJoin {
    computing: Option<Computing>,
    predicate: Option<Filter>,
    pipelines: Vec<Work>,
    is_worker: bool,
    /// Columns of raw tuples that are not printed: they say again what another says.
    hidden: Vec<FieldId>,
    counters: Counters,
    selected: Vec<u32>,
    /// Where the flows of tuples that passed are noted, and by which columns.
    chosen: Option<(Chosen, Places)>,
    /// Texts that leave are folded.
    folding: Option<Folding>,
    watermark_ns: i64,
    /// What the capture lost; all pipelines look there.
    losses: SharedLosses,
    /// How far behind the watermark a window may begin that has not been emitted.
    reach_ns: i64,
    lateness_ns: Vec<i64>,
    /// The period that the dataflow asks for, from the first nanosecond to the last.
    period: (i64, i64),
    /// When event time began.
    began_ns: Option<i64>,
}

/// Columns that are computed, by when.
struct Computing {
    computer: Computer,
    /// Those that WHERE reads.
    before: Vec<usize>,
    /// Those that only others read: of tuples that have passed.
    after: Vec<usize>,
}

/// Some rows of a result.
#[derive(Clone, Debug)]
pub struct Output {
    /// Of which pipeline; `None`: tuples, of a dataflow without pipelines.
    pub pipeline: Option<usize>,
    /// The rows. Each pipeline's batches have one schema.
    pub batch: Batch,
    /// Event time had come here.
    pub watermark_ns: i64,
}

/// Consumer of rows as they are produced, so that no stage holds all of them.
pub trait TakeOutput {
    /// Some rows.
    fn take(&mut self, output: Output);
}

impl TakeOutput for Vec<Output> {
    fn take(&mut self, output: Output) {
        self.push(output);
    }
}

impl Engine {
    /// # Panics
    /// When the dataflow is not sound (no input; a literal or a value of another type than its column; a join without
    /// `id`; windows without `ts_end`) or the sampling rate is not in (0, 1]: bugs of the caller.
    #[must_use]
    pub fn new(dataflow: &Dataflow, config: Config) -> Engine {
        Engine::build(dataflow, config, false)
    }

    /// An engine for one share of the flows: it emits raw tuples; results leave through [`Engine::detach`]. Parts of
    /// that share can be added with [`Engine::attach`].
    ///
    /// # Panics
    /// As [`Engine::new`].
    #[must_use]
    pub fn worker(dataflow: &Dataflow, config: Config) -> Engine {
        Engine::build(dataflow, config, true)
    }

    fn build(dataflow: &Dataflow, config: Config, is_worker: bool) -> Engine {
        assert!(config.sample > 0.0 && config.sample <= 1.0, "sampling rate {}", config.sample);
        assert!(!dataflow.inputs.is_empty(), "a dataflow has an input");
        let filters = dataflow.inputs.iter().map(|input| {
            let predicate = input.filter.as_ref()?;
            Some(Filter::new(predicate, &input.schema, &|column: Column| column.field))
        });
        let join = (dataflow.inputs.len() > 1).then(|| Join::new(&dataflow.inputs, &config));
        let of_inputs =
            |column: Column| -> FieldId { join.as_ref().map_or(column.field, |j| j.place(column)) };
        let schema = join.as_ref().map_or(&dataflow.inputs[0].schema, Join::schema).clone();
        let base = schema.fields.len() as u16;
        let computing = Computing::new(dataflow, &schema, &of_inputs);
        let schema = &computing.as_ref().map_or(schema, |c| c.computer.schema().clone());
        let place = |column: Column| match column.computed_place() {
            Some(computed) => FieldId(base + computed as u16),
            None => of_inputs(column),
        };
        // A flow's tuples were all sampled at one rate: those of the first input say it.
        let rates = Column { input: 0, field: common::SAMPLE_RATE };
        let rates = dataflow.inputs[0].columns.contains(&rates.field).then(|| place(rates));
        let pipelines = 0..dataflow.pipelines.len();
        let cells = pipelines.map(|pipeline| CellTable::new(dataflow, pipeline, &config)).collect();
        let of_each = config.window_bytes_max / dataflow.pipelines.len().max(1);
        let config = Config { window_bytes_max: of_each, ..config };
        let running = |p| Work::new(p, schema, &place, &config, rates, is_worker);
        let mut pipelines: Vec<Work> = dataflow.pipelines.iter().map(running).collect();
        let losses = SharedLosses::default();
        pipelines.iter_mut().for_each(|pipeline| pipeline.heed(&losses));
        let has_time = dataflow.inputs.iter().all(|i| i.columns.contains(&common::TS_END));
        assert!(has_time || !pipelines.iter().any(Work::needs_time), "windows and rates need ts_end");
        let is_news = |id: &FieldId| id.0 >= base || join.as_ref().is_none_or(|j| j.is_news(*id));
        let chosen = config.chosen.as_ref().map(|chosen| (chosen.clone(), chosen.places(&place)));
        let folding = |redactor| Folding::new(redactor, dataflow, (schema, base), &place);
        let rest = AfterJoin {
            predicate: dataflow.filter.as_ref().map(|p| Filter::new(p, schema, &place)),
            pipelines,
            is_worker,
            computing,
            hidden: schema.ids().filter(|id| !is_news(id)).collect(),
            counters: Counters::default(),
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
        let mut present = join.as_ref().map_or(dataflow.inputs[0].columns.clone(), Join::present);
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

    /// Takes tuples of one input (its place in the dataflow). Without pipelines the tuples that pass go to `out`.
    ///
    /// # Panics
    /// When the batch lacks a column that the dataflow says is there, or the input does not exist.
    pub fn push(&mut self, input: usize, batch: &Batch, out: &mut dyn TakeOutput) {
        let completed = self.server_tap.as_ref().and_then(|tap| tap.complete(batch));
        let batch = completed.as_ref().unwrap_or(batch);
        let (rest, all) = (&mut self.rest, Rows::all(batch.rows()));
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
                    rest.push(joined, Rows::all(joined.rows()), out);
                });
                join.take_limited().into_iter().for_each(|limited| rest.losses().limit(limited));
            }
        }
        self.selected = list;
    }

    /// Event time has come to `watermark_ns`: windows that ended by more than their lateness are emitted. Going back
    /// does nothing. When engines collect what workers detach, it is the least of the workers' watermarks, once all
    /// that they detached at theirs is attached.
    ///
    /// # Panics
    /// When the engine is a worker's: a bug of the caller.
    pub fn advance(&mut self, watermark_ns: i64, out: &mut dyn TakeOutput) {
        assert!(!self.rest.is_worker, "a worker's results leave by detach");
        if let Some(join) = &mut self.join {
            join.advance(watermark_ns);
        }
        self.rest.watermark_ns = self.rest.watermark_ns.max(watermark_ns);
        let (counters, watermark_ns) = (&mut self.rest.counters, self.rest.watermark_ns);
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let emit = &mut |batch| out.take(Output { pipeline: Some(i), batch, watermark_ns });
            pipeline.advance(watermark_ns, counters, emit);
        }
    }

    /// The run begins at this time: windows from there to the first tuple have rows, too, as [`Engine::pass`] says.
    pub fn begin_run(&mut self, now_ns: i64) {
        self.rest.began_ns.get_or_insert(now_ns);
    }

    /// The source's clock has come to `now_ns`, with or without tuples: windows without a tuple that are over have rows, of
    /// pipelines without groups and within the period that the dataflow asks for. Call it behind [`Engine::advance`]; without it
    /// only windows between others have such rows.
    pub fn pass(&mut self, now_ns: i64, out: &mut dyn TakeOutput) {
        let (since_ns, last_ns) = self.rest.period;
        let (from_ns, now_ns) = (self.rest.began_ns.map(|began| began.max(since_ns)), now_ns.min(last_ns));
        // The end of all time is no time that a clock has come to.
        if now_ns < since_ns || now_ns == i64::MAX {
            return;
        }
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let emit = &mut |batch| out.take(Output { pipeline: Some(i), batch, watermark_ns });
            pipeline.pass(from_ns, now_ns, emit);
        }
    }

    /// The capture lacks this share (0 to 1) of the traffic, at all times: from now on rows say so, and the intervals of
    /// totals, which a sample has, reach up to what may be missing.
    pub fn set_capture_loss(&mut self, share: f64) {
        self.rest.losses().set_whole(share);
    }

    /// The same for a period of time. It must be reported before the watermark passes the windows of the period.
    pub fn add_loss(&mut self, stretch: Stretch) {
        let forgotten = self.rest.watermark_ns.saturating_sub(self.rest.reach_ns);
        let mut losses = self.rest.losses();
        losses.forget_before(forgotten);
        losses.add(stretch);
    }

    /// A limit took effect at the source of the tuples: rows of windows that overlap this time are marked
    /// `approximate`. It must be reported before the watermark passes those windows.
    pub fn add_limited(&mut self, limited: Limited) {
        let forgotten = self.rest.watermark_ns.saturating_sub(self.rest.reach_ns);
        let mut losses = self.rest.losses();
        losses.forget_before(forgotten);
        losses.limit(limited);
    }

    /// The time of all limits of a worker's engine that took effect since the last call: for [`Engine::add_limited`] of the
    /// engine that collects.
    #[must_use]
    pub fn take_limited(&mut self) -> Option<Limited> {
        self.rest.losses().take_limited()
    }

    /// Emits the oldest windows before their time where attached ones take more room than there is; a worker sets them aside
    /// for [`Engine::detach`].
    pub fn make_room(&mut self, out: &mut dyn TakeOutput) {
        let (counters, watermark_ns) = (&mut self.rest.counters, self.rest.watermark_ns);
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let emit = &mut |batch| out.take(Output { pipeline: Some(i), batch, watermark_ns });
            pipeline.make_room(counters, emit);
        }
    }

    /// Nothing comes any more: everything open is emitted.
    ///
    /// # Panics
    /// When the engine is a worker's: a bug of the caller.
    pub fn finish(&mut self, out: &mut dyn TakeOutput) {
        assert!(!self.rest.is_worker, "a worker's results leave by detach_all");
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            pipeline.finish(&mut |batch| out.take(Output { pipeline: Some(i), batch, watermark_ns }));
        }
    }

    /// A worker's event time has come to `watermark_ns`, and what it has of windows that ended by more than their
    /// lateness leaves; `None`: nothing. Tuples that were on time before are late from now on exactly when
    /// [`Engine::advance`] would make them so; those that come later for a sliding window that is still open follow
    /// with a later part.
    ///
    /// # Panics
    /// When the engine was not made by [`Engine::worker`]: a bug of the caller.
    pub fn detach(&mut self, watermark_ns: i64) -> Option<Partial> {
        assert!(self.rest.is_worker, "only a worker detaches");
        if let Some(join) = &mut self.join {
            join.advance(watermark_ns);
        }
        let shares: Vec<Share> = self.rest.pipelines.iter_mut().map(|p| p.detach(watermark_ns)).collect();
        Some(Partial::of(shares)).filter(|partial| !partial.is_empty())
    }

    /// What a worker has of windows that were closed early for want of room, if it takes more than `bytes`.
    ///
    /// # Panics
    /// When the engine was not made by [`Engine::worker`]: a bug of the caller.
    pub fn detach_early(&mut self, bytes: usize) -> Option<Partial> {
        assert!(self.rest.is_worker, "only a worker detaches");
        let waiting: usize = self.rest.pipelines.iter().map(Work::over_bytes).sum();
        (waiting > bytes).then(|| Partial::of(self.rest.pipelines.iter_mut().map(Work::give).collect()))
    }

    /// Takes a worker's content of open windows as a delta, which limits the loss if the worker dies; `None`: nothing.
    /// Several deltas of a window may be attached. A window with pooled groups is kept until it ends, because errors
    /// would add up.
    ///
    /// # Panics
    /// If the engine was not made by [`Engine::worker`]: a bug of the caller.
    pub fn detach_open(&mut self) -> Option<Partial> {
        assert!(self.rest.is_worker, "only a worker detaches");
        let shares = self.rest.pipelines.iter_mut().map(Work::detach_open).collect();
        Some(Partial::of(shares)).filter(|partial| !partial.is_empty())
    }

    /// Nothing comes to this worker any more: all that it has leaves, and its counters go along. Tuples that wait in
    /// a join have no partner and go.
    ///
    /// # Panics
    /// When the engine was not made by [`Engine::worker`]: a bug of the caller.
    pub fn detach_all(&mut self) -> Partial {
        assert!(self.rest.is_worker, "only a worker detaches");
        let shares = self.rest.pipelines.iter_mut().map(Work::detach_all).collect();
        let counters = self.counters();
        self.rest.counters = Counters::default();
        self.join.iter_mut().for_each(Join::reset_counters);
        Partial { shares, counters }
    }

    /// An engine that has taken nothing yet goes on where another of the same dataflow ended, which had come to
    /// `watermark_ns`: what comes for windows before it is late. `latest_ns`: for each pipeline the start of the last window
    /// that it emitted, if any.
    pub fn begin_at(&mut self, watermark_ns: i64, latest_ns: &[Option<i64>]) {
        self.rest.watermark_ns = watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            pipeline.begin_at(watermark_ns, latest_ns.get(i).copied().flatten());
        }
    }

    /// The watermark at which all windows are over of which there are parts in `partial`; `None`: there are none in it.
    #[must_use]
    pub fn over_at(&self, partial: &Partial) -> Option<i64> {
        self.rest.pipelines.iter().zip(&partial.shares).filter_map(|(mine, share)| mine.over_at(share)).max()
    }

    /// How far behind the watermark a window may begin that is not over: its size and lateness.
    #[must_use]
    pub fn reach_ns(&self) -> i64 {
        self.rest.reach_ns
    }

    /// How long the windows of each result wait for late tuples.
    #[must_use]
    pub fn lateness_ns(&self) -> &[i64] {
        &self.rest.lateness_ns
    }

    /// A copy of open windows: a worker's for [`Engine::open_rows`], a collecting engine's for an engine that continues
    /// in its place. `None` if it exceeds `bytes_max`.
    #[must_use]
    pub fn peek(&self, bytes_max: usize) -> Option<Partial> {
        let bytes: usize = self.rest.pipelines.iter().map(Work::open_bytes).sum();
        (bytes <= bytes_max).then(|| Partial::of(self.rest.pipelines.iter().map(Work::peek).collect()))
    }

    /// What windows that are still open hold so far, `peeks` being what workers had of them when they last detached. It
    /// changes nothing of the results.
    pub fn open_rows(&mut self, peeks: &[&Partial], out: &mut dyn TakeOutput) {
        let watermark_ns = self.rest.watermark_ns;
        for (i, pipeline) in self.rest.pipelines.iter_mut().enumerate() {
            let shares = peeks.iter().filter_map(|peek| peek.shares.get(i));
            pipeline
                .open_rows(shares, &mut |batch| out.take(Output { pipeline: Some(i), batch, watermark_ns }));
        }
    }

    /// Takes over what a worker of the same dataflow and configuration detached, in any order of workers. A worker that does
    /// so hands it on: [`Engine::make_room`] sets aside what is too much.
    pub fn attach(&mut self, partial: Partial) {
        let counters = &mut self.rest.counters;
        counters.add(&partial.counters);
        for (mine, share) in self.rest.pipelines.iter_mut().zip(partial.shares) {
            mine.attach(share, counters);
        }
    }

    /// Decodes the output of [`Partial::encode`] of an engine with the same dataflow and configuration, possibly with
    /// another seed. Hostile bytes are safe: they decode to values, which may be false, or are rejected.
    ///
    /// # Errors
    /// Truncated bytes, another version or dataflow, impossible values, or values that exceed the memory limit.
    pub fn decode_partial(&self, bytes: &[u8]) -> Result<Partial, Malformed> {
        Partial::decode(bytes, &self.rest.pipelines)
    }

    /// Counters of tuples so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
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

    /// The windows of each pipeline that has groups which no tuple reached.
    pub fn silences(&self) -> impl Iterator<Item = &Silence> {
        self.rest.pipelines.iter().filter_map(Work::silence)
    }

    /// Where a column of the dataflow is in the tuples that it gives without pipelines.
    #[must_use]
    pub fn place(&self, column: Column) -> FieldId {
        match column.computed_place() {
            Some(computed) => FieldId(self.base + computed as u16),
            None => self.join.as_ref().map_or(column.field, |j| j.place(column)),
        }
    }

    /// The schema of the tuples that a dataflow without pipelines gives, and the columns that are shown of them unless it
    /// says otherwise.
    #[must_use]
    pub fn tuples(&self) -> (&Arc<Schema>, &[FieldId]) {
        (&self.tuples.0, &self.tuples.1)
    }

    /// Whether its dataflow has no pipelines, so that tuples are what it gives.
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

/// How far behind the watermark windows of a pipeline may begin that have not been emitted.
fn reach_ns(pipeline: &Pipeline) -> i64 {
    pipeline.window.map_or(0, |w| w.size_ns.saturating_add(w.lateness_ns.max(0)))
}

fn lateness_ns(pipeline: &Pipeline) -> i64 {
    pipeline.window.map_or(0, |w| w.lateness_ns.max(0))
}

impl AfterJoin {
    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&mut self, batch: &Batch, rows: Rows<'_>, out: &mut dyn TakeOutput) {
        let extended = self.computing.as_ref().map(|c| c.computer.extend(batch, &c.before));
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

    fn push_selected(&mut self, batch: &Batch, rows: Rows<'_>, out: &mut dyn TakeOutput) {
        if let Some((chosen, places)) = &self.chosen {
            chosen.note(batch, rows, places);
        }
        let Some(computing) = self.computing.as_ref().filter(|c| !c.after.is_empty()) else {
            return self.push_computed(batch, rows, out);
        };
        // What is left out is not computed of, where that is much.
        if rows.len() < batch.rows() / 2 {
            let some = computing.computer.extend(&take(batch, rows, |_| true), &computing.after);
            return self.push_computed(&some, Rows::all(some.rows()), out);
        }
        let all = computing.computer.extend(batch, &computing.after);
        self.push_computed(&all, rows, out);
    }

    fn push_computed(&mut self, batch: &Batch, rows: Rows<'_>, out: &mut dyn TakeOutput) {
        let Some(folding) = &self.folding else { return self.hand_on(Tuples::plain(batch), rows, out) };
        let seen = take(batch, rows, |_| true);
        let told = folding.fold(&seen);
        self.hand_on(Tuples { seen: &seen, told: &told }, Rows::all(seen.rows()), out);
    }

    fn hand_on(&mut self, tuples: Tuples<'_>, rows: Rows<'_>, out: &mut dyn TakeOutput) {
        let watermark_ns = self.watermark_ns;
        if self.pipelines.is_empty() {
            let batch = take(tuples.told, rows, |id| !self.hidden.contains(&id));
            out.take(Output { pipeline: None, batch, watermark_ns });
        }
        for (i, pipeline) in self.pipelines.iter_mut().enumerate() {
            let emit = &mut |batch| out.take(Output { pipeline: Some(i), batch, watermark_ns });
            pipeline.push(tuples, rows, &mut self.counters, emit);
        }
    }
}

impl Computing {
    fn new(dataflow: &Dataflow, schema: &Schema, place: &dyn Fn(Column) -> FieldId) -> Option<Computing> {
        let all = &dataflow.computed;
        if all.is_empty() {
            return None;
        }
        let mut needed = vec![false; all.len()];
        let mut read =
            |column: Column| column.computed_place().into_iter().for_each(|place| needed[place] = true);
        dataflow.filter.iter().for_each(|predicate| predicate.columns(&mut read));
        // A column reads those before it.
        for place in (0..all.len()).rev() {
            if needed[place] {
                let mut read =
                    |column: Column| column.computed_place().into_iter().for_each(|p| needed[p] = true);
                all[place].expr.columns(&mut read);
            }
        }
        let places = |before: bool| (0..all.len()).filter(|place| needed[*place] == before).collect();
        let (before, after) = (places(true), places(false));
        Some(Computing { computer: Computer::new(all, schema, place), before, after })
    }
}

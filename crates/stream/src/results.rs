//! Result rows of a pipeline: their order and output. The columns are defined in [`plan::result`].

use std::sync::{Arc, PoisonError};

use plan::result::{self, IntervalMode};
use plan::{AggregateFunction, Pipeline, SampledUnit};
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter};

use crate::estimate::{Estimate, EstimateContext, EstimateValue, ObservedGroup};
use crate::limited_stretches::LimitedStretch;
use crate::loss_history::SharedLosses;
use crate::ops::aggregate::AccumulatorState;
use crate::ops::top_k::{RankWeight, top_k};
use crate::pane::{GroupOverflow, Pane, PaneLayout, WEIGHT_UNIT};
use crate::precision::{self, PrecisionLog, RowPrecisions, SampledWindow};
use crate::rate_control::WindowPrecision;
use crate::scalar::{Scalar, order_rows};
use crate::selection::RowSelector;
use crate::window::WindowLayout;

/// Maximum recorded windows without tuples of a sequence; more do not change a sampling rate any more.
const EMPTY_RECORDED: u64 = 32;

/// Displayed in text columns of the row of pooled groups.
pub const OTHER: &str = "(other)";

/// Writes the result rows of one pipeline.
pub struct ResultWriter {
    writer: TupleWriter,
    pipeline: Pipeline,
    is_sampled: bool,
    /// HAVING, ORDER BY, and LIMIT … ROWS; `None` to output all rows unsorted.
    selecting: Option<RowSelector>,
    /// Capture losses over time.
    pub losses: SharedLosses,
    /// Number of sums clamped to the type of their column.
    pub saturated: u64,
    /// Bound of the relative error, whose columns the rows have.
    error: Option<f64>,
    /// Records the precision of final windows; `None` while preliminary rows are written.
    log: Option<PrecisionLog>,
    /// Precision of the rows of the current window.
    precisions: RowPrecisions,
}

/// A window to emit.
#[derive(Clone, Copy, Debug)]
pub struct EmittedWindow<'a> {
    /// Groups of the window.
    pub pane: &'a Pane,
    /// Layout of the pane.
    pub layout: &'a PaneLayout,
    /// Start and end (exclusive); `None` for the whole run.
    pub bounds: Option<(i64, i64)>,
    /// Length in seconds, for rates.
    pub seconds: f64,
}

/// A window with the values common to its rows.
struct ResultContext<'a> {
    emitted: &'a EmittedWindow<'a>,
    circumstances: EstimateContext,
    /// Whether a limit may have affected the window.
    is_limited: bool,
    /// By aggregate: for shares the window's total by replicate.
    totals: Vec<Vec<f64>>,
}

/// Groups in output order, and with sampling the possible ranks of each.
struct GroupRanking {
    groups: Vec<u32>,
    ranks: Vec<(u64, u64)>,
}

impl ResultWriter {
    /// Creates the results of `pipeline`; `input` returns the field of a column.
    #[must_use]
    pub fn new(
        pipeline: &Pipeline,
        is_sampled: bool,
        log: Option<&PrecisionLog>,
        input: &dyn Fn(plan::Column) -> Field,
    ) -> ResultWriter {
        let log = log.filter(|_| is_sampled);
        let intervals = match (log, is_sampled) {
            (Some(_), _) => IntervalMode::Bounded,
            (None, true) => IntervalMode::Shown,
            (None, false) => IntervalMode::None,
        };
        let schema = Arc::new(result::schema(pipeline, intervals, input));
        let selecting = (!pipeline.selection.is_everything()).then(|| {
            RowSelector::new(
                &pipeline.selection,
                &schema,
                &result::places(pipeline, intervals),
            )
        });
        let wanted: Vec<FieldId> = schema.ids().collect();
        ResultWriter {
            writer: TupleWriter::new(schema, &wanted),
            pipeline: pipeline.clone(),
            is_sampled,
            selecting,
            losses: SharedLosses::default(),
            saturated: 0,
            error: log.map(PrecisionLog::error),
            log: log.cloned(),
            precisions: RowPrecisions::default(),
        }
    }

    /// The result's schema.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        self.writer.schema()
    }

    /// Writes the rows of a window; full batches go to `full`.
    pub fn write(&mut self, emitted: &EmittedWindow<'_>, full: &mut dyn FnMut(Batch)) {
        let losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        let capture_loss = losses.share(emitted.bounds);
        let is_limited = losses.is_limited(emitted.bounds);
        drop(losses);
        let circumstances = EstimateContext {
            is_sampled: self.is_sampled,
            seconds: emitted.seconds,
            capture_loss,
        };
        let totals = (0..self.pipeline.aggregates.len())
            .map(|place| self.totals(emitted, place))
            .collect();
        let context = ResultContext {
            emitted,
            circumstances,
            is_limited,
            totals,
        };
        match self.selecting.take() {
            None => self.write_rows(&context, self.ranking(&context), full),
            Some(mut selecting) => {
                self.write_selected(&context, &mut selecting, full);
                self.selecting = Some(selecting);
            }
        }
        self.record(emitted, capture_loss);
    }

    /// Records the precision of a window.
    fn record(&mut self, emitted: &EmittedWindow<'_>, lost: f64) {
        let precision = self.precisions.take();
        if let Some(log) = &self.log {
            log.add(SampledWindow {
                end_ns: emitted.bounds.map_or(i64::MAX, |(_, end)| end),
                seconds: emitted.seconds,
                tuples: emitted.pane.tuples,
                precision: WindowPrecision { lost, ..precision },
            });
        }
    }

    /// Records `n` windows without tuples, for which no rows are written, from `first` on.
    pub fn record_empty(&self, windows: &WindowLayout, first: i128, n: u64) {
        for window in (first..).take(n.min(EMPTY_RECORDED) as usize) {
            if let Some(log) = &self.log {
                log.add(SampledWindow {
                    end_ns: windows.bounds(window).1,
                    seconds: windows.seconds(),
                    tuples: 0,
                    precision: WindowPrecision::default(),
                });
            }
        }
    }

    /// Records that a limit took effect.
    pub fn limit(&self, limited: LimitedStretch) {
        self.losses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .limit(limited);
    }

    /// Writes the selected rows of a window.
    fn write_selected(
        &mut self,
        context: &ResultContext<'_>,
        selecting: &mut RowSelector,
        full: &mut dyn FnMut(Batch),
    ) {
        // Buffered rows belong to earlier windows.
        self.finish().into_iter().for_each(&mut *full);
        let mut ranking = self.ranking(context);
        let pool = ranking
            .groups
            .pop_if(|group| Some(*group) == context.emitted.pane.pool());
        self.write_rows(context, ranking, &mut |batch| selecting.push(&batch, full));
        self.finish()
            .iter()
            .for_each(|batch| selecting.push(batch, full));
        selecting.finish(full);
        let pool = GroupRanking {
            groups: pool.into_iter().collect(),
            ranks: Vec::new(),
        };
        self.write_rows(context, pool, full);
    }

    fn write_rows(
        &mut self,
        context: &ResultContext<'_>,
        ranking: GroupRanking,
        full: &mut dyn FnMut(Batch),
    ) {
        for (place, &group) in ranking.groups.iter().enumerate() {
            let rank = self
                .pipeline
                .top_k
                .map(|_| (place as u64 + 1, ranking.ranks.get(place).copied()));
            self.write_row(context, group, rank);
            if self.writer.is_full() {
                full(self.writer.finish());
            }
        }
    }

    /// Writes preliminary rows without updating the counters.
    pub fn uncounted(&mut self, write: impl FnOnce(&mut ResultWriter)) {
        let saturated = self.saturated;
        let left_out = self.rows_left_out();
        let log = self.log.take();
        write(self);
        self.saturated = saturated;
        self.log = log;
        self.selecting
            .iter_mut()
            .for_each(|selecting| selecting.set_left_out(left_out));
    }

    /// Rows rejected by HAVING, and rows beyond LIMIT … ROWS.
    #[must_use]
    pub fn rows_left_out(&self) -> (u64, u64) {
        self.selecting
            .as_ref()
            .map_or((0, 0), RowSelector::left_out)
    }

    /// The rows of the incomplete batch.
    #[must_use]
    pub fn finish(&mut self) -> Option<Batch> {
        (self.writer.rows() > 0).then(|| self.writer.finish())
    }

    /// The window's total for a share.
    fn totals(&self, emitted: &EmittedWindow<'_>, place: usize) -> Vec<f64> {
        let AggregateFunction::Share(_) = self.pipeline.aggregates[place].aggregate else {
            return Vec::new();
        };
        let pane = emitted.pane;
        let state_at = emitted.layout.shape.place[place];
        let mut groups: Vec<u32> = pane.listed().collect();
        let is_real = |state: &AccumulatorState| matches!(state, AccumulatorState::RealSum(_));
        if pane
            .strata()
            .iter()
            .any(|stratum| is_real(stratum.cells.state(state_at)))
        {
            // Floating point sums depend on their order, and group numbers on the order of arrival.
            groups.sort_unstable_by(|a, b| order_rows(pane.keys().key(*a), pane.keys().key(*b)));
        }
        groups.extend(pane.pool());
        ObservedGroup::totals(pane.strata(), state_at, &groups, emitted.layout)
    }

    fn ranking(&self, context: &ResultContext<'_>) -> GroupRanking {
        let pane = context.emitted.pane;
        let mut groups: Vec<u32> = pane.listed().collect();
        let Some(by) = self.pipeline.top_k else {
            groups.sort_unstable_by(|a, b| order_rows(pane.keys().key(*a), pane.keys().key(*b)));
            groups.extend(pane.pool());
            return GroupRanking {
                groups,
                ranks: Vec::new(),
            };
        };
        let estimate = |group: &u32| self.estimate(context, *group, by.by);
        let estimates: Vec<Estimate> = groups.iter().map(estimate).collect();
        let weights: Vec<RankWeight> = estimates.iter().map(|e| e.value.weight()).collect();
        let best = top_k(&groups, &weights, pane.keys(), by.k);
        let ranks = if self.is_sampled {
            possible_ranks(&groups, &estimates, &best)
        } else {
            Vec::new()
        };
        GroupRanking {
            groups: best,
            ranks,
        }
    }

    fn write_row(
        &mut self,
        context: &ResultContext<'_>,
        group: u32,
        rank: Option<(u64, Option<(u64, u64)>)>,
    ) {
        let emitted = context.emitted;
        let mut at = ColumnCounter(0);
        if let Some((start, end)) = emitted.bounds {
            self.writer.i64(at.next(), start);
            self.writer.i64(at.next(), end);
        }
        self.write_group(emitted.pane, group, &mut at);
        if let Some((rank, possible)) = rank {
            self.writer.u64(at.next(), rank);
            if let Some((low, high)) = possible {
                self.writer.u64(at.next(), low);
                self.writer.u64(at.next(), high);
            }
        }
        let mut is_cut = false;
        let mut error = None::<f64>;
        let mut estimates = Vec::new();
        for i in 0..self.pipeline.aggregates.len() {
            let estimate = self.estimate(context, group, i);
            is_cut |= self.write_value(at.next(), &estimate.value);
            if self.is_sampled {
                self.write_value(at.next(), &estimate.low);
                self.write_value(at.next(), &estimate.high);
            }
            error = error.into_iter().chain(estimate.error).reduce(f64::max);
            if self.error.is_some() {
                estimates.push(estimate);
            }
        }
        self.saturated += u64::from(is_cut);
        let (is_bounded, bound) = if context.is_limited {
            (true, None)
        } else {
            self.overflow_error(emitted, group)
        };
        self.writer
            .bool(at.next(), is_cut || is_bounded || error.is_some());
        let error_bound = at.next();
        if let Some(error) = bound.or(error.filter(|_| !is_bounded)) {
            self.writer.f64(error_bound, error);
        }
        let lost = at.next();
        if context.circumstances.capture_loss > 0.0 {
            self.writer.f64(lost, context.circumstances.capture_loss);
        }
        if let Some(bound) = self.error {
            let precision = self.precision(context, group, &estimates);
            if let Some(precision) = precision.filter(|precision| precision.samples > 0) {
                self.write_precision(&precision, bound, &mut at);
                if emitted.pane.pool() != Some(group) {
                    self.precisions.add(precision);
                }
            }
        }
        self.writer.end_row();
    }

    /// Precision of a row; `None` without an aggregate that has a relative error.
    fn precision(
        &self,
        context: &ResultContext<'_>,
        group: u32,
        estimates: &[Estimate],
    ) -> Option<WindowPrecision> {
        let emitted = context.emitted;
        let unit = emitted.layout.rates.unwrap_or(SampledUnit::Tuples);
        let aggregates = self.pipeline.aggregates.iter().map(|of| &of.aggregate);
        let place = aggregates
            .clone()
            .position(|aggregate| aggregate.has_error(unit))?;
        let seen = ObservedGroup {
            strata: emitted.pane.strata(),
            place: emitted.layout.shape.place[place],
            cells: Pane::cells(group, emitted.layout),
            rates: emitted.layout.rates,
        };
        let lost = context.circumstances.capture_loss;
        Some(precision::of_group(&seen, aggregates.zip(estimates), lost))
    }

    fn write_precision(&mut self, precision: &WindowPrecision, bound: f64, at: &mut ColumnCounter) {
        let sampled_at = at.next();
        let error = at.next();
        let within = at.next();
        self.writer.f64(sampled_at, precision.rate);
        let half_width = precision.half_width;
        half_width
            .iter()
            .for_each(|half_width| self.writer.f64(error, *half_width));
        if bound.is_finite() {
            self.writer.bool(
                within,
                half_width.is_some_and(|half_width| half_width <= bound),
            );
        }
    }

    fn write_group(&mut self, pane: &Pane, group: u32, at: &mut ColumnCounter) {
        let mut key = pane.keys().key(group);
        for _ in &self.pipeline.group {
            let id = at.next();
            let is_text = self.writer.schema().field(id).data_type == DataType::Text;
            if pane.pool() == Some(group) {
                if is_text {
                    self.writer.text(id, OTHER.as_bytes());
                }
            } else if let Some((scalar, rest)) = Scalar::decode(key) {
                scalar.write(&mut self.writer, id);
                key = rest;
            }
        }
    }

    /// Writes a value; returns whether it was clamped to the type of its column.
    fn write_value(&mut self, id: FieldId, value: &EstimateValue) -> bool {
        match (value, self.writer.schema().field(id).data_type) {
            (EstimateValue::Null, _) => {}
            (EstimateValue::Json(text), _) => self.writer.text(id, text.as_bytes()),
            (EstimateValue::Integer(v), DataType::U64) => {
                let cut = (*v).clamp(0, u64::MAX.into());
                self.writer.u64(id, cut as u64);
                return cut != *v;
            }
            (EstimateValue::Integer(v), DataType::I64) => {
                let cut = (*v).clamp(i64::MIN.into(), i64::MAX.into());
                self.writer.i64(id, cut as i64);
                return cut != *v;
            }
            (EstimateValue::Integer(v), _) => self.writer.f64(id, *v as f64),
            (EstimateValue::Real(v), _) => self.writer.f64(id, *v),
        }
        false
    }

    fn estimate(&self, context: &ResultContext<'_>, group: u32, place: usize) -> Estimate {
        let ResultContext {
            emitted,
            circumstances,
            totals,
            ..
        } = context;
        let aggregate = &self.pipeline.aggregates[place].aggregate;
        let state_at = emitted.layout.shape.place[place];
        let cells = Pane::cells(group, emitted.layout);
        let seen = ObservedGroup {
            strata: emitted.pane.strata(),
            place: state_at,
            cells,
            rates: emitted.layout.rates,
        };
        if let AggregateFunction::Share(of) = aggregate {
            return circumstances.share(*of, &seen, &totals[place]);
        }
        let mut estimate = circumstances.estimate(aggregate, &seen);
        let saved = match emitted.layout.overflow {
            GroupOverflow::SaveByCount(by) | GroupOverflow::SaveBySum(by) => {
                by == state_at && *aggregate != AggregateFunction::Avg
            }
            GroupOverflow::Pool => false,
        };
        if let Some(saving) = emitted.pane.saving().filter(|_| saved) {
            // The accumulator started when the group was listed; the weight covers all of its tuples.
            let per = per(aggregate, emitted);
            let weight = saving.weight(group);
            estimate.value = match aggregate {
                per_second if per_second.is_per_second() => Some(weight as f64 / per)
                    .filter(|_| emitted.seconds > 0.0)
                    .into(),
                _ if self.is_sampled => {
                    EstimateValue::Integer((weight as f64 / per).round() as i128)
                }
                _ => EstimateValue::Integer(i128::try_from(weight).unwrap_or(i128::MAX)),
            };
            let inherited = saving.error(group) as f64 / per;
            estimate.high = estimate.high.real().map(|high| high + inherited).into();
        }
        estimate
    }

    /// Whether a memory limit affects the group, and the maximum overestimate of its ranking aggregate.
    fn overflow_error(&self, emitted: &EmittedWindow<'_>, group: u32) -> (bool, Option<f64>) {
        let pane = emitted.pane;
        if let (Some(saving), Some(by)) = (pane.saving(), self.pipeline.top_k) {
            let per = per(&self.pipeline.aggregates[by.by].aggregate, emitted);
            let error = saving.error(group).saturating_add(saving.negative()) as f64 / per;
            // Pooled tuples may belong to any group.
            return (
                true,
                Some(error).filter(|e| e.is_finite() && pane.pool().is_none()),
            );
        }
        // A pooled group might have been selected by the ranking or selection.
        let is_chosen = self.pipeline.top_k.is_some() || !self.pipeline.selection.is_everything();
        let is_doubtful = is_chosen && pane.pool().is_some();
        (
            pane.pool() == Some(group) || pane.is_partial(group) || is_doubtful,
            None,
        )
    }
}

/// Weight per unit of the aggregate.
fn per(aggregate: &AggregateFunction, emitted: &EmittedWindow<'_>) -> f64 {
    let of_tuple = if emitted.layout.rates.is_some() {
        WEIGHT_UNIT
    } else {
        emitted.layout.sample
    };
    if aggregate.is_per_second() {
        of_tuple * emitted.seconds
    } else {
        of_tuple
    }
}

/// Iterates over column positions.
struct ColumnCounter(u16);

impl ColumnCounter {
    fn next(&mut self) -> FieldId {
        self.0 += 1;
        FieldId(self.0 - 1)
    }
}

/// For each group in `best`, the number of groups certainly ranked above it, and possibly ranked above it.
fn possible_ranks(groups: &[u32], estimates: &[Estimate], best: &[u32]) -> Vec<(u64, u64)> {
    let low = |e: &Estimate| e.low.real().unwrap_or(f64::NEG_INFINITY);
    let high = |e: &Estimate| e.high.real().unwrap_or(f64::INFINITY);
    let mut lows: Vec<f64> = estimates.iter().map(low).collect();
    let mut highs: Vec<f64> = estimates.iter().map(high).collect();
    lows.sort_unstable_by(f64::total_cmp);
    highs.sort_unstable_by(f64::total_cmp);
    best.iter()
        .map(|group| {
            // Groups are in ascending order.
            let own = &estimates[groups.partition_point(|g| g < group)];
            let above = lows.len() - lows.partition_point(|l| *l <= high(own));
            let not_below = highs.len() - highs.partition_point(|h| *h < low(own));
            (above as u64 + 1, not_below.max(above + 1) as u64)
        })
        .collect()
}

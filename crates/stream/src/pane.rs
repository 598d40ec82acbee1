//! The groups of one pane (a period of event time), their accumulators, and the handling of overflow.
//!
//! Limits are shared by the panes of a pipeline. A group that exceeds them is added to the pane's pool. In a ranking
//! by a total it instead replaces the group with the smallest weight (Space-Saving). With a pool, listed groups
//! remain exact.

mod arrivals;
mod cells;
mod encoding;
mod merge;

use std::ops::Range;

use plan::{AggregateFunction, Pipeline, SampledUnit};
use tuple::DataType;

use crate::ops::accumulator_spec::{AccumulatorPlan, AccumulatorSpec};
use crate::ops::aggregate::{AccumulatorState, AggregateShape, Stratum};
use crate::ops::group_by::KeyTable;
use crate::sketch::SpaceSaving;

pub use arrivals::{PaneBatch, PaneScratch};
pub use cells::{CellRowContext, PaneReader};
pub use encoding::PaneExpectation;

/// The coarsest level of sketches.
pub const LEVEL_MAX: u8 = 4;

/// Maximum sampling rates per pane; tuples with further rates are counted at the nearest stored rate.
const STRATA_MAX: usize = 64;
/// Groups guaranteed to each pane.
const GROUPS_SURE: usize = 64;
/// Approximate allocator overhead of the small allocations of a pane.
const PIECES_BYTES: usize = 256;
/// Weight of a tuple with rate 1, if tuples carry their rates.
pub const WEIGHT_UNIT: f64 = 4_294_967_296.0;

/// Properties common to all panes of a pipeline.
#[derive(Debug)]
pub struct PaneLayout {
    /// Sampling rate of flows, if tuples carry none.
    pub sample: f64,
    /// Unit of the tuples' sampling rates, if tuples carry one.
    pub rates: Option<SampledUnit>,
    /// The accumulators.
    pub shape: AggregateShape,
    /// Cells per group: 1, or the number of replicates with sampling.
    pub replicates: usize,
    /// Handling of overflow.
    pub overflow: GroupOverflow,
}

/// Handling of groups beyond the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupOverflow {
    /// Add the group to the pool.
    Pool,
    /// Replace the group with the smallest weight: the number of tuples in this accumulator.
    SaveByCount(usize),
    /// Replace the group with the smallest weight: the sum of integers in this accumulator.
    SaveBySum(usize),
}

impl GroupOverflow {
    /// Selects the method: rankings by a non-negative total keep the largest groups, all others use a pool. Results
    /// with shares also use a pool, because it keeps the total complete.
    #[must_use]
    pub fn of(pipeline: &Pipeline, accumulation: &AccumulatorPlan) -> GroupOverflow {
        let has_shares = pipeline
            .aggregates
            .iter()
            .any(|c| matches!(c.aggregate, AggregateFunction::Share(_)));
        let Some(by) = pipeline.top_k.map(|t| t.by).filter(|_| !has_shares) else {
            return GroupOverflow::Pool;
        };
        let place = accumulation.place[by];
        match (
            &pipeline.aggregates[by].aggregate,
            &accumulation.list[place],
        ) {
            (AggregateFunction::Count | AggregateFunction::Rate, _) => {
                GroupOverflow::SaveByCount(place)
            }
            (AggregateFunction::Sum | AggregateFunction::Throughput, AccumulatorSpec::Sum(of))
                if of.data_type != DataType::F64 =>
            {
                GroupOverflow::SaveBySum(place)
            }
            _ => GroupOverflow::Pool,
        }
    }
}

/// Limits of a pipeline and their usage.
#[derive(Debug)]
pub struct GroupBudget {
    /// Number of groups.
    pub groups: usize,
    /// Maximum number of groups.
    pub groups_max: usize,
    /// Groups guaranteed to each pane, so that a new pane is not empty.
    pub groups_min: usize,
    /// Bytes of keys.
    pub key_bytes: usize,
    /// Maximum bytes of keys.
    pub key_bytes_max: usize,
    /// Bytes of sketches.
    pub sketch_bytes: usize,
    /// Bytes above which the resolution of sketches is reduced.
    pub sketch_bytes_max: usize,
    /// Coarsening level of sketches.
    pub level: u8,
    /// Approximate memory of all panes.
    pub bytes: usize,
    /// Maximum memory of all panes.
    pub bytes_max: usize,
    /// Tuples of groups beyond the limits.
    pub overflowed: u64,
    /// Occurrences of too many sampling rates in a pane.
    pub rates_merged: u64,
    /// Vectors reused between batches.
    pub scratch: PaneScratch,
}

/// Groups and their accumulators.
#[derive(Clone, Debug)]
pub struct Pane {
    keys: KeyTable,
    /// By rate, in order of appearance.
    strata: Vec<Stratum>,
    /// Coarsening level of sketches.
    level: u8,
    pool: Option<u32>,
    saving: Option<SpaceSaving>,
    /// In a merged pane: groups missing from an overflowed part, so that some of their tuples may be in its pool.
    partial: Vec<bool>,
    /// Bytes of sketches.
    pub sketch_bytes: usize,
    /// Event time of the first and last tuple.
    pub span_ns: Option<(i64, i64)>,
    /// Number of tuples.
    pub tuples: u64,
    /// Occurrences of too many sampling rates.
    rates_merged: u64,
    /// Memory as counted in [`GroupBudget::bytes`].
    weighed: usize,
}

impl Pane {
    /// Creates a pane without groups.
    #[must_use]
    pub fn new(level: u8) -> Pane {
        Pane {
            keys: KeyTable::default(),
            strata: Vec::new(),
            level,
            pool: None,
            saving: None,
            partial: Vec::new(),
            sketch_bytes: 0,
            span_ns: None,
            tuples: 0,
            rates_merged: 0,
            weighed: 0,
        }
    }

    /// Approximate memory in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_stratum = |stratum: &Stratum| size_of::<Stratum>() + stratum.cells.cell_bytes();
        let cells: usize = self.strata.iter().map(of_stratum).sum();
        let saving = self.saving.as_ref().map_or(0, SpaceSaving::bytes);
        size_of::<Pane>()
            + PIECES_BYTES
            + self.keys.heap_bytes()
            + cells
            + self.sketch_bytes
            + saving
    }

    /// Time from the first to the last tuple.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.span_ns.map_or(0.0, |(first, last)| {
            (i128::from(last) - i128::from(first)) as f64 / 1e9
        })
    }

    /// Updates the counted memory.
    pub fn weigh(&mut self, room: &mut GroupBudget) {
        let bytes = self.bytes();
        room.bytes = room.bytes + bytes - self.weighed;
        self.weighed = bytes;
    }

    /// Index of the accumulators for a rate.
    fn stratum(&mut self, rate: f64, layout: &PaneLayout) -> usize {
        if let Some(place) = self.strata.iter().position(|s| s.rate == rate) {
            return place;
        }
        if self.strata.len() < STRATA_MAX {
            let mut cells = layout.shape.accumulators(self.level);
            cells.resize(self.keys.len() * layout.replicates);
            self.strata.push(Stratum { rate, cells });
            return self.strata.len() - 1;
        }
        self.rates_merged += 1;
        let off = |place: &usize| (self.strata[*place].rate / rate).ln().abs();
        (0..STRATA_MAX)
            .min_by(|a, b| off(a).total_cmp(&off(b)))
            .expect("a pane distinguishes at least one rate")
    }

    fn resize(&mut self, layout: &PaneLayout) {
        let cells = self.keys.len() * layout.replicates;
        self.strata
            .iter_mut()
            .for_each(|stratum| stratum.cells.resize(cells));
    }

    /// Adds the single group of a pipeline without key columns, which exists even without tuples; returns the number
    /// of added groups.
    pub fn ensure_single_group(&mut self, layout: &PaneLayout) -> usize {
        if !self.keys.is_empty() {
            return 0;
        }
        self.keys.insert(0, &[]);
        if self.strata.is_empty() {
            self.stratum(layout.sample, layout);
        }
        self.resize(layout);
        1
    }

    /// Occurrences of too many rates since the last call.
    #[must_use]
    pub fn take_rates_merged(&mut self) -> u64 {
        std::mem::take(&mut self.rates_merged)
    }

    /// Adds the pane's usage to `room`.
    pub fn enter(&mut self, room: &mut GroupBudget) {
        self.weighed = self.bytes();
        room.bytes += self.weighed;
        room.groups += self.keys.len();
        room.key_bytes += self.keys.bytes();
        room.sketch_bytes += self.sketch_bytes;
    }

    /// Subtracts the pane's usage from `room`.
    pub fn leave(&self, room: &mut GroupBudget) {
        room.bytes -= self.weighed;
        room.groups -= self.keys.len();
        room.key_bytes -= self.keys.bytes();
        room.sketch_bytes -= self.sketch_bytes;
    }

    /// Reduces the resolution of sketches to `level`, the next level.
    pub fn coarsen(&mut self, level: u8) {
        self.level = level;
        self.strata
            .iter_mut()
            .for_each(|stratum| stratum.cells.coarsen(level));
        self.sketch_bytes = self
            .strata
            .iter()
            .map(|stratum| stratum.cells.sketch_bytes())
            .sum();
    }

    /// The keys of groups.
    #[must_use]
    pub fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// All listed groups.
    pub fn listed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.keys.len() as u32).filter(|g| Some(*g) != self.pool)
    }

    /// The pool's group.
    #[must_use]
    pub fn pool(&self) -> Option<u32> {
        self.pool
    }

    /// The Space-Saving state, if any group was replaced.
    #[must_use]
    pub fn saving(&self) -> Option<&SpaceSaving> {
        self.saving.as_ref()
    }

    /// Whether tuples of the group may be in the pool.
    #[must_use]
    pub fn is_partial(&self, group: u32) -> bool {
        self.partial.get(group as usize).copied().unwrap_or(false)
    }

    /// The accumulators, by rate.
    #[must_use]
    pub fn strata(&self) -> &[Stratum] {
        &self.strata
    }

    /// The cells of a group in each stratum.
    #[must_use]
    pub fn cells(group: u32, layout: &PaneLayout) -> Range<usize> {
        let start = group as usize * layout.replicates;
        start..start + layout.replicates
    }

    fn pooled(&mut self) -> u32 {
        *self.pool.get_or_insert_with(|| {
            if let Some(saving) = &mut self.saving {
                saving.push_pinned();
            }
            self.keys.insert_unlisted()
        })
    }

    /// The ranking total of a group, as long as no group was replaced.
    fn exact_weight(&self, group: u32, layout: &PaneLayout) -> i128 {
        let place = match layout.overflow {
            GroupOverflow::SaveByCount(place) | GroupOverflow::SaveBySum(place) => place,
            GroupOverflow::Pool => return 0,
        };
        let cells = Pane::cells(group, layout);
        let of_stratum = |stratum: &Stratum| {
            let total: i128 = match stratum.cells.state(place) {
                AccumulatorState::Count(s) => cells.clone().map(|c| i128::from(s.count(c))).sum(),
                AccumulatorState::IntegerSum(s) => cells.clone().map(|c| s.sum(c)).sum(),
                _ => unreachable!("groups are saved by counts and sums of integers"),
            };
            total.saturating_mul(unit(stratum.rate, layout))
        };
        self.strata
            .iter()
            .map(of_stratum)
            .fold(0, i128::saturating_add)
    }

    /// Whether groups were pooled or replaced, here or in a merged part.
    #[must_use]
    pub fn is_overflowed(&self) -> bool {
        self.has_pooled() || self.saving.is_some()
    }

    /// Whether groups were pooled, here or in a merged part.
    fn has_pooled(&self) -> bool {
        self.pool.is_some() || !self.partial.is_empty()
    }

    /// A group's ranking weight and its maximum overestimate.
    fn weight_and_error(&self, group: u32, layout: &PaneLayout) -> (u128, u128) {
        match &self.saving {
            Some(saving) => (saving.weight(group), saving.error(group)),
            None => {
                let exact = self.exact_weight(group, layout);
                (exact.max(0) as u128, exact.min(0).unsigned_abs())
            }
        }
    }
}

/// Weight of one tuple at a rate.
fn unit(rate: f64, layout: &PaneLayout) -> i128 {
    match layout.rates {
        None => 1,
        Some(SampledUnit::Tuples) => (WEIGHT_UNIT / rate).round() as i128,
        Some(SampledUnit::Counters) => WEIGHT_UNIT as i128,
    }
}

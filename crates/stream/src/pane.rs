//! The groups of one stretch of time, their accumulators, and what happens when there is no room for another group.
//!
//! Room is shared by the panes of a pipeline. A group that finds none goes into the pane's pool or, in a ranking by a
//! total, takes the place of the lightest group (Space-Saving). Groups that are listed stay exact in the first case.

mod arrive;
mod cells;
mod form;
mod merge;

use std::ops::Range;

use plan::{Aggregate, Pipeline};
use tuple::DataType;

use crate::ops::accumulated::{Accumulated, Accumulation};
use crate::ops::aggregate::{Shape, State, Stratum};
use crate::ops::group_by::KeyTable;
use crate::sketch::SpaceSaving;

pub use arrive::{Frame, Scratch};
pub use cells::{Place, Taking};
pub use form::Expected;

/// The coarsest level of sketches.
pub const LEVEL_MAX: u8 = 4;

/// Rates that a pane tells apart: a tuple with yet another counts as sampled at the nearest.
const STRATA_MAX: usize = 64;
/// Groups that a pane may hold whatever the others take.
const GROUPS_SURE: usize = 64;
/// What the allocator takes for the many small pieces of a pane, about.
const PIECES_BYTES: usize = 256;
/// In what part of a tuple weights are counted where tuples say their rates.
pub const WEIGHT_UNIT: f64 = 4_294_967_296.0;

/// What all panes of a pipeline have in common.
#[derive(Debug)]
pub struct Layout {
    /// The rate at which flows are sampled, unless tuples say theirs.
    pub sample: f64,
    /// Whether they do.
    pub is_weighted: bool,
    /// Which accumulators.
    pub shape: Shape,
    /// Cells of each group: 1, or with sampling the number of replicates.
    pub replicates: usize,
    /// What happens without room.
    pub overflow: Overflow,
}

/// What happens to a group that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// It goes into the pool.
    Pool,
    /// It takes the place of the lightest, by the number of tuples at this accumulator's place.
    SaveByCount(usize),
    /// The same by the sum of integers.
    SaveBySum(usize),
}

impl Overflow {
    /// A ranking by a total of what cannot be negative keeps the largest groups; everything else pools. So does what shows
    /// shares: with a pool nothing is missing in the total.
    #[must_use]
    pub fn of(pipeline: &Pipeline, accumulation: &Accumulation) -> Overflow {
        let has_shares = pipeline.aggregates.iter().any(|c| matches!(c.aggregate, Aggregate::Share(_)));
        let Some(by) = pipeline.top_k.map(|t| t.by).filter(|_| !has_shares) else { return Overflow::Pool };
        let place = accumulation.place[by];
        match (&pipeline.aggregates[by].aggregate, &accumulation.list[place]) {
            (Aggregate::Count | Aggregate::Rate, _) => Overflow::SaveByCount(place),
            (Aggregate::Sum | Aggregate::Throughput, Accumulated::Sum(of))
                if of.data_type != DataType::F64 =>
            {
                Overflow::SaveBySum(place)
            }
            _ => Overflow::Pool,
        }
    }
}

/// Bounds of a pipeline, and how much of them is used.
#[derive(Debug)]
pub struct Room {
    /// Groups held.
    pub groups: usize,
    /// At most.
    pub groups_max: usize,
    /// What a pane may always hold, so that a new pane is not stillborn.
    pub groups_min: usize,
    /// Bytes of keys held.
    pub key_bytes: usize,
    /// At most.
    pub key_bytes_max: usize,
    /// Bytes of sketches held.
    pub sketch_bytes: usize,
    /// Above this they are made coarser.
    pub sketch_bytes_max: usize,
    /// How coarse they are.
    pub level: u8,
    /// Memory of all panes, about.
    pub bytes: usize,
    /// At most.
    pub bytes_max: usize,
    /// Tuples whose group found no room.
    pub overflowed: u64,
    /// Times that a pane did not tell one more rate apart.
    pub rates_merged: u64,
    /// Vectors that are used from batch to batch.
    pub scratch: Scratch,
}

/// Groups and their accumulators.
#[derive(Clone, Debug)]
pub struct Pane {
    keys: KeyTable,
    /// By rate, as they come.
    strata: Vec<Stratum>,
    /// How coarse the sketches are.
    level: u8,
    pool: Option<u32>,
    saving: Option<SpaceSaving>,
    /// Of a merged pane: groups that an overflowed part lacks, whose tuples may be in its pool.
    partial: Vec<bool>,
    /// Bytes of sketches.
    pub sketch_bytes: usize,
    /// Event time of the first tuple and of the last.
    pub span_ns: Option<(i64, i64)>,
    /// Tuples taken.
    pub tuples: u64,
    /// Times that a rate was one too many.
    rates_merged: u64,
    /// Memory as it is counted in the room.
    weighed: usize,
}

impl Pane {
    /// No group.
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

    /// Memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of_stratum = |stratum: &Stratum| size_of::<Stratum>() + stratum.cells.cell_bytes();
        let cells: usize = self.strata.iter().map(of_stratum).sum();
        let saving = self.saving.as_ref().map_or(0, SpaceSaving::bytes);
        size_of::<Pane>() + PIECES_BYTES + self.keys.heap_bytes() + cells + self.sketch_bytes + saving
    }

    /// From the first tuple to the last.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.span_ns.map_or(0.0, |(first, last)| (i128::from(last) - i128::from(first)) as f64 / 1e9)
    }

    /// Counts anew what memory it takes.
    pub fn weigh(&mut self, room: &mut Room) {
        let bytes = self.bytes();
        room.bytes = room.bytes + bytes - self.weighed;
        self.weighed = bytes;
    }

    /// The place of a rate's accumulators.
    fn stratum(&mut self, rate: f64, layout: &Layout) -> usize {
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
        (0..STRATA_MAX).min_by(|a, b| off(a).total_cmp(&off(b))).expect("a pane tells some rates apart")
    }

    fn resize(&mut self, layout: &Layout) {
        let cells = self.keys.len() * layout.replicates;
        self.strata.iter_mut().for_each(|stratum| stratum.cells.resize(cells));
    }

    /// Without key columns there is one group, also before the first tuple; returns how many it added.
    pub fn ensure_single_group(&mut self, layout: &Layout) -> usize {
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

    /// How often there was one rate too many since this was last asked.
    #[must_use]
    pub fn take_rates_merged(&mut self) -> u64 {
        std::mem::take(&mut self.rates_merged)
    }

    /// Counts what the pane uses.
    pub fn enter(&mut self, room: &mut Room) {
        self.weighed = self.bytes();
        room.bytes += self.weighed;
        room.groups += self.keys.len();
        room.key_bytes += self.keys.bytes();
        room.sketch_bytes += self.sketch_bytes;
    }

    /// Gives back what the pane used.
    pub fn leave(&self, room: &mut Room) {
        room.bytes -= self.weighed;
        room.groups -= self.keys.len();
        room.key_bytes -= self.keys.bytes();
        room.sketch_bytes -= self.sketch_bytes;
    }

    /// Makes the sketches coarser by one level.
    pub fn coarsen(&mut self, level: u8) {
        self.level = level;
        self.strata.iter_mut().for_each(|stratum| stratum.cells.coarsen(level));
        self.sketch_bytes = self.strata.iter().map(|stratum| stratum.cells.sketch_bytes()).sum();
    }

    /// The keys by group.
    #[must_use]
    pub fn keys(&self) -> &KeyTable {
        &self.keys
    }

    /// Every listed group.
    pub fn listed(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.keys.len() as u32).filter(|g| Some(*g) != self.pool)
    }

    /// The group of those that found no room.
    #[must_use]
    pub fn pool(&self) -> Option<u32> {
        self.pool
    }

    /// The places taken over, if any was.
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

    /// The cells of a group in each of them.
    #[must_use]
    pub fn cells(group: u32, layout: &Layout) -> Range<usize> {
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

    /// The total by which groups are ranked, while none was taken over.
    fn exact_weight(&self, group: u32, layout: &Layout) -> i128 {
        let place = match layout.overflow {
            Overflow::SaveByCount(place) | Overflow::SaveBySum(place) => place,
            Overflow::Pool => return 0,
        };
        let cells = Pane::cells(group, layout);
        let of_stratum = |stratum: &Stratum| {
            let total: i128 = match stratum.cells.state(place) {
                State::Count(s) => cells.clone().map(|c| i128::from(s.count(c))).sum(),
                State::IntegerSum(s) => cells.clone().map(|c| s.sum(c)).sum(),
                _ => unreachable!("groups are saved by counts and sums of integers"),
            };
            total.saturating_mul(unit(stratum.rate, layout))
        };
        self.strata.iter().map(of_stratum).fold(0, i128::saturating_add)
    }

    /// Whether groups found no room, here or in a part.
    #[must_use]
    pub fn is_overflowed(&self) -> bool {
        self.has_pooled() || self.saving.is_some()
    }

    /// Groups were pooled, here or in a part.
    fn has_pooled(&self) -> bool {
        self.pool.is_some() || !self.partial.is_empty()
    }

    /// A group's weight in the ranking and how much of it may be too much.
    fn weight_and_error(&self, group: u32, layout: &Layout) -> (u128, u128) {
        match &self.saving {
            Some(saving) => (saving.weight(group), saving.error(group)),
            None => {
                let exact = self.exact_weight(group, layout);
                (exact.max(0) as u128, exact.min(0).unsigned_abs())
            }
        }
    }
}

/// What one tuple of a rate weighs.
fn unit(rate: f64, layout: &Layout) -> i128 {
    if layout.is_weighted { (WEIGHT_UNIT / rate).round() as i128 } else { 1 }
}

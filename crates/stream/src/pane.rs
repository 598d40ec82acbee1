//! The groups of one stretch of time, their accumulators, and what happens when there is no room for another group.
//!
//! Room is shared by the panes of a pipeline. A group that finds none goes into the pane's pool or, in a ranking by a
//! total, takes the place of the lightest group (Space-Saving). Groups that are listed stay exact in the first case.

mod form;

use std::cmp::Reverse;
use std::ops::Range;

use crate::column::{ColumnView, Values};
use crate::ops::aggregate::{Measures, Shape, State, Stratum};
use crate::ops::group_by::{KeyColumns, KeyTable, NO_GROUP, RowKeys};
use crate::rows::{Cells, Rows, each};
use crate::scalar::Scalar;
use crate::sketch::SpaceSaving;

pub use form::{Expected, TUPLES_MAX};

/// The coarsest level of sketches.
pub const LEVEL_MAX: u8 = 4;
/// Rows that go through a pane at once: what is known of them stays in the fastest cache.
const CHUNK_ROWS: usize = 1024;

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

/// What is known of the rows that come to a pane, by their places.
#[derive(Debug, Default)]
pub struct Scratch {
    hashes: Vec<u64>,
    groups: Vec<u32>,
}

/// A batch as panes need it. Vectors have an entry for every row.
pub struct Frame<'a> {
    /// Key columns.
    pub keys: KeyColumns<'a>,
    /// The same, each by itself.
    pub columns: Vec<ColumnView<'a>>,
    /// Of the hashes.
    pub seed: u64,
    /// The replicate of each row's flow; empty without sampling.
    pub replicates: Vec<u8>,
    /// The rate of each row's flow, where tuples say it.
    pub rates: Option<Vec<f64>>,
    /// What is aggregated.
    pub measures: Measures<'a>,
}

/// Rows of a batch that come to a pane.
struct Arrivals<'a, 'b> {
    rows: Rows<'a>,
    frame: &'a Frame<'b>,
    layout: &'a Layout,
    /// Where the accumulators of their rate are.
    stratum: usize,
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

    /// Takes `rows` of a batch.
    pub fn push(&mut self, rows: Rows<'_>, frame: &Frame<'_>, layout: &Layout, room: &mut Room) {
        let sketches = self.sketch_bytes;
        self.tuples += rows.len() as u64;
        let Some(rates) = &frame.rates else {
            self.push_stratum(layout.sample, rows, frame, layout, room);
            room.sketch_bytes += self.sketch_bytes - sketches;
            return;
        };
        let mut of_rows: Vec<f64> = rows.iter().map(|row| rates[row]).collect();
        of_rows.sort_unstable_by(f64::total_cmp);
        of_rows.dedup();
        let mut list = Vec::new();
        for rate in of_rows {
            let rows = rows.filter(&mut list, |row| rates[row] == rate);
            self.push_stratum(rate, rows, frame, layout, room);
        }
        room.sketch_bytes += self.sketch_bytes - sketches;
    }

    /// Takes rows of flows that were sampled at one rate.
    fn push_stratum(
        &mut self,
        rate: f64,
        rows: Rows<'_>,
        frame: &Frame<'_>,
        layout: &Layout,
        room: &mut Room,
    ) {
        let stratum = self.stratum(rate, layout);
        for rows in rows.chunks(CHUNK_ROWS) {
            let arrivals = Arrivals { rows, frame, layout, stratum };
            match &frame.keys {
                KeyColumns::None => {
                    room.groups += self.ensure_single_group(layout);
                    self.apply(Cells::One(0), rows, &arrivals);
                }
                KeyColumns::U64(keys) => self.assign(*keys, &arrivals, room),
                KeyColumns::Ip(keys) => self.assign(*keys, &arrivals, room),
                KeyColumns::Text(keys) => self.assign(*keys, &arrivals, room),
                KeyColumns::Rows(keys) => self.assign(&keys[..], &arrivals, room),
            }
            self.weigh(room);
        }
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

    /// The panes in one, as if all tuples had come to it.
    #[must_use]
    pub fn merged<'a>(panes: impl Iterator<Item = &'a Pane> + Clone, layout: &Layout, level: u8) -> Pane {
        let mut all = Pane::new(level);
        let maps: Vec<Vec<u32>> = panes.clone().map(|pane| all.adopt(pane, layout)).collect();
        all.merge_overflow(panes.zip(&maps), layout);
        all
    }

    /// Two panes of one stretch of time in one.
    #[must_use]
    pub fn joined(mine: Option<Pane>, theirs: Pane, layout: &Layout, level: u8) -> Pane {
        match mine {
            None if level == 0 => theirs,
            None => Pane::merged([&theirs].into_iter(), layout, level),
            Some(mine) if theirs.is_overflowed() => Pane::merged([&mine, &theirs].into_iter(), layout, level),
            Some(mut mine) => {
                mine.take_in(&theirs, layout);
                mine
            }
        }
    }

    /// What there is room for: panes that were joined may hold more. A ranking keeps its heaviest groups, others go
    /// into the pool. That sorts all groups, so it waits until there are half as many as there is room for too many.
    #[must_use]
    pub fn cut(self, layout: &Layout, room: &mut Room) -> Pane {
        let is_within = |held: usize, max: usize| held <= max.saturating_add(max / 2);
        if is_within(room.groups, room.groups_max) && is_within(room.key_bytes, room.key_bytes_max) {
            return self;
        }
        let listed: Vec<u32> = self.by_weight(layout);
        let others = (room.groups - listed.len(), room.key_bytes - self.keys.bytes());
        let groups_max = room.groups_max.saturating_sub(others.0).max(room.groups_min);
        let mut key_room = room.key_bytes_max.saturating_sub(others.1);
        let fits = |group: &&u32| match key_room.checked_sub(self.keys.key(**group).len()) {
            Some(left) => {
                key_room = left;
                true
            }
            None => false,
        };
        let kept = listed.iter().take(groups_max).take_while(fits).count().max(1);
        if kept >= listed.len() {
            return self;
        }
        self.leave(room);
        let mut pane = self.keep(&listed[..kept], layout, room.level);
        room.overflowed += (listed.len() - kept) as u64;
        pane.enter(room);
        pane
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

    fn assign<K: RowKeys + ?Sized>(&mut self, keys: &K, arrivals: &Arrivals<'_, '_>, room: &mut Room) {
        let (mut scratch, rows) = (std::mem::take(&mut room.scratch), arrivals.rows);
        scratch.hashes.clear();
        scratch.hashes.resize(rows.len(), arrivals.frame.seed);
        arrivals.frame.columns.iter().for_each(|column| column.hash_into(rows, &mut scratch.hashes));
        let all_short = keys.finish_hashes(rows, &mut scratch.hashes);
        let done = match self.saving.is_some() {
            true => self.assign_one_by_one(keys, arrivals, &mut scratch, room),
            false => {
                let hashes = (&scratch.hashes[..], all_short);
                self.keys.find_each(keys, rows, hashes, &mut scratch.groups);
                match scratch.groups.contains(&NO_GROUP) {
                    true => self.assign_one_by_one(keys, arrivals, &mut scratch, room),
                    false => 0,
                }
            }
        };
        self.apply(Cells::Each(&scratch.groups[done..]), rows.part(done..rows.len()), arrivals);
        room.scratch = scratch;
    }

    /// Finds or makes the groups of rows that have none yet; returns how many rows are in their cells already.
    fn assign_one_by_one<K: RowKeys + ?Sized>(
        &mut self,
        keys: &K,
        arrivals: &Arrivals<'_, '_>,
        Scratch { hashes, groups }: &mut Scratch,
        room: &mut Room,
    ) -> usize {
        let (mut key, mut done) = (Vec::new(), 0);
        let unit = unit(self.strata[arrivals.stratum].rate, arrivals.layout);
        if self.saving.is_some() {
            // Groups may change hands from row to row.
            groups.clear();
            groups.resize(hashes.len(), NO_GROUP);
        }
        for place in 0..hashes.len() {
            let row = arrivals.rows.at(place);
            if groups[place] == NO_GROUP {
                let found = self.keys.find(hashes[place], |held| keys.is(row, held));
                groups[place] = found.unwrap_or_else(|| {
                    key.clear();
                    keys.encode(row, &mut key);
                    if !self.is_full(key.len(), arrivals.layout, room) {
                        return self.admit(hashes[place], &key, arrivals.layout, room);
                    }
                    // The place's old group gets its tuples so far before the place changes hands.
                    let rows = arrivals.rows.part(done..place);
                    self.apply(Cells::Each(&groups[done..place]), rows, arrivals);
                    done = place;
                    groups[place..].fill(NO_GROUP);
                    self.take_over(hashes[place], &key, arrivals.layout, room)
                });
            }
            if let Some(saving) = &mut self.saving {
                saving.add(groups[place], unit.saturating_mul(weight(row, arrivals.frame, arrivals.layout)));
            }
        }
        done
    }

    /// Whether a new key needs the place of another.
    fn is_full(&self, key_len: usize, layout: &Layout, room: &Room) -> bool {
        layout.overflow != Overflow::Pool && !self.has_room(room, key_len)
    }

    /// A group of its own for a new key, or the pool.
    fn admit(&mut self, hash: u64, key: &[u8], layout: &Layout, room: &mut Room) -> u32 {
        let before = self.keys.len();
        let group = if self.has_room(room, key.len()) {
            room.key_bytes += key.len();
            self.list(hash, key)
        } else {
            room.overflowed += 1;
            debug_assert!(layout.overflow == Overflow::Pool);
            self.pooled()
        };
        room.groups += self.keys.len() - before;
        group
    }

    fn has_room(&self, room: &Room, key_len: usize) -> bool {
        let listed = self.keys.len() - usize::from(self.pool.is_some());
        let has_groups = room.groups < room.groups_max || listed < room.groups_min;
        let has_place =
            listed < GROUPS_SURE.min(room.groups_min) || (has_groups && room.bytes < room.bytes_max);
        let sketches = room.level < LEVEL_MAX || room.sketch_bytes <= room.sketch_bytes_max;
        let key_room = room.key_bytes_max.saturating_sub(room.key_bytes);
        listed == 0 || (has_place && key_len <= key_room && sketches)
    }

    fn list(&mut self, hash: u64, key: &[u8]) -> u32 {
        if let Some(saving) = &mut self.saving {
            saving.push();
        }
        self.keys.insert(hash, key)
    }

    fn pooled(&mut self) -> u32 {
        *self.pool.get_or_insert_with(|| {
            if let Some(saving) = &mut self.saving {
                saving.push_pinned();
            }
            self.keys.insert_unlisted()
        })
    }

    /// Gives the lightest group's place to a new key; a key that is too long for what is left goes into the pool.
    fn take_over(&mut self, hash: u64, key: &[u8], layout: &Layout, room: &mut Room) -> u32 {
        room.overflowed += 1;
        if self.saving.is_none() {
            let weights = (0..self.keys.len() as u32).map(|g| self.exact_weight(g, layout));
            self.saving = Some(SpaceSaving::new(weights));
        }
        let (groups, bytes) = (self.keys.len(), self.keys.bytes());
        let key_room = room.key_bytes_max.saturating_sub(room.key_bytes);
        let saving = self.saving.as_mut().expect("made just now");
        let lightest = saving.lightest();
        let group = if key.len() > key_room + self.keys.key(lightest).len() {
            self.pooled()
        } else {
            let group = saving.evict();
            self.keys.replace(group, hash, key);
            self.strata.iter_mut().for_each(|s| s.cells.reset(Pane::cells(group, layout)));
            group
        };
        room.groups += self.keys.len() - groups;
        room.key_bytes = room.key_bytes + self.keys.bytes() - bytes;
        group
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

    fn apply(&mut self, groups: Cells<'_>, rows: Rows<'_>, arrivals: &Arrivals<'_, '_>) {
        let (frame, replicates) = (arrivals.frame, arrivals.layout.replicates);
        self.resize(arrivals.layout);
        let mine = &mut self.strata[arrivals.stratum].cells;
        self.sketch_bytes += match replicates {
            1 => mine.update(groups, rows, &frame.measures),
            n => {
                let mut cells = Vec::with_capacity(rows.len());
                each(groups, rows, |group, row| {
                    cells.push(group as u32 * n as u32 + u32::from(frame.replicates[row]));
                });
                mine.update(Cells::Each(&cells), rows, &frame.measures)
            }
        };
    }

    /// Merges a pane that is not overflowed. Groups that are new here may have been here before there was too little room, as
    /// [`Pane::merge_overflow`] has it.
    fn take_in(&mut self, other: &Pane, layout: &Layout) {
        let before = self.keys.len();
        let map = self.adopt(other, layout);
        if self.has_pooled() {
            self.partial.resize(before, false);
            self.partial.resize(self.keys.len(), true);
        }
        if let Some(saving) = &mut self.saving {
            let floor = saving.least();
            for (to, group) in map.into_iter().zip(0..) {
                let (weight, error) = other.weight_and_error(group, layout);
                saving.merge(to, (weight, error), floor);
            }
        }
    }

    /// Merges another pane's groups but not its overflow; returns which groups they are here.
    fn adopt(&mut self, other: &Pane, layout: &Layout) -> Vec<u32> {
        let map: Vec<u32> = (0..other.keys.len() as u32)
            .map(|group| {
                if other.pool == Some(group) {
                    return self.pooled();
                }
                let (hash, key) = (other.keys.hash(group), other.keys.key(group));
                let found = self.keys.find(hash, |held| held == key);
                found.unwrap_or_else(|| self.keys.insert(hash, key))
            })
            .collect();
        let n = layout.replicates;
        self.sketch_bytes +=
            self.merge_cells(other, layout, |cell| Some(map[cell / n] as usize * n + cell % n));
        self.tuples += other.tuples;
        self.span_ns = match (self.span_ns, other.span_ns) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (mine, theirs) => mine.or(theirs),
        };
        map
    }

    fn merge_cells(&mut self, other: &Pane, layout: &Layout, to: impl Fn(usize) -> Option<usize>) -> usize {
        let mut grown = 0;
        for theirs in &other.strata {
            let stratum = self.stratum(theirs.rate, layout);
            self.resize(layout);
            grown += self.strata[stratum].cells.merge(&theirs.cells, &to);
        }
        grown
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

    /// The listed groups, the heaviest first where they are saved.
    fn by_weight(&self, layout: &Layout) -> Vec<u32> {
        let mut listed: Vec<u32> = self.listed().collect();
        if layout.overflow != Overflow::Pool {
            listed.sort_by_cached_key(|group| {
                let (weight, error) = self.weight_and_error(*group, layout);
                (Reverse(weight), error)
            });
        }
        listed
    }

    /// Only these of the listed groups.
    fn keep(&self, kept: &[u32], layout: &Layout, level: u8) -> Pane {
        let mut pane = Pane { span_ns: self.span_ns, tuples: self.tuples, ..Pane::new(level) };
        let mut map: Vec<Option<u32>> = vec![None; self.keys.len()];
        for &group in kept {
            map[group as usize] = Some(pane.keys.insert(self.keys.hash(group), self.keys.key(group)));
        }
        let is_saved = layout.overflow != Overflow::Pool;
        let pool = (self.pool.is_some() || !is_saved).then(|| pane.pooled());
        let is_dropped = |group| is_saved && Some(group) != self.pool;
        for (group, to) in (0..).zip(&mut map).filter(|(group, to)| to.is_none() && !is_dropped(*group)) {
            debug_assert!(Some(group) == self.pool || !is_saved);
            *to = pool;
        }
        if !self.partial.is_empty() {
            pane.partial = vec![false; pane.keys.len()];
            kept.iter()
                .zip(&mut pane.partial)
                .for_each(|(group, partial)| *partial = self.is_partial(*group));
        }
        if is_saved {
            let parts = kept.iter().chain(&self.pool).map(|group| match Some(*group) == self.pool {
                true => (u128::MAX, 0),
                false => self.weight_and_error(*group, layout),
            });
            let (weights, errors) = parts.unzip();
            let negative = self.saving.as_ref().map_or(0, SpaceSaving::negative);
            pane.saving = Some(SpaceSaving::from_parts(weights, errors, negative));
        }
        let n = layout.replicates;
        let cell = |cell: usize| map[cell / n].map(|group| group as usize * n + cell % n);
        pane.sketch_bytes = pane.merge_cells(self, layout, cell);
        pane
    }

    /// A group that an overflowed part does not list may have been there all the same: at most with the least weight
    /// that is listed there (Agarwal et al. 2012, "Mergeable summaries"), or in its pool.
    fn merge_overflow<'a, 'm>(
        &mut self,
        parts: impl Iterator<Item = (&'a Pane, &'m Vec<u32>)> + Clone,
        layout: &Layout,
    ) {
        if parts.clone().any(|(pane, _)| pane.has_pooled()) {
            self.partial = vec![false; self.keys.len()];
            for (pane, map) in parts.clone().filter(|(pane, _)| pane.has_pooled()) {
                let mut there = vec![false; self.keys.len()];
                map.iter().zip(0..).for_each(|(to, g)| there[*to as usize] = !pane.is_partial(g));
                self.partial.iter_mut().zip(there).for_each(|(partial, there)| *partial |= !there);
            }
        }
        if parts.clone().any(|(pane, _)| pane.saving.is_some()) {
            let least = |pane: &Pane| pane.saving.as_ref().map_or(0, SpaceSaving::least);
            let floor = parts.clone().map(|(pane, _)| least(pane)).fold(0u128, u128::saturating_add);
            let mut weights = vec![floor; self.keys.len()];
            let mut errors = weights.clone();
            let mut negative = 0u128;
            for (pane, map) in parts {
                let floor = least(pane);
                for (to, g) in map.iter().map(|to| *to as usize).zip(0..) {
                    let (weight, error) = pane.weight_and_error(g, layout);
                    weights[to] = weights[to].saturating_sub(floor).saturating_add(weight);
                    errors[to] = errors[to].saturating_sub(floor).saturating_add(error);
                }
                let theirs = pane.saving.as_ref().map_or(0, SpaceSaving::negative);
                negative = negative.saturating_add(theirs);
            }
            self.saving = Some(SpaceSaving::from_parts(weights, errors, negative));
        }
    }
}

/// What one tuple of a rate weighs.
fn unit(rate: f64, layout: &Layout) -> i128 {
    if layout.is_weighted { (WEIGHT_UNIT / rate).round() as i128 } else { 1 }
}

/// What a row adds to its group's total.
fn weight(row: usize, frame: &Frame<'_>, layout: &Layout) -> i128 {
    let value = |column: ColumnView<'_>| match column.scalar(row) {
        Scalar::U64(v) => i128::from(v),
        Scalar::I64(v) => i128::from(v),
        _ => 0,
    };
    match layout.overflow {
        Overflow::SaveBySum(place) => frame.measures.values[place].map_or(0, |column| {
            debug_assert!(matches!(column.values, Values::U64(_) | Values::I64(_)));
            value(column)
        }),
        _ => 1,
    }
}

//! Adds rows to a pane: the group of each row is found, created, pooled, or replaces another group.

use super::{GROUPS_SURE, GroupBudget, GroupOverflow, LEVEL_MAX, Pane, PaneLayout, unit};
use crate::column::{ColumnValues, ColumnView};
use crate::ops::aggregate::AccumulatorInputs;
use crate::ops::group_by::{KeyColumns, NO_GROUP, RowKeys};
use crate::rows::{CellSelection, RowSet, each};
use crate::scalar::Scalar;
use crate::sketch::SpaceSaving;

/// Rows processed together, so that their data stays in the L1 cache.
const CHUNK_ROWS: usize = 1024;

/// Data of the current rows, by index.
#[derive(Debug, Default)]
pub struct PaneScratch {
    hashes: Vec<u64>,
    groups: Vec<u32>,
}

/// A batch prepared for panes. Vectors have one entry per row.
pub struct PaneBatch<'a> {
    /// Key columns.
    pub keys: KeyColumns<'a>,
    /// The same columns individually.
    pub columns: Vec<ColumnView<'a>>,
    /// Seed of the key hashes.
    pub seed: u64,
    /// The replicate of each row's flow; empty without sampling.
    pub replicates: Vec<u8>,
    /// The sampling rate of each row's flow, if tuples carry it.
    pub rates: Option<Vec<f64>>,
    /// Inputs of the accumulators.
    pub measures: AccumulatorInputs<'a>,
}

/// Rows of a batch to add to a pane.
struct PaneArrivals<'a, 'b> {
    rows: RowSet<'a>,
    frame: &'a PaneBatch<'b>,
    layout: &'a PaneLayout,
    /// Index of the accumulators for their rate.
    stratum: usize,
}

impl Pane {
    /// Adds `rows` of a batch.
    pub fn push(
        &mut self,
        rows: RowSet<'_>,
        frame: &PaneBatch<'_>,
        layout: &PaneLayout,
        room: &mut GroupBudget,
    ) {
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

    /// Adds rows of flows with the same sampling rate.
    fn push_stratum(
        &mut self,
        rate: f64,
        rows: RowSet<'_>,
        frame: &PaneBatch<'_>,
        layout: &PaneLayout,
        room: &mut GroupBudget,
    ) {
        let stratum = self.stratum(rate, layout);
        for rows in rows.chunks(CHUNK_ROWS) {
            let arrivals = PaneArrivals {
                rows,
                frame,
                layout,
                stratum,
            };
            match &frame.keys {
                KeyColumns::None => {
                    room.groups += self.ensure_single_group(layout);
                    self.apply(CellSelection::One(0), rows, &arrivals);
                }
                KeyColumns::U64(keys) => self.assign(*keys, &arrivals, room),
                KeyColumns::Ip(keys) => self.assign(*keys, &arrivals, room),
                KeyColumns::Text(keys) => self.assign(*keys, &arrivals, room),
                KeyColumns::Rows(keys) => self.assign(&keys[..], &arrivals, room),
            }
            self.weigh(room);
        }
    }

    fn assign<K: RowKeys + ?Sized>(
        &mut self,
        keys: &K,
        arrivals: &PaneArrivals<'_, '_>,
        room: &mut GroupBudget,
    ) {
        let mut scratch = std::mem::take(&mut room.scratch);
        let rows = arrivals.rows;
        scratch.hashes.clear();
        scratch.hashes.resize(rows.len(), arrivals.frame.seed);
        arrivals
            .frame
            .columns
            .iter()
            .for_each(|column| column.hash_into(rows, &mut scratch.hashes));
        let all_short = keys.finish_hashes(rows, &mut scratch.hashes);
        let done = if self.saving.is_some() {
            self.assign_one_by_one(keys, arrivals, &mut scratch, room)
        } else {
            let hashes = (&scratch.hashes[..], all_short);
            self.keys.find_each(keys, rows, hashes, &mut scratch.groups);
            if scratch.groups.contains(&NO_GROUP) {
                self.assign_one_by_one(keys, arrivals, &mut scratch, room)
            } else {
                0
            }
        };
        self.apply(
            CellSelection::Each(&scratch.groups[done..]),
            rows.part(done..rows.len()),
            arrivals,
        );
        room.scratch = scratch;
    }

    /// Finds or creates the groups of rows without one; returns the number of rows already applied to their cells.
    fn assign_one_by_one<K: RowKeys + ?Sized>(
        &mut self,
        keys: &K,
        arrivals: &PaneArrivals<'_, '_>,
        PaneScratch { hashes, groups }: &mut PaneScratch,
        room: &mut GroupBudget,
    ) -> usize {
        let mut key = Vec::new();
        let mut done = 0;
        let unit = unit(self.strata[arrivals.stratum].rate, arrivals.layout);
        if self.saving.is_some() {
            // Groups may be replaced from row to row.
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
                    // Preceding tuples of the old group are applied before the group is replaced.
                    let rows = arrivals.rows.part(done..place);
                    self.apply(CellSelection::Each(&groups[done..place]), rows, arrivals);
                    done = place;
                    groups[place..].fill(NO_GROUP);
                    self.take_over(hashes[place], &key, arrivals.layout, room)
                });
            }
            if let Some(saving) = &mut self.saving {
                saving.add(
                    groups[place],
                    unit.saturating_mul(weight(row, arrivals.frame, arrivals.layout)),
                );
            }
        }
        done
    }

    /// Whether a new key must replace another group.
    fn is_full(&self, key_len: usize, layout: &PaneLayout, room: &GroupBudget) -> bool {
        layout.overflow != GroupOverflow::Pool && !self.has_room(room, key_len)
    }

    /// Creates a group for a new key, or returns the pool.
    fn admit(&mut self, hash: u64, key: &[u8], layout: &PaneLayout, room: &mut GroupBudget) -> u32 {
        let before = self.keys.len();
        let group = if self.has_room(room, key.len()) {
            room.key_bytes += key.len();
            self.list(hash, key)
        } else {
            room.overflowed += 1;
            debug_assert!(layout.overflow == GroupOverflow::Pool);
            self.pooled()
        };
        room.groups += self.keys.len() - before;
        group
    }

    fn has_room(&self, room: &GroupBudget, key_len: usize) -> bool {
        let listed = self.keys.len() - usize::from(self.pool.is_some());
        let has_groups = room.groups < room.groups_max || listed < room.groups_min;
        let has_place = listed < GROUPS_SURE.min(room.groups_min)
            || (has_groups && room.bytes < room.bytes_max);
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

    /// Replaces the group with the smallest weight; a key too long for the remaining memory is pooled.
    fn take_over(
        &mut self,
        hash: u64,
        key: &[u8],
        layout: &PaneLayout,
        room: &mut GroupBudget,
    ) -> u32 {
        room.overflowed += 1;
        if self.saving.is_none() {
            let weights = (0..self.keys.len() as u32).map(|g| self.exact_weight(g, layout));
            self.saving = Some(SpaceSaving::new(weights));
        }
        let groups = self.keys.len();
        let bytes = self.keys.bytes();
        let key_room = room.key_bytes_max.saturating_sub(room.key_bytes);
        let saving = self.saving.as_mut().expect("made just now");
        let lightest = saving.lightest();
        let group = if key.len() > key_room + self.keys.key(lightest).len() {
            self.pooled()
        } else {
            let group = saving.evict();
            self.keys.replace(group, hash, key);
            self.strata
                .iter_mut()
                .for_each(|s| s.cells.reset(Pane::cells(group, layout)));
            group
        };
        room.groups += self.keys.len() - groups;
        room.key_bytes = room.key_bytes + self.keys.bytes() - bytes;
        group
    }

    fn apply(
        &mut self,
        groups: CellSelection<'_>,
        rows: RowSet<'_>,
        arrivals: &PaneArrivals<'_, '_>,
    ) {
        let frame = arrivals.frame;
        let replicates = arrivals.layout.replicates;
        self.resize(arrivals.layout);
        let mine = &mut self.strata[arrivals.stratum].cells;
        self.sketch_bytes += match replicates {
            1 => mine.update(groups, rows, &frame.measures),
            n => {
                let mut cells = Vec::with_capacity(rows.len());
                each(groups, rows, |group, row| {
                    cells.push(group as u32 * n as u32 + u32::from(frame.replicates[row]));
                });
                mine.update(CellSelection::Each(&cells), rows, &frame.measures)
            }
        };
    }
}

/// A row's contribution to its group's weight.
fn weight(row: usize, frame: &PaneBatch<'_>, layout: &PaneLayout) -> i128 {
    let value = |column: ColumnView<'_>| match column.scalar(row) {
        Scalar::U64(v) => i128::from(v),
        Scalar::I64(v) => i128::from(v),
        _ => 0,
    };
    match layout.overflow {
        GroupOverflow::SaveBySum(place) => frame.measures.values[place].map_or(0, |column| {
            debug_assert!(matches!(
                column.values,
                ColumnValues::U64(_) | ColumnValues::I64(_)
            ));
            value(column)
        }),
        _ => 1,
    }
}

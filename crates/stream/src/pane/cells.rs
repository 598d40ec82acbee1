//! Converts between panes and rows; see [`crate::cells`].

use std::cell::Cell;
use std::collections::BTreeMap;

use super::{PIECES_BYTES, Pane, PaneLayout, STRATA_MAX, Stratum};
use crate::cells::{CellRowOwner, CellRows, CellWriter};
use crate::ops::group_by::finish_hash;
use crate::partial::bytes::{MalformedPartial, ReadBudget};

/// Cells written at once.
const CHUNK: usize = 1024;
/// Approximate overhead of a group besides its key and cells.
const GROUP_BYTES: usize = 64;
/// Maximum bytes of a pane's keys: positions have 32 bits.
const KEYS_MAX: usize = 1 << 29;

/// Panes under construction from rows.
pub struct PaneReader {
    /// By pane number.
    pub panes: BTreeMap<i64, Pane>,
    /// Memory budget.
    pub budget: ReadBudget,
    /// The key of a row.
    key: Vec<u8>,
}

/// The location of a row in the reading engine.
#[derive(Clone, Copy)]
pub struct CellRowContext<'a> {
    /// Layout of its panes.
    pub layout: &'a PaneLayout,
    /// Seed of the key hashes.
    pub seed: u64,
    /// Pane number.
    pub pane: i64,
    /// Sampling rate.
    pub rate: f64,
    /// Replicate.
    pub replicate: usize,
}

impl Pane {
    /// Whether the pane can be converted to rows.
    #[must_use]
    pub fn is_rows(&self) -> bool {
        !self.is_overflowed()
            && self.level == 0
            && self.strata.iter().all(|stratum| stratum.cells.are_rows())
    }

    /// Writes rows for all non-empty cells, with at least one row per group and per rate.
    pub fn put_cells(&self, at: i64, layout: &PaneLayout, out: &mut CellWriter<'_>) {
        let n = layout.replicates;
        let mut used: Vec<Vec<usize>> = self
            .strata
            .iter()
            .map(|stratum| stratum.cells.used())
            .collect();
        let mut has_row = vec![false; self.keys.len()];
        used.iter()
            .flatten()
            .for_each(|cell| has_row[cell / n] = true);
        if let Some(first) = used.first_mut()
            && has_row.contains(&false)
        {
            let without = has_row.iter().enumerate().filter(|(_, has_row)| !**has_row);
            first.extend(without.map(|(group, _)| group * n));
        }
        if self.keys.is_empty() {
            return;
        }
        used.iter_mut()
            .filter(|cells| cells.is_empty())
            .for_each(|cells| cells.push(0));
        out.head(self.tuples, self.span_ns);
        for (stratum, cells) in self.strata.iter().zip(&used) {
            let whose = CellRowOwner {
                pane: at,
                rate: stratum.rate,
                replicates: n,
            };
            for chunk in cells.chunks(CHUNK) {
                out.cells(whose, chunk, &stratum.cells, |group| {
                    self.keys.key(group as u32)
                });
            }
        }
    }

    /// Completes the pane after its last row.
    #[must_use]
    pub fn taken(mut self) -> Pane {
        self.sketch_bytes = self
            .strata
            .iter()
            .map(|stratum| stratum.cells.sketch_bytes())
            .sum();
        self
    }

    fn take_head(&mut self, rows: &CellRows<'_>, row: usize) -> Result<(), MalformedPartial> {
        self.tuples += rows.tuples(row)?;
        if let Some((first, last)) = rows.span_ns(row)? {
            let (a, b) = self.span_ns.unwrap_or((first, last));
            self.span_ns = Some((a.min(first), b.max(last)));
        }
        Ok(())
    }
}

impl PaneReader {
    /// Creates an empty set of panes. The budget is about `bytes_max`, the memory of windows, or the memory of panes
    /// from rows of
    /// `read` bytes.
    #[must_use]
    pub fn new(bytes_max: usize, read: usize) -> PaneReader {
        PaneReader {
            panes: BTreeMap::new(),
            budget: ReadBudget::new(bytes_max, read),
            key: Vec::new(),
        }
    }

    /// Adds a row: a base row, or an entry row of an accumulator.
    pub fn take(
        &mut self,
        rows: &CellRows<'_>,
        row: usize,
        place: CellRowContext<'_>,
        slot: Option<usize>,
    ) -> Result<(), MalformedPartial> {
        if !self.panes.contains_key(&place.pane) {
            self.budget.spend(size_of::<Pane>() + PIECES_BYTES)?;
        }
        let hash = rows.key(row, place.seed, &mut self.key)?;
        let pane = self.panes.entry(place.pane).or_insert_with(|| Pane::new(0));
        let (stratum, cell) = cell(pane, (hash, &self.key), place, &mut self.budget)?;
        let cells = &mut pane.strata[stratum].cells;
        let largest = Cell::new(0);
        match slot {
            Some(slot) => {
                let grown = cells.take_entry(slot, cell, rows.entry(row, slot, &largest)?)?;
                self.budget.spend(grown)?;
            }
            None => {
                cells.take(cell, rows.parts(row, &largest))?;
                pane.take_head(rows, row)?;
            }
        }
        // Only one batch of a pane contains its number of tuples.
        pane.tuples = pane.tuples.max(largest.get());
        Ok(())
    }
}

/// The cell of a row in the accumulators of its rate, created if missing.
fn cell(
    pane: &mut Pane,
    (hash, key): (u64, &[u8]),
    place: CellRowContext<'_>,
    budget: &mut ReadBudget,
) -> Result<(usize, usize), MalformedPartial> {
    let layout = place.layout;
    let is_new = !pane.strata.iter().any(|stratum| stratum.rate == place.rate);
    if is_new && pane.strata.len() < STRATA_MAX {
        let cells = (pane.keys.len() + 1) * layout.replicates;
        budget.spend(size_of::<Stratum>() + 2 * cells * layout.shape.cell_bytes())?;
    }
    let stratum = pane.stratum(place.rate, layout);
    // Tuples without key columns form a single group.
    let hash = if key.is_empty() {
        0
    } else {
        finish_hash(key, hash)
    };
    let group = match pane.keys.find(hash, |held| held == key) {
        Some(group) => group,
        None => {
            if pane.keys.bytes() + key.len() > KEYS_MAX {
                return Err(MalformedPartial::TooLarge);
            }
            let cells = layout
                .shape
                .cell_bytes()
                .saturating_mul(layout.replicates * pane.strata.len());
            budget.spend(GROUP_BYTES + 2 * (key.len() + cells))?;
            let group = pane.keys.insert(hash, key);
            pane.resize(layout);
            group
        }
    };
    Ok((
        stratum,
        group as usize * layout.replicates + place.replicate,
    ))
}

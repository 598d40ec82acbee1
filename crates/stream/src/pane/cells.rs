//! A pane as rows, and rows as panes: see [`crate::cells`].

use std::cell::Cell;
use std::collections::BTreeMap;

use super::{Layout, PIECES_BYTES, Pane, STRATA_MAX, Stratum};
use crate::cells::{CellRows, Whose, Writer};
use crate::ops::group_by::finish_hash;
use crate::partial::bytes::{Budget, Malformed};

/// Cells whose rows are written at once.
const CHUNK: usize = 1024;
/// Approximate overhead of a group besides its key and cells.
const GROUP_BYTES: usize = 64;
/// Most bytes of a pane's keys: their places have 32 bits.
const KEYS_MAX: usize = 1 << 29;

/// Panes that are made of rows.
pub struct Taking {
    /// By their numbers.
    pub panes: BTreeMap<i64, Pane>,
    /// What they may take.
    pub budget: Budget,
    /// The key of a row.
    key: Vec<u8>,
}

/// Whose row it is, by the engine that reads it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// How its panes are laid out.
    pub layout: &'a Layout,
    /// Of the hashes of keys.
    pub seed: u64,
    /// The pane.
    pub pane: i64,
    /// At which rate.
    pub rate: f64,
    /// In which replicate.
    pub replicate: usize,
}

impl Pane {
    /// Whether it can be rows.
    #[must_use]
    pub fn is_rows(&self) -> bool {
        !self.is_overflowed() && self.level == 0 && self.strata.iter().all(|stratum| stratum.cells.are_rows())
    }

    /// Writes its rows: of every cell that is not empty, and at least one of each group and of each rate.
    pub fn put_cells(&self, at: i64, layout: &Layout, out: &mut Writer<'_>) {
        let n = layout.replicates;
        let mut used: Vec<Vec<usize>> = self.strata.iter().map(|stratum| stratum.cells.used()).collect();
        let mut has_row = vec![false; self.keys.len()];
        used.iter().flatten().for_each(|cell| has_row[cell / n] = true);
        if let Some(first) = used.first_mut()
            && has_row.contains(&false)
        {
            let without = has_row.iter().enumerate().filter(|(_, has_row)| !**has_row);
            first.extend(without.map(|(group, _)| group * n));
        }
        if self.keys.is_empty() {
            return;
        }
        used.iter_mut().filter(|cells| cells.is_empty()).for_each(|cells| cells.push(0));
        out.head(self.tuples, self.span_ns);
        for (stratum, cells) in self.strata.iter().zip(&used) {
            let whose = Whose { pane: at, rate: stratum.rate, replicates: n };
            for chunk in cells.chunks(CHUNK) {
                out.cells(whose, chunk, &stratum.cells, |group| self.keys.key(group as u32));
            }
        }
    }

    /// All its rows are taken.
    #[must_use]
    pub fn taken(mut self) -> Pane {
        self.sketch_bytes = self.strata.iter().map(|stratum| stratum.cells.sketch_bytes()).sum();
        self
    }

    fn take_head(&mut self, rows: &CellRows<'_>, row: usize) -> Result<(), Malformed> {
        self.tuples += rows.tuples(row)?;
        if let Some((first, last)) = rows.span_ns(row)? {
            let (a, b) = self.span_ns.unwrap_or((first, last));
            self.span_ns = Some((a.min(first), b.max(last)));
        }
        Ok(())
    }
}

impl Taking {
    /// No pane yet; the budget is about that of windows with `bytes_max`, or of what rows of `read` bytes can produce.
    #[must_use]
    pub fn new(bytes_max: usize, read: usize) -> Taking {
        Taking { panes: BTreeMap::new(), budget: Budget::new(bytes_max, read), key: Vec::new() }
    }

    /// Adds a row: a base row, or an entry of the accumulator at a place.
    pub fn take(
        &mut self,
        rows: &CellRows<'_>,
        row: usize,
        place: Place<'_>,
        slot: Option<usize>,
    ) -> Result<(), Malformed> {
        if !self.panes.contains_key(&place.pane) {
            self.budget.spend(size_of::<Pane>() + PIECES_BYTES)?;
        }
        let hash = rows.key(row, place.seed, &mut self.key)?;
        let pane = self.panes.entry(place.pane).or_insert_with(|| Pane::new(0));
        let (stratum, cell) = cell(pane, (hash, &self.key), place, &mut self.budget)?;
        let (cells, largest) = (&mut pane.strata[stratum].cells, Cell::new(0));
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
        // A pane whose rows come in several batches has its number of tuples in one of them.
        pane.tuples = pane.tuples.max(largest.get());
        Ok(())
    }
}

/// The cell of a row in the accumulators of its rate; it is made if it is not there.
fn cell(
    pane: &mut Pane,
    (hash, key): (u64, &[u8]),
    place: Place<'_>,
    budget: &mut Budget,
) -> Result<(usize, usize), Malformed> {
    let layout = place.layout;
    let is_new = !pane.strata.iter().any(|stratum| stratum.rate == place.rate);
    if is_new && pane.strata.len() < STRATA_MAX {
        let cells = (pane.keys.len() + 1) * layout.replicates;
        budget.spend(size_of::<Stratum>() + 2 * cells * layout.shape.cell_bytes())?;
    }
    let stratum = pane.stratum(place.rate, layout);
    // All tuples without a key have one group.
    let hash = if key.is_empty() { 0 } else { finish_hash(key, hash) };
    let group = match pane.keys.find(hash, |held| held == key) {
        Some(group) => group,
        None => {
            if pane.keys.bytes() + key.len() > KEYS_MAX {
                return Err(Malformed::TooLarge);
            }
            let cells = layout.shape.cell_bytes().saturating_mul(layout.replicates * pane.strata.len());
            budget.spend(GROUP_BYTES + 2 * (key.len() + cells))?;
            let group = pane.keys.insert(hash, key);
            pane.resize(layout);
            group
        }
    };
    Ok((stratum, group as usize * layout.replicates + place.replicate))
}

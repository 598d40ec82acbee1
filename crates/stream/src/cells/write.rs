//! Writes cells, one pane after another, in batches of bounded size.

use arrow_array::RecordBatch;

use super::column::CellColumnBuilder;
use super::parts::AccumulatorEntry;
use super::table::{CellOrigin, CellTable, places};
use super::times::CellTimes;
use crate::ops::aggregate::AccumulatorSet;
use crate::scalar::Scalar;

/// Maximum rows per batch.
pub const ROWS_MAX: usize = 1 << 16;

/// Bytes of keys and whole rows that complete a batch.
const BYTES_MAX: usize = 64 << 20;

/// The current batch and all completed batches.
pub struct CellWriter<'a> {
    names: Vec<&'a str>,
    columns: Vec<CellColumnBuilder>,
    /// Number of group columns.
    keys: usize,
    /// Number of columns per accumulator.
    widths: Vec<usize>,
    times: CellTimes,
    rows: usize,
    /// Bytes of keys and whole rows in the current batch.
    bytes: usize,
    full: Vec<RecordBatch>,
}

/// The pane, rate, and replicates of written rows.
#[derive(Clone, Copy)]
pub struct CellRowOwner {
    /// Pane number.
    pub pane: i64,
    /// Sampling rate of the flows.
    pub rate: f64,
    /// Number of replicates that flows are assigned to.
    pub replicates: usize,
}

impl<'a> CellWriter<'a> {
    /// Creates a writer for a table of cells with these times.
    #[must_use]
    pub fn new(table: &'a CellTable, times: CellTimes) -> CellWriter<'a> {
        let columns = || table.columns_of(CellOrigin::Sent);
        CellWriter {
            names: columns().map(|column| &column.name[..]).collect(),
            columns: columns()
                .map(|column| CellColumnBuilder::new(column.data))
                .collect(),
            keys: table.keys.len(),
            widths: table.widths(),
            times,
            rows: 0,
            bytes: 0,
            full: Vec::new(),
        }
    }

    /// Returns all batches.
    #[must_use]
    pub fn finish(mut self) -> Vec<RecordBatch> {
        self.close();
        self.full
    }

    /// Writes a whole row.
    pub fn whole(&mut self, pane: i64, bytes: &[u8]) {
        let row = self.begin(pane, 1);
        let at = self.after_keys(places::WHOLE);
        self.columns[at].bytes(row, bytes);
        let at = self.after_keys(places::N);
        self.columns[at].long(row, 1);
        self.bytes += bytes.len();
        self.close_if_full();
    }

    /// Sets the tuples and the time span of a pane in its first row, the next row written.
    pub fn head(&mut self, tuples: u64, span_ns: Option<(i64, i64)>) {
        let row = self.rows;
        let mut set = |place, value| {
            let at = self.after_keys(place);
            self.columns[at].long(row, value);
        };
        set(places::TUPLES, tuples as i64);
        if let Some((first, last)) = span_ns {
            set(places::FIRST, first);
            set(places::LAST, last);
        }
    }

    /// Writes the base rows of `cells` and their entry rows; `key` returns the key of a group.
    pub fn cells<'k>(
        &mut self,
        whose: CellRowOwner,
        cells: &[usize],
        of: &AccumulatorSet,
        key: impl Fn(usize) -> &'k [u8],
    ) {
        let n = whose.replicates;
        let first = self.begin(whose.pane, cells.len());
        for (row, cell) in (first..).zip(cells) {
            self.key(row, 1, key(cell / n), whose.rate, cell % n);
        }
        let from = self.after_keys(places::PARTS);
        of.put(cells, first, &mut self.columns[from..], &self.widths);
        let mut entries = Vec::new();
        for cell in cells {
            for slot in 0..self.widths.len() {
                entries.clear();
                of.entries(slot, *cell, &mut entries);
                if !entries.is_empty() {
                    self.entries(whose, slot, &entries, key(cell / n), cell % n);
                }
            }
        }
        self.close_if_full();
    }

    fn entries(
        &mut self,
        whose: CellRowOwner,
        slot: usize,
        entries: &[AccumulatorEntry],
        key: &[u8],
        replicate: usize,
    ) {
        let first = self.begin(whose.pane, entries.len());
        self.key(first, entries.len(), key, whose.rate, replicate);
        let at = self.after_keys(places::SLOT);
        self.columns[at].longs(first..first + entries.len(), slot as i64);
        let at = self.after_keys(places::AT);
        let bits = self.after_keys(places::BITS);
        let n = self.after_keys(places::N);
        let part = self.after_keys(places::PARTS) + self.widths[..slot].iter().sum::<usize>();
        for (row, entry) in (first..).zip(entries) {
            self.columns[at].long(row, entry.at);
            self.columns[n].long(row, entry.n as i64);
            entry
                .bits
                .into_iter()
                .for_each(|b| self.columns[bits].long(row, b.into()));
            entry
                .min
                .into_iter()
                .for_each(|v| self.columns[part].double(row, v));
            entry
                .max
                .into_iter()
                .for_each(|v| self.columns[part + 1].double(row, v));
        }
    }

    /// Begins `n` rows of a pane and returns the index of the first.
    fn begin(&mut self, pane: i64, n: usize) -> usize {
        let first = self.rows;
        let rows = self.rows..self.rows + n;
        let et_ms = self.times.of(pane);
        self.columns[places::PROMISE].longs(rows.clone(), self.times.promise_at(et_ms));
        self.columns[places::TIME].longs(rows.clone(), et_ms);
        self.columns[places::PANE].longs(rows, pane);
        self.rows += n;
        first
    }

    /// Sets the group key, rate, and replicate of `n` rows.
    fn key(&mut self, row: usize, n: usize, mut key: &[u8], rate: f64, replicate: usize) {
        let rows = row..row + n;
        self.bytes += key.len() * n;
        for column in &mut self.columns[places::KEYS..places::KEYS + self.keys] {
            let Some((scalar, rest)) = Scalar::decode(key) else {
                break;
            };
            column.scalars(rows.clone(), &scalar);
            key = rest;
        }
        let at = self.after_keys(places::RATE);
        let next = self.after_keys(places::REPLICATE);
        self.columns[at].doubles(rows.clone(), rate);
        self.columns[next].longs(rows, replicate as i64);
    }

    fn after_keys(&self, place: usize) -> usize {
        places::KEYS + self.keys + place
    }

    fn close_if_full(&mut self) {
        if self.rows >= ROWS_MAX || self.bytes >= BYTES_MAX {
            self.close();
        }
    }

    fn close(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        if rows == 0 {
            return;
        }
        let columns = self.names.iter().zip(&mut self.columns);
        let columns = columns.map(|(name, column)| (*name, column.finish(rows), true));
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns).expect("columns are of one length");
        let parts = (0..rows).step_by(ROWS_MAX);
        self.full
            .extend(parts.map(|from| batch.slice(from, ROWS_MAX.min(rows - from))));
    }
}

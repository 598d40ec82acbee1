//! The first rows in a sort order, with at most the requested number in memory. Beyond the memory limit, the last
//! rows are dropped for good; the remaining rows are still the first in the order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use plan::SortDirection;
use tuple::{Batch, FieldId, Schema, TupleWriter};

use crate::column::ColumnView;
use crate::scalar::Scalar;

/// The first rows in a sort order. Equal rows keep the order of arrival.
pub struct TopRows {
    order: Arc<[SortDirection]>,
    keys: Vec<FieldId>,
    max: usize,
    /// Max-heap with the last row on top.
    rows: BinaryHeap<RankedRow>,
    seen: u64,
    /// Key of the current row.
    key: Vec<u8>,
    bytes: usize,
    bytes_max: usize,
    is_cut: bool,
}

/// Approximate overhead of a row.
const ROW_BYTES: usize = 96;

struct RankedRow {
    key: Vec<u8>,
    seen: u64,
    values: Vec<u8>,
    order: Arc<[SortDirection]>,
}

impl TopRows {
    /// Keeps the first `max` rows in the order of `keys`, or as many as fit into `bytes_max`.
    #[must_use]
    pub fn new(keys: &[(FieldId, SortDirection)], max: usize, bytes_max: usize) -> TopRows {
        TopRows {
            order: keys.iter().map(|(_, direction)| *direction).collect(),
            keys: keys.iter().map(|(id, _)| *id).collect(),
            max,
            rows: BinaryHeap::new(),
            seen: 0,
            key: Vec::new(),
            bytes: 0,
            bytes_max,
            is_cut: false,
        }
    }

    /// Whether rows were dropped because of the memory limit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Processes the rows of a batch, storing the values of `columns` for the rows kept.
    pub fn push(&mut self, batch: &Batch, columns: &[FieldId]) {
        let keys: Vec<ColumnView<'_>> = self
            .keys
            .iter()
            .map(|id| ColumnView::of(batch, *id))
            .collect();
        let values: Vec<ColumnView<'_>> = columns
            .iter()
            .map(|id| ColumnView::of(batch, *id))
            .collect();
        for row in 0..batch.rows() {
            self.seen += 1;
            self.key.clear();
            keys.iter()
                .for_each(|column| column.scalar(row).encode(&mut self.key));
            if self.rows.len() >= self.max {
                // The earlier of equal rows are kept.
                let last = self
                    .rows
                    .peek()
                    .map(|last| order(&self.key, &last.key, &self.order));
                if last != Some(Ordering::Less) {
                    continue;
                }
                self.pop();
            }
            let mut bytes = Vec::new();
            values
                .iter()
                .for_each(|column| column.scalar(row).encode(&mut bytes));
            let row = RankedRow {
                key: self.key.clone(),
                seen: self.seen,
                values: bytes,
                order: self.order.clone(),
            };
            self.bytes += row.bytes();
            self.rows.push(row);
            while self.bytes > self.bytes_max && self.rows.len() > 1 {
                self.pop();
                self.max = self.rows.len();
                self.is_cut = true;
            }
        }
    }

    fn pop(&mut self) {
        self.bytes -= self.rows.pop().map_or(0, |row| row.bytes());
    }

    /// Returns the rows in order as batches of `schema`, which has the stored columns.
    pub fn finish(&mut self, schema: &Arc<Schema>, mut out: impl FnMut(Batch)) {
        let ids: Vec<FieldId> = schema.ids().collect();
        let mut writer = TupleWriter::new(schema.clone(), &ids);
        for row in std::mem::take(&mut self.rows).into_sorted_vec() {
            let mut rest = &row.values[..];
            for id in &ids {
                let Some((scalar, after)) = Scalar::decode(rest) else {
                    break;
                };
                scalar.write(&mut writer, *id);
                rest = after;
            }
            writer.end_row();
            if writer.is_full() {
                out(writer.finish());
            }
        }
        if writer.rows() > 0 {
            out(writer.finish());
        }
    }
}

/// Compares two keys, column by column.
fn order(mut a: &[u8], mut b: &[u8], directions: &[SortDirection]) -> Ordering {
    for direction in directions {
        let Some((x, a_rest)) = Scalar::decode(a) else {
            break;
        };
        let Some((y, b_rest)) = Scalar::decode(b) else {
            break;
        };
        let order = match direction {
            SortDirection::Ascending => x.order(&y),
            SortDirection::Descending => y.order(&x),
        };
        if order != Ordering::Equal {
            return order;
        }
        a = a_rest;
        b = b_rest;
    }
    Ordering::Equal
}

impl RankedRow {
    fn bytes(&self) -> usize {
        ROW_BYTES + self.key.capacity() + self.values.capacity()
    }
}

impl Ord for RankedRow {
    fn cmp(&self, other: &RankedRow) -> Ordering {
        order(&self.key, &other.key, &self.order).then(self.seen.cmp(&other.seen))
    }
}

impl PartialOrd for RankedRow {
    fn partial_cmp(&self, other: &RankedRow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedRow {
    fn eq(&self, other: &RankedRow) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for RankedRow {}

//! Reads untrusted cells. Impossible values are rejected, and claimed sizes cause no allocation.

use std::cell::Cell;

use arrow_array::RecordBatch;
use tuple::DataType;

use super::column::{CellColumnReader, CellType};
use super::parts::{AccumulatorParts, EntryParts, count};
use super::table::{CellColumnRole, CellTable};
use crate::column::hash_scalar;
use crate::partial::MalformedPartial;
use crate::scalar::Scalar;
use crate::seed::RESULT_SEED;

/// Rows of cells.
pub struct CellRows<'a> {
    pane: CellColumnReader<'a>,
    keys: Vec<(CellColumnReader<'a>, DataType)>,
    rate: CellColumnReader<'a>,
    replicate: CellColumnReader<'a>,
    slot: CellColumnReader<'a>,
    at: CellColumnReader<'a>,
    bits: CellColumnReader<'a>,
    whole: CellColumnReader<'a>,
    tuples: CellColumnReader<'a>,
    first_ns: CellColumnReader<'a>,
    last_ns: CellColumnReader<'a>,
    n: CellColumnReader<'a>,
    /// The columns of each accumulator, and the value column for distinct values.
    parts: Vec<Vec<CellColumnReader<'a>>>,
    values: Vec<Option<(CellColumnReader<'a>, DataType)>>,
    rows: usize,
    bytes: usize,
}

/// The kind of a row.
pub enum CellRowKind<'a> {
    /// A whole row: the encoded part of a pane and the number of equal rows.
    Whole(&'a [u8], u64),
    /// A base row: pane, rate, and replicate.
    Base(i64, f64, usize),
    /// An entry row: pane, rate, replicate, and accumulator index.
    Entry(i64, f64, usize, usize),
}

impl<'a> CellRows<'a> {
    /// Reads the rows of `batch`, which has the columns of any [`CellOrigin`].
    pub fn new(
        table: &CellTable,
        batch: &'a RecordBatch,
    ) -> Result<CellRows<'a>, MalformedPartial> {
        let find = |name: &str, data| CellColumnReader::of(batch.column_by_name(name)?, data);
        let other = MalformedPartial::OtherDataflow("the columns of cells");
        let named = |name: &str| {
            let column = table.columns.iter().find(|column| column.name == name);
            column
                .and_then(|column| find(name, column.data))
                .ok_or(other.clone())
        };
        let keys = table.keys.iter().enumerate();
        let keys = keys.map(|(i, key)| Ok((named(&format!("k{i}"))?, key.data_type)));
        let mut merged = table
            .columns
            .iter()
            .filter(|column| matches!(column.role, CellColumnRole::Merge(_)));
        // The first four merged columns do not belong to accumulators.
        let mut merged = merged.by_ref().skip(4);
        let mut parts = Vec::new();
        for width in table.widths() {
            let columns = merged
                .by_ref()
                .take(width)
                .map(|column| named(&column.name));
            parts.push(columns.collect::<Result<Vec<_>, _>>()?);
        }
        let values = table.accumulators.iter().enumerate().map(|(i, one)| {
            let of = one.distinct()?;
            Some((
                find(&format!("d{i}"), CellType::of(of.data_type))?,
                of.data_type,
            ))
        });
        Ok(CellRows {
            pane: named("pane")?,
            keys: keys.collect::<Result<_, _>>()?,
            rate: named("rate")?,
            replicate: named("replicate")?,
            slot: named("slot")?,
            at: named("at")?,
            bits: named("bits")?,
            whole: named("whole")?,
            tuples: named("tuples")?,
            first_ns: named("first_ns")?,
            last_ns: named("last_ns")?,
            n: named("n")?,
            parts,
            values: values.collect(),
            rows: batch.num_rows(),
            bytes: batch.get_array_memory_size(),
        })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The kind of a row; `None` if the row is not a cell.
    pub fn kind(&self, row: usize) -> Result<Option<CellRowKind<'a>>, MalformedPartial> {
        let Some(pane) = self.pane.long(row) else {
            return Ok(None);
        };
        if let Some(whole) = self.whole.bytes(row) {
            return Ok(Some(CellRowKind::Whole(whole, self.n(row)?)));
        }
        let rate = self
            .rate
            .double(row)
            .ok_or(MalformedPartial::Invalid("a rate"))?;
        let replicate = self
            .replicate
            .long(row)
            .and_then(|replicate| usize::try_from(replicate).ok());
        let replicate = replicate.ok_or(MalformedPartial::Invalid("a replicate"))?;
        Ok(Some(match self.slot.long(row) {
            None => CellRowKind::Base(pane, rate, replicate),
            Some(slot) => {
                let slot = usize::try_from(slot)
                    .ok()
                    .filter(|slot| *slot < self.parts.len());
                CellRowKind::Entry(
                    pane,
                    rate,
                    replicate,
                    slot.ok_or(MalformedPartial::Invalid("an accumulator"))?,
                )
            }
        }))
    }

    /// Encodes the group key of a row into `key` and returns its hash.
    pub fn key(&self, row: usize, seed: u64, key: &mut Vec<u8>) -> Result<u64, MalformedPartial> {
        key.clear();
        self.keys
            .iter()
            .try_fold(seed, |hash, (column, data_type)| {
                let scalar = column.scalar(row, *data_type)?;
                scalar.encode(key);
                Ok(hash_scalar(&scalar, hash))
            })
    }

    /// The number of tuples that the row adds to its pane.
    pub fn tuples(&self, row: usize) -> Result<u64, MalformedPartial> {
        count(self.tuples.long(row))
    }

    /// The first and last event time of the row, in nanoseconds.
    pub fn span_ns(&self, row: usize) -> Result<Option<(i64, i64)>, MalformedPartial> {
        match (self.first_ns.long(row), self.last_ns.long(row)) {
            (None, None) => Ok(None),
            (Some(first), Some(last)) if first <= last => Ok(Some((first, last))),
            _ => Err(MalformedPartial::Invalid("a time")),
        }
    }

    /// The accumulator columns of a base row.
    pub fn parts<'r>(
        &'r self,
        row: usize,
        largest: &'r Cell<u64>,
    ) -> impl Iterator<Item = AccumulatorParts<'r>> + use<'r, 'a> {
        self.parts.iter().map(move |columns| AccumulatorParts {
            columns,
            row,
            largest,
        })
    }

    /// The accumulator columns of an entry row.
    pub fn entry<'r>(
        &'r self,
        row: usize,
        slot: usize,
        largest: &'r Cell<u64>,
    ) -> Result<EntryParts<'r>, MalformedPartial> {
        let at = self.at.long(row);
        let hash = match (at, self.values[slot]) {
            (Some(hash), _) => Some(hash as u64),
            (None, Some((column, data_type))) => match column.scalar(row, data_type)? {
                Scalar::Null => None,
                value => Some(hash_scalar(&value, !RESULT_SEED)),
            },
            (None, None) => None,
        };
        let parts = AccumulatorParts {
            columns: &self.parts[slot],
            row,
            largest,
        };
        Ok(EntryParts {
            parts,
            at,
            bits: self.bits.long(row),
            hash,
            n: self.n(row)?,
        })
    }

    fn n(&self, row: usize) -> Result<u64, MalformedPartial> {
        count(self.n.long(row))
    }
}

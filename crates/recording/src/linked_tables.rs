//! Divides tuples into linked tables according to their schema: each tuple gets a number, `tuple_id`, which its rows
//! share in all tables. A list of checksums becomes one row per block; the number of blocks is stored with the tuple,
//! to distinguish an empty list from a missing one.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, UInt64Array};
use arrow_buffer::NullBufferBuilder;
use tuple::{Batch, DataType, Field, FieldId, PartContent, Schema, TablePart, Unit, hashes};

use crate::convert;

/// The tuple's number: equal in all tables, ascending within a run, and unique across runs.
pub const TUPLE_ID: &str = "tuple_id";
/// Number of blocks in a tuple's list.
pub const BLOCKS: &str = "blocks";
/// A block's number in its file.
pub const BLOCK: &str = "block";
/// A block's checksum.
pub const CHECKSUM: &str = "checksum";

/// Position of [`TUPLE_ID`] in the tables.
pub const ID: FieldId = FieldId(0);
/// Position of [`CHECKSUM`] in a table of blocks.
pub const SUM: FieldId = FieldId(2);
/// Bytes of lists per batch of a table of blocks, unless a single tuple has more: 4096 blocks.
const PIECE_BYTES: i32 = (hashes::BYTES << 12) as i32;
/// Bits of a tuple's number used for counting; the others are the run number.
const COUNT_BITS: u32 = 40;

/// A table and the source of its columns.
#[derive(Clone, Debug)]
pub struct LinkedTable {
    /// Name of the table; `None` for the table of all tuples.
    pub name: Option<&'static str>,
    /// Schema of its rows.
    pub schema: Arc<Schema>,
    /// The columns present.
    pub columns: Vec<FieldId>,
    /// Whether it is the first table of its tuples.
    pub is_first: bool,
    pub source: RowSource,
}

/// The source of a table's rows.
#[derive(Clone, Debug)]
pub enum RowSource {
    /// The tuples themselves.
    Whole,
    /// Some columns of the tuples, after the tuple number, followed by the lengths of this list.
    Fields(Vec<FieldId>, Option<FieldId>),
    /// The blocks of a list.
    Blocks {
        list: FieldId,
        start: FieldId,
        block_bytes: u64,
    },
}

/// The tables for `columns` of `schema`.
pub fn layouts(schema: &Arc<Schema>, columns: &[FieldId]) -> Vec<LinkedTable> {
    if schema.parts.is_empty() {
        return vec![LinkedTable::whole(schema, columns)];
    }
    schema
        .parts
        .iter()
        .filter_map(|part| layout(schema, columns, part))
        .collect()
}

/// A part's table; `None` if it would have no columns.
fn layout(schema: &Schema, columns: &[FieldId], part: &TablePart) -> Option<LinkedTable> {
    let first = schema
        .parts
        .first()
        .is_some_and(|first| first.name == part.name);
    let list = schema.parts.iter().find_map(|part| match part.holds {
        PartContent::Blocks { list, .. } => Some(list).filter(|list| columns.contains(list)),
        _ => None,
    });
    let is_elsewhere = |id: &FieldId| {
        schema.parts.iter().any(|part| match part.holds {
            PartContent::Fields(ids) => ids.contains(id),
            PartContent::Blocks { list, .. } => list == *id,
            PartContent::Rest => false,
        })
    };
    let number = |name, doc| Field::new(name, DataType::U64, Unit::None, doc);
    let mut fields = vec![number(
        TUPLE_ID,
        "the tuple's number, the same in all tables",
    )];
    let source = match part.holds {
        PartContent::Blocks {
            list,
            start,
            block_bytes,
        } => {
            columns.contains(&list).then_some(())?;
            fields.push(number(
                BLOCK,
                "number of the block in the file: its offset over the length of a block",
            ));
            fields.push(number(
                CHECKSUM,
                "XXH3-64 of the block; null if it was not captured completely",
            ));
            RowSource::Blocks {
                list,
                start,
                block_bytes,
            }
        }
        PartContent::Fields(ids) => RowSource::Fields(
            ids.iter()
                .filter(|id| columns.contains(id))
                .copied()
                .collect(),
            None,
        ),
        PartContent::Rest => RowSource::Fields(
            columns
                .iter()
                .filter(|id| !is_elsewhere(id))
                .copied()
                .collect(),
            list,
        ),
    };
    if let RowSource::Fields(ids, list) = &source {
        fields.extend(ids.iter().map(|id| schema.field(*id).clone()));
        fields.extend(
            list.map(|_| number(BLOCKS, "how many rows the tuple has in the table of blocks")),
        );
    }
    let facts = schema.facts;
    let schema = Schema {
        name: part.name.into(),
        version: schema.version,
        doc: schema.doc.clone(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts,
    };
    let columns = schema.ids().collect();
    Some(LinkedTable {
        name: Some(part.name),
        schema: Arc::new(schema),
        columns,
        is_first: first,
        source,
    })
}

/// The first tuple number of a run.
pub fn first_id(run: u64) -> u64 {
    run << COUNT_BITS
}

impl LinkedTable {
    /// A single table for all columns.
    pub fn whole(schema: &Arc<Schema>, columns: &[FieldId]) -> LinkedTable {
        let schema = schema.clone();
        let columns = columns.to_vec();
        LinkedTable {
            name: None,
            schema,
            columns,
            is_first: true,
            source: RowSource::Whole,
        }
    }

    /// Whether each tuple has one row.
    pub fn is_row_by_row(&self) -> bool {
        !matches!(self.source, RowSource::Blocks { .. })
    }

    /// Position in the table of a column of the tuples.
    pub fn place(&self, field: FieldId) -> Option<FieldId> {
        match &self.source {
            RowSource::Whole => Some(field),
            RowSource::Fields(fields, _) => {
                let place = fields.iter().position(|id| *id == field)?;
                self.columns.get(place + 1).copied()
            }
            RowSource::Blocks { .. } => None,
        }
    }

    /// The table's rows for `batch`, with tuple numbers from `first` on, in batches that fit into the cache, and the
    /// watermark of each row.
    pub fn rows<'a>(
        &'a self,
        batch: &'a Batch,
        watermarks: &'a Int64Array,
        first: u64,
    ) -> impl Iterator<Item = (Batch, Int64Array)> + 'a {
        let mut done = 0;
        std::iter::from_fn(move || {
            let start = done;
            let rest = batch.rows().checked_sub(start).filter(|rest| *rest > 0)?;
            Some(match &self.source {
                RowSource::Whole => {
                    done += rest;
                    (batch.clone(), watermarks.clone())
                }
                RowSource::Fields(fields, list) => {
                    done += rest;
                    (self.fields(batch, first, fields, *list), watermarks.clone())
                }
                RowSource::Blocks {
                    list,
                    start: offset,
                    block_bytes,
                } => {
                    let ends = &batch.hashes(*list).value_offsets()[start..];
                    let fitting = ends[1..].partition_point(|end| end - ends[0] <= PIECE_BYTES);
                    done += fitting.max(1);
                    let offsets = batch
                        .column(*offset)
                        .map(|_| batch.u64(*offset).slice(start, done - start));
                    let lists = batch.hashes(*list).slice(start, done - start);
                    let watermarks = of_blocks(&lists, &watermarks.values()[start..]);
                    (
                        self.blocks(&lists, offsets.as_ref(), *block_bytes, first + start as u64),
                        watermarks,
                    )
                }
            })
        })
    }

    /// Tuple numbers, some columns, and the lengths of a list.
    fn fields(
        &self,
        batch: &Batch,
        first: u64,
        fields: &[FieldId],
        list: Option<FieldId>,
    ) -> Batch {
        let ids = UInt64Array::from_iter_values((first..).take(batch.rows()));
        let mut columns: Vec<Option<ArrayRef>> = vec![Some(Arc::new(ids))];
        columns.extend(fields.iter().map(|id| batch.column(*id).cloned()));
        columns.extend(list.map(|list| {
            let lengths = batch
                .hashes(list)
                .iter()
                .map(|list| Some(hashes::of(list?).len() as u64));
            Some(Arc::new(lengths.collect::<UInt64Array>()) as ArrayRef)
        }));
        Batch::new(self.schema.clone(), batch.rows(), columns)
    }

    /// The blocks of `lists`, each beginning at its offset in the file.
    fn blocks(
        &self,
        lists: &BinaryArray,
        offsets: Option<&UInt64Array>,
        block_bytes: u64,
        first: u64,
    ) -> Batch {
        let sums = convert::hash_values(lists);
        let rows = sums.len();
        let mut ids = Vec::with_capacity(rows);
        let mut blocks = Vec::with_capacity(rows);
        let mut known = NullBufferBuilder::new(rows);
        for (row, id) in (0..lists.len())
            .zip(first..)
            .filter(|(row, _)| lists.is_valid(*row))
        {
            let n = hashes::of(lists.value(row)).len();
            ids.resize(ids.len() + n, id);
            let offset = offsets
                .filter(|offsets| offsets.is_valid(row))
                .map(|offsets| offsets.value(row));
            let range = offset.and_then(|offset| {
                let first = offset.div_ceil(block_bytes);
                Some(first..first.checked_add(n as u64)?)
            });
            match range {
                Some(range) => {
                    blocks.extend(range);
                    known.append_n_non_nulls(n);
                }
                None => {
                    blocks.resize(blocks.len() + n, 0);
                    known.append_n_nulls(n);
                }
            }
        }
        let columns = [
            ids.into(),
            UInt64Array::new(blocks.into(), known.finish()),
            sums,
        ];
        let columns = columns.map(|column| Some(Arc::new(column) as ArrayRef));
        Batch::new(self.schema.clone(), rows, columns.to_vec())
    }
}

/// The watermark of each block.
fn of_blocks(lists: &BinaryArray, watermarks: &[i64]) -> Int64Array {
    let blocks = lists
        .iter()
        .zip(watermarks)
        .flat_map(|(list, watermark_ns)| {
            std::iter::repeat_n(*watermark_ns, list.map_or(0, |list| hashes::of(list).len()))
        });
    Int64Array::from_iter_values(blocks)
}

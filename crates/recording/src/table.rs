//! One Parquet file of one table, into any writer. Row groups are bounded in rows and bytes, and with them the memory
//! that writing takes. How a column is encoded follows from what it counts (`properties`).

use std::io::{self, Write};
use std::iter::repeat_n;
use std::sync::Arc;

use arrow_array::{Array, Int64Array};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use tuple::{Batch, DataType, FieldId, Schema, Unit};

use crate::convert::{arrow_schema, to_arrow};
use crate::head::{Head, Kind, WATERMARK};
use crate::journal;
use crate::linked::{BLOCK, CHECKSUM, TUPLE_ID};

/// Most rows of a row group.
const GROUP_ROWS: usize = 1 << 16;
/// Most bytes of a row group, encoded, before it ends early.
const GROUP_BYTES: usize = 32 << 20;
/// Memory that writing a row group may take, unless another bound is given: so much that [`GROUP_BYTES`] come first.
pub const GROUP_MEMORY: usize = 128 << 20;

pub(crate) const CREATED_BY: &str = concat!("netalytics ", env!("CARGO_PKG_VERSION"));

/// Rows that are collected before they are encoded, as a batch costs more than its rows where those are few.
const COLLECTED_ROWS: usize = 1024;
/// And the memory that they take at most.
const COLLECTED_BYTES: usize = 1 << 20;

/// Writes one file.
pub struct TableWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    columns: Vec<FieldId>,
    arrow: SchemaRef,
    has_watermark: bool,
    group_memory: usize,
    collected: Collected,
}

/// Rows that are not encoded yet, each batch with its watermark.
#[derive(Default)]
struct Collected {
    batches: Vec<(Batch, i64)>,
    rows: usize,
    bytes: usize,
}

impl<W: Write + Send> TableWriter<W> {
    /// A file of `columns` of `schema`; tuples have the column `watermark` too.
    ///
    /// # Errors
    /// The writer's.
    pub fn new(out: W, kind: Kind, schema: Arc<Schema>, columns: Vec<FieldId>) -> io::Result<Self> {
        let has_watermark = kind == Kind::Tuples;
        let arrow = arrow_schema(&schema, &columns, has_watermark);
        // The Arrow schema is left out: readers then show plain columns, addresses as text and not as categories.
        let options = ArrowWriterOptions::new()
            .with_properties(properties(&schema, &columns))
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(out, arrow.clone(), options).map_err(io_error)?;
        let (group_memory, collected) = (GROUP_MEMORY, Collected::default());
        Ok(TableWriter { writer, schema, columns, arrow, has_watermark, group_memory, collected })
    }

    /// A row group also ends when writing it takes so much memory.
    #[must_use]
    pub fn with_group_memory(self, group_memory: usize) -> Self {
        TableWriter { group_memory, ..self }
    }

    /// Takes rows that were released when event time had come to `watermark_ns`. Returns whether a row group ended.
    ///
    /// # Errors
    /// The writer's.
    pub fn write(&mut self, batch: &Batch, watermark_ns: i64) -> io::Result<bool> {
        let collected = &mut self.collected;
        collected.batches.push((batch.clone(), watermark_ns));
        collected.rows += batch.rows();
        collected.bytes += batch.bytes();
        if collected.rows < COLLECTED_ROWS && collected.bytes < COLLECTED_BYTES {
            return Ok(false);
        }
        self.encode()?;
        let is_full = self.writer.in_progress_rows() >= GROUP_ROWS
            || self.writer.in_progress_size() >= GROUP_BYTES
            || self.writer.memory_size() >= self.group_memory;
        if is_full { self.end_group() } else { Ok(false) }
    }

    /// Ends the row group and hands everything to the writer. Returns whether there was one.
    ///
    /// # Errors
    /// The writer's.
    pub fn end_group(&mut self) -> io::Result<bool> {
        self.encode()?;
        let has_rows = self.writer.in_progress_rows() > 0;
        self.writer.flush().map_err(io_error)?;
        self.writer.sync()?;
        Ok(has_rows)
    }

    /// Encodes the rows that have been collected.
    fn encode(&mut self) -> io::Result<()> {
        let Collected { batches, rows, .. } = std::mem::take(&mut self.collected);
        if rows == 0 {
            return Ok(());
        }
        let watermarks = self.has_watermark.then(|| {
            let of_batch = |(batch, watermark_ns): &(Batch, i64)| repeat_n(*watermark_ns, batch.rows());
            Int64Array::from_iter_values(batches.iter().flat_map(of_batch))
        });
        let column = |id: FieldId| {
            let parts: Option<Vec<&dyn Array>> =
                batches.iter().map(|(batch, _)| batch.column(id).map(AsRef::as_ref)).collect();
            parts.map(|parts| concat(&parts).expect("the columns of a field have one type"))
        };
        let all = Batch::new(self.schema.clone(), rows, self.schema.ids().map(column).collect());
        self.writer.write(&to_arrow(&all, &self.columns, &self.arrow, watermarks)).map_err(io_error)
    }

    /// The row group that ended last.
    #[must_use]
    pub fn last_group(&self) -> Option<&RowGroupMetaData> {
        self.writer.flushed_row_groups().last()
    }

    /// How many row groups have ended.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.writer.flushed_row_groups().len()
    }

    /// Where the row groups that have ended end, and the footer that makes a whole file of them, which says `head` of itself;
    /// `None`: none has ended.
    ///
    /// # Errors
    /// The writer's.
    pub fn end_so_far(&self, head: &Head) -> io::Result<Option<(u64, Vec<u8>)>> {
        let groups = self.writer.flushed_row_groups();
        if groups.is_empty() {
            return Ok(None);
        }
        let footer = journal::footer_of(groups.to_vec(), self.facts(head)).map_err(io_error)?;
        Ok(Some((self.written(), footer)))
    }

    /// Bytes handed to the writer.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Bytes so far, about: without the rows that are not encoded yet.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    /// What the metadata say.
    pub(crate) fn facts(&self, head: &Head) -> Vec<KeyValue> {
        head.to_metadata(&self.schema, &self.columns)
    }

    /// Ends the file, which says `head` of itself.
    ///
    /// # Errors
    /// The writer's.
    pub fn finish(mut self, head: &Head) -> io::Result<W> {
        self.encode()?;
        for fact in self.facts(head) {
            self.writer.append_key_value_metadata(fact);
        }
        self.writer.into_inner().map_err(io_error)
    }
}

/// What the operating system said, where it said something.
pub fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

/// Encodings: times and durations as differences in few bits, since they rise or are small; what repeats (text, addresses,
/// ports, ids of flows) by a dictionary, which the writer itself gives up within a chunk where values are too many. What
/// stays the same for many rows, as the watermark and the number of a list's tuple, is plain: zstd passes over such a
/// run in one step, where any encoding looks at each value. Check-sums are plain and not compressed: they are as random as
/// they look.
///
/// Least and greatest values are kept of what row groups are chosen by, which text and check-sums are not.
fn properties(schema: &Schema, columns: &[FieldId]) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_created_by(CREATED_BY.into())
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(None)
        .set_max_row_group_bytes(None);
    let is_of_blocks = schema.find(CHECKSUM).is_some();
    for id in columns {
        let field = schema.field(*id);
        let path = ColumnPath::from(field.name.as_ref());
        let is_time = matches!(field.unit, Unit::EpochNanoseconds | Unit::Nanoseconds);
        builder = match field.data_type {
            _ if field.name == CHECKSUM => builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
                .set_column_compression(path, Compression::UNCOMPRESSED),
            _ if field.name == TUPLE_ID && is_of_blocks => builder.set_column_dictionary_enabled(path, false),
            _ if [TUPLE_ID, BLOCK].contains(&field.name.as_ref()) => builder
                .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(path, false),
            DataType::I64 | DataType::U64 => builder
                .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(path, !is_time),
            DataType::F64 => builder.set_column_dictionary_enabled(path, false),
            DataType::Hashes => {
                let path = [&*field.name, "list", "element"].map(str::to_owned).to_vec();
                builder
                    .set_column_dictionary_enabled(ColumnPath::new(path.clone()), false)
                    .set_column_statistics_enabled(ColumnPath::new(path), EnabledStatistics::None)
            }
            DataType::Text | DataType::Json | DataType::Ip => {
                builder.set_column_statistics_enabled(path, EnabledStatistics::None)
            }
            DataType::Bool => builder,
        };
    }
    builder.set_column_dictionary_enabled(ColumnPath::from(WATERMARK), false).build()
}

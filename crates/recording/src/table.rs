//! Writes one Parquet file of one table to any writer. Row groups are bounded in rows and bytes, and thus the memory
//! for writing. The encoding of a column depends on its unit (`properties`).

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::Int64Array;
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, RowGroupMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use tuple::{Batch, DataType, FieldId, Schema, Unit};

use crate::convert::{arrow_schema, to_arrow};
use crate::file_metadata::{CREATED_BY, FileMetadata, TableKind, WATERMARK};
use crate::journal;
use crate::linked_tables::{BLOCK, CHECKSUM, TUPLE_ID};
use crate::pending_rows::PENDING_ROWS;

/// Maximum rows of a row group and of those that wait for it, unless a single batch has more.
const GROUP_ROWS: usize = 1 << 16;
/// Maximum encoded bytes of a row group.
const GROUP_BYTES: usize = 32 << 20;
/// Default memory limit for writing a row group, large enough for [`GROUP_BYTES`] to be reached first.
pub const GROUP_MEMORY: usize = 128 << 20;

/// Writes one file.
pub struct TableWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    columns: Vec<FieldId>,
    arrow: SchemaRef,
    has_watermark: bool,
    group_memory: usize,
}

impl<W: Write + Send> TableWriter<W> {
    /// Creates a file with `columns` of `schema`; tuples also have the column `watermark`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(
        out: W,
        kind: TableKind,
        schema: Arc<Schema>,
        columns: Vec<FieldId>,
    ) -> io::Result<Self> {
        let has_watermark = kind == TableKind::Tuples;
        let arrow = arrow_schema(&schema, &columns, has_watermark);
        // The Arrow schema is omitted: readers then show plain columns, with addresses as text instead of categories.
        let options = ArrowWriterOptions::new()
            .with_properties(properties(&schema, &columns))
            .with_skip_arrow_metadata(true);
        let writer =
            ArrowWriter::try_new_with_options(out, arrow.clone(), options).map_err(io_error)?;
        Ok(TableWriter {
            writer,
            schema,
            columns,
            arrow,
            has_watermark,
            group_memory: GROUP_MEMORY,
        })
    }

    /// Sets the memory limit of a row group.
    #[must_use]
    pub fn with_group_memory(self, group_memory: usize) -> Self {
        TableWriter {
            group_memory,
            ..self
        }
    }

    /// Writes rows with the watermark of each, which results do not store. Returns whether a row group ended. Many rows
    /// at once cost less: see [`PendingRows`](crate::PendingRows).
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&mut self, batch: &Batch, watermarks: &Int64Array) -> io::Result<bool> {
        let watermarks = self.has_watermark.then_some(watermarks);
        self.writer
            .write(&to_arrow(batch, &self.columns, &self.arrow, watermarks))
            .map_err(io_error)?;
        let is_full = self.writer.in_progress_rows() + PENDING_ROWS > GROUP_ROWS
            || self.writer.in_progress_size() >= GROUP_BYTES
            || self.writer.memory_size() >= self.group_memory;
        if is_full { self.end_group() } else { Ok(false) }
    }

    /// Ends the row group and passes all data to the writer. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end_group(&mut self) -> io::Result<bool> {
        let has_rows = self.writer.in_progress_rows() > 0;
        self.writer.flush().map_err(io_error)?;
        self.writer.sync()?;
        Ok(has_rows)
    }

    /// The last completed row group.
    #[must_use]
    pub fn last_group(&self) -> Option<&RowGroupMetaData> {
        self.writer.flushed_row_groups().last()
    }

    /// Number of completed row groups.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.writer.flushed_row_groups().len()
    }

    /// The end of the completed row groups, and the footer with metadata `head` that would complete the file; `None`
    /// without row groups.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn end_so_far(&self, head: &FileMetadata) -> io::Result<Option<(u64, Vec<u8>)>> {
        let groups = self.writer.flushed_row_groups();
        if groups.is_empty() {
            return Ok(None);
        }
        let footer = journal::footer_of(groups.to_vec(), self.facts(head)).map_err(io_error)?;
        Ok(Some((self.written(), footer)))
    }

    /// Bytes passed to the writer.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.writer.bytes_written() as u64
    }

    /// Approximate size in bytes so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.writer.bytes_written() + self.writer.in_progress_size()) as u64
    }

    /// The metadata of the file.
    pub(crate) fn facts(&self, head: &FileMetadata) -> Vec<KeyValue> {
        head.to_metadata(&self.schema, &self.columns)
    }

    /// Completes the file with metadata `head`.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn finish(mut self, head: &FileMetadata) -> io::Result<W> {
        for fact in self.facts(head) {
            self.writer.append_key_value_metadata(fact);
        }
        self.writer.into_inner().map_err(io_error)
    }
}

/// The operating system's error, if there is one.
pub fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

/// Encodings: times and durations as deltas in few bits, since they are ascending or small; repeated values (text,
/// addresses, ports, flow IDs) by dictionary, which the writer abandons within a chunk if there are too many values.
/// Values constant over many rows, such as the watermark and the tuple number of a list, are plain: zstd skips such a
/// run in one step, while other encodings process each value. Checksums are plain and uncompressed, because they are
/// random.
///
/// Minimum and maximum are stored for columns used to select row groups, which excludes text and checksums.
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
            _ if field.name == TUPLE_ID && is_of_blocks => {
                builder.set_column_dictionary_enabled(path, false)
            }
            _ if [TUPLE_ID, BLOCK].contains(&field.name.as_ref()) => builder
                .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(path, false),
            DataType::I64 | DataType::U64 => builder
                .set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                .set_column_dictionary_enabled(path, !is_time),
            DataType::F64 => builder.set_column_dictionary_enabled(path, false),
            DataType::Hashes => {
                let path = [&*field.name, "list", "element"]
                    .map(str::to_owned)
                    .to_vec();
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
    builder
        .set_column_dictionary_enabled(ColumnPath::from(WATERMARK), false)
        .build()
}

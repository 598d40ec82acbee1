//! Reads a file: its metadata, and its rows as batches of a tuple schema. Only needed columns are read, and row groups
//! are skipped if their statistics exclude them. The bytes are untrusted: errors are described, and a panic of the
//! Parquet library counts as an error.

use std::collections::VecDeque;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray, new_null_array,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;
use tuple::{Batch, DataType, FieldId, Schema};

use crate::convert::{of_arrow, stored_type};
use crate::disk;
use crate::file_metadata::{FileMetadata, WATERMARK};
use crate::journal;
use crate::linked_tables::TUPLE_ID;
use crate::panic_guard::guarded;
use crate::thrift;

/// Rows of a batch.
const BATCH_ROWS: usize = 4096;

/// An inclusive range of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnBound {
    /// The column, which must be an integer column.
    pub field: FieldId,
    /// Minimum.
    pub low: i128,
    /// Maximum.
    pub high: i128,
}

/// A request to read a file.
#[derive(Clone, Debug)]
pub struct ReadRequest {
    /// The tuples' schema.
    pub schema: Arc<Schema>,
    /// The columns to read.
    pub columns: Vec<FieldId>,
    /// Bounds of the required rows.
    pub bounds: Vec<ColumnBound>,
}

/// A file read by row group.
pub struct FileReader {
    ask: ReadRequest,
    /// Opens a row group.
    open: Box<dyn Fn(usize) -> Result<ParquetRecordBatchReader, String>>,
    rows: Option<ParquetRecordBatchReader>,
    /// The row groups to read.
    groups: VecDeque<RowGroup>,
    /// Rows in skipped row groups.
    pub rows_skipped: u64,
}

/// A row group.
struct RowGroup {
    number: usize,
    rows: u64,
    /// Largest [`TUPLE_ID`] of the file, if any.
    last_id: Option<u64>,
}

/// The metadata and first watermark of a file; `None` if its writer was killed before a row group was complete.
pub fn glance(
    path: &Path,
    journal: Option<&Path>,
) -> Result<Option<(FileMetadata, Option<i64>)>, String> {
    let Some((_, metadata)) = open(path, journal)? else {
        return Ok(None);
    };
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    let head = FileMetadata::of_metadata(pairs.map_or(&[], Vec::as_slice))?;
    let begin = metadata
        .metadata()
        .row_groups()
        .iter()
        .find_map(|group| Some(range(group, WATERMARK)?.0));
    Ok(Some((head, begin.and_then(|ns| i64::try_from(ns).ok()))))
}

fn open(
    path: &Path,
    journal: Option<&Path>,
) -> Result<Option<(File, ArrowReaderMetadata)>, String> {
    let file = disk::open(path).map_err(|e| e.to_string())?;
    let journal = journal.map(|path| disk::read(path).unwrap_or_default());
    let metadata = guarded(|| load(&file, journal.as_deref()))?;
    Ok(metadata.map(|metadata| (file, metadata)))
}

/// The metadata in a file's footer, or of an unfinished file in its journal, if any.
fn load(
    input: &impl ChunkReader,
    journal: Option<&[u8]>,
) -> Result<Option<ArrowReaderMetadata>, String> {
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let loaded = match journal {
        None if !has_sound_footer(input) => {
            return Err("damaged: its footer is invalid".to_owned());
        }
        None => ArrowReaderMetadata::load(input, options),
        Some(journal) => match journal::read(journal) {
            Some(metadata) => ArrowReaderMetadata::try_new(Arc::new(metadata), options),
            None => return Ok(None),
        },
    };
    loaded.map(Some).map_err(|e| damaged(&e))
}

/// Whether the footer can be passed to the Parquet library; a missing footer is reported by the library.
fn has_sound_footer(input: &impl ChunkReader) -> bool {
    let tail = |n: u64, of: usize| input.get_bytes(input.len().checked_sub(n)?, of).ok();
    let Some(end) = tail(8, 8) else { return true };
    let length = u32::from_le_bytes([end[0], end[1], end[2], end[3]]);
    tail(u64::from(length) + 8, length as usize).is_none_or(|footer| thrift::is_sound(&footer))
}

/// Counts the rows of `schema` in a file in memory; `journal` is set for an unfinished file.
///
/// # Errors
/// A description of the error.
pub fn count_rows(
    file: Vec<u8>,
    journal: Option<&[u8]>,
    schema: Arc<Schema>,
) -> Result<u64, String> {
    let file = bytes::Bytes::from(file);
    let Some(metadata) = guarded(|| load(&file, journal))? else {
        return Ok(0);
    };
    let pairs = metadata.metadata().file_metadata().key_value_metadata();
    FileMetadata::of_metadata(pairs.map_or(&[], Vec::as_slice))?;
    let columns = schema.ids().collect();
    let mut reader = FileReader::new(
        file,
        metadata,
        ReadRequest {
            schema,
            columns,
            bounds: Vec::new(),
        },
    )?;
    let mut rows = 0;
    while let Some((batch, _)) = reader.next()? {
        rows += batch.rows() as u64;
    }
    Ok(rows)
}

impl FileReader {
    /// Opens a file for `ask`; `None` if it has no rows.
    pub fn open(
        path: &Path,
        journal: Option<&Path>,
        ask: ReadRequest,
    ) -> Result<Option<FileReader>, String> {
        let Some((file, metadata)) = open(path, journal)? else {
            return Ok(None);
        };
        FileReader::new(file, metadata, ask).map(Some)
    }

    fn new(
        input: impl SharedChunkReader + 'static,
        metadata: ArrowReaderMetadata,
        ask: ReadRequest,
    ) -> Result<FileReader, String> {
        let parquet: &ParquetMetaData = metadata.metadata();
        let descriptor = parquet.file_metadata().schema_descr_ptr();
        let place = |name: &str| {
            let place = descriptor
                .columns()
                .iter()
                .position(|c| c.path().parts()[0] == name);
            place.ok_or_else(|| format!("the column {name} was not recorded"))
        };
        let mut places = vec![place(WATERMARK)?];
        for id in &ask.columns {
            match place(&ask.schema.field(*id).name) {
                Err(_) if is_of_origin(&ask.schema, *id) || ask.schema.was_added(*id) => {}
                place => places.push(place?),
            }
        }
        let mut groups = VecDeque::new();
        let mut rows_skipped = 0;
        for (number, group) in parquet.row_groups().iter().enumerate() {
            let rows = u64::try_from(group.num_rows()).unwrap_or(0);
            if ask
                .bounds
                .iter()
                .all(|bound| may_hold(group, &ask.schema, bound))
            {
                let last_id = range(group, TUPLE_ID).map(|(_, last)| last as i64 as u64);
                groups.push_back(RowGroup {
                    number,
                    rows,
                    last_id,
                });
            } else {
                rows_skipped += rows
            }
        }
        let mask = ProjectionMask::leaves(&descriptor, places);
        let open = move |group| {
            guarded(|| {
                let input = input.again().map_err(|e| e.to_string())?;
                ParquetRecordBatchReaderBuilder::new_with_metadata(input, metadata.clone())
                    .with_projection(mask.clone())
                    .with_row_groups(vec![group])
                    .with_batch_size(BATCH_ROWS)
                    .build()
                    .map_err(|e| damaged(&e))
            })
        };
        Ok(FileReader {
            ask,
            open: Box::new(open),
            rows: None,
            groups,
            rows_skipped,
        })
    }

    /// Skips row groups not yet begun with only tuple numbers below `id`; returns the number of skipped rows.
    pub fn skip_below(&mut self, id: u64) -> u64 {
        let mut skipped = 0;
        while let Some(group) = self
            .groups
            .pop_front_if(|group| group.last_id.is_some_and(|last| last < id))
        {
            skipped += group.rows;
        }
        skipped
    }

    /// The next rows, with the watermark of each.
    pub fn next(&mut self) -> Result<Option<(Batch, Int64Array)>, String> {
        let read = loop {
            if let Some(rows) = &mut self.rows {
                match guarded(|| Ok(rows.next()))? {
                    Some(read) => break read,
                    None => self.rows = None,
                }
            }
            let Some(group) = self.groups.pop_front() else {
                return Ok(None);
            };
            self.rows = Some((self.open)(group.number)?);
        };
        let read = read.map_err(|e| format!("it is damaged: {e}"))?;
        let watermark: &TimestampNanosecondArray = column(&read, WATERMARK)?
            .as_primitive_opt::<TimestampNanosecondType>()
            .filter(|times| times.null_count() == 0)
            .ok_or("its column watermark does not have the type of a time")?;
        let watermark = Int64Array::new(watermark.values().clone(), None);
        let schema = &self.ask.schema;
        let mut columns: Vec<Option<ArrayRef>> = vec![None; schema.fields.len()];
        for id in &self.ask.columns {
            let field = schema.field(*id);
            let array = match read.column_by_name(&field.name) {
                None if is_of_origin(schema, *id) => {
                    Arc::new(StringArray::new_null(read.num_rows()))
                }
                None if schema.was_added(*id) => {
                    let absent =
                        new_null_array(&stored_type(field.data_type, field.unit), read.num_rows());
                    of_arrow(&absent, field.data_type, field.unit)?
                }
                _ => of_arrow(column(&read, &field.name)?, field.data_type, field.unit)
                    .map_err(|why| format!("its column {} {why}", field.name))?,
            };
            columns[usize::from(id.0)] = Some(array);
        }
        Ok(Some((
            Batch::new(schema.clone(), read.num_rows(), columns),
            watermark,
        )))
    }
}

/// An input that can be opened for several readers.
trait SharedChunkReader: ChunkReader + Sized {
    fn again(&self) -> std::io::Result<Self>;
}

impl SharedChunkReader for File {
    fn again(&self) -> std::io::Result<File> {
        self.try_clone()
    }
}

impl SharedChunkReader for bytes::Bytes {
    fn again(&self) -> std::io::Result<bytes::Bytes> {
        Ok(self.clone())
    }
}

/// Whether a column contains the origin of tuples, which recordings have only if it was given.
fn is_of_origin(schema: &Schema, id: FieldId) -> bool {
    schema.origin_columns().any(|(known, _)| known == id)
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a ArrayRef, String> {
    batch
        .column_by_name(name)
        .ok_or_else(|| format!("the column {name} is missing"))
}

/// Whether a row group may contain rows within a bound, according to its statistics; true without statistics.
fn may_hold(group: &RowGroupMetaData, schema: &Schema, bound: &ColumnBound) -> bool {
    let field = schema.field(bound.field);
    let Some((low, high)) = range(group, &field.name) else {
        return true;
    };
    // Unsigned numbers are stored as signed ones.
    let (low, high) = match field.data_type {
        DataType::U64 => (
            i128::from(low as i64 as u64),
            i128::from(high as i64 as u64),
        ),
        DataType::I64 => (low, high),
        _ => return true,
    };
    low > high || (low <= bound.high && high >= bound.low)
}

/// Minimum and maximum value of an integer column.
fn range(group: &RowGroupMetaData, name: &str) -> Option<(i128, i128)> {
    let column = group
        .columns()
        .iter()
        .find(|c| c.column_path().parts() == [name])?;
    match column.statistics()? {
        Statistics::Int64(s) => Some(((*s.min_opt()?).into(), (*s.max_opt()?).into())),
        _ => None,
    }
}

fn damaged(error: &parquet::errors::ParquetError) -> String {
    format!("it is damaged, or not a Parquet file: {error}")
}

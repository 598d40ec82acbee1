//! Encodes a page of rows in the requested format.

use std::io::{self, Cursor};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::ArrowError;
use recording::{FileMetadata, TableKind};
use serde_json::{Value, json};
use sinks::{CsvSink, JsonlSink, ParquetSink, ResultHead, Sink};
use tuple::{Batch, Schema};

use crate::job::columns;
use crate::store::history::RowPage;
use crate::store::sqlite::KeptResult;

/// Memory for writing Parquet, in bytes.
const PARQUET_BYTES: usize = 16 << 20;

/// Format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    /// One JSON object with columns and rows.
    Json,
    /// A JSON object per row, as in `netalytics query --format jsonl`.
    Jsonl,
    /// A line per row after a header line.
    Csv,
    /// An Arrow IPC stream.
    Arrow,
    /// A Parquet file.
    Parquet,
}

const FORMATS: [(RowFormat, &str, &str); 5] = [
    (RowFormat::Json, "json", "application/json"),
    (RowFormat::Jsonl, "jsonl", "application/x-ndjson"),
    (RowFormat::Csv, "csv", "text/csv"),
    (
        RowFormat::Arrow,
        "arrow",
        "application/vnd.apache.arrow.stream",
    ),
    (
        RowFormat::Parquet,
        "parquet",
        "application/vnd.apache.parquet",
    ),
];

impl RowFormat {
    /// The format by name, or the first supported one in an `Accept` header; default: JSON.
    pub fn wanted(name: Option<&str>, accept: Option<&str>) -> Option<RowFormat> {
        if let Some(name) = name {
            return FORMATS
                .iter()
                .find(|(_, known, _)| *known == name)
                .map(|(format, ..)| *format);
        }
        let Some(accept) = accept else {
            return Some(RowFormat::Json);
        };
        let types = accept
            .split(',')
            .map(|part| part.split(';').next().unwrap_or_default().trim());
        let find = |wanted: &str| match wanted {
            "*/*" | "application/*" => Some(RowFormat::Json),
            "text/*" => Some(RowFormat::Csv),
            _ => FORMATS
                .iter()
                .find(|(.., known)| *known == wanted)
                .map(|(format, ..)| *format),
        };
        types.into_iter().find_map(find)
    }

    /// Media type.
    pub fn content_type(self) -> &'static str {
        match self {
            RowFormat::Csv => "text/csv; charset=utf-8",
            other => FORMATS
                .iter()
                .find(|(format, ..)| *format == other)
                .map_or("", |(.., name)| name),
        }
    }
}

/// Encodes a page; `matches`: number of matching rows of the selection.
pub fn write(
    page: &RowPage,
    matches: Option<u64>,
    result: &KeptResult,
    format: RowFormat,
) -> io::Result<Vec<u8>> {
    match format {
        RowFormat::Json => Ok(json_page(page, matches, result).to_string().into_bytes()),
        RowFormat::Arrow => arrow(page),
        RowFormat::Jsonl | RowFormat::Csv | RowFormat::Parquet => by_sink(page, result, format),
    }
}

fn json_page(page: &RowPage, matches: Option<u64>, result: &KeptResult) -> Value {
    let rows = page
        .batches
        .iter()
        .flat_map(|batch| (0..batch.rows()).map(|row| columns::row(batch, row)));
    json!({
        "processor": result.processor,
        "columns": result.columns,
        "keys": result.keys,
        "rows": rows.collect::<Vec<_>>(),
        "next": page.next.map(|row| row.to_string()),
        "matches": matches.map(|rows| rows.to_string()),
        "total": result.next_row.to_string(),
        "dropped": result.rows_dropped.to_string(),
    })
}

fn arrow(page: &RowPage) -> io::Result<Vec<u8>> {
    let ids: Vec<_> = page.schema.ids().collect();
    let schema = recording::arrow_schema(&page.schema, &ids, false);
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).map_err(io::Error::other)?;
    for batch in &page.batches {
        writer
            .write(&recording::to_arrow(batch, &ids, &schema, None))
            .map_err(io::Error::other)?;
    }
    writer.into_inner().map_err(io::Error::other)
}

/// Decodes a page in the Arrow format as batches of `schema`.
///
/// # Errors
/// A message if the bytes are invalid.
pub fn read_arrow(bytes: &[u8], schema: &Arc<Schema>) -> Result<Vec<Batch>, String> {
    recording::guarded(|| {
        let reader =
            StreamReader::try_new(Cursor::new(bytes), None).map_err(|why| why.to_string())?;
        let batch = |record: Result<RecordBatch, ArrowError>| {
            recording::of_record(&record.map_err(|why| why.to_string())?, schema)
        };
        reader.map(batch).collect()
    })
}

fn by_sink(page: &RowPage, result: &KeptResult, format: RowFormat) -> io::Result<Vec<u8>> {
    let out = SharedBuffer::default();
    let columns = result
        .columns
        .iter()
        .map(|column| column.name.clone())
        .collect();
    let head = [ResultHead {
        processor: result.processor.clone(),
        columns,
        keys: result.keys,
        ..ResultHead::default()
    }];
    let mut sink: Box<dyn Sink> = match format {
        RowFormat::Csv => Box::new(CsvSink::new(out.clone(), &head)),
        RowFormat::Parquet => {
            let columns = page.schema.ids().collect();
            Box::new(ParquetSink::new(
                out.clone(),
                FileMetadata::of(&result.table, TableKind::Result),
                page.schema.clone(),
                columns,
                PARQUET_BYTES,
            )?)
        }
        _ => Box::new(JsonlSink::new(out.clone(), &head)),
    };
    for batch in &page.batches {
        sink.write(0, batch)?;
    }
    sink.finish()?;
    drop(sink);
    Ok(out.take())
}

/// Buffer of a sink, read after it has ended.
#[derive(Clone, Default)]
struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl io::Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_the_formats() {
        for (format, name, media_type) in FORMATS {
            assert_eq!(RowFormat::wanted(Some(name), None), Some(format));
            assert_eq!(RowFormat::wanted(None, Some(media_type)), Some(format));
            assert!(format.content_type().starts_with(media_type), "{name}");
        }
        assert_eq!(
            RowFormat::wanted(Some("xml"), Some("text/csv")),
            None,
            "a name goes first"
        );
    }

    #[test]
    fn the_first_known_type_of_a_header_is_used() {
        let wanted = |accept| RowFormat::wanted(None, Some(accept));
        assert_eq!(
            wanted("text/html, text/csv;q=0.5, application/json"),
            Some(RowFormat::Csv)
        );
        assert_eq!(wanted("text/*"), Some(RowFormat::Csv));
        assert_eq!(wanted("application/*;q=0.1"), Some(RowFormat::Json));
        assert_eq!(wanted("*/*"), Some(RowFormat::Json));
        assert_eq!(RowFormat::wanted(None, None), Some(RowFormat::Json));
        for unknown in ["text/html", "", "image/png, text/xml"] {
            assert_eq!(wanted(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn damaged_arrow_streams_are_errors() {
        let schema = Arc::new(Schema::of_parser("t", 1, "test", &[], None, None));
        for bytes in [&b""[..], b"PAR1", &[0xff; 64]] {
            assert!(read_arrow(bytes, &schema).is_err(), "{bytes:?}");
        }
    }
}

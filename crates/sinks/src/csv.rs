//! CSV (RFC 4180): one table with a header line, values as in JSON lines, null as an empty cell.
//!
//! Several results share the table: its first column, `processor`, names the result of a row; the other columns are the
//! union of all results' columns, with empty cells for columns that a result does not have.

use std::io::{self, Write};

use tuple::Batch;

use crate::cells::{self, ColumnCells};
use crate::table::escape;
use crate::{ResultHead, Sink};

/// Writes CSV.
pub struct CsvSink<W: Write> {
    out: ::csv::Writer<W>,
    /// With several results: their names.
    processors: Option<Vec<String>>,
    columns: Vec<String>,
    header_written: bool,
    values: ControlCharacters,
}

/// Treatment of values with terminal control characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ControlCharacters {
    /// Unchanged.
    Exact,
    /// Made visible.
    Visible,
}

impl<W: Write> CsvSink<W> {
    /// A writer of the results announced by `heads`.
    pub fn new(out: W, heads: &[ResultHead]) -> Self {
        CsvSink::with(out, heads, ControlCharacters::Exact)
    }

    /// For a terminal: control characters, and others with an effect on it, are made visible, as in tables.
    pub fn for_eyes(out: W, heads: &[ResultHead]) -> Self {
        CsvSink::with(out, heads, ControlCharacters::Visible)
    }

    fn with(out: W, heads: &[ResultHead], values: ControlCharacters) -> Self {
        let name = |head: &ResultHead| head.processor.clone().unwrap_or_default();
        let processors = (heads.len() > 1).then(|| heads.iter().map(name).collect());
        let out = ::csv::WriterBuilder::new()
            .terminator(::csv::Terminator::CRLF)
            .from_writer(out);
        CsvSink {
            out,
            processors,
            columns: union(heads),
            header_written: false,
            values,
        }
    }

    fn write_header(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.header_written, true) {
            let first = self.processors.is_some().then_some("processor");
            let names = first
                .into_iter()
                .chain(self.columns.iter().map(String::as_str));
            self.out.write_record(names).map_err(io_error)?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for CsvSink<W> {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        if !self.header_written && self.processors.is_none() {
            self.columns = cells::names(batch);
        }
        self.write_header()?;
        let column = |name: &String| ColumnCells::of(batch, batch.schema().find(name)?);
        let cells: Vec<Option<ColumnCells<'_>>> = self.columns.iter().map(column).collect();
        let mut text = Vec::new();
        for row in 0..batch.rows() {
            if let Some(processors) = &self.processors {
                self.out
                    .write_field(&processors[result])
                    .map_err(io_error)?;
            }
            for cell in &cells {
                text.clear();
                if let Some(cell) = cell.filter(|c| !c.is_null(row)) {
                    cell.push(row, &mut text);
                }
                match self.values {
                    ControlCharacters::Exact => self.out.write_field(&text),
                    ControlCharacters::Visible => self
                        .out
                        .write_field(escape(&String::from_utf8_lossy(&text))),
                }
                .map_err(io_error)?;
            }
            self.out.write_record(None::<&[u8]>).map_err(io_error)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.columns.is_empty() {
            self.write_header()?;
        }
        self.out.flush()
    }
}

/// Columns of all results without duplicates, in order of first appearance.
fn union(heads: &[ResultHead]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in heads.iter().flat_map(|h| &h.columns) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// Restores the writer's error with its kind, which matters for a closed pipe.
fn io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{self, SampleRow};

    fn print(heads: &[ResultHead], batches: &[(usize, Batch)]) -> String {
        let mut out = Vec::new();
        let mut sink = CsvSink::new(&mut out, heads);
        for (result, batch) in batches {
            sink.write(*result, batch)
                .expect("writing to memory cannot fail");
        }
        sink.finish().expect("writing to memory cannot fail");
        drop(sink);
        String::from_utf8(out).expect("CSV of text is text")
    }

    fn check(rows: &[SampleRow], expected: &str) {
        let batch = samples::batch(rows);
        let text = print(&[samples::head(None, &batch)], &[(0, batch)]);
        assert_eq!(text.replace("\r\n", "\n"), expected);
    }

    const HEADER: &str = "id,ts,client_ip,url,hit,status,response_time_ns,avg_ns,hist\n";

    #[test]
    fn every_type() {
        let row = "00000000000000ff,1795291157229334000,10.0.0.1,\"/a?\"\"b\"\"\",true,200,-5,1.5,\"[[1.5,2]]\"\n";
        check(
            &[SampleRow::sample(), SampleRow::default()],
            &format!("{HEADER}{row},,,,,,,,\n"),
        );
        check(&[], HEADER);
    }

    #[test]
    fn several_results_share_one_table() {
        let a = samples::result(&[("/a", 3)]);
        let b = samples::batch(&[SampleRow::sample()]);
        let heads = [
            samples::head(Some("top-k"), &a),
            samples::head(Some("group"), &b),
        ];
        let text = print(&heads, &[(0, a.clone()), (1, b), (0, a)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "processor,window_start,window_end,url,count,approximate,error_bound,id,ts,client_ip,hit,status,response_time_ns,avg_ns,hist"
        );
        assert_eq!(
            lines[1],
            "top-k,1795291150000000000,1795291160000000000,/a,3,false,,,,,,,,,"
        );
        assert!(
            lines[2].starts_with("group,,,\"/a?\"\"b\"\"\",,,,00000000000000ff,"),
            "{text}"
        );
        assert_eq!(lines[3], lines[1]);
    }

    /// Characters are made visible on a terminal, and unchanged in a file.
    #[test]
    fn for_eyes_nothing_acts() {
        let hostile = "\0\x1b[31m\u{9b}31m\u{202e}\u{200b}ok";
        let batch = samples::batch(&[SampleRow {
            url: Some(hostile.into()),
            ..SampleRow::default()
        }]);
        let print = |make: fn(Vec<u8>, &[ResultHead]) -> CsvSink<Vec<u8>>| {
            let mut sink = make(Vec::new(), &[samples::head(None, &batch)]);
            sink.write(0, &batch)
                .and_then(|()| sink.finish())
                .expect("writing to memory cannot fail");
            let bytes = sink.out.into_inner().expect("it has been flushed");
            String::from_utf8(bytes).expect("CSV of text is text")
        };
        assert!(print(CsvSink::for_eyes).contains(r"\x00\x1b[31m\x9b31m\u{202e}\u{200b}ok"));
        assert!(print(CsvSink::new).contains(hostile));
    }

    proptest! {
        #[test]
        fn reads_back_to_the_same(rows in proptest::collection::vec(samples::any_row(), 0..20)) {
            let batch = samples::batch(&rows);
            let text = print(&[samples::head(None, &batch)], &[(0, batch)]);
            let mut reader = ::csv::Reader::from_reader(text.as_bytes());
            let records: Vec<::csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("good CSV");
            prop_assert_eq!(records.len(), rows.len());
            for (record, row) in records.iter().zip(&rows) {
                prop_assert_eq!(&record[3], row.url.as_deref().unwrap_or(""));
                prop_assert_eq!(record[5].parse().ok(), row.status);
            }
        }
    }
}

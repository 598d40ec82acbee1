//! Parquet: one file of one result into any writer, or a data set of all of them in a folder.

use std::io::{self, Write};
use std::sync::Arc;

use recording::{CaptureFacts, Head, Kept, Kind, Recorder, TableWriter};
use tuple::{Batch, FieldId, Schema};

use crate::Sink;

/// Writes one result as one Parquet file.
pub struct Parquet<W: Write + Send> {
    /// Until it has ended.
    writer: Option<TableWriter<W>>,
    head: Head,
}

impl<W: Write + Send> Parquet<W> {
    /// A file of `columns` of `schema` that says `head` of itself; writing it may take so much `memory`.
    ///
    /// # Errors
    /// Whatever the writer behind it says.
    pub fn new(
        out: W,
        head: Head,
        schema: Arc<Schema>,
        columns: Vec<FieldId>,
        memory: usize,
    ) -> io::Result<Self> {
        // What a query prints has the query's columns and no other.
        let writer = TableWriter::new(out, Kind::Result, schema, columns)?.with_group_memory(memory);
        Ok(Parquet { writer: Some(writer), head })
    }
}

impl<W: Write + Send> Sink for Parquet<W> {
    fn write(&mut self, _: usize, batch: &Batch) -> io::Result<()> {
        if let Some(writer) = &mut self.writer {
            writer.write(batch, i64::MIN)?;
        }
        Ok(())
    }

    /// Does nothing: a row group is as large as it can be.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        match self.writer.take() {
            Some(writer) => writer.finish(&self.head)?.flush(),
            None => Ok(()),
        }
    }

    fn learn_capture(&mut self, facts: &CaptureFacts) {
        self.head.capture = facts.clone();
    }
}

/// Writes a data set; the results are its tables, by their places.
pub struct DataSet {
    recorder: Recorder,
    /// How far event time has come.
    watermark_ns: i64,
}

impl DataSet {
    /// Writes to the tables of `recorder`.
    #[must_use]
    pub fn new(recorder: Recorder) -> DataSet {
        DataSet { recorder, watermark_ns: i64::MIN }
    }
}

impl Sink for DataSet {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        self.recorder.write(result, batch, self.watermark_ns)
    }

    /// Does nothing: rows are safe when their row group is full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.recorder.finish()
    }

    fn advance(&mut self, watermark_ns: i64) -> io::Result<()> {
        self.watermark_ns = watermark_ns;
        self.recorder.advance(watermark_ns)
    }

    fn learn_capture(&mut self, facts: &CaptureFacts) {
        self.recorder.learn(facts);
    }

    fn kept(&self) -> Option<Kept> {
        Some(self.recorder.kept())
    }
}

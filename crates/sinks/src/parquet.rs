//! Parquet: one file of one result to any writer, or a data set of all results in a folder. Rows are written when their
//! row group is full, or after `GROUP_AGE`, which limits the loss after a kill.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recording::{
    CaptureFacts, FileMetadata, PendingRows, Recorder, RecordingTotals, TableKind, TableWriter,
};
use tuple::{Batch, FieldId, Schema};

use crate::Sink;

/// Maximum age of a row group; the interval of [`Sink::flush`] is added.
const GROUP_AGE: Duration = Duration::from_secs(8);

/// Time of the first row in the row group.
#[derive(Default)]
struct RowGroupAge(Option<Instant>);

impl RowGroupAge {
    /// Notes the arrival of rows.
    fn rows(&mut self) {
        self.0.get_or_insert_with(Instant::now);
    }

    /// Whether the row group must be ended; resets the age.
    fn is_over(&mut self) -> bool {
        let is_over = self.0.is_some_and(|since| since.elapsed() >= GROUP_AGE);
        if is_over {
            self.0 = None;
        }
        is_over
    }
}

/// Writes one result as one Parquet file.
pub struct ParquetSink<W: Write + Send> {
    /// `None` after the end.
    writer: Option<TableWriter<W>>,
    pending: PendingRows,
    head: FileMetadata,
    age: RowGroupAge,
    /// The file behind `W`, if it must be readable after every row group.
    file: Option<File>,
}

impl<W: Write + Send> ParquetSink<W> {
    /// A file with `columns` of `schema` and the header `head`; `memory`: limit for writing, in bytes.
    ///
    /// # Errors
    /// `io::Error` of the writer.
    pub fn new(
        out: W,
        head: FileMetadata,
        schema: Arc<Schema>,
        columns: Vec<FieldId>,
        memory: usize,
    ) -> io::Result<Self> {
        // Contains exactly the query's columns.
        let writer =
            TableWriter::new(out, TableKind::Result, schema, columns)?.with_group_memory(memory);
        let pending = PendingRows::default();
        let age = RowGroupAge::default();
        Ok(ParquetSink {
            writer: Some(writer),
            pending,
            head,
            age,
            file: None,
        })
    }

    /// `file`: the regular file behind the writer, from its start. After every row group a footer is written, which the
    /// next row group overwrites, so that the file is readable after a kill.
    #[must_use]
    pub fn whole_after_each_group(self, file: Option<File>) -> Self {
        ParquetSink { file, ..self }
    }

    /// Writes the rows that wait. Returns whether a row group ended.
    fn write_pending(&mut self) -> io::Result<bool> {
        let Some(writer) = &mut self.writer else {
            return Ok(false);
        };
        self.pending.take().map_or(Ok(false), |(rows, watermarks)| {
            writer.write(&rows, &watermarks)
        })
    }

    /// Writes the footer after a row group.
    fn put_end(&mut self) -> io::Result<()> {
        let (Some(file), Some(writer)) = (&self.file, &self.writer) else {
            return Ok(());
        };
        let Some((at, footer)) = writer.end_so_far(&self.head)? else {
            return Ok(());
        };
        file.write_all_at(&footer, at)?;
        file.set_len(at + footer.len() as u64)
    }
}

impl<W: Write + Send> Sink for ParquetSink<W> {
    fn write(&mut self, _: usize, batch: &Batch) -> io::Result<()> {
        self.age.rows();
        if self.pending.push(batch, i64::MIN) && self.write_pending()? {
            self.age = RowGroupAge::default();
            self.put_end()?;
        }
        Ok(())
    }

    /// Ends an old row group.
    fn flush(&mut self) -> io::Result<()> {
        if !self.age.is_over() {
            return Ok(());
        }
        let mut ended = self.write_pending()?;
        if let Some(writer) = &mut self.writer {
            ended |= writer.end_group()?;
        }
        if ended { self.put_end() } else { Ok(()) }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_pending()?;
        let Some(mut writer) = self.writer.take() else {
            return Ok(());
        };
        if let Some(file) = &self.file {
            // The previous footer is overwritten, and may have been longer.
            writer.end_group()?;
            file.set_len(writer.written())?;
        }
        writer.finish(&self.head)?.flush()
    }

    fn learn_capture(&mut self, facts: &CaptureFacts) {
        self.head.capture = facts.clone();
    }
}

/// Writes a data set with a table per result.
pub struct DataSetSink {
    recorder: Recorder,
    /// Current event time.
    watermark_ns: i64,
    age: RowGroupAge,
}

impl DataSetSink {
    /// Writes the tables of `recorder`.
    #[must_use]
    pub fn new(recorder: Recorder) -> DataSetSink {
        DataSetSink {
            recorder,
            watermark_ns: i64::MIN,
            age: RowGroupAge::default(),
        }
    }
}

impl Sink for DataSetSink {
    fn write(&mut self, result: usize, batch: &Batch) -> io::Result<()> {
        self.age.rows();
        self.recorder.write(result, batch, self.watermark_ns)
    }

    /// Ends old row groups.
    fn flush(&mut self) -> io::Result<()> {
        if self.age.is_over() {
            self.recorder.end_groups()
        } else {
            Ok(())
        }
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

    fn kept(&self) -> Option<RecordingTotals> {
        Some(self.recorder.kept())
    }
}

//! Reads one table's files of one run in sequence.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{Array, Int64Array, UInt64Array};
use tuple::Batch;

use crate::data_set::{ReadProblem, TableFile};
use crate::linked_tables::{ID, LinkedTable, RowSource};
use crate::reader::{ColumnBound, FileReader, ReadRequest};

/// Amounts read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplayCounters {
    /// Files opened.
    pub files: u64,
    /// Bytes of the files on disk.
    pub bytes: u64,
    /// Rows read.
    pub rows: u64,
    /// Rows in skipped row groups, which contain no required rows.
    pub rows_skipped: u64,
}

/// A reader of one table's files.
pub struct TableChain {
    /// Layout of the table.
    pub layout: LinkedTable,
    ask: ReadRequest,
    files: VecDeque<Arc<TableFile>>,
    reader: Option<(FileReader, Arc<TableFile>)>,
    /// Rows read but not yet taken, with the watermark of each row.
    ready: Option<(Batch, Int64Array)>,
}

impl TableChain {
    /// Reads these files for the columns of `layout`.
    pub fn new(
        layout: LinkedTable,
        bounds: Vec<ColumnBound>,
        files: VecDeque<Arc<TableFile>>,
    ) -> TableChain {
        let ask = ReadRequest {
            schema: layout.schema.clone(),
            columns: layout.columns.clone(),
            bounds,
        };
        TableChain {
            layout,
            ask,
            files,
            reader: None,
            ready: None,
        }
    }

    /// The next rows, if already read.
    pub fn ready(&self) -> Option<&(Batch, Int64Array)> {
        self.ready.as_ref()
    }

    /// The tuple numbers of these rows, if the table has them.
    pub fn ids(&self) -> &[u64] {
        let linked = self.ready.as_ref().filter(|_| self.layout.name.is_some());
        linked.map_or(&[], |(batch, _)| batch.u64(ID).values())
    }

    /// Whether all rows have been taken.
    pub fn is_over(&self) -> bool {
        self.ready.is_none() && self.reader.is_none() && self.files.is_empty()
    }

    /// A lower bound of the next watermark; `None` at the end.
    pub fn begin(&self) -> Option<i64> {
        match (&self.ready, &self.reader) {
            (Some((_, watermarks)), _) => Some(watermarks.value(0)),
            (None, Some(_)) => Some(i64::MIN),
            (None, None) => self
                .files
                .front()
                .map(|file| file.begin.unwrap_or(i64::MIN)),
        }
    }

    /// Reads the next batch, or opens the next file.
    pub fn read(&mut self, counters: &mut ReplayCounters) -> Result<(), ReadProblem> {
        let Some((reader, _)) = &mut self.reader else {
            let Some(entry) = self.files.pop_front() else {
                return Ok(());
            };
            counters.files += 1;
            counters.bytes += entry.path.metadata().map_or(0, |m| m.len());
            let opened = FileReader::open(&entry.path, entry.journal.as_deref(), self.ask.clone());
            let reader = opened.map_err(|message| ReadProblem::new(&entry.path, message))?;
            self.count_skipped(
                reader.as_ref().map_or(0, |reader| reader.rows_skipped),
                counters,
            );
            self.reader = reader.map(|reader| (reader, entry));
            return Ok(());
        };
        match reader.next() {
            Ok(Some((batch, _))) if batch.rows() == 0 => {}
            Ok(Some((batch, _)))
                if self.layout.name.is_some() && batch.u64(ID).null_count() > 0 =>
            {
                return Err(self.give_up("it is damaged: a tuple has no number"));
            }
            Ok(Some(read)) => self.ready = Some(read),
            Ok(None) => self.reader = None,
            Err(message) => return Err(self.give_up(&message)),
        }
        Ok(())
    }

    /// Counts skipped rows; a tuple is counted once, in the first table.
    fn count_skipped(&self, rows: u64, counters: &mut ReplayCounters) {
        counters.rows_skipped += if self.layout.is_first { rows } else { 0 };
    }

    fn give_up(&mut self, message: &str) -> ReadProblem {
        let path = self
            .reader
            .take()
            .map(|(_, entry)| entry.path.clone())
            .unwrap_or_default();
        ReadProblem::new(&path, message)
    }

    /// Takes the first `n` rows.
    pub fn take(&mut self, n: usize) -> Option<Batch> {
        let (batch, watermarks) = self.ready.take()?;
        let rest = batch.rows() - n;
        if rest > 0 {
            self.ready = Some((batch.slice(n, rest), watermarks.slice(n, rest)));
        }
        Some(batch.slice(0, n))
    }

    /// Skips rows of tuples with a number below `id`.
    pub fn skip_below(&mut self, id: u64, counters: &mut ReplayCounters) {
        let n = self.ids().iter().take_while(|number| **number < id).count();
        if n > 0 {
            self.take(n);
        }
        if let (None, Some((reader, _))) = (&self.ready, &mut self.reader) {
            let skipped = reader.skip_below(id);
            self.count_skipped(skipped, counters);
        }
    }

    /// Number of blocks of each available tuple, if stored in this table.
    pub fn lengths(&self) -> Option<UInt64Array> {
        let RowSource::Fields(_, Some(_)) = self.layout.source else {
            return None;
        };
        Some(
            self.ready
                .as_ref()?
                .0
                .u64(*self.layout.columns.last()?)
                .clone(),
        )
    }
}

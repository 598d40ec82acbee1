//! Writes a data set: for each table one file after the other. A file ends at a size or at a time, by event time, so
//! that a capture file results in the same files as the live traffic. A file also ends at a number of row groups,
//! because each takes memory until the file's end. Rows are redacted, divided into tables, and encoded many at once.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tuple::{Batch, FieldId, Redactor, Schema};

use crate::disk;
use crate::file_metadata::{CaptureFacts, FileMetadata, TableKind};
use crate::growing_file::{FileOnDisk, FileSize, GrowingTableFile, recover};
use crate::layout::{TableListing, names};
use crate::linked_tables::{LinkedTable, first_id, layouts};
use crate::pending_rows::PendingRows;
use crate::table::GROUP_MEMORY;

/// Maximum row groups of a file: nine hours of a recording with little traffic.
const GROUPS_MAX: usize = 4096;

/// Limits at which the next file is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingRotation {
    /// Interval in nanoseconds; a file ends at its multiples since the epoch.
    pub every_ns: Option<i64>,
    /// At approximately this size; memory for a file's footer grows with the file.
    pub bytes: u64,
}

impl Default for RecordingRotation {
    fn default() -> RecordingRotation {
        RecordingRotation {
            every_ns: None,
            bytes: 1 << 30,
        }
    }
}

/// Amounts recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingTotals {
    /// Number of complete files.
    pub files: u64,
    /// Rows of complete files.
    pub rows: u64,
    /// Bytes of complete files.
    pub bytes: u64,
    /// Files that could not be completed: their row groups are on disk, but only this program can read them.
    pub files_unfinished: u64,
    /// Rows of unfinished files.
    pub rows_unfinished: u64,
    /// Number of rows that could not be written.
    pub rows_lost: u64,
    /// Unfinished files of an earlier run that were completed.
    pub files_recovered: u64,
    /// Rows of recovered files.
    pub rows_recovered: u64,
}

/// A recorder of a data set.
pub struct Recorder {
    folder: PathBuf,
    rotation: RecordingRotation,
    tables: Vec<OpenTableSet>,
    kept: RecordingTotals,
    /// Memory limit for writing all tables.
    memory: Option<usize>,
    redactor: Option<Redactor>,
}

/// A table with its growing file; for divided tuples, all of their tables.
struct OpenTableSet {
    tables: Vec<OpenTable>,
    /// Number of the next tuple.
    next_id: u64,
    /// Tuples not yet divided into tables.
    pending: PendingRows,
    /// Tuples in the growing files, and those that wait for them.
    rows: u64,
    /// The period of the current files.
    stretch: Option<i64>,
    has_files: bool,
}

struct OpenTable {
    head: FileMetadata,
    layout: LinkedTable,
    file: Option<GrowingTableFile>,
}

impl Recorder {
    /// Opens the data set in `folder`, creating it if missing. Existing files are kept, and unfinished ones are
    /// completed.
    ///
    /// # Errors
    /// If the folder cannot be created or read.
    pub fn create(folder: &Path, rotation: RecordingRotation) -> io::Result<Recorder> {
        disk::create_folder(folder)?;
        let mut kept = RecordingTotals::default();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_folder = entry.file_type()?.is_dir();
            let Some(table) = name.to_str().filter(|_| is_folder) else {
                continue;
            };
            let listing = TableListing::of(&entry.path(), table)?;
            for number in listing.growing.into_iter().chain(listing.journals) {
                if let Some(size) = recover(&names(&entry.path(), table, number))? {
                    kept.files_recovered += 1;
                    kept.rows_recovered += size.rows;
                }
            }
        }
        let folder = folder.to_owned();
        Ok(Recorder {
            folder,
            rotation,
            tables: Vec::new(),
            kept,
            memory: None,
            redactor: None,
        })
    }

    /// Limits the memory for writing all tables, by using smaller row groups.
    #[must_use]
    pub fn within(self, memory: usize) -> Recorder {
        Recorder {
            memory: Some(memory),
            ..self
        }
    }

    /// Redacts all rows before they are written.
    #[must_use]
    pub fn redacting(self, redactor: Redactor) -> Recorder {
        Recorder {
            redactor: Some(redactor),
            ..self
        }
    }

    /// Adds a table, identified by its index. Tuples with a schema of several parts are written to the tables of
    /// these parts.
    pub fn add_table(&mut self, head: FileMetadata, schema: &Arc<Schema>, columns: &[FieldId]) {
        let parts = match head.kind {
            TableKind::Tuples => layouts(schema, columns),
            TableKind::Result => vec![LinkedTable::whole(schema, columns)],
        };
        let next_id = first_id(head.run);
        let table = |layout: LinkedTable| {
            let name = layout
                .name
                .map_or_else(|| head.table.clone(), str::to_owned);
            OpenTable {
                head: FileMetadata {
                    table: name,
                    ..head.clone()
                },
                layout,
                file: None,
            }
        };
        let tables = parts.into_iter().map(table).collect();
        let pending = PendingRows::default();
        self.tables.push(OpenTableSet {
            tables,
            next_id,
            pending,
            rows: 0,
            stretch: None,
            has_files: false,
        });
    }

    /// Updates the facts about the packets.
    pub fn learn(&mut self, facts: &CaptureFacts) {
        let tables = self.tables.iter_mut().flat_map(|open| &mut open.tables);
        tables.for_each(|table| table.head.capture = facts.clone());
    }

    /// Writes rows of a table, released at event time `watermark_ns`.
    ///
    /// # Errors
    /// If writing fails. Finished files are kept, unfinished ones are recovered as far as possible, and later rows
    /// are rejected.
    pub fn write(&mut self, table: usize, batch: &Batch, watermark_ns: i64) -> io::Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let stretch = self.stretch(watermark_ns);
        let n_tables = self
            .tables
            .iter()
            .map(|open| open.tables.len())
            .sum::<usize>();
        let group_memory = self
            .memory
            .map_or(GROUP_MEMORY, |memory| memory / n_tables.max(1));
        let open = &mut self.tables[table];
        open.stretch = open.stretch.max(stretch);
        open.rows += batch.rows() as u64;
        let written = open.begin(&self.folder, group_memory).and_then(|()| {
            let is_full = open.pending.push(batch, watermark_ns);
            if is_full {
                open.write_pending(self.redactor.as_ref())
            } else {
                Ok(())
            }
        });
        let is_full = open.bytes() >= self.rotation.bytes || open.groups() >= GROUPS_MAX;
        match written {
            Ok(()) if is_full => self.end_files(table),
            Ok(()) => Ok(()),
            Err(error) => {
                self.salvage();
                Err(error)
            }
        }
    }

    /// Ends all row groups: all rows so far then survive a kill.
    ///
    /// # Errors
    /// As [`Recorder::write`].
    pub fn end_groups(&mut self) -> io::Result<()> {
        let redactor = self.redactor.as_ref();
        let ended = self.tables.iter_mut().try_for_each(|open| {
            open.write_pending(redactor)?;
            open.end_groups()
        });
        if ended.is_err() {
            self.salvage();
        }
        ended
    }

    /// Advances event time to `watermark_ns` and ends files with a period that has passed.
    ///
    /// # Errors
    /// As [`Recorder::write`].
    pub fn advance(&mut self, watermark_ns: i64) -> io::Result<()> {
        let stretch = self.stretch(watermark_ns);
        for table in 0..self.tables.len() {
            if self.tables[table].stretch < stretch {
                self.end_files(table)?;
            }
        }
        Ok(())
    }

    /// Ends all files. A table without rows gets an empty file, so that readers find it.
    ///
    /// # Errors
    /// As [`Recorder::write`].
    pub fn finish(&mut self) -> io::Result<()> {
        for table in 0..self.tables.len() {
            if !self.tables[table].has_files {
                self.tables[table].begin(&self.folder, GROUP_MEMORY)?;
            }
            self.end_files(table)?;
        }
        Ok(())
    }

    /// Amounts recorded so far.
    #[must_use]
    pub fn kept(&self) -> RecordingTotals {
        self.kept
    }

    fn stretch(&self, watermark_ns: i64) -> Option<i64> {
        self.rotation
            .every_ns
            .map(|ns| watermark_ns.div_euclid(ns.max(1)))
    }

    fn end_files(&mut self, table: usize) -> io::Result<()> {
        let open = &mut self.tables[table];
        let result = open
            .write_pending(self.redactor.as_ref())
            .and_then(|()| open.end(&mut self.kept));
        if result.is_err() {
            self.salvage();
        }
        result
    }

    fn salvage(&mut self) {
        self.tables
            .iter_mut()
            .for_each(|open| open.salvage(&mut self.kept));
    }
}

impl OpenTableSet {
    /// Creates all missing files.
    fn begin(&mut self, folder: &Path, group_memory: usize) -> io::Result<()> {
        for OpenTable { head, layout, file } in &mut self.tables {
            if file.is_none() {
                let schema = layout.schema.clone();
                let columns = layout.columns.clone();
                *file = Some(GrowingTableFile::create(
                    &folder.join(&head.table),
                    head,
                    schema,
                    columns,
                    group_memory,
                )?);
            }
        }
        self.has_files = true;
        Ok(())
    }

    /// Writes the rows that wait.
    fn write_pending(&mut self, redactor: Option<&Redactor>) -> io::Result<()> {
        let Some((batch, watermarks)) = self.pending.take() else {
            return Ok(());
        };
        let batch = redactor.map_or_else(|| batch.clone(), |redactor| redactor.redact(&batch));
        let mut has_ended = false;
        for OpenTable { head, layout, file } in &mut self.tables {
            let Some(file) = file else { continue };
            for (rows, watermarks) in layout.rows(&batch, &watermarks, self.next_id) {
                has_ended |= file.write(&rows, &watermarks, head)? && layout.is_row_by_row();
            }
        }
        self.next_id = self.next_id.wrapping_add(batch.rows() as u64);
        if has_ended && self.tables.len() > 1 {
            // A kill then loses the same tuples in all tables.
            self.end_groups()?;
        }
        Ok(())
    }

    fn end_groups(&mut self) -> io::Result<()> {
        self.tables
            .iter_mut()
            .try_for_each(|OpenTable { head, file, .. }| {
                file.as_mut().map_or(Ok(()), |file| file.end_group(head))
            })
    }

    fn groups(&self) -> usize {
        self.tables
            .iter()
            .filter_map(|table| table.file.as_ref())
            .map(GrowingTableFile::groups)
            .max()
            .unwrap_or(0)
    }

    /// Approximate size in bytes so far.
    fn bytes(&self) -> u64 {
        self.tables
            .iter()
            .filter_map(|table| table.file.as_ref())
            .map(GrowingTableFile::bytes)
            .sum()
    }

    /// Ends all files. Returns the first error.
    fn end(&mut self, kept: &mut RecordingTotals) -> io::Result<()> {
        let mut result = Ok(());
        self.close(kept, |file, head| {
            let (size, ended) = file.finish(head);
            if result.is_ok() {
                result = ended;
            }
            size
        });
        result
    }

    /// After an error: recovers as much as possible.
    fn salvage(&mut self, kept: &mut RecordingTotals) {
        self.close(kept, |file, _| file.salvage());
    }

    /// Closes all files. A tuple is counted as recorded if all its tables contain it, and as finished if all these
    /// files are finished.
    fn close(
        &mut self,
        kept: &mut RecordingTotals,
        mut close: impl FnMut(GrowingTableFile, &FileMetadata) -> FileOnDisk,
    ) {
        let given = std::mem::take(&mut self.rows);
        self.pending = PendingRows::default();
        let mut rows = given;
        let mut all_finished = true;
        for OpenTable { head, layout, file } in &mut self.tables {
            let size = match file
                .take()
                .map_or(FileOnDisk::Nothing, |file| close(file, head))
            {
                FileOnDisk::Finished(size) => {
                    kept.files += 1;
                    kept.bytes += size.bytes;
                    size
                }
                FileOnDisk::Unfinished(size) => {
                    kept.files_unfinished += 1;
                    all_finished = false;
                    size
                }
                FileOnDisk::Nothing => FileSize::default(),
            };
            if layout.is_row_by_row() {
                rows = rows.min(size.rows);
            }
        }
        if all_finished {
            kept.rows += rows
        } else {
            kept.rows_unfinished += rows
        }
        kept.rows_lost += given - rows;
    }
}

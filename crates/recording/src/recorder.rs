//! Writes a data set: for each table one file after the other. A file ends when it is large enough or its time is over,
//! by event time, so that a capture that is read makes the files that the same traffic made live.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tuple::{Batch, FieldId, Schema};

use crate::growing::{Growing, Size, recover};
use crate::head::{CaptureFacts, Head};
use crate::layout::{Listing, names};

/// When a file ends and the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// At every multiple of so many nanoseconds since the epoch.
    pub every_ns: Option<i64>,
    /// At so many bytes, about: memory for a file's footer grows with the file.
    pub bytes: u64,
}

impl Default for Rotation {
    fn default() -> Rotation {
        Rotation { every_ns: None, bytes: 1 << 30 }
    }
}

/// What has been kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Files that are complete.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Rows that were given and could not be kept.
    pub rows_lost: u64,
    /// Files that an earlier run left behind unfinished and that were given their end.
    pub files_recovered: u64,
    /// Their rows.
    pub rows_recovered: u64,
}

/// See the module's text.
pub struct Recorder {
    folder: PathBuf,
    rotation: Rotation,
    tables: Vec<Open>,
    kept: Kept,
}

/// A table and its file that grows.
struct Open {
    head: Head,
    schema: Arc<Schema>,
    columns: Vec<FieldId>,
    file: Option<Growing>,
    /// Which stretch of time the file is of.
    stretch: Option<i64>,
    has_files: bool,
}

impl Recorder {
    /// A data set in `folder`, which is made if it is missing; what it holds already stays, and files there that were left
    /// behind unfinished get their end.
    ///
    /// # Errors
    /// When the folder cannot be made or read.
    pub fn create(folder: &Path, rotation: Rotation) -> io::Result<Recorder> {
        std::fs::create_dir_all(folder)?;
        let mut kept = Kept::default();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(table) = name.to_str().filter(|_| entry.path().is_dir()) else { continue };
            let listing = Listing::of(&entry.path(), table)?;
            for number in listing.growing.into_iter().chain(listing.journals) {
                if let Some(size) = recover(&names(&entry.path(), table, number))? {
                    kept.files_recovered += 1;
                    kept.rows_recovered += size.rows;
                }
            }
        }
        Ok(Recorder { folder: folder.to_owned(), rotation, tables: Vec::new(), kept })
    }

    /// Adds a table; tables are known by their places. A parser with several tables adds each, with `id` in all of them.
    pub fn add_table(&mut self, head: Head, schema: Arc<Schema>, columns: Vec<FieldId>) {
        self.tables.push(Open { head, schema, columns, file: None, stretch: None, has_files: false });
    }

    /// What is known of the packets by now.
    pub fn learn(&mut self, facts: &CaptureFacts) {
        self.tables.iter_mut().for_each(|table| table.head.capture = facts.clone());
    }

    /// Takes rows of a table that were released when event time had come to `watermark_ns`.
    ///
    /// # Errors
    /// When they cannot be written: what is finished stays, of the rest what can be saved is, and nothing more is taken.
    pub fn write(&mut self, table: usize, batch: &Batch, watermark_ns: i64) -> io::Result<()> {
        if batch.rows() == 0 {
            return Ok(());
        }
        let stretch = self.stretch(watermark_ns);
        let path = self.folder.join(&self.tables[table].head.table);
        let open = &mut self.tables[table];
        let file = match &mut open.file {
            Some(file) => Ok(file),
            none => Growing::create(&path, &open.head, open.schema.clone(), open.columns.clone())
                .map(|file| none.insert(file)),
        };
        open.has_files = true;
        open.stretch = open.stretch.max(stretch);
        let written = match file {
            Ok(file) => file.write(batch, watermark_ns, &open.head),
            Err(error) => {
                self.kept.rows_lost += batch.rows() as u64;
                Err(error)
            }
        };
        let is_full = self.tables[table].file.as_ref().is_some_and(|f| f.bytes() >= self.rotation.bytes);
        match written {
            Ok(()) if is_full => self.end_file(table),
            Ok(()) => Ok(()),
            Err(error) => {
                self.salvage();
                Err(error)
            }
        }
    }

    /// Event time has come to `watermark_ns`: files whose time is over end.
    ///
    /// # Errors
    /// As [`Recorder::write`].
    pub fn advance(&mut self, watermark_ns: i64) -> io::Result<()> {
        let stretch = self.stretch(watermark_ns);
        for table in 0..self.tables.len() {
            if self.tables[table].file.is_some() && self.tables[table].stretch < stretch {
                self.end_file(table)?;
            }
        }
        Ok(())
    }

    /// Ends all files. A table without a row gets a file without rows, so that readers find it.
    ///
    /// # Errors
    /// As [`Recorder::write`].
    pub fn finish(&mut self) -> io::Result<()> {
        for table in 0..self.tables.len() {
            let open = &mut self.tables[table];
            if !open.has_files {
                let path = self.folder.join(&open.head.table);
                open.file =
                    Some(Growing::create(&path, &open.head, open.schema.clone(), open.columns.clone())?);
                open.has_files = true;
            }
            if open.file.is_some() {
                self.end_file(table)?;
            }
        }
        Ok(())
    }

    /// What has been kept so far.
    #[must_use]
    pub fn kept(&self) -> Kept {
        self.kept
    }

    fn stretch(&self, watermark_ns: i64) -> Option<i64> {
        self.rotation.every_ns.map(|ns| watermark_ns.div_euclid(ns.max(1)))
    }

    fn end_file(&mut self, table: usize) -> io::Result<()> {
        let open = &mut self.tables[table];
        let Some(file) = open.file.take() else { return Ok(()) };
        let rows = file.rows();
        let (size, result) = file.finish(&open.head);
        self.count(size, rows);
        if result.is_err() {
            self.salvage();
        }
        result
    }

    fn salvage(&mut self) {
        for table in 0..self.tables.len() {
            if let Some(file) = self.tables[table].file.take() {
                let rows = file.rows();
                self.count(file.salvage(), rows);
            }
        }
    }

    fn count(&mut self, size: Size, rows_given: u64) {
        self.kept.files += u64::from(size.bytes > 0);
        self.kept.rows += size.rows;
        self.kept.bytes += size.bytes;
        self.kept.rows_lost += rows_given.saturating_sub(size.rows);
    }
}

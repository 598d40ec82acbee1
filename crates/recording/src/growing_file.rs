//! A growing file of a data set, and its completion: it is renamed and synced to disk, or, if its writer was killed
//! or the disk was full, completed with all finished row groups ([`recover`]).
//!
//! The order of writes makes a kill at any point detectable: a row group, then its journal entry; at the end the
//! footer, a sync of the file, its rename, a sync of the folder, and finally the removal of the journal. The writer
//! holds a lock on the file for its lifetime, so that other processes do not treat it as abandoned.

use std::fs::{self, File, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::Int64Array;
use parquet::file::metadata::ParquetMetaData;
use tuple::{Batch, FieldId, Schema};

use crate::disk;
use crate::file_metadata::FileMetadata;
use crate::journal;
use crate::layout::{FileNames, TableListing, names};
use crate::table::{TableWriter, io_error};

/// A growing file.
pub struct GrowingTableFile {
    names: FileNames,
    writer: TableWriter<File>,
    journal: File,
    rows: u64,
}

/// State on disk of a file without a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOnDisk {
    /// Nothing readable.
    Nothing,
    /// Row groups without the footer that other readers require, because it could not be written.
    Unfinished(FileSize),
    /// A complete file with its final name.
    Finished(FileSize),
}

/// Size of a file's content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSize {
    /// Number of rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
}

impl GrowingTableFile {
    /// Creates the next file of a table in its folder.
    pub fn create(
        folder: &Path,
        head: &FileMetadata,
        schema: Arc<Schema>,
        columns: Vec<FieldId>,
        group_memory: usize,
    ) -> io::Result<GrowingTableFile> {
        disk::create_table_folder(folder)?;
        let mut number = TableListing::of(folder, &head.table)?.next_number();
        let (names, file) = loop {
            let names = names(folder, &head.table, number);
            match disk::create(&names.growing) {
                // Recovery may have treated it as abandoned before it was locked.
                Ok(file) if file.try_lock().is_ok() && names.growing.exists() => {
                    break (names, file);
                }
                Ok(_) => number += 1,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(e) => return Err(e),
            }
        };
        let journal = disk::create(&names.journal)?;
        let writer =
            TableWriter::new(file, head.kind, schema, columns)?.with_group_memory(group_memory);
        Ok(GrowingTableFile {
            names,
            writer,
            journal,
            rows: 0,
        })
    }

    /// Writes rows with the watermark of each; `head` is the current metadata. Returns whether a row group ended.
    pub fn write(
        &mut self,
        batch: &Batch,
        watermarks: &Int64Array,
        head: &FileMetadata,
    ) -> io::Result<bool> {
        self.rows += batch.rows() as u64;
        let ended = self.writer.write(batch, watermarks)?;
        if ended {
            self.note_group(head)?;
        }
        Ok(ended)
    }

    /// Ends the row group, if any: its rows then survive a kill.
    pub fn end_group(&mut self, head: &FileMetadata) -> io::Result<()> {
        if self.writer.end_group()? {
            self.note_group(head)?;
        }
        Ok(())
    }

    fn note_group(&mut self, head: &FileMetadata) -> io::Result<()> {
        let Some(group) = self.writer.last_group() else {
            return Ok(());
        };
        let entry = journal::entry(group, &self.writer.facts(head)).map_err(io_error)?;
        self.journal.write_all(&entry)
    }

    /// Number of completed row groups.
    pub fn groups(&self) -> usize {
        self.writer.groups()
    }

    /// Approximate size in bytes so far.
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Completes, renames, and syncs the file. On failure, recovers the completed row groups.
    pub fn finish(mut self, head: &FileMetadata) -> (FileOnDisk, io::Result<()>) {
        let last_group = self.end_group(head);
        let GrowingTableFile {
            names,
            writer,
            rows,
            ..
        } = self;
        let done = last_group
            .and_then(|()| writer.finish(head))
            .and_then(|file| {
                file.sync_all()?;
                let bytes = file.metadata()?.len();
                publish(&names)?;
                Ok(FileSize { rows, bytes })
            });
        match done {
            Ok(size) => (FileOnDisk::Finished(size), Ok(())),
            Err(error) => (save(&names), Err(error)),
        }
    }

    /// After an error: recovers the completed row groups.
    pub fn salvage(self) -> FileOnDisk {
        let GrowingTableFile { names, writer, .. } = self;
        drop(writer);
        save(&names)
    }
}

/// Completes the file; if that fails, returns the state of the incomplete file.
fn save(names: &FileNames) -> FileOnDisk {
    match recover(names) {
        Ok(Some(size)) => FileOnDisk::Finished(size),
        Ok(None) => FileOnDisk::Nothing,
        Err(_) => unfinished(names).map_or(FileOnDisk::Nothing, FileOnDisk::Unfinished),
    }
}

/// The size of the row groups listed in the journal.
fn unfinished(names: &FileNames) -> Option<FileSize> {
    let metadata = journal::read(&disk::read(&names.journal).ok()?)?;
    let bytes = journal::end(&metadata);
    let is_there = names
        .growing
        .metadata()
        .is_ok_and(|file| file.len() >= bytes);
    is_there.then(|| FileSize {
        rows: rows_of(&metadata),
        bytes,
    })
}

fn rows_of(metadata: &ParquetMetaData) -> u64 {
    u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0)
}

/// Completes an unfinished file from its journal and renames it. `None` if its writer is alive, or if nothing could
/// be recovered and the file was removed.
pub fn recover(names: &FileNames) -> io::Result<Option<FileSize>> {
    let mut file = match disk::open_to_mend(&names.growing) {
        Ok(file) => file,
        // Only the removal of its journal remained.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return remove(&names.journal).map(|()| None);
        }
        Err(e) => return Err(e),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    let Some(metadata) = journal::read(&disk::read(&names.journal).unwrap_or_default()) else {
        remove(&names.growing)?;
        return remove(&names.journal).map(|()| None);
    };
    let footer = journal::footer(&metadata).map_err(io_error)?;
    let end = journal::end(&metadata);
    file.set_len(end)?;
    file.seek(SeekFrom::Start(end))?;
    file.write_all(&footer)?;
    file.sync_all()?;
    publish(names)?;
    Ok(Some(FileSize {
        rows: rows_of(&metadata),
        bytes: end + footer.len() as u64,
    }))
}

fn publish(names: &FileNames) -> io::Result<()> {
    fs::rename(&names.growing, &names.finished)?;
    if let Some(folder) = names.finished.parent() {
        File::open(folder)?.sync_all()?;
    }
    remove(&names.journal)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

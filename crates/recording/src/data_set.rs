//! The content of a data set: its tables and files, found by names and metadata without reading rows. Unfinished
//! files of a killed writer are read up to the end of their journal; nothing is changed on disk.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tuple::TablePart;

use crate::disk;
use crate::file_metadata::{FileMetadata, TableKind};
use crate::layout::{FileNames, TableListing, names};
use crate::reader;

/// An unreadable file or folder, with an error message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct ReadProblem {
    /// The file or the folder.
    pub path: PathBuf,
    /// Description of the error.
    pub message: String,
}

impl ReadProblem {
    pub(crate) fn new(path: &Path, message: impl Into<String>) -> ReadProblem {
        ReadProblem {
            path: path.to_owned(),
            message: message.into(),
        }
    }
}

/// The tables of one or more folders.
#[derive(Debug, Default)]
pub struct DataSet {
    /// By name.
    pub tables: BTreeMap<String, RecordedTable>,
    /// Files that could not be read.
    pub problems: Vec<ReadProblem>,
    /// Files without a footer.
    pub unfinished: Vec<UnfinishedFile>,
}

/// A file without a footer, and the consequence for readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedFile {
    /// The file.
    pub path: PathBuf,
    /// The readable part.
    pub left: ReadablePart,
}

/// The readable part of an unfinished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadablePart {
    /// The writer was killed or failed before a row group was complete: nothing is readable.
    Nothing,
    /// The writer was killed or failed: the complete row groups are readable.
    Groups,
    /// Another process is writing it.
    InWork,
}

impl fmt::Display for UnfinishedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = match self.left {
            ReadablePart::Nothing => {
                "its writer was killed or failed before its first row group was complete: it has no readable rows"
            }
            ReadablePart::Groups => {
                "its writer was killed or failed: complete row groups are read, and later rows are lost"
            }
            ReadablePart::InWork => "another process is writing it: it is not read",
        };
        write!(f, "{}: {left}", self.path.display())
    }
}

/// A table with the metadata of its files.
#[derive(Clone, Debug, Default)]
pub struct RecordedTable {
    /// In order of their numbers, by folder.
    pub(crate) files: Vec<Arc<TableFile>>,
}

/// A file.
#[derive(Debug)]
pub(crate) struct TableFile {
    pub path: PathBuf,
    /// The journal with the positions of its row groups, if the writer did not complete the file.
    pub journal: Option<PathBuf>,
    pub head: FileMetadata,
    /// The watermark of the first row; `None` without rows.
    pub begin: Option<i64>,
}

impl DataSet {
    /// Whether `path` may be a data set: a folder.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        path.is_dir()
    }

    /// Scans the folders.
    #[must_use]
    pub fn open(folders: &[PathBuf]) -> DataSet {
        let mut set = DataSet::default();
        for folder in folders {
            if let Err(error) = set.add_folder(folder) {
                set.problems
                    .push(ReadProblem::new(folder, error.to_string()));
            }
        }
        set
    }

    /// The tuples of a parser, or of several joined under one name; for a parser with several tables, the first one.
    #[must_use]
    pub fn tuples(&self, name: &str, parts: &[TablePart]) -> Option<RecordedTable> {
        let Some(part) = parts.first() else {
            let table = self.tables.get(name)?;
            return table
                .heads()
                .all(|head| head.is_of(name))
                .then(|| table.clone());
        };
        Some(self.part(part.name, name)).filter(|table| !table.files.is_empty())
    }

    /// One of the tables of a parser's tuples.
    pub(crate) fn part(&self, table: &str, parser: &str) -> RecordedTable {
        let files = self
            .tables
            .get(table)
            .into_iter()
            .flat_map(|table| &table.files);
        RecordedTable {
            files: files
                .filter(|file| file.head.is_of(parser))
                .cloned()
                .collect(),
        }
    }

    fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        let mut entries: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
        entries.sort_by_key(std::fs::DirEntry::path);
        let mut found = false;
        for entry in entries {
            let path = &entry.path();
            if !entry.file_type()?.is_dir() {
                if path.is_dir() {
                    let message = "is a symbolic link, which is not followed";
                    self.problems.push(ReadProblem::new(path, message));
                }
                continue;
            }
            let Some(table) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let listing = TableListing::of(path, table)?;
            found |= !listing.finished.is_empty() || !listing.growing.is_empty();
            let finished = listing.finished.iter().map(|n| (*n, false));
            let mut all: Vec<_> = finished
                .chain(listing.growing.iter().map(|n| (*n, true)))
                .collect();
            all.sort_unstable();
            for (number, growing) in all {
                let names = names(path, table, number);
                if growing {
                    self.add_growing(table, names)
                } else {
                    self.add_file(table, names.finished, None)
                }
            }
        }
        if !found && self.problems.is_empty() {
            return Err(io::Error::other(
                "has no recording: name a folder written by netalytics record, or capture files",
            ));
        }
        Ok(())
    }

    /// Adds a file without a footer.
    fn add_growing(&mut self, table: &str, names: FileNames) {
        let path = names.growing;
        match is_orphan(&path) {
            Ok(true) => self.add_file(table, path, Some(names.journal)),
            Ok(false) => self.unfinished.push(UnfinishedFile {
                path,
                left: ReadablePart::InWork,
            }),
            Err(error) => self
                .problems
                .push(ReadProblem::new(&path, error.to_string())),
        }
    }

    fn add_file(&mut self, table: &str, path: PathBuf, journal: Option<PathBuf>) {
        match reader::glance(&path, journal.as_deref()) {
            Ok(None) => self.unfinished.push(UnfinishedFile {
                path,
                left: ReadablePart::Nothing,
            }),
            Ok(Some((head, begin))) => {
                if journal.is_some() {
                    self.unfinished.push(UnfinishedFile {
                        path: path.clone(),
                        left: ReadablePart::Groups,
                    });
                }
                let entry = Arc::new(TableFile {
                    path,
                    journal,
                    head,
                    begin,
                });
                self.tables
                    .entry(table.into())
                    .or_insert_with(|| RecordedTable { files: Vec::new() })
                    .files
                    .push(entry);
            }
            Err(message) => self.problems.push(ReadProblem { path, message }),
        }
    }
}

impl RecordedTable {
    /// The metadata of all files.
    pub fn heads(&self) -> impl Iterator<Item = &FileMetadata> {
        self.files.iter().map(|file| &file.head)
    }

    /// The parsers of its tuples, or the name of the table.
    #[must_use]
    pub fn holds(&self) -> Option<String> {
        let head = self.heads().next()?;
        Some(if head.kind == TableKind::Tuples {
            head.parser_names()
        } else {
            head.table.clone()
        })
    }
}

/// Whether the writer of a growing file no longer exists.
fn is_orphan(path: &Path) -> io::Result<bool> {
    Ok(disk::open(path)?.try_lock_shared().is_ok())
}

//! What lies in a data set: its tables and their files, found by their names and their metadata, before a row is read.
//! Files that a killed writer left behind are read as far as their journal goes; nothing is changed on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tuple::Part;

use crate::head::{Head, Kind};
use crate::layout::{Listing, names};
use crate::reader;

/// Something that could not be read, and why, for a person.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct Problem {
    /// The file or the folder.
    pub path: PathBuf,
    /// What is wrong.
    pub message: String,
}

impl Problem {
    pub(crate) fn new(path: &Path, message: impl Into<String>) -> Problem {
        Problem { path: path.to_owned(), message: message.into() }
    }
}

/// The tables of one or more folders.
#[derive(Debug, Default)]
pub struct DataSet {
    /// By name.
    pub tables: BTreeMap<String, Table>,
    /// Files that could not be read.
    pub problems: Vec<Problem>,
}

/// A table: what its files say of themselves.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// In the order of their numbers, folder by folder.
    pub(crate) files: Vec<Arc<Entry>>,
}

/// A file.
#[derive(Debug)]
pub(crate) struct Entry {
    pub path: PathBuf,
    /// Where its row groups are, if its writer did not get to its end.
    pub journal: Option<PathBuf>,
    pub head: Head,
    /// The first row's watermark; `None`: no rows.
    pub begin: Option<i64>,
}

impl DataSet {
    /// Whether `path` looks like a data set: a folder.
    #[must_use]
    pub fn is_one(path: &Path) -> bool {
        path.is_dir()
    }

    /// Looks into the folders.
    #[must_use]
    pub fn open(folders: &[PathBuf]) -> DataSet {
        let mut set = DataSet::default();
        for folder in folders {
            if let Err(error) = set.add_folder(folder) {
                set.problems.push(Problem::new(folder, error.to_string()));
            }
        }
        set
    }

    /// The tuples of a parser, or of several joined under one name; of a parser with several tables, the first of them.
    #[must_use]
    pub fn tuples(&self, name: &str, parts: &[Part]) -> Option<Table> {
        let Some(part) = parts.first() else {
            let table = self.tables.get(name)?;
            return table.heads().all(|head| head.is_of(name)).then(|| table.clone());
        };
        Some(self.part(part.name, name)).filter(|table| !table.files.is_empty())
    }

    /// One of the tables of a parser's tuples.
    pub(crate) fn part(&self, table: &str, parser: &str) -> Table {
        let files = self.tables.get(table).into_iter().flat_map(|table| &table.files);
        Table { files: files.filter(|file| file.head.is_of(parser)).cloned().collect() }
    }

    fn add_folder(&mut self, folder: &Path) -> io::Result<()> {
        let mut tables: Vec<PathBuf> =
            std::fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
        tables.sort();
        let mut found = false;
        for path in tables.iter().filter(|path| path.is_dir()) {
            let Some(table) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let listing = Listing::of(path, table)?;
            found |= !listing.finished.is_empty() || !listing.growing.is_empty();
            let finished = listing.finished.iter().map(|n| (*n, false));
            let mut all: Vec<_> = finished.chain(listing.growing.iter().map(|n| (*n, true))).collect();
            all.sort_unstable();
            for (number, growing) in all {
                let names = names(path, table, number);
                match growing {
                    false => self.add_file(table, names.finished, None),
                    true if is_orphan(&names.growing) => {
                        self.add_file(table, names.growing, Some(names.journal))
                    }
                    true => {}
                }
            }
        }
        if !found {
            return Err(io::Error::other(
                "holds no recording: a folder written by netalytics record is wanted, or the names of capture files",
            ));
        }
        Ok(())
    }

    fn add_file(&mut self, table: &str, path: PathBuf, journal: Option<PathBuf>) {
        match reader::glance(&path, journal.as_deref()) {
            // Nothing of it was finished.
            Ok(None) => {}
            Ok(Some((head, begin))) => {
                let entry = Arc::new(Entry { path, journal, head, begin });
                self.tables
                    .entry(table.into())
                    .or_insert_with(|| Table { files: Vec::new() })
                    .files
                    .push(entry);
            }
            Err(message) => self.problems.push(Problem { path, message }),
        }
    }
}

impl Table {
    /// What its files say, one after the other.
    pub fn heads(&self) -> impl Iterator<Item = &Head> {
        self.files.iter().map(|file| &file.head)
    }

    /// Whose tuples it holds, or what it is called.
    #[must_use]
    pub fn holds(&self) -> Option<String> {
        let head = self.heads().next()?;
        Some(if head.kind == Kind::Tuples { head.parser_names() } else { head.table.clone() })
    }

    /// How many files.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.files.len()
    }
}

/// Whether nobody writes a growing file any more.
fn is_orphan(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok())
}

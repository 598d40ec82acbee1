//! Where the files of a data set lie: `DIR/TABLE/TABLE-000001.parquet` when complete, hidden names beside it while it
//! grows. Hidden names end otherwise too, so that `*.parquet` means complete files to every tool.

use std::io;
use std::path::{Path, PathBuf};

/// Names of one file in all its stages.
#[derive(Clone, Debug)]
pub struct Names {
    /// When it is complete.
    pub finished: PathBuf,
    /// While it grows.
    pub growing: PathBuf,
    /// What says where its finished row groups are.
    pub journal: PathBuf,
}

/// The files of one table.
#[derive(Debug, Default)]
pub struct Listing {
    /// Numbers of complete files, ascending.
    pub finished: Vec<u64>,
    /// Numbers of files that grow, or did when something killed their writer; ascending.
    pub growing: Vec<u64>,
    /// Numbers of journals.
    pub journals: Vec<u64>,
}

/// The names of a table's file.
pub fn names(folder: &Path, table: &str, number: u64) -> Names {
    let name = format!("{table}-{number:06}.parquet");
    Names {
        growing: folder.join(format!(".{name}.tmp")),
        journal: folder.join(format!(".{name}.journal")),
        finished: folder.join(name),
    }
}

impl Listing {
    /// What lies in a table's folder; nothing when there is no such folder.
    pub fn of(folder: &Path, table: &str) -> io::Result<Listing> {
        let mut listing = Listing::default();
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(listing),
            Err(e) => return Err(e),
        };
        for entry in entries {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let number = |name: &str, begin: &str, end: &str| -> Option<u64> {
                let rest = name.strip_prefix(begin)?.strip_prefix(table)?.strip_prefix('-')?;
                rest.strip_suffix(end)?.parse().ok()
            };
            listing.finished.extend(number(name, "", ".parquet"));
            listing.growing.extend(number(name, ".", ".parquet.tmp"));
            listing.journals.extend(number(name, ".", ".parquet.journal"));
        }
        listing.finished.sort_unstable();
        listing.growing.sort_unstable();
        Ok(listing)
    }

    /// The first number that no file has, nor any before it in time.
    pub fn next_number(&self) -> u64 {
        let all = self.finished.iter().chain(&self.growing).chain(&self.journals);
        all.max().map_or(1, |n| n.saturating_add(1))
    }
}

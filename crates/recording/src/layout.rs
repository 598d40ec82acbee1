//! Paths of a data set: `DIR/TABLE/TABLE-000001.parquet` for complete files, hidden names in the same folder for
//! growing ones. Hidden names have another extension, so that `*.parquet` matches only complete files in every tool.

use std::io;
use std::path::{Path, PathBuf};

/// Names of one file in all its stages.
#[derive(Clone, Debug)]
pub struct FileNames {
    /// Name of the complete file.
    pub finished: PathBuf,
    /// Name of the growing file.
    pub growing: PathBuf,
    /// Name of the journal with the positions of its finished row groups.
    pub journal: PathBuf,
}

/// The files of one table.
#[derive(Debug, Default)]
pub struct TableListing {
    /// Numbers of complete files, ascending.
    pub finished: Vec<u64>,
    /// Numbers of growing files, including those of killed writers, ascending.
    pub growing: Vec<u64>,
    /// Numbers of journals.
    pub journals: Vec<u64>,
}

/// The names of a table's file.
pub fn names(folder: &Path, table: &str, number: u64) -> FileNames {
    let name = format!("{table}-{number:06}.parquet");
    FileNames {
        growing: folder.join(format!(".{name}.tmp")),
        journal: folder.join(format!(".{name}.journal")),
        finished: folder.join(name),
    }
}

impl TableListing {
    /// The files in a table's folder; empty if the folder does not exist.
    pub fn of(folder: &Path, table: &str) -> io::Result<TableListing> {
        let mut listing = TableListing::default();
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(listing),
            Err(e) => return Err(e),
        };
        for entry in entries {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            let number = |name: &str, begin: &str, end: &str| -> Option<u64> {
                let rest = name
                    .strip_prefix(begin)?
                    .strip_prefix(table)?
                    .strip_prefix('-')?;
                rest.strip_suffix(end)?.parse().ok()
            };
            listing.finished.extend(number(name, "", ".parquet"));
            listing.growing.extend(number(name, ".", ".parquet.tmp"));
            listing
                .journals
                .extend(number(name, ".", ".parquet.journal"));
        }
        listing.finished.sort_unstable();
        listing.growing.sort_unstable();
        Ok(listing)
    }

    /// The number after all used ones.
    pub fn next_number(&self) -> u64 {
        let all = self
            .finished
            .iter()
            .chain(&self.growing)
            .chain(&self.journals);
        all.max().map_or(1, |n| n.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The listing of a folder with these files.
    fn listed(files: &[&str]) -> ([Vec<u64>; 3], u64) {
        let folder = tempfile::tempdir().expect("a folder");
        for file in files {
            std::fs::write(folder.path().join(file), b"").expect("a file");
        }
        let mut listing = TableListing::of(folder.path(), "http").expect("a listing");
        listing.journals.sort_unstable();
        let next = listing.next_number();
        ([listing.finished, listing.growing, listing.journals], next)
    }

    #[test]
    fn a_files_names_in_all_its_stages_are_found_again() {
        for number in [1, 999_999, 1_000_000, u64::MAX] {
            let names = names(Path::new("d"), "http", number);
            let stages = [names.finished, names.growing, names.journal];
            for (stage, path) in stages.iter().enumerate() {
                let name = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .expect("a name");
                let mut expected = [vec![], vec![], vec![]];
                expected[stage] = vec![number];
                assert_eq!(
                    listed(&[name]),
                    (expected, number.saturating_add(1)),
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn only_finished_files_look_like_parquet() {
        let names = names(Path::new("d"), "http", 1);
        let ends_so = |path: &Path| path.extension().is_some_and(|e| e == "parquet");
        assert!(ends_so(&names.finished) && !ends_so(&names.growing) && !ends_so(&names.journal));
    }

    #[test]
    fn numbers_continue_after_existing_files() {
        let ([finished, growing, journals], next) = listed(&[
            "http-000010.parquet",
            "http-000002.parquet",
            ".http-000011.parquet.tmp",
            ".http-000012.parquet.journal",
        ]);
        assert_eq!(
            (finished, growing, journals, next),
            (vec![2, 10], vec![11], vec![12], 13)
        );
    }

    #[test]
    fn foreign_files_are_ignored() {
        let others = [
            "http-x.parquet",
            "http.parquet",
            "http_get-000001.parquet",
            "http-000001.csv",
            "README",
        ];
        assert_eq!(listed(&others), ([vec![], vec![], vec![]], 1));
        assert_eq!(listed(&[]).1, 1);
    }

    #[test]
    fn a_folder_that_is_not_there_is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let listing = TableListing::of(&folder.path().join("none"), "http").expect("a listing");
        assert_eq!(listing.next_number(), 1);
        assert!(
            listing.finished.is_empty()
                && listing.growing.is_empty()
                && listing.journals.is_empty()
        );
    }
}

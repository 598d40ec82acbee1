//! Segments of the spool as files of a folder: `00000001.spool` …, and `ledger`. A failure is logged once until it
//! works again; the spool continues in memory.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use link::{SegmentStore, SegmentStoreError};

const LEDGER: &str = "ledger";
const SUFFIX: &str = "spool";

/// See the module documentation.
pub struct SpoolFiles {
    folder: PathBuf,
    open: BTreeMap<u32, File>,
    health: SpoolHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpoolHealth {
    Well,
    Failing,
}

impl SpoolFiles {
    /// Opens the folder, which is created if missing, with access for its owner only.
    ///
    /// # Errors
    /// `io::Error` if it cannot be created.
    pub fn in_folder(folder: &Path) -> io::Result<SpoolFiles> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        Ok(SpoolFiles {
            folder: folder.to_owned(),
            open: BTreeMap::new(),
            health: SpoolHealth::Well,
        })
    }

    fn path(&self, segment: u32) -> PathBuf {
        self.folder.join(format!("{segment:08x}.{SUFFIX}"))
    }

    fn file(&mut self, segment: u32) -> io::Result<&mut File> {
        let path = self.path(segment);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        match self.open.entry(segment) {
            std::collections::btree_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::btree_map::Entry::Vacant(new) => Ok(new.insert(options.open(path)?)),
        }
    }

    /// Logs a failure unless the previous operation failed, too.
    fn judge<T>(&mut self, what: &str, result: io::Result<T>) -> Result<T, SegmentStoreError> {
        match &result {
            Ok(_) => self.health = SpoolHealth::Well,
            Err(error) => {
                if self.health == SpoolHealth::Well {
                    tracing::warn!(
                        "the spool {} cannot be {what}: {error}",
                        self.folder.display()
                    );
                }
                self.health = SpoolHealth::Failing;
            }
        }
        result.map_err(|_| SegmentStoreError)
    }
}

impl SegmentStore for SpoolFiles {
    fn append(&mut self, segment: u32, bytes: &[u8]) -> Result<(), SegmentStoreError> {
        let written = self.file(segment).and_then(|file| file.write_all(bytes));
        self.judge("written", written)
    }

    fn sync(&mut self, segment: u32) -> Result<(), SegmentStoreError> {
        let synced = self.file(segment).and_then(|file| file.sync_data());
        self.judge("written", synced)
    }

    fn read(
        &mut self,
        segment: u32,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, SegmentStoreError> {
        let read = self.file(segment).and_then(|file| {
            // At most the existing bytes, whatever length is requested.
            let there = file.metadata()?.len().saturating_sub(offset);
            let mut bytes = vec![0; usize::try_from(length.min(there)).map_err(io::Error::other)?];
            file.read_exact_at(&mut bytes, offset)?;
            Ok(bytes)
        });
        self.judge("read", read)
    }

    fn remove(&mut self, segment: u32) {
        self.open.remove(&segment);
        match fs::remove_file(self.path(segment)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let _ = self.judge::<()>("emptied", Err(error));
            }
            _ => {}
        }
    }

    fn list(&mut self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let number = |path: PathBuf| {
            let stem = path.file_stem()?.to_str()?;
            (path.extension()? == SUFFIX && stem.len() == 8)
                .then(|| u32::from_str_radix(stem, 16).ok())?
        };
        entries
            .flatten()
            .filter_map(|entry| number(entry.path()))
            .collect()
    }

    fn write_ledger(&mut self, bytes: &[u8]) -> Result<(), SegmentStoreError> {
        let path = self.folder.join(LEDGER);
        let next = self.folder.join("ledger.next");
        let write = || {
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&next)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&next, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        let written = write();
        self.judge("written", written)
    }

    fn read_ledger(&mut self) -> Vec<u8> {
        fs::read(self.folder.join(LEDGER)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spool");
        let mut store = SpoolFiles::in_folder(&path).expect("it can be made");
        store.append(u32::MAX, b"abc").expect("written");
        store.append(u32::MAX, b"def").expect("written");
        store.append(0, b"x").expect("written");
        store.sync(0).expect("synced");
        store.write_ledger(b"one").expect("written");
        store.write_ledger(b"two").expect("written");
        fs::write(path.join("notes.txt"), "not ours").expect("written");
        // As after a restart.
        let mut store = SpoolFiles::in_folder(&path).expect("it exists");
        let mut all = store.list();
        all.sort_unstable();
        assert_eq!(all, [0, u32::MAX]);
        assert_eq!(store.read(u32::MAX, 2, 3).expect("read"), b"cde");
        assert_eq!(
            store.read(u32::MAX, 4, u64::MAX).expect("the contents"),
            b"ef"
        );
        assert_eq!(store.read(u32::MAX, 9, 1).expect("nothing is there"), b"");
        assert_eq!(store.read_ledger(), b"two");
        store.remove(0);
        store.remove(0);
        assert_eq!(store.list(), [u32::MAX]);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(&path).expect("there").permissions(),
        );
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn missing_folder_is_a_failure() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spool");
        let mut store = SpoolFiles::in_folder(&path).expect("it can be made");
        fs::remove_dir(&path).expect("empty");
        assert_eq!(store.append(1, b"abc"), Err(SegmentStoreError));
        assert_eq!(store.write_ledger(b"abc"), Err(SegmentStoreError));
        assert_eq!((store.list(), store.read_ledger()), (vec![], vec![]));
    }
}

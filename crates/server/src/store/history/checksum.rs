//! Checksums of segments. Parquet pages are written without checksums, so a flipped bit on disk would change results.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// First 8 bytes of the SHA-256 of all files in a folder and their names.
pub fn of(folder: &Path) -> io::Result<i64> {
    let mut hash = Sha256::new();
    for path in files(folder)? {
        let bytes = fs::read(&path)?;
        let name = path
            .strip_prefix(folder)
            .unwrap_or(&path)
            .to_string_lossy()
            .into_owned();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let hash = hash.finalize();
    Ok(hash
        .iter()
        .take(8)
        .fold(0, |sum, byte| sum << 8 | i64::from(*byte)))
}

/// Verifies the checksum of a folder; the error has the damaged path and the reason. `expected`: `None` if no checksum
/// was stored.
pub fn verify(folder: &Path, expected: Option<i64>) -> Result<(), (PathBuf, String)> {
    let Some(expected) = expected else {
        return Ok(());
    };
    match of(folder) {
        Ok(found) if found == expected => Ok(()),
        Ok(_) => {
            let mut files = files(folder).unwrap_or_default();
            let path = if files.len() == 1 {
                files.remove(0)
            } else {
                folder.to_owned()
            };
            Err((
                path,
                "it is damaged: its checksum differs from the one written".into(),
            ))
        }
        Err(why) => Err((folder.to_owned(), why.to_string())),
    }
}

/// All files below a folder, sorted by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(files(&path)?)
        } else {
            all.push(path)
        }
    }
    all.sort();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with files, and its checksum.
    fn folder(files: &[(&str, &str)]) -> (tempfile::TempDir, i64) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, content) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("in the folder")).expect("a folder");
            fs::write(path, content).expect("a file");
        }
        let sum = of(folder.path()).expect("readable");
        (folder, sum)
    }

    #[test]
    fn names_and_contents_count() {
        let sums = [
            folder(&[("a", "xy")]).1,
            folder(&[("b", "xy")]).1,
            folder(&[("a", "xz")]).1,
            folder(&[("ax", "y")]).1,
            folder(&[("a", "x"), ("b", "y")]).1,
            folder(&[("d/a", "xy")]).1,
            folder(&[]).1,
        ];
        let distinct: std::collections::BTreeSet<i64> = sums.into_iter().collect();
        assert_eq!(distinct.len(), sums.len());
    }

    #[test]
    fn the_order_of_creation_does_not_count() {
        let first = folder(&[("a", "1"), ("b/c", "2"), ("d", "3")]);
        let second = folder(&[("d", "3"), ("b/c", "2"), ("a", "1")]);
        assert_eq!(first.1, second.1);
        assert_eq!(verify(first.0.path(), Some(second.1)), Ok(()));
    }

    #[test]
    fn a_damaged_file_is_named_if_it_is_the_only_one() {
        let (one, sum) = folder(&[("a", "x")]);
        let (path, reason) = verify(one.path(), Some(sum ^ 1)).expect_err("another sum");
        assert_eq!(path, one.path().join("a"));
        assert!(reason.starts_with("it is damaged"), "{reason}");
        let (two, sum) = folder(&[("a", "x"), ("b", "y")]);
        assert_eq!(
            verify(two.path(), Some(sum ^ 1))
                .expect_err("another sum")
                .0,
            two.path()
        );
    }

    #[test]
    fn a_missing_folder_is_an_error_unless_nothing_was_stored() {
        let missing = Path::new("/no/such/folder");
        assert_eq!(verify(missing, None), Ok(()));
        assert_eq!(verify(missing, Some(1)).expect_err("no folder").0, missing);
    }
}

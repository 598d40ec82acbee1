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
        let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    }
    let hash = hash.finalize();
    Ok(hash.iter().take(8).fold(0, |sum, byte| sum << 8 | i64::from(*byte)))
}

/// Verifies the checksum of a folder; the error has the damaged path and the reason. `expected`: `None` if no checksum
/// was stored.
pub fn verify(folder: &Path, expected: Option<i64>) -> Result<(), (PathBuf, String)> {
    let Some(expected) = expected else { return Ok(()) };
    match of(folder) {
        Ok(found) if found == expected => Ok(()),
        Ok(_) => {
            let mut files = files(folder).unwrap_or_default();
            let path = if files.len() == 1 { files.remove(0) } else { folder.to_owned() };
            Err((path, "it is damaged: its checksum differs from the one written".into()))
        }
        Err(why) => Err((folder.to_owned(), why.to_string())),
    }
}

/// All files below a folder, sorted by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => all.extend(files(&path)?),
            false => all.push(path),
        }
    }
    all.sort();
    Ok(all)
}

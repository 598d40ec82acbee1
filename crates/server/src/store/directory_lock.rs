//! Lock of the data directory, and of the folder of a backup: one process at a time uses it.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Lock file of the process that uses the directory.
pub(crate) const LOCK: &str = "lock";

/// An exclusive lock of a file, held until it is dropped.
pub(crate) struct FileLock(File);

impl FileLock {
    /// Locks the file at once.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if another process holds the lock; otherwise the error of the system.
    pub fn acquire(file: File) -> Result<FileLock, TryLockError> {
        file.try_lock()?;
        Ok(FileLock(file))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Closing the file does not unlock it while a child process, between fork and exec, has a copy of it.
        let _ = self.0.unlock();
    }
}

/// Locks a data directory.
///
/// # Errors
/// A message for the operator: another process holds the lock, or the directory cannot be written.
pub(crate) fn lock_directory(folder: &Path) -> Result<FileLock, String> {
    let name = folder.display();
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(folder.join(LOCK))
        .map_err(|error| format!("cannot write to the data directory {name}: {error}"))?;
    FileLock::acquire(file).map_err(|error| match error {
        TryLockError::WouldBlock => format!(
            "another netalytics serve uses the data directory {name}: stop it, or choose another directory with --data"
        ),
        TryLockError::Error(error) => format!("cannot lock the data directory {name}: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_lock_is_free_while_a_copy_of_the_file_is_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = lock_directory(folder.path()).expect("locked");
        assert!(lock_directory(folder.path()).is_err());
        let _copy = lock.0.try_clone().expect("a copy, as a fork makes it");
        drop(lock);
        lock_directory(folder.path()).expect("locked again");
    }
}

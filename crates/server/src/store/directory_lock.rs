//! Lock of the data directory: one process at a time uses it.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Lock file of the process that uses the directory.
pub(crate) const LOCK: &str = "lock";

/// The lock, held until it is dropped.
pub(crate) struct DirectoryLock(File);

impl DirectoryLock {
    /// Locks a data directory.
    ///
    /// # Errors
    /// A message for the operator: another process holds the lock, or the directory cannot be written.
    pub fn acquire(folder: &Path) -> Result<DirectoryLock, String> {
        let name = folder.display();
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join(LOCK))
            .map_err(|error| format!("cannot write to the data directory {name}: {error}"))?;
        match lock.try_lock() {
            Ok(()) => Ok(DirectoryLock(lock)),
            Err(TryLockError::WouldBlock) => Err(format!(
                "another netalytics serve uses the data directory {name}: stop it, or choose another directory with --data"
            )),
            Err(TryLockError::Error(error)) => {
                Err(format!("cannot lock the data directory {name}: {error}"))
            }
        }
    }
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Explicit, so that the field counts as used; closing the file also unlocks it.
        let _ = self.0.unlock();
    }
}

//! Why rows were not kept, or cannot be read.

use std::io;

use crate::job::JobId;
use crate::store::StoreError;

/// Why rows were not kept.
#[derive(Debug, thiserror::Error)]
pub enum Unkept {
    /// The store's reason.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk's.
    #[error("the history: {0}")]
    Disk(#[from] io::Error),
    /// No such job, or it has ended.
    #[error("job {0} is not running")]
    NoJob(JobId),
    /// The rows are not those that were announced.
    #[error("rows with other columns than were announced")]
    Columns,
    /// What is there cannot be read.
    #[error("what was kept is damaged")]
    Damaged,
}

impl Unkept {
    /// Whether the disk has no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Unkept::Store(StoreError::Full) => true,
            Unkept::Disk(error) => error.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

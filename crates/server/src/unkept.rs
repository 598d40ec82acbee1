//! Why rows were not kept, or cannot be read.

use std::io;
use std::path::PathBuf;

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
    /// A file of the history is missing or damaged.
    #[error("{0}")]
    Unreadable(Box<Unreadable>),
}

/// Rows of a file that is missing or damaged.
#[derive(Clone, Debug, thiserror::Error)]
#[error("rows {first_row} to {} of job {job} cannot be read: {}: {why}", end_row - 1, file.display())]
pub struct Unreadable {
    /// The job.
    pub job: JobId,
    /// The number of the first.
    pub first_row: i64,
    /// The number of the first behind them.
    pub end_row: i64,
    /// The file or folder, as seen from the data directory.
    pub file: PathBuf,
    /// What is wrong with it.
    pub why: String,
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

//! Reasons why rows could not be stored or read.

use std::io;
use std::path::PathBuf;

use crate::job::JobId;
use crate::store::sqlite::StoreError;

/// Reason why rows could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be read or written.
    #[error("the history: {0}")]
    Disk(#[from] io::Error),
    /// The job does not exist or has ended.
    #[error("job {0} is not running")]
    NoJob(JobId),
    /// The rows have other columns than announced.
    #[error("rows whose columns differ from the announced ones")]
    Columns,
    /// Stored data is unreadable.
    #[error("stored data is damaged")]
    Damaged,
    /// A file of the history is missing or damaged.
    #[error("{0}")]
    Unreadable(Box<UnreadableRows>),
}

/// Reason why the store rejects writes. Users see it, so it has no paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteObstacle {
    /// The disk is full.
    #[error("the server's disk is full")]
    DiskFull,
    /// Any other failure.
    #[error("the server cannot store data ({0})")]
    Failed(String),
}

impl From<&StoreError> for WriteObstacle {
    fn from(error: &StoreError) -> WriteObstacle {
        let why = match error {
            StoreError::Full => return WriteObstacle::DiskFull,
            StoreError::Other(error) => match error.sqlite_error() {
                Some(code) => rusqlite::ffi::code_to_str(code.extended_code).to_owned(),
                None => error.to_string(),
            },
            newer @ StoreError::Newer { .. } => newer.to_string(),
        };
        WriteObstacle::Failed(why)
    }
}

impl From<&PersistError> for WriteObstacle {
    fn from(error: &PersistError) -> WriteObstacle {
        match error {
            PersistError::Store(error) => error.into(),
            full if full.is_full() => WriteObstacle::DiskFull,
            PersistError::Disk(error) => WriteObstacle::Failed(error.kind().to_string()),
            other => WriteObstacle::Failed(other.to_string()),
        }
    }
}

/// Rows of a missing or damaged segment.
#[derive(Clone, Debug, thiserror::Error)]
#[error("rows {first_row} to {} of job {job} cannot be read: {}: {why}", end_row - 1, file.display())]
pub struct UnreadableRows {
    /// The job.
    pub job: JobId,
    /// Number of the first row.
    pub first_row: i64,
    /// Number of the row after the last.
    pub end_row: i64,
    /// File or folder, relative to the data directory.
    pub file: PathBuf,
    /// Reason.
    pub why: String,
}

impl PersistError {
    /// Whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            PersistError::Store(StoreError::Full) => true,
            PersistError::Disk(error) => error.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

//! Read access of a backup to the store, also while a server writes it: a consistent copy, and whether a segment is
//! still named.

use std::path::Path;
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags, params};

use super::results::place;
use super::{FORMS, StoreError};
use crate::job::JobId;

/// Delay between attempts while a writer holds the store.
const PAUSE: Duration = Duration::from_millis(5);

/// See the module documentation.
pub struct BackupSource {
    connection: Connection,
}

impl BackupSource {
    /// Opens the store in the file at `path`.
    ///
    /// # Errors
    /// `StoreError::Newer` for a newer format; otherwise when it cannot be read.
    pub fn open(path: &Path) -> Result<BackupSource, StoreError> {
        let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if usize::try_from(found).is_ok_and(|form| form > FORMS.len()) {
            return Err(StoreError::Newer {
                found,
                known: FORMS.len(),
            });
        }
        Ok(BackupSource { connection })
    }

    /// Copies the store to the file `to`, and lists the segments named by the copy: job, index of the result, first
    /// row; oldest first.
    ///
    /// # Errors
    /// `StoreError` when the store cannot be read, the copy cannot be written, or the copy is damaged.
    pub fn copy(&self, to: &Path) -> Result<Vec<(JobId, usize, i64)>, StoreError> {
        let mut target = Connection::open(to)?;
        {
            let backup = Backup::new(&self.connection, &mut target)?;
            // All pages in one step: a write between two steps would restart the copy.
            while backup.step(-1)? != StepResult::Done {
                std::thread::sleep(PAUSE);
            }
        }
        // Otherwise the copy would have a separate log.
        target.pragma_update(None, "journal_mode", "delete")?;
        let found: String = target.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if found != "ok" {
            let damaged = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CORRUPT);
            return Err(StoreError::Other(rusqlite::Error::SqliteFailure(
                damaged,
                Some(found),
            )));
        }
        let mut statement =
            target.prepare("SELECT job, place, first_row FROM segments ORDER BY rowid")?;
        let rows =
            statement.query_map([], |row| Ok((row.get(0)?, place(row.get(1)?), row.get(2)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Whether the store names a segment now.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn has_segment(
        &self,
        (job, place, first_row): (JobId, usize, i64),
    ) -> Result<bool, StoreError> {
        let sql = "SELECT count(*) FROM segments WHERE job = ? AND place = ? AND first_row = ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        Ok(
            statement.query_row(params![job, place as i64, first_row], |row| {
                row.get::<_, i64>(0)
            })? > 0,
        )
    }
}

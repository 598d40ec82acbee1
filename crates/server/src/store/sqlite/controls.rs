//! Jobs as saved by their control logic.

use rusqlite::params;

use super::{Database, StoreError};
use crate::job::JobId;

/// A saved job that has not ended.
#[derive(Clone, Debug)]
pub struct UnfinishedJob {
    /// The job.
    pub job: JobId,
    /// State of its control logic.
    pub saved: String,
    /// Order for agents.
    pub body: Vec<u8>,
    /// Position of its published results.
    pub progress: Option<String>,
}

/// Control states of unfinished jobs.
#[derive(Clone)]
pub struct ControlStore {
    pub(super) database: Database,
}

impl ControlStore {
    /// Saves a job's control state.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn save_job(&self, job: JobId, saved: &str, body: &[u8]) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "INSERT INTO controlled (job, saved, body) VALUES (?, ?, ?)
                 ON CONFLICT (job) DO UPDATE SET saved = excluded.saved",
                params![job, saved, body],
            )
            .map(drop)
        })
    }

    /// Saved jobs that have not ended.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn jobs(&self) -> Result<Vec<UnfinishedJob>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT job, saved, body, progress FROM controlled JOIN jobs ON jobs.id = job
             WHERE state <> 'ended' ORDER BY job",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(UnfinishedJob {
                job: row.get(0)?,
                saved: row.get(1)?,
                body: row.get(2)?,
                progress: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes the control state of an ended job.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn forget_job(&self, job: JobId) -> Result<(), StoreError> {
        self.database.write(|t| {
            for table in ["frames", "controlled"] {
                t.execute(&format!("DELETE FROM {table} WHERE job = ?"), [job])?;
            }
            // Queries over its tuples need the periods of its agents.
            let sql = "DELETE FROM lanes WHERE job = ?1 AND (SELECT tuples FROM jobs WHERE id = ?1) IS NULL";
            t.execute(sql, [job]).map(drop)
        })
    }
}

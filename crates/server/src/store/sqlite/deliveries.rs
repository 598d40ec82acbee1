//! Outlets of jobs, and the progress of their delivery.

use rusqlite::{OptionalExtension, Transaction, params};

use super::{Database, StoreError};
use crate::job::JobId;

/// An outlet of a job, with the counts of its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredOutlet {
    /// Job.
    pub job: JobId,
    /// Index among the job's outlets.
    pub place: usize,
    /// Name or address.
    pub asked: String,
    /// Prefix of the identifiers of its messages.
    pub run: u64,
    /// Whether delivery is complete.
    pub is_done: bool,
    /// Counts over all results.
    pub sums: DeliveryCounts,
    /// Rows not delivered yet.
    pub behind: u64,
}

/// Counts of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Acknowledged.
    pub delivered: i64,
    /// Permanently rejected.
    pub refused: i64,
    /// Dropped because too many waited.
    pub backlog: i64,
    /// Removed by retention, or unreadable.
    pub gone: i64,
}

/// Delivery position of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeliveryPosition {
    /// Rows before this one are delivered or lost.
    pub next_row: i64,
    /// End of the range of the current attempt, exclusive.
    pub until_row: i64,
    /// Counts of earlier rows.
    pub sums: DeliveryCounts,
}

/// Adds the outlets of a new job.
pub(super) fn add_in(
    t: &Transaction<'_>,
    job: JobId,
    outlets: &[(&str, u64)],
) -> rusqlite::Result<()> {
    for (place, (asked, run)) in outlets.iter().enumerate() {
        t.execute(
            "INSERT INTO outlets (job, place, asked, run) VALUES (?, ?, ?, ?)",
            params![job, place as i64, asked, run.cast_signed()],
        )?;
    }
    Ok(())
}

/// Outlets and their positions.
#[derive(Clone)]
pub struct DeliveryStore {
    pub(super) database: Database,
}

impl DeliveryStore {
    /// The outlets of jobs from `first` to `last`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn outlets(&self, first: JobId, last: JobId) -> Result<Vec<StoredOutlet>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT o.job, o.place, asked, run, done, coalesce(sum(delivered), 0), coalesce(sum(refused), 0),
                 coalesce(sum(backlog), 0), coalesce(sum(gone), 0), coalesce(sum(d.next_row), 0),
                 (SELECT coalesce(sum(r.next_row), 0) FROM results r WHERE r.job = o.job)
             FROM outlets o LEFT JOIN deliveries d ON d.job = o.job AND d.place = o.place
             WHERE o.job BETWEEN ? AND ? GROUP BY o.job, o.place ORDER BY o.job, o.place",
        )?;
        let rows = statement.query_map([first, last], |row| {
            let (come, all): (i64, i64) = (row.get(9)?, row.get(10)?);
            Ok(StoredOutlet {
                job: row.get(0)?,
                place: usize::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
                asked: row.get(2)?,
                run: row.get::<_, i64>(3)?.cast_unsigned(),
                is_done: row.get(4)?,
                sums: DeliveryCounts {
                    delivered: row.get(5)?,
                    refused: row.get(6)?,
                    backlog: row.get(7)?,
                    gone: row.get(8)?,
                },
                behind: all.saturating_sub(come).unsigned_abs(),
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Jobs with incomplete delivery.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn unfinished_jobs(&self) -> Result<Vec<JobId>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection
            .prepare_cached("SELECT DISTINCT job FROM outlets WHERE done = 0 ORDER BY job")?;
        let rows = statement.query_map([], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Delivery position of a result at an outlet.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn position(
        &self,
        (job, place): (JobId, usize),
        result: usize,
    ) -> Result<DeliveryPosition, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT next_row, until_row, delivered, refused, backlog, gone FROM deliveries
             WHERE job = ? AND place = ? AND result = ?",
        )?;
        let found = statement.query_row(params![job, place as i64, result as i64], |row| {
            let sums = DeliveryCounts {
                delivered: row.get(2)?,
                refused: row.get(3)?,
                backlog: row.get(4)?,
                gone: row.get(5)?,
            };
            Ok(DeliveryPosition {
                next_row: row.get(0)?,
                until_row: row.get(1)?,
                sums,
            })
        });
        Ok(found.optional()?.unwrap_or_default())
    }

    /// Sets the delivery position of a result at an outlet.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn set_position(
        &self,
        (job, place): (JobId, usize),
        result: usize,
        at: &DeliveryPosition,
    ) -> Result<(), StoreError> {
        let DeliveryPosition {
            next_row,
            until_row,
            sums,
        } = at;
        let DeliveryCounts {
            delivered,
            refused,
            backlog,
            gone,
        } = sums;
        self.database.write(|t| {
            t.execute(
                "INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (job, place, result) DO
                 UPDATE SET next_row = ?4, until_row = ?5, delivered = ?6, refused = ?7, backlog = ?8, gone = ?9",
                params![
                    job,
                    place as i64,
                    result as i64,
                    next_row,
                    until_row,
                    delivered,
                    refused,
                    backlog,
                    gone
                ],
            )
            .map(drop)
        })
    }

    /// Marks the delivery of an outlet as complete.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn finish(&self, (job, place): (JobId, usize)) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "UPDATE outlets SET done = 1 WHERE job = ? AND place = ?",
                params![job, place as i64],
            )
            .map(drop)
        })
    }
}

//! Rows of jobs: the columns of their results, and the newest rows.

use rusqlite::{Transaction, params};

use super::{Database, StoreError, now_ns};
use crate::job::JobId;

/// Maximum jobs examined to find stored data for a query.
const JOBS_MAX: usize = 1000;
use crate::job::columns::ColumnHead;

/// A result of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptResult {
    /// Index among the job's results.
    pub place: usize,
    /// Processor; `None`: tuples.
    pub processor: Option<String>,
    /// Name of its files.
    pub table: String,
    /// Columns of the result.
    pub columns: Vec<ColumnHead>,
    /// Number of group columns, which follow those of the window.
    pub keys: usize,
    /// Number of the next row, counted from 0.
    pub next_row: i64,
    /// Rows removed by retention.
    pub rows_dropped: i64,
}

impl KeptResult {
    /// Whether it has this index or processor name.
    pub fn is_called(&self, name: &str) -> bool {
        self.processor.as_deref() == Some(name) || self.place.to_string() == name
    }
}

/// Rows to store.
#[derive(Clone, Debug)]
pub struct NewTail {
    /// Number of rows.
    pub rows: i64,
    /// Earliest time of a row.
    pub first_ns: i64,
    /// Latest time of a row.
    pub last_ns: i64,
    /// Watermark.
    pub watermark_ns: i64,
    /// Encoded rows.
    pub batch: Vec<u8>,
}

/// Stored rows that are not in a segment yet.
#[derive(Clone, Debug)]
pub struct RowTail {
    /// Number of the first row.
    pub first_row: i64,
    /// The rows.
    pub of: NewTail,
    /// Time of arrival.
    pub kept_ns: i64,
}

pub(super) fn place(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

/// Appends rows.
pub(super) fn keep_in(
    t: &Transaction<'_>,
    job: JobId,
    place: usize,
    new: &NewTail,
) -> rusqlite::Result<()> {
    let place = place as i64;
    let first: i64 = t.query_row(
        "UPDATE results SET next_row = next_row + ?3 WHERE job = ?1 AND place = ?2
         RETURNING next_row - ?3",
        params![job, place, new.rows],
        |row| row.get(0),
    )?;
    if new.rows > 0 {
        let NewTail {
            rows,
            first_ns,
            last_ns,
            watermark_ns,
            batch,
        } = new;
        t.execute(
            "INSERT INTO tail (job, place, first_row, rows, first_ns, last_ns, watermark_ns, kept_ns, batch)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![job, place, first, rows, first_ns, last_ns, watermark_ns, now_ns(), batch],
        )?;
    }
    Ok(())
}

/// Results of jobs, and their rows that are not in a segment yet.
#[derive(Clone)]
pub struct ResultStore {
    pub(super) database: Database,
}

impl ResultStore {
    /// Stores the columns of a job's results, if unknown.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(&self, job: JobId, results: &[KeptResult]) -> Result<(), StoreError> {
        self.database.write(|t| {
            for KeptResult {
                place,
                processor,
                table,
                columns,
                keys,
                ..
            } in results
            {
                let columns = serde_json::to_string(columns).unwrap_or_default();
                t.execute(
                    "INSERT INTO results (job, place, processor, table_name, columns, keys)
                     VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    params![job, *place as i64, processor, table, columns, *keys as i64],
                )?;
            }
            Ok(())
        })
    }

    /// The results of a job.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn of_job(&self, job: JobId) -> Result<Vec<KeptResult>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT place, processor, table_name, columns, keys, next_row, rows_dropped FROM results
             WHERE job = ? ORDER BY place",
        )?;
        let rows = statement.query_map([job], |row| {
            Ok(KeptResult {
                place: place(row.get(0)?),
                processor: row.get(1)?,
                table: row.get(2)?,
                columns: serde_json::from_str(&row.get::<_, String>(3)?).unwrap_or_default(),
                keys: place(row.get(4)?),
                next_row: row.get(5)?,
                rows_dropped: row.get(6)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Batches not in a segment yet with rows numbered `from` or higher; at most `limit`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn tail(
        &self,
        job: JobId,
        place: usize,
        from: i64,
        limit: usize,
    ) -> Result<Vec<RowTail>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT first_row, rows, first_ns, last_ns, watermark_ns, kept_ns, batch FROM tail
             WHERE job = ? AND place = ? AND first_row + rows > ? ORDER BY first_row LIMIT ?",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![job, place as i64, from, limit], |row| {
            let of = NewTail {
                rows: row.get(1)?,
                first_ns: row.get(2)?,
                last_ns: row.get(3)?,
                watermark_ns: row.get(4)?,
                batch: row.get(6)?,
            };
            Ok(RowTail {
                first_row: row.get(0)?,
                of,
                kept_ns: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Number of the first row of the last batch not in a segment yet.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn last_tail(&self, job: JobId, place: usize) -> Result<Option<i64>, StoreError> {
        let connection = self.database.lock();
        let sql = "SELECT max(first_row) FROM tail WHERE job = ? AND place = ?";
        Ok(connection
            .prepare_cached(sql)?
            .query_row(params![job, place as i64], |row| row.get(0))?)
    }

    /// Number and bytes of the rows not in a segment yet, and the arrival of the oldest.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn tail_size(
        &self,
        job: JobId,
        place: usize,
    ) -> Result<(i64, i64, Option<i64>), StoreError> {
        let connection = self.database.lock();
        let sql =
            "SELECT coalesce(sum(rows), 0), coalesce(sum(length(batch)), 0), min(kept_ns) FROM tail
                   WHERE job = ? AND place = ?";
        let mut statement = connection.prepare_cached(sql)?;
        let size = statement.query_row(params![job, place as i64], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        Ok(size)
    }

    /// Results with rows not in a segment yet that arrived before `kept_ns`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn old_tails(&self, kept_ns: i64) -> Result<Vec<(JobId, usize)>, StoreError> {
        let connection = self.database.lock();
        let mut statement =
            connection.prepare_cached("SELECT DISTINCT job, place FROM tail WHERE kept_ns < ?")?;
        let rows = statement.query_map([kept_ns], |row| Ok((row.get(0)?, place(row.get(1)?))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Jobs with tuples as rows; newest first, at most `JOBS_MAX`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn jobs_with_tuples(&self) -> Result<Vec<JobId>, StoreError> {
        self.job_ids(
            &format!(
                "SELECT job FROM results WHERE processor IS NULL ORDER BY job DESC LIMIT {JOBS_MAX}"
            ),
            params![],
        )
    }

    /// Jobs with stored rows of results within a period; newest first, at most `JOBS_MAX`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn jobs_with_rows(
        &self,
        (since_ns, until_ns): (i64, i64),
    ) -> Result<Vec<JobId>, StoreError> {
        let within = "WHERE last_ns >= ?1 AND first_ns < ?2";
        self.job_ids(
            &format!(
                "SELECT DISTINCT job FROM results WHERE processor IS NOT NULL AND job IN
                     (SELECT job FROM segments {within} UNION SELECT job FROM tail {within})
                 ORDER BY job DESC LIMIT {JOBS_MAX}"
            ),
            params![since_ns, until_ns],
        )
    }

    fn job_ids(
        &self,
        sql: &str,
        values: &[&dyn rusqlite::ToSql],
    ) -> Result<Vec<JobId>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(sql)?;
        let ids = statement.query_map(values, |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }
}

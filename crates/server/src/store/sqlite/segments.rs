//! Segments: the rows in each, the location of a result's rows at one moment, and removal by retention.

use rusqlite::{OptionalExtension, Row, params};

use super::results::place;
use super::{Database, StoreError};
use crate::job::{JobId, RetainedRows};

/// A segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySegment {
    /// Job.
    pub job: JobId,
    /// Index of the result.
    pub place: usize,
    /// Number of the first row.
    pub first_row: i64,
    /// Number of rows.
    pub rows: i64,
    /// Earliest time of a row.
    pub first_ns: i64,
    /// Latest time of a row.
    pub last_ns: i64,
    /// Time of arrival of the last row.
    pub kept_ns: i64,
    /// Bytes on disk.
    pub bytes: i64,
    /// Checksum of its files; `None`: written by a version without checksums.
    pub checksum: Option<i64>,
}

/// Consecutive rows of a result: those of a segment, or a batch that is not in one yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPiece {
    /// Number of the first row.
    pub first_row: i64,
    /// Number of rows.
    pub rows: i64,
    /// Earliest time of a row.
    pub first_ns: i64,
    /// Latest time of a row.
    pub last_ns: i64,
}

/// Extent of a result's stored rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultExtent {
    /// Earliest time of a row; `None`: no rows.
    pub first_ns: Option<i64>,
    /// Latest time of a row.
    pub last_ns: Option<i64>,
    /// Rows removed by retention.
    pub rows_dropped: i64,
}

/// Order of segments by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOrder {
    /// By creation, independent of the clock.
    Made,
    /// By arrival of their rows, by the clock, which may have been changed.
    Came,
}

/// SQL condition: segments of jobs with this setting of `keep`.
const OF_KEEP: &str = "(SELECT keep FROM jobs WHERE id = segments.job) = ?";

fn read_segment(row: &Row<'_>) -> rusqlite::Result<HistorySegment> {
    Ok(HistorySegment {
        job: row.get(0)?,
        place: place(row.get(1)?),
        first_row: row.get(2)?,
        rows: row.get(3)?,
        first_ns: row.get(4)?,
        last_ns: row.get(5)?,
        kept_ns: row.get(6)?,
        bytes: row.get(7)?,
        checksum: row.get(8)?,
    })
}

const SEGMENT: &str = "job, place, first_row, rows, first_ns, last_ns, kept_ns, bytes, checksum";

/// Index of the segments.
#[derive(Clone)]
pub struct SegmentStore {
    pub(super) database: Database,
}

impl SegmentStore {
    /// Adds a complete segment and removes its rows from the store.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(&self, s: &HistorySegment) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                &format!("INSERT INTO segments ({SEGMENT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
                params![
                    s.job,
                    s.place as i64,
                    s.first_row,
                    s.rows,
                    s.first_ns,
                    s.last_ns,
                    s.kept_ns,
                    s.bytes,
                    s.checksum
                ],
            )?;
            t.execute(
                "DELETE FROM tail WHERE job = ? AND place = ? AND first_row >= ? AND first_row < ?",
                params![s.job, s.place as i64, s.first_row, s.first_row + s.rows],
            )
            .map(drop)
        })
    }

    /// The first segment with rows numbered `from` or higher.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn at(
        &self,
        job: JobId,
        place: usize,
        from: i64,
    ) -> Result<Option<HistorySegment>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {SEGMENT} FROM segments WHERE job = ? AND place = ? AND first_row + rows > ?
             ORDER BY first_row LIMIT 1"
        ))?;
        Ok(statement
            .query_row(params![job, place as i64, from], read_segment)
            .optional()?)
    }

    /// Whether the segment exists.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn has(&self, job: JobId, place: usize, first_row: i64) -> Result<bool, StoreError> {
        let found = self.at(job, place, first_row)?;
        Ok(found.is_some_and(|segment| segment.first_row == first_row))
    }

    /// Pieces of a result that overlap a period, as of this moment, in order of their numbers.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn pieces(
        &self,
        job: JobId,
        place: usize,
        (since_ns, until_ns): (i64, i64),
    ) -> Result<Vec<RowPiece>, StoreError> {
        let connection = self.database.lock();
        // A single statement sees a consistent state: each row is in exactly one place.
        let columns = "first_row, rows, first_ns, last_ns";
        let within = "job = ?1 AND place = ?2 AND last_ns >= ?3 AND first_ns < ?4";
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {columns} FROM segments WHERE {within} UNION ALL SELECT {columns} FROM tail WHERE {within}
             ORDER BY first_row"
        ))?;
        let rows = statement.query_map(params![job, place as i64, since_ns, until_ns], |row| {
            Ok(RowPiece {
                first_row: row.get(0)?,
                rows: row.get(1)?,
                first_ns: row.get(2)?,
                last_ns: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Extent of a result's stored rows.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn extent(&self, job: JobId, place: usize) -> Result<ResultExtent, StoreError> {
        let connection = self.database.lock();
        let of =
            |table| format!("SELECT first_ns, last_ns FROM {table} WHERE job = ?1 AND place = ?2");
        let sql = format!(
            "SELECT min(first_ns), max(last_ns),
                 coalesce((SELECT rows_dropped FROM results WHERE job = ?1 AND place = ?2), 0)
             FROM ({} UNION ALL {})",
            of("segments"),
            of("tail")
        );
        let mut statement = connection.prepare_cached(&sql)?;
        Ok(statement.query_row(params![job, place as i64], |row| {
            Ok(ResultExtent {
                first_ns: row.get(0)?,
                last_ns: row.get(1)?,
                rows_dropped: row.get(2)?,
            })
        })?)
    }

    /// The oldest segment of jobs with this setting of `keep`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn oldest(
        &self,
        keep: RetainedRows,
        by: SegmentOrder,
    ) -> Result<Option<HistorySegment>, StoreError> {
        let order = match by {
            SegmentOrder::Made => "rowid",
            SegmentOrder::Came => "kept_ns, rowid",
        };
        let sql =
            format!("SELECT {SEGMENT} FROM segments WHERE {OF_KEEP} ORDER BY {order} LIMIT 1");
        Ok(self
            .database
            .lock()
            .prepare_cached(&sql)?
            .query_row([keep.word()], read_segment)
            .optional()?)
    }

    /// Total bytes of the segments of jobs with this setting of `keep`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn bytes(&self, keep: RetainedRows) -> Result<u64, StoreError> {
        let sql = format!("SELECT coalesce(sum(bytes), 0) FROM segments WHERE {OF_KEEP}");
        let bytes: i64 = self
            .database
            .lock()
            .prepare_cached(&sql)?
            .query_row([keep.word()], |row| row.get(0))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// The bytes of the newest rows, which are not in files yet, of jobs that keep this.
    ///
    /// # Errors
    /// The store's.
    pub fn tail_bytes(&self, keep: RetainedRows) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(sum(length(batch)), 0) FROM tail WHERE (SELECT keep FROM jobs WHERE id = tail.job) = ?";
        let bytes: i64 = self
            .database
            .lock()
            .prepare_cached(sql)?
            .query_row([keep.word()], |row| row.get(0))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Forgets a file, whose rows are counted as dropped.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove(&self, s: &HistorySegment) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "DELETE FROM segments WHERE job = ? AND place = ? AND first_row = ?",
                params![s.job, s.place as i64, s.first_row],
            )?;
            t.execute(
                "UPDATE results SET rows_dropped = rows_dropped + ?3 WHERE job = ?1 AND place = ?2",
                params![s.job, s.place as i64, s.rows],
            )
            .map(drop)
        })
    }

    /// Number of rows removed by retention.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn rows_dropped(&self) -> Result<i64, StoreError> {
        let connection = self.database.lock();
        let sql = "SELECT coalesce(sum(rows_dropped), 0) FROM results";
        Ok(connection
            .prepare_cached(sql)?
            .query_row([], |row| row.get(0))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSpec;
    use crate::store::sqlite::{KeptResult, NewJob, ServerStore};

    /// A job with one result and segments, whose rows arrived at these times.
    fn store(folder: &std::path::Path, keep: RetainedRows, kept_ns: &[i64]) -> ServerStore {
        let store = ServerStore::open(&folder.join("store")).expect("a store");
        let spec = JobSpec {
            keep,
            ..JobSpec::standing("", "")
        };
        let new = NewJob {
            spec: &spec,
            owner: "",
            outlets: Vec::new(),
            tuples: None,
        };
        let job = store.jobs.add(&new, None).expect("a job").id;
        let result = KeptResult {
            place: 0,
            processor: None,
            table: "t".into(),
            columns: Vec::new(),
            keys: 0,
            next_row: 0,
            rows_dropped: 0,
        };
        store.results.add(job, &[result]).expect("a result");
        for (n, kept_ns) in (0..).zip(kept_ns) {
            let first_row = n * 10;
            let first_ns = n;
            let last_ns = n + 1;
            let segment = HistorySegment {
                job,
                place: 0,
                first_row,
                rows: 10,
                first_ns,
                last_ns,
                kept_ns: *kept_ns,
                bytes: 7,
                checksum: None,
            };
            store.segments.add(&segment).expect("a file");
        }
        store
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_make_the_newest_the_oldest() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path(), RetainedRows::Results, &[1000, 2000, 5, 6]);
        let first_row = |by| {
            let oldest = store
                .segments
                .oldest(RetainedRows::Results, by)
                .expect("the store");
            oldest.map(|segment| segment.first_row)
        };
        assert_eq!(
            (first_row(SegmentOrder::Made), first_row(SegmentOrder::Came)),
            (Some(0), Some(20))
        );
        assert_eq!(
            store
                .segments
                .bytes(RetainedRows::Results)
                .expect("the store"),
            28
        );
        assert_eq!(
            store
                .segments
                .bytes(RetainedRows::Tuples)
                .expect("the store"),
            0
        );
        assert_eq!(
            store
                .segments
                .oldest(RetainedRows::Tuples, SegmentOrder::Made)
                .expect("the store"),
            None
        );
    }

    #[test]
    fn pieces_are_those_that_lie_within_a_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path(), RetainedRows::Tuples, &[1, 1, 1, 1]);
        let rows = |period| {
            let pieces = store
                .segments
                .pieces(JobId(1), 0, period)
                .expect("the store");
            pieces
                .iter()
                .map(|piece| piece.first_row)
                .collect::<Vec<_>>()
        };
        assert_eq!(rows((i64::MIN, i64::MAX)), [0, 10, 20, 30]);
        assert_eq!(rows((2, 3)), [10, 20]);
        assert_eq!(rows((5, 9)), [] as [i64; 0]);
        let extent = store.segments.extent(JobId(1), 0).expect("the store");
        assert_eq!(
            extent,
            ResultExtent {
                first_ns: Some(0),
                last_ns: Some(4),
                rows_dropped: 0
            }
        );
    }
}

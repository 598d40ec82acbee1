//! Stored results. Rows of a result are numbered from 0 in order of arrival. Recent rows are in the store; when they
//! are many or old, they become a segment: a folder with a complete Parquet data set, recorded in the store by the same
//! transaction that removes the rows. So after a crash at any point, each row is in exactly one place; folders unknown
//! to the store are incomplete and removed.

mod checksum;
mod pages;
mod pieces;
mod segments;
mod selected;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

use crate::job::{JobId, JobState, RetainedRows};
use crate::store::persist_error::PersistError;
use crate::store::sqlite::{
    HistorySegment, JobStore, KeptResult, ResultStore, RowTail, SegmentOrder, SegmentStore,
    ServerStore, now_ns,
};

pub use pages::{PageQuery, RowPage};
pub use pieces::ReadOutcome;
pub use selected::RowSelection;

/// Retention of rows.
#[derive(Clone, Copy, Debug)]
pub struct RowRetention {
    /// Maximum age of segments in nanoseconds; 0: unlimited.
    pub age_ns: i64,
    /// Maximum bytes of segments; the oldest are removed first. 0: unlimited.
    pub bytes: u64,
}

impl Default for RowRetention {
    fn default() -> RowRetention {
        RowRetention {
            age_ns: 7 * 86_400_000_000_000,
            bytes: 10 << 30,
        }
    }
}

/// Folder in the data directory.
pub(crate) const FOLDER: &str = "history";
/// Maximum rows in the store before they become a segment.
const TAIL_ROWS_MAX: i64 = 16 << 10;
/// Maximum bytes of these rows.
const TAIL_BYTES_MAX: i64 = 8 << 20;
/// Maximum age of these rows, in nanoseconds.
const TAIL_AGE_NS: i64 = 600_000_000_000;
/// Batches per read from the store.
const TAIL_BATCHES: usize = 64;

/// Counters of stored and removed rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryUsage {
    /// Bytes of results: of segments, and of the newest rows in the store.
    pub bytes: u64,
    /// Bytes of results of jobs that keep their tuples.
    pub tuple_bytes: u64,
    /// Rows removed by retention.
    pub rows_dropped: u64,
    /// Unreadable segments.
    pub segments_damaged: u64,
}

/// Access to stored rows.
pub struct RowHistory {
    jobs: JobStore,
    results: ResultStore,
    segments: SegmentStore,
    folder: PathBuf,
    segments_damaged: AtomicU64,
}

impl RowHistory {
    /// Opens the history in `folder`.
    pub fn open(store: &ServerStore, folder: PathBuf) -> io::Result<RowHistory> {
        fs::create_dir_all(&folder)?;
        let history = RowHistory {
            jobs: store.jobs.clone(),
            results: store.results.clone(),
            segments: store.segments.clone(),
            folder,
            segments_damaged: AtomicU64::new(0),
        };
        history.remove_orphans()?;
        Ok(history)
    }

    /// Removes folders of segments that the store does not know: their rows are still in the store, or dropped.
    fn remove_orphans(&self) -> io::Result<()> {
        for job in fs::read_dir(&self.folder)? {
            let job = job?.path();
            let Some(id) = job_of(&job) else { continue };
            for entry in fs::read_dir(&job)? {
                let path = entry?.path();
                let name = path.file_name().and_then(|name| name.to_str());
                let parts = name.and_then(|name| name.split_once('-'));
                let Some((place, first)) =
                    parts.and_then(|(p, f)| Some((p.parse().ok()?, f.parse().ok()?)))
                else {
                    continue;
                };
                let known = self
                    .segments
                    .has(id, place, first)
                    .map_err(io::Error::other)?;
                if !known {
                    fs::remove_dir_all(&path)?;
                }
            }
        }
        Ok(())
    }

    fn path(&self, job: JobId, place: usize, first_row: i64) -> PathBuf {
        segment_path(&self.folder, job, place, first_row)
    }

    /// Moves a result's rows from the store to a segment if they are many or old, or the job has ended. One thread at a
    /// time per result.
    pub fn settle(
        &self,
        job: JobId,
        state: &JobState,
        result: &KeptResult,
    ) -> Result<(), PersistError> {
        let all = state.has_ended();
        loop {
            let (rows, bytes, oldest) = self.results.tail_size(job, result.place)?;
            let is_old = oldest.is_some_and(|at| at < now_ns() - TAIL_AGE_NS);
            if rows == 0 || !(all || is_old || rows >= TAIL_ROWS_MAX || bytes >= TAIL_BYTES_MAX) {
                return Ok(());
            }
            let tail = self.for_segment(job, result)?;
            self.write_segment(job, result, &tail)?;
        }
    }

    /// The oldest rows in the store, up to the size of a segment.
    fn for_segment(&self, job: JobId, result: &KeptResult) -> Result<Vec<RowTail>, PersistError> {
        let mut all = Vec::new();
        let mut from = 0;
        let mut rows = 0;
        let mut bytes = 0;
        loop {
            let some = self.results.tail(job, result.place, from, TAIL_BATCHES)?;
            let Some(last) = some.last() else {
                return Ok(all);
            };
            from = last.first_row + last.of.rows;
            for part in some {
                let has_room = all.is_empty()
                    || rows < TAIL_ROWS_MAX
                        && bytes + part.of.batch.len() <= TAIL_BYTES_MAX as usize;
                if !has_room {
                    return Ok(all);
                }
                rows += part.of.rows;
                bytes += part.of.batch.len();
                all.push(part);
            }
        }
    }

    /// Applies retention by age and size to the jobs that keep `keep`.
    pub fn retain(&self, keep: RetainedRows, retention: &RowRetention) -> Result<(), PersistError> {
        if retention.age_ns > 0 {
            let is_old = |segment: &HistorySegment| {
                segment.kept_ns < now_ns().saturating_sub(retention.age_ns)
            };
            while let Some(oldest) = self
                .segments
                .oldest(keep, SegmentOrder::Came)?
                .filter(is_old)
            {
                self.take_away(&oldest)?;
            }
        }
        let mut bytes = self.segments.bytes(keep)?;
        while retention.bytes > 0 && bytes > retention.bytes {
            let Some(oldest) = self.segments.oldest(keep, SegmentOrder::Made)? else {
                return Ok(());
            };
            self.take_away(&oldest)?;
            bytes = bytes.saturating_sub(oldest.bytes.unsigned_abs());
        }
        Ok(())
    }

    fn take_away(&self, segment: &HistorySegment) -> Result<(), PersistError> {
        self.segments.remove(segment)?;
        let folder = self.path(segment.job, segment.place, segment.first_row);
        match fs::remove_dir_all(folder) {
            // Removed by someone else: the others are still to be removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => Ok(removed?),
        }
    }

    /// Current counters.
    pub fn kept(&self) -> Result<HistoryUsage, PersistError> {
        let bytes = |keep| {
            Ok::<_, PersistError>(self.segments.bytes(keep)? + self.segments.tail_bytes(keep)?)
        };
        Ok(HistoryUsage {
            bytes: bytes(RetainedRows::Results)?,
            tuple_bytes: bytes(RetainedRows::Tuples)?,
            rows_dropped: u64::try_from(self.segments.rows_dropped()?).unwrap_or(0),
            segments_damaged: self.segments_damaged.load(Ordering::Relaxed),
        })
    }
}

/// Path of a segment in the history's folder.
pub(crate) fn segment_path(folder: &Path, job: JobId, place: usize, first_row: i64) -> PathBuf {
    folder
        .join(job.to_string())
        .join(format!("{place}-{first_row:012}"))
}

fn job_of(path: &Path) -> Option<JobId> {
    path.file_name()?.to_str()?.parse().ok()
}

#[cfg(test)]
mod tests;

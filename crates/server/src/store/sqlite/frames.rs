//! Records of agents before they become rows: committed positions of lanes, and records of unpublished windows. A record
//! is written together with its lane's position; rows are written together with the published position and the removal
//! of the records used.

use rusqlite::{Transaction, params};

use super::actions::{self, ActionChange};
use super::alerts::{RuleChange, change_in};
use super::results::keep_in;
use super::{Database, NewTail, StoreError};
use crate::job::JobId;

/// Committed position of a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneMark {
    /// Job.
    pub job: JobId,
    /// Name of the lane.
    pub lane: String,
    /// Last committed record of the lane.
    pub seq: u64,
    /// Encoded state of the lane.
    pub facts: String,
}

/// A record to store.
#[derive(Clone, Debug)]
pub struct NewFrame {
    /// Job.
    pub job: JobId,
    /// Name of its lane; `None`: the partial result of many records.
    pub lane: Option<String>,
    /// Watermark at which it is no longer needed.
    pub over_ns: i64,
    /// Encoded report.
    pub payload: bytes::Bytes,
}

/// A stored record.
#[derive(Clone, Debug)]
pub struct StoredFrame {
    /// Number, in order of commits.
    pub id: i64,
    /// The record.
    pub of: NewFrame,
}

/// Data written together with rows.
#[derive(Clone, Debug, Default)]
pub struct CommitProgress {
    /// Position up to which the job's results were published, for the next process.
    pub text: String,
    /// Watermark: records no longer needed at it are removed.
    pub watermark_ns: i64,
    /// Lanes whose records are in the rows.
    pub marks: Vec<LaneMark>,
    /// Agents behind the watermark.
    pub lacking: Vec<String>,
    /// For a job with a join.
    pub joined: Option<JoinedFrames>,
}

/// Stored records of a join: those with a lane are from agents, those without are its output.
#[derive(Clone, Debug, Default)]
pub struct JoinedFrames {
    /// Records to store.
    pub frames: Vec<NewFrame>,
    /// Positions of lanes after them.
    pub marks: Vec<LaneMark>,
    /// Records with a lane that are no longer needed at this watermark are removed.
    pub over_ns: i64,
}

/// Selects records of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFilter {
    /// All records.
    All,
    /// Partial results of many records.
    OfMany,
}

impl FrameFilter {
    fn condition(self) -> &'static str {
        match self {
            FrameFilter::All => "",
            FrameFilter::OfMany => " AND lane IS NULL",
        }
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn add_frame(t: &Transaction<'_>, frame: &NewFrame) -> rusqlite::Result<()> {
    let mut add =
        t.prepare_cached("INSERT INTO frames (job, lane, over_ns, payload) VALUES (?, ?, ?, ?)")?;
    add.execute(params![
        frame.job,
        frame.lane,
        frame.over_ns,
        &frame.payload[..]
    ])
    .map(drop)
}

fn add_marks(t: &Transaction<'_>, marks: &[LaneMark]) -> rusqlite::Result<()> {
    let mut add = t.prepare_cached(
        "INSERT INTO lanes (job, lane, seq, facts) VALUES (?, ?, ?, ?)
         ON CONFLICT (job, lane) DO UPDATE SET seq = excluded.seq, facts = excluded.facts",
    )?;
    marks.iter().try_for_each(|mark| {
        add.execute(params![mark.job, mark.lane, signed(mark.seq), mark.facts])
            .map(drop)
    })
}

fn keep_joined_in(t: &Transaction<'_>, job: JobId, joined: &JoinedFrames) -> rusqlite::Result<()> {
    t.execute(
        "DELETE FROM frames WHERE job = ? AND lane IS NOT NULL AND over_ns <= ?",
        params![job, joined.over_ns],
    )?;
    joined
        .frames
        .iter()
        .try_for_each(|frame| add_frame(t, frame))?;
    add_marks(t, &joined.marks)
}

/// Records, and positions of lanes; commits rows.
#[derive(Clone)]
pub struct FrameStore {
    pub(super) database: Database,
}

impl FrameStore {
    /// Committed positions of a job's lanes.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn lanes(&self, job: JobId) -> Result<Vec<LaneMark>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection
            .prepare_cached("SELECT lane, seq, facts FROM lanes WHERE job = ? ORDER BY lane")?;
        let rows = statement.query_map([job], |row| {
            let seq = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            Ok(LaneMark {
                job,
                lane: row.get(0)?,
                seq,
                facts: row.get(2)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Commits records with the positions of their lanes.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be written; nothing is committed then.
    pub fn append(&self, frames: &[NewFrame], marks: &[LaneMark]) -> Result<(), StoreError> {
        self.database.write(|t| {
            frames.iter().try_for_each(|frame| add_frame(t, frame))?;
            add_marks(t, marks)
        })
    }

    /// Commits records for a join, and its output.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be written; nothing is committed then.
    pub fn append_joined(&self, job: JobId, joined: &JoinedFrames) -> Result<(), StoreError> {
        self.database.write(|t| keep_joined_in(t, job, joined))
    }

    /// Replaces records of a job by their partial result.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be written; nothing is changed then.
    pub fn replace(
        &self,
        job: JobId,
        which: FrameFilter,
        by: &[NewFrame],
    ) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                &format!("DELETE FROM frames WHERE job = ?{}", which.condition()),
                [job],
            )?;
            by.iter().try_for_each(|frame| add_frame(t, frame))
        })
    }

    /// Records of a job after number `after`, in order, at most `limit`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn read(
        &self,
        job: JobId,
        after: i64,
        limit: usize,
    ) -> Result<Vec<StoredFrame>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, lane, over_ns, payload FROM frames WHERE job = ? AND id > ? ORDER BY id LIMIT ?",
        )?;
        let rows = statement.query_map(params![job, after, signed(limit as u64)], |row| {
            let payload = row.get::<_, Vec<u8>>(3)?.into();
            let of = NewFrame {
                job,
                lane: row.get(1)?,
                over_ns: row.get(2)?,
                payload,
            };
            Ok(StoredFrame {
                id: row.get(0)?,
                of,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Total bytes of a job's stored records.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn bytes(&self, job: JobId, which: FrameFilter) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(sum(length(payload)), 0) FROM frames WHERE job = ?";
        let bytes: i64 = self.database.lock().query_row(
            &format!("{sql}{}", which.condition()),
            [job],
            |row| row.get(0),
        )?;
        Ok(bytes.unsigned_abs())
    }

    /// Stores rows of a job's results with its position in one transaction.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn commit(
        &self,
        job: JobId,
        rows: &[(usize, NewTail)],
        progress: &CommitProgress,
        alerts: &[RuleChange],
        actions: &[ActionChange],
    ) -> Result<(), StoreError> {
        self.database.write(|t| {
            for (place, new) in rows {
                keep_in(t, job, *place, new)?;
            }
            t.execute(
                "UPDATE controlled SET progress = ? WHERE job = ?",
                params![progress.text, job],
            )?;
            let which = progress
                .joined
                .as_ref()
                .map_or(FrameFilter::All, |_| FrameFilter::OfMany)
                .condition();
            t.execute(
                &format!("DELETE FROM frames WHERE job = ? AND over_ns <= ?{which}"),
                params![job, progress.watermark_ns],
            )?;
            progress
                .joined
                .iter()
                .try_for_each(|joined| keep_joined_in(t, job, joined))?;
            add_marks(t, &progress.marks)?;
            alerts.iter().try_for_each(|change| change_in(t, change))?;
            actions
                .iter()
                .try_for_each(|change| actions::change_in(t, change))
        })
    }
}

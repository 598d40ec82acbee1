//! What agents' records came to before it is rows: jobs as their control has saved them, how far lanes are committed, and the
//! records of windows that are not published yet. A record and its lane's mark are written together; rows, how far they
//! have been published, and the removal of what they were made of as well.

use rusqlite::{Transaction, params};

use super::actions::{self, ActionChange};
use super::alerts::{RuleChange, change_in};
use super::results::keep_in;
use super::{NewTail, Store, StoreError, now_ns};
use crate::job::JobId;

/// A job that has not ended, as it was saved.
#[derive(Clone, Debug)]
pub struct Controlled {
    /// The job.
    pub job: JobId,
    /// What its control knows of it.
    pub saved: String,
    /// The order that agents get.
    pub body: Vec<u8>,
    /// How far its results have been published.
    pub progress: Option<String>,
}

/// How far a lane is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneMark {
    /// Of which job.
    pub job: JobId,
    /// The lane's name.
    pub lane: String,
    /// Its last committed record.
    pub seq: u64,
    /// What else is known of it.
    pub facts: String,
}

/// A record that is to be kept.
#[derive(Clone, Debug)]
pub struct NewFrame {
    /// Of which job.
    pub job: JobId,
    /// Its lane's name; `None`: it stands for many.
    pub lane: Option<String>,
    /// The watermark at which it counts no more.
    pub over_ns: i64,
    /// What it says.
    pub payload: bytes::Bytes,
}

/// A record that is kept.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Its number; records are numbered in the order in which they were committed.
    pub id: i64,
    /// As it was given.
    pub of: NewFrame,
}

/// What is written together with rows.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Position up to which the job's results were published, for the next process.
    pub text: String,
    /// Event time has come here: records that count no more go.
    pub watermark_ns: i64,
    /// Lanes whose records are in the rows.
    pub marks: Vec<LaneMark>,
    /// Agents that have not come as far.
    pub lacking: Vec<String>,
    /// For a job whose records are joined before they count.
    pub joined: Option<Joined>,
}

/// What is kept of records that are joined before they count: those with a lane are what agents sent, those without what joining
/// them came to.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// To be kept.
    pub frames: Vec<NewFrame>,
    /// How far lanes have come by them.
    pub marks: Vec<LaneMark>,
    /// Of those with a lane, all that count no more at this watermark of theirs go.
    pub over_ns: i64,
}

/// Which records of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those that stand for many.
    OfMany,
}

impl Which {
    fn condition(self) -> &'static str {
        match self {
            Which::All => "",
            Which::OfMany => " AND lane IS NULL",
        }
    }
}

fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn add_frame(t: &Transaction<'_>, frame: &NewFrame) -> rusqlite::Result<()> {
    let mut add = t.prepare_cached("INSERT INTO frames (job, lane, over_ns, payload) VALUES (?, ?, ?, ?)")?;
    add.execute(params![frame.job.0, frame.lane, frame.over_ns, &frame.payload[..]]).map(drop)
}

fn add_marks(t: &Transaction<'_>, marks: &[LaneMark]) -> rusqlite::Result<()> {
    let mut add = t.prepare_cached(
        "INSERT INTO lanes (job, lane, seq, facts) VALUES (?, ?, ?, ?)
         ON CONFLICT (job, lane) DO UPDATE SET seq = excluded.seq, facts = excluded.facts",
    )?;
    marks.iter().try_for_each(|mark| {
        add.execute(params![mark.job.0, mark.lane, signed(mark.seq), mark.facts]).map(drop)
    })
}

fn keep_joined_in(t: &Transaction<'_>, job: JobId, joined: &Joined) -> rusqlite::Result<()> {
    t.execute(
        "DELETE FROM frames WHERE job = ? AND lane IS NOT NULL AND over_ns <= ?",
        params![job.0, joined.over_ns],
    )?;
    joined.frames.iter().try_for_each(|frame| add_frame(t, frame))?;
    add_marks(t, &joined.marks)
}

impl Store {
    /// Saves a job as its control has it.
    ///
    /// # Errors
    /// The store's.
    pub fn save_controlled(&self, job: JobId, saved: &str, body: &[u8]) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute(
                "INSERT INTO controlled (job, saved, body) VALUES (?, ?, ?)
                 ON CONFLICT (job) DO UPDATE SET saved = excluded.saved",
                params![job.0, saved, body],
            )
            .map(drop)
        })
    }

    /// The jobs that were saved and have not ended.
    ///
    /// # Errors
    /// The store's.
    pub fn controlled(&self) -> Result<Vec<Controlled>, StoreError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT job, saved, body, progress FROM controlled JOIN jobs ON jobs.id = job
             WHERE state <> 'ended' ORDER BY job",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(Controlled {
                job: JobId(row.get(0)?),
                saved: row.get(1)?,
                body: row.get(2)?,
                progress: row.get(3)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of the last job that was asked for.
    ///
    /// # Errors
    /// The store's.
    pub fn last_job(&self) -> Result<i64, StoreError> {
        Ok(self.lock().query_row("SELECT coalesce(max(id), 0) FROM jobs", [], |row| row.get(0))?)
    }

    /// How far the lanes of a job are committed.
    ///
    /// # Errors
    /// The store's.
    pub fn lanes(&self, job: JobId) -> Result<Vec<LaneMark>, StoreError> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT lane, seq, facts FROM lanes WHERE job = ? ORDER BY lane")?;
        let rows = statement.query_map([job.0], |row| {
            let seq = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            Ok(LaneMark { job, lane: row.get(0)?, seq, facts: row.get(2)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Commits records and how far their lanes have come by them.
    ///
    /// # Errors
    /// The store's; nothing is committed then.
    pub fn keep_frames(&self, frames: &[NewFrame], marks: &[LaneMark]) -> Result<(), StoreError> {
        self.write(|t| {
            frames.iter().try_for_each(|frame| add_frame(t, frame))?;
            add_marks(t, marks)
        })
    }

    /// Commits records that are joined, and what joining came to.
    ///
    /// # Errors
    /// The store's; nothing is committed then.
    pub fn keep_joined(&self, job: JobId, joined: &Joined) -> Result<(), StoreError> {
        self.write(|t| keep_joined_in(t, job, joined))
    }

    /// Whether the disk takes as much as a record may have.
    ///
    /// # Errors
    /// The store's.
    pub fn probe(&self) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute("SAVEPOINT probe", [])?;
            t.execute_batch(
                "CREATE TABLE probe (bytes BLOB); INSERT INTO probe VALUES (zeroblob(1048576)); ROLLBACK TO probe",
            )
        })
    }

    /// Puts what many records of a job came to in the place of them.
    ///
    /// # Errors
    /// The store's; nothing is changed then.
    pub fn replace_frames(&self, job: JobId, which: Which, by: &[NewFrame]) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute(&format!("DELETE FROM frames WHERE job = ?{}", which.condition()), [job.0])?;
            by.iter().try_for_each(|frame| add_frame(t, frame))
        })
    }

    /// Records of a job behind number `after`, in their order, at most `limit`.
    ///
    /// # Errors
    /// The store's.
    pub fn frames(&self, job: JobId, after: i64, limit: usize) -> Result<Vec<Frame>, StoreError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, lane, over_ns, payload FROM frames WHERE job = ? AND id > ? ORDER BY id LIMIT ?",
        )?;
        let rows = statement.query_map(params![job.0, after, signed(limit as u64)], |row| {
            let payload = row.get::<_, Vec<u8>>(3)?.into();
            let of = NewFrame { job, lane: row.get(1)?, over_ns: row.get(2)?, payload };
            Ok(Frame { id: row.get(0)?, of })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many bytes of records of a job are kept.
    ///
    /// # Errors
    /// The store's.
    pub fn frames_bytes(&self, job: JobId, which: Which) -> Result<u64, StoreError> {
        let sql = "SELECT coalesce(sum(length(payload)), 0) FROM frames WHERE job = ?";
        let bytes: i64 =
            self.lock().query_row(&format!("{sql}{}", which.condition()), [job.0], |row| row.get(0))?;
        Ok(bytes.unsigned_abs())
    }

    /// Keeps rows of some results of a job, and with them how far it has come; all of it or nothing.
    ///
    /// # Errors
    /// The store's.
    pub fn release(
        &self,
        job: JobId,
        rows: &[(usize, NewTail)],
        progress: &Progress,
        alerts: &[RuleChange],
        actions: &[ActionChange],
    ) -> Result<(), StoreError> {
        self.write(|t| {
            for (place, new) in rows {
                keep_in(t, (job, *place), new)?;
            }
            t.execute("UPDATE controlled SET progress = ? WHERE job = ?", params![progress.text, job.0])?;
            let which = progress.joined.as_ref().map_or(Which::All, |_| Which::OfMany).condition();
            t.execute(
                &format!("DELETE FROM frames WHERE job = ? AND over_ns <= ?{which}"),
                params![job.0, progress.watermark_ns],
            )?;
            progress.joined.iter().try_for_each(|joined| keep_joined_in(t, job, joined))?;
            add_marks(t, &progress.marks)?;
            alerts.iter().try_for_each(|change| change_in(t, change))?;
            actions.iter().try_for_each(|change| actions::change_in(t, change))
        })
    }

    /// Nothing more is asked of a job that has ended.
    ///
    /// # Errors
    /// The store's.
    pub fn forget_controlled(&self, job: JobId) -> Result<(), StoreError> {
        self.write(|t| {
            for table in ["frames", "controlled"] {
                t.execute(&format!("DELETE FROM {table} WHERE job = ?"), [job.0])?;
            }
            // Tuples are asked later, and then it counts who brought them when.
            let sql = "DELETE FROM lanes WHERE job = ?1 AND (SELECT tuples FROM jobs WHERE id = ?1) IS NULL";
            t.execute(sql, [job.0]).map(drop)
        })
    }

    /// Notes what is known of an agent.
    ///
    /// # Errors
    /// The store's.
    pub fn keep_agent(&self, name: &str, facts: &str) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute(
                "INSERT INTO agents (name, facts, last_seen_ns) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET facts = ?2, last_seen_ns = ?3",
                params![name, facts, now_ns()],
            )
            .map(drop)
        })
    }

    /// The agents that were noted: name, what is known, when that was.
    ///
    /// # Errors
    /// The store's.
    pub fn agents_known(&self) -> Result<Vec<(String, String, i64)>, StoreError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached("SELECT name, facts, last_seen_ns FROM agents")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

//! Jobs with the states of their control logic, and the idempotency keys of their submissions.

use std::collections::BTreeMap;

use rusqlite::{OptionalExtension, Row, params};

use super::{Database, StoreError, now_ns};
use crate::job::{
    CaptureRequest, Job, JobId, JobKind, JobOutcome, JobSpec, JobState, MergeEngine, RedactionMode,
    RetainedRows, TupleOrigin,
};

/// Lifetime of keys: one day.
const KEY_LIFE_NS: i64 = 86_400_000_000_000;

/// A job to add.
#[derive(Clone, Debug)]
pub struct NewJob<'a> {
    /// Specification.
    pub spec: &'a JobSpec,
    /// Token name of the owner.
    pub owner: &'a str,
    /// Outlets for its rows, names or addresses, each with the prefix of the identifiers of its messages.
    pub outlets: Vec<(&'a str, u64)>,
    /// Origin of its rows, if they are tuples.
    pub tuples: Option<TupleOrigin>,
}

/// State of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLookup {
    /// Unknown.
    New,
    /// The same request created this job.
    Same(JobId),
    /// The key was used with another request.
    Other,
}

/// Filter of jobs.
#[derive(Clone, Debug, Default)]
pub struct JobQuery {
    /// Only jobs in this state: `planned`, `running` and so on.
    pub state: Option<String>,
    /// Only jobs older than this number.
    pub before: Option<JobId>,
    /// Maximum number of jobs.
    pub limit: usize,
}

/// A job that has not ended, with its control state.
#[derive(Clone, Debug)]
pub struct UnfinishedJob {
    /// The job.
    pub job: JobId,
    /// State of the job's control logic.
    pub saved: String,
    /// Order for agents.
    pub body: Vec<u8>,
    /// Position of the job's published results.
    pub progress: Option<String>,
}

const COLUMNS: &str = "id, name, query, kind, state, reason, owner, agents_on, labels, redacted, created_ns, ended_ns, \
                       outcome, capture, lease_seconds, keep, tuples, merged_by";

fn read(row: &Row<'_>) -> rusqlite::Result<Job> {
    let labels = |text: String| serde_json::from_str(&text).unwrap_or_default();
    let (state, reason): (String, Option<String>) = (row.get(4)?, row.get(5)?);
    let outcome = row
        .get::<_, Option<String>>(12)?
        .and_then(|word| JobOutcome::of(&word));
    let capture: CaptureRequest =
        serde_json::from_str(&row.get::<_, String>(13)?).unwrap_or_default();
    let state = JobState::of(&state, reason.clone(), outcome);
    Ok(Job {
        id: row.get(0)?,
        spec: JobSpec {
            name: row.get(1)?,
            query: row.get(2)?,
            kind: JobKind::of(&row.get::<_, String>(3)?),
            on: labels(row.get(7)?),
            labels: labels(row.get(8)?),
            redaction: if row.get(9)? {
                RedactionMode::Folded
            } else {
                RedactionMode::Raw
            },
            capture,
            lease_seconds: row.get(14)?,
            keep: RetainedRows::of(&row.get::<_, String>(15)?),
            merged_by: row
                .get::<_, Option<String>>(17)?
                .map(|word| MergeEngine::of(&word)),
        },
        state,
        reason,
        owner: row.get(6)?,
        created_ns: row.get(10)?,
        ended_ns: row.get(11)?,
        outlets: Vec::new(),
        tuples: row
            .get::<_, Option<String>>(16)?
            .and_then(|text| serde_json::from_str(&text).ok()),
    })
}

/// Jobs and idempotency keys.
#[derive(Clone)]
pub struct JobStore {
    pub(super) database: Database,
}

impl JobStore {
    /// Adds a planned job, with the key and body of its request if it has a key.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(&self, new: &NewJob<'_>, key: Option<(&str, &[u8])>) -> Result<Job, StoreError> {
        let json =
            |labels: &BTreeMap<String, String>| serde_json::to_string(labels).unwrap_or_default();
        let sql = format!(
            "INSERT INTO jobs (name, query, kind, state, owner, agents_on, labels, redacted, created_ns, capture, lease_seconds, keep, tuples, merged_by)
             VALUES (?, ?, ?, 'planned', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING {COLUMNS}"
        );
        let NewJob {
            spec,
            owner,
            outlets,
            tuples,
        } = new;
        let tuples = tuples
            .as_ref()
            .map(|made| serde_json::to_string(made).unwrap_or_default());
        self.database.write(|t| {
            let now = now_ns();
            let values = params![
                spec.name,
                spec.query,
                spec.kind.word(),
                owner,
                json(&spec.on),
                json(&spec.labels),
                spec.is_redacted(),
                now,
                serde_json::to_string(&spec.capture).unwrap_or_default(),
                spec.lease_seconds,
                spec.keep.word(),
                tuples,
                spec.merged_by.map(MergeEngine::word)
            ];
            let job = t.query_row(&sql, values, read)?;
            super::deliveries::add_in(t, job.id, outlets)?;
            if let Some((key, body)) = key {
                t.execute(
                    "DELETE FROM idempotency WHERE at_ns < ?",
                    [now - KEY_LIFE_NS],
                )?;
                t.execute(
                    "INSERT INTO idempotency (owner, key, body, job, at_ns) VALUES (?, ?, ?, ?, ?)",
                    params![owner, key, body, job.id, now],
                )?;
            }
            Ok(job)
        })
    }

    /// Removes a rejected job without a trace.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove(&self, id: JobId) -> Result<(), StoreError> {
        self.database
            .write(|t| t.execute("DELETE FROM jobs WHERE id = ?", [id]).map(drop))
    }

    /// State of `owner`'s key.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remembered(&self, owner: &str, key: &str, body: &[u8]) -> Result<KeyLookup, StoreError> {
        let connection = self.database.lock();
        let found: Option<(Vec<u8>, JobId)> = connection
            .prepare_cached(
                "SELECT body, job FROM idempotency WHERE owner = ? AND key = ? AND at_ns > ?",
            )?
            .query_row(params![owner, key, now_ns() - KEY_LIFE_NS], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        Ok(match found {
            None => KeyLookup::New,
            Some((known, job)) if known == body => KeyLookup::Same(job),
            Some(_) => KeyLookup::Other,
        })
    }

    /// A job.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let connection = self.database.lock();
        let mut statement =
            connection.prepare_cached(&format!("SELECT {COLUMNS} FROM jobs WHERE id = ?"))?;
        Ok(statement.query_row([id], read).optional()?)
    }

    /// Jobs, newest first.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn list(&self, wanted: &JobQuery) -> Result<Vec<Job>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM jobs WHERE (?1 IS NULL OR state = ?1) AND id < ?2 ORDER BY id DESC LIMIT ?3"
        ))?;
        let limit = i64::try_from(wanted.limit).unwrap_or(i64::MAX);
        let before = wanted.before.unwrap_or(JobId::MAX);
        let rows = statement.query_map(params![wanted.state, before, limit], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Unfinished jobs, oldest first.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn unfinished(&self) -> Result<Vec<Job>, StoreError> {
        let connection = self.database.lock();
        let states = "state IN ('planned', 'arming', 'running', 'draining')";
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {COLUMNS} FROM jobs WHERE {states} ORDER BY id"
        ))?;
        let rows = statement.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Number of jobs by state.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn count_by_state(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection
            .prepare_cached("SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.unsigned_abs()))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Number of the last submitted job.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn last(&self) -> Result<JobId, StoreError> {
        Ok(self
            .database
            .lock()
            .query_row("SELECT coalesce(max(id), 0) FROM jobs", [], |row| {
                row.get(0)
            })?)
    }

    /// Number of unfinished jobs.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn unfinished_count(&self) -> Result<usize, StoreError> {
        let connection = self.database.lock();
        let sql =
            "SELECT count(*) FROM jobs WHERE state IN ('planned', 'arming', 'running', 'draining')";
        let count: i64 = connection
            .prepare_cached(sql)?
            .query_row([], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Number of unfinished jobs of an owner.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn unfinished_count_of(&self, owner: &str) -> Result<usize, StoreError> {
        let connection = self.database.lock();
        let sql = "SELECT count(*) FROM jobs WHERE owner = ? AND state IN ('planned', 'arming', 'running', 'draining')";
        let count: i64 = connection
            .prepare_cached(sql)?
            .query_row([owner], |row| row.get(0))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Stores the counters of a job's agents.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn keep_accounts(&self, id: JobId, accounts: &str) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "UPDATE jobs SET accounts = ?2 WHERE id = ?1",
                params![id, accounts],
            )
        })?;
        Ok(())
    }

    /// Stored counters of a job's agents.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn accounts(&self, id: JobId) -> Result<Option<String>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached("SELECT accounts FROM jobs WHERE id = ?")?;
        Ok(statement
            .query_row([id], |row| row.get(0))
            .optional()?
            .flatten())
    }

    /// Removes the agents' counters of jobs that ended before `before_ns`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn forget_accounts(&self, before_ns: i64) -> Result<(), StoreError> {
        let forget = "UPDATE jobs SET accounts = NULL WHERE accounts IS NOT NULL AND ended_ns < ?";
        self.database.write(|t| t.execute(forget, [before_ns]))?;
        Ok(())
    }

    /// Sets the state of a job; an ended job stays ended. Returns whether it changed.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn set_state(
        &self,
        id: JobId,
        state: &JobState,
        reason: Option<&str>,
    ) -> Result<bool, StoreError> {
        let ended = state.has_ended().then(now_ns);
        let reason = reason.or(state.reason());
        let outcome = state.outcome().map(JobOutcome::word);
        let changed = self.database.write(|t| {
            t.execute(
                "UPDATE jobs SET state = ?2, reason = ?3, ended_ns = ?4, outcome = ?5 WHERE id = ?1 AND state <> 'ended'",
                params![id, state.word(), reason, ended, outcome],
            )
        })?;
        Ok(changed > 0)
    }

    /// Saves a job's control state.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn save_control(&self, job: JobId, saved: &str, body: &[u8]) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "INSERT INTO controlled (job, saved, body) VALUES (?, ?, ?)
                 ON CONFLICT (job) DO UPDATE SET saved = excluded.saved",
                params![job, saved, body],
            )
            .map(drop)
        })
    }

    /// Jobs that have not ended, with their control states.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn unfinished_controls(&self) -> Result<Vec<UnfinishedJob>, StoreError> {
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
    pub fn forget_control(&self, job: JobId) -> Result<(), StoreError> {
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

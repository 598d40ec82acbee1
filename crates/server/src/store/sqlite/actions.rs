//! Actions, their state and decisions. Changes caused by a window are written together with the window's rows.

use rusqlite::{OptionalExtension, Transaction, params};

use super::{Database, StoreError, now_ns};
use crate::job::JobId;

/// Maximum stored decisions per action; the oldest are removed first.
const DECISIONS_MAX: i64 = 1000;

/// An action with its state.
#[derive(Clone, Debug)]
pub struct StoredAction {
    /// Number.
    pub id: i64,
    /// Name.
    pub name: String,
    /// Token name of the owner.
    pub owner: String,
    /// Job whose rows it evaluates.
    pub job: JobId,
    /// Encoded action.
    pub body: String,
    /// Time of creation.
    pub created_ns: i64,
    /// Encoded state.
    pub standing: String,
}

/// Change of an action caused by a window.
#[derive(Clone, Debug, Default)]
pub struct ActionChange {
    /// Number of the action.
    pub action: i64,
    /// Encoded state.
    pub standing: String,
    /// New decision: number and encoded content.
    pub decision: Option<(u64, String)>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDecision {
    /// Number.
    pub version: u64,
    /// Encoded content.
    pub body: String,
    /// Time of the decision.
    pub decided_ns: i64,
    /// Number of receivers that have acknowledged.
    pub reached: usize,
    /// Time when all receivers had acknowledged.
    pub done_ns: Option<i64>,
}

/// Applies a change within a transaction.
pub(super) fn change_in(t: &Transaction<'_>, change: &ActionChange) -> rusqlite::Result<()> {
    let ActionChange {
        action,
        standing,
        decision,
    } = change;
    t.execute(
        "UPDATE actions SET standing = ?2 WHERE id = ?1",
        params![action, standing],
    )?;
    let Some((version, body)) = decision else {
        return Ok(());
    };
    let version = version.cast_signed();
    t.execute(
        "INSERT INTO decisions (action, version, body, decided_ns) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        params![action, version, body, now_ns()],
    )?;
    let old = version.saturating_sub(DECISIONS_MAX);
    t.execute(
        "DELETE FROM decisions WHERE action = ? AND version <= ? AND done_ns IS NOT NULL",
        params![action, old],
    )
    .map(drop)
}

const COLUMNS: &str = "version, body, decided_ns, reached, done_ns";

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<StoredDecision> {
    Ok(StoredDecision {
        version: row.get::<_, i64>(0)?.cast_unsigned(),
        body: row.get(1)?,
        decided_ns: row.get(2)?,
        reached: usize::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
        done_ns: row.get(4)?,
    })
}

/// Actions and their decisions.
#[derive(Clone)]
pub struct ActionStore {
    pub(super) database: Database,
}

impl ActionStore {
    /// All actions.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn all(&self) -> Result<Vec<StoredAction>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, name, owner, job, body, created_ns, standing FROM actions ORDER BY id",
        )?;
        let rows = statement.query_map([], |row| {
            Ok(StoredAction {
                id: row.get(0)?,
                name: row.get(1)?,
                owner: row.get(2)?,
                job: row.get(3)?,
                body: row.get(4)?,
                created_ns: row.get(5)?,
                standing: row.get(6)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Adds an action with its first decision `first`; `None` if the name exists. The action's number is unknown before
    /// and not part of `first`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(
        &self,
        new: &StoredAction,
        first: &(u64, String),
    ) -> Result<Option<StoredAction>, StoreError> {
        let id = self.database.write(|t| {
            let id: Option<i64> = t
                .query_row(
                    "INSERT INTO actions (name, owner, job, body, created_ns, standing) VALUES (?, ?, ?, ?, ?, ?)
                     ON CONFLICT DO NOTHING RETURNING id",
                    params![new.name, new.owner, new.job, new.body, new.created_ns, new.standing],
                    |row| row.get(0),
                )
                .optional()?;
            if let Some(action) = id {
                let standing = new.standing.clone();
                let decision = Some(first.clone());
                change_in(t, &ActionChange { action, standing, decision })?;
            }
            Ok(id)
        })?;
        Ok(id.map(|id| StoredAction { id, ..new.clone() }))
    }

    /// Removes an action and its decisions.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove(&self, id: i64) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute("DELETE FROM actions WHERE id = ?", [id])
                .map(drop)
        })
    }

    /// The first decision of an action that has not been carried out.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn decision_waiting(&self, action: i64) -> Result<Option<StoredDecision>, StoreError> {
        let connection = self.database.lock();
        let sql = format!(
            "SELECT {COLUMNS} FROM decisions WHERE action = ? AND done_ns IS NULL ORDER BY version LIMIT 1"
        );
        Ok(connection
            .prepare_cached(&sql)?
            .query_row([action], read)
            .optional()?)
    }

    /// Decisions of an action before `before`, or the most recent ones if `None`; newest first.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn decisions(
        &self,
        action: i64,
        before: Option<u64>,
        limit: usize,
    ) -> Result<Vec<StoredDecision>, StoreError> {
        let connection = self.database.lock();
        let sql = format!(
            "SELECT {COLUMNS} FROM decisions WHERE action = ? AND version < ? ORDER BY version DESC LIMIT ?"
        );
        let before = before
            .and_then(|before| i64::try_from(before).ok())
            .unwrap_or(i64::MAX);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let mut statement = connection.prepare_cached(&sql)?;
        let rows = statement.query_map(params![action, before, limit], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Stores the number of receivers that have acknowledged a decision.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn reach_decision(
        &self,
        action: i64,
        version: u64,
        reached: usize,
    ) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "UPDATE decisions SET reached = ?3 WHERE action = ?1 AND version = ?2",
                params![
                    action,
                    version.cast_signed(),
                    i64::try_from(reached).unwrap_or(i64::MAX)
                ],
            )
            .map(drop)
        })
    }

    /// Marks a decision as acknowledged by all receivers.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn finish_decision(&self, action: i64, version: u64) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "UPDATE decisions SET done_ns = ?3 WHERE action = ?1 AND version = ?2",
                params![action, version.cast_signed(), now_ns()],
            )
            .map(drop)
        })
    }
}

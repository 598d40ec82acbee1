//! Audit log: every requested change and its outcome, including rejections.

use rusqlite::params;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Database, StoreError, now_ns};

/// Maximum stored entries; the oldest are removed first.
const ENTRIES_MAX: i64 = 100_000;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Audited)]
pub struct AuditEntry {
    /// Number.
    pub id: i64,
    /// Time, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::job::columns::text")]
    #[schema(value_type = String)]
    pub at_ns: i64,
    /// The token's name, or the client's address without a token.
    pub who: String,
    /// Operation: job.start, job.stop, token.create, token.revoke, login, alert_rule.create, silence.create …
    pub act: String,
    /// Object of the operation.
    pub object: String,
    /// `done`, or the reason of the rejection.
    pub outcome: String,
}

/// The audit log.
#[derive(Clone)]
pub struct AuditLog {
    pub(super) database: Database,
}

impl AuditLog {
    /// Records an operation of `who` on `object`.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(&self, who: &str, act: &str, object: &str, outcome: &str) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "INSERT INTO audit (at_ns, who, act, object, outcome) VALUES (?, ?, ?, ?, ?)",
                params![now_ns(), who, act, object, outcome],
            )?;
            let last = t.last_insert_rowid();
            t.execute("DELETE FROM audit WHERE id <= ?", [last - ENTRIES_MAX])
                .map(drop)
        })
    }

    /// Entries older than `before`, or the most recent ones if `None`; newest first.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn entries(
        &self,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, at_ns, who, act, object, outcome FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![before.unwrap_or(i64::MAX), limit], |row| {
            Ok(AuditEntry {
                id: row.get(0)?,
                at_ns: row.get(1)?,
                who: row.get(2)?,
                act: row.get(3)?,
                object: row.get(4)?,
                outcome: row.get(5)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

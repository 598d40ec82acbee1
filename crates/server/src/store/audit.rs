//! Who did what: every change that was asked for, and every refusal of one.

use rusqlite::params;
use serde::Serialize;
use utoipa::ToSchema;

use super::{Store, StoreError, now_ns};

/// Entries that are kept; the oldest go first.
const ENTRIES_MAX: i64 = 100_000;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Audited {
    /// Its number.
    pub id: i64,
    /// When, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::columns::text")]
    #[schema(value_type = String)]
    pub at_ns: i64,
    /// The token's name, or the client's address without a token.
    pub who: String,
    /// What was asked: job.start, job.stop, token.create, token.revoke, login, alert_rule.create, silence.create …
    pub act: String,
    /// Of what.
    pub object: String,
    /// `done`, or why not.
    pub outcome: String,
}

impl Store {
    /// Notes what `who` did to `object`.
    ///
    /// # Errors
    /// The store's.
    pub fn note(&self, who: &str, act: &str, object: &str, outcome: &str) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute(
                "INSERT INTO audit (at_ns, who, act, object, outcome) VALUES (?, ?, ?, ?, ?)",
                params![now_ns(), who, act, object, outcome],
            )?;
            let last = t.last_insert_rowid();
            t.execute("DELETE FROM audit WHERE id <= ?", [last - ENTRIES_MAX]).map(drop)
        })
    }

    /// Entries behind `before` in time (the newest where it is `None`), the newest first.
    ///
    /// # Errors
    /// The store's.
    pub fn audited(&self, before: Option<i64>, limit: usize) -> Result<Vec<Audited>, StoreError> {
        let connection = self.lock();
        let mut statement = connection.prepare_cached(
            "SELECT id, at_ns, who, act, object, outcome FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
        )?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let rows = statement.query_map(params![before.unwrap_or(i64::MAX), limit], |row| {
            Ok(Audited {
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

//! Agents that come with certificates: who is invited, who has enrolled, who was revoked.

use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Store, StoreError, now_ns};

/// An agent that has enrolled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Enrolled {
    /// Its name.
    pub agent: String,
    /// The number that its certificates have.
    #[serde(skip)]
    pub enrolment: u64,
    /// When it enrolled, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::columns::text")]
    #[schema(value_type = String)]
    pub enrolled_ns: i64,
    /// When its newest certificate ends.
    #[serde(serialize_with = "crate::columns::text")]
    #[schema(value_type = String)]
    pub good_until_ns: i64,
    /// When it was revoked.
    #[serde(serialize_with = "crate::columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub revoked_ns: Option<i64>,
}

const COLUMNS: &str = "agent, enrolment, enrolled_ns, good_until_ns, revoked_ns";

fn read(row: &Row<'_>) -> rusqlite::Result<Enrolled> {
    Ok(Enrolled {
        agent: row.get(0)?,
        enrolment: row.get::<_, i64>(1)?.cast_unsigned(),
        enrolled_ns: row.get(2)?,
        good_until_ns: row.get(3)?,
        revoked_ns: row.get(4)?,
    })
}

impl Store {
    /// Keeps an invitation, known by its token's hash. Those that have ended go.
    ///
    /// # Errors
    /// The store's.
    pub fn invite(&self, agent: &str, hash: &[u8], expires_ns: i64) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute("DELETE FROM invitations WHERE expires_ns <= ?", [now_ns()])?;
            let sql = "INSERT INTO invitations (hash, agent, expires_ns) VALUES (?, ?, ?)";
            t.execute(sql, params![hash, agent, expires_ns]).map(drop)
        })
    }

    /// Whom a token invites, if it has not ended.
    ///
    /// # Errors
    /// The store's.
    pub fn invited(&self, hash: &[u8]) -> Result<Option<String>, StoreError> {
        let sql = "SELECT agent FROM invitations WHERE hash = ? AND expires_ns > ?";
        let connection = self.lock();
        let found = connection.prepare_cached(sql)?.query_row(params![hash, now_ns()], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// The invitation is taken: it is good for nothing any more, and neither are earlier certificates of that agent. Returns whether
    /// it was still there.
    ///
    /// # Errors
    /// The store's.
    pub fn enrol(&self, hash: &[u8], enrolment: u64, good_until_ns: i64) -> Result<bool, StoreError> {
        self.write(|t| {
            let sql = "DELETE FROM invitations WHERE hash = ? RETURNING agent";
            let agent: Option<String> = t.query_row(sql, [hash], |row| row.get(0)).optional()?;
            let Some(agent) = agent else { return Ok(false) };
            let sql = "INSERT OR REPLACE INTO enrolments (agent, enrolment, enrolled_ns, good_until_ns) VALUES (?, ?, ?, ?)";
            t.execute(sql, params![agent, enrolment.cast_signed(), now_ns(), good_until_ns])?;
            Ok(true)
        })
    }

    /// An agent has a newer certificate.
    ///
    /// # Errors
    /// The store's.
    pub fn renew(&self, agent: &str, enrolment: u64, good_until_ns: i64) -> Result<bool, StoreError> {
        let sql = "UPDATE enrolments SET good_until_ns = ? WHERE agent = ? AND enrolment = ? AND revoked_ns IS NULL";
        self.write(|t| Ok(t.execute(sql, params![good_until_ns, agent, enrolment.cast_signed()])? > 0))
    }

    /// What is known of an agent's enrolment.
    ///
    /// # Errors
    /// The store's.
    pub fn enrolled(&self, agent: &str) -> Result<Option<Enrolled>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM enrolments WHERE agent = ?");
        let connection = self.lock();
        Ok(connection.prepare_cached(&sql)?.query_row([agent], read).optional()?)
    }

    /// All enrolments, by name.
    ///
    /// # Errors
    /// The store's.
    pub fn enrolments(&self) -> Result<Vec<Enrolled>, StoreError> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached(&format!("SELECT {COLUMNS} FROM enrolments ORDER BY agent"))?;
        let rows = statement.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// All by which an agent may connect is good for nothing any more: its certificates, invitations, and tokens. Returns whether
    /// there was any.
    ///
    /// # Errors
    /// The store's.
    pub fn revoke_agent(&self, agent: &str) -> Result<bool, StoreError> {
        self.write(|t| {
            let invitations = t.execute("DELETE FROM invitations WHERE agent = ?", [agent])?;
            let tokens = t.execute("DELETE FROM tokens WHERE name = ? AND role = 'agent'", [agent])?;
            let sql = "UPDATE enrolments SET revoked_ns = coalesce(revoked_ns, ?) WHERE agent = ?";
            let enrolments = t.execute(sql, params![now_ns(), agent])?;
            Ok(invitations + tokens + enrolments > 0)
        })
    }
}

//! Enrollment of agents: invitations, enrolled and revoked agents.

use rusqlite::{OptionalExtension, Row, params};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Database, StoreError, now_ns};

/// An enrolled agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Enrolled)]
pub struct EnrolledAgent {
    /// Name.
    pub agent: String,
    /// Enrollment number in its certificates.
    #[serde(skip)]
    pub enrollment: u64,
    /// Time of enrollment, in nanoseconds since the epoch.
    #[serde(serialize_with = "crate::job::columns::text")]
    #[schema(value_type = String)]
    pub enrolled_ns: i64,
    /// Expiration of its newest certificate.
    #[serde(serialize_with = "crate::job::columns::text")]
    #[schema(value_type = String)]
    pub good_until_ns: i64,
    /// Time of revocation.
    #[serde(serialize_with = "crate::job::columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub revoked_ns: Option<i64>,
}

const COLUMNS: &str = "agent, enrolment, enrolled_ns, good_until_ns, revoked_ns";

fn read(row: &Row<'_>) -> rusqlite::Result<EnrolledAgent> {
    Ok(EnrolledAgent {
        agent: row.get(0)?,
        enrollment: row.get::<_, i64>(1)?.cast_unsigned(),
        enrolled_ns: row.get(2)?,
        good_until_ns: row.get(3)?,
        revoked_ns: row.get(4)?,
    })
}

/// Invitations and enrollments of agents.
#[derive(Clone)]
pub struct EnrollmentStore {
    pub(super) database: Database,
}

impl EnrollmentStore {
    /// Stores an invitation by its token's hash, and removes expired ones.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn invite(&self, agent: &str, hash: &[u8], expires_ns: i64) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute("DELETE FROM invitations WHERE expires_ns <= ?", [now_ns()])?;
            let sql = "INSERT INTO invitations (hash, agent, expires_ns) VALUES (?, ?, ?)";
            t.execute(sql, params![hash, agent, expires_ns]).map(drop)
        })
    }

    /// Name of the agent invited by a token, unless expired.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn invited(&self, hash: &[u8]) -> Result<Option<String>, StoreError> {
        let sql = "SELECT agent FROM invitations WHERE hash = ? AND expires_ns > ?";
        let connection = self.database.lock();
        let found = connection
            .prepare_cached(sql)?
            .query_row(params![hash, now_ns()], |row| row.get(0));
        Ok(found.optional()?)
    }

    /// Uses an invitation, which invalidates it and the agent's earlier certificates. Returns whether it existed.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn enroll(
        &self,
        hash: &[u8],
        enrollment: u64,
        good_until_ns: i64,
    ) -> Result<bool, StoreError> {
        self.database.write(|t| {
            let sql = "DELETE FROM invitations WHERE hash = ? RETURNING agent";
            let agent: Option<String> = t.query_row(sql, [hash], |row| row.get(0)).optional()?;
            let Some(agent) = agent else { return Ok(false) };
            let sql = "INSERT OR REPLACE INTO enrolments (agent, enrolment, enrolled_ns, good_until_ns) VALUES (?, ?, ?, ?)";
            t.execute(sql, params![agent, enrollment.cast_signed(), now_ns(), good_until_ns])?;
            Ok(true)
        })
    }

    /// Notes a renewed certificate of an agent. Returns whether the enrollment is still valid.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn renew(
        &self,
        agent: &str,
        enrollment: u64,
        good_until_ns: i64,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE enrolments SET good_until_ns = ? WHERE agent = ? AND enrolment = ? AND revoked_ns IS NULL";
        self.database.write(|t| {
            Ok(t.execute(sql, params![good_until_ns, agent, enrollment.cast_signed()])? > 0)
        })
    }

    /// Enrollment of an agent.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn of_agent(&self, agent: &str) -> Result<Option<EnrolledAgent>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM enrolments WHERE agent = ?");
        let connection = self.database.lock();
        Ok(connection
            .prepare_cached(&sql)?
            .query_row([agent], read)
            .optional()?)
    }

    /// All enrollments, by name.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn all(&self) -> Result<Vec<EnrolledAgent>, StoreError> {
        let connection = self.database.lock();
        let mut statement = connection
            .prepare_cached(&format!("SELECT {COLUMNS} FROM enrolments ORDER BY agent"))?;
        let rows = statement.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Invalidates all certificates, invitations and tokens of an agent. Returns whether there were any.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn revoke(&self, agent: &str) -> Result<bool, StoreError> {
        self.database.write(|t| {
            let invitations = t.execute("DELETE FROM invitations WHERE agent = ?", [agent])?;
            let tokens = t.execute(
                "DELETE FROM tokens WHERE name = ? AND role = 'agent'",
                [agent],
            )?;
            let sql = "UPDATE enrolments SET revoked_ns = coalesce(revoked_ns, ?) WHERE agent = ?";
            let enrollments = t.execute(sql, params![now_ns(), agent])?;
            Ok(invitations + tokens + enrollments > 0)
        })
    }
}

//! Properties reported by agents.

use rusqlite::params;

use super::{Database, StoreError, now_ns};

/// Properties of agents.
#[derive(Clone)]
pub struct AgentStore {
    pub(super) database: Database,
}

impl AgentStore {
    /// Stores the properties of an agent.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn save(&self, name: &str, facts: &str) -> Result<(), StoreError> {
        self.database.write(|t| {
            t.execute(
                "INSERT INTO agents (name, facts, last_seen_ns) VALUES (?1, ?2, ?3)
                 ON CONFLICT (name) DO UPDATE SET facts = ?2, last_seen_ns = ?3",
                params![name, facts, now_ns()],
            )
            .map(drop)
        })
    }

    /// All stored agents: name, properties, time.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn all(&self) -> Result<Vec<(String, String, i64)>, StoreError> {
        let connection = self.database.lock();
        let mut statement =
            connection.prepare_cached("SELECT name, facts, last_seen_ns FROM agents")?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

//! Sessions of browsers: of their names and of their tokens only hashes are kept. A session outlives the process, not its token.

use rusqlite::{OptionalExtension, params};

use super::{Store, StoreError, now_ns};

impl Store {
    /// Keeps a session; those that began more than `time_ns` ago go, and the oldest while there are more than `most`.
    ///
    /// # Errors
    /// The store's.
    pub fn begin_session(
        &self,
        (name, token): (&[u8], &[u8]),
        (time_ns, most): (i64, usize),
    ) -> Result<(), StoreError> {
        let now = now_ns();
        self.write(|t| {
            t.execute("DELETE FROM sessions WHERE begun_ns <= ?", [now.saturating_sub(time_ns)])?;
            t.execute(
                "INSERT INTO sessions (name, token, begun_ns) VALUES (?, ?, ?)",
                params![name, token, now],
            )?;
            let oldest = "DELETE FROM sessions WHERE name NOT IN
                          (SELECT name FROM sessions ORDER BY begun_ns DESC, rowid DESC LIMIT ?)";
            t.execute(oldest, [i64::try_from(most).unwrap_or(i64::MAX)])?;
            Ok(())
        })
    }

    /// The hash of the token of a session that began no more than `time_ns` ago.
    ///
    /// # Errors
    /// The store's.
    pub fn session(&self, name: &[u8], time_ns: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let since = now_ns().saturating_sub(time_ns);
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached("SELECT token FROM sessions WHERE name = ? AND begun_ns > ?")?;
        Ok(statement.query_row(params![name, since], |row| row.get(0)).optional()?)
    }

    /// Ends a session.
    ///
    /// # Errors
    /// The store's.
    pub fn end_session(&self, name: &[u8]) -> Result<(), StoreError> {
        self.write(|t| t.execute("DELETE FROM sessions WHERE name = ?", [name])).map(drop)
    }
}

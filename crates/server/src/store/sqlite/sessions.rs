//! Sessions of browsers: only hashes of their names and tokens are stored. A session survives a restart, but ends with
//! its token. If the disk rejects writes, it is kept in memory and ends with the process.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::{OptionalExtension, params};

use super::{Database, StoreError, now_ns};

/// Maximum sessions in memory; the oldest ends when it is exceeded.
const UNKEPT_MAX: usize = 64;

/// Sessions in memory.
#[derive(Default)]
pub struct VolatileSessions(Mutex<Vec<BrowserSession>>);

struct BrowserSession {
    name: Vec<u8>,
    token: Vec<u8>,
    begun_ns: i64,
}

impl VolatileSessions {
    fn with<T>(&self, act: impl FnOnce(&mut Vec<BrowserSession>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Sessions of browsers.
#[derive(Clone)]
pub struct SessionStore {
    pub(super) database: Database,
    /// Sessions kept in memory because the disk rejected writes.
    pub(super) unkept: Arc<VolatileSessions>,
}

impl SessionStore {
    /// Adds a session; removes those older than `time_ns`, and the oldest beyond `most`. If the disk rejects
    /// writes, it is kept in memory.
    ///
    /// # Errors
    /// `StoreError`, except write failures of the disk.
    pub fn begin(
        &self,
        name: &[u8],
        token: &[u8],
        time_ns: i64,
        most: usize,
    ) -> Result<(), StoreError> {
        match self.keep_session(name, token, time_ns, most) {
            Err(error) if error.is_write_failure() => {
                self.unkept.with(|all| {
                    if all.len() >= UNKEPT_MAX {
                        all.remove(0);
                    }
                    all.push(BrowserSession {
                        name: name.to_vec(),
                        token: token.to_vec(),
                        begun_ns: now_ns(),
                    });
                });
                Ok(())
            }
            kept => kept,
        }
    }

    fn keep_session(
        &self,
        name: &[u8],
        token: &[u8],
        time_ns: i64,
        most: usize,
    ) -> Result<(), StoreError> {
        let now = now_ns();
        self.database.write(|t| {
            t.execute(
                "DELETE FROM sessions WHERE begun_ns <= ?",
                [now.saturating_sub(time_ns)],
            )?;
            t.execute(
                "INSERT INTO sessions (name, token, begun_ns) VALUES (?, ?, ?)",
                params![name, token, now],
            )?;
            // In order of insertion: the clock may have been set back.
            let oldest = "DELETE FROM sessions WHERE name NOT IN
                          (SELECT name FROM sessions ORDER BY rowid DESC LIMIT ?)";
            t.execute(oldest, [i64::try_from(most).unwrap_or(i64::MAX)])?;
            Ok(())
        })
    }

    /// Hash of the token of a session at most `time_ns` old.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn token(&self, name: &[u8], time_ns: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let since = now_ns().saturating_sub(time_ns);
        let in_memory = |all: &mut Vec<BrowserSession>| {
            let found = all
                .iter()
                .find(|session| session.name == name && session.begun_ns > since);
            found.map(|session| session.token.clone())
        };
        if let Some(token) = self.unkept.with(in_memory) {
            return Ok(Some(token));
        }
        let connection = self.database.lock();
        let mut statement = connection
            .prepare_cached("SELECT token FROM sessions WHERE name = ? AND begun_ns > ?")?;
        Ok(statement
            .query_row(params![name, since], |row| row.get(0))
            .optional()?)
    }

    /// Ends a session.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn end(&self, name: &[u8]) -> Result<(), StoreError> {
        let was_in_memory = self.unkept.with(|all| {
            let before = all.len();
            all.retain(|session| session.name != name);
            all.len() < before
        });
        if was_in_memory {
            return Ok(());
        }
        self.database
            .write(|t| t.execute("DELETE FROM sessions WHERE name = ?", [name]))
            .map(drop)
    }
}

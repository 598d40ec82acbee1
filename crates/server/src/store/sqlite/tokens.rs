//! Tokens; only their hashes are stored.

use rusqlite::{OptionalExtension, Row, params};

use super::{Database, StoreError, now_ns};

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    /// Number.
    pub id: i64,
    /// Name.
    pub name: String,
    /// Name of its role.
    pub role: String,
    /// Networks to which it is restricted, separated by spaces; empty: none.
    pub networks: String,
    /// Time of creation.
    pub created_ns: i64,
    /// Time of expiration.
    pub expires_ns: Option<i64>,
}

const COLUMNS: &str = "id, name, role, networks, created_ns, expires_ns";

fn read(row: &Row<'_>) -> rusqlite::Result<StoredToken> {
    Ok(StoredToken {
        id: row.get(0)?,
        name: row.get(1)?,
        role: row.get(2)?,
        networks: row.get(3)?,
        created_ns: row.get(4)?,
        expires_ns: row.get(5)?,
    })
}

/// Tokens.
#[derive(Clone)]
pub struct TokenStore {
    pub(super) database: Database,
}

impl TokenStore {
    /// Adds a token with this `hash`; `None` if the name exists.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn add(
        &self,
        (name, role, networks): (&str, &str, &str),
        hash: &[u8],
        expires_ns: Option<i64>,
    ) -> Result<Option<StoredToken>, StoreError> {
        let sql = format!(
            "INSERT INTO tokens (name, role, networks, hash, created_ns, expires_ns) VALUES (?, ?, ?, ?, ?, ?)
             ON CONFLICT (name) DO NOTHING RETURNING {COLUMNS}"
        );
        self.database.write(|t| {
            t.query_row(
                &sql,
                params![name, role, networks, hash, now_ns(), expires_ns],
                read,
            )
            .optional()
        })
    }

    /// The token with that hash, unless expired.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn find(&self, hash: &[u8]) -> Result<Option<StoredToken>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM tokens WHERE hash = ?");
        let connection = self.database.lock();
        let found = connection
            .prepare_cached(&sql)?
            .query_row([hash], read)
            .optional()?;
        Ok(found.filter(|token| token.expires_ns.is_none_or(|end| end > now_ns())))
    }

    /// Whether a token of that number exists.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn has(&self, id: i64) -> Result<bool, StoreError> {
        let connection = self.database.lock();
        let sql =
            "SELECT count(*) FROM tokens WHERE id = ? AND (expires_ns IS NULL OR expires_ns > ?)";
        let count: i64 = connection
            .prepare_cached(sql)?
            .query_row(params![id, now_ns()], |row| row.get(0))?;
        Ok(count > 0)
    }

    /// All tokens.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn all(&self) -> Result<Vec<StoredToken>, StoreError> {
        let connection = self.database.lock();
        let mut statement =
            connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens ORDER BY id"))?;
        let rows = statement.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes a token; returns its name, if it existed.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn remove(&self, id: i64) -> Result<Option<String>, StoreError> {
        self.database.write(|t| {
            t.query_row(
                "DELETE FROM tokens WHERE id = ? RETURNING name",
                [id],
                |row| row.get(0),
            )
            .optional()
        })
    }
}

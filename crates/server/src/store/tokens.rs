//! Tokens: of each only a hash is kept.

use rusqlite::{OptionalExtension, Row, params};

use super::{Store, StoreError, now_ns};

/// A token as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredToken {
    /// Its number.
    pub id: i64,
    /// What it is called.
    pub name: String,
    /// Its role's name.
    pub role: String,
    /// The networks it is for, blanks between; empty: all.
    pub networks: String,
    /// When it was made.
    pub created_ns: i64,
    /// When it ends.
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

impl Store {
    /// Keeps a token, known by `hash`; `None` when one has that name already.
    ///
    /// # Errors
    /// The store's.
    pub fn add_token(
        &self,
        (name, role, networks): (&str, &str, &str),
        hash: &[u8],
        expires_ns: Option<i64>,
    ) -> Result<Option<StoredToken>, StoreError> {
        let sql = format!(
            "INSERT INTO tokens (name, role, networks, hash, created_ns, expires_ns) VALUES (?, ?, ?, ?, ?, ?)
             ON CONFLICT (name) DO NOTHING RETURNING {COLUMNS}"
        );
        self.write(|t| {
            t.query_row(&sql, params![name, role, networks, hash, now_ns(), expires_ns], read).optional()
        })
    }

    /// The token with that hash, if it has not ended.
    ///
    /// # Errors
    /// The store's.
    pub fn token(&self, hash: &[u8]) -> Result<Option<StoredToken>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM tokens WHERE hash = ?");
        let connection = self.lock();
        let found = connection.prepare_cached(&sql)?.query_row([hash], read).optional()?;
        Ok(found.filter(|token| token.expires_ns.is_none_or(|end| end > now_ns())))
    }

    /// Whether there is still a token of that number.
    ///
    /// # Errors
    /// The store's.
    pub fn has_token(&self, id: i64) -> Result<bool, StoreError> {
        let connection = self.lock();
        let sql = "SELECT count(*) FROM tokens WHERE id = ? AND (expires_ns IS NULL OR expires_ns > ?)";
        let count: i64 =
            connection.prepare_cached(sql)?.query_row(params![id, now_ns()], |row| row.get(0))?;
        Ok(count > 0)
    }

    /// All tokens.
    ///
    /// # Errors
    /// The store's.
    pub fn tokens(&self) -> Result<Vec<StoredToken>, StoreError> {
        let connection = self.lock();
        let mut statement =
            connection.prepare_cached(&format!("SELECT {COLUMNS} FROM tokens ORDER BY id"))?;
        let rows = statement.query_map([], read)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Removes a token; its name, if there was one.
    ///
    /// # Errors
    /// The store's.
    pub fn remove_token(&self, id: i64) -> Result<Option<String>, StoreError> {
        self.write(|t| {
            t.query_row("DELETE FROM tokens WHERE id = ? RETURNING name", [id], |row| row.get(0)).optional()
        })
    }
}

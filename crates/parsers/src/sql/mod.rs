//! SQL statements as text, without grammar: fingerprints, summaries, and the statements of a text. Shared by the parsers of
//! databases.

pub mod fingerprint;
mod literal;
pub mod prepared;
pub mod shorten;
pub mod statements;
pub mod summary;
mod tokens;

/// How strings, names, and comments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDialect {
    /// MySQL and MariaDB: backslashes escape, double quotes are strings, `#` begins a comment.
    MySql,
    /// PostgreSQL: double quotes are names, `$tag$…$tag$` is a string, comments nest.
    PostgreSql,
    /// Cassandra: as PostgreSQL, and UUIDs, blobs, and durations without quotes; `//` begins a comment.
    Cql,
}

//! Store of jobs, settings and recent results: one SQLite file in WAL mode. When a write returns, it is on disk. The
//! format version is in `user_version`: older formats are migrated, newer ones are rejected.

mod actions;
mod agents;
mod alerts;
mod audit;
mod deliveries;
mod enrollments;
mod frames;
mod jobs;
mod results;
mod segments;
mod sessions;
mod snapshot;
mod tokens;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ToSql, Transaction, TransactionBehavior};

use crate::job::JobId;

pub use actions::{ActionChange, ActionStore, StoredAction, StoredDecision};
pub use agents::AgentStore;
pub use alerts::{AlertStore, NewNotification, NewRule, RuleChange, StoredRule};
pub use audit::{AuditEntry, AuditLog};
pub use deliveries::{DeliveryPosition, DeliveryStore, StoredOutlet};
pub use enrollments::{EnrolledAgent, EnrollmentStore};
pub use frames::{CommitProgress, FrameFilter, FrameStore, JoinedFrames, LaneMark, NewFrame};
pub use jobs::{JobQuery, JobStore, KeyLookup, NewJob};
pub use results::{KeptResult, NewTail, ResultStore, RowTail};
pub use segments::{HistorySegment, ResultExtent, RowPiece, SegmentOrder, SegmentStore};
pub use sessions::SessionStore;
pub use snapshot::BackupSource;
pub use tokens::{StoredToken, TokenStore};

/// Each entry migrates a store by one version; entries never change, new ones are appended.
const FORMS: [&str; 13] = [
    include_str!("sqlite/form-1.sql"),
    include_str!("sqlite/form-2.sql"),
    include_str!("sqlite/form-3.sql"),
    include_str!("sqlite/form-4.sql"),
    include_str!("sqlite/form-5.sql"),
    include_str!("sqlite/form-6.sql"),
    include_str!("sqlite/form-7.sql"),
    include_str!("sqlite/form-8.sql"),
    include_str!("sqlite/form-9.sql"),
    include_str!("sqlite/form-10.sql"),
    include_str!("sqlite/form-11.sql"),
    include_str!("sqlite/form-12.sql"),
    include_str!("sqlite/form-13.sql"),
];

/// The stores, one per group of tables, over one connection. Handles: clones share it.
#[derive(Clone)]
pub struct ServerStore {
    /// The connection.
    pub database: Database,
    /// Jobs with their control states, and idempotency keys.
    pub jobs: JobStore,
    /// Properties of agents.
    pub agents: AgentStore,
    /// Records, and positions of lanes; commits rows.
    pub frames: FrameStore,
    /// Results of jobs, and their rows that are not in a segment yet.
    pub results: ResultStore,
    /// Index of the segments.
    pub segments: SegmentStore,
    /// Outlets and their positions.
    pub deliveries: DeliveryStore,
    /// Rules, their alerts, silences, and waiting notifications.
    pub alerts: AlertStore,
    /// Actions and their decisions.
    pub actions: ActionStore,
    /// Tokens.
    pub tokens: TokenStore,
    /// Sessions of browsers.
    pub sessions: SessionStore,
    /// Invitations and enrollments of agents.
    pub enrollments: EnrollmentStore,
    /// The audit log.
    pub audit: AuditLog,
}

/// The connection to the database; writes are serialized.
#[derive(Clone)]
pub struct Database {
    connection: Arc<Mutex<Connection>>,
}

/// Failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Written by a newer version of the program.
    #[error(
        "the store has format {found}, and this program supports formats up to {known}: it was written by a \
         newer netalytics, which is needed to read it"
    )]
    Newer {
        /// Format version of the store.
        found: i64,
        /// Latest supported format version.
        known: usize,
    },
    /// The disk is full.
    #[error(
        "the disk with the data directory is full: existing data is kept, new data is rejected"
    )]
    Full,
    /// Any other error of SQLite.
    #[error("the store: {0}")]
    Other(rusqlite::Error),
}

impl StoreError {
    /// Whether the disk rejects writes, but may be read: it is full, read-only, or reports errors.
    #[must_use]
    pub fn is_write_failure(&self) -> bool {
        match self {
            StoreError::Full => true,
            StoreError::Other(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::ReadOnly | ErrorCode::SystemIoFailure)
            ),
            StoreError::Newer { .. } => false,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            _ => StoreError::Other(error),
        }
    }
}

impl ServerStore {
    /// Opens the store in the file at `path`; creates it if missing.
    ///
    /// # Errors
    /// `StoreError::Newer` for a newer format; otherwise as for other reads and writes.
    pub fn open(path: &Path) -> Result<ServerStore, StoreError> {
        let database = Database::open(path)?;
        Ok(ServerStore {
            jobs: JobStore {
                database: database.clone(),
            },
            agents: AgentStore {
                database: database.clone(),
            },
            frames: FrameStore {
                database: database.clone(),
            },
            results: ResultStore {
                database: database.clone(),
            },
            segments: SegmentStore {
                database: database.clone(),
            },
            deliveries: DeliveryStore {
                database: database.clone(),
            },
            alerts: AlertStore {
                database: database.clone(),
            },
            actions: ActionStore {
                database: database.clone(),
            },
            tokens: TokenStore {
                database: database.clone(),
            },
            sessions: SessionStore {
                database: database.clone(),
                unkept: Arc::default(),
            },
            enrollments: EnrollmentStore {
                database: database.clone(),
            },
            audit: AuditLog {
                database: database.clone(),
            },
            database,
        })
    }
}

impl Database {
    fn open(path: &Path) -> Result<Database, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // Acknowledged data survives a power loss.
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // Size of the page cache: a negative number means KiB.
        connection.pragma_update(None, "cache_size", -8192)?;
        migrate(&mut connection)?;
        Ok(Database {
            connection: Arc::new(Mutex::new(connection)),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic during a transaction has rolled it back.
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(
        &self,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = act(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }

    /// Identity of this server: generated with the data directory, never 0.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn identity(&self) -> Result<u64, StoreError> {
        let id: i64 = self
            .lock()
            .query_row("SELECT id FROM identity", [], |row| row.get(0))?;
        Ok(id.cast_unsigned())
    }

    /// Replaces the identity, for a restored copy of a store: agents discard unsent data for the old one.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn renew_identity(&self) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute("UPDATE identity SET id = random() | 1", [])
                .map(drop)
        })
    }

    /// Limits the file to this number of pages, to simulate a full disk in tests.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn limit_pages(&self, pages: i64) -> Result<(), StoreError> {
        self.lock()
            .pragma_update(None, "max_page_count", pages)
            .map_err(StoreError::from)
    }

    /// Rejects all writes, or accepts them again, to simulate a file system that is read-only.
    ///
    /// # Errors
    /// `StoreError` when the setting cannot be changed.
    pub fn set_read_only(&self, is_read_only: bool) -> Result<(), StoreError> {
        self.lock()
            .pragma_update(None, "query_only", is_read_only)
            .map_err(StoreError::from)
    }

    /// Size of the file in bytes.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let connection = self.lock();
        let read = |what| connection.pragma_query_value(None, what, |row| row.get::<_, i64>(0));
        Ok((read("page_count")? * read("page_size")?).unsigned_abs())
    }

    /// Number of pages of the file.
    ///
    /// # Errors
    /// `StoreError` when the database cannot be read or written.
    pub fn pages(&self) -> Result<i64, StoreError> {
        Ok(self
            .lock()
            .pragma_query_value(None, "page_count", |row| row.get(0))?)
    }

    /// Tests whether the disk has space for a record of maximum size.
    ///
    /// # Errors
    /// `StoreError::Full` if it has not; other `StoreError`s when the database cannot be written.
    pub fn probe(&self) -> Result<(), StoreError> {
        self.write(|t| {
            t.execute("SAVEPOINT probe", [])?;
            t.execute_batch(
                "CREATE TABLE probe (bytes BLOB); INSERT INTO probe VALUES (zeroblob(1048576)); ROLLBACK TO probe",
            )
        })
    }
}

// SQLite has no unsigned numbers: this is the only place that converts job numbers.
impl ToSql for JobId {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.cast_signed().into())
    }
}

impl FromSql for JobId {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<JobId> {
        let number = value.as_i64()?;
        u64::try_from(number)
            .map(JobId)
            .map_err(|_| FromSqlError::OutOfRange(number))
    }
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = usize::try_from(found)
        .ok()
        .filter(|form| *form <= FORMS.len());
    let Some(form) = known else {
        return Err(StoreError::Newer {
            found,
            known: FORMS.len(),
        });
    };
    if form == FORMS.len() {
        // Without a write, so that a full disk does not prevent the start.
        return Ok(());
    }
    for sql in &FORMS[form..] {
        transaction.execute_batch(sql)?;
    }
    transaction.pragma_update(None, "user_version", FORMS.len() as i64)?;
    transaction.commit()?;
    Ok(())
}

/// Current time, in nanoseconds since the epoch.
pub fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    })
}

#[cfg(test)]
mod tests;

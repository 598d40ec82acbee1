//! What the server was asked, and the newest of what was answered: one SQLite file in WAL mode. What a call has returned
//! is on disk. Its form has a number (`user_version`): an older form is brought up to ours, a newer one is refused.

mod actions;
mod alerts;
mod audit;
mod deliveries;
mod enrolments;
mod frames;
mod jobs;
mod results;
mod segments;
mod sessions;
mod snapshot;
mod tokens;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Transaction, TransactionBehavior};

pub use actions::{ActionChange, StoredAction, StoredDecision};
pub use alerts::{NewNotification, NewRule, RuleChange, StoredRule};
pub use audit::Audited;
pub use deliveries::{Position, StoredOutlet};
pub use enrolments::Enrolled;
pub use frames::{Joined, LaneMark, NewFrame, Progress, Which};
pub use jobs::{JobQuery, NewJob, Remembered};
pub use results::{KeptResult, NewTail, Tail};
pub use segments::{Extent, Oldest, Piece, Segment};
pub use snapshot::Source;
pub use tokens::StoredToken;

/// Each entry brings a store one form further; what is here never changes, it is only added to.
const FORMS: [&str; 13] = [
    include_str!("store/form-1.sql"),
    include_str!("store/form-2.sql"),
    include_str!("store/form-3.sql"),
    include_str!("store/form-4.sql"),
    include_str!("store/form-5.sql"),
    include_str!("store/form-6.sql"),
    include_str!("store/form-7.sql"),
    include_str!("store/form-8.sql"),
    include_str!("store/form-9.sql"),
    include_str!("store/form-10.sql"),
    include_str!("store/form-11.sql"),
    include_str!("store/form-12.sql"),
    include_str!("store/form-13.sql"),
];

/// The store; one writer at a time.
pub struct Store {
    connection: Mutex<Connection>,
    /// Sessions for which the disk had no room.
    unkept_sessions: sessions::Unkept,
}

/// Why the store did not do it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A later program wrote it.
    #[error(
        "the store has form {found}, and this program knows forms up to {known}: a newer netalytics wrote it, and only \
         that one can read it"
    )]
    Newer {
        /// Its form.
        found: i64,
        /// The last that we know.
        known: usize,
    },
    /// There is no room.
    #[error("the disk that holds the data directory is full: what is there stays, nothing new is taken")]
    Full,
    /// Anything else.
    #[error("the store: {0}")]
    Other(rusqlite::Error),
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full,
            _ => StoreError::Other(error),
        }
    }
}

impl Store {
    /// The store in the file at `path`, which is made if it is missing.
    ///
    /// # Errors
    /// When it cannot be read or written, or is of a later form.
    pub fn open(path: &Path) -> Result<Store, StoreError> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // What was acknowledged survives a loss of power.
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        // Memory for pages: kibibytes, said as a negative number.
        connection.pragma_update(None, "cache_size", -8192)?;
        migrate(&mut connection)?;
        Ok(Store { connection: Mutex::new(connection), unkept_sessions: sessions::Unkept::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A panic within a transaction has rolled it back.
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let mut connection = self.lock();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let value = act(&transaction)?;
        transaction.commit()?;
        Ok(value)
    }

    /// Which server this is: made once with the data directory, never 0.
    ///
    /// # Errors
    /// The store's.
    pub fn identity(&self) -> Result<u64, StoreError> {
        let id: i64 = self.lock().query_row("SELECT id FROM identity", [], |row| row.get(0))?;
        Ok(id.cast_unsigned())
    }

    /// Makes this another server than the one whose copy the store is: agents discard the work that they have for that one.
    ///
    /// # Errors
    /// The store's.
    pub fn renew_identity(&self) -> Result<(), StoreError> {
        self.write(|t| t.execute("UPDATE identity SET id = random() | 1", []).map(drop))
    }

    /// Limits the file to this number of pages, to simulate a full disk in tests.
    ///
    /// # Errors
    /// Those of the store.
    pub fn limit_pages(&self, pages: i64) -> Result<(), StoreError> {
        self.lock().pragma_update(None, "max_page_count", pages).map_err(StoreError::from)
    }

    /// How many bytes the file has.
    ///
    /// # Errors
    /// The store's.
    pub fn bytes(&self) -> Result<u64, StoreError> {
        let connection = self.lock();
        let read = |what| connection.pragma_query_value(None, what, |row| row.get::<_, i64>(0));
        Ok((read("page_count")? * read("page_size")?).unsigned_abs())
    }

    /// How many pages the file has.
    ///
    /// # Errors
    /// The store's.
    pub fn pages(&self) -> Result<i64, StoreError> {
        Ok(self.lock().pragma_query_value(None, "page_count", |row| row.get(0))?)
    }
}

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = usize::try_from(found).ok().filter(|form| *form <= FORMS.len());
    let Some(form) = known else { return Err(StoreError::Newer { found, known: FORMS.len() }) };
    if form == FORMS.len() {
        // Nothing is written: a full disk is no reason not to begin.
        return Ok(());
    }
    for sql in &FORMS[form..] {
        transaction.execute_batch(sql)?;
    }
    transaction.pragma_update(None, "user_version", FORMS.len() as i64)?;
    transaction.commit()?;
    Ok(())
}

/// Now, in nanoseconds since the epoch.
pub fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

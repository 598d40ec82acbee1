//! Captures and recordings on the server besides the data of its jobs, for queries without a job: those of a folder
//! given by the operator, and uploaded files, which belong to a token and expire.
//!
//! A [`Reader`] reads packets and recordings; their formats are not known here. A file name from a user is stored and
//! shown, and never used as a path.

mod sent;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use query::Query;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tuple::{Batch, FieldId, Schema};
use utoipa::ToSchema;

pub(crate) use sent::{Sending, UPLOADS};

/// Entries of the folder that are listed.
const ENTRIES_MAX: usize = 1000;
/// Time for which a list examines new files.
const LISTED_IN: Duration = Duration::from_secs(2);

/// What the shelf may hold and take.
#[derive(Clone, Copy, Debug)]
pub struct ShelfLimits {
    /// Bytes of a file that is sent.
    pub file_bytes: u64,
    /// Bytes of all files that were sent.
    pub bytes: u64,
    /// How long one is kept.
    pub time: Duration,
}

impl Default for ShelfLimits {
    fn default() -> ShelfLimits {
        ShelfLimits { file_bytes: 64 << 20, bytes: 1 << 30, time: Duration::from_secs(86_400) }
    }
}

/// Reads captures and recordings.
pub trait Reader: Send + Sync {
    /// What lies there, as far as that is known without reading all of it.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    fn look(&self, path: &Path) -> Result<Looked, String>;

    /// Answers a query from it.
    ///
    /// # Errors
    /// Why not.
    fn ask(&self, path: &Path, query: &Query, limits: ReadLimits) -> Result<Read, Unread>;
}

/// What a capture or recording is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Time of its first packet.
    pub first_ns: Option<i64>,
    /// Time of its last packet, if known.
    pub last_ns: Option<i64>,
    /// Of a recording: whose tuples it holds. A capture may be asked for any.
    pub parsers: Vec<String>,
    /// Whether texts that may say something of a person were folded in all of it.
    pub is_redacted: bool,
}

/// What a query of one may take.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Time.
    pub time: Duration,
    /// Memory.
    pub bytes: usize,
    /// Rows of each result.
    pub rows_max: usize,
    /// At what level numbers differ, with BASELINE.
    pub confidence: f64,
}

/// What it has answered.
#[derive(Debug, Default)]
pub struct Read {
    /// By processor.
    pub results: Vec<ReadResult>,
    /// From the first packet to behind the last one, or as the query has it.
    pub period: Option<(i64, i64)>,
    /// The same of the baseline.
    pub baseline: Option<(i64, i64)>,
    /// Tuples that were found.
    pub tuples: u64,
    /// What to know of it, a sentence each.
    pub notes: Vec<String>,
}

/// One of its results.
#[derive(Debug)]
pub struct ReadResult {
    /// Who made it; none: tuples.
    pub processor: Option<String>,
    /// How many columns say which group a row is of.
    pub keys: usize,
    /// Its columns are of this schema.
    pub schema: Arc<Schema>,
    /// Which there are.
    pub columns: Vec<FieldId>,
    /// The rows.
    pub batches: Vec<Batch>,
    /// Rows that there were more.
    pub left_out: u64,
}

/// Why it has not.
#[derive(Clone, Debug)]
pub enum Unread {
    /// It is asked for what it does not have.
    Wrong(String),
    /// It takes too long.
    Late(String),
}

/// Whose and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// An uploaded capture.
    Upload,
    /// A capture of the folder.
    Capture,
    /// A recording of the folder.
    DataSet,
}

/// The API view of a capture or recording.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Recording {
    /// Identifier for queries.
    pub id: String,
    /// What its file or folder is called.
    pub name: String,
    /// Whose it is.
    pub kind: Kind,
    /// How large it is.
    pub bytes: u64,
    /// When it was written or sent, in nanoseconds since the epoch.
    pub written_ns: String,
    /// Time of its first packet.
    pub first_ns: Option<String>,
    /// Time of its last packet, if known without reading the whole file.
    pub last_ns: Option<String>,
    /// Of a recording: whose tuples it holds.
    pub parsers: Vec<String>,
    /// Why it cannot be read.
    pub problem: Option<String>,
    /// Who has sent it.
    pub owner: Option<String>,
    /// When it goes.
    pub expires_ns: Option<String>,
}

/// One of them, with its place.
pub(crate) struct Entry {
    pub path: PathBuf,
    pub told: Recording,
    pub looked: Option<Looked>,
}

impl Entry {
    fn stamp(&self) -> Stamp {
        let changed = fs::metadata(&self.path).and_then(|found| found.modified()).ok();
        (self.told.bytes, changed)
    }

    /// With what is in it, or why that cannot be read.
    fn with(mut self, looked: Result<Looked, String>) -> Entry {
        match looked {
            Ok(looked) => {
                self.told.first_ns = looked.first_ns.map(|ns| ns.to_string());
                self.told.last_ns = looked.last_ns.map(|ns| ns.to_string());
                self.told.parsers.clone_from(&looked.parsers);
                self.looked = Some(looked);
            }
            Err(why) => self.told.problem = Some(why),
        }
        self
    }
}

/// A file's length and time of change, by which what was seen of it holds.
type Stamp = (u64, Option<SystemTime>);

/// What was seen of files, or why nothing was.
type Seen = HashMap<PathBuf, (Stamp, Result<Looked, String>)>;

/// See the module's text.
pub(crate) struct Shelf {
    reader: Arc<dyn Reader>,
    folder: Option<PathBuf>,
    sent: sent::Sent,
    seen: Mutex<Seen>,
}

impl Shelf {
    /// Opens the uploads in the data directory `data`; `folder` contains the operator's captures and recordings.
    pub fn open(
        reader: Arc<dyn Reader>,
        data: &Path,
        folder: Option<PathBuf>,
        limits: ShelfLimits,
    ) -> Result<Shelf, String> {
        if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(format!("{} is no folder", folder.display()));
        }
        Ok(Shelf { reader, folder, sent: sent::Sent::open(data, limits)?, seen: Mutex::default() })
    }

    /// What may be taken, and what was.
    pub fn reader(&self) -> &dyn Reader {
        &*self.reader
    }

    pub fn sent(&self) -> &sent::Sent {
        &self.sent
    }

    /// What there is, without a look at what is in it.
    fn entries(&self) -> Vec<Entry> {
        let mut all = self.sent.list();
        let listed = self.folder.iter().filter_map(|folder| fs::read_dir(folder).ok());
        let mut paths: Vec<PathBuf> = listed.flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        all.extend(paths.iter().filter_map(|path| of_folder(path)).take(ENTRIES_MAX));
        all
    }

    /// All entries, with a description of their content if it is known or can be read in time: later calls return more.
    pub fn all(&self) -> Vec<Entry> {
        let all = self.entries();
        self.seen().retain(|path, _| all.iter().any(|entry| entry.path == *path));
        let until = Instant::now() + LISTED_IN;
        let looked = |entry| if Instant::now() < until { self.looked(entry) } else { self.as_known(entry) };
        all.into_iter().map(looked).collect()
    }

    /// The one with that id, with what is in it.
    pub fn one(&self, id: &str) -> Option<Entry> {
        let found = self.entries().into_iter().find(|entry| entry.told.id == id)?;
        Some(self.looked(found))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what is in it, which is looked for again when it has changed.
    fn looked(&self, entry: Entry) -> Entry {
        // As it is before the look: what changes meanwhile is looked for again.
        let stamp = entry.stamp();
        let looked = self.known(&entry, stamp).unwrap_or_else(|| {
            let looked = self.reader.look(&entry.path);
            self.seen().insert(entry.path.clone(), (stamp, looked.clone()));
            looked
        });
        entry.with(looked)
    }

    /// Adds what was seen of it, if it is still as it was.
    fn as_known(&self, entry: Entry) -> Entry {
        match self.known(&entry, entry.stamp()) {
            Some(looked) => entry.with(looked),
            None => entry,
        }
    }

    fn known(&self, entry: &Entry, stamp: Stamp) -> Option<Result<Looked, String>> {
        self.seen().get(&entry.path).filter(|(at, _)| *at == stamp).map(|(_, looked)| looked.clone())
    }
}

/// An entry of the folder, unless it is none: links lead elsewhere, and hidden files are being written.
fn of_folder(path: &Path) -> Option<Entry> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let found = fs::symlink_metadata(path).ok()?;
    let kind = match (found.is_dir(), found.is_file()) {
        (true, _) => Kind::DataSet,
        (_, true) => Kind::Capture,
        _ => return None,
    };
    if name.starts_with('.') {
        return None;
    }
    let bytes = if found.is_dir() { size_of(path) } else { found.len() };
    let hash = Sha256::digest(name.as_bytes());
    let id: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let told = Recording {
        id: format!("r{id}"),
        name,
        kind,
        bytes,
        written_ns: ns_of(found.modified().ok()).to_string(),
        first_ns: None,
        last_ns: None,
        parsers: Vec::new(),
        problem: None,
        owner: None,
        expires_ns: None,
    };
    Some(Entry { path: path.to_owned(), told, looked: None })
}

/// Bytes of a data set: its tables' files.
fn size_of(folder: &Path) -> u64 {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let tables = entries(folder).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let files = tables.flat_map(|table| entries(&table.path()).take(100_000).collect::<Vec<_>>());
    files.filter_map(|file| Some(file.metadata().ok().filter(fs::Metadata::is_file)?.len())).sum()
}

fn ns_of(time: Option<SystemTime>) -> i64 {
    let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// A file that is being written while it is read.
    struct Written(AtomicI64);

    impl Reader for Written {
        fn look(&self, path: &Path) -> Result<Looked, String> {
            let nth = self.0.fetch_add(1, Ordering::Relaxed);
            let later = SystemTime::UNIX_EPOCH + Duration::from_secs(nth.unsigned_abs() + 1);
            if nth < 2 {
                fs::File::options()
                    .append(true)
                    .open(path)
                    .expect("a file")
                    .set_modified(later)
                    .expect("its time");
            }
            Ok(Looked { first_ns: Some(nth), ..Looked::default() })
        }

        fn ask(&self, _: &Path, _: &Query, _: ReadLimits) -> Result<Read, Unread> {
            Err(Unread::Wrong("nobody asks".into()))
        }
    }

    #[test]
    fn what_changes_while_it_is_looked_at_is_shown_and_looked_at_again() {
        let (data, folder) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        fs::write(folder.path().join("a.pcap"), "packets").expect("a file");
        let reader = Arc::new(Written(AtomicI64::new(0)));
        let shelf =
            Shelf::open(reader.clone(), data.path(), Some(folder.path().into()), ShelfLimits::default());
        let shelf = shelf.expect("a shelf");
        let seen = || shelf.all().iter().map(|one| one.told.first_ns.clone()).collect::<Vec<_>>();
        for looked in ["0", "1", "2", "2"] {
            assert_eq!(seen(), [Some(looked.to_owned())]);
        }
        let id = shelf.all()[0].told.id.clone();
        assert!(shelf.one(&id).is_some_and(|one| one.looked.is_some()) && shelf.one("r0").is_none());
        assert_eq!(reader.0.load(Ordering::Relaxed), 3);
    }
}

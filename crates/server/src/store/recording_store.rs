//! Captures and recordings on the server besides the data of its jobs, for queries without a job: those of a folder
//! given by the operator, and uploaded files, which belong to a token and expire.
//!
//! A [`RecordingReader`] reads packets and recordings; their formats are not known here. A file name from a user is stored and
//! shown, and never used as a path.

mod uploads;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use query::CheckedQuery;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tuple::{Batch, FieldId, Schema};
use utoipa::ToSchema;

use crate::store::recorded_flow::{FlowRequest, RecordedFlow};
pub(crate) use uploads::{IncomingUpload, UPLOADS};

/// Maximum entries listed from the folder.
const ENTRIES_MAX: usize = 1000;
/// Time limit of a list for inspecting new files.
const LISTED_IN: Duration = Duration::from_secs(2);

/// Limits of uploads.
#[derive(Clone, Copy, Debug)]
pub struct RecordingLimits {
    /// Maximum bytes of an upload.
    pub file_bytes: u64,
    /// Maximum bytes of all uploads.
    pub bytes: u64,
    /// Time after which an upload expires.
    pub time: Duration,
}

impl Default for RecordingLimits {
    fn default() -> RecordingLimits {
        RecordingLimits {
            file_bytes: 64 << 20,
            bytes: 1 << 30,
            time: Duration::from_secs(86_400),
        }
    }
}

/// Reads captures and recordings.
pub trait RecordingReader: Send + Sync {
    /// Describes the content, without reading all of it.
    ///
    /// # Errors
    /// A message if it is unreadable.
    fn look(&self, path: &Path) -> Result<RecordingInspection, String>;

    /// Answers a query.
    ///
    /// # Errors
    /// `RecordingQueryError::Wrong` for an invalid request, `RecordingQueryError::Late` at the time limit.
    fn ask(
        &self,
        path: &Path,
        query: &CheckedQuery,
        limits: ReadLimits,
    ) -> Result<RecordingAnswer, RecordingQueryError>;

    /// Reads a flow of a capture; `None` if it has no such flow.
    ///
    /// # Errors
    /// As for a query.
    fn follow(
        &self,
        path: &Path,
        asked: &FlowRequest,
    ) -> Result<Option<RecordedFlow>, RecordingQueryError>;
}

/// Description of a capture or recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordingInspection {
    /// Time of its first packet.
    pub first_ns: Option<i64>,
    /// Time of its last packet, if known.
    pub last_ns: Option<i64>,
    /// Parsers of a recording's tuples. A capture supports all parsers.
    pub parsers: Vec<String>,
    /// Whether all texts that may identify a person are redacted.
    pub is_redacted: bool,
}

/// Limits of a query.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Time limit.
    pub time: Duration,
    /// Memory limit in bytes.
    pub bytes: usize,
    /// Maximum rows per result.
    pub rows_max: usize,
    /// Confidence level of differences, with BASELINE.
    pub confidence: f64,
}

/// Answer of a reader.
#[derive(Debug, Default)]
pub struct RecordingAnswer {
    /// Results, by processor.
    pub results: Vec<RecordingResult>,
    /// Period from the first to after the last packet, or as given in the query.
    pub period: Option<(i64, i64)>,
    /// Baseline.
    pub baseline: Option<(i64, i64)>,
    /// Number of tuples.
    pub tuples: u64,
    /// Notes on the answer.
    pub notes: Vec<String>,
}

/// One result of a query over a recording.
#[derive(Debug)]
pub struct RecordingResult {
    /// Processor; none: tuples.
    pub processor: Option<String>,
    /// Number of group columns.
    pub keys: usize,
    /// Schema of its columns.
    pub schema: Arc<Schema>,
    /// Columns of the recording.
    pub columns: Vec<FieldId>,
    /// Rows.
    pub batches: Vec<Batch>,
    /// Number of omitted rows.
    pub left_out: u64,
}

/// Failure of a query over recordings.
#[derive(Clone, Debug)]
pub enum RecordingQueryError {
    /// The data requested is not in it.
    Wrong(String),
    /// The time limit was exceeded.
    Late(String),
}

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Kind)]
#[serde(rename_all = "snake_case")]
pub enum RecordingKind {
    /// An uploaded capture.
    Upload,
    /// A capture of the folder.
    Capture,
    /// A recording of the folder.
    DataSet,
}

/// The API view of a capture or recording.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Recording)]
pub struct RecordingView {
    /// Identifier for queries.
    pub id: String,
    /// Name of the file or folder.
    pub name: String,
    /// Kind.
    pub kind: RecordingKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of the last change or upload, in nanoseconds since the epoch.
    pub written_ns: String,
    /// Time of its first packet.
    pub first_ns: Option<String>,
    /// Time of its last packet, if known without reading the whole file.
    pub last_ns: Option<String>,
    /// Parsers of a recording's tuples.
    pub parsers: Vec<String>,
    /// Reason why it is unreadable.
    pub problem: Option<String>,
    /// Token name of the uploader.
    pub owner: Option<String>,
    /// Time of expiration.
    pub expires_ns: Option<String>,
}

/// An entry with its path.
pub(crate) struct RecordingEntry {
    pub path: PathBuf,
    pub told: RecordingView,
    pub looked: Option<RecordingInspection>,
}

impl RecordingEntry {
    fn stamp(&self) -> Stamp {
        let changed = fs::metadata(&self.path)
            .and_then(|found| found.modified())
            .ok();
        (self.told.bytes, changed)
    }

    /// Adds the description, or the reason why it is unreadable.
    fn with(mut self, looked: Result<RecordingInspection, String>) -> RecordingEntry {
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

/// Size and modification time of a file; a description is valid while they are unchanged.
type Stamp = (u64, Option<SystemTime>);

/// Descriptions of files, or the reason why they are unreadable.
type Seen = HashMap<PathBuf, (Stamp, Result<RecordingInspection, String>)>;

/// See the module documentation.
pub(crate) struct RecordingStore {
    reader: Arc<dyn RecordingReader>,
    folder: Option<PathBuf>,
    sent: uploads::UploadFolder,
    seen: Mutex<Seen>,
}

impl RecordingStore {
    /// Opens the uploads in the data directory `data`; `folder` contains the operator's captures and recordings.
    pub fn open(
        reader: Arc<dyn RecordingReader>,
        data: &Path,
        folder: Option<PathBuf>,
        limits: RecordingLimits,
    ) -> Result<RecordingStore, String> {
        if let Some(folder) = folder.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(format!("{} is not a folder", folder.display()));
        }
        Ok(RecordingStore {
            reader,
            folder,
            sent: uploads::UploadFolder::open(data, limits)?,
            seen: Mutex::default(),
        })
    }

    /// The reader.
    pub fn reader(&self) -> &dyn RecordingReader {
        &*self.reader
    }

    pub fn sent(&self) -> &uploads::UploadFolder {
        &self.sent
    }

    /// All entries, without descriptions.
    fn entries(&self) -> Vec<RecordingEntry> {
        let mut all = self.sent.list();
        let listed = self
            .folder
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let mut paths: Vec<PathBuf> = listed
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        paths.sort();
        all.extend(
            paths
                .iter()
                .filter_map(|path| of_folder(path))
                .take(ENTRIES_MAX),
        );
        all
    }

    /// All entries, with the descriptions that can be read within the time limit; later calls return more.
    pub fn all(&self) -> Vec<RecordingEntry> {
        let all = self.entries();
        self.seen()
            .retain(|path, _| all.iter().any(|entry| entry.path == *path));
        let until = Instant::now() + LISTED_IN;
        let looked = |entry| {
            if Instant::now() < until {
                self.looked(entry)
            } else {
                self.as_known(entry)
            }
        };
        all.into_iter().map(looked).collect()
    }

    /// The entry with that id and its description.
    pub fn one(&self, id: &str) -> Option<RecordingEntry> {
        let found = self
            .entries()
            .into_iter()
            .find(|entry| entry.told.id == id)?;
        Some(self.looked(found))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the description; inspects the file if it has changed.
    fn looked(&self, entry: RecordingEntry) -> RecordingEntry {
        // Taken before the inspection, so that a concurrent change causes another one.
        let stamp = entry.stamp();
        let looked = self.known(&entry, stamp).unwrap_or_else(|| {
            let looked = self.reader.look(&entry.path);
            self.seen()
                .insert(entry.path.clone(), (stamp, looked.clone()));
            looked
        });
        entry.with(looked)
    }

    /// Adds the known description, if still valid.
    fn as_known(&self, entry: RecordingEntry) -> RecordingEntry {
        match self.known(&entry, entry.stamp()) {
            Some(looked) => entry.with(looked),
            None => entry,
        }
    }

    fn known(
        &self,
        entry: &RecordingEntry,
        stamp: Stamp,
    ) -> Option<Result<RecordingInspection, String>> {
        self.seen()
            .get(&entry.path)
            .filter(|(at, _)| *at == stamp)
            .map(|(_, looked)| looked.clone())
    }
}

/// An entry of the folder; `None` for links and hidden files.
fn of_folder(path: &Path) -> Option<RecordingEntry> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let found = fs::symlink_metadata(path).ok()?;
    let kind = match (found.is_dir(), found.is_file()) {
        (true, _) => RecordingKind::DataSet,
        (_, true) => RecordingKind::Capture,
        _ => return None,
    };
    if name.starts_with('.') {
        return None;
    }
    let bytes = if found.is_dir() {
        size_of(path)
    } else {
        found.len()
    };
    let hash = Sha256::digest(name.as_bytes());
    let id: String = hash
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let told = RecordingView {
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
    Some(RecordingEntry {
        path: path.to_owned(),
        told,
        looked: None,
    })
}

/// Total bytes of a data set's files.
fn size_of(folder: &Path) -> u64 {
    let entries = |folder: &Path| {
        fs::read_dir(folder)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
    };
    let tables = entries(folder).filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let files = tables.flat_map(|table| entries(&table.path()).take(100_000).collect::<Vec<_>>());
    files
        .filter_map(|file| Some(file.metadata().ok().filter(fs::Metadata::is_file)?.len()))
        .sum()
}

fn ns_of(time: Option<SystemTime>) -> i64 {
    let since = time
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    /// Test input: a file that is written while it is read.
    struct GrowingFile(AtomicI64);

    impl RecordingReader for GrowingFile {
        fn look(&self, path: &Path) -> Result<RecordingInspection, String> {
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
            Ok(RecordingInspection {
                first_ns: Some(nth),
                ..RecordingInspection::default()
            })
        }

        fn ask(
            &self,
            _: &Path,
            _: &CheckedQuery,
            _: ReadLimits,
        ) -> Result<RecordingAnswer, RecordingQueryError> {
            Err(RecordingQueryError::Wrong("nobody asks".into()))
        }

        fn follow(
            &self,
            _: &Path,
            _: &FlowRequest,
        ) -> Result<Option<RecordedFlow>, RecordingQueryError> {
            Ok(None)
        }
    }

    #[test]
    fn recordings_that_change_during_inspection_are_inspected_again() {
        let data = tempfile::tempdir().expect("a folder");
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("a.pcap"), "packets").expect("a file");
        let reader = Arc::new(GrowingFile(AtomicI64::new(0)));
        let recording_store = RecordingStore::open(
            reader.clone(),
            data.path(),
            Some(folder.path().into()),
            RecordingLimits::default(),
        );
        let recording_store = recording_store.expect("a recording store");
        let seen = || {
            recording_store
                .all()
                .iter()
                .map(|one| one.told.first_ns.clone())
                .collect::<Vec<_>>()
        };
        for looked in ["0", "1", "2", "2"] {
            assert_eq!(seen(), [Some(looked.to_owned())]);
        }
        let id = recording_store.all()[0].told.id.clone();
        assert!(
            recording_store
                .one(&id)
                .is_some_and(|one| one.looked.is_some())
                && recording_store.one("r0").is_none()
        );
        assert_eq!(reader.0.load(Ordering::Relaxed), 3);
    }
}

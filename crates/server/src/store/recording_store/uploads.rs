//! Uploaded files: each has a generated name, and a note with its original name and its owner. There are limits for
//! each file and for all of them, and they expire.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::{RecordingEntry, RecordingKind, RecordingLimits, RecordingView, ns_of};
use crate::store::access::{ClientAccess, random_hex};
use crate::store::persist_error::PersistError;
use crate::store::service_error::ServiceError;
use crate::store::sqlite::now_ns;

/// Folder in the data directory.
pub(crate) const UPLOADS: &str = "uploads";
/// Maximum characters of an original name.
const NAME_MAX: usize = 200;
/// Digits of a generated name.
const ID_DIGITS: usize = 24;

/// Note on an upload.
#[derive(Serialize, Deserialize)]
struct UploadNote {
    name: String,
    owner: String,
    sent_ns: i64,
}

/// Folder of uploads.
pub(crate) struct UploadFolder {
    folder: PathBuf,
    pub limits: RecordingLimits,
    /// Bytes received since the start, without incomplete uploads.
    come: Arc<AtomicU64>,
}

/// An upload in progress.
pub(crate) struct IncomingUpload {
    id: String,
    file: File,
    path: PathBuf,
    note: UploadNote,
    bytes: u64,
    /// Limit of `come` for this upload.
    come_max: u64,
    come: Arc<AtomicU64>,
    limits: RecordingLimits,
}

impl UploadFolder {
    pub fn open(data: &Path, limits: RecordingLimits) -> Result<UploadFolder, String> {
        let folder = data.join(UPLOADS);
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder);
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let sent = UploadFolder {
            folder,
            limits,
            come: Arc::default(),
        };
        // Removes incomplete uploads of a killed process, and their notes.
        for path in sent.files().filter(|path| path.extension().is_some()) {
            if !path.with_extension("").exists() {
                let _ = fs::remove_file(path);
            }
        }
        Ok(sent)
    }

    fn files(&self) -> impl Iterator<Item = PathBuf> {
        fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
    }

    fn bytes(&self) -> u64 {
        self.files()
            .filter_map(|path| Some(fs::metadata(path).ok()?.len()))
            .sum()
    }

    /// All files, newest first, without expired ones.
    pub fn list(&self) -> Vec<RecordingEntry> {
        self.expire();
        let mut all: Vec<RecordingEntry> =
            self.files().filter_map(|path| self.entry(&path)).collect();
        all.sort_by(|a, b| b.told.written_ns.cmp(&a.told.written_ns));
        all
    }

    fn entry(&self, path: &Path) -> Option<RecordingEntry> {
        if path.extension().is_some() {
            return None;
        }
        let id = path.file_name()?.to_str()?.to_owned();
        let note: UploadNote = serde_json::from_slice(&fs::read(note_of(path)).ok()?).ok()?;
        let told = RecordingView {
            id,
            name: note.name,
            kind: RecordingKind::Upload,
            bytes: fs::metadata(path).ok()?.len(),
            written_ns: note.sent_ns.to_string(),
            first_ns: None,
            last_ns: None,
            parsers: Vec::new(),
            problem: None,
            owner: Some(note.owner),
            expires_ns: Some(note.sent_ns.saturating_add(self.lasting_ns()).to_string()),
        };
        Some(RecordingEntry {
            path: path.to_owned(),
            told,
            looked: None,
        })
    }

    fn lasting_ns(&self) -> i64 {
        i64::try_from(self.limits.time.as_nanos()).unwrap_or(i64::MAX)
    }

    /// Removes expired files.
    pub fn expire(&self) {
        let oldest = now_ns().saturating_sub(self.lasting_ns());
        for path in self.files().filter(|path| path.extension().is_none()) {
            // By the file's modification time, so that an unreadable note does not prevent it.
            let written = fs::metadata(&path).and_then(|found| found.modified()).ok();
            if written.is_some() && ns_of(written) < oldest {
                remove(&path);
            }
        }
    }

    /// Removes an upload by its generated name.
    pub fn remove(&self, id: &str) {
        if id.len() == ID_DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            remove(&self.folder.join(id));
        }
    }

    /// Starts an upload of `bytes` bytes, if known.
    pub fn begin(
        &self,
        who: &ClientAccess,
        name: &str,
        bytes: Option<u64>,
    ) -> Result<IncomingUpload, ServiceError> {
        // Read first: concurrent bytes are rather counted twice than not at all.
        let come = self.come.load(Ordering::Relaxed);
        let room = self.limits.bytes.saturating_sub(self.bytes());
        let id: String = random_hex().chars().take(ID_DIGITS).collect();
        let path = self.folder.join(&id);
        let part = path.with_extension("part");
        let note = UploadNote {
            name: name.chars().take(NAME_MAX).collect(),
            owner: who.name.clone(),
            sent_ns: now_ns(),
        };
        let bytes = bytes.unwrap_or(0);
        let come_max = come.saturating_add(room);
        fits(&self.limits, bytes, come.saturating_add(bytes) <= come_max)?;
        let file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&part);
        let file = file.map_err(PersistError::Disk)?;
        Ok(IncomingUpload {
            id,
            file,
            path,
            note,
            bytes: 0,
            come_max,
            come: self.come.clone(),
            limits: self.limits,
        })
    }
}

/// Checks whether a file of `bytes` bytes is allowed; `has_room`: it fits into the total limit.
fn fits(limits: &RecordingLimits, bytes: u64, has_room: bool) -> Result<(), ServiceError> {
    if bytes > limits.file_bytes {
        let mib = limits.file_bytes >> 20;
        return Err(ServiceError::TooLarge(format!(
            "a file may have {mib} MiB (--upload-mib)"
        )));
    }
    if has_room {
        Ok(())
    } else {
        Err(ServiceError::Quota(
            "it does not fit with the other uploaded files (--uploads-mib): delete some".into(),
        ))
    }
}

fn note_of(path: &Path) -> PathBuf {
    path.with_extension("json")
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_file(note_of(path));
}

impl IncomingUpload {
    /// Appends bytes.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), ServiceError> {
        let more = bytes.len() as u64;
        self.bytes += more;
        let come = self.come.fetch_add(more, Ordering::Relaxed) + more;
        fits(&self.limits, self.bytes, come <= self.come_max)?;
        self.file
            .write_all(bytes)
            .map_err(|error| PersistError::Disk(error).into())
    }

    /// Completes the upload; returns its id.
    pub fn finish(self) -> Result<String, ServiceError> {
        let IncomingUpload {
            file, path, note, ..
        } = &self;
        let keep = || -> io::Result<()> {
            file.sync_all()?;
            let text = serde_json::to_vec(note)?;
            let mut beside = OpenOptions::new()
                .create_new(true)
                .write(true)
                .mode(0o600)
                .open(note_of(path))?;
            beside.write_all(&text)?;
            file.set_modified(SystemTime::now())?;
            fs::rename(path.with_extension("part"), path)
        };
        keep().map_err(PersistError::Disk)?;
        Ok(self.id.clone())
    }
}

impl Drop for IncomingUpload {
    fn drop(&mut self) {
        if !self.path.exists() {
            let _ = fs::remove_file(self.path.with_extension("part"));
            let _ = fs::remove_file(note_of(&self.path));
            self.come.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::store::access::{AccessRole, NetworkScope};

    fn access(name: &str) -> ClientAccess {
        ClientAccess {
            id: 1,
            name: name.into(),
            role: AccessRole::Run,
            scope: NetworkScope::default(),
        }
    }

    #[test]
    fn files_have_bounds_and_names_that_lead_nowhere() {
        let data = tempfile::tempdir().expect("a folder");
        let limits = RecordingLimits {
            file_bytes: 10,
            bytes: 200,
            time: Duration::from_secs(60),
        };
        let sent = UploadFolder::open(data.path(), limits).expect("a recording store");
        let name = "../../<script>alert(1)</script>\u{202e}.pcap";
        let mut coming = sent.begin(&access("a"), name, Some(4)).expect("room");
        coming.add(b"1234").expect("room");
        let id = coming.finish().expect("kept");
        let listed = sent.list();
        let [one] = &listed[..] else {
            panic!("one file")
        };
        assert_eq!(
            (one.told.name.as_str(), one.told.bytes, &one.told.id),
            (name, 4, &id)
        );
        assert_eq!(
            one.path.parent(),
            Some(data.path().join("uploads").as_path())
        );
        assert!(
            matches!(
                sent.begin(&access("a"), "", Some(11)),
                Err(ServiceError::TooLarge(_))
            ),
            "too large, as said"
        );
        let mut coming = sent.begin(&access("a"), "", None).expect("room");
        coming.add(b"1234567890").expect("room");
        assert!(
            matches!(coming.add(b"1"), Err(ServiceError::TooLarge(_))),
            "too large, as it comes"
        );
        drop(coming);
        assert_eq!(
            sent.files().count(),
            2,
            "what has not come to its end is gone"
        );
        sent.remove("../uploads");
        sent.remove(&id);
        assert_eq!(sent.files().count(), 0);
    }

    #[test]
    fn all_that_come_at_a_time_share_the_room() {
        let data = tempfile::tempdir().expect("a folder");
        let limits = RecordingLimits {
            file_bytes: 100,
            bytes: 400,
            time: Duration::from_secs(60),
        };
        let sent = UploadFolder::open(data.path(), limits).expect("a recording store");
        let kept = |bytes: usize| {
            let mut coming = sent.begin(&access("a"), "", None)?;
            coming.add(&vec![0; bytes])?;
            coming.finish()
        };
        // Including its note.
        kept(50).expect("room");
        let room = limits.bytes - sent.bytes();
        let mut all: Vec<IncomingUpload> = (0..6)
            .map(|_| sent.begin(&access("a"), "", None).expect("room"))
            .collect();
        let taken = (0..60)
            .take_while(|nth| all[nth % 6].add(&[0; 10]).is_ok())
            .count() as u64
            * 10;
        assert!(taken <= room && taken + 10 > room, "{taken} of {room}");
        drop(all);
        kept(100).expect("incomplete uploads release their space");
        let refused = (0..4).find_map(|_| kept(100).err());
        assert!(
            matches!(refused, Some(ServiceError::Quota(_))),
            "{refused:?}"
        );
        assert!(sent.bytes() <= limits.bytes + 200, "notes come on top");
        // A kill before the last step leaves a note.
        let orphan = data
            .path()
            .join("uploads")
            .join("0123456789abcdef01234567.json");
        fs::write(&orphan, "{}").expect("a note");
        let sent = UploadFolder::open(data.path(), limits).expect("a recording store");
        assert!(!orphan.exists() && sent.list().len() >= 2);
    }

    #[test]
    fn uploads_expire() {
        let data = tempfile::tempdir().expect("a folder");
        let limits = RecordingLimits {
            time: Duration::ZERO,
            ..RecordingLimits::default()
        };
        let sent = UploadFolder::open(data.path(), limits).expect("a recording store");
        sent.begin(&access("a"), "a", None)
            .and_then(IncomingUpload::finish)
            .expect("kept");
        std::thread::sleep(Duration::from_millis(5));
        assert!(sent.list().is_empty());
        assert_eq!(sent.files().count(), 0);
    }
}

//! Consistent backups of a data directory, taken while a server runs, and their restoration.
//!
//! A copy of the store names the segments of the history, which never change. If retention removes a segment before it
//! is copied, the store is copied again. So a row is in the backup exactly once, in the store or in a segment. A
//! manifest holds the size and the SHA-256 of each file. Files and folders are accessible to their owner only.

mod restore;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::data_directory::{DataDirectory, RESERVE, RESTORING};
use crate::job::JobId;
use crate::store::directory_lock::{FileLock, LOCK};
use crate::store::history;
use crate::store::recording_store::UPLOADS;
use crate::store::sqlite::{BackupSource, now_ns};

pub use restore::{RestoreSummary, restore};

/// Names and checksums of the files, written last.
const MANIFEST: &str = "manifest.json";
/// Format version of the manifest.
const FORM: u32 = 1;
/// Maximum copies of the store before the backup fails; another copy is needed only if retention removed a segment in
/// the meantime.
const COPIES_MAX: usize = 50;

/// Manifest of a backup.
#[derive(Debug, Serialize, Deserialize)]
struct BackupManifest {
    form: u32,
    /// Version of the program.
    program: String,
    /// Time of the copy of the store.
    taken_ns: i64,
    files: BTreeMap<String, BackupFile>,
    /// Files named by the store that were missing.
    missing: BTreeSet<String>,
}

/// Size and checksum of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BackupFile {
    bytes: u64,
    sha256: String,
}

/// Summary of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupSummary {
    /// Number of files.
    pub files: usize,
    /// Total size in bytes.
    pub bytes: u64,
    /// Segments of the history named by the store but missing in the data directory.
    pub missing: Vec<String>,
}

/// Copies the data directory `data` into the new folder `to`, also while a server uses it.
///
/// # Errors
/// A message for the operator: `to` exists, or a file cannot be read or written. Nothing is left at `to` then.
pub fn backup(data: &Path, to: &Path) -> Result<BackupSummary, String> {
    let store = DataDirectory::store_file(data);
    if !store.is_file() {
        return Err(format!(
            "{} is not a data directory of netalytics serve",
            data.display()
        ));
    }
    if to.exists() {
        return Err(format!(
            "{} exists: a backup needs a new folder",
            to.display()
        ));
    }
    let Some(name) = to.file_name() else {
        return Err(format!("{} does not name a folder", to.display()));
    };
    let parent = to
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let at =
        |path: &Path| fs::canonicalize(path).map_err(|why| format!("{}: {why}", path.display()));
    if at(parent)?.starts_with(at(data)?) {
        return Err(format!(
            "{} is in the data directory: choose a folder outside it",
            to.display()
        ));
    }
    let partial = parent.join(format!(".{}.partial", name.to_string_lossy()));
    let lock =
        begin(&partial).map_err(|why| format!("cannot write {}: {why}", partial.display()))?;
    let mut taking = BackupWriter {
        data,
        to: &partial,
        files: BTreeMap::new(),
    };
    let taken = taking.all(&store).and_then(|taken| {
        fs::remove_file(partial.join(LOCK))
            .and_then(|()| sync(&partial))
            .and_then(|()| fs::rename(&partial, to))
            .and_then(|()| sync(parent))
            .map_err(|why| format!("cannot write {}: {why}", to.display()))?;
        Ok(taken)
    });
    if taken.is_err() {
        let _ = fs::remove_dir_all(&partial);
    }
    drop(lock);
    taken
}

/// Creates and locks the folder of an incomplete backup; removes files that a killed backup left in it.
fn begin(partial: &Path) -> io::Result<FileLock> {
    create_folder(partial)?;
    fs::set_permissions(partial, fs::Permissions::from_mode(0o700))?;
    let lock = partial.join(LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(lock)?;
    let lock = FileLock::acquire(lock)
        .map_err(|_| io::Error::other("another backup is being written there"))?;
    for entry in fs::read_dir(partial)? {
        let path = entry?.path();
        if path.is_dir() {
            fs::remove_dir_all(&path)?;
        } else if !path.ends_with(LOCK) {
            fs::remove_file(&path)?;
        }
    }
    Ok(lock)
}

/// A backup in progress.
struct BackupWriter<'b> {
    data: &'b Path,
    to: &'b Path,
    files: BTreeMap<String, BackupFile>,
}

impl BackupWriter<'_> {
    fn all(&mut self, store: &Path) -> Result<BackupSummary, String> {
        let source = BackupSource::open(store)
            .map_err(|why| format!("cannot read {}: {why}", store.display()))?;
        let (taken_ns, missing) = self.rows(&source)?;
        self.others()?;
        let manifest = BackupManifest {
            form: FORM,
            program: env!("CARGO_PKG_VERSION").into(),
            taken_ns,
            files: std::mem::take(&mut self.files),
            missing,
        };
        let path = self.to.join(MANIFEST);
        let text = serde_json::to_vec_pretty(&manifest).map_err(|why| why.to_string())?;
        let written = new_file(&path)
            .and_then(|mut file| file.write_all(&text).and_then(|()| file.sync_all()));
        written.map_err(|why| format!("cannot write {}: {why}", path.display()))?;
        Ok(BackupSummary {
            files: manifest.files.len(),
            bytes: manifest.files.values().map(|facts| facts.bytes).sum(),
            missing: manifest.missing.into_iter().collect(),
        })
    }

    /// Copies the store and the history as of one moment; returns its time and the missing segments.
    fn rows(&mut self, source: &BackupSource) -> Result<(i64, BTreeSet<String>), String> {
        let path = self.to.join(DataDirectory::store_file(Path::new("")));
        let failed = |why: &dyn std::fmt::Display| {
            format!("cannot copy the store to {}: {why}", path.display())
        };
        let mut gone_before: BTreeSet<String> = BTreeSet::new();
        for _ in 0..COPIES_MAX {
            if path.exists() {
                fs::remove_file(&path).map_err(|why| failed(&why))?;
            }
            new_file(&path).map_err(|why| failed(&why))?;
            let taken_ns = now_ns();
            let named = source.copy(&path).map_err(|why| failed(&why))?;
            let mut gone = BTreeSet::new();
            let mut wanted = BTreeSet::new();
            for segment in named {
                let name = segment_name(segment)?;
                wanted.insert(name.clone());
                if !self.has(&name) && !self.segment(source, segment, &name)? {
                    gone.insert(name);
                }
            }
            // A segment missing in two consecutive copies of the store was not removed by retention.
            if gone.is_subset(&gone_before) {
                self.retain(&wanted)?;
                let facts = facts_of(&path).map_err(|why| failed(&why))?;
                self.files.insert(relative(self.to, &path)?, facts);
                return Ok((taken_ns, gone));
            }
            gone_before = gone;
        }
        Err("the history drops files faster than they are copied: try again, or raise --history-mib".into())
    }

    fn has(&self, segment: &str) -> bool {
        let prefix = format!("{segment}/");
        self.files
            .range(prefix.clone()..)
            .next()
            .is_some_and(|(path, _)| path.starts_with(&prefix))
    }

    /// Copies a segment; returns whether it was complete.
    fn segment(
        &mut self,
        source: &BackupSource,
        segment: (JobId, usize, i64),
        name: &str,
    ) -> Result<bool, String> {
        self.folder(Path::new(name))?;
        // A segment still named after the copy was not removed during it.
        let is_named = source
            .has_segment(segment)
            .map_err(|why| format!("cannot read the store: {why}"))?;
        if !is_named {
            self.remove(name)?;
        }
        Ok(self.has(name))
    }

    /// Removes the segments that are not in `wanted`.
    fn retain(&mut self, wanted: &BTreeSet<String>) -> Result<(), String> {
        let segment_of = |path: &String| path.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let all: BTreeSet<String> = self.files.keys().map(segment_of).collect();
        all.difference(wanted)
            .try_for_each(|name| self.remove(name))
    }

    fn remove(&mut self, segment: &str) -> Result<(), String> {
        let prefix = format!("{segment}/");
        self.files.retain(|path, _| !path.starts_with(&prefix));
        let path = self.to.join(segment);
        let removed = if path.exists() {
            fs::remove_dir_all(&path)
        } else {
            Ok(())
        };
        removed.map_err(|why| format!("cannot remove {}: {why}", path.display()))
    }

    /// Copies all other files.
    fn others(&mut self) -> Result<(), String> {
        let store = DataDirectory::store_file(Path::new(""));
        let store = store.to_string_lossy().into_owned();
        for name in
            names(self.data).map_err(|why| format!("cannot read {}: {why}", self.data.display()))?
        {
            let is_of_process = [LOCK, RESERVE, RESTORING].contains(&name.as_str());
            if !is_of_process && name != history::FOLDER && !name.starts_with(&store) {
                self.either(Path::new(&name))?;
            }
        }
        Ok(())
    }

    /// Copies a file or a folder; skips files removed in the meantime.
    fn either(&mut self, path: &Path) -> Result<(), String> {
        match fs::metadata(self.data.join(path)) {
            Ok(found) if found.is_dir() => self.folder(path),
            // An incomplete upload.
            Ok(_)
                if path.starts_with(UPLOADS)
                    && path.extension().is_some_and(|ext| ext == "part") =>
            {
                Ok(())
            }
            Ok(found) if found.is_file() => self.file(path),
            // Sockets and removed files.
            _ => Ok(()),
        }
    }

    fn folder(&mut self, path: &Path) -> Result<(), String> {
        let names = match names(&self.data.join(path)) {
            Ok(names) => names,
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(why) => {
                return Err(format!(
                    "cannot read {}: {why}",
                    self.data.join(path).display()
                ));
            }
        };
        let to = self.to.join(path);
        create_folder(&to).map_err(|why| format!("cannot make {}: {why}", to.display()))?;
        names
            .iter()
            .try_for_each(|name| self.either(&path.join(name)))?;
        sync(&to).map_err(|why| format!("cannot write {}: {why}", to.display()))
    }

    fn file(&mut self, path: &Path) -> Result<(), String> {
        let from = self.data.join(path);
        let to = self.to.join(path);
        match copy(&from, &to) {
            Ok(facts) => drop(self.files.insert(relative(self.to, &to)?, facts)),
            Err(why) if why.kind() == io::ErrorKind::NotFound => {}
            Err(why) => {
                return Err(format!(
                    "cannot copy {} to {}: {why}",
                    from.display(),
                    to.display()
                ));
            }
        }
        Ok(())
    }
}

fn segment_name((job, place, first_row): (JobId, usize, i64)) -> Result<String, String> {
    relative(
        Path::new(""),
        &history::segment_path(Path::new(history::FOLDER), job, place, first_row),
    )
}

/// Path relative to a folder, as in the manifest.
fn relative(folder: &Path, path: &Path) -> Result<String, String> {
    let own = path.strip_prefix(folder).ok().and_then(Path::to_str);
    own.map(str::to_owned)
        .ok_or_else(|| format!("{} is not valid UTF-8", path.display()))
}

/// The names in a folder, sorted.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let text = entry?.file_name().into_string();
        names.push(text.map_err(|name| {
            io::Error::other(format!(
                "{} is not valid UTF-8",
                PathBuf::from(name).display()
            ))
        })?);
    }
    names.sort();
    Ok(names)
}

fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Copies a file to the new file `to` and syncs it; keeps the modification time, by which uploads expire.
fn copy(from: &Path, to: &Path) -> io::Result<BackupFile> {
    let mut source = File::open(from)?;
    let mut target = new_file(to)?;
    let facts = read(&mut source, &mut |part| target.write_all(part))?;
    target.set_modified(source.metadata()?.modified()?)?;
    target.sync_all()?;
    Ok(facts)
}

fn facts_of(path: &Path) -> io::Result<BackupFile> {
    let mut file = File::open(path)?;
    file.sync_all()?;
    read(&mut file, &mut |_| Ok(()))
}

fn read(file: &mut File, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<BackupFile> {
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                hash.update(&buffer[..n]);
                bytes += n as u64;
                each(&buffer[..n])?;
            }
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    let sha256 = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(BackupFile { bytes, sha256 })
}

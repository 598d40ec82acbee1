//! Restores a backup into a new data directory. Each file is verified against the manifest during the copy. A restore
//! that fails leaves the directory unchanged; one that is killed leaves a marker, and a server refuses a directory with
//! it.

use std::fs::{self, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::{Component, Path, PathBuf};

use super::{BackupFile, BackupManifest, FORM, MANIFEST, copy, create_folder, new_file, sync};
use crate::startup::data_directory::{DataDirectory, RESTORING};
use crate::store::directory_lock::{FileLock, LOCK};
use crate::store::sqlite::ServerStore;

/// Summary of a restored backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Number of files.
    pub files: usize,
    /// Total size in bytes.
    pub bytes: u64,
    /// When the backup was taken, in nanoseconds since the epoch.
    pub taken_ns: i64,
    /// Segments of the history that were missing when the backup was taken.
    pub missing: Vec<String>,
}

/// Restores the backup in the folder `from` into the data directory `data`, which must be missing or empty. The
/// restored server has the certificate authority, tokens and jobs of the backup, and a new identity: agents discard
/// unsent results for the old one, which would not continue the rows of the backup.
///
/// # Errors
/// A message for the operator: `from` is not a backup or is damaged, or `data` is in use or not empty.
pub fn restore(from: &Path, data: &Path) -> Result<RestoreSummary, String> {
    let manifest = manifest(from)?;
    let is_new = !data.exists();
    create_folder(data)
        .map_err(|why| format!("cannot create the data directory {}: {why}", data.display()))?;
    let lock = claim(data)?;
    let restored = fill(from, &manifest, data);
    if restored.is_err() {
        let _ = clear(data);
        if is_new {
            let _ = fs::remove_dir(data);
        }
    }
    drop(lock);
    restored.map(|()| RestoreSummary {
        files: manifest.files.len(),
        bytes: manifest.files.values().map(|facts| facts.bytes).sum(),
        taken_ns: manifest.taken_ns,
        missing: manifest.missing.into_iter().collect(),
    })
}

fn manifest(from: &Path) -> Result<BackupManifest, String> {
    if from.is_file() {
        return Err(format!(
            "{} is a file, as earlier versions wrote it: a copy of the store, without history and authority. A backup is a folder",
            from.display()
        ));
    }
    let path = from.join(MANIFEST);
    let text = fs::read(&path)
        .map_err(|why| format!("{} is not a backup: {MANIFEST}: {why}", from.display()))?;
    let damaged =
        |why: &dyn std::fmt::Display| format!("the backup is damaged: {}: {why}", path.display());
    let manifest: BackupManifest = serde_json::from_slice(&text).map_err(|why| damaged(&why))?;
    if manifest.form > FORM {
        return Err(format!(
            "{}: written by netalytics {}, and only that version can read it",
            path.display(),
            manifest.program
        ));
    }
    let is_within = |name: &&String| {
        let mut parts = Path::new(name).components();
        !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
    };
    if let Some(name) = manifest.files.keys().find(|name| !is_within(name)) {
        return Err(damaged(&format!("{name:?} is not a file of a backup")));
    }
    let store = DataDirectory::store_file(Path::new(""));
    if store
        .to_str()
        .is_some_and(|store| manifest.files.contains_key(store))
    {
        Ok(manifest)
    } else {
        Err(damaged(&"it names no store"))
    }
}

/// Locks the data directory, which must be empty.
fn claim(data: &Path) -> Result<FileLock, String> {
    let name = data.display();
    let failed = |why: io::Error| format!("cannot use the data directory {name}: {why}");
    let path = data.join(LOCK);
    if path.exists() {
        let found = OpenOptions::new().write(true).open(&path).map_err(failed)?;
        if matches!(FileLock::acquire(found), Err(TryLockError::WouldBlock)) {
            return Err(format!(
                "a netalytics serve uses the data directory {name}: restore into another one"
            ));
        }
    }
    let has_any = fs::read_dir(data)
        .map_err(failed)?
        .flatten()
        .any(|entry| entry.file_name() != "lost+found");
    if has_any {
        return Err(format!(
            "{name} is not empty: a restore needs a new data directory"
        ));
    }
    let lock = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    FileLock::acquire(lock).map_err(|_| format!("another process uses the data directory {name}"))
}

fn fill(from: &Path, manifest: &BackupManifest, data: &Path) -> Result<(), String> {
    let failed = |path: &Path, why: io::Error| format!("cannot write {}: {why}", path.display());
    let mark = data.join(RESTORING);
    new_file(&mark)
        .and_then(|file| file.sync_all())
        .map_err(|why| failed(&mark, why))?;
    let mut folders = vec![data.to_owned()];
    for (name, expected) in &manifest.files {
        let to = data.join(name);
        let parent = to.parent().unwrap_or(data);
        create_folder(parent).map_err(|why| failed(parent, why))?;
        let above = parent
            .ancestors()
            .take_while(|folder| folder.starts_with(data) && *folder != data);
        folders.extend(above.map(Path::to_owned));
        verified(&from.join(name), expected, &to)?;
    }
    let store = DataDirectory::store_file(data);
    let renewed = ServerStore::open(&store).and_then(|store| {
        store.database.renew_identity()?;
        store
            .audit
            .add("", "restore", &from.to_string_lossy(), "done")
    });
    renewed.map_err(|why| format!("{}: {why}", store.display()))?;
    folders.sort();
    folders.dedup();
    let files = manifest.files.keys().map(|name| data.join(name));
    let own = [data.join(LOCK)];
    give_to_owner(data, folders.iter().cloned().chain(files).chain(own))
        .map_err(|why| failed(data, why))?;
    folders
        .iter()
        .try_for_each(|folder| sync(folder).map_err(|why| failed(folder, why)))?;
    // The directory is valid from here on.
    fs::remove_file(&mark)
        .and_then(|()| sync(data))
        .map_err(|why| failed(&mark, why))
}

/// Copies a file and verifies its size and checksum.
fn verified(from: &Path, expected: &BackupFile, to: &Path) -> Result<(), String> {
    let damaged =
        |why: &dyn std::fmt::Display| format!("the backup is damaged: {}: {why}", from.display());
    // Before the copy, so that the error for a missing file names it.
    fs::metadata(from).map_err(|why| damaged(&why))?;
    let found = copy(from, to)
        .map_err(|why| format!("cannot copy {} to {}: {why}", from.display(), to.display()))?;
    match &found {
        found if found == expected => Ok(()),
        BackupFile { bytes, .. } if *bytes != expected.bytes => Err(damaged(&format!(
            "it has {bytes} bytes instead of {}",
            expected.bytes
        ))),
        _ => Err(damaged(&"its checksum is not that of the manifest")),
    }
}

/// Gives all files to the owner of the data directory: root may restore for the service account.
fn give_to_owner(data: &Path, all: impl Iterator<Item = PathBuf>) -> io::Result<()> {
    let of = fs::metadata(data)?;
    for path in all {
        let found = fs::metadata(&path)?;
        if (found.uid(), found.gid()) != (of.uid(), of.gid()) {
            chown(&path, Some(of.uid()), Some(of.gid()))?;
        }
    }
    Ok(())
}

/// Removes all files from the data directory.
fn clear(data: &Path) -> io::Result<()> {
    for entry in fs::read_dir(data)? {
        let path = entry?.path();
        if !path.is_dir() {
            fs::remove_file(&path)?;
        } else if !path.ends_with("lost+found") {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

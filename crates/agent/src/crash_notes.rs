//! File with starts that have not been confirmed healthy, so that a plan that crashes the agent is not retried forever.
//! If it cannot be written, this is logged once until it works again, and the notes are kept in memory: a full disk
//! stops no job.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use control::StartNote;

/// See the module documentation.
pub struct CrashNotes {
    path: PathBuf,
    crashes: BTreeMap<u64, u32>,
    health: NotesHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotesHealth {
    Well,
    Failing,
}

impl CrashNotes {
    /// Notes of the previous process in this folder; invalid ones are skipped.
    #[must_use]
    pub fn read(folder: &Path) -> CrashNotes {
        let path = folder.join("starts");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let note = |line: &str| {
            line.split_once(' ')
                .and_then(|(job, n)| Some((job.parse().ok()?, n.parse().ok()?)))
        };
        CrashNotes {
            path,
            crashes: text.lines().filter_map(note).collect(),
            health: NotesHealth::Well,
        }
    }

    /// All notes.
    #[must_use]
    pub fn all(&self) -> Vec<StartNote> {
        self.crashes
            .iter()
            .map(|(&job, &crashes)| StartNote { job, crashes })
            .collect()
    }

    /// Stores a note of a start, which survives a crash.
    pub fn add(&mut self, note: StartNote) {
        self.crashes.insert(note.job, note.crashes);
        self.keep();
    }

    /// Removes the note of a job.
    pub fn forget(&mut self, job: u64) {
        if self.crashes.remove(&job).is_some() {
            self.keep();
        }
    }

    /// Removes all notes.
    pub fn forget_all(&mut self) {
        self.crashes.clear();
        self.keep();
    }

    fn keep(&mut self) {
        let written = self.write();
        if let (Err(error), NotesHealth::Well) = (&written, self.health) {
            tracing::warn!("{} cannot be written: {error}", self.path.display());
        }
        self.health = if written.is_ok() {
            NotesHealth::Well
        } else {
            NotesHealth::Failing
        };
    }

    fn write(&self) -> io::Result<()> {
        let next = self.path.with_extension("next");
        let mut file = fs::File::create(&next)?;
        for (job, crashes) in &self.crashes {
            writeln!(file, "{job} {crashes}")?;
        }
        file.sync_all()?;
        fs::rename(&next, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_outlive_a_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut notes = CrashNotes::read(folder.path());
        for (job, crashes) in [(1, 0), (2, 1), (1, 2)] {
            notes.add(StartNote { job, crashes });
        }
        notes.forget(9);
        assert_eq!(
            CrashNotes::read(folder.path()).all(),
            [
                StartNote { job: 1, crashes: 2 },
                StartNote { job: 2, crashes: 1 }
            ]
        );
        notes.forget(1);
        assert_eq!(
            CrashNotes::read(folder.path()).all(),
            [StartNote { job: 2, crashes: 1 }]
        );
        notes.forget_all();
        assert_eq!(CrashNotes::read(folder.path()).all(), []);
        fs::write(folder.path().join("starts"), "x\n3 y\n4 1\n").expect("written");
        assert_eq!(
            CrashNotes::read(folder.path()).all(),
            [StartNote { job: 4, crashes: 1 }]
        );
    }
    #[test]
    fn notes_are_kept_in_memory_if_the_disk_fails() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("gone");
        let mut notes = CrashNotes::read(&path);
        notes.add(StartNote { job: 1, crashes: 2 });
        assert_eq!((notes.all().len(), notes.health), (1, NotesHealth::Failing));
        fs::create_dir(&path).expect("a folder");
        notes.add(StartNote { job: 2, crashes: 0 });
        assert_eq!(
            (CrashNotes::read(&path).all().len(), notes.health),
            (2, NotesHealth::Well)
        );
    }
}

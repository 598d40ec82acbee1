//! Temporary data folders of demonstrations. A killed demonstration cannot remove its folder, so the next one does; the
//! lock that a server holds shows whether a folder is in use.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use tempfile::TempDir;

/// Prefix of such folders in the system's temporary directory.
const PREFIX: &str = "netalytics-demo-";

/// Creates a folder, removed on drop.
///
/// # Errors
/// `io::Error` if it cannot be created.
pub fn folder() -> io::Result<TempDir> {
    let place = std::env::temp_dir();
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&place)?;
    remove_left(&place, fs::metadata(folder.path())?.uid());
    Ok(folder)
}

/// Removes the folders of a user's dead processes; ignores failures.
fn remove_left(place: &Path, user: u32) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry
            .file_name()
            .to_str()
            .is_some_and(|name| name.starts_with(PREFIX));
        // Other users may create entries there: links are not followed.
        let is_own =
            || fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_dir() && facts.uid() == user);
        if is_named && is_own() && is_dead(&path) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Whether the process of a data directory has ended. A directory without a lock file is being created.
fn is_dead(folder: &Path) -> bool {
    let lock = OpenOptions::new().write(true).open(folder.join("lock"));
    lock.is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_dead_processes_are_removed() {
        let place = tempfile::tempdir().expect("a folder");
        let user = fs::metadata(place.path()).expect("it exists").uid();
        let make = |name: &str, has_lock: bool| {
            let path = place.path().join(name);
            fs::create_dir(&path).expect("made");
            has_lock.then(|| fs::write(path.join("lock"), "").expect("written"));
            path
        };
        let dead = make("netalytics-demo-a", true);
        fs::create_dir(dead.join("history")).expect("made");
        let living = make("netalytics-demo-b", true);
        let lock = OpenOptions::new()
            .write(true)
            .open(living.join("lock"))
            .expect("opened");
        lock.try_lock().expect("it is unused");
        let [begun, other] =
            [("netalytics-demo-c", false), ("another", true)].map(|(name, has)| make(name, has));
        std::os::unix::fs::symlink(&other, place.path().join("netalytics-demo-d")).expect("a link");
        remove_left(place.path(), user.wrapping_add(1));
        assert!(dead.exists(), "another user's");
        remove_left(place.path(), user);
        assert_eq!(
            [&dead, &living, &begun, &other].map(|path| path.exists()),
            [false, true, true, true]
        );
    }
}

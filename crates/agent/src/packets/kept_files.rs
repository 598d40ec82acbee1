//! Files with packets: `FOLDER/RUN/FILE.pcapng`, in the order of the numbers in both names, since times of files follow
//! the clock, which may be set back.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// A file with packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptFile {
    pub path: PathBuf,
    /// Numbers of its folder and of the file.
    pub order: (u64, u64),
    /// Device and inode: hard links count once.
    pub identity: (u64, u64),
    pub bytes: u64,
    /// Time of the last write.
    pub written: SystemTime,
}

/// All files below a folder's folders, oldest first.
pub fn files(folder: &Path) -> Vec<KeptFile> {
    let kept = |run: u64, entry: &fs::DirEntry| {
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        let path = entry.path();
        Some(KeptFile {
            order: (run, last_number(path.file_stem()?.to_str()?)),
            path,
            identity: (about.dev(), about.ino()),
            bytes: about.len(),
            written: about.modified().ok()?,
        })
    };
    let mut all: Vec<KeptFile> = runs(folder)
        .iter()
        .flat_map(|(run, path)| entries(path).filter_map(|entry| kept(*run, &entry)))
        .collect();
    all.sort_by_key(|file| file.order);
    all
}

/// Creates the next folder, with `suffix` behind its number.
pub fn next_run(folder: &Path, suffix: &str) -> io::Result<PathBuf> {
    let last = runs(folder).last().map_or(0, |(number, _)| *number);
    let run = folder.join(format!("{:06}{suffix}", last + 1));
    make(&run)?;
    Ok(run)
}

/// Creates a folder for its owner only.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Links files into a folder, numbered in order; returns their number. A file deleted meanwhile is skipped.
pub fn link_all(files: &[KeptFile], to: &Path) -> io::Result<usize> {
    let mut linked = 0;
    for file in files {
        match fs::hard_link(&file.path, to.join(format!("{linked:06}.pcapng"))) {
            Ok(()) => linked += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(linked)
}

/// Deletes the oldest files beyond `bytes_max` bytes, without the newest, and folders that are empty.
pub fn prune(folder: &Path, bytes_max: u64) {
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    for (age, file) in files(folder).iter().rev().enumerate() {
        if seen.insert(file.identity) {
            bytes += file.bytes;
        }
        if bytes > bytes_max && age > 0 {
            let _ = fs::remove_file(&file.path);
        }
    }
    let mut runs = runs(folder);
    // The newest may not have a file yet.
    runs.pop();
    // A folder with files is not removed.
    runs.iter().for_each(|(_, run)| drop(fs::remove_dir(run)));
}

/// Folders in a folder, with their numbers, oldest first.
fn runs(folder: &Path) -> Vec<(u64, PathBuf)> {
    let run = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let digits = name.split('-').next()?;
        Some((digits.parse().ok()?, entry.path()))
    };
    let mut all: Vec<(u64, PathBuf)> = entries(folder).filter_map(run).collect();
    all.sort();
    all
}

fn entries(folder: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

/// The number that a name ends with.
fn last_number(name: &str) -> u64 {
    let digits = name.rsplit('-').next().unwrap_or_default();
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn write(path: &Path, bytes: usize, second: u64) {
        fs::write(path, vec![0; bytes]).expect("written");
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(second))
            .expect("a time");
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |file: &KeptFile| {
            let inside = file.path.strip_prefix(folder).expect("inside");
            inside.display().to_string()
        };
        files(folder).iter().map(name).collect()
    }

    #[test]
    fn oldest_files_are_deleted_and_links_count_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for run in ["000001", "000002", "000003-alert"] {
            let made = next_run(folder, if run == "000003-alert" { "-alert" } else { "" });
            assert_eq!(made.expect("a folder"), folder.join(run));
        }
        // The clock was set back between the runs, and numbers grow beyond six digits.
        write(&folder.join("000001/p-000001"), 400, 9);
        write(&folder.join("000002/p-999999"), 400, 2);
        write(&folder.join("000002/p-1000000"), 400, 1);
        link_all(&files(folder)[2..], &folder.join("000003-alert")).expect("linked");
        let link = "000003-alert/000000.pcapng";
        prune(folder, 1200);
        let all = [
            "000001/p-000001",
            "000002/p-999999",
            "000002/p-1000000",
            link,
        ];
        assert_eq!(names(folder), all);
        prune(folder, 800);
        assert_eq!(names(folder), all[1..]);
        assert!(!folder.join("000001").exists());
        // The newest is kept, whatever its size.
        prune(folder, 100);
        assert_eq!(names(folder), [link]);
        assert_eq!(
            next_run(folder, "").expect("a folder"),
            folder.join("000004")
        );
    }
}

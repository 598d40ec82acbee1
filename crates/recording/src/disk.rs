//! File access for data sets. Only regular files in real folders are accepted: a user with write access to the folder
//! must not be able to block the program with a named pipe or redirect it with a symbolic link. Created files are
//! accessible only to their owner.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

const OWNER_ONLY: u32 = 0o600;
const OWNER_ONLY_FOLDER: u32 = 0o700;

/// Opens a file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    regular(path, OpenOptions::new().read(true))
}

/// Opens a file to complete it.
pub fn open_to_mend(path: &Path) -> io::Result<File> {
    regular(path, OpenOptions::new().read(true).write(true))
}

/// Reads a whole file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a file, which must not exist.
pub fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(path)
}

/// Creates a folder and its parents if missing.
pub fn create_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(OWNER_ONLY_FOLDER)
        .create(path)
}

/// Creates a table's folder if missing.
pub fn create_table_folder(path: &Path) -> io::Result<()> {
    create_folder(path)?;
    if fs::symlink_metadata(path)?.is_dir() {
        Ok(())
    } else {
        Err(not_ours(path))
    }
}

fn regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Without O_NONBLOCK, opening a named pipe waits for its other end.
    let file = match options
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
    {
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return Err(not_ours(path)),
        opened => opened?,
    };
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(not_ours(path))
    }
}

fn not_ours(path: &Path) -> io::Error {
    let message = format!(
        "{} is a link, a pipe, or a device, which is not part of a recording",
        path.display()
    );
    io::Error::new(ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    #[test]
    fn regular_files_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), b"abc").expect("written");
        symlink(path("file"), path("link")).expect("a link");
        let made = Command::new("mkfifo").arg(path("pipe")).status();
        assert!(
            made.is_ok_and(|status| status.success()),
            "mkfifo is a part of coreutils"
        );
        fs::create_dir(path("folder")).expect("a folder");
        symlink(path("folder"), path("link to a folder")).expect("a link");
        for (name, is_ours) in [
            ("file", true),
            ("link", false),
            ("pipe", false),
            ("/dev/null", false),
        ] {
            for opened in [open(&path(name)), open_to_mend(&path(name))] {
                assert_eq!(opened.is_ok(), is_ours, "{name}");
            }
        }
        assert!(create_table_folder(&path("folder")).is_ok());
        assert!(create_table_folder(&path("link to a folder")).is_err());
        // Existing files are never overwritten, and links are not followed.
        symlink(path("nowhere"), path("dangling")).expect("a link");
        for name in ["file", "link", "dangling"] {
            assert_eq!(
                create(&path(name)).map(drop).map_err(|e| e.kind()),
                Err(ErrorKind::AlreadyExists)
            );
        }
    }

    #[test]
    fn for_the_owner_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let inner = folder.path().join("a/b");
        create_table_folder(&inner).expect("folders");
        create(&inner.join("file")).expect("a file");
        let mode = |path: &Path| path.metadata().expect("it exists").permissions().mode() & 0o777;
        assert_eq!((mode(&inner), mode(&inner.join("file"))), (0o700, 0o600));
    }
}

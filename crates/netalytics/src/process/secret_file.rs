//! A file for a secret: readable by its owner only, replaced atomically.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tempfile::NamedTempFile;

use crate::process::failure::wrong_flags;

/// A temporary file, created before the secret, which is shown only once.
pub struct SecretFile {
    path: PathBuf,
    next: NamedTempFile,
}

impl SecretFile {
    /// Creates a temporary file next to `path`.
    ///
    /// # Errors
    /// If it cannot be created, or `path` exists and is not a regular file.
    pub fn create(path: &Path) -> anyhow::Result<SecretFile> {
        if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
            return Err(wrong_flags(format!(
                "--out {} is not a regular file",
                path.display()
            )));
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        let owner_only = fs::Permissions::from_mode(0o600);
        let made = tempfile::Builder::new()
            .prefix(".token-")
            .permissions(owner_only)
            .tempfile_in(folder);
        let next = made.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(SecretFile {
            path: path.to_owned(),
            next,
        })
    }

    /// Writes the secret as a line and renames the file to its path.
    ///
    /// # Errors
    /// `io::Error` if it cannot be written; the path is unchanged then.
    pub fn keep(mut self, secret: &str) -> anyhow::Result<()> {
        let written = writeln!(self.next, "{secret}").and_then(|()| self.next.as_file().sync_all());
        written
            .and_then(|()| {
                self.next
                    .persist(&self.path)
                    .map(drop)
                    .map_err(|error| error.error)
            })
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_files_are_private_even_when_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.token");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("set");
        drop(SecretFile::create(&path).expect("a file"));
        assert_eq!(fs::read_to_string(&path).expect("the old one"), "old");
        SecretFile::create(&path)
            .expect("a file")
            .keep("nl_1")
            .expect("written");
        assert_eq!(fs::read_to_string(&path).expect("the new one"), "nl_1\n");
        assert_eq!(
            fs::metadata(&path).expect("it exists").permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
        assert!(SecretFile::create(folder.path()).is_err());
        assert!(SecretFile::create(&folder.path().join("none/a.token")).is_err());
    }
}

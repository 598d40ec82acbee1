//! The life of an agent that ended in order, in a file for the next one: everything that its monitors found is in the spool's files or was
//! sent. Where the file cannot be written, the next life counts the last one as killed.

use std::fs;
use std::path::Path;

const FILE: &str = "last-boot";

/// The last life, if it ended in order; 0: it did not. This is true once: the file is removed.
#[must_use]
pub fn take(folder: &Path) -> u64 {
    let path = folder.join(FILE);
    let boot = fs::read_to_string(&path).ok().and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    match fs::remove_file(&path) {
        Ok(()) => boot.unwrap_or(0),
        // One that stays would be true of every later life, too.
        Err(_) => 0,
    }
}

/// This life ends in order.
pub fn write(folder: &Path, boot: u64) {
    if let Err(error) = fs::write(folder.join(FILE), format!("{boot:016x}\n")) {
        tracing::warn!("{} cannot be written: {error}", folder.join(FILE).display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_true_once() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(take(folder.path()), 0);
        write(folder.path(), u64::MAX - 1);
        assert_eq!(take(folder.path()), u64::MAX - 1);
        assert_eq!(take(folder.path()), 0);
        fs::write(folder.path().join(FILE), "nonsense").expect("written");
        assert_eq!(take(folder.path()), 0);
    }
}

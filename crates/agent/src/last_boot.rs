//! File with the incarnation of an agent that ended in order: all results of its monitors are in the spool's files or
//! were sent. If it cannot be written, the next incarnation counts the previous one as killed.

use std::fs;
use std::path::Path;

const FILE: &str = "last-boot";

/// The previous incarnation if it ended in order, otherwise 0. The file is removed.
#[must_use]
pub fn take(folder: &Path) -> u64 {
    let path = folder.join(FILE);
    let boot = fs::read_to_string(&path)
        .ok()
        .and_then(|text| u64::from_str_radix(text.trim(), 16).ok());
    match fs::remove_file(&path) {
        Ok(()) => boot.unwrap_or(0),
        // If it cannot be removed, it would apply to every later incarnation.
        Err(_) => 0,
    }
}

/// Notes that this incarnation ended in order.
pub fn write(folder: &Path, boot: u64) {
    if let Err(error) = fs::write(folder.join(FILE), format!("{boot:016x}\n")) {
        tracing::warn!("{} cannot be written: {error}", folder.join(FILE).display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_boot_is_taken_once() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(take(folder.path()), 0);
        write(folder.path(), u64::MAX - 1);
        assert_eq!(take(folder.path()), u64::MAX - 1);
        assert_eq!(take(folder.path()), 0);
        fs::write(folder.path().join(FILE), "nonsense").expect("written");
        assert_eq!(take(folder.path()), 0);
    }
}

//! File with the identity of the server to which the state of this agent belongs, so that another server at the same
//! address, with equal job numbers, does not receive it. If it cannot be written, the identity is kept in memory.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// See the module documentation.
pub struct ServedServer {
    path: PathBuf,
    server: u64,
}

impl ServedServer {
    /// Reads the file in this folder, if present.
    #[must_use]
    pub fn read(folder: &Path) -> ServedServer {
        let path = folder.join("server-identity");
        let text = fs::read_to_string(&path).unwrap_or_default();
        ServedServer {
            path,
            server: u64::from_str_radix(text.trim(), 16).unwrap_or(0),
        }
    }

    /// Identity of the server; 0: unknown.
    #[must_use]
    pub fn server(&self) -> u64 {
        self.server
    }

    /// Sets the identity of the server; 0 from a server of an older version.
    pub fn learn(&mut self, server: u64) {
        if server == 0 || server == self.server {
            return;
        }
        self.server = server;
        if let Err(error) = self.write() {
            tracing::warn!("{} cannot be written: {error}", self.path.display());
        }
    }

    fn write(&self) -> io::Result<()> {
        let next = self.path.with_extension("next");
        let mut file = fs::File::create(&next)?;
        writeln!(file, "{:016x}", self.server)?;
        file.sync_all()?;
        fs::rename(&next, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_identity_is_persisted() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut serves = ServedServer::read(folder.path());
        for (said, known) in [(0, 0), (7, 7), (0, 7), (u64::MAX, u64::MAX)] {
            serves.learn(said);
            assert_eq!(serves.server(), known);
            assert_eq!(ServedServer::read(folder.path()).server(), known);
        }
        fs::write(folder.path().join("server-identity"), "nonsense").expect("written");
        assert_eq!(ServedServer::read(folder.path()).server(), 0);
    }
}

//! Keys of TLS connections from `--keys`: files and pipes opened before privileges are dropped, and read until the run
//! ends if more may come.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use capture::KeyLogSearch;
use parsers::tls_decrypt::TlsKeyStore;
use zeroize::Zeroizing;

/// Interval at which growing files and folders are read.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Maximum length of a line without its end; the rest of a longer one is no key.
const LINE_BYTES_MAX: usize = 4096;
/// Maximum key logs that are open.
const FILES_MAX: usize = 1024;

/// Whether connections wait for keys that arrive late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyArrival {
    /// All keys are in the files when the run starts.
    Complete,
    /// Files may grow; connections wait for this number of nanoseconds.
    Growing(u64),
}

/// Opens the key logs `paths`, reads what they and the captures have, and follows those that may grow.
///
/// # Errors
/// A path that cannot be opened or read.
pub fn open(
    paths: &[PathBuf],
    captures: &[PathBuf],
    arrival: KeyArrival,
) -> anyhow::Result<Arc<TlsKeyStore>> {
    let store = of_captures(captures);
    let mut logs = KeyLogs::default();
    for path in paths {
        if is_pcapng(path) {
            let whole = KeyLogSearch::Whole;
            capture::key_logs(path, whole, |key_log| store.add_lines(&key_log));
            continue;
        }
        logs.add(path, arrival)
            .with_context(|| format!("cannot read the keys in {}", path.display()))?;
    }
    // The store is in use even if it has no key.
    store.add_lines(&[]);
    logs.read(&store)?;
    let unknown = store.counters().unknown_lines;
    if unknown > 0 {
        tracing::warn!("--keys: {unknown} lines are no keys and were skipped");
    }
    if let KeyArrival::Growing(wait_ns) = arrival {
        store.set_wait(wait_ns);
        follow(logs, Arc::downgrade(&store))?;
    } else {
        logs.end(&store);
    }
    Ok(store)
}

/// Keys that the captures `paths` contain; an empty store decrypts nothing.
pub fn of_captures(paths: &[PathBuf]) -> Arc<TlsKeyStore> {
    let store = TlsKeyStore::new(capture::lock_memory);
    for path in paths {
        let search = KeyLogSearch::FromBeginning;
        capture::key_logs(path, search, |key_log| store.add_lines(&key_log));
    }
    Arc::new(store)
}

/// Whether a regular file is a pcapng file.
fn is_pcapng(path: &Path) -> bool {
    let mut magic = [0; 4];
    let is_read = path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut magic).is_ok());
    is_read && magic == [0x0a, 0x0d, 0x0d, 0x0a]
}

/// Reads key logs until the run drops the store.
fn follow(mut logs: KeyLogs, store: Weak<TlsKeyStore>) -> anyhow::Result<()> {
    let run = move || {
        while let Some(store) = store.upgrade() {
            if let Err(error) = logs.read(&store) {
                tracing::warn!("{error:#}");
                return;
            }
            drop(store);
            std::thread::sleep(POLL_INTERVAL);
            logs.look_for_files();
        }
    };
    let thread = std::thread::Builder::new().name("tls-keys".into());
    thread.spawn(run).context("cannot start a thread")?;
    Ok(())
}

/// Open key logs.
#[derive(Default)]
struct KeyLogs {
    files: HashMap<PathBuf, KeyLog>,
    folders: Vec<PathBuf>,
}

/// An open key log.
struct KeyLog {
    file: File,
    /// The start of a line whose end was not yet written.
    line: Zeroizing<Vec<u8>>,
    /// Whether the rest of a line is discarded.
    is_too_long: bool,
}

impl KeyLogs {
    fn add(&mut self, path: &Path, arrival: KeyArrival) -> std::io::Result<()> {
        if fs::metadata(path)?.is_dir() {
            for entry in fs::read_dir(path)? {
                let path = entry?.path();
                if fs::metadata(&path)?.is_file() {
                    self.add_file(path, arrival)?;
                }
            }
            self.folders.push(path.to_owned());
            return Ok(());
        }
        self.add_file(path.to_owned(), arrival)
    }

    fn add_file(&mut self, path: PathBuf, arrival: KeyArrival) -> std::io::Result<()> {
        if self.files.len() == FILES_MAX {
            return Err(std::io::Error::other(format!(
                "more than {FILES_MAX} key logs"
            )));
        }
        let is_pipe = fs::metadata(&path)?.file_type().is_fifo();
        let mut options = File::options();
        options.read(true);
        if is_pipe && arrival != KeyArrival::Complete {
            // With a writer of its own, the pipe has no end between two programs that write keys.
            options.write(true).custom_flags(libc::O_NONBLOCK);
        }
        let file = options.open(&path)?;
        let log = KeyLog {
            file,
            line: Zeroizing::default(),
            is_too_long: false,
        };
        self.files.entry(path).or_insert(log);
        Ok(())
    }

    /// Opens files that were created in the folders.
    fn look_for_files(&mut self) {
        for folder in self.folders.clone() {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                if !self.files.contains_key(&path) && path.is_file() {
                    // Unreadable files of other users are skipped.
                    let _ = self.add_file(path, KeyArrival::Growing(0));
                }
            }
        }
    }

    /// Reads everything that was written.
    fn read(&mut self, store: &TlsKeyStore) -> anyhow::Result<()> {
        for (path, log) in &mut self.files {
            log.read(store)
                .with_context(|| format!("cannot read the keys in {}", path.display()))?;
        }
        Ok(())
    }

    /// The last lines may lack their end.
    fn end(self, store: &TlsKeyStore) {
        for log in self.files.into_values() {
            if !log.is_too_long && !log.line.is_empty() {
                store.add_lines(&log.line);
            }
        }
    }
}

impl KeyLog {
    fn read(&mut self, store: &TlsKeyStore) -> std::io::Result<()> {
        let mut chunk = Zeroizing::new(vec![0; CHUNK]);
        loop {
            let read = match self.file.read(&mut chunk) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            self.take(&chunk[..read], store);
        }
    }

    /// Passes complete lines to the store.
    fn take(&mut self, bytes: &[u8], store: &TlsKeyStore) {
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            return self.hold(bytes);
        };
        let (lines, rest) = bytes.split_at(end + 1);
        let mut text = std::mem::take(&mut self.line);
        text.extend_from_slice(lines);
        let lines = if std::mem::take(&mut self.is_too_long) {
            let first = text.iter().position(|byte| *byte == b'\n').unwrap_or(0);
            &text[first..]
        } else {
            &text
        };
        store.add_lines(lines);
        self.hold(rest);
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > LINE_BYTES_MAX {
            self.is_too_long = true;
            self.line = Zeroizing::default();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }
}

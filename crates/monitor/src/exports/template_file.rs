//! Templates and sampling rates of exporters in a file, so that a restarted collector can decode data at once: exporters
//! repeat templates every few minutes only.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::{Arc, Mutex, PoisonError};

use telemetry::ExportDecoder;

/// Largest file read, in bytes.
const LEN_MAX: u64 = 256 << 20;

/// An open file with the state of a decoder; clones share it. Processes lock it while they read or write.
#[derive(Clone, Debug)]
pub struct TemplateFile(Arc<Mutex<File>>);

impl TemplateFile {
    /// The state in `file`, which is open for reading and writing.
    #[must_use]
    pub fn new(file: File) -> TemplateFile {
        TemplateFile(Arc::new(Mutex::new(file)))
    }

    /// Restores the stored state, if there is one; returns false if it cannot be read.
    pub(super) fn restore(&self, decoder: &mut ExportDecoder) -> bool {
        self.read()
            .is_ok_and(|text| text.is_empty() || decoder.restore(&text).is_ok())
    }

    fn read(&self) -> io::Result<String> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        file.lock_shared()?;
        file.rewind()?;
        let read = Read::by_ref(&mut *file)
            .take(LEN_MAX)
            .read_to_string(&mut text);
        file.unlock()?;
        read.map(|_| text)
    }

    /// Replaces the stored state; returns false if it cannot be written. The next run waits for templates then.
    pub(super) fn store(&self, decoder: &ExportDecoder) -> bool {
        self.write(&decoder.save()).is_ok()
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        file.lock()?;
        file.rewind()?;
        let written = file
            .set_len(0)
            .and_then(|()| file.write_all(text.as_bytes()));
        file.unlock()?;
        written
    }
}

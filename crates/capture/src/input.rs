//! One input on its way through: its window, its format, and the records that were read but not delivered yet.
//! Whatever goes wrong ends this input only, after the records before it have been delivered.

use std::path::{Path, PathBuf};

use wire::Captured;

use crate::format::{Format, Record, Records, Stop};
use crate::source::{Batch, SourceError};
use crate::window::Window;

/// See the module's text.
pub(crate) struct Input {
    path: PathBuf,
    window: Window,
    format: Format,
    records: Records,
    /// How many of `records` have been taken.
    taken: usize,
    /// Bytes that `records` were read from: left in the window until all are taken and given back.
    behind: usize,
    packets: u64,
    ended: bool,
}

impl Input {
    pub fn new(path: &Path, window: Window) -> Input {
        let (path, records) = (path.to_owned(), Records::new());
        Input {
            path,
            window,
            format: Format::Undetected,
            records,
            taken: 0,
            behind: 0,
            packets: 0,
            ended: false,
        }
    }

    /// Reads on when all records have been taken: whether there is one now. The bytes of records taken before are
    /// gone after this call.
    pub fn prepare(&mut self, errors: &mut Vec<SourceError>) -> bool {
        if self.taken < self.records.len() {
            return true;
        }
        self.records.clear();
        self.taken = 0;
        while !self.ended {
            self.window.advance(std::mem::take(&mut self.behind));
            let (behind, stop) = self.format.read(self.window.bytes(), &mut self.records);
            self.behind = behind;
            if !self.records.is_empty() {
                // Why it stopped will be found again at the same place.
                return true;
            }
            self.window.advance(std::mem::take(&mut self.behind));
            if let Err(message) = self.go_on(stop) {
                self.ended = true;
                errors.extend((!message.is_empty()).then(|| self.error(message)));
            }
        }
        false
    }

    /// Gets what the format needs. An error says why there is no more: empty at a clean end.
    fn go_on(&mut self, stop: Stop) -> Result<(), String> {
        match stop {
            Stop::Full => Ok(()),
            Stop::Bad(message) => Err(message),
            Stop::Need(needed) if self.window.refill(needed)? => Ok(()),
            Stop::Need(_) if self.window.bytes().is_empty() && !matches!(self.format, Format::Undetected) => {
                Err(String::new())
            }
            Stop::Need(needed) => Err(self.format.cut(self.window.bytes(), needed, self.packets + 1)),
        }
    }

    fn error(&self, message: String) -> SourceError {
        // Where nothing could be read there is no place to point at.
        let offset = (!matches!(self.format, Format::Undetected)).then(|| self.window.offset());
        SourceError { path: self.path.clone(), offset, message, after_packets: self.packets }
    }

    /// The records not taken yet.
    #[inline]
    pub fn records(&self) -> &[Record] {
        &self.records[self.taken..]
    }

    /// Takes the first `n` of them. Their bytes stay where they are until [`Input::prepare`].
    #[inline]
    pub fn take(&mut self, n: usize) {
        self.taken += n;
        self.packets += n as u64;
    }

    /// Takes all of them, with their bytes.
    #[inline]
    pub fn take_all(&mut self) -> Batch<'_> {
        let first = self.taken;
        self.take(self.records.len() - first);
        let window = self.window.bytes();
        self.records[first..].iter().map(|record| record.captured(window)).collect()
    }

    /// A taken record with its bytes.
    #[inline]
    pub fn captured(&self, record: &Record) -> Captured<'_> {
        record.captured(self.window.bytes())
    }

    pub fn format(&mut self) -> &mut Format {
        &mut self.format
    }

    pub fn lost_before_us(&self) -> Option<u64> {
        self.format.lost_before_us()
    }

    pub fn progress(&self) -> (u64, Option<u64>) {
        self.window.progress()
    }
}

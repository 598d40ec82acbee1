//! An output whose reader may have stopped (a full pipe or socket). Writes wait for the reader; once the end is
//! requested, an output whose reader accepts nothing for [`PATIENCE`] is abandoned with an error.
//!
//! A blocked write does not return when a signal handler has set a flag: the kernel restarts it. So the descriptor is
//! polled, and the data is written in pieces that a pipe with space accepts without blocking.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileTypeExt;
use std::time::{Duration, Instant};

use crate::sys::poll::{is_writable, unread_bytes};

/// Interval at which the end is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time without progress of the reader, after the end is requested, until the output is abandoned.
const PATIENCE: Duration = Duration::from_secs(2);

/// Bytes per write: a pipe that poll(2) reports as writable has space for a page.
const PIECE_BYTES: usize = 4096;

/// An interruptible output.
#[derive(Debug)]
pub struct InterruptibleWriter {
    pub(crate) file: File,
    /// A pipe or socket; other files do not wait for a reader.
    has_reader: bool,
    is_end_requested: fn() -> bool,
    is_abandoned: bool,
}

impl InterruptibleWriter {
    /// Writes to `file`; waits for its reader without limit until `is_end_requested`.
    #[must_use]
    pub fn new(file: File, is_end_requested: fn() -> bool) -> InterruptibleWriter {
        let kind = file.metadata().map(|file| file.file_type());
        InterruptibleWriter {
            file,
            has_reader: kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket()),
            is_end_requested,
            is_abandoned: false,
        }
    }

    /// Sets the function that returns whether the end is requested.
    pub(crate) fn ending(self, is_end_requested: fn() -> bool) -> InterruptibleWriter {
        InterruptibleWriter {
            is_end_requested,
            ..self
        }
    }

    /// Waits until a piece can be written; an abandoned output stays abandoned.
    fn wait(&mut self) -> io::Result<()> {
        let mut progress = None;
        while !self.is_abandoned && !is_writable(&self.file, LOOK_EVERY)? {
            if !(self.is_end_requested)() {
                continue;
            }
            let unread = unread_bytes(&self.file);
            match progress {
                Some((before, since)) if before == unread => {
                    self.is_abandoned = Instant::elapsed(&since) >= PATIENCE;
                }
                _ => progress = Some((unread, Instant::now())),
            }
        }
        if self.is_abandoned {
            let why = format!("after the end signal, its reader read nothing for {PATIENCE:?}");
            return Err(io::Error::new(ErrorKind::TimedOut, why));
        }
        Ok(())
    }
}

impl Write for InterruptibleWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.has_reader {
            return self.file.write(bytes);
        }
        self.wait()?;
        self.file.write(&bytes[..bytes.len().min(PIECE_BYTES)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::thread;

    use super::*;

    const MUCH: usize = 256 << 10;

    fn pipe(is_end_requested: fn() -> bool) -> (io::PipeReader, InterruptibleWriter) {
        let (reader, writer) = io::pipe().expect("a pipe");
        let file = File::from(OwnedFd::from(writer));
        (reader, InterruptibleWriter::new(file, is_end_requested))
    }

    #[test]
    fn a_stopped_reader_is_abandoned_for_good() {
        let (mut reader, mut writer) = pipe(|| true);
        let began = Instant::now();
        let error = writer.write_all(&[7; MUCH]).expect_err("nobody reads");
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        assert!(began.elapsed() >= PATIENCE);
        // Later writes fail at once, even if the reader continues: no gap within the output.
        let mut read = [0; MUCH];
        assert!(reader.read(&mut read).expect("readable") > 0);
        let began = Instant::now();
        writer.write_all(&[7]).expect_err("it is abandoned");
        assert!(began.elapsed() < PATIENCE);
    }

    /// A reader of single bytes leaves no free page in the pipe for longer than the time limit.
    #[test]
    fn a_slow_reader_gets_everything() {
        let (mut reader, mut writer) = pipe(|| true);
        let reading = thread::spawn(move || {
            let mut byte = [0];
            for _ in 0..40 {
                thread::sleep(PATIENCE / 20);
                reader.read_exact(&mut byte).expect("readable");
            }
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).expect("readable");
            rest.len() + 40
        });
        writer.write_all(&[7; MUCH]).expect("all is read");
        drop(writer);
        assert_eq!(reading.join().expect("it reads"), MUCH);
    }

    #[test]
    fn without_a_request_it_waits() {
        let (mut reader, mut writer) = pipe(|| false);
        let writing = thread::spawn(move || writer.write_all(&[7; MUCH]));
        thread::sleep(PATIENCE + Duration::from_millis(500));
        let mut read = Vec::new();
        reader.read_to_end(&mut read).expect("readable");
        assert_eq!(read.len(), MUCH);
        writing.join().expect("it ends").expect("all is read");
    }
}

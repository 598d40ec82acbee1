//! A stream that may block for a long time (a pipe, a FIFO, standard input), interruptible by a stop.
//!
//! A blocked read does not return when a signal handler has set a flag: the kernel restarts it. So the descriptor is
//! polled for short periods, and read only when data is available.

use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;

use crate::live::options::StopSignal;
use crate::sys::poll::is_readable;

/// Interval at which a stop is checked.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// An interruptible stream.
pub(crate) struct InterruptibleReader {
    file: File,
    stop: StopSignal,
}

/// A read ended by a stop: not a user-visible error.
#[derive(Debug, thiserror::Error)]
#[error("")]
struct StopRequested;

impl InterruptibleReader {
    pub fn new(file: File, stop: &StopSignal) -> InterruptibleReader {
        InterruptibleReader {
            file,
            stop: stop.clone(),
        }
    }
}

impl Read for InterruptibleReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !is_readable(&self.file, LOOK_EVERY)? {
            if self.stop.is_asked() {
                return Err(stopped());
            }
        }
        self.file.read(into)
    }
}

/// The error that reports a stop.
pub(crate) fn stopped() -> io::Error {
    io::Error::other(StopRequested)
}

/// Whether `error` reports a stop.
pub(crate) fn is_stop(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<StopRequested>())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn reads_until_a_stop() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let stop = StopSignal::default();
        let mut stream = InterruptibleReader::new(File::from(OwnedFd::from(reader)), &stop);
        let mut bytes = [0; 8];
        writer.write_all(b"abc").expect("room in the pipe");
        assert_eq!(stream.read(&mut bytes).expect("there is something"), 3);
        stop.stop();
        assert!(is_stop(
            &stream.read(&mut bytes).expect_err("there is nothing")
        ));
        // Available data is read in any case, and a closed pipe is an end.
        writer.write_all(b"de").expect("room in the pipe");
        assert_eq!(stream.read(&mut bytes).expect("there is something"), 2);
        drop(writer);
        assert_eq!(stream.read(&mut bytes).expect("an end"), 0);
    }
}

//! One input: its window and its format. An error ends only this input, after the records before it have been
//! delivered.

use std::path::{Path, PathBuf};

use crate::block::PacketBlock;
use crate::format::CaptureFormat;
use crate::records::{RecordSink, RecordStop};
use crate::source::SourceError;
use crate::window::InputWindow;

/// One input.
pub(crate) struct CaptureInput {
    path: PathBuf,
    window: InputWindow,
    format: CaptureFormat,
    packets: u64,
    ended: bool,
}

impl CaptureInput {
    pub fn new(path: &Path, window: InputWindow) -> CaptureInput {
        CaptureInput {
            path: path.to_owned(),
            window,
            format: CaptureFormat::Undetected,
            packets: 0,
            ended: false,
        }
    }

    /// Checks the head of the input.
    ///
    /// # Errors
    /// A description of the file if it is not a capture.
    pub fn check_head(&mut self) -> Result<(), SourceError> {
        while self.window.bytes().len() < CaptureFormat::HEAD_LEN {
            match self.window.refill(CaptureFormat::HEAD_LEN) {
                Ok(true) => {}
                Ok(false) => {
                    return Err(self.error(self.format.cut(
                        self.window.bytes(),
                        CaptureFormat::HEAD_LEN,
                        1,
                    )));
                }
                Err(message) => return Err(self.error(message)),
            }
        }
        CaptureFormat::check_head(self.window.bytes()).map_err(|message| self.error(message))
    }

    /// Fills an empty block; returns false at the end, with the block still empty.
    pub fn fill(&mut self, block: &mut PacketBlock, errors: &mut Vec<SourceError>) -> bool {
        while !self.ended {
            let (buffer, start) = self.window.share();
            let buffer = block.add_buffer(buffer);
            let (len, stop) = self.format.read(
                self.window.bytes(),
                &mut RecordSink::new(block, buffer, start),
            );
            self.window.advance(len);
            if !block.is_empty() {
                // The reason for the stop will be found again at the same position.
                self.packets += block.len() as u64;
                return true;
            }
            block.clear();
            if let Err(message) = self.go_on(stop) {
                self.ended = true;
                errors.extend((!message.is_empty()).then(|| self.error(message)));
            }
        }
        false
    }

    /// Provides what the format needs. The error is the reason for the end; empty at a clean end.
    fn go_on(&mut self, stop: RecordStop) -> Result<(), String> {
        match stop {
            RecordStop::Full => Ok(()),
            RecordStop::Bad(message) => Err(message),
            RecordStop::Need(needed) if self.window.refill(needed)? => Ok(()),
            RecordStop::Need(_)
                if self.window.bytes().is_empty()
                    && !matches!(self.format, CaptureFormat::Undetected) =>
            {
                Err(String::new())
            }
            RecordStop::Need(needed) => {
                Err(self
                    .format
                    .cut(self.window.bytes(), needed, self.packets + 1))
            }
        }
    }

    fn error(&self, message: String) -> SourceError {
        // If nothing could be read, there is no offset.
        let offset =
            (!matches!(self.format, CaptureFormat::Undetected)).then(|| self.window.offset());
        SourceError {
            path: self.path.clone(),
            offset,
            message,
            after_packets: self.packets,
        }
    }

    /// Requests key logs, before the first read. Returns whether the file may have some.
    pub fn keep_key_logs(&mut self) -> bool {
        self.format.keep_key_logs(self.window.bytes())
    }

    pub fn format(&mut self) -> &mut CaptureFormat {
        &mut self.format
    }

    pub fn lost_before_us(&self) -> Option<u64> {
        self.format.lost_before_us()
    }

    pub fn nanosecond_fractions(&self) -> u64 {
        self.format.nanosecond_fractions()
    }

    pub fn progress(&self) -> (u64, Option<u64>) {
        self.window.progress()
    }
}

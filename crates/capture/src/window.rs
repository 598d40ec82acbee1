//! A window onto an input's bytes that moves from its start to its end: a part of a mapped file, or the buffer of a
//! stream. Memory is bounded by the mapped length or the longest record, regardless of the input's length.
//! Independent of the contents.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::Mmap;

use crate::block::PacketBuffer;
use crate::records::RECORD_MAX;
use crate::sys;

/// Bytes of a file mapped at a time: more is not faster, and less needs too many system calls.
const MAP_LEN: usize = 8 << 20;
/// Bytes mapped of all files together, as long as each has [`MAP_ALIGN`].
const MAP_LEN_ALL: usize = 32 << 20;
/// Alignment of mappings, so that the kernel maps large cached pages without splitting them.
const MAP_ALIGN: u64 = 2 << 20;
/// Initial length of a stream's buffer.
const BUFFER_LEN: usize = 64 << 10;

/// A byte stream that is read once.
pub(crate) type InputStream = Box<dyn Read + Send>;

/// A window.
pub(crate) enum InputWindow {
    Mapped(MappedWindow),
    Stream(StreamWindow),
}

impl InputWindow {
    /// Available bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            InputWindow::Mapped(mapped) => &mapped.map[mapped.start..],
            InputWindow::Stream(stream) => &stream.buffer[stream.start..stream.end],
        }
    }

    /// The memory of [`InputWindow::bytes`], and their offset in it. It stays unchanged while it is referenced.
    pub fn share(&self) -> (PacketBuffer, usize) {
        match self {
            InputWindow::Mapped(mapped) => (mapped.map.clone(), mapped.start),
            InputWindow::Stream(stream) => (stream.buffer.clone(), stream.start),
        }
    }

    /// Offset of [`InputWindow::bytes`] in the input, after decompression.
    pub fn offset(&self) -> u64 {
        match self {
            InputWindow::Mapped(mapped) => mapped.offset + mapped.start as u64,
            InputWindow::Stream(stream) => stream.offset,
        }
    }

    /// Consumes the first `n` bytes.
    pub fn advance(&mut self, n: usize) {
        debug_assert!(n <= self.bytes().len(), "more bytes consumed than present");
        match self {
            InputWindow::Mapped(mapped) => mapped.start += n,
            InputWindow::Stream(stream) => {
                stream.start += n;
                stream.offset += n as u64;
            }
        }
    }

    /// Reads more bytes, as many as arrive at once: `needed` bytes in total may take several calls. Returns
    /// `Ok(false)` at the end of the input.
    ///
    /// # Errors
    /// A user-visible message.
    pub fn refill(&mut self, needed: usize) -> Result<bool, String> {
        match self {
            InputWindow::Mapped(mapped) => mapped.refill(needed),
            InputWindow::Stream(stream) => stream.refill(needed),
        }
    }

    /// Bytes of the file consumed, before decompression, and its length if known.
    pub fn progress(&self) -> (u64, Option<u64>) {
        match self {
            InputWindow::Mapped(mapped) => (self.offset(), Some(mapped.file_len)),
            InputWindow::Stream(stream) => {
                (stream.consumed.load(Ordering::Relaxed), stream.file_len)
            }
        }
    }
}

/// A mapped part of a regular file.
pub(crate) struct MappedWindow {
    file: File,
    file_len: u64,
    map: Arc<Mmap>,
    offset: u64,
    start: usize,
    wanted: usize,
}

impl MappedWindow {
    /// A window onto the start of a nonempty file, one of `files` that are read at the same time.
    ///
    /// # Errors
    /// Returns the file if it cannot be mapped.
    pub fn new(file: File, files: usize) -> Result<Self, File> {
        Self::of_len(
            file,
            (MAP_LEN_ALL / files.max(1)).clamp(MAP_ALIGN as usize, MAP_LEN),
        )
    }

    fn of_len(file: File, wanted: usize) -> Result<Self, File> {
        let mapped = file
            .metadata()
            .and_then(|m| Ok((m.len(), sys::map(&file, 0, map_len(m.len(), wanted))?)));
        match mapped {
            Ok((file_len, map)) => Ok(Self {
                file,
                file_len,
                map: Arc::new(map),
                offset: 0,
                start: 0,
                wanted,
            }),
            Err(_) => Err(file),
        }
    }

    /// The file, positioned at its start.
    pub fn into_file(self) -> File {
        self.file
    }

    fn refill(&mut self, needed: usize) -> Result<bool, String> {
        let fault = |e: std::io::Error| format!("cannot be read further: {e}");
        let from = self.offset + self.start as u64;
        // A file that is still being written may have grown.
        self.file_len = self.file.metadata().map_err(fault)?.len();
        let len = map_len(self.file_len.saturating_sub(from), self.wanted.max(needed));
        if len <= self.map.len() - self.start {
            return Ok(false);
        }
        let front = from % MAP_ALIGN;
        let map = sys::map(&self.file, from - front, front as usize + len).map_err(fault)?;
        self.map = Arc::new(map);
        self.offset = from - front;
        self.start = front as usize;
        Ok(true)
    }
}

fn map_len(left: u64, wanted: usize) -> usize {
    usize::try_from(left).unwrap_or(usize::MAX).min(wanted)
}

/// A buffer in front of a pipe, a decompressor, or a device.
pub(crate) struct StreamWindow {
    stream: InputStream,
    buffer: Arc<Vec<u8>>,
    start: usize,
    end: usize,
    offset: u64,
    consumed: Arc<AtomicU64>,
    file_len: Option<u64>,
}

impl StreamWindow {
    /// A window onto `stream`; `consumed` counts the bytes read of the underlying `file_len`.
    pub fn new(stream: InputStream, consumed: Arc<AtomicU64>, file_len: Option<u64>) -> Self {
        Self {
            stream,
            buffer: Arc::new(vec![0; BUFFER_LEN]),
            start: 0,
            end: 0,
            offset: 0,
            consumed,
            file_len,
        }
    }

    fn refill(&mut self, needed: usize) -> Result<bool, String> {
        self.make_room(needed);
        let buffer =
            Arc::get_mut(&mut self.buffer).expect("only an unshared buffer has free space");
        loop {
            match self.stream.read(&mut buffer[self.end..]) {
                Ok(n) => {
                    self.end += n;
                    return Ok(n > 0);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => (),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    /// Moves the remaining bytes to the front if there is no room after them; grows the buffer only by bytes
    /// received, not by a stated length. A buffer shared with a block is replaced by a new one with the same fill
    /// pattern, because block boundaries must not depend on outstanding references.
    fn make_room(&mut self, needed: usize) {
        let left = self.start..self.end;
        let fits = self.start + needed.min(RECORD_MAX) <= self.buffer.len() && !left.is_empty();
        let start = if fits { left.start } else { 0 };
        let end = start + left.len();
        let len = if end == self.buffer.len() {
            end * 2
        } else {
            self.buffer.len()
        };
        match Arc::get_mut(&mut self.buffer) {
            Some(buffer) => {
                buffer.copy_within(left, start);
                buffer.resize(len, 0);
            }
            None => {
                let mut buffer = vec![0; len];
                buffer[start..end].copy_from_slice(&self.buffer[left]);
                self.buffer = Arc::new(buffer);
            }
        }
        self.start = start;
        self.end = end;
    }
}

/// A reader that counts its bytes.
pub(crate) struct CountingReader<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R> CountingReader<R> {
    pub fn new(inner: R, count: Arc<AtomicU64>) -> Self {
        Self { inner, count }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.inner.read(into)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
pub(crate) mod samples {
    //! Windows for the tests of this crate.

    use std::io::Write;

    use super::*;

    /// A window onto a file of `bytes`, mapped `wanted` at a time.
    pub fn mapped(bytes: &[u8], wanted: usize) -> InputWindow {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("a write");
        InputWindow::Mapped(MappedWindow::of_len(file, wanted).expect("a mapping"))
    }

    /// A window onto a stream of `bytes` that returns `chunks` of them at a time, cyclically.
    pub fn streamed(bytes: &[u8], chunks: Vec<usize>) -> InputWindow {
        let stream = ChunkedReader {
            bytes: bytes.to_vec(),
            at: 0,
            chunks: chunks.into_iter().cycle(),
        };
        InputWindow::Stream(StreamWindow::new(Box::new(stream), Arc::default(), None))
    }

    struct ChunkedReader {
        bytes: Vec<u8>,
        at: usize,
        chunks: std::iter::Cycle<std::vec::IntoIter<usize>>,
    }

    impl Read for ChunkedReader {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let chunk = self
                .chunks
                .next()
                .expect("a cycle does not end")
                .min(self.bytes.len() - self.at);
            let n = chunk.min(into.len());
            into[..n].copy_from_slice(&self.bytes[self.at..][..n]);
            self.at += n;
            Ok(n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads everything in steps of `step` bytes.
    fn check(mut window: InputWindow, step: usize, expected: &[u8]) {
        let mut read = Vec::new();
        loop {
            while window.bytes().len() < step
                && window.refill(step).expect("nothing is wrong with it")
            {}
            let taken = window.bytes().len().min(step);
            if taken == 0 {
                break;
            }
            assert_eq!(window.offset(), read.len() as u64);
            read.extend_from_slice(&window.bytes()[..taken]);
            window.advance(taken);
        }
        assert_eq!(read, expected);
    }

    #[test]
    fn reads_everything_once() {
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        for step in [1000, 4096, 70_000, 150_000] {
            for wanted in [1, 5000, 1 << 20] {
                check(samples::mapped(&bytes, wanted), step, &bytes);
            }
            check(samples::streamed(&bytes, vec![1000, 60_000]), step, &bytes);
        }
    }

    #[test]
    fn a_file_that_grows_is_read_on() {
        use std::io::Write;
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(b"abc").expect("a write");
        let mut writer = file.try_clone().expect("a second handle");
        let mut window = InputWindow::Mapped(MappedWindow::of_len(file, 100).expect("a mapping"));
        assert_eq!(window.refill(4), Ok(false));
        writer.write_all(b"de").expect("a write");
        assert_eq!(window.refill(4), Ok(true));
        assert_eq!(window.bytes(), b"abcde");
    }

    #[test]
    fn a_promised_length_takes_no_memory() {
        let mut window = samples::streamed(&[0; 100], vec![100]);
        while window.refill(RECORD_MAX).expect("nothing is wrong with it") {}
        let InputWindow::Stream(stream) = &window else {
            panic!("it is a stream")
        };
        assert_eq!(
            (window.bytes().len(), stream.buffer.len()),
            (100, BUFFER_LEN)
        );
    }

    #[test]
    fn consumed_bytes_are_counted() {
        let mut counted = CountingReader::new(&[0u8; 10][..], Arc::default());
        counted.read_exact(&mut [0; 7]).expect("there are ten");
        assert_eq!(counted.count.load(Ordering::Relaxed), 7);
    }
}

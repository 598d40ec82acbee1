//! Opens paths as a source. Regular files are mapped, everything else is read as a stream: standard input (`-`),
//! pipes, devices, and gzip or Zstandard data by its magic number, regardless of the name, also nested. A file that
//! cannot be opened becomes an error of the source; the others are read.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flate2::bufread::MultiGzDecoder;

use crate::files::MergedFiles;
use crate::input::CaptureInput;
use crate::interruptible_reader::{InterruptibleReader, is_stop, stopped};
use crate::live::options::StopSignal;
use crate::source::{PacketSource, SourceError};
use crate::window::{CountingReader, InputStream, InputWindow, MappedWindow, StreamWindow};

/// Maximum layers of compression around a capture.
const LAYERS_MAX: usize = 3;
/// Buffer in front of a decompressor.
const COMPRESSED_BUFFER_LEN: usize = 64 << 10;

/// All packets of the captures in `paths`, in timestamp order; at equal timestamps in the order of `paths`, and
/// within a file in file order. Files that cannot be opened, or are no captures, are in [`PacketSource::errors`] from the
/// start.
#[must_use]
pub fn open(paths: &[PathBuf]) -> Box<dyn PacketSource> {
    open_until(paths, &StopSignal::default())
}

/// Same, until `stop` is set: then it waits neither for a pipe nor for more output of a decompressor.
#[must_use]
pub fn open_until(paths: &[PathBuf], stop: &StopSignal) -> Box<dyn PacketSource> {
    let mut errors = Vec::new();
    let mut inputs = Vec::new();
    for path in paths {
        match open_window(path, paths.len(), stop) {
            Ok(window) => {
                let mut input = CaptureInput::new(path, window);
                match input.check_head() {
                    Ok(()) => inputs.push(input),
                    Err(error) => errors.push(error),
                }
            }
            Err(e) => errors.push(SourceError {
                path: path.clone(),
                offset: None,
                message: why(&e),
                after_packets: 0,
            }),
        }
    }
    Box::new(MergedFiles::new(inputs, errors))
}

/// All packets of one capture read as a stream; `name` is used in errors.
#[must_use]
pub fn from_reader(name: &Path, reader: impl Read + Send + 'static) -> Box<dyn PacketSource> {
    let name = name.to_owned();
    Box::new(
        match stream(Box::new(reader), None, &StopSignal::default()) {
            Ok(window) => MergedFiles::new(vec![CaptureInput::new(&name, window)], Vec::new()),
            Err(e) => {
                let error = SourceError {
                    path: name,
                    offset: None,
                    message: why(&e),
                    after_packets: 0,
                };
                MergedFiles::new(Vec::new(), vec![error])
            }
        },
    )
}

/// A capture file before its first packet; `None` if it cannot be opened, or is no capture.
pub(crate) fn input(path: &Path) -> Option<CaptureInput> {
    let window = open_window(path, 1, &StopSignal::default()).ok()?;
    let mut input = CaptureInput::new(path, window);
    input.check_head().ok()?;
    Some(input)
}

fn why(e: &io::Error) -> String {
    match e.kind() {
        ErrorKind::NotFound => "no such file".into(),
        ErrorKind::PermissionDenied => "cannot be read: permission denied".into(),
        ErrorKind::IsADirectory => "is a directory: name the capture files in it".into(),
        // Already a user-visible message of a decompressor.
        ErrorKind::Other => e.to_string(),
        _ => format!("cannot be opened: {e}"),
    }
}

/// A window onto one of `files` files.
fn open_window(path: &Path, files: usize, stop: &StopSignal) -> io::Result<InputWindow> {
    if path == Path::new("-") {
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        return stream(Box::new(InterruptibleReader::new(stdin, stop)), None, stop);
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    // Some files under /proc have a length of 0: only reading shows their contents.
    if !metadata.is_file() || metadata.len() == 0 {
        return stream(Box::new(InterruptibleReader::new(file, stop)), None, stop);
    }
    match MappedWindow::new(file, files) {
        Ok(mapped) => {
            let window = InputWindow::Mapped(mapped);
            match (FileCompression::of(window.bytes()), window) {
                (Some(_), InputWindow::Mapped(mapped)) => {
                    stream(Box::new(mapped.into_file()), Some(metadata.len()), stop)
                }
                (_, window) => Ok(window),
            }
        }
        Err(file) => stream(Box::new(file), Some(metadata.len()), stop),
    }
}

/// A window onto `stream`, decompressed as often as needed.
fn stream(
    stream: InputStream,
    file_len: Option<u64>,
    stop: &StopSignal,
) -> io::Result<InputWindow> {
    let consumed = Arc::new(AtomicU64::new(0));
    let mut stream: InputStream = Box::new(CountingReader::new(stream, consumed.clone()));
    for _ in 0..LAYERS_MAX {
        let mut head = Vec::with_capacity(MAGIC_LEN);
        stream
            .by_ref()
            .take(MAGIC_LEN as u64)
            .read_to_end(&mut head)?;
        let compression = FileCompression::of(&head);
        stream = Box::new(Cursor::new(head).chain(stream));
        match compression {
            Some(compression) => stream = compression.unpack(stream, stop.clone())?,
            None => break,
        }
    }
    Ok(InputWindow::Stream(StreamWindow::new(
        stream, consumed, file_len,
    )))
}

/// Compression format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileCompression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Bytes of the magic number.
const MAGIC_LEN: usize = 4;

impl FileCompression {
    fn of(head: &[u8]) -> Option<FileCompression> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            // A frame, or a skippable frame before one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Decompresses, including several concatenated members or frames.
    fn unpack(self, packed: InputStream, stop: StopSignal) -> io::Result<InputStream> {
        let packed = BufReader::with_capacity(COMPRESSED_BUFFER_LEN, packed);
        Ok(match self {
            Self::Gzip => Box::new(DecompressedReader {
                name: "gzip",
                inner: MultiGzDecoder::new(packed),
                stop,
            }),
            Self::Zstd => Box::new(DecompressedReader {
                name: "zstd",
                inner: zstd::Decoder::with_buffer(packed)?,
                stop,
            }),
        })
    }
}

/// A decompressor whose errors name the format.
struct DecompressedReader<R> {
    name: &'static str,
    inner: R,
    stop: StopSignal,
}

impl<R: Read> Read for DecompressedReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A small compressed input may have a very long output.
        if self.stop.is_asked() {
            return Err(stopped());
        }
        self.inner.read(into).map_err(|e| match e.kind() {
            ErrorKind::Interrupted => e,
            _ if is_stop(&e) => e,
            ErrorKind::UnexpectedEof => io::Error::other(format!(
                "the {} data ends early; it was probably cut while being written or copied",
                self.name
            )),
            _ => io::Error::other(format!("the {} data is damaged: {e}", self.name)),
        })
    }
}

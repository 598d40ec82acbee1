//! From paths to a source. Regular files are mapped, everything else is read as a stream: standard input (`-`),
//! pipes, devices, and gzip or Zstandard data by its magic, whatever the name, also one in the other. A file that can
//! not be opened becomes an error of the source; the others are read all the same.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use flate2::bufread::MultiGzDecoder;

use crate::files::Files;
use crate::input::Input;
use crate::interruptible::{Interruptible, is_stop, stopped};
use crate::live::Stop;
use crate::source::{Source, SourceError};
use crate::window::{Counted, MappedWindow, Stream, StreamWindow, Window};

/// Most layers of compression around a capture.
const LAYERS_MAX: usize = 3;
/// Buffer in front of a decompressor.
const COMPRESSED_BUFFER_LEN: usize = 64 << 10;

/// All packets of all captures in `paths`, in the order of their timestamps; where these are equal, in the order of
/// `paths`, and always in the order of each file. What can not be opened, or is no capture, is found in
/// [`Source::errors`] from the start.
#[must_use]
pub fn open(paths: &[PathBuf]) -> Box<dyn Source> {
    open_until(paths, &Stop::default())
}

/// The same, until `stop` is set: then it waits neither for a pipe nor for the rest of a decompressor's output.
#[must_use]
pub fn open_until(paths: &[PathBuf], stop: &Stop) -> Box<dyn Source> {
    let mut errors = Vec::new();
    let mut inputs = Vec::new();
    for path in paths {
        match open_window(path, paths.len(), stop) {
            Ok(window) => {
                let mut input = Input::new(path, window);
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
    Box::new(Files::new(inputs, errors))
}

/// All packets of one capture that is read as a stream; `name` is for errors.
#[must_use]
pub fn from_reader(name: &Path, reader: impl Read + Send + 'static) -> Box<dyn Source> {
    let name = name.to_owned();
    Box::new(match stream(Box::new(reader), None, &Stop::default()) {
        Ok(window) => Files::new(vec![Input::new(&name, window)], Vec::new()),
        Err(e) => {
            let error = SourceError { path: name, offset: None, message: why(&e), after_packets: 0 };
            Files::new(Vec::new(), vec![error])
        }
    })
}

fn why(e: &io::Error) -> String {
    match e.kind() {
        ErrorKind::NotFound => "no such file".into(),
        ErrorKind::PermissionDenied => "it may not be read: permission denied".into(),
        ErrorKind::IsADirectory => "is a directory: name the capture files in it".into(),
        // Already in words for a person, by a decompressor.
        ErrorKind::Other => e.to_string(),
        _ => format!("cannot be opened: {e}"),
    }
}

/// A window onto one of `files` files.
fn open_window(path: &Path, files: usize, stop: &Stop) -> io::Result<Window> {
    if path == Path::new("-") {
        let stdin = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        return stream(Box::new(Interruptible::new(stdin, stop)), None, stop);
    }
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    // The length of some files under /proc is given as 0: only reading them shows what they hold.
    if !metadata.is_file() || metadata.len() == 0 {
        return stream(Box::new(Interruptible::new(file, stop)), None, stop);
    }
    match MappedWindow::new(file, files) {
        Ok(mapped) => {
            let window = Window::Mapped(mapped);
            match (Compression::of(window.bytes()), window) {
                (Some(_), Window::Mapped(mapped)) => {
                    stream(Box::new(mapped.into_file()), Some(metadata.len()), stop)
                }
                (_, window) => Ok(window),
            }
        }
        Err(file) => stream(Box::new(file), Some(metadata.len()), stop),
    }
}

/// A window onto `stream`, decompressed as often as it was compressed.
fn stream(stream: Stream, file_len: Option<u64>, stop: &Stop) -> io::Result<Window> {
    let consumed = Arc::new(AtomicU64::new(0));
    let mut stream: Stream = Box::new(Counted::new(stream, consumed.clone()));
    for _ in 0..LAYERS_MAX {
        let mut head = Vec::with_capacity(MAGIC_LEN);
        stream.by_ref().take(MAGIC_LEN as u64).read_to_end(&mut head)?;
        let compression = Compression::of(&head);
        stream = Box::new(Cursor::new(head).chain(stream));
        match compression {
            Some(compression) => stream = compression.unpack(stream, stop.clone())?,
            None => break,
        }
    }
    Ok(Window::Stream(StreamWindow::new(stream, consumed, file_len)))
}

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstd,
}

/// Bytes that tell.
const MAGIC_LEN: usize = 4;

impl Compression {
    fn of(head: &[u8]) -> Option<Compression> {
        match head {
            [0x1f, 0x8b, 8, ..] => Some(Self::Gzip),
            // A frame, or a skippable frame in front of one.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Also of several members or frames behind each other.
    fn unpack(self, packed: Stream, stop: Stop) -> io::Result<Stream> {
        let packed = BufReader::with_capacity(COMPRESSED_BUFFER_LEN, packed);
        Ok(match self {
            Self::Gzip => Box::new(Unpacked { name: "gzip", inner: MultiGzDecoder::new(packed), stop }),
            Self::Zstd => {
                Box::new(Unpacked { name: "zstd", inner: zstd::Decoder::with_buffer(packed)?, stop })
            }
        })
    }
}

/// A decompressor whose errors say what was being decompressed.
struct Unpacked<R> {
    name: &'static str,
    inner: R,
    stop: Stop,
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A little that is packed tightly may be more than anybody waits for.
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

//! Where results and messages go. A closed pipe ends the output quietly; anything else that cannot be written is an
//! error of the run.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::Context;

use crate::failure::{Ended, wrong_flags};

/// Bytes that wait before they are written.
const BUFFER_BYTES: usize = 64 << 10;

/// The result's destination.
pub struct Destination {
    /// Its writer, buffered.
    pub writer: Box<dyn Write + Send>,
    /// What to call it in a message.
    pub name: String,
    /// Whether a person looks on.
    pub terminal: bool,
}

impl Destination {
    /// Standard output, or the file at `path`, which is made or overwritten.
    pub fn open(path: Option<&Path>) -> anyhow::Result<Destination> {
        match path.filter(|p| *p != Path::new("-")) {
            None => Ok(Destination {
                writer: Box::new(BufWriter::with_capacity(BUFFER_BYTES, io::stdout())),
                name: "standard output".into(),
                terminal: io::stdout().is_terminal(),
            }),
            Some(path) => {
                let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
                let terminal = file.is_terminal();
                let writer = Box::new(BufWriter::with_capacity(BUFFER_BYTES, file));
                Ok(Destination { writer, name: path.display().to_string(), terminal })
            }
        }
    }
}

/// Refuses to overwrite one of the inputs.
pub fn refuse_inputs(output: &Path, inputs: &[impl AsRef<Path>]) -> anyhow::Result<()> {
    for input in inputs.iter().map(AsRef::as_ref) {
        if is_same_file(output, input) {
            let output = output.display();
            return Err(wrong_flags(format!("{output} is an input; writing to it would destroy it")));
        }
    }
    Ok(())
}

/// Whether two paths lead to one regular file.
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Columns of the terminal behind standard output.
pub fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// Prints a whole text on standard output; a closed pipe is fine.
pub fn print(text: &[u8]) -> anyhow::Result<Ended> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(Ended::Done),
    }
}

/// Prints a line on standard error. When that is closed, there is nobody left to tell.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

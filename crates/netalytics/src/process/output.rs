//! Output of results and messages. A closed pipe ends the output silently; any other write failure is an error, as is,
//! after an end signal, a pipe whose reader has stopped. Files are created with access for their owner only. Terminal
//! output contains no control characters except line breaks; names of files, queries and packets may contain any.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{OpenOptionsExt, fchown};
use std::path::Path;

use anyhow::Context;
use capture::InterruptibleWriter;
use sinks::table::escape;

use crate::process::color;
use crate::process::failure::{CommandOutcome, wrong_flags};
use crate::process::file_owner::FileOwner;
use crate::process::signals;

/// Buffer size in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// The result's destination.
pub struct OutputDestination {
    /// Buffered writer.
    pub writer: Box<dyn Write + Send>,
    /// The file, if regular.
    pub file: Option<File>,
    /// Name for messages.
    pub name: String,
    /// Whether the output is a terminal.
    pub terminal: bool,
}

impl OutputDestination {
    /// Standard output, or the file at `path`, which is created for `owner` or overwritten.
    pub fn open(path: Option<&Path>, owner: FileOwner) -> anyhow::Result<OutputDestination> {
        match path.filter(|p| *p != Path::new("-")) {
            None => Ok(OutputDestination {
                writer: Box::new(buffered(standard_output()?)),
                file: None,
                name: "standard output".into(),
                terminal: io::stdout().is_terminal(),
            }),
            Some(path) => {
                let file = create(path, owner)?;
                let terminal = file.is_terminal();
                let is_regular = file.metadata().is_ok_and(|file| file.is_file());
                let again = if is_regular {
                    Some(file.try_clone()?)
                } else {
                    None
                };
                let writer = Box::new(buffered(file));
                Ok(OutputDestination {
                    writer,
                    file: again,
                    name: path.display().to_string(),
                    terminal,
                })
            }
        }
    }
}

fn standard_output() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// After an end signal, a pipe or socket whose reader has stopped is abandoned.
fn interruptible(file: File) -> InterruptibleWriter {
    InterruptibleWriter::new(file, signals::is_end_requested)
}

fn buffered(file: File) -> BufWriter<InterruptibleWriter> {
    BufWriter::with_capacity(BUFFER_BYTES, interruptible(file))
}

/// Creates a file readable by its owner only, or truncates an existing one, whose mode stays.
pub fn create(path: &Path, owner: FileOwner) -> anyhow::Result<File> {
    const OWNER_ONLY: u32 = 0o600;
    let open = |new: bool| {
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(true)
            .create_new(new)
            .mode(OWNER_ONLY)
            .open(path)
    };
    let file = match (open(true), owner) {
        (Err(error), _) if error.kind() == ErrorKind::AlreadyExists => open(false),
        (Ok(file), FileOwner::Caller { user, group }) => {
            // Without root, the file already belongs to the caller.
            let _ = fchown(&file, Some(user), Some(group));
            Ok(file)
        }
        (made, _) => made,
    };
    file.with_context(|| format!("cannot write {}", path.display()))
}

/// Rejects an output that is one of the inputs.
pub fn refuse_inputs(output: &Path, inputs: &[impl AsRef<Path>]) -> anyhow::Result<()> {
    for input in inputs.iter().map(AsRef::as_ref) {
        if is_same_file(output, input) {
            let output = output.display();
            return Err(wrong_flags(format!(
                "{output} is an input; writing to it would destroy it"
            )));
        }
    }
    Ok(())
}

/// Whether two paths name the same regular file.
fn is_same_file(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

/// Columns and lines of the terminal on standard output.
pub fn terminal_size() -> Option<(usize, usize)> {
    let size = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(size.0.0), usize::from(size.1.0)))
}

/// Prints text on standard output; ignores a closed pipe.
pub fn print(text: &[u8]) -> anyhow::Result<CommandOutcome> {
    let written = standard_output().and_then(|out| interruptible(out).write_all(text));
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(CommandOutcome::Done),
    }
}

/// Prints a line on standard error; ignored if it is closed.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr(), "{}", color::message(&escape(line)));
}

/// Prints several formatted lines; text quoted in them contains no line breaks.
pub fn complain_lines(text: &str) {
    let _ = writeln!(io::stderr(), "{}", color::message(&visible_lines(text)));
}

/// Makes control characters visible, except line breaks.
pub fn visible_lines(text: &str) -> String {
    text.split('\n').map(escape).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn files_are_their_owners_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        create(&path, FileOwner::Us)
            .expect("it can be made")
            .write_all(b"abc")
            .expect("written");
        let mode = |path: &Path| path.metadata().expect("it exists").mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("a mode");
        create(&path, FileOwner::Us).expect("it can be emptied");
        assert_eq!(
            (mode(&path), path.metadata().expect("it exists").len()),
            (0o644, 0)
        );
    }

    #[test]
    fn lines_stay_lines() {
        for (text, shown) in [("a\n  b\u{1b}[31m\n", "a\n  b\\x1b[31m\n"), ("", "")] {
            assert_eq!(visible_lines(text), shown);
        }
    }
}

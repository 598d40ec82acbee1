//! Runs an external program with arguments, without a shell, with a timeout.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::SwitchError;

/// Maximum bytes of output.
const OUTPUT_MAX: u64 = 64 << 20;
/// Polling interval for its exit.
const LOOK: Duration = Duration::from_millis(2);

/// The standard input of a program.
pub enum ProgramInput<'a> {
    Text(&'a str),
    /// A file whose lock the program shares while it runs, also when it outlives this process.
    Lock(File),
}

/// Runs a program and returns its standard output.
pub fn run(
    program: &str,
    arguments: &[String],
    variable: (&str, &Path),
    input: ProgramInput<'_>,
    patience: Duration,
) -> Result<String, SwitchError> {
    let no_program = |why: std::io::Error| SwitchError::NoProgram {
        program: program.to_owned(),
        why: why.to_string(),
    };
    let (stdin, input) = match input {
        ProgramInput::Text(text) => (Stdio::piped(), text.to_owned()),
        ProgramInput::Lock(file) => (Stdio::from(file), String::new()),
    };
    let mut child = Command::new(program)
        .args(arguments)
        .env(variable.0, variable.1)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(no_program)?;
    // Each pipe has a thread, so that none blocks another.
    let stdin = child.stdin.take();
    let writer = thread::spawn(move || {
        // A write error is ignored: the exit status of the program counts.
        let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
    });
    let out = reader(child.stdout.take());
    let err = reader(child.stderr.take());
    let ended = wait(&mut child, patience);
    let _ = writer.join();
    let out = out.join().unwrap_or_default();
    let err = err.join().unwrap_or_default();
    match ended.map_err(no_program)? {
        None => Err(SwitchError::Silent {
            program: program.to_owned(),
            seconds: patience.as_secs(),
        }),
        Some(true) => Ok(out),
        Some(false) => Err(SwitchError::Refused {
            program: program.to_owned(),
            said: err.trim().to_owned(),
        }),
    }
}

fn reader<R: Read + Send + 'static>(pipe: Option<R>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.map(|pipe| pipe.take(OUTPUT_MAX).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether it succeeded; `None`: it was killed at the timeout.
fn wait(child: &mut Child, patience: Duration) -> std::io::Result<Option<bool>> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if begun.elapsed() > patience {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(LOOK);
    }
}

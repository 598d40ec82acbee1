//! Something that is done when this process ends, however it ends: a program that waits for a lock which the kernel takes from the dead.
//! `flock` waits, then becomes the program; no shell is asked. Whoever kills it too, with all of a group of processes, gets what is left
//! over taken away only by the next one who looks.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::Failed;

/// So long may it take until `flock` waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// A pipe holds so much that nobody reads.
const PIPE: usize = 1 << 16;
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(2);

/// See the module's text.
#[derive(Debug)]
pub struct Keeper {
    waiting: Child,
    _lock: File,
}

impl Keeper {
    /// Has a program run once this process is gone, with a short input. When this returns, it waits.
    pub fn new(
        program: &str,
        arguments: &[String],
        variable: (&str, &Path),
        input: &str,
    ) -> Result<Keeper, Failed> {
        let no_program =
            |why: std::io::Error| Failed::NoProgram { program: "flock".to_owned(), why: why.to_string() };
        let lock = nameless().map_err(no_program)?;
        lock.lock().map_err(no_program)?;
        let held = format!("/proc/{}/fd/{}", std::process::id(), lock.as_raw_fd());
        let mut waiting = Command::new("flock")
            .args([&held, program])
            .args(arguments)
            .env(variable.0, variable.1)
            // What ends a terminal's job does not end it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(no_program)?;
        // It lies in the pipe until somebody reads it.
        let written =
            waiting.stdin.take().map(|mut pipe| pipe.write_all(&input.as_bytes()[..input.len().min(PIPE)]));
        let mut keeper = Keeper { waiting, _lock: lock };
        written.transpose().and_then(|_| keeper.waits()).map_err(no_program)?;
        Ok(keeper)
    }

    /// Until the kernel knows that it waits.
    fn waits(&mut self) -> std::io::Result<()> {
        let begun = Instant::now();
        let own = format!(" {} ", self.waiting.id());
        while begun.elapsed() < PATIENCE {
            let locks = fs::read_to_string("/proc/locks")?;
            if locks.lines().any(|line| line.contains("-> FLOCK") && line.contains(&own)) {
                return Ok(());
            }
            if self.waiting.try_wait()?.is_some() {
                return Err(std::io::Error::other("it has ended at once"));
            }
            thread::sleep(LOOK);
        }
        Err(std::io::Error::other("it does not wait"))
    }
}

/// What was to be done has been done, or is not needed any more.
impl Drop for Keeper {
    fn drop(&mut self) {
        // The lock is still held: it has not begun.
        let _ = self.waiting.kill();
        let _ = self.waiting.wait();
    }
}

/// A file that has lost its name.
fn nameless() -> std::io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path: PathBuf = std::env::temp_dir().join(format!("netalytics-{}-{number}", std::process::id()));
    let file = File::create_new(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_let_go_does_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made");
        let words = [made.display().to_string()];
        let keeper = Keeper::new("touch", &words, ("UNUSED", folder.path()), "").expect("it waits");
        drop(keeper);
        assert!(!made.exists());
    }

    #[test]
    fn it_is_done_when_the_lock_is_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made");
        let words = [made.display().to_string()];
        let mut keeper = Keeper::new("touch", &words, ("UNUSED", folder.path()), "").expect("it waits");
        // As the kernel does when a process ends.
        keeper._lock.unlock().expect("it is held");
        assert!(keeper.waiting.wait().expect("it ends").success());
        assert!(made.exists());
    }
}

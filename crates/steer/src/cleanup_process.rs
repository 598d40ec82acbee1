//! Runs a program when its owner is dropped or this process ends in any way: the program waits for a lock that the
//! kernel releases at the end of the process. `flock` waits and then executes the program. The tool
//! that creates the object to be removed shares the lock, so a tool that outlives this process has ended before the
//! program runs. If the keeper is killed as well, with the whole process group, the next process that checks removes
//! the remains.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::backend::SwitchError;
use crate::program::ProgramInput;

/// Maximum time until `flock` waits.
const PATIENCE: Duration = Duration::from_secs(5);
/// Capacity of a pipe without a reader.
const PIPE: usize = 1 << 16;
/// Polling interval.
const LOOK: Duration = Duration::from_millis(2);

/// See the module documentation.
#[derive(Debug)]
pub struct CleanupProcess {
    waiting: Child,
    lock: Option<File>,
}

impl CleanupProcess {
    /// Starts a program that waits for the end of this process, with a short input. When this returns, it is waiting.
    pub fn new(
        program: &str,
        arguments: &[String],
        variable: (&str, &Path),
        input: &str,
    ) -> Result<CleanupProcess, SwitchError> {
        let no_program = |why: std::io::Error| SwitchError::NoProgram {
            program: "flock".to_owned(),
            why: why.to_string(),
        };
        let lock = nameless().map_err(no_program)?;
        lock.lock().map_err(no_program)?;
        let held = format!("/proc/{}/fd/{}", std::process::id(), lock.as_raw_fd());
        let mut waiting = Command::new("flock")
            .args([&held, program])
            .args(arguments)
            .env(variable.0, variable.1)
            // Signals to a terminal's job do not end it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(no_program)?;
        // The order stays in the pipe until it is read.
        let written = waiting
            .stdin
            .take()
            .map(|mut pipe| pipe.write_all(&input.as_bytes()[..input.len().min(PIPE)]));
        let mut keeper = CleanupProcess {
            waiting,
            lock: Some(lock),
        };
        written
            .transpose()
            .and_then(|_| keeper.waits())
            .map_err(no_program)?;
        Ok(keeper)
    }

    /// The lock, for a tool that creates the object to be removed.
    pub fn lock(&self) -> Result<ProgramInput<'static>, SwitchError> {
        let no_lock = |why: std::io::Error| SwitchError::NoProgram {
            program: "flock".to_owned(),
            why: why.to_string(),
        };
        let lock = self
            .lock
            .as_ref()
            .expect("it is held until this is dropped");
        lock.try_clone().map(ProgramInput::Lock).map_err(no_lock)
    }

    /// Waits until the kernel lists it as waiting.
    fn waits(&mut self) -> std::io::Result<()> {
        let begun = Instant::now();
        let own = format!(" {} ", self.waiting.id());
        while begun.elapsed() < PATIENCE {
            let locks = fs::read_to_string("/proc/locks")?;
            if locks
                .lines()
                .any(|line| line.contains("-> FLOCK") && line.contains(&own))
            {
                return Ok(());
            }
            if self.waiting.try_wait()?.is_some() {
                return Err(std::io::Error::other("it ended immediately"));
            }
            thread::sleep(LOOK);
        }
        Err(std::io::Error::other("it does not wait for the lock"))
    }
}

impl CleanupProcess {
    /// Ends the program before it runs: nothing is left to remove.
    pub fn cancel(mut self) {
        // The lock is still held.
        let _ = self.waiting.kill();
    }
}

/// Runs the program and waits for its end.
impl Drop for CleanupProcess {
    fn drop(&mut self) {
        drop(self.lock.take());
        let _ = self.waiting.wait();
    }
}

/// An unlinked file.
fn nameless() -> std::io::Result<File> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path: PathBuf =
        std::env::temp_dir().join(format!("netalytics-{}-{number}", std::process::id()));
    let file = File::create_new(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_canceled_does_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made");
        let words = [made.display().to_string()];
        let keeper =
            CleanupProcess::new("touch", &words, ("UNUSED", folder.path()), "").expect("it waits");
        keeper.cancel();
        assert!(!made.exists());
    }

    #[test]
    fn cleanup_runs_when_its_owner_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made");
        let words = [made.display().to_string()];
        drop(
            CleanupProcess::new("touch", &words, ("UNUSED", folder.path()), "").expect("it waits"),
        );
        assert!(made.exists());
    }

    #[test]
    fn a_tool_that_outlives_its_process_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let [made, removed] = ["made", "removed"]
            .map(|name| folder.path().join(name).to_str().expect("text").to_owned());
        let words = [made.clone(), removed.clone()];
        let mut keeper =
            CleanupProcess::new("mv", &words, ("UNUSED", folder.path()), "").expect("it waits");
        let ProgramInput::Lock(lock) = keeper.lock().expect("a lock") else {
            panic!("text")
        };
        let tool = format!("sleep 0.3; touch {made}");
        let mut tool = Command::new("sh")
            .args(["-c", &tool])
            .stdin(lock)
            .spawn()
            .expect("a shell");
        // The kernel closes the files of a process that ends.
        keeper.lock = None;
        assert!(
            keeper.waiting.wait().expect("it ends").success(),
            "it ran before the tool had ended"
        );
        assert!(tool.wait().expect("it ends").success());
        assert!(fs::exists(removed).expect("a folder"));
    }

    #[test]
    fn cleanup_runs_when_the_lock_is_released() {
        let folder = tempfile::tempdir().expect("a folder");
        let made = folder.path().join("made");
        let words = [made.display().to_string()];
        let mut keeper =
            CleanupProcess::new("touch", &words, ("UNUSED", folder.path()), "").expect("it waits");
        // As the kernel does when a process ends.
        keeper.lock = None;
        assert!(keeper.waiting.wait().expect("it ends").success());
        assert!(made.exists());
    }
}

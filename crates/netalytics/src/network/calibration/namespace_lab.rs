//! An isolated environment for measurements: network, mount and process namespaces, held by a process whose standard
//! input is a pipe from this one. The kernel removes everything in it on drop, and at any end of this process.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

/// Maximum wait for any operation.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Polling interval.
pub const LOOK: Duration = Duration::from_millis(20);
/// Folder that exists on every system; inside, it is an empty tmpfs.
pub const FOLDER: &str = "/run";

/// See the module documentation.
pub struct NamespaceLab {
    holder: Child,
    inside: u32,
}

/// A program running in the lab.
pub struct LabProcess {
    outer: Child,
    /// Process id outside the lab.
    pub pid: u32,
}

impl NamespaceLab {
    /// Creates an empty lab.
    pub fn new() -> anyhow::Result<NamespaceLab> {
        let words = ["--net", "--pid", "--mount", "--fork", "--kill-child", "cat"];
        let mut command = Command::new("unshare");
        command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut holder = command.spawn().context("cannot run unshare")?;
        let inside = only_child(&mut holder)
            .context("cannot create namespaces: root privileges are required");
        match inside {
            Ok(inside) => {
                let lab = NamespaceLab { holder, inside };
                lab.run(&["mount", "-t", "tmpfs", "tmpfs", FOLDER])?;
                lab.run(&["ip", "link", "set", "lo", "up"])?;
                Ok(lab)
            }
            Err(why) => {
                let _ = holder.kill();
                let _ = holder.wait();
                Err(why)
            }
        }
    }

    /// A command to run in the lab.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args([
                "--target",
                &self.inside.to_string(),
                "--net",
                "--mount",
                "--pid",
                "--",
            ])
            .args(words);
        for variable in ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"] {
            command.env(variable, FOLDER);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a program; returns its output if it succeeds.
    pub fn run(&self, words: &[&str]) -> anyhow::Result<String> {
        let output = self.command(words).output().context("cannot run nsenter")?;
        if !output.status.success() {
            bail!(
                "{}: {}",
                words.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a program in the background.
    pub fn start(&self, words: &[&str]) -> anyhow::Result<LabProcess> {
        let mut command = self.command(words);
        let mut outer = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run nsenter")?;
        let pid = only_child(&mut outer).with_context(|| format!("cannot run {}", words[0]))?;
        Ok(LabProcess { outer, pid })
    }
}

impl Drop for NamespaceLab {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

impl Drop for LabProcess {
    fn drop(&mut self) {
        // The programs inside end with the lab at the latest.
        let _ = self.outer.kill();
        let _ = self.outer.wait();
    }
}

/// Process id of the only child of a program.
fn only_child(of: &mut Child) -> anyhow::Result<u32> {
    let begun = Instant::now();
    let list = format!("/proc/{0}/task/{0}/children", of.id());
    while begun.elapsed() < PATIENCE {
        let listed = fs::read_to_string(&list).unwrap_or_default();
        if let Some(child) = listed
            .split_whitespace()
            .next()
            .and_then(|number| number.parse().ok())
        {
            return Ok(child);
        }
        if of.try_wait()?.is_some() {
            bail!("it ended immediately");
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("it has started nothing")
}

/// CPU time of all threads of a process, in nanoseconds. It is 0 until the kernel's first look at a process that has just
/// started, and stays 0 in kernels that do not report it.
pub fn processor_ns(pid: u32) -> io::Result<u64> {
    let mut all = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has ended in the meantime is not counted.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        let ns: Option<u64> = text
            .split_whitespace()
            .next()
            .and_then(|ns| ns.parse().ok());
        all += ns.ok_or_else(|| io::Error::other("unexpected schedstat"))?;
    }
    Ok(all)
}

/// The CPU time between two readings of [`processor_ns`].
///
/// # Errors
/// When nothing was reported.
pub fn processor_ns_between(before: u64, after: u64) -> io::Result<u64> {
    if after > before {
        Ok(after - before)
    } else {
        Err(io::Error::other(
            "the kernel does not report the CPU time of threads",
        ))
    }
}

//! Packets that the agent keeps, if the policy permits it: a process of this program writes the packets of the permitted
//! interfaces to files, of which the newest are kept. The server requests the packets of a flow ([`reader`]); when an
//! alert fires, the files of that time are preserved.
//!
//! `packets/current/RUN/*.pcapng`: the newest packets. `packets/alerts/TIME-RULE/*.pcapng`: hard links to files that
//! were current when an alert fired. `packets/reading`: files of requests.

pub mod reader;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use connect::RetryPolicy;
use serde_json::Value;

use crate::policy::{HostPolicy, PolicyPackets};
use crate::process::last_line;

/// Number of files in the space for the newest packets.
const FILES: u64 = 16;
/// Time after which the same alert rule preserves packets again.
const PRESERVE_EVERY: Duration = Duration::from_secs(60);
/// Interval of messages about losses.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Duration of a run after which its failure counts as the first.
const STEADY: Duration = Duration::from_secs(60);
/// Maximum characters of a rule's name in the name of a folder.
const RULE_CHARS_MAX: usize = 60;

/// See the module documentation.
pub struct PacketRecorder {
    folder: PathBuf,
    limits: PolicyPackets,
    program: PathBuf,
    input: Vec<String>,
    state: RecorderState,
    failures: u32,
    preserved: Option<(String, Instant)>,
    /// Seconds in which the capture lost packets, since the last message about them.
    lossy_seconds: Arc<AtomicU64>,
    warned: Instant,
}

/// State of the recording process.
enum RecorderState {
    Running {
        child: Child,
        since: Instant,
        complaint: JoinHandle<String>,
    },
    Waiting {
        until: Instant,
    },
}

/// A file with packets.
#[derive(Clone, Debug)]
pub(crate) struct KeptFile {
    path: PathBuf,
    /// Device and inode: hard links count once.
    identity: (u64, u64),
    bytes: u64,
    /// Time of the last write.
    written: SystemTime,
}

impl PacketRecorder {
    /// Records packets of `interfaces` in `folder`, from the next [`PacketRecorder::tend`] on.
    ///
    /// # Errors
    /// `io::Error` if the folder cannot be created.
    pub fn new(
        folder: &Path,
        program: &Path,
        (policy, limits): (&HostPolicy, PolicyPackets),
        interfaces: &[String],
    ) -> io::Result<PacketRecorder> {
        let folder = folder.join("packets");
        for part in ["current", "alerts", "reading"] {
            make(&folder.join(part))?;
        }
        let mut input: Vec<String> = interfaces
            .iter()
            .flat_map(|name| ["-i".to_owned(), name.clone()])
            .collect();
        // Packets outside these networks must not be read on this host.
        input.extend(
            policy
                .networks_filter()
                .map(|filter| format!("--capture-filter={filter}")),
        );
        Ok(PacketRecorder {
            folder,
            limits,
            program: program.to_owned(),
            input,
            state: RecorderState::Waiting {
                until: Instant::now(),
            },
            failures: 0,
            preserved: None,
            lossy_seconds: Arc::default(),
            warned: Instant::now(),
        })
    }

    /// Folder of the packets.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts the process if it is due, notices its end, and deletes the oldest files. To be called every second.
    pub fn tend(&mut self) {
        let now = Instant::now();
        match &mut self.state {
            RecorderState::Waiting { until } if *until <= now => self.start(now),
            RecorderState::Waiting { .. } => {}
            RecorderState::Running { child, since, .. } => {
                let since = *since;
                if let Ok(Some(_)) = child.try_wait() {
                    self.failures = if since.elapsed() > STEADY {
                        0
                    } else {
                        self.failures
                    };
                    self.end("packets are no longer recorded");
                }
            }
        }
        if self.warned.elapsed() > WARN_EVERY {
            self.warned = Instant::now();
            match self.lossy_seconds.swap(0, Ordering::Relaxed) {
                0 => {}
                n => tracing::warn!(
                    "the packets kept of {n} seconds are incomplete: the capture lost some"
                ),
            }
        }
        prune(&self.folder.join("current"), self.limits.bytes_max);
        prune(&self.folder.join("alerts"), self.limits.alerts_bytes_max());
    }

    fn start(&mut self, now: Instant) {
        let started = self.spawn();
        match started {
            Ok((mut child, rows)) => {
                let complaints = child.stderr.take().map(BufReader::new);
                let complaint =
                    thread::spawn(move || complaints.map_or_else(String::new, last_line));
                // The end of the agent closes the pipe, which ends the process.
                let lossy_seconds = self.lossy_seconds.clone();
                thread::spawn(move || count_losses(rows, &lossy_seconds));
                self.state = RecorderState::Running {
                    child,
                    since: now,
                    complaint,
                };
            }
            Err(why) => {
                tracing::warn!("packets cannot be recorded: {why}");
                self.wait();
            }
        }
    }

    fn spawn(&self) -> io::Result<(Child, ChildStdout)> {
        let run = self.folder.join("current").join(stamp(SystemTime::now()));
        make(&run)?;
        let rotate = (self.limits.bytes_max / FILES / 1024).max(1);
        let mut child = Command::new(&self.program)
            .args(["query", "PARSE packet PROCESS (count: w=1s)", "--quiet"])
            .args(["--format", "jsonl", "--workers", "1", "--user", "root"])
            .args(["--rotate".to_owned(), format!("{rotate}KB")])
            .arg("-w")
            .arg(run.join("packets.pcapng"))
            .args(&self.input)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let rows = child.stdout.take().expect("the stream is piped");
        Ok((child, rows))
    }

    /// Ends the process; `what` happened.
    fn end(&mut self, what: &str) {
        let waiting = RecorderState::Waiting {
            until: Instant::now(),
        };
        if let RecorderState::Running {
            mut child,
            complaint,
            ..
        } = std::mem::replace(&mut self.state, waiting)
        {
            let _ = child.kill();
            let _ = child.wait();
            let why = complaint.join().unwrap_or_default();
            tracing::warn!("{what}: {why}");
        }
        self.wait();
    }

    fn wait(&mut self) {
        let delay = RetryPolicy::AGENT.delay(self.failures, 0);
        self.failures = self.failures.saturating_add(1);
        self.state = RecorderState::Waiting {
            until: Instant::now() + delay,
        };
    }

    /// Preserves the current files, because an alert of this rule fires.
    pub fn preserve(&mut self, rule: &str) {
        let is_recent = |(of, at): &(String, Instant)| of == rule && at.elapsed() < PRESERVE_EVERY;
        if self.preserved.as_ref().is_some_and(is_recent) {
            return;
        }
        self.preserved = Some((rule.to_owned(), Instant::now()));
        let name = format!("{}-{}", stamp(SystemTime::now()), file_name(rule));
        let to = self.folder.join("alerts").join(name);
        let linked = make(&to).and_then(|()| link_all(&files(&self.folder.join("current")), &to));
        match linked {
            Ok(n) => tracing::info!(
                "alert {rule}: {n} files with packets are preserved in {}",
                to.display()
            ),
            Err(why) => tracing::warn!("alert {rule}: packets cannot be preserved: {why}"),
        }
    }
}

impl Drop for PacketRecorder {
    fn drop(&mut self) {
        if let RecorderState::Running { child, .. } = &mut self.state {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads a row for each second, and counts those in which packets were lost.
fn count_losses(rows: ChildStdout, lossy_seconds: &AtomicU64) {
    for line in BufReader::new(rows).lines().map_while(Result::ok) {
        let row: Value = serde_json::from_str(&line).unwrap_or_default();
        if row["lost"].as_f64().is_some_and(|lost| lost > 0.0) {
            lossy_seconds.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Creates a folder for its owner only.
fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Nanoseconds since the epoch, with leading zeros, so that names sort by time.
fn stamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{:020}", since.as_nanos())
}

/// A rule's name with harmless characters only.
fn file_name(rule: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    rule.chars().take(RULE_CHARS_MAX).map(harmless).collect()
}

/// All files below a folder's folders, oldest first.
pub(crate) fn files(folder: &Path) -> Vec<KeptFile> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = |entry: fs::DirEntry| {
        let about = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(KeptFile {
            path: entry.path(),
            identity: (about.dev(), about.ino()),
            bytes: about.len(),
            written: about.modified().ok()?,
        })
    };
    let mut all: Vec<KeptFile> = entries(folder)
        .flat_map(|run| entries(&run.path()))
        .filter_map(kept)
        .collect();
    all.sort_by(|a, b| (a.written, &a.path).cmp(&(b.written, &b.path)));
    all
}

/// Links files into a folder, numbered in order; returns their number. A file deleted meanwhile is skipped.
pub(crate) fn link_all(files: &[KeptFile], to: &Path) -> io::Result<usize> {
    let mut linked = 0;
    for file in files {
        match fs::hard_link(&file.path, to.join(format!("{linked:06}.pcapng"))) {
            Ok(()) => linked += 1,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(linked)
}

/// Deletes the oldest files beyond `bytes_max` bytes, without the newest, and folders that are empty.
fn prune(folder: &Path, bytes_max: u64) {
    let mut seen = BTreeSet::new();
    let mut bytes = 0;
    for (age, file) in files(folder).iter().rev().enumerate() {
        bytes += if seen.insert(file.identity) {
            file.bytes
        } else {
            0
        };
        if bytes > bytes_max && age > 0 {
            let _ = fs::remove_file(&file.path);
        }
    }
    let mut runs: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    runs.sort();
    // The newest may not have a file yet.
    runs.pop();
    // A folder with files is not removed.
    runs.iter().for_each(|run| drop(fs::remove_dir(run)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, bytes: usize, second: u64) {
        fs::write(path, vec![0; bytes]).expect("written");
        let file = fs::File::options().write(true).open(path).expect("a file");
        file.set_modified(UNIX_EPOCH + Duration::from_secs(second))
            .expect("a time");
    }

    fn names(folder: &Path) -> Vec<String> {
        let name = |file: &KeptFile| {
            let inside = file.path.strip_prefix(folder).expect("inside");
            inside.display().to_string()
        };
        files(folder).iter().map(name).collect()
    }

    #[test]
    fn oldest_files_are_deleted_and_links_count_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for run in ["1", "2", "3"] {
            make(&folder.join(run)).expect("a folder");
        }
        write(&folder.join("1/a"), 400, 1);
        write(&folder.join("2/a"), 400, 2);
        write(&folder.join("2/b"), 400, 3);
        link_all(&files(folder)[2..], &folder.join("3")).expect("linked");
        prune(folder, 1200);
        assert_eq!(names(folder), ["1/a", "2/a", "2/b", "3/000000.pcapng"]);
        prune(folder, 800);
        assert_eq!(names(folder), ["2/a", "2/b", "3/000000.pcapng"]);
        assert!(!folder.join("1").exists());
        // The newest is kept, whatever its size.
        prune(folder, 100);
        assert_eq!(names(folder), ["3/000000.pcapng"]);
    }

    #[test]
    fn names_of_rules_are_harmless() {
        assert_eq!(file_name("../slow p99 > 1s"), "---slow-p99---1s");
        assert_eq!(file_name(&"x".repeat(99)).len(), RULE_CHARS_MAX);
    }
}

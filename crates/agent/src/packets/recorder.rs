//! The process that records packets: it is started again after its end, and when it stands still or cannot write.

use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use connect::RetryPolicy;
use serde_json::Value;

use super::kept_files::{files, link_all, make, next_run, prune};
use crate::policy::PolicyPackets;
use crate::process::last_line;

/// Number of files in the space for the newest packets.
const FILES: u64 = 16;
/// Time after which the same alert rule preserves packets again.
const PRESERVE_EVERY: Duration = Duration::from_secs(60);
/// Interval of messages about losses.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Duration of a run after which its failure counts as the first.
const STEADY: Duration = Duration::from_secs(60);
/// Time without progress after which the process is ended. It reports every second, and writes every quarter of one.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two calls of [`PacketRecorder::tend`] after which the agent itself stood still.
const LATE: Duration = Duration::from_secs(5);
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
    tended: Instant,
    warned: Instant,
}

/// State of the recording process.
enum RecorderState {
    Running(RecordingProcess),
    Waiting { until: Instant },
}

struct RecordingProcess {
    child: Child,
    since: Instant,
    complaint: JoinHandle<String>,
    reports: Arc<RecorderReports>,
    /// Rows, packets, and newest file, each with the time of its last change.
    rows: (u64, Instant),
    packets: (u64, Instant),
    written: (Option<NewestFile>, Instant),
}

/// Order and size of the newest file.
type NewestFile = ((u64, u64), u64);

/// Totals of the rows that the process prints, one per second.
#[derive(Default)]
struct RecorderReports {
    rows: AtomicU64,
    packets: AtomicU64,
    /// Rows of seconds in which packets were lost, since the last message about them.
    lossy: AtomicU64,
}

impl PacketRecorder {
    /// Records packets of `interfaces` that match `filter` in `folder`, from the next [`PacketRecorder::tend`] on.
    ///
    /// # Errors
    /// `io::Error` if the folder cannot be created.
    pub fn new(
        folder: &Path,
        program: &Path,
        limits: PolicyPackets,
        interfaces: &[String],
        filter: Option<String>,
    ) -> io::Result<PacketRecorder> {
        for part in ["current", "alerts"] {
            make(&folder.join(part))?;
        }
        let named = |name: &String| ["-i".to_owned(), name.clone()];
        let mut input: Vec<String> = interfaces.iter().flat_map(named).collect();
        input.extend(filter.map(|filter| format!("--capture-filter={filter}")));
        let now = Instant::now();
        Ok(PacketRecorder {
            folder: folder.to_owned(),
            limits,
            program: program.to_owned(),
            input,
            state: RecorderState::Waiting { until: now },
            failures: 0,
            preserved: None,
            tended: now,
            warned: now,
        })
    }

    /// Starts the process if it is due, notices its end, and deletes the oldest files. To be called every second.
    pub fn tend(&mut self) {
        let now = Instant::now();
        let is_late = now.duration_since(std::mem::replace(&mut self.tended, now)) > LATE;
        let current = self.folder.join("current");
        prune(&current, self.limits.bytes_max);
        prune(&self.folder.join("alerts"), self.limits.alerts_bytes_max());
        match &mut self.state {
            RecorderState::Waiting { until } if *until <= now => self.start(now),
            RecorderState::Waiting { .. } => {}
            RecorderState::Running(process) => {
                let newest = files(&current).last().map(|file| (file.order, file.bytes));
                if let Some(problem) = process.problem(newest, now, is_late) {
                    self.end(problem);
                } else if now.duration_since(self.warned) > WARN_EVERY {
                    self.warned = now;
                    process.reports.warn();
                }
            }
        }
    }

    fn start(&mut self, now: Instant) {
        match self.spawn() {
            Ok((mut child, rows)) => {
                let complaints = child.stderr.take().map(BufReader::new);
                let complaint =
                    thread::spawn(move || complaints.map_or_else(String::new, last_line));
                let reports = Arc::new(RecorderReports::default());
                let counts = reports.clone();
                // The end of the agent closes the pipe, which ends the process.
                thread::spawn(move || counts.read(rows));
                self.state = RecorderState::Running(RecordingProcess {
                    child,
                    since: now,
                    complaint,
                    reports,
                    rows: (0, now),
                    packets: (0, now),
                    written: (None, now),
                });
            }
            Err(why) => {
                tracing::warn!("packets cannot be recorded: {why}");
                self.wait();
            }
        }
    }

    fn spawn(&self) -> io::Result<(Child, ChildStdout)> {
        let run = next_run(&self.folder.join("current"), "")?;
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

    /// Ends the process because of a problem.
    fn end(&mut self, problem: &str) {
        let until = Instant::now();
        let before = std::mem::replace(&mut self.state, RecorderState::Waiting { until });
        if let RecorderState::Running(mut process) = before {
            if process.since.elapsed() > STEADY {
                self.failures = 0;
            }
            process.kill();
            let why = process.complaint.join().unwrap_or_default();
            tracing::warn!("packets are not recorded: {problem} {why}");
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
        let all = files(&self.folder.join("current"));
        let alerts = self.folder.join("alerts");
        let linked = next_run(&alerts, &format!("-{}", file_name(rule)))
            .and_then(|to| Ok((link_all(&all, &to)?, to)));
        match linked {
            Ok((n, to)) => tracing::info!(
                "alert {rule}: {n} files with packets are preserved in {}",
                to.display()
            ),
            Err(why) => tracing::warn!("alert {rule}: packets cannot be preserved: {why}"),
        }
    }
}

impl Drop for PacketRecorder {
    fn drop(&mut self) {
        if let RecorderState::Running(process) = &mut self.state {
            process.kill();
        }
    }
}

impl RecordingProcess {
    /// Reason why the process must be ended, if any. `newest`: its newest file. After the agent stood still (`is_late`),
    /// reports may be unread.
    fn problem(
        &mut self,
        newest: Option<NewestFile>,
        now: Instant,
        is_late: bool,
    ) -> Option<&'static str> {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return Some("the process has ended:");
        }
        let rows = self.reports.rows.load(Ordering::Relaxed);
        let packets = self.reports.packets.load(Ordering::Relaxed);
        if rows != self.rows.0 || is_late {
            self.rows = (rows, now);
        }
        if packets != self.packets.0 {
            self.packets = (packets, now);
        }
        if newest != self.written.0 || is_late {
            self.written = (newest, now);
        }
        if now.duration_since(self.rows.1) > PATIENCE {
            Some("the process does not respond, and is started again:")
        } else if self.packets.1.duration_since(self.written.1) > PATIENCE {
            // Packets are written before the row that counts them.
            Some("the process cannot write them, and is started again (is the disk full?):")
        } else {
            None
        }
    }

    /// Kills the process, which may have ended.
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl RecorderReports {
    /// Reads rows until their end.
    fn read(&self, rows: ChildStdout) {
        for line in BufReader::new(rows).lines().map_while(Result::ok) {
            let row: Value = serde_json::from_str(&line).unwrap_or_default();
            let is_lossy = row["lost"].as_f64().is_some_and(|lost| lost > 0.0);
            let packets = row["count"].as_u64().unwrap_or(0);
            self.packets.fetch_add(packets, Ordering::Relaxed);
            self.lossy.fetch_add(u64::from(is_lossy), Ordering::Relaxed);
            self.rows.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn warn(&self) {
        match self.lossy.swap(0, Ordering::Relaxed) {
            0 => {}
            n => tracing::warn!(
                "the packets kept of {n} seconds are incomplete: the capture lost some"
            ),
        }
    }
}

/// A rule's name with harmless characters only.
fn file_name(rule: &str) -> String {
    let harmless = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    rule.chars().take(RULE_CHARS_MAX).map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rules_are_harmless() {
        assert_eq!(file_name("../slow p99 > 1s"), "---slow-p99---1s");
        assert_eq!(file_name(&"x".repeat(99)).len(), RULE_CHARS_MAX);
    }
}

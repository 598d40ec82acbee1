//! The program in a namespace, and its output.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::net::within;

pub const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");

/// Timeout: the program hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running capture.
pub struct Capture {
    child: Child,
    err: BufReader<ChildStderr>,
    said: String,
    folder: TempDir,
}

/// Output of a capture.
pub struct Captured {
    pub code: Option<i32>,
    pub rows: Vec<Value>,
    pub summary: Value,
    pub err: String,
}

impl Capture {
    /// Starts a query in namespace `ns`; returns when it captures.
    pub fn start(ns: &str, query: &str, args: &[&str]) -> Capture {
        Self::of(within(ns, BINARY), query, args)
    }

    /// Like [`CaptureSpec::start`], with a command that already has the program.
    pub fn of(mut command: Command, query: &str, args: &[&str]) -> Capture {
        let folder = tempfile::tempdir().expect("a folder for results");
        let path = |name: &str| folder.path().join(name);
        command
            .args(["query", query])
            .args(args)
            .args(["--format", "jsonl"]);
        command
            .arg("-o")
            .arg(path("rows"))
            .arg("--summary-json")
            .arg(path("summary"));
        let mut child = command
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("it starts");
        let err = BufReader::new(child.stderr.take().expect("piped"));
        let mut capture = Capture {
            child,
            err,
            said: String::new(),
            folder,
        };
        capture.wait_for("capturing from");
        capture
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Reads its messages until these words.
    pub fn wait_for(&mut self, words: &str) {
        while !self.said.contains(words) {
            let n = self.err.read_line(&mut self.said).expect("text");
            assert!(n > 0, "it ended without saying {words:?}:\n{}", self.said);
        }
    }

    /// Waits until this number of rows has been written.
    pub fn wait_for_rows(&self, n: usize) {
        let began = Instant::now();
        while rows(&self.path("rows")).len() < n {
            assert!(
                began.elapsed() < PATIENCE,
                "{n} rows do not come:\n{:?}",
                rows(&self.path("rows"))
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ctrl-C.
    pub fn interrupt(self) -> Captured {
        signal(self.pid(), "INT");
        self.end()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Waits for its end.
    pub fn end(mut self) -> Captured {
        let status = wait(&mut self.child);
        self.err.read_to_string(&mut self.said).expect("text");
        let summary = std::fs::read_to_string(self.path("summary")).unwrap_or_default();
        Captured {
            code: status.code(),
            rows: rows(&self.path("rows")),
            summary: serde_json::from_str(&summary).unwrap_or_default(),
            err: std::mem::take(&mut self.said),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // The child may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Captured {
    /// A number of the summary.
    pub fn count(&self, pointer: &str) -> u64 {
        let value = self.summary.pointer(pointer).and_then(Value::as_u64);
        value.unwrap_or_else(|| panic!("no number {pointer} in {:#}\n{}", self.summary, self.err))
    }

    /// Checks that it ended normally, lost nothing, and its counters add up.
    pub fn check(&self) {
        assert_eq!(self.code, Some(0), "{}", self.err);
        assert_eq!(self.count("/source/lost_before_us"), 0, "{}", self.err);
        assert_eq!(
            self.summary.pointer("/packets/adds_up"),
            Some(&Value::Bool(true))
        );
        assert_eq!(
            self.count("/packets/received"),
            self.count("/source/packets")
        );
    }

    /// A column of all rows, as text.
    pub fn column(&self, name: &str) -> Vec<String> {
        self.rows.iter().map(|row| text(&row[name])).collect()
    }
}

/// A value as text, without quotes.
pub fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

pub fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        .status();
    assert!(sent.expect("a signal").success());
}

/// Waits for a process to end, with a timeout.
pub fn wait(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn rows(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

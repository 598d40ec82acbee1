//! Delivery of results to real programs on loopback: received rows are compared with the output, and the counters of
//! sent and lost rows with the number of rows.

#[path = "outlets/documents.rs"]
mod documents;
#[path = "outlets/flows.rs"]
mod flows;
#[path = "outlets/jobs.rs"]
mod jobs;
#[path = "outlets/posts.rs"]
mod posts;
#[path = "outlets/prometheus.rs"]
mod prometheus;
#[path = "outlets/redis.rs"]
mod redis;
#[path = "outlets/tcp.rs"]
mod tcp;
#[path = "outlets/tls.rs"]
mod tls;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use testkit::programs;
pub use testkit::programs::{PATIENCE, TestProgram as Server, free_port};

pub fn shop() -> Vec<u8> {
    std::fs::read(super::captures().join("shop/in.pcap")).expect("the shop's capture")
}

/// Waits until `ready` returns a value.
#[track_caller]
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    programs::wait_for(what, || ready().ok_or_else(|| "nothing".to_owned()))
}

/// `netalytics query` with packets from standard input, fed by the test.
pub struct Query {
    child: Child,
    packets: Option<ChildStdin>,
    folder: TempDir,
}

/// Result of the run.
pub struct Done {
    pub code: Option<i32>,
    pub lines: Vec<String>,
    pub err: String,
    pub summary: Value,
}

impl Query {
    pub fn start(query: &str, args: &[&str]) -> Query {
        let folder = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(env!("CARGO_BIN_EXE_netalytics"))
            .args(["query", query, "-r", "-", "--format", "jsonl", "-o"])
            .arg(folder.path().join("rows"))
            .arg("--summary-json")
            .arg(folder.path().join("summary"))
            .args(args)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let packets = child.stdin.take();
        Query {
            child,
            packets,
            folder,
        }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let packets = self.packets.as_mut().expect("it is still fed");
        packets
            .write_all(bytes)
            .and_then(|()| packets.flush())
            .expect("the program reads");
    }

    /// Ends the input.
    pub fn end(&mut self) {
        self.packets = None;
    }

    pub fn done(mut self) -> Done {
        self.packets = None;
        let mut err = String::new();
        self.child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut err)
            .expect("text");
        let code = self.child.wait().expect("it ends").code();
        let read =
            |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let summary = serde_json::from_str(&read("summary")).unwrap_or_default();
        Done {
            code,
            lines: read("rows").lines().map(String::from).collect(),
            err,
            summary,
        }
    }
}

impl Done {
    /// A counter of the first outlet.
    pub fn count(&self, pointer: &str) -> u64 {
        let count = self
            .summary
            .pointer(&format!("/delivered/0{pointer}"))
            .and_then(Value::as_u64);
        count.unwrap_or_else(|| panic!("{pointer} of {}\n{}", self.summary, self.err))
    }

    pub fn lost(&self) -> u64 {
        ["queue_full", "gave_up", "refused", "at_end"]
            .map(|cause| self.count(&format!("/lost/{cause}")))
            .iter()
            .sum()
    }

    /// Checks that all rows were sent or lost.
    pub fn adds_up(&self) {
        assert_eq!(self.count("/rows"), self.lines.len() as u64, "{}", self.err);
        assert_eq!(
            self.count("/sent") + self.lost(),
            self.count("/rows"),
            "{}",
            self.err
        );
        assert_eq!(self.code, Some(i32::from(self.lost() > 0)), "{}", self.err);
    }
}

/// Runs once over the shop's capture.
pub fn over_shop(query: &str, args: &[&str]) -> Done {
    let mut run = Query::start(query, args);
    run.feed(&shop());
    run.done()
}

/// Writes a text to a file.
pub fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// Windows of a URL in `group-count-hist`: number of tuples, and number of tuples with a time.
pub fn counted(rows: &[Value], url: &str) -> (f64, f64) {
    let windows = || {
        rows.iter()
            .filter(|row| row["url_template"] == url && row["processor"] == "group-count-hist")
    };
    let buckets = windows().flat_map(|row| row["hist_ns"].as_array().into_iter().flatten());
    let number = |value: &Value| value.as_f64().expect("a number");
    (
        windows().map(|row| number(&row["count"])).sum(),
        buckets.map(|bucket| number(&bucket[1])).sum(),
    )
}

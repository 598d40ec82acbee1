//! Results out to real programs, on loopback: what arrives there is held against what is printed here, and what the summary says was
//! sent and lost against what was made.

#[path = "outlets/documents.rs"]
mod documents;
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
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Nothing here takes longer, unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn shop() -> Vec<u8> {
    std::fs::read(super::captures().join("shop/in.pcap")).expect("the shop's capture")
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port()
}

/// Waits until `ready` gives something.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a program is installed; says loudly if it is not.
pub fn is_there(program: &str) -> bool {
    let found = Command::new("bash").args(["-c", &format!("command -v {program}")]).output();
    let is_there = found.is_ok_and(|found| found.status.success());
    if !is_there {
        testkit::loudly(&format!("NO {program} (see setup.sh): this test has checked NOTHING"));
    }
    is_there
}

/// A program that is ended when dropped.
pub struct Server(pub Child);

impl Server {
    pub fn start(command: &mut Command) -> Server {
        Server(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a server"),
        )
    }

    pub fn kill(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// `netalytics query` whose packets come by standard input, as the test hands them out.
pub struct Query {
    child: Child,
    packets: Option<ChildStdin>,
    folder: TempDir,
}

/// How it ended.
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
        Query { child, packets, folder }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let packets = self.packets.as_mut().expect("it is still fed");
        packets.write_all(bytes).and_then(|()| packets.flush()).expect("the program reads");
    }

    /// No more packets come.
    pub fn end(&mut self) {
        self.packets = None;
    }

    pub fn done(mut self) -> Done {
        self.packets = None;
        let mut err = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        let code = self.child.wait().expect("it ends").code();
        let read = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default();
        let summary = serde_json::from_str(&read("summary")).unwrap_or_default();
        Done { code, lines: read("rows").lines().map(String::from).collect(), err, summary }
    }
}

impl Done {
    /// A number of the first outlet's.
    pub fn count(&self, pointer: &str) -> u64 {
        let count = self.summary.pointer(&format!("/delivered/0{pointer}")).and_then(Value::as_u64);
        count.unwrap_or_else(|| panic!("{pointer} of {}\n{}", self.summary, self.err))
    }

    pub fn lost(&self) -> u64 {
        ["queue_full", "gave_up", "refused", "at_end"]
            .map(|cause| self.count(&format!("/lost/{cause}")))
            .iter()
            .sum()
    }

    /// What was made is sent or lost.
    pub fn adds_up(&self) {
        assert_eq!(self.count("/rows"), self.lines.len() as u64, "{}", self.err);
        assert_eq!(self.count("/sent") + self.lost(), self.count("/rows"), "{}", self.err);
        assert_eq!(self.code, Some(i32::from(self.lost() > 0)), "{}", self.err);
    }
}

/// One run over the shop.
pub fn over_shop(query: &str, args: &[&str]) -> Done {
    let mut run = Query::start(query, args);
    run.feed(&shop());
    run.done()
}

/// A text in a file of its own.
pub fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("a file");
    path.display().to_string()
}

/// Of a URL's windows of `group-count-hist`: how many tuples there are, and how many have a time.
pub fn counted(rows: &[Value], url: &str) -> (f64, f64) {
    let windows =
        || rows.iter().filter(|row| row["url_template"] == url && row["processor"] == "group-count-hist");
    let buckets = windows().flat_map(|row| row["hist_ns"].as_array().into_iter().flatten());
    let number = |value: &Value| value.as_f64().expect("a number");
    (windows().map(|row| number(&row["count"])).sum(), buckets.map(|bucket| number(&bucket[1])).sum())
}

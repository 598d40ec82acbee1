//! A webhook in Python that verifies documents according to Standard Webhooks.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::PATIENCE;

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../netalytics/tests/captures/outlets/receiver.py"
);

/// See the module documentation.
pub struct Hook {
    child: Child,
    lines: Mutex<Receiver<String>>,
    seen: Mutex<BTreeSet<String>>,
    _folder: tempfile::TempDir,
    url: String,
}

impl Hook {
    /// Rejects the first `fail` requests after recording them; `None` without Python, if `ALLOW_MISSING`
    /// names `python3`.
    pub fn start(fail: u32) -> Option<Hook> {
        let child = Command::new("python3")
            .args([SCRIPT, "webhook", "0", "s3cret", &fail.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = testkit::require!("python3" => child);
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (say, lines) = channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| say.send(line).ok())
        });
        let first = lines.recv_timeout(PATIENCE).expect("a port");
        let folder = tempfile::tempdir().expect("a folder");
        let key = folder.path().join("key");
        std::fs::write(&key, "s3cret\n").expect("written");
        let port = first.trim_start_matches("port ");
        let url = format!(
            "webhook+http://127.0.0.1:{port}/hook#secret-file={}",
            key.display()
        );
        Some(Hook {
            child,
            lines: Mutex::new(lines),
            seen: Mutex::default(),
            _folder: folder,
            url,
        })
    }

    /// Argument of `serve --receiver`.
    pub fn receiver(&self, name: &str) -> String {
        format!("{name}={}", self.url)
    }

    /// The next accepted documents, without repetitions; all requests must be signed.
    pub fn heard(&self, documents: usize) -> Vec<Value> {
        let lines = self.lines.lock().expect("lines");
        let mut taken = Vec::new();
        while taken.len() < documents {
            let line = lines.recv_timeout(PATIENCE).expect("another event");
            let post: Value = serde_json::from_str(&line).expect("JSON");
            // Set for a missing or wrong signature.
            assert!(post["error"].is_null(), "{post}");
            if post["status"] != 200 {
                continue;
            }
            let id = post["taken"]["id"].as_str().expect("an id").to_owned();
            assert!(
                self.seen.lock().expect("seen").insert(id),
                "what was taken came again: {post}"
            );
            taken.push(post["taken"]["body"].clone());
        }
        taken
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// State and URL of a document's alerts.
pub fn said(body: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let alerts = body["alerts"].as_array().expect("alerts").iter();
    alerts
        .map(|alert| {
            format!(
                "{} {}",
                text(&alert["status"]),
                text(&alert["labels"]["url"])
            )
        })
        .collect()
}

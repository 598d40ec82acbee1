//! Rows of a server's job to a webhook, with repeated kills of server and receiver: all rows of the job's history
//! arrive, and none under two identifiers.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::posts::{Posts, rows};
use super::{Server, file, free_port, wait_for};

/// Processes of a server, and its address.
struct Center {
    folder: tempfile::TempDir,
    port: u16,
    server: Option<Server>,
}

impl Center {
    fn start() -> Center {
        let mut center = Center {
            folder: tempfile::tempdir().expect("a folder"),
            port: free_port(),
            server: None,
        };
        center.begin();
        center
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn program(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_netalytics"));
        command.args(args).current_dir(super::super::captures());
        command
    }

    fn begin(&mut self) {
        let listen = format!("127.0.0.1:{}", self.port);
        let data = self.path("server");
        self.server = Some(Server::start(
            &mut self.program(&["serve", "--listen", &listen, "--data", &data]),
        ));
        wait_for("the server", || self.ask("GET", "/api/v1/health", None));
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let token = std::fs::read_to_string(self.path("server/admin.token")).ok()?;
        let mut curl = Command::new("curl");
        curl.args([
            "-s",
            "-f",
            "-m",
            "10",
            "-X",
            method,
            "-H",
            &format!("Authorization: Bearer {}", token.trim()),
        ]);
        if let Some(body) = body {
            curl.args([
                "-H",
                "Content-Type: application/json",
                "-d",
                &body.to_string(),
            ]);
        }
        let output = curl
            .arg(format!("http://127.0.0.1:{}{path}", self.port))
            .stderr(Stdio::null())
            .output();
        let output = output.expect("curl");
        output
            .status
            .success()
            .then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    /// An agent that replays the shop's capture in a loop.
    fn agent(&self) -> Server {
        let asked = json!({ "name": "a", "role": "agent" });
        let made = self
            .ask("POST", "/api/v1/tokens", Some(&asked))
            .expect("a token");
        let token = file(
            self.folder.path(),
            "agent.token",
            made["secret"].as_str().expect("its secret"),
        );
        let url = format!("http://127.0.0.1:{}", self.port);
        let folder = self.path("agent");
        let agent = [
            "agent",
            "--server",
            &url,
            "--token-file",
            &token,
            "--name",
            "a",
            "--folder",
            &folder,
        ];
        let demo = ["--demo", "shop/in.pcap", "--demo-pause", "100ms"];
        let agent = Server::start(&mut self.program(&[&agent[..], &demo].concat()));
        wait_for("the agent", || {
            let agents = self.ask("GET", "/api/v1/agents", None)?;
            (agents["agents"][0]["connected"] == true).then_some(())
        });
        agent
    }

    fn outlet(&self, job: &str) -> Option<Value> {
        Some(self.ask("GET", &format!("/api/v1/jobs/{job}"), None)?["outlets"][0].clone())
    }

    /// Waits until this number of further rows was delivered.
    fn more(&self, job: &str) {
        let delivered = || self.outlet(job)?["delivered"].as_u64();
        let before = wait_for("an answer", delivered);
        wait_for("more rows", || delivered().filter(|now| *now > before));
    }
}

#[test]
fn rows_are_delivered_after_any_process_is_killed() {
    testkit::require!("python3", "curl");
    let mut center = Center::start();
    let secret = file(center.folder.path(), "secret", "s3cret");
    let _agent = center.agent();
    let posts = Posts::start(Path::new("python3"), "webhook", 0, 1);
    let port = posts.port;
    let asked = json!({
        "query": "PARSE http PROCESS (group-count: group=path, w=100ms)",
        "kind": "standing",
        "to": [format!("webhook+http://127.0.0.1:{port}#secret-file={secret}")],
    });
    let made = center
        .ask("POST", "/api/v1/jobs", Some(&asked))
        .expect("a job");
    let job = made["id"].as_str().expect("a number").to_owned();
    center.more(&job);
    for _ in 0..2 {
        // SIGKILL at an arbitrary moment.
        center.server = None;
        center.begin();
        center.more(&job);
    }
    let mut heard = posts.heard();
    wait_for("it is missed", || {
        center
            .outlet(&job)
            .filter(|told| told["state"] == "retrying")
    });
    center.server = None;
    let posts = Posts::start(Path::new("python3"), "webhook", port, 0);
    center.begin();
    center.more(&job);
    center
        .ask("DELETE", &format!("/api/v1/jobs/{job}"), None)
        .expect("it is stopped");
    let told = wait_for("the end", || {
        center.outlet(&job).filter(|told| told["state"] == "done")
    });
    assert_eq!(
        told["lost"],
        json!({ "refused": 0, "backlog": 0, "gone": 0 }),
        "{told}"
    );
    heard.extend(posts.heard());
    let arrived = rows(&heard);
    let kept = center
        .program(&["jobs", "results", &job, "--format", "jsonl", "--server"])
        .arg(format!("http://127.0.0.1:{}", center.port))
        .args(["--token-file", &center.path("server/admin.token")])
        .output()
        .expect("it runs");
    let kept: Vec<Value> = String::from_utf8_lossy(&kept.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    assert!(kept.len() > 20, "{} rows", kept.len());
    assert_eq!(arrived.len(), kept.len(), "each row once");
    assert_eq!(arrived, kept);
}

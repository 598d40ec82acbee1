//! A server and its agents as processes: a query over three hosts equals that of one process over all packets.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{BINARY, Folder, ROOT, check, run};

/// Timeout.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Clients in the shop's capture.
const CLIENTS: [&str; 3] = ["10.20.0.21", "10.20.0.22", "10.20.0.23"];

/// A process killed at the end of the test.
pub struct Process(pub Child);

impl Process {
    pub fn start(args: &[&str]) -> Process {
        let mut command = Command::new(BINARY);
        command
            .args(args)
            .current_dir(ROOT)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        Process(command.spawn().expect("the binary runs"))
    }

    /// The rest of the line of standard error after `words`.
    pub fn says(&mut self, words: &str) -> String {
        let lines = BufReader::new(self.0.stderr.take().expect("piped")).lines();
        let found = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once(words)?.1.to_owned()));
        found.unwrap_or_else(|| panic!("it never said {words:?}"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A server, with commands run as an admin.
pub struct Server {
    pub url: String,
    pub token: String,
    process: Process,
    flags: Vec<String>,
}

impl Server {
    pub fn start(folder: &Folder) -> Server {
        Server::with(folder, &[])
    }

    /// With additional flags of `serve`.
    pub fn with(folder: &Folder, flags: &[&str]) -> Server {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        Server::at("127.0.0.1:0", folder, flags)
    }

    fn at(address: &str, folder: &Folder, flags: Vec<String>) -> Server {
        let data = folder.path("server");
        let own = ["serve", "--listen", address, "--data", &data];
        let more = flags.iter().map(String::as_str);
        let mut process = Process::start(&own.into_iter().chain(more).collect::<Vec<_>>());
        let url = process.says("serving on ");
        let url = url.split(';').next().unwrap_or_default().to_owned();
        Server {
            url,
            token: folder.path("server/admin.token"),
            process,
            flags,
        }
    }

    /// Kills the server and restarts it at the same address.
    pub fn start_again(&mut self, folder: &Folder) {
        self.process
            .0
            .kill()
            .and_then(|()| self.process.0.wait())
            .expect("it is killed");
        let address = self.url.trim_start_matches("http://").to_owned();
        *self = Server::at(&address, folder, std::mem::take(&mut self.flags));
    }

    /// Arguments of an agent with a token, in the file `token`, and a folder.
    pub fn agent<'a>(&'a self, name: &'a str, token: &'a str, own: &'a str) -> [&'a str; 9] {
        [
            "agent",
            "--server",
            &self.url,
            "--token-file",
            token,
            "--name",
            name,
            "--folder",
            own,
        ]
    }

    /// Three agents, each with the packets of one client of the shop in a loop with this pause.
    pub fn agents(&self, folder: &Folder, pause: &str) -> Vec<Process> {
        let agent = |client: &&str| {
            let part = folder.path(&format!("{client}.pcap"));
            let query = format!("PARSE packet FROM {client} PROCESS (count)");
            check(
                &["query", &query, "-r", "captures/shop/in.pcap", "-w", &part],
                0,
                &[],
            );
            let token = self.token(folder, client);
            let own = folder.path(client);
            let agent = self.agent(client, &token, &own);
            let play = ["--demo", &part, "--demo-pause", pause];
            Process::start(&[&agent[..], &play].concat())
        };
        let agents = CLIENTS.iter().map(agent).collect();
        self.await_agents(3);
        agents
    }

    /// Waits until this number of agents is connected.
    pub fn await_agents(&self, n: usize) {
        wait(&format!("{n} agents come"), || {
            let agents = self.rows(&["agents"]);
            let connected = agents
                .iter()
                .filter(|agent| agent["connected"] == true)
                .count();
            if connected == n {
                Ok(())
            } else {
                Err(format!("{agents:?}"))
            }
        });
    }

    /// Response of the API.
    pub fn get(&self, path: &str) -> Value {
        let token = std::fs::read_to_string(&self.token).expect("the first token");
        let output = Command::new("curl")
            .args([
                "-sS",
                "-H",
                &format!("Authorization: Bearer {}", token.trim()),
            ])
            .arg(format!("{}{path}", self.url))
            .output()
            .expect("curl runs");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    pub fn ask(&self, args: &[&str]) -> String {
        let ran = run(&[args, &["--server", &self.url, "--token-file", &self.token]].concat());
        assert_eq!(ran.code, 0, "{args:?}\n{}{}", ran.out, ran.err);
        ran.out
    }

    /// Error message of a rejected command.
    pub fn refuses(&self, args: &[&str]) -> String {
        let ran = run(&[args, &["--server", &self.url, "--token-file", &self.token]].concat());
        assert_ne!(ran.code, 0, "{args:?}\n{}", ran.out);
        ran.err
    }

    pub fn rows(&self, args: &[&str]) -> Vec<Value> {
        let out = self.ask(&[args, &["--format", "jsonl"]].concat());
        out.lines()
            .map(|line| serde_json::from_str(line).expect("a row"))
            .collect()
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Response of the API.
    fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let admin = std::fs::read_to_string(&self.token).expect("the first token");
        let mut curl = Command::new("curl");
        curl.args([
            "-sS",
            "-f",
            "-X",
            method,
            "-H",
            &format!("Authorization: Bearer {}", admin.trim()),
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
            .arg(format!("{}/api/v1{path}", self.url))
            .output()
            .expect("curl runs");
        assert!(
            output.status.success(),
            "{path}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    pub fn post(&self, path: &str, body: &Value) -> Value {
        self.api("POST", path, Some(body))
    }

    pub fn delete(&self, path: &str) {
        self.api("DELETE", path, None);
    }

    /// Starts a standing job; returns its number.
    pub fn start_job(&self, query: &str) -> String {
        self.rows(&["jobs", "start", query, "--standing"])[0]["id"]
            .as_str()
            .expect("a number")
            .to_owned()
    }

    /// Whether a job runs.
    pub fn is_running(&self, id: &str) -> Result<(), String> {
        let job = &self.rows(&["jobs", "show", id])[0];
        if job["state"] == "running" {
            Ok(())
        } else {
            Err(job.to_string())
        }
    }

    /// Number of unfinished jobs.
    pub fn open_jobs(&self) -> usize {
        let jobs = self.api("GET", "/jobs?limit=1000", None);
        jobs["jobs"]
            .as_array()
            .expect("jobs")
            .iter()
            .filter(|job| job["state"] != "ended")
            .count()
    }

    /// An agent's token, in a file.
    pub fn token(&self, folder: &Folder, name: &str) -> String {
        let made = self.post("/tokens", &json!({"name": name, "role": "agent"}));
        folder.file(
            &format!("{name}.token"),
            made["secret"].as_str().expect("its secret").as_bytes(),
        )
    }
}

/// Polls until `is_so` succeeds; panics with its last error.
pub fn wait(what: &str, is_so: impl Fn() -> Result<(), String>) {
    let end = Instant::now() + PATIENCE;
    while let Err(seen) = is_so() {
        assert!(Instant::now() < end, "{what}: {seen}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Count of each path.
pub fn counts(rows: &[Value]) -> Vec<(String, u64)> {
    let of = |row: &Value| {
        let count = row["count"]
            .as_u64()
            .or_else(|| row["count"].as_str()?.parse().ok());
        (
            row["path"].as_str().expect("a path").to_owned(),
            count.expect("a count"),
        )
    };
    let mut counts: Vec<_> = rows.iter().map(of).collect();
    counts.sort();
    counts
}

#[test]
fn the_window_in_which_a_capture_begins_is_approximate() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let _agents = server.agents(&folder, "100ms");
    let id = server.start_job("PARSE http PROCESS (count: w=1s)");
    let marks = || -> Vec<bool> {
        let rows = server.rows(&["jobs", "results", &id]);
        rows.iter().map(|row| row["approximate"] == true).collect()
    };
    wait("windows", || {
        if marks().len() > 4 {
            Ok(())
        } else {
            server.is_running(&id).and(Err("few".into()))
        }
    });
    // The agents may begin in different windows.
    let marks = marks();
    assert!(marks[0] && !marks[4], "{marks:?}");
}

#[test]
fn three_agents_answer_as_one_process() {
    const QUERY: &str = "PARSE http PROCESS (group-count: group=path)";
    let folder = Folder::new();
    let server = Server::start(&folder);
    let agents = server.agents(&folder, "1h");
    let id = server.start_job(QUERY);
    let whole = check(
        &[
            "query",
            QUERY,
            "-r",
            "captures/shop/in.pcap",
            "--format",
            "jsonl",
        ],
        0,
        &[],
    )
    .out;
    let whole: Vec<Value> = whole
        .lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect();
    // Data arrives every five seconds of event time; at its end the job has all.
    wait("the job runs", || server.is_running(&id));
    std::thread::sleep(Duration::from_secs(4));
    server.ask(&["jobs", "stop", &id]);
    wait("the job ends", || {
        let job = &server.rows(&["jobs", "show", &id])[0];
        if job["state"] == "ended" {
            Ok(())
        } else {
            Err(job.to_string())
        }
    });
    let rows = server.rows(&["jobs", "results", &id]);
    assert_eq!(counts(&rows), counts(&whole));
    assert!(
        rows.iter().all(|row| row["agents_missing"].is_null()),
        "{rows:?}"
    );
    drop(agents);
}

#[test]
fn a_demonstration_is_one_command_and_leaves_nothing() {
    let mut process = Process::start(&["serve", "--demo", "--listen", "127.0.0.1:0"]);
    let command = process.says("in ten seconds: netalytics ");
    let words: Vec<&str> = command
        .split_whitespace()
        .chain(["--format", "jsonl"])
        .collect();
    wait("there are rows", || {
        let ran = run(&words);
        // Jobs of the demonstration start when its agent has connected.
        if ran.out.contains("/checkout") {
            Ok(())
        } else {
            Err(ran.out + &ran.err)
        }
    });
    let server: Vec<&str> = words
        .iter()
        .copied()
        .skip_while(|word| *word != "--server")
        .take(4)
        .collect();
    let explained = [&["explain", "PARSE http PROCESS (rate)"], &server[..]].concat();
    let ran = run(&explained);
    assert!(
        ran.code == 0 && ran.out.contains("\non agent demo, with "),
        "{}{}",
        ran.out,
        ran.err
    );
    let folder = std::path::Path::new(words[words.len() - 3])
        .parent()
        .expect("the data directory")
        .to_owned();
    assert!(folder.is_dir(), "{}", folder.display());
    let pid = process.0.id().to_string();
    assert!(
        Command::new("kill")
            .arg(&pid)
            .status()
            .expect("kill runs")
            .success()
    );
    assert!(process.0.wait().expect("it ends").success());
    assert!(!folder.exists(), "{}", folder.display());
}

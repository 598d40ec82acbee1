//! A server and its agents as processes on the hosts of a bed. Agents reach the server through relays (socat), which
//! stand for TLS proxies; the server listens on its own host only.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::{Bed, Process};
use crate::capture::BINARY;
use crate::net::within;
use crate::servers::wait_for_port;

/// Address of the server, on every host.
const URL: &str = "http://127.0.0.1:7979";
/// Host of the server.
pub const SERVER_HOST: &str = "server";
/// Timeout.
const PATIENCE: Duration = Duration::from_secs(60);

/// See the module documentation.
pub struct Team<'b> {
    pub bed: &'b Bed,
    data: PathBuf,
    server: Process,
    agents: BTreeMap<String, Agent>,
    _wires: Vec<Process>,
}

/// An agent, and the arguments for its restart.
struct Agent {
    process: Process,
    arguments: Vec<String>,
    /// Number of its token.
    token: u64,
}

impl<'b> Team<'b> {
    /// A server with its data in that folder.
    pub fn start(bed: &'b Bed, data: PathBuf) -> Team<'b> {
        let wire = wire(
            bed,
            SERVER_HOST,
            &bed.inner_address(SERVER_HOST),
            "127.0.0.1:7979",
        );
        let server = serve(bed, &data);
        let team = Team {
            bed,
            data,
            server,
            agents: BTreeMap::new(),
            _wires: vec![wire],
        };
        wait_for_port(&bed.ns(SERVER_HOST), "127.0.0.1", 7979);
        team
    }

    /// An agent on a host, with its policy and additional arguments.
    pub fn add_agent(&mut self, host: &str, policy: &str, more: &[&str]) {
        let to = format!("{}:7979", self.bed.inner_address(SERVER_HOST));
        self._wires.push(wire(self.bed, host, "127.0.0.1", &to));
        let path = |name: &str| {
            self.bed
                .path(&format!("{host}.{name}"))
                .display()
                .to_string()
        };
        std::fs::write(path("toml"), policy).expect("a policy");
        let number = self.new_token(host);
        let [token, toml, folder] = [path("token"), path("toml"), path("folder")];
        let own = [
            BINARY,
            "agent",
            "--server",
            URL,
            "--name",
            host,
            "--policy",
            &toml,
            "--token-file",
            &token,
        ];
        let arguments = [&own[..], &["--folder", &folder, "-v"], more].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        wait_for_port(&self.bed.ns(host), "127.0.0.1", 7979);
        let process = run_agent(self.bed, host, &arguments, &[]);
        self.agents.insert(
            host.to_owned(),
            Agent {
                process,
                arguments,
                token: number,
            },
        );
    }

    /// `kill -9` of an agent.
    pub fn kill_agent(&mut self, host: &str) {
        self.agent(host).kill();
    }

    /// Asks an agent to end, and waits; returns its exit code.
    pub fn end_agent(&mut self, host: &str) -> i32 {
        let agent = self.agent(host);
        crate::capture::signal(agent.pid(), "TERM");
        let mut code = None;
        wait("it ends", || {
            code = agent.code();
            code.map(drop).ok_or_else(|| agent.said())
        });
        code.unwrap_or_default()
    }

    /// Restarts it like a supervisor.
    pub fn start_agent(&mut self, host: &str, env: &[(&str, &str)]) {
        let agent = self.agents.get_mut(host).expect("an agent");
        agent.process = run_agent(self.bed, host, &agent.arguments, env);
    }

    pub fn agent(&mut self, host: &str) -> &mut Process {
        &mut self.agents.get_mut(host).expect("an agent").process
    }

    /// `kill -9` of the server.
    pub fn kill_server(&mut self) {
        self.server.kill();
    }

    /// Restarts it like a supervisor.
    pub fn start_server(&mut self) {
        self.server = serve(self.bed, &self.data);
        wait_for_port(&self.bed.ns(SERVER_HOST), "127.0.0.1", 7979);
    }

    pub fn server(&self) -> &Process {
        &self.server
    }

    /// Revokes an agent's token.
    pub fn revoke(&self, host: &str) {
        let (status, answer) = self.api(
            "DELETE",
            &format!("/tokens/{}", self.agents[host].token),
            None,
        );
        assert_eq!(status, 204, "{answer}");
    }

    /// Gives an agent a new token, which it reads at its start.
    pub fn renew_token(&mut self, host: &str) {
        let token = self.new_token(host);
        self.agents.get_mut(host).expect("an agent").token = token;
    }

    fn new_token(&self, host: &str) -> u64 {
        let (status, made) = self.api(
            "POST",
            "/tokens",
            Some(json!({"name": host, "role": "agent"})),
        );
        assert_eq!(status, 201, "{made}");
        let secret = made["secret"].as_str().expect("a secret");
        std::fs::write(self.bed.path(&format!("{host}.token")), secret).expect("written");
        made["id"].as_u64().expect("a number")
    }

    fn admin_token(&self) -> PathBuf {
        self.data.join("admin.token")
    }

    /// Response of the API: status and body.
    pub fn api(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let secret = std::fs::read_to_string(self.admin_token()).expect("the first token");
        let mut curl = within(&self.bed.ns(SERVER_HOST), "curl");
        curl.args([
            "-sS",
            "-X",
            method,
            "-w",
            "\n%{http_code}",
            &format!("{URL}/api/v1{path}"),
        ]);
        curl.args(["-H", &format!("Authorization: Bearer {}", secret.trim())]);
        if let Some(body) = body {
            curl.args([
                "-H",
                "Content-Type: application/json",
                "-d",
                &body.to_string(),
            ]);
        }
        let output = curl.output().expect("curl runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let (body, status) = text.rsplit_once('\n').unwrap_or_default();
        (
            status.parse().unwrap_or(0),
            serde_json::from_str(body).unwrap_or_default(),
        )
    }

    /// Output of a client command; empty if the server was just killed.
    pub fn ask(&self, args: &[&str]) -> String {
        let mut command = within(&self.bed.ns(SERVER_HOST), BINARY);
        command
            .args(args)
            .args(["--server", URL, "--format", "jsonl", "--token-file"])
            .arg(self.admin_token());
        let output = command.output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn rows_of(&self, args: &[&str]) -> Vec<Value> {
        self.ask(args)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }

    /// Starts a standing job on agents with a label; returns its number.
    pub fn job(&self, query: &str, (label, value): (&str, &str)) -> String {
        let body =
            json!({"query": query, "kind": "standing", "on": {label: value}, "redact": false});
        let (status, job) = self.api("POST", "/jobs", Some(body));
        assert_eq!(status, 201, "{job}");
        job["id"].as_str().expect("a number").to_owned()
    }

    /// All rows of a job.
    pub fn rows(&self, job: &str) -> Vec<Value> {
        self.rows_of(&["jobs", "results", job])
    }

    /// Reason of a job's problem.
    pub fn reason(&self, job: &str) -> String {
        let shown = self.rows_of(&["jobs", "show", job]);
        shown
            .first()
            .and_then(|job| job["reason"].as_str())
            .unwrap_or_default()
            .to_owned()
    }

    /// The state of a job.
    pub fn state(&self, job: &str) -> String {
        let shown = self.rows_of(&["jobs", "show", job]);
        shown
            .first()
            .and_then(|job| job["state"].as_str())
            .unwrap_or_default()
            .to_owned()
    }

    /// API view of an agent.
    pub fn seen(&self, host: &str) -> Value {
        let (_, told) = self.api("GET", "/agents", None);
        let agents = told["agents"].as_array().cloned().unwrap_or_default();
        agents
            .into_iter()
            .find(|agent| agent["name"] == host)
            .unwrap_or_default()
    }

    /// Waits until the agent is connected.
    pub fn wait_for_agent(&self, host: &str) {
        wait(
            &format!("agent {host} comes"),
            || match self.seen(host)["connected"].as_bool() {
                Some(true) => Ok(()),
                _ => Err(self.seen(host).to_string()),
            },
        );
    }
}

fn serve(bed: &Bed, data: &std::path::Path) -> Process {
    let data = data.display().to_string();
    let arguments = [
        BINARY,
        "serve",
        "--listen",
        "127.0.0.1:7979",
        "--data",
        &data,
        "-v",
    ];
    Process::start(bed, SERVER_HOST, "server", &arguments, &[])
}

fn run_agent(bed: &Bed, host: &str, arguments: &[String], env: &[(&str, &str)]) -> Process {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    Process::start(bed, host, &format!("agent-{host}"), &arguments, env)
}

/// Relays an address of a host, port 7979, to another one.
fn wire(bed: &Bed, host: &str, listen: &str, to: &str) -> Process {
    let listen = format!("TCP-LISTEN:7979,bind={listen},fork,reuseaddr");
    Process::start(
        bed,
        host,
        &format!("wire-{host}"),
        &["socat", &listen, &format!("TCP:{to}")],
        &[],
    )
}

/// Child processes of `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let output = Command::new("pgrep")
        .args(["-P", &pid.to_string()])
        .output()
        .expect("pgrep runs");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

/// Whether the process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Polls until `is_so` succeeds; panics with its last error.
pub fn wait(what: &str, mut is_so: impl FnMut() -> Result<(), String>) {
    let end = Instant::now() + PATIENCE;
    while let Err(seen) = is_so() {
        assert!(Instant::now() < end, "{what}: {seen}");
        std::thread::sleep(Duration::from_millis(200));
    }
}

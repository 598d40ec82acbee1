//! A server with a network: agents on the bed's spare hosts, and switches that mirror to them while a job runs, despite
//! kills. Expected values are counts of captures at the servers.

use std::fs::File;
use std::net::TcpStream;
use std::path::Path;

use serde_json::json;

use super::copied::{LIMITED, covers_limit};
use super::discovered::EVERYBODY;
use super::traffic::HostTraffic;
use super::*;

const QUERY: &str = "PARSE tcp_conn_time TO 10.60.2.1:8000, 10.60.3.1:8000 PROCESS (diff-group: group=srcIP, destIP)";
const OF_DB: &str =
    "PARSE tcp_conn_time TO 10.60.3.1:8000 PROCESS (diff-group: group=srcIP, destIP)";
/// Lifetime of rules without renewal; `planner::physical::LEASE`.
const LEASE: std::time::Duration = std::time::Duration::from_secs(10);
const SPARE: [&str; 2] = ["spare2", "spare3"];

struct Served<'b> {
    bed: &'b TestBed,
    port: u16,
    server: Option<TestProgram>,
    others: Vec<TestProgram>,
}

impl<'b> Served<'b> {
    /// Prepares a server on a bed without servers; also returns a network file whose monitors are agents.
    fn on(bed: &'b TestBed) -> (Served<'b>, String) {
        bed.run(&["up"], &[("SERVERS", "none")]);
        let network = by_agents(&fs::read_to_string(bed.path("network.toml")).expect("a network"));
        let served = Served {
            bed,
            port: free_port(),
            server: None,
            others: Vec::new(),
        };
        (served, network)
    }

    /// A file next to the bed.
    fn path(&self, name: &str) -> String {
        self.bed.sdn.path().join(name).display().to_string()
    }

    fn program(&self, mut command: Command, name: &str) -> TestProgram {
        let said = File::create(self.path(&format!("{name}.said"))).expect("a file");
        TestProgram(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(said)
                .spawn()
                .expect("it starts"),
        )
    }

    /// Starts the server with a network file.
    fn serve(&mut self, network: &str) {
        fs::write(self.path("network.toml"), network).expect("a file");
        let mut command = Command::new(BINARY);
        command.args([
            "serve",
            "--listen",
            &format!("127.0.0.1:{}", self.port),
            "--data",
            &self.path("data"),
        ]);
        command.args(["--network", &self.path("network.toml"), "-v"]);
        self.server = Some(self.program(command, "server"));
        wait_for("the server", || {
            TcpStream::connect(("127.0.0.1", self.port))
                .map(drop)
                .map_err(|why| {
                    format!(
                        "{why} {}",
                        fs::read_to_string(self.path("server.said")).unwrap_or_default()
                    )
                })
        });
    }

    fn kill_server(&mut self) {
        self.server.take().expect("it runs").kill();
    }

    /// An agent on a spare host, which reaches the server through two relays.
    fn add_agent(&mut self, host: &str) {
        let ns = format!("{}{host}", self.bed.prefix());
        let port = self.port;
        shell(&ns, "ip link set lo up");
        let socket = self.path(&format!("{host}.socket"));
        let mut outer = Command::new("socat");
        outer.args([
            &format!("UNIX-LISTEN:{socket},fork"),
            &format!("TCP:127.0.0.1:{port}"),
        ]);
        let mut inner = within(&ns, "socat");
        inner.args([
            &format!("TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr"),
            &format!("UNIX-CONNECT:{socket}"),
        ]);
        let (status, made) = self.api("POST", "/tokens", &json!({"name": host, "role": "agent"}));
        assert_eq!(status, 201, "{made}");
        let token = self.path(&format!("{host}.token"));
        fs::write(&token, made["secret"].as_str().expect("a secret")).expect("a file");
        let mut agent = within(&ns, BINARY);
        agent.args([
            "agent",
            "--server",
            &format!("http://127.0.0.1:{port}"),
            "--name",
            host,
        ]);
        agent.args([
            "--token-file",
            &token,
            "--folder",
            &self.path(&format!("{host}.agent")),
            "-v",
        ]);
        for (command, name) in [(outer, "outer"), (inner, "inner"), (agent, "agent")] {
            let started = self.program(command, &format!("{host}.{name}"));
            self.others.push(started);
        }
    }

    fn api(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let secret = fs::read_to_string(self.path("data/admin.token")).expect("the first token");
        let mut curl = Command::new("curl");
        curl.args(["-sS", "-X", method, "-w", "\n%{http_code}"]);
        curl.arg(format!("http://127.0.0.1:{}/api/v1{path}", self.port));
        curl.args(["-H", &format!("Authorization: Bearer {}", secret.trim())]);
        if !body.is_null() {
            curl.args([
                "-H",
                "Content-Type: application/json",
                "-d",
                &body.to_string(),
            ]);
        }
        let text = String::from_utf8(curl.output().expect("curl").stdout).expect("text");
        let (body, status) = text.rsplit_once('\n').unwrap_or_default();
        (
            status.parse().unwrap_or(0),
            serde_json::from_str(body).unwrap_or_default(),
        )
    }

    /// Output of a client command.
    fn ask(&self, words: &[&str]) -> (Vec<Value>, String) {
        let mut command = Command::new(BINARY);
        command.args(words).args([
            "--server",
            &format!("http://127.0.0.1:{}", self.port),
            "--format",
            "jsonl",
        ]);
        let output = command
            .arg("--token-file")
            .arg(self.path("data/admin.token"))
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let rows = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        (rows, String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Starts a job in the network; returns its number.
    fn start(&self, query: &str) -> String {
        let (job, err) = self.ask(&["jobs", "start", query, "--standing", "--by-network"]);
        job.first()
            .and_then(|job| job["id"].as_str())
            .unwrap_or_else(|| panic!("{err}"))
            .to_owned()
    }

    /// Waits for a state of a job; returns its reason.
    fn wait(&self, job: &str, state: &str) -> String {
        wait_for(state, || {
            let shown = self.api("GET", &format!("/jobs/{job}"), &Value::Null).1;
            if shown["state"] == state {
                Ok(shown["reason"].as_str().unwrap_or_default().to_owned())
            } else {
                let said = |name: &str| fs::read_to_string(self.path(name)).unwrap_or_default();
                Err(format!(
                    "{shown} {} {}",
                    said("server.said"),
                    said("spare2.agent.said")
                ))
            }
        })
    }

    fn wait_for_agents(&self) {
        wait_for("the agents", || {
            let agents = self.api("GET", "/agents", &Value::Null).1;
            let here = agents["agents"].as_array().into_iter().flatten();
            let here = here.filter(|agent| agent["connected"] == true).count();
            (here == SPARE.len())
                .then_some(())
                .ok_or(agents.to_string())
        });
    }

    /// Leaves that mirror.
    fn copying(&self) -> Vec<&'static str> {
        LEAVES
            .into_iter()
            .filter(|leaf| !self.bed.copies(leaf).is_empty())
            .collect()
    }

    fn wait_for_no_copies(&self) {
        wait_for("the end of the lease", || {
            let left = self.copying();
            left.is_empty().then_some(()).ok_or(format!("{left:?}"))
        });
    }

    fn network(&self) -> Value {
        self.api("GET", "/network", &Value::Null).1
    }
}

/// The network file without programs at switches' ports, and with an agent on each spare host.
fn by_agents(network: &str) -> String {
    let line = |line: &str| match line
        .split("spare")
        .nth(1)
        .filter(|_| line.starts_with("via = "))
    {
        Some(rest) => format!("agent = \"spare{}\"", &rest[..1]),
        None => line.to_owned(),
    };
    without_sniffers(network)
        .lines()
        .map(line)
        .collect::<Vec<_>>()
        .join("\n")
}

fn rules(network: &Value, switch: &str) -> Vec<Value> {
    let switches = network["switches"].as_array().expect("switches");
    let found = switches
        .iter()
        .find(|of| of["name"] == switch)
        .expect("the switch");
    found["rules"].as_array().expect("rules").clone()
}

#[test]
fn a_server_has_its_agents_and_switches_answer() {
    testkit::require!("socat");
    let Some(bed) = TestBed::new() else { return };
    let (mut served, network) = Served::on(&bed);
    for host in ["app1", "db"] {
        let mut http = within(&format!("{}{host}", bed.prefix()), "python3");
        http.args(["-m", "http.server", "8000", "--directory"])
            .arg(Path::new("/proc/self/task"));
        let started = served.program(http, &format!("{host}.http"));
        served.others.push(started);
    }
    served.serve(&network);
    let (status, refused) = served.api("POST", "/jobs", &json!({"query": QUERY, "network": true}));
    assert_ne!(status, 201, "{refused}");
    let why = refused["message"].as_str().expect("why").to_owned();
    assert!(
        why.contains("agent spare2, which the network's file names, is not connected"),
        "{why}"
    );
    SPARE.iter().for_each(|host| served.add_agent(host));
    served.wait_for_agents();

    // The job runs when switches mirror, and has ended when none does; in between it counts the traffic.
    let first = served.start(QUERY);
    served.wait(&first, "running");
    assert_eq!(served.copying(), ["leaf2", "leaf3"]);
    let shown = served.network();
    assert!(rules(&shown, "leaf1").is_empty(), "{shown}");
    let rule = &rules(&shown, "leaf2")[0];
    assert_eq!(
        (&rule["job"], &rule["lease_seconds"]),
        (&json!(first), &json!(10)),
        "{rule}"
    );
    let plan = &shown["jobs"][0];
    assert_eq!(plan["job"], json!(first));
    let monitors = plan["monitors"].as_array().expect("monitors");
    let agents: Vec<_> = monitors
        .iter()
        .map(|of| (text(&of["agent"]), text(&of["switch"])))
        .collect();
    assert_eq!(
        agents,
        [pair("spare2", "leaf2"), pair("spare3", "leaf3")],
        "{shown}"
    );
    assert_eq!(plan["state"], "copying", "{plan}");
    assert!(text(&plan["proof"]).contains("proved for"), "{plan}");
    // Another job, with overlapping requests and its monitor on the same host.
    let beside = served.start(OF_DB);
    served.wait(&beside, "running");
    // Exploration runs concurrently, longer than leases. Hosts that receive copies are not probed.
    let explored = std::time::Instant::now();
    while explored.elapsed() < LEASE {
        let mut discover = Command::new(BINARY);
        discover
            .args(["network", "discover", "-q"])
            .args(EVERYBODY)
            .stdin(Stdio::null());
        for leaf in LEAVES {
            discover.args([
                "--switch",
                &format!(
                    "{leaf}=unix:{}",
                    bed.path(&format!("run/{leaf}/db.sock")).display()
                ),
            ]);
        }
        let Output {
            status,
            stdout,
            stderr,
        } = discover.output().expect("it starts");
        assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
        assert!(
            String::from_utf8_lossy(&stdout).contains("10.60.2.1"),
            "the server on leaf2"
        );
    }
    for job in [&first, &beside] {
        assert_eq!(served.wait(job, "running"), "");
    }
    assert_eq!(served.copying(), ["leaf2", "leaf3"]);
    let at =
        |host: &str| Capture::start(&format!("{}{host}", bed.prefix()), QUERY, &["-i", "eth0"]);
    let own = [at("app1"), at("db")];
    let load = "for i in $(seq 20); do curl -sf http://10.60.2.1:8000/ >&2 && curl -sf http://10.60.3.1:8000/ >&2; done";
    shell(&format!("{}client1", bed.prefix()), load);
    shell(
        &format!("{}client2", bed.prefix()),
        "for i in $(seq 7); do curl -sf http://10.60.3.1:8000/ >&2; done",
    );
    served.api("DELETE", &format!("/jobs/{first}"), &Value::Null);
    assert_eq!(served.wait(&first, "ended"), "it was stopped");
    assert_eq!(served.copying(), ["leaf3"]);
    served.api("DELETE", &format!("/jobs/{beside}"), &Value::Null);
    served.wait(&beside, "ended");
    assert_eq!(served.copying(), [""; 0]);
    let rows = served.ask(&["jobs", "results", &first]).0;
    let [app1, db] = own.map(|capture| capture.interrupt().rows);
    assert_eq!(
        numbers(&served.ask(&["jobs", "results", &beside]).0, "count"),
        numbers(&db, "count")
    );
    let own: Vec<Value> = [app1, db].concat();
    assert_eq!(numbers(&rows, "count"), numbers(&own, "count"));
    assert_eq!(
        numbers(&rows, "count").values().sum::<u64>(),
        47,
        "{rows:?}"
    );

    // After a kill and restart the job continues, and the rules have the same owner.
    let second = served.start(QUERY);
    served.wait(&second, "running");
    let before = rules(&served.network(), "leaf3");
    served.kill_server();
    served.serve(&network);
    served.wait(&second, "running");
    wait_for("the rules", || {
        let now = rules(&served.network(), "leaf3");
        (now == before).then_some(()).ok_or(format!("{now:?}"))
    });
    // A foreign rule above ours is detected at the next renewal.
    bed.add_foreign_rule("leaf3", 8000);
    let why = served.wait(&second, "ended");
    assert!(
        why.starts_with("switches no longer copy packets: switch leaf3: "),
        "{why}"
    );
    assert_eq!(served.copying(), [""; 0]);
    bed.remove_foreign_rule("leaf3", 8000);

    // After a final kill, rules expire with their leases. Hosts without capacity get no monitor.
    let third = served.start(QUERY);
    served.wait(&third, "running");
    assert_eq!(served.copying(), ["leaf2", "leaf3"]);
    served.kill_server();
    served.wait_for_no_copies();
    served.serve(&network.replace("used = 0.0", "used = 0.9999"));
    let why = served.wait(&third, "ended");
    assert!(
        why.contains("after the restart of the server, no plan"),
        "{why}"
    );
    let (status, refused) = served.api("POST", "/jobs", &json!({"query": QUERY, "network": true}));
    assert_ne!(status, 201, "{refused}");
    let why = refused["message"].as_str().expect("why").to_owned();
    assert!(
        why.contains("has capacity for one: ") && why.contains(" cores"),
        "{why}"
    );
    assert_eq!(served.network()["jobs"], json!([]));
}

#[test]
fn a_limit_of_time_of_a_job_counts_from_the_start_of_copying() {
    testkit::require!("socat");
    let Some(bed) = TestBed::new() else { return };
    let (mut served, network) = Served::on(&bed);
    served.serve(&network);
    SPARE.iter().for_each(|host| served.add_agent(host));
    served.wait_for_agents();
    let traffic = HostTraffic::start(&bed);
    let job = served.start(LIMITED);
    let why = served.wait(&job, "ended");
    assert_eq!(why, "it reached its time limit");
    traffic.end(&bed);
    covers_limit(served.ask(&["jobs", "results", &job]).0);
}

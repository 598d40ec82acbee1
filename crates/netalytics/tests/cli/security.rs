//! Authentication, as processes: TLS, agents' certificates from the one-time token to revocation, and the errors at
//! both ends. Checked with curl and openssl; wrong clocks by libfaketime.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::service::wait;
use super::{BINARY, Folder, ROOT, Ran, check, run};

/// A process killed at the end of the test, with its messages.
pub(super) struct Heard {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Heard {
    pub(super) fn start(program: &[&str], args: &[&str]) -> Heard {
        let mut command = Command::new(program[0]);
        command
            .args(&program[1..])
            .args(args)
            .current_dir(ROOT)
            .env_remove("NETALYTICS_TOKEN");
        Heard::of(&mut command)
    }

    fn of(command: &mut Command) -> Heard {
        // faketime stays the parent of its program: both are in one process group, and end together.
        let command = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().expect("it runs");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (said, told) = (
            BufReader::new(child.stderr.take().expect("piped")),
            lines.clone(),
        );
        std::thread::spawn(move || {
            said.lines()
                .map_while(Result::ok)
                .for_each(|line| told.lock().expect("whole").push(line));
        });
        Heard { child, lines }
    }

    /// Waits for the first line with these words.
    pub(super) fn says(&self, words: &str) -> String {
        let find = || self.all().into_iter().find(|line| line.contains(words));
        wait(words, || {
            find().map(drop).ok_or_else(|| self.all().join("\n"))
        });
        find().unwrap_or_default()
    }

    pub(super) fn all(&self) -> Vec<String> {
        self.lines.lock().expect("whole").clone()
    }

    fn count(&self, words: &str) -> usize {
        self.all()
            .iter()
            .filter(|line| line.contains(words))
            .count()
    }

    pub(super) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .args(["-KILL", "--", &format!("-{}", self.child.id())])
            .status();
        let _ = self.child.wait();
    }
}

/// A TLS server with an admin.
pub(super) struct Server {
    pub process: Heard,
    pub url: String,
    /// Data directory.
    pub data: String,
    pub ca: String,
}

impl Server {
    pub(super) fn start(folder: &Folder, name: &str, more: &[&str]) -> Server {
        Server::under(&[], folder, name, &[&["--tls"], more].concat())
    }

    /// Started by another program.
    fn under(program: &[&str], folder: &Folder, name: &str, more: &[&str]) -> Server {
        let data = folder.path(name);
        let listen: &[&str] = if more.contains(&"--listen") {
            &[]
        } else {
            &["--listen", "127.0.0.1:0"]
        };
        let process = Heard::start(
            &[program, &[BINARY]].concat(),
            &[&["serve", "--data", &data], listen, more].concat(),
        );
        let line = process.says("serving on https://");
        let url = line
            .trim_start_matches("serving on ")
            .split(';')
            .next()
            .unwrap_or_default()
            .to_owned();
        let ca = folder.file(
            &format!("{name}.pem"),
            check(&["serve", "ca", "--data", &data], 0, &[])
                .out
                .as_bytes(),
        );
        Server {
            process,
            url,
            data,
            ca,
        }
    }

    pub(super) fn ask(&self, args: &[&str]) -> Ran {
        let token = format!("{}/admin.token", self.data);
        run(&[
            args,
            &[
                "--server",
                &self.url,
                "--token-file",
                &token,
                "--ca",
                &self.ca,
            ],
        ]
        .concat())
    }

    pub(super) fn rows(&self, args: &[&str]) -> Vec<Value> {
        let ran = self.ask(&[args, &["--format", "jsonl"]].concat());
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        ran.out
            .lines()
            .map(|line| serde_json::from_str(line).expect("a row"))
            .collect()
    }

    fn one_time_token(&self, folder: &Folder, agent: &str) -> String {
        let ran = self.ask(&["agents", "enrol", agent]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        folder.file(&format!("{agent}.token"), ran.out.as_bytes())
    }

    /// An agent's folder with a certificate.
    pub(super) fn enrolled(&self, folder: &Folder, agent: &str) -> String {
        let (token, own) = (self.one_time_token(folder, agent), folder.path(agent));
        let enrol = [
            "agent",
            "enrol",
            "--server",
            &self.url,
            "--token-file",
            &token,
            "--folder",
            &own,
        ];
        check(
            &enrol,
            0,
            &[&format!(
                "this host is agent {agent}; its certificate is valid until"
            )],
        );
        own
    }

    fn agent(&self, own: &str) -> Heard {
        self.agent_under(&[], own)
    }

    fn agent_under(&self, program: &[&str], own: &str) -> Heard {
        let args = [
            "agent",
            "-v",
            "--server",
            &self.url,
            "--folder",
            own,
            "--demo",
            "captures/shop/in.pcap",
        ];
        Heard::start(&[program, &[BINARY]].concat(), &args)
    }

    pub(super) fn is_connected(&self, agent: &str) -> Result<bool, String> {
        let agents = self.rows(&["agents"]);
        let found = agents.iter().find(|known| known["name"] == agent);
        found
            .map(|known| known["connected"] == true)
            .ok_or_else(|| format!("{agents:?}"))
    }
}

/// Output of a program, if successful.
fn printed(program: &str, args: &[&str]) -> Result<String, String> {
    let ran = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .expect("it is installed");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if ran.status.success() {
        Ok(text(ran.stdout))
    } else {
        Err(text(ran.stderr))
    }
}

fn has_ended(certificate: &str) -> bool {
    printed(
        "openssl",
        &["x509", "-in", certificate, "-noout", "-checkend", "0"],
    )
    .is_err()
}

#[test]
fn an_agent_enrols_renews_and_is_revoked() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &["--agent-certificates", "6s"]);
    let host = server.url.trim_start_matches("https://").to_owned();
    // Other clients accept the server.
    let health = format!("{}/api/v1/health", server.url);
    assert!(
        printed("curl", &["-sSf", "--cacert", &server.ca, &health])
            .expect("an answer")
            .contains("ok")
    );
    assert!(
        printed("curl", &["-sSf", &health])
            .expect_err("not trusted")
            .contains("certificate")
    );
    let plain = printed("curl", &["-sS", &health.replace("https", "http")]).expect("an answer");
    assert!(plain.contains("https://"), "{plain}");
    let seen = printed(
        "openssl",
        &["s_client", "-connect", &host, "-CAfile", &server.ca],
    )
    .expect("TLS");
    for words in [
        "TLSv1.3",
        "Verify return code: 0 (ok)",
        "Acceptable client certificate CA names",
    ] {
        assert!(seen.contains(words), "{seen}");
    }
    assert!(!seen.contains("New Session Ticket arrived"), "{seen}");
    let old = printed(
        "openssl",
        &[
            "s_client", "-connect", &host, "-CAfile", &server.ca, "-tls1_2",
        ],
    );
    old.expect_err("TLS 1.3 only");

    let own = server.enrolled(&folder, "web-1");
    let identity = format!("{own}/identity.pem");
    assert_eq!(
        fs::metadata(&identity).expect("there").permissions().mode() & 0o777,
        0o600
    );
    let subject = printed(
        "openssl",
        &[
            "x509",
            "-in",
            &identity,
            "-noout",
            "-subject",
            "-ext",
            "extendedKeyUsage",
        ],
    );
    let subject = subject.expect("a certificate");
    assert!(
        subject.contains("CN = web-1") && subject.contains("Client Authentication"),
        "{subject}"
    );
    printed("openssl", &["verify", "-CAfile", &server.ca, &identity])
        .expect("signed by the authority");
    // The token was valid once.
    let token = folder.path("web-1.token");
    let again = [
        "agent",
        "enrol",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--folder",
        &own,
    ];
    check(&again, 1, &["there is no such one-time token"]);
    // A certificate is valid only for an agent's connection.
    let jobs = format!("{}/api/v1/jobs", server.url);
    let curl = ["-sS", "--cacert", &server.ca, "--cert", &identity, &jobs];
    assert!(
        printed("curl", &curl)
            .expect("an answer")
            .contains("unauthorized")
    );

    let first = folder.file("first.pem", &fs::read(&identity).expect("there"));
    let agent = server.agent(&own);
    wait("it connects", || {
        server
            .is_connected("web-1")?
            .then_some(())
            .ok_or_else(|| agent.all().join("\n"))
    });
    let job = server.rows(&[
        "jobs",
        "start",
        "PARSE http PROCESS (count: w=1s)",
        "--standing",
    ]);
    let job = job[0]["id"].as_str().expect("a number").to_owned();
    wait("rows come", || {
        match server.rows(&["jobs", "results", &job]).len() {
            0 => Err(agent.all().join("\n")),
            _ => Ok(()),
        }
    });
    wait("its first certificate ends", || {
        has_ended(&first).then_some(()).ok_or_else(String::new)
    });
    agent.says("new certificate, valid until");
    assert!(!has_ended(&identity));
    assert_eq!(
        agent.count("has accepted this agent"),
        1,
        "{:?}",
        agent.all()
    );
    assert_eq!(server.is_connected("web-1"), Ok(true));

    assert_eq!(server.ask(&["agents", "revoke", "web-1"]).code, 0);
    wait("it is cut", || match server.is_connected("web-1")? {
        true => Err("it is connected".into()),
        false => Ok(()),
    });
    agent.says("answers 403 Forbidden: agent web-1 was revoked");
    server
        .process
        .says("the connection of agent web-1 is closed: agent web-1 was revoked");
    let enrolled = server.rows(&["agents", "enrolled"]);
    assert!(
        enrolled[0]["agent"] == "web-1" && enrolled[0]["revoked"].is_string(),
        "{enrolled:?}"
    );
    drop(agent);
    // It needs a new token to enroll again.
    let own = server.enrolled(&folder, "web-1");
    let agent = server.agent(&own);
    wait("it is back", || {
        server
            .is_connected("web-1")?
            .then_some(())
            .ok_or_else(|| agent.all().join("\n"))
    });
    let by_old = format!("{}/api/v1/renew", server.url);
    let curl = [
        "-sS", "--cacert", &server.ca, "--cert", &first, "-X", "POST", &by_old,
    ];
    // openssl considers a certificate expired from its last second on, RFC 5280 after it.
    wait("a certificate that has ended ends the handshake", || {
        printed("curl", &curl)
            .err()
            .map(drop)
            .ok_or_else(String::new)
    });
}

#[test]
fn what_is_not_good_is_told_at_both_ends() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        "server",
        &["--listen", "0.0.0.0:0", "--agent-certificates", "1h"],
    );
    let at = |ip: &str| server.url.replace("0.0.0.0", ip);
    let server = Server {
        url: at("127.0.0.1"),
        ..server
    };
    let other = Server::start(&folder, "other", &[]);
    let own = server.enrolled(&folder, "web-1");
    let stranger = other.enrolled(&folder, "stranger");
    // It trusts the server, but not vice versa.
    let half = other.enrolled(&folder, "half");
    fs::copy(&server.ca, format!("{half}/ca.pem")).expect("copied");
    // The server issues very short certificates.
    let brief = Server::start(&folder, "brief", &["--agent-certificates", "1s"]);
    let ended = brief.enrolled(&folder, "ended");
    wait("it ends", || {
        has_ended(&format!("{ended}/identity.pem"))
            .then_some(())
            .ok_or_else(String::new)
    });
    let behind = ["faketime", "-f", "-1d"];
    let ahead = ["faketime", "-f", "+40d"];
    for (server, program, own, agent_says, server_says) in [
        (
            &server,
            &[][..],
            &stranger,
            "the server's certificate was signed by an authority that is not trusted here",
            "the client does not trust the authority that signed this server's certificate",
        ),
        (
            &server,
            &[],
            &half,
            "the server does not trust the authority that signed this host's certificate",
            "the client's certificate was signed by an authority that is not trusted here",
        ),
        (
            &brief,
            &[],
            &ended,
            "the server rejects this host's certificate: it has expired, or is not valid yet by its clock",
            "the client's certificate has expired: it was valid until",
        ),
        (
            &server,
            &behind,
            &own,
            "the server's certificate is not valid yet: it is valid from",
            "the client rejects this server's certificate: it has expired, or is not valid yet by its clock",
        ),
        (
            &server,
            &ahead,
            &own,
            "the server's certificate has expired: it was valid until",
            "the client rejects this server's certificate: it has expired, or is not valid yet by its clock",
        ),
    ] {
        let agent = server.agent_under(program, own);
        assert!(
            agent.says(agent_says).contains("https://"),
            "{:?}",
            agent.all()
        );
        server.process.says(server_says);
    }
    // With a host name that is not in the certificate.
    let elsewhere = Heard::start(
        &[BINARY],
        &["agent", "--server", &at("127.0.0.9"), "--folder", &own],
    );
    elsewhere.says("not for 127.0.0.9");
    // The name is that of the certificate.
    let called = [
        "agent",
        "--server",
        &server.url,
        "--folder",
        &own,
        "--name",
        "db-1",
    ];
    check(
        &called,
        2,
        &["this host is enrolled as web-1, but its name here is db-1"],
    );
    // Without an authority, or with another one, the token is not sent.
    let token = format!("{}/admin.token", server.data);
    let asked = ["agents", "--server", &server.url, "--token-file", &token];
    check(
        &asked,
        1,
        &["was signed by an authority that is not trusted here; --ca FILE"],
    );
    check(
        &[&asked[..], &["--ca", &other.ca]].concat(),
        1,
        &["an authority that is not trusted here"],
    );
    // The server's clock is slow: agents' certificates are in its future.
    let Server { process, data, .. } = server;
    drop(process);
    let slow = Server::under(&behind, &folder, "server", &["--tls"]);
    assert_eq!(slow.data, data);
    let agent = slow.agent(&own);
    agent
        .says("the server rejects this host's certificate: it has expired, or is not valid yet by its clock");
    slow.process
        .says("the client's certificate is not valid yet: it is valid from");
}

#[test]
fn the_operators_certificate_is_read_anew_and_nobody_is_cut() {
    let folder = Folder::new();
    let [ca_key, ca, key, chain] =
        ["ca.key", "ca.pem", "key.pem", "chain.pem"].map(|name| folder.path(name));
    let subject = [
        "-subj",
        "/CN=operator",
        "-days",
        "2",
        "-newkey",
        "rsa:2048",
        "-nodes",
    ];
    let make = [
        &["req", "-x509", "-keyout", &ca_key, "-out", &ca],
        &subject[..],
    ]
    .concat();
    printed("openssl", &make).expect("an authority");
    let issue = || {
        let names = [
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-days",
            "2",
        ];
        let signed = [
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ];
        let files = [
            "req",
            "-x509",
            "-keyout",
            &key,
            "-out",
            &chain,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ];
        printed("openssl", &[&files[..], &names, &signed].concat()).expect("a certificate");
        printed("openssl", &["x509", "-in", &chain, "-noout", "-serial"]).expect("its number")
    };
    let first = issue();
    let server = Server::under(
        &[],
        &folder,
        "server",
        &["--tls-cert", &chain, "--tls-key", &key],
    );
    let server = Server {
        ca: ca.clone(),
        ..server
    };
    let host = server.url.trim_start_matches("https://").to_owned();
    let shown = || {
        let seen =
            printed("openssl", &["s_client", "-connect", &host, "-CAfile", &ca]).expect("TLS");
        assert!(seen.contains("Verify return code: 0 (ok)"), "{seen}");
        printed(
            "openssl",
            &[
                "x509",
                "-in",
                &folder.file("shown.pem", seen.as_bytes()),
                "-noout",
                "-serial",
            ],
        )
    };
    assert_eq!(shown(), Ok(first.clone()));
    // The token of such a server names no authority: the operator's is given.
    let (token, own) = (
        server.one_time_token(&folder, "web-1"),
        folder.path("web-1"),
    );
    let enrol = [
        "agent",
        "enrol",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--folder",
        &own,
    ];
    check(
        &enrol,
        1,
        &["was signed by an authority that is not trusted here"],
    );
    check(
        &[&enrol[..], &["--ca", &ca]].concat(),
        0,
        &["this host is agent web-1"],
    );
    let agent = server.agent(&own);
    agent.says("has accepted this agent");
    let second = issue();
    assert_ne!(first, second);
    server.process.signal("HUP");
    wait("the new one is shown", || {
        (shown()? == second)
            .then_some(())
            .ok_or_else(|| second.clone())
    });
    // An unusable one changes nothing.
    fs::write(&chain, "nonsense").expect("written");
    server.process.signal("HUP");
    server.process.says("the certificate is not replaced");
    assert_eq!(shown(), Ok(second));
    assert_eq!(server.is_connected("web-1"), Ok(true));
    assert_eq!(
        agent.count("has accepted this agent"),
        1,
        "{:?}",
        agent.all()
    );
}

#[test]
fn nothing_travels_in_clear_unless_somebody_says_so() {
    check(
        &["serve", "--listen", "0.0.0.0:0"],
        2,
        &[
            "is reachable from other machines",
            "--tls",
            "--insecure-http",
        ],
    );
    check(
        &["serve", "--listen", "[::]:0"],
        2,
        &["is reachable from other machines"],
    );
    check(&["serve", "--tls-cert", "chain.pem"], 2, &["--tls-key"]);
    check(
        &["serve", "--tls", "--insecure-http"],
        2,
        &["cannot be used with"],
    );
    let folder = Folder::new();
    let (data, none) = (folder.path("server"), folder.path("none.pem"));
    check(
        &[
            "serve",
            "--data",
            &data,
            "--tls-cert",
            &none,
            "--tls-key",
            &none,
        ],
        1,
        &["cannot read", "none.pem"],
    );
    let listen = [
        "serve",
        "--data",
        &data,
        "--listen",
        "0.0.0.0:0",
        "--insecure-http",
    ];
    Heard::start(&[BINARY], &listen).says("serving on http://0.0.0.0");
}

/// Commands in a document's blocks, one per line.
fn commands(document: &str) -> Vec<&str> {
    let blocks = document.split("```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.strip_prefix("sh\n"))
        .flat_map(str::lines)
        .collect()
}

#[test]
fn five_commands_set_up_tls() {
    let folder = Folder::new();
    // The port was just allocated, and is used immediately.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|taken| taken.local_addr())
        .expect("a port");
    let (bin, data) = (
        std::path::Path::new(BINARY).parent().expect("a folder"),
        folder.path("srv"),
    );
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").expect("a path")
    );
    let shell = |line: &str| {
        let line = line
            .replace("0.0.0.0:7979", &free.to_string())
            .replace("7979", &free.port().to_string())
            .replace("netalytics.example", "localhost")
            .replace("/srv/netalytics", &data);
        let mut command = Command::new("bash");
        command
            .args(["-c", &line])
            .current_dir(folder.path("."))
            .env("PATH", &path)
            .env("HOME", folder.path("home"));
        command
            .env_remove("NETALYTICS_TOKEN")
            .env_remove("XDG_STATE_HOME");
        command
    };
    let commands = commands(include_str!("../../../../docs/security.md"));
    let [serve, ca, invite, enrol, agent] = commands[..] else {
        panic!("five commands: {commands:?}")
    };
    let served = Heard::of(&mut shell(&format!("exec {serve}")));
    served.says("serving on https://");
    for line in [ca, invite, enrol] {
        let ran = shell(line).output().expect("a shell");
        assert!(
            ran.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    let agent = Heard::of(&mut shell(&format!("exec {agent} -v")));
    agent.says("has accepted this agent");
    let listed = format!(
        "netalytics agents --server https://localhost:{} --ca ca.pem --token-file {data}/admin.token",
        free.port()
    );
    let listed = shell(&listed).output().expect("a shell");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("web-1  true"), "{listed}");
}

#[test]
fn tokens_are_made_listed_and_revoked_and_the_log_tells() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let made = server.ask(&[
        "tokens",
        "create",
        "shop",
        "--role",
        "run",
        "--network",
        "10.1.0.0/16",
        "--expires",
        "1h",
    ]);
    assert_eq!(made.code, 0, "{}", made.err);
    let secret = folder.file("shop.token", made.out.as_bytes());
    let asked = [
        "jobs",
        "--server",
        &server.url,
        "--ca",
        &server.ca,
        "--token-file",
        &secret,
    ];
    check(&asked, 0, &[]);
    let listed = server.rows(&["tokens"]);
    let shop = listed
        .iter()
        .find(|token| token["name"] == "shop")
        .expect("it is listed");
    assert!(
        shop["role"] == "run"
            && shop["networks"][0] == "10.1.0.0/16"
            && shop["expires"].is_string(),
        "{shop}"
    );
    assert_eq!(server.ask(&["tokens", "revoke", "shop"]).code, 0);
    assert_eq!(server.ask(&["tokens", "revoke", "shop"]).code, 1);
    check(&asked, 2, &["there is no such token, or it was revoked"]);
    let log = server.rows(&["audit", "--limit", "2"]);
    let acts: Vec<_> = log
        .iter()
        .map(|entry| (entry["act"].as_str(), entry["object"].as_str()))
        .collect();
    assert_eq!(
        acts,
        [
            (Some("token.revoke"), Some("shop")),
            (Some("token.create"), Some("shop"))
        ]
    );
    // An agent with a token is disconnected, too, when that is revoked.
    let made = server.ask(&["tokens", "create", "db-1", "--role", "agent"]);
    let secret = folder.file("db-1.token", made.out.as_bytes());
    let own = folder.path("db-1");
    let agent = [
        "agent",
        "-v",
        "--server",
        &server.url,
        "--ca",
        &server.ca,
        "--token-file",
        &secret,
        "--name",
        "db-1",
    ];
    let agent = Heard::start(&[BINARY], &[&agent[..], &["--folder", &own]].concat());
    agent.says("has accepted this agent");
    assert_eq!(server.ask(&["tokens", "revoke", "db-1"]).code, 0);
    server
        .process
        .says("the connection of agent db-1 is closed");
    agent.says("answers 401 Unauthorized: there is no such token, or it was revoked");
}

#[test]
fn a_demonstration_has_tls_too() {
    let folder = Folder::new();
    let [key, chain] = ["key.pem", "chain.pem"].map(|name| folder.path(name));
    let names = [
        "-subj",
        "/CN=demo.example",
        "-addext",
        "subjectAltName=DNS:demo.example,IP:127.0.0.1",
    ];
    let make = [
        "req",
        "-x509",
        "-days",
        "2",
        "-nodes",
        "-newkey",
        "rsa:2048",
        "-addext",
        "basicConstraints=CA:FALSE",
    ];
    let files = ["-keyout", &key, "-out", &chain];
    printed("openssl", &[&make[..], &names, &files].concat()).expect("a certificate");
    let given = ["--tls-cert", &chain, "--tls-key", &key];
    // With the operator's certificate, clients need its authority.
    for (flags, more) in [(&["--tls"][..], &[][..]), (&given, &["--ca", &chain])] {
        let args = [&["serve", "--demo", "--listen", "127.0.0.1:0"], flags].concat();
        let process = Heard::start(&[BINARY], &args);
        let line = process.says("in ten seconds: netalytics ");
        let command = line.split_once("netalytics ").expect("a command").1;
        assert!(command.contains("--server https://127.0.0.1:"), "{line}");
        let words: Vec<&str> = command
            .split_whitespace()
            .chain(more.iter().copied())
            .chain(["--format", "jsonl"])
            .collect();
        wait("there are rows", || {
            let ran = run(&words);
            if ran.out.contains("/checkout") {
                Ok(())
            } else {
                Err(ran.out + &ran.err)
            }
        });
    }
}

#[test]
fn an_authority_that_is_shown_as_a_hosts_certificate_is_told_in_words() {
    let folder = Folder::new();
    let (key, cert) = (folder.path("own.key"), folder.path("own.pem"));
    let subject = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:localhost",
    ];
    let kind = ["-addext", "basicConstraints=critical,CA:TRUE"];
    let made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ];
    let files = ["-keyout", &key, "-out", &cert];
    printed(
        "openssl",
        &[&made[..], &subject[..2], &subject[2..], &kind, &files].concat(),
    )
    .expect("a certificate");
    let server = Server::under(
        &[],
        &folder,
        "server",
        &["--tls-cert", &cert, "--tls-key", &key],
    );
    let token = format!("{}/admin.token", server.data);
    let ran = run(&[
        "jobs",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--ca",
        &cert,
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err
            .contains("is an authority's: a certificate for a host is needed"),
        "{}",
        ran.err
    );
    assert!(
        !ran.err.contains("CaUsedAsEndEntity") && !ran.err.contains("Other("),
        "{}",
        ran.err
    );
}

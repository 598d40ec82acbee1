//! A server with TLS, its agents, and their messages, as processes, for the tests of authentication.

use std::io::{BufRead, BufReader};
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

    pub(super) fn of(command: &mut Command) -> Heard {
        // faketime stays the parent of its program: both are in one process group, and end together.
        let command = command
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0);
        let mut child = command.spawn().expect("it runs");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let said = BufReader::new(child.stderr.take().expect("piped"));
        let told = lines.clone();
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

    pub(super) fn count(&self, words: &str) -> usize {
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
    pub(super) fn under(program: &[&str], folder: &Folder, name: &str, more: &[&str]) -> Server {
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

    pub(super) fn one_time_token(&self, folder: &Folder, agent: &str) -> String {
        let ran = self.ask(&["agents", "enroll", agent]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        folder.file(&format!("{agent}.token"), ran.out.as_bytes())
    }

    /// Arguments that enroll an agent with the token in the file `token`; `own`: folder of the agent.
    pub(super) fn enroll<'a>(&'a self, token: &'a str, own: &'a str) -> [&'a str; 8] {
        [
            "agent",
            "enroll",
            "--server",
            &self.url,
            "--token-file",
            token,
            "--folder",
            own,
        ]
    }

    /// An agent's folder with a certificate.
    pub(super) fn enrolled(&self, folder: &Folder, agent: &str) -> String {
        let token = self.one_time_token(folder, agent);
        let own = folder.path(agent);
        check(
            &self.enroll(&token, &own),
            0,
            &[&format!(
                "this host is agent {agent}; its certificate is valid until"
            )],
        );
        own
    }

    pub(super) fn agent(&self, own: &str) -> Heard {
        self.agent_under(&[], own)
    }

    pub(super) fn agent_under(&self, program: &[&str], own: &str) -> Heard {
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
pub(super) fn printed(program: &str, args: &[&str]) -> Result<String, String> {
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

pub(super) fn has_ended(certificate: &str) -> bool {
    printed(
        "openssl",
        &["x509", "-in", certificate, "-noout", "-checkend", "0"],
    )
    .is_err()
}

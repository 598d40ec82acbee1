//! Alerts as processes: the commands; and a server that is killed repeatedly while it notifies a webhook in Python.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::service::{PATIENCE, Process, Server, wait};
use super::{Folder, ROOT, run};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/captures/outlets/receiver.py"
);

/// A webhook that verifies signatures.
struct Hook {
    child: Child,
    lines: Receiver<String>,
    port: String,
}

impl Hook {
    /// `None` without Python, if `ALLOW_MISSING` names `python3`.
    fn start() -> Option<Hook> {
        let mut python = Command::new("python3");
        python
            .args([SCRIPT, "webhook", "0", "s3cret", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = testkit::require!("python3" => python.spawn());
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (say, lines) = channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| say.send(line).ok())
        });
        let first: String = lines.recv_timeout(PATIENCE).expect("a port");
        let port = first.trim_start_matches("port ").to_owned();
        Some(Hook { child, lines, port })
    }

    /// Argument of `serve --receiver`.
    fn receiver(&self, folder: &Folder) -> String {
        let key = folder.file("hook.key", b"s3cret\n");
        format!(
            "pager=webhook+http://127.0.0.1:{}/#secret-file={key}",
            self.port
        )
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

/// State known to a webhook without repetitions: whether each group fires.
#[derive(Default)]
struct Known {
    ids: BTreeSet<String>,
    firing: BTreeMap<String, bool>,
    told: usize,
}

impl Known {
    fn take(&mut self, line: &str) {
        let post: Value = serde_json::from_str(line).expect("JSON");
        assert!(post["error"].is_null(), "{post}");
        if !self.ids.insert(post["taken"]["id"].to_string()) {
            return;
        }
        for alert in post["taken"]["body"]["alerts"].as_array().expect("alerts") {
            let fires = alert["status"] == "firing";
            let was = self
                .firing
                .insert(alert["labels"].to_string(), fires)
                .unwrap_or(false);
            assert_eq!(was, !fires, "firing and its end take turns: {alert}");
            self.told += 1;
        }
    }
}

#[test]
fn a_server_that_is_killed_neither_fires_twice_nor_forgets_an_end() {
    let Some(hook) = Hook::start() else { return };
    let folder = Folder::new();
    let mut server = Server::with(&folder, &["--receiver", &hook.receiver(&folder)]);
    let token = server.token(&folder, "shop");
    let own = folder.path("agent");
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    let agent = [
        "agent",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--name",
        "shop",
        "--folder",
        &own,
    ];
    let _agent =
        Process::start(&[&agent[..], &["--demo", &capture, "--demo-pause", "1s"]].concat());
    server.await_agents(1);
    // Pages are requested in some of these windows and not in others.
    let query = "PARSE http PROCESS (group-count: group=url_template, w=1s)";
    let asked = [
        "alerts",
        "add",
        query,
        "--name",
        "asked",
        "--when",
        "count > 5",
        "--receiver",
        "pager",
    ];
    server.ask(
        &[
            &asked[..],
            &["--no-data", "resolve", "--missing-agents", "judge"],
        ]
        .concat(),
    );
    let mut known = Known::default();
    for kills in 1..=4 {
        // The server is killed while it sends notifications.
        while known.told < kills * 20 {
            known.take(&hook.lines.recv_timeout(PATIENCE).expect("another event"));
        }
        server.start_again(&folder);
    }
    while known.told <= 80 {
        known.take(&hook.lines.recv_timeout(PATIENCE).expect("it hears more"));
    }
    server.ask(&["alerts", "remove", "asked"]);
    wait("all is told", || {
        let receivers = server.rows(&["alerts", "receivers"]);
        if receivers[0]["waiting"] == 0 {
            Ok(())
        } else {
            Err(format!("{receivers:?}"))
        }
    });
    while let Ok(line) = hook.lines.try_recv() {
        known.take(&line);
    }
    assert!(
        known.told > 80 && known.firing.len() > 2,
        "{:?}",
        known.firing
    );
    assert!(
        known.firing.values().all(|fires| !fires),
        "{:?}",
        known.firing
    );
}

#[test]
fn an_alert_on_absence_fires_in_silence_and_ends_with_traffic() {
    let folder = Folder::new();
    let server = Server::with(&folder, &[]);
    // A pause of several windows after each pass over the capture.
    let _agents = server.agents(&folder, "6s");
    let query = "PARSE http PROCESS (count: w=1s)";
    server.ask(&[
        "alerts",
        "add",
        query,
        "--name",
        "dead",
        "--when",
        "count < 1",
    ]);
    for (state, description) in [
        ("firing", "it fires"),
        ("resolved", "it ends"),
        ("firing", "it fires again"),
    ] {
        wait(description, || {
            let alerts = server.rows(&["alerts", "--state", state]);
            let of_rule = |alert: &&Value| {
                alert["labels"]["alertname"] == "dead" && alert["labels"]["reason"].is_null()
            };
            match alerts.iter().find(of_rule) {
                Some(_) => Ok(()),
                None => Err(format!(
                    "{alerts:?} {:?}",
                    server.rows(&["alerts", "rules"])
                )),
            }
        });
    }
}

#[test]
fn alerts_have_commands() {
    let Some(hook) = Hook::start() else { return };
    let folder = Folder::new();
    let server = Server::with(&folder, &["--receiver", &hook.receiver(&folder)]);
    let _agents = server.agents(&folder, "1s");
    let query = "PARSE http PROCESS (diff-group: group=url_template, w=2s)";
    let condition = "p99 > 100ms WHERE url_template like '/check%'";
    let asked = [
        "alerts",
        "add",
        query,
        "--when",
        condition,
        "--label",
        "severity=page",
        "--receiver",
        "pager",
    ];
    server.ask(
        &[
            &asked[..],
            &["--annotation", "summary={url_template}: {p99}"],
        ]
        .concat(),
    );
    let rules = server.rows(&["alerts", "rules"]);
    assert_eq!(
        (rules.len(), &rules[0]["name"]),
        (1, &Value::from(condition))
    );
    wait("it fires", || {
        let alerts = server.rows(&["alerts", "--state", "firing"]);
        if alerts
            .first()
            .is_some_and(|alert| alert["labels"]["url_template"] == "/checkout")
        {
            Ok(())
        } else {
            Err(format!(
                "{alerts:?} {:?}",
                server.rows(&["alerts", "rules"])
            ))
        }
    });
    // A window that started before the agent lacks requests: its quantile made the rule fire, which may differ from
    // that of all requests. On a busy machine the alert may be in one message with the end of a no-data alert.
    let mut heard = Vec::new();
    let fired = std::iter::from_fn(|| hook.lines.recv_timeout(PATIENCE).ok()).any(|line| {
        let post: Value = serde_json::from_str(&line).expect("JSON");
        let alerts = post["taken"]["body"]["alerts"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        alerts.iter().any(|alert| {
            let said = alert["annotations"]["summary"].as_str().unwrap_or_default();
            heard.push(said.to_owned());
            let p99 = said
                .strip_prefix("/checkout: ")
                .and_then(|text| text.strip_suffix(" ms"));
            p99.and_then(|ms| ms.parse::<f64>().ok())
                .is_some_and(|ms| ms > 100.0)
        })
    });
    assert!(fired, "{heard:?}");
    let silence = server.rows(&[
        "alerts",
        "silence",
        "severity=page",
        "--for",
        "1h",
        "--comment",
        "a test",
    ]);
    let number = silence[0]["id"].to_string();
    assert_eq!(server.rows(&["alerts", "silences"]).len(), 1);
    server.ask(&["alerts", "unsilence", &number]);
    assert!(server.rows(&["alerts", "silences"]).is_empty());
    assert_eq!(server.rows(&["alerts", "test", "pager"])[0]["taken"], true);
    // Errors are reported, and no output contains the key.
    let at = ["--server", &server.url, "--token-file", &server.token];
    let wrong = run(&[
        &[
            "alerts",
            "add",
            query,
            "--when",
            "p98 > 1ms",
            "--receiver",
            "pager",
        ],
        &at[..],
    ]
    .concat());
    assert!(
        wrong.code == 2 && wrong.err.contains("p98"),
        "{} {}",
        wrong.code,
        wrong.err
    );
    let wrong = run(&[&["alerts", "remove", "nothing"], &at[..]].concat());
    assert!(
        wrong.code == 1 && wrong.err.contains("alert rule nothing does not exist"),
        "{}",
        wrong.err
    );
    let receivers = server.ask(&["alerts", "receivers", "--format", "jsonl"]);
    assert!(
        receivers.contains("webhook+http://127.0.0.1:") && !receivers.contains("key"),
        "{receivers}"
    );
    server.ask(&["alerts", "remove", condition]);
}

#[test]
fn receivers_are_checked_before_anything_is_served() {
    for (receiver, says) in [
        ("pager", "NAME=URL"),
        ("a b=webhook+http://127.0.0.1/", "not a receiver name"),
        (
            "pager=webhook+http://127.0.0.1/",
            "notifications are signed",
        ),
        (
            "pager=webhook+http://127.0.0.1/#secret-env=NETALYTICS_NO_SUCH",
            "NETALYTICS_NO_SUCH",
        ),
        ("pager=redis://127.0.0.1", "does not accept alerts"),
        (
            "pager=alertmanager+http://me:s3cret@127.0.0.1",
            "all users of this machine",
        ),
    ] {
        let ran = run(&["serve", "--listen", "127.0.0.1:0", "--receiver", receiver]);
        assert!(
            ran.code == 2 && ran.err.contains(says) && !ran.err.contains("s3cret"),
            "{receiver}: {}",
            ran.err
        );
    }
}

/// A real agent whose policy forbids the query: the rule evaluates the agents that run it.
#[test]
fn a_rule_fires_although_an_agent_refuses_it() {
    let folder = Folder::new();
    let server = Server::with(&folder, &[]);
    let policy = folder.file("closed.toml", b"networks = [\"192.0.2.0/24\"]\n");
    let agents: Vec<Process> = [("open", None), ("closed", Some(&policy))]
        .iter()
        .map(|(name, policy)| {
            let token = server.token(&folder, name);
            let own = folder.path(name);
            let agent = server.agent(name, &token, &own);
            let play = ["--demo", "captures/shop/in.pcap", "--demo-pause", "100ms"];
            let policy = policy
                .iter()
                .flat_map(|policy| ["--policy", policy.as_str()]);
            Process::start(
                &agent
                    .into_iter()
                    .chain(play)
                    .chain(policy)
                    .collect::<Vec<_>>(),
            )
        })
        .collect();
    server.await_agents(2);
    let query = "PARSE http PROCESS (group-count: group=url_template, w=1s)";
    server.ask(&[
        "alerts",
        "add",
        query,
        "--name",
        "asked",
        "--when",
        "count > 5",
    ]);
    let job = server.rows(&["alerts", "rules"])[0]["job_id"]
        .as_str()
        .expect("a job")
        .to_owned();
    wait("it fires", || {
        let alerts = server.rows(&["alerts"]);
        let fires = |alert: &Value| alert["state"] == "firing" && alert["reason"] == "condition";
        if alerts.iter().any(fires) {
            Ok(())
        } else {
            Err(format!("{alerts:?}"))
        }
    });
    let reason = server.rows(&["jobs", "show", &job])[0]["reason"].to_string();
    assert!(
        reason.contains("agent closed rejects it") && !reason.contains("agent open"),
        "{reason}"
    );
    let alerts = server.rows(&["alerts"]);
    assert!(
        alerts
            .iter()
            .all(|alert| alert["reason"] != "missing_agents"),
        "a refusal is not a missing agent: {alerts:?}"
    );
    assert!(
        server
            .rows(&["jobs", "results", &job])
            .iter()
            .all(|row| row["agents_missing"].is_null())
    );
    drop(agents);
}

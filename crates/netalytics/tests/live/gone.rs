//! An agent whose interface is removed during the capture of a standing job: the job is not finished there, its reason
//! names the cause, and it continues when the interface is back.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::net::{Net, ip, within};

const BINARY: &str = env!("CARGO_BIN_EXE_netalytics");

/// A process killed at the end of the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// Starts a command in a namespace.
fn start(ns: &str, args: &[&str]) -> Process {
    let spawned = within(ns, BINARY)
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Process(spawned.expect("it starts"))
}

/// Output of a command in a namespace, if successful.
fn said(ns: &str, args: &[&str]) -> Result<String, String> {
    let ran = within(ns, BINARY).args(args).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if ran.status.success() {
        Ok(text(&ran.stdout))
    } else {
        Err(text(&ran.stderr))
    }
}

/// Waits until the output of a command contains these words.
fn until(ns: &str, args: &[&str], words: &str) -> String {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let found = said(ns, args);
        match &found {
            Ok(text) if text.contains(words) => return text.clone(),
            _ => assert!(Instant::now() < end, "no {words:?}: {found:?}"),
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_interface_that_is_removed_does_not_end_a_job_in_silence() {
    let Some(net) = Net::new() else { return };
    let ns = net.server.as_str();
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let data = path("server");
    let token = path("one.token");
    let policy = path("policy.toml");
    let own = path("agent");
    let _server = start(
        ns,
        &["serve", "--listen", "127.0.0.1:7979", "--data", &data],
    );
    let url = "http://127.0.0.1:7979";
    let admin = path("server/admin.token");
    let to = ["--server", url, "--token-file", &admin, "--format", "jsonl"];
    let ask = |args: &[&str]| -> Vec<String> {
        args.iter()
            .chain(&to)
            .map(|arg| (*arg).to_owned())
            .collect()
    };
    let wait = |args: &[&str], words: &str| {
        let args = ask(args);
        until(
            ns,
            &args.iter().map(String::as_str).collect::<Vec<_>>(),
            words,
        )
    };
    wait(&["jobs"], "");
    let made = said(
        ns,
        &[
            "tokens",
            "create",
            "one",
            "--role",
            "agent",
            "--server",
            url,
            "--token-file",
            &admin,
        ],
    );
    std::fs::write(&token, made.expect("a token")).expect("written");
    std::fs::write(&policy, "interfaces = [\"eth0\"]\n").expect("written");
    let agent = [
        "agent",
        "--server",
        url,
        "--token-file",
        &token,
        "--name",
        "one",
        "--folder",
        &own,
    ];
    let _agent = start(ns, &[&agent[..], &["--policy", &policy]].concat());
    wait(&["agents"], "\"connected\":true");
    wait(
        &[
            "jobs",
            "start",
            "PARSE packet PROCESS (count: w=1s)",
            "--standing",
        ],
        "\"id\":\"1\"",
    );
    wait(&["jobs", "show", "1"], "\"state\":\"running\"");
    net.send(10, 4000);
    wait(&["jobs", "results", "1"], "\"count\"");
    ip(&format!("-n {ns} link del eth0")).expect("removed");
    // The end of the process is known before its loss.
    let job = wait(&["jobs", "show", "1"], "agent one lost");
    assert!(job.contains("one: "), "{job}");
    // The agent retries the monitor, which captures once the interface exists.
    ip(&format!(
        "-n {ns} link add eth0 type veth peer name eth0 netns {}",
        net.client
    ))
    .expect("added");
    for (ns, address) in [
        (&net.server, crate::net::SERVER),
        (&net.client, crate::net::CLIENT),
    ] {
        ip(&format!("-n {ns} link set eth0 up")).expect("up");
        ip(&format!("-n {ns} addr add {address}/24 dev eth0")).expect("an address");
    }
    let rows = |ns: &str| {
        let args = ask(&["jobs", "results", "1"]);
        let found = said(ns, &args.iter().map(String::as_str).collect::<Vec<_>>()).expect("rows");
        found
            .lines()
            .filter(|row| !row.contains("\"count\":0"))
            .count()
    };
    let before = rows(ns);
    let end = Instant::now() + Duration::from_secs(90);
    while rows(ns) <= before + 3 {
        assert!(Instant::now() < end, "it captures again: {job}");
        net.send(10, 4000);
        std::thread::sleep(Duration::from_millis(300));
    }
}

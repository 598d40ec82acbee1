//! Common mistakes: wrong addresses, wrong tokens, names for numbers, foreign protocols. Each is reported in one line,
//! with the right exit code, and counted if caused by another end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::service::{Process, Server, wait};
use super::{BINARY, Folder, ROOT, check, run};

const QUERY: &str = "PARSE http PROCESS (diff-group: group=url_template, w=1s)";

/// A server with an agent that replays the shop's capture.
fn shop(folder: &Folder) -> (Server, Process) {
    let server = Server::start(folder);
    let token = server.token(folder, "shop");
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
    ];
    let agent = Process::start(&[&agent[..], &["--folder", &own, "--demo", &capture]].concat());
    wait("the agent comes", || {
        let agents = server.rows(&["agents"]);
        if agents.iter().any(|agent| agent["connected"] == true) {
            Ok(())
        } else {
            Err(format!("{agents:?}"))
        }
    });
    (server, agent)
}

#[test]
fn jobs_are_named_shown_and_printed_for_people() {
    let folder = Folder::new();
    let (server, _agent) = shop(&folder);
    server.ask(&["jobs", "start", QUERY, "--standing", "--name", "pages"]);
    wait("rows come", || {
        let rows = server.rows(&["jobs", "results", "pages"]);
        if rows.iter().any(|row| row["url_template"] == "/checkout") {
            Ok(())
        } else {
            Err(server.ask(&["jobs"]))
        }
    });
    // The table is that of `query`: units, and windows by start.
    let table = server.ask(&["jobs", "results", "pages"]);
    assert!(table.starts_with("diff-group  windows of 1 s, "), "{table}");
    assert!(
        table.contains("/checkout ") && table.contains(" ms") && !table.contains("_ns"),
        "{table}"
    );
    let exact = server.rows(&[
        "jobs",
        "results",
        "pages",
        "--until",
        "2020-01-01T00:00:00Z",
    ]);
    assert!(exact.is_empty(), "{exact:?}");
    let sheet = server.ask(&["jobs", "show", "pages"]);
    for words in [
        "job             1\n",
        "state           running\n",
        "agent  state",
        "shop   running",
    ] {
        assert!(sheet.contains(words), "{words}: {sheet}");
    }
    // JSON contains all fields of the API.
    let job = &server.rows(&["jobs", "show", "1"])[0];
    assert_eq!(
        (&job["kind"], &job["agents"][0]["agent"]),
        (&"standing".into(), &"shop".into())
    );
    assert!(server.rows(&["agents"])[0]["addresses"].is_array());
    server.ask(&["jobs", "start", QUERY, "--standing", "--name", "pages"]);
    assert!(
        server
            .refuses(&["jobs", "stop", "pages"])
            .contains("several jobs have the name pages")
    );
    server.ask(&["jobs", "stop", "2"]);
    wait("the second ends", || {
        match &server.rows(&["jobs", "show", "2"])[0]["state"] {
            Value::String(state) if state == "ended" => Ok(()),
            other => Err(other.to_string()),
        }
    });
    // Among two jobs with one name the running one is selected.
    assert!(
        server
            .ask(&["jobs", "show", "pages"])
            .contains("job             1\n")
    );
}

#[test]
fn mistakes_are_reported_in_one_line() {
    let folder = Folder::new();
    let (server, _agent) = shop(&folder);
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path(name), text).expect("written");
        folder.path(name)
    };
    let empty = write("empty", "\n");
    let two = write("two", "nl_1\nnl_2\n");
    let nobody = "http://127.0.0.1:9";
    let own = ["--server", &server.url, "--token-file", &server.token];
    let past = "PARSE http SINCE 1h PROCESS (count)";
    for (args, code, words) in [
        (
            &["jobs", "--server", nobody, "--token-file", &server.token][..],
            1,
            "connection refused",
        ),
        (
            &["jobs", "--server", &server.url, "--token-file", &empty],
            2,
            "empty has no valid token",
        ),
        (
            &["jobs", "--server", &server.url, "--token-file", &two],
            2,
            "two has no valid token",
        ),
        (
            &[&["jobs", "show", "nosuch"], &own[..]].concat(),
            1,
            "job nosuch does not exist",
        ),
        (
            &[&["tokens", "revoke", "nosuch"], &own[..]].concat(),
            1,
            "token nosuch does not exist",
        ),
        (
            &[&["jobs", "results", "9"], &own[..]].concat(),
            1,
            "job 9 does not exist",
        ),
        (
            &[&["query", past, "-i", "eth0"], &own[..]].concat(),
            2,
            "SINCE reads stored data",
        ),
        (
            &[&["jobs", "start", QUERY, "--to", "tcp://x"], &own[..]].concat(),
            1,
            "to tcp://…: the address lacks a port",
        ),
        (
            &["serve", "backup", &two, "--data", &folder.path("server")],
            1,
            "a backup needs a new folder",
        ),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, code, "{args:?}: {}{}", ran.out, ran.err);
        assert!(
            ran.err.contains(words) && ran.err.lines().count() == 1,
            "{args:?}: {}",
            ran.err
        );
    }
}

#[test]
fn queries_that_all_agents_refuse_are_reported_once() {
    let folder = Folder::new();
    let (server, _agent) = shop(&folder);
    let own = ["--server", &server.url, "--token-file", &server.token];
    let ran = run(&[
        &["query", "PARSE http PROCESS (count)", "-i", "nosuch"],
        &own[..],
    ]
    .concat());
    assert_eq!(ran.code, 1, "{}", ran.err);
    let errors = ran
        .err
        .lines()
        .filter(|line| line.starts_with("error: "))
        .count();
    assert!(
        errors == 1 && ran.err.contains("this host has no interface nosuch"),
        "{}",
        ran.err
    );
    assert!(
        ran.err.contains("did not run it") && ran.err.contains("1 row in "),
        "{}",
        ran.err
    );
}

#[test]
fn an_address_that_is_taken_leaves_no_data_directory() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let address = server.url.trim_start_matches("http://");
    let ran = run(&[
        "serve",
        "--listen",
        address,
        "--data",
        &folder.path("second"),
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err.contains("Address already in use") && ran.err.lines().count() == 1,
        "{}",
        ran.err
    );
    assert!(!std::path::Path::new(&folder.path("second")).exists());
}

/// The response to these bytes, until the connection is closed.
fn said(server: &Server, bytes: &[u8]) -> String {
    let address = server.url.split("://").nth(1).expect("an address");
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a timeout");
    // The server may close the connection before it has received everything.
    let _ = stream.write_all(bytes);
    let mut back = Vec::new();
    let _ = stream.read_to_end(&mut back);
    String::from_utf8_lossy(&back).into_owned()
}

#[test]
fn bytes_of_strangers_are_refused_and_counted() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let garbage = [0xf1; 5000];
    assert!(said(&server, &garbage).starts_with("HTTP/1.1 400 "));
    let host = server.url.trim_start_matches("http://");
    let long = format!(
        "GET / HTTP/1.1\r\nHost: {host}\r\nX: {}\r\n\r\n",
        "a".repeat(1 << 20)
    );
    said(&server, long.as_bytes());
    // An agent's token does not permit protocol violations.
    let token = std::fs::read_to_string(server.token(&folder, "evil")).expect("a token");
    let upgrade = format!(
        "GET /api/v1/agent HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nConnection: Upgrade\r\nUpgrade: netalytics/1\r\n\r\n",
        token.trim()
    );
    let answer = said(&server, &[upgrade.as_bytes(), &garbage].concat());
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    // An incomplete head at the timeout.
    assert_eq!(said(&server, b"GET / HT"), "");
    let counters = server.get("/api/v1/counters");
    let refused =
        ["heads_refused", "links_broken", "connections_silent"].map(|name| counters[name].as_u64());
    assert!(
        refused[0] == Some(2) && refused[1] == Some(1) && refused[2] >= Some(1),
        "{counters}"
    );
    let page = Command::new("curl")
        .args([
            "-sS",
            "-H",
            &format!(
                "Authorization: Bearer {}",
                std::fs::read_to_string(&server.token).expect("it").trim()
            ),
        ])
        .arg(format!("{}/metrics", server.url))
        .output()
        .expect("curl runs");
    let page = String::from_utf8_lossy(&page.stdout).into_owned();
    assert!(
        page.contains("netalytics_connections_cut_total{cause=\"request\"} 2\n"),
        "{page}"
    );
}

#[test]
fn plaintext_clients_are_reported_and_counted() {
    let folder = Folder::new();
    let server = Server::with(&folder, &["--tls"]);
    assert!(said(&server, b"GET / HTTP/1.1\r\n\r\n").contains("uses TLS"));
    let plain = server.url.replace("https://", "http://");
    let ran = run(&["jobs", "--server", &plain, "--token-file", &server.token]);
    assert!(
        ran.code == 1 && ran.err.contains("its address begins with https://"),
        "{}",
        ran.err
    );
    // An incomplete handshake.
    said(&server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    let data = folder.path("server");
    let ca = Command::new(BINARY)
        .args(["serve", "ca", "--data", &data])
        .output()
        .expect("it runs")
        .stdout;
    std::fs::write(folder.path("ca.pem"), ca).expect("written");
    let token = std::fs::read_to_string(&server.token).expect("the first token");
    let output = Command::new("curl")
        .args([
            "-sS",
            "--cacert",
            &folder.path("ca.pem"),
            "-H",
            &format!("Authorization: Bearer {}", token.trim()),
        ])
        .arg(format!("{}/api/v1/counters", server.url))
        .output()
        .expect("curl runs");
    let counters: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    assert_eq!(counters["handshakes_failed"], 3, "{counters}");
}

#[test]
fn unreadable_inputs_have_no_row() {
    let folder = Folder::new();
    let text = folder.file("notes.txt", b"no packets here, but enough text\n");
    let empty = folder.file("empty", b"");
    let shop = "captures/shop/in.pcap";
    let count = "PARSE packet PROCESS (count)";
    for (args, words) in [
        (&["query", count, "-r", &text][..], "looks like text"),
        (&["query", count, "-r", &empty], "the file is empty"),
        (&["query", count, "-r", &text, &empty], "looks like text"),
        (
            &["query", count, "-r", &text, "--format", "csv"],
            "looks like text",
        ),
        (&["query", "PARSE packet", "-r", &text], "looks like text"),
        (&["overview", "-r", &text], "looks like text"),
        (&["map", "-r", &text], "looks like text"),
        (
            &["check", count, "-r", &text, "--assert", "count = 0"],
            "looks like text",
        ),
        (
            &["compare", count, "-r", shop, "--baseline", &text],
            "looks like text",
        ),
        (
            &["query", count, "-i", "nosuch0"],
            "interface \"nosuch0\" does not exist",
        ),
        (
            &["overview", "-i", "nosuch0"],
            "interface \"nosuch0\" does not exist",
        ),
    ] {
        let ran = run(args);
        assert_eq!(ran.code, 1, "{args:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(words), "{args:?}: {}", ran.err);
        assert!(
            !ran.out.contains("count") && !ran.out.contains(",0"),
            "{args:?}: {}",
            ran.out
        );
    }
    // The same through a pipe.
    let piped = super::run_with_stdin(
        &["query", count, "-r", "-"],
        b"no packets here, but enough text\n",
    );
    assert_eq!((piped.code, piped.out.as_str()), (1, ""), "{}", piped.err);
    // In addition to a capture, the missing file is an error, and the capture's rows are printed.
    let both = run(&["query", count, "-r", shop, &text]);
    assert!(
        both.code == 1 && both.out.contains("\"count\":1629"),
        "{}{}",
        both.out,
        both.err
    );
}

#[test]
fn limits_of_zero_are_rejected() {
    let folder = Folder::new();
    for flag in ["--connections-max", "--agents-max", "--requests-per-second"] {
        check(
            &[
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--data",
                &folder.path("server"),
                flag,
                "0",
            ],
            2,
            &[flag],
        );
    }
    // The PROXY protocol requires the addresses of proxies.
    let alone = [
        "serve",
        "--data",
        &folder.path("server"),
        "--proxy-protocol",
    ];
    check(&alone, 2, &["--trusted-proxy"]);
}

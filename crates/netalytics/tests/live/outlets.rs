//! Outlets of a live capture whose threads have dropped privileges and most system calls: only delivery threads may
//! connect and listen.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::capture::Capture;
use crate::net::{Net, shell, within};

/// Accepts one connection at a time on port 9000, and appends received data to a file.
const READER: &str = "
import socket, sys
listener = socket.create_server(('127.0.0.1', 9000))
while True:
    connection = listener.accept()[0]
    while data := connection.recv(65536):
        open(sys.argv[1], 'ab').write(data)
";

#[test]
fn rows_are_delivered_and_scraped_in_a_live_capture() {
    let Some(net) = Net::new() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let received = folder.path().join("received");
    let mut reader = within(&net.server, "python3")
        .args(["-c", READER])
        .arg(&received)
        .spawn()
        .expect("python");
    let lines = || {
        std::fs::read_to_string(&received)
            .unwrap_or_default()
            .lines()
            .map(String::from)
            .collect::<Vec<_>>()
    };
    let arguments = [
        "-i",
        "eth0",
        "--to",
        "tcp://localhost:9000",
        "--to",
        "prometheus://127.0.0.1:9464",
        "--to-timeout",
        "60s",
    ];
    let query = "PARSE packet PROCESS (group-count: group=dst_port, w=1s)";
    let capture = Capture::start(&net.server, query, &arguments);
    // The capture's own threads are restricted, and the process has no root user ID.
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", capture.pid())).expect("it runs");
    let is_nobody = status
        .lines()
        .any(|line| line.starts_with("Uid:") && !line.contains("\t0"));
    assert!(is_nobody && status.contains("Seccomp:\t2"), "{status}");
    for task in std::fs::read_dir(format!("/proc/{}/task", capture.pid())).expect("threads") {
        let status = std::fs::read_to_string(task.expect("a thread").path().join("status"))
            .unwrap_or_default();
        assert!(
            status.contains("CapEff:\t0000000000000000") && status.contains("Seccomp:\t2"),
            "{status}"
        );
    }
    net.send(50, 7777);
    capture.wait_for_rows(1);
    let began = Instant::now();
    while lines().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing comes");
        std::thread::sleep(Duration::from_millis(20));
    }
    let page = || {
        let output = Command::new("ip")
            .args([
                "netns",
                "exec",
                &net.server,
                "curl",
                "-sf",
                "http://127.0.0.1:9464/metrics",
            ])
            .stdin(Stdio::null())
            .output();
        String::from_utf8(output.expect("curl").stdout).expect("text")
    };
    while !page().contains("netalytics_packet_count_total{") {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", page());
        std::thread::sleep(Duration::from_millis(20));
    }
    // The outlet stays open until one more scrape.
    let net_server = net.server.clone();
    let scrapes = std::thread::spawn(move || {
        shell(
            &net_server,
            "while curl -sf http://127.0.0.1:9464/metrics >/dev/null; do sleep 0.05; done",
        )
    });
    let captured = capture.interrupt();
    scrapes.join().expect("no panic");
    assert_eq!(captured.code, Some(0), "{}", captured.err);
    assert_eq!(lines().len(), captured.rows.len(), "{}", captured.err);
    for outlet in 0..2 {
        let count = |name: &str| captured.count(&format!("/delivered/{outlet}/{name}"));
        assert_eq!(
            (count("rows"), count("sent")),
            (captured.rows.len() as u64, captured.rows.len() as u64)
        );
    }
    let _ = reader.kill();
    let _ = reader.wait();
}

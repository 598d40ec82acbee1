//! Flow records of a query, read by nfdump, and packets of a query as sFlow, read by tshark.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use testkit::{ByteOrder, TcpDialogue, TimestampPrecision, pcap_bytes};
use wire::FlowSide;

use super::{Done, Query, Server, free_port, over_shop, shop, wait_for};

/// A running nfcapd on a port of loopback, with its folder.
fn nfcapd(folder: &Path) -> (Server, u16) {
    let port = free_port();
    let mut command = Command::new("nfcapd");
    command.args([
        "-b",
        "127.0.0.1",
        "-p",
        &port.to_string(),
        "-t",
        "3600",
        "-w",
    ]);
    let server = Server::start(command.arg(folder));
    wait_for("nfcapd", || UdpSocket::bind(("127.0.0.1", port)).err());
    (server, port)
}

/// Source, port, packets, and bytes of the records that nfcapd has, after its end.
fn records(mut server: Server, folder: &Path) -> Vec<String> {
    std::thread::sleep(Duration::from_millis(300));
    let pid = server.0.id().to_string();
    let ended = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(ended.expect("kill").success());
    server.0.wait().expect("it ends");
    let mut nfdump = Command::new("nfdump");
    nfdump.arg("-R").arg(folder);
    nfdump.args([
        "-q",
        "-N",
        "-o",
        "fmt:%sa %sp %da %dp %ipkt %ibyt %opkt %obyt",
    ]);
    let text = String::from_utf8(nfdump.output().expect("it runs").stdout).expect("text");
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    lines.sort();
    lines
}

/// The same of the rows.
fn rows(done: &Done, is_biflow: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for line in &done.lines {
        let row: Value = serde_json::from_str(line).expect("JSON");
        let text = |name: &str| row[name].to_string().trim_matches('"').to_owned();
        let ends = ["client", "server"].map(|end| {
            let of = |name: &str| text(&format!("{end}_{name}"));
            (
                format!("{} {}", of("ip"), of("port")),
                format!("{} {}", of("packets"), of("bytes")),
            )
        });
        let [(client, sent), (server, received)] = &ends;
        if is_biflow {
            lines.push(format!("{client} {server} {sent} {received}"));
            continue;
        }
        for (from, to, counts) in [(client, server, sent), (server, client, received)] {
            if !counts.starts_with("0 ") {
                lines.push(format!("{from} {to} {counts} 0 0"));
            }
        }
    }
    lines.sort();
    lines
}

#[test]
fn collectors_have_the_flows_that_are_printed() {
    testkit::require!("nfcapd", "nfdump");
    for scheme in ["ipfix", "netflow9"] {
        let folder = tempfile::tempdir().expect("a folder");
        let (server, port) = nfcapd(folder.path());
        let to = format!("{scheme}://127.0.0.1:{port}");
        let done = over_shop("PARSE flow", &["--to", &to]);
        done.adds_up();
        assert_eq!((done.code, done.lost()), (Some(0), 0), "{}", done.err);
        let note = "columns without an information element are not sent: quality";
        assert!(done.err.contains(note), "{}", done.err);
        assert_eq!(
            records(server, folder.path()),
            rows(&done, scheme == "ipfix")
        );
    }
}

#[test]
fn rows_without_a_flow_are_refused_at_the_start() {
    for (query, part) in [
        ("PARSE http", "flow records require PARSE flow"),
        ("PARSE packet", "PARSE packet with PROCESS"),
        (
            "PARSE flow SELECT client_ip, client_bytes, quality",
            "no information element for quality",
        ),
        (
            "PARSE flow SELECT client_ip, ts",
            "a flow record needs an address",
        ),
        (
            "PARSE flow PROCESS (group-sum: group=client_ip, value=client_bytes)",
            "no information element for sum_bytes",
        ),
        (
            "PARSE flow PROCESS (group-sum-avg: group=client_ip, value=client_bytes, client_packets)",
            "no information element for avg_client_bytes, avg_client_packets",
        ),
    ] {
        let done = Query::start(query, &["--to", "ipfix://127.0.0.1:9"]).done();
        assert_eq!(done.code, Some(2), "{query}: {}", done.err);
        assert!(done.err.contains(part), "{query}: {}", done.err);
    }
}

/// Datagrams that arrive while a query runs.
fn datagrams(query: &str, options: &str) -> (Vec<Vec<u8>>, Done) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let to = format!("sflow://{}{options}", socket.local_addr().expect("bound"));
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a timeout");
    let (done, is_done) = mpsc::channel::<()>();
    let receiver = std::thread::spawn(move || {
        let mut datagrams = Vec::new();
        let mut buffer = vec![0; 65_536];
        loop {
            match socket.recv(&mut buffer) {
                Ok(len) => datagrams.push(buffer[..len].to_vec()),
                Err(_) if is_done.try_recv().is_ok() => return datagrams,
                Err(_) => {}
            }
        }
    });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shop.pcap");
    std::fs::write(&path, shop()).expect("a capture");
    let mut run = Command::new(env!("CARGO_BIN_EXE_netalytics"));
    run.args(["query", query, "-r"]).arg(&path);
    run.args(["-w", &to, "-o", "/dev/null", "--summary-json"]);
    let output = run
        .arg(folder.path().join("summary"))
        .output()
        .expect("it runs");
    done.send(()).expect("a receiver");
    let summary = std::fs::read_to_string(folder.path().join("summary")).expect("a summary");
    let done = Done {
        code: output.status.code(),
        lines: Vec::new(),
        err: String::from_utf8(output.stderr).expect("text"),
        summary: serde_json::from_str(&summary).expect("JSON"),
    };
    (receiver.join().expect("datagrams"), done)
}

/// Lengths and source ports of the frames in a capture or in samples.
fn by_tshark(path: &str, fields: [&str; 2]) -> Vec<String> {
    let mut tshark = Command::new("tshark");
    tshark.args([
        "-n",
        "-d",
        "udp.port==6343,sflow",
        "-T",
        "fields",
        "-r",
        path,
    ]);
    let output = tshark.args(["-e", fields[0], "-e", fields[1]]).output();
    let text = String::from_utf8(output.expect("it runs").stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_sflow_collector_has_the_packets_of_the_query() {
    testkit::require!("tshark");
    let folder = tempfile::tempdir().expect("a folder");
    let (all, done) = datagrams("PARSE flow", "");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let kept = &done.summary["packets_kept"];
    assert_eq!(
        (&kept["packets"], &kept["packets_lost"]),
        (&1629.into(), &0.into())
    );
    assert!(all.iter().all(|datagram| datagram.len() <= 1400));
    let mut talk = TcpDialogue::new("127.0.0.1:5000", "127.0.0.1:6343");
    all.iter()
        .for_each(|datagram| talk.datagram(FlowSide::A, datagram));
    let sent = folder.path().join("sflow.pcap");
    let bytes = pcap_bytes(&talk.take(), TimestampPrecision::Micros, ByteOrder::Little);
    std::fs::write(&sent, bytes).expect("a capture");
    let read = by_tshark(
        &sent.display().to_string(),
        ["sflow.header.frame_length", "_ws.malformed"],
    );
    let lengths: Vec<String> = read
        .iter()
        .flat_map(|line| line.trim().split(','))
        .map(str::to_owned)
        .collect();
    let original = super::super::captures().join("shop/in.pcap");
    let original = by_tshark(
        &original.display().to_string(),
        ["frame.len", "sflow.version"],
    );
    let original: Vec<&str> = original.iter().map(|line| line.trim()).collect();
    assert_eq!(lengths, original);
    // Flows of one server port.
    let (some, done) = datagrams(
        "PARSE flow WHERE server_port = 3306",
        "#header=64&agent=192.0.2.1",
    );
    assert!(!some.is_empty() && some.len() < all.len(), "{}", done.err);
    assert_eq!(some[0][4..12], [0, 0, 0, 1, 192, 0, 2, 1]);
}

#[test]
fn packets_for_an_absent_collector_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let summary = folder.path().join("summary").display().to_string();
    let to = format!("sflow://127.0.0.1:{}", free_port());
    let path = folder.path().join("shop.pcap");
    std::fs::write(&path, shop()).expect("a capture");
    let mut run = Command::new(env!("CARGO_BIN_EXE_netalytics"));
    run.args(["query", "PARSE flow", "-r"]).arg(&path);
    run.args(["-w", &to, "-o", "/dev/null", "--summary-json", &summary]);
    let output = run.output().expect("it runs");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(
        err.contains("cannot write all packets to sflow://") && err.contains("refused"),
        "{err}"
    );
    let summary = std::fs::read_to_string(&summary).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let count = |name: &str| summary["packets_kept"][name].as_u64().expect("a count");
    assert_eq!(count("packets") + count("packets_lost"), 1629);
    // The system limits its reports about closed ports.
    assert!(count("packets_lost") > 0, "{summary}");
    for (to, part) in [
        ("sflow://127.0.0.1#x=1", "has no option"),
        ("sflow://127.0.0.1#agent=x", "agent=x"),
    ] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_netalytics"));
        run.args(["query", "PARSE flow", "-o", "/dev/null", "-w", to, "-r"]);
        let output = run.arg(&path).output().expect("it runs");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.contains(part), "{err}");
    }
}

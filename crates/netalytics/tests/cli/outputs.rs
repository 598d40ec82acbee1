//! Rows, summaries, and messages on their outputs: files, pipes, and full disks.

use super::*;

#[test]
fn a_full_disk_is_reported_once() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 2000);
    for format in ["jsonl", "csv", "table"] {
        let args = ["query", PACKETS, "-q", "-r", &capture, "--format", format];
        let full = File::options()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full exists on Linux");
        let output = Command::new(BINARY)
            .args(args)
            .stdout(full)
            .output()
            .expect("the binary runs");
        let ran = Ran::from(output);
        assert_eq!((ran.code, ran.err.lines().count()), (1, 1), "{}", ran.err);
        assert!(
            ran.err
                .contains("standard output; it is incomplete: No space left"),
            "{}",
            ran.err
        );
        let ran = check(
            &[&args[..], &["-o", "/dev/full"]].concat(),
            1,
            &["/dev/full; it is incomplete"],
        );
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
    }
    let output = Command::new(BINARY)
        .arg("parsers")
        .stdout(
            File::options()
                .write(true)
                .open("/dev/full")
                .expect("/dev/full exists on Linux"),
        )
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(1));
    // Messages that cannot be written are ignored.
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full exists on Linux");
    let output = Command::new(BINARY)
        .args(["query", PACKETS, "-v", "-r", &capture])
        .stderr(full)
        .output();
    assert_eq!(output.expect("the binary runs").status.code(), Some(0));
}

#[test]
fn a_closed_pipe_is_no_error() {
    for args in [
        &["query", PACKETS, "-r", "-"][..],
        &["query", PACKETS, "-r", "-", "--format", "table"],
    ] {
        let mut child = piped(args);
        drop(child.stdout.take());
        // The child may end before it has read everything.
        let _ = child
            .stdin
            .take()
            .expect("piped")
            .write_all(&pcap(&datagrams(4000)));
        let mut err = String::new();
        child
            .stderr
            .take()
            .expect("piped")
            .read_to_string(&mut err)
            .expect("text");
        assert_eq!(
            (child.wait().expect("it ends").code(), err.as_str()),
            (Some(0), "")
        );
    }
}

#[test]
fn output_is_written_to_its_destination() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let out = folder.path("out.jsonl");
    let ran = check(&["query", PACKETS, "-r", &capture, "-o", &out], 0, &[]);
    assert!(ran.out.is_empty());
    assert_eq!(
        fs::read_to_string(&out).expect("written").lines().count(),
        4
    );
    let dash = check(&["query", PACKETS, "-r", &capture, "-o", "-"], 0, &[]);
    assert_eq!(dash.out.lines().count(), 4);
    check(
        &[
            "query",
            PACKETS,
            "-r",
            &capture,
            "-o",
            &folder.path("no/such/out"),
        ],
        1,
        &["cannot write", "no/such/out"],
    );
    check(
        &["query", PACKETS, "-r", &capture, "-o", &folder.path("")],
        1,
        &["cannot write"],
    );
}

#[test]
fn formats() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    let query = "PARSE packet PROCESS (group-count: group=src_ip)";
    let jsonl = check(&["query", query, "-r", &capture], 0, &[]);
    let rows = lines(&jsonl.out);
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["processor"], &rows[0]["count"]),
        (&Value::from("group-count"), &Value::from(2))
    );
    let csv = check(&["query", query, "-r", &capture, "--format", "csv"], 0, &[]);
    assert_eq!(csv.out.lines().count(), 3, "{}", csv.out);
    let table = check(
        &["query", query, "-r", &capture, "--format", "table"],
        0,
        &[],
    );
    assert!(
        table.out.contains("10.0.0.1") && table.out.contains("───"),
        "{}",
        table.out
    );
}

#[test]
fn the_summary_accounts_for_every_packet() {
    let folder = Folder::new();
    let mut sent = datagrams(20);
    let mut other = TcpDialogue::new("10.9.9.9:1", "10.8.8.8:2");
    other.datagram(FlowSide::A, b"not asked for");
    sent.extend(other.take());
    let mut bytes = pcap(&sent);
    // An ARP frame at the end: counted, not decoded.
    bytes.extend([0, 0, 0, 0x70, 0, 0, 0, 0, 14, 0, 0, 0, 14, 0, 0, 0]);
    bytes.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 6]);
    let capture = folder.file("a.pcap", &bytes);
    let json = folder.path("summary.json");
    let ran = check(
        &[
            "query",
            "PARSE packet TO *:53",
            "-r",
            &capture,
            "--summary-json",
            &json,
        ],
        0,
        &["packets", "22"],
    );
    assert_eq!(ran.out.lines().count(), 20);
    let summary: Value =
        serde_json::from_str(&fs::read_to_string(&json).expect("written")).expect("JSON");
    let packets = &summary["packets"];
    let count = |value: &Value| match value {
        Value::Object(causes) => causes.values().map(|n| n.as_u64().expect("a count")).sum(),
        n => n.as_u64().expect("a count"),
    };
    let parts: u64 = [
        "parsed",
        "filtered",
        "sampled_out",
        "dropped",
        "undecodable",
    ]
    .iter()
    .map(|p| count(&packets[p]))
    .sum();
    assert_eq!((count(&packets["received"]), parts), (22, 22), "{packets}");
    assert_eq!(
        (&packets["undecodable"]["not_ip"], &packets["adds_up"]),
        (&Value::from(1), &Value::from(true))
    );
    assert_eq!(
        (&summary["rows"], &summary["complete"]),
        (&Value::from(20), &Value::from(true))
    );
    let quiet = check(&["query", PACKETS, "-q", "-r", &capture], 0, &[]);
    assert!(quiet.err.is_empty(), "{}", quiet.err);
}

#[test]
fn requested_messages() {
    let folder = Folder::new();
    let capture = folder.capture("a.pcap", 4);
    check(
        &["query", "PARSE packet SAMPLE auto", "-v", "-r", &capture],
        0,
        &["SAMPLE auto", "live input"],
    );
    check(
        &["query", PACKETS, "--progress", "always", "-r", &capture],
        0,
        &["read "],
    );
    check(
        &["query", "PARSE packet LIMIT 2p", "-r", &capture],
        0,
        &["LIMIT reached"],
    );
}

/// Guaranteed by docs/compatibility.md: a column of a schema's version exists as long as the version.
#[test]
fn columns_stay() {
    let rows = lines(&check(&["parsers", "--json"], 0, &[]).out);
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let there: std::collections::HashSet<_> = rows
        .iter()
        .map(|row| ["parser", "field", "type", "unit"].map(|key| text(row, key)))
        .collect();
    let promised = include_str!("../columns-1.tsv")
        .lines()
        .filter(|line| !line.starts_with('#'));
    let promised: Vec<Vec<&str>> = promised.map(|line| line.split('\t').collect()).collect();
    assert!(promised.len() > 300);
    for line in promised {
        let column = [0, 1, 2, 3].map(|i| line[i].to_owned());
        let version = parsers::registry::schemas()
            .iter()
            .find(|s| *s.name == *line[0])
            .map_or(0, |s| s.version);
        assert!(
            version > 1 || there.contains(&column),
            "{column:?} is promised, and gone"
        );
    }
}

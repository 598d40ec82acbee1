//! Captures whose protocol was not recognized, or was recognized by mistake.

use testkit::TcpDialogue;

use crate::frames::Frames;
use crate::support::{Row, captures, run, written};

#[test]
fn dhcp_and_ntp_are_no_rpc() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    for (file, name) in [
        ("rpc_false_dhcp_xid1.pcap", "dhcp"),
        ("rpc_false_ntp_init.pcap", "ntp"),
    ] {
        let capture = root.join("found/bugs").join(file);
        assert_eq!(run(&capture, "rpc").rows, Vec::<Row>::new(), "{file}");
        let flows = run(&capture, "flow").rows;
        assert!(
            flows
                .iter()
                .all(|row| row.get("application").is_some_and(|a| a == name)),
            "{flows:#?}"
        );
    }
}

#[test]
fn memcached_on_another_port() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let rows = run(
        &root.join("found/bugs/mc_port_pipelined_over_4096.pcap"),
        "memcached",
    )
    .rows;
    assert_eq!(rows.len(), 451);
    assert!(
        rows.iter()
            .all(|row| row["quality"] == "exact" && row["hit"] == "true"),
        "{:?}",
        rows[0]
    );
    let rows = run(&root.join("found/bugs/mc_port_meta_mn.pcap"), "memcached").rows;
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row["quality"] == "exact"),
        "{rows:#?}"
    );
}

/// Requests wait for the first response up to the limit per flow; beyond it, they are skipped and counted.
#[test]
fn a_long_batch_before_the_first_answer() {
    for (n, fits) in [(1000, true), (5000, false)] {
        let mut talk = TcpDialogue::new("10.0.0.1:40000", "10.0.0.2:11311");
        talk.handshake();
        let batch: String = (0..n).map(|i| format!("delete {i:0240}\r\n")).collect();
        talk.client().send(batch.as_bytes());
        talk.server().send("NOT_FOUND\r\n".repeat(n).as_bytes());
        talk.client().send(b"set last 0 0 1\r\nx\r\n");
        talk.server().send(b"STORED\r\n");
        talk.close();
        let run = run(written(talk.sent()).path(), "memcached");
        let exact = run
            .rows
            .iter()
            .filter(|row| row["quality"] == "exact")
            .count();
        let passed_over = run.accounting.parsers.unrecognized_bytes;
        if fits {
            assert_eq!((exact, run.rows.len(), passed_over), (n + 1, n + 1, 0));
        } else {
            assert!(
                exact <= 1 && passed_over > 0,
                "{exact} exact, {passed_over}"
            );
        }
    }
}

/// The capture starts after the HTTP/2 preface: the first packets of each connection are removed.
#[test]
fn http2_joined_behind_the_preface() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let mut paths = captures(&root, &["captures/http2"]);
    paths.extend(["grpc.pcap", "http2_h2c.pcap"].map(|file| root.join("live-captures").join(file)));
    for path in paths {
        let capture = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        for skipped in [1, 2, 3, 5, 8] {
            let Some(mut frames) = Frames::read(&path) else {
                continue;
            };
            frames.forget_starts(skipped);
            let file = frames.write();
            let flows = run(file.path(), "flow").rows;
            let said = flows.iter().filter(|row| {
                row["client_payload_bytes"] != "0" && row["server_payload_bytes"] != "0"
            });
            let names: Vec<_> = said
                .map(|row| row.get("application").map(String::as_str))
                .collect();
            let is_named = |name: &Option<&str>| matches!(name, Some("http2" | "http"));
            let others = names.iter().filter(|name| !is_named(name)).count();
            assert_eq!(others, 0, "{capture} without {skipped}: {names:?}");
        }
    }
}

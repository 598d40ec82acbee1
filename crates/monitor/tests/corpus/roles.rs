//! Determines the client of connections joined midstream, where the first bytes may be misleading.

use testkit::TcpDialogue;

use crate::frames::Frames;
use crate::support::{Row, run, written};

fn rows_of(talk: &TcpDialogue, parser: &str) -> Vec<Row> {
    let file = written(talk.sent());
    run(file.path(), parser).rows
}

fn clients(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row["client_ip"].as_str()).collect()
}

/// The first client bytes are the end of a value and look like a reply; the server's first message looks like a
/// command.
#[test]
fn a_value_that_looks_like_a_reply() {
    let Some(root) = testkit::corpus() else {
        return;
    };
    let capture = root.join("found/redis_mid_value_tail2.pcap");
    let rows = run(&capture, "redis").rows;
    assert!(
        clients(&rows).iter().all(|client| *client == "10.1.0.1"),
        "{rows:#?}"
    );
    assert!(
        rows.iter()
            .any(|row| row.get("command").is_some_and(|c| c == "LRANGE")),
        "{rows:#?}"
    );
    let mut frames = Frames::read(&capture).expect("a pcap file");
    frames.rename_ports(|port| if port == 6379 { 7000 } else { port });
    let elsewhere = run(frames.write().path(), "redis").rows;
    assert!(
        clients(&elsewhere)
            .iter()
            .all(|client| *client == "10.1.0.1"),
        "{elsewhere:#?}"
    );
}

/// The last segment of an upload looks like a response: rejected on a well-known port, and corrected soon on other
/// ports.
#[test]
fn an_upload_that_looks_like_a_response() {
    for (server, misled_max) in [("10.0.0.2:80", 0), ("10.0.0.2:9123", 3)] {
        let mut talk = TcpDialogue::new("10.0.0.1:40000", server);
        talk.client()
            .send(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        talk.server()
            .send(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n");
        for i in 0..20 {
            talk.client()
                .send(format!("GET /{i} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            talk.server()
                .send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        let rows = rows_of(&talk, "http");
        let misled = clients(&rows)
            .iter()
            .filter(|client| **client != "10.0.0.1")
            .count();
        assert!(misled <= misled_max, "{server}: {misled} of {rows:#?}");
        let paired = rows
            .iter()
            .filter(|row| row["quality"] != "half" && row["client_ip"] == "10.0.0.1");
        for row in paired.clone() {
            assert_eq!(row["status"], "200", "{row:?}");
        }
        assert!(paired.count() >= 16, "{server}: {rows:#?}");
    }
}

/// Requests from a well-known port to another port are accepted after the second one. The first is not lost, even if no
/// other follows.
#[test]
fn a_client_on_a_port_of_servers() {
    for n in [1, 5] {
        let mut talk = TcpDialogue::new("10.0.0.1:80", "10.0.0.2:5000");
        for i in 0..n {
            talk.client()
                .send(format!("GET /{i} HTTP/1.1\r\nHost: h\r\n\r\n").as_bytes());
            talk.server()
                .send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
        let rows = rows_of(&talk, "http");
        assert_eq!(rows.len(), n, "{rows:#?}");
        assert!(
            clients(&rows).iter().all(|client| *client == "10.0.0.1"),
            "{rows:#?}"
        );
    }
    let mut talk = TcpDialogue::new("10.0.0.1:80", "10.0.0.2:5000");
    talk.client().send(b"GET /only HTTP/1.1\r\nHost: h\r\n\r\n");
    let rows = rows_of(&talk, "http");
    assert_eq!(
        rows.iter()
            .map(|row| row["path"].as_str())
            .collect::<Vec<_>>(),
        ["/only"]
    );
    assert_eq!(clients(&rows), ["10.0.0.1"]);
}

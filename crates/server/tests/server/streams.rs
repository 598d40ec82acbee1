//! Live streams: events of a connected client, and of one that reconnects.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};
use server::{JobAccount, JobState, ServiceLimits, WindowState};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};
use crate::history::{begin, publish, window};
use crate::schema;

/// A received event.
#[derive(Debug)]
pub struct Event {
    pub kind: String,
    pub id: Option<String>,
    pub data: Value,
}

/// A stream, read line by line.
pub struct Stream(BufReader<TcpStream>);

impl Stream {
    pub fn open(server: &Server, jobs: &str, seen: Option<&str>) -> Stream {
        Stream::open_as(&server.token, server, jobs, seen)
    }

    fn open_as(token: &str, server: &Server, jobs: &str, seen: Option<&str>) -> Stream {
        let mut socket = TcpStream::connect(server.address).expect("connected");
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a timeout");
        let seen = seen
            .map(|id| format!("Last-Event-ID: {id}\r\n"))
            .unwrap_or_default();
        let head = format!(
            "GET /api/v1/stream?jobs={jobs} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n{seen}\r\n",
            server.address
        );
        socket.write_all(head.as_bytes()).expect("sent");
        let mut stream = Stream(BufReader::new(socket));
        let first = stream.line().expect("an answer");
        assert_eq!(first, "HTTP/1.1 200 OK");
        while stream.line().is_some_and(|line| !line.is_empty()) {}
        stream
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).expect("it reads");
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The next event; `None` at the end of the stream. Skips chunk lengths and comments.
    pub fn next(&mut self) -> Option<Event> {
        let mut kind = None;
        let mut id = None;
        let mut data = String::new();
        loop {
            let line = self.line()?;
            match line.split_once(": ").unwrap_or((&line, "")) {
                ("event", value) => kind = Some(value.to_owned()),
                ("id", value) => id = Some(value.to_owned()),
                ("data", value) => data.push_str(value),
                ("", _) if kind.is_some() => {
                    let data = serde_json::from_str(&data).expect("JSON");
                    let event = Event {
                        kind: kind.take().expect("a kind"),
                        id,
                        data,
                    };
                    is_described(&event);
                    return Some(event);
                }
                _ => {}
            }
        }
    }

    fn expect(&mut self, kind: &str) -> Event {
        let event = self.next().expect("an event");
        assert_eq!(event.kind, kind, "{event:?}");
        event
    }
}

/// Every event has exactly the fields of the API description, with values of their types.
fn is_described(event: &Event) {
    let api: Value = serde_json::from_str(&server::openapi()).expect("JSON");
    let mut name = format!("{}Event", event.kind);
    name[..1].make_ascii_uppercase();
    let Some(schema) = api["components"]["schemas"].get(&name) else {
        // An alert has the description of `GET /api/v1/alerts`.
        assert_eq!(event.kind, "alert", "{name} is not described");
        return;
    };
    assert_eq!(
        schema::difference(&event.data, schema, &api),
        None,
        "{name}"
    );
    let described = schema::field_names(schema, &api);
    let unknown = event
        .data
        .as_object()
        .expect("an object")
        .keys()
        .find(|field| !described.contains(field));
    assert_eq!(unknown, None, "{name}: {described:?}");
}

#[test]
fn streams_start_with_a_snapshot() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let other = begin(&server);
    publish(
        &server,
        job,
        &window(0, &[("/a", 1), ("/b", 2)]),
        WindowState::Closed,
    );
    let mut stream = Stream::open(&server, &job.to_string(), None);
    let hello = stream.expect("hello");
    assert_eq!(hello.data["limits"]["heartbeat_seconds"], 10);
    let snapshot = stream.expect("snapshot").data;
    let result = &snapshot["results"][0];
    assert_eq!(
        (&snapshot["job"], &snapshot["state"]),
        (&json!(job.to_string()), &json!("running"))
    );
    assert_eq!(
        result["closed"]["rows"][1],
        json!(["0", "10000000000", "/b", 2, null])
    );
    assert_eq!(result["columns"][2]["name"], "url");
    publish(
        &server,
        other,
        &window(0, &[("/x", 1)]),
        WindowState::Closed,
    );
    publish(&server, job, &window(10, &[("/a", 3)]), WindowState::Open);
    let open = stream.expect("window").data;
    assert_eq!(
        (&open["state"], &open["start"]),
        (&json!("open"), &json!("10000000000"))
    );
    // Open rows are shown but not stored.
    let kept = server
        .get(&format!("/api/v1/jobs/{job}/rows"))
        .of(200)
        .json();
    assert_eq!(kept["total"], "2");
    publish(&server, job, &window(10, &[("/a", 4)]), WindowState::Closed);
    assert_eq!(
        stream.expect("window").data["rows"],
        json!([["10000000000", "20000000000", "/a", 4, null]])
    );
    let account = JobAccount {
        watermark_ns: Some(5),
        received: 7,
        parsed: 7,
        ..JobAccount::default()
    };
    server.fleet.hub().account(job, &account).expect("told");
    let account = stream.expect("account").data;
    assert_eq!(
        (&account["watermark_ns"], &account["received"]),
        (&json!("5"), &json!(7))
    );
    server
        .fleet
        .hub()
        .turn(job, JobState::Ended("done".into()), None)
        .expect("told");
    assert_eq!(
        stream.expect("job").data,
        json!({ "job": job.to_string(), "state": "ended", "reason": "done", "outcome": "finished" })
    );
}

#[test]
fn streams_end_with_their_token() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let asked = json!({ "name": "gone", "role": "raw" });
    let made = server
        .ask("POST", "/api/v1/tokens", Some(&asked))
        .of(201)
        .json();
    let secret = made["secret"].as_str().expect("a secret");
    let mut stream = Stream::open_as(secret, &server, &job.to_string(), None);
    let mut other = Stream::open(&server, &job.to_string(), None);
    for stream in [&mut stream, &mut other] {
        stream.expect("hello");
        stream.expect("snapshot");
    }
    let began = std::time::Instant::now();
    server
        .ask("DELETE", &format!("/api/v1/tokens/{}", made["id"]), None)
        .of(204);
    publish(&server, job, &window(0, &[("/a", 1)]), WindowState::Closed);
    other.expect("window");
    // The connection itself stays open for other requests.
    let bye = std::iter::from_fn(|| stream.next()).find(|event| event.kind == "bye");
    let bye = bye.expect("a last event").data;
    assert_eq!(bye["reason"], "the token was revoked", "{bye}");
    // Without waiting for a heartbeat, which comes every ten seconds.
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn reconnected_streams_miss_no_event() {
    let server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let mut stream = Stream::open(&server, &job.to_string(), None);
    stream.expect("hello");
    stream.expect("snapshot");
    publish(&server, job, &window(0, &[("/a", 1)]), WindowState::Closed);
    let seen = stream.expect("window").id.expect("an id");
    drop(stream);
    for n in 1..=3 {
        publish(
            &server,
            job,
            &window(n * 10, &[("/a", 1)]),
            WindowState::Closed,
        );
    }
    let mut stream = Stream::open(&server, &job.to_string(), Some(&seen));
    stream.expect("hello");
    for n in 1..=3 {
        assert_eq!(
            stream.expect("window").data["start"],
            (n * 10_000_000_000_i64).to_string()
        );
    }
    publish(&server, job, &window(40, &[("/a", 1)]), WindowState::Closed);
    assert_eq!(stream.expect("window").data["start"], "40000000000");
}

#[test]
fn streams_that_cannot_resume_are_reset() {
    let limits = ServiceLimits {
        ring_bytes: 600,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let job = begin(&server);
    let mut stream = Stream::open(&server, &job.to_string(), None);
    stream.expect("hello");
    stream.expect("snapshot");
    publish(&server, job, &window(0, &[("/a", 1)]), WindowState::Closed);
    let seen = stream.expect("window").id.expect("an id");
    for n in 1..=9 {
        publish(
            &server,
            job,
            &window(n * 10, &[("/a", 1)]),
            WindowState::Closed,
        );
    }
    for seen in [seen.as_str(), "1:1", "nonsense"] {
        let mut stream = Stream::open(&server, &job.to_string(), Some(seen));
        stream.expect("hello");
        assert!(stream.expect("gap").data["reason"].is_string());
        let snapshot = stream.expect("snapshot").data;
        assert_eq!(snapshot["results"][0]["closed"]["start"], "90000000000");
    }
}

#[test]
fn slow_streams_are_closed_without_delaying_others() {
    let limits = ServiceLimits {
        stream_queue_bytes: 20_000,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let job = begin(&server);
    let mut slow = Stream::open(&server, &job.to_string(), None);
    let text = "x".repeat(1000);
    let rows: Vec<_> = (0..100).map(|n| (text.as_str(), n)).collect();
    // More than the queue and the system's buffers hold.
    for n in 0..200 {
        publish(&server, job, &window(n * 10, &rows), WindowState::Closed);
    }
    let mut events = Vec::new();
    while let Some(event) = slow.next() {
        events.push(event.kind);
        if events.last().is_some_and(|kind| kind == "bye") {
            break;
        }
    }
    assert_eq!(events.last().map(String::as_str), Some("bye"));
    assert!(events.len() < 200, "{}", events.len());
}

#[test]
fn streams_announce_the_end_of_the_server() {
    let mut server = Server::start(TestFleet::new(Way::Note));
    let job = begin(&server);
    let mut stream = Stream::open(&server, &job.to_string(), None);
    stream.expect("hello");
    stream.expect("snapshot");
    server.end();
    assert_eq!(
        stream.expect("bye").data["reason"],
        "the server is stopping"
    );
    assert!(stream.next().is_none());
}

#[test]
fn there_are_so_many_streams() {
    let limits = ServiceLimits {
        streams_max: 1,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let job = begin(&server);
    let mut stream = Stream::open(&server, &job.to_string(), None);
    stream.expect("hello");
    assert_eq!(
        server.get("/api/v1/stream").of(503).json()["code"],
        "too_many_streams"
    );
    assert_eq!(
        server.get("/api/v1/counters").of(200).json()["streams_refused"],
        1
    );
}

#[test]
fn a_token_has_so_many_streams() {
    let limits = ServiceLimits {
        streams_per_token_max: 1,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let job = begin(&server);
    let mut stream = Stream::open(&server, &job.to_string(), None);
    stream.expect("hello");
    let refused = server.get("/api/v1/stream").of(503).json();
    assert_eq!(refused["code"], "too_many_streams");
    assert!(
        refused["message"]
            .as_str()
            .is_some_and(|why| why.contains("--streams-per-token")),
        "{refused}"
    );
    assert_eq!(
        server.get("/api/v1/counters").of(200).json()["streams_refused"],
        1
    );
}

//! The page for scrapers, as requested over a socket.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use outlets::address::SystemSecrets;
use outlets::{OutletAddress, OutletLimits, OutletSink};
use sinks::{ResultHead, Sink};
use testkit::programs::{PATIENCE, free_port, wait_for};
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

/// A result without windows: groups and their counts.
fn rows(groups: &[(&str, u64)]) -> Batch {
    let schema = Arc::new(Schema {
        name: "group-count".into(),
        version: 1,
        doc: "".into(),
        fields: vec![
            Field::new("url", DataType::Text, Unit::None, ""),
            Field::new("count", DataType::U64, Unit::None, "tuples"),
        ],
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    });
    let mut w = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
    for (group, count) in groups {
        w.text(FieldId(0), group.as_bytes());
        w.u64(FieldId(1), *count);
        w.end_row();
    }
    w.finish()
}

/// A page at this port and path.
fn opened(port: u16, path: &str, end_max: Duration) -> OutletSink {
    let to = format!("prometheus://127.0.0.1:{port}{path}");
    let address = OutletAddress::read(&to, &SystemSecrets).expect("an address");
    let limits = OutletLimits {
        end_max,
        ..OutletLimits::default()
    };
    let mut sink = OutletSink::prepare(&[address], limits, "query").expect("an outlet");
    sink.start(&(Arc::new(|| {}) as Arc<dyn Fn() + Send + Sync>))
        .expect("threads");
    sink.announce(&[ResultHead {
        processor: Some("group-count".into()),
        columns: vec!["url".into(), "count".into()],
        keys: 1,
        parsers: vec!["http".into()],
        ..ResultHead::default()
    }]);
    sink
}

/// The response to these pieces of a request.
fn ask(port: u16, pieces: &[&[u8]]) -> String {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("a server");
    connection
        .set_read_timeout(Some(PATIENCE))
        .expect("a socket");
    connection.set_nodelay(true).expect("a socket");
    for piece in pieces {
        connection.write_all(piece).expect("it reads");
    }
    connection.shutdown(Shutdown::Write).expect("a socket");
    let mut response = String::new();
    connection
        .read_to_string(&mut response)
        .expect("a response");
    response
}

fn get(port: u16, path: &str) -> String {
    ask(
        port,
        &[format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()],
    )
}

fn status(response: &str) -> &str {
    response.split(' ').nth(1).unwrap_or_default()
}

#[test]
fn rows_are_on_the_page_until_they_are_scraped() {
    let port = free_port();
    let mut sink = opened(port, "", PATIENCE);
    sink.write(0, &rows(&[("/a", 3), ("/b", 4)]))
        .expect("no I/O");
    let ended = thread::spawn(move || {
        sink.finish().expect("no I/O");
        sink.delivered().remove(0)
    });
    wait_for("the rows", || {
        let page = get(port, "/metrics");
        let line = "netalytics_http_count_total{processor=\"group-count\",url_full=\"/b\"} 4";
        page.lines()
            .find(|found| *found == line)
            .map(drop)
            .ok_or(page.clone())
    });
    let outcome = ended.join().expect("no panic");
    assert_eq!((outcome.rows, outcome.sent, outcome.problem), (2, 2, None));
}

#[test]
fn a_page_that_is_never_scraped_ends_in_time() {
    let mut sink = opened(free_port(), "", Duration::from_millis(20));
    sink.write(0, &rows(&[("/a", 3)])).expect("no I/O");
    sink.finish().expect("no I/O");
    let outcome = sink.delivered().remove(0);
    assert_eq!(outcome.sent + outcome.lost_rows(), 1);
    assert_eq!(
        outcome.problem.as_deref(),
        Some("the last windows were not scraped before the end")
    );
    // A second end has nothing to wait for.
    sink.finish().expect("no I/O");
    assert_eq!(sink.delivered().remove(0).rows, 1);
}

#[test]
fn the_path_of_the_address_is_that_of_the_page() {
    for (path, page) in [
        ("", "/metrics"),
        ("/", "/metrics"),
        ("/stats", "/stats"),
        ("/stats?job=1", "/stats"),
        ("?job=1", "/metrics"),
    ] {
        let port = free_port();
        let sink = opened(port, path, Duration::from_millis(1));
        assert_eq!(status(&get(port, page)), "200", "{path}");
        assert_eq!(
            status(&get(port, &format!("{page}?any=query"))),
            "200",
            "{path}"
        );
        let missing = get(port, "/other");
        assert_eq!(status(&missing), "404", "{path}");
        assert!(
            missing.ends_with(&format!("metrics are at {page}\n")),
            "{missing}"
        );
        drop(sink);
    }
}

#[test]
fn requests_that_are_not_of_a_scraper_are_refused() {
    let port = free_port();
    let _sink = opened(port, "", Duration::from_millis(1));
    let long = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}",
        "x".repeat(8192)
    );
    for (request, expected) in [
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /metrics HTTP/2\r\nHost: localhost\r\n\r\n", "400"),
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n", "400"),
        (&long[..8192], "400"),
        ("", "400"),
        // A page of another origin, whose name was resolved to this machine.
        ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"),
        (
            "GET /metrics HTTP/1.1\r\nHost: localhost.evil.example\r\n\r\n",
            "421",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
            "421",
        ),
        ("GET /metrics HTTP/1.1\r\n\r\n", "421"),
        ("GET /metrics HTTP/1.1\r\nHost: LOCALHOST:1\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nhost:127.9.9.9\r\n\r\n", "200"),
        ("GET /metrics HTTP/1.1\r\nHost: [::1]:9464\r\n\r\n", "200"),
    ] {
        assert_eq!(
            status(&ask(port, &[request.as_bytes()])),
            expected,
            "{request}"
        );
    }
    let invalid = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: \xff\r\n\r\n";
    assert_eq!(status(&ask(port, &[invalid])), "400");
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let port = free_port();
    let _sink = opened(port, "", Duration::from_millis(1));
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let pieces: Vec<&[u8]> = request.chunks(1).collect();
    assert_eq!(status(&ask(port, &pieces)), "200");
}

/// Clients that connect and are silent neither stop the run nor the scrapes after them.
#[test]
fn silent_connections_are_limited_and_leave_their_places() {
    let port = free_port();
    let _sink = opened(port, "", Duration::from_millis(1));
    let connect = || TcpStream::connect(("127.0.0.1", port)).expect("a server");
    let silent: Vec<TcpStream> = (0..8).map(|_| connect()).collect();
    let mut one_more = connect();
    one_more.set_read_timeout(Some(PATIENCE)).expect("a socket");
    assert!(matches!(one_more.read(&mut [0]), Ok(0) | Err(_)), "closed");
    drop(silent);
    wait_for("a place", || {
        let mut connection = connect();
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut response = String::new();
        let read = connection
            .write_all(request)
            .and_then(|()| connection.read_to_string(&mut response));
        match (read, status(&response)) {
            (Ok(_), "200") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

#[test]
fn a_port_in_use_is_an_error_before_the_run() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!("prometheus://{}", taken.local_addr().expect("an address"));
    let address = OutletAddress::read(&to, &SystemSecrets).expect("an address");
    let refused = OutletSink::prepare(&[address], OutletLimits::default(), "query");
    let why = refused.err().expect("no outlet").0;
    assert!(why.starts_with(&format!("{to}: cannot listen: ")), "{why}");
}

/// With a limit of series, the others are counted on the page.
#[test]
fn groups_beyond_the_limit_are_counted() {
    let port = free_port();
    let to = format!("prometheus://127.0.0.1:{port}");
    let address = OutletAddress::read(&to, &SystemSecrets).expect("an address");
    let limits = OutletLimits {
        series_max: 10,
        end_max: PATIENCE,
        ..OutletLimits::default()
    };
    let mut sink = OutletSink::prepare(&[address], limits, "query").expect("an outlet");
    sink.start(&(Arc::new(|| {}) as Arc<dyn Fn() + Send + Sync>))
        .expect("threads");
    sink.announce(&[ResultHead {
        processor: Some("group-count".into()),
        keys: 1,
        parsers: vec!["http".into()],
        ..ResultHead::default()
    }]);
    let groups: Vec<String> = (0..5000).map(|n| format!("/{n}")).collect();
    let groups: Vec<(&str, u64)> = groups.iter().map(|group| (group.as_str(), 1)).collect();
    sink.write(0, &rows(&groups)).expect("no I/O");
    let ended = thread::spawn(move || {
        sink.finish().expect("no I/O");
        sink.delivered().remove(0)
    });
    wait_for("the counters", || {
        let page = get(port, "/metrics");
        let has = |line: &str| page.lines().any(|found| found == line);
        if has("netalytics_series 10") && has("netalytics_points_left_out_total 4990") {
            Ok(())
        } else {
            Err(page)
        }
    });
    let outcome = ended.join().expect("no panic");
    assert_eq!(outcome.sent, 5000);
    assert!(outcome.counts.contains(&("left_out", 4990)), "{outcome:?}");
}

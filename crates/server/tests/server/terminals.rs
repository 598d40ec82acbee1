//! Support for `netalytics query --server`: rows in their stored format, and leases.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::{ColumnHead, read_arrow, read_rows, schema};
use sinks::{JsonlSink, ResultHead, Sink};
use tuple::Batch;

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// Output of a sink.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("bytes").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lines(batches: &[Batch], processor: Option<&str>) -> String {
    let out = Shared::default();
    let head = ResultHead {
        processor: processor.map(str::to_owned),
        ..ResultHead::default()
    };
    let mut sink = JsonlSink::new(out.clone(), &[head]);
    batches
        .iter()
        .for_each(|batch| sink.write(0, batch).expect("writing to memory cannot fail"));
    sink.finish().expect("writing to memory cannot fail");
    drop(sink);
    String::from_utf8(out.0.lock().expect("bytes").clone()).expect("text")
}

#[test]
fn rows_equal_those_of_the_server() {
    let server = Server::start(TestFleet::shop());
    for query in [
        "PARSE http",
        "PARSE mysql_query SELECT ts, client_ip, query, error_code, response_time",
        "PARSE http PROCESS (diff-group: group=client_ip, url_template, w=300ms), (group-count-success: group=status)",
        "PARSE memcached PROCESS (workload-profile)",
    ] {
        let job = server.job(query);
        server.ended(&job);
        let results = server
            .get(&format!("/api/v1/jobs/{job}/results"))
            .of(200)
            .json();
        for (place, of) in results["results"]
            .as_array()
            .expect("results")
            .iter()
            .enumerate()
        {
            let columns: Vec<ColumnHead> =
                serde_json::from_value(of["columns"].clone()).expect("columns");
            let schema = schema("rows", &columns).expect("types that are known");
            let page = |form: &str| {
                let path =
                    format!("/api/v1/jobs/{job}/rows?limit=10000&result={place}&format={form}");
                server.get(&path).of(200)
            };
            let expected = page("jsonl").text();
            let processor = of["processor"].as_str();
            let arrow = page("arrow");
            let read = read_arrow(&arrow.body, &schema).expect("rows");
            assert_eq!(lines(&read, processor), expected, "{query}");
            let rows = expected.lines().count();
            assert_eq!(
                arrow.header("netalytics-last"),
                Some((rows - 1).to_string().as_str())
            );
            let told = page("json").json();
            let told = read_rows(told["rows"].as_array().expect("rows"), &schema).expect("rows");
            let values = |text: &str| -> Vec<Value> {
                text.lines()
                    .map(|line| serde_json::from_str(line).expect("a row"))
                    .collect()
            };
            assert_eq!(
                values(&lines(&[told], processor)),
                values(&expected),
                "{query}"
            );
        }
    }
    let wrong = schema("rows", &[]).expect("no column");
    assert!(read_arrow(b"no rows", &wrong).is_err());
    assert!(read_rows(&[json!([1])], &wrong).is_none());
}

#[test]
fn jobs_end_when_their_lease_expires() {
    let server = Server::start(TestFleet::new(Way::Note));
    let body = |lease: u32| json!({ "query": "PARSE http PROCESS (rate)", "lease_seconds": lease });
    let start = |lease| {
        server
            .ask("POST", "/api/v1/jobs", Some(&body(lease)))
            .of(201)
            .json()
    };
    let renewed = start(2);
    let left = start(2);
    let long = start(3600);
    let path = format!(
        "/api/v1/jobs/{}/renew",
        renewed["id"].as_str().expect("a number")
    );
    let began = Instant::now();
    let stopped = || server.fleet.stopped.lock().expect("stopped").clone();
    // Longer than the lease, until the other lease has expired.
    while began.elapsed() < Duration::from_secs(4) || stopped().is_empty() {
        assert_eq!(
            server.ask("POST", &path, None).of(200).json()["lease_seconds"],
            2
        );
        assert!(began.elapsed() < Duration::from_secs(60), "no lease ends");
        std::thread::sleep(Duration::from_millis(100));
    }
    let ended: Vec<String> = stopped().iter().map(ToString::to_string).collect();
    assert_eq!(ended, [left["id"].as_str().expect("a number")], "{long}");
    for (asked, words) in [
        (
            json!({ "query": "PARSE http", "kind": "standing", "lease_seconds": 5 }),
            "has no lease",
        ),
        (
            json!({ "query": "PARSE http", "lease_seconds": 0 }),
            "a lease has 1 to 86400 seconds",
        ),
        (
            json!({ "query": "PARSE http", "capture_filter": "x".repeat(20_000) }),
            "at most 10000 bytes",
        ),
    ] {
        let said = server
            .ask("POST", "/api/v1/jobs", Some(&asked))
            .of(400)
            .json();
        assert!(
            said["message"]
                .as_str()
                .is_some_and(|said| said.contains(words)),
            "{said}"
        );
    }
    // Only its owner may renew it.
    let other = json!({ "name": "other", "role": "run" });
    let other = server
        .ask("POST", "/api/v1/tokens", Some(&other))
        .of(201)
        .json();
    server
        .ask_as(
            other["secret"].as_str().expect("a secret"),
            "POST",
            &path,
            None,
        )
        .of(403);
}

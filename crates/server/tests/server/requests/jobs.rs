//! Jobs: bounds of their members, bodies, keys, pages, and requests at the same time.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use server::{JobState, ServiceLimits};

use super::{RATE, noted};
use crate::client::{Answer, Server};
use crate::fleet::{TestFleet, Way};
use crate::history::begin;

/// Asks for a job with these members besides the query.
fn ask(server: &Server, members: &Value) -> Answer {
    let mut body = json!({ "query": RATE });
    for (name, value) in members.as_object().expect("members") {
        body[name] = value.clone();
    }
    server.ask("POST", "/api/v1/jobs", Some(&body))
}

/// Asks for a job with these bytes and headers.
fn ask_bytes(server: &Server, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let bearer = format!("Bearer {}", server.token);
    let own = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let headers: Vec<_> = own.into_iter().chain(headers.iter().copied()).collect();
    server.ask_bytes("POST", "/api/v1/jobs", &headers, body)
}

fn number_of_jobs(server: &Server) -> usize {
    let jobs = server.get("/api/v1/jobs?limit=1000").of(200).json();
    jobs["jobs"].as_array().expect("jobs").len()
}

#[test]
fn leases_have_bounds() {
    let server = noted();
    for (seconds, status) in [
        (json!(0), 400),
        (json!(1), 201),
        (json!(86_400), 201),
        (json!(86_401), 400),
        (json!(4_294_967_296_u64), 400),
        (json!(-1), 400),
        (json!(1.5), 400),
        (json!("60"), 400),
        (Value::Null, 201),
    ] {
        ask(&server, &json!({ "lease_seconds": seconds })).of(status);
    }
    ask(&server, &json!({ "lease_seconds": 60, "kind": "standing" })).of(400);
    assert_eq!(number_of_jobs(&server), 3);
}

#[test]
fn names_and_labels_have_bounds_in_bytes() {
    let server = noted();
    let labels = |n: usize, value: &str| -> Value {
        (0..n)
            .map(|n| (format!("label{n}"), json!(value)))
            .collect()
    };
    for (members, status) in [
        (json!({ "name": "x".repeat(200) }), 201),
        (json!({ "name": "x".repeat(201) }), 400),
        (json!({ "name": "é".repeat(100) }), 201),
        (json!({ "name": "é".repeat(101) }), 400),
        (json!({ "labels": labels(32, "v") }), 201),
        (json!({ "labels": labels(33, "v") }), 400),
        (json!({ "labels": labels(1, &"v".repeat(201)) }), 400),
        (json!({ "on": labels(33, "v") }), 400),
        (json!({ "interfaces": vec!["eth0"; 33] }), 400),
        (json!({ "capture_filter": "x".repeat(10_001) }), 400),
    ] {
        ask(&server, &members).of(status);
    }
}

/// Names are shown as they were given, whatever they contain.
#[test]
fn any_text_is_a_name() {
    let server = noted();
    for name in [
        "\u{0}\u{1}\n\r\t",
        "'; DROP TABLE jobs; --",
        "<script>",
        "\u{202e}x",
        "🦀",
        "\"\\",
    ] {
        let made = ask(&server, &json!({ "name": name, "labels": { "a": name } }))
            .of(201)
            .json();
        let id = made["id"].as_str().expect("a number");
        let shown = server.get(&format!("/api/v1/jobs/{id}")).of(200).json();
        assert_eq!(
            (&shown["name"], &shown["labels"]["a"]),
            (&json!(name), &json!(name))
        );
    }
    // The page shows them as text.
    let page = server.get("/").of(200).text();
    assert!(!page.contains("<script>"), "{page}");
}

#[test]
fn words_of_later_versions_are_rejected_with_those_that_are_known() {
    let server = noted();
    for (member, word, known) in [
        ("kind", "sometimes", "one_off"),
        ("keep", "everything", "tuples"),
        ("bus", "nats", "kafka"),
        ("engine", "spark", "flink"),
        ("source", "mirror", "exports"),
    ] {
        let failed = ask(&server, &json!({ member: word })).of(400).json();
        let message = failed["message"].as_str().expect("a message");
        assert!(
            message.contains(word) && message.contains(known),
            "{member}: {message}"
        );
    }
    assert!(server.get("/api/v1/jobs?state=paused").of(200).json()["jobs"] == json!([]));
    assert_eq!(number_of_jobs(&server), 0);
}

#[test]
fn bodies_are_one_json_value_of_limited_size() {
    let server = noted();
    let valid = format!("{{\"query\":\"{RATE}\"}}");
    let padded = |bytes: usize| format!("{valid}{}", " ".repeat(bytes - valid.len()));
    for (body, status) in [
        (padded(1 << 20), 201),
        (padded((1 << 20) + 1), 413),
        (format!("{valid}{valid}"), 400),
        (format!("{valid}x"), 400),
        (format!("\u{feff}{valid}"), 400),
        (format!("[{valid}]"), 400),
        (String::new(), 400),
        ("null".into(), 400),
        // A member that occurs twice has no meaning.
        (
            format!("{{\"query\":\"{RATE}\",\"query\":\"PARSE dns\"}}"),
            400,
        ),
        (
            format!("{{\"query\":\"{RATE}\",\"name\":\"\\ud800\"}}"),
            400,
        ),
    ] {
        ask_bytes(&server, &[], body.as_bytes()).of(status);
    }
    ask_bytes(&server, &[], b"{\"query\":\"\xc3\x28\"}").of(400);
    assert_eq!(number_of_jobs(&server), 1);
}

#[test]
fn idempotency_keys_have_bounds() {
    let server = noted();
    let body = json!({ "query": RATE }).to_string();
    let send = |headers: &[(&str, &str)]| ask_bytes(&server, headers, body.as_bytes());
    let key = |text: &str| send(&[("idempotency-key", text)]);
    key(&"k".repeat(200)).of(201);
    key(&"k".repeat(200)).of(200);
    key(&"k".repeat(201)).of(400);
    key("").of(400);
    send(&[("idempotency-key", "a"), ("idempotency-key", "a")]).of(400);
    assert_eq!(number_of_jobs(&server), 1);
}

/// A request that failed did not use its key.
#[test]
fn a_key_is_used_by_the_first_request_that_succeeds() {
    let server = noted();
    let send = |query: &str| {
        let body = json!({ "query": query }).to_string();
        ask_bytes(&server, &[("idempotency-key", "k")], body.as_bytes())
    };
    send("PARSE nothing").of(400);
    let job = send(RATE).of(201).json()["id"].clone();
    assert_eq!(send(RATE).of(200).json()["id"], job);
    send("PARSE nothing").of(409);
}

/// The keys of a token are its own.
#[test]
fn equal_keys_of_two_tokens_are_two_jobs() {
    let server = noted();
    let secret = |name: &str| {
        let asked = json!({ "name": name, "role": "run" });
        let made = server
            .ask("POST", "/api/v1/tokens", Some(&asked))
            .of(201)
            .json();
        made["secret"].as_str().expect("a secret").to_owned()
    };
    let ids: BTreeSet<String> = ["first", "second"]
        .into_iter()
        .map(|name| {
            let bearer = format!("Bearer {}", secret(name));
            let headers = [("authorization", bearer.as_str()), ("idempotency-key", "k")];
            let body = json!({ "query": RATE });
            let made = server
                .ask_with("POST", "/api/v1/jobs", &headers, Some(&body))
                .of(201);
            made.json()["id"].to_string()
        })
        .collect();
    assert_eq!(ids.len(), 2);
}

#[test]
fn pages_of_jobs_have_each_job_once_while_others_are_added() {
    let limits = ServiceLimits {
        jobs_max: 1000,
        jobs_per_owner_max: 1000,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let jobs: Vec<String> = (0..60).map(|_| server.job(RATE)).collect();
    let mut seen = Vec::new();
    let mut before = String::new();
    loop {
        let page = server
            .get(&format!("/api/v1/jobs?limit=7{before}"))
            .of(200)
            .json();
        let ids = page["jobs"].as_array().expect("jobs").iter();
        seen.extend(ids.map(|job| job["id"].as_str().expect("a number").to_owned()));
        server.job(RATE);
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    seen.reverse();
    assert_eq!(seen, jobs);
    assert_eq!(
        server.get("/api/v1/jobs?limit=0").of(200).json()["jobs"],
        json!([])
    );
}

#[test]
fn numbers_of_jobs_are_positive_and_have_63_bits() {
    let server = noted();
    server.job(RATE);
    for number in [
        "0",
        "-1",
        "1.0",
        "x",
        "%00",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551617",
    ] {
        for path in ["", "/rows", "/results", "/agents"] {
            let path = format!("/api/v1/jobs/{number}{path}");
            assert_eq!(
                server.get(&path).of(404).json()["code"],
                "not_found",
                "{path}"
            );
        }
    }
    let before = |number: &str| server.get(&format!("/api/v1/jobs?before={number}"));
    let all = before("9223372036854775807").of(200).json();
    assert_eq!(all["jobs"].as_array().map(Vec::len), Some(1));
    before("9223372036854775808").of(404);
}

#[test]
fn a_job_is_stopped_once_by_many() {
    let server = noted();
    let job = begin(&server);
    let path = format!("/api/v1/jobs/{job}");
    let states: Vec<Value> = std::thread::scope(|scope| {
        let stop = || server.ask("DELETE", &path, None).of(200).json()["state"].clone();
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(stop)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("an answer"))
            .collect()
    });
    assert!(states.iter().all(|state| state == "draining"), "{states:?}");
    let hub = server.fleet.hub();
    hub.turn(job, JobState::Ended("done".into()), None)
        .expect("noted");
    let ended = server.ask("DELETE", &path, None).of(200).json();
    assert_eq!(
        (&ended["state"], &ended["reason"]),
        (&json!("ended"), &json!("done"))
    );
    server.ask("DELETE", "/api/v1/jobs/99", None).of(404);
}

#[test]
fn a_renewal_of_a_job_without_a_lease_changes_nothing() {
    let server = noted();
    let plain = server.job(RATE);
    let path = format!("/api/v1/jobs/{plain}/renew");
    let renewed = server.ask("POST", &path, None).of(200).json();
    assert_eq!(
        (&renewed["lease_seconds"], &renewed["state"]),
        (&Value::Null, &json!("planned"))
    );
    server.ask("POST", "/api/v1/jobs/99/renew", None).of(404);
}

//! Requests with boundary values, of later versions, repeated, and at the same time.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use server::{JobState, ServiceLimits, WindowState};

use crate::client::{Answer, Server};
use crate::fleet::{TestFleet, Way};
use crate::history::{begin, counts, publish, window};

const RATE: &str = "PARSE http PROCESS (rate)";

fn noted() -> Server {
    Server::start(TestFleet::new(Way::Note))
}

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
fn pages_of_rows_have_bounds() {
    let server = noted();
    let job = begin(&server);
    for start in 0..3 {
        let rows: Vec<_> = (0..5000).map(|n| ("/a", start * 5000 + n)).collect();
        publish(
            &server,
            job,
            &window(start as i64 * 10, &rows),
            WindowState::Closed,
        );
    }
    assert_eq!(counts(&server, job), (0..15_000).collect::<Vec<_>>());
    let rows = |query: &str| server.get(&format!("/api/v1/jobs/{job}/rows?{query}"));
    let found = |query: &str| {
        let page = rows(query).of(200).json();
        let rows = page["rows"].as_array().expect("rows");
        let counts = rows.iter().map(|row| row[3].as_u64().expect("a count"));
        (
            counts.collect::<Vec<_>>(),
            page["next"].as_str().map(str::to_owned),
        )
    };
    assert_eq!(found("limit=100000").0.len(), 10_000, "the limit of a page");
    assert_eq!(found("after=14998"), (vec![14_999], None));
    for empty in [
        "after=14999",
        "after=9223372036854775807",
        "since=10&until=10",
        "since=9&until=3",
    ] {
        assert_eq!(found(empty), (vec![], None), "{empty}");
    }
    // Windows start at 0, 10, and 20 seconds.
    assert_eq!(found("since=20000000000&limit=1").0, [10_000]);
    assert_eq!(found("until=1&after=4998").0, [4999]);
    assert_eq!(
        found(&format!("since={}&until={}&limit=2", i64::MIN, i64::MAX)).0,
        [0, 1]
    );
    for wrong in [
        "after=-1",
        "after=x",
        "after=9223372036854775808",
        "limit=-1",
        "since=soon",
        "order=up",
    ] {
        rows(wrong).of(400);
    }
    assert_eq!(rows("format=xml").status, 406);
    for unknown in ["result=1", "result=-1", "result=count"] {
        assert_eq!(
            rows(unknown).of(404).json()["code"],
            "not_found",
            "{unknown}"
        );
    }
    assert_eq!(
        found("result=group-count&limit=1").0,
        found("result=0&limit=1").0
    );
}

/// The page ends where the next one starts, whatever its format.
#[test]
fn every_format_has_the_same_rows() {
    let server = noted();
    let job = begin(&server);
    let rows: Vec<_> = (0..100).map(|n| ("a,\"b\"\n\u{1f980}", n)).collect();
    publish(&server, job, &window(0, &rows), WindowState::Closed);
    let page = |format: &str| {
        let page = server
            .get(&format!("/api/v1/jobs/{job}/rows?limit=40&format={format}"))
            .of(200);
        assert_eq!(page.header("netalytics-next"), Some("39"), "{format}");
        assert_eq!(page.header("netalytics-last"), Some("39"), "{format}");
        page
    };
    let urls = page("json").json()["rows"]
        .as_array()
        .expect("rows")
        .clone();
    assert!(urls.iter().all(|row| row[2] == "a,\"b\"\n\u{1f980}"));
    let lines = page("jsonl").text();
    assert_eq!(lines.lines().count(), 40);
    for line in lines.lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(row["url"], "a,\"b\"\n\u{1f980}");
    }
    // A quoted cell with a line feed and doubled quotes (RFC 4180).
    let csv = page("csv").text();
    assert_eq!(
        csv.matches("\"a,\"\"b\"\"\n\u{1f980}\"").count(),
        40,
        "{csv}"
    );
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

#[test]
fn tokens_have_bounds() {
    let server = noted();
    let create = |members: Value| {
        let mut body = json!({ "name": "x", "role": "view" });
        for (name, value) in members.as_object().expect("members") {
            body[name] = value.clone();
        }
        server.ask("POST", "/api/v1/tokens", Some(&body))
    };
    let networks = |n: u32| (0..n).map(|n| format!("10.{n}.0.0/16")).collect::<Vec<_>>();
    for (members, status) in [
        (json!({ "name": "a".repeat(64) }), 201),
        (json!({ "name": "a".repeat(64) }), 409),
        (json!({ "name": "a".repeat(65) }), 400),
        (json!({ "name": "" }), 400),
        (json!({ "name": "a b" }), 400),
        (json!({ "name": "é" }), 400),
        (json!({ "role": "root" }), 400),
        (json!({ "role": "Admin" }), 400),
        (json!({ "name": "n100", "networks": networks(100) }), 201),
        (json!({ "name": "n101", "networks": networks(101) }), 400),
        (json!({ "networks": ["10.0.0.0/33"] }), 400),
        (json!({ "networks": ["10.0.0/8"] }), 400),
        (json!({ "networks": ["::/129"] }), 400),
        (json!({ "networks": [""] }), 400),
        (
            json!({ "name": "long", "expires_in_seconds": u32::MAX }),
            201,
        ),
        (
            json!({ "expires_in_seconds": u64::from(u32::MAX) + 1 }),
            400,
        ),
        (json!({ "expires_in_seconds": -1 }), 400),
    ] {
        create(members).of(status);
    }
    let gone = create(json!({ "name": "gone", "expires_in_seconds": 0 }))
        .of(201)
        .json();
    let secret = gone["secret"].as_str().expect("a secret");
    server.ask_as(secret, "GET", "/api/v1/jobs", None).of(401);
}

/// A scoped admin names its own networks in any order.
#[test]
fn the_order_of_networks_does_not_matter() {
    let server = noted();
    let body = |name: &str, networks: &[&str]| json!({ "name": name, "role": "admin", "networks": networks });
    let made = server
        .ask(
            "POST",
            "/api/v1/tokens",
            Some(&body("scoped", &["10.1.0.0/16", "10.2.0.0/16"])),
        )
        .of(201);
    let secret = made.json()["secret"].as_str().expect("a secret").to_owned();
    let create = |name: &str, networks: &[&str]| {
        server
            .ask_as(
                &secret,
                "POST",
                "/api/v1/tokens",
                Some(&body(name, networks)),
            )
            .status
    };
    assert_eq!(create("same", &["10.1.0.0/16", "10.2.0.0/16"]), 201);
    assert_eq!(create("other-order", &["10.2.0.0/16", "10.1.0.0/16"]), 201);
    assert_eq!(
        create("twice", &["10.2.0.0/16", "10.1.0.0/16", "10.2.0.0/16"]),
        201
    );
    for networks in [
        &["10.1.0.0/16"][..],
        &["10.0.0.0/8"],
        &[],
        &["10.1.0.0/16", "10.3.0.0/16"],
    ] {
        assert_eq!(create("wrong", networks), 403, "{networks:?}");
    }
}

#[test]
fn pages_of_the_audit_log_have_each_entry_once() {
    let server = noted();
    for n in 0..25 {
        let asked = json!({ "name": format!("t{n}"), "role": "view" });
        server.ask("POST", "/api/v1/tokens", Some(&asked)).of(201);
    }
    let mut seen = Vec::new();
    let mut before = String::new();
    loop {
        let page = server
            .get(&format!("/api/v1/audit?limit=4{before}"))
            .of(200)
            .json();
        let entries = page["entries"].as_array().expect("entries").clone();
        let Some(last) = entries.last() else { break };
        before = format!("&before={}", last["id"]);
        let created = entries
            .into_iter()
            .filter(|entry| entry["act"] == "token.create");
        seen.extend(created.map(|entry| entry["object"].clone()));
        // Another operation in the meantime.
        server.ask("DELETE", "/api/v1/tokens/99999", None).of(404);
    }
    seen.reverse();
    let expected: Vec<Value> = (0..25).map(|n| json!(format!("t{n}"))).collect();
    assert_eq!(seen, expected);
    for wrong in ["before=x", "limit=-1", "before=9223372036854775808"] {
        server.get(&format!("/api/v1/audit?{wrong}")).of(400);
    }
}

#[test]
fn tokens_are_revoked_once_and_never_by_themselves() {
    let server = noted();
    let asked = json!({ "name": "x", "role": "admin" });
    let made = server
        .ask("POST", "/api/v1/tokens", Some(&asked))
        .of(201)
        .json();
    let secret = made["secret"].as_str().expect("a secret");
    let path = format!("/api/v1/tokens/{}", made["id"]);
    server.ask_as(secret, "DELETE", &path, None).of(409);
    server.ask("DELETE", &path, None).of(204);
    server.ask("DELETE", &path, None).of(404);
    server.ask_as(secret, "GET", "/api/v1/tokens", None).of(401);
    for number in ["0", "-1", "x", "9223372036854775808"] {
        server
            .ask("DELETE", &format!("/api/v1/tokens/{number}"), None)
            .of(404);
    }
}

/// Also of those that only look like paths of the API.
#[test]
fn unknown_paths_and_methods_have_the_common_error_form() {
    let server = noted();
    for (method, path, status) in [
        ("GET", "/api/v2/jobs", 404),
        ("GET", "/api/v1/jobs/", 404),
        ("GET", "/api/v1/jobs/1/rows/2", 404),
        ("GET", "/api/v1/../v1/jobs", 404),
        ("GET", "//api/v1/jobs", 404),
        ("PATCH", "/api/v1/jobs", 405),
        ("DELETE", "/api/v1/jobs", 405),
        ("POST", "/api/v1/jobs/1", 405),
    ] {
        let failed = server.ask(method, path, None).of(status).json();
        assert!(
            failed["code"].is_string() && failed["message"].is_string(),
            "{method} {path}: {failed}"
        );
    }
}

/// A client that resends a batch after a restart of the server, and rows of an earlier window.
#[test]
fn rows_are_kept_in_the_order_of_arrival() {
    let server = noted();
    let job = begin(&server);
    for (start, count) in [
        (50, 1),
        (10, 2),
        (50, 3),
        (i64::MIN / 2_000_000_000, 4),
        (0, 5),
    ] {
        publish(
            &server,
            job,
            &window(start, &[("/a", count)]),
            WindowState::Closed,
        );
    }
    publish(&server, job, &window(60, &[]), WindowState::Closed);
    // Rows of an open window are replaced, and never stored.
    publish(&server, job, &window(70, &[("/a", 99)]), WindowState::Open);
    assert_eq!(counts(&server, job), [1, 2, 3, 4, 5]);
    let early = server
        .get(&format!("/api/v1/jobs/{job}/rows?until=0"))
        .of(200)
        .json();
    assert_eq!(early["rows"].as_array().map(Vec::len), Some(1));
    let total = server
        .get(&format!("/api/v1/jobs/{job}/results"))
        .of(200)
        .json();
    assert_eq!(total["results"][0]["total"], "5");
}

#[test]
fn an_unknown_invitation_is_refused_whatever_it_contains() {
    let server = noted();
    for token in ["", "x", "nle_", "nle_0.pin", &"x".repeat(100_000)] {
        let body = json!({ "token": token, "request": "-----BEGIN CERTIFICATE REQUEST-----" });
        let answer = server.ask_with("POST", "/api/v1/enrol", &[], Some(&body));
        assert!(
            [401, 403, 409, 429].contains(&answer.status),
            "{}: {}",
            answer.status,
            answer.text()
        );
    }
}

//! Jobs, rows and editor support, as seen by a client.

use serde_json::{Value, json};
use server::FleetRefusal;

use crate::client::Server;
use crate::fleet::{TestFleet, Way, shop};

/// Known output of `netalytics query`, by line; the file was checked against the servers' logs.
fn expected(name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(shop(&format!("expected-{name}.jsonl")))
        .expect("the expected rows");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a row"))
        .collect()
}

fn query(name: &str) -> String {
    std::fs::read_to_string(shop(&format!("query-{name}.txt")))
        .expect("the query")
        .trim()
        .to_owned()
}

#[test]
fn rows_are_those_of_the_same_query_over_the_same_packets() {
    let server = Server::start(TestFleet::shop());
    for name in [
        "http-by-template",
        "http-rows",
        "top-per-window",
        "slow-statements",
        "connections",
        "gets-with-connection-time",
        "flows",
    ] {
        let job = server.job(&query(name));
        let ended = server.ended(&job);
        assert_eq!(ended["reason"], "the capture's end");
        let answer = server
            .get(&format!("/api/v1/jobs/{job}/rows?format=jsonl&limit=10000"))
            .of(200);
        let rows = answer.text();
        let rows = rows.lines().map(|line| {
            let mut row: Value = serde_json::from_str(line).expect("a row");
            let missing = row
                .as_object_mut()
                .expect("an object")
                .remove("agents_missing");
            assert_eq!(missing, Some(Value::Null), "nobody was missing");
            row
        });
        assert_eq!(rows.collect::<Vec<_>>(), expected(name), "{name}");
    }
}

#[test]
fn several_processors_are_several_results() {
    let server = Server::start(TestFleet::shop());
    let job = server.job(&query("cache-by-client"));
    server.ended(&job);
    let rows = |result: &str| {
        let answer = server
            .get(&format!("/api/v1/jobs/{job}/rows?{result}format=jsonl"))
            .of(200);
        answer.text().lines().count()
    };
    let all = expected("cache-by-client");
    let of = |name: &str| all.iter().filter(|row| row["processor"] == name).count();
    assert_eq!(rows(""), of("group-count-avg"));
    assert_eq!(rows("result=quantile&"), of("quantile"));
    assert_eq!(rows("result=1&"), of("quantile"));
    let wrong = server
        .get(&format!("/api/v1/jobs/{job}/rows?result=nothing"))
        .of(404)
        .json();
    assert!(
        wrong["message"]
            .as_str()
            .expect("words")
            .contains("group-count-avg, quantile"),
        "{wrong}"
    );
}

#[test]
fn pages_and_times_cut_the_rows_without_losing_any() {
    let server = Server::start(TestFleet::shop());
    let job = server.job("PARSE http");
    server.ended(&job);
    let all = server
        .get(&format!("/api/v1/jobs/{job}/rows?limit=10000"))
        .of(200)
        .json();
    let rows = all["rows"].as_array().expect("rows").clone();
    assert_eq!(all["next"], Value::Null);
    assert_eq!(all["total"], rows.len().to_string());
    let mut paged = Vec::new();
    let mut after = String::new();
    loop {
        let page = server
            .get(&format!("/api/v1/jobs/{job}/rows?limit=7{after}"))
            .of(200);
        let json = page.json();
        let next = json["next"].as_str().map(str::to_owned);
        assert_eq!(page.header("netalytics-next").map(str::to_owned), next);
        paged.extend(json["rows"].as_array().expect("rows").iter().cloned());
        match next {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(paged, rows);
    // A simple filter by time.
    let names: Vec<_> = all["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .map(|c| c["name"].clone())
        .collect();
    let at = names
        .iter()
        .position(|name| name == "ts_end")
        .expect("ts_end");
    let time = |row: &Value| {
        row[at]
            .as_str()
            .expect("a time")
            .parse::<i64>()
            .expect("nanoseconds")
    };
    let since = time(&rows[rows.len() / 4]);
    let until = time(&rows[rows.len() / 2]);
    let cut: Vec<_> = rows
        .iter()
        .filter(|row| (since..until).contains(&time(row)))
        .cloned()
        .collect::<Vec<Value>>();
    assert!(!cut.is_empty());
    let answer = server.get(&format!(
        "/api/v1/jobs/{job}/rows?since={since}&until={until}&limit=10000"
    ));
    assert_eq!(answer.of(200).json()["rows"], Value::from(cut));
}

#[test]
fn rows_come_in_every_form() {
    let server = Server::start(TestFleet::shop());
    let job = server.job("PARSE http PROCESS (diff-group: group=url_template)");
    server.ended(&job);
    let n = expected("http-by-template").len();
    let path = format!("/api/v1/jobs/{job}/rows");
    let bearer = format!("Bearer {}", server.token);
    let accepting = |kind: &str| {
        server
            .ask_with(
                "GET",
                &path,
                &[("authorization", &bearer), ("accept", kind)],
                None,
            )
            .of(200)
    };
    assert_eq!(
        accepting("application/json, */*").json()["rows"]
            .as_array()
            .map(Vec::len),
        Some(n)
    );
    let csv = accepting("text/csv");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(csv.text().lines().count(), n + 1);
    let arrow = accepting("application/vnd.apache.arrow.stream").body;
    let reader =
        arrow_ipc::reader::StreamReader::try_new(&arrow[..], None).expect("an Arrow stream");
    assert_eq!(
        reader
            .map(|batch| batch.expect("a batch").num_rows())
            .sum::<usize>(),
        n
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("rows.parquet");
    std::fs::write(
        &file,
        server.get(&format!("{path}?format=parquet")).of(200).body,
    )
    .expect("written");
    let file = std::fs::File::open(&file).expect("opened");
    let reader = parquet::file::reader::SerializedFileReader::new(file).expect("a Parquet file");
    let metadata = parquet::file::reader::FileReader::metadata(&reader)
        .file_metadata()
        .num_rows();
    assert_eq!(metadata, n as i64);
    server.get(&format!("{path}?format=xml")).of(406);
}

#[test]
fn a_query_that_is_wrong_is_shown_where() {
    let server = Server::start(TestFleet::shop());
    let asked = json!({ "query": "PARSE http WHERE url = '😀' AND statu > 3" });
    let answer = server
        .ask("POST", "/api/v1/jobs", Some(&asked))
        .of(400)
        .json();
    assert_eq!(answer["code"], "query");
    let place = &answer["place"];
    let text = asked["query"].as_str().expect("text");
    let start = place["start"].as_u64().expect("n") as usize;
    let end = place["end"].as_u64().expect("n") as usize;
    assert_eq!(&text[start..end], "statu");
    let utf16: Vec<u16> = text.encode_utf16().collect();
    let of = |name: &str| place[name].as_u64().expect("n") as usize;
    assert_eq!(
        String::from_utf16_lossy(&utf16[of("start_utf16")..of("end_utf16")]),
        "statu"
    );
    assert_eq!(answer["problems"].as_array().map(Vec::len), Some(1));
}

#[test]
fn editors_are_helped() {
    let server = Server::start(TestFleet::shop());
    let check = |asked: Value| {
        server
            .ask("POST", "/api/v1/check", Some(&asked))
            .of(200)
            .json()
    };
    let text = "PARSE http WHERE url = '😀' AND stat";
    let units = text.encode_utf16().count();
    let found = check(json!({ "text": text, "cursor": units, "revision": 7 }));
    assert_eq!(
        (&found["revision"], &found["completions"]),
        (&json!(7), &json!(["status"]))
    );
    assert_eq!(found["word"]["start_utf16"], units - 4);
    assert_eq!(found["diagnostics"].as_array().map(Vec::len), Some(1));
    // With the cursor within a word, the whole word is replaced.
    let found = check(json!({ "text": "PARSE htxx", "cursor": 8 }));
    assert_eq!(
        (&found["word"]["start"], &found["word"]["end"]),
        (&json!(6), &json!(10))
    );
    assert!(
        found["completions"]
            .as_array()
            .expect("words")
            .contains(&json!("http_get"))
    );
    assert_eq!(
        check(json!({ "text": "PARSE http" }))["diagnostics"],
        json!([])
    );
    let explained = server.ask(
        "POST",
        "/api/v1/explain",
        Some(&json!({ "query": "PARSE http PROCESS (rate)" })),
    );
    let explained = explained.of(200).json();
    assert_eq!(explained["parsers"][0]["name"], "http");
    assert!(explained["text"].as_str().expect("text").contains("http"));
}

#[test]
fn the_catalog_is_sent_once() {
    let server = Server::start(TestFleet::shop());
    let first = server.get("/api/v1/catalog").of(200);
    let parsers: Vec<_> = first.json()["parsers"].as_array().expect("parsers").clone();
    assert_eq!(parsers.len(), parsers::registry::schemas().len());
    let tag = first.header("etag").expect("a tag").to_owned();
    let bearer = format!("Bearer {}", server.token);
    let again = [
        ("authorization", bearer.as_str()),
        ("if-none-match", tag.as_str()),
    ];
    let again = server
        .ask_with("GET", "/api/v1/catalog", &again, None)
        .of(304);
    assert!(again.body.is_empty());
}

#[test]
fn the_same_request_makes_one_job() {
    let server = Server::start(TestFleet::new(Way::Note));
    let bearer = format!("Bearer {}", server.token);
    let send = |key: &str, query: &str| {
        let headers = [("authorization", bearer.as_str()), ("idempotency-key", key)];
        server.ask_with(
            "POST",
            "/api/v1/jobs",
            &headers,
            Some(&json!({ "query": query })),
        )
    };
    let first = send("a", "PARSE http PROCESS (rate)").of(201).json();
    let again = send("a", "PARSE http PROCESS (rate)").of(200).json();
    assert_eq!(first["id"], again["id"]);
    assert_eq!(
        send("a", "PARSE http PROCESS (count)").of(409).json()["code"],
        "key_reused"
    );
    assert_ne!(
        send("b", "PARSE http PROCESS (rate)").of(201).json()["id"],
        first["id"]
    );
    send("", "PARSE http PROCESS (rate)").of(400);
    assert_eq!(server.fleet.orders.lock().expect("orders").len(), 2);
    // Concurrent requests create only one.
    let made: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| send("c", "PARSE http PROCESS (rate)").json()["id"].clone()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("an answer"))
            .collect()
    });
    assert!(made.iter().all(|id| *id == made[0]), "{made:?}");
    assert_eq!(server.fleet.orders.lock().expect("orders").len(), 3);
}

#[test]
fn fleet_refusals_state_their_reason() {
    for (refused, status, code) in [
        (
            FleetRefusal::NoAgent("no agent has role=web".into()),
            409,
            "no_agent",
        ),
        (
            FleetRefusal::Unable("agent a lacks the parser x".into()),
            409,
            "agents_unable",
        ),
        (
            FleetRefusal::Busy("all agents are busy".into()),
            503,
            "agents_busy",
        ),
    ] {
        let server = Server::start(TestFleet::new(Way::Refuse(refused.clone())));
        let asked = json!({ "query": "PARSE http PROCESS (rate)" });
        let answer = server
            .ask("POST", "/api/v1/jobs", Some(&asked))
            .of(status)
            .json();
        assert_eq!(
            (&answer["code"], &answer["message"]),
            (&json!(code), &json!(refused.to_string()))
        );
        // The rejected request left no trace.
        assert_eq!(server.get("/api/v1/jobs").of(200).json()["jobs"], json!([]));
    }
}

#[test]
fn jobs_are_listed_and_stopped() {
    let server = Server::start(TestFleet::new(Way::Note));
    let jobs: Vec<_> = (0..5)
        .map(|_| server.job("PARSE http PROCESS (rate)"))
        .collect();
    let stopped = server
        .ask("DELETE", &format!("/api/v1/jobs/{}", jobs[1]), None)
        .of(200)
        .json();
    assert_eq!(stopped["state"], "draining");
    assert_eq!(
        server.fleet.stopped.lock().expect("stopped")[0].to_string(),
        jobs[1]
    );
    let list = |path: &str| {
        let listed = server.get(path).of(200).json();
        let ids = listed["jobs"]
            .as_array()
            .expect("jobs")
            .iter()
            .map(|job| job["id"].as_str().expect("id").to_owned());
        (ids.collect::<Vec<_>>(), listed["next"].clone())
    };
    let newest_first: Vec<_> = jobs.iter().rev().cloned().collect();
    assert_eq!(list("/api/v1/jobs").0, newest_first);
    assert_eq!(list("/api/v1/jobs?state=draining").0, [jobs[1].clone()]);
    let (first, next) = list("/api/v1/jobs?limit=2");
    assert_eq!(first, newest_first[..2]);
    let (second, _) = list(&format!(
        "/api/v1/jobs?limit=2&before={}",
        next.as_str().expect("more")
    ));
    assert_eq!(second, newest_first[2..4]);
    for path in [
        "/api/v1/jobs/99",
        "/api/v1/jobs/x",
        "/api/v1/jobs/-1",
        "/nothing",
    ] {
        assert_eq!(server.get(path).of(404).json()["code"], "not_found");
    }
    assert_eq!(
        server
            .get(&format!("/api/v1/jobs/{}/rows", jobs[0]))
            .of(404)
            .json()["code"],
        "not_found"
    );
    assert_eq!(
        server.get("/api/v1/agents").of(200).json()["agents"][0]["clock_offset_ns"],
        "-1500"
    );
}

#[test]
fn there_are_so_many_jobs() {
    let limits = server::ServiceLimits {
        jobs_max: 2,
        ..server::ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    (0..2).for_each(|_| drop(server.job("PARSE http PROCESS (rate)")));
    let asked = json!({ "query": "PARSE http PROCESS (rate)" });
    assert_eq!(
        server
            .ask("POST", "/api/v1/jobs", Some(&asked))
            .of(429)
            .json()["code"],
        "quota"
    );
    assert_eq!(
        server.get("/api/v1/counters").of(200).json()["jobs_refused"],
        1
    );
}

#[test]
fn there_are_so_many_jobs_of_one_owner() {
    let limits = server::ServiceLimits {
        jobs_per_owner_max: 1,
        ..server::ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let first = server.job("PARSE http PROCESS (rate)");
    let asked = json!({ "query": "PARSE http PROCESS (rate)" });
    let refused = server
        .ask("POST", "/api/v1/jobs", Some(&asked))
        .of(429)
        .json();
    assert_eq!(refused["code"], "quota");
    let said = refused["message"].as_str().expect("a sentence");
    assert!(
        said.contains("1 jobs of admin are active") && said.contains("--jobs-per-owner"),
        "{said}"
    );
    // The limit does not apply to another owner, nor to this one after the first job has ended.
    let made = server
        .ask(
            "POST",
            "/api/v1/tokens",
            Some(&json!({ "name": "ann", "role": "run" })),
        )
        .of(201)
        .json();
    let ann = made["secret"].as_str().expect("a secret");
    assert_eq!(
        server
            .ask_as(ann, "POST", "/api/v1/jobs", Some(&asked))
            .status,
        201
    );
    server
        .ask("DELETE", &format!("/api/v1/jobs/{first}"), None)
        .of(200);
    let id = server::JobId(first.parse().expect("a number"));
    server
        .fleet
        .hub()
        .turn(id, server::JobState::Ended("done".into()), None)
        .expect("it is kept");
    server.ask("POST", "/api/v1/jobs", Some(&asked)).of(201);
    assert_eq!(
        server.get("/api/v1/counters").of(200).json()["jobs_refused"],
        1
    );
}

#[test]
fn malformed_requests_have_the_common_error_form() {
    let server = Server::start(TestFleet::new(Way::Note));
    let bearer = format!("Bearer {}", server.token);
    let as_admin = ("authorization", bearer.as_str());
    let json = ("content-type", "application/json");
    let large = vec![b' '; (1 << 20) + 1];
    let deep = "[".repeat(100_000);
    for (method, path, headers, body, status) in [
        ("POST", "/api/v1/jobs", &[as_admin][..], &b"{}"[..], 415),
        ("POST", "/api/v1/jobs", &[as_admin, json], b"{}", 400),
        ("POST", "/api/v1/jobs", &[as_admin, json], b"\xff", 400),
        (
            "POST",
            "/api/v1/jobs",
            &[as_admin, json],
            deep.as_bytes(),
            400,
        ),
        (
            "POST",
            "/api/v1/jobs",
            &[as_admin, json],
            br#"{"query":"PARSE http","wrong":1}"#,
            400,
        ),
        ("POST", "/api/v1/jobs", &[as_admin, json], &large, 413),
        ("PUT", "/api/v1/jobs", &[as_admin, json], b"{}", 405),
        ("GET", "/api/v1/jobs?limit=x", &[as_admin], b"", 400),
        (
            "GET",
            "/api/v1/jobs/1/rows?since=yesterday",
            &[as_admin],
            b"",
            400,
        ),
    ] {
        let answer = server
            .ask_bytes(method, path, headers, body)
            .of(status)
            .json();
        for key in ["code", "message", "place"] {
            assert!(answer.get(key).is_some(), "{method} {path}: {answer}");
        }
    }
}

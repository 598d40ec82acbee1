//! Queries of the past: answers equal those of a recording of the same packets, and those of DuckDB over the history's
//! files.

mod missing;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use capture::live::StopSignal;
use monitor::JobInput;
use monitor::job::JobConfig;
use recording::{Recorder, RecordingRotation};
use runner::QueryRun;
use runner::replay;
use serde_json::{Value, json};
use server::{GatewaySettings, JobId, JobState, PastLimits, RowRetention, ServiceLimits};
use sinks::{DataSetSink, JsonlSink};

use crate::alerts::until;
use crate::client::Server;
use crate::fleet::{TestFleet, Way, shop};
use crate::gateway::{Center, Crew};

/// Records the result of a query over the shop's capture.
fn record(query: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = crate::gateway::plan_of(query);
    let input = JobInput::Shared(
        capture::open_until(&[shop("in.pcap")], &StopSignal::default()),
        1,
    );
    let mut run = QueryRun::start(&plan, &JobConfig::default(), input).expect("threads");
    let mut recorder =
        Recorder::create(folder.path(), RecordingRotation::default()).expect("a folder");
    for table in run.tables(&plan) {
        recorder.add_table(table.head, &table.schema, &table.columns);
    }
    run.go(&mut DataSetSink::new(recorder), &mut ())
        .expect("rows are recorded");
    folder
}

/// Answer from a recording, by line.
fn local(query: &str, folder: &Path) -> Vec<String> {
    let schemas = parsers::registry::schemas();
    let checked = query::check(query, &schemas, &()).expect("a query");
    let bounds = checked.period.settle(0);
    let options = planner::PlanOptions {
        bounds,
        ..planner::PlanOptions::default()
    };
    let paths = [folder.to_owned()];
    let (plan, replaying) =
        replay::open(checked, &options, &paths, &mut |_| {}).expect("a recording");
    let mut run = QueryRun::replay(&plan, stream::EngineConfig::default(), replaying);
    let out = Shared::default();
    let mut sink = JsonlSink::new(out.clone(), &run.heads(&plan));
    run.go(&mut sink, &mut ())
        .expect("writing to memory cannot fail");
    drop(sink);
    lines(&String::from_utf8(out.0.lock().expect("the bytes").clone()).expect("text"))
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the bytes").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

/// The period from the first to the last tuple in quarters, formatted for SINCE and UNTIL.
fn quarters(recording: &Path) -> [String; 5] {
    let rows = local("PARSE http", recording);
    let time = |row: &String| {
        let row: Value = serde_json::from_str(row).expect("JSON");
        i128::from(row["ts_end"].as_i64().expect("a time"))
    };
    let times: Vec<i128> = rows.iter().map(time).collect();
    let first = *times.iter().min().expect("rows");
    let last = *times.iter().max().expect("rows");
    let at =
        |n: i128| jiff::Timestamp::from_nanosecond(first + (last - first) * n / 4).expect("a time");
    std::array::from_fn(|n| at(n as i128).to_string())
}

/// Starts a job that stores tuples.
fn keep(server: &Server, query: &str) -> String {
    let body = json!({ "query": query, "kind": "standing", "keep": "tuples", "redact": false });
    let made = server
        .ask("POST", "/api/v1/jobs", Some(&body))
        .of(201)
        .json();
    assert_eq!(made["keep"], "tuples");
    made["id"].as_str().expect("a number").to_owned()
}

fn ask(server: &Server, query: &str) -> Vec<String> {
    let body = json!({ "query": query });
    let text = server
        .ask("POST", "/api/v1/query?format=jsonl", Some(&body))
        .of(200)
        .text();
    // No agent is missing; recordings do not have the column.
    lines(&text.replace(",\"agents_missing\":null", ""))
}

/// Rejection with this status.
fn refused(server: &Server, query: &str, status: u16) -> Value {
    server
        .ask("POST", "/api/v1/query", Some(&json!({ "query": query })))
        .of(status)
        .json()
}

/// Queries over periods of the shop's capture.
fn queries(times: &[String; 5]) -> Vec<String> {
    let [_, a, b, c, _] = times;
    vec![
        format!("PARSE http SINCE '{a}' UNTIL '{c}' PROCESS (diff-group: group=url_template)"),
        format!("PARSE http SINCE '{a}' PROCESS (top-k: k=3, w=100ms, lateness=50ms)"),
        format!("PARSE http SINCE '{b}' WHERE status >= 400 PROCESS (group-count: group=status)"),
        format!(
            "PARSE http SINCE '{b}' UNTIL '{c}' TO *:80 PROCESS (group-quantile: group=client_ip, q=0.99)"
        ),
        format!(
            "PARSE http SINCE '{a}' PROCESS (group-count-avg: group=lower(path) AS p) HAVING count > 1 ORDER BY count DESC, p LIMIT 3 ROWS"
        ),
        format!(
            "PARSE http SINCE '{b}' UNTIL '{c}' SELECT url, status, ts_end ORDER BY ts_end LIMIT 5 ROWS"
        ),
        format!("PARSE http SINCE '{a}' UNTIL '{b}' PROCESS (distinct: value=url)"),
    ]
}

#[test]
fn kept_tuples_answer_as_a_recording_of_the_same_packets() {
    let recording = record("PARSE http");
    let times = quarters(recording.path());
    let server = Server::start(TestFleet::shop());
    server.ended(&keep(&server, "PARSE http"));
    for query in queries(&times) {
        let expected = local(&query, recording.path());
        assert!(!expected.is_empty(), "{query}");
        assert_eq!(ask(&server, &query), expected, "{query}");
    }
}

#[test]
fn stored_joined_tuples_equal_a_recording() {
    let both = "PARSE tcp_conn_time, http_get";
    let recording = record(both);
    let server = Server::start(TestFleet::shop());
    server.ended(&keep(&server, both));
    let query = format!("{both} SINCE '2026-01-01' PROCESS (diff-group: group=url_template)");
    let expected = local(&query, recording.path());
    assert!(!expected.is_empty());
    assert_eq!(ask(&server, &query), expected);
}

#[test]
fn agents_that_are_far_apart_make_no_tuple_late() {
    let recording = record("PARSE http");
    let times = quarters(recording.path());
    let center = Center::start(GatewaySettings::default());
    let crew = Crew::start(&center, "PARSE http", 3, 1);
    let body =
        json!({ "query": "PARSE http", "kind": "standing", "keep": "tuples", "redact": false });
    let (status, made) = center.ask("POST", "/api/v1/jobs", Some(&body));
    assert_eq!(status, 201, "{made}");
    let job = made["id"].as_str().expect("a number");
    // One after the other: the second's data precedes that of the first in event time.
    for agent in 0..3 {
        let before = center.rows(job, 0).len();
        crew.say_one(agent, usize::MAX);
        center.until("its rows", |center| {
            (center.rows(job, 0).len() > before).then_some(())
        });
    }
    let all = local("PARSE http", recording.path()).len();
    center.until("all rows", |center| {
        (center.rows(job, 0).len() == all).then_some(())
    });
    let mut windows = 0;
    for query in queries(&times) {
        let (status, answer) =
            center.ask("POST", "/api/v1/query", Some(&json!({ "query": query })));
        assert_eq!(status, 200, "{answer}");
        let rows = answer["results"][0]["rows"].as_array().expect("rows").len();
        assert_eq!(
            rows,
            local(&query, recording.path()).len(),
            "{query}: {answer}"
        );
        windows += usize::from(query.contains("w=100ms"));
    }
    assert!(windows > 0);
}

#[test]
fn two_periods_are_compared_as_each_is_answered_for_itself() {
    let recording = record("PARSE http");
    let [_, a, b, c, _] = quarters(recording.path());
    let server = Server::start(TestFleet::shop());
    server.ended(&keep(&server, "PARSE http"));
    let process = "PROCESS (group-count-avg: group=url_template)";
    let compared =
        format!("PARSE http SINCE '{b}' UNTIL '{c}' BASELINE SINCE '{a}' UNTIL '{b}' {process}");
    let answer = server
        .ask("POST", "/api/v1/query", Some(&json!({ "query": compared })))
        .of(200)
        .json();
    let names: Vec<&str> = answer["results"][0]["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .filter_map(|c| c["name"].as_str())
        .collect();
    let at = |name: &str| names.iter().position(|known| *known == name).expect(name);
    let count = |column: &str, row: &Value| row[at(column)].as_u64().filter(|n| *n > 0);
    for (column, since, until) in [("count", &b, &c), ("baseline_count", &a, &b)] {
        let plain = local(
            &format!("PARSE http SINCE '{since}' UNTIL '{until}' {process}"),
            recording.path(),
        );
        let mut expected: Vec<(String, u64)> = plain
            .iter()
            .map(|row| {
                let row: Value = serde_json::from_str(row).expect("JSON");
                (
                    row["url_template"].as_str().expect("a key").to_owned(),
                    row["count"].as_u64().expect("a count"),
                )
            })
            .collect();
        let rows = answer["results"][0]["rows"].as_array().expect("rows");
        let mut found: Vec<(String, u64)> = rows
            .iter()
            .filter_map(|row| {
                Some((
                    row[at("url_template")].as_str()?.to_owned(),
                    count(column, row)?,
                ))
            })
            .collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "{column}");
    }
    assert!(names.contains(&"differs_count"), "{names:?}");
}

#[test]
fn duckdb_reads_the_same_out_of_the_files() {
    let Some(python) = python() else { return };
    let server = Server::start(TestFleet::shop());
    let job = keep(&server, "PARSE http");
    server.ended(&job);
    let query = "PARSE http SINCE '2026-01-01' PROCESS (group-count: group=url_template)";
    let body = json!({ "query": query });
    let answer = server
        .ask("POST", "/api/v1/query", Some(&body))
        .of(200)
        .json();
    let mut found: Vec<(String, u64)> = answer["results"][0]["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            (
                row[0].as_str().expect("a key").to_owned(),
                row[1].as_u64().expect("a count"),
            )
        })
        .collect();
    found.sort();
    let files = server
        .folder
        .join(format!("history/{job}/*/http/*.parquet"));
    let code = format!(
        "import duckdb, json; print(json.dumps(duckdb.sql(\"SELECT url_template, count(*) FROM '{}' GROUP BY 1\").fetchall()))",
        files.display()
    );
    let ran = Command::new(python)
        .args(["-c", &code])
        .output()
        .expect("it runs");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let mut expected: Vec<(String, u64)> = serde_json::from_slice(&ran.stdout).expect("rows");
    expected.sort();
    assert_eq!(found, expected);
}

/// A Python with DuckDB, installed in the build folder.
fn python() -> Option<PathBuf> {
    testkit::programs::python(
        Path::new(env!("CARGO_TARGET_TMPDIR")),
        "duckdb",
        "duckdb==2.0.0",
    )
}

#[test]
fn jobs_have_no_past_and_the_past_has_no_packets() {
    let server = Server::start(TestFleet::new(Way::Note));
    for (body, why) in [
        (
            json!({ "query": "PARSE http SINCE 2h PROCESS (rate)" }),
            "a job processes new data",
        ),
        (
            json!({ "query": "PARSE http", "keep": "tuples" }),
            "only standing jobs store tuples",
        ),
        (
            json!({ "query": "PARSE http PROCESS (rate)", "keep": "tuples", "kind": "standing" }),
            "omit PROCESS",
        ),
        (
            json!({ "query": "PARSE http LIMIT 5 ROWS", "keep": "tuples", "kind": "standing" }),
            "ORDER BY and LIMIT",
        ),
        (
            json!({ "query": "PARSE http SAMPLE auto", "keep": "tuples", "kind": "standing" }),
            "SAMPLE 0.1",
        ),
    ] {
        let answer = server
            .ask("POST", "/api/v1/jobs", Some(&body))
            .of(400)
            .json();
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|words| words.contains(why)),
            "{answer}"
        );
    }
    for (query, why) in [
        ("PARSE http PROCESS (rate)", "add SINCE"),
        (
            "PARSE http SINCE 2h LIMIT 5p PROCESS (rate)",
            "counts packets",
        ),
        (
            "PARSE http SINCE '2100-01-01' PROCESS (rate)",
            "ends before it starts",
        ),
    ] {
        let answer = refused(&server, query, 400);
        assert!(
            answer["message"]
                .as_str()
                .is_some_and(|words| words.contains(why)),
            "{answer}"
        );
    }
}

#[test]
fn tokens_see_no_more_of_the_past_than_of_jobs() {
    let server = Server::start(TestFleet::shop());
    let token = |role: &str, networks: &[&str]| {
        let body = json!({ "name": format!("{role}{}", networks.len()), "role": role, "networks": networks });
        let made = server
            .ask("POST", "/api/v1/tokens", Some(&body))
            .of(201)
            .json();
        made["secret"].as_str().expect("a secret").to_owned()
    };
    server.ended(&keep(&server, "PARSE http"));
    let of = |token: &str, query: &str| {
        server
            .ask_as(
                token,
                "POST",
                "/api/v1/query",
                Some(&json!({ "query": query })),
            )
            .status
    };
    let view = token("view", &[]);
    let run = token("run", &[]);
    let raw = token("raw", &[]);
    let scoped = token("raw", &["10.20.0.21/32"]);
    let results = "PARSE http SINCE '2026-01-01' PROCESS (rate)";
    let tuples = "PARSE http SINCE '2026-01-01' LIMIT 3 ROWS";
    let inside = "PARSE http FROM 10.20.0.21 SINCE '2026-01-01' PROCESS (rate)";
    // Tuples are unredacted, so derived results may contain unredacted texts.
    for (token, query, status) in [
        (&view, results, 403),
        (&run, results, 409),
        (&run, tuples, 403),
        (&raw, results, 200),
        (&raw, tuples, 200),
        (&scoped, results, 403),
        (&scoped, inside, 200),
    ] {
        assert_eq!(of(token, query), status, "{query}");
    }
    // The job's query reaches beyond the token's networks: the answer is made of its tuples, and does not name it.
    let answer = |token: &str| {
        server
            .ask_as(
                token,
                "POST",
                "/api/v1/query",
                Some(&json!({ "query": inside })),
            )
            .of(200)
            .json()
    };
    let own = answer(&raw);
    let other = answer(&scoped);
    assert_eq!(
        (own["job"].as_str(), &other["job"]),
        (Some("1"), &Value::Null)
    );
    let notes = |answer: &Value| answer["notes"].to_string();
    assert!(notes(&own).contains("the tuples that job 1 keeps"), "{own}");
    assert!(
        notes(&other).contains("the tuples that a job keeps"),
        "{other}"
    );
    assert!(!notes(&other).contains("job 1"), "{other}");
}

#[test]
fn results_are_bounded_and_count_omitted_rows() {
    let past = PastLimits {
        time: std::time::Duration::ZERO,
        ..PastLimits::default()
    };
    let server = Server::with(
        TestFleet::shop(),
        ServiceLimits {
            past,
            ..ServiceLimits::default()
        },
    );
    server.ended(&keep(&server, "PARSE http"));
    let answer = refused(&server, "PARSE http SINCE '2026-01-01' PROCESS (rate)", 503);
    assert!(
        answer["message"]
            .as_str()
            .is_some_and(|words| words.contains("took too long")),
        "{answer}"
    );
    assert_eq!(
        server.get("/api/v1/counters").of(200).json()["queries_given_up"],
        1
    );
    let server = Server::start(TestFleet::shop());
    server.ended(&keep(&server, "PARSE http"));
    let body = json!({ "query": "PARSE http SINCE '2026-01-01'", "limit": 7 });
    let answer = server
        .ask("POST", "/api/v1/query", Some(&body))
        .of(200)
        .json();
    let rows = answer["results"][0]["rows"].as_array().expect("rows");
    let left = &answer["results"][0]["left_out"];
    assert_eq!(
        (
            rows.len() as u64 + left.as_u64().expect("a number"),
            rows.len()
        ),
        (answer["tuples"].as_u64().expect("a number"), 7)
    );
    assert_eq!(
        &server.get("/api/v1/counters").of(200).json()["query_rows_left_out"],
        left
    );
}

#[test]
fn tuples_have_a_retention_of_their_own() {
    let limits = ServiceLimits {
        tuples_retention: RowRetention {
            age_ns: 0,
            bytes: 1,
        },
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::shop(), limits);
    server.ended(&keep(&server, "PARSE http"));
    let raw = server
        .ask(
            "POST",
            "/api/v1/jobs",
            Some(&json!({ "query": "PARSE http" })),
        )
        .of(201)
        .json();
    let raw = raw["id"].as_str().expect("an id").to_owned();
    server.ended(&raw);
    let rows = |job: &str| {
        server
            .get(&format!("/api/v1/jobs/{job}/rows"))
            .of(200)
            .json()["rows"]
            .as_array()
            .map(Vec::len)
    };
    // The rows of an ended job are moved to files shortly after its state has changed.
    until(|| {
        server.service.as_ref().expect("the service").look_after();
        match rows("1") {
            Some(0) => Ok(()),
            left => Err(format!("{left:?} rows")),
        }
    });
    assert!(rows(&raw) > Some(0));
    // Removed tuples are not used; those of another job are.
    let body = json!({ "query": "PARSE http SINCE '2026-01-01' PROCESS (rate)" });
    let answer = server
        .ask("POST", "/api/v1/query", Some(&body))
        .of(200)
        .json();
    assert_eq!(answer["job"], raw);
}

#[test]
fn a_query_over_a_damaged_history_is_an_error_that_names_the_file() {
    let recording = record("PARSE http");
    let [start, a, b, c, _] = quarters(recording.path());
    let server = Server::start(TestFleet::shop());
    let job = keep(&server, "PARSE http");
    server.ended(&job);
    let rows = "PARSE http PROCESS (count: w=100ms)";
    let body = json!({ "query": rows, "kind": "standing" });
    let of_rows = server.job_of(&body);
    server.ended(&of_rows);
    let asked = [
        (&job, format!("PARSE http SINCE '{start}' PROCESS (count)")),
        (
            &job,
            format!("PARSE http SINCE '{a}' UNTIL '{b}' PROCESS (group-count: group=status)"),
        ),
        (
            &job,
            format!(
                "PARSE http SINCE '{b}' UNTIL '{c}' BASELINE SINCE '{a}' UNTIL '{b}' PROCESS (count)"
            ),
        ),
        (
            &job,
            format!("PARSE http SINCE '{start}' WHERE status >= 400"),
        ),
    ];
    for (job, query) in &asked {
        let segment = std::fs::read_dir(server.folder.join("history").join(job)).expect("segments");
        let segment = segment.flatten().next().expect("a segment").path();
        let table = std::fs::read_dir(&segment)
            .expect("tables")
            .flatten()
            .next()
            .expect("a table")
            .path();
        let file = std::fs::read_dir(&table)
            .expect("files")
            .flatten()
            .next()
            .expect("a file")
            .path();
        let kept = std::fs::read(&file).expect("it exists");
        let before = ask(&server, query);
        let mut flipped = kept.clone();
        flipped[kept.len() / 3] ^= 1;
        for damaged in [None, Some(&kept[..kept.len() / 2]), Some(&flipped[..])] {
            match damaged {
                None => std::fs::remove_file(&file).expect("removed"),
                Some(bytes) => std::fs::write(&file, bytes).expect("written"),
            }
            let said = refused(&server, query, 500);
            let words = said["message"].as_str().expect("words");
            assert_eq!(said["code"], "damaged", "{query}: {said}");
            assert!(
                words.contains(&format!("history/{job}/0-000000000000")),
                "{query}: {words}"
            );
        }
        std::fs::write(&file, &kept).expect("written");
        assert_eq!(ask(&server, query), before, "{query}");
    }
    // Rows of a job with the same query.
    let delete = server.folder.join("history").join(&job);
    std::fs::remove_dir_all(server.folder.join("history").join(&of_rows)).expect("removed");
    std::fs::remove_dir_all(delete).expect("removed");
    let said = refused(
        &server,
        &format!("PARSE http SINCE '{start}' PROCESS (count: w=100ms)"),
        500,
    );
    assert_eq!(said["code"], "damaged", "{said}");
}

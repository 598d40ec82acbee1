//! Metrics, compared with requests and published rows, and read by a real Prometheus and its linter.

use std::process::Command;

use serde_json::{Value, json};
use server::{JobId, JobState, ResultTable, ScrapeAccess, ServiceLimits, WindowState};
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};
use crate::history::{announce, publish, window};
use testkit::programs::{TestProgram, free_port, lint, wait_for};

/// Value of the series that starts with `series`.
fn value(page: &str, series: &str) -> Option<f64> {
    page.lines()
        .find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[track_caller]
fn check(page: &str, expected: &[(&str, f64)]) {
    for (series, number) in expected {
        assert_eq!(value(page, series), Some(*number), "{series}\n{page}");
    }
}

/// A standing job whose rows the test publishes.
pub fn standing(server: &Server, more: &Value) -> JobId {
    let query = "PARSE http PROCESS (group-count: group=url, w=10s)";
    let mut asked = json!({ "query": query, "kind": "standing", "name": "pages" });
    asked
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().cloned().unwrap_or_default());
    let made = server
        .ask("POST", "/api/v1/jobs", Some(&asked))
        .of(201)
        .json();
    made["id"]
        .as_str()
        .expect("a number")
        .parse()
        .expect("a number")
}

fn close(server: &Server, job: JobId, start: i64, rows: &[(&str, u64)]) {
    publish(server, job, &window(start, rows), WindowState::Closed);
}

#[test]
fn metrics_of_the_server_require_a_token() {
    let server = Server::start(TestFleet::new(Way::Note));
    assert_eq!(server.ask_with("GET", "/metrics", &[], None).status, 401);
    let token = |name: &str, role: &str, networks: &[&str]| {
        let asked = json!({ "name": name, "role": role, "networks": networks });
        let made = server
            .ask("POST", "/api/v1/tokens", Some(&asked))
            .of(201)
            .json();
        made["secret"].as_str().expect("a secret").to_owned()
    };
    let agent = token("a", "agent", &[]);
    let some = token("b", "view", &["10.0.0.0/8"]);
    for secret in [&agent, &some] {
        assert_eq!(server.ask_as(secret, "GET", "/metrics", None).status, 403);
    }
    let view = token("c", "view", &[]);
    let job = standing(&server, &json!({}));
    announce(&server, job);
    close(&server, job, 0, &[("/a", 1), ("/b", 2)]);
    close(&server, job, 10, &[("/a", 5)]);
    for _ in 0..3 {
        server.get(&format!("/api/v1/jobs/{job}"));
    }
    let answer = server.ask_as(&view, "GET", "/metrics", None).of(200);
    assert!(
        answer
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4"))
    );
    let page = answer.text();
    let request = |method: &str, route: &str, status: u16| {
        format!(
            "http_server_request_duration_seconds_count{{http_request_method=\"{method}\",http_route=\"{route}\",\
             http_response_status_code=\"{status}\"}}"
        )
    };
    check(
        &page,
        &[
            (&request("GET", "/api/v1/jobs/{id}", 200), 3.0),
            (&request("POST", "/api/v1/jobs", 201), 1.0),
            (&request("POST", "/api/v1/tokens", 201), 3.0),
            (&request("GET", "/metrics", 401), 1.0),
            (&request("GET", "/metrics", 403), 2.0),
            ("netalytics_rows_kept_total", 3.0),
            ("netalytics_windows_closed_total", 2.0),
            ("netalytics_jobs{state=\"running\"}", 1.0),
            ("netalytics_agents{state=\"connected\"}", 1.0),
            ("netalytics_agent_connected{agent=\"here\"}", 1.0),
            (
                "netalytics_agent_clock_offset_seconds{agent=\"here\"}",
                -1.5e-6,
            ),
            (
                "netalytics_limit_reached_total{limit=\"requests_per_second\"}",
                0.0,
            ),
        ],
    );
    let positive = [
        "process_cpu_time_seconds_total",
        "process_memory_usage_bytes",
        "netalytics_store_bytes",
    ];
    assert!(
        positive
            .iter()
            .all(|name| value(&page, name).is_some_and(|n| n > 0.0)),
        "{page}"
    );
    // Unknown paths do not become series.
    (0..3).for_each(|n| drop(server.get(&format!("/nothing/{n}")).of(404)));
    let page = server.get("/metrics").of(200).text();
    check(&page, &[(&request("GET", "", 404), 3.0)]);
    lint(&page);
    // The API's counters are equal.
    let counters = server.get("/api/v1/counters").of(200).json();
    assert_eq!(
        value(&page, "netalytics_history_bytes"),
        counters["history_bytes"].as_f64()
    );
}

#[test]
fn metrics_without_a_token_can_be_enabled() {
    let limits = ServiceLimits {
        scrapers: ScrapeAccess::Anybody,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    assert!(
        server
            .ask_with("GET", "/metrics", &[], None)
            .of(200)
            .text()
            .contains("netalytics_build_info")
    );
    // Results require a token.
    assert_eq!(
        server.ask_with("GET", "/metrics/jobs", &[], None).status,
        401
    );
}

#[test]
fn results_of_standing_jobs_are_metrics() {
    let limits = ServiceLimits {
        series_max: 4,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let job = standing(&server, &json!({}));
    let raw = standing(&server, &json!({ "redact": false }));
    [job, raw].iter().for_each(|job| announce(&server, *job));
    close(&server, job, 0, &[("/old", 7)]);
    close(&server, job, 10, &[("/a", 1), ("/b", 2)]);
    close(&server, raw, 10, &[("/secret", 1)]);
    let series = |url: &str| {
        format!(
            "netalytics_http_count_total{{processor=\"group-count\",url_full=\"{url}\",job_id=\"{job}\",job_name=\"pages\"}}"
        )
    };
    let page = server.get("/metrics/jobs").of(200).text();
    check(&page, &[(&series("/a"), 1.0), (&series("/b"), 2.0)]);
    assert!(page.contains("/secret") && !page.contains("/old"), "{page}");
    close(&server, job, 20, &[("/a", 10)]);
    close(
        &server,
        job,
        30,
        &[("/a", 100), ("/c", 1), ("/d", 1), ("/e", 1)],
    );
    let page = server
        .get(&format!("/metrics/jobs?jobs={job}"))
        .of(200)
        .text();
    check(
        &page,
        &[
            (&series("/a"), 111.0),
            (&series("/b"), 2.0),
            (&series("/c"), 1.0),
        ],
    );
    // Exactly four series.
    let of_job = format!("{{job_id=\"{job}\",job_name=\"pages\"}}");
    check(&page, &[(&format!("netalytics_job_series{of_job}"), 4.0)]);
    check(
        &page,
        &[(
            &format!("netalytics_job_points_left_out_total{of_job}"),
            1.0,
        )],
    );
    assert!(!page.contains("/secret"), "{page}");
    lint(&page);
    // Unredacted rows require the role raw.
    let asked = json!({ "name": "v", "role": "view" });
    let view = server
        .ask("POST", "/api/v1/tokens", Some(&asked))
        .of(201)
        .json();
    let seen = server.ask_as(
        view["secret"].as_str().expect("a secret"),
        "GET",
        "/metrics/jobs",
        None,
    );
    assert!(!seen.of(200).text().contains("/secret"));
    // After its end, its gauges and sums are removed.
    server
        .fleet
        .hub()
        .turn(job, JobState::Ended("done".into()), None)
        .expect("noted");
    assert!(
        !server
            .get("/metrics/jobs")
            .of(200)
            .text()
            .contains("url_full=\"/a\"")
    );
    assert_eq!(server.get("/metrics/jobs?jobs=x").status, 404);
}

/// Rows with a distribution: `[upper bound in ns, count]`.
fn distribution(start: i64, hist: &str) -> Batch {
    let fields = vec![
        Field::new(
            "window_start",
            DataType::I64,
            Unit::EpochNanoseconds,
            "start",
        ),
        Field::new("window_end", DataType::I64, Unit::EpochNanoseconds, "end"),
        Field::new("hist_ns", DataType::Json, Unit::Nanoseconds, "buckets"),
    ];
    let schema = std::sync::Arc::new(Schema {
        name: "group-hist".into(),
        fields,
        ..(*crate::history::schema()).clone()
    });
    let mut writer = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
    writer.i64(FieldId(0), start * 1_000_000_000);
    writer.i64(FieldId(1), (start + 10) * 1_000_000_000);
    writer.text(FieldId(2), hist.as_bytes());
    writer.end_row();
    writer.finish()
}

/// Result of a Prometheus query.
fn ask(port: u16, expression: &str) -> Vec<Value> {
    let output = Command::new("curl")
        .args([
            "-sf",
            "-m",
            "10",
            "--data-urlencode",
            &format!("query={expression}"),
        ])
        .arg(format!("http://127.0.0.1:{port}/api/v1/query"))
        .output()
        .expect("curl");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    answer["data"]["result"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

/// Value of an expression with a single series.
fn number(port: u16, expression: &str) -> Option<f64> {
    let found = ask(port, expression);
    (found.len() == 1)
        .then(|| found[0]["value"][1].as_str()?.parse().ok())
        .flatten()
}

#[test]
fn prometheus_scrapes_with_a_token_and_reads_native_histograms() {
    testkit::require!("prometheus", "curl");
    let server = Server::start(TestFleet::new(Way::Note));
    let job = standing(
        &server,
        &json!({ "query": "PARSE http PROCESS (group-hist: w=10s)" }),
    );
    let schema = distribution(0, "[]").schema().clone();
    let columns = schema.ids().collect();
    let table = ResultTable {
        processor: Some("group-hist".into()),
        schema,
        columns,
        keys: 0,
    };
    server.fleet.hub().open(job, &[table]).expect("noted");
    server
        .fleet
        .hub()
        .turn(job, JobState::Running, None)
        .expect("noted");
    publish(
        &server,
        job,
        &distribution(0, "[[1000000,90],[50000000,10]]"),
        WindowState::Closed,
    );
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("token"), &server.token).expect("written");
    let target = |name: &str, at: &str| {
        format!(
            "  - {{job_name: {name}, metrics_path: {at}, authorization: {{credentials_file: {}}}, static_configs: [{{targets: ['{}']}}]}}\n",
            path("token").display(),
            server.address
        )
    };
    let config = format!(
        "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\nscrape_configs:\n{}{}",
        target("own", "/metrics"),
        target("results", "/metrics/jobs")
    );
    std::fs::write(path("prometheus.yml"), config).expect("written");
    let _prometheus = TestProgram::start(
        Command::new("prometheus")
            .arg(format!(
                "--config.file={}",
                path("prometheus.yml").display()
            ))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--enable-feature=native-histograms"),
    );
    let asked = "http_server_request_duration_seconds{http_route=\"/api/v1/health\"}";
    (0..40).for_each(|_| drop(server.get("/api/v1/health").of(200)));
    let is = |expression: &str, expected: f64| {
        wait_for(expression, || match number(port, expression) {
            Some(n) if n == expected => Ok(()),
            seen => Err(format!("{seen:?}")),
        });
    };
    is(&format!("histogram_count({asked})"), 40.0);
    is("histogram_count(netalytics_http_hist_seconds)", 100.0);
    publish(
        &server,
        job,
        &distribution(10, "[[1000000,50]]"),
        WindowState::Closed,
    );
    is("histogram_count(netalytics_http_hist_seconds)", 150.0);
    is("netalytics_rows_kept_total", 2.0);
    let p95 = number(
        port,
        "histogram_quantile(0.95, netalytics_http_hist_seconds)",
    )
    .expect("a number");
    // 10 of 150 values are 50 ms, and so is the 95th percentile, within a bucket of 2.2 %.
    assert!((0.048..=0.051).contains(&p95), "{p95}");
    assert_eq!(ask(port, "up == 0"), Vec::<Value>::new());
}

//! Webhooks and OTLP: an independent receiver in Python verifies signatures, and decodes OpenTelemetry messages with
//! the project's own definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::Value;

use super::{Done, PATIENCE, Query, Server, over_shop, shop};

const SCRIPT: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/captures/outlets/receiver.py"
);

pub struct Posts {
    server: Server,
    lines: Receiver<String>,
    pub port: u16,
}

impl Posts {
    /// Rejects the first `fail` requests after recording them.
    pub fn start(python: &Path, kind: &str, port: u16, fail: u32) -> Posts {
        Posts::with(
            python,
            &[kind, &port.to_string(), "s3cret", &fail.to_string()],
        )
    }

    /// A webhook receiver with TLS, and its certificate and key.
    pub fn start_tls(python: &Path, port: u16, (certificate, key): (&str, &str)) -> Posts {
        Posts::with(
            python,
            &[
                "webhook",
                &port.to_string(),
                "s3cret",
                "0",
                certificate,
                key,
            ],
        )
    }

    fn with(python: &Path, args: &[&str]) -> Posts {
        let mut child: Child = Command::new(python)
            .arg(SCRIPT)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python");
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let (say, lines) = channel();
        std::thread::spawn(move || {
            out.lines()
                .map_while(Result::ok)
                .try_for_each(|line| say.send(line).ok())
        });
        let first = lines.recv_timeout(PATIENCE).expect("a port");
        let port = first.trim_start_matches("port ").parse().expect("a port");
        Posts {
            server: Server(child),
            lines,
            port,
        }
    }

    /// All requests, after its end.
    pub fn heard(mut self) -> Vec<Value> {
        self.server.kill();
        self.lines
            .iter()
            .map(|line| serde_json::from_str(&line).expect("JSON"))
            .collect()
    }
}

/// Accepted rows, each message once.
pub fn rows(heard: &[Value]) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let mut rows = Vec::new();
    for post in heard.iter().filter(|post| post["status"] == 200) {
        if seen.insert(post["taken"]["id"].to_string()) {
            rows.extend(
                post["taken"]["body"]["rows"]
                    .as_array()
                    .expect("rows")
                    .iter()
                    .cloned(),
            );
        }
    }
    rows
}

fn printed(done: &Done) -> Vec<Value> {
    done.lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[test]
fn a_receiver_that_knows_the_secret_gets_every_row() {
    testkit::require!("python3");
    let folder = tempfile::tempdir().expect("a folder");
    let secret = super::file(folder.path(), "secret", "s3cret");
    let posts = Posts::start(Path::new("python3"), "webhook", 0, 2);
    let to = format!(
        "webhook+http://127.0.0.1:{}/hook?a=b#secret-file={secret}",
        posts.port
    );
    let done = over_shop(
        "PARSE http PROCESS (group-count: group=url_template, w=100ms), (top-k: key=url_template)",
        &["--to", &to],
    );
    done.adds_up();
    assert_eq!((done.code, done.lost()), (Some(0), 0), "{}", done.err);
    assert!(done.count("/counts/retries") >= 2, "{}", done.err);
    let heard = posts.heard();
    assert!(
        heard.iter().all(|post| post["path"] == "/hook?a=b"),
        "{heard:?}"
    );
    // The first message was received three times, under one identifier.
    let ids: Vec<_> = heard
        .iter()
        .map(|post| post["taken"]["id"].to_string())
        .collect();
    assert_eq!(ids[..3].iter().collect::<BTreeSet<_>>().len(), 1, "{ids:?}");
    assert_eq!(rows(&heard), printed(&done));
    for post in &heard {
        let body = &post["taken"]["body"];
        let of_window = body["rows"].as_array().expect("rows").iter();
        assert!(
            of_window
                .clone()
                .all(|row| row["window_start"] == body["window_start"]),
            "{body}"
        );
    }
    // A wrong signature is rejected, and not retried.
    let posts = Posts::start(Path::new("python3"), "webhook", 0, 0);
    let wrong = super::file(folder.path(), "wrong", "another");
    let to = format!(
        "webhook+http://127.0.0.1:{}#secret-file={wrong}",
        posts.port
    );
    let refused = over_shop("PARSE http PROCESS (top-k)", &["--to", &to]);
    refused.adds_up();
    assert_eq!(
        refused.count("/lost/refused"),
        refused.lines.len() as u64,
        "{}",
        refused.err
    );
    assert!(posts.heard().iter().all(|post| {
        post["error"]
            .as_str()
            .is_some_and(|e| e.contains("signature"))
    }));
}

#[test]
fn a_receiver_that_is_killed_and_comes_back() {
    testkit::require!("python3");
    let folder = tempfile::tempdir().expect("a folder");
    let packets = shop();
    let secret = super::file(folder.path(), "secret", "s3cret");
    let posts = Posts::start(Path::new("python3"), "webhook", 0, 0);
    let port = posts.port;
    let to = format!("webhook+http://127.0.0.1:{port}#secret-file={secret}");
    let mut run = Query::start(
        "PARSE http",
        &["--to", &to, "--no-redact", "--to-timeout", "60s"],
    );
    let half = packets.len() / 2;
    run.feed(&packets[..half]);
    let first = posts.lines.recv_timeout(PATIENCE).expect("a post");
    let mut heard = vec![serde_json::from_str(&first).expect("JSON")];
    heard.extend(posts.heard());
    run.feed(&packets[half..]);
    run.end();
    let posts = Posts::start(Path::new("python3"), "webhook", port, 0);
    let done = run.done();
    done.adds_up();
    assert_eq!(done.lost(), 0, "{}", done.err);
    heard.extend(posts.heard());
    assert_eq!(rows(&heard), printed(&done));
}

/// Python with OpenTelemetry's own definitions.
pub fn python() -> Option<std::path::PathBuf> {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    testkit::programs::python(tmp, "otlp-venv", "opentelemetry-proto==1.45.2")
}

#[test]
fn a_collector_gets_sums_gauges_and_distributions() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let secret = super::file(folder.path(), "secret", "s3cret");
    let posts = Posts::start(&python, "otlp", 0, 1);
    let to = format!("otlp+http://127.0.0.1:{}#secret-file={secret}", posts.port);
    let query = "PARSE http PROCESS (group-count-hist: group=url_template, w=100ms), (group-quantile: group=url_template, q=0.99)";
    let done = over_shop(query, &["--to", &to]);
    done.adds_up();
    assert_eq!((done.code, done.lost()), (Some(0), 0), "{}", done.err);
    let heard = posts.heard();
    let mut counts = BTreeMap::new();
    let mut distributions = BTreeMap::<_, (f64, BTreeMap<i64, f64>)>::new();
    let mut p99 = BTreeMap::new();
    for post in &heard {
        assert_eq!(
            (&post["path"], &post["error"]),
            (&"/v1/metrics".into(), &Value::Null),
            "{post}"
        );
        let resource = &post["taken"]["resourceMetrics"][0];
        assert_eq!(
            resource["resource"]["attributes"][0]["value"]["stringValue"],
            "netalytics"
        );
        if post["status"] != 200 {
            continue;
        }
        for metric in resource["scopeMetrics"][0]["metrics"]
            .as_array()
            .expect("metrics")
        {
            let url = |point: &Value| {
                let labels = point["attributes"].as_array().expect("attributes").iter();
                let url = labels
                    .clone()
                    .find(|label| label["key"] == "url.template")
                    .expect("a group");
                url["value"]["stringValue"]
                    .as_str()
                    .expect("text")
                    .to_owned()
            };
            let number = |value: &Value| {
                value
                    .as_f64()
                    .or_else(|| value.as_str()?.parse().ok())
                    .unwrap_or(0.0)
            };
            for point in metric["sum"]["dataPoints"].as_array().into_iter().flatten() {
                assert_eq!(
                    (&metric["name"], &metric["sum"]["isMonotonic"]),
                    (&"netalytics.http.count".into(), &true.into())
                );
                assert_eq!(
                    metric["sum"]["aggregationTemporality"],
                    "AGGREGATION_TEMPORALITY_DELTA"
                );
                assert_eq!(
                    number(&point["timeUnixNano"]) - number(&point["startTimeUnixNano"]),
                    1e8,
                    "{point}"
                );
                *counts.entry(url(point)).or_insert(0.0) += number(&point["asDouble"]);
            }
            for point in metric["gauge"]["dataPoints"]
                .as_array()
                .into_iter()
                .flatten()
            {
                if metric["name"] == "netalytics.http.p99" {
                    assert_eq!(metric["unit"], "s");
                    p99.insert(url(point), number(&point["asDouble"]));
                }
            }
            for point in metric["exponentialHistogram"]["dataPoints"]
                .as_array()
                .into_iter()
                .flatten()
            {
                assert_eq!(number(&point["scale"]), 5.0, "{point}");
                let all = distributions.entry(url(point)).or_default();
                all.0 += number(&point["count"]);
                let offset = number(&point["positive"]["offset"]) as i64;
                for (at, count) in point["positive"]["bucketCounts"]
                    .as_array()
                    .expect("buckets")
                    .iter()
                    .enumerate()
                {
                    *all.1.entry(offset + at as i64).or_default() += number(count);
                }
            }
        }
    }
    let rows = printed(&done);
    let quantiles = || {
        rows.iter()
            .filter(|row| row["processor"] == "group-quantile")
    };
    assert!(quantiles().count() >= 4);
    for row in quantiles() {
        let url = row["url_template"].as_str().expect("text");
        let (count, timed) = super::counted(&rows, url);
        let ours = row["p99_ns"].as_f64().expect("a number") / 1e9;
        let (all, buckets) = &distributions[url];
        assert_eq!((counts[url], *all), (count, timed), "{url}");
        assert!((p99[url] / ours - 1.0).abs() < 1e-9, "{url}");
        // The bucket of the 99th percentile contains the printed value, which has an error of at most 1/128.
        let mut below = 0.0;
        let (index, _) = buckets
            .iter()
            .find(|(_, n)| {
                below += **n;
                below >= (timed * 0.99).ceil()
            })
            .expect("a bucket");
        let bounds = [0, 1].map(|end| ((index + end) as f64 / 32.0).exp2());
        assert!(
            ours > bounds[0] / 1.009 && ours < bounds[1] * 1.009,
            "{url}: {ours} in {bounds:?}"
        );
    }
}

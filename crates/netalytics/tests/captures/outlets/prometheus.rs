//! Debian's Prometheus scrapes our page, and its results are compared with our rows.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{Query, Server, file, free_port, shop, wait_for};

/// A running Prometheus.
pub struct Prometheus {
    _server: Server,
    _folder: TempDir,
    port: u16,
}

impl Prometheus {
    /// Scrapes a target several times per second; `None` if it is missing and
    /// `ALLOW_MISSING` names it.
    pub fn start(target: &str) -> Option<Prometheus> {
        testkit::require!("prometheus");
        let folder = tempfile::tempdir().expect("a folder");
        let port = free_port();
        let config = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\n\
             scrape_configs: [{{job_name: n, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        let config = file(folder.path(), "prometheus.yml", &config);
        let server = Server::start(
            Command::new("prometheus")
                .arg(format!("--config.file={config}"))
                .arg(format!(
                    "--storage.tsdb.path={}",
                    folder.path().join("data").display()
                ))
                .arg(format!("--web.listen-address=127.0.0.1:{port}"))
                .arg("--enable-feature=native-histograms"),
        );
        let prometheus = Prometheus {
            _server: server,
            _folder: folder,
            port,
        };
        wait_for("Prometheus", || {
            curl(&format!("http://127.0.0.1:{port}/-/ready"), &[])
        });
        Some(prometheus)
    }

    /// Labels and last value of each series of an expression within a minute: the target has ended by now.
    pub fn ask(&self, expression: &str) -> Vec<(Value, f64)> {
        let url = format!("http://127.0.0.1:{}/api/v1/query_range", self.port);
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .expect("after 1970")
            .as_secs_f64();
        let ask =
            |name: &str, value: String| ["--data-urlencode".to_owned(), format!("{name}={value}")];
        let range = [
            ask("start", (now - 60.0).to_string()),
            ask("end", now.to_string()),
            ask("step", "0.1".into()),
        ];
        let args = [range.concat(), ask("query", expression.into()).to_vec()].concat();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let answer = curl(&url, &args).expect("an answer");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        let series = answer["data"]["result"].as_array().expect("series").iter();
        let last = |values: &Value| {
            values
                .as_array()
                .and_then(|values| values.last().cloned())
                .unwrap_or_default()
        };
        let number = |value: Value| {
            value[1]
                .as_str()
                .and_then(|text| text.parse().ok())
                .unwrap_or(f64::NAN)
        };
        series
            .map(|series| (series["metric"].clone(), number(last(&series["values"]))))
            .collect()
    }
}

fn curl(url: &str, args: &[&str]) -> Option<String> {
    let output = Command::new("curl")
        .args(["-sf", "-m", "10"])
        .args(args)
        .arg(url)
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

const QUERY: &str = "PARSE http PROCESS (group-count-hist: group=url_template, w=100ms), \
                     (group-quantile: group=url_template, q=0.99)";

#[test]
fn prometheus_computes_the_same_values() {
    let port = free_port();
    let Some(prometheus) = Prometheus::start(&format!("127.0.0.1:{port}")) else {
        return;
    };
    let mut run = Query::start(
        QUERY,
        &[
            "--to",
            &format!("prometheus://127.0.0.1:{port}"),
            "--to-timeout",
            "60s",
        ],
    );
    run.feed(&shop());
    // The page stays until the last windows were scraped.
    let done = run.done();
    done.adds_up();
    assert_eq!((done.code, done.lost()), (Some(0), 0), "{}", done.err);
    let rows: Vec<Value> = done
        .lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let templates = || {
        rows.iter()
            .filter(|row| row["processor"] == "group-quantile")
    };
    assert!(templates().count() >= 4, "{rows:?}");
    for row in templates() {
        let url = row["url_template"].as_str().expect("text");
        let series = |name: &str| format!("{name}{{url_template=\"{url}\"}}");
        let one = |expression: &str| {
            let answer = prometheus.ask(expression);
            assert_eq!(answer.len(), 1, "{expression}: {answer:?}");
            answer[0].1
        };
        let (count, timed) = super::counted(&rows, url);
        assert_eq!(one(&series("netalytics_http_count_total")), count, "{url}");
        assert_eq!(
            one(&format!(
                "histogram_count({})",
                series("netalytics_http_hist_seconds")
            )),
            timed,
            "{url}"
        );
        let p99 = one(&format!(
            "histogram_quantile(0.99, {})",
            series("netalytics_http_hist_seconds")
        ));
        let ours = row["p99_ns"].as_f64().expect("a number") / 1e9;
        // Buckets of 2.2 %, and ours of 0.8 %.
        assert!((p99 / ours - 1.0).abs() < 0.031, "{url}: {p99} and {ours}");
        let gauge = one(&series("netalytics_http_p99_seconds"));
        assert!(
            (gauge / ours - 1.0).abs() < 1e-9,
            "{url}: {gauge} and {ours}"
        );
    }
    let packets = done.summary["packets"]["received"]
        .as_f64()
        .expect("a number");
    assert_eq!(prometheus.ask("netalytics_packets_total")[0].1, packets);
}

#[test]
fn promtool_finds_nothing_wrong_with_the_text() {
    testkit::require!("promtool");
    let port = free_port();
    let to = format!("prometheus://127.0.0.1:{port}/m");
    let mut run = Query::start(
        "PARSE http SAMPLE 0.9 PROCESS (diff-group: group=client_ip, w=100ms), (group-hist: group=status), (top-k: k=2), (count)",
        &["--to", &to, "--to-timeout", "60s"],
    );
    run.feed(&shop());
    run.end();
    let url = format!("http://127.0.0.1:{port}/m");
    // The first scrape may precede the last windows; the final one does not.
    let mut page = String::new();
    wait_for("the last page", || {
        match curl(&url, &[]) {
            Some(text) => page = text,
            None if !page.is_empty() => return Some(()),
            None => {}
        }
        None
    });
    let done = run.done();
    assert_eq!(done.code, Some(0), "{}", done.err);
    for name in [
        "netalytics_http_count_high{",
        "netalytics_http_hist_seconds_bucket{",
        "http_response_status_code=\"200\"",
    ] {
        assert!(page.contains(name), "{name}\n{page}");
    }
    testkit::programs::lint(&page);
}

#[test]
fn series_are_bounded_and_strangers_turned_away() {
    let port = free_port();
    let to = format!("prometheus://127.0.0.1:{port}");
    let mut run = Query::start(
        "PARSE http PROCESS (group-count: group=client_port, w=100ms)",
        &["--to", &to, "--to-series", "3"],
    );
    run.feed(&shop());
    let url = format!("http://127.0.0.1:{port}/metrics");
    wait_for("the page", || curl(&url, &[]));
    assert_eq!(curl(&url, &["-H", "Host: evil.example"]), None);
    assert_eq!(curl(&format!("http://127.0.0.1:{port}/other"), &[]), None);
    assert_eq!(curl(&url, &["-X", "POST"]), None);
    run.end();
    let mut page = String::new();
    wait_for("the end", || match curl(&url, &[]) {
        Some(text) => {
            page = text;
            None
        }
        None => Some(()),
    });
    let done = run.done();
    assert!(
        page.lines()
            .filter(|line| line.starts_with("netalytics_http_count_total{"))
            .count()
            <= 3,
        "{page}"
    );
    assert!(done.count("/counts/left_out") > 3, "{}", done.err);
    let tuples = Query::start("PARSE http", &["--to", &to]).done();
    assert!(
        tuples.code == Some(2) && tuples.err.contains("single tuples are not metrics"),
        "{}",
        tuples.err
    );
}

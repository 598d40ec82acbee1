//! Alerts with foreign receivers: a webhook in Python that verifies signatures, and Debian's Alertmanager.

mod alertmanager;
pub mod hook;

use serde_json::{Value, json};
use server::{AgentCoverage, AlertLimits, JobId, ResultDelivery, ServiceLimits, WindowState};
use std::time::{Duration, Instant};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};
use crate::history::{announce, publish, window};
use hook::Hook;

const PATIENCE: Duration = Duration::from_secs(60);

/// Default query of rules.
const QUERY: &str = "PARSE http PROCESS (group-count: group=url, w=10s)";
/// Another query, whose rules have another job.
const FAILING: &str = "PARSE http WHERE status >= 500 PROCESS (group-count: group=url, w=10s)";

/// Polls until `look` succeeds; panics with its last error.
pub fn until<T>(mut look: impl FnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(seen) => assert!(started.elapsed() < PATIENCE, "{seen}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn limits() -> ServiceLimits {
    let alerts = AlertLimits {
        resend: Duration::from_millis(300),
        stall_min: Duration::from_millis(1),
        retry_max: Duration::from_secs(30),
        ..AlertLimits::default()
    };
    ServiceLimits {
        alerts,
        ..ServiceLimits::default()
    }
}

/// A rule on counts by URL, in windows of ten seconds.
pub fn rule(more: Value) -> Value {
    let mut rule = json!({
        "name": "many", "query": QUERY, "when": "count > 10",
    });
    let more = more.as_object().expect("an object").clone();
    rule.as_object_mut().expect("an object").extend(more);
    rule
}

/// Creates a rule; returns its number and its job.
pub fn make(server: &Server, rule: &Value) -> (String, JobId) {
    let made = server
        .ask("POST", "/api/v1/alert-rules", Some(rule))
        .of(201)
        .json();
    let job: JobId = made["job_id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .expect("a job");
    announce(server, job);
    (made["id"].as_str().expect("a number").to_owned(), job)
}

/// Publishes a window of ten seconds without these agents; the watermark becomes `watermark` seconds.
fn publish_without(
    server: &Server,
    job: JobId,
    batch: &tuple::Batch,
    missing: &[&str],
    watermark: i64,
) {
    let coverage = AgentCoverage {
        missing: missing.iter().map(|agent| (*agent).to_owned()).collect(),
    };
    let state = WindowState::Closed;
    let watermark_ns = watermark * 1_000_000_000;
    let delivery = ResultDelivery {
        job,
        result: 0,
        batch,
        state,
        watermark_ns,
        coverage: &coverage,
    };
    server.fleet.hub().publish(&delivery).expect("kept");
}

fn closed(server: &Server, job: JobId, start: i64, rows: &[(&str, u64)]) {
    publish(server, job, &window(start, rows), WindowState::Closed);
}

/// Alerts as `state reason url`.
fn states(server: &Server) -> Vec<String> {
    let found = server.get("/api/v1/alerts").of(200).json();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let one = |alert: &Value| {
        format!(
            "{} {} {}",
            text(&alert["state"]),
            text(&alert["reason"]),
            text(&alert["labels"]["url"])
        )
    };
    found["alerts"]
        .as_array()
        .expect("alerts")
        .iter()
        .map(one)
        .collect()
}

fn still() -> AlertLimits {
    AlertLimits {
        stall_min: Duration::from_secs(3600),
        ..limits().alerts
    }
}

fn quiet() -> ServiceLimits {
    ServiceLimits {
        alerts: still(),
        ..ServiceLimits::default()
    }
}

#[test]
fn a_group_fires_once_and_is_over_once() {
    let Some(hook) = Hook::start(2) else { return };
    let server = Server::telling(
        TestFleet::new(Way::Note),
        quiet(),
        &[&hook.receiver("pager")],
    );
    let told = rule(json!({
        "for": "20s", "labels": { "severity": "page" }, "receivers": ["pager"],
        "annotations": { "summary": "{url} was asked for {count} times" },
    }));
    let (_, job) = make(&server, &told);
    closed(&server, job, 0, &[("/a", 11), ("/b", 5)]);
    assert_eq!(states(&server), ["pending condition /a"]);
    closed(&server, job, 10, &[("/a", 12), ("/b", 50)]);
    assert_eq!(
        states(&server),
        ["firing condition /a", "pending condition /b"]
    );
    closed(&server, job, 20, &[("/a", 13)]);
    closed(&server, job, 30, &[("/a", 1), ("/b", 1)]);
    assert_eq!(states(&server), ["resolved condition /a"]);
    let heard = hook.heard(2);
    let alerts: Vec<&Value> = heard
        .iter()
        .flat_map(|body| body["alerts"].as_array().expect("alerts"))
        .collect();
    assert_eq!(alerts.len(), 2, "{heard:#?}");
    assert_eq!(
        (&alerts[0]["status"], &alerts[1]["status"]),
        (&json!("firing"), &json!("resolved"))
    );
    let labels = json!({ "alertname": "many", "severity": "page", "url": "/a" });
    assert_eq!(
        (&alerts[0]["labels"], &alerts[1]["labels"]),
        (&labels, &labels)
    );
    assert_eq!(
        alerts[0]["annotations"]["summary"],
        "/a was asked for 12 times"
    );
    assert_eq!(
        (&alerts[0]["values"]["count"], &alerts[0]["startsAt"]),
        (&json!(12), &json!("1970-01-01T00:00:20Z"))
    );
    assert_eq!(alerts[1]["endsAt"], "1970-01-01T00:00:40Z");
    assert_eq!(alerts[0]["fingerprint"], alerts[1]["fingerprint"]);
    // The delivery failed twice, and the same document was sent again under the same identifier.
    let counters = until(|| {
        let counters = server.get("/api/v1/counters").of(200).json();
        if counters["notifications_sent"] == 2 {
            Ok(counters)
        } else {
            Err(counters.to_string())
        }
    });
    assert_eq!(
        (
            &counters["notifications_retried"],
            &counters["notifications_lost"]
        ),
        (&json!(2), &json!(0))
    );
}

#[test]
fn alerts_come_in_pages() {
    let server = Server::with(TestFleet::new(Way::Note), quiet());
    for (name, query) in [("first", QUERY), ("second", FAILING)] {
        let (_, job) = make(&server, &rule(json!({ "name": name, "query": query })));
        closed(&server, job, 0, &[("/a", 11), ("/b&c", 12), ("/d", 13)]);
        publish_without(&server, job, &window(10, &[("/a", 11)]), &["web1"], 20);
    }
    let whole = server.get("/api/v1/alerts").of(200).json();
    let all = whole["alerts"].as_array().expect("alerts");
    assert_eq!((all.len(), &whole["next"]), (8, &Value::Null));
    for limit in [1, 3, 4, 8] {
        let mut found = Vec::new();
        let mut after = String::new();
        let mut pages = 0;
        loop {
            let page = server
                .get(&format!("/api/v1/alerts?limit={limit}{after}"))
                .of(200)
                .json();
            found.extend(page["alerts"].as_array().expect("alerts").clone());
            pages += 1;
            let Some(next) = page["next"].as_str() else {
                break;
            };
            let bytes = next
                .bytes()
                .map(|byte| format!("%{byte:02X}"))
                .collect::<String>();
            after = format!("&after={bytes}");
        }
        assert_eq!(
            (&found, pages),
            (all, 8_usize.div_ceil(limit)),
            "pages of {limit}"
        );
    }
    server.get("/api/v1/alerts?after=nonsense").of(400);
    server.get("/api/v1/alerts?limit=x").of(400);
}

#[test]
fn a_restart_neither_repeats_nor_forgets() {
    let Some(hook) = Hook::start(0) else { return };
    let own = tempfile::tempdir().expect("a folder");
    let receiver = hook.receiver("pager");
    let begin = || {
        Server::over_with(
            own.path(),
            TestFleet::new(Way::Note),
            quiet(),
            &[&receiver],
            Default::default(),
        )
    };
    let mut server = begin();
    let (_, job) = make(&server, &rule(json!({ "receivers": ["pager"] })));
    closed(&server, job, 0, &[("/a", 11), ("/b", 12)]);
    server.end();
    let mut server = begin();
    announce(&server, job);
    assert_eq!(
        states(&server),
        ["firing condition /a", "firing condition /b"]
    );
    // A window is evaluated only once.
    closed(&server, job, 0, &[("/c", 11)]);
    closed(&server, job, 10, &[("/a", 11)]);
    server.end();
    let mut server = begin();
    announce(&server, job);
    closed(&server, job, 20, &[("/b", 1)]);
    let heard = hook.heard(3);
    let said: Vec<String> = heard.iter().flat_map(hook::said).collect();
    assert_eq!(
        said,
        ["firing /a", "firing /b", "resolved /b", "resolved /a"]
    );
    server.end();
}

#[test]
fn no_data_and_missing_agents_are_states_of_their_own() {
    let server = Server::with(TestFleet::new(Way::Note), quiet());
    let (id, job) = make(&server, &rule(json!({})));
    let state = || {
        server
            .get(&format!("/api/v1/alert-rules/{id}"))
            .of(200)
            .json()["state"]
            .clone()
    };
    assert_eq!(state(), "no_data");
    closed(&server, job, 0, &[("/a", 11)]);
    assert_eq!(
        (states(&server), state()),
        (vec!["firing condition /a".into()], json!("ok"))
    );
    // Without an agent /a neither resolves nor is confirmed. A condition met by the existing rows fires: /b.
    publish_without(&server, job, &window(10, &[("/b", 11)]), &["web1"], 20);
    assert_eq!(
        states(&server),
        [
            "firing missing_agents -",
            "firing condition /a",
            "firing condition /b"
        ]
    );
    assert_eq!(state(), "missing_agents");
    let alerts = server.get("/api/v1/alerts?state=firing").of(200).json();
    assert_eq!(alerts["alerts"][0]["values"]["agents"], "web1");
    assert_eq!(alerts["alerts"][1]["held"], "missing_agents");
    // Two windows without rows, and one with rows.
    publish_without(&server, job, &window(40, &[("/a", 1)]), &[], 50);
    let over = [
        "resolved no_data -",
        "resolved missing_agents -",
        "resolved condition /a",
    ];
    assert_eq!(
        states(&server),
        [&over[..], &["resolved condition /b"]].concat()
    );
    // With this rule, missing errors resolve the alert.
    let (_, other) = make(
        &server,
        &rule(json!({ "name": "errors", "query": FAILING, "on_no_data": "resolve" })),
    );
    closed(&server, other, 0, &[("/e", 11)]);
    publish_without(&server, other, &window(50, &[]), &[], 30);
    let of_rule = server.get("/api/v1/alerts?rule=errors").of(200).json();
    assert_eq!(of_rule["alerts"].as_array().map(Vec::len), Some(1));
    assert_eq!(of_rule["alerts"][0]["state"], "resolved");
}

#[test]
fn a_source_that_falls_silent_is_no_data() {
    let server = Server::with(TestFleet::new(Way::Note), limits());
    let query = "PARSE http PROCESS (group-count: group=url, w=100ms)";
    let (_, job) = make(
        &server,
        &rule(json!({ "query": query, "on_no_data": "resolve" })),
    );
    closed(&server, job, 0, &[("/a", 11)]);
    let seen = until(|| {
        let seen = states(&server);
        if seen.iter().any(|state| state == "firing no_data -") {
            Ok(seen)
        } else {
            Err(format!("{seen:?}"))
        }
    });
    // A firing alert does not resolve.
    assert_eq!(seen, ["firing no_data -", "firing condition /a"]);
}

#[test]
fn silenced_alerts_are_sent_later_with_their_resolution() {
    let Some(hook) = Hook::start(0) else { return };
    let server = Server::telling(
        TestFleet::new(Way::Note),
        quiet(),
        &[&hook.receiver("pager")],
    );
    let (_, job) = make(&server, &rule(json!({ "receivers": ["pager"] })));
    let asked = json!({ "matchers": ["url=~/a|/b"], "for": "1h", "comment": "a release" });
    let silence = server
        .ask("POST", "/api/v1/silences", Some(&asked))
        .of(201)
        .json();
    let path = format!("/api/v1/silences/{}", silence["id"]);
    closed(&server, job, 0, &[("/a", 11), ("/b", 11), ("/c", 11)]);
    let found = server.get("/api/v1/alerts").of(200).json();
    assert_eq!(
        found["alerts"][0]["silenced_by"],
        json!([silence["id"].to_string()])
    );
    // /a resolves before it was notified.
    closed(&server, job, 10, &[("/b", 11), ("/c", 11)]);
    let heard = hook.heard(1);
    assert_eq!(
        heard.iter().flat_map(hook::said).collect::<Vec<_>>(),
        ["firing /c"]
    );
    server
        .ask(
            "PUT",
            &path,
            Some(&json!({ "matchers": ["url=/c"], "for": "1h" })),
        )
        .of(200);
    let heard = hook.heard(1);
    assert_eq!(
        heard.iter().flat_map(hook::said).collect::<Vec<_>>(),
        ["firing /b"]
    );
    closed(&server, job, 20, &[("/b", 11)]);
    let heard = hook.heard(1);
    assert_eq!(
        heard.iter().flat_map(hook::said).collect::<Vec<_>>(),
        ["resolved /c"]
    );
    server.ask("DELETE", &path, None).of(200);
    assert_eq!(
        server.get("/api/v1/silences").of(200).json()["silences"],
        json!([])
    );
}

#[test]
fn deleting_a_rule_ends_its_alerts_and_its_job() {
    let Some(hook) = Hook::start(0) else { return };
    let server = Server::telling(
        TestFleet::new(Way::Note),
        quiet(),
        &[&hook.receiver("pager")],
    );
    let first = rule(json!({ "receivers": ["pager"] }));
    let (id, job) = make(&server, &first);
    closed(&server, job, 0, &[("/a", 11)]);
    // Only texts change: firing alerts continue.
    let path = format!("/api/v1/alert-rules/{id}");
    let said = rule(json!({ "receivers": ["pager"], "annotations": { "runbook": "read it" } }));
    let changed = server.ask("PUT", &path, Some(&said)).of(200).json();
    assert_eq!(
        (&changed["firing"], &changed["job_id"]),
        (&json!(1), &json!(job.to_string()))
    );
    // Another condition resets the state.
    let other = rule(json!({ "receivers": ["pager"], "when": "count > 20" }));
    assert_eq!(
        server.ask("PUT", &path, Some(&other)).of(200).json()["firing"],
        0
    );
    closed(&server, job, 10, &[("/a", 21)]);
    server.ask("DELETE", &path, None).of(204);
    let heard = hook.heard(4);
    let said: Vec<String> = heard.iter().flat_map(hook::said).collect();
    assert_eq!(
        said,
        ["firing /a", "resolved /a", "firing /a", "resolved /a"]
    );
    assert_eq!(server.fleet.stopped.lock().expect("stopped")[..], [job]);
    server.get(&path).of(404);
}

#[test]
fn rules_with_the_same_query_share_a_job() {
    let server = Server::with(TestFleet::new(Way::Note), quiet());
    let (first, job) = make(&server, &rule(json!({})));
    closed(&server, job, 0, &[("/a", 11), ("/b", 21)]);
    let alerts = || server.get("/api/v1/alerts?rule=second").of(200).json()["alerts"].clone();
    let begun = || server.fleet.orders.lock().expect("orders").len();
    // The same query with other spaces.
    let spaced = QUERY.replace(' ', "  ");
    let (second, same) = make(
        &server,
        &rule(json!({ "name": "second", "query": spaced, "when": "count > 20" })),
    );
    assert_eq!((same, begun()), (job, 1));
    assert_eq!(
        alerts(),
        json!([]),
        "it looks at windows that end from now on"
    );
    closed(&server, job, 10, &[("/a", 12), ("/b", 22)]);
    assert_eq!(alerts().as_array().map(Vec::len), Some(1));
    // Rules with a query have their own jobs.
    for (n, more) in [
        json!({ "query": FAILING }),
        json!({ "on": { "role": "web" } }),
        json!({ "redact": false }),
        json!({ "query": "PARSE http LIMIT 1h PROCESS (group-count: group=url, w=10s)" }),
        json!({ "query": "PARSE http LIMIT 1h PROCESS (group-count: group=url, w=10s)" }),
    ]
    .iter()
    .enumerate()
    {
        let mut other = rule(more.clone());
        other["name"] = json!(format!("other {n}"));
        let made = server
            .ask("POST", "/api/v1/alert-rules", Some(&other))
            .of(201)
            .json();
        assert_ne!(made["job_id"], json!(job.to_string()), "{more}");
        assert_eq!(begun(), n + 2, "{more}");
    }
    let remove = |id: &str| {
        drop(
            server
                .ask("DELETE", &format!("/api/v1/alert-rules/{id}"), None)
                .of(204),
        )
    };
    remove(&first);
    assert!(server.fleet.stopped.lock().expect("stopped").is_empty());
    closed(&server, job, 20, &[("/a", 30), ("/b", 22)]);
    assert_eq!(alerts().as_array().map(Vec::len), Some(2));
    // A rule with a changed query leaves the job, and joins it again.
    let path = format!("/api/v1/alert-rules/{second}");
    let (third, _) = make(&server, &rule(json!({ "name": "third" })));
    let turned = |query: &str| {
        let asked = rule(json!({ "name": "second", "query": query }));
        server.ask("PUT", &path, Some(&asked)).of(200).json()["job_id"].clone()
    };
    assert_ne!(turned(FAILING), json!(job.to_string()));
    assert_eq!(turned(QUERY), json!(job.to_string()));
    remove(&second);
    assert!(server.fleet.stopped.lock().expect("stopped").is_empty());
    remove(&third);
    assert_eq!(server.fleet.stopped.lock().expect("stopped")[..], [job]);
}

#[test]
fn invalid_rules_are_rejected() {
    let server = Server::with(TestFleet::new(Way::Note), quiet());
    for (more, says) in [
        (json!({ "when": "cuont > 10" }), "cuont"),
        (json!({ "when": "rows > 10" }), "each row"),
        (json!({ "query": "PARSE http" }), "without PROCESS"),
        (
            json!({ "query": "PARSE http PROCESS (group-count: group=url)" }),
            "w=10s",
        ),
        (json!({ "query": "PARSE htp PROCESS (rate)" }), "htp"),
        (json!({ "job": "1" }), "either a query or a job"),
        (
            json!({ "query": null, "job": "nothing" }),
            "no standing job",
        ),
        (
            json!({ "receivers": ["nobody"] }),
            "receiver nobody does not exist",
        ),
        (json!({ "for": "soon" }), "not a duration"),
        (
            json!({ "labels": { "alertname": "x" } }),
            "not a label name",
        ),
        (
            json!({ "annotations": { "summary": "{nothing}" } }),
            "not a column",
        ),
        (json!({ "name": "" }), "name of a rule"),
        (json!({ "result": "7" }), "no result 7"),
    ] {
        let answer = server
            .ask("POST", "/api/v1/alert-rules", Some(&rule(more.clone())))
            .json();
        assert!(
            answer["message"].as_str().expect("words").contains(says),
            "{more}: {answer}"
        );
    }
    // Rejected rules started no jobs.
    assert!(server.fleet.orders.lock().expect("orders").is_empty());
    make(&server, &rule(json!({})));
    server
        .ask("POST", "/api/v1/alert-rules", Some(&rule(json!({}))))
        .of(409);
    for matchers in [
        json!([]),
        json!(["url"]),
        json!(["url=~("]),
        json!(["url=~.*"]),
    ] {
        let asked = json!({ "matchers": matchers, "for": "1h" });
        server.ask("POST", "/api/v1/silences", Some(&asked)).of(400);
    }
}

#[test]
fn permissions_of_alert_rules() {
    let server = Server::with(TestFleet::new(Way::Note), quiet());
    let token = |name: &str, role: &str| {
        let asked = json!({ "name": name, "role": role });
        server
            .ask("POST", "/api/v1/tokens", Some(&asked))
            .of(201)
            .json()["secret"]
            .as_str()
            .expect("a secret")
            .to_owned()
    };
    let view = token("looks", "view");
    let run = token("one", "run");
    let other = token("two", "run");
    server
        .ask_as(&view, "POST", "/api/v1/alert-rules", Some(&rule(json!({}))))
        .of(403);
    let made = server
        .ask_as(&run, "POST", "/api/v1/alert-rules", Some(&rule(json!({}))))
        .of(201)
        .json();
    let path = format!(
        "/api/v1/alert-rules/{}",
        made["id"].as_str().expect("a number")
    );
    server.ask_as(&view, "GET", &path, None).of(200);
    server.ask_as(&other, "DELETE", &path, None).of(403);
    let over = json!({ "query": null, "job": made["job_id"], "name": "mine" });
    server
        .ask_as(&other, "POST", "/api/v1/alert-rules", Some(&rule(over)))
        .of(403);
    // Unredacted texts require the role raw, also in alerts.
    let raw = rule(json!({ "name": "raw", "redact": false }));
    server
        .ask_as(&run, "POST", "/api/v1/alert-rules", Some(&raw))
        .of(403);
    let kept = server
        .ask("POST", "/api/v1/alert-rules", Some(&raw))
        .of(201)
        .json();
    let job = kept["job_id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .expect("a job");
    announce(&server, job);
    closed(&server, job, 0, &[("/secret", 11)]);
    assert_eq!(
        server
            .ask_as(&view, "GET", "/api/v1/alerts", None)
            .of(200)
            .json()["alerts"],
        json!([])
    );
    assert_eq!(states(&server), ["firing condition /secret"]);
    // A silence of a user without the role admin applies only to own rules.
    let asked = json!({ "matchers": ["url=/secret"], "for": "1h" });
    let silence = server
        .ask_as(&run, "POST", "/api/v1/silences", Some(&asked))
        .of(201)
        .json();
    assert_eq!(
        server.get("/api/v1/alerts").of(200).json()["alerts"][0]["silenced_by"],
        json!([])
    );
    let path = format!("/api/v1/silences/{}", silence["id"]);
    server.ask_as(&other, "DELETE", &path, None).of(403);
    server.ask_as(&run, "DELETE", &path, None).of(200);
    let log = server.get("/api/v1/audit?limit=1").of(200).json();
    assert_eq!(
        (&log["entries"][0]["act"], &log["entries"][0]["who"]),
        (&json!("silence.end"), &json!("one"))
    );
}

#[test]
fn rules_groups_silences_and_notifications_are_bounded() {
    // Nothing listens there.
    let alerts = AlertLimits {
        rules_max: 1,
        groups_max: 2,
        silences_max: 1,
        outbox_max: 3,
        ..still()
    };
    let limits = ServiceLimits {
        alerts,
        ..ServiceLimits::default()
    };
    let nobody = "pager=webhook+http://127.0.0.1:1/#secret-env=PATH";
    let server = Server::telling(TestFleet::new(Way::Note), limits, &[nobody]);
    let (_, job) = make(&server, &rule(json!({ "receivers": ["pager"] })));
    server
        .ask(
            "POST",
            "/api/v1/alert-rules",
            Some(&rule(json!({ "name": "more" }))),
        )
        .of(429);
    closed(&server, job, 0, &[("/a", 11), ("/b", 11), ("/c", 11)]);
    assert_eq!(states(&server).len(), 2);
    for start in 1..7 {
        let rows: &[(&str, u64)] = if start % 2 == 0 {
            &[("/a", 11)]
        } else {
            &[("/b", 1)]
        };
        closed(&server, job, start * 10, rows);
    }
    let counters = server.get("/api/v1/counters").of(200).json();
    assert_eq!(
        (
            &counters["alert_groups_left_out"],
            &counters["notifications_lost"]
        ),
        (&json!(1), &json!(4))
    );
    let receivers = server.get("/api/v1/receivers").of(200).json();
    assert_eq!(receivers["receivers"][0]["waiting"], 3);
    assert_eq!(
        receivers["receivers"][0]["to"],
        "webhook+http://127.0.0.1:1"
    );
    let asked = json!({ "matchers": ["url=/a"], "for": "1h" });
    server.ask("POST", "/api/v1/silences", Some(&asked)).of(201);
    server.ask("POST", "/api/v1/silences", Some(&asked)).of(429);
    let tested = server
        .ask("POST", "/api/v1/receivers/pager/test", None)
        .of(200)
        .json();
    assert_eq!(tested["taken"], false);
    assert!(tested["problem"].is_string());
}

#[test]
fn page_and_stream_show_firing_alerts() {
    let server = Server::with(TestFleet::new(Way::Note), quiet());
    let (_, job) = make(&server, &rule(json!({})));
    let mut stream = crate::streams::Stream::open(&server, &job.to_string(), None);
    closed(&server, job, 0, &[("/<b>", 11)]);
    let alert = std::iter::from_fn(|| stream.next())
        .find(|event| event.kind == "alert")
        .expect("an alert")
        .data;
    assert_eq!(
        (&alert["state"], &alert["labels"]["url"]),
        (&json!("firing"), &json!("/<b>"))
    );
    let bearer = format!("Bearer {}", server.token);
    let page = server
        .ask_with("GET", "/", &[("authorization", &bearer)], None)
        .of(200)
        .text();
    assert!(
        page.contains("<h2>Alerts</h2><table>") && page.contains("url=/&lt;b&gt;"),
        "{page}"
    );
}

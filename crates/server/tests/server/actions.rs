//! Actions: messages to webhooks and Redis and their order, also across restarts of the server; permissions.

use std::process::Command;

use serde_json::{Value, json};
use server::{JobId, NamedOutlets, ServiceLimits, WindowState};
use testkit::programs::{TestProgram, free_port, wait_for};

use crate::alerts::hook::Hook;
use crate::client::Server;
use crate::fleet::{TestFleet, Way};
use crate::history::{announce, publish, window};

fn asked(job: JobId, more: Value) -> Value {
    let mut asked = json!({
        "name": "hot", "job": job.to_string(), "upper": 10, "servers": ["web1", "web2", "web3"], "to": ["content", "proxy"],
        "backoff": "10s", "drain": "0s",
    });
    let more = more.as_object().expect("an object").clone();
    asked.as_object_mut().expect("an object").extend(more);
    asked
}

fn standing(server: &Server) -> JobId {
    let asked = json!({ "query": "PARSE http PROCESS (group-count: group=url, w=10s)", "kind": "standing" });
    let made = server
        .ask("POST", "/api/v1/jobs", Some(&asked))
        .of(201)
        .json();
    let job = made["id"]
        .as_str()
        .and_then(|id| id.parse().ok())
        .expect("a job");
    announce(server, job);
    job
}

fn closed(server: &Server, job: JobId, start: i64, rows: &[(&str, u64)]) {
    publish(server, job, &window(start, rows), WindowState::Closed);
}

fn carried_out(server: &Server, version: u64) -> Value {
    wait_for("it is carried out", || {
        let action = server.get("/api/v1/actions/1").of(200).json();
        if action["state"] == "ok" && action["version"] == version {
            Ok(action)
        } else {
            Err(action.to_string())
        }
    })
}

#[test]
fn decisions_are_sent_in_order_and_survive_restarts() {
    // The first two attempts fail.
    let Some(hook) = Hook::start(2) else { return };
    testkit::require!("redis-server", "redis-cli");
    let folder = tempfile::tempdir().expect("a folder");
    let port = free_port();
    let in_redis = |words: &[&str]| {
        let output = Command::new("redis-cli")
            .args(["--raw", "-p", &port.to_string()])
            .args(words)
            .output();
        String::from_utf8_lossy(&output.expect("it runs").stdout)
            .trim()
            .replace('\n', " ")
    };
    let redis = || {
        let args = ["--port", &port.to_string(), "--save", ""].map(str::to_owned);
        let program = TestProgram::start(Command::new("redis-server").args(args));
        wait_for("Redis", || {
            if in_redis(&["ping"]) == "PONG" {
                Ok(())
            } else {
                Err("-".into())
            }
        });
        program
    };
    let named = [
        hook.receiver("content"),
        format!("proxy=redis://127.0.0.1:{port}/0#prefix=n"),
    ];
    let named = NamedOutlets::new(&named).expect("they are addresses");
    let over = |folder| {
        Server::over_with(
            folder,
            TestFleet::new(Way::Note),
            ServiceLimits::default(),
            &[],
            named.clone(),
        )
    };
    let mut server = over(folder.path());
    let job = standing(&server);
    let mut first_redis = redis();
    server
        .ask("POST", "/api/v1/actions", Some(&asked(job, json!({}))))
        .of(201);
    carried_out(&server, 1);
    let stands = || {
        [
            in_redis(&["hget", "n:hot", "version"]),
            in_redis(&["lrange", "n:hot:servers", "0", "-1"]),
            in_redis(&["hgetall", "n:hot:replicas"]),
        ]
    };
    assert_eq!(stands(), ["1", "web1", ""]);
    closed(&server, job, 0, &[("/a", 25), ("/b", 5)]);
    carried_out(&server, 2);
    assert_eq!(stands(), ["2", "web1 web2", "/a 2"]);
    // Redis is down: the webhook is notified, the decision stays incomplete, and no other is made.
    first_redis.kill();
    closed(&server, job, 10, &[("/a", 25), ("/b", 50)]);
    let heard = hook.heard(3);
    let directions: Vec<&Value> = heard
        .iter()
        .map(|document| &document["direction"])
        .collect();
    assert_eq!(directions, ["begin", "up", "up"]);
    assert_eq!(
        (
            &heard[2]["servers"],
            &heard[2]["replicas"],
            &heard[2]["version"]
        ),
        (
            &json!(["web1", "web2", "web3"]),
            &json!({ "/a": 3, "/b": 2 }),
            &json!(3)
        )
    );
    wait_for("it fails", || {
        let action = server.get("/api/v1/actions/1").of(200).json();
        let problem = action["problem"].as_str().unwrap_or_default();
        if action["state"] == "failing" && problem.starts_with("proxy: ") {
            Ok(())
        } else {
            Err(action.to_string())
        }
    });
    closed(&server, job, 20, &[("/a", 1), ("/b", 1)]);
    closed(&server, job, 30, &[("/a", 1), ("/b", 1)]);
    assert_eq!(server.get("/api/v1/actions/1").of(200).json()["version"], 3);
    server.end();
    drop(server);
    let mut server = over(folder.path());
    let _redis = redis();
    carried_out(&server, 3);
    assert_eq!(stands(), ["3", "web1 web2 web3", "/a 3 /b 2"]);
    // For a decrease, Redis is notified first.
    announce(&server, job);
    closed(&server, job, 40, &[("/a", 1), ("/b", 20)]);
    carried_out(&server, 4);
    assert_eq!(stands(), ["4", "web1 web2", "/a 2 /b 2"]);
    let last = hook.heard(1);
    assert_eq!(
        (&last[0]["direction"], &last[0]["changes"][0]["from"]),
        (&json!("down"), &json!(3))
    );
    let found = server
        .get("/api/v1/actions/1/decisions?limit=3")
        .of(200)
        .json();
    let versions: Vec<u64> = found["decisions"]
        .as_array()
        .expect("some")
        .iter()
        .filter_map(|d| d["version"].as_u64())
        .collect();
    assert_eq!((versions, &found["next"]), (vec![4, 3, 2], &json!(2)));
    // Redis has lost its data.
    in_redis(&["flushall"]);
    server.end();
    drop(server);
    let server = over(folder.path());
    wait_for("Redis is reminded", || {
        if stands()[0] == "4" {
            Ok(())
        } else {
            Err(stands().join(";"))
        }
    });
    assert_eq!(stands(), ["4", "web1 web2", "/a 2 /b 2"]);
    server.ask("DELETE", "/api/v1/actions/1", None).of(204);
    assert_eq!(stands(), ["4", "web1 web2", "/a 2 /b 2"]);
    let audit = server.get("/api/v1/audit").of(200).text();
    assert!(
        audit.contains("action.create") && audit.contains("action.remove"),
        "{audit}"
    );
}

#[test]
fn permissions_and_validation_of_actions() {
    let named = NamedOutlets::new(&[
        "proxy=redis://127.0.0.1:1/0".into(),
        "lines=tcp://127.0.0.1:1".into(),
    ]);
    let folder = tempfile::tempdir().expect("a folder");
    let named = named.expect("names");
    let server = Server::over_with(
        folder.path(),
        TestFleet::new(Way::Note),
        ServiceLimits::default(),
        &[],
        named,
    );
    let job = standing(&server);
    let token = |role: &str| {
        let asked = json!({ "name": role, "role": role });
        let made = server
            .ask("POST", "/api/v1/tokens", Some(&asked))
            .of(201)
            .json();
        made["secret"].as_str().expect("a secret").to_owned()
    };
    let view = token("view");
    let run = token("run");
    let proxy = json!({ "to": ["proxy"] });
    for (who, more, status, says) in [
        (&view, &proxy, 403, "run"),
        (&run, &proxy, 403, "belongs to admin"),
        (
            &server.token,
            &json!({ "to": ["nobody"] }),
            400,
            "does not exist; configured outlets",
        ),
        (
            &server.token,
            &json!({ "to": ["lines"] }),
            400,
            "cannot execute decisions",
        ),
        (
            &server.token,
            &json!({ "to": ["webhook+http://127.0.0.1:1/"] }),
            400,
            "signed",
        ),
        (
            &server.token,
            &json!({ "to": ["proxy"], "value": "p99" }),
            400,
            "it has count",
        ),
        (
            &server.token,
            &json!({ "to": ["proxy"], "lower": 6 }),
            400,
            "half of upper",
        ),
        (
            &server.token,
            &json!({ "to": ["proxy"], "job": "nothing" }),
            404,
            "no standing job",
        ),
        (&server.token, &proxy, 201, ""),
        (&server.token, &proxy, 409, "already"),
    ] {
        let answer = server.ask_as(
            who,
            "POST",
            "/api/v1/actions",
            Some(&asked(job, more.clone())),
        );
        let text = answer.text();
        assert!(
            answer.status == status && text.contains(says),
            "{more}: {} {text}",
            answer.status
        );
    }
    assert_eq!(
        server
            .ask_as(&view, "DELETE", "/api/v1/actions/1", None)
            .status,
        403
    );
    let shown = server
        .ask_as(&view, "GET", "/api/v1/actions", None)
        .of(200)
        .json();
    assert_eq!(shown["actions"][0]["name"], "hot");
}

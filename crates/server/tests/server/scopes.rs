//! Restricted tokens: a token with networks sees no objects of others, at any path of the API description; a token
//! below *raw* sees no tuples. Foreign objects have names that no response may contain.

use serde_json::{Value, json};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// Contained in names, labels, matchers and queries of foreign objects.
const FOREIGN: [&str; 2] = ["foreign", "10.2.99.99"];

fn token(server: &Server, name: &str, role: &str, networks: &[&str]) -> String {
    let asked = json!({ "name": name, "role": role, "networks": networks });
    let made = server
        .ask("POST", "/api/v1/tokens", Some(&asked))
        .of(201)
        .json();
    made["secret"].as_str().expect("a secret").to_owned()
}

/// A server with one object of each kind owned by another user.
fn foreign() -> Server {
    let server = Server::start(TestFleet::new(Way::Note));
    let other = token(&server, "foreign", "admin", &[]);
    let query = "PARSE http TO 10.2.99.99 PROCESS (group-count: group=url, w=10s)";
    for (path, asked) in [
        (
            "jobs",
            json!({ "query": query, "name": "foreign", "kind": "standing", "labels": { "a": "foreign" } }),
        ),
        (
            "alert-rules",
            json!({ "name": "foreign", "job": "foreign", "when": "count > 10", "annotations": { "a": "foreign" } }),
        ),
        (
            "silences",
            json!({ "matchers": ["url=foreign"], "for": "2h", "comment": "foreign 10.2.99.99" }),
        ),
        (
            "actions",
            json!({ "name": "foreign", "job": "foreign", "upper": 10, "servers": ["foreign"], "to": ["redis://127.0.0.1:9/0"] }),
        ),
        (
            "tokens",
            json!({ "name": "foreign-agent", "role": "agent" }),
        ),
    ] {
        server
            .ask_as(&other, "POST", &format!("/api/v1/{path}"), Some(&asked))
            .of(201);
    }
    server
}

/// Methods and paths of the API description, with the numbers of these objects.
fn addresses() -> Vec<(String, String)> {
    let api: Value = serde_json::from_str(&server::openapi()).expect("JSON");
    let mut all = Vec::new();
    for (path, methods) in api["paths"].as_object().expect("paths") {
        for method in methods
            .as_object()
            .expect("methods")
            .keys()
            .filter(|method| *method != "parameters")
        {
            // The first token is the admin's, the second the other user's.
            let id = if path.contains("tokens") { "2" } else { "1" };
            let path = path.replace("{id}", id).replace("{agent}", "foreign-agent");
            all.push((method.to_uppercase(), path));
        }
    }
    assert!(all.len() > 40, "{}", all.len());
    all
}

#[test]
fn a_scoped_token_sees_nothing_of_others_at_any_address() {
    let server = foreign();
    let mut seen_by_others = 0;
    for role in ["view", "run", "raw", "admin"] {
        let scoped = token(&server, &format!("some-{role}"), role, &["10.1.0.0/16"]);
        let unscoped = token(&server, &format!("all-{role}"), role, &[]);
        for (method, path) in addresses()
            .iter()
            .filter(|(method, path)| method == "GET" && !path.ends_with("/stream"))
        {
            let tells = |token: &str| {
                let text = server.ask_as(token, method, path, None).text();
                FOREIGN.iter().any(|word| text.contains(word))
            };
            assert!(!tells(&scoped), "{path} tells role {role}");
            seen_by_others += usize::from(tells(&unscoped));
        }
    }
    // The names are visible with permission: jobs, a job, rules, a rule, silences, actions, an action, tokens, the log.
    assert!(seen_by_others >= 4 * 7 + 2, "{seen_by_others}");
    let scoped = token(&server, "scoped", "view", &["10.1.0.0/16"]);
    server
        .ask_as(&scoped, "GET", "/api/v1/counters", None)
        .of(403);
    let agents = server
        .ask_as(&scoped, "GET", "/api/v1/agents", None)
        .of(200)
        .json();
    assert_eq!(agents["agents"][0]["jobs"], json!([]));
    let status = server
        .ask_as(&scoped, "GET", "/status", None)
        .of(200)
        .text();
    assert!(
        !FOREIGN.iter().any(|word| status.contains(word)),
        "{status}"
    );
}

#[test]
fn a_scoped_admin_changes_nothing_of_others_at_any_address() {
    let server = foreign();
    let scoped = token(&server, "scoped", "admin", &["10.1.0.0/16"]);
    let state = || {
        let listed = ["jobs", "alert-rules", "silences", "actions", "tokens"];
        listed.map(|of| server.get(&format!("/api/v1/{of}")).of(200).text())
    };
    let before = state();
    let body = json!({
        "name": "foreign", "matchers": ["url=x"], "for": "1h", "comment": "", "query": "PARSE http PROCESS (rate)", "when": "count > 1",
    });
    for (method, path) in addresses() {
        let is_of_one = path.contains("/1") || path.contains("/2") || path.contains("foreign");
        if method == "GET" || !is_of_one {
            continue;
        }
        let bodies = if method == "DELETE" {
            vec![None]
        } else {
            vec![None, Some(&body)]
        };
        for body in bodies {
            let status = server.ask_as(&scoped, &method, &path, body).status;
            assert!(status >= 400, "{method} {path}: {status}");
        }
    }
    assert_eq!(state(), before);
    // Objects it creates apply to its own.
    let asked = json!({ "matchers": ["url=x"], "for": "1h", "comment": "" });
    let made = server
        .ask_as(&scoped, "POST", "/api/v1/silences", Some(&asked))
        .of(201)
        .json();
    assert_eq!(made["reach"], "own");
    let listed = server
        .ask_as(&scoped, "GET", "/api/v1/silences", None)
        .of(200)
        .json();
    assert_eq!(listed["silences"].as_array().map(Vec::len), Some(1));
    for (role, networks) in [("agent", &["10.1.0.0/16"][..]), ("view", &[])] {
        let asked = json!({ "name": "new", "role": role, "networks": networks });
        server
            .ask_as(&scoped, "POST", "/api/v1/tokens", Some(&asked))
            .of(403);
    }
}

#[test]
fn tuples_need_the_role_raw_even_if_redacted() {
    let server = Server::start(TestFleet::shop());
    let job = server.job("PARSE http");
    let ended = server.ended(&job);
    assert_eq!(ended["redacted"], true);
    for (role, expected) in [("view", 403), ("run", 403), ("raw", 200), ("admin", 200)] {
        let secret = token(&server, &format!("a-{role}"), role, &[]);
        for path in ["rows", "rows?format=csv", "rows?format=parquet"] {
            let path = format!("/api/v1/jobs/{job}/{path}");
            let answer = server.ask_as(&secret, "GET", &path, None);
            assert_eq!(answer.status, expected, "{role} {path}");
        }
        if expected == 403 {
            let path = format!("/api/v1/stream?jobs={job}");
            assert_eq!(
                server.ask_as(&secret, "GET", &path, None).status,
                403,
                "{role} {path}"
            );
        }
        // The existence of the job is not confidential.
        assert_eq!(
            server
                .ask_as(&secret, "GET", &format!("/api/v1/jobs/{job}"), None)
                .status,
            200,
            "{role}"
        );
    }
}

#[test]
fn an_agents_token_is_for_its_connection_and_nothing_else() {
    let server = foreign();
    let agent = token(&server, "web-1", "agent", &[]);
    // Paths without authentication, and that of agents.
    let open = [
        "/api/v1/health",
        "/api/v1/openapi.json",
        "/api/v1/login",
        "/api/v1/agent",
    ];
    let body = json!({
        "name": "x", "query": "PARSE http PROCESS (rate)", "text": "PARSE http", "matchers": ["url=x"], "for": "1h", "comment": "",
        "role": "view", "when": "count > 1", "job": "foreign", "upper": 10, "servers": ["x"], "to": ["redis://127.0.0.1:9/0"],
    });
    for (method, path) in addresses()
        .iter()
        .filter(|(_, path)| !open.contains(&path.as_str()))
    {
        let body = (method != "GET" && method != "DELETE").then_some(&body);
        let status = server.ask_as(&agent, method, path, body).status;
        assert!(status >= 400, "{method} {path}: {status}");
    }
    let status = server.ask_as(&agent, "GET", "/status", None).text();
    assert!(
        !FOREIGN.iter().any(|word| status.contains(word)),
        "{status}"
    );
}

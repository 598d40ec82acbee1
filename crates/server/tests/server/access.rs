//! Authentication and permissions.

use serde_json::{Value, json};
use server::ServiceLimits;

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// Secret of a new token.
fn token(server: &Server, name: &str, role: &str, networks: &[&str]) -> String {
    let asked = json!({ "name": name, "role": role, "networks": networks });
    let made = server
        .ask("POST", "/api/v1/tokens", Some(&asked))
        .of(201)
        .json();
    made["secret"].as_str().expect("a secret").to_owned()
}

fn start(server: &Server, token: &str, query: &str) -> u16 {
    server
        .ask_as(
            token,
            "POST",
            "/api/v1/jobs",
            Some(&json!({ "query": query })),
        )
        .status
}

#[test]
fn the_first_token_is_its_owners_only_and_kept_as_a_hash() {
    use std::os::unix::fs::PermissionsExt;
    let server = Server::start(TestFleet::new(Way::Note));
    let file = server.folder.join("admin.token");
    let mode =
        |path: &std::path::Path| path.metadata().expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    assert_eq!(mode(&server.folder.join("store.sqlite")), 0o600);
    for entry in std::fs::read_dir(&server.folder).expect("the folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() && path != file {
            let bytes = std::fs::read(&path).expect("bytes");
            let secret = server.token.as_bytes();
            assert!(
                !bytes.windows(secret.len()).any(|window| window == secret),
                "{}",
                path.display()
            );
        }
    }
}

#[test]
fn roles_have_their_permissions() {
    const VIEW: u8 = 0;
    const RUN: u8 = 1;
    const RAW: u8 = 2;
    const ADMIN: u8 = 3;
    let server = Server::start(TestFleet::new(Way::Note));
    let job = server.job("PARSE http PROCESS (rate)");
    let secrets: Vec<_> = ["view", "run", "raw", "admin"]
        .map(|role| token(&server, &format!("a-{role}"), role, &[]))
        .into();
    let rate = json!({ "query": "PARSE http PROCESS (rate)" });
    let tuples = json!({ "query": "PARSE http" });
    let unfolded = json!({ "query": "PARSE http PROCESS (rate)", "redact": false });
    let taken = json!({ "name": "a-view", "role": "view" });
    let own = format!("/api/v1/jobs/{job}");
    for (method, path, body, least, answer) in [
        ("GET", "/api/v1/jobs", None, VIEW, 200),
        ("GET", own.as_str(), None, VIEW, 200),
        ("GET", "/api/v1/agents", None, VIEW, 200),
        ("GET", "/api/v1/catalog", None, VIEW, 200),
        ("GET", "/api/v1/counters", None, VIEW, 200),
        ("POST", "/api/v1/jobs", Some(&rate), RUN, 201),
        ("POST", "/api/v1/jobs", Some(&tuples), RAW, 201),
        ("POST", "/api/v1/jobs", Some(&unfolded), RAW, 201),
        ("DELETE", own.as_str(), None, ADMIN, 200),
        ("GET", "/api/v1/tokens", None, ADMIN, 200),
        ("POST", "/api/v1/tokens", Some(&taken), ADMIN, 409),
        ("GET", "/api/v1/audit", None, ADMIN, 200),
    ] {
        for (role, secret) in (0..).zip(&secrets) {
            let expected = if role >= least { answer } else { 403 };
            let status = server.ask_as(secret, method, path, body).status;
            assert_eq!(status, expected, "{method} {path} with role {role}");
        }
        assert_eq!(
            server.ask_with(method, path, &[], body).status,
            401,
            "{method} {path} without a token"
        );
        assert_eq!(
            server.ask_as("nl_wrong", method, path, body).status,
            401,
            "{method} {path} with a wrong one"
        );
    }
}

#[test]
fn rows_that_are_not_folded_are_for_raw() {
    let server = Server::start(TestFleet::shop());
    let asked = json!({ "query": "PARSE http PROCESS (diff-group: group=url)", "redact": false });
    let job = server
        .ask("POST", "/api/v1/jobs", Some(&asked))
        .of(201)
        .json()["id"]
        .clone();
    let job = job.as_str().expect("id");
    server.ended(job);
    let view = token(&server, "v", "view", &[]);
    let raw = token(&server, "r", "raw", &[]);
    let rows = format!("/api/v1/jobs/{job}/rows");
    assert_eq!(server.ask_as(&view, "GET", &rows, None).status, 403);
    assert_eq!(
        server
            .ask_as(&view, "GET", &format!("/api/v1/stream?jobs={job}"), None)
            .status,
        403
    );
    assert_eq!(server.ask_as(&raw, "GET", &rows, None).status, 200);
}

#[test]
fn a_scoped_token_keeps_to_its_networks() {
    let server = Server::start(TestFleet::new(Way::Note));
    let foreign = server.job("PARSE http TO 10.2.0.1 PROCESS (rate)");
    let scoped = token(&server, "scoped", "admin", &["10.1.0.0/16"]);
    for (query, status) in [
        ("PARSE http PROCESS (rate)", 403),
        ("PARSE http TO *:80 PROCESS (rate)", 403),
        ("PARSE http TO 10.2.0.1:80 PROCESS (rate)", 403),
        ("PARSE http TO 10.1.0.1:80, 10.2.0.1:80 PROCESS (rate)", 403),
        ("PARSE http TO 10.0.0.0/8:80 PROCESS (rate)", 403),
        ("PARSE http TO 10.1.7.0/24:80 PROCESS (rate)", 201),
        ("PARSE http FROM 10.1.0.1 PROCESS (rate)", 201),
    ] {
        assert_eq!(start(&server, &scoped, query), status, "{query}");
    }
    let listed = server
        .ask_as(&scoped, "GET", "/api/v1/jobs", None)
        .of(200)
        .json();
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(2));
    for path in [
        format!("/api/v1/jobs/{foreign}"),
        format!("/api/v1/jobs/{foreign}/rows"),
    ] {
        assert_eq!(
            server.ask_as(&scoped, "GET", &path, None).status,
            404,
            "{path}"
        );
    }
    assert_eq!(
        server
            .ask_as(&scoped, "DELETE", &format!("/api/v1/jobs/{foreign}"), None)
            .status,
        404
    );
    assert_eq!(
        server
            .ask_as(
                &scoped,
                "GET",
                &format!("/api/v1/stream?jobs={foreign}"),
                None
            )
            .status,
        404
    );
    let wider = json!({ "name": "wider", "role": "admin" });
    assert_eq!(
        server
            .ask_as(&scoped, "POST", "/api/v1/tokens", Some(&wider))
            .status,
        403
    );
}

#[test]
fn a_job_is_stopped_by_its_owner_or_an_admin() {
    let server = Server::start(TestFleet::new(Way::Note));
    let a = token(&server, "a", "run", &[]);
    let b = token(&server, "b", "run", &[]);
    let asked = json!({ "query": "PARSE http PROCESS (rate)" });
    let job = server
        .ask_as(&a, "POST", "/api/v1/jobs", Some(&asked))
        .of(201)
        .json();
    assert_eq!(job["owner"], "a");
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().expect("id"));
    assert_eq!(server.ask_as(&b, "DELETE", &path, None).status, 403);
    assert_eq!(server.ask_as(&a, "DELETE", &path, None).status, 200);
}

#[test]
fn revoking_a_token_ends_its_sessions() {
    let server = Server::start(TestFleet::new(Way::Note));
    let secret = token(&server, "gone", "view", &[]);
    let login = server
        .ask_with(
            "POST",
            "/api/v1/login",
            &[],
            Some(&json!({ "token": secret })),
        )
        .of(200);
    let cookie = login.header("set-cookie").expect("a cookie").to_owned();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(&secret), "a cookie is no token");
    let cookie = cookie.split(';').next().expect("a pair").to_owned();
    let by_cookie = || {
        server
            .ask_with("GET", "/api/v1/jobs", &[("cookie", &cookie)], None)
            .status
    };
    assert_eq!(by_cookie(), 200);
    let tokens = server.get("/api/v1/tokens").of(200).json();
    let find = |name: &str| -> i64 {
        let all = tokens["tokens"].as_array().expect("tokens");
        all.iter()
            .find(|token| token["name"] == name)
            .and_then(|token| token["id"].as_i64())
            .expect("an id")
    };
    assert!(!tokens.to_string().contains(&secret));
    server
        .ask("DELETE", &format!("/api/v1/tokens/{}", find("gone")), None)
        .of(204);
    assert_eq!(
        (
            by_cookie(),
            server.ask_as(&secret, "GET", "/api/v1/jobs", None).status
        ),
        (401, 401)
    );
    server
        .ask("DELETE", &format!("/api/v1/tokens/{}", find("admin")), None)
        .of(409);
    server.ask("DELETE", "/api/v1/tokens/999", None).of(404);
}

#[test]
fn a_session_ends() {
    let server = Server::start(TestFleet::new(Way::Note));
    let login = server.ask_with(
        "POST",
        "/api/v1/login",
        &[],
        Some(&json!({ "token": server.token })),
    );
    let login = login.of(200);
    let cookie = login
        .header("set-cookie")
        .and_then(|c| c.split(';').next())
        .expect("a cookie")
        .to_owned();
    let with = [("cookie", cookie.as_str())];
    assert!(
        server
            .ask_with("GET", "/", &with, None)
            .of(200)
            .text()
            .contains("log out")
    );
    server
        .ask_with("DELETE", "/api/v1/login", &with, None)
        .of(204);
    server.ask_with("GET", "/api/v1/jobs", &with, None).of(401);
    server
        .ask_with(
            "POST",
            "/api/v1/login",
            &[],
            Some(&json!({ "token": "nl_no" })),
        )
        .of(401);
}

#[test]
fn operations_are_recorded_in_the_audit_log() {
    let server = Server::start(TestFleet::new(Way::Note));
    let secret = token(&server, "ops", "run", &[]);
    start(&server, &secret, "PARSE http");
    start(&server, &secret, "PARSE http PROCESS (rate)");
    let log = server.get("/api/v1/audit?limit=3").of(200).json();
    let entries: Vec<_> = log["entries"]
        .as_array()
        .expect("entries")
        .iter()
        .map(|e| {
            (
                e["who"].as_str().expect("who"),
                e["act"].as_str().expect("act"),
                e["outcome"] == "done",
            )
        })
        .collect();
    assert_eq!(
        entries,
        [
            ("ops", "job.start", true),
            ("ops", "job.start", false),
            ("admin", "token.create", true)
        ]
    );
    assert!(!log.to_string().contains(&secret));
}

#[test]
fn other_names_and_other_origins_are_not_answered() {
    let server = Server::start(TestFleet::new(Way::Note));
    let bearer = format!("Bearer {}", server.token);
    let port = server.address.port();
    let own = format!("localhost:{port}");
    let ours = format!("http://{own}");
    for (host, origin, status) in [
        ("evil.example", None, 421),
        ("127.0.0.1", None, 421),
        (own.as_str(), None, 200),
        (own.as_str(), Some("http://evil.example"), 403),
        (own.as_str(), Some("null"), 403),
        (own.as_str(), Some(ours.as_str()), 200),
    ] {
        let mut headers = vec![("authorization", bearer.as_str()), ("host", host)];
        headers.extend(origin.map(|origin| ("origin", origin)));
        let answer = server.ask_with("GET", "/api/v1/jobs", &headers, None);
        assert_eq!(answer.status, status, "{host} {origin:?}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[test]
fn the_name_in_an_absolute_target_has_to_be_ours() {
    use std::io::{Read, Write};
    let server = Server::start(TestFleet::new(Way::Note));
    let own = format!("localhost:{}", server.address.port());
    for (name, expected) in [
        (own.as_str(), "HTTP/1.1 200"),
        ("evil.example", "HTTP/1.1 421"),
    ] {
        let mut stream = std::net::TcpStream::connect(server.address).expect("it listens");
        write!(
            stream,
            "GET http://{name}/api/v1/jobs HTTP/1.1\r\nHost: {own}\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\n\r\n",
            server.token
        )
        .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with(expected), "{name}: {answer}");
    }
}

#[test]
fn a_tokens_name_is_no_place_in_a_path() {
    let server = Server::start(TestFleet::new(Way::Note));
    for (name, status) in [(".", 400), ("..", 400), ("...", 201), (".a", 201)] {
        let asked = json!({ "name": name, "role": "view" });
        server
            .ask("POST", "/api/v1/tokens", Some(&asked))
            .of(status);
    }
}

#[test]
fn the_page_has_no_script_and_shows_text_as_text() {
    let server = Server::start(TestFleet::new(Way::Note));
    let asked = json!({ "query": "PARSE http WHERE url = '<script>x</script>' PROCESS (rate)", "name": "<b>\u{202e}" });
    server.ask("POST", "/api/v1/jobs", Some(&asked)).of(201);
    let stranger = server.ask_with("GET", "/", &[], None).of(200);
    assert!(stranger.text().contains("type=password") && !stranger.text().contains("PARSE"));
    let page = server.get("/").of(200);
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
        "{policy}"
    );
    let text = page.text();
    assert!(
        text.contains("&lt;script&gt;x&lt;/script&gt;")
            && !text.contains("<script")
            && !text.contains("<b>")
    );
    assert!(!text.contains('\u{202e}'));
}

#[test]
fn excess_requests_and_guessed_tokens_are_throttled() {
    let limits = ServiceLimits {
        requests_per_second: 3,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let other = token(&server, "other", "view", &[]);
    let answers: Vec<_> = (0..60).map(|_| server.get("/api/v1/jobs").status).collect();
    assert!(
        answers.contains(&200) && answers.contains(&429),
        "{answers:?}"
    );
    let guesses: Vec<_> = (0..40)
        .map(|_| {
            server
                .ask_as("nl_guess", "GET", "/api/v1/jobs", None)
                .status
        })
        .collect();
    assert!(guesses[0] == 401 && guesses.contains(&429), "{guesses:?}");
    // Valid tokens of the same address are accepted meanwhile.
    assert_eq!(
        server
            .ask_as("nl_guess", "GET", "/api/v1/jobs", None)
            .status,
        429
    );
    assert_eq!(
        server.ask_as(&other, "GET", "/api/v1/jobs", None).status,
        200
    );
    assert_eq!(
        server
            .ask_with("GET", "/api/v1/health", &[], None)
            .of(200)
            .json()["status"],
        Value::from("ok")
    );
}

//! Tokens, networks, the audit log, and paths that do not exist.

use serde_json::{Value, json};

use super::noted;

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

//! The data directory: restarts, versions, a full disk, copies.

use std::path::Path;

use serde_json::json;
use server::{DataDirectory, JobState, ServiceLimits};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

fn error(folder: &Path) -> String {
    match DataDirectory::open(folder, ServiceLimits::default()) {
        Ok(_) => panic!("it opens"),
        Err(error) => error,
    }
}

#[test]
fn one_process_has_the_directory() {
    let mut server = Server::start(TestFleet::new(Way::Note));
    let said = error(&server.folder);
    assert!(
        said.contains("another netalytics serve") && said.contains("--data"),
        "{said}"
    );
    let folder = server.folder.clone();
    server.end();
    assert!(DataDirectory::open(&folder, ServiceLimits::default()).is_ok());
}

#[test]
fn jobs_continue_after_a_restart_and_ended_ones_remain() {
    let own = tempfile::tempdir().expect("a folder");
    let mut server = Server::over(
        own.path(),
        TestFleet::new(Way::Note),
        ServiceLimits::default(),
    );
    let jobs: Vec<_> = (0..3)
        .map(|_| server.job("PARSE http PROCESS (rate)"))
        .collect();
    let id = |n: usize| jobs[n].parse().expect("a number");
    server
        .fleet
        .hub()
        .turn(id(0), JobState::Ended("done".into()), None)
        .expect("noted");
    server
        .fleet
        .hub()
        .turn(id(1), JobState::Running, None)
        .expect("noted");
    server.end();
    let server = Server::over(
        own.path(),
        TestFleet::new(Way::Note),
        ServiceLimits::default(),
    );
    let orders: Vec<_> = server
        .fleet
        .orders
        .lock()
        .expect("orders")
        .iter()
        .map(|o| o.id.to_string())
        .collect();
    assert_eq!(orders, jobs[1..]);
    let first = server
        .get(&format!("/api/v1/jobs/{}", jobs[0]))
        .of(200)
        .json();
    assert_eq!(
        (&first["state"], &first["reason"]),
        (&json!("ended"), &json!("done"))
    );
    // Numbers are not reused.
    assert_eq!(server.job("PARSE http PROCESS (rate)"), "4");
}

#[test]
fn jobs_that_cannot_be_restarted_are_reported_and_can_be_stopped() {
    let own = tempfile::tempdir().expect("a folder");
    let mut server = Server::over(
        own.path(),
        TestFleet::new(Way::Note),
        ServiceLimits::default(),
    );
    let job = server.job("PARSE http PROCESS (rate)");
    server.end();
    let nobody = TestFleet::new(Way::Refuse(server::FleetRefusal::NoAgent(
        "nobody is here".into(),
    )));
    let server = Server::over(own.path(), nobody, ServiceLimits::default());
    let path = format!("/api/v1/jobs/{job}");
    let found = server.get(&path).of(200).json();
    assert_eq!(
        (&found["state"], &found["reason"]),
        (&json!("planned"), &json!("nobody is here"))
    );
    assert_eq!(
        server.ask("DELETE", &path, None).of(200).json()["state"],
        "ended"
    );
}

#[test]
fn a_later_store_is_refused() {
    let mut server = Server::start(TestFleet::new(Way::Note));
    server.end();
    let connection =
        rusqlite::Connection::open(server.folder.join("store.sqlite")).expect("opened");
    connection
        .pragma_update(None, "user_version", 99)
        .expect("written");
    drop(connection);
    let said = error(&server.folder);
    assert!(
        said.contains("format 99") && said.contains("newer netalytics"),
        "{said}"
    );
}

#[test]
fn files_that_are_not_a_store_are_reported() {
    let own = tempfile::tempdir().expect("a folder");
    std::fs::write(
        own.path().join("store.sqlite"),
        "not a database, but long enough to look like one",
    )
    .expect("written");
    assert!(error(own.path()).contains("not a database"));
}

#[test]
fn a_copy_is_whole_while_the_server_runs() {
    let server = Server::start(TestFleet::new(Way::Note));
    let jobs: Vec<_> = (0..50)
        .map(|_| server.job("PARSE http PROCESS (rate)"))
        .collect();
    let own = tempfile::tempdir().expect("a folder");
    let backup = own.path().join("backup");
    let data = own.path().join("data");
    server::backup(&server.folder, &backup).expect("copied");
    server::restore(&backup, &data).expect("restored");
    let restored = Server::over(&data, TestFleet::new(Way::Note), ServiceLimits::default());
    assert_eq!(restored.token, server.token);
    let listed = restored.get("/api/v1/jobs").of(200).json();
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(jobs.len()));
}

#[test]
fn full_disk_rejects_new_jobs_and_keeps_data() {
    let server = Server::start(TestFleet::shop());
    let job = server.job("PARSE http PROCESS (diff-group: group=url_template)");
    server.ended(&job);
    let rows = |server: &Server| {
        server
            .get(&format!("/api/v1/jobs/{job}/rows?format=jsonl"))
            .of(200)
            .text()
    };
    let before = rows(&server);
    let store = server.service.as_ref().expect("the service").store();
    store
        .database
        .limit_pages(store.database.pages().expect("pages"))
        .expect("limited");
    let asked = json!({ "query": "PARSE http PROCESS (rate)", "name": "x".repeat(200) });
    let refused = (0..500).find_map(|_| {
        let answer = server.ask("POST", "/api/v1/jobs", Some(&asked));
        (answer.status != 201).then_some(answer)
    });
    let refused = refused.expect("there is an end").of(507).json();
    assert_eq!(refused["code"], "disk_full");
    assert!(
        refused["message"].as_str().expect("words").contains("full"),
        "{refused}"
    );
    assert_eq!(rows(&server), before);
    server.get("/api/v1/jobs").of(200);
    store.database.limit_pages(1 << 30).expect("room again");
    server.ask("POST", "/api/v1/jobs", Some(&asked)).of(201);
}

#[test]
fn ten_thousand_finished_jobs_do_not_slow_the_start() {
    let mut server = Server::start(TestFleet::new(Way::Note));
    server.end();
    let mut connection =
        rusqlite::Connection::open(server.folder.join("store.sqlite")).expect("opened");
    let all = connection.transaction().expect("begun");
    for n in 0..10_000 {
        all.execute(
            "INSERT INTO jobs (name, query, kind, state, reason, owner, agents_on, labels, redacted, created_ns, ended_ns)
             VALUES (?, 'PARSE http PROCESS (rate)', 'one_off', 'ended', '', 'admin', '{}', '{}', 1, 0, 1)",
            [n],
        )
        .expect("written");
    }
    all.commit().expect("kept");
    drop(connection);
    let server = Server::over(
        &server.folder,
        TestFleet::new(Way::Note),
        ServiceLimits::default(),
    );
    assert!(
        server.fleet.orders.lock().expect("orders").is_empty(),
        "what has ended is not looked at"
    );
    assert_eq!(
        server.get("/api/v1/jobs?limit=1").of(200).json()["jobs"][0]["name"],
        "9999"
    );
}

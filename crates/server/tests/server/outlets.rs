//! Delivery of rows to other programs: arrival, also after kills of either side, and permissions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use server::{JobId, JobState, NamedOutlets, ServiceLimits, WindowState};

use crate::client::Server;
use crate::fleet::{TestFleet, Way};
use crate::history::{DAMAGES, announce, fill, publish, segments, window};
use crate::scrapes::standing;
use testkit::programs::{TestProgram, free_port, wait_for};

fn close(server: &Server, job: JobId, start: i64, rows: &[(&str, u64)]) {
    publish(server, job, &window(start, rows), WindowState::Closed);
}

/// The API view of a job's first outlet.
fn outlet(server: &Server, job: JobId) -> Value {
    server.get(&format!("/api/v1/jobs/{job}")).of(200).json()["outlets"][0].clone()
}

/// Waits until `rows` rows were delivered.
#[track_caller]
fn delivered(server: &Server, job: JobId, rows: u64) -> Value {
    wait_for("rows to be delivered", || match outlet(server, job) {
        told if told["delivered"] == rows && told["behind"] == 0 => Ok(told),
        told => Err(told.to_string()),
    })
}

/// A webhook receiver that can be made to fail, with the accepted documents by identifier.
struct Receiver {
    port: u16,
    taken: Arc<Mutex<BTreeMap<String, Value>>>,
    /// Identifiers of all received messages, including retries.
    seen: Arc<Mutex<Vec<String>>>,
    answer: Arc<Mutex<&'static str>>,
    /// Whether a connection is open.
    is_connected: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Receiver {
    fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let receiver = Receiver {
            port: listener.local_addr().expect("bound").port(),
            taken: Arc::default(),
            seen: Arc::default(),
            answer: Arc::new(Mutex::new("200 OK")),
            is_connected: Arc::default(),
            is_over: Arc::default(),
        };
        let taken = receiver.taken.clone();
        let seen = receiver.seen.clone();
        let answer = receiver.answer.clone();
        let is_over = receiver.is_over.clone();
        let is_connected = receiver.is_connected.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if is_over.load(Relaxed) {
                    return;
                }
                let mut connection = BufReader::new(connection.expect("a connection"));
                is_connected.store(true, Relaxed);
                while let Some((id, body)) = post(&mut connection) {
                    let status = *answer.lock().expect("no panic");
                    seen.lock().expect("no panic").push(id.clone());
                    if status.starts_with('2') {
                        taken.lock().expect("no panic").insert(id, body);
                    }
                    let said = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                    if connection.get_mut().write_all(said.as_bytes()).is_err() {
                        break;
                    }
                }
                is_connected.store(false, Relaxed);
            }
        });
        receiver
    }

    fn url(&self) -> String {
        format!("webhook+http://127.0.0.1:{}/hook/secret-path", self.port)
    }

    /// Waits until the connection of an ended server is closed: an attempt that was in transit at its end is complete.
    fn disconnected(&self) {
        wait_for("the end of the connection", || {
            if self.is_connected.load(Relaxed) {
                Err("it is open".into())
            } else {
                Ok(())
            }
        });
    }

    fn answer(&self, status: &'static str) {
        *self.answer.lock().expect("no panic") = status;
    }

    /// All counts in the order of windows, which is that of message identifiers.
    fn counts(&self) -> Vec<u64> {
        let taken = self.taken.lock().expect("no panic");
        let mut rows: Vec<(String, u64)> = taken
            .values()
            .flat_map(|body| body["rows"].as_array().expect("rows").clone())
            .map(|row| {
                (
                    format!("{:020}", row["window_start"].as_i64().expect("a time")),
                    row["count"].as_u64().expect("a count"),
                )
            })
            .collect();
        rows.sort();
        rows.into_iter().map(|(_, count)| count).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// Reads the identifier and body of a request.
fn post(connection: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut id = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if connection.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("webhook-id") => id = value.to_owned(),
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    connection.read_exact(&mut body).ok()?;
    Some((id, serde_json::from_slice(&body).ok()?))
}

#[test]
fn rows_are_delivered_as_they_are_committed() {
    let server = Server::start(TestFleet::new(Way::Note));
    let receiver = Receiver::start();
    let job = standing(&server, &json!({ "to": [receiver.url()] }));
    announce(&server, job);
    close(&server, job, 0, &[("/a", 1), ("/b", 2)]);
    close(&server, job, 10, &[("/a", 3)]);
    let told = delivered(&server, job, 3);
    assert_eq!(told["state"], "up");
    // The path may be a secret.
    assert_eq!(
        told["to"],
        format!("webhook+http://127.0.0.1:{}", receiver.port)
    );
    assert_eq!(receiver.counts(), [1, 2, 3]);
    // Open rows are not delivered.
    publish(&server, job, &window(20, &[("/a", 9)]), WindowState::Open);
    close(&server, job, 20, &[("/a", 4)]);
    server
        .fleet
        .hub()
        .turn(job, JobState::Ended("done".into()), None)
        .expect("noted");
    wait_for("the end", || match outlet(&server, job) {
        told if told["state"] == "done" => Ok(()),
        told => Err(told.to_string()),
    });
    assert_eq!(receiver.counts(), [1, 2, 3, 4]);
    let page = server.get("/metrics").of(200).text();
    assert!(!page.contains("secret-path"), "{page}");
}

#[test]
fn failed_deliveries_are_retried_and_rejected_ones_counted() {
    let server = Server::start(TestFleet::new(Way::Note));
    let receiver = Receiver::start();
    receiver.answer("503 Service Unavailable");
    let job = standing(&server, &json!({ "to": [receiver.url()] }));
    announce(&server, job);
    close(&server, job, 0, &[("/a", 1)]);
    let told = wait_for("some attempts", || match outlet(&server, job) {
        told if told["retries"].as_u64().is_some_and(|n| n >= 2) => Ok(told),
        told => Err(told.to_string()),
    });
    assert_eq!(
        (&told["state"], &told["behind"]),
        (&json!("retrying"), &json!(1))
    );
    assert_eq!(told["problem"], "the response status was 503");
    receiver.answer("200 OK");
    delivered(&server, job, 1);
    // One message, whatever the number of attempts.
    let seen = receiver.seen.lock().expect("no panic").clone();
    assert!(
        seen.len() >= 3 && seen.iter().all(|id| *id == seen[0]),
        "{seen:?}"
    );
    receiver.answer("400 Bad Request");
    close(&server, job, 10, &[("/a", 2), ("/b", 3)]);
    let told = wait_for("the loss", || match outlet(&server, job) {
        told if told["lost"]["refused"] == 2 => Ok(told),
        told => Err(told.to_string()),
    });
    assert_eq!((&told["state"], &told["behind"]), (&json!("up"), &json!(0)));
    let page = server.get("/metrics").of(200).text();
    let lost = page.lines().find(|line| {
        line.starts_with("netalytics_outlet_lost_rows_total") && line.contains("refused")
    });
    assert!(lost.is_some_and(|line| line.ends_with(" 2")), "{page}");
}

#[test]
fn restarted_server_continues_deliveries() {
    let folder = tempfile::tempdir().expect("a folder");
    let receiver = Receiver::start();
    let start = || {
        Server::over(
            folder.path(),
            TestFleet::new(Way::Note),
            ServiceLimits::default(),
        )
    };
    let mut server = start();
    let job = standing(&server, &json!({ "to": [receiver.url()] }));
    announce(&server, job);
    close(&server, job, 0, &[("/a", 1)]);
    delivered(&server, job, 1);
    // A message is in transit when the server ends, and more wait.
    receiver.answer("503 Service Unavailable");
    close(&server, job, 10, &[("/a", 2)]);
    wait_for("an attempt", || match outlet(&server, job) {
        told if told["state"] == "retrying" => Ok(()),
        told => Err(told.to_string()),
    });
    close(&server, job, 20, &[("/a", 3)]);
    server.end();
    let tried = receiver
        .seen
        .lock()
        .expect("no panic")
        .last()
        .cloned()
        .expect("a message");
    receiver.answer("200 OK");
    let server = start();
    announce(&server, job);
    close(&server, job, 30, &[("/a", 4)]);
    delivered(&server, job, 4);
    assert_eq!(receiver.counts(), [1, 2, 3, 4]);
    // The message in transit arrives under its previous identifier.
    let taken = receiver.taken.lock().expect("no panic");
    assert_eq!(taken[&tried]["rows"][0]["count"], 2);
}

#[test]
fn excess_pending_rows_are_dropped_oldest_first() {
    let limits = ServiceLimits {
        outlet_rows_max: 3,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let port = free_port();
    let job = standing(
        &server,
        &json!({ "to": [format!("tcp://127.0.0.1:{port}")] }),
    );
    announce(&server, job);
    (0..8).for_each(|n| close(&server, job, n * 10, &[("/a", n as u64)]));
    // A row stored after the start of the listener would be delivered immediately.
    wait_for("all are kept", || {
        let told = outlet(&server, job);
        match told["behind"].as_u64().unwrap_or(0) + told["lost"]["backlog"].as_u64().unwrap_or(0) {
            8 => Ok(()),
            _ => Err(told.to_string()),
        }
    });
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port");
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(listener.accept().expect("a connection").0).lines();
        lines
            .map_while(Result::ok)
            .take_while(|line| !line.contains("\"count\":7"))
            .count()
    });
    wait_for("the rest", || match outlet(&server, job) {
        told if told["behind"] == 0 => Ok(()),
        told => Err(told.to_string()),
    });
    let told = outlet(&server, job);
    let delivered = told["delivered"].as_u64();
    let lost = told["lost"]["backlog"].as_u64();
    let delivered = delivered.expect("a number");
    let lost = lost.expect("a number");
    // Rows of the first attempts, and the last three.
    assert!(
        delivered + lost == 8 && (3..8).contains(&delivered),
        "{told}"
    );
    assert_eq!(reader.join().expect("no panic") as u64 + 1, delivered);
}

/// Rows in a damaged file are counted as lost, whether they had been tried before or not; all others arrive once.
#[test]
fn rows_of_a_damaged_file_are_counted_and_all_others_are_delivered() {
    for (place, (what, damage)) in DAMAGES.into_iter().enumerate() {
        let folder = tempfile::tempdir().expect("a folder");
        let receiver = Receiver::start();
        let start = || {
            Server::over(
                folder.path(),
                TestFleet::new(Way::Note),
                ServiceLimits::default(),
            )
        };
        receiver.answer("503 Service Unavailable");
        let mut server = start();
        let job = standing(&server, &json!({ "to": [receiver.url()] }));
        announce(&server, job);
        let all = fill(&server, job, 100, 500);
        wait_for("an attempt", || match outlet(&server, job) {
            told if told["state"] == "retrying" => Ok(()),
            told => Err(told.to_string()),
        });
        let files = segments(&server, job);
        server.end();
        receiver.disconnected();
        // The first holds rows that were tried.
        let first_row = |at: usize| -> usize {
            let name = files[at]
                .file_name()
                .and_then(|name| name.to_str())
                .expect("a name");
            name.split_once('-')
                .and_then(|(_, first)| first.parse().ok())
                .expect("a number")
        };
        assert!(files.len() > 2, "{files:?}");
        let at = place % (files.len() - 1);
        let gone = first_row(at)..first_row(at + 1);
        damage(&files[at].join("group-count/group-count-000001.parquet"));
        receiver.answer("200 OK");
        let server = start();
        announce(&server, job);
        let lost = gone.len() as u64;
        let left = (all.len() - gone.len()) as u64;
        let told = delivered(&server, job, left);
        assert_eq!(
            told["lost"],
            json!({ "refused": 0, "backlog": 0, "gone": lost }),
            "{what}: {told}"
        );
        let rest: Vec<u64> = all
            .iter()
            .enumerate()
            .filter(|(row, _)| !gone.contains(row))
            .map(|(_, n)| *n)
            .collect();
        assert!(
            receiver.counts() == rest,
            "{what}: others were delivered, once each"
        );
        let damaged = server.get("/api/v1/counters").of(200).json()["segments_damaged"].as_u64();
        assert!(damaged > Some(0), "{what}");
    }
}

#[test]
fn redis_has_the_published_rows_after_being_killed() {
    testkit::require!("redis-server", "redis-cli");
    let port = free_port();
    let start = || {
        let args = [
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
            "--save",
            "",
            "--appendonly",
            "no",
        ];
        let program = TestProgram::start(Command::new("redis-server").args(args));
        wait_for("Redis", || match ask(port, &["ping"]).as_slice() {
            [pong] if pong == "PONG" => Ok(()),
            other => Err(format!("{other:?}")),
        });
        program
    };
    let server = Server::start(TestFleet::new(Way::Note));
    let mut redis = start();
    let job = standing(
        &server,
        &json!({ "to": [format!("redis://127.0.0.1:{port}/0#prefix=n")] }),
    );
    announce(&server, job);
    close(&server, job, 0, &[("/a", 1), ("/b", 20)]);
    delivered(&server, job, 2);
    assert_eq!(
        ask(port, &["zrange", "n:group-count", "0", "-1", "withscores"]),
        ["/a", "1", "/b", "20"]
    );
    redis.kill();
    close(&server, job, 10, &[("/a", 7)]);
    close(&server, job, 20, &[("/c", 8)]);
    wait_for("it is missed", || match outlet(&server, job) {
        told if told["state"] == "retrying" => Ok(()),
        told => Err(told.to_string()),
    });
    let _redis = start();
    delivered(&server, job, 4);
    for (key, expected) in [
        ("n:group-count", ["/c", "8"]),
        ("n:group-count:10", ["/a", "7"]),
    ] {
        assert_eq!(
            ask(port, &["zrange", key, "0", "-1", "withscores"]),
            expected
        );
    }
}

fn ask(port: u16, words: &[&str]) -> Vec<String> {
    let output = Command::new("redis-cli")
        .args(["-p", &port.to_string(), "--raw"])
        .args(words)
        .output()
        .expect("a client");
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(String::from)
        .collect()
}

#[test]
fn permissions_of_outlets() {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = ServiceLimits {
        outlets_max: 2,
        ..ServiceLimits::default()
    };
    let named = NamedOutlets::new(&["shop=redis://127.0.0.1:1/0".into()]).expect("a name");
    let server = Server::over_with(folder.path(), TestFleet::new(Way::Note), limits, &[], named);
    let token = |role: &str| {
        let made = server
            .ask(
                "POST",
                "/api/v1/tokens",
                Some(&json!({ "name": role, "role": role })),
            )
            .of(201);
        made.json()["secret"].as_str().expect("a secret").to_owned()
    };
    let run = token("run");
    let admin = server.token.clone();
    const COUNT: &str = "PARSE http PROCESS (group-count: group=url)";
    for (who, query, to, status, part) in [
        (
            &run,
            COUNT,
            "redis://127.0.0.1:1/0",
            403,
            "only an admin may use an address",
        ),
        (&run, COUNT, "nowhere", 400, "configured outlets: shop"),
        (&run, COUNT, "shop", 201, ""),
        (
            &admin,
            COUNT,
            "prometheus://127.0.0.1:9464",
            400,
            "/metrics/jobs",
        ),
        (
            &admin,
            COUNT,
            "redis://me:pass@h/0",
            400,
            "all users of this machine",
        ),
        (
            &admin,
            COUNT,
            "webhook+https://h/x#secret-file=/nowhere",
            400,
            "cannot read /nowhere",
        ),
        (
            &admin,
            "PARSE http",
            "otlp+http://127.0.0.1:4318",
            400,
            "single tuples are not metrics",
        ),
        (&admin, COUNT, "tcp://127.0.0.1:1", 201, ""),
        (&admin, COUNT, "tcp://127.0.0.1:1", 429, "--outlets-max"),
    ] {
        let redact = query.contains("PROCESS");
        let asked = json!({ "query": query, "to": [to], "redact": redact });
        let answer = server
            .ask_as(who, "POST", "/api/v1/jobs", Some(&asked))
            .of(status);
        assert!(answer.text().contains(part), "{to}: {}", answer.text());
    }
    let jobs = server.get("/api/v1/jobs").of(200).json();
    // Outlets of ended jobs no longer count after complete delivery.
    let last = jobs["jobs"][0]["id"]
        .as_str()
        .expect("a number")
        .parse()
        .expect("a number");
    server
        .fleet
        .hub()
        .turn(last, JobState::Ended("done".into()), None)
        .expect("noted");
    let again = json!({ "query": COUNT, "to": ["tcp://127.0.0.1:1"] });
    wait_for("room", || {
        match server.ask("POST", "/api/v1/jobs", Some(&again)) {
            answer if answer.status == 201 => Ok(()),
            answer => Err(answer.text()),
        }
    });
    let shown: Vec<&Value> = jobs["jobs"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| &job["outlets"][0]["to"])
        .collect();
    assert_eq!(shown, ["tcp://127.0.0.1:1", "shop"]);
}

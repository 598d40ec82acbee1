//! A server with 600 idle unauthenticated connections: agents and users with a token connect and stay connected.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use super::service::{Process, Server};
use super::{Folder, ROOT};

/// Status of the response on a connection that stays open; `None` if it was closed.
fn ask(stream: &mut TcpStream, path: &str, host: &str, header: &str) -> Option<String> {
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n"
    )
    .ok()?;
    let mut answer = [0; 64 << 10];
    let read = stream.read(&mut answer).ok()?;
    String::from_utf8_lossy(&answer[..read])
        .split(' ')
        .nth(1)
        .map(str::to_owned)
}

#[test]
fn idle_connections_do_not_block_others() {
    let folder = Folder::new();
    let server = Server::start(&folder);
    let host = server.url.trim_start_matches("http://").to_owned();
    let connect = || {
        let stream = TcpStream::connect(&host).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        stream
    };
    let mut idle: Vec<TcpStream> = (0..600).map(|_| connect()).collect();
    idle.iter_mut()
        .for_each(|stream| drop(ask(stream, "/api/v1/health", &host, "")));
    // An agent connects.
    let token = server.token(&folder, "late");
    let own = folder.path("late");
    let agent = [
        "agent",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--name",
        "late",
        "--folder",
        &own,
    ];
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    let _agent = Process::start(&[&agent[..], &["--demo", &capture]].concat());
    server.await_agents(1);
    // A browser logs in and opens six connections.
    let secret = std::fs::read_to_string(&server.token).expect("the first token");
    let login = Command::new("curl")
        .args(["-sS", "-i", "-H", "Content-Type: application/json", "-d"])
        .arg(format!("{{\"token\": \"{}\"}}", secret.trim()))
        .arg(format!("{}/api/v1/login", server.url))
        .output()
        .expect("curl runs");
    let answer = String::from_utf8_lossy(&login.stdout).into_owned();
    let cookie = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .expect(&answer);
    let cookie = format!(
        "Cookie: {}\r\n",
        cookie.split(';').next().unwrap_or_default()
    );
    let mut browser: Vec<TcpStream> = (0..6).map(|_| connect()).collect();
    for path in ["/api/v1/jobs", "/api/v1/agents"] {
        for stream in &mut browser {
            assert_eq!(
                ask(stream, path, &host, &cookie).as_deref(),
                Some("200"),
                "{path}"
            );
        }
    }
    let evicted = server.get("/api/v1/counters")["connections_evicted"].as_u64();
    assert!(evicted >= Some(600 - 128), "{evicted:?}");
}

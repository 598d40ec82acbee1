//! Unauthenticated connections never displace authenticated ones, from one or many addresses, idle or slow. Uses real
//! sockets and the limits of `serve`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::{ServiceLimits, TrustedProxies};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;

use crate::client::Server;
use crate::fleet::{TestFleet, Way};

/// Timeout.
const PATIENCE: Duration = Duration::from_secs(20);

/// A connection from a loopback address.
async fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket
        .bind((from, 0).into())
        .expect("an address of loopback");
    socket.connect(to).await.expect("it listens")
}

/// Status of the response on a connection that stays open; `None` if it was closed.
async fn ask(stream: &mut TcpStream, path: &str, host: SocketAddr, header: &str) -> Option<String> {
    let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{header}\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = [0; 64 << 10];
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer))
        .await
        .expect("an answer in time")
        .ok()?;
    let answer = std::str::from_utf8(&answer[..read]).expect("text");
    answer.split(' ').nth(1).map(str::to_owned)
}

/// Whether the server has closed a connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

/// Opens 600 idle unauthenticated connections; returns how many remain while authenticated ones continue.
fn remaining(address_of: impl Fn(u16) -> Ipv4Addr) -> usize {
    let server = Server::start(TestFleet::new(Way::Note));
    let to = server.address;
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    let evicted = Runtime::new().expect("a runtime").block_on(async {
        let mut early = connect(Ipv4Addr::LOCALHOST, to).await;
        assert_eq!(
            ask(&mut early, "/api/v1/agents", to, &token)
                .await
                .as_deref(),
            Some("200")
        );
        let mut idle = Vec::new();
        for n in 0..600 {
            let mut stream = connect(address_of(n), to).await;
            assert_eq!(
                ask(&mut stream, "/api/v1/health", to, "").await.as_deref(),
                Some("200"),
                "number {n}"
            );
            idle.push(stream);
        }
        assert_eq!(
            ask(&mut early, "/api/v1/agents", to, &token)
                .await
                .as_deref(),
            Some("200")
        );
        // As many new ones as the reserve allows.
        let mut late = Vec::new();
        for _ in 0..127 {
            let mut stream = connect(Ipv4Addr::LOCALHOST, to).await;
            assert_eq!(
                ask(&mut stream, "/api/v1/agents", to, &token)
                    .await
                    .as_deref(),
                Some("200")
            );
            late.push(stream);
        }
        for stream in late.iter_mut().chain([&mut early]) {
            assert_eq!(
                ask(stream, "/api/v1/agents", to, &token).await.as_deref(),
                Some("200")
            );
        }
        let mut remaining = 0;
        for stream in &mut idle {
            remaining += usize::from(!is_closed(stream).await);
        }
        remaining
    });
    let counters = server.get("/api/v1/counters").of(200).json();
    let counted = counters["connections_evicted"].as_u64().expect("a counter");
    assert!(counted >= 600 - evicted as u64, "{counted} {evicted}");
    let page = server.get("/metrics").of(200).text();
    assert!(
        page.contains("netalytics_connections_cut_total{cause=\"evicted\"}"),
        "{page}"
    );
    evicted
}

#[test]
fn idle_connections_from_one_address_have_a_quarter() {
    // Each new connection starts unauthenticated and evicts another.
    let remaining = remaining(|_| Ipv4Addr::LOCALHOST);
    assert!((1..=128).contains(&remaining), "{remaining}");
}

#[test]
fn idle_connections_from_many_addresses_have_three_quarters() {
    let remaining = remaining(|n| Ipv4Addr::new(127, 1, (n / 200) as u8, (n % 200) as u8 + 1));
    assert!((250..=384).contains(&remaining), "{remaining}");
}

#[test]
fn connections_with_a_token_displace_those_without() {
    let server = Server::start(TestFleet::new(Way::Note));
    let to = server.address;
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    Runtime::new().expect("a runtime").block_on(async {
        let mut idle = Vec::new();
        for n in 0..384 {
            idle.push(
                connect(
                    Ipv4Addr::new(127, 1, (n / 200) as u8, (n % 200) as u8 + 1),
                    to,
                )
                .await,
            );
        }
        let mut with_token = Vec::new();
        for _ in 0..512 {
            let mut stream = connect(Ipv4Addr::LOCALHOST, to).await;
            assert_eq!(
                ask(&mut stream, "/api/v1/agents", to, &token)
                    .await
                    .as_deref(),
                Some("200")
            );
            with_token.push(stream);
        }
        for stream in &mut idle {
            assert!(is_closed(stream).await);
        }
        // Another one waits until one of them ends.
        let mut late = connect(Ipv4Addr::LOCALHOST, to).await;
        let asking = ask(&mut late, "/api/v1/agents", to, &token);
        tokio::pin!(asking);
        let early = tokio::time::timeout(Duration::from_millis(500), &mut asking).await;
        assert!(early.is_err(), "{early:?}");
        drop(with_token.pop());
        assert_eq!(asking.await.as_deref(), Some("200"));
        for stream in &mut with_token {
            assert!(!is_closed(stream).await);
        }
    });
    let counters = server.get("/api/v1/counters").of(200).json();
    assert!(
        counters["connections_waited"].as_u64() >= Some(1),
        "{counters}"
    );
}

#[test]
fn heads_that_come_slowly_are_cut() {
    let server = Server::start(TestFleet::new(Way::Note));
    let to = server.address;
    let token = format!("Authorization: Bearer {}\r\n", server.token);
    Runtime::new().expect("a runtime").block_on(async {
        let mut slow = Vec::new();
        for _ in 0..100 {
            slow.push(connect(Ipv4Addr::LOCALHOST, to).await);
        }
        let begun = Instant::now();
        while !slow.is_empty() {
            assert!(
                begun.elapsed() < Duration::from_secs(40),
                "{} are open",
                slow.len()
            );
            let mut open = Vec::new();
            for mut stream in slow {
                if !is_closed(&mut stream).await && stream.write_all(b"G").await.is_ok() {
                    open.push(stream);
                }
            }
            slow = open;
            let mut other = connect(Ipv4Addr::LOCALHOST, to).await;
            assert_eq!(
                ask(&mut other, "/api/v1/agents", to, &token)
                    .await
                    .as_deref(),
                Some("200")
            );
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let counters = server.get("/api/v1/counters").of(200).json();
    assert!(
        counters["connections_silent"].as_u64() >= Some(100),
        "{counters}"
    );
}

/// Status of a request with this token from a client named by a loopback proxy.
fn ask_through(server: &Server, token: &str, lines: &[&str]) -> u16 {
    let bearer = format!("Bearer {token}");
    let mut headers = vec![("authorization", bearer.as_str())];
    headers.extend(lines.iter().map(|line| ("x-forwarded-for", *line)));
    server
        .ask_with("GET", "/api/v1/agents", &headers, None)
        .status
}

/// Address in the audit log for a rejected login.
fn logged(server: &Server, lines: &[&str]) -> Value {
    let headers: Vec<_> = lines
        .iter()
        .map(|line| ("x-forwarded-for", *line))
        .collect();
    let asked = json!({ "token": "nl_wrong" });
    let status = server
        .ask_with("POST", "/api/v1/login", &headers, Some(&asked))
        .status;
    assert!([401, 429].contains(&status), "{status}");
    server.get("/api/v1/audit?limit=1").of(200).json()["entries"][0]["object"].clone()
}

#[test]
fn a_trusted_proxy_names_its_clients() {
    let proxies = TrustedProxies::of(["127.0.0.0/8", "10.0.0.0/8"]).expect("networks");
    let limits = ServiceLimits {
        trusted_proxies: proxies,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let guesses: Vec<_> = (0..40)
        .map(|_| ask_through(&server, "nl_no", &["198.51.100.7"]))
        .collect();
    assert!(guesses[0] == 401 && guesses.contains(&429), "{guesses:?}");
    // The limit applies to that client: with forged addresses to the left, and over several hops.
    for lines in [
        &["203.0.113.9, 198.51.100.7"][..],
        &["203.0.113.9", "198.51.100.7, 10.0.0.2"],
    ] {
        assert_eq!(ask_through(&server, "nl_no", lines), 429, "{lines:?}");
    }
    for lines in [
        &["198.51.100.8"][..],
        &["198.51.100.7, 198.51.100.9"],
        &["unknown"],
        &[],
    ] {
        assert_eq!(ask_through(&server, "nl_no", lines), 401, "{lines:?}");
    }
    assert_eq!(ask_through(&server, &server.token, &["198.51.100.7"]), 200);
    for (lines, address) in [
        (
            &["203.0.113.9, 198.51.100.10, 10.0.0.2"][..],
            "198.51.100.10",
        ),
        (&["198.51.100.10, unknown"], "127.0.0.1"),
        (&["[2001:db8::7]:1234"], "2001:db8::7"),
    ] {
        assert_eq!(logged(&server, lines), address, "{lines:?}");
    }
}

#[test]
fn untrusted_peers_cannot_set_client_addresses() {
    let proxies = TrustedProxies::of(["10.0.0.0/8"]).expect("networks");
    let server = Server::with(
        TestFleet::new(Way::Note),
        ServiceLimits {
            trusted_proxies: proxies,
            ..ServiceLimits::default()
        },
    );
    let guesses: Vec<_> = (0..40)
        .map(|n| ask_through(&server, "nl_no", &[&format!("198.51.100.{n}")]))
        .collect();
    assert!(guesses.contains(&429), "{guesses:?}");
    assert_eq!(logged(&server, &["198.51.100.99"]), "127.0.0.1");
}

/// The statuses of two requests on one connection that begins with these bytes; `None`: it was closed.
fn ask_behind(server: &Server, from: Ipv4Addr, first: &[u8]) -> [Option<String>; 2] {
    let to = server.address;
    Runtime::new().expect("a runtime").block_on(async {
        let mut stream = connect(from, to).await;
        stream.write_all(first).await.expect("written");
        let wrong = "Authorization: Bearer nl_no\r\n";
        let mut statuses = [None, None];
        for status in &mut statuses {
            *status = ask(&mut stream, "/api/v1/agents", to, wrong)
                .await
                .filter(|status| !status.is_empty());
        }
        statuses
    })
}

#[test]
fn a_trusted_proxy_names_its_clients_by_the_proxy_protocol() {
    let proxies = TrustedProxies::of(["127.0.0.2/32"]).expect("networks");
    let limits = ServiceLimits {
        trusted_proxies: proxies,
        proxy_protocol: true,
        ..ServiceLimits::default()
    };
    let server = Server::with(TestFleet::new(Way::Note), limits);
    let proxy = Ipv4Addr::new(127, 0, 0, 2);
    let four = [198, 51, 100, 7, 10, 0, 0, 2, 4, 210, 1, 187];
    let binary = [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".as_slice(), &four].concat();
    let line = b"PROXY TCP4 198.51.100.7 10.0.0.2 1234 443\r\n";
    let status =
        |first: &[u8]| ask_behind(&server, proxy, first).map(|status| status.unwrap_or_default());
    // The limit is that client's, by either version.
    let guesses: Vec<_> = (0..20).flat_map(|_| status(line)).collect();
    assert!(
        guesses[0] == "401" && guesses.contains(&"429".to_owned()),
        "{guesses:?}"
    );
    assert_eq!(status(&binary)[0], "429");
    assert_eq!(
        status(b"PROXY TCP4 198.51.100.8 10.0.0.2 1234 443\r\n"),
        ["401", "401"]
    );
    assert_eq!(status(b"PROXY UNKNOWN\r\n"), ["401", "401"]);
    // A proxy's connection without a header is closed and counted; from other addresses the header is a malformed request.
    let refused = |server: &Server| {
        server.get("/api/v1/counters").of(200).json()["heads_refused"]
            .as_u64()
            .expect("a number")
    };
    let before = refused(&server);
    assert_eq!(status(b""), ["", ""]);
    assert_eq!(refused(&server), before + 1);
    let other = ask_behind(&server, Ipv4Addr::LOCALHOST, line);
    assert_eq!(other[0].as_deref(), Some("400"), "{other:?}");
    assert_eq!(
        ask_behind(&server, Ipv4Addr::LOCALHOST, b"")[0].as_deref(),
        Some("401")
    );
}

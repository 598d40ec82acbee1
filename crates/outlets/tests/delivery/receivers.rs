//! Alerts to receivers that answer as told: which failures are temporary, and what a receiver reads.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use outlets::address::SystemSecrets;
use outlets::{AlertSender, DeliveryFault, OutletAddress};
use testkit::programs::PATIENCE;

/// Accepts one connection per answer, reads a request, and sends the answer; the requests are returned.
fn receiver(answers: Vec<Vec<u8>>) -> (u16, JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let serve = move || {
        let mut requests = Vec::new();
        for answer in answers {
            let (mut connection, _) = listener.accept().expect("a connection");
            connection
                .set_read_timeout(Some(PATIENCE))
                .expect("a socket");
            let mut request = Vec::new();
            let mut some = [0; 4096];
            while !request.ends_with(b"{\"end\":1}") {
                match connection.read(&mut some).expect("a request") {
                    0 => break,
                    n => request.extend_from_slice(&some[..n]),
                }
            }
            // The client may have closed the connection after the head.
            let _ = connection.write_all(&answer);
            requests.push(String::from_utf8(request).expect("UTF-8"));
        }
        requests
    };
    (port, thread::spawn(serve))
}

fn sender(to: &str) -> AlertSender {
    let address = OutletAddress::read(to, &SystemSecrets).expect("an address");
    AlertSender::new(&address).expect("a sender")
}

fn send(to: &str) -> Result<(), DeliveryFault> {
    sender(to).send("id-1", b"{\"end\":1}", PATIENCE)
}

fn response(status: &str, more: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status} Reason\r\nConnection: close\r\nContent-Length: 0\r\n{more}\r\n")
        .into_bytes()
}

fn fault(answer: Vec<u8>) -> Result<(), DeliveryFault> {
    let (port, requests) = receiver(vec![answer]);
    let fault = send(&format!("webhook+http://127.0.0.1:{port}/t0ken?x=1"));
    assert_eq!(requests.join().expect("no panic").len(), 1);
    if let Err(DeliveryFault::Passing(why) | DeliveryFault::Final(why)) = &fault {
        assert!(!why.contains("t0ken"), "{why}");
    }
    fault
}

#[test]
fn only_some_statuses_are_worth_another_attempt() {
    for status in [200, 201, 202, 204, 299] {
        assert_eq!(fault(response(&status.to_string(), "")), Ok(()), "{status}");
    }
    for status in [408, 425, 429, 500, 502, 503, 504, 599] {
        let expected = DeliveryFault::Passing(format!("the response status was {status}"));
        assert_eq!(fault(response(&status.to_string(), "")), Err(expected));
    }
    for status in [300, 304, 400, 401, 403, 404, 410, 413, 422] {
        let expected = DeliveryFault::Final(format!("the response status was {status}"));
        assert_eq!(fault(response(&status.to_string(), "")), Err(expected));
    }
}

/// A signed document is not sent to a place that the user did not name.
#[test]
fn redirections_are_not_followed() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    other.set_nonblocking(true).expect("a socket");
    let to = other.local_addr().expect("an address");
    for status in ["301", "302", "303", "307", "308"] {
        let found = fault(response(status, &format!("Location: http://{to}/\r\n")));
        let expected = DeliveryFault::Final(format!("the response status was {status}"));
        assert_eq!(found, Err(expected));
        assert!(other.accept().is_err(), "{status}");
    }
}

#[test]
fn broken_responses_are_temporary_failures() {
    let answers: [&[u8]; 4] = [
        b"",
        b"HTTP/1.1 2",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x16\x03\x01\0\0\xff\xfe",
    ];
    for answer in answers {
        let found = fault(answer.to_vec());
        assert!(
            matches!(found, Err(DeliveryFault::Passing(_))),
            "{answer:?}: {found:?}"
        );
    }
}

/// The status counts, whatever follows.
#[test]
fn bodies_of_any_size_are_accepted() {
    let body = vec![b'x'; 1 << 20];
    let mut large = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    large.push_str(std::str::from_utf8(&body).expect("text"));
    assert_eq!(fault(large.into_bytes()), Ok(()));
    // Fewer bytes than announced.
    let cut = b"HTTP/1.1 204 No\r\nConnection: close\r\nContent-Length: 99\r\n\r\nx";
    assert_eq!(fault(cut.to_vec()), Ok(()));
}

/// A receiver that accepts the connection and is silent.
#[test]
fn an_attempt_ends_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!(
        "webhook+http://{}/",
        silent.local_addr().expect("an address")
    );
    let begun = Instant::now();
    let found = sender(&to).send("id-1", b"{}", Duration::from_millis(50));
    assert!(matches!(found, Err(DeliveryFault::Passing(_))), "{found:?}");
    assert!(begun.elapsed() < PATIENCE);
}

#[test]
fn a_closed_port_is_a_temporary_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = format!(
        "alertmanager+http://{}/t0ken",
        listener.local_addr().expect("an address")
    );
    drop(listener);
    let Err(DeliveryFault::Passing(why)) = send(&to) else {
        panic!("a temporary failure")
    };
    assert!(!why.contains("t0ken"), "{why}");
}

#[test]
fn alertmanagers_have_a_usual_path_and_an_authorization() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "pass word\n").expect("a file");
    let secret = secret.display();
    for (path, target, header) in [
        ("", "/api/v2/alerts", None),
        ("/", "/api/v2/alerts", None),
        ("/am/api/v2/alerts?x=1", "/am/api/v2/alerts?x=1", None),
        ("?x=1", "/?x=1", None),
        // By `printf 'me:pass word' | base64`.
        ("user", "/api/v2/alerts", Some("Basic bWU6cGFzcyB3b3Jk")),
        ("token", "/api/v2/alerts", Some("Bearer pass word")),
    ] {
        let (port, requests) = receiver(vec![response("200", "")]);
        let to = match path {
            "user" => format!("me@127.0.0.1:{port}#secret-file={secret}"),
            "token" => format!("127.0.0.1:{port}#secret-file={secret}"),
            path => format!("127.0.0.1:{port}{path}"),
        };
        assert_eq!(send(&format!("alertmanager+http://{to}")), Ok(()), "{path}");
        let request = &requests.join().expect("no panic")[0];
        assert!(
            request.starts_with(&format!("POST {target} HTTP/1.1\r\n")),
            "{request}"
        );
        let lines = request.lines().filter_map(|line| line.split_once(": "));
        let mut lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case("authorization"));
        assert_eq!(lines.next().map(|(_, value)| value), header, "{request}");
    }
}

/// A retry has the identifier of the first attempt, so that the receiver can ignore it.
#[test]
fn attempts_of_a_document_have_one_identifier() {
    let (port, requests) = receiver(vec![response("503", ""), response("200", "")]);
    let sender = sender(&format!("webhook+http://127.0.0.1:{port}"));
    let attempt = || sender.send("alert_7", b"{\"end\":1}", PATIENCE);
    assert!(attempt().is_err());
    assert_eq!(attempt(), Ok(()));
    for request in requests.join().expect("no panic") {
        let values = |wanted: &str| {
            let headers = request.lines().filter_map(|line| line.split_once(": "));
            let found = headers.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value).collect::<Vec<_>>()
        };
        assert_eq!(values("webhook-id"), ["alert_7"]);
        assert_eq!(values("idempotency-key"), ["alert_7"]);
        assert!(values("webhook-signature").is_empty(), "there is no key");
    }
}

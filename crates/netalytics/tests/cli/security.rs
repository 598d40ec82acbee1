//! Authentication, as processes: TLS, agents' certificates from the one-time token to revocation, and the errors at
//! both ends. Checked with curl and openssl; wrong clocks by libfaketime.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::service::wait;
use super::tls_server::{Heard, Server, has_ended, printed};
use super::{BINARY, Folder, check, run};

#[test]
fn an_agent_enrolls_renews_and_is_revoked() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &["--agent-certificates", "6s"]);
    let host = server.url.trim_start_matches("https://").to_owned();
    // Other clients accept the server.
    let health = format!("{}/api/v1/health", server.url);
    assert!(
        printed("curl", &["-sSf", "--cacert", &server.ca, &health])
            .expect("an answer")
            .contains("ok")
    );
    assert!(
        printed("curl", &["-sSf", &health])
            .expect_err("not trusted")
            .contains("certificate")
    );
    let plain = printed("curl", &["-sS", &health.replace("https", "http")]).expect("an answer");
    assert!(plain.contains("https://"), "{plain}");
    let seen = printed(
        "openssl",
        &["s_client", "-connect", &host, "-CAfile", &server.ca],
    )
    .expect("TLS");
    for words in [
        "TLSv1.3",
        "Verify return code: 0 (ok)",
        "Acceptable client certificate CA names",
    ] {
        assert!(seen.contains(words), "{seen}");
    }
    assert!(!seen.contains("New Session Ticket arrived"), "{seen}");
    let old = printed(
        "openssl",
        &[
            "s_client", "-connect", &host, "-CAfile", &server.ca, "-tls1_2",
        ],
    );
    old.expect_err("TLS 1.3 only");

    let own = server.enrolled(&folder, "web-1");
    let identity = format!("{own}/identity.pem");
    assert_eq!(
        fs::metadata(&identity).expect("there").permissions().mode() & 0o777,
        0o600
    );
    let subject = printed(
        "openssl",
        &[
            "x509",
            "-in",
            &identity,
            "-noout",
            "-subject",
            "-ext",
            "extendedKeyUsage",
        ],
    );
    let subject = subject.expect("a certificate");
    assert!(
        subject.contains("CN = web-1") && subject.contains("Client Authentication"),
        "{subject}"
    );
    printed("openssl", &["verify", "-CAfile", &server.ca, &identity])
        .expect("signed by the authority");
    // The token was valid once.
    let token = folder.path("web-1.token");
    check(&server.enroll(&token, &own), 1, &["unknown one-time token"]);
    // A certificate is valid only for an agent's connection.
    let jobs = format!("{}/api/v1/jobs", server.url);
    let curl = ["-sS", "--cacert", &server.ca, "--cert", &identity, &jobs];
    assert!(
        printed("curl", &curl)
            .expect("an answer")
            .contains("unauthorized")
    );

    let first = folder.file("first.pem", &fs::read(&identity).expect("there"));
    let agent = server.agent(&own);
    wait("it connects", || {
        server
            .is_connected("web-1")?
            .then_some(())
            .ok_or_else(|| agent.all().join("\n"))
    });
    let job = server.rows(&[
        "jobs",
        "start",
        "PARSE http PROCESS (count: w=1s)",
        "--standing",
    ]);
    let job = job[0]["id"].as_str().expect("a number").to_owned();
    wait("rows come", || {
        match server.rows(&["jobs", "results", &job]).len() {
            0 => Err(agent.all().join("\n")),
            _ => Ok(()),
        }
    });
    wait("its first certificate ends", || {
        has_ended(&first).then_some(()).ok_or_else(String::new)
    });
    agent.says("new certificate, valid until");
    assert!(!has_ended(&identity));
    assert_eq!(
        agent.count("has accepted this agent"),
        1,
        "{:?}",
        agent.all()
    );
    assert_eq!(server.is_connected("web-1"), Ok(true));

    assert_eq!(server.ask(&["agents", "revoke", "web-1"]).code, 0);
    wait("it is cut", || {
        if server.is_connected("web-1")? {
            Err("it is connected".into())
        } else {
            Ok(())
        }
    });
    agent.says("answers 403 Forbidden: agent web-1 was revoked");
    server
        .process
        .says("the connection of agent web-1 is closed: agent web-1 was revoked");
    let enrolled = server.rows(&["agents", "enrolled"]);
    assert!(
        enrolled[0]["agent"] == "web-1" && enrolled[0]["revoked"].is_string(),
        "{enrolled:?}"
    );
    drop(agent);
    // The agent needs a new token to enroll again.
    let own = server.enrolled(&folder, "web-1");
    let agent = server.agent(&own);
    wait("it is back", || {
        server
            .is_connected("web-1")?
            .then_some(())
            .ok_or_else(|| agent.all().join("\n"))
    });
    let by_old = format!("{}/api/v1/renew", server.url);
    let curl = [
        "-sS", "--cacert", &server.ca, "--cert", &first, "-X", "POST", &by_old,
    ];
    // openssl considers a certificate expired from its last second on, RFC 5280 after it.
    wait("a certificate that has ended ends the handshake", || {
        printed("curl", &curl)
            .err()
            .map(drop)
            .ok_or_else(String::new)
    });
}

/// The clock of this agent is slow, so it does not renew its certificate in time.
#[test]
fn a_connection_ends_with_its_certificate() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &["--agent-certificates", "12s"]);
    let own = server.enrolled(&folder, "web-1");
    let agent = server.agent_under(&["faketime", "-f", "-2m"], &own);
    agent.says("has accepted this agent");
    let closed =
        "the connection of agent web-1 is closed: the certificate of agent web-1 has expired";
    server.process.says(closed);
    assert!(has_ended(&format!("{own}/identity.pem")));
    agent.says("the server rejects this host's certificate: it has expired");
    assert_eq!(server.is_connected("web-1"), Ok(false));
    assert_eq!(agent.count("new certificate"), 0, "{:?}", agent.all());
}

#[test]
fn one_time_tokens_expire() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let token = folder.path("web-1.token");
    let invited = server.ask(&[
        "agents",
        "enroll",
        "web-1",
        "--expires",
        "1s",
        "--out",
        &token,
    ]);
    assert_eq!(invited.code, 0, "{}", invited.err);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let own = folder.path("web-1");
    check(
        &server.enroll(&token, &own),
        1,
        &["unknown one-time token: it was used or has expired"],
    );
}

#[test]
fn browsers_are_told_to_use_tls_at_the_default_port() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &["--host", "netalytics.example"]);
    let port = server.url.rsplit(':').next().expect("a port");
    let usual = "netalytics.example".to_owned();
    for (host, is_told) in [(usual.clone(), true), (format!("{usual}:{port}"), false)] {
        let head = format!("Host: {host}");
        let curl = ["-sSi", "--cacert", &server.ca, "-H", &head, &server.url];
        let answer = printed("curl", &curl).expect("an answer").to_lowercase();
        assert!(answer.starts_with("http/1.1 200"), "{answer}");
        let told = answer.contains("strict-transport-security: max-age=31536000");
        assert_eq!(told, is_told, "{host}: {answer}");
    }
}

#[test]
fn rejected_certificates_are_reported_at_both_ends() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        "server",
        &["--listen", "0.0.0.0:0", "--agent-certificates", "1h"],
    );
    let at = |ip: &str| server.url.replace("0.0.0.0", ip);
    let server = Server {
        url: at("127.0.0.1"),
        ..server
    };
    let other = Server::start(&folder, "other", &[]);
    let own = server.enrolled(&folder, "web-1");
    let stranger = other.enrolled(&folder, "stranger");
    // The agent trusts the server, but not vice versa.
    let half = other.enrolled(&folder, "half");
    fs::copy(&server.ca, format!("{half}/ca.pem")).expect("copied");
    // The server issues very short certificates.
    let brief = Server::start(&folder, "brief", &["--agent-certificates", "1s"]);
    let ended = brief.enrolled(&folder, "ended");
    wait("it ends", || {
        has_ended(&format!("{ended}/identity.pem"))
            .then_some(())
            .ok_or_else(String::new)
    });
    let behind = ["faketime", "-f", "-1d"];
    let ahead = ["faketime", "-f", "+40d"];
    for (server, program, own, agent_says, server_says) in [
        (
            &server,
            &[][..],
            &stranger,
            "the server's certificate was signed by an authority that is not trusted here",
            "the client does not trust the authority that signed this server's certificate",
        ),
        (
            &server,
            &[],
            &half,
            "the server does not trust the authority that signed this host's certificate",
            "the client's certificate was signed by an authority that is not trusted here",
        ),
        (
            &brief,
            &[],
            &ended,
            "the server rejects this host's certificate: it has expired, or is not valid yet by its clock",
            "the client's certificate has expired: it was valid until",
        ),
        (
            &server,
            &behind,
            &own,
            "the server's certificate is not valid yet: it is valid from",
            "the client rejects this server's certificate: it has expired, or is not valid yet by its clock",
        ),
        (
            &server,
            &ahead,
            &own,
            "the server's certificate has expired: it was valid until",
            "the client rejects this server's certificate: it has expired, or is not valid yet by its clock",
        ),
    ] {
        let agent = server.agent_under(program, own);
        assert!(
            agent.says(agent_says).contains("https://"),
            "{:?}",
            agent.all()
        );
        server.process.says(server_says);
    }
    // With a host name that is not in the certificate.
    let elsewhere = Heard::start(
        &[BINARY],
        &["agent", "--server", &at("127.0.0.9"), "--folder", &own],
    );
    elsewhere.says("not for 127.0.0.9");
    // The name is that of the certificate.
    let called = [
        "agent",
        "--server",
        &server.url,
        "--folder",
        &own,
        "--name",
        "db-1",
    ];
    check(
        &called,
        2,
        &["this host is enrolled as web-1, but its name here is db-1"],
    );
    // Without an authority, or with another one, the token is not sent.
    let token = format!("{}/admin.token", server.data);
    let asked = ["agents", "--server", &server.url, "--token-file", &token];
    check(
        &asked,
        1,
        &["was signed by an authority that is not trusted here; --ca FILE"],
    );
    check(
        &[&asked[..], &["--ca", &other.ca]].concat(),
        1,
        &["an authority that is not trusted here"],
    );
    // The server's clock is slow: agents' certificates are in its future.
    let Server { process, data, .. } = server;
    drop(process);
    let slow = Server::under(&behind, &folder, "server", &["--tls"]);
    assert_eq!(slow.data, data);
    let agent = slow.agent(&own);
    agent
        .says("the server rejects this host's certificate: it has expired, or is not valid yet by its clock");
    slow.process
        .says("the client's certificate is not valid yet: it is valid from");
}

#[test]
fn plaintext_requires_a_flag() {
    check(
        &["serve", "--listen", "0.0.0.0:0"],
        2,
        &[
            "is reachable from other machines",
            "--tls",
            "--insecure-http",
        ],
    );
    check(
        &["serve", "--listen", "[::]:0"],
        2,
        &["is reachable from other machines"],
    );
    check(&["serve", "--tls-cert", "chain.pem"], 2, &["--tls-key"]);
    check(
        &["serve", "--tls", "--insecure-http"],
        2,
        &["cannot be used with"],
    );
    let folder = Folder::new();
    let data = folder.path("server");
    let none = folder.path("none.pem");
    check(
        &[
            "serve",
            "--data",
            &data,
            "--tls-cert",
            &none,
            "--tls-key",
            &none,
        ],
        1,
        &["cannot read", "none.pem"],
    );
    let listen = [
        "serve",
        "--data",
        &data,
        "--listen",
        "0.0.0.0:0",
        "--insecure-http",
    ];
    Heard::start(&[BINARY], &listen).says("serving on http://0.0.0.0");
}

#[test]
fn tokens_are_created_listed_revoked_and_audited() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let made = server.ask(&[
        "tokens",
        "create",
        "shop",
        "--role",
        "run",
        "--network",
        "10.1.0.0/16",
        "--expires",
        "1h",
    ]);
    assert_eq!(made.code, 0, "{}", made.err);
    let secret = folder.file("shop.token", made.out.as_bytes());
    let asked = [
        "jobs",
        "--server",
        &server.url,
        "--ca",
        &server.ca,
        "--token-file",
        &secret,
    ];
    check(&asked, 0, &[]);
    let listed = server.rows(&["tokens"]);
    let shop = listed
        .iter()
        .find(|token| token["name"] == "shop")
        .expect("it is listed");
    assert!(
        shop["role"] == "run"
            && shop["networks"][0] == "10.1.0.0/16"
            && shop["expires"].is_string(),
        "{shop}"
    );
    assert_eq!(server.ask(&["tokens", "revoke", "shop"]).code, 0);
    assert_eq!(server.ask(&["tokens", "revoke", "shop"]).code, 1);
    check(&asked, 2, &["the token does not exist or was revoked"]);
    let log = server.rows(&["audit", "--limit", "2"]);
    let acts: Vec<_> = log
        .iter()
        .map(|entry| (entry["act"].as_str(), entry["object"].as_str()))
        .collect();
    assert_eq!(
        acts,
        [
            (Some("token.revoke"), Some("shop")),
            (Some("token.create"), Some("shop"))
        ]
    );
    // An agent with a token is disconnected, too, when that is revoked.
    let made = server.ask(&["tokens", "create", "db-1", "--role", "agent"]);
    let secret = folder.file("db-1.token", made.out.as_bytes());
    let own = folder.path("db-1");
    let agent = [
        "agent",
        "-v",
        "--server",
        &server.url,
        "--ca",
        &server.ca,
        "--token-file",
        &secret,
        "--name",
        "db-1",
    ];
    let agent = Heard::start(&[BINARY], &[&agent[..], &["--folder", &own]].concat());
    agent.says("has accepted this agent");
    assert_eq!(server.ask(&["tokens", "revoke", "db-1"]).code, 0);
    server
        .process
        .says("the connection of agent db-1 is closed");
    agent.says("answers 401 Unauthorized: the token does not exist or was revoked");
}

#[test]
fn demonstrations_support_tls() {
    let folder = Folder::new();
    let [key, chain] = ["key.pem", "chain.pem"].map(|name| folder.path(name));
    let names = [
        "-subj",
        "/CN=demo.example",
        "-addext",
        "subjectAltName=DNS:demo.example,IP:127.0.0.1",
    ];
    let make = [
        "req",
        "-x509",
        "-days",
        "2",
        "-nodes",
        "-newkey",
        "rsa:2048",
        "-addext",
        "basicConstraints=CA:FALSE",
    ];
    let files = ["-keyout", &key, "-out", &chain];
    printed("openssl", &[&make[..], &names, &files].concat()).expect("a certificate");
    let given = ["--tls-cert", &chain, "--tls-key", &key];
    // With the operator's certificate, clients need its authority.
    for (flags, more) in [(&["--tls"][..], &[][..]), (&given, &["--ca", &chain])] {
        let args = [&["serve", "--demo", "--listen", "127.0.0.1:0"], flags].concat();
        let process = Heard::start(&[BINARY], &args);
        let line = process.says("in ten seconds: netalytics ");
        let command = line.split_once("netalytics ").expect("a command").1;
        assert!(command.contains("--server https://127.0.0.1:"), "{line}");
        let words: Vec<&str> = command
            .split_whitespace()
            .chain(more.iter().copied())
            .chain(["--format", "jsonl"])
            .collect();
        wait("there are rows", || {
            let ran = run(&words);
            if ran.out.contains("/checkout") {
                Ok(())
            } else {
                Err(ran.out + &ran.err)
            }
        });
    }
}

//! Certificates of the operator's own authority: read again while agents stay connected, the documented commands, and a
//! mistaken authority. Checked with curl and openssl.

use std::fs;
use std::process::Command;

use super::service::wait;
use super::tls_server::{Heard, Server, printed};
use super::{BINARY, Folder, check, run};

#[test]
fn operator_certificate_is_reloaded_without_disconnects() {
    let folder = Folder::new();
    let [ca_key, ca, key, chain] =
        ["ca.key", "ca.pem", "key.pem", "chain.pem"].map(|name| folder.path(name));
    let subject = [
        "-subj",
        "/CN=operator",
        "-days",
        "2",
        "-newkey",
        "rsa:2048",
        "-nodes",
    ];
    let make = [
        &["req", "-x509", "-keyout", &ca_key, "-out", &ca],
        &subject[..],
    ]
    .concat();
    printed("openssl", &make).expect("an authority");
    let issue = || {
        let names = [
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-days",
            "2",
        ];
        let signed = [
            "-CA",
            &ca,
            "-CAkey",
            &ca_key,
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ];
        let files = [
            "req",
            "-x509",
            "-keyout",
            &key,
            "-out",
            &chain,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ];
        printed("openssl", &[&files[..], &names, &signed].concat()).expect("a certificate");
        printed("openssl", &["x509", "-in", &chain, "-noout", "-serial"]).expect("its number")
    };
    let first = issue();
    let server = Server::under(
        &[],
        &folder,
        "server",
        &["--tls-cert", &chain, "--tls-key", &key],
    );
    let server = Server {
        ca: ca.clone(),
        ..server
    };
    let host = server.url.trim_start_matches("https://").to_owned();
    let shown = || {
        let seen =
            printed("openssl", &["s_client", "-connect", &host, "-CAfile", &ca]).expect("TLS");
        assert!(seen.contains("Verify return code: 0 (ok)"), "{seen}");
        printed(
            "openssl",
            &[
                "x509",
                "-in",
                &folder.file("shown.pem", seen.as_bytes()),
                "-noout",
                "-serial",
            ],
        )
    };
    assert_eq!(shown(), Ok(first.clone()));
    // The token of such a server names no authority: the operator's is given.
    let token = server.one_time_token(&folder, "web-1");
    let own = folder.path("web-1");
    let enroll = server.enroll(&token, &own);
    check(
        &enroll,
        1,
        &["was signed by an authority that is not trusted here"],
    );
    check(
        &[&enroll[..], &["--ca", &ca]].concat(),
        0,
        &["this host is agent web-1"],
    );
    let agent = server.agent(&own);
    agent.says("has accepted this agent");
    let second = issue();
    assert_ne!(first, second);
    server.process.signal("HUP");
    wait("the new one is shown", || {
        (shown()? == second)
            .then_some(())
            .ok_or_else(|| second.clone())
    });
    // An unusable one changes nothing.
    fs::write(&chain, "nonsense").expect("written");
    server.process.signal("HUP");
    server.process.says("the certificate is not replaced");
    assert_eq!(shown(), Ok(second));
    assert_eq!(server.is_connected("web-1"), Ok(true));
    assert_eq!(
        agent.count("has accepted this agent"),
        1,
        "{:?}",
        agent.all()
    );
}

/// Commands in a document's blocks, one per line.
fn commands(document: &str) -> Vec<&str> {
    let blocks = document.split("```").skip(1).step_by(2);
    blocks
        .filter_map(|block| block.strip_prefix("sh\n"))
        .flat_map(str::lines)
        .collect()
}

#[test]
fn five_commands_set_up_tls() {
    let folder = Folder::new();
    // The port was just allocated, and is used immediately.
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|taken| taken.local_addr())
        .expect("a port");
    let bin = std::path::Path::new(BINARY).parent().expect("a folder");
    let data = folder.path("srv");
    let path = format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").expect("a path")
    );
    let shell = |line: &str| {
        let line = line
            .replace("0.0.0.0:7979", &free.to_string())
            .replace("7979", &free.port().to_string())
            .replace("netalytics.example", "localhost")
            .replace("/srv/netalytics", &data);
        let mut command = Command::new("bash");
        command
            .args(["-c", &line])
            .current_dir(folder.path("."))
            .env("PATH", &path)
            .env("HOME", folder.path("home"));
        command
            .env_remove("NETALYTICS_TOKEN")
            .env_remove("XDG_STATE_HOME");
        command
    };
    let commands = commands(include_str!("../../../../docs/security.md"));
    let [serve, ca, invite, enroll, agent] = commands[..] else {
        panic!("five commands: {commands:?}")
    };
    let served = Heard::of(&mut shell(&format!("exec {serve}")));
    served.says("serving on https://");
    for line in [ca, invite, enroll] {
        let ran = shell(line).output().expect("a shell");
        assert!(
            ran.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    let agent = Heard::of(&mut shell(&format!("exec {agent} -v")));
    agent.says("has accepted this agent");
    let listed = format!(
        "netalytics agents --server https://localhost:{} --ca ca.pem --token-file {data}/admin.token",
        free.port()
    );
    let listed = shell(&listed).output().expect("a shell");
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("web-1  true"), "{listed}");
}

#[test]
fn authority_used_as_a_host_certificate_is_explained() {
    let folder = Folder::new();
    let key = folder.path("own.key");
    let cert = folder.path("own.pem");
    let subject = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=IP:127.0.0.1,DNS:localhost",
    ];
    let kind = ["-addext", "basicConstraints=critical,CA:TRUE"];
    let made = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ];
    let files = ["-keyout", &key, "-out", &cert];
    printed(
        "openssl",
        &[&made[..], &subject[..2], &subject[2..], &kind, &files].concat(),
    )
    .expect("a certificate");
    let server = Server::under(
        &[],
        &folder,
        "server",
        &["--tls-cert", &cert, "--tls-key", &key],
    );
    let token = format!("{}/admin.token", server.data);
    let ran = run(&[
        "jobs",
        "--server",
        &server.url,
        "--token-file",
        &token,
        "--ca",
        &cert,
    ]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(
        ran.err
            .contains("is an authority's: a certificate for a host is needed"),
        "{}",
        ran.err
    );
    assert!(
        !ran.err.contains("CaUsedAsEndEntity") && !ran.err.contains("Other("),
        "{}",
        ran.err
    );
}

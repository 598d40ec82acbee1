//! docs/outlets.md: runs each query over the shop's capture instead of an interface, with real servers.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::posts::Posts;
use super::prometheus::Prometheus;
use super::tls::Certificates;
use super::{Server, file, free_port, wait_for};

const TEXT: &str = include_str!("../../../../../docs/outlets.md");

/// Queries in the document, one command per line.
fn commands() -> impl Iterator<Item = &'static str> {
    let lines = TEXT.lines().filter_map(|line| line.strip_prefix("    "));
    lines.filter(|line| line.starts_with("netalytics ") && !line.contains('…'))
}

/// The command with this address scheme, with the capture instead of the interface.
fn command(scheme: &str) -> String {
    let queries = commands().filter(|command| command.starts_with("netalytics query"));
    let mut found = queries.filter(|command| command.contains(&format!("{scheme}://")));
    let command = found
        .next()
        .unwrap_or_else(|| panic!("{scheme} has no example"));
    let next = found.next();
    assert_eq!(next, None);
    let shop = super::super::captures().join("shop/in.pcap");
    assert!(command.contains("-i eth0"), "{command}");
    command.replace("-i eth0", &format!("-r '{}'", shop.display()))
}

/// Runs the command in a shell in that folder.
fn run(command: &str, folder: &Path) {
    let program = Path::new(env!("CARGO_BIN_EXE_netalytics"))
        .parent()
        .expect("a folder");
    let path = format!(
        "{}:{}",
        program.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let ran = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", path)
        .env("HOOK_KEY", "s3cret")
        .output()
        .expect("a shell");
    assert!(
        ran.status.success(),
        "{command}: {}",
        String::from_utf8_lossy(&ran.stderr)
    );
}

#[test]
fn every_command_is_run_by_a_test_here() {
    // Tests with a broker run the Kafka command: tests/cli/bus.
    let tried = [
        "prometheus",
        "otlp+http",
        "redis",
        "webhook+https",
        "tcp",
        "kafka",
        "ipfix",
        "netflow9",
        "sflow",
        "record",
    ];
    let is_tried = |command: &str| {
        tried.iter().any(|word| {
            command.contains(&format!(" {word}")) || command.contains(&format!("{word}://"))
        })
    };
    let commands: Vec<_> = commands().collect();
    assert!(
        commands.iter().all(|command| is_tried(command)),
        "{commands:?}"
    );
    assert!(commands.len() >= 5);
}

#[test]
fn collectors_get_records_and_packets() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let to = socket.local_addr().expect("bound").to_string();
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("a timeout");
    let folder = tempfile::tempdir().expect("a folder");
    let shop = super::super::captures().join("shop/in.pcap");
    let mut versions = Vec::new();
    for (scheme, port) in [("ipfix", 4739), ("netflow9", 2055), ("sflow", 6343)] {
        let address = format!("{scheme}://127.0.0.1:{port}");
        for command in commands().filter(|command| command.contains(&address)) {
            assert!(command.contains("-i eth0"), "{command}");
            let command = command
                .replace("-i eth0", &format!("-r '{}'", shop.display()))
                .replace(&address, &format!("{scheme}://{to}"));
            run(&command, folder.path());
            let mut datagram = vec![0; 2000];
            socket.recv(&mut datagram).expect("a datagram");
            versions.push(match datagram[..4] {
                [0, 10, ..] => "ipfix",
                [0, 9, ..] => "netflow9",
                [0, 0, 0, 5] => "sflow",
                _ => "none",
            });
            socket.set_nonblocking(true).expect("a socket");
            while socket.recv(&mut datagram).is_ok() {}
            socket.set_nonblocking(false).expect("a socket");
        }
    }
    assert_eq!(versions, ["ipfix", "ipfix", "netflow9", "sflow"]);
}

#[test]
fn expressions_for_a_dashboard_are_understood() {
    let port = free_port();
    let Some(prometheus) = Prometheus::start(&format!("127.0.0.1:{port}")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    run(
        &command("prometheus").replace("9464", &port.to_string()),
        folder.path(),
    );
    let table = TEXT
        .lines()
        .skip_while(|line| !line.starts_with("| panel |"))
        .skip(2);
    let rows: Vec<&str> = table.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 4);
    for row in rows {
        let expression = row.split('`').nth(1).expect("an expression");
        // Asserted there to be valid.
        prometheus.ask(expression);
    }
    assert!(
        !prometheus.ask("netalytics_http_count_total").is_empty(),
        "it was scraped"
    );
}

#[test]
fn redis_has_the_requested_ranking() {
    testkit::require!("redis-server", "redis-cli");
    let port = free_port();
    let folder = tempfile::tempdir().expect("a folder");
    let port = port.to_string();
    let _server = Server::start(Command::new("redis-server").args([
        "--bind",
        "127.0.0.1",
        "--port",
        &port,
        "--save",
        "",
        "--appendonly",
        "no",
        "--requirepass",
        "s3cret",
    ]));
    let ask = |words: &str| {
        let client = Command::new("redis-cli")
            .env("REDISCLI_AUTH", "s3cret")
            .args(["-p", &port, "--raw"])
            .args(words.split(' '))
            .output();
        String::from_utf8_lossy(&client.expect("a client").stdout).into_owned()
    };
    wait_for("Redis", || (ask("PING").trim() == "PONG").then_some(()));
    file(folder.path(), "redis.password", "s3cret\n");
    run(&command("redis").replace("6379", &port), folder.path());
    let words = TEXT
        .split('`')
        .find(|text| text.starts_with("ZRANGE "))
        .expect("how to read it");
    assert!(ask(words).lines().count() >= 4, "{}", ask(words));
}

#[test]
fn posts_and_lines_arrive() {
    testkit::require!("python3");
    let folder = tempfile::tempdir().expect("a folder");
    if let Some(certificates) = Certificates::make() {
        let port = free_port();
        let pair = (
            certificates.text("right.pem"),
            certificates.text("right.key"),
        );
        let posts = Posts::start_tls(Path::new("python3"), port, (&pair.0, &pair.1));
        let command = command("webhook+https")
            .replace("example.org", &format!("localhost:{port}"))
            .replace(
                "HOOK_KEY",
                &format!("HOOK_KEY&ca-file={}", certificates.text("ours.pem")),
            );
        run(&command, folder.path());
        let heard = posts.heard();
        assert!(
            !heard.is_empty() && heard.iter().all(|post| post["status"] == 200),
            "{heard:?}"
        );
    }
    if let Some(python) = super::posts::python() {
        let posts = Posts::start(&python, "otlp-open", 0, 0);
        run(
            &command("otlp+http").replace("4318", &posts.port.to_string()),
            folder.path(),
        );
        let heard = posts.heard();
        assert!(
            !heard.is_empty() && heard.iter().all(|post| post["status"] == 200),
            "{heard:?}"
        );
    }
    for scheme in ["tcp", "record"] {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port().to_string();
        let reader = std::thread::spawn(move || {
            std::io::read_to_string(listener.accept().expect("a connection").0)
        });
        let command = match scheme {
            "record" => {
                let found = commands().find(|command| command.starts_with("netalytics record"));
                let shop = super::super::captures().join("shop/in.pcap");
                found
                    .expect("an example")
                    .replace("-i eth0", &format!("-r '{}'", shop.display()))
            }
            scheme => command(scheme),
        };
        run(&command.replace("9000", &port), folder.path());
        let text = reader.join().expect("no panic").expect("text");
        assert!(text.lines().count() > 10 && text.starts_with('{'), "{text}");
    }
}

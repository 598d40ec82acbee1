//! The documented commands, scrape job and sample policy, verbatim, with a TLS server; and the sources of the server's
//! address, authority and token.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use testkit::programs::{TestProgram, free_port};

use super::service::wait;
use super::tls_server::{Heard, Server};
use super::{BINARY, Folder, ROOT, Ran};

const SERVER_PAGE: &str = include_str!("../../../../docs/server.md");
const AGENT_PAGE: &str = include_str!("../../../../docs/agent.md");

/// The first block of a page in this language.
fn block<'p>(page: &'p str, language: &str) -> &'p str {
    let start = format!("```{language}\n");
    page.split_once(&start)
        .and_then(|(_, rest)| rest.split_once("```"))
        .expect(language)
        .0
}

/// Commands of the server's page that connect to a server, except those that need Kafka or a network.
fn commands() -> Vec<&'static str> {
    let is_asked = |line: &&str| {
        line.starts_with("netalytics ")
            && !line.starts_with("netalytics serve ")
            && !["--bus kafka", "--by-network"]
                .iter()
                .any(|other| line.contains(other))
    };
    SERVER_PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(is_asked)
        .collect()
}

/// A shell with the program in PATH and only these variables.
fn shell(folder: &Folder, line: &str, variables: &[(&str, &str)]) -> Ran {
    let program = Path::new(BINARY).parent().expect("a folder");
    let path = format!(
        "{}:{}",
        program.display(),
        std::env::var("PATH").expect("a path")
    );
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .current_dir(folder.path("."))
        .env("PATH", path)
        .env("HOME", folder.path("home"));
    for name in ["TOKEN", "TOKEN_FILE", "SERVER", "CA"] {
        command.env_remove(format!("NETALYTICS_{name}"));
    }
    command
        .env_remove("XDG_CONFIG_HOME")
        .envs(variables.iter().copied());
    command.output().expect("a shell").into()
}

/// An agent with the policy of the agents' page, which replays the shop in place of `eth0`.
fn agent(folder: &Folder, server: &Server) -> Heard {
    let policy = block(AGENT_PAGE, "toml").replace("\"eth0\"", "\"demo\"");
    let policy = folder.file("agent.toml", policy.as_bytes());
    let own = server.enrolled(folder, "web-1");
    let capture = format!("{ROOT}/captures/shop/in.pcap");
    let args = [
        "agent",
        "--server",
        &server.url,
        "--folder",
        &own,
        "--policy",
        &policy,
        "--demo",
        &capture,
    ];
    let agent = Heard::start(&[BINARY], &args);
    wait("it connects", || {
        server
            .is_connected("web-1")?
            .then_some(())
            .ok_or_else(|| "it is gone".into())
    });
    agent
}

#[test]
fn the_documented_commands_run_under_the_documented_policy() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let _agent = agent(&folder, &server);
    let token = format!("{}/admin.token", server.data);
    let variables = [
        ("NETALYTICS_SERVER", server.url.as_str()),
        ("NETALYTICS_CA", &server.ca),
        ("NETALYTICS_TOKEN_FILE", &token),
    ];
    let commands = commands();
    assert!(commands.len() >= 10, "{commands:?}");
    for line in commands {
        // A query without a period ends with Ctrl-C; queries of the past need stored data.
        let is_live = line.starts_with("netalytics query") && !line.contains("SINCE");
        let line = if is_live {
            format!("timeout --preserve-status -s INT 8 {line}")
        } else {
            line.to_owned()
        };
        wait(&line, || {
            let ran = shell(&folder, &line, &variables);
            match (ran.code, is_live && ran.out.is_empty()) {
                (0, false) => Ok(()),
                _ => Err(format!("{}: {}{}", ran.code, ran.out, ran.err)),
            }
        });
    }
    let jobs = server.rows(&["jobs"]);
    for job in &jobs {
        assert!(!job["reason"].to_string().contains("rejects"), "{job}");
    }
    assert!(jobs.iter().any(|job| job["state"] == "running"), "{jobs:?}");
}

#[test]
fn the_documented_scrape_job_reads_a_server_with_tls() {
    testkit::require!("prometheus");
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let token = folder.path("netalytics.token");
    assert_eq!(
        server
            .ask(&[
                "tokens",
                "create",
                "prometheus",
                "--role",
                "view",
                "--out",
                &token
            ])
            .code,
        0
    );
    let config = block(SERVER_PAGE, "yaml")
        .replace(
            "netalytics.example:7979",
            server.url.trim_start_matches("https://"),
        )
        .replace("/etc/prometheus/netalytics-ca.pem", &server.ca)
        .replace("/etc/prometheus/netalytics.token", &token);
    let config = folder.file(
        "prometheus.yml",
        format!("global: {{scrape_interval: 1s}}\n{config}").as_bytes(),
    );
    let port = free_port();
    let _prometheus = TestProgram::start(Command::new("prometheus").args([
        format!("--config.file={config}"),
        format!("--storage.tsdb.path={}", folder.path("data")),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ]));
    wait("it has been scraped", || {
        let asked =
            format!("http://127.0.0.1:{port}/api/v1/query?query=netalytics_connections_cut_total");
        let told = Command::new("curl")
            .args(["-sS", &asked])
            .output()
            .expect("curl runs");
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        if told.contains("\"cause\":\"evicted\"") {
            Ok(())
        } else {
            Err(told)
        }
    });
}

/// Without `--ca`, the system's authorities are trusted, which OpenSSL's variable names.
#[test]
fn system_authorities_are_trusted_by_default() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let token = format!("{}/admin.token", server.data);
    let variables = [
        ("NETALYTICS_SERVER", server.url.as_str()),
        ("NETALYTICS_TOKEN_FILE", &token),
    ];
    let refused = shell(&folder, "netalytics jobs", &variables);
    assert_ne!(refused.code, 0, "its authority is not one of the system's");
    let trusted = shell(
        &folder,
        &format!("SSL_CERT_FILE={} netalytics jobs", server.ca),
        &variables,
    );
    assert_eq!(trusted.code, 0, "{}", trusted.err);
}

#[test]
fn flags_override_environment_and_profile() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let token = format!("{}/admin.token", server.data);
    let secret = fs::read_to_string(&token).expect("the first token");
    let config = folder.path("home/.config/netalytics");
    fs::create_dir_all(&config).expect("a folder");
    fs::copy(&token, format!("{config}/client.token")).expect("copied");
    fs::copy(&server.ca, format!("{config}/ca.pem")).expect("copied");
    let profile = |text: &str| fs::write(format!("{config}/client.toml"), text).expect("written");
    let documented =
        block(SERVER_PAGE, "toml").replace("https://netalytics.example:7979", &server.url);
    let wrong = folder.file("wrong.token", b"nl_wrong\n");
    let none = folder.path("none.pem");
    let nobody = "https://127.0.0.1:1";
    let flags = format!(
        "netalytics jobs --server {} --ca {} --token-file {token}",
        server.url, server.ca
    );
    let environment: &[(&str, &str)] = &[
        ("NETALYTICS_SERVER", &server.url),
        ("NETALYTICS_CA", &server.ca),
        ("NETALYTICS_TOKEN_FILE", &token),
    ];
    let misleading: &[(&str, &str)] = &[
        ("NETALYTICS_SERVER", nobody),
        ("NETALYTICS_CA", &none),
        ("NETALYTICS_TOKEN_FILE", &wrong),
    ];
    let bad = format!("server = '{nobody}'\nca = '{none}'\ntoken_file = '{wrong}'");
    let elsewhere = documented.replace(&server.url, nobody);
    let by_token = [
        ("NETALYTICS_TOKEN", secret.trim()),
        ("NETALYTICS_TOKEN_FILE", &wrong),
    ];
    for (text, line, variables, code, words) in [
        (documented.as_str(), "netalytics jobs", &[][..], 0, ""),
        (&bad, "netalytics jobs", environment, 0, ""),
        (&bad, &flags, misleading, 0, ""),
        // The token itself takes precedence over a token file.
        (&documented, "netalytics jobs", &by_token, 0, ""),
        (
            &documented,
            "netalytics jobs",
            &[("NETALYTICS_TOKEN_FILE", &wrong)],
            2,
            "the token does not exist",
        ),
        (
            &documented,
            "netalytics jobs",
            &[("NETALYTICS_CA", &none)],
            1,
            "none.pem",
        ),
        // Another server gets no token of the profile's.
        (
            &elsewhere,
            &format!("netalytics jobs --server {}", server.url),
            &[],
            2,
            "no token: use",
        ),
        (
            "tokn = 'x'",
            "netalytics jobs",
            &[],
            2,
            "unknown key `tokn`",
        ),
        ("server =", "netalytics jobs", &[], 2, "client.toml"),
    ] {
        profile(text);
        let ran = shell(&folder, line, variables);
        assert!(
            ran.code == code && ran.err.contains(words),
            "{line} {variables:?}: {} {}",
            ran.code,
            ran.err
        );
    }
    // A query needs the flag, and takes the rest from the profile.
    profile(&documented);
    let line = format!(
        "netalytics explain 'PARSE http PROCESS (rate)' --server {}",
        server.url
    );
    let ran = shell(&folder, &line, &[]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn tokens_come_to_files_that_only_their_owner_reads() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let file = folder.file("shop.token", b"an older one");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
    let made = server.ask(&["tokens", "create", "shop", "--role", "view", "--out", &file]);
    assert_eq!((made.code, made.out.as_str()), (0, ""), "{}", made.err);
    let invited = folder.path("web-1.token");
    let made = server.ask(&["agents", "enroll", "web-1", "--out", &invited]);
    assert_eq!((made.code, made.out.as_str()), (0, ""), "{}", made.err);
    for path in [&file, &invited] {
        assert_eq!(
            fs::metadata(path).expect("it exists").permissions().mode() & 0o777,
            0o600,
            "{path}"
        );
    }
    let asked = [
        "jobs",
        "--server",
        &server.url,
        "--ca",
        &server.ca,
        "--token-file",
        &file,
    ];
    super::check(&asked, 0, &[]);
    // Nothing is created if the file cannot be written, and an existing file is unchanged if nothing is created.
    let nowhere = folder.path("none/a.token");
    assert_eq!(
        server
            .ask(&[
                "tokens", "create", "lost", "--role", "view", "--out", &nowhere
            ])
            .code,
        1
    );
    assert!(
        server
            .rows(&["tokens"])
            .iter()
            .all(|token| token["name"] != "lost")
    );
    let before = fs::read(&file).expect("a token");
    assert_eq!(
        server
            .ask(&["tokens", "create", "shop", "--role", "view", "--out", &file])
            .code,
        1
    );
    assert_eq!(fs::read(&file).expect("a token"), before);
}

#[test]
fn an_agents_key_stays_on_its_host() {
    let folder = Folder::new();
    let server = Server::start(&folder, "server", &[]);
    let own = server.enrolled(&folder, "web-1");
    let pem = fs::read_to_string(format!("{own}/identity.pem")).expect("the identity");
    let key = pem.split_once("PRIVATE KEY-----\n").expect("a key").1;
    let line = key.lines().nth(1).expect("a second line").as_bytes();
    let der = Command::new("openssl")
        .args([
            "pkey",
            "-in",
            &format!("{own}/identity.pem"),
            "-outform",
            "DER",
        ])
        .output()
        .expect("openssl runs");
    // The private key: 32 bytes after a header of two (RFC 5915, section 3).
    let at = der
        .stdout
        .windows(2)
        .position(|head| head == [0x04, 0x20])
        .expect("a key")
        + 2;
    let secret = &der.stdout[at..at + 32];
    assert!(holds(Path::new(&own), line), "the agent has its key");
    let of_server = Path::new(&server.data);
    assert!(holds(of_server, b"web-1"), "the server knows the agent");
    assert!(
        !holds(of_server, secret) && !holds(of_server, line),
        "the server has the agent's key"
    );
}

/// Whether a file below a folder contains these bytes.
fn holds(folder: &Path, bytes: &[u8]) -> bool {
    fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            holds(&path, bytes)
        } else {
            fs::read(&path)
                .expect("bytes")
                .windows(bytes.len())
                .any(|window| window == bytes)
        }
    })
}

#[test]
fn a_trusted_proxy_names_its_clients_before_tls() {
    let folder = Folder::new();
    let server = Server::start(
        &folder,
        "server",
        &["--trusted-proxy", "127.0.0.0/8", "--proxy-protocol"],
    );
    let health = |flags: &[&str]| {
        let url = format!("{}/api/v1/health", server.url);
        let curl = Command::new("curl")
            .args(["-sS", "--cacert", &server.ca, &url])
            .args(flags)
            .output();
        String::from_utf8_lossy(&curl.expect("curl runs").stdout).into_owned()
    };
    assert!(health(&["--haproxy-protocol"]).contains("\"ok\""));
    assert_eq!(health(&[]), "");
}

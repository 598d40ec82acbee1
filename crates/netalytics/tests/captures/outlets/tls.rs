//! TLS to real servers, with certificates created by openssl: errors are explained, retried, and counted.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::posts::Posts;
use super::{Done, Query, Server, free_port, over_shop, shop, wait_for};

/// A trusted and a foreign certificate authority, and certificates of servers.
pub struct Certificates(TempDir);

impl Certificates {
    /// `None` without openssl, if `ALLOW_MISSING` names it.
    pub fn make() -> Option<Certificates> {
        testkit::require!("openssl");
        let made = Certificates(tempfile::tempdir().expect("a folder"));
        for authority in ["ours", "another"] {
            made.openssl(&format!(
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {authority}.key -out {authority}.pem \
                 -subj /CN={authority} -days 2"
            ));
        }
        for (name, who, days) in [
            ("right", "IP:127.0.0.1,DNS:localhost", 1),
            ("wrong-name", "DNS:other.example", 1),
            ("expired", "IP:127.0.0.1", -1),
        ] {
            std::fs::write(made.path("names"), format!("subjectAltName={who}")).expect("written");
            made.openssl(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout {name}.key -out {name}.csr -subj /CN=server"
            ));
            made.openssl(&format!(
                "x509 -req -in {name}.csr -CA ours.pem -CAkey ours.key -CAcreateserial -out {name}.pem -days {days} -extfile names"
            ));
        }
        Some(made)
    }

    fn openssl(&self, arguments: &str) {
        let ran = Command::new("openssl")
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .output();
        let ran = ran.expect("openssl");
        assert!(
            ran.status.success(),
            "{arguments}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }
}

/// Accepts lines over TLS and discards them.
const READER: &str = "
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[2], sys.argv[3])
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
while True:
    try:
        connection = context.wrap_socket(listener.accept()[0], server_side=True)
        while connection.recv(65536):
            pass
        connection.close()
    except OSError:
        pass
";

/// A running server; requests of a webhook are recorded.
enum Started {
    Program(Server),
    Posts(Posts),
}

impl Started {
    fn kill(self) {
        match self {
            Started::Program(server) => drop(server),
            Started::Posts(posts) => drop(posts.heard()),
        }
    }
}

/// A server with that certificate.
fn start(scheme: &str, certificates: &Certificates, name: &str, port: u16) -> Started {
    let certificate = certificates.text(&format!("{name}.pem"));
    let key = certificates.text(&format!("{name}.key"));
    let server = match scheme {
        "rediss" => Started::Program(Server::start(
            Command::new("redis-server")
                .args([
                    "--bind",
                    "127.0.0.1",
                    "--port",
                    "0",
                    "--save",
                    "",
                    "--appendonly",
                    "no",
                ])
                .args(["--tls-port", &port.to_string(), "--tls-auth-clients", "no"])
                .args(["--tls-cert-file", &certificate, "--tls-key-file", &key])
                .args(["--tls-ca-cert-file", &certificates.text("ours.pem")]),
        )),
        "tcps" => {
            let port = port.to_string();
            let reader = ["-c", READER, &port, &certificate, &key];
            Started::Program(Server::start(Command::new("python3").args(reader)))
        }
        _ => Started::Posts(Posts::start_tls(
            Path::new("python3"),
            port,
            (&certificate, &key),
        )),
    };
    wait_for("the server", || {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    });
    server
}

fn to(scheme: &str, port: u16, certificates: &Certificates, authority: &str) -> String {
    let secret = super::file(certificates.0.path(), "secret", "s3cret");
    let secret = if scheme.starts_with("webhook") {
        format!("&secret-file={secret}")
    } else {
        String::new()
    };
    let authority = certificates.text(&format!("{authority}.pem"));
    format!("{scheme}://127.0.0.1:{port}#ca-file={authority}{secret}")
}

fn refused(done: &Done, what: &str) {
    done.adds_up();
    assert_eq!(
        (done.count("/sent"), done.count("/lost/gave_up")),
        (0, done.lines.len() as u64),
        "{}",
        done.err
    );
    assert!(done.count("/counts/retries") > 0, "{}", done.err);
    assert!(done.err.contains(what), "{what}: {}", done.err);
}

#[test]
fn only_verified_servers_receive_rows() {
    let Some(certificates) = Certificates::make() else {
        return;
    };
    for scheme in ["rediss", "webhook+https", "tcps"] {
        testkit::require!("redis-server", "python3");
        for (certificate, authority, problem) in [
            ("right", "ours", ""),
            ("right", "another", "not signed by a trusted authority"),
            ("wrong-name", "ours", "for another name"),
            ("expired", "ours", "has expired"),
        ] {
            let port = free_port();
            let server = start(scheme, &certificates, certificate, port);
            let to = to(scheme, port, &certificates, authority);
            let done = over_shop(
                "PARSE http PROCESS (top-k)",
                &["--to", &to, "--to-retry", "400ms"],
            );
            match problem {
                "" => {
                    done.adds_up();
                    assert_eq!(
                        (done.code, done.lost()),
                        (Some(0), 0),
                        "{scheme}: {}",
                        done.err
                    );
                }
                problem => refused(&done, problem),
            }
            server.kill();
        }
    }
}

#[test]
fn pending_rows_are_sent_after_a_certificate_renewal() {
    let Some(certificates) = Certificates::make() else {
        return;
    };
    testkit::require!("redis-server");
    let port = free_port();
    let server = start("rediss", &certificates, "expired", port);
    let to = to("rediss", port, &certificates, "ours");
    let mut run = Query::start(
        "PARSE http PROCESS (top-k: w=1s)",
        &["--to", &to, "--to-timeout", "60s"],
    );
    run.feed(&shop());
    run.end();
    server.kill();
    let _server = start("rediss", &certificates, "right", port);
    let done = run.done();
    done.adds_up();
    assert_eq!((done.code, done.lost()), (Some(0), 0), "{}", done.err);
    let asked = Command::new("redis-cli")
        .args([
            "--tls",
            "--cacert",
            &certificates.text("ours.pem"),
            "-p",
            &port.to_string(),
        ])
        .args(["zcard", "netalytics:top-k"])
        .stderr(Stdio::null())
        .output()
        .expect("a client");
    assert_ne!(String::from_utf8_lossy(&asked.stdout).trim(), "0");
}

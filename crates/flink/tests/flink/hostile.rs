//! Any response: the client takes limited time and memory, and returns an error message.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flink::{FlinkAuthorization, FlinkError, GatewayOptions, SqlGateway};
use testkit::programs::{self, TestProgram};

use crate::fake::{Fake, Reply, fine};

fn hasty() -> GatewayOptions {
    GatewayOptions {
        answer: Duration::from_millis(700),
        statement: Duration::from_secs(2),
        patience: Duration::from_millis(300),
        answer_bytes_max: 1 << 20,
        rows_max: 50,
        ..GatewayOptions::default()
    }
}

/// A correct gateway, except for the response to one path.
fn gateway_but(path: &'static str, reply: impl Fn() -> Reply + Send + Sync + 'static) -> Fake {
    Fake::start(move |asked, _| match asked {
        _ if asked == path => reply(),
        "GET /v1/info" => fine(r#"{"productName":"Apache Flink","version":"2.2.1"}"#),
        "POST /v1/sessions" => fine(r#"{"sessionHandle":"5e55-10"}"#),
        "GET /v1/sessions/5e55-10" => fine(r#"{"properties":{}}"#),
        "POST /v1/sessions/5e55-10/statements" => fine(r#"{"operationHandle":"09-e7a"}"#),
        "GET /v1/sessions/5e55-10/operations/09-e7a/status" => fine(r#"{"status":"FINISHED"}"#),
        "GET /v1/sessions/5e55-10/operations/09-e7a/result/0" => fine(
            r#"{"results":{"columns":[{"name":"a"}],"data":[{"kind":"INSERT","fields":["x"]}]},"resultType":"EOS"}"#,
        ),
        "DELETE /v1/sessions/5e55-10" | "DELETE /v1/sessions/5e55-10/operations/09-e7a/close" => {
            fine("{}")
        }
        _ => Reply::Json(404, r#"{"errors":["Not found"]}"#.into()),
    })
}

/// Opens a session and executes a statement.
fn use_it(fake: &Fake, options: GatewayOptions) -> Result<(), FlinkError> {
    SqlGateway::open(&fake.url, options)?
        .execute("SELECT 1")
        .map(|rows| assert_eq!(rows.first(), Some("x")))
}

#[track_caller]
fn check(path: &'static str, words: &str, is_it: fn(&FlinkError) -> bool, reply: fn() -> Reply) {
    let fake = gateway_but(path, reply);
    let begun = Instant::now();
    let error = use_it(&fake, hasty()).expect_err(words);
    assert!(
        begun.elapsed() < Duration::from_secs(30),
        "{path}: {:.1?}",
        begun.elapsed()
    );
    let text = error.to_string();
    assert!(
        text.contains(words) && text.len() < 1000 && is_it(&error),
        "{path}: {error:?}"
    );
}

const INFO: &str = "GET /v1/info";
const SESSIONS: &str = "POST /v1/sessions";
const STATEMENTS: &str = "POST /v1/sessions/5e55-10/statements";
const STATUS: &str = "GET /v1/sessions/5e55-10/operations/09-e7a/status";
const RESULT: &str = "GET /v1/sessions/5e55-10/operations/09-e7a/result/0";

#[test]
fn conforming_gateway_is_understood() {
    let fake = gateway_but("", || Reply::Silence);
    use_it(&fake, hasty()).expect("all is well");
}

#[test]
fn responses_are_bounded_in_time_and_bytes() {
    let foreign: fn(&FlinkError) -> bool = |error| matches!(error, FlinkError::Foreign(_));
    let passing: fn(&FlinkError) -> bool = |error| error.is_passing();
    let refused: fn(&FlinkError) -> bool = |error| matches!(error, FlinkError::Refused(_));
    for path in [INFO, SESSIONS, STATEMENTS, STATUS, RESULT] {
        check(path, "takes too long", passing, || Reply::Silence);
        check(path, "takes too long", passing, || Reply::Slow);
        check(path, "more than 1048576 bytes", foreign, || Reply::Endless);
        check(path, "cannot be read", foreign, || {
            Reply::Raw(b"SSH-2.0-OpenSSH_9.2p1\r\n".repeat(200))
        });
        check(path, "status 503", passing, || {
            Reply::Json(503, "no healthy upstream".into())
        });
        check(path, "requires authentication", refused, || {
            Reply::Json(401, "{}".into())
        });
        check(path, "use the address of the redirect", foreign, || {
            Reply::Json(302, String::new())
        });
        check(path, "does not respond like Flink", foreign, || {
            fine("<html>Welcome to nginx!</html>")
        });
        check(path, "does not respond like Flink", foreign, || {
            fine(&"[".repeat(100_000))
        });
        check(path, "does not respond like Flink", foreign, || {
            fine(r#"{"status":7,"sessionHandle":"../../x?"}"#)
        });
        // An incomplete response.
        let cut = || Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_vec());
        check(path, "the SQL Gateway at http://127.0.0.1", |_| true, cut);
    }
    check(STATUS, "has not finished a statement", passing, || {
        fine(r#"{"status":"RUNNING"}"#)
    });
    check(STATUS, "has ended the statement", passing, || {
        fine(r#"{"status":"CANCELED"}"#)
    });
    check(RESULT, "more than 50 rows", foreign, || {
        let row = r#"{"kind":"INSERT","fields":[1]},"#.repeat(99);
        fine(&format!(
            r#"{{"results":{{"columns":[],"data":[{row}{{}}]}},"nextResultUri":"/x"}}"#
        ))
    });
    let not_ready =
        || fine(r#"{"results":{},"resultType":"NOT_READY","nextResultUri":"http://elsewhere/"}"#);
    check(RESULT, "returns rows endlessly", passing, not_ready);
}

#[test]
fn addresses_of_others_are_recognized() {
    for (info, config, words) in [
        (
            r#"{"productName":"Apache Flink","version":"1.18.1"}"#,
            "",
            "is Flink 1.18.1: 1.19 or later is needed",
        ),
        (
            r#"{"productName":"Apache Flink","version":"next"}"#,
            "",
            "reports the invalid version",
        ),
        (
            "",
            r#"{"flink-version":"2.2.1"}"#,
            "the SQL Gateway's address is required",
        ),
        ("", "", "the SQL Gateway at"),
    ] {
        let fake = Fake::start(move |asked, _| match asked {
            "GET /v1/info" if !info.is_empty() => fine(info),
            "GET /config" if !config.is_empty() => fine(config),
            _ => Reply::Json(404, r#"{"errors":["Not found"]}"#.into()),
        });
        let error = SqlGateway::open(&fake.url, hasty())
            .map(|_| ())
            .expect_err(words)
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn a_secret_is_shown_to_the_gateway_alone() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&heard);
    let other_ear = Arc::clone(&heard);
    let cluster = Fake::start(move |_, whole| {
        other_ear
            .lock()
            .expect("whole")
            .push(("cluster", whole.to_owned()));
        fine(r#"{"flink-version":"2.2.1"}"#)
    });
    let port = cluster.url.rsplit_once(':').expect("a port").1.to_owned();
    let fake = Fake::start(move |asked, whole| {
        ear.lock()
            .expect("whole")
            .push(("gateway", whole.to_owned()));
        match asked {
            "GET /v1/info" => fine(r#"{"productName":"Apache Flink","version":"2.2.1"}"#),
            "GET /v1/sessions/5e" => fine(&format!(
                r#"{{"properties":{{"rest.address":"127.0.0.1","rest.port":"{port}"}}}}"#
            )),
            "POST /v1/sessions" => fine(r#"{"sessionHandle":"5e"}"#),
            _ => Reply::Json(500, r#"{"errors":["no"]}"#.into()),
        }
    });
    let options = GatewayOptions {
        authorization: Some(FlinkAuthorization::bearer("hunter2")),
        ..hasty()
    };
    assert!(!format!("{options:?}").contains("hunter2"));
    let with_password = fake.url.replace("http://", "http://me:hunter3@");
    for (url, header) in [
        (&fake.url, "authorization: bearer hunter2"),
        (&with_password, "authorization: basic bwu6"),
    ] {
        let gateway = SqlGateway::open(url, options.clone()).expect("a session");
        assert!(
            gateway
                .cluster()
                .is_some_and(|cluster| !cluster.peer().contains("hunter"))
        );
        let error = gateway.execute("SELECT 1").expect_err("refused");
        assert!(!error.to_string().contains("hunter"), "{error}");
        drop(gateway);
        let heard = std::mem::take(&mut *heard.lock().expect("whole"));
        for (peer, whole) in heard {
            assert_eq!(
                whole.to_lowercase().contains(header),
                peer == "gateway",
                "{peer}: {whole}"
            );
        }
    }
}

/// Behind a TLS proxy with its own certificate.
#[test]
fn certificates_are_verified() {
    testkit::require!("openssl", "socat");
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let cert = path("cert.pem");
    let key = path("key.pem");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args([
            "-subj",
            "/CN=gateway",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
        ])
        .args([
            "-addext",
            "basicConstraints=critical,CA:FALSE",
            "-days",
            "1",
            "-out",
            &cert,
            "-keyout",
            &key,
        ])
        .output()
        .expect("openssl");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let fake = gateway_but("", || Reply::Silence);
    let port = programs::free_port();
    let _proxy = TestProgram::start(
        Command::new("socat")
            .arg(format!(
                "OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,cert={cert},key={key},verify=0"
            ))
            .arg(fake.url.replace("http://", "TCP:")),
    );
    let open = |authorities: Option<&str>| {
        let options = GatewayOptions {
            authorities: authorities.map(Into::into),
            ..hasty()
        };
        let gateway = SqlGateway::open(&format!("https://127.0.0.1:{port}"), options)?;
        gateway.execute("SELECT 1").map(|_| ())
    };
    programs::wait_for("the proxy", || {
        open(Some(&cert)).map_err(|error| error.to_string())
    });
    let error = open(None).expect_err("nobody knows it").to_string();
    assert!(
        error.contains("its certificate is not trusted here"),
        "{error}"
    );
    for (file, words) in [
        (key.as_str(), "has no certificate"),
        ("/nowhere/ca.pem", "/nowhere/ca.pem"),
    ] {
        let error = open(Some(file)).expect_err(words);
        assert!(
            matches!(&error, FlinkError::WrongUse(why) if why.contains(words)),
            "{error:?}"
        );
    }
}

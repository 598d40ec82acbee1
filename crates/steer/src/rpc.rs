//! Queries of Open vSwitch's daemons at their sockets, as by `ovs-appctl` and `ovs-vsctl`: JSON-RPC 1.0, a connection
//! per query. A job needs dozens of them before its packets are copied, and on a busy machine starting a program for
//! each takes longer than everything else.

use std::fs;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde_json::{Value, json};

use crate::backend::SwitchError;

/// Maximum bytes of a response.
const ANSWER_MAX: u64 = 64 << 20;

/// A table of the database, and the requested columns; of all rows, or of the one with this name.
pub type Select<'a> = (&'a str, &'a [&'a str], Option<&'a str>);

/// Output of a command of `ovs-vswitchd`, whose socket is in this directory.
pub fn command(run: &Path, words: &[&str], patience: Duration) -> Result<String, SwitchError> {
    let program = "ovs-vswitchd";
    let [method, parameters @ ..] = words else {
        return Ok(String::new());
    };
    let socket = control(run, program, patience)?;
    let said = ask(&socket, program, method, json!(parameters), patience)?;
    said.as_str()
        .map(str::to_owned)
        .ok_or_else(|| strange(program))
}

/// Control socket of `ovs-vswitchd`: the one named by its process id, or, with another name, one in the directory that
/// this program answers.
pub fn control(run: &Path, program: &str, patience: Duration) -> Result<PathBuf, SwitchError> {
    if let Ok(pid) = fs::read_to_string(run.join("ovs-vswitchd.pid")) {
        let usual = run.join(format!("ovs-vswitchd.{}.ctl", pid.trim()));
        if usual.exists() {
            return Ok(usual);
        }
    }
    let files = fs::read_dir(run).map_err(|why| away(program, &why))?;
    let mut sockets: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    sockets.retain(|path| path.extension().is_some_and(|extension| extension == "ctl"));
    sockets.sort();
    let is_it = |socket: &PathBuf| {
        let version = ask(socket, program, "version", json!([]), patience);
        version.is_ok_and(|version| {
            version
                .as_str()
                .is_some_and(|text| text.starts_with(program))
        })
    };
    sockets.into_iter().find(is_it).ok_or_else(|| {
        let none = format!("no control socket (*.ctl) in {} answers", run.display());
        away(program, &io::Error::new(ErrorKind::NotFound, none))
    })
}

/// Rows of tables of the database in one transaction, with cells in the order of the columns.
pub fn select(
    run: &Path,
    selects: &[Select<'_>],
    patience: Duration,
) -> Result<Vec<Vec<Vec<Value>>>, SwitchError> {
    let program = "ovsdb-server";
    let operation = |(table, columns, name): &Select<'_>| {
        let which = name.map(|name| json!(["name", "==", name]));
        json!({"op": "select", "table": table, "columns": columns, "where": which.into_iter().collect::<Vec<_>>()})
    };
    let tables = transact(run, selects.iter().map(operation).collect(), patience)?;
    if tables.len() != selects.len() {
        return Err(strange(program));
    }
    let rows = |(table, (_, columns, _)): (&Value, &Select<'_>)| {
        let rows = table
            .get("rows")
            .and_then(Value::as_array)
            .ok_or_else(|| refused(program, table))?;
        let row = |row: &Value| columns.iter().map(|column| row[*column].clone()).collect();
        Ok(rows.iter().map(row).collect())
    };
    tables.iter().zip(selects).map(rows).collect()
}

/// Results of operations on the database in one transaction, with one more element if its commit fails.
pub fn transact(
    run: &Path,
    operations: Vec<Value>,
    patience: Duration,
) -> Result<Vec<Value>, SwitchError> {
    let program = "ovsdb-server";
    let parameters: Vec<Value> = std::iter::once(json!("Open_vSwitch"))
        .chain(operations)
        .collect();
    let said = ask(
        &run.join("db.sock"),
        program,
        "transact",
        parameters.into(),
        patience,
    )?;
    let results = said.as_array().ok_or_else(|| strange(program))?;
    let failed = |result: &&Value| result.get("error").is_some_and(|error| !error.is_null());
    match results.iter().find(failed) {
        Some(result) => Err(refused(program, result)),
        None => Ok(results.clone()),
    }
}

fn ask(
    socket: &Path,
    program: &str,
    method: &str,
    parameters: Value,
    patience: Duration,
) -> Result<Value, SwitchError> {
    let failed = |why: io::Error| match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => SwitchError::Silent {
            program: program.to_owned(),
            seconds: patience.as_secs(),
        },
        _ => away(program, &why),
    };
    let mut connection = TimedConnection::connect(socket, patience).map_err(failed)?;
    let question = json!({"id": 0, "method": method, "params": parameters});
    connection
        .write_all(question.to_string().as_bytes())
        .map_err(failed)?;
    let answers = BufReader::new(connection.take(ANSWER_MAX));
    let answers = serde_json::Deserializer::from_reader(answers).into_iter::<Value>();
    for answer in answers {
        let answer = answer.map_err(|why| {
            if why.is_io() {
                failed(why.into())
            } else {
                strange(program)
            }
        })?;
        // A daemon may send keepalive requests.
        if answer.get("method").is_some() {
            continue;
        }
        let error = answer.get("error").filter(|error| !error.is_null());
        return error.map_or_else(
            || Ok(answer["result"].clone()),
            |error| Err(refused(program, error)),
        );
    }
    Err(strange(program))
}

/// A connection with a total timeout, including its setup.
struct TimedConnection {
    connection: UnixStream,
    until: Instant,
}

impl TimedConnection {
    fn connect(socket: &Path, patience: Duration) -> io::Result<TimedConnection> {
        let until = Instant::now() + patience;
        let connection = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // Connecting to a hanging daemon blocks like sending while its queue is full.
        set_socket_timeout(&connection, Timeout::Send, Some(patience))?;
        connect(&connection, &SocketAddrUnix::new(socket)?)?;
        Ok(TimedConnection {
            connection: connection.into(),
            until,
        })
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            Err(ErrorKind::TimedOut.into())
        } else {
            Ok(Some(left))
        }
    }
}

impl Read for TimedConnection {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.connection.set_read_timeout(self.left()?)?;
        self.connection.read(into)
    }
}

impl Write for TimedConnection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.connection.set_write_timeout(self.left()?)?;
        self.connection.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.connection.flush()
    }
}

fn away(program: &str, why: &io::Error) -> SwitchError {
    SwitchError::NoProgram {
        program: program.to_owned(),
        why: why.to_string(),
    }
}

fn refused(program: &str, said: &Value) -> SwitchError {
    let said = said
        .as_str()
        .map_or_else(|| said.to_string(), |said| said.trim().to_owned());
    SwitchError::Refused {
        program: program.to_owned(),
        said,
    }
}

fn strange(program: &str) -> SwitchError {
    SwitchError::NotUnderstood(format!("{program} sent an unexpected response"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A daemon that sends this for any request.
    fn daemon(said: &'static str) -> tempfile::TempDir {
        let run = tempfile::tempdir().expect("a folder");
        fs::write(run.path().join("ovs-vswitchd.pid"), "7\n").expect("a file");
        for socket in ["ovs-vswitchd.7.ctl", "db.sock"] {
            let listener = UnixListener::bind(run.path().join(socket)).expect("a socket");
            std::thread::spawn(move || {
                let (mut asked, _) = listener.accept().expect("a request");
                let mut first = [0; 1000];
                let _ = asked.read(&mut first).expect("a question");
                asked.write_all(said.as_bytes()).expect("it is heard");
                // A silent daemon keeps the connection open.
                std::thread::sleep(Duration::from_secs(2));
            });
        }
        run
    }

    /// The database's daemon and other programs have sockets there, too.
    #[test]
    fn a_control_socket_may_have_any_name() {
        let patience = Duration::from_millis(500);
        let run = tempfile::tempdir().expect("a folder");
        let none = command(run.path(), &["dpif/show"], patience)
            .expect_err("nobody is there")
            .to_string();
        assert!(none.contains("*.ctl"), "{none}");
        drop(UnixListener::bind(run.path().join("a.ctl")).expect("a socket"));
        for (name, version) in [
            ("b", "ovsdb-server (Open vSwitch) 3.1.0"),
            ("switch", "ovs-vswitchd (Open vSwitch) 3.1.0"),
        ] {
            let listener =
                UnixListener::bind(run.path().join(format!("{name}.ctl"))).expect("a socket");
            std::thread::spawn(move || {
                for mut asked in listener.incoming().map_while(Result::ok) {
                    let mut question = [0; 1000];
                    let read = asked.read(&mut question).expect("a question");
                    let is_version =
                        String::from_utf8_lossy(&question[..read]).contains("\"version\"");
                    let said = json!({"id": 0, "error": null, "result": if is_version { version } else { name }});
                    asked
                        .write_all(said.to_string().as_bytes())
                        .expect("it is heard");
                }
            });
        }
        assert_eq!(
            command(run.path(), &["dpif/show"], patience),
            Ok("switch".to_owned())
        );
    }

    #[test]
    fn answers_are_read() {
        let patience = Duration::from_millis(200);
        let words = |said| command(daemon(said).path(), &["ofproto/trace", "br0"], patience);
        let asks_first = r#"{"id":"echo","method":"echo","params":[]}{"id":0,"result":"Flow: tcp\n","error":null}"#;
        assert_eq!(words(asks_first), Ok("Flow: tcp\n".to_owned()));
        let refuses =
            words(r#"{"id":0,"result":null,"error":"no bridge\n"}"#).expect_err("an error");
        assert_eq!(refuses.to_string(), "ovs-vswitchd failed: no bridge");
        assert!(matches!(
            words(r#"{"id":0,"#),
            Err(SwitchError::Silent { .. })
        ));
        assert!(matches!(
            words(r#"{"id":0,"result":1}"#),
            Err(SwitchError::NotUnderstood(_))
        ));
        assert!(matches!(
            words("<html>"),
            Err(SwitchError::NotUnderstood(_))
        ));
        let away =
            command(Path::new("/nowhere"), &["list-commands"], patience).expect_err("an error");
        assert!(
            away.to_string().starts_with("cannot run ovs-vswitchd: "),
            "{away}"
        );
    }

    /// The timeout also applies to a daemon that sends data slowly, or does not accept connections.
    #[test]
    fn calls_end_after_their_timeout() {
        let patience = Duration::from_millis(200);
        let ask = |run: &Path| command(run, &["list-commands"], patience);
        let run = daemon("");
        let socket = run.path().join("ovs-vswitchd.7.ctl");
        fs::remove_file(&socket).expect("it exists");
        let listener = UnixListener::bind(&socket).expect("a socket");
        std::thread::spawn(move || {
            let (mut asked, _) = listener.accept().expect("a request");
            for _ in 0..40 {
                std::thread::sleep(Duration::from_millis(50));
                let _ = asked.write_all(b" ");
            }
            let _ = asked.write_all(br#"{"id":0,"result":"late","error":null}"#);
        });
        assert!(matches!(ask(run.path()), Err(SwitchError::Silent { .. })));
        fs::remove_file(&socket).expect("it exists");
        let full = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        );
        let full = full.expect("a socket");
        let address = SocketAddrUnix::new(&socket).expect("a path");
        rustix::net::bind(&full, &address).expect("it is free");
        rustix::net::listen(&full, 0).expect("it listens");
        let _waits = UnixStream::connect(&socket).expect("there is room for one");
        assert!(matches!(ask(run.path()), Err(SwitchError::Silent { .. })));
    }

    #[test]
    fn rows_are_in_the_order_of_columns() {
        let patience = Duration::from_millis(200);
        let asked: [Select<'_>; 2] = [
            ("Port", &["name", "tag"], None),
            ("Bridge", &["mirrors"], Some("br0")),
        ];
        let rows = |said| select(daemon(said).path(), &asked, patience);
        let both = rows(
            r#"{"id":0,"error":null,"result":[{"rows":[{"tag":5,"name":"v1"}]},{"rows":[]}]}"#,
        );
        assert_eq!(both, Ok(vec![vec![vec![json!("v1"), json!(5)]], vec![]]));
        let refused = rows(r#"{"id":0,"error":null,"result":[{"rows":[]},{"error":"no column"}]}"#);
        assert!(
            refused
                .expect_err("an error")
                .to_string()
                .contains("no column")
        );
        assert!(rows(r#"{"id":0,"error":null,"result":[{"rows":[]}]}"#).is_err());
    }
}

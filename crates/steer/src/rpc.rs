//! What Open vSwitch's daemons are asked at their sockets, as `ovs-appctl` and `ovs-vsctl` ask them: JSON-RPC 1.0, a connection for each question.
//! A job asks dozens of them while its packets are not copied yet, and on a busy machine starting a program for each takes longer than all else.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::backend::Failed;

/// An answer that is longer is not believed.
const ANSWER_MAX: u64 = 64 << 20;

/// A table of the database, and the columns that are asked for; of all its rows, or of the one with this name.
pub type Select<'a> = (&'a str, &'a [&'a str], Option<&'a str>);

/// What `ovs-vswitchd` says to a command, whose socket is in this directory.
pub fn command(run: &Path, words: &[&str], patience: Duration) -> Result<String, Failed> {
    let program = "ovs-vswitchd";
    let [method, parameters @ ..] = words else { return Ok(String::new()) };
    let pid = fs::read_to_string(run.join("ovs-vswitchd.pid")).map_err(|why| away(program, &why))?;
    let socket = run.join(format!("ovs-vswitchd.{}.ctl", pid.trim()));
    let said = ask(&socket, program, method, json!(parameters), patience)?;
    said.as_str().map(str::to_owned).ok_or_else(|| strange(program))
}

/// Rows of tables of the database as they are at one moment, each row in the order of the columns.
pub fn select(
    run: &Path,
    selects: &[Select<'_>],
    patience: Duration,
) -> Result<Vec<Vec<Vec<Value>>>, Failed> {
    let program = "ovsdb-server";
    let operation = |(table, columns, name): &Select<'_>| {
        let which = name.map(|name| json!(["name", "==", name]));
        json!({"op": "select", "table": table, "columns": columns, "where": which.into_iter().collect::<Vec<_>>()})
    };
    let parameters: Vec<Value> =
        std::iter::once(json!("Open_vSwitch")).chain(selects.iter().map(operation)).collect();
    let said = ask(&run.join("db.sock"), program, "transact", parameters.into(), patience)?;
    let tables =
        said.as_array().filter(|tables| tables.len() == selects.len()).ok_or_else(|| strange(program))?;
    let rows = |(table, (_, columns, _)): (&Value, &Select<'_>)| {
        let rows = table.get("rows").and_then(Value::as_array).ok_or_else(|| refused(program, table))?;
        let row = |row: &Value| columns.iter().map(|column| row[*column].clone()).collect();
        Ok(rows.iter().map(row).collect())
    };
    tables.iter().zip(selects).map(rows).collect()
}

fn ask(
    socket: &Path,
    program: &str,
    method: &str,
    parameters: Value,
    patience: Duration,
) -> Result<Value, Failed> {
    let failed = |why: std::io::Error| match why.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            Failed::Silent { program: program.to_owned(), seconds: patience.as_secs() }
        }
        _ => away(program, &why),
    };
    let mut connection = UnixStream::connect(socket).map_err(failed)?;
    connection.set_read_timeout(Some(patience)).map_err(failed)?;
    connection.set_write_timeout(Some(patience)).map_err(failed)?;
    let question = json!({"id": 0, "method": method, "params": parameters});
    connection.write_all(question.to_string().as_bytes()).map_err(failed)?;
    let answers = serde_json::Deserializer::from_reader(connection.take(ANSWER_MAX)).into_iter::<Value>();
    for answer in answers {
        let answer = answer.map_err(|why| if why.is_io() { failed(why.into()) } else { strange(program) })?;
        // A daemon may ask, too: whether we are still there.
        if answer.get("method").is_some() {
            continue;
        }
        let error = answer.get("error").filter(|error| !error.is_null());
        return error.map_or_else(|| Ok(answer["result"].clone()), |error| Err(refused(program, error)));
    }
    Err(strange(program))
}

fn away(program: &str, why: &std::io::Error) -> Failed {
    Failed::NoProgram { program: program.to_owned(), why: why.to_string() }
}

fn refused(program: &str, said: &Value) -> Failed {
    let said = said.as_str().map_or_else(|| said.to_string(), |said| said.trim().to_owned());
    Failed::Refused { program: program.to_owned(), said }
}

fn strange(program: &str) -> Failed {
    Failed::NotUnderstood(format!("{program} answers in another way"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A daemon that says this, whatever it is asked.
    fn daemon(said: &'static str) -> tempfile::TempDir {
        let run = tempfile::tempdir().expect("a folder");
        fs::write(run.path().join("ovs-vswitchd.pid"), "7\n").expect("a file");
        for socket in ["ovs-vswitchd.7.ctl", "db.sock"] {
            let listener = UnixListener::bind(run.path().join(socket)).expect("a socket");
            std::thread::spawn(move || {
                let (mut asked, _) = listener.accept().expect("somebody asks");
                let mut first = [0; 1000];
                let _ = asked.read(&mut first).expect("a question");
                asked.write_all(said.as_bytes()).expect("it is heard");
                // Whoever says nothing more may stay.
                std::thread::sleep(Duration::from_secs(2));
            });
        }
        run
    }

    #[test]
    fn answers_are_read() {
        let patience = Duration::from_millis(200);
        let words = |said| command(daemon(said).path(), &["ofproto/trace", "br0"], patience);
        let asks_first =
            r#"{"id":"echo","method":"echo","params":[]}{"id":0,"result":"Flow: tcp\n","error":null}"#;
        assert_eq!(words(asks_first), Ok("Flow: tcp\n".to_owned()));
        let refuses = words(r#"{"id":0,"result":null,"error":"no bridge\n"}"#).expect_err("an error");
        assert_eq!(refuses.to_string(), "ovs-vswitchd says: no bridge");
        assert!(matches!(words(r#"{"id":0,"#), Err(Failed::Silent { .. })));
        assert!(matches!(words(r#"{"id":0,"result":1}"#), Err(Failed::NotUnderstood(_))));
        assert!(matches!(words("<html>"), Err(Failed::NotUnderstood(_))));
        let away = command(Path::new("/nowhere"), &["list-commands"], patience).expect_err("an error");
        assert!(away.to_string().starts_with("ovs-vswitchd does not run: "), "{away}");
    }

    #[test]
    fn rows_are_in_the_order_of_columns() {
        let patience = Duration::from_millis(200);
        let asked: [Select<'_>; 2] =
            [("Port", &["name", "tag"], None), ("Bridge", &["mirrors"], Some("br0"))];
        let rows = |said| select(daemon(said).path(), &asked, patience);
        let both = rows(r#"{"id":0,"error":null,"result":[{"rows":[{"tag":5,"name":"v1"}]},{"rows":[]}]}"#);
        assert_eq!(both, Ok(vec![vec![vec![json!("v1"), json!(5)]], vec![]]));
        let refused = rows(r#"{"id":0,"error":null,"result":[{"rows":[]},{"error":"no column"}]}"#);
        assert!(refused.expect_err("an error").to_string().contains("no column"));
        assert!(rows(r#"{"id":0,"error":null,"result":[{"rows":[]}]}"#).is_err());
    }
}

//! A minimal client of Flink's SQL Gateway.

use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Agent;

/// A session.
pub struct Gateway {
    url: String,
    agent: Agent,
}

impl Gateway {
    /// Opens a session without restarts, so that failures are reported.
    pub fn new(url: &str) -> Gateway {
        let agent =
            Agent::new_with_config(Agent::config_builder().http_status_as_error(false).build());
        let mut gateway = Gateway {
            url: format!("{}/v3/sessions", url.trim_end_matches('/')),
            agent,
        };
        let properties =
            json!({ "table.local-time-zone": "UTC", "restart-strategy.type": "disable" });
        let session = gateway.post("", json!({ "properties": properties }));
        let handle = session["sessionHandle"]
            .as_str()
            .unwrap_or_else(|| panic!("no session: {session}"));
        gateway.url = format!("{}/{handle}", gateway.url);
        gateway
    }

    /// The rows of a statement.
    pub fn rows(&self, statement: &str) -> Result<Vec<Vec<Value>>, String> {
        let operation = self.post("/statements", json!({ "statement": statement }));
        let handle = operation["operationHandle"]
            .as_str()
            .ok_or_else(|| operation.to_string())?;
        let mut rows = Vec::new();
        let mut token = 0;
        let until = Instant::now() + Duration::from_secs(240);
        loop {
            let page = self.get(&format!(
                "/operations/{handle}/result/{token}?rowFormat=JSON"
            ));
            if let Some(errors) = page.get("errors") {
                let text = errors.to_string();
                let causes: Vec<&str> = text
                    .split("\\n")
                    .filter(|l| l.contains("Caused by"))
                    .collect();
                return Err(if causes.is_empty() {
                    text
                } else {
                    causes.join("\n")
                });
            }
            let data = page["results"]["data"].as_array().into_iter().flatten();
            rows.extend(data.map(|row| row["fields"].as_array().cloned().unwrap_or_default()));
            match page["resultType"].as_str() {
                Some("EOS") => return Ok(rows),
                Some("PAYLOAD") => token += 1,
                _ => sleep(Duration::from_millis(50)),
            }
            if Instant::now() > until {
                return Err(format!("no answer to {statement}"));
            }
        }
    }

    fn post(&self, path: &str, body: Value) -> Value {
        let request = self
            .agent
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json");
        let text = request
            .send(body.to_string())
            .and_then(|mut r| r.body_mut().read_to_string());
        parsed(&text.unwrap_or_else(|e| panic!("{path}: {e}")))
    }

    fn get(&self, path: &str) -> Value {
        let text = self
            .agent
            .get(format!("{}{path}", self.url))
            .call()
            .and_then(|mut r| r.body_mut().with_config().limit(1 << 30).read_to_string());
        parsed(&text.unwrap_or_else(|e| panic!("{path}: {e}")))
    }
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A query that returns rows, each value given as text. A VALUES list with a cast per value would be one source per
/// row.
pub fn values(columns: &[(String, &str)], rows: &[Vec<Option<String>>]) -> String {
    let quoted = |value: &Option<String>| match value {
        Some(text) => format!("'{}'", text.replace('\'', "''")),
        None => "'<null>'".into(),
    };
    let rows: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "({})",
                row.iter().map(quoted).collect::<Vec<_>>().join(", ")
            )
        })
        .collect();
    let typed = |(i, (name, sql_type)): (usize, &(String, &str))| match *sql_type {
        "BYTES" => format!("UNHEX(NULLIF(v{i}, '<null>')) AS `{name}`"),
        other => format!("CAST(NULLIF(v{i}, '<null>') AS {other}) AS `{name}`"),
    };
    let typed: Vec<String> = columns.iter().enumerate().map(typed).collect();
    let names: Vec<String> = (0..columns.len()).map(|i| format!("v{i}")).collect();
    format!(
        "SELECT {} FROM (VALUES\n{}\n) AS texts({})",
        typed.join(", "),
        rows.join(",\n"),
        names.join(", ")
    )
}

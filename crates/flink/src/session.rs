//! One session of a gateway, and the execution of its statements. A session ends after a time without requests, or when
//! the gateway is restarted; this error is distinguished from all others.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::error::{FlinkError, StatementError};
use crate::error_summary::ErrorSummary;
use crate::http::{HttpAnswer, HttpClient, RequestRepeat};
use crate::options::GatewayOptions;
use crate::rows::StatementRows;

/// Polling interval of a running statement.
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Default idle timeout of a session.
const IDLE: Duration = Duration::from_secs(600);
/// Maximum interval between keepalives.
const BEAT_MAX: Duration = Duration::from_secs(60);

/// Reason why a statement failed.
pub(crate) enum StatementFailure {
    /// The session did not exist; nothing was done.
    Gone,
    /// The session was lost during the request; the result is unknown.
    Broken(String),
    /// Timeout; the result is unknown.
    Late(String),
    /// Any other error.
    Error(FlinkError),
}

impl From<FlinkError> for StatementFailure {
    fn from(error: FlinkError) -> StatementFailure {
        match error {
            FlinkError::Unclear(why) => StatementFailure::Broken(why),
            error => StatementFailure::Error(error),
        }
    }
}

/// A session by its handle.
pub(crate) struct SqlSession<'g> {
    pub(crate) http: &'g HttpClient,
    pub(crate) handle: &'g str,
    pub(crate) options: &'g GatewayOptions,
}

/// Creates a session; returns its handle.
pub(crate) fn open(
    http: &HttpClient,
    options: &GatewayOptions,
    patience: Duration,
) -> Result<String, FlinkError> {
    // A superfluous session expires.
    let own = [
        // Times are UTC, and statements that start jobs do not wait for their end.
        ("table.local-time-zone", "UTC"),
        ("table.dml-sync", "false"),
        ("execution.runtime-mode", "streaming"),
    ];
    let mut properties: serde_json::Map<String, Value> = own
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect();
    properties.extend(
        options
            .properties
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(value.as_str()))),
    );
    let body = json!({"sessionName": "netalytics", "properties": properties});
    let answer = http.ask(
        "POST",
        "/v1/sessions",
        Some(&body),
        RequestRepeat::Harmless,
        patience,
    )?;
    match answer.body["sessionHandle"].as_str() {
        Some(handle) if answer.is_fine() && is_handle(handle) => Ok(handle.to_owned()),
        _ => Err(http.foreign(&answer)),
    }
}

/// A handle is used in paths, so only characters of a UUID are allowed.
fn is_handle(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

impl SqlSession<'_> {
    /// Runs a statement and waits for its result.
    pub(crate) fn run(
        &self,
        statement: &str,
        config: &[(&str, &str)],
    ) -> Result<StatementRows, StatementFailure> {
        let end = Instant::now() + self.options.statement;
        let operation = self.begin(statement, config)?;
        let path = format!("/v1/sessions/{}/operations/{operation}", self.handle);
        let done = self
            .wait(&path, statement, end)
            .and_then(|()| self.rows(&path, statement, end));
        // Frees the statement's memory in the gateway before the session ends.
        self.http.farewell(&format!("{path}/close"));
        done
    }

    fn begin(&self, statement: &str, config: &[(&str, &str)]) -> Result<String, StatementFailure> {
        let config: serde_json::Map<String, Value> = config
            .iter()
            .map(|(name, value)| ((*name).to_owned(), Value::from(*value)))
            .collect();
        let body = json!({"statement": statement, "executionConfig": config});
        let path = format!("/v1/sessions/{}/statements", self.handle);
        let answer = self.http.ask(
            "POST",
            &path,
            Some(&body),
            RequestRepeat::Harmful,
            self.options.patience,
        )?;
        if self.is_gone(&answer) {
            return Err(StatementFailure::Gone);
        }
        match answer.body["operationHandle"].as_str() {
            Some(handle) if answer.is_fine() && is_handle(handle) => Ok(handle.to_owned()),
            _ => Err(self.refused(&answer, statement).into()),
        }
    }

    fn wait(&self, path: &str, statement: &str, end: Instant) -> Result<(), StatementFailure> {
        let mut pause = Duration::from_millis(10);
        loop {
            let answer = self.look(&format!("{path}/status"), end)?;
            match answer.body["status"].as_str() {
                // An error is part of the result.
                Some("FINISHED" | "ERROR") => return Ok(()),
                Some("INITIALIZED" | "PENDING" | "RUNNING") => {}
                Some(other @ ("CANCELED" | "CLOSED" | "TIMEOUT")) => {
                    return Err(StatementFailure::Broken(format!(
                        "the gateway has ended the statement: {other}"
                    )));
                }
                _ => return Err(self.refused(&answer, statement).into()),
            }
            if Instant::now() + pause > end {
                let seconds = self.options.statement.as_secs();
                return Err(StatementFailure::Broken(format!(
                    "Flink has not finished a statement after {seconds} s"
                )));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK_MAX);
        }
    }

    /// Reads all pages of the result.
    fn rows(
        &self,
        path: &str,
        statement: &str,
        end: Instant,
    ) -> Result<StatementRows, StatementFailure> {
        let mut rows = StatementRows::default();
        let mut token = 0_u64;
        loop {
            let answer = self.look(&format!("{path}/result/{token}"), end)?;
            if !answer.is_fine() || !answer.body["results"].is_object() {
                return Err(self.refused(&answer, statement).into());
            }
            rows.take_in(&answer.body);
            if rows.rows.len() > self.options.rows_max {
                let most = self.options.rows_max;
                return Err(FlinkError::Foreign(format!(
                    "{} returned more than {most} rows",
                    self.http.peer()
                ))
                .into());
            }
            match answer.body["resultType"].as_str() {
                Some("NOT_READY") => thread::sleep(Duration::from_millis(50)),
                _ if answer.body["nextResultUri"].is_null() => return Ok(rows),
                _ => token += 1,
            }
            if Instant::now() > end {
                return Err(StatementFailure::Late(
                    "the gateway returns rows endlessly".into(),
                ));
            }
        }
    }

    fn look(&self, path: &str, end: Instant) -> Result<HttpAnswer, StatementFailure> {
        let patience = end
            .saturating_duration_since(Instant::now())
            .min(self.options.patience);
        let answer = self
            .http
            .ask("GET", path, None, RequestRepeat::Harmless, patience)?;
        if self.is_gone(&answer) {
            Err(StatementFailure::Broken(
                "the gateway was restarted, or has closed the session".into(),
            ))
        } else {
            Ok(answer)
        }
    }

    /// Whether the gateway reports an unknown session or operation.
    fn is_gone(&self, answer: &HttpAnswer) -> bool {
        let stack = answer.stack();
        !answer.is_fine() && stack.contains(self.handle) && stack.contains("does not exist")
            || stack.contains("Can not find the submitted operation")
    }

    fn refused(&self, answer: &HttpAnswer, statement: &str) -> FlinkError {
        let stack = answer.stack();
        if stack.is_empty() {
            self.http.foreign(answer)
        } else {
            let said = ErrorSummary::of(&stack);
            FlinkError::Statement(Box::new(StatementError::new(statement, said)))
        }
    }

    /// Sends a keepalive; returns whether the session exists.
    pub(crate) fn beat(&self) -> Result<bool, FlinkError> {
        let path = format!("/v1/sessions/{}/heartbeat", self.handle);
        let answer = self.http.ask(
            "POST",
            &path,
            Some(&json!({})),
            RequestRepeat::Harmless,
            Duration::ZERO,
        )?;
        Ok(!self.is_gone(&answer))
    }

    /// Ends the session, which would also expire.
    pub(crate) fn close(&self) {
        self.http.farewell(&format!("/v1/sessions/{}", self.handle));
    }

    /// Flink's configuration known to the gateway.
    pub(crate) fn properties(&self) -> Result<Value, FlinkError> {
        let path = format!("/v1/sessions/{}", self.handle);
        let answer = self
            .http
            .ask("GET", &path, None, RequestRepeat::Harmless, Duration::ZERO)?;
        if answer.is_fine() {
            Ok(answer.body["properties"].clone())
        } else {
            Err(self.http.foreign(&answer))
        }
    }
}

/// Interval of keepalives, from the gateway's configuration.
pub(crate) fn beat_every(properties: &Value) -> Duration {
    let said = properties["sql-gateway.session.idle-timeout"].as_str();
    let idle = match said {
        None => IDLE,
        Some(text) => duration(text).unwrap_or(Duration::from_secs(6)),
    };
    if idle.is_zero() {
        BEAT_MAX
    } else {
        (idle / 3).clamp(Duration::from_millis(200), BEAT_MAX)
    }
}

/// Parses Flink's durations: `10 min`, `5s`, and without a unit milliseconds.
fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let ms = match text[end..].trim() {
        "" | "ms" | "milli" | "millis" | "millisecond" | "milliseconds" => 1,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        _ => return None,
    };
    Some(Duration::from_millis(number.checked_mul(ms)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_come_three_times_while_a_session_would_live() {
        for (idle, ms) in [
            (json!("10 min"), 60_000),
            (json!("3s"), 1_000),
            (json!("900"), 300),
            (json!("0"), 60_000),
            (json!("0 ms"), 60_000),
            (json!("1 ms"), 200),
            (json!("soon"), 2_000),
            (json!("99999999999999999999 d"), 2_000),
            (json!(null), 60_000),
        ] {
            let properties = json!({"sql-gateway.session.idle-timeout": idle});
            assert_eq!(beat_every(&properties).as_millis(), ms, "{properties}");
        }
    }
}

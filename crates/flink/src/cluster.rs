//! REST API of Flink's JobManager: more detailed states of jobs than the gateway reports, and another way to end them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::error::FlinkError;
use crate::error_summary::ErrorSummary;
use crate::http::{HttpAnswer, HttpClient, RequestRepeat};
use crate::options::GatewayOptions;
use crate::state::FlinkJobState;

/// Timeout of an address reported by the gateway.
const LEARNED: Duration = Duration::from_secs(3);

/// See the module documentation.
pub struct FlinkCluster {
    http: HttpClient,
    patience: Duration,
}

/// Checkpoints of a job since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobCheckpoints {
    /// Number of completed checkpoints.
    pub completed: u64,
    /// Number of failed checkpoints.
    pub failed: u64,
    /// Time of the last completed checkpoint, in milliseconds since 1970.
    pub completed_ms: Option<u64>,
    /// Reason of the last failure.
    pub why: Option<String>,
}

/// Managed memory of the TaskManagers' slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotMemory {
    /// Memory of the smallest slot, in bytes.
    pub bytes: u64,
    /// Slots of that TaskManager.
    pub number: u64,
}

/// State of a stop with savepoint.
#[derive(Debug)]
pub(crate) enum StopStatus {
    /// Flink is writing the savepoint.
    InProgress,
    /// Path of the savepoint.
    Done(String),
    /// Failed; the job continues.
    Failed(ErrorSummary),
}

impl FlinkCluster {
    /// The cluster at an address.
    ///
    /// # Errors
    /// `FlinkError::Foreign` if another program answers, `FlinkError::Unreachable` if none.
    pub fn at(url: &str, options: &GatewayOptions) -> Result<FlinkCluster, FlinkError> {
        let http = HttpClient::new("Flink's REST API", url, options)?;
        let answer = http.ask(
            "GET",
            "/config",
            None,
            RequestRepeat::Harmless,
            Duration::ZERO,
        )?;
        if answer.body["flink-version"].is_string() {
            Ok(FlinkCluster {
                http,
                patience: options.patience,
            })
        } else {
            Err(http.foreign(&answer))
        }
    }

    /// The cluster at the address reported by the gateway. It may be unreachable from here, which is not an error.
    pub(crate) fn learned(
        properties: &Value,
        options: &GatewayOptions,
        gateway: &HttpClient,
    ) -> Option<FlinkCluster> {
        let text = |name: &str| properties[name].as_str();
        let host = text("rest.address")?;
        let is_near =
            |host: &str| host.starts_with("127.") || matches!(host, "localhost" | "::1" | "[::1]");
        // A listener on this machine is another program's, unless the gateway is on this machine.
        if host == "0.0.0.0" || is_near(host) && !is_near(gateway.host()) {
            return None;
        }
        let scheme = if text("security.ssl.rest.enabled") == Some("true") {
            "https"
        } else {
            "http"
        };
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host.to_owned()
        };
        let url = format!("{scheme}://{host}:{}", text("rest.port").unwrap_or("8081"));
        // The credentials are not sent, because they belong to the gateway.
        let options = GatewayOptions {
            authorization: None,
            answer: options.answer.min(LEARNED),
            ..options.clone()
        };
        FlinkCluster::at(&url, &options).ok()
    }

    /// Name for messages.
    #[must_use]
    pub fn peer(&self) -> String {
        self.http.peer()
    }

    fn get(&self, path: &str) -> Result<HttpAnswer, FlinkError> {
        self.http
            .ask("GET", path, None, RequestRepeat::Harmless, Duration::ZERO)
    }

    /// A part of the API for a job; `None`: unknown job.
    pub(crate) fn of_job(&self, job: &str, path: &str) -> Result<Option<Value>, FlinkError> {
        let answer = self.get(&format!("/jobs/{job}{path}"))?;
        match answer.status {
            404 if answer.stack().contains(job) => Ok(None),
            200 => Ok(Some(answer.body)),
            _ => Err(self.http.foreign(&answer)),
        }
    }

    pub(crate) fn state(&self, job: &str) -> Result<Option<FlinkJobState>, FlinkError> {
        let Some(found) = self.of_job(job, "")? else {
            return Ok(None);
        };
        let Some(word) = found["state"].as_str() else {
            return Err(FlinkError::Foreign(format!(
                "{} returned no state for job {job}",
                self.peer()
            )));
        };
        let counts = found["status-counts"].as_object();
        let sum = |of: fn(&str) -> bool| -> u64 {
            let counts = counts.into_iter().flatten().filter(|(name, _)| of(name));
            counts.filter_map(|(_, number)| number.as_u64()).sum()
        };
        let tasks = sum(|_| true);
        let at_work = sum(|name| matches!(name, "RUNNING" | "FINISHED"));
        let since_ms = found["timestamps"]["RESTARTING"]
            .as_u64()
            .filter(|ms| *ms > 0);
        let restarting = || FlinkJobState::Restarting {
            why: self.why(job),
            since_ms,
        };
        Ok(Some(match FlinkJobState::of(word) {
            // Flink reports a job as running while its tasks wait for a slot.
            FlinkJobState::Running if at_work < tasks && since_ms.is_some() => restarting(),
            FlinkJobState::Running if at_work < tasks => FlinkJobState::Starting { at_work, tasks },
            FlinkJobState::Restarting { .. } => restarting(),
            FlinkJobState::Failed { .. } => FlinkJobState::Failed { why: self.why(job) },
            state => state,
        }))
    }

    /// The last failure of a job.
    fn why(&self, job: &str) -> Option<ErrorSummary> {
        let found = self.of_job(job, "/exceptions?maxExceptions=1").ok()??;
        let last = &found["exceptionHistory"]["entries"][0]["stacktrace"];
        Some(ErrorSummary::of(
            last.as_str().or(found["root-exception"].as_str())?,
        ))
    }

    /// Managed memory of the smallest slot; `None`: no TaskManager yet, or none that reports it.
    ///
    /// # Errors
    /// `FlinkError::Unreachable` if there is no answer.
    pub fn slot_memory(&self) -> Result<Option<SlotMemory>, FlinkError> {
        let answer = self.get("/taskmanagers")?;
        let of = |found: &Value| {
            let number = found["slotsNumber"].as_u64().filter(|number| *number > 0)?;
            Some(SlotMemory {
                bytes: found["hardware"]["managedMemory"].as_u64()? / number,
                number,
            })
        };
        let all = answer.body["taskmanagers"].as_array();
        Ok(all
            .into_iter()
            .flatten()
            .filter_map(of)
            .min_by_key(|slots| slots.bytes))
    }

    /// A job's checkpoints; `None`: unknown job.
    ///
    /// # Errors
    /// `FlinkError::Unreachable` if there is no answer.
    pub fn checkpoints(&self, job: &str) -> Result<Option<JobCheckpoints>, FlinkError> {
        let Some(found) = self.of_job(job, "/checkpoints")? else {
            return Ok(None);
        };
        let latest = &found["latest"];
        Ok(Some(JobCheckpoints {
            completed: found["counts"]["completed"].as_u64().unwrap_or(0),
            failed: found["counts"]["failed"].as_u64().unwrap_or(0),
            completed_ms: latest["completed"]["latest_ack_timestamp"].as_u64(),
            why: latest["failed"]["failure_message"]
                .as_str()
                .map(|text| ErrorSummary::of(text).sentence),
        }))
    }

    pub(crate) fn cancel(&self, job: &str) -> Result<(), FlinkError> {
        let path = format!("/jobs/{job}?mode=cancel");
        self.http
            .ask("PATCH", &path, None, RequestRepeat::Harmless, self.patience)
            .map(|_| ())
    }

    /// Requests a job to flush and end; returns the number of the request.
    pub(crate) fn drain(&self, job: &str) -> Result<String, FlinkError> {
        let path = format!("/jobs/{job}/stop");
        let body = json!({"drain": true});
        let answer = self.http.ask(
            "POST",
            &path,
            Some(&body),
            RequestRepeat::Harmless,
            Duration::ZERO,
        )?;
        let is_plain = |id: &&str| id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        match answer.body["request-id"].as_str().filter(is_plain) {
            Some(request) => Ok(request.to_owned()),
            None => Err(self.http.foreign(&answer)),
        }
    }

    pub(crate) fn drained(&self, job: &str, request: &str) -> Result<StopStatus, FlinkError> {
        let Some(found) = self.of_job(job, &format!("/savepoints/{request}"))? else {
            return Err(FlinkError::Refused(format!(
                "{} has no record of that stop",
                self.peer()
            )));
        };
        if found["status"]["id"].as_str() == Some("IN_PROGRESS") {
            return Ok(StopStatus::InProgress);
        }
        let operation = &found["operation"];
        Ok(match operation["location"].as_str() {
            Some(path) => StopStatus::Done(path.to_owned()),
            None => StopStatus::Failed(ErrorSummary::of(
                operation["failure-cause"]["stack-trace"]
                    .as_str()
                    .unwrap_or_default(),
            )),
        })
    }

    /// Requests the deletion of a savepoint without waiting for it.
    pub(crate) fn dispose(&self, savepoint: &str) {
        let body = json!({"savepoint-path": savepoint});
        let _ = self.http.ask(
            "POST",
            "/savepoint-disposal",
            Some(&body),
            RequestRepeat::Harmless,
            Duration::ZERO,
        );
    }
}

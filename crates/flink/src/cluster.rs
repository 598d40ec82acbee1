//! REST API of Flink's JobManager: more detailed states of jobs than the gateway reports, and another way to end them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::error::Error;
use crate::http::{Answer, Http, Repeat};
use crate::options::Options;
use crate::said::Said;
use crate::state::State;

/// Timeout of an address reported by the gateway.
const LEARNED: Duration = Duration::from_secs(3);

/// See the module documentation.
pub struct Cluster {
    http: Http,
    patience: Duration,
}

/// Checkpoints of a job since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoints {
    /// Number of completed ones.
    pub completed: u64,
    /// Number of failed ones.
    pub failed: u64,
    /// Time of the last completed one, in milliseconds since 1970.
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
pub(crate) enum Stop {
    /// Flink is at it.
    InProgress,
    /// Path of the savepoint.
    Done(String),
    /// Failed; the job continues.
    Failed(Said),
}

impl Cluster {
    /// The cluster at an address.
    ///
    /// # Errors
    /// `Error::Foreign` if another program answers, `Error::Unreachable` if none.
    pub fn at(url: &str, options: &Options) -> Result<Cluster, Error> {
        let http = Http::new("Flink's REST API", url, options)?;
        let answer = http.ask("GET", "/config", None, Repeat::Harmless, Duration::ZERO)?;
        match answer.body["flink-version"].is_string() {
            true => Ok(Cluster { http, patience: options.patience }),
            false => Err(http.foreign(&answer)),
        }
    }

    /// The cluster at the address reported by the gateway. It may be unreachable from here, which is not an error.
    pub(crate) fn learned(properties: &Value, options: &Options, gateway: &Http) -> Option<Cluster> {
        let text = |name: &str| properties[name].as_str();
        let host = text("rest.address")?;
        let is_near = |host: &str| host.starts_with("127.") || matches!(host, "localhost" | "::1" | "[::1]");
        // A listener on this machine is another program's, unless the gateway is on this machine.
        if host == "0.0.0.0" || is_near(host) && !is_near(gateway.host()) {
            return None;
        }
        let scheme = if text("security.ssl.rest.enabled") == Some("true") { "https" } else { "http" };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let url = format!("{scheme}://{host}:{}", text("rest.port").unwrap_or("8081"));
        // The credentials are not sent, because they belong to the gateway.
        let options = Options { authorization: None, answer: options.answer.min(LEARNED), ..options.clone() };
        Cluster::at(&url, &options).ok()
    }

    /// Name for messages.
    #[must_use]
    pub fn whom(&self) -> String {
        self.http.whom()
    }

    fn get(&self, path: &str) -> Result<Answer, Error> {
        self.http.ask("GET", path, None, Repeat::Harmless, Duration::ZERO)
    }

    /// A part of the API for a job; `None`: unknown job.
    pub(crate) fn of_job(&self, job: &str, path: &str) -> Result<Option<Value>, Error> {
        let answer = self.get(&format!("/jobs/{job}{path}"))?;
        match answer.status {
            404 if answer.stack().contains(job) => Ok(None),
            200 => Ok(Some(answer.body)),
            _ => Err(self.http.foreign(&answer)),
        }
    }

    pub(crate) fn state(&self, job: &str) -> Result<Option<State>, Error> {
        let Some(found) = self.of_job(job, "")? else { return Ok(None) };
        let Some(word) = found["state"].as_str() else {
            return Err(Error::Foreign(format!("{} tells no state of job {job}", self.whom())));
        };
        let counts = found["status-counts"].as_object();
        let sum = |of: fn(&str) -> bool| -> u64 {
            let counts = counts.into_iter().flatten().filter(|(name, _)| of(name));
            counts.filter_map(|(_, number)| number.as_u64()).sum()
        };
        let tasks = sum(|_| true);
        let at_work = sum(|name| matches!(name, "RUNNING" | "FINISHED"));
        let since_ms = found["timestamps"]["RESTARTING"].as_u64().filter(|ms| *ms > 0);
        let restarting = || State::Restarting { why: self.why(job), since_ms };
        Ok(Some(match State::of(word) {
            // Flink reports a job as running while its tasks wait for a slot.
            State::Running if at_work < tasks && since_ms.is_some() => restarting(),
            State::Running if at_work < tasks => State::Starting { at_work, tasks },
            State::Restarting { .. } => restarting(),
            State::Failed { .. } => State::Failed { why: self.why(job) },
            state => state,
        }))
    }

    /// The last failure of a job.
    fn why(&self, job: &str) -> Option<Said> {
        let found = self.of_job(job, "/exceptions?maxExceptions=1").ok()??;
        let last = &found["exceptionHistory"]["entries"][0]["stacktrace"];
        Some(Said::of(last.as_str().or(found["root-exception"].as_str())?))
    }

    /// Managed memory of the smallest slot; `None`: no TaskManager yet, or none that reports it.
    ///
    /// # Errors
    /// `Error::Unreachable` if there is no answer.
    pub fn slot_memory(&self) -> Result<Option<SlotMemory>, Error> {
        let answer = self.get("/taskmanagers")?;
        let of = |found: &Value| {
            let number = found["slotsNumber"].as_u64().filter(|number| *number > 0)?;
            Some(SlotMemory { bytes: found["hardware"]["managedMemory"].as_u64()? / number, number })
        };
        let all = answer.body["taskmanagers"].as_array();
        Ok(all.into_iter().flatten().filter_map(of).min_by_key(|slots| slots.bytes))
    }

    /// A job's checkpoints; `None`: unknown job.
    ///
    /// # Errors
    /// `Error::Unreachable` if there is no answer.
    pub fn checkpoints(&self, job: &str) -> Result<Option<Checkpoints>, Error> {
        let Some(found) = self.of_job(job, "/checkpoints")? else { return Ok(None) };
        let latest = &found["latest"];
        Ok(Some(Checkpoints {
            completed: found["counts"]["completed"].as_u64().unwrap_or(0),
            failed: found["counts"]["failed"].as_u64().unwrap_or(0),
            completed_ms: latest["completed"]["latest_ack_timestamp"].as_u64(),
            why: latest["failed"]["failure_message"].as_str().map(|text| Said::of(text).sentence),
        }))
    }

    pub(crate) fn cancel(&self, job: &str) -> Result<(), Error> {
        let path = format!("/jobs/{job}?mode=cancel");
        self.http.ask("PATCH", &path, None, Repeat::Harmless, self.patience).map(|_| ())
    }

    /// Requests a job to flush and end; returns the number of the request.
    pub(crate) fn drain(&self, job: &str) -> Result<String, Error> {
        let path = format!("/jobs/{job}/stop");
        let body = json!({"drain": true});
        let answer = self.http.ask("POST", &path, Some(&body), Repeat::Harmless, Duration::ZERO)?;
        let is_plain = |id: &&str| id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric());
        match answer.body["request-id"].as_str().filter(is_plain) {
            Some(request) => Ok(request.to_owned()),
            None => Err(self.http.foreign(&answer)),
        }
    }

    pub(crate) fn drained(&self, job: &str, request: &str) -> Result<Stop, Error> {
        let Some(found) = self.of_job(job, &format!("/savepoints/{request}"))? else {
            return Err(Error::Refused(format!("{} knows nothing of that stop", self.whom())));
        };
        if found["status"]["id"].as_str() == Some("IN_PROGRESS") {
            return Ok(Stop::InProgress);
        }
        let operation = &found["operation"];
        Ok(match operation["location"].as_str() {
            Some(path) => Stop::Done(path.to_owned()),
            None => {
                Stop::Failed(Said::of(operation["failure-cause"]["stack-trace"].as_str().unwrap_or_default()))
            }
        })
    }

    /// Requests the deletion of a savepoint without waiting for it.
    pub(crate) fn dispose(&self, savepoint: &str) {
        let body = json!({"savepoint-path": savepoint});
        let _ = self.http.ask("POST", "/savepoint-disposal", Some(&body), Repeat::Harmless, Duration::ZERO);
    }
}

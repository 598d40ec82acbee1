//! A job: a query run by agents, from its submission to its end. This room has the values that all
//! other rooms use.

pub(crate) mod columns;
pub(crate) mod counters;
pub(crate) mod engine_config;
pub(crate) mod fleet_refusal;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

/// Job number: from 1, never reused by a store. Maximum: `i64::MAX`, the largest number of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

impl JobId {
    /// Maximum number.
    pub(crate) const MAX: JobId = JobId(i64::MAX.unsigned_abs());
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = ();

    fn from_str(text: &str) -> Result<JobId, ()> {
        text.parse()
            .ok()
            .filter(|n| *n > 0)
            .map(JobId)
            .filter(|id| *id <= JobId::MAX)
            .ok_or(())
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl utoipa::PartialSchema for JobId {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        String::schema()
    }
}

impl ToSchema for JobId {}

/// Whether a job ends by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// Ends with its LIMIT, its input or its lease.
    #[default]
    OneOff,
    /// Runs until it is stopped, also after a restart of the server.
    Standing,
}

impl JobKind {
    pub(crate) fn word(self) -> &'static str {
        match self {
            JobKind::OneOff => "one_off",
            JobKind::Standing => "standing",
        }
    }

    pub(crate) fn of(word: &str) -> JobKind {
        if word == "standing" {
            JobKind::Standing
        } else {
            JobKind::OneOff
        }
    }
}

/// Data of a job stored for later queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Keep)]
#[serde(rename_all = "snake_case")]
pub enum RetainedRows {
    /// Results.
    #[default]
    Results,
    /// Tuples: they have their own retention, and can answer any query.
    Tuples,
}

impl RetainedRows {
    pub(crate) fn word(self) -> &'static str {
        match self {
            RetainedRows::Results => "results",
            RetainedRows::Tuples => "tuples",
        }
    }

    pub(crate) fn of(word: &str) -> RetainedRows {
        if word == "tuples" {
            RetainedRows::Tuples
        } else {
            RetainedRows::Results
        }
    }
}

/// Bus to which agents publish their results, instead of sending them to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BusKind {
    /// Kafka topics.
    Kafka,
}

/// Process that merges the results on a bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Merger)]
#[serde(rename_all = "snake_case")]
pub enum MergeEngine {
    /// The server.
    #[default]
    Embedded,
    /// A Flink job.
    Flink,
}

impl MergeEngine {
    pub(crate) fn word(self) -> &'static str {
        match self {
            MergeEngine::Embedded => "embedded",
            MergeEngine::Flink => "flink",
        }
    }

    pub(crate) fn of(word: &str) -> MergeEngine {
        if word == "flink" {
            MergeEngine::Flink
        } else {
            MergeEngine::Embedded
        }
    }
}

/// Origin of the tuples that are a job's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TupleOrigin {
    /// Parsers, each with the version of its schema.
    pub parsers: Vec<(String, u16)>,
    /// SAMPLE: `all`, `auto` or a fraction.
    pub sample: String,
}

/// State of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Submitted.
    Planned,
    /// Monitors are being started.
    Arming,
    /// Monitors capture.
    Running,
    /// Stopped; its last windows are being completed.
    Draining,
    /// Ended.
    Ended(JobEnding),
}

/// End of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnding {
    /// Outcome, for programs.
    pub outcome: JobOutcome,
    /// Reason, as text for users.
    pub why: String,
}

/// Outcome of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Outcome)]
#[serde(rename_all = "snake_case")]
pub enum JobOutcome {
    /// All input was processed.
    #[default]
    Finished,
    /// LIMIT or the time limit was reached.
    Limit,
    /// A user stopped it.
    Stopped,
    /// The lease was not renewed.
    Abandoned,
    /// No agent could run the job.
    Failed,
}

impl JobOutcome {
    const WORDS: [(JobOutcome, &'static str); 5] = [
        (JobOutcome::Finished, "finished"),
        (JobOutcome::Limit, "limit"),
        (JobOutcome::Stopped, "stopped"),
        (JobOutcome::Abandoned, "abandoned"),
        (JobOutcome::Failed, "failed"),
    ];

    pub(crate) fn word(self) -> &'static str {
        JobOutcome::WORDS
            .iter()
            .find(|(outcome, _)| *outcome == self)
            .map_or("", |(_, word)| word)
    }

    pub(crate) fn of(word: &str) -> Option<JobOutcome> {
        JobOutcome::WORDS
            .iter()
            .find(|(_, known)| *known == word)
            .map(|(outcome, _)| *outcome)
    }
}

impl JobEnding {
    /// An end with this outcome and reason.
    #[must_use]
    pub fn new(outcome: JobOutcome, why: impl Into<String>) -> JobEnding {
        JobEnding {
            outcome,
            why: why.into(),
        }
    }
}

impl From<&str> for JobEnding {
    fn from(why: &str) -> JobEnding {
        JobEnding::new(JobOutcome::Finished, why)
    }
}

impl JobState {
    /// Name of the state.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            JobState::Planned => "planned",
            JobState::Arming => "arming",
            JobState::Running => "running",
            JobState::Draining => "draining",
            JobState::Ended(_) => "ended",
        }
    }

    pub(crate) fn of(word: &str, reason: Option<String>, outcome: Option<JobOutcome>) -> JobState {
        match word {
            "planned" => JobState::Planned,
            "arming" => JobState::Arming,
            "running" => JobState::Running,
            "draining" => JobState::Draining,
            _ => JobState::Ended(JobEnding::new(
                outcome.unwrap_or_default(),
                reason.unwrap_or_default(),
            )),
        }
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self, JobState::Ended(_))
    }

    /// Reason of the end, if ended.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            JobState::Ended(end) => Some(&end.why),
            _ => None,
        }
    }

    /// Outcome, if ended.
    #[must_use]
    pub fn outcome(&self) -> Option<JobOutcome> {
        match self {
            JobState::Ended(end) => Some(end.outcome),
            _ => None,
        }
    }
}

/// Source of a job's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobSource {
    /// Interfaces of the agents' hosts.
    #[default]
    Interfaces,
    /// Export messages of switches and routers (sFlow, NetFlow, IPFIX) that agents receive.
    Exports,
}

impl JobSource {
    pub(crate) fn word(self) -> &'static str {
        match self {
            JobSource::Interfaces => "interfaces",
            JobSource::Exports => "exports",
        }
    }
}

/// Capture settings of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CaptureRequest {
    /// Source of the packets.
    pub source: JobSource,
    /// Interfaces by name, `*` for any characters; empty: all that an agent may use.
    pub interfaces: Vec<String>,
    /// Capture filter in libpcap's syntax.
    pub filter: Option<String>,
    /// Whether it runs in the server's network, with mirroring by switches.
    pub network: bool,
}

/// Redaction of texts that may identify a person, before they leave an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedactionMode {
    /// Texts are redacted before grouping.
    Folded,
    /// Texts are not redacted, as requested by a user with the role *raw*.
    Raw,
}

/// Definition of a job; it never changes.
#[derive(Clone, Debug)]
pub struct JobSpec {
    /// The query.
    pub query: String,
    /// Name; default: its number.
    pub name: String,
    /// Whether the job ends by itself.
    pub kind: JobKind,
    /// Labels that an agent must have to take part; empty: every agent.
    pub on: BTreeMap<String, String>,
    /// Labels of the job.
    pub labels: BTreeMap<String, String>,
    /// Redaction of texts.
    pub redaction: RedactionMode,
    /// Capture settings.
    pub capture: CaptureRequest,
    /// Seconds without renewal after which it ends.
    pub lease_seconds: Option<u32>,
    /// Data stored for later queries.
    pub keep: RetainedRows,
    /// Process that merges the results on the bus; `None`: agents send them to the server.
    pub merged_by: Option<MergeEngine>,
}

impl JobSpec {
    /// A standing job on all agents that keeps its results.
    pub(crate) fn standing(query: &str, name: &str) -> JobSpec {
        JobSpec {
            query: query.to_owned(),
            name: name.to_owned(),
            kind: JobKind::Standing,
            on: BTreeMap::new(),
            labels: BTreeMap::new(),
            redaction: RedactionMode::Folded,
            capture: CaptureRequest::default(),
            lease_seconds: None,
            keep: RetainedRows::Results,
            merged_by: None,
        }
    }

    /// Whether texts that may identify a person are redacted.
    pub(crate) fn is_redacted(&self) -> bool {
        self.redaction == RedactionMode::Folded
    }
}

/// A job: its specification and its state.
#[derive(Clone, Debug)]
pub struct Job {
    /// Number.
    pub id: JobId,
    /// Specification.
    pub spec: JobSpec,
    /// Token name of the owner.
    pub owner: String,
    /// Origin of its rows, if they are tuples.
    pub tuples: Option<TupleOrigin>,
    /// State.
    pub state: JobState,
    /// Reason for its end, or for not running.
    pub reason: Option<String>,
    /// Time of submission, in nanoseconds since the epoch.
    pub created_ns: i64,
    /// Time of its end.
    pub ended_ns: Option<i64>,
    /// Destinations of its rows besides the history, with their state.
    pub outlets: Vec<JobOutlet>,
}

impl Job {
    /// Labels that identify its series: `job` as in Prometheus, for a group of targets. `id`: its number as text.
    pub(crate) fn series_labels<'l>(&'l self, id: &'l str) -> [(&'l str, &'l str); 2] {
        [("job_id", id), ("job_name", &self.spec.name)]
    }
}

/// State of a job's rows at an outlet.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobOutlet {
    /// Name, or address without secrets.
    pub to: String,
    /// State.
    pub state: OutletState,
    /// Rows acknowledged.
    pub delivered: u64,
    /// Rows waiting for delivery.
    pub behind: u64,
    /// Rows lost.
    pub lost: OutletLosses,
    /// Retries since the start of the server.
    pub retries: u64,
    /// Last error since the start of the server.
    pub problem: Option<String>,
}

/// State of an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutletState {
    /// All available rows were acknowledged.
    Up,
    /// Rows are not accepted; retrying.
    Retrying,
    /// The address cannot be used.
    Broken,
    /// The job has ended, and all its rows were delivered or lost.
    Done,
}

/// Rows that an outlet lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct OutletLosses {
    /// Rejected by the receiver.
    pub refused: u64,
    /// Dropped because too many waited.
    pub backlog: u64,
    /// Removed by retention before the delivery.
    pub gone: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_number_is_a_positive_number_of_the_database() {
        assert_eq!("9223372036854775807".parse(), Ok(JobId::MAX));
        for text in [
            "0",
            "-1",
            "9223372036854775808",
            "18446744073709551615",
            "x",
            "",
        ] {
            assert_eq!(text.parse::<JobId>(), Err(()), "{text}");
        }
    }

    /// A state that is not known would end the job.
    #[test]
    fn states_survive_the_store() {
        let mut states = vec![
            JobState::Planned,
            JobState::Arming,
            JobState::Running,
            JobState::Draining,
        ];
        let ends = JobOutcome::WORDS.map(|(outcome, _)| JobEnding::new(outcome, "why"));
        states.extend(ends.map(JobState::Ended));
        for state in states {
            let outcome = state.outcome().map(JobOutcome::word);
            let outcome = outcome.and_then(JobOutcome::of);
            let reason = state.reason().map(str::to_owned);
            assert_eq!(JobState::of(state.word(), reason, outcome), state);
        }
        // An end as stored by a version without outcomes.
        let old = JobState::of("ended", Some("done".into()), None);
        assert_eq!(old, JobState::Ended("done".into()));
    }
}

//! A job: a query that agents answer, from its request to its end.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;

use crate::columns::{maybe_text, text};

/// A job's number: counted from 1, never given twice by one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub i64);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = ();

    fn from_str(text: &str) -> Result<JobId, ()> {
        text.parse().ok().filter(|n| *n > 0).map(JobId).ok_or(())
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
    /// It ends with its LIMIT, its input or the server's lease.
    #[default]
    OneOff,
    /// It runs until it is stopped, also after the server was started again.
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
        if word == "standing" { JobKind::Standing } else { JobKind::OneOff }
    }
}

/// What is kept of a job's rows for queries that come later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Keep {
    /// Its results, as they are.
    #[default]
    Results,
    /// The tuples themselves: they have a retention of their own, and any query can be asked of them.
    Tuples,
}

impl Keep {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Keep::Results => "results",
            Keep::Tuples => "tuples",
        }
    }

    pub(crate) fn of(word: &str) -> Keep {
        if word == "tuples" { Keep::Tuples } else { Keep::Results }
    }
}

/// Over what agents' findings come together, in place of their sessions with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BusKind {
    /// Topics of Kafka.
    Kafka,
}

/// Who merges what agents publish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Merger {
    /// The server.
    #[default]
    Embedded,
    /// A job of Flink.
    Flink,
}

impl Merger {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Merger::Embedded => "embedded",
            Merger::Flink => "flink",
        }
    }

    pub(crate) fn of(word: &str) -> Merger {
        if word == "flink" { Merger::Flink } else { Merger::Embedded }
    }
}

/// What made the tuples that are a job's rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TuplesMade {
    /// The parsers, each with the version of its schema.
    pub parsers: Vec<(String, u16)>,
    /// SAMPLE: `all`, `auto` or a fraction.
    pub sample: String,
}

/// How far a job has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is asked for.
    Planned,
    /// Monitors are being started.
    Arming,
    /// Packets are being looked at.
    Running,
    /// It was stopped, and its last windows are on their way.
    Draining,
    /// It has ended.
    Ended(End),
}

/// How a job ended, and why in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// How, for programs.
    pub outcome: Outcome,
    /// Why, for people.
    pub why: String,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its agents are through with all there was.
    #[default]
    Finished,
    /// LIMIT, or the end of its time.
    Limit,
    /// A user stopped it.
    Stopped,
    /// Its lease was not renewed.
    Abandoned,
    /// It could not be carried out.
    Failed,
}

impl Outcome {
    const WORDS: [(Outcome, &'static str); 5] = [
        (Outcome::Finished, "finished"),
        (Outcome::Limit, "limit"),
        (Outcome::Stopped, "stopped"),
        (Outcome::Abandoned, "abandoned"),
        (Outcome::Failed, "failed"),
    ];

    pub(crate) fn word(self) -> &'static str {
        Outcome::WORDS.iter().find(|(outcome, _)| *outcome == self).map_or("", |(_, word)| word)
    }

    pub(crate) fn of(word: &str) -> Option<Outcome> {
        Outcome::WORDS.iter().find(|(_, known)| *known == word).map(|(outcome, _)| *outcome)
    }
}

impl End {
    /// Of that kind, for that reason.
    #[must_use]
    pub fn new(outcome: Outcome, why: impl Into<String>) -> End {
        End { outcome, why: why.into() }
    }
}

impl From<&str> for End {
    fn from(why: &str) -> End {
        End::new(Outcome::Finished, why)
    }
}

impl State {
    /// Its name.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            State::Planned => "planned",
            State::Arming => "arming",
            State::Running => "running",
            State::Draining => "draining",
            State::Ended(_) => "ended",
        }
    }

    pub(crate) fn of(word: &str, reason: Option<String>, outcome: Option<Outcome>) -> State {
        match word {
            "planned" => State::Planned,
            "arming" => State::Arming,
            "running" => State::Running,
            "draining" => State::Draining,
            _ => State::Ended(End::new(outcome.unwrap_or_default(), reason.unwrap_or_default())),
        }
    }

    /// Why it ended, if it has.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            State::Ended(end) => Some(&end.why),
            _ => None,
        }
    }

    /// How it ended, if it has.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self {
            State::Ended(end) => Some(end.outcome),
            _ => None,
        }
    }
}

/// What agents capture for a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capture {
    /// Interfaces by name, `*` for any run of characters; none: all that an agent may capture from.
    pub interfaces: Vec<String>,
    /// A capture filter in libpcap's language.
    pub filter: Option<String>,
    /// What the server's network is planned to bring to them.
    pub network: bool,
}

/// What leaves an agent of texts that may say something of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redaction {
    /// They are folded, before groups are made of them.
    Folded,
    /// Texts are not redacted, as requested by a user with the role *raw*.
    Raw,
}

/// A job as submitted.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The query.
    pub query: String,
    /// What it is called; else after its number.
    pub name: String,
    /// Whether it ends by itself.
    pub kind: JobKind,
    /// Labels of agents.
    pub on: BTreeMap<String, String>,
    /// Its own.
    pub labels: BTreeMap<String, String>,
    /// Whether texts are folded.
    pub redaction: Redaction,
    /// What agents capture.
    pub capture: Capture,
    /// Seconds without a renewal after which it ends.
    pub lease_seconds: Option<u32>,
    /// Where its rows go: names of outlets, or addresses.
    pub to: Vec<String>,
    /// What is kept for queries that come later.
    pub keep: Keep,
    /// Who merges what agents publish to the bus; `None`: they send it here.
    pub merged_by: Option<Merger>,
}

impl Submission {
    /// A standing job whose results are kept, on all agents.
    pub(crate) fn standing(query: &str, name: &str) -> Submission {
        Submission {
            query: query.to_owned(),
            name: name.to_owned(),
            kind: JobKind::Standing,
            on: BTreeMap::new(),
            labels: BTreeMap::new(),
            redaction: Redaction::Folded,
            capture: Capture::default(),
            lease_seconds: None,
            to: Vec::new(),
            keep: Keep::Results,
            merged_by: None,
        }
    }
}

/// What is known of a job.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What it is called.
    pub name: String,
    /// The query.
    pub query: String,
    /// Whether it ends by itself.
    pub kind: JobKind,
    /// How far it has come.
    #[serde(serialize_with = "state_word")]
    #[schema(value_type = StateWord)]
    pub state: State,
    /// Reason for its end, or for not running.
    pub reason: Option<String>,
    /// How it ended, once it has.
    pub outcome: Option<Outcome>,
    /// Who asked for it: the name of a token.
    pub owner: String,
    /// Labels that an agent must have to take part.
    pub on: BTreeMap<String, String>,
    /// Its own labels.
    pub labels: BTreeMap<String, String>,
    /// Whether texts that may say something of a person are folded.
    pub redacted: bool,
    /// Interfaces that agents capture from; none: all that they may.
    pub interfaces: Vec<String>,
    /// Which packets they capture, in libpcap's language; none: all.
    pub capture_filter: Option<String>,
    /// Whether it runs in the server's network: monitors where that is planned, switches copy to them.
    pub network: bool,
    /// Seconds without a renewal after which it ends; null without a lease.
    pub lease_seconds: Option<u32>,
    /// What is kept of its rows for queries that come later.
    pub keep: Keep,
    /// Over what agents' findings come together; none: they send them to the server.
    pub bus: Option<BusKind>,
    /// Who merges what is on the bus.
    pub engine: Option<Merger>,
    /// What made its rows, where they are tuples.
    #[serde(skip)]
    pub tuples: Option<TuplesMade>,
    /// When it was asked for, in nanoseconds since the epoch.
    #[serde(serialize_with = "text")]
    #[schema(value_type = String)]
    pub created_ns: i64,
    /// When it ended.
    #[serde(serialize_with = "maybe_text")]
    #[schema(value_type = Option<String>)]
    pub ended_ns: Option<i64>,
    /// Destinations of its rows besides the history, with their state.
    pub outlets: Vec<JobOutlet>,
}

impl Job {
    /// What tells its series from others': `job` is what Prometheus calls a group of targets. `id`: its number as text.
    pub(crate) fn series_labels<'l>(&'l self, id: &'l str) -> [(&'l str, &'l str); 2] {
        [("job_id", id), ("job_name", &self.name)]
    }
}

/// State of a job's rows at an outlet.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct JobOutlet {
    /// Where: a name, or the address without what may be secret.
    pub to: String,
    /// How it goes.
    pub state: OutletState,
    /// Rows that were taken there.
    pub delivered: u64,
    /// Rows that are still to be delivered.
    pub behind: u64,
    /// Rows that were lost.
    pub lost: OutletLosses,
    /// Attempts beyond the first, since the server was started.
    pub retries: u64,
    /// What failed last, since the server was started.
    pub problem: Option<String>,
}

/// How an outlet does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutletState {
    /// It takes what there is.
    Up,
    /// It does not, and is tried again and again.
    Retrying,
    /// Its address cannot be used.
    Broken,
    /// The job has ended, and everything is there or lost.
    Done,
}

/// Rows that an outlet lost, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct OutletLosses {
    /// The other side would not have them.
    pub refused: u64,
    /// More waited than may.
    pub backlog: u64,
    /// Retention had taken them away.
    pub gone: u64,
}

fn state_word<S: Serializer>(state: &State, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.word())
}

/// The names of states, for the API's description.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code)]
pub(crate) enum StateWord {
    Planned,
    Arming,
    Running,
    Draining,
    Ended,
}

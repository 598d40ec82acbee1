//! Reports of a job's executor to the hub: its results, their rows, and its account.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tuple::{Batch, FieldId, Schema};
use utoipa::ToSchema;

use crate::columns;
use crate::job::JobId;

/// A result of a job before its first row.
#[derive(Clone, Debug)]
pub struct ResultTable {
    /// The processor that makes it; `None`: tuples.
    pub processor: Option<String>,
    /// What its batches look like.
    pub schema: Arc<Schema>,
    /// The columns that they have.
    pub columns: Vec<FieldId>,
    /// How many of them, behind those of the window, say which group a row is of.
    pub keys: usize,
}

/// Whether rows may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// They may: the next rows of that result, open or closed, take the place of those of the same window.
    Open,
    /// They never will.
    Closed,
}

/// Who took part in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Names of agents that should have and did not.
    pub missing: Vec<String>,
}

/// Rows of one result of a job.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'d> {
    /// Of which job.
    pub job: JobId,
    /// Of which of its results.
    pub result: usize,
    /// The rows, in their order; may be none.
    pub batch: &'d Batch,
    /// Whether they may still change.
    pub state: WindowState,
    /// Event time has come here.
    pub watermark_ns: i64,
    /// Who took part.
    pub coverage: &'d Coverage,
}

/// What a job has seen by now, for people who watch it. Told about once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Account {
    /// Event time, in nanoseconds since the epoch.
    #[serde(serialize_with = "columns::maybe_text")]
    pub watermark_ns: Option<i64>,
    /// Packets received.
    pub received: u64,
    /// Of these: given to parsers.
    pub parsed: u64,
    /// Refused by FROM, TO or LIMIT.
    pub filtered: u64,
    /// Not of the sample.
    pub sampled_out: u64,
    /// Lost within.
    pub dropped: u64,
    /// No packets that we can read.
    pub undecodable: u64,
    /// Lost before they were received.
    pub lost_before_us: u64,
    /// Tuples that monitors have made, before WHERE.
    pub tuples: u64,
    /// Lost records of agents.
    pub records_lost: u64,
    /// Known number of tuples in these.
    pub tuples_lost: u64,
    /// Tuples by quality.
    pub quality: HashMap<String, u64>,
    /// The share of flows that is looked at: at the agent that looks at the fewest.
    pub sample_rate: Option<f64>,
    /// Which requests two taps have seen, where the query asks for both.
    pub taps: Option<TapAccount>,
    /// The same of each agent; not told in events.
    #[serde(skip)]
    pub agents: Vec<AgentAccount>,
}

/// How many requests were found at which taps of their connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TapAccount {
    /// At both.
    pub joined: u64,
    /// At the client's only.
    pub client_only: u64,
    /// At the server's only.
    pub server_only: u64,
    /// Requests for which there was no room: they were not waited for, or forgotten.
    pub unkept: u64,
}

impl From<stream::TapCounts> for TapAccount {
    fn from(counts: stream::TapCounts) -> TapAccount {
        let stream::TapCounts { joined, client_only, server_only, unkept } = counts;
        TapAccount { joined, client_only, server_only, unkept }
    }
}

/// What an agent has seen of a job, and how it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentAccount {
    /// Its name.
    pub agent: String,
    /// How the job does there: waiting, starting, running, stopping, flushing, finished, poisoned, refused, absent.
    pub state: String,
    /// Why, where it is not as it should be.
    pub reason: Option<String>,
    /// What its monitors have counted, over all their starts: packets, bytes, tuples, flows, gaps, lost.
    pub counters: BTreeMap<String, u64>,
    /// Records that never came.
    pub records_lost: u64,
    /// Tuples in these, as far as is known.
    pub tuples_lost: u64,
}

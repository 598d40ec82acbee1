//! Reports of a job's executor to the hub: its results, their rows, and its account.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use collect::ExporterCounts;
use serde::{Deserialize, Serialize};
use tuple::{Batch, FieldId, Schema};
use utoipa::ToSchema;

use crate::job::JobId;
use crate::job::columns;

/// Schema of a job's result, reported before its first row.
#[derive(Clone, Debug)]
pub struct ResultTable {
    /// Processor; `None`: tuples.
    pub processor: Option<String>,
    /// Schema of its batches.
    pub schema: Arc<Schema>,
    /// Columns in the batches.
    pub columns: Vec<FieldId>,
    /// Number of group columns, which follow those of the window.
    pub keys: usize,
}

/// Whether rows are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowState {
    /// Provisional: replaced by the next rows of the same window, open or closed.
    Open,
    /// Final.
    Closed,
}

/// Agents that took part in rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentCoverage {
    /// Names of missing agents.
    pub missing: Vec<String>,
}

/// Rows of one result of a job.
#[derive(Clone, Copy, Debug)]
pub struct ResultDelivery<'d> {
    /// Job.
    pub job: JobId,
    /// Index of the result.
    pub result: usize,
    /// Rows in order; may be empty.
    pub batch: &'d Batch,
    /// Whether they are final.
    pub state: WindowState,
    /// Watermark.
    pub watermark_ns: i64,
    /// Agents that took part.
    pub coverage: &'d AgentCoverage,
}

/// Counters of a job for its watchers, about once a second.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToSchema)]
pub struct JobAccount {
    /// Watermark, in nanoseconds since the epoch.
    #[serde(serialize_with = "columns::maybe_text")]
    #[schema(value_type = Option<String>)]
    pub watermark_ns: Option<i64>,
    /// Packets received.
    pub received: u64,
    /// Packets passed to parsers.
    pub parsed: u64,
    /// Packets excluded by FROM, TO or LIMIT.
    pub filtered: u64,
    /// Packets excluded by sampling.
    pub sampled_out: u64,
    /// Packets dropped by the monitor.
    pub dropped: u64,
    /// Packets that could not be decoded.
    pub undecodable: u64,
    /// Packets lost before they were received.
    pub lost_before_us: u64,
    /// Tuples made by monitors, before WHERE.
    pub tuples: u64,
    /// Lost records of agents.
    pub records_lost: u64,
    /// Known number of tuples in lost records.
    pub tuples_lost: u64,
    /// Tuples by quality.
    pub quality: HashMap<String, u64>,
    /// Sampling rate of flows: the lowest of all agents.
    pub sample_rate: Option<f64>,
    /// Requests by tap, for a query over both taps.
    pub taps: Option<TapAccount>,
    /// Counters per agent; not part of events.
    #[serde(skip)]
    pub agents: Vec<AgentAccount>,
}

/// Number of requests by the taps that saw them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct TapAccount {
    /// Requests seen at both taps.
    pub joined: u64,
    /// Client's tap only.
    pub client_only: u64,
    /// Server's tap only.
    pub server_only: u64,
    /// Requests not joined for lack of memory.
    pub unkept: u64,
}

impl From<stream::TapCounts> for TapAccount {
    fn from(counts: stream::TapCounts) -> TapAccount {
        let stream::TapCounts {
            joined,
            client_only,
            server_only,
            unkept,
        } = counts;
        TapAccount {
            joined,
            client_only,
            server_only,
            unkept,
        }
    }
}

/// Counters and state of an agent in a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentAccount {
    /// Name.
    pub agent: String,
    /// State of the job on the agent: waiting, starting, running, stopping, flushing, finished, poisoned, refused,
    /// absent.
    pub state: String,
    /// Reason of a problem.
    pub reason: Option<String>,
    /// Counters of its monitors, over all their starts: packets, bytes, tuples, flows, gaps, lost; `monitor_jobs`: the
    /// number of jobs that share the running monitor; `exports.…`: export messages.
    pub counters: BTreeMap<String, u64>,
    /// Records lost before they arrived.
    pub records_lost: u64,
    /// Known number of tuples in lost records.
    pub tuples_lost: u64,
    /// Exporters whose messages its monitors read: those with the largest losses.
    #[serde(default)]
    pub exporters: Vec<ExporterAccount>,
}

/// State of an observation domain of an exporter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExporterAccount {
    /// Address of the exporter.
    pub exporter: String,
    /// Protocol of its messages: sflow, netflow5, netflow9, ipfix.
    pub protocol: String,
    /// Observation domain, source, or sub-agent.
    pub domain: u32,
    /// Units of its sequence numbers received: datagrams (sFlow, NetFlow 9) or records.
    pub received: u64,
    /// Units missing.
    pub lost: u64,
    /// Restarts of the exporter.
    pub restarts: u64,
    /// Clock of the exporter minus that of the agent, in nanoseconds; null without a clock.
    pub clock_offset_ns: Option<String>,
}

impl From<ExporterCounts> for ExporterAccount {
    fn from(counts: ExporterCounts) -> ExporterAccount {
        let ExporterCounts {
            exporter,
            protocol,
            domain,
            received,
            lost,
            restarts,
            clock_offset_ns,
        } = counts;
        ExporterAccount {
            exporter: exporter.to_string(),
            protocol,
            domain,
            received,
            lost,
            restarts,
            clock_offset_ns: clock_offset_ns.map(|ns| ns.to_string()),
        }
    }
}

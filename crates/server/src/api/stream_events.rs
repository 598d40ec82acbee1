//! Data of live events, for the API description. The hub and the stream serialize the events without these types;
//! `tests/server/streams.rs` validates every received event against them.

#![allow(dead_code)]

use utoipa::ToSchema;

use super::jobs::JobStateName;
use crate::job::columns::{CellValue, ColumnHead};
use crate::job::{JobId, JobOutcome};
use crate::results::hub::JobAccount;

/// Event `hello`: the first of a stream.
#[derive(ToSchema)]
pub struct HelloEvent {
    /// Incarnation of the server, the first part of event ids.
    boot: String,
    /// Version of the program.
    version: String,
    /// Jobs of the stream.
    jobs: Vec<JobId>,
    /// Limits of the stream.
    limits: StreamLimits,
}

/// Limits of a stream.
#[derive(ToSchema)]
pub struct StreamLimits {
    /// Seconds for which events are kept for clients that reconnect.
    ring_seconds: u64,
    /// Bytes of events kept per job.
    ring_bytes: u64,
    /// Bytes of events queued per client.
    queue_bytes: u64,
    /// Seconds between comments that keep the connection alive.
    heartbeat_seconds: u64,
    /// Maximum rows per event.
    event_rows: u64,
}

/// Event `snapshot`: state of a job, and the rows of its last windows.
#[derive(ToSchema)]
pub struct SnapshotEvent {
    /// Job.
    job: JobId,
    /// State of the job.
    state: JobStateName,
    /// Reason of that state.
    reason: Option<String>,
    /// Outcome, if ended.
    outcome: Option<JobOutcome>,
    /// Last account; null: none yet.
    account: Option<AccountEvent>,
    /// Results, by index.
    results: Vec<SnapshotResult>,
}

/// A result of a snapshot.
#[derive(ToSchema)]
pub struct SnapshotResult {
    /// Processor; none: tuples.
    processor: Option<String>,
    /// Columns.
    columns: Vec<BoundedColumn>,
    /// Number of group columns, which follow those of the window.
    keys: usize,
    /// Number of final rows so far.
    total: String,
    /// The last closed window.
    closed: SnapshotWindow,
    /// The open window.
    open: SnapshotWindow,
}

/// A column, with the columns of its interval bounds.
#[derive(ToSchema)]
pub struct BoundedColumn {
    #[serde(flatten)]
    column: ColumnHead,
    /// Column of the lower bound; omitted if there is none.
    #[schema(nullable = false)]
    low: Option<String>,
    /// Column of the upper bound; omitted if there is none.
    #[schema(nullable = false)]
    high: Option<String>,
}

/// Rows of a window in a snapshot.
#[derive(ToSchema)]
pub struct SnapshotWindow {
    /// Start, in nanoseconds since the epoch; null: tuples, or no window.
    start: Option<String>,
    /// End, exclusive.
    end: Option<String>,
    /// Rows.
    rows: Vec<Vec<Option<CellValue>>>,
}

/// Event `window`: rows of a window, or tuples.
#[derive(ToSchema)]
pub struct WindowEvent {
    /// Job.
    job: JobId,
    /// Index of the result.
    result: usize,
    /// Start, in nanoseconds since the epoch; null: tuples.
    start: Option<String>,
    /// End, exclusive.
    end: Option<String>,
    /// Whether the rows are final.
    state: WindowStateName,
    /// Rows.
    rows: Vec<Vec<Option<CellValue>>>,
    /// Number of rows beyond the limit of an event.
    rows_left_out: u64,
}

/// State of a window. `open`: its rows are provisional; `closed`: they are final.
#[derive(ToSchema)]
#[schema(as = WindowState, rename_all = "snake_case")]
pub enum WindowStateName {
    Open,
    Closed,
}

/// Event `account`: counters of a job.
#[derive(ToSchema)]
pub struct AccountEvent {
    /// Job.
    job: JobId,
    /// Nanoseconds from the watermark to the server's clock.
    lag_ns: Option<String>,
    #[serde(flatten)]
    account: JobAccount,
}

/// Event `sampling`: change of a job's sampling rate.
#[derive(ToSchema)]
pub struct SamplingEvent {
    /// Job.
    job: JobId,
    /// Share of flows that are processed; null: all.
    rate: Option<f64>,
    /// Reason.
    reason: String,
}

/// Event `job`: change of a job's state.
#[derive(ToSchema)]
pub struct JobEvent {
    /// Job.
    job: JobId,
    /// State of the job.
    state: JobStateName,
    /// Reason of that state.
    reason: Option<String>,
    /// Outcome, if ended.
    outcome: Option<JobOutcome>,
}

/// Event `gap`: events were missed.
#[derive(ToSchema)]
pub struct GapEvent {
    /// Reason.
    reason: String,
    /// Provisional events dropped for a slow client; omitted for a client that reconnects.
    #[schema(nullable = false)]
    provisional_events: Option<u64>,
}

/// Event `bye`: the last of a stream.
#[derive(ToSchema)]
pub struct ByeEvent {
    /// Reason.
    reason: String,
    /// Milliseconds to wait before reconnecting.
    retry_after_ms: u64,
}

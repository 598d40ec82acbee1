//! A job as shown to clients: its state, its results, and the latest rows of each.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use tuple::{Batch, FieldId, Schema};

use super::updates::{AgentAccount, ResultDelivery, TapAccount};
use crate::job::columns::{self, as_kept};
use crate::job::{JobId, JobState};
use crate::results::events::EventRing;
use crate::store::persist_error::PersistError;
use crate::store::sqlite::KeptResult;

/// Maximum rows per event, and of a result shown to a new client.
pub const EVENT_ROWS_MAX: usize = 1000;
/// Approximate maximum bytes of an event.
const EVENT_BYTES_MAX: usize = 256 << 10;

/// A running job, or one viewed recently.
pub struct LiveJob {
    pub state: JobState,
    pub results: Vec<LiveResult>,
    pub account: Value,
    pub agents: Vec<AgentAccount>,
    pub taps: Option<TapAccount>,
    /// Latest sampling rate.
    pub sample_rate: Option<f64>,
    pub ring: EventRing,
}

pub struct LiveResult {
    pub kept: KeptResult,
    /// Columns of its batches; `None`: none has arrived since the start of the server.
    pub columns: Option<Vec<FieldId>>,
    schema: Arc<Schema>,
    /// Latest rows: the last window, or the last tuples.
    pub closed: LatestRows,
    pub open: LatestRows,
}

/// Latest rows.
#[derive(Default)]
pub struct LatestRows {
    pub window: Option<(i64, i64)>,
    /// Rows, each with its size in bytes.
    pub rows: VecDeque<(usize, Value)>,
    bytes: usize,
}

impl LatestRows {
    /// The first rows of a window, up to the limits.
    pub fn of(batch: &Batch, window: Option<(i64, i64)>, rows: Range<usize>) -> LatestRows {
        let mut shown = LatestRows {
            window,
            ..LatestRows::default()
        };
        for row in rows {
            if !shown.push(Value::from(columns::row(batch, row))) {
                break;
            }
        }
        shown
    }

    /// Adds a row if the limits allow; returns whether it did.
    fn push(&mut self, row: Value) -> bool {
        let bytes = row.to_string().len();
        let has_room = self.rows.len() < EVENT_ROWS_MAX && self.bytes + bytes <= EVENT_BYTES_MAX;
        if has_room {
            self.bytes += bytes;
            self.rows.push_back((bytes, row));
        }
        has_room
    }

    pub fn values(&self) -> Vec<&Value> {
        self.rows.iter().map(|(_, row)| row).collect()
    }
}

impl LiveJob {
    /// Creates the view of a job without rows.
    pub fn new(state: JobState, results: Vec<KeptResult>) -> Result<LiveJob, PersistError> {
        Ok(LiveJob {
            state,
            results: results
                .into_iter()
                .map(LiveResult::new)
                .collect::<Result<_, _>>()?,
            account: Value::Null,
            agents: Vec::new(),
            taps: None,
            sample_rate: None,
            ring: EventRing::default(),
        })
    }

    /// The rows as stored.
    ///
    /// # Errors
    /// `PersistError::Columns` if their columns differ from those announced.
    pub fn as_kept(&self, delivery: &ResultDelivery<'_>) -> Result<Batch, PersistError> {
        let result = self.results.get(delivery.result);
        let announced = result.and_then(|result| Some((result.columns.as_ref()?, &result.schema)));
        announced
            .and_then(|(columns, schema)| {
                as_kept(delivery.batch, columns, schema, &delivery.coverage.missing)
            })
            .ok_or(PersistError::Columns)
    }

    pub fn snapshot(&self, job: JobId) -> Value {
        let result = |result: &LiveResult| {
            let window = |shown: &LatestRows| {
                json!({
                    "start": shown.window.map(|(start, _)| start.to_string()),
                    "end": shown.window.map(|(_, end)| end.to_string()),
                    "rows": shown.values(),
                })
            };
            json!({
                "processor": result.kept.processor,
                "columns": columns::with_bounds(&result.kept.columns),
                "keys": result.kept.keys,
                "total": result.kept.next_row.to_string(),
                "closed": window(&result.closed),
                "open": window(&result.open),
            })
        };
        json!({
            "job": job,
            "state": self.state.word(),
            "reason": self.state.reason(),
            "outcome": self.state.outcome(),
            "account": self.account,
            "results": self.results.iter().map(result).collect::<Vec<_>>(),
        })
    }
}

impl LiveResult {
    pub fn new(kept: KeptResult) -> Result<LiveResult, PersistError> {
        let schema = columns::schema(&kept.table, &kept.columns).ok_or(PersistError::Damaged)?;
        Ok(LiveResult {
            kept,
            columns: None,
            schema,
            closed: LatestRows::default(),
            open: LatestRows::default(),
        })
    }

    /// Sets the latest rows: all rows of the last window, or the last tuples.
    pub fn close(&mut self, shown: LatestRows) {
        if self.open.window <= shown.window {
            self.open = LatestRows::default();
        }
        if self.closed.window != shown.window {
            self.closed = shown;
            return;
        }
        let all = &mut self.closed;
        all.bytes += shown.bytes;
        all.rows.extend(shown.rows);
        while all.rows.len() > EVENT_ROWS_MAX || all.bytes > EVENT_BYTES_MAX {
            let Some((bytes, _)) = all.rows.pop_front() else {
                break;
            };
            all.bytes -= bytes;
        }
    }
}

/// Rows of one window: its bounds, first row, number of rows.
pub type Stretch = (Option<(i64, i64)>, usize, usize);

/// Splits a batch by window.
pub fn windows(batch: &Batch) -> Vec<Stretch> {
    let bounds = batch
        .schema()
        .find("window_start")
        .zip(batch.schema().find("window_end"));
    let Some((start, end)) = bounds else {
        // Tuples are split into events of limited size.
        let chunks = (0..batch.rows()).step_by(EVENT_ROWS_MAX);
        return chunks
            .map(|from| (None, from, EVENT_ROWS_MAX.min(batch.rows() - from)))
            .collect();
    };
    let starts = batch.i64(start);
    let ends = batch.i64(end);
    let mut found: Vec<Stretch> = Vec::new();
    for row in 0..batch.rows() {
        let window = Some((starts.value(row), ends.value(row)));
        match found.last_mut() {
            Some((last, _, rows)) if *last == window => *rows += 1,
            _ => found.push((window, row, 1)),
        }
    }
    found
}

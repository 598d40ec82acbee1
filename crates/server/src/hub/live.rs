//! A job as shown to clients: its state, its results, and the latest rows of each.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use tuple::{Batch, FieldId, Schema};

use super::told::{AgentAccount, Delivery, TapAccount};
use crate::columns::{self, as_kept};
use crate::events::Ring;
use crate::job::{JobId, State};
use crate::store::KeptResult;
use crate::unkept::Unkept;

/// Most rows told in one event, and shown of a result to a client that has just come.
pub const EVENT_ROWS_MAX: usize = 1000;
/// Most bytes of an event, about.
const EVENT_BYTES_MAX: usize = 256 << 10;

/// A job that runs, or has been looked at.
pub struct Live {
    pub state: State,
    pub results: Vec<LiveResult>,
    pub account: Value,
    pub agents: Vec<AgentAccount>,
    pub taps: Option<TapAccount>,
    /// Latest sampling rate.
    pub sample_rate: Option<f64>,
    pub ring: Ring,
}

pub struct LiveResult {
    pub kept: KeptResult,
    /// What its batches look like when they come; `None`: none has come to this life of the server.
    pub columns: Option<Vec<FieldId>>,
    schema: Arc<Schema>,
    /// Latest rows: the last window, or the last tuples.
    pub closed: Shown,
    pub open: Shown,
}

/// Latest rows.
#[derive(Default)]
pub struct Shown {
    pub window: Option<(i64, i64)>,
    /// Each with its bytes.
    pub rows: VecDeque<(usize, Value)>,
    bytes: usize,
}

impl Shown {
    /// The first of the rows of a window, as far as there is room.
    pub fn of(batch: &Batch, window: Option<(i64, i64)>, rows: Range<usize>) -> Shown {
        let mut shown = Shown { window, ..Shown::default() };
        for row in rows {
            if !shown.push(Value::from(columns::row(batch, row))) {
                break;
            }
        }
        shown
    }

    /// Adds a row, if there is room.
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

impl Live {
    /// Nothing is known yet of how it does.
    pub fn new(state: State, results: Vec<KeptResult>) -> Result<Live, Unkept> {
        Ok(Live {
            state,
            results: results.into_iter().map(LiveResult::new).collect::<Result<_, _>>()?,
            account: Value::Null,
            agents: Vec::new(),
            taps: None,
            sample_rate: None,
            ring: Ring::default(),
        })
    }

    /// The rows as they are kept; `None` when they are not those that were announced.
    pub fn as_kept(&self, delivery: &Delivery<'_>) -> Option<Batch> {
        let result = self.results.get(delivery.result)?;
        as_kept(delivery.batch, result.columns.as_ref()?, &result.schema, &delivery.coverage.missing)
    }

    pub fn snapshot(&self, job: JobId) -> Value {
        let result = |result: &LiveResult| {
            let window = |shown: &Shown| {
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
    pub fn new(kept: KeptResult) -> Result<LiveResult, Unkept> {
        let schema = columns::schema(&kept.table, &kept.columns).ok_or(Unkept::Damaged)?;
        Ok(LiveResult { kept, columns: None, schema, closed: Shown::default(), open: Shown::default() })
    }

    /// Sets the latest rows: all rows of the last window, or the last tuples.
    pub fn close(&mut self, shown: Shown) {
        if self.open.window <= shown.window {
            self.open = Shown::default();
        }
        if self.closed.window != shown.window {
            self.closed = shown;
            return;
        }
        let all = &mut self.closed;
        all.bytes += shown.bytes;
        all.rows.extend(shown.rows);
        while all.rows.len() > EVENT_ROWS_MAX || all.bytes > EVENT_BYTES_MAX {
            let Some((bytes, _)) = all.rows.pop_front() else { break };
            all.bytes -= bytes;
        }
    }
}

/// Rows of one window: its bounds, the first row, how many.
pub type Stretch = (Option<(i64, i64)>, usize, usize);

/// The stretches of a batch.
pub fn windows(batch: &Batch) -> Vec<Stretch> {
    let bounds = batch.schema().find("window_start").zip(batch.schema().find("window_end"));
    let Some((start, end)) = bounds else {
        // A client learns of any number of tuples by events of a size that it can take.
        let chunks = (0..batch.rows()).step_by(EVENT_ROWS_MAX);
        return chunks.map(|from| (None, from, EVENT_ROWS_MAX.min(batch.rows() - from))).collect();
    };
    let (starts, ends) = (batch.i64(start), batch.i64(end));
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

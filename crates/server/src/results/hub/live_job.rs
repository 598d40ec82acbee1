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

#[cfg(test)]
mod tests {
    use tuple::{DataType, Field, TupleWriter, Unit};

    use super::*;

    /// Rows of windows by their start, with a text.
    fn batch(rows: &[(i64, &str)]) -> Batch {
        let times = ["window_start", "window_end"];
        let times = times.map(|name| Field::new(name, DataType::I64, Unit::EpochNanoseconds, ""));
        let text = Field::new("url", DataType::Text, Unit::None, "");
        let heads = times.iter().chain([&text]).map(columns::ColumnHead::of);
        let schema = columns::schema("t", &heads.collect::<Vec<_>>()).expect("a schema");
        let mut w = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
        for (start, text) in rows {
            w.i64(FieldId(0), *start);
            w.i64(FieldId(1), start + 10);
            w.text(FieldId(2), text.as_bytes());
            w.end_row();
        }
        w.finish()
    }

    fn result() -> LiveResult {
        let columns = columns::heads(batch(&[]).schema(), &[FieldId(0)]);
        let kept = KeptResult {
            place: 0,
            processor: Some("t".into()),
            table: "t".into(),
            columns,
            keys: 0,
            next_row: 0,
            rows_dropped: 0,
        };
        LiveResult::new(kept).expect("columns")
    }

    /// Shows each window of these rows as closed.
    fn close(result: &mut LiveResult, rows: &[(i64, &str)]) {
        let batch = batch(rows);
        for (window, from, rows) in windows(&batch) {
            result.close(LatestRows::of(&batch, window, from..from + rows));
        }
    }

    fn texts(shown: &LatestRows) -> Vec<&str> {
        shown
            .values()
            .into_iter()
            .filter_map(|row| row[2].as_str())
            .collect()
    }

    #[test]
    fn windows_cover_every_row_once() {
        let rows: Vec<_> = [0, 0, 10, 10, 10, 0, 20].map(|start| (start, "")).into();
        let found = windows(&batch(&rows));
        let bounds = |start| Some((start, start + 10));
        assert_eq!(
            found,
            [
                (bounds(0), 0, 2),
                (bounds(10), 2, 3),
                (bounds(0), 5, 1),
                (bounds(20), 6, 1)
            ]
        );
        assert!(windows(&batch(&[])).is_empty());
    }

    #[test]
    fn tuples_are_divided_into_events_of_limited_size() {
        let schema = tuple::Schema::of_parser("t", 1, "test", &[], None, None);
        let schema = Arc::new(schema);
        for (rows, expected) in [
            (0, vec![]),
            (1000, vec![1000]),
            (1001, vec![1000, 1]),
            (5000, vec![1000; 5]),
        ] {
            let mut w = TupleWriter::new(schema.clone(), &[tuple::common::ID]);
            for id in 0..rows {
                w.u64(tuple::common::ID, id);
                w.end_row();
            }
            let found = windows(&w.finish());
            let sizes: Vec<_> = found.iter().map(|(_, _, rows)| *rows).collect();
            assert_eq!(sizes, expected);
            let mut next = 0;
            assert!(
                found
                    .iter()
                    .all(|(_, from, rows)| std::mem::replace(&mut next, from + rows) == *from)
            );
        }
    }

    #[test]
    fn the_rows_shown_are_those_of_the_last_window() {
        let mut result = result();
        close(&mut result, &[(0, "a"), (0, "b")]);
        close(&mut result, &[(0, "c")]);
        assert_eq!(texts(&result.closed), ["a", "b", "c"]);
        close(&mut result, &[(10, "d")]);
        assert_eq!(texts(&result.closed), ["d"]);
        // A window that closes later than a newer one is the last to arrive.
        close(&mut result, &[(0, "e")]);
        assert_eq!(texts(&result.closed), ["e"]);
    }

    #[test]
    fn an_open_window_is_shown_until_it_or_a_later_one_closes() {
        for (closes, is_shown) in [(0, true), (10, false), (20, false)] {
            let mut result = result();
            let open = batch(&[(10, "open")]);
            result.open = LatestRows::of(&open, Some((10, 20)), 0..1);
            close(&mut result, &[(closes, "closed")]);
            assert_eq!(!result.open.rows.is_empty(), is_shown, "{closes}");
        }
    }

    /// The newest rows, and at most as many bytes as an event has.
    #[test]
    fn the_rows_shown_are_limited_by_number_and_by_bytes() {
        let mut by_number = result();
        let mut by_bytes = result();
        let long = "x".repeat(10_000);
        for n in 0..30 {
            let names: Vec<String> = (0..100).map(|row| (n * 100 + row).to_string()).collect();
            close(
                &mut by_number,
                &names
                    .iter()
                    .map(|name| (0, name.as_str()))
                    .collect::<Vec<_>>(),
            );
            let name = format!("{n}{long}");
            close(&mut by_bytes, &[(0, name.as_str())]);
        }
        let shown = texts(&by_number.closed);
        assert_eq!((shown.len(), shown[0], shown[999]), (1000, "2000", "2999"));
        let shown = texts(&by_bytes.closed);
        assert!(shown.len() < 27 && shown.last().is_some_and(|text| text.starts_with("29x")));
        for all in [&by_number.closed, &by_bytes.closed] {
            let bytes: usize = all.rows.iter().map(|(_, row)| row.to_string().len()).sum();
            assert_eq!(all.bytes, bytes);
            assert!(bytes <= EVENT_BYTES_MAX);
        }
    }
}

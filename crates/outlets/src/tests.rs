//! The queue, the thread, and the counters, with a transport that fails on command.

mod addresses;
mod flow_rows;
mod pages;
mod queues;
mod series;
mod threads;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sinks::ResultHead;
use tuple::{Batch, DataType, Field, FieldId, Schema, TupleWriter, Unit};

use crate::counters::{OutletCounters, OutletLoss};
use crate::lines::JsonLinesMapping;
use crate::queue::{NextItem, OutletItem, OutletQueue};
use crate::windows::OpenWindows;
use crate::worker::{DeliveryFault, OutletMessage, OutletThread, OutletTransport};

/// A windowed result: windows of ten seconds by their start, a group and its count.
pub fn result(rows: &[(i64, &str, u64)]) -> Batch {
    let fields = vec![
        Field::new("window_start", DataType::I64, Unit::EpochNanoseconds, ""),
        Field::new("window_end", DataType::I64, Unit::EpochNanoseconds, ""),
        Field::new("url_template", DataType::Text, Unit::None, ""),
        Field::new("count", DataType::U64, Unit::None, "tuples"),
    ];
    let schema = schema(fields);
    let mut w = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
    for (start, url, count) in rows {
        w.i64(FieldId(0), start * 1_000_000_000);
        w.i64(FieldId(1), (start + 10) * 1_000_000_000);
        w.text(FieldId(2), url.as_bytes());
        w.u64(FieldId(3), *count);
        w.end_row();
    }
    w.finish()
}

pub fn schema(fields: Vec<Field>) -> Arc<Schema> {
    Arc::new(Schema {
        name: "group-count".into(),
        version: 1,
        doc: "".into(),
        fields,
        measure: None,
        key: None,
        parts: &[],
        facts: &tuple::SchemaFacts::NONE,
    })
}

/// Like [`result`], with a distribution of six values.
pub fn distribution(url: &str, hist: &str) -> Batch {
    let fields = vec![
        Field::new("window_start", DataType::I64, Unit::EpochNanoseconds, ""),
        Field::new("window_end", DataType::I64, Unit::EpochNanoseconds, ""),
        Field::new("url_template", DataType::Text, Unit::None, ""),
        Field::new("count", DataType::U64, Unit::None, "tuples"),
        Field::new("hist_ns", DataType::Json, Unit::Nanoseconds, "buckets"),
        Field::new("p99_ns_low", DataType::F64, Unit::Nanoseconds, "end"),
        Field::new("approximate", DataType::Bool, Unit::None, "bound"),
        Field::new("lost", DataType::F64, Unit::Fraction, "share"),
    ];
    let schema = schema(fields);
    let mut w = TupleWriter::new(schema.clone(), &schema.ids().collect::<Vec<_>>());
    w.i64(FieldId(0), 0);
    w.i64(FieldId(1), 10_000_000_000);
    w.text(FieldId(2), url.as_bytes());
    w.u64(FieldId(3), 6);
    w.text(FieldId(4), hist.as_bytes());
    w.f64(FieldId(5), 2.5e9);
    w.bool(FieldId(6), true);
    w.end_row();
    w.finish()
}

pub fn head() -> ResultHead {
    ResultHead {
        processor: Some("group-count".into()),
        columns: ["window_start", "window_end", "url_template", "count"]
            .map(String::from)
            .to_vec(),
        keys: 1,
        slide_ns: Some(10_000_000_000),
        parsers: vec!["http".into()],
        ..ResultHead::default()
    }
}

/// A transport that accepts a message only after some attempts.
struct FlakyTransport {
    answers: Vec<Result<(), DeliveryFault>>,
    taken: Arc<Mutex<Vec<OutletMessage>>>,
}

impl OutletTransport for FlakyTransport {
    fn send(&mut self, message: &OutletMessage, _: Duration) -> Result<(), DeliveryFault> {
        let answer = if self.answers.is_empty() {
            Ok(())
        } else {
            self.answers.remove(0)
        };
        answer.map(|()| self.taken.lock().expect("no panic").push(message.clone()))
    }
}

/// Rows acknowledged and counted for these answers of the transport.
fn check(
    answers: Vec<Result<(), DeliveryFault>>,
    retry_max: Duration,
    sent: u64,
    lost: &[(&str, u64)],
    retries: u64,
) {
    let queue = Arc::new(OutletQueue::new(1 << 20));
    let tally = Arc::new(OutletCounters::default());
    let taken = Arc::default();
    let transport = FlakyTransport {
        answers,
        taken: Arc::clone(&taken),
    };
    queue.push(OutletItem::Heads([head()].into()));
    for window in 0..3 {
        queue.push(OutletItem::Rows(
            0,
            result(&[(window, "/", 1), (window, "/a", 2)]),
        ));
        tally
            .rows
            .fetch_add(2, std::sync::atomic::Ordering::Relaxed);
    }
    queue.end(Instant::now() + Duration::from_secs(60));
    let mapping = Box::new(JsonLinesMapping::default());
    let transport = Box::new(transport);
    OutletThread {
        queue,
        tally: tally.clone(),
        mapping,
        transport,
        retry_max,
    }
    .run();
    let delivered = tally.delivered("test".into());
    assert_eq!((delivered.rows, delivered.sent), (6, sent), "{delivered:?}");
    assert_eq!(delivered.sent + delivered.lost_rows(), delivered.rows);
    let some: Vec<_> = delivered
        .lost
        .iter()
        .filter(|(_, rows)| *rows > 0)
        .copied()
        .collect();
    assert_eq!(some, lost);
    assert!(
        delivered.counts.contains(&("retries", retries)),
        "{delivered:?}"
    );
    let rows: u64 = taken
        .lock()
        .expect("no panic")
        .iter()
        .map(|message: &OutletMessage| message.rows)
        .sum();
    assert_eq!(rows, sent);
}

#[test]
fn every_row_is_counted_as_sent_or_lost() {
    let passing = || Err(DeliveryFault::Passing("busy".into()));
    let refused = || Err(DeliveryFault::Final("no".into()));
    let long = Duration::from_secs(60);
    check(vec![], long, 6, &[], 0);
    check(
        vec![passing(), Ok(()), passing(), passing()],
        long,
        6,
        &[],
        3,
    );
    check(vec![Ok(()), refused()], long, 4, &[("refused", 2)], 0);
    // Time for one attempt only.
    check(
        vec![passing(), Ok(())],
        Duration::ZERO,
        4,
        &[("gave_up", 2)],
        0,
    );
}

#[test]
fn oldest_rows_are_dropped_from_a_full_queue() {
    let batch = result(&[(0, "/", 1)]);
    let queue = OutletQueue::new(2 * batch.bytes() + batch.bytes() / 2);
    let lost: u64 = (0..5)
        .map(|window| queue.push(OutletItem::Rows(0, result(&[(window, "/", 1)]))))
        .sum();
    assert_eq!(lost, 3);
    queue.end(Instant::now());
    let mut starts = Vec::new();
    while let NextItem::Item(OutletItem::Rows(_, batch)) = queue.pop() {
        starts.push(batch.i64(FieldId(0)).value(0) / 1_000_000_000);
    }
    assert_eq!(starts, [3, 4]);
    let tiny = OutletQueue::new(1);
    assert_eq!(tiny.push(OutletItem::Rows(0, batch)), 1);
}

#[test]
fn unsent_rows_are_lost_at_the_end() {
    let tally = OutletCounters::default();
    tally
        .rows
        .fetch_add(10, std::sync::atomic::Ordering::Relaxed);
    tally.sent(4);
    tally.lost(OutletLoss::QueueFull, 1);
    let delivered = tally.delivered("x".into());
    assert_eq!(
        delivered.lost,
        [
            ("queue_full", 1),
            ("gave_up", 0),
            ("refused", 0),
            ("at_end", 5)
        ]
    );
}

#[test]
fn rows_are_put_together_by_window() {
    let mut windows = OpenWindows::default();
    assert!(
        windows
            .take(OutletItem::Rows(
                0,
                result(&[(0, "/", 1), (0, "/a", 2), (10, "/", 3)])
            ))
            .is_empty()
    );
    assert!(
        windows
            .take(OutletItem::Rows(0, result(&[(10, "/b", 3)])))
            .is_empty()
    );
    let complete = windows.take(OutletItem::Complete);
    let seen: Vec<_> = complete
        .iter()
        .map(|w| (w.bounds.map(|b| b.0 / 1_000_000_000), w.rows()))
        .collect();
    assert_eq!(seen, [(Some(0), 2), (Some(10), 2)]);
    assert!(windows.finish().is_empty());
}

//! The queue, windows, messages, and counters of an outlet.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use sinks::{ResultHead, RunVitals};
use tuple::FieldId;

use super::{head, result};
use crate::counters::{OutletCounters, OutletLoss};
use crate::lines::JsonLinesMapping;
use crate::queue::{NextItem, OutletItem, OutletQueue};
use crate::webhook::WebhookMapping;
use crate::windows::OpenWindows;
use crate::worker::{MessageBody, OutletMessage, RowMapping};

fn rows(start: i64) -> OutletItem {
    OutletItem::Rows(0, result(&[(start, "/", 1)]))
}

/// Names of the items left in an ended queue.
fn left(queue: &OutletQueue) -> Vec<String> {
    queue.end(Instant::now());
    let mut items = Vec::new();
    loop {
        items.push(match queue.pop() {
            NextItem::Item(OutletItem::Heads(_)) => "heads".to_owned(),
            NextItem::Item(OutletItem::Rows(_, batch)) => {
                format!("rows {}", batch.i64(FieldId(0)).value(0) / 1_000_000_000)
            }
            NextItem::Item(OutletItem::Complete) => "complete".to_owned(),
            NextItem::Item(OutletItem::Vitals(vitals)) => format!("vitals {}", vitals.packets),
            NextItem::End => return items,
        });
    }
}

#[test]
fn only_rows_are_dropped_from_a_full_queue() {
    let batch = result(&[(0, "/", 1)]);
    let queue = OutletQueue::new(batch.bytes());
    queue.push(OutletItem::Heads([head()].into()));
    assert_eq!(queue.push(rows(0)), 0);
    assert_eq!(queue.push(OutletItem::Complete), 0);
    assert_eq!(queue.push(rows(10)), 1);
    assert_eq!(queue.push(OutletItem::Complete), 0);
    assert_eq!(left(&queue), ["heads", "complete", "rows 10", "complete"]);
}

/// A receiver that stands still costs no memory beyond the limit.
#[test]
fn completions_without_rows_between_them_are_one() {
    let batch = result(&[(0, "/", 1)]);
    let queue = OutletQueue::new(batch.bytes());
    for window in 0..5000 {
        let lost = queue.push(rows(window));
        assert_eq!(lost, u64::from(window > 0), "{window}");
        queue.push(OutletItem::Complete);
        queue.push(OutletItem::Complete);
    }
    assert_eq!(left(&queue), ["complete", "rows 4999", "complete"]);
}

/// Dropped rows are whole batches, oldest first.
#[test]
fn a_large_batch_takes_the_room_of_many() {
    let small = result(&[(0, "/", 1)]);
    let many: Vec<_> = (0..100).map(|n| (n, "/", 1)).collect();
    let large = result(&many);
    let queue = OutletQueue::new(large.bytes() + small.bytes());
    for window in 0..3 {
        assert_eq!(queue.push(rows(window)), 0);
    }
    assert_eq!(queue.push(OutletItem::Rows(0, large.clone())), 2);
    // A batch beyond the limit is dropped itself, after all others.
    let more: Vec<_> = (0..1000).map(|n| (n, "/", 1)).collect();
    assert_eq!(queue.push(OutletItem::Rows(0, result(&more))), 1101);
    assert_eq!(queue.push(rows(7)), 0);
    assert_eq!(left(&queue), ["rows 7"]);
}

#[test]
fn the_newest_state_follows_the_rows() {
    let queue = OutletQueue::new(1 << 20);
    for packets in [1, 2] {
        queue.push(OutletItem::Vitals(RunVitals {
            packets,
            ..RunVitals::default()
        }));
        queue.push(rows(i64::try_from(packets).expect("small")));
    }
    assert_eq!(left(&queue), ["rows 1", "rows 2", "vitals 2"]);
}

#[test]
fn taken_rows_make_room() {
    let batch = result(&[(0, "/", 1)]);
    let queue = OutletQueue::new(batch.bytes());
    for start in 0..5 {
        assert_eq!(queue.push(rows(start)), 0, "{start}");
        assert!(matches!(queue.pop(), NextItem::Item(OutletItem::Rows(..))));
    }
}

#[test]
fn a_waiting_reader_gets_the_next_item_and_the_end() {
    let queue = Arc::new(OutletQueue::new(1 << 20));
    let reader = {
        let queue = queue.clone();
        thread::spawn(move || {
            (
                matches!(queue.pop(), NextItem::Item(_)),
                matches!(queue.pop(), NextItem::End),
            )
        })
    };
    assert_eq!(queue.deadline(), None);
    queue.push(rows(0));
    let deadline = Instant::now() + Duration::from_secs(9);
    queue.end(deadline);
    assert_eq!(reader.join().expect("no panic"), (true, true));
    assert_eq!(queue.deadline(), Some(deadline));
}

#[test]
fn acknowledged_rows_can_become_lost() {
    let counters = OutletCounters::default();
    counters.rows.fetch_add(10, Relaxed);
    counters.sent(8);
    counters.take_back(OutletLoss::GaveUp, 3);
    let outcome = counters.delivered("x".into());
    assert_eq!(outcome.sent, 5);
    assert_eq!(
        outcome.lost,
        [
            ("queue_full", 0),
            ("gave_up", 3),
            ("refused", 0),
            ("at_end", 2)
        ]
    );
}

#[test]
fn rows_that_wait_are_lost_only_at_the_end() {
    let counters = OutletCounters::default();
    counters.rows.fetch_add(10, Relaxed);
    counters.sent(4);
    assert_eq!(counters.so_far("x".into()).lost_rows(), 0);
    assert_eq!(counters.delivered("x".into()).lost_rows(), 6);
}

/// The producer counts rows after the thread may have delivered them.
#[test]
fn a_loss_is_never_negative() {
    let counters = OutletCounters::default();
    counters.sent(4);
    assert_eq!(counters.delivered("x".into()).lost_rows(), 0);
}

#[test]
fn the_last_problem_is_reported() {
    let counters = OutletCounters::default();
    assert_eq!(counters.so_far("x".into()).problem, None);
    counters.problem("refused");
    counters.problem("timed out");
    assert_eq!(
        counters.so_far("x".into()).problem.as_deref(),
        Some("timed out")
    );
}

#[test]
fn tuples_wait_for_no_window() {
    let mut windows = OpenWindows::default();
    windows.take(OutletItem::Heads(
        [ResultHead {
            processor: None,
            ..head()
        }]
        .into(),
    ));
    let complete = windows.take(rows(0));
    assert_eq!(complete.len(), 1);
    assert_eq!((complete[0].bounds, complete[0].rows()), (None, 1));
    assert!(windows.finish().is_empty());
}

#[test]
fn equal_windows_of_two_results_are_separate() {
    let mut windows = OpenWindows::default();
    windows.take(OutletItem::Heads([head(), head()].into()));
    for result_at in [0, 1, 0] {
        windows.take(OutletItem::Rows(result_at, result(&[(0, "/", 1)])));
    }
    let seen: Vec<_> = windows
        .finish()
        .iter()
        .map(|window| (window.result, window.rows()))
        .collect();
    assert_eq!(seen, [(0, 2), (1, 1)]);
}

#[test]
fn windows_are_in_the_order_of_their_first_row() {
    let mut windows = OpenWindows::default();
    windows.take(OutletItem::Rows(
        0,
        result(&[(20, "/", 1), (0, "/", 1), (20, "/", 1), (10, "/", 1)]),
    ));
    let starts: Vec<_> = windows
        .finish()
        .iter()
        .map(|window| window.bounds.map(|(start, _)| start))
        .collect();
    assert_eq!(
        starts,
        [20, 0, 10].map(|seconds| Some(seconds * 1_000_000_000))
    );
}

/// Messages of a mapping for this number of rows of one window.
fn messages(mut mapping: impl RowMapping, n: u64) -> Vec<OutletMessage> {
    let rows: Vec<(i64, &str, u64)> = (0..n).map(|count| (0, "/", count)).collect();
    let mut out = Vec::new();
    mapping.take(OutletItem::Heads([head()].into()), &mut out);
    mapping.take(OutletItem::Rows(0, result(&rows)), &mut out);
    mapping.take(OutletItem::Complete, &mut out);
    mapping.finish(&mut out);
    out
}

fn text(message: &OutletMessage) -> &str {
    let MessageBody::Bytes(bytes) = &message.body else {
        panic!("bytes only")
    };
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// Values of `count`, in order.
fn counts(text: &str) -> Vec<u64> {
    let values = text.split("\"count\":").skip(1);
    values
        .map(|rest| {
            rest.split([',', '}'])
                .next()
                .expect("a value")
                .parse()
                .expect("a number")
        })
        .collect()
}

#[test]
fn lines_are_sent_in_messages_of_limited_size() {
    let messages = messages(JsonLinesMapping::default(), 600);
    let sizes: Vec<_> = messages
        .iter()
        .map(|message| (message.number, message.rows))
        .collect();
    assert_eq!(sizes, [(1, 256), (2, 256), (3, 88)]);
    for message in &messages {
        assert_eq!(text(message).lines().count() as u64, message.rows);
    }
    let all: Vec<u64> = messages
        .iter()
        .flat_map(|message| counts(text(message)))
        .collect();
    assert_eq!(all, (0..600).collect::<Vec<_>>());
}

#[test]
fn a_large_window_is_posted_in_numbered_parts() {
    let messages = messages(WebhookMapping::default(), 2001);
    let sizes: Vec<_> = messages
        .iter()
        .map(|message| (message.number, message.rows))
        .collect();
    assert_eq!(sizes, [(1, 1000), (2, 1000), (3, 1)]);
    for (n, message) in messages.iter().enumerate() {
        let body: serde_json::Value = serde_json::from_str(text(message)).expect("JSON");
        assert_eq!(
            (&body["part"], &body["parts"]),
            (&(n + 1).into(), &3.into())
        );
        assert_eq!(body["window_end"], 10_000_000_000_i64);
        assert_eq!(
            body["rows"].as_array().expect("rows").len() as u64,
            message.rows
        );
    }
}

/// Text of the network that is not UTF-8 is JSON nevertheless.
#[test]
fn every_text_is_valid_json() {
    let texts: [&[u8]; 5] = [b"\xff\xfe", b"a\nb\r\0", b"\"\\", b"\xe2\x80\xa8", b""];
    let fields = vec![tuple::Field::new(
        "url",
        tuple::DataType::Text,
        tuple::Unit::None,
        "",
    )];
    let schema = super::schema(fields);
    let mut w = tuple::TupleWriter::new(schema, &[FieldId(0)]);
    for text in texts {
        w.text(FieldId(0), text);
        w.end_row();
    }
    let batch = w.finish();
    let mut webhook = WebhookMapping::default();
    let mut jsonl = JsonLinesMapping::default();
    let mut out = Vec::new();
    for mapping in [&mut webhook as &mut dyn RowMapping, &mut jsonl] {
        mapping.take(OutletItem::Heads([head()].into()), &mut out);
        mapping.take(OutletItem::Rows(0, batch.clone()), &mut out);
        mapping.finish(&mut out);
    }
    let body: serde_json::Value = serde_json::from_str(text(&out[0])).expect("JSON");
    let posted = body["rows"].as_array().expect("rows").clone();
    let lines = text(&out[1]).lines();
    let lines: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(posted, lines);
    let shown: Vec<_> = lines.iter().map(|line| line["url"].as_str()).collect();
    // Bytes that are not text are escaped.
    let mut expected = texts.map(|text| String::from_utf8_lossy(text).into_owned());
    expected[0] = r"\xff\xfe".to_owned();
    assert_eq!(shown, expected.each_ref().map(|text| Some(text.as_str())));
}

/// As for a window's rows that arrive in several batches.
#[test]
fn parts_of_a_window_are_counted_over_its_batches() {
    let mut mapping = WebhookMapping::default();
    let mut out = Vec::new();
    mapping.take(OutletItem::Heads([head()].into()), &mut out);
    for start in (0..4500).step_by(500) {
        let rows: Vec<_> = (start..start + 500).map(|n| (0, "/", n)).collect();
        mapping.take(OutletItem::Rows(0, result(&rows)), &mut out);
    }
    assert!(out.is_empty(), "the window is open");
    mapping.take(OutletItem::Complete, &mut out);
    let all: Vec<u64> = out
        .iter()
        .flat_map(|message| counts(text(message)))
        .collect();
    assert_eq!(all, (0..4500).collect::<Vec<_>>());
    for (part, message) in (1..).zip(&out) {
        let body: serde_json::Value = serde_json::from_str(text(message)).expect("JSON");
        assert_eq!((&body["part"], &body["parts"]), (&part.into(), &5.into()));
    }
}

#[test]
fn no_rows_make_no_message() {
    assert!(messages(JsonLinesMapping::default(), 0).is_empty());
    assert!(messages(WebhookMapping::default(), 0).is_empty());
}

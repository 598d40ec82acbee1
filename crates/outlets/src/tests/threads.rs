//! Rows of an outlet's thread that are accepted in part, late, or not at all.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sinks::DeliveryOutcome;

use super::{head, result};
use crate::counters::OutletCounters;
use crate::lines::JsonLinesMapping;
use crate::queue::{OutletItem, OutletQueue};
use crate::worker::{DeliveryFault, OutletMessage, OutletThread, OutletTransport};

/// Answers of a transport, and the messages of its attempts.
struct ScriptedTransport {
    begin: Result<(), &'static str>,
    answer: Box<dyn FnMut(u64) -> Result<(), DeliveryFault> + Send>,
    finish: Result<(), (u64, String)>,
    attempts: Arc<Mutex<Vec<u64>>>,
}

impl OutletTransport for ScriptedTransport {
    fn begin(&mut self) -> std::io::Result<()> {
        self.begin.map_err(std::io::Error::other)
    }

    fn send(&mut self, message: &OutletMessage, _: Duration) -> Result<(), DeliveryFault> {
        self.attempts.lock().expect("no panic").push(message.number);
        (self.answer)(message.number)
    }

    fn finish(&mut self, _: Duration) -> Result<(), (u64, String)> {
        self.finish.clone()
    }
}

fn accepting() -> ScriptedTransport {
    ScriptedTransport {
        begin: Ok(()),
        answer: Box::new(|_| Ok(())),
        finish: Ok(()),
        attempts: Arc::default(),
    }
}

/// Runs the thread with five messages of two rows; `time`: for all of them after the end.
fn run(transport: ScriptedTransport, time: Duration) -> (DeliveryOutcome, Vec<u64>) {
    let attempts = transport.attempts.clone();
    let queue = Arc::new(OutletQueue::new(1 << 20));
    let tally = Arc::new(OutletCounters::default());
    queue.push(OutletItem::Heads([head()].into()));
    for window in 0..5 {
        let rows = result(&[(window, "/", 1), (window, "/a", 2)]);
        queue.push(OutletItem::Rows(0, rows));
        tally.rows.fetch_add(2, Relaxed);
    }
    queue.end(Instant::now() + time);
    OutletThread {
        queue,
        tally: tally.clone(),
        mapping: Box::new(JsonLinesMapping::default()),
        transport: Box::new(transport),
        retry_max: Duration::from_secs(600),
    }
    .run();
    let outcome = tally.delivered("x".into());
    assert_eq!(outcome.sent + outcome.lost_rows(), outcome.rows);
    let attempts = attempts.lock().expect("no panic").clone();
    (outcome, attempts)
}

const LONG: Duration = Duration::from_secs(600);

#[test]
fn rows_rejected_of_a_message_are_counted_and_not_sent_again() {
    let mut transport = accepting();
    transport.answer = Box::new(|number| match number {
        2 => Err(DeliveryFault::Partly(1, "one row".into())),
        4 => Err(DeliveryFault::Partly(2, "both rows".into())),
        _ => Ok(()),
    });
    let (outcome, attempts) = run(transport, LONG);
    assert_eq!(attempts, [1, 2, 3, 4, 5]);
    assert_eq!((outcome.sent, outcome.lost[2]), (7, ("refused", 3)));
    assert_eq!(outcome.problem.as_deref(), Some("both rows"));
}

#[test]
fn messages_stay_in_order_while_one_is_retried() {
    let mut transport = accepting();
    let mut failures = 2;
    transport.answer = Box::new(move |number| {
        if number == 3 && failures > 0 {
            failures -= 1;
            return Err(DeliveryFault::Passing("busy".into()));
        }
        Ok(())
    });
    let (outcome, attempts) = run(transport, LONG);
    assert_eq!(attempts, [1, 2, 3, 3, 3, 4, 5]);
    assert_eq!((outcome.sent, outcome.counts[1]), (10, ("retries", 2)));
}

#[test]
fn no_attempt_is_made_after_the_time_limit() {
    let (outcome, attempts) = run(accepting(), Duration::ZERO);
    assert_eq!((attempts.len(), outcome.sent), (0, 0));
    assert_eq!(outcome.lost[3], ("at_end", 10));
}

/// The retry time of a message does not extend that of the end.
#[test]
fn retries_end_at_the_time_limit() {
    let mut transport = accepting();
    transport.answer = Box::new(|_| Err(DeliveryFault::Passing("busy".into())));
    let begun = Instant::now();
    let (outcome, attempts) = run(transport, Duration::from_millis(50));
    assert!(begun.elapsed() < LONG);
    assert!(attempts.iter().all(|number| *number == 1), "{attempts:?}");
    assert_eq!((outcome.sent, outcome.lost[3]), (0, ("at_end", 10)));
}

#[test]
fn rows_reported_lost_at_the_end_are_taken_back() {
    let mut transport = accepting();
    transport.finish = Err((4, "the port is closed".into()));
    let (outcome, _) = run(transport, LONG);
    assert_eq!((outcome.sent, outcome.lost[1]), (6, ("gave_up", 4)));
    assert_eq!(outcome.problem.as_deref(), Some("the port is closed"));
}

#[test]
fn rows_are_lost_if_the_transport_cannot_begin() {
    let mut transport = accepting();
    transport.begin = Err("no thread");
    let (outcome, attempts) = run(transport, LONG);
    assert!(attempts.is_empty());
    assert_eq!(
        (outcome.lost_rows(), outcome.problem.as_deref()),
        (10, Some("no thread"))
    );
}

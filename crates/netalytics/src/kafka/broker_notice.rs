//! Notices of a publisher about unreachable brokers, and its waiting time at the end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context;
use bus::{OverflowPolicy, Producer, ProducerCounters};
use capture::live::StopSignal;

use crate::process::output;

/// Time for which records wait for space in the queue after a signal; brokers may never return.
pub const ROOM: Duration = Duration::from_secs(10);
/// Wait time of the oldest record after which a notice is printed.
const QUIET: Duration = Duration::from_secs(5);
/// Polling interval.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// State of the connection to the brokers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BrokerState {
    #[default]
    Arriving,
    /// Unreachable, with the number of records dropped so far.
    Waiting(u64),
}

/// The state of the last notice.
#[derive(Debug, Default)]
struct BrokerNotice(BrokerState);

impl BrokerNotice {
    /// The next notice for these counters, if their state has changed; `trouble` returns the reason.
    fn look(
        &mut self,
        counters: &ProducerCounters,
        away: OverflowPolicy,
        trouble: impl FnOnce() -> String,
    ) -> Option<String> {
        let is_waiting = counters.oldest.is_some_and(|oldest| oldest >= QUIET);
        let dropped = counters.dropped_full;
        match (self.0, is_waiting) {
            (BrokerState::Arriving, true) => {
                self.0 = BrokerState::Waiting(dropped);
                let then = match away {
                    OverflowPolicy::Block => {
                        "records are buffered; if the buffer is full, captured packets are lost and counted"
                    }
                    OverflowPolicy::Drop => {
                        "if the buffer is full, records are dropped and counted"
                    }
                };
                let seconds = QUIET.as_secs();
                Some(format!(
                    "no broker has accepted a record for {seconds} s ({}): {then}",
                    trouble()
                ))
            }
            (BrokerState::Waiting(before), false) => {
                self.0 = BrokerState::Arriving;
                let lost = match dropped - before {
                    0 => "nothing was dropped".to_owned(),
                    n => format!("{n} records were dropped"),
                };
                Some(format!("brokers accept records again; {lost}"))
            }
            _ => None,
        }
    }
}

/// Watches a producer while `stop` has other owners: prints notices about unreachable brokers, and sets `stop` some
/// time after `asked`, so that no thread waits for room.
pub fn attend(
    producer: &Arc<Producer>,
    away: OverflowPolicy,
    asked: &StopSignal,
    stop: &Arc<AtomicBool>,
    quiet: bool,
) -> anyhow::Result<()> {
    let producer = Arc::downgrade(producer);
    let stop = Arc::downgrade(stop);
    let asked = asked.clone();
    let attend = move || {
        let mut notice = BrokerNotice::default();
        let mut left = ROOM;
        while let (false, Some(producer)) = (left.is_zero(), Weak::upgrade(&producer)) {
            let note = notice.look(&producer.counters(), away, || producer.trouble());
            if let (Some(note), false) = (note, quiet) {
                output::complain(&format!("note: {note}"));
            }
            drop(producer);
            std::thread::sleep(LOOK_EVERY);
            if asked.is_asked() {
                left = left.saturating_sub(LOOK_EVERY);
            }
        }
        stop.upgrade()
            .into_iter()
            .for_each(|stop| stop.store(true, Ordering::Relaxed));
    };
    std::thread::Builder::new()
        .name("attending".into())
        .spawn(attend)
        .context("no more threads")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_reported_at_start_and_end() {
        let of = |seconds: Option<u64>, dropped_full: u64| ProducerCounters {
            oldest: seconds.map(Duration::from_secs),
            dropped_full,
            ..ProducerCounters::default()
        };
        let mut notice = BrokerNotice::default();
        let mut look = |seconds, dropped| {
            notice
                .look(&of(seconds, dropped), OverflowPolicy::Drop, || {
                    "refused".into()
                })
                .unwrap_or_default()
        };
        assert_eq!([look(None, 0), look(Some(4), 0)], ["", ""]);
        assert!(
            look(Some(5), 1).starts_with("no broker has accepted a record for 5 s (refused): if ")
        );
        assert_eq!(look(Some(60), 9), "");
        assert_eq!(
            look(Some(1), 9),
            "brokers accept records again; 8 records were dropped"
        );
        assert_eq!(look(None, 9), "");
        assert!(look(Some(5), 9).starts_with("no broker"));
        assert_eq!(
            look(None, 9),
            "brokers accept records again; nothing was dropped"
        );
    }
}

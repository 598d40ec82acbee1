//! Counters of an outlet's rows, written by its thread and read by any thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use sinks::DeliveryOutcome;

/// Cause of lost rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutletLoss {
    /// The queue was full.
    QueueFull,
    /// Attempts failed for too long.
    GaveUp,
    /// Rejected by the receiver.
    Refused,
}

/// See the module documentation.
#[derive(Debug, Default)]
pub struct OutletCounters {
    /// Rows produced.
    pub rows: AtomicU64,
    sent: AtomicU64,
    queue_full: AtomicU64,
    gave_up: AtomicU64,
    refused: AtomicU64,
    /// Retries.
    pub retries: AtomicU64,
    /// Messages acknowledged.
    pub messages: AtomicU64,
    /// Series, points, and values omitted: not a number, duplicate, beyond the limit, or not representable.
    pub left_out: AtomicU64,
    problem: Mutex<Option<String>>,
}

impl OutletCounters {
    /// Counts acknowledged rows.
    pub fn sent(&self, rows: u64) {
        self.sent.fetch_add(rows, Relaxed);
        self.messages.fetch_add(1, Relaxed);
    }

    /// Counts lost rows.
    pub fn lost(&self, why: OutletLoss, rows: u64) {
        let count = match why {
            OutletLoss::QueueFull => &self.queue_full,
            OutletLoss::GaveUp => &self.gave_up,
            OutletLoss::Refused => &self.refused,
        };
        count.fetch_add(rows, Relaxed);
    }

    /// Converts acknowledged rows to lost ones.
    pub fn take_back(&self, why: OutletLoss, rows: u64) {
        self.sent.fetch_sub(rows, Relaxed);
        self.lost(why, rows);
    }

    /// Notes the last error.
    pub fn problem(&self, why: &str) {
        *self.problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(why.to_owned());
    }

    /// Final counts of the run: rows not delivered by now are lost.
    pub fn delivered(&self, to: String) -> DeliveryOutcome {
        let mut delivered = self.so_far(to);
        let at_end = delivered
            .rows
            .saturating_sub(delivered.sent + delivered.lost_rows());
        delivered.lost.push(("at_end", at_end));
        delivered
    }

    /// Counts so far, while the run continues.
    pub fn so_far(&self, to: String) -> DeliveryOutcome {
        let [rows, sent, queue_full, gave_up, refused] = [
            &self.rows,
            &self.sent,
            &self.queue_full,
            &self.gave_up,
            &self.refused,
        ]
        .map(|n| n.load(Relaxed));
        DeliveryOutcome {
            to,
            rows,
            sent,
            lost: vec![
                ("queue_full", queue_full),
                ("gave_up", gave_up),
                ("refused", refused),
            ],
            counts: vec![
                ("messages", self.messages.load(Relaxed)),
                ("retries", self.retries.load(Relaxed)),
                ("left_out", self.left_out.load(Relaxed)),
            ],
            problem: self
                .problem
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }
}

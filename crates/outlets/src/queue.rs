//! Queue of an outlet's thread, bounded in bytes. Adding never blocks: without room, the oldest rows are dropped and
//! counted.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sinks::{ResultHead, RunVitals};
use tuple::Batch;

/// Input of an outlet, in order.
#[derive(Clone, Debug)]
pub enum OutletItem {
    /// Descriptions of the results: once, and first.
    Heads(Arc<[ResultHead]>),
    /// Rows of the result with this index.
    Rows(usize, Batch),
    /// All windows with rows so far are complete.
    Complete,
    /// State of the run.
    Vitals(RunVitals),
}

/// See the module documentation.
pub struct OutletQueue {
    inner: Mutex<OutletQueueState>,
    changed: Condvar,
    bytes_max: usize,
}

#[derive(Default)]
struct OutletQueueState {
    items: VecDeque<OutletItem>,
    bytes: usize,
    /// Only the newest is kept.
    vitals: Option<RunVitals>,
    /// Set after the end of input: time limit for the remaining items.
    deadline: Option<Instant>,
}

/// Next item of the queue.
#[derive(Debug)]
pub enum NextItem {
    /// An item.
    Item(OutletItem),
    /// End of the queue.
    End,
}

impl OutletQueue {
    /// An empty queue.
    pub fn new(bytes_max: usize) -> OutletQueue {
        OutletQueue {
            inner: Mutex::default(),
            changed: Condvar::new(),
            bytes_max,
        }
    }

    fn lock(&self) -> MutexGuard<'_, OutletQueueState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an item; returns the number of rows dropped for it.
    pub fn push(&self, item: OutletItem) -> u64 {
        let mut inner = self.lock();
        let mut lost = 0;
        match &item {
            OutletItem::Vitals(vitals) => inner.vitals = Some(*vitals),
            OutletItem::Rows(_, batch) => {
                inner.bytes += batch.bytes();
                inner.items.push_back(item);
                lost = inner.make_room(self.bytes_max);
            }
            // A second one without rows between them has no effect.
            OutletItem::Complete if inner.is_complete_before(inner.items.len()) => {}
            OutletItem::Complete | OutletItem::Heads(_) => inner.items.push_back(item),
        }
        drop(inner);
        self.changed.notify_all();
        lost
    }

    /// Removes the oldest item; waits for one.
    pub fn pop(&self) -> NextItem {
        let mut inner = self.lock();
        loop {
            if let Some(item) = inner.items.pop_front() {
                if let OutletItem::Rows(_, batch) = &item {
                    inner.bytes -= batch.bytes();
                }
                return NextItem::Item(item);
            }
            if let Some(vitals) = inner.vitals.take() {
                return NextItem::Item(OutletItem::Vitals(vitals));
            }
            if inner.deadline.is_some() {
                return NextItem::End;
            }
            inner = self
                .changed
                .wait(inner)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends the input; remaining items may be taken until the deadline.
    pub fn end(&self, deadline: Instant) {
        self.lock().deadline = Some(deadline);
        self.changed.notify_all();
    }

    /// The deadline, after the end of input.
    pub fn deadline(&self) -> Option<Instant> {
        self.lock().deadline
    }

    /// Waits for `wait`, but not past the end of the queue, after which time is limited.
    pub fn pause(&self, wait: Duration) {
        let until = Instant::now() + wait;
        let mut inner = self.lock();
        let was_ended = inner.deadline.is_some();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || inner.deadline.is_some() && !was_ended {
                return;
            }
            inner = self
                .changed
                .wait_timeout(inner, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

impl OutletQueueState {
    /// Drops the oldest rows until the rest fits.
    fn make_room(&mut self, bytes_max: usize) -> u64 {
        let mut lost = 0;
        while self.bytes > bytes_max {
            let Some(oldest) = self
                .items
                .iter()
                .position(|item| matches!(item, OutletItem::Rows(..)))
            else {
                break;
            };
            if let Some(OutletItem::Rows(_, batch)) = self.items.remove(oldest) {
                self.bytes -= batch.bytes();
                lost += batch.rows() as u64;
            }
            let is_next_complete = matches!(self.items.get(oldest), Some(OutletItem::Complete));
            if is_next_complete && self.is_complete_before(oldest) {
                self.items.remove(oldest);
            }
        }
        lost
    }

    /// Whether the item before this place completes windows.
    fn is_complete_before(&self, place: usize) -> bool {
        let before = place
            .checked_sub(1)
            .and_then(|before| self.items.get(before));
        matches!(before, Some(OutletItem::Complete))
    }
}

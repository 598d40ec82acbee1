//! The limit of flow tables: a number of flows, or the bytes that flows take. Several tables share one limit, so that
//! none evicts flows while another one has space.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Memory for the flows of one or several tables; clones share it.
#[derive(Clone, Debug)]
pub struct FlowBudget {
    left: Arc<AtomicI64>,
    limit: FlowLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowLimit {
    Flows(usize),
    Bytes,
}

impl FlowBudget {
    /// Limits the number of flows to `max`, at least 1.
    #[must_use]
    pub fn of_flows(max: usize) -> FlowBudget {
        FlowBudget::new(FlowLimit::Flows(max.max(1)), max.max(1))
    }

    /// Limits the bytes of all flows to `max`.
    #[must_use]
    pub fn of_bytes(max: usize) -> FlowBudget {
        FlowBudget::new(FlowLimit::Bytes, max)
    }

    /// The maximum number of flows, if that is the limit.
    #[must_use]
    pub fn flows_max(&self) -> Option<usize> {
        if let FlowLimit::Flows(max) = self.limit {
            Some(max)
        } else {
            None
        }
    }

    fn new(limit: FlowLimit, max: usize) -> FlowBudget {
        FlowBudget {
            left: Arc::new(AtomicI64::new(i64::try_from(max).unwrap_or(i64::MAX))),
            limit,
        }
    }

    /// Remaining budget: flows or bytes.
    #[cfg(test)]
    pub(crate) fn left(&self) -> i64 {
        self.left.load(Ordering::Relaxed)
    }

    /// Whether there is room for more.
    pub(crate) fn is_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) > 0
    }

    /// Whether the limit is exceeded.
    pub(crate) fn is_overdrawn(&self) -> bool {
        self.left.load(Ordering::Relaxed) < 0
    }

    /// Reserves space for a flow of `bytes`.
    pub(crate) fn enter(&self, bytes: usize) {
        self.left.fetch_sub(self.cost(bytes), Ordering::Relaxed);
    }

    /// Releases that space.
    pub(crate) fn leave(&self, bytes: usize) {
        self.left.fetch_add(self.cost(bytes), Ordering::Relaxed);
    }

    /// Changes the size of a flow.
    pub(crate) fn resize(&self, before: usize, now: usize) {
        if before != now && self.limit == FlowLimit::Bytes {
            self.left
                .fetch_add(before as i64 - now as i64, Ordering::Relaxed);
        }
    }

    fn cost(&self, bytes: usize) -> i64 {
        if self.limit == FlowLimit::Bytes {
            bytes as i64
        } else {
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_counts_flows_or_bytes() {
        let flows = FlowBudget::of_flows(2);
        let bytes = FlowBudget::of_bytes(600);
        for room in [&flows, &bytes] {
            room.enter(256);
            room.resize(256, 300);
            assert!(room.is_left());
            room.clone().enter(300);
            assert!(!room.is_left() && !room.is_overdrawn());
            room.enter(1);
            assert!(room.is_overdrawn());
            room.leave(1);
            room.leave(300);
            assert!(room.is_left());
        }
        assert!(FlowBudget::of_flows(0).is_left());
    }
}

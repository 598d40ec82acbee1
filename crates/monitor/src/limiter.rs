//! LIMIT, shared by all workers of a query: so many packets that match, or so long by the packets' clock. A query
//! without LIMIT pays one test a packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use plan::Limit;
use wire::Timestamp;

/// What is left of a query's LIMIT; clones share it.
#[derive(Clone, Debug)]
pub struct Limiter {
    limit: Limit,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    admitted: AtomicU64,
    /// The first packet's time; the largest value while there is none.
    first_ts: AtomicI64,
}

impl Default for Limiter {
    /// No limit.
    fn default() -> Limiter {
        Limiter::new(Limit::default())
    }
}

impl Limiter {
    /// The whole of `limit` is left.
    #[must_use]
    pub fn new(limit: Limit) -> Limiter {
        Limiter {
            limit,
            shared: Arc::new(Shared { admitted: AtomicU64::new(0), first_ts: AtomicI64::new(i64::MAX) }),
        }
    }

    /// Lets a limit of time begin now, before any packet: live input ends on time even where nothing comes.
    pub fn start(&self, now: Timestamp) {
        self.shared.first_ts.fetch_min(now.0, Ordering::Relaxed);
    }

    /// Whether there is a limit at all.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.limit.packets.is_none() && self.limit.nanos.is_none()
    }

    /// Whether packets are counted.
    #[must_use]
    pub fn counts_packets(&self) -> bool {
        self.limit.packets.is_some()
    }

    /// Whether a packet of this time comes too late.
    #[inline]
    #[must_use]
    pub fn is_over(&self, ts: Timestamp) -> bool {
        !self.is_open() && (self.time_is_up(ts) || self.is_used_up())
    }

    /// Takes one packet's share; false when nothing was left.
    #[inline]
    #[must_use]
    pub fn take(&self) -> bool {
        self.limit.packets.is_none_or(|max| {
            let add = |n| (n < max).then_some(n + 1);
            self.shared.admitted.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
        })
    }

    fn is_used_up(&self) -> bool {
        self.limit.packets.is_some_and(|max| self.shared.admitted.load(Ordering::Relaxed) >= max)
    }

    fn time_is_up(&self, ts: Timestamp) -> bool {
        self.limit.nanos.is_some_and(|max| {
            let first = self.shared.first_ts.fetch_min(ts.0, Ordering::Relaxed).min(ts.0);
            ts.since(Timestamp(first)) >= max
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whichever_comes_first_and_shared() {
        let limiter = Limiter::new(Limit { packets: Some(3), nanos: Some(100) });
        let other = limiter.clone();
        assert!(!limiter.is_over(Timestamp(1000)) && !other.is_over(Timestamp(1099)));
        assert!(other.is_over(Timestamp(1100)));
        assert!(limiter.take() && other.take() && limiter.take() && !other.take());
        assert!(other.is_over(Timestamp(1000)));
    }

    #[test]
    fn without_limit() {
        let limiter = Limiter::new(Limit::default());
        assert!(limiter.is_open() && limiter.take() && !limiter.is_over(Timestamp(i64::MAX)));
    }

    #[test]
    fn time_may_begin_before_the_first_packet() {
        let limiter = Limiter::new(Limit { packets: None, nanos: Some(100) });
        limiter.start(Timestamp(0));
        assert!(limiter.is_over(Timestamp(100)) && !limiter.is_over(Timestamp(99)));
    }
}

//! LIMIT, shared by all workers of a query: a number of matching packets or a duration in event time; also
//! the period of a query on several monitors. Without limits the cost is one test per packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use plan::{MonitorSpec, QueryLimit, TimeSpan};
use wire::Timestamp;

use crate::allowance::PacketAllowance;

/// Remaining LIMIT of a query. Clones share it.
#[derive(Clone, Debug)]
pub struct Limiter {
    limit: QueryLimit,
    span: TimeSpan,
    /// Set if there is no limit.
    is_open: bool,
    shared: Arc<LimiterState>,
    /// This monitor's share of a packet LIMIT over several monitors.
    allowance: Option<PacketAllowance>,
}

#[derive(Debug)]
struct LimiterState {
    admitted: AtomicU64,
    /// Timestamp of the first packet; `i64::MAX` before it.
    first_ts: AtomicI64,
}

impl Default for Limiter {
    /// No limit.
    fn default() -> Limiter {
        Limiter::new(QueryLimit::default())
    }
}

impl Limiter {
    /// Creates the limiter of a monitor.
    #[must_use]
    pub fn of(spec: &MonitorSpec) -> Limiter {
        let limiter = Limiter::new(spec.limit);
        Limiter {
            span: spec.span,
            is_open: limiter.is_open && spec.span == TimeSpan::default(),
            ..limiter
        }
    }

    /// Creates a limiter from `limit`.
    #[must_use]
    pub fn new(limit: QueryLimit) -> Limiter {
        Limiter {
            limit,
            span: TimeSpan::default(),
            is_open: limit == QueryLimit::default(),
            shared: Arc::new(LimiterState {
                admitted: AtomicU64::new(0),
                first_ts: AtomicI64::new(i64::MAX),
            }),
            allowance: None,
        }
    }

    /// Sets the share of a packet LIMIT over several monitors.
    #[must_use]
    pub fn within(self, allowance: Option<PacketAllowance>) -> Limiter {
        Limiter {
            is_open: self.is_open && allowance.is_none(),
            allowance,
            ..self
        }
    }

    /// Starts the time limit at `now`, before any packet, so that live input ends on time even without
    /// packets.
    pub fn start(&self, now: Timestamp) {
        self.shared.first_ts.fetch_min(now.0, Ordering::Relaxed);
    }

    /// Whether there is no limit.
    #[inline]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether `ts` is before the start of the query's period.
    #[inline]
    #[must_use]
    pub fn is_early(&self, ts: Timestamp) -> bool {
        !self.is_open && self.span.start_ns.is_some_and(|start| ts.0 < start)
    }

    /// Whether `ts` is after the end of the period, or a limit is used up.
    #[inline]
    #[must_use]
    pub fn is_over(&self, ts: Timestamp) -> bool {
        !self.is_open && (self.has_ended(ts) || self.time_is_up(ts) || self.is_used_up())
    }

    fn has_ended(&self, ts: Timestamp) -> bool {
        self.span.end_ns.is_some_and(|end| ts.0 >= end)
    }

    /// Consumes one packet; returns false if the limit is used up.
    #[inline]
    #[must_use]
    pub fn take(&self) -> bool {
        if let Some(allowance) = &self.allowance {
            return allowance.take();
        }
        self.limit.packets.is_none_or(|max| {
            let add = |n| (n < max).then_some(n + 1);
            self.shared
                .admitted
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add)
                .is_ok()
        })
    }

    fn is_used_up(&self) -> bool {
        let taken = || match &self.allowance {
            Some(allowance) => allowance.taken(),
            None => self.shared.admitted.load(Ordering::Relaxed),
        };
        self.limit.packets.is_some_and(|max| taken() >= max)
    }

    fn time_is_up(&self, ts: Timestamp) -> bool {
        self.limit.nanos.is_some_and(|max| {
            let first = match self.span.start_ns {
                Some(start) => start,
                None => self
                    .shared
                    .first_ts
                    .fetch_min(ts.0, Ordering::Relaxed)
                    .min(ts.0),
            };
            ts.since(Timestamp(first)) >= max
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_limits_of_packets_and_time() {
        let limiter = Limiter::new(QueryLimit {
            packets: Some(3),
            nanos: Some(100),
        });
        let other = limiter.clone();
        assert!(!limiter.is_over(Timestamp(1000)) && !other.is_over(Timestamp(1099)));
        assert!(other.is_over(Timestamp(1100)));
        assert!(limiter.take() && other.take() && limiter.take() && !other.take());
        assert!(other.is_over(Timestamp(1000)));
    }

    #[test]
    fn a_span_is_the_same_for_all() {
        let limit = QueryLimit {
            packets: None,
            nanos: Some(100),
        };
        let of = |limit, start_ns, end_ns| {
            Limiter::of(&MonitorSpec {
                limit,
                span: TimeSpan { start_ns, end_ns },
                ..MonitorSpec::default()
            })
        };
        let limiter = of(limit, Some(1000), None);
        assert!(limiter.is_early(Timestamp(999)) && !limiter.is_early(Timestamp(1000)));
        // The clock of live input may be read before the start.
        limiter.start(Timestamp(0));
        assert!(!limiter.is_over(Timestamp(0)) && !limiter.is_over(Timestamp(1099)));
        assert!(limiter.is_over(Timestamp(1100)));
        let limiter = of(QueryLimit::default(), None, Some(2000));
        assert!(!limiter.is_open() && !limiter.is_early(Timestamp(i64::MIN)));
        assert!(!limiter.is_over(Timestamp(1999)) && limiter.is_over(Timestamp(2000)));
        assert!(of(limit, None, Some(50)).is_over(Timestamp(50)));
    }

    #[test]
    fn empty_limit_never_ends() {
        let limiter = Limiter::new(QueryLimit::default());
        assert!(limiter.is_open() && limiter.take() && !limiter.is_over(Timestamp(i64::MAX)));
    }

    #[test]
    fn time_may_begin_before_the_first_packet() {
        let limiter = Limiter::new(QueryLimit {
            packets: None,
            nanos: Some(100),
        });
        limiter.start(Timestamp(0));
        assert!(limiter.is_over(Timestamp(100)) && !limiter.is_over(Timestamp(99)));
    }
}

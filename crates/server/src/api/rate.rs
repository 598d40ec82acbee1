//! Rate limits: a bucket per token, and one per address that has sent a wrong token. The number of buckets is limited;
//! full buckets are replaced first.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Maximum buckets of one kind.
const BUCKETS_MAX: usize = 4096;
/// Wrong tokens: burst, and rate per second.
const WRONG: (f64, f64) = (20.0, 1.0);

/// All buckets.
pub struct RateLimits {
    tokens: RateBuckets<i64>,
    wrong: RateBuckets<IpAddr>,
    /// Number of rejected requests.
    pub refused: AtomicU64,
}

impl RateLimits {
    /// Allows `per_second` requests per second and token, with bursts of twice as many.
    pub fn new(per_second: u32) -> RateLimits {
        let per_second = f64::from(per_second);
        RateLimits {
            tokens: RateBuckets::new(per_second * 2.0, per_second),
            wrong: RateBuckets::new(WRONG.0, WRONG.1),
            refused: AtomicU64::new(0),
        }
    }

    /// Whether a token may send another request.
    pub fn may_ask(&self, token: i64) -> bool {
        self.counted(self.tokens.take(token, 1.0, Instant::now()))
    }

    /// Whether an address may try another token.
    pub fn may_try(&self, address: IpAddr) -> bool {
        self.counted(self.wrong.take(address, 0.0, Instant::now()))
    }

    /// Counts a wrong token.
    pub fn was_wrong(&self, address: IpAddr) {
        self.wrong.take(address, 1.0, Instant::now());
    }

    fn counted(&self, may: bool) -> bool {
        self.refused.fetch_add(u64::from(!may), Ordering::Relaxed);
        may
    }
}

struct RateBuckets<K> {
    most: f64,
    per_second: f64,
    /// Level of each bucket, and the time of its last update.
    levels: Mutex<HashMap<K, (f64, Instant)>>,
}

impl<K: Hash + Eq + Copy> RateBuckets<K> {
    fn new(most: f64, per_second: f64) -> RateBuckets<K> {
        RateBuckets {
            most,
            per_second,
            levels: Mutex::default(),
        }
    }

    /// Takes `cost` from the bucket if it holds at least one; returns whether it did.
    fn take(&self, key: K, cost: f64, now: Instant) -> bool {
        let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        let level = |(level, at): (f64, Instant)| {
            (level + now.duration_since(at).as_secs_f64() * self.per_second).min(self.most)
        };
        if levels.len() >= BUCKETS_MAX && !levels.contains_key(&key) {
            levels.retain(|_, bucket| level(*bucket) < self.most);
            if levels.len() >= BUCKETS_MAX {
                return false;
            }
        }
        let bucket = levels.entry(key).or_insert((self.most, now));
        let there = level(*bucket);
        let may = there >= 1.0;
        // Another thread may have read its time later and come first: no time counts twice.
        *bucket = (if may { there - cost } else { there }, now.max(bucket.1));
        may
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_bucket_empties_and_fills_again() {
        let buckets = RateBuckets::new(2.0, 1.0);
        let start = Instant::now();
        let take = |key: u8, ms: u64| buckets.take(key, 1.0, start + Duration::from_millis(ms));
        let taken = [
            take(1, 0),
            take(1, 0),
            take(1, 0),
            take(2, 0),
            take(1, 500),
            take(1, 1000),
            take(1, 1001),
        ];
        assert_eq!(taken, [true, true, false, true, false, true, false]);
    }

    #[test]
    fn there_are_so_many_buckets() {
        let buckets = RateBuckets::new(1.0, 1.0);
        let start = Instant::now();
        assert!((0..BUCKETS_MAX).all(|key| buckets.take(key, 1.0, start)));
        assert!(!buckets.take(BUCKETS_MAX, 1.0, start));
        assert!(buckets.take(BUCKETS_MAX, 1.0, start + Duration::from_secs(2)));
        assert_eq!(buckets.levels.lock().expect("unpoisoned").len(), 1);
    }

    /// Requests that wait for the lock of another one have older times.
    #[test]
    fn no_time_fills_a_bucket_twice() {
        let buckets = RateBuckets::new(2.0, 1.0);
        let start = Instant::now();
        let times = [0, 1000].into_iter().cycle().take(100);
        let taken = times.filter(|ms| buckets.take(1, 1.0, start + Duration::from_millis(*ms)));
        assert_eq!(taken.count(), 3, "two at first, and one for a second");
    }

    /// Whether a token may be tried costs nothing; a wrong one does.
    #[test]
    fn only_wrong_tokens_are_counted() {
        let limits = RateLimits::new(1);
        let [one, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        assert!((0..1000).all(|_| limits.may_try(one)));
        (0..20).for_each(|_| limits.was_wrong(one));
        assert!(!limits.may_try(one) && limits.may_try(other));
        assert_eq!(limits.refused.load(Ordering::Relaxed), 1);
        // Tokens of 0 requests per second have none.
        assert!(!RateLimits::new(0).may_ask(1));
    }
}

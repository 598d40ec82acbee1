//! Delay between attempts: exponential up to a limit, with jitter between half and all of it, so that clients of a
//! recovering server do not reconnect simultaneously.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const MAX: Duration = Duration::from_secs(10);

/// Delays for one message.
pub struct RetryBackoff {
    next: Duration,
    chance: u64,
}

impl RetryBackoff {
    /// `seed`: seed of the jitter.
    pub fn new(seed: u64) -> RetryBackoff {
        RetryBackoff { next: FIRST, chance: seed | 1 }
    }
}

impl Iterator for RetryBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // xorshift64 is sufficient for jitter.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        let share = 0.5 + 0.5 * (self.chance >> 11) as f64 / (1u64 << 53) as f64;
        let wait = self.next.mul_f64(share);
        self.next = (self.next * 2).min(MAX);
        Some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_differ() {
        for seed in [0, 1, 7, u64::MAX] {
            let mut full = FIRST;
            for wait in RetryBackoff::new(seed).take(20) {
                assert!(wait >= full / 2 && wait <= full, "{seed}: {wait:?} of {full:?}");
                full = (full * 2).min(MAX);
            }
        }
        assert_ne!(RetryBackoff::new(1).next(), RetryBackoff::new(1 << 40).next());
    }
}

//! How long to wait before the next attempt: twice as long each time, up to a bound, and by chance between half of it and all, so
//! that many clients of a server that comes back do not come back at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const MAX: Duration = Duration::from_secs(10);

/// Waits of one message.
pub struct Backoff {
    next: Duration,
    chance: u64,
}

impl Backoff {
    /// `seed` decides the chances.
    pub fn new(seed: u64) -> Backoff {
        Backoff { next: FIRST, chance: seed | 1 }
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        // xorshift64: any spread will do.
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
            for wait in Backoff::new(seed).take(20) {
                assert!(wait >= full / 2 && wait <= full, "{seed}: {wait:?} of {full:?}");
                full = (full * 2).min(MAX);
            }
        }
        assert_ne!(Backoff::new(1).next(), Backoff::new(1 << 40).next());
    }
}

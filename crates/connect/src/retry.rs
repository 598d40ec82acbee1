//! Delays between attempts: exponential up to a maximum, with jitter between half and all of it, so that clients of a
//! recovering server do not reconnect simultaneously.

use std::time::Duration;

/// Delays between attempts to reach one kind of peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Upper bound of the first delay; each further one is twice as long.
    pub first: Duration,
    /// Upper bound of all delays.
    pub max: Duration,
}

impl RetryPolicy {
    /// Receivers of rows, notifications, and decisions.
    pub const RECEIVER: RetryPolicy = RetryPolicy::new(100, 10_000);
    /// Server of an agent.
    pub const AGENT: RetryPolicy = RetryPolicy::new(2_000, 30_000);
    /// Server of an agent with running monitors: several attempts are made before their leases end, at least six
    /// seconds after the last renewal.
    pub const AGENT_WITH_LEASES: RetryPolicy = RetryPolicy::new(1_000, 1_000);
    /// Server of a command.
    pub const COMMAND: RetryPolicy = RetryPolicy::new(500, 500);
    /// Event stream of a server; rows are polled meanwhile.
    pub const EVENTS: RetryPolicy = RetryPolicy::new(1_000, 1_000);
    /// Kafka brokers, for a publisher that starts.
    pub const BROKER: RetryPolicy = RetryPolicy::new(1_000, 1_000);
    /// Merge of a server's job through Kafka or Flink.
    pub const MERGE: RetryPolicy = RetryPolicy::new(2_000, 2_000);
    /// Flink's gateway and REST API.
    pub const FLINK: RetryPolicy = RetryPolicy::new(50, 1_000);
    /// The server's own store, after an error such as a full disk.
    pub const STORE: RetryPolicy = RetryPolicy::new(5_000, 5_000);

    const fn new(first_ms: u64, max_ms: u64) -> RetryPolicy {
        RetryPolicy {
            first: Duration::from_millis(first_ms),
            max: Duration::from_millis(max_ms),
        }
    }

    /// Delay after a number of attempts in addition to the first. `seed`: seed of the jitter.
    #[must_use]
    pub fn delay(self, further: u32, seed: u64) -> Duration {
        let full = self
            .first
            .saturating_mul(1 << further.min(20))
            .min(self.max);
        // SplitMix64 is sufficient for jitter.
        let mut mixed = seed.wrapping_add(
            u64::from(further)
                .wrapping_add(1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15),
        );
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        full.mul_f64(0.5 + 0.5 * (mixed >> 11) as f64 / (1_u64 << 53) as f64)
    }

    /// All delays, without end.
    #[must_use]
    pub fn delays(self, seed: u64) -> RetryDelays {
        RetryDelays {
            policy: self,
            seed,
            further: 0,
        }
    }
}

/// Delays between consecutive attempts.
#[derive(Clone, Debug)]
pub struct RetryDelays {
    policy: RetryPolicy,
    seed: u64,
    further: u32,
}

impl RetryDelays {
    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.policy.delay(self.further, self.seed);
        self.further = self.further.saturating_add(1);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound_and_differ() {
        for policy in [
            RetryPolicy::RECEIVER,
            RetryPolicy::AGENT,
            RetryPolicy::COMMAND,
            RetryPolicy::FLINK,
        ] {
            for seed in [0, 1, 7, u64::MAX] {
                let mut full = policy.first;
                let mut delays = policy.delays(seed);
                for _ in 0..40 {
                    let delay = delays.next_delay();
                    assert!(
                        delay >= full / 2 && delay <= full,
                        "{policy:?}, {seed}: {delay:?} of {full:?}"
                    );
                    full = (full * 2).min(policy.max);
                }
            }
        }
        let first = |seed| RetryPolicy::RECEIVER.delay(0, seed);
        assert_ne!(first(1), first(1 << 40));
        assert_ne!(first(1), first(2));
        assert!(RetryPolicy::AGENT.delay(u32::MAX, 3) >= RetryPolicy::AGENT.max / 2);
    }
}

//! Timeouts of an agent, and limits of restarts.

/// Timeouts of an agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentSettings {
    /// Interval between lease requests.
    pub renew_every_ns: u64,
    /// Time before the end of its lease at which a monitor is asked to stop, so that it can deliver its results.
    pub grace_ns: u64,
    /// Time a monitor must run for its start to count as successful.
    pub healthy_after_ns: u64,
    /// Consecutive failed starts after which a job counts as failed on this host. A retried job is started again
    /// nevertheless.
    pub crashes_max: u32,
    /// Backoff after a crash; doubled after each further one.
    pub pause_ns: u64,
    /// Maximum backoff.
    pub pause_max_ns: u64,
    /// Delay before a job that lacked capacity is retried.
    pub crowded_pause_ns: u64,
}

impl Default for AgentSettings {
    fn default() -> Self {
        let second = 1_000_000_000;
        Self {
            renew_every_ns: 3 * second,
            grace_ns: second,
            healthy_after_ns: 60 * second,
            crashes_max: 3,
            pause_ns: second,
            pause_max_ns: 300 * second,
            crowded_pause_ns: 60 * second,
        }
    }
}

impl AgentSettings {
    /// Delay after this number of consecutive crashes.
    pub(super) fn pause(&self, crashes: u32) -> u64 {
        (self.pause_ns << crashes.saturating_sub(1).min(32)).min(self.pause_max_ns)
    }
}

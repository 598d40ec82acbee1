//! Times of an agent, and how often a monitor may fail.

/// Times of an agent.
#[derive(Debug, Clone, Copy)]
pub struct AgentSettings {
    /// How often it asks for its leases.
    pub renew_every_ns: u64,
    /// Time before the end of its lease at which a monitor is asked to stop, so that it can deliver its results.
    pub grace_ns: u64,
    /// How long a monitor has to live for its start to count as a success.
    pub healthy_after_ns: u64,
    /// Starts in a row that have to fail for a job to count as failed on this host. One that is retried is started again all the same.
    pub crashes_max: u32,
    /// The pause after a crash; twice as long after each further one.
    pub pause_ns: u64,
    /// The longest pause after a crash.
    pub pause_max_ns: u64,
    /// The pause until a job is tried again for which there was no room.
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

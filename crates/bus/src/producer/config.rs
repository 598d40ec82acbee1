//! How a producer works, and what it counts.

use std::time::Duration;

/// Handling of a record without room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Away {
    /// The sender waits.
    Block,
    /// It is dropped and counted.
    Drop,
}

/// Largest record that topics of ours take, with what is around it.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// How batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

/// How a producer works.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Maximum size of unacknowledged records, with 256 bytes of overhead each.
    pub bytes_max: u64,
    /// Handling of records without room.
    pub away: Away,
    /// How batches are compressed.
    pub compression: Compression,
    /// How long a batch may wait for more.
    pub linger: Duration,
}

impl Default for ProducerConfig {
    fn default() -> ProducerConfig {
        let linger = Duration::from_millis(20);
        ProducerConfig { bytes_max: 256 << 20, away: Away::Block, compression: Compression::Lz4, linger }
    }
}

/// What a producer did so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Records taken over.
    pub records: u64,
    /// Their bytes, keys included.
    pub bytes: u64,
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Their bytes.
    pub acknowledged_bytes: u64,
    /// All bytes sent to brokers, compressed and with everything around them; told once a second.
    pub wire_bytes: u64,
    /// Records dropped because there was no room.
    pub dropped_full: u64,
    /// Records dropped because they are larger than brokers take.
    pub dropped_too_large: u64,
    /// Records that brokers refused.
    pub dropped_refused: u64,
    /// Why the first of these was, where brokers said so.
    pub refusal: Option<String>,
    /// Records taken over and not acknowledged yet.
    pub in_flight: u64,
    /// The memory that they take.
    pub in_flight_bytes: u64,
    /// How long the oldest of them has waited.
    pub oldest: Option<Duration>,
}

impl Counters {
    /// Records that are not there and will not be.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_too_large + self.dropped_refused
    }
}

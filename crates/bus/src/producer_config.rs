//! Configuration and counters of a producer.

use std::time::Duration;

/// Handling of a record without space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverflowPolicy {
    /// The sender waits.
    Block,
    /// The record is dropped and counted.
    Drop,
}

/// Maximum record size of topics created by this crate, including overhead.
pub const RECORD_BYTES_MAX: usize = 8 << 20;

/// Compression of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchCompression {
    /// Fast.
    Lz4,
    /// Small.
    Zstd,
}

/// Configuration of a producer.
#[derive(Clone, Debug)]
pub struct ProducerConfig {
    /// Maximum size of unacknowledged records, with 256 bytes of overhead each.
    pub bytes_max: u64,
    /// Handling of records without space.
    pub away: OverflowPolicy,
    /// Compression of batches.
    pub compression: BatchCompression,
    /// Maximum wait of a batch for more records.
    pub linger: Duration,
}

impl Default for ProducerConfig {
    fn default() -> ProducerConfig {
        let linger = Duration::from_millis(20);
        ProducerConfig {
            bytes_max: 256 << 20,
            away: OverflowPolicy::Block,
            compression: BatchCompression::Lz4,
            linger,
        }
    }
}

/// Counters of a producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerCounters {
    /// Records accepted.
    pub records: u64,
    /// Bytes of accepted records, including keys.
    pub bytes: u64,
    /// Records acknowledged.
    pub acknowledged: u64,
    /// Bytes of acknowledged records.
    pub acknowledged_bytes: u64,
    /// All bytes sent to brokers, compressed and with overhead; updated once per second.
    pub wire_bytes: u64,
    /// Records dropped for lack of space.
    pub dropped_full: u64,
    /// Records dropped because they exceed the brokers' limit.
    pub dropped_too_large: u64,
    /// Records rejected by brokers.
    pub dropped_refused: u64,
    /// Reason of the first rejection, if given.
    pub refusal: Option<String>,
    /// Records accepted and not acknowledged yet.
    pub in_flight: u64,
    /// Memory of these, in bytes.
    pub in_flight_bytes: u64,
    /// Age of the oldest of them.
    pub oldest: Option<Duration>,
}

impl ProducerCounters {
    /// Total of dropped records.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_full + self.dropped_too_large + self.dropped_refused
    }
}

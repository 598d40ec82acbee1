//! Counters of input other than packets.

/// Input other than packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FedInput {
    /// A recording.
    Recording(recording::ReplayCounters),
    /// Published data.
    Published(PublishedInput),
    /// Reports of monitors on other hosts.
    Monitored(MonitorInput),
}

/// Counters of monitors' reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorInput {
    /// Number of reports.
    pub reports: u64,
    /// Bytes of reports.
    pub bytes: u64,
    /// Packets received by the monitors.
    pub packets: u64,
    /// Tuples made by the monitors.
    pub tuples: u64,
    /// Packets lost before the monitors.
    pub lost: u64,
    /// Packets of flows excluded by SAMPLE.
    pub sampled_out: u64,
    /// Flows ended because switches mirror fewer.
    pub cut_off: u64,
    /// Unreadable reports.
    pub malformed: u64,
}

/// Counters of published data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublishedInput {
    /// Number of records.
    pub records: u64,
    /// Uncompressed bytes.
    pub bytes: u64,
    /// Tuples or cells, without beats.
    pub rows: u64,
    /// Unreadable records.
    pub malformed: u64,
    /// Late rows dropped by Flink. The embedded engine counts late tuples itself.
    pub late: u64,
    /// Tuples released before older ones for lack of memory: they may be out of order.
    pub hurried: u64,
}

impl FedInput {
    /// Number of tuples.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        match self {
            FedInput::Recording(counters) => counters.rows,
            FedInput::Published(counts) => counts.rows,
            FedInput::Monitored(counts) => counts.tuples,
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            FedInput::Recording(counters) => counters.bytes,
            FedInput::Published(counts) => counts.bytes,
            FedInput::Monitored(counts) => counts.bytes,
        }
    }
}

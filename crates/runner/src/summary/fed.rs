//! What a run was fed where it read no packets.

/// What was read instead of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// A recording.
    Recording(recording::Counters),
    /// What others have published.
    Published(Published),
    /// What monitors on other hosts have said.
    Monitored(Monitored),
}

/// What monitors have said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Monitored {
    /// Reports.
    pub reports: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that the monitors have received.
    pub packets: u64,
    /// Tuples that they have made.
    pub tuples: u64,
    /// Packets that were lost before them.
    pub lost: u64,
    /// Packets of flows that SAMPLE left out.
    pub sampled_out: u64,
    /// Flows that ended there as switches were to copy fewer.
    pub cut_off: u64,
    /// Reports that could not be read.
    pub malformed: u64,
}

/// What was read of topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Records.
    pub records: u64,
    /// Their bytes, as they were before compression.
    pub bytes: u64,
    /// Tuples or cells in them; the others were beats.
    pub rows: u64,
    /// Records that could not be read.
    pub malformed: u64,
    /// Rows that Flink has dropped, since they came behind its watermark. The embedded engine counts such tuples itself.
    pub late: u64,
    /// Tuples that did not wait for older ones any longer, as there was no room for them: they may be out of order.
    pub hurried: u64,
}

impl Fed {
    /// Tuples.
    #[must_use]
    pub fn tuples(&self) -> u64 {
        match self {
            Fed::Recording(counters) => counters.rows,
            Fed::Published(counts) => counts.rows,
            Fed::Monitored(counts) => counts.tuples,
        }
    }

    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Fed::Recording(counters) => counters.bytes,
            Fed::Published(counts) => counts.bytes,
            Fed::Monitored(counts) => counts.bytes,
        }
    }
}

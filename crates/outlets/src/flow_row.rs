//! The flow records of a row.

use telemetry::OutgoingRecord;

/// The flow records of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRow {
    /// The first record.
    pub record: OutgoingRecord,
    /// The record of the other direction.
    pub reverse: Option<OutgoingRecord>,
}
